//! A worker process that only locks: it waits for a line on stdin, recovers, claims one channel
//! until nothing is left, renews what it got, and prints what happened.
//!
//! `claimer URL CHANNEL LIMIT`

use std::io::{BufRead, stdin};
use std::time::Duration;

use anyhow::{Context, Result};
use uuid::Uuid;
use worker::database::Database;
use worker::locks::{Batch, Lease, Locks, Policy};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().context("claimer URL CHANNEL LIMIT");
    let (url, channel_id, limit) = (next()?, next()?.parse()?, next()?.parse()?);
    let locks = Locks::new(
        Database::connect(&url, 1).await?,
        Uuid::new_v4(),
        Policy::default(),
    );
    let batch = Batch {
        channel_id,
        limit,
        lease: Duration::from_secs(60),
        mark: None,
        probe: false,
    };
    println!("ready");
    stdin().lock().read_line(&mut String::new())?;

    println!("clock {}", chrono::Utc::now().to_rfc3339());
    let recovered = locks.recover_stale().await?;
    println!("recovered {}", recovered.locks_cleaned);
    let mut leases: Vec<Lease> = Vec::new();
    loop {
        let claims = locks.claim(batch).await?;
        if claims.is_empty() {
            break;
        }
        for claim in claims {
            let lock = claim.lock();
            println!("claimed {} {}", lock.publication_id, lock.version);
            leases.push(claim.lease().clone());
        }
    }
    let renewal = locks.renew(&leases).await?;
    println!("renewed {} lost {}", renewal.renewed, renewal.lost.len());
    Ok(())
}
