//! Claiming what is to be looked up (TWICE-5), beside what is due.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sea_orm::DbErr;
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use super::Engine;
use super::dispatch::Rounds;
use crate::locks::{Claim, Ending, Failure, Settlement};

/// How many looks one round claims at most, so that they never crowd out due work.
const LOOKS_AT_ONCE: u32 = 4;
/// How often the next look is asked for while there is other work.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Engine {
    /// Claims due looks and starts them; how long until the next.
    pub(super) async fn serve_looks(
        self: &Arc<Self>,
        rounds: &mut Rounds,
    ) -> Result<Duration, DbErr> {
        let limit = self.free_slots().min(LOOKS_AT_ONCE);
        let soon = rounds.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if soon || limit == 0 {
            return Ok(LOOK_EVERY);
        }
        rounds.looked_at = Some(Instant::now());
        let never = Duration::MAX;
        match self.locks.next_look().await? {
            Some(wait) if wait.is_zero() => {}
            wait => return Ok(wait.map_or(never, |wait| wait.max(LOOK_EVERY))),
        }
        if !self.may_claim() {
            return Ok(LOOK_EVERY);
        }
        let claims = self.locks.claim_looks(limit, self.settings().lease).await?;
        if claims.is_empty() {
            // Others were faster, or its channel is closed: no reason to hurry.
            return Ok(never);
        }
        let mut by_channel: HashMap<Uuid, Vec<Claim>> = HashMap::new();
        for claim in claims {
            by_channel
                .entry(claim.publication().channel_id)
                .or_default()
                .push(claim);
        }
        for row in self.rows(by_channel.keys().copied().collect()).await? {
            let Some(claims) = by_channel.remove(&row.id) else {
                continue;
            };
            match self.open(row) {
                Some(channel) => self.start(claims, &channel, false).await?,
                None => self.look_later(claims).await,
            }
        }
        Ok(LOOK_EVERY)
    }

    /// Looks on a channel that cannot be opened wait like any other that did not work out.
    async fn look_later(&self, claims: Vec<Claim>) {
        let settlements: Vec<Settlement> = claims
            .into_iter()
            .map(|claim| {
                let failure = Failure {
                    kind: "channel",
                    message: "the channel cannot be opened by this worker".to_owned(),
                };
                let look_after = Some(self.settings().retry_max);
                Settlement::new(
                    claim,
                    Ending::Unconfirmed {
                        look_after,
                        tell: true,
                        failure,
                    },
                )
            })
            .collect();
        for error in self
            .locks
            .settle(&settlements)
            .await
            .into_iter()
            .filter_map(Result::err)
        {
            warn!(%error, "a look was not put off; recovery will do it");
        }
    }
}
