//! WORK-7: no worker dies silently.

use std::time::Duration;

use ::entity::worker as row;
use anyhow::{Context, Result};
use sea_orm::EntityTrait;
use uuid::Uuid;
use worker::workers::{Identity, note_deaths};

use super::House;
use super::house::OLD;
use crate::support::{TestDb, on_both_engines};

on_both_engines!(
    a_worker_registers_is_seen_and_stops,
    a_worker_unseen_for_a_lease_is_declared_dead_once,
    who_stopped_or_was_just_seen_is_not_dead,
    nobody_declares_itself_dead,
    a_worker_that_comes_back_can_die_again,
    a_worker_whose_row_was_pruned_is_known_again,
);

const LEASE: Duration = Duration::from_secs(60);

impl House {
    async fn worker(&self, id: Uuid) -> Result<row::Model> {
        row::Entity::find_by_id(id)
            .one(self.db.db())
            .await?
            .context("the worker has a row")
    }

    async fn vanish(&self, identity: &Identity) -> Result<()> {
        let id = self.db.literal(identity.id);
        let sql = format!("UPDATE worker SET last_seen_at = '{OLD}' WHERE id = {id}");
        self.db.execute(&sql).await?;
        Ok(())
    }

    async fn deaths(&self) -> Result<usize> {
        let deaths = note_deaths(self.database.work(), Uuid::new_v4(), LEASE).await?;
        Ok(deaths.len())
    }
}

async fn a_worker_registers_is_seen_and_stops(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let identity = Identity::fresh();
    identity.register(house.database.work()).await?;
    let row = house.worker(identity.id).await?;
    assert_eq!(row.host, identity.host);
    assert_eq!(row.pid, i64::from(std::process::id()));
    assert_eq!((row.stopped_at, row.declared_dead_at), (None, None));

    house.vanish(&identity).await?;
    identity.seen(house.database.heartbeat()).await?;
    let seen = house.worker(identity.id).await?;
    assert!(seen.last_seen_at >= row.started_at);

    identity.stopped(house.database.work()).await?;
    assert!(house.worker(identity.id).await?.stopped_at.is_some());
    Ok(())
}

/// WORK-7: logged and counted once, however many others look.
async fn a_worker_unseen_for_a_lease_is_declared_dead_once(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let dead = [Identity::fresh(), Identity::fresh()];
    for identity in &dead {
        identity.register(house.database.work()).await?;
        house.vanish(identity).await?;
    }
    let mut looking = Vec::new();
    for _ in 0..5 {
        let db = house.database.clone();
        looking.push(tokio::spawn(async move {
            note_deaths(db.work(), Uuid::new_v4(), LEASE).await
        }));
    }
    let mut found = Vec::new();
    for look in looking {
        found.extend(look.await??.into_iter().map(|death| death.id));
    }
    found.sort();
    let mut expected = dead.map(|identity| identity.id);
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(house.deaths().await?, 0, "never again");
    Ok(())
}

async fn who_stopped_or_was_just_seen_is_not_dead(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let (stopped, alive) = (Identity::fresh(), Identity::fresh());
    for identity in [&stopped, &alive] {
        identity.register(house.database.work()).await?;
    }
    stopped.stopped(house.database.work()).await?;
    house.vanish(&stopped).await?;
    assert_eq!(house.deaths().await?, 0);
    Ok(())
}

/// WORK-7: by the others. A worker that looks is alive, whatever its row says.
async fn nobody_declares_itself_dead(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let identity = Identity::fresh();
    identity.register(house.database.work()).await?;
    house.vanish(&identity).await?;
    let deaths = note_deaths(house.database.work(), identity.id, LEASE).await?;
    assert_eq!(deaths, Vec::new());
    Ok(())
}

async fn a_worker_that_comes_back_can_die_again(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let identity = Identity::fresh();
    identity.register(house.database.work()).await?;
    for _ in 0..2 {
        house.vanish(&identity).await?;
        assert_eq!(house.deaths().await?, 1);
        identity.seen(house.database.heartbeat()).await?;
        assert_eq!(house.deaths().await?, 0);
    }
    Ok(())
}

async fn a_worker_whose_row_was_pruned_is_known_again(db: TestDb) -> Result<()> {
    let house = House::on(db).await?;
    let identity = Identity::fresh();
    identity.seen(house.database.heartbeat()).await?;
    assert_eq!(house.worker(identity.id).await?.version, identity.version);
    Ok(())
}
