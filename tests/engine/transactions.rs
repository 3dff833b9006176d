//! What the database sees while a platform is being called.

use std::time::Duration;

use anyhow::{Context, Result};
use api_client::Guarantee;
use api_client::sandbox::{Action, Fault, Route};
use sea_orm::ConnectionTrait;

use super::Stage;
use super::scripted::{Act, KIND, Script};
use crate::support::{Engine, TestDb, on_both_engines};

on_both_engines!(
    no_transaction_is_open_while_a_commit_is_on_its_way,
    no_transaction_is_open_while_a_post_is_being_prepared,
);

/// LOCK-3, on every kind of mark.
async fn no_transaction_is_open_while_a_commit_is_on_its_way(db: TestDb) -> Result<()> {
    let stage = Stage::on(db).await?;
    let ids = [
        stage.due(stage.exact().await?).await?,
        stage.due(stage.reconcilable().await?).await?,
    ];
    stage
        .sandbox
        .script(Fault::once(Route::Webhook, Action::Hold).always());
    let worker = stage.real(&[]).await?;
    stage.sandbox.held(2).await;
    others_may_write(&stage).await?;
    stage.sandbox.clear_faults();
    stage.sandbox.release(None);
    stage.all_published_once(&ids).await?;
    worker.stop().await
}

/// LOCK-3.
async fn no_transaction_is_open_while_a_post_is_being_prepared(db: TestDb) -> Result<()> {
    let mut stage = Stage::on(db).await?;
    let script = Script {
        prepare: Act::Wait,
        ..Script::new(Guarantee::AtMostOnce)
    };
    let script = script.register(&mut stage.registry);
    stage.due(stage.own_kind(KIND).await?).await?;
    let worker = stage.start(&[])?;
    script.until(|counts| counts.preparing == 1).await?;
    others_may_write(&stage).await?;
    script.let_go();
    worker.stop().await
}

/// Watches for a second: nobody keeps a transaction open, and others can write at once.
async fn others_may_write(stage: &Stage) -> Result<()> {
    for _ in 0..20 {
        match stage.db.engine() {
            Engine::Postgres => {
                let open = stage.db.statement(
                    "SELECT count(*) AS open, max(query) AS query FROM pg_stat_activity \
                     WHERE datname = current_database() AND xact_start < now() - interval '500 ms' \
                     AND state LIKE 'idle in transaction%'",
                );
                let row = stage.db.db().query_one_raw(open).await?;
                let row = row.context("a count is one row")?;
                let query: Option<String> = row.try_get("", "query")?;
                assert_eq!(row.try_get::<i64>("", "open")?, 0, "after {query:?}");
            }
            Engine::Sqlite => {
                let write = stage.db.add_post();
                tokio::time::timeout(Duration::from_secs(1), write).await??;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
