//! Due work starts on time, whoever scheduled it.

use std::time::Duration;

use anyhow::Result;
use api_client::sandbox::{Action, Fault, Route};
use entity::Status;
use uuid::Uuid;
use worker::acts::Acts;

use super::Stage;
use super::stage::{alone, eventually};
use crate::support::{Engine, RealWorker, TestDb, on_both_engines};

on_both_engines!(
    a_publication_goes_out_within_a_second_of_its_instant,
    what_another_program_inserts_is_noticed_without_polling,
    what_is_moved_forward_by_plain_sql_is_noticed_without_polling,
    what_a_person_gives_back_is_noticed_without_polling,
    what_failed_goes_again_at_its_instant_without_polling,
    what_a_closed_circuit_held_back_goes_at_once_without_polling,
    one_channel_of_many_goes_out_at_its_instant_and_the_others_at_theirs,
    without_notices_the_poll_finds_it,
);

/// Settings under which only a notice or a known instant can wake the worker.
const NO_POLL: [(&str, &str); 3] = [
    ("poll_interval", "1h"),
    ("max_lateness", "2h"),
    ("reaper_interval", "5s"),
];

/// A real worker that has nothing to do and hears notices.
async fn idle(stage: &Stage, settings: &[(&str, &str)]) -> Result<RealWorker> {
    let worker = stage.real(settings).await?;
    match stage.db.engine() {
        Engine::Postgres => {
            let listening = "pg_stat_activity WHERE datname = current_database() \
                             AND query LIKE 'LISTEN%' AND state = 'idle'";
            eventually("it listens", || async {
                Ok(stage.db.count(listening).await? > 0)
            })
            .await?;
        }
        // It looks at the file five times a second, from the start.
        Engine::Sqlite => tokio::time::sleep(Duration::from_millis(500)).await,
    }
    Ok(worker)
}

/// How many milliseconds after its instant a publication became public.
async fn lateness(stage: &Stage, id: Uuid) -> Result<i64> {
    let due = stage.publication(id).await?.next_attempt_at;
    stage.until(id, Status::Published).await?;
    let entry = &stage.sandbox.ledger(&id.to_string())[0];
    Ok(entry.first_at - due.timestamp_millis())
}

/// WORK-4: due in two seconds, inserted by another process.
async fn a_publication_goes_out_within_a_second_of_its_instant(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    let worker = idle(&stage, &NO_POLL).await?;
    let id = stage.schedule(channel, 1, 2000).await?[0];
    let due = stage.publication(id).await?.next_attempt_at;
    stage.until(id, Status::Published).await?;
    let late = stage.sandbox.ledger(&id.to_string())[0].first_at - due.timestamp_millis();
    assert!((0..1000).contains(&late), "{late} ms after its instant");
    worker.stop().await
}

/// WORK-4: NOTIFY by the schema's trigger, `data_version` on SQLite.
async fn what_another_program_inserts_is_noticed_without_polling(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    let worker = idle(&stage, &NO_POLL).await?;
    for _ in 0..3 {
        let late = {
            let id = stage.due(channel).await?;
            lateness(&stage, id).await?
        };
        assert!(late < 1000, "{late} ms after its instant");
    }
    worker.stop().await
}

/// WORK-4: a new `publish_at`, by plain SQL.
async fn what_is_moved_forward_by_plain_sql_is_noticed_without_polling(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    let id = stage.schedule(channel, 1, 3_600_000).await?[0];
    let worker = idle(&stage, &NO_POLL).await?;
    let now = stage.db.literal_now();
    stage
        .db
        .set(id, &format!("publish_at = {now}, next_attempt_at = {now}"))
        .await?;
    let due = stage.publication(id).await?.publish_at;
    stage.until(id, Status::Published).await?;
    let late = stage.sandbox.ledger(&id.to_string())[0].first_at - due.timestamp_millis();
    assert!(late < 1000, "{late} ms after its instant");
    worker.stop().await
}

/// WORK-4: `retry`, `resolve` and `resume` change no `publish_at`, so they have to tell themselves.
async fn what_a_person_gives_back_is_noticed_without_polling(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let acts = Acts::new(stage.database.clone());
    let (open, paused) = (stage.at_most_once().await?, stage.exact().await?);
    let now = stage.db.literal_now();
    stage
        .set_channel(paused, &format!("paused_at = {now}"))
        .await?;
    let ids = stage.schedule(open, 2, 3_600_000).await?;
    let [failed, doubtful] = [ids[0], ids[1]];
    let resumed = stage.due(paused).await?;
    stage
        .db
        .set(failed, &format!("status = 'failed', failed_at = {now}"))
        .await?;
    let never = "'9999-12-31T00:00:00.000+00:00'";
    let doubt =
        format!("status = 'unconfirmed', commit_started_at = {now}, next_attempt_at = {never}");
    stage.db.set(doubtful, &doubt).await?;
    let worker = idle(&stage, &NO_POLL).await?;
    // Whatever it does, a worker looks round once more a second later; that is no notice.
    let looked_round = || tokio::time::sleep(Duration::from_millis(2500));
    looked_round().await;
    acts.retry(failed).await?;
    stage.all_published_once(&[failed]).await?;
    looked_round().await;
    acts.resolve_retry(doubtful).await?;
    stage.all_published_once(&[doubtful]).await?;
    looked_round().await;
    acts.resume_channel(paused).await?;
    stage.all_published_once(&[resumed]).await?;
    worker.stop().await
}

