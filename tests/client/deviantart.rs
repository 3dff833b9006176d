//! DeviantArt from draft to deviation.

use api_client::Guarantee;
use api_client::sandbox::{Action, Fault, Route};
use serde_json::json;

use crate::support::{
    Notes, call, config, deviantart, draft, draft_with_file, object, open, publish, sandbox,
    tokens, word,
};

/// TWICE-1.
#[tokio::test]
async fn a_draft_is_uploaded_and_published_once() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    let (draft, files) = draft_with_file("Sunset", &[7; 300_000]);
    let receipt = publish(&*publisher, &draft, &files)
        .await
        .expect("published");
    let ledger = sandbox.ledger("Sunset");
    assert_eq!(ledger.len(), 1);
    assert_eq!(ledger[0].count, 1);
    assert_eq!(
        ledger[0].works[0].sha256, draft.assets[0].sha256,
        "the very bytes arrived"
    );
    assert_eq!(
        receipt.remote_id.as_deref(),
        Some(&*ledger[0].works[0].deviationid)
    );
    assert_eq!(
        receipt.remote_url.as_deref(),
        Some(&*ledger[0].works[0].url)
    );
    let seen = sandbox.requests(None);
    let routes: Vec<Route> = seen.iter().map(|request| request.route).collect();
    assert_eq!(routes, [Route::Placebo, Route::Submit, Route::Publish]);
    assert!(
        seen.iter()
            .all(|request| request.headers["da-minor-version"] == "20240701")
    );
}

/// TWICE-1, TWICE-3: the upload is remembered, and a replay commits the same item.
#[tokio::test]
async fn a_replayed_commit_is_answered_already_published_and_counts_as_accepted() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    assert_eq!(publisher.guarantee(), Guarantee::Exact { window: None });
    let (draft, files) = draft_with_file("Sunset", b"bytes");
    let notes = Notes::default();
    sandbox.script(Fault::once(Route::Publish, Action::Reset).after_accept());
    let prepared = publisher
        .prepare(&draft, &notes, &files, &call())
        .await
        .expect("uploaded");
    let lost = publisher
        .commit(&draft, &prepared, &draft.key(), &call())
        .await;
    assert_eq!(word(&lost), "ambiguous");

    let replay = call().replaying(true);
    let again = publisher
        .prepare(&draft, &notes, &files, &replay)
        .await
        .expect("remembered");
    assert_eq!(again, prepared);
    assert_eq!(publisher.recall(&draft, &notes).await, Ok(Some(prepared)));
    let receipt = publisher
        .commit(&draft, &again, &draft.key(), &replay)
        .await;
    assert_eq!(word(&receipt), "accepted");
    let entry = &sandbox.ledger("Sunset")[0];
    assert_eq!((entry.count, entry.replays), (1, 1));
    assert_eq!(
        sandbox.requests(Some(Route::Submit)).len(),
        1,
        "never uploaded again"
    );
}

/// TWICE-3: after the mark only the remembered upload will do.
#[tokio::test]
async fn a_replay_never_uploads_again() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    let (mut draft, mut files) = draft_with_file("Sunset", b"bytes");
    let replay = call().replaying(true);
    let forgotten = publisher
        .prepare(&draft, &Notes::default(), &files, &replay)
        .await;
    assert_eq!(word(&forgotten), "ambiguous");
    assert!(sandbox.requests(Some(Route::Submit)).is_empty());

    let notes = Notes::default();
    let first = publisher
        .prepare(&draft, &notes, &files, &call())
        .await
        .expect("uploaded");
    draft.assets = vec![files.add("other.png", b"other bytes")];
    let frozen = publisher
        .prepare(&draft, &notes, &files, &replay)
        .await
        .expect("remembered");
    assert_eq!(frozen, first, "frozen once it may be live");
    let edited = publisher
        .prepare(&draft, &notes, &files, &call())
        .await
        .expect("uploaded");
    assert_ne!(edited, first, "an edit before the mark is uploaded");
    assert_eq!(sandbox.requests(Some(Route::Submit)).len(), 2);
}

