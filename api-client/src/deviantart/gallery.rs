use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::api::Api;
use super::judge_repeatable;
use crate::{Call, Look, PublishError, Receipt, Verdict, text};

/// The most the platform gives at once.
const PAGE: u32 = 24;
/// How far back a look goes.
const MOST_PAGES: u32 = 40;

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    has_more: bool,
    next_offset: Option<u32>,
    results: Vec<Deviation>,
}

#[derive(Deserialize)]
struct Deviation {
    deviationid: String,
    url: Option<String>,
    title: Option<String>,
    published_time: Option<Value>,
}

impl Deviation {
    /// Epoch seconds, as text or as a number.
    fn published_at(&self) -> Option<i64> {
        match self.published_time.as_ref()? {
            Value::String(seconds) => seconds.trim().parse().ok(),
            seconds => seconds.as_i64(),
        }
    }
}

/// Looks for a title in the gallery. That is a guess: it finds, or it cannot tell. Found needs
/// exactly one work with the title, not older than the mark, that no other publication holds or
/// could claim as well.
pub(super) async fn find(
    api: &Api,
    title: &str,
    look: &Look,
    call: &Call,
) -> Result<Verdict, PublishError> {
    let title = text::line(title);
    if title.is_empty() {
        return Ok(Verdict::CannotTell);
    }
    let Some(recent) = recent(api, look.committed_at, call).await? else {
        return Ok(Verdict::CannotTell);
    };
    // Asked after the gallery was read: whatever is in it was marked before, so the publication it
    // belongs to is seen here. Asked before, one that commits in between would be missed, and its
    // post taken for ours.
    if look.others.may_be_live_under(&title).await? {
        return Ok(Verdict::CannotTell);
    }
    let mut candidates = Vec::new();
    for work in recent {
        let fits = work.title.as_deref().map(text::line).as_ref() == Some(&title);
        if fits
            && !look
                .others
                .hold(&work.deviationid, work.url.as_deref())
                .await?
        {
            candidates.push(work);
        }
    }
    Ok(match <[Deviation; 1]>::try_from(candidates) {
        Ok([work]) => Verdict::Found(Receipt {
            remote_id: Some(text::line(&work.deviationid)),
            remote_url: work.url.map(|url| text::line(&url)),
        }),
        Err(_) => Verdict::CannotTell,
    })
}

/// The works not older than an instant; `None` if the gallery is too large to have seen them all.
///
/// The gallery comes newest first, so a page of older works ends the search, unless the pages show
/// that the order does not hold.
async fn recent(
    api: &Api,
    since: DateTime<Utc>,
    call: &Call,
) -> Result<Option<Vec<Deviation>>, PublishError> {
    // The platform tells whole seconds.
    let since = since.timestamp();
    let username = api.username(call).await?;
    let mut recent = Vec::new();
    let mut offset = 0;
    let mut newest_first = true;
    let mut last_time = i64::MAX;
    for _ in 0..MOST_PAGES {
        let page = page(api, &username, offset, call).await?;
        let mut any_recent = false;
        for work in page.results {
            let Some(at) = work.published_at() else {
                continue;
            };
            newest_first &= at <= last_time;
            last_time = at;
            if at >= since {
                any_recent = true;
                recent.push(work);
            }
        }
        let next = page.next_offset.filter(|next| *next > offset);
        match next {
            Some(next) if page.has_more && (any_recent || !newest_first) => offset = next,
            // More is said to come, and no way to it was given.
            None if page.has_more && (any_recent || !newest_first) => return Ok(None),
            _ => return Ok(Some(recent)),
        }
    }
    Ok(None)
}

async fn page(api: &Api, username: &str, offset: u32, call: &Call) -> Result<Page, PublishError> {
    let mut url = api.settings.api("gallery/all");
    url.query_pairs_mut()
        .append_pair("username", username)
        .append_pair("offset", &offset.to_string())
        .append_pair("limit", &PAGE.to_string())
        .append_pair("mature_content", "true");
    judge_repeatable(&api.get(url, call).await?)
}
