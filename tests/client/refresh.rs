//! One refresh at a time, stored before use, and never the same single-use token twice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_client::sandbox::{Action, Fault, Route, Sandbox};
use api_client::{
    Call, MemoryTokenStore, Publisher, StoredTokens, TokenLock, TokenStore, TokenStoreError, Tokens,
};
use async_trait::async_trait;
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{Notes, call, deviantart_at, draft_with_file, publish, sandbox, tokens, word};

/// A store whose lock ends soon, whose writes can fail, and that tells a watcher of new tokens.
struct Watched {
    inner: MemoryTokenStore,
    lock_left: Duration,
    failures: AtomicUsize,
    on_new: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl Watched {
    fn new(tokens: Tokens) -> Self {
        Self {
            inner: MemoryTokenStore::new(Some(tokens)),
            lock_left: Duration::from_secs(30),
            failures: AtomicUsize::new(0),
            on_new: Mutex::new(None),
        }
    }
}

struct ShortLock(Box<dyn TokenLock>, Duration);

#[async_trait]
impl TokenLock for ShortLock {
    fn remaining(&self) -> Duration {
        self.1
    }

    async fn release(self: Box<Self>) {
        self.0.release().await;
    }
}

#[async_trait]
impl TokenStore for Watched {
    async fn load(&self) -> Result<StoredTokens, TokenStoreError> {
        self.inner.load().await
    }

    async fn lock(&self, wait: Duration) -> Result<Option<Box<dyn TokenLock>>, TokenStoreError> {
        let lock = self.inner.lock(wait).await?;
        Ok(lock.map(|lock| Box::new(ShortLock(lock, self.lock_left)) as Box<dyn TokenLock>))
    }

    async fn compare_and_set(
        &self,
        version: i64,
        tokens: &Tokens,
    ) -> Result<Option<i64>, TokenStoreError> {
        if tokens.refresh_sent_at.is_none() {
            if let Some(watch) = &*self.on_new.lock().expect("not poisoned") {
                watch();
            }
            let take = |left: usize| left.checked_sub(1);
            if self
                .failures
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok()
            {
                return Err(TokenStoreError("the database is away".into()));
            }
        }
        self.inner.compare_and_set(version, tokens).await
    }
}

async fn ask_at_once(workers: &[Arc<dyn Publisher>], tasks: usize) -> Vec<&'static str> {
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

fn workers(
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

/// CHAN-3: the answer is lost in every way an answer can be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_refresh_answer_needs_a_login_and_the_token_is_not_sent_twice() {
    let lost = [
        Action::Reset,
        Action::Blank,
        Action::Hang,
        Action::Answer {
            status: 200,
            headers: Default::default(),
            body: "{\"access_tok".into(),
        },
        Action::json(200, &serde_json::json!({ "status": "success" })),
    ];
    for action in lost {
        let shown = format!("{action:?}");
        let sandbox = sandbox().await;
        let pair = sandbox.deviantart_tokens();
        sandbox.expire_deviantart_tokens();
        sandbox.script(Fault::once(Route::Token, action).after_accept());
        let mut store = Watched::new(tokens(&pair));
        store.lock_left = Duration::from_millis(4_100);
        let store: Arc<dyn TokenStore> = Arc::new(store);
        let workers = workers(&sandbox, &store, 2);
        assert_eq!(
            ask_at_once(&workers, 8).await,
            vec!["needs_login"; 8],
            "{shown}"
        );
        assert_eq!(
            ask_at_once(&workers, 2).await,
            vec!["needs_login"; 2],
            "{shown}"
        );
        assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1, "{shown}");
    }
}

/// CHAN-3: a worker that was killed between sending and storing leaves its mark.
#[tokio::test]
async fn a_mark_left_by_a_killed_worker_needs_a_login() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let mut marked = tokens(&pair);
    marked.refresh_sent_at = Some(chrono::Utc::now());
    let publisher = deviantart_at(
        &sandbox.url(),
        Arc::new(MemoryTokenStore::new(Some(marked))),
    );
    assert_eq!(word(&publisher.test(&call()).await), "needs_login");
    assert!(sandbox.requests(Some(Route::Token)).is_empty());
}

/// CHAN-3: a refused refresh token disconnects, and is not tried again.
#[tokio::test]
async fn a_refused_refresh_token_needs_a_login() {
    let sandbox = sandbox().await;
    let dead = Tokens {
        refresh_token: Some("dead".into()),
        ..tokens(&sandbox.deviantart_tokens())
    };
    sandbox.expire_deviantart_tokens();
    let publisher = deviantart_at(&sandbox.url(), Arc::new(MemoryTokenStore::new(Some(dead))));
    assert_eq!(word(&publisher.test(&call()).await), "needs_login");
    assert_eq!(word(&publisher.test(&call()).await), "needs_login");
    assert_eq!(sandbox.requests(Some(Route::Token)).len(), 1);
}

/// CHAN-3: nothing else disconnects the channel: it works again as soon as the platform does.
#[tokio::test]
async fn other_failures_of_a_refresh_keep_the_login() {
    let cases = [
        (Action::Page, "rate_limited"),
        (Action::status(429), "rate_limited"),
        (Action::status(500), "unavailable"),
        (Action::status(503), "unavailable"),
        (
            Action::json(401, &serde_json::json!({ "error": "invalid_client" })),
            "unauthorized",
        ),
        (
            Action::json(400, &serde_json::json!({ "error": "invalid_client" })),
            "unauthorized",
        ),
    ];
    for (action, means) in cases {
        let shown = format!("{action:?}");
        let sandbox = sandbox().await;
        let pair = sandbox.deviantart_tokens();
        sandbox.expire_deviantart_tokens();
        sandbox.script(Fault::once(Route::Token, action));
        let store = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
        let publisher = deviantart_at(&sandbox.url(), store);
        assert_eq!(word(&publisher.test(&call()).await), means, "{shown}");
        assert_eq!(word(&publisher.test(&call()).await), "accepted", "{shown}");
    }
}

/// CHAN-3: a refresh that never left keeps the login.
#[tokio::test]
async fn a_refresh_that_was_never_sent_keeps_the_login() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("one connection");
        drop(listener);
        let _ = stream.read(&mut [0; 4096]).await;
        let answer = b"HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(answer).await;
    });
    let pair = api_client::sandbox::Pair {
        access_token: "a".into(),
        refresh_token: "r".into(),
    };
    let store = Arc::new(MemoryTokenStore::new(Some(tokens(&pair))));
    let publisher = deviantart_at(&url, store.clone());
    assert_eq!(word(&publisher.test(&call()).await), "unavailable");
    let stored = store
        .load()
        .await
        .expect("in memory")
        .tokens
        .expect("tokens");
    assert!(
        stored.refresh_sent_at.is_none(),
        "the token may still be sent"
    );
}

/// CHAN-3: "only if it can end before the lock does".
#[tokio::test]
async fn a_refresh_that_cannot_end_before_its_lock_is_not_sent() {
    let sandbox = sandbox().await;
    let pair = sandbox.deviantart_tokens();
    sandbox.expire_deviantart_tokens();
    let mut store = Watched::new(tokens(&pair));
    store.lock_left = Duration::from_secs(1);
    let publisher = deviantart_at(&sandbox.url(), Arc::new(store));
    assert_eq!(word(&publisher.test(&call()).await), "unavailable");
    assert!(sandbox.requests(Some(Route::Token)).is_empty());
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
