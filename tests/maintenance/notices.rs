//! Events posted to `notify_url`: signed, oldest first, retried, by one deliverer at a time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use api_client::{HttpClient, HttpOptions};
use axum::http::HeaderMap;
use chrono::{TimeDelta, Utc};
use entity::EventKind;
use standardwebhooks::Webhook;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use worker::notices::{
    Deliverer, Pass, Receiver, ReceiverError, Refusal, append_channel_event, keep_delivering,
};

use super::{House, Mailbox};
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    notices_are_signed_after_the_convention,
    notices_go_oldest_first_and_once,
    a_dead_receiver_costs_nothing_but_time,
    a_notice_that_is_not_wanted_does_not_hold_up_the_others,
    two_deliverers_at_once_deliver_each_event_once,
    while_one_waits_for_a_dead_receiver_the_others_do_not_try,
    what_is_older_than_a_week_is_history,
    a_wake_up_delivers_at_once_and_a_stop_ends_it,
    a_new_address_is_used_after_a_reload,
);

pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(super) fn client() -> Result<HttpClient> {
    Ok(HttpClient::new(HttpOptions {
        system_proxy: false,
        ..HttpOptions::default()
    })?)
}

impl House {
    pub(super) fn deliverer(&self, url: &str) -> Result<Deliverer> {
        let settings = self.settings(&[("notify_url", url), ("notify_secret", SECRET)])?;
        let receiver = Receiver::of(&settings, client()?)?.context("there is a notify_url")?;
        Ok(Deliverer::new(self.database.clone(), receiver))
    }

    /// An event about a channel, `minutes` ago.
    pub(super) async fn add_event(&self, minutes: i64) -> Result<Uuid> {
        let id = Uuid::now_v7();
        let channel = self.db.literal(self.db.add_channel().await?);
        let at = (Utc::now() - TimeDelta::minutes(minutes)).to_rfc3339();
        let sql = format!(
            "INSERT INTO event (id, channel_id, kind, detail, created_at) \
             VALUES ({}, {channel}, 'disconnected', '{{\"reason\": \"refused\"}}', '{at}')",
            self.db.literal(id)
        );
        self.db.execute(&sql).await?;
        Ok(id)
    }

    async fn undelivered(&self) -> Result<i64> {
        self.db.count("event WHERE delivered_at IS NULL").await
    }
}

fn ids(mailbox: &Mailbox) -> Vec<String> {
    mailbox
        .letters()
        .iter()
        .filter_map(|letter| letter.headers.get("webhook-id")?.to_str().ok())
        .map(str::to_owned)
        .collect()
}

/// Verified by another implementation of the convention.
async fn notices_are_signed_after_the_convention(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    let publication = house.old("failed").await?;
    house
        .db
        .execute("UPDATE post SET title = 'Grüße'; DELETE FROM event")
        .await?;
    let channel = house.publication(publication).await?.channel_id;
    append_channel_event(house.db.db(), channel, EventKind::Paused, "too\0 loud").await?;
    let event = format!(
        "INSERT INTO event (id, publication_id, channel_id, kind) VALUES ({}, {}, {}, 'failed')",
        house.db.literal(Uuid::now_v7()),
        house.db.literal(publication),
        house.db.literal(channel)
    );
    house.db.execute(&event).await?;

    let pass = house.deliverer(&mailbox.url())?.deliver().await?;
    assert_eq!(pass, Pass::Delivered(2));
    let letters = mailbox.letters();
    for letter in &letters {
        let mut headers = HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, letter.headers[name].clone());
        }
        Webhook::new(SECRET)?.verify(&letter.body, &headers)?;
    }
    let (about_channel, about_publication) = (letters[0].json()?, letters[1].json()?);
    assert_eq!(about_channel["type"], "channel.paused");
    assert_eq!(about_channel["data"]["detail"]["reason"], "too loud");
    assert_eq!(about_publication["type"], "publication.failed");
    let data = &about_publication["data"];
    assert_eq!(data["title"], "Grüße");
    assert_eq!(data["publicationId"], publication.to_string());
    assert_eq!(data["channel"], channel.to_string());
    assert!(
        about_publication["timestamp"]
            .as_str()
            .is_some_and(|at| at.ends_with('Z'))
    );
    Ok(())
}

async fn notices_go_oldest_first_and_once(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    let mut expected = Vec::new();
    // More than one page, inserted in another order.
    for minutes in (1..=45).rev().map(|n| if n % 2 == 0 { n } else { n + 100 }) {
        expected.push((minutes, house.add_event(minutes).await?.to_string()));
    }
    expected.sort_by_key(|(minutes, _)| -minutes);
    let deliverer = house.deliverer(&mailbox.url())?;
    assert_eq!(deliverer.deliver().await?, Pass::Delivered(45));
    let expected: Vec<String> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids(&mailbox), expected);
    assert_eq!(deliverer.deliver().await?, Pass::Nothing);
    assert_eq!(house.undelivered().await?, 0);
    Ok(())
}

