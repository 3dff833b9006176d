//! Everything that can be checked before anything is written.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use api_client::{AssetRef, Draft};
use chrono::{DateTime, Utc};
use indicatif::ProgressBar;
use std::sync::Arc;
use uuid::Uuid;

use super::entry::Entry;
use super::hint_guarantee;
use super::place::{Place, together};
use crate::acts::{NewPost, NewPublication, NewTime, asset_of, hash_of};
use crate::channels::{Book, Channel};
use crate::clock;
use crate::commands::Refusal;
use crate::commands::channel as channels;
use crate::commands::store::Store;
use crate::when::parse_when;

/// The longest title; platforms take much less.
const LONGEST_TITLE: usize = 10_000;
/// The longest text, from wherever it comes.
pub(super) const LONGEST_BODY: usize = 10_000_000;
/// The longest key: an index has to hold it.
const LONGEST_KEY: usize = 500;

/// Entries that have passed every check.
pub(super) struct Plan {
    pub(super) rows: Vec<Planned>,
    channels: BTreeMap<String, Arc<Channel>>,
}

/// An entry that has passed every check.
pub(super) struct Planned {
    pub(super) place: Place,
    pub(super) channel: Arc<Channel>,
    pub(super) time: NewTime,
    pub(super) files: Vec<PathBuf>,
    priority: i16,
    dedupe_key: Option<String>,
    post: NewPost,
}

impl Planned {
    /// The request, with its files as they were stored.
    pub(super) fn request(&self, assets: Vec<AssetRef>) -> NewPublication {
        NewPublication {
            channel_id: self.channel.row.id,
            time: self.time.clone(),
            priority: self.priority,
            dedupe_key: self.dedupe_key.clone(),
            post: NewPost {
                assets,
                ..self.post.clone()
            },
        }
    }
}

impl Plan {
    /// Checks all entries, and tells every problem there is.
    pub(super) async fn make(
        store: &Store,
        entries: Vec<Entry>,
        allow_past: bool,
        bar: &ProgressBar,
    ) -> Result<Self, Refusal> {
        bar.set_message("checking");
        let now = clock::read_db_now(store.db.work()).await?;
        let mut checks = Checks {
            store,
            book: store.book()?,
            channels: HashMap::new(),
            now,
            allow_past,
        };
        let mut rows = Vec::with_capacity(entries.len());
        let mut problems = Vec::new();
        for entry in entries {
            let place = entry.place.clone();
            match checks.check(entry).await {
                Ok(row) => rows.push(row),
                Err(refusal) => problems.push(place.refuse(refusal)),
            }
            bar.inc(1);
        }
        if !problems.is_empty() {
            bar.finish_and_clear();
            return Err(together(problems));
        }
        let channels = rows
            .iter()
            .map(|row| (row.channel.row.name.clone(), row.channel.clone()))
            .collect();
        Ok(Self { rows, channels })
    }

    /// Says what each channel can promise, before anything is scheduled on it (TWICE-2).
    pub(super) fn hint_guarantees(&self) {
        for (name, channel) in &self.channels {
            hint_guarantee(name, channel.publisher.guarantee());
        }
    }

    /// The requests with the addresses that their files would get; nothing is stored.
    pub(super) async fn requests_unstored(&self) -> Result<Vec<NewPublication>, Refusal> {
        let mut requests = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let mut assets = Vec::with_capacity(row.files.len());
            for file in &row.files {
                let asset = hash_of(file).await;
                assets.push(asset.map_err(|error| row.place.refuse(error.into()))?);
            }
            requests.push(row.request(assets));
        }
        Ok(requests)
    }
}

struct Checks<'a> {
    store: &'a Store,
    book: Book,
    channels: HashMap<String, Arc<Channel>>,
    now: DateTime<Utc>,
    allow_past: bool,
}

