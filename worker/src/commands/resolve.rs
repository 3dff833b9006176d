//! `punctual resolve`: a person says what became of an unconfirmed publication.

use clap::{ArgGroup, Args};
use entity::{channel, publication};
use sea_orm::EntityTrait;
use url::Url;
use uuid::Uuid;

use super::store::Store;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output};
use crate::acts::{ActError, Acts, Looked};
use crate::channels::Channel;
use crate::locks::{Locks, Policy};
use std::sync::Arc;

/// Says what became of an unconfirmed publication
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("verdict").required(true),
    after_help = "\
Examples:
  punctual resolve 01890a5d-ac96-774b-bcce-b302099a8057 --published https://example.org/posts/7
  punctual resolve 01890a5d-ac96-774b-bcce-b302099a8057 --retry
  punctual resolve 01890a5d-ac96-774b-bcce-b302099a8057 --failed

Look at the platform first. --retry is refused (exit 3) until settling_delay has passed since the
attempt, because the post may still arrive; where the platform can be asked, it is asked once more.
Where it cannot tell, --retry publishes the post again on your word that it is not there."
)]
pub(super) struct ResolveArgs {
    /// The publication's id
    #[arg(value_parser = arguments::id)]
    id: Uuid,

    /// It is live, at this address
    #[arg(long, value_name = "URL", group = "verdict")]
    published: Option<String>,

    /// It is not live: publish it now
    #[arg(long, group = "verdict")]
    retry: bool,

    /// It is not live, and shall not be
    #[arg(long, group = "verdict")]
    failed: bool,
}

pub(super) async fn run(globals: GlobalFlags, args: ResolveArgs) -> Result<(), Refusal> {
    let url = args.published.as_deref().map(address).transpose()?;
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let resolved = resolve(&store, &args, url).await;
    store.close().await;
    output::line(resolved?)
}

fn address(text: &str) -> Result<Url, Refusal> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        _ => Err(Refusal::Input(format!(
            "{text:?} is not an address; --published takes the post's http or https URL"
        ))),
    }
}

async fn resolve(store: &Store, args: &ResolveArgs, url: Option<Url>) -> Result<String, Refusal> {
    let acts = Acts::new(store.db.clone());
    let id = args.id;
    if let Some(url) = url {
        acts.resolve_published(id, url.as_str()).await?;
        return Ok(format!("{id} is published at {url}"));
    }
    if args.failed {
        acts.resolve_failed(id).await?;
        return Ok(format!("{id} has failed"));
    }
    retry(store, &acts, id).await
}

async fn retry(store: &Store, acts: &Acts, id: Uuid) -> Result<String, Refusal> {
    let remaining = acts.settles_in(id, store.settings.settling_delay).await?;
    if !remaining.is_zero() {
        return Err(ActError::TooSoon { id, remaining }.into());
    }
    let channel = channel_of(store, id).await?;
    let again = format!("scheduled {id} again, now");
    if !channel.publisher.can_look_up() {
        acts.resolve_retry(id).await?;
        return Ok(again);
    }
    let locks = Locks::new(
        store.db.clone(),
        Uuid::new_v4(),
        Policy::of(&store.settings),
    );
    match acts.look(id, &channel, &locks, &store.settings).await? {
        Looked::Found { url } => {
            let at = url.map_or_else(String::new, |url| format!(" at {url}"));
            Ok(format!(
                "{id} is published{at}: the platform has it, so it was not retried"
            ))
        }
        Looked::Absent => {
            // A worker may have claimed it by now, which is what was asked for.
            match acts.resolve_absent(id).await {
                Ok(_) | Err(ActError::InProgress { .. } | ActError::WrongState { .. }) => Ok(again),
                Err(error) => Err(error.into()),
            }
        }
        Looked::CannotTell => {
            acts.resolve_retry(id).await?;
            Ok(again)
        }
        Looked::Failed(error) => Err(Refusal::Failed(format!(
            "the platform could not be asked about {id}: {error}; nothing was retried"
        ))),
    }
}

async fn channel_of(store: &Store, id: Uuid) -> Result<Arc<Channel>, Refusal> {
    let (_, row) = publication::Entity::find_by_id(id)
        .find_also_related(channel::Entity)
        .one(store.db.work())
        .await?
        .ok_or(ActError::NotFound { id })?;
    let row =
        row.ok_or_else(|| Refusal::Failed(format!("publication {id} has lost its channel")))?;
    let name = row.name.clone();
    let book = store.book()?;
    book.open(row)
        .map_err(|error| Refusal::Failed(format!("channel {name}: {error}")))
}
