//! People and workers that want the same publication at the same instant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use api_client::sandbox::Sandbox;
use entity::Status;
use futures::future::join;
use tokio::process::Command;
use uuid::Uuid;
use worker::acts::{ActError, Acts, NewTime};

use super::desk::Desk;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_person_and_a_worker_never_both_get_the_same_row,
    an_edit_and_a_claim_agree_on_the_post,
    two_people_cannot_both_retry,
    two_people_cannot_edit_the_same_words,
    what_was_taken_back_is_never_on_the_platform,
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
        let later = in_another_age();
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
        let was = acts.post(desk.row(id).await?.post_id).await?;
        let mut new = was.clone();
        new.title = "new".to_owned();
        let (edit, claim) = join(acts.edit(id, &was, &new), locks.acquire(id, LEASE)).await;
        let edited = won(&edit);
        let claim = claim?;
        if let Some(claim) = &claim {
            let title = acts.post(claim.publication().post_id).await?.title;
            // An edit that won before the claim is part of what the claim sees.
            assert_eq!(title, if edited { "new" } else { "old" });
        } else {
            assert!(edited);
        }
    }
    Ok(())
}

/// Both begin with what they see; the second is told that it is no longer there.
async fn two_people_cannot_edit_the_same_words(db: TestDb) -> Result<()> {
    let desk = Desk::with_blog(db).await?;
    let acts = desk.acts().await?;
    let id = desk.schedule("x").await?;
    let was = acts.post(desk.row(id).await?.post_id).await?;
    let (mut hers, mut his) = (was.clone(), was.clone());
    hers.title = "hers".to_owned();
    his.title = "his".to_owned();
    acts.edit(id, &was, &hers).await?;
    let second = acts.edit(id, &was, &his).await;
    assert!(
        matches!(second, Err(ActError::Changed { .. })),
        "{second:?}"
    );
    assert_eq!(acts.post(desk.row(id).await?.post_id).await?, hers);
    assert_eq!(desk.history(id).await?, ["edited"]);
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

/// The real worker against people, judged by the platform's own ledger: whoever took a publication
/// back in time does not find it there, and everybody else was told.
async fn what_was_taken_back_is_never_on_the_platform(db: TestDb) -> Result<()> {
    let sandbox = Sandbox::start("127.0.0.1:0".parse()?).await?;
    let desk = Desk::on(db)?;
    let url = format!("{}/hook/race", sandbox.url());
    desk.ok(&["channel", "add", "blog", "--kind", "webhook", "--url", &url])
        .await?;
    let mut list = String::from("channel,at,title\n");
    for number in 0..POSTS {
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
    until_public(&sandbox, 1).await?;
    // From the last to the first, so that the two meet in the middle.
    let mut taken_back = BTreeMap::new();
    for (number, id) in ids.iter().rev().enumerate() {
        match take_back(&acts, &desk, *id, number % 3).await {
            Ok(Some(status)) => drop(taken_back.insert(*id, status)),
            Ok(None)
            | Err(
                ActError::InProgress { .. }
                | ActError::WrongState { .. }
                | ActError::MayBeLive { .. },
            ) => {}
            Err(other) => return Err(other.into()),
        }
    }
    assert!(!taken_back.is_empty(), "nobody was in time");
    until_public(&sandbox, ids.len() - taken_back.len()).await?;
    worker.start_kill()?;
    worker.wait().await?;

    let public: BTreeSet<String> = sandbox
        .ledger("")
        .into_iter()
        .map(|entry| entry.key)
        .collect();
    for id in &ids {
        let is_public = public.iter().any(|key| key.contains(&id.to_string()));
        assert_eq!(is_public, !taken_back.contains_key(id), "{id}");
    }
    assert_eq!(sandbox.summary().doubled, [""; 0]);
    for (id, status) in taken_back {
        assert_eq!(desk.row(id).await?.status, status);
    }
    Ok(())
}

const POSTS: usize = 200;

/// One of three acts; the status it leaves if it takes the publication back. An edit does not.
async fn take_back(
    acts: &Acts,
    desk: &Desk,
    id: Uuid,
    which: usize,
) -> Result<Option<Status>, ActError> {
    match which {
        0 => Ok(Some(acts.cancel(id).await?.status)),
        1 => Ok(Some(acts.reschedule(id, &in_another_age()).await?.status)),
        _ => {
            let row = desk.row(id).await.expect("the row is there");
            let was = acts.post(row.post_id).await?;
            let mut new = was.clone();
            new.title.push_str(", edited");
            acts.edit(id, &was, &new).await?;
            Ok(None)
        }
    }
}

fn in_another_age() -> NewTime {
    let at = chrono::DateTime::UNIX_EPOCH + chrono::TimeDelta::days(365 * 120);
    NewTime {
        publish_at: at,
        time_zone: "UTC".to_owned(),
        next_attempt_at: at,
    }
}

/// Waits until the platform has so many posts.
async fn until_public(sandbox: &Sandbox, posts: usize) -> Result<()> {
    let public = async {
        while sandbox.ledger("").len() < posts {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    Ok(tokio::time::timeout(Duration::from_secs(60), public).await?)
}
