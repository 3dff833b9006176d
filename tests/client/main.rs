//! The api-client against real HTTP: what each answer means, and what must never happen.

mod support;
mod watched_tokens;

mod answers_deviantart;
mod answers_webhook;
mod deviantart;
mod fuzz;
mod gallery;
mod guard;
mod hostile;
mod login;
mod memory;
mod refresh;
mod refresh_failures;
mod registry;
mod sandbox;
mod secrets;
mod transport;
mod webhook;