/// TWICE-2: the platform's rule need not be relied upon.
#[tokio::test]
async fn replay_false_makes_the_channel_at_most_once() {
    let sandbox = sandbox().await;
    let settings = json!({ "client_id": "4711", "replay": "false" });
    let mut config = config("deviantart", &sandbox.url(), settings);
    let store = api_client::MemoryTokenStore::new(Some(tokens(&sandbox.deviantart_tokens())));
    config.token_store = Some(std::sync::Arc::new(store));
    assert_eq!(open(config).guarantee(), Guarantee::AtMostOnce);
}

/// LOCK-4: a lost lock stops the work at once.
#[tokio::test]
async fn a_refused_checkpoint_stops_the_preparation() {
    let sandbox = sandbox().await;
    let (draft, files) = draft_with_file("Sunset", b"bytes");
    let notes = Notes::default();
    notes.lose();
    let result = deviantart(&sandbox)
        .prepare(&draft, &notes, &files, &call())
        .await;
    assert_eq!(word(&result), "lease_lost");
    assert_eq!(sandbox.summary().posts, 0);
}

/// An upload that landed without an answer is litter, not a post: upload again.
#[tokio::test]
async fn a_lost_upload_is_uploaded_again() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    for action in [Action::Blank, Action::Reset, Action::status(500)] {
        let (draft, files) = draft_with_file("Sunset", b"bytes");
        sandbox.script(Fault::once(Route::Submit, action).after_accept());
        assert_eq!(
            word(&publish(&*publisher, &draft, &files).await),
            "unavailable"
        );
        assert_eq!(
            word(&publish(&*publisher, &draft, &files).await),
            "accepted"
        );
    }
    assert_eq!(
        sandbox.ledger("Sunset")[0].count,
        3,
        "three publications, three posts"
    );
}

/// A damaged file never becomes an item.
#[tokio::test]
async fn a_file_that_changed_since_it_was_stored_is_not_uploaded() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    for damaged in [&b"BYTES"[..], b"byte", b"bytes and more", b""] {
        let (draft, mut files) = draft_with_file("Sunset", b"bytes");
        files.damage(&draft.assets[0], damaged);
        let error = publish(&*publisher, &draft, &files)
            .await
            .expect_err("damaged");
        assert_eq!(error.kind(), "unavailable", "{damaged:?}: {error}");
        assert!(error.to_string().contains("the stored file"), "{error}");
    }
    let (draft, _) = draft_with_file("Sunset", b"bytes");
    let gone = publish(&*publisher, &draft, &crate::support::Files::default()).await;
    assert_eq!(word(&gone), "rejected");
}

/// Everything is checked before anything is sent.
#[tokio::test]
async fn bad_options_are_refused_by_name_before_anything_is_sent() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    let cases = [
        (json!({"is_matur": true}), "is_matur"),
        (json!({"is_mature": "maybe"}), "is_mature"),
        (json!({"is_mature": true}), "mature_level"),
        (json!({"mature_level": "strict"}), "is_mature"),
        (json!({"mature_classification": ["gore"]}), "is_mature"),
        (
            json!({"is_mature": true, "mature_level": "extreme"}),
            "mature_level",
        ),
        (
            json!({"is_mature": true, "mature_level": "strict", "mature_classification": "fun"}),
            "mature_classification",
        ),
        (json!({"display_resolution": 9}), "display_resolution"),
        (json!({"display_resolution": -1}), "display_resolution"),
        (json!({"sharing": "everybody"}), "sharing"),
        (json!({"galleryids": ["not-a-uuid"]}), "galleryids"),
        (
            json!({"license_options": {"commercial": "yes"}}),
            "creative_commons",
        ),
        (json!({"license_options": {"modify": "maybe"}}), "modify"),
        (json!({"license_options": "cc"}), "license_options"),
        (json!({"groups": [1]}), "groups"),
        (json!({"noai": 1}), "noai"),
    ];
    for (options, named) in cases {
        let (mut draft, files) = draft_with_file("Sunset", b"bytes");
        draft.options = object(options.clone());
        let error = publisher.validate(&draft).expect_err("refused");
        assert_eq!(error.kind(), "rejected", "{options}");
        assert!(error.to_string().contains(named), "{options}: {error}");
        assert_eq!(
            word(&publish(&*publisher, &draft, &files).await),
            "rejected",
            "{options}"
        );
    }
    let no_file = draft("Sunset");
    let (no_title, _) = draft_with_file(" ", b"bytes");
    let (mut two_files, mut files) = draft_with_file("Sunset", b"bytes");
    two_files.assets.push(files.add("b.png", b"b"));
    for draft in [no_file, no_title, two_files] {
        assert_eq!(word(&publisher.validate(&draft)), "rejected", "{draft:?}");
    }
    assert!(sandbox.requests(None).is_empty());
}

