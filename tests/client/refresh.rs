//! One refresh at a time, stored before use, and never the same single-use token twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api_client::sandbox::{Action, Fault, Route, Sandbox};
use api_client::{Call, MemoryTokenStore, Publisher, TokenStore};
use secrecy::ExposeSecret;

use crate::support::{Notes, call, deviantart_at, draft_with_file, publish, sandbox, tokens, word};
use crate::watched_tokens::Watched;

/// Asks from many tasks, spread over the workers, at the same moment.
pub(crate) async fn ask_at_once(workers: &[Arc<dyn Publisher>], tasks: usize) -> Vec<&'static str> {
    let barrier = Arc::new(tokio::sync::Barrier::new(tasks));
    let asked: Vec<_> = (0..tasks)
        .map(|number| {
            let (worker, barrier) = (workers[number % workers.len()].clone(), barrier.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                word(&worker.test(&call()).await)
            })
        })
        .collect();
    let mut words = Vec::new();
    for task in asked {
        words.push(task.await.expect("no panic"));
    }
    words
}

/// Workers that share a store, as in a cluster.
pub(crate) fn workers(
    sandbox: &Sandbox,
    store: &Arc<dyn TokenStore>,
    count: usize,
) -> Vec<Arc<dyn Publisher>> {
    (0..count)
        .map(|_| deviantart_at(&sandbox.url(), store.clone()))
        .collect()
}

/// CHAN-3.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thirty_two_tasks_that_need_a_refresh_make_one() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let store: Arc<dyn TokenStore> = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
    let words = ask_at_once(&workers(&sandbox, &store, 4), 32).await;
    assert_eq!(words, vec!["accepted"; 32]);
    let refreshes = sandbox.requests(Some(Route::Token));
    assert_eq!(refreshes.len(), 1, "one refresh");
    assert_eq!(refreshes[0].key, pair.refresh_token);
    let stored = store
        .load()
        .await
        .expect("in memory")
        .tokens
        .expect("tokens");
    assert_ne!(stored.access_token.expose_secret(), pair.access_token);
    assert!(stored.refresh_sent_at.is_none());
}

/// CHAN-3: when the new tokens reach the store, nobody has used them yet.
#[tokio::test]
async fn rotated_tokens_are_stored_before_first_use() {
    let sandbox = Arc::new(sandbox().await);
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let store = Arc::new(Watched::new(tokens(&pair)));
    let seen = Arc::new(AtomicUsize::new(0));
    *store.on_new.lock().expect("not poisoned") = Some(Box::new({
        let (sandbox, seen) = (sandbox.clone(), seen.clone());
        move || {
            seen.store(
                sandbox.requests(Some(Route::Placebo)).len(),
                Ordering::SeqCst,
            )
        }
    }));
    let publisher = deviantart_at(&sandbox.url(), store);
    publisher
        .test(&call())
        .await
        .expect("it works after the refresh");
    assert_eq!(
        seen.load(Ordering::SeqCst),
        1,
        "only the refused request came before the store"
    );
    assert_eq!(sandbox.requests(Some(Route::Placebo)).len(), 2);
}

/// CHAN-3: new tokens exist nowhere else, so storing them is tried until it works.
#[tokio::test]
async fn new_tokens_outlive_a_store_that_is_away() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let store = Arc::new(Watched::new(tokens(&pair)));
    store.failures.store(3, Ordering::SeqCst);
    let publisher = deviantart_at(&sandbox.url(), store);
    assert_eq!(word(&publisher.test(&call()).await), "accepted");
    assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1);
}

/// BEAT-3, CHAN-3: giving up on a publication does not cost the channel its login.
#[tokio::test]
async fn a_caller_that_gives_up_does_not_lose_the_refresh() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    sandbox.script(Fault::once(Route::Token, Action::Hold).after_accept());
    let store = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
    let publisher = deviantart_at(&sandbox.url(), store.clone());
    let caller = tokio::spawn({
        let publisher = publisher.clone();
        async move { publisher.test(&call()).await }
    });
    sandbox.held(1).await;
    caller.abort();
    assert!(caller.await.is_err_and(|error| error.is_cancelled()));
    sandbox.release(None);
    assert_eq!(word(&publisher.test(&call()).await), "accepted");
    assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1);
}

/// TWICE-6: a token that ends between upload and commit costs a refresh, not a second post.
#[tokio::test]
async fn a_commit_refused_for_its_token_is_sent_again_with_a_new_one() {
    let sandbox = sandbox().await;
    let store = Arc::new(MemoryTokenStore::new(Some(tokens(
        &sandbox.deviantart_tokens(),
    ))));
    let publisher = deviantart_at(&sandbox.url(), store);
    let (draft, files) = draft_with_file("A", b"bytes");
    let notes = Notes::default();
    let prepared = publisher
        .prepare(&draft, &notes, &files, &call())
        .await
        .expect("uploaded");
    sandbox.expire_deviantart_tokens();
    let receipt = publisher
        .commit(&draft, &prepared, &draft.key(), &call())
        .await;
    assert_eq!(word(&receipt), "accepted");
    assert_eq!(sandbox.ledger("A")[0].count, 1);
    assert_eq!(sandbox.requests(Some(Route::Publish)).len(), 2);
    assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1);
}

/// Nobody logged in yet is not a failure of the platform.
#[tokio::test]
async fn a_channel_without_tokens_asks_for_a_login_and_sends_nothing() {
    let sandbox = sandbox().await;
    let publisher = deviantart_at(&sandbox.url(), Arc::new(MemoryTokenStore::new(None)));
    let (draft, files) = draft_with_file("A", b"bytes");
    assert_eq!(
        word(&publish(&*publisher, &draft, &files).await),
        "needs_login"
    );
    assert_eq!(
        word(&publisher.test(&Call::within(Duration::from_secs(1))).await),
        "needs_login"
    );
    assert!(sandbox.requests(None).is_empty());
}
