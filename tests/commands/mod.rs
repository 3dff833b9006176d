//! The `punctual` command as people and scripts meet it: the real binary on real databases.

mod acting;
mod channels;
mod cleaning;
mod desk;
mod files;
mod help;
mod keys;
mod lists;
mod login;
mod opening;
mod racing;
mod reading;
mod resolving;
mod rotation;
mod scheduling;
mod secrets;
mod sharing;
mod speed;
mod terminal;
mod usage;
mod watching;
