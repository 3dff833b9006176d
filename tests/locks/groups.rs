//! SETTLE-5: many in one transaction, and nobody suffers for another.

use anyhow::Result;
use entity::{Phase, Status};
use worker::locks::{Claim, Ending, Mark, MarkRefused, Replay, SettleError, Settled, Settlement};

use super::scene::{Scene, failure, receipt, retryable};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_group_is_answered_in_its_own_order,
    one_bad_member_never_sinks_the_settles_of_the_others,
    one_bad_member_never_sinks_the_marks_of_the_others,
    a_stale_settlement_beside_the_fresh_one_of_the_same_publication_is_lost,
    a_stale_mark_beside_the_fresh_one_of_the_same_publication_is_refused,
    big_groups_are_settled_and_marked,
    settling_nothing_answers_nothing,
    texts_from_platforms_are_cleaned,
);

fn marks<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Vec<Mark<'a>> {
    let replay = Replay::Never;
    claims
        .into_iter()
        .map(|claim| Mark {
            claim,
            replay,
            probe: false,
        })
        .collect()
}

async fn a_group_is_answered_in_its_own_order(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let mut settlements = Vec::new();
    for ending in [
        retryable(),
        Ending::Published(receipt("1")),
        Ending::Released,
        Ending::Failed(failure("no")),
        Ending::Published(receipt("2")),
    ] {
        let claim = scene.claimed_by(&worker).await?;
        settlements.push(Settlement::new(claim, ending));
    }
    scene.expire(settlements[2].lock().publication_id).await?;
    worker.recover_stale().await?;
    // Not the order of the ids, in which the rows are locked.
    settlements.reverse();

    let mut answers = worker.settle(&settlements).await;

    assert!(matches!(answers.remove(2), Err(SettleError::LeaseLost)));
    let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let statuses = [
        Status::Published,
        Status::Failed,
        Status::Published,
        Status::Scheduled,
    ];
    assert_eq!(answers, statuses.map(Settled::Now));
    for (settlement, remote_id) in settlements.iter().zip(["2", "", "", "1"]) {
        let row = scene.row(settlement.lock().publication_id).await?;
        assert_eq!(row.remote_id.unwrap_or_default(), remote_id);
        let history = scene.attempts(row.id).await?;
        assert_eq!(history.len(), 1);
    }
    Ok(())
}

async fn one_bad_member_never_sinks_the_settles_of_the_others(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let mut settlements = Vec::new();
    for n in 0..5 {
        let claim = scene.claimed_by(&worker).await?;
        settlements.push(Settlement::new(
            claim,
            Ending::Published(receipt(&n.to_string())),
        ));
    }
    let bad = settlements[2].lock();
    scene.refuse_attempt_of(bad).await?;

    let answers = worker.settle(&settlements).await;

    for (settlement, answer) in settlements.iter().zip(answers) {
        let row = scene.row(settlement.lock().publication_id).await?;
        if settlement.lock() == bad {
            assert!(
                matches!(answer, Err(SettleError::Database(_))),
                "{answer:?}"
            );
            assert_eq!(row.status, Status::Publishing);
        } else {
            assert_eq!(answer?, Settled::Now(Status::Published));
            assert_eq!(row.status, Status::Published);
            assert_eq!(scene.attempts(row.id).await?.len(), 1);
        }
    }
    Ok(())
}

async fn one_bad_member_never_sinks_the_marks_of_the_others(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let mut claims = Vec::new();
    for _ in 0..5 {
        claims.push(scene.claimed_by(&worker).await?);
    }
    scene
        .refuse_writes_to(claims[3].lock().publication_id)
        .await?;

    let answers = worker.mark(&marks(&claims)).await;

    for (n, (claim, answer)) in claims.iter().zip(answers).enumerate() {
        let row = scene.row(claim.lock().publication_id).await?;
        if n == 3 {
            assert!(
                matches!(answer, Err(MarkRefused::Database(_))),
                "{answer:?}"
            );
            assert_eq!(row.phase, Some(Phase::Preparing));
        } else {
            assert_eq!(answer?.lock(), claim.lock());
            assert_eq!(row.phase, Some(Phase::Committing));
        }
    }
    Ok(())
}

