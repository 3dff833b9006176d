//! Delivering for as long as the worker runs, to whichever address the settings name.

use std::sync::Arc;

use api_client::HttpClient;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::deliver::Deliverer;
use super::receiver::Receiver;
use crate::database::Database;
use crate::reload;
use crate::settings::Settings;

/// Delivers to the receiver of the settings, whichever that is after a reload, until `stop`.
/// Without a `notify_url` nothing is sent, and events just stay.
pub async fn keep_delivering(
    settings: watch::Receiver<Arc<Settings>>,
    db: Database,
    http: HttpClient,
    wake: Arc<Notify>,
    stop: CancellationToken,
) {
    let same = |old: &Settings, new: &Settings| {
        same_text(&old.notify_url, &new.notify_url)
            && same_text(&old.notify_secret, &new.notify_secret)
    };
    reload::with_settings(settings, stop, same, |settings, until| {
        let (db, http, wake) = (db.clone(), http.clone(), wake.clone());
        async move {
            match Receiver::of(&settings, http) {
                Ok(Some(receiver)) => {
                    if !receiver.is_signed() {
                        warn!("events are posted unsigned: there is no notify_secret");
                    }
                    Deliverer::new(db, receiver).run(&wake, &until).await;
                }
                Ok(None) => {}
                Err(error) => warn!(%error, "events are not posted"),
            }
        }
    })
    .await;
}

fn same_text(one: &Option<SecretString>, other: &Option<SecretString>) -> bool {
    one.as_ref().map(ExposeSecret::expose_secret) == other.as_ref().map(ExposeSecret::expose_secret)
}
