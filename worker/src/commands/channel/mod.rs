//! `punctual channel`: accounts on platforms.

mod add;
mod credentials;
mod list;
mod login;
mod pause;
mod redirect;
mod remove;
mod show;
mod test;
mod view;

use clap::Subcommand;
use entity::channel;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{GlobalFlags, Refusal};
use crate::database::Database;
use crate::settings::suggest::nearest;
pub(super) use view::{ChannelView, http, meaning, state};

/// Accounts on platforms
#[derive(Subcommand, Debug)]
pub(super) enum ChannelCommand {
    Add(add::AddArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Test(test::TestArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Remove(remove::RemoveArgs),
    Login(login::LoginArgs),
}

pub(super) async fn run(globals: GlobalFlags, command: ChannelCommand) -> Result<(), Refusal> {
    match command {
        ChannelCommand::Add(args) => add::run(globals, args).await,
        ChannelCommand::List(args) => list::run(globals, args).await,
        ChannelCommand::Show(args) => show::run(globals, args).await,
        ChannelCommand::Test(args) => test::run(globals, args).await,
        ChannelCommand::Pause(args) => pause::pause(globals, args).await,
        ChannelCommand::Resume(args) => pause::resume(globals, args).await,
        ChannelCommand::Remove(args) => remove::run(globals, args).await,
        ChannelCommand::Login(args) => login::run(globals, args).await,
    }
}

/// The channel of this name, or a refusal that names the nearest one.
pub(super) async fn find(db: &Database, name: &str) -> Result<channel::Model, Refusal> {
    let found = channel::Entity::find()
        .filter(channel::Column::Name.eq(name))
        .one(db.work())
        .await?;
    match found {
        Some(channel) => Ok(channel),
        None => Err(unknown(db, name).await?),
    }
}

/// The refusal of a name that no channel has.
pub(super) async fn unknown(db: &Database, name: &str) -> Result<Refusal, Refusal> {
    let names: Vec<String> = channel::Entity::find()
        .select_only()
        .column(channel::Column::Name)
        .order_by_asc(channel::Column::Name)
        .into_tuple()
        .all(db.work())
        .await?;
    let known = match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near:?}?"),
        None if names.is_empty() => "`punctual channel add` makes one".to_owned(),
        None => format!("the channels are: {}", names.join(", ")),
    };
    Ok(Refusal::NotFound(format!(
        "there is no channel {name:?}; {known}"
    )))
}
