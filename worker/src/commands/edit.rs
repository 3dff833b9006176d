//! `punctual edit`.

use std::path::PathBuf;

use api_client::Draft;
use clap::Args;
use entity::{channel, publication};
use sea_orm::EntityTrait;
use uuid::Uuid;

use super::interruption::interruption;
use super::schedule::{check_post, check_tags, read_text};
use super::store::Store;
use super::{GlobalFlags, Refusal, SettingFlags, arguments, output, pairs};
use crate::acts::{ActError, Acts, NewPost, StoredFiles, asset_of};
use crate::media::Media;

/// Changes the post of a publication that has not gone out
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual edit 01890a5d-ac96-774b-bcce-b302099a8057 --title 'A better headline'
  punctual edit 01890a5d-ac96-774b-bcce-b302099a8057 --file new.png --tag winter --tag snow

What is not given stays. Tags and files replace the ones before; options are added to them.
A post that other publications share is copied: they keep what they had.")]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(super) struct EditArgs {
    /// The publication's id
    #[arg(value_parser = arguments::id)]
    id: Uuid,

    /// A new headline
    #[arg(long, group = "change")]
    title: Option<String>,

    /// A new text
    #[arg(long, group = "change", conflicts_with = "body_file")]
    body: Option<String>,

    /// A file that holds the new text
    #[arg(long, value_name = "FILE", group = "change")]
    body_file: Option<PathBuf>,

    /// A tag; may be given several times
    #[arg(long = "tag", value_name = "TAG", group = "change")]
    tags: Vec<String>,

    /// Remove all tags
    #[arg(long, group = "change", conflicts_with = "tags")]
    no_tags: bool,

    /// A file to publish; may be given several times
    #[arg(long = "file", value_name = "FILE", group = "change")]
    files: Vec<PathBuf>,

    /// Remove all files
    #[arg(long, group = "change", conflicts_with = "files")]
    no_files: bool,

    /// An option of the platform; may be given several times
    #[arg(long = "set", value_name = "OPTION=VALUE", group = "change")]
    options: Vec<String>,

    /// Remove an option; may be given several times
    #[arg(long = "unset", value_name = "OPTION", group = "change")]
    removed_options: Vec<String>,
}

pub(super) async fn run(globals: GlobalFlags, args: EditArgs) -> Result<(), Refusal> {
    let store = Store::to_change(globals.settings(&SettingFlags::default())?).await?;
    let edited = edit(&store, &args).await;
    store.close().await;
    edited?;
    output::line(format!("edited {}", args.id))
}

async fn edit(store: &Store, args: &EditArgs) -> Result<(), Refusal> {
    let id = args.id;
    let acts = Acts::new(store.db.clone());
    let row = publication::Entity::find_by_id(id)
        .one(store.db.work())
        .await?
        .ok_or(ActError::NotFound { id })?;
    let was = acts.post(row.post_id).await?;
    let mut new = changed(&was, args)?;
    let limit = store.settings.max_file_size;
    if !args.files.is_empty() {
        new.assets.clear();
        for file in &args.files {
            new.assets.push(asset_of(file, limit).await?);
        }
    }
    validate(store, &row, &new).await?;

    let mut files = StoredFiles::new(Media::in_folder(&store.settings.data_dir), limit);
    let written = async {
        if !args.files.is_empty() {
            let stop = interruption()?;
            new.assets.clear();
            for file in &args.files {
                new.assets.push(files.store(file).await?);
                if stop.is_cancelled() {
                    return Err(Refusal::Failed(
                        "interrupted; nothing was changed".to_owned(),
                    ));
                }
            }
        }
        acts.edit(id, &was, &new).await.map_err(Refusal::from)
    }
    .await;
    match written {
        Ok(_) => Ok(files.keep().await?),
        Err(refusal) => {
            files.discard(&store.db).await;
            Err(refusal)
        }
    }
}

fn changed(was: &NewPost, args: &EditArgs) -> Result<NewPost, Refusal> {
    let mut new = was.clone();
    if let Some(title) = &args.title {
        new.title.clone_from(title);
    }
    match (&args.body, &args.body_file) {
        (Some(body), _) => new.body.clone_from(body),
        (None, Some(file)) => new.body = read_text(file)?,
        (None, None) => {}
    }
    if args.no_tags || !args.tags.is_empty() {
        new.tags = check_tags(&args.tags)?;
    }
    if args.no_files {
        new.assets.clear();
    }
    for option in &args.removed_options {
        if new.options.remove(option).is_none() {
            return Err(Refusal::Input(format!(
                "the post has no option {option:?} to remove"
            )));
        }
    }
    new.options.extend(pairs::object("--set", &args.options)?);
    check_post(&new, !new.assets.is_empty() || !args.files.is_empty())?;
    Ok(new)
}

async fn validate(store: &Store, row: &publication::Model, post: &NewPost) -> Result<(), Refusal> {
    let channel = channel::Entity::find_by_id(row.channel_id)
        .one(store.db.work())
        .await?
        .ok_or_else(|| Refusal::Failed(format!("publication {} has lost its channel", row.id)))?;
    let name = channel.name.clone();
    let book = store.book()?;
    let draft = Draft {
        publication_id: row.id,
        channel_name: name.clone(),
        publish_at: row.publish_at,
        title: post.title.clone(),
        body: post.body.clone(),
        tags: post.tags.clone(),
        options: post.options.clone(),
        assets: post.assets.clone(),
    };
    book.open(channel)?
        .publisher
        .validate(&draft)
        .map_err(|error| Refusal::Input(format!("{name}: {error}")))
}
