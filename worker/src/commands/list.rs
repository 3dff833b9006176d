//! `punctual list`: publications, the newest first.

use clap::Args;
use clap::builder::PossibleValuesParser;
use entity::{Status, channel, post, publication};
use sea_orm::{
    ActiveEnum, ColumnTrait, EntityTrait, FromQueryResult, Iterable, JoinType, QueryFilter,
    QueryOrder, QuerySelect, RelationTrait,
};
use uuid::Uuid;

use super::store::Store;
use super::table::{Table, Tone, plain};
use super::view::{PublicationView, instant, status_tone, status_word};
use super::{GlobalFlags, Refusal, SettingFlags, arguments, channel as channels, output};
use crate::database::Database;

/// How many a person is shown without asking for more.
const SHOWN: u64 = 50;
/// How many are read at a time, so that memory does not grow with the list.
const PAGE: u64 = 1_000;

/// Lists publications, the newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual list
  punctual list --status failed --status unconfirmed
  punctual list --channel blog --limit 10 --json

With --json it prints an array of all publications, unless --limit says otherwise.")]
pub(super) struct ListArgs {
    /// Only those with this status; may be given several times
    #[arg(long, value_name = "STATUS", value_parser = status_names())]
    status: Vec<String>,

    /// Only those of this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,

    /// At most this many [default: 50 in the table, all with --json]
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = arguments::count
    )]
    limit: Option<u64>,

    /// Print an array for programs
    #[arg(long)]
    json: bool,
}

fn status_names() -> PossibleValuesParser {
    PossibleValuesParser::new(Status::iter().map(status_word))
}

pub(super) async fn run(globals: GlobalFlags, args: ListArgs) -> Result<(), Refusal> {
    let store = Store::to_read(globals.settings(&SettingFlags::default())?).await?;
    let printed = print(&store.db, &args).await;
    store.close().await;
    printed
}

async fn print(db: &Database, args: &ListArgs) -> Result<(), Refusal> {
    let channel = match &args.channel {
        Some(name) => Some(channels::find(db, name).await?.id),
        None => None,
    };
    let statuses = args
        .status
        .iter()
        .map(Status::try_from_value)
        .collect::<Result<Vec<_>, _>>()?;
    let mut pages = Pages {
        channel,
        statuses,
        before: None,
        left: args.limit,
    };
    if args.json {
        return print_json(db, &mut pages).await;
    }
    // One more than is shown tells whether there are more.
    pages.left = Some(args.limit.unwrap_or(SHOWN + 1));
    print_table(db, &mut pages, args.limit.unwrap_or(SHOWN)).await
}

async fn print_table(db: &Database, pages: &mut Pages, shown: u64) -> Result<(), Refusal> {
    let mut table = Table::new(["id", "status", "publish at", "channel", "title", "note"]);
    let mut rows = 0;
    loop {
        let page = pages.next(db).await?;
        if page.is_empty() {
            break;
        }
        for view in page {
            rows += 1;
            if rows <= shown {
                table.row(cells(&view));
            }
        }
    }
    if rows == 0 {
        output::hint("nothing is scheduled; `punctual schedule --help` shows how");
        return Ok(());
    }
    output::text(table.render())?;
    if rows > shown {
        output::note(format!("the newest {shown} are shown; --limit shows more"));
    }
    Ok(())
}

fn cells(view: &PublicationView) -> [(String, Tone); 6] {
    let row = &view.publication;
    let note = match row.status {
        Status::Published => row.remote_url.clone(),
        _ => row.last_error.clone(),
    };
    [
        (row.id.to_string(), Tone::Faint),
        (status_word(row.status).to_owned(), status_tone(row.status)),
        plain(instant(row.publish_at)),
        plain(view.channel.clone()),
        plain(view.title.clone()),
        (note.unwrap_or_default(), Tone::Faint),
    ]
}

/// Writes the array piece by piece.
async fn print_json(db: &Database, pages: &mut Pages) -> Result<(), Refusal> {
    let mut separator = "[";
    loop {
        let page = pages.next(db).await?;
        if page.is_empty() {
            break;
        }
        for view in page {
            let object = serde_json::to_string(&view)
                .map_err(|error| Refusal::Failed(format!("cannot write JSON: {error}")))?;
            output::text(format!("{separator}\n  {object}"))?;
            separator = ",";
        }
    }
    output::line(if separator == "[" { "[]" } else { "\n]" })
}

/// The list, page by page. Ids are in the order of creation, so the primary key is the way.
struct Pages {
    channel: Option<Uuid>,
    statuses: Vec<Status>,
    before: Option<Uuid>,
    left: Option<u64>,
}

impl Pages {
    async fn next(&mut self, db: &Database) -> Result<Vec<PublicationView>, Refusal> {
        let limit = self.left.unwrap_or(PAGE).min(PAGE);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut query = publication::Entity::find();
        if let Some(channel) = self.channel {
            query = query.filter(publication::Column::ChannelId.eq(channel));
        }
        if !self.statuses.is_empty() {
            query = query.filter(publication::Column::Status.is_in(self.statuses.iter().copied()));
        }
        if let Some(before) = self.before {
            query = query.filter(publication::Column::Id.lt(before));
        }
        let rows: Vec<Row> = query
            .join(JoinType::InnerJoin, publication::Relation::Channel.def())
            .join(JoinType::InnerJoin, publication::Relation::Post.def())
            .column_as(channel::Column::Name, "channel")
            .column_as(post::Column::Title, "title")
            .order_by_desc(publication::Column::Id)
            .limit(limit)
            .into_model()
            .all(db.work())
            .await?;
        self.before = rows.last().map(|row| row.publication.id);
        self.left = self.left.map(|left| left - rows.len() as u64);
        if (rows.len() as u64) < limit {
            self.left = Some(0);
        }
        Ok(rows
            .into_iter()
            .map(|row| PublicationView::new(row.publication, row.channel, row.title))
            .collect())
    }
}

#[derive(FromQueryResult)]
struct Row {
    #[sea_orm(nested)]
    publication: publication::Model,
    channel: String,
    title: String,
}
