use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A pair of tokens, as the platform hands them out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// For requests.
    pub access_token: String,
    /// For the next pair; works once.
    pub refresh_token: String,
}

/// An uploaded file.
pub(super) struct StashItem {
    pub(super) title: String,
    pub(super) sha256: String,
    pub(super) published: bool,
}

/// A published work.
#[derive(Clone)]
pub(super) struct Deviation {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) published_at: i64,
}

/// One account.
#[derive(Default)]
pub(in crate::sandbox) struct Studio {
    access: HashSet<String>,
    refresh: HashSet<String>,
    /// PKCE challenges by the code they belong to.
    pub(super) codes: HashMap<String, String>,
    pub(super) stash: BTreeMap<i64, StashItem>,
    pub(super) gallery: Vec<Deviation>,
    remaining: Option<u64>,
}

impl Studio {
    pub(in crate::sandbox) fn new_pair(&mut self) -> Pair {
        let pair = Pair {
            access_token: format!("access-{}", Uuid::new_v4().simple()),
            refresh_token: format!("refresh-{}", Uuid::new_v4().simple()),
        };
        self.access.insert(pair.access_token.clone());
        self.refresh.insert(pair.refresh_token.clone());
        pair
    }

    pub(in crate::sandbox) fn expire(&mut self) {
        self.access.clear();
    }

    pub(in crate::sandbox) fn limit(&mut self, remaining: Option<u64>) {
        self.remaining = remaining;
    }

    pub(in crate::sandbox) fn add_work(&mut self, title: &str, published_at: i64) -> String {
        let id = Uuid::new_v4().to_string();
        let title = title.to_owned();
        self.gallery.push(Deviation {
            id: id.clone(),
            title,
            published_at,
        });
        id
    }

    /// Whether an access token is good.
    pub(super) fn knows(&self, access_token: &str) -> bool {
        self.access.contains(access_token)
    }

    /// Spends a refresh token, whether or not the answer arrives.
    pub(super) fn spend(&mut self, refresh_token: &str) -> Option<Pair> {
        self.refresh.remove(refresh_token).then(|| self.new_pair())
    }

    /// Counts a request against the limit.
    pub(super) fn within_limit(&mut self) -> bool {
        match &mut self.remaining {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}
