//! What `punctual events` lists and follows.

use anyhow::Result;
use entity::EventKind;
use uuid::Uuid;
use worker::notices::{EventFilter, Follow, Notice, append_channel_event, list_events};

use super::House;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    events_are_listed_oldest_first_with_the_latest_kept,
    a_follower_gets_each_event_once,
    an_event_that_was_written_slowly_is_not_passed_over,
    an_event_of_an_unknown_kind_is_listed_too,
);

fn ids(notices: &[Notice]) -> Vec<Uuid> {
    notices.iter().map(|notice| notice.id).collect()
}

async fn events_are_listed_oldest_first_with_the_latest_kept(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let mut events = Vec::new();
    for minutes in [9, 8, 7, 6] {
        events.push(house.add_event(minutes).await?);
    }
    let channel = house.db.add_channel().await?;
    append_channel_event(house.db.db(), channel, EventKind::Paused, "gone").await?;
    let mut filter = EventFilter {
        kinds: vec![EventKind::Disconnected],
        ..EventFilter::default()
    };
    assert_eq!(ids(&list_events(house.db.db(), &filter).await?), events);
    filter.limit = Some(2);
    let latest = list_events(house.db.db(), &filter).await?;
    assert_eq!(ids(&latest), events[2..]);
    filter.since = Some(latest[1].created_at);
    assert_eq!(
        ids(&list_events(house.db.db(), &filter).await?),
        events[3..]
    );
    let all = list_events(house.db.db(), &EventFilter::default()).await?;
    assert_eq!(all.len(), 5);
    assert_eq!(all[4].channel, Some(channel.to_string()));
    Ok(())
}

async fn a_follower_gets_each_event_once(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    house.add_event(0).await?;
    let mut follow = Follow::from_now(house.db.db(), EventFilter::default()).await?;
    assert_eq!(follow.next(house.db.db()).await?, Vec::new());
    // More than one page.
    let channel = house.db.add_channel().await?;
    for _ in 0..250 {
        append_channel_event(house.db.db(), channel, EventKind::Paused, "").await?;
    }
    assert_eq!(follow.next(house.db.db()).await?.len(), 250);
    assert_eq!(follow.next(house.db.db()).await?, Vec::new());
    append_channel_event(house.db.db(), channel, EventKind::Disconnected, "").await?;
    assert_eq!(follow.next(house.db.db()).await?.len(), 1);
    Ok(())
}

/// Its instant is that of the statement, and others may have been committed before it.
async fn an_event_that_was_written_slowly_is_not_passed_over(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let mut follow = Follow::from_now(house.db.db(), EventFilter::default()).await?;
    let channel = house.db.add_channel().await?;
    append_channel_event(house.db.db(), channel, EventKind::Paused, "").await?;
    assert_eq!(follow.next(house.db.db()).await?.len(), 1);
    let slow = house.add_event(0).await?;
    let second_ago = chrono::Utc::now() - chrono::TimeDelta::seconds(1);
    let sql = format!(
        "UPDATE event SET created_at = '{}' WHERE id = {}",
        second_ago.to_rfc3339(),
        house.db.literal(slow)
    );
    house.db.execute(&sql).await?;
    assert_eq!(ids(&follow.next(house.db.db()).await?), [slow]);
    Ok(())
}

/// An app may write events of its own.
async fn an_event_of_an_unknown_kind_is_listed_too(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    house.add_event(0).await?;
    house.db.execute("UPDATE event SET kind = 'lunch'").await?;
    let all = list_events(house.db.db(), &EventFilter::default()).await?;
    assert_eq!(all[0].kind, "lunch");
    Ok(())
}
