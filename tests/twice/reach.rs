//! The instants at which the program dies, and how it gets there.

use std::time::Duration;

use anyhow::{Context, Result};
use api_client::sandbox::{Action, Fault, Route};
use nix::sys::signal::Signal;
use tokio::time::timeout;
use uuid::Uuid;
use worker::clock;

use crate::kind::Kind;
use crate::program::Program;
use crate::world::{PATIENCE, World};

/// An instant to die at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instant {
    /// At a crash point on the way of any publication.
    At(&'static str),
    /// The request has left, and arrives after the kill.
    Sent,
    /// The request has left, and arrives only after the next worker has recovered the publication.
    SentLate,
    /// The platform has accepted, and nobody has heard of it.
    Accepted,
    /// In a heartbeat, with requests under way.
    InRenew,
    /// In the shutdown, with requests under way.
    InDrain,
    /// In the recovery of what another killed worker left, accepted and unheard of.
    Recovering(&'static str),
    /// In the cleanup job, which found the same.
    Cleaning(&'static str),
    /// In a look-up, after an answer that was lost.
    Looking(&'static str),
}

use Instant::{Accepted, At, Cleaning, InDrain, InRenew, Looking, Recovering, Sent, SentLate};

impl Instant {
    /// All of them, in the order in which a publication meets them.
    pub(crate) const ALL: [Instant; 21] = [
        At("after_claim"),
        At("before_checkpoint"),
        At("after_checkpoint"),
        At("before_mark"),
        At("in_mark"),
        At("after_mark"),
        Sent,
        SentLate,
        Accepted,
        At("answered"),
        At("before_settle_commit"),
        At("after_settle_commit"),
        InRenew,
        InDrain,
        Recovering("in_recovery"),
        Recovering("after_recovery"),
        Cleaning("in_cleanup"),
        Cleaning("in_prune"),
        Cleaning("after_prune"),
        Looking("before_look"),
        Looking("looked"),
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            At(point) | Recovering(point) | Cleaning(point) | Looking(point) => point,
            Sent => "request sent",
            SentLate => "request sent, late",
            Accepted => "accepted, unanswered",
            InRenew => "in_renew",
            InDrain => "in_drain",
        }
    }

    /// Whether a publication of this kind comes by.
    pub(crate) fn is_met_by(self, kind: Kind) -> bool {
        match self {
            At("before_checkpoint" | "after_checkpoint") => kind.uploads(),
            // Its claim is the mark.
            At("in_mark") => kind != Kind::Deduping,
            Looking(_) => kind.looks_up(),
            _ => true,
        }
    }

    /// Runs the program until it is dead. What the platform still holds then is let go, except where
    /// it is to arrive late.
    pub(crate) async fn reach(self, world: &World, kind: Kind, ids: &[Uuid]) -> Result<()> {
        match self {
            At(point) => world.doomed(point)?.crashed(point).await?,
            Sent | SentLate => {
                hold(world, kind.commit_route(), ids.len(), false);
                let worker = world.worker()?;
                held(world, ids.len()).await?;
                worker.kill().await?;
            }
            Accepted => accepted(world, kind, ids).await?,
            InRenew => {
                hold(world, kind.commit_route(), ids.len(), false);
                world.doomed("in_renew")?.crashed("in_renew").await?;
            }
            InDrain => {
                hold(world, kind.commit_route(), ids.len(), false);
                let mut worker = world.doomed("in_drain")?;
                worker.ready().await?;
                held(world, ids.len()).await?;
                worker.signal(Signal::SIGTERM)?;
                worker.crashed("in_drain").await?;
            }
            Recovering(point) => {
                accepted(world, kind, ids).await?;
                world.doomed(point)?.crashed(point).await?;
            }
            Cleaning(point) => {
                accepted(world, kind, ids).await?;
                leases_end(world, ids).await?;
                let mut cleanup = Program::start(world.folder(), &["cleanup"], Some(point))?;
                cleanup.crashed(point).await?;
            }
            Looking(point) => {
                let lost = Fault::once(kind.commit_route(), Action::Reset).after_accept();
                for _ in ids {
                    world.sandbox.script(lost.clone());
                }
                world.doomed(point)?.crashed(point).await?;
            }
        }
        // Whatever the dead worker did not get round to is nothing its successor should meet.
        world.sandbox.clear_faults();
        if self != SentLate {
            world.sandbox.release(None);
        }
        Ok(())
    }
}

/// The platform accepts all, and the worker is killed before it hears of that.
async fn accepted(world: &World, kind: Kind, ids: &[Uuid]) -> Result<()> {
    hold(world, kind.commit_route(), ids.len(), true);
    let worker = world.worker()?;
    held(world, ids.len()).await?;
    worker.kill().await?;
    world.sandbox.release(None);
    Ok(())
}

/// Has the platform hold the next `count` requests of a kind.
pub(crate) fn hold(world: &World, route: Route, count: usize, after_accept: bool) {
    for _ in 0..count {
        let fault = Fault::once(route, Action::Hold);
        world.sandbox.script(if after_accept {
            fault.after_accept()
        } else {
            fault
        });
    }
}

/// Waits until the platform holds so many requests.
pub(crate) async fn held(world: &World, count: usize) -> Result<()> {
    let held = timeout(PATIENCE, world.sandbox.held(count)).await;
    held.with_context(|| format!("the platform never held {count} requests"))?;
    Ok(())
}

/// Waits until nobody's lease runs any more.
pub(crate) async fn leases_end(world: &World, ids: &[Uuid]) -> Result<()> {
    for row in world.publications(ids).await? {
        let now = clock::read_db_now(world.db.db()).await?;
        let left = row
            .locked_until
            .and_then(|until| (until - now).to_std().ok());
        tokio::time::sleep(left.unwrap_or(Duration::ZERO)).await;
    }
    Ok(())
}
