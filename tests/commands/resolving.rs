//! `resolve`: what became of an unconfirmed publication.

use std::time::Duration;

use anyhow::Result;
use api_client::sandbox::{Action, Fault, Route, Sandbox};
use entity::{Outcome, Status, attempt};
use sea_orm::{ActiveValue::Set, EntityTrait};
use uuid::Uuid;
use worker::locks::{Ending, Failure, Mark, Replay, Settlement};

use super::desk::{Desk, browser};
use crate::support::{Finished, TestDb, on_both_engines};

on_both_engines!(
    a_person_says_that_it_is_live,
    a_person_says_that_it_failed,
    a_retry_waits_until_the_post_cannot_arrive_any_more,
    a_retry_where_nobody_can_be_asked_is_the_persons_word,
    a_retry_finds_the_post_and_does_not_repeat_it,
    a_retry_of_what_the_platform_does_not_have_goes_out_again,
    a_retry_while_the_platform_does_not_answer_changes_nothing,
    bad_resolutions_are_refused,
);

/// A publication that a worker has committed and knows no more of.
async fn unconfirmed(desk: &Desk) -> Result<Uuid> {
    let id = desk.schedule_at("now", "x").await?;
    let locks = desk.locks().await?;
    let claim = locks
        .acquire(id, Duration::from_secs(60))
        .await?
        .expect("it is due");
    let mark = Mark {
        claim: &claim,
        replay: Replay::Never,
        probe: false,
    };
    for permit in locks.mark(&[mark]).await {
        permit?;
    }
    let failure = Failure {
        kind: "ambiguous",
        message: "no answer".to_owned(),
    };
    let ending = Ending::Unconfirmed {
        look_after: None,
        tell: true,
        failure,
    };
    for settled in locks.settle(&[Settlement::new(claim, ending)]).await {
        settled?;
    }
    assert_eq!(desk.row(id).await?.status, Status::Unconfirmed);
    Ok(id)
}

/// One whose doubt began years ago, in a settled history: attempts are never updated, not even by a
/// test, so this one is written as it would have been.
async fn long_unconfirmed(desk: &Desk) -> Result<Uuid> {
    let id = desk.schedule_at("now", "x").await?;
    let columns = "status = 'unconfirmed', attempts = 1, execution_version = 1, \
                   commit_started_at = '2020-01-01T00:00:00+00:00'";
    desk.db()?.set(id, columns).await?;
    let at = "2020-01-01T00:01:00Z".parse()?;
    attempt::Entity::insert(attempt::ActiveModel {
        id: Set(Uuid::now_v7()),
        publication_id: Set(id),
        attempt_no: Set(1),
        outcome: Set(Outcome::Unconfirmed),
        started_at: Set(at),
        finished_at: Set(at),
        ..Default::default()
    })
    .exec_without_returning(desk.db()?.db())
    .await?;
    Ok(id)
}

async fn retry(desk: &Desk, id: Uuid) -> Result<Finished> {
    desk.run(&["resolve", &id.to_string(), "--retry"]).await
}

async fn a_person_says_that_it_is_live(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = unconfirmed(&desk).await?;
    let url = "https://example.org/posts/7";
    desk.ok(&["resolve", &id.to_string(), "--published", url])
        .await?;
    let row = desk.row(id).await?;
    assert_eq!(
        (row.status, row.remote_url.as_deref()),
        (Status::Published, Some(url))
    );
    assert!(row.published_at.is_some() && row.accepted_at.is_some());
    assert_eq!(desk.history(id).await?, ["unconfirmed", "resolved"]);
    Ok(())
}

async fn a_person_says_that_it_failed(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = unconfirmed(&desk).await?;
    desk.ok(&["resolve", &id.to_string(), "--failed"]).await?;
    let row = desk.row(id).await?;
    assert_eq!((row.status, row.commit_started_at), (Status::Failed, None));
    assert!(row.failed_at.is_some());
    assert_eq!(desk.history(id).await?, ["unconfirmed", "resolved"]);
    // Failed is failed: it can be retried like any other.
    desk.ok(&["retry", &id.to_string()]).await?;
    Ok(())
}

