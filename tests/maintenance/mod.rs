//! Keeping house: cleanup, retention, schedules, workers' rows, notices, and what can be seen.

mod cleanup;
mod events;
mod files;
mod house;
mod http;
mod keys;
mod logs;
mod mailbox;
mod notices;
mod retention;
mod schedule;
mod workers;

use house::House;
use mailbox::Mailbox;
