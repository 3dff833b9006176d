//! `punctual channel add`.

use std::time::Duration;

use api_client::{ChannelConfig, Credentials, Publisher};
use clap::Args;
use entity::channel;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;

use super::credentials;
use super::view::{self, ChannelView};
use crate::acts::is_duplicate;
use crate::channels::seal_credentials;
use crate::commands::store::{Store, key_variable};
use crate::commands::{GlobalFlags, Refusal, SettingFlags, arguments, output, pairs};
use crate::seal::Sealer;

/// The longest name, so that tables and messages stay readable.
const LONGEST_NAME: usize = 100;

/// Adds an account on a platform
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual channel add blog --kind webhook --url https://example.org/hook \\
      --set dedupes=true --credential secret=@secret.txt
  punctual channel add art --kind deviantart --set client_id=12345 \\
      --credential client_secret=env:DA_SECRET --min-interval 2s
  punctual channel login art

Settings of webhook: dedupes, lookup_url, allow_http, inline_limit; credential: secret (whsec_…)
Settings of deviantart: client_id, replay, allow_http; credential: client_secret

A credential is sealed before it is stored, and never shown again.")]
pub(in crate::commands) struct AddArgs {
    /// What to call it
    name: String,

    /// The platform: webhook or deviantart
    #[arg(long)]
    kind: String,

    /// The platform's address, where the kind has no fixed one
    #[arg(long)]
    url: Option<String>,

    /// A setting of the kind; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,

    /// A secret of the kind: KEY=@FILE or KEY=env:VARIABLE; KEY=VALUE shows in the process list
    #[arg(long = "credential", value_name = "KEY=…")]
    credentials: Vec<String>,

    /// The least time between two posts, over all workers
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration)]
    min_interval: Option<Duration>,

    /// How many of its posts one worker may have in flight
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = arguments::small_count
    )]
    max_in_flight: Option<i32>,

    /// A lease of its own, where the setting does not fit
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration)]
    lease: Option<Duration>,

    /// Print the channel as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: AddArgs) -> Result<(), Refusal> {
    // Everything that can be wrong is found before anything is created.
    let settings = globals.settings(&SettingFlags::default())?;
    check_name(&args.name)?;
    let kind_settings = pairs::object("--set", &args.settings)?;
    let (credentials, exposed) = credentials::read(&args.credentials)?;
    let publisher = open(&args, &kind_settings, &credentials)?;
    if let Some(lease) = args.lease {
        // BEAT-2: a channel's own lease is held to the same rules as the setting.
        settings.check_lease(lease, &format!("lease of channel {:?}", args.name))?;
    }

    if credentials.keys().next().is_some() {
        Sealer::load(key_variable().as_deref(), &settings.data_dir)?;
    }

    let id = Uuid::now_v7();
    let mut row = channel::ActiveModel {
        id: Set(id),
        name: Set(args.name.clone()),
        kind: Set(args.kind.clone()),
        base_url: Set(args.url.clone()),
        settings: Set(Value::Object(kind_settings)),
        lease_ms: Set(args.lease.map(millis)),
        min_interval_ms: Set(args.min_interval.map_or(0, millis)),
        max_in_flight: Set(args.max_in_flight),
        ..Default::default()
    };
    let store = Store::or_create(settings).await?;
    let added = async {
        refuse_taken(&store, &args.name).await?;
        if credentials.keys().next().is_some() {
            let sealer =
                Sealer::load_or_create(key_variable().as_deref(), &store.settings.data_dir)?;
            row.credentials = Set(Some(seal_credentials(&sealer, id, &credentials)?));
            row.credentials_version = Set(1);
        }
        insert(&store, row).await
    }
    .await;
    store.close().await;
    let added = added?;
    for key in exposed {
        output::note(format!(
            "warning: the credential {key} was visible in the process list; \
             {key}=@FILE or {key}=env:VARIABLE is not"
        ));
    }
    report(&added, publisher.as_ref(), args.json)
}

fn open(
    args: &AddArgs,
    settings: &Map<String, Value>,
    credentials: &Credentials,
) -> Result<Arc<dyn Publisher>, Refusal> {
    view::open(ChannelConfig {
        name: args.name.clone(),
        kind: args.kind.clone(),
        base_url: args.url.clone(),
        settings: settings.clone(),
        credentials: credentials.clone(),
        token_store: None,
        http: view::http()?,
    })
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn check_name(name: &str) -> Result<(), Refusal> {
    let fits = !name.is_empty()
        && name.trim() == name
        && name.chars().count() <= LONGEST_NAME
        && !name.chars().any(char::is_control);
    if fits {
        return Ok(());
    }
    Err(Refusal::Input(format!(
        "{name:?} is not a name for a channel; it takes 1 to {LONGEST_NAME} characters on one \
         line, without spaces around them"
    )))
}

/// Before a key is made for a channel that cannot be added.
async fn refuse_taken(store: &Store, name: &str) -> Result<(), Refusal> {
    let taken = channel::Entity::find()
        .filter(channel::Column::Name.eq(name))
        .one(store.db.work())
        .await?;
    taken.map_or(Ok(()), |_| Err(name_taken(name)))
}

fn name_taken(name: &str) -> Refusal {
    Refusal::Conflict(format!(
        "there is a channel {name:?} already; choose another name, or remove it first"
    ))
}

async fn insert(store: &Store, row: channel::ActiveModel) -> Result<channel::Model, Refusal> {
    let name = row.name.clone().unwrap();
    match channel::Entity::insert(row)
        .exec_with_returning(store.db.work())
        .await
    {
        Ok(row) => Ok(row),
        Err(error) if is_duplicate(&error) => Err(name_taken(&name)),
        Err(error) => Err(error.into()),
    }
}

fn report(row: &channel::Model, publisher: &dyn Publisher, json: bool) -> Result<(), Refusal> {
    for warning in publisher.warnings() {
        output::note(format!("warning: {warning}"));
    }
    if json {
        return output::json(&ChannelView::new(row));
    }
    output::line(format!(
        "added channel {} ({}), {}",
        row.name,
        row.kind,
        view::meaning(publisher.guarantee())
    ))
}
