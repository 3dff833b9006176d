//! Asking the platform once more before a person's word counts (TWICE-5).

use std::sync::Arc;

use api_client::{Call, Look, PublishError, Verdict};
use entity::{Status, publication};
use sea_orm::EntityTrait;
use uuid::Uuid;

use super::{ActError, Acts};
use crate::channels::Channel;
use crate::engine::{FencedCheckpoints, Posts, Progress, Siblings};
use crate::locks::{Claim, Ending, Failure, Locks, Settlement};
use crate::settings::Settings;

/// What a look that a person asked for told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// The platform has it: it is published.
    Found {
        /// Where, if the platform said so.
        url: Option<String>,
    },
    /// The platform does not have it: it is scheduled again.
    Absent,
    /// Nobody can say: it is unconfirmed as before.
    CannotTell,
    /// The platform could not be asked: it is unconfirmed as before.
    Failed(PublishError),
}

impl Acts {
    /// Looks an unconfirmed publication up, under a lock like any other look, and settles what that
    /// tells. `Absent` counts: the caller has waited for `settling_delay`.
    pub async fn look(
        &self,
        id: Uuid,
        channel: &Channel,
        locks: &Locks,
        settings: &Settings,
    ) -> Result<Looked, ActError> {
        let lease = channel.lease(settings.lease);
        let Some(claim) = locks.acquire_look(id, lease).await? else {
            let row = publication::Entity::find_by_id(id)
                .one(self.db.work())
                .await?;
            let accepted = &[Status::Unconfirmed];
            return Err(ActError::of(row.as_ref(), id, accepted, "resolved"));
        };
        let looked = self.ask(&claim, channel, locks, settings).await?;
        let settlement = Settlement::new(claim, ending(&looked, settings));
        for settled in locks.settle(&[settlement]).await {
            if let Err(error) = settled {
                return Err(ActError::NotSettled {
                    id,
                    why: error.to_string(),
                });
            }
        }
        Ok(looked.into())
    }

    async fn ask(
        &self,
        claim: &Claim,
        channel: &Channel,
        locks: &Locks,
        settings: &Settings,
    ) -> Result<Result<Verdict, PublishError>, ActError> {
        let row = claim.publication();
        let mut posts = Posts::load(&self.db, std::iter::once(row)).await?;
        let Some(draft) = posts.draft(row, &channel.row.name) else {
            return Ok(Ok(Verdict::CannotTell));
        };
        let checkpoints = FencedCheckpoints {
            locks: locks.clone(),
            lock: claim.lock(),
            progress: Progress::new(),
        };
        let look = Look {
            committed_at: row.commit_started_at.unwrap_or(row.publish_at),
            others: Arc::new(Siblings {
                db: self.db.clone(),
                channel_id: row.channel_id,
                publication_id: row.id,
            }),
        };
        // The lease outlives it, so nobody has to renew (BEAT-2).
        let call = Call::within(settings.request_timeout);
        let publisher = &channel.publisher;
        let asked = async {
            let prepared = publisher.recall(&draft, &checkpoints).await?;
            let key = draft.key();
            publisher
                .reconcile(&draft, prepared.as_ref(), &key, &look, &call)
                .await
        };
        Ok(asked.await)
    }
}

fn ending(looked: &Result<Verdict, PublishError>, settings: &Settings) -> Ending {
    let unconfirmed = |kind, message| Ending::Unconfirmed {
        look_after: Some(settings.reconcile_interval),
        tell: false,
        failure: Failure { kind, message },
    };
    match looked {
        Ok(Verdict::Found(receipt)) => Ending::Found(receipt.clone()),
        Ok(Verdict::Absent) => Ending::Absent,
        Ok(Verdict::CannotTell) => unconfirmed(
            "unconfirmed",
            "the platform cannot tell whether it has it".to_owned(),
        ),
        Err(error) => unconfirmed(error.kind(), error.to_string()),
    }
}

impl From<Result<Verdict, PublishError>> for Looked {
    fn from(looked: Result<Verdict, PublishError>) -> Self {
        match looked {
            Ok(Verdict::Found(receipt)) => Self::Found {
                url: receipt.remote_url,
            },
            Ok(Verdict::Absent) => Self::Absent,
            Ok(Verdict::CannotTell) => Self::CannotTell,
            Err(error) => Self::Failed(error),
        }
    }
}
