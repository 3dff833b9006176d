//! What was found too late.

use anyhow::Result;
use entity::{EventKind, Status, event};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::Stage;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    what_is_found_too_late_is_missed_and_told,
    what_is_late_but_not_too_late_goes_out,
    what_may_be_live_is_never_missed,
    a_paused_channel_keeps_its_schedule,
    a_channel_that_has_to_wait_keeps_its_schedule,
);

const HOUR: i64 = 3_600_000;

async fn events(stage: &Stage, id: uuid::Uuid) -> Result<Vec<EventKind>> {
    let rows = event::Entity::find()
        .filter(event::Column::PublicationId.eq(id))
        .all(stage.db.db())
        .await?;
    Ok(rows.iter().map(|event| event.kind).collect())
}

/// WORK-5.
async fn what_is_found_too_late_is_missed_and_told(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage.schedule(stage.exact().await?, 1, -25 * HOUR).await?[0];
    let worker = stage.start(&[])?;
    stage.until(id, Status::Missed).await?;
    worker.stop().await?;
    assert_eq!(events(&stage, id).await?, [EventKind::Missed]);
    assert_eq!(stage.sandbox.requests(None).len(), 0);
    Ok(())
}

/// WORK-5.
async fn what_is_late_but_not_too_late_goes_out(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let ids = stage.schedule(stage.exact().await?, 1, -23 * HOUR).await?;
    let worker = stage.start(&[])?;
    stage.all_published_once(&ids).await?;
    worker.stop().await?;
    assert_eq!(events(&stage, ids[0]).await?, []);
    Ok(())
}

/// WORK-5: it has to be looked up.
async fn what_may_be_live_is_never_missed(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let id = stage
        .schedule(stage.at_most_once().await?, 1, -25 * HOUR)
        .await?[0];
    stage.db.set(id, "commit_started_at = publish_at").await?;
    let worker = stage.start(&[])?;
    let row = stage.until(id, Status::Unconfirmed).await?;
    worker.stop().await?;
    assert!(row.may_be_live());
    assert!(!events(&stage, id).await?.contains(&EventKind::Missed));
    assert_eq!(stage.sandbox.requests(None).len(), 0, "never sent again");
    Ok(())
}

/// WORK-5, CHAN-3: neither missed nor sent while the channel is paused.
async fn a_paused_channel_keeps_its_schedule(db: TestDb) -> Result<()> {
    let now = db.literal_now();
    keeps_its_schedule(db, &format!("paused_at = {now}")).await
}

/// WORK-5, CHAN-2: nor while the platform asked to wait, or the circuit is open.
async fn a_channel_that_has_to_wait_keeps_its_schedule(db: TestDb) -> Result<()> {
    let hour = db.literal_in("1 hours");
    keeps_its_schedule(db, &format!("not_before = {hour}")).await
}

async fn keeps_its_schedule(db: TestDb, closed: &str) -> Result<()> {
    let stage = Stage::on(db).await?;
    let channel = stage.exact().await?;
    stage.set_channel(channel, closed).await?;
    let late = stage.schedule(channel, 1, -25 * HOUR).await?[0];
    let due = stage.due(channel).await?;
    let worker = stage.start(&[])?;
    let open = stage.due(stage.at_most_once().await?).await?;
    stage.all_published_once(&[open]).await?;
    worker.stop().await?;
    for id in [late, due] {
        let row = stage.publication(id).await?;
        assert_eq!((row.status, row.execution_version), (Status::Scheduled, 0));
        assert_eq!(row.next_attempt_at, row.publish_at);
    }
    Ok(())
}
