use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::server::locked;

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the platform's own")]
pub enum Route {
    Webhook,
    Lookup,
    Token,
    Placebo,
    Whoami,
    Submit,
    Publish,
    Gallery,
}

/// How the sandbox misbehaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Action {
    /// Gives this answer.
    Answer {
        /// HTTP status.
        status: u16,
        /// Headers, `content-type` among them if it matters.
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// Body.
        #[serde(default)]
        body: String,
    },
    /// 200 without a body.
    Blank,
    /// 403 with a page for people.
    Page,
    /// Resets the connection.
    Reset,
    /// Never answers.
    Hang,
    /// Gives the right answer very slowly.
    Drip,
    /// Waits to be released, then gives the right answer.
    Hold,
}

impl Action {
    /// An answer with a JSON body.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        let headers = [("content-type".to_owned(), "application/json".to_owned())].into();
        Self::Answer {
            status,
            headers,
            body: body.to_string(),
        }
    }

    /// An answer without a body.
    pub fn status(status: u16) -> Self {
        Self::Answer {
            status,
            headers: BTreeMap::new(),
            body: String::new(),
        }
    }

    /// The same with a header, where it is an answer.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if let Self::Answer { headers, .. } = &mut self {
            headers.insert(name.to_owned(), value.to_owned());
        }
        self
    }
}

/// A scripted fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Only requests of this kind; any if left out.
    #[serde(default)]
    pub route: Option<Route>,
    /// Only requests whose key contains this.
    #[serde(default, rename = "match")]
    pub key: Option<String>,
    /// How often; for ever if left out.
    #[serde(default)]
    pub times: Option<u32>,
    /// Whether the platform accepts the request first.
    #[serde(default)]
    pub after_accept: bool,
    /// What happens.
    pub action: Action,
}

impl Fault {
    /// Once, on one kind of request, before accepting it.
    pub fn once(route: Route, action: Action) -> Self {
        Self {
            route: Some(route),
            key: None,
            times: Some(1),
            after_accept: false,
            action,
        }
    }

    /// The same after accepting.
    #[must_use]
    pub fn after_accept(mut self) -> Self {
        self.after_accept = true;
        self
    }

    /// The same for requests whose key contains a text.
    #[must_use]
    pub fn for_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same every time.
    #[must_use]
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    fn fits(&self, route: Route, key: &str) -> bool {
        self.route.is_none_or(|only| only == route)
            && self.key.as_deref().is_none_or(|part| key.contains(part))
    }
}

/// The faults that are waiting for their request.
#[derive(Default)]
pub(super) struct Script {
    faults: Mutex<Vec<Fault>>,
    /// Lets requests pass without the lock while nothing is scripted.
    count: AtomicUsize,
}

impl Script {
    pub(super) fn add(&self, fault: Fault) {
        let mut faults = locked(&self.faults);
        faults.push(fault);
        self.count.store(faults.len(), Ordering::Release);
    }

    pub(super) fn clear(&self) {
        locked(&self.faults).clear();
        self.count.store(0, Ordering::Release);
    }

    /// The fault this request meets, used up if it was the last time.
    pub(super) fn take(&self, route: Route, key: &str) -> Option<Fault> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut faults = locked(&self.faults);
        let index = faults.iter().position(|fault| fault.fits(route, key))?;
        let fault = faults[index].clone();
        match &mut faults[index].times {
            None => {}
            Some(times) if *times > 1 => *times -= 1,
            Some(_) => drop(faults.remove(index)),
        }
        self.count.store(faults.len(), Ordering::Release);
        Some(fault)
    }
}
