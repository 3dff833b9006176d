//! `punctual channel login`: OAuth's code flow with a redirect to this machine.

use std::time::Duration;

use api_client::{Call, ChannelConfig, TokenStore, Tokens, deviantart};
use clap::Args;
use entity::channel;
use tokio::net::TcpListener;
use url::Url;

use super::redirect::{self, Answer};
use super::view;
use crate::acts::{Acts, Resumed};
use crate::channels::{SealedTokens, open_credentials};
use crate::commands::store::{Store, key_variable};
use crate::commands::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::seal::Keyring;
use crate::settings::show_duration;

/// Where the platform sends the person back to. Platforms compare it letter by letter with what is
/// registered, so it does not change from login to login.
const PORT: u16 = 8182;

/// Logs in to a channel's platform with a browser
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel login art
  punctual channel login art --port 9000 --timeout 10m

Register http://127.0.0.1:8182/callback (or your --port) as a redirect address of the application.")]
pub(in crate::commands) struct LoginArgs {
    /// The channel
    name: String,

    /// The port on 127.0.0.1 that the platform sends you back to; 0 picks a free one
    #[arg(long, default_value_t = PORT)]
    port: u16,

    /// How long to wait for you
    #[arg(long, default_value = "5m", value_name = "DURATION", value_parser = arguments::duration)]
    timeout: Duration,
}

pub(super) async fn run(globals: GlobalFlags, args: LoginArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let done = login(&store, &args).await;
    store.close().await;
    done
}

async fn login(store: &Store, args: &LoginArgs) -> Result<(), Refusal> {
    let row = super::find(&store.db, &args.name).await?;
    if row.kind != deviantart::KIND {
        return Err(Refusal::Input(format!(
            "channel {} is of kind {}, which has no login; deviantart has one",
            row.name, row.kind
        )));
    }
    let keyring = Keyring::load_or_create(key_variable().as_deref(), &store.settings.data_dir)?;
    let config = ChannelConfig {
        name: row.name.clone(),
        kind: row.kind.clone(),
        base_url: row.base_url.clone(),
        settings: row.settings.as_object().cloned().unwrap_or_default(),
        credentials: open_credentials(&keyring, row.id, row.credentials.as_deref())?,
        token_store: None,
        http: view::http()?,
    };
    let tokens = ask(store, &config, args.port, args.timeout).await?;
    keep(store, keyring, &row, &tokens).await?;
    output::line(format!("logged in to {}", row.name))?;
    let acts = Acts::new(store.db.clone());
    match acts.resume_after_login(row.id).await? {
        Resumed::Now { due } => output::line(format!(
            "resumed {}; {due} publications are due now",
            row.name
        )),
        Resumed::NotPaused if row.paused_at.is_some() => {
            output::note(format!(
                "the channel is paused; `punctual channel resume {}` lets it publish again",
                row.name
            ));
            Ok(())
        }
        Resumed::NotPaused => Ok(()),
    }
}

/// Sends the person to the platform and waits for the answer.
async fn ask(
    store: &Store,
    config: &ChannelConfig,
    port: u16,
    timeout: Duration,
) -> Result<Tokens, Refusal> {
    let failed =
        |error: &dyn std::fmt::Display| Refusal::Failed(format!("the login failed: {error}"));
    let listener = TcpListener::bind(("127.0.0.1", port))
        .await
        .map_err(|error| {
            Refusal::Failed(format!(
                "cannot listen on 127.0.0.1:{port}: {error}; choose another with --port"
            ))
        })?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    let redirect_uri =
        Url::parse(&format!("http://{address}/callback")).map_err(|error| failed(&error))?;
    let login = deviantart::Login::begin(config, redirect_uri)
        .map_err(|error| Refusal::Input(error.to_string()))?;
    let authorize = login.authorize_url();
    let state = authorize
        .query_pairs()
        .find_map(|(key, value)| (key == "state").then(|| value.into_owned()))
        .unwrap_or_default();
    output::line("Open this address in your browser and agree:")?;
    output::line(authorize.as_str())?;
    let answer = tokio::time::timeout(timeout, redirect::wait(&listener, &state)).await;
    match answer {
        Err(_) => Err(Refusal::Failed(format!(
            "nobody came back from the platform within {}; run the command again",
            show_duration(timeout)
        ))),
        Ok(Err(error)) => Err(failed(&error)),
        Ok(Ok(Answer::Refused(why))) => Err(failed(&format!("the platform said {why:?}"))),
        Ok(Ok(Answer::Code(code))) => {
            let call = Call::within(store.settings.request_timeout);
            login
                .finish(&state, &code, &call)
                .await
                .map_err(|error| failed(&error))
        }
    }
}

/// Stores the tokens over whatever is there: a refresh that ends at the same moment has the tokens
/// of an older login.
async fn keep(
    store: &Store,
    keyring: Keyring,
    row: &channel::Model,
    tokens: &Tokens,
) -> Result<(), Refusal> {
    let stored = SealedTokens::new(store.db.clone(), keyring, row.id);
    let failed = |error| Refusal::Failed(format!("the login was not stored: {error}"));
    loop {
        let version = stored.load().await.map_err(failed)?.version;
        let kept = stored.compare_and_set(version, tokens).await;
        if kept.map_err(failed)?.is_some() {
            return Ok(());
        }
    }
}
