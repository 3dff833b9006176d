//! What must be true of a publication in the end, with the sandbox's ledger as the judge (TWICE-7).

use anyhow::{Result, ensure};
use entity::{Outcome, Status, publication};

use crate::world::World;

/// Sees that what the database says of a publication and what the platform made public agree.
pub(crate) async fn judge(world: &World, row: &publication::Model) -> Result<()> {
    let posts = world.posts(row.id);
    let history = world.history(row.id).await?;
    let outcomes: Vec<Outcome> = history.iter().map(|attempt| attempt.outcome).collect();
    let told = world.times_told(row.id).await?;
    let seen = format!(
        "{} is {:?}, public {posts} times, told {told} times, after {outcomes:?}",
        row.id, row.status
    );
    ensure!(posts <= 1, "published twice: {seen}");
    let evidence = [
        Outcome::Published,
        Outcome::Reconciled,
        Outcome::LateReceipt,
    ];
    let has_evidence = outcomes.iter().any(|outcome| evidence.contains(outcome));
    match row.status {
        Status::Published => ensure!(posts == 1 && has_evidence, "not public: {seen}"),
        Status::Failed => ensure!(posts == 0, "failed, and public: {seen}"),
        Status::Unconfirmed => ensure!(
            told == 1 && outcomes.contains(&Outcome::Unconfirmed),
            "a person is told once: {seen}"
        ),
        _ => ensure!(false, "not settled: {seen}"),
    }
    ensure!(
        history
            .windows(2)
            .all(|pair| pair[0].attempt_no + 1 == pair[1].attempt_no),
        "the history has gaps: {seen}"
    );
    Ok(())
}

/// Whether nothing more will happen to a publication unless a person acts.
pub(crate) async fn is_settled(world: &World, row: &publication::Model) -> Result<bool> {
    Ok(match row.status {
        Status::Published | Status::Failed => true,
        Status::Unconfirmed => {
            // Without another look, which would be more than a year away.
            let looked_at_last =
                row.next_attempt_at > chrono::Utc::now() + chrono::TimeDelta::days(365);
            looked_at_last && world.times_told(row.id).await? > 0
        }
        _ => false,
    })
}
