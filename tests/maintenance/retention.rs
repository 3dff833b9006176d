//! RECOVER-4: what retention takes, and what it never touches.

use anyhow::Result;
use chrono::{TimeDelta, Utc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::House;
use super::house::{NEVER, OLD, state};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    finished_publications_go_whole,
    what_failed_or_may_be_live_stays_for_ever,
    what_finished_lately_stays,
    a_post_stays_while_a_publication_needs_it,
    a_post_that_never_had_a_publication_stays,
    a_backlog_goes_in_many_short_transactions,
    two_cleanups_at_once_take_each_publication_once,
    a_cleanup_that_is_stopped_ends_before_its_next_page,
    old_rows_of_workers_and_channel_events_go,
);

/// RECOVER-4: with attempts, checkpoints, events and posts.
async fn finished_publications_go_whole(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    for status in ["published", "missed", "canceled"] {
        house.old(status).await?;
    }
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!((report.pruned, report.swept.posts), (3, 3));
    for (table, rows) in house.rows().await? {
        assert_eq!(rows, 0, "{table}");
    }
    Ok(())
}

/// RECOVER-4: a person has to see these first, however long it takes.
async fn what_failed_or_may_be_live_stays_for_ever(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    for status in ["failed", "unconfirmed", "scheduled"] {
        house.old(status).await?;
    }
    let maybe_live = house.old("scheduled").await?;
    let mark = format!("commit_started_at = '{OLD}', next_attempt_at = '{NEVER}'");
    house.db.set(maybe_live, &mark).await?;
    let now = Utc::now().to_rfc3339();
    house.lock("committing", &now, NEVER).await?;
    let before = house.rows().await?;
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!((report.pruned, report.unconfirmed), (0, 0));
    assert_eq!(house.rows().await?, before);
    Ok(())
}

/// RECOVER-4: 90 days, counted from the last change of state.
async fn what_finished_lately_stays(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let stays = house.old("published").await?;
    let goes = house.old("published").await?;
    for (id, days) in [(stays, 89), (goes, 91)] {
        let at = (Utc::now() - TimeDelta::days(days)).to_rfc3339();
        house
            .db
            .set(id, &format!("state_changed_at = '{at}'"))
            .await?;
    }
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!(report.pruned, 1);
    house.publication(stays).await?;
    Ok(())
}

async fn a_post_stays_while_a_publication_needs_it(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let (gone, kept) = (house.old("published").await?, house.old("failed").await?);
    let post = house.publication(kept).await?.post_id;
    let columns = format!("post_id = {}", house.db.literal(post));
    house.db.set(gone, &columns).await?;
    let before = house.db.count("post").await?;
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!((report.pruned, report.swept.posts), (1, 0));
    assert_eq!(house.db.count("post").await?, before);
    Ok(())
}

/// An app inserts the post first, and its publication when it is ready.
async fn a_post_that_never_had_a_publication_stays(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    house.db.add_post().await?;
    let old = format!("UPDATE post SET created_at = '{OLD}'");
    house.db.execute(&old).await?;
    let dry = house.cleanup()?.dry_run().await?;
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!((dry.swept.posts, report.swept.posts), (0, 0));
    assert_eq!(house.db.count("post").await?, 1);
    Ok(())
}

/// LOCK-9: more than one transaction takes at most.
async fn a_backlog_goes_in_many_short_transactions(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    add_backlog(&house, 1_234).await?;
    let dry = house.cleanup()?.dry_run().await?;
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!((dry.pruned, report.pruned), (1_234, 1_234));
    assert_eq!((dry.swept.posts, report.swept.posts), (1, 1));
    assert_eq!(house.db.count("publication").await?, 0);
    Ok(())
}

/// RECOVER-4, RECOVER-2: harmless on many workers at once.
async fn two_cleanups_at_once_take_each_publication_once(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    add_backlog(&house, 1_000).await?;
    let other = House::on_same(&house).await?;
    let (one, two) = (house.cleanup()?, other.cleanup()?);
    let stop = CancellationToken::new();
    let (one, two) = tokio::try_join!(one.run(&stop), two.run(&stop))?;
    assert_eq!(one.pruned + two.pruned, 1_000);
    assert_eq!(house.db.count("publication").await?, 0);
    assert_eq!(one.swept.posts + two.swept.posts, 1);
    Ok(())
}

async fn a_cleanup_that_is_stopped_ends_before_its_next_page(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    add_backlog(&house, 300).await?;
    let stop = CancellationToken::new();
    stop.cancel();
    let report = house.cleanup()?.run(&stop).await?;
    assert_eq!(report.pruned, 0);
    assert_eq!(house.db.count("publication").await?, 300);
    Ok(())
}

/// WORK-7: a worker that nobody has missed yet stays until somebody has.
async fn old_rows_of_workers_and_channel_events_go(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let recent = Utc::now().to_rfc3339();
    for (seen, stopped, dead) in [
        (OLD, Some(OLD), None),
        (OLD, None, Some(OLD)),
        (OLD, None, None),
        (recent.as_str(), None, None),
    ] {
        let text = |at: Option<&str>| at.map_or("NULL".to_owned(), |at| format!("'{at}'"));
        house
            .db
            .execute(&format!(
                "INSERT INTO worker (id, host, pid, version, started_at, last_seen_at, \
                 stopped_at, declared_dead_at) VALUES ({}, 'h', 1, '0', '{OLD}', '{seen}', {}, {})",
                house.db.literal(Uuid::now_v7()),
                text(stopped),
                text(dead)
            ))
            .await?;
    }
    let channel = house.db.literal(house.db.add_channel().await?);
    for at in [OLD, &recent] {
        house
            .db
            .execute(&format!(
                "INSERT INTO event (id, channel_id, kind, created_at) \
                 VALUES ({}, {channel}, 'paused', '{at}')",
                house.db.literal(Uuid::now_v7())
            ))
            .await?;
    }
    let dry = house.cleanup()?.dry_run().await?;
    let report = house.cleanup()?.run(&CancellationToken::new()).await?;
    assert_eq!(dry.swept, report.swept);
    assert_eq!((report.swept.workers, report.swept.events), (2, 1));
    assert_eq!(house.db.count("worker").await?, 2);
    assert_eq!(house.db.count("event").await?, 1);
    Ok(())
}

/// Old published publications of one post.
async fn add_backlog(house: &House, count: usize) -> Result<()> {
    let post = house.db.literal(house.db.add_post().await?);
    let channel = house.db.literal(house.db.add_channel().await?);
    for chunk in (0..count).collect::<Vec<_>>().chunks(200) {
        let rows: Vec<String> = chunk
            .iter()
            .map(|_| {
                let id = house.db.literal(Uuid::now_v7());
                format!("({id}, {post}, {channel}, '{OLD}', '{OLD}', '{OLD}')")
            })
            .collect();
        house
            .db
            .execute(&format!(
                "INSERT INTO publication (id, post_id, channel_id, publish_at, next_attempt_at, \
                 state_changed_at) VALUES {}",
                rows.join(", ")
            ))
            .await?;
    }
    let columns = state("published");
    house
        .db
        .execute(&format!("UPDATE publication SET {columns}"))
        .await?;
    Ok(())
}
