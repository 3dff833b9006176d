//! CHAN-4: secrets are in no log.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use tracing::subscriber::set_default;
use uuid::Uuid;
use worker::settings::LogFormat;
use worker::telemetry::log_to;

use super::notices::SECRET;
use super::{House, Mailbox};
use crate::support::TestDb;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One thread, so that everything the delivery does is logged here.
#[tokio::test]
async fn neither_the_address_nor_the_secret_of_notices_is_logged() -> Result<()> {
    let (house, mailbox) = (
        House::on(TestDb::sqlite().await?).await?,
        Mailbox::open().await?,
    );
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = log_to(
        move || writer.clone(),
        LogFormat::Text,
        false,
        Some("trace"),
        Some(Uuid::nil()),
    )?;
    let logging = set_default(subscriber);
    for answer in [500, 422, 200] {
        house.add_event(0).await?;
        mailbox.answer(&[answer]);
        let deliverer = house.deliverer(&mailbox.url())?;
        tracing::info!(?deliverer, pass = ?deliverer.deliver().await);
        house.db.execute("DELETE FROM processing_lock").await?;
    }
    house.add_event(0).await?;
    let nobody = house.deliverer("http://127.0.0.1:9/tok3n")?;
    tracing::info!(pass = ?nobody.deliver().await);
    drop(logging);
    let bytes = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("an event was not taken"), "{text}");
    for secret in ["tok3n", SECRET, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        assert!(!text.contains(secret), "{secret} is in\n{text}");
    }
    Ok(())
}
