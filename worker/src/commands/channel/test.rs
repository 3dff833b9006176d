//! `punctual channel test`.

use api_client::Call;
use clap::Args;
use serde_json::json;

use super::view;
use crate::commands::store::Store;
use crate::commands::{GlobalFlags, Refusal, SettingFlags, output};

/// Calls the platform for real and publishes nothing
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel test blog")]
pub(in crate::commands) struct TestArgs {
    /// The channel
    name: String,

    /// Print an object for programs: channel, guarantee, answer
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: TestArgs) -> Result<(), Refusal> {
    // A refused token is refreshed and stored: this command may write.
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let tested = test(&store, &args).await;
    store.close().await;
    tested
}

async fn test(store: &Store, args: &TestArgs) -> Result<(), Refusal> {
    let row = super::find(&store.db, &args.name).await?;
    let book = store.book()?;
    let channel = book
        .open(row)
        .map_err(|error| Refusal::Failed(format!("channel {}: {error}", args.name)))?;
    let call = Call::within(store.settings.request_timeout);
    let answer = channel
        .publisher
        .test(&call)
        .await
        .map_err(|error| Refusal::Failed(format!("channel {}: {error}", args.name)))?;
    let guarantee = channel.publisher.guarantee();
    for warning in channel.publisher.warnings() {
        output::note(format!("warning: {warning}"));
    }
    if args.json {
        return output::json(&json!({
            "channel": args.name,
            "guarantee": guarantee.kind(),
            "answer": answer,
        }));
    }
    output::line(format!("{}: {answer}", args.name))?;
    output::line(view::meaning(guarantee))
}