/// All options at once, as text and as JSON.
#[tokio::test]
async fn good_options_are_accepted_as_text_and_as_json() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    let gallery = "7f3b5a2c-0000-4000-8000-000000000001";
    let json_options = json!({
        "is_mature": true, "mature_level": "strict", "mature_classification": ["nudity", "gore"],
        "agree_submission": true, "agree_tos": true, "feature": false, "allow_comments": true,
        "display_resolution": 0, "sharing": "allow", "galleryids": [gallery],
        "license_options": {"creative_commons": true, "commercial": "no", "modify": "share"},
        "allow_free_download": false, "add_watermark": true, "groups": ["g"],
        "is_ai_generated": false, "noai": true, "original_url": "https://a.example/",
        "is_dirty": false, "stack": "Drafts",
    });
    let text_options = json!({
        "is_mature": "true", "mature_level": "moderate", "mature_classification": "nudity,gore",
        "display_resolution": "8", "galleryids": gallery, "noai": "true",
    });
    for options in [json_options, text_options, json!({})] {
        let (mut draft, files) = draft_with_file("Sunset", b"bytes");
        draft.options = object(options);
        assert_eq!(
            word(&publish(&*publisher, &draft, &files).await),
            "accepted"
        );
    }
}

/// The platform's refusals reach people in words.
#[tokio::test]
async fn a_refusal_says_why() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    let (mut draft, files) = draft_with_file("Sunset", b"bytes");
    draft.options = object(json!({ "agree_tos": false }));
    let error = publish(&*publisher, &draft, &files)
        .await
        .expect_err("refused");
    assert_eq!(error.kind(), "rejected");
    assert!(error.to_string().contains("terms of service"), "{error}");
}

/// CHAN-2: the platform's limit is a wait, wherever it hits.
#[tokio::test]
async fn a_rate_limit_is_met_by_waiting() {
    let sandbox = sandbox().await;
    let publisher = deviantart(&sandbox);
    for requests in 0..3 {
        sandbox.limit_deviantart(Some(requests));
        let (draft, files) = draft_with_file("Sunset", b"bytes");
        assert_eq!(
            word(&publish(&*publisher, &draft, &files).await),
            "rate_limited"
        );
    }
    sandbox.limit_deviantart(None);
    let (draft, files) = draft_with_file("Sunset", b"bytes");
    assert_eq!(
        word(&publish(&*publisher, &draft, &files).await),
        "accepted"
    );
}

/// `channel test`.
#[tokio::test]
async fn a_test_says_who_we_are_and_publishes_nothing() {
    let sandbox = sandbox().await;
    let who = deviantart(&sandbox).test(&call()).await.expect("logged in");
    assert_eq!(who, "logged in to DeviantArt as sandbox");
    assert_eq!(sandbox.summary().posts, 0);
}
