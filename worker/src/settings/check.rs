//! What else must hold between settings, beside the lease rules.

use super::Settings;
use super::duration::show_duration;
use super::problem::Problem;
use chrono::{TimeZone, Utc};
use croner::parser::{CronParser, Seconds, Year};

/// What [`parse_schedule`] takes, for messages.
pub const SCHEDULE_FORMS: &str = "a cron pattern of six fields (second minute hour day month \
                                  weekday) that fires at some time, such as \"0 */30 * * * *\"";

/// Accepts a cron pattern if the cleanup job's scheduler will, and if it ever fires.
///
/// ```
/// use worker::settings::parse_schedule;
///
/// assert!(parse_schedule("0 */30 * * * *").is_some());
/// assert!(parse_schedule("*/30 * * * *").is_none(), "five fields lack the seconds");
/// assert!(parse_schedule("0 0 0 30 2 *").is_none(), "the 30th of February never comes");
/// ```
pub fn parse_schedule(text: &str) -> Option<String> {
    // The same options as tokio-cron-scheduler's, but for years, which it would take as well.
    let cron = CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Disallowed)
        .dom_and_dow(true)
        .build()
        .parse(text.trim())
        .ok()?;
    let some_instant = Utc.timestamp_opt(0, 0).single()?;
    cron.find_next_occurrence(&some_instant, false).ok()?;
    Some(text.trim().to_owned())
}

impl Settings {
    /// Problems between settings that no lease is part of.
    pub(super) fn order_problems(&self) -> Vec<Problem> {
        let in_order = [
            ("retry_base", self.retry_base, "retry_max", self.retry_max),
            (
                "request_timeout",
                self.request_timeout,
                "publish_deadline",
                self.publish_deadline,
            ),
        ];
        in_order
            .into_iter()
            .filter(|(_, smaller, _, larger)| smaller > larger)
            .map(|(name, smaller, bound, larger)| Problem::Conflict {
                names: vec![name, bound],
                sentence: format!(
                    "{name} = {} is longer than {bound} = {}: it must not exceed it",
                    show_duration(smaller),
                    show_duration(larger),
                ),
            })
            .collect()
    }
}
