//! Work that starts anew when the settings it goes by change (WORK-6).

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::settings::Settings;

/// Runs `work` until `stop`, and anew whenever the settings differ in what it goes by. Its token is
/// cancelled then, and it is waited for.
pub(crate) async fn with_settings<Fut>(
    mut settings: watch::Receiver<Arc<Settings>>,
    stop: CancellationToken,
    same: impl Fn(&Settings, &Settings) -> bool,
    mut work: impl FnMut(Arc<Settings>, CancellationToken) -> Fut,
) where
    Fut: Future<Output = ()>,
{
    while !stop.is_cancelled() {
        let now = settings.borrow_and_update().clone();
        let until = stop.child_token();
        let changed = async {
            let nobody_reloads = settings.wait_for(|new| !same(&now, new)).await.is_err();
            if nobody_reloads {
                stop.cancelled().await;
            }
        };
        tokio::join!(work(now.clone(), until.clone()), async {
            tokio::select! {
                () = changed => until.cancel(),
                () = stop.cancelled() => {}
            }
        });
    }
}
