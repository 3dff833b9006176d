//! A publisher that does what a test tells it, registered as a kind of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::{
    AssetSource, Call, Checkpoints, Draft, Guarantee, IdempotencyKey, Look, Prepared, PublishError,
    Publisher, Receipt, Registry, Verdict,
};
use async_trait::async_trait;
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

/// The kind under which it is registered.
pub(crate) const KIND: &str = "scripted";

/// What one step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Ends well at once.
    Succeed,
    /// Waits until the test lets go, then ends well.
    Wait,
    /// The same, and stores a checkpoint now and then.
    Toil,
    /// Panics.
    Panic,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) preparing: u32,
    /// Dropped before it came to an end.
    pub(crate) cancelled: u32,
    pub(crate) committing: u32,
    /// Let through by the guard right before the first byte.
    pub(crate) sent: u32,
    /// Held back by it.
    pub(crate) held_back: u32,
    pub(crate) looking: u32,
}

/// The script, and what came of it.
pub(crate) struct Script {
    pub(crate) guarantee: Guarantee,
    pub(crate) prepare: Act,
    pub(crate) commit: Act,
    pub(crate) look: Act,
    pub(crate) go: watch::Sender<bool>,
    pub(crate) counts: watch::Sender<Counts>,
    /// The names of the files that each publication came with.
    pub(crate) files: Mutex<HashMap<Uuid, Vec<String>>>,
}

impl Script {
    /// Everything ends well.
    pub(crate) fn new(guarantee: Guarantee) -> Self {
        Self {
            guarantee,
            prepare: Act::Succeed,
            commit: Act::Succeed,
            look: Act::Succeed,
            go: watch::Sender::new(false),
            counts: watch::Sender::default(),
            files: Mutex::default(),
        }
    }

    /// Registers it, ready to be watched.
    pub(crate) fn register(self, registry: &mut Registry) -> Arc<Self> {
        let script = Arc::new(self);
        let opened = script.clone();
        registry.register(KIND, move |_| Ok(Arc::new(Scripted(opened.clone()))));
        script
    }

    /// Everything that waits goes on, now and from now on.
    pub(crate) fn let_go(&self) {
        self.go.send_replace(true);
    }

    pub(crate) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// The names of the files that a publication came with.
    pub(crate) fn files(&self, publication_id: Uuid) -> Option<Vec<String>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(&publication_id).cloned()
    }

    fn note_files(&self, draft: &Draft) {
        let names = draft.assets.iter().map(|file| file.file_name.clone());
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(draft.publication_id, names.collect());
    }

    /// Waits until enough has happened.
    pub(crate) async fn until(&self, enough: impl Fn(&Counts) -> bool) -> Result<()> {
        let mut counts = self.counts.subscribe();
        let waiting = counts.wait_for(|counts| enough(counts));
        tokio::time::timeout(Duration::from_secs(20), waiting)
            .await
            .with_context(|| format!("it came only to {:?}", self.counts()))??;
        Ok(())
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }

    async fn play(
        &self,
        act: Act,
        checkpoints: Option<&dyn Checkpoints>,
    ) -> Result<(), PublishError> {
        let mut go = self.go.subscribe();
        match act {
            Act::Succeed => {}
            Act::Panic => panic!("as the script says"),
            Act::Wait => drop(go.wait_for(|go| *go).await),
            Act::Toil => {
                while !*go.borrow_and_update() {
                    if let Some(checkpoints) = checkpoints {
                        checkpoints.put("toil", json!({})).await?;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
        Ok(())
    }
}

struct Scripted(Arc<Script>);

/// Counts a step that is dropped before its end.
struct Unfinished<'a>(&'a Script);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.count(|counts| counts.cancelled += 1);
    }
}

#[async_trait]
impl Publisher for Scripted {
    fn guarantee(&self) -> Guarantee {
        self.0.guarantee
    }

    fn prepares_remotely(&self) -> bool {
        true
    }

    fn can_look_up(&self) -> bool {
        self.0.guarantee == Guarantee::Reconcilable
    }

    fn validate(&self, _: &Draft) -> Result<(), PublishError> {
        Ok(())
    }

    async fn prepare(
        &self,
        draft: &Draft,
        checkpoints: &dyn Checkpoints,
        _: &dyn AssetSource,
        _: &Call,
    ) -> Result<Prepared, PublishError> {
        self.0.note_files(draft);
        self.0.count(|counts| counts.preparing += 1);
        let unfinished = Unfinished(&self.0);
        self.0.play(self.0.prepare, Some(checkpoints)).await?;
        std::mem::forget(unfinished);
        Ok(Prepared::nothing())
    }

    async fn commit(
        &self,
        draft: &Draft,
        _: &Prepared,
        _: &IdempotencyKey,
        call: &Call,
    ) -> Result<Receipt, PublishError> {
        self.0.count(|counts| counts.committing += 1);
        self.0.play(self.0.commit, None).await?;
        if !call.may_send() {
            self.0.count(|counts| counts.held_back += 1);
            return Err(PublishError::unavailable("held back"));
        }
        self.0.count(|counts| counts.sent += 1);
        Ok(Receipt {
            remote_id: Some(draft.publication_id.to_string()),
            remote_url: None,
        })
    }

    async fn reconcile(
        &self,
        draft: &Draft,
        _: Option<&Prepared>,
        _: &IdempotencyKey,
        _: &Look,
        _: &Call,
    ) -> Result<Verdict, PublishError> {
        self.0.count(|counts| counts.looking += 1);
        self.0.play(self.0.look, None).await?;
        Ok(Verdict::Found(Receipt {
            remote_id: Some(draft.publication_id.to_string()),
            remote_url: None,
        }))
    }

    async fn test(&self, _: &Call) -> Result<String, PublishError> {
        Ok("scripted".to_owned())
    }
}
