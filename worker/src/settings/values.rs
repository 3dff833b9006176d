//! The smaller types of settings.

use std::fmt;
use std::net::SocketAddr;

/// Where the worker answers `/health`, `/ready` and `/metrics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpAddr {
    /// Nowhere.
    #[default]
    Off,
    /// On the default address, because nobody chose another: if it is taken, warn and go on
    /// without it.
    Default(SocketAddr),
    /// On an address somebody chose: if it is taken, refuse to start.
    Chosen(SocketAddr),
}

impl HttpAddr {
    /// What is accepted, for messages.
    pub(super) const FORMS: &str = "an address with a port, such as 127.0.0.1:8181, or off";

    /// The address, unless it is off.
    pub fn addr(self) -> Option<SocketAddr> {
        match self {
            Self::Off => None,
            Self::Default(addr) | Self::Chosen(addr) => Some(addr),
        }
    }

    pub(super) fn parse(text: &str, chosen: bool) -> Option<Self> {
        if text.trim() == "off" {
            return Some(Self::Off);
        }
        let addr = text.trim().parse().ok()?;
        Some(if chosen {
            Self::Chosen(addr)
        } else {
            Self::Default(addr)
        })
    }
}

impl fmt::Display for HttpAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addr() {
            None => f.write_str("off"),
            Some(addr) => addr.fmt(f),
        }
    }
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for programs.
    Json,
}

impl LogFormat {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}
