//! What a person sees of the demo while it runs: a line for each thing that happens, and on a
//! terminal a bar under them.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use entity::{Outcome, attempt, post, publication};
use indicatif::{ProgressBar, ProgressStyle};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use uuid::Uuid;

use super::stage::Stage;
use crate::commands::{Refusal, output};

/// How often the database is asked for news.
const ASK_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Show {
    begun: Instant,
    posts: u64,
    bar: ProgressBar,
    /// The last thing that was told.
    last: Option<Uuid>,
}

impl Show {
    pub(super) fn new(posts: u64) -> Self {
        let bar = if std::io::stdout().is_terminal() {
            ProgressBar::new(posts)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} public") {
            bar.set_style(style);
        }
        Self {
            begun: Instant::now(),
            posts,
            bar,
            last: None,
        }
    }

    /// Tells what happens until all posts are public.
    pub(super) async fn until_all_are_public(&mut self, stage: &Stage) -> Result<(), Refusal> {
        loop {
            self.tell_news(stage).await?;
            let public = publication::Entity::find()
                .filter(publication::Column::Status.eq(entity::Status::Published))
                .count(stage.store.db.work())
                .await?;
            self.bar.set_position(public);
            if public == self.posts {
                self.tell_news(stage).await?;
                self.bar.finish_and_clear();
                return Ok(());
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    async fn tell_news(&mut self, stage: &Stage) -> Result<(), Refusal> {
        let mut news = attempt::Entity::find()
            .find_also_related(publication::Entity)
            .order_by_asc(attempt::Column::Id);
        if let Some(last) = self.last {
            news = news.filter(attempt::Column::Id.gt(last));
        }
        for (attempt, row) in news.all(stage.store.db.work()).await? {
            self.last = Some(attempt.id);
            let Some(row) = row else { continue };
            let post = post::Entity::find_by_id(row.post_id)
                .one(stage.store.db.work())
                .await?;
            let title = post.map(|post| post.title).unwrap_or_default();
            self.tell(stage.channel_name(row.channel_id), &title, &attempt)?;
        }
        Ok(())
    }

    fn tell(&self, channel: &str, title: &str, attempt: &attempt::Model) -> Result<(), Refusal> {
        let what = match attempt.outcome {
            Outcome::Published if attempt.attempt_no > 1 => "public, after another try",
            Outcome::Published => "public",
            Outcome::Retryable => "no answer; repeating is harmless here, so it is sent again",
            Outcome::Deferred => "the platform asked us to wait",
            Outcome::Unconfirmed => "no answer; it may be live, so the platform is asked first",
            Outcome::Reconciled => "found on the platform, not sent again",
            _ => "goes on",
        };
        let seconds = self.begun.elapsed().as_secs_f32();
        let line = format!("{seconds:5.1}s  {channel:<8} {title:<8} {what}");
        if self.bar.is_hidden() {
            return output::line(line);
        }
        self.bar.println(line);
        Ok(())
    }
}