/// TWICE-5: `--retry` keeps to `settling_delay`, and says how long.
async fn a_retry_waits_until_the_post_cannot_arrive_any_more(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = unconfirmed(&desk).await?;
    let before = desk.row(id).await?;
    let arguments = ["resolve", &id.to_string(), "--retry"];
    desk.refused(
        3,
        &arguments,
        &[&id.to_string(), "may still arrive", "retried in "],
    )
    .await?;
    assert_eq!(desk.row(id).await?, before);
    assert_eq!(desk.history(id).await?, ["unconfirmed"]);
    Ok(())
}

async fn a_retry_where_nobody_can_be_asked_is_the_persons_word(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = long_unconfirmed(&desk).await?;
    let finished = retry(&desk, id).await?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let row = desk.row(id).await?;
    assert_eq!(
        (row.status, row.commit_started_at, row.attempts),
        (Status::Scheduled, None, 0)
    );
    assert_eq!(desk.history(id).await?, ["unconfirmed", "resolved"]);
    assert!(
        desk.locks()
            .await?
            .acquire(id, Duration::from_secs(60))
            .await?
            .is_some(),
        "due now"
    );
    Ok(())
}

/// A desk whose channel can be asked what it has.
async fn with_lookup(db: TestDb, sandbox: &Sandbox) -> Result<Desk> {
    let desk = Desk::on(db)?;
    let url = format!("{}/lookup/blog", sandbox.url());
    let set = format!("lookup_url={url}");
    desk.ok(&[
        "channel", "add", "blog", "--kind", "webhook", "--url", &url, "--set", &set,
    ])
    .await?;
    Ok(desk)
}

async fn a_retry_finds_the_post_and_does_not_repeat_it(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_lookup(db, &sandbox).await?;
    let id = long_unconfirmed(&desk).await?;
    // It did arrive.
    let key = api_client::IdempotencyKey::of(id);
    browser()?
        .post(format!("{}/lookup/blog", sandbox.url()))
        .header("webhook-id", key.as_str())
        .body("{}")
        .send()
        .await?
        .error_for_status()?;
    let finished = retry(&desk, id).await?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.stdout.contains("not retried"), "{finished:?}");
    assert_eq!(desk.row(id).await?.status, Status::Published);
    assert_eq!(desk.history(id).await?, ["unconfirmed", "reconciled"]);
    Ok(())
}

async fn a_retry_of_what_the_platform_does_not_have_goes_out_again(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_lookup(db, &sandbox).await?;
    let id = long_unconfirmed(&desk).await?;
    // A paused channel can be asked all the same.
    desk.ok(&["channel", "pause", "blog"]).await?;
    let finished = retry(&desk, id).await?;
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let row = desk.row(id).await?;
    assert_eq!(
        (row.status, row.commit_started_at, row.attempts),
        (Status::Scheduled, None, 0)
    );
    assert_eq!(
        desk.history(id).await?,
        ["unconfirmed", "reconciled", "resolved"]
    );
    assert_eq!(sandbox.ledger("").len(), 0, "only asked");
    Ok(())
}

async fn a_retry_while_the_platform_does_not_answer_changes_nothing(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = with_lookup(db, &sandbox).await?;
    let id = long_unconfirmed(&desk).await?;
    sandbox.script(Fault::once(Route::Lookup, Action::status(500)).always());
    let finished = retry(&desk, id).await?;
    super::desk::assert_refused(&finished, 1, &[&id.to_string(), "nothing was retried"]);
    let row = desk.row(id).await?;
    assert_eq!(row.status, Status::Unconfirmed);
    assert!(row.commit_started_at.is_some() && row.execution_lock_id.is_none());
    Ok(())
}

async fn bad_resolutions_are_refused(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let id = unconfirmed(&desk).await?.to_string();
    for url in ["nonsense", "ftp://example.org/1", "https://"] {
        desk.refused(
            2,
            &["resolve", &id, "--published", url],
            &[&format!("{url:?}"), "http"],
        )
        .await?;
    }
    for arguments in [
        vec!["resolve", &id],
        vec!["resolve", &id, "--retry", "--failed"],
    ] {
        let finished = desk.run(&arguments).await?;
        assert_eq!(finished.code, Some(2), "{finished:?}");
    }
    Ok(())
}