impl Checks<'_> {
    async fn check(&mut self, entry: Entry) -> Result<Planned, Refusal> {
        let channel = self.channel(&entry.channel).await?;
        let when = parse_when(&entry.at, entry.tz.as_deref(), self.now, self.allow_past)?;
        let post = post_of(&entry)?;
        check_key(entry.dedupe_key.as_deref())?;
        let mut assets = Vec::with_capacity(entry.files.len());
        for file in &entry.files {
            assets.push(asset_of(file, self.store.settings.max_file_size).await?);
        }
        let time = NewTime::new(when, self.now);
        let draft = Draft {
            publication_id: Uuid::nil(),
            channel_name: entry.channel.clone(),
            publish_at: time.publish_at,
            title: post.title.clone(),
            body: post.body.clone(),
            tags: post.tags.clone(),
            options: post.options.clone(),
            assets,
        };
        channel
            .publisher
            .validate(&draft)
            .map_err(|error| Refusal::Input(format!("{}: {error}", entry.channel)))?;
        Ok(Planned {
            place: entry.place,
            channel,
            time,
            files: entry.files,
            priority: entry.priority,
            dedupe_key: entry.dedupe_key,
            post,
        })
    }

    async fn channel(&mut self, name: &str) -> Result<Arc<Channel>, Refusal> {
        if let Some(channel) = self.channels.get(name) {
            return Ok(channel.clone());
        }
        let row = channels::find(&self.store.db, name).await?;
        let channel = self
            .book
            .open(row)
            .map_err(|error| Refusal::Failed(format!("channel {name}: {error}")))?;
        self.channels.insert(name.to_owned(), channel.clone());
        Ok(channel)
    }
}

/// The post of an entry, as far as it does not depend on the platform.
fn post_of(entry: &Entry) -> Result<NewPost, Refusal> {
    let post = NewPost {
        title: entry.title.clone(),
        body: entry.body.clone(),
        tags: check_tags(&entry.tags)?,
        options: entry.options.clone(),
        assets: Vec::new(),
    };
    check_post(&post, !entry.files.is_empty())?;
    Ok(post)
}

/// What every post needs, whatever the platform.
pub(in crate::commands) fn check_post(post: &NewPost, has_files: bool) -> Result<(), Refusal> {
    if post.title.trim().is_empty() && post.body.trim().is_empty() && !has_files {
        return Err(Refusal::Input(
            "a post needs a title, a body or a file".to_owned(),
        ));
    }
    refuse_long("title", &post.title, LONGEST_TITLE)?;
    refuse_long("body", &post.body, LONGEST_BODY)?;
    refuse_nul(post)
}

/// Lists and tables are read with all their titles, and a worker holds what it publishes in memory.
fn refuse_long(what: &str, text: &str, most: usize) -> Result<(), Refusal> {
    if text.len() <= most {
        return Ok(());
    }
    Err(Refusal::Input(format!(
        "the {what} has {} bytes; a {what} takes at most {most}",
        text.len()
    )))
}

/// Tags without their `#`.
pub(in crate::commands) fn check_tags(tags: &[String]) -> Result<Vec<String>, Refusal> {
    tags.iter()
        .map(|tag| {
            let bare = tag.trim().trim_start_matches('#');
            if bare.is_empty() {
                Err(Refusal::Input(format!(
                    "{tag:?} is not a tag; a tag takes a word, with or without a # before it"
                )))
            } else {
                Ok(bare.to_owned())
            }
        })
        .collect()
}

/// PostgreSQL stores no NUL, and no platform shows one.
fn refuse_nul(post: &NewPost) -> Result<(), Refusal> {
    let options = serde_json::Value::Object(post.options.clone()).to_string();
    let texts = [("title", &post.title), ("body", &post.body)]
        .into_iter()
        .chain(post.tags.iter().map(|tag| ("tag", tag)));
    for (what, text) in texts {
        if text.contains('\0') {
            return Err(Refusal::Input(format!(
                "the {what} holds a NUL character, which cannot be stored"
            )));
        }
    }
    if options.contains("\\u0000") {
        return Err(Refusal::Input(
            "an option holds a NUL character, which cannot be stored".to_owned(),
        ));
    }
    Ok(())
}

fn check_key(key: Option<&str>) -> Result<(), Refusal> {
    let fits = |key: &str| {
        !key.trim().is_empty() && key.chars().count() <= LONGEST_KEY && !key.contains('\0')
    };
    match key {
        Some(key) if !fits(key) => {
            let shown: String = key.chars().take(60).collect();
            Err(Refusal::Input(format!(
                "the dedupe key {shown:?} is not accepted; a key takes 1 to {LONGEST_KEY} \
                 characters, none of them NUL"
            )))
        }
        _ => Ok(()),
    }
}
