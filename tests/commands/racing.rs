//! People and workers that want the same publication at the same instant.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use api_client::sandbox::Sandbox;
use entity::Status;
use futures::future::{join, join_all};
use tokio::process::Command;
use uuid::Uuid;
use worker::acts::{ActError, NewTime};

use super::desk::Desk;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_person_and_a_worker_never_both_get_the_same_row,
    an_edit_and_a_claim_agree_on_the_post,
    two_people_cannot_both_retry,
    what_was_canceled_is_never_on_the_platform,
);

const LEASE: Duration = Duration::from_secs(60);

fn won<T>(act: &Result<T, ActError>) -> bool {
    match act {
        Ok(_) => true,
        Err(ActError::InProgress { .. }) => false,
        Err(other) => panic!("neither won nor in progress: {other}"),
    }
}

/// Each row goes to one of the two, and the other is told.
async fn a_person_and_a_worker_never_both_get_the_same_row(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let (acts, locks) = (desk.acts().await?, desk.locks().await?);
    let mut wins = [0, 0];
    for round in 0..40 {
        let id = desk.schedule_at("now", "x").await?;
        let later = NewTime {
            publish_at: "2090-01-01T00:00:00Z".parse()?,
            time_zone: "UTC".to_owned(),
            next_attempt_at: "2090-01-01T00:00:00Z".parse()?,
        };
        let person = async {
            match round % 2 {
                0 => won(&acts.cancel(id).await),
                _ => won(&acts.reschedule(id, &later).await),
            }
        };
        let (person, claim) = join(person, locks.acquire(id, LEASE)).await;
        let claimed = claim?.is_some();
        assert_ne!(person, claimed, "round {round}");
        let status = desk.row(id).await?.status;
        let expected = match (claimed, round % 2) {
            (true, _) => Status::Publishing,
            (false, 0) => Status::Canceled,
            (false, _) => Status::Scheduled,
        };
        assert_eq!(status, expected);
        wins[usize::from(claimed)] += 1;
    }
    assert!(wins.iter().sum::<i32>() == 40);
    Ok(())
}

/// Whoever claims sees the post before the edit or after it, and the edit says which.
async fn an_edit_and_a_claim_agree_on_the_post(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let (acts, locks) = (desk.acts().await?, desk.locks().await?);
    for _ in 0..20 {
        let id = desk.schedule_at("now", "old").await?;
        let was = acts.post_of(&desk.row(id).await?).await?;
        let mut new = was.clone();
        new.title = "new".to_owned();
        let (edit, claim) = join(acts.edit(id, &was, &new), locks.acquire(id, LEASE)).await;
        let edited = won(&edit);
        let claim = claim?;
        if let Some(claim) = &claim {
            let title = acts.post_of(claim.publication()).await?.title;
            // An edit that won before the claim is part of what the claim sees.
            assert_eq!(title, if edited { "new" } else { "old" });
        } else {
            assert!(edited);
        }
    }
    Ok(())
}

async fn two_people_cannot_both_retry(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let (acts, others) = (desk.acts().await?, desk.acts().await?);
    let id = desk.schedule("x").await?;
    desk.db()?
        .set(id, "status = 'failed', failed_at = publish_at")
        .await?;
    let (a, b) = join(acts.retry(id), others.retry(id)).await;
    assert_eq!(
        usize::from(a.is_ok()) + usize::from(b.is_ok()),
        1,
        "{a:?} {b:?}"
    );
    assert_eq!(desk.history(id).await?, ["retried"]);
    Ok(())
}

/// The real worker against people, judged by the platform's own ledger.
async fn what_was_canceled_is_never_on_the_platform(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = Desk::on(db)?;
    let url = format!("{}/hook/race", sandbox.url());
    desk.ok(&["channel", "add", "blog", "--kind", "webhook", "--url", &url])
        .await?;
    let mut list = String::from("channel,at,title\n");
    for number in 0..60 {
        list.push_str(&format!("blog,now,post {number}\n"));
    }
    std::fs::write(desk.path().join("posts.csv"), list)?;
    let ids = desk.ok(&["schedule", "--from", "posts.csv"]).await?;
    let ids: Vec<Uuid> = ids.lines().map(str::parse).collect::<Result<_, _>>()?;

    let mut run: Command = desk.command(&["run", "--http-addr", "off", "--concurrency", "4"]);
    let mut worker = run
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    let acts = desk.acts().await?;
    // From the last to the first, so that the two meet in the middle.
    let mut canceled = BTreeSet::new();
    for id in ids.iter().rev() {
        match acts.cancel(*id).await {
            Ok(_) => {
                canceled.insert(*id);
            }
            Err(
                ActError::InProgress { .. }
                | ActError::WrongState { .. }
                | ActError::MayBeLive { .. },
            ) => {}
            Err(other) => return Err(other.into()),
        }
    }
    let expected = ids.len() - canceled.len();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while sandbox.ledger("").len() < expected && tokio::time::Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    worker.start_kill()?;
    worker.wait().await?;

    let public: BTreeSet<String> = sandbox
        .ledger("")
        .into_iter()
        .map(|entry| entry.key)
        .collect();
    for id in &ids {
        let is_public = public.iter().any(|key| key.contains(&id.to_string()));
        assert_eq!(is_public, !canceled.contains(id), "{id}");
    }
    assert_eq!(sandbox.summary().doubled, [""; 0]);
    let statuses = join_all(canceled.iter().map(|id| desk.row(*id))).await;
    for row in statuses {
        assert_eq!(row?.status, Status::Canceled);
    }
    Ok(())
}