/// LOCK-4, SETTLE-5: a worker lost a publication and claimed it again; both ends are in one group.
async fn a_stale_settlement_beside_the_fresh_one_of_the_same_publication_is_lost(
    db: TestDb,
) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for stale_first in [true, false] {
        let stale = scene.claimed_by(&worker).await?;
        let id = stale.lock().publication_id;
        scene.expire(id).await?;
        worker.recover_stale().await?;
        let fresh = scene.acquired_by(&worker, id).await?;
        let other = scene.claimed_by(&worker).await?;
        let fresh_lock = fresh.lock();
        let mut group = vec![
            Settlement::new(stale, Ending::Failed(failure("stale"))),
            Settlement::new(other, Ending::Published(receipt("other"))),
            Settlement::new(fresh, Ending::Published(receipt("fresh"))),
        ];
        if !stale_first {
            group.reverse();
        }

        let mut answers = worker.settle(&group).await;

        if !stale_first {
            answers.reverse();
        }
        assert!(
            matches!(answers.remove(0), Err(SettleError::LeaseLost)),
            "{stale_first}"
        );
        for answer in answers {
            assert_eq!(answer?, Settled::Now(Status::Published));
        }
        assert_eq!(scene.row(id).await?.remote_id.as_deref(), Some("fresh"));
        let history = scene.attempts(id).await?;
        assert_eq!(
            history.len(),
            2,
            "the recovery and the fresh word: {history:?}"
        );
        assert_eq!(history[1].execution_lock_id, Some(fresh_lock.lock_id));
    }
    Ok(())
}

/// LOCK-4, TWICE-3: only one of the two may send.
async fn a_stale_mark_beside_the_fresh_one_of_the_same_publication_is_refused(
    db: TestDb,
) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    for stale_first in [true, false] {
        let stale = scene.claimed_by(&worker).await?;
        let id = stale.lock().publication_id;
        scene.expire(id).await?;
        worker.recover_stale().await?;
        let fresh = scene.acquired_by(&worker, id).await?;
        let mut group = vec![&stale, &fresh];
        if !stale_first {
            group.reverse();
        }

        let mut answers = worker.mark(&marks(group)).await;

        if !stale_first {
            answers.reverse();
        }
        let refused = answers.remove(0);
        assert!(
            matches!(refused, Err(MarkRefused::LeaseLost)),
            "{refused:?}"
        );
        assert_eq!(answers.remove(0)?.lock(), fresh.lock());
    }
    Ok(())
}

/// LOCK-9: a statement takes 32,766 parameters on SQLite and 65,535 on PostgreSQL, and a
/// transaction 500 rows.
async fn big_groups_are_settled_and_marked(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let count = 4000;
    scene.add_due(count).await?;
    let claims = worker.claim(scene.batch(count)).await?;
    assert_eq!(claims.len(), 4000);

    for answer in worker.mark(&marks(&claims)).await {
        answer?;
    }
    let settlements: Vec<_> = claims
        .into_iter()
        .map(|claim| Settlement::new(claim, Ending::Published(receipt("1"))))
        .collect();
    let answers = worker.settle(&settlements).await;

    assert_eq!(answers.len(), 4000);
    for answer in answers {
        assert_eq!(answer?, Settled::Now(Status::Published));
    }
    assert_eq!(
        scene
            .db
            .count("publication WHERE status = 'published'")
            .await?,
        4000
    );
    assert_eq!(scene.db.count("attempt WHERE attempt_no = 1").await?, 4000);
    Ok(())
}

async fn settling_nothing_answers_nothing(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    assert!(worker.settle(&[]).await.is_empty());
    assert!(worker.release(Vec::new()).await.is_empty());
    Ok(())
}

/// SETTLE-5: PostgreSQL refuses NUL in a text, and nobody needs a megabyte of error page.
async fn texts_from_platforms_are_cleaned(db: TestDb) -> Result<()> {
    let scene = Scene::new(db).await?;
    let worker = scene.worker().await?;
    let long = format!("a\0{}", "é".repeat(100_000));
    let dirty = api_client::Receipt {
        remote_id: Some(long.clone()),
        remote_url: Some(long.clone()),
    };
    let mut settlements = Vec::new();
    for ending in [
        Ending::Failed(failure(&long)),
        Ending::Published(dirty.clone()),
        Ending::Found(dirty.clone()),
    ] {
        let claim = scene.claimed_by(&worker).await?;
        settlements.push(Settlement::new(claim, ending));
    }
    for answer in worker.settle(&settlements).await {
        answer?;
    }
    let late = scene.claimed_by(&worker).await?.lock();
    worker.late_receipt(late, &dirty).await?;

    let kept = format!("a{}", "é".repeat(1999));
    for row in scene.rows().await? {
        let attempt = scene.attempts(row.id).await?.remove(0);
        if row.status == Status::Failed {
            assert_eq!(row.last_error.as_ref(), Some(&kept));
            assert_eq!(attempt.error.as_ref(), Some(&kept));
        } else {
            for text in [
                row.remote_id,
                row.remote_url,
                attempt.remote_id,
                attempt.remote_url,
            ] {
                assert_eq!(text.as_ref(), Some(&kept));
            }
        }
    }
    Ok(())
}
