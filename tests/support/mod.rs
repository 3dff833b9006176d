//! What the tests stand on: real databases, fresh for each test, and the real commands.

mod commands;
mod database;
pub(crate) mod postgres;
mod proxy;
mod real_worker;
mod rows;

pub(crate) use commands::{Finished, migration};
pub(crate) use database::{Engine, TestDb};
pub(crate) use proxy::Proxy;
pub(crate) use real_worker::{RealWorker, punctual};

/// Turns functions of the shape `async fn name(db: TestDb) -> anyhow::Result<()>` into two tests
/// each, `name::sqlite` and `name::postgres`. A function that is not listed is dead code, which
/// the compiler reports.
macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use $crate::support::TestDb;

            #[tokio::test(flavor = "multi_thread")]
            async fn sqlite() -> anyhow::Result<()> {
                super::$name(TestDb::sqlite().await?).await
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn postgres() -> anyhow::Result<()> {
                super::$name(TestDb::postgres().await?).await
            }
        }
    )+};
}
pub(crate) use on_both_engines;
