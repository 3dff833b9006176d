//! Looking for a title in the gallery is a guess, and is treated as one.

use std::time::Duration;

use api_client::sandbox::Sandbox;
use api_client::{Receipt, Verdict};
use chrono::{DateTime, TimeDelta, Utc};

use crate::support::{
    OtherPosts, call, deviantart, draft_with_file, look, look_among, publish, sandbox,
};

async fn verdict(sandbox: &Sandbox, look: &api_client::Look) -> Verdict {
    let (draft, _) = draft_with_file("Sunset", b"bytes");
    deviantart(sandbox)
        .reconcile(&draft, None, &draft.key(), look, &call())
        .await
        .expect("the look itself works")
}

fn now() -> DateTime<Utc> {
    Utc::now()
}

/// TWICE-1.
#[tokio::test]
async fn the_one_fitting_work_is_found() {
    let sandbox = sandbox().await;
    let (draft, files) = draft_with_file("Sunset", b"bytes");
    let marked = now();
    let receipt = publish(&*deviantart(&sandbox), &draft, &files)
        .await
        .expect("published");
    assert_eq!(
        verdict(&sandbox, &look(marked)).await,
        Verdict::Found(receipt)
    );
}

/// TWICE-1: a guess never says Absent.
#[tokio::test]
async fn an_empty_gallery_cannot_tell() {
    assert_eq!(
        verdict(&sandbox().await, &look(now())).await,
        Verdict::CannotTell
    );
}

/// TWICE-1.
#[tokio::test]
async fn siblings_with_one_title_cannot_be_told_apart() {
    let sandbox = sandbox().await;
    let at = now().timestamp();
    let first = sandbox.add_deviantart_work("Sunset", at);
    sandbox.add_deviantart_work("Sunset", at + 1);
    assert_eq!(verdict(&sandbox, &look(now())).await, Verdict::CannotTell);
    // With the other one accounted for there is one candidate left.
    let others = OtherPosts {
        held: vec![first.clone()],
        rival: false,
    };
    let left = verdict(&sandbox, &look_among(now(), others)).await;
    assert!(matches!(left, Verdict::Found(Receipt { remote_id: Some(id), .. }) if id != first));
}

/// TWICE-1.
#[tokio::test]
async fn a_work_older_than_the_mark_is_not_ours() {
    let sandbox = sandbox().await;
    let marked = now();
    sandbox.add_deviantart_work("Sunset", marked.timestamp() - 1);
    assert_eq!(verdict(&sandbox, &look(marked)).await, Verdict::CannotTell);
    let ours = sandbox.add_deviantart_work("Sunset", marked.timestamp());
    let found = verdict(&sandbox, &look(marked)).await;
    assert!(matches!(found, Verdict::Found(receipt) if receipt.remote_id == Some(ours)));
}

/// TWICE-1.
#[tokio::test]
async fn a_work_that_another_publication_holds_is_not_ours() {
    let sandbox = sandbox().await;
    let id = sandbox.add_deviantart_work("Sunset", now().timestamp() + 1);
    let others = OtherPosts {
        held: vec![id],
        rival: false,
    };
    assert_eq!(
        verdict(&sandbox, &look_among(now(), others)).await,
        Verdict::CannotTell
    );
}

/// TWICE-1: two unconfirmed publications of one title, one work: whose is it?
#[tokio::test]
async fn a_work_that_another_publication_could_claim_cannot_be_told_apart() {
    let sandbox = sandbox().await;
    sandbox.add_deviantart_work("Sunset", now().timestamp() + 1);
    let others = OtherPosts {
        held: Vec::new(),
        rival: true,
    };
    assert_eq!(
        verdict(&sandbox, &look_among(now(), others)).await,
        Verdict::CannotTell
    );
}

/// Other titles are other works, but white space is not a difference.
#[tokio::test]
async fn only_the_same_title_fits() {
    let sandbox = sandbox().await;
    let at = now().timestamp() + 1;
    for title in ["sunset", "Sunset 2", "A Sunset", ""] {
        sandbox.add_deviantart_work(title, at);
    }
    assert_eq!(verdict(&sandbox, &look(now())).await, Verdict::CannotTell);
    sandbox.add_deviantart_work(" Sunset  ", at);
    assert!(matches!(
        verdict(&sandbox, &look(now())).await,
        Verdict::Found(_)
    ));
}

/// The look goes through as many pages as there are recent works, and no further.
#[tokio::test]
async fn a_sibling_on_a_later_page_is_seen_and_old_pages_are_not_read() {
    let sandbox = sandbox().await;
    let marked = now() - TimeDelta::hours(1);
    let at = marked.timestamp();
    for number in 0..60 {
        sandbox.add_deviantart_work("Other", at + 100 + number);
    }
    for number in 0..500 {
        sandbox.add_deviantart_work("Sunset", at - 100 - number);
    }
    sandbox.add_deviantart_work("Sunset", at + 1);
    assert!(matches!(
        verdict(&sandbox, &look(marked)).await,
        Verdict::Found(_)
    ));
    let pages = sandbox
        .requests(Some(api_client::sandbox::Route::Gallery))
        .len();
    assert!(pages <= 4, "{pages} pages for 61 recent works");
    sandbox.add_deviantart_work("Sunset", at + 2);
    assert_eq!(verdict(&sandbox, &look(marked)).await, Verdict::CannotTell);
}

/// A gallery too large to be seen whole cannot tell, and does not take for ever.
#[tokio::test]
async fn a_look_is_bounded() {
    let sandbox = sandbox().await;
    let marked = now() - TimeDelta::hours(1);
    for number in 0..2_000 {
        sandbox.add_deviantart_work("Other", marked.timestamp() + 10 + number % 5);
    }
    sandbox.add_deviantart_work("Sunset", marked.timestamp() + 60);
    let look = look(marked);
    let bounded = tokio::time::timeout(Duration::from_secs(30), verdict(&sandbox, &look)).await;
    assert_eq!(bounded, Ok(Verdict::CannotTell));
}