async fn a_dead_receiver_costs_nothing_but_time(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let event = house.add_event(2).await?;
    house.add_event(1).await?;
    let closed = Mailbox::open().await?;
    closed.answer(&[503]);
    let deliverer = house.deliverer(&closed.url())?;
    let pass = deliverer.deliver().await?;
    let Pass::Refused { delivered, refusal } = pass else {
        anyhow::bail!("{pass:?}");
    };
    assert_eq!(delivered, 0);
    assert!(matches!(refusal, Refusal::Down(_)));
    assert_eq!(
        ids(&closed),
        [event.to_string()],
        "the second was not tried"
    );
    assert_eq!(house.undelivered().await?, 2);
    assert_eq!(deliverer.deliver().await?, Pass::Delivered(2), "open again");
    assert_eq!(ids(&closed)[1], event.to_string(), "under the same id");

    house.add_event(1).await?;
    let nobody = house
        .deliverer("http://127.0.0.1:9/tok3n")?
        .deliver()
        .await?;
    assert!(
        matches!(&nobody, Pass::Refused { refusal: Refusal::Down(why), .. } if !why.contains("tok3n")),
        "{nobody:?}"
    );
    Ok(())
}

async fn a_notice_that_is_not_wanted_does_not_hold_up_the_others(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    let unwanted = house.add_event(3).await?;
    house.add_event(2).await?;
    house.add_event(1).await?;
    mailbox.answer(&[422]);
    let deliverer = house.deliverer(&mailbox.url())?;
    let refused = Pass::Refused {
        delivered: 2,
        refusal: Refusal::Unwanted(422),
    };
    assert_eq!(deliverer.deliver().await?, refused);
    assert_eq!(deliverer.deliver().await?, Pass::Delivered(1));
    assert_eq!(ids(&mailbox)[3], unwanted.to_string());
    Ok(())
}

async fn two_deliverers_at_once_deliver_each_event_once(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    for _ in 0..30 {
        house.add_event(1).await?;
    }
    let other = House::on_same(&house).await?;
    let (one, two) = (
        house.deliverer(&mailbox.url())?,
        other.deliverer(&mailbox.url())?,
    );
    while house.undelivered().await? > 0 {
        tokio::try_join!(one.deliver(), two.deliver())?;
    }
    let mut ids = ids(&mailbox);
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), mailbox.letters().len()), (30, 30));
    Ok(())
}

async fn while_one_waits_for_a_dead_receiver_the_others_do_not_try(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    house.add_event(1).await?;
    mailbox.answer(&[500]);
    let (one, two) = (
        house.deliverer(&mailbox.url())?,
        house.deliverer(&mailbox.url())?,
    );
    assert!(matches!(one.deliver().await?, Pass::Refused { .. }));
    assert_eq!(two.deliver().await?, Pass::Busy);
    assert_eq!(mailbox.letters().len(), 1);
    Ok(())
}

async fn what_is_older_than_a_week_is_history(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    const DAY: i64 = 24 * 60;
    house.add_event(8 * DAY).await?;
    let news = house.add_event(6 * DAY).await?;
    let deliverer = house.deliverer(&mailbox.url())?;
    assert_eq!(deliverer.deliver().await?, Pass::Delivered(1));
    assert_eq!(ids(&mailbox), [news.to_string()]);
    Ok(())
}

async fn until_letters(mailbox: &Mailbox, count: usize) -> Result<()> {
    let arrived = async {
        while mailbox.letters().len() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    Ok(timeout(Duration::from_secs(10), arrived).await?)
}

async fn a_wake_up_delivers_at_once_and_a_stop_ends_it(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    let deliverer = house.deliverer(&mailbox.url())?;
    let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let running = {
        let (wake, stop) = (wake.clone(), stop.clone());
        tokio::spawn(async move { deliverer.run(&wake, &stop).await })
    };
    house.add_event(0).await?;
    wake.notify_one();
    until_letters(&mailbox, 1).await?;
    // A receiver that fails makes it wait with its lock; a stop ends that too.
    mailbox.answer(&[500]);
    house.add_event(0).await?;
    wake.notify_one();
    until_letters(&mailbox, 2).await?;
    stop.cancel();
    timeout(Duration::from_secs(2), running).await??;
    assert_eq!(house.db.count("processing_lock").await?, 0, "given back");
    Ok(())
}

/// WORK-6; and without an address nothing is sent.
async fn a_new_address_is_used_after_a_reload(db: TestDb) -> Result<()> {
    let (house, mailbox) = (House::on(db).await?, Mailbox::open().await?);
    let (reload, settings) = watch::channel(Arc::new(house.settings(&[])?));
    let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let delivering = keep_delivering(
        settings,
        house.database.clone(),
        client()?,
        wake,
        stop.clone(),
    );
    let running = tokio::spawn(delivering);
    house.add_event(0).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(house.undelivered().await?, 1);
    let url = mailbox.url();
    reload.send_replace(Arc::new(house.settings(&[("notify_url", &url)])?));
    until_letters(&mailbox, 1).await?;
    let unsigned = mailbox.letters()[0]
        .headers
        .get("webhook-signature")
        .is_none();
    assert!(unsigned, "there is no secret");
    stop.cancel();
    timeout(Duration::from_secs(2), running).await??;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_secret_is_refused_and_not_shown() -> Result<()> {
    let house = House::on(TestDb::sqlite().await?).await?;
    let bad = [
        ("notify_url", "http://127.0.0.1:9/"),
        ("notify_secret", "hunter2"),
    ];
    let refusal = Receiver::of(&house.settings(&bad)?, client()?).err();
    let refusal = refusal.context("refused")?;
    assert!(matches!(refusal, ReceiverError::Secret));
    assert!(!format!("{refusal} {refusal:?}").contains("hunter2"));
    assert!(Receiver::of(&house.settings(&[])?, client()?)?.is_none());
    Ok(())
}