/// Channels with something far in the future, so that no single one is most of what there is.
async fn quiet_channels(stage: &Stage, count: usize) -> Result<()> {
    for _ in 0..count {
        let channel = stage.exact().await?;
        stage.schedule(channel, 1, 3_600_000).await?;
    }
    Ok(())
}

/// WORK-4: whatever a publication comes to, the worker knows when it is due again.
async fn what_failed_goes_again_at_its_instant_without_polling(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    quiet_channels(&stage, 4).await?;
    let channel = stage.exact().await?;
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::status(500)));
    let id = stage.due(channel).await?;
    let retry = [("retry_base", "4s"), ("retry_max", "4s")];
    let worker = stage.real(&[&NO_POLL[..], &retry].concat()).await?;
    stage.all_published_once(&[id]).await?;
    let history = stage.history(id).await?;
    assert_eq!(history.len(), 2, "{history:?}");
    let pause = history[1].started_at - history[0].finished_at;
    let pause = pause.num_milliseconds();
    assert!((2900..6000).contains(&pause), "again after {pause} ms");
    worker.stop().await
}

/// CHAN-2, WORK-4: the probe went well, and the rest of the backlog is not left until the poll.
async fn what_a_closed_circuit_held_back_goes_at_once_without_polling(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    quiet_channels(&stage, 4).await?;
    let channel = stage.exact().await?;
    let soon = stage.db.literal_in("2 seconds");
    stage
        .set_channel(
            channel,
            &format!("consecutive_failures = 9, not_before = {soon}"),
        )
        .await?;
    let ids = stage.schedule(channel, 5, 0).await?;
    // A killed probe would hold it back for as long.
    let worker = stage
        .real(&[&NO_POLL[..], &[("lease", "20s")]].concat())
        .await?;
    stage.all_published_once(&ids).await?;
    let at = |row: entity::publication::Model| row.published_at.map(|at| at.timestamp_millis());
    let mut published = Vec::new();
    for id in ids {
        published.extend(at(stage.publication(id).await?));
    }
    published.sort_unstable();
    let span = published[4] - published[0];
    assert!(span < 2000, "the others came {span} ms after the probe");
    worker.stop().await
}

/// WORK-4, LOCK-10: what is known of a channel holds until its instant, and is then asked anew.
async fn one_channel_of_many_goes_out_at_its_instant_and_the_others_at_theirs(
    db: TestDb,
) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    quiet_channels(&stage, 30).await?;
    let mut ids = Vec::new();
    for nth in 0..10 {
        let channel = stage.exact().await?;
        ids.extend(stage.schedule(channel, 1, 3000 + 100 * nth).await?);
        // The second of a channel is found once the first is out.
        ids.extend(stage.schedule(channel, 1, 4500 + 100 * nth).await?);
    }
    let worker = idle(&stage, &NO_POLL).await?;
    for id in ids {
        let late = lateness(&stage, id).await?;
        assert!((0..1000).contains(&late), "{late} ms after its instant");
    }
    worker.stop().await
}

/// WORK-4: a LISTEN connection that was lost is set up again.
#[tokio::test(flavor = "multi_thread")]
async fn notices_are_heard_again_after_their_connection_was_lost() -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(TestDb::postgres().await?).await?;
    let channel = stage.at_most_once().await?;
    let worker = idle(&stage, &NO_POLL).await?;
    stage
        .db
        .execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity \
             WHERE datname = current_database() AND query LIKE 'LISTEN%'",
        )
        .await?;
    let id = stage.due(channel).await?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await
}

/// WORK-4: polling carries on alone, behind a proxy that passes no notices for one.
async fn without_notices_the_poll_finds_it(db: TestDb) -> Result<()> {
    let _alone = alone().await;
    let stage = Stage::on(db).await?;
    let channel = stage.at_most_once().await?;
    let id = stage.schedule(channel, 1, 3_600_000).await?[0];
    let worker = idle(&stage, &[("poll_interval", "1s")]).await?;
    // No trigger watches this column alone.
    let now = stage.db.literal_now();
    stage
        .db
        .set(id, &format!("next_attempt_at = {now}"))
        .await?;
    stage.all_published_once(&[id]).await?;
    worker.stop().await
}
