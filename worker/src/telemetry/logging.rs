//! Log lines: text for people or JSON for programs, to stderr, each with the worker's id.

use std::fmt;
use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing::{Event, Subscriber, warn};
use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, JsonFields, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::TryInitError;
use uuid::Uuid;

use super::metric;
use super::outlet::Outlet;
use crate::settings::LogFormat;

/// What is logged: `debug`, or `info,worker::engine=trace`; `RUST_LOG` where it is not set.
pub const LOG_VARIABLE: &str = "PUNCTUAL_LOG";

/// Libraries that say much that is of no use here, and whose finest lines show what is sent. They
/// only warn, unless the filter names them.
const QUIET: [&str; 9] = [
    "sqlx",
    "sea_orm",
    "sea_orm_migration",
    "hyper",
    "hyper_util",
    "h2",
    "reqwest",
    "rustls",
    "tokio_cron_scheduler",
];

/// Where the lines of this process go.
static OUTLET: OnceLock<Outlet> = OnceLock::new();

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter cannot be read.
    #[error(
        "{LOG_VARIABLE} = \"{text}\" is not accepted ({reason}); it takes levels such as info, or \
         info,worker=debug"
    )]
    Filter {
        /// The filter.
        text: String,
        /// What is wrong with it.
        reason: ParseError,
    },
    /// There is no thread to write with.
    #[error("the system gives no thread for the log: {0}")]
    NoThread(#[from] std::io::Error),
    /// The embedding program logs already.
    #[error("this program logs already: {0}")]
    Taken(#[from] TryInitError),
}

/// Starts logging to stderr, for the whole process; `filter` is what [`LOG_VARIABLE`] or `RUST_LOG`
/// says. Every line carries `worker_id` (LOCK-7), whichever task writes it.
///
/// Lines are written a moment later, by a thread of their own: see [`flush_log`].
pub fn start_logging(
    format: LogFormat,
    filter: Option<&str>,
    worker_id: Option<Uuid>,
) -> Result<(), LoggingError> {
    use tracing_subscriber::util::SubscriberInitExt;
    let colour = std::io::stderr().is_terminal();
    let outlet = Outlet::start(std::io::stderr(), |lines| {
        metric::log_lines_lost(lines);
        warn!(lines, "log lines were lost, because nobody read them");
    })?;
    let writer = outlet.clone();
    log_to(move || writer.clone(), format, colour, filter, worker_id)?.try_init()?;
    // Whoever else was first would have been refused with `Taken`.
    let _ = OUTLET.set(outlet);
    Ok(())
}

/// Waits until what was logged is written, but not for longer than a second: nobody may read it. To
/// be called before the process ends.
pub fn flush_log() {
    if let Some(outlet) = OUTLET.get() {
        outlet.flush();
    }
}

/// The filter of this process's environment.
pub fn filter_of_environment() -> Option<String> {
    [LOG_VARIABLE, "RUST_LOG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|text| !text.is_empty()))
}

/// What [`start_logging`] starts, for another writer.
pub fn log_to<W>(
    writer: W,
    format: LogFormat,
    colour: bool,
    filter: Option<&str>,
    worker_id: Option<Uuid>,
) -> Result<impl Subscriber + Send + Sync, LoggingError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = read_filter(filter.unwrap_or("info"))?;
    let (text, json) = match format {
        LogFormat::Text => (Some(writer), None),
        LogFormat::Json => (None, Some(writer)),
    };
    let text = text.map(|writer| {
        tracing_subscriber::fmt::layer()
            .with_ansi(colour)
            .event_format(Tagged {
                line: tracing_subscriber::fmt::format().with_ansi(colour),
                end: "",
                tag: worker_id.map_or_else(String::new, |id| format!(" worker.id={id}")),
            })
            .with_writer(writer)
    });
    let json = json.map(|writer| {
        tracing_subscriber::fmt::layer()
            .fmt_fields(JsonFields::new())
            .event_format(Tagged {
                line: tracing_subscriber::fmt::format()
                    .json()
                    .flatten_event(true)
                    .with_span_list(false),
                end: "}",
                tag: worker_id
                    .map_or_else(|| "}".to_owned(), |id| format!(r#","worker.id":"{id}"}}"#)),
            })
            .with_writer(writer)
    });
    Ok(tracing_subscriber::registry()
        .with(filter)
        .with(text)
        .with(json))
}

fn read_filter(text: &str) -> Result<EnvFilter, LoggingError> {
    let bad = |reason| LoggingError::Filter {
        text: text.to_owned(),
        reason,
    };
    let mut all: Vec<String> = QUIET
        .into_iter()
        .filter(|library| !names(text, library))
        .map(|library| format!("{library}=warn"))
        .collect();
    all.push(text.to_owned());
    EnvFilter::builder().parse(all.join(",")).map_err(bad)
}

/// Whether a filter speaks of this library itself.
fn names(filter: &str, library: &str) -> bool {
    filter
        .split(',')
        .filter_map(|directive| directive.trim().split(['=', '[', ':']).next())
        .any(|target| target == library)
}

/// A line whose `end` is replaced by `tag`. A span would do the same only for tasks that somebody
/// remembered to put into it.
struct Tagged<F> {
    line: F,
    end: &'static str,
    tag: String,
}

impl<F, S, N> FormatEvent<S, N> for Tagged<F>
where
    F: FormatEvent<S, N>,
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.line
            .format_event(context, Writer::new(&mut line), event)?;
        let line = line.trim_end_matches('\n');
        let line = line.strip_suffix(self.end).unwrap_or(line);
        writeln!(writer, "{line}{}", self.tag)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            lines.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged through a filter by the engine and by a chatty library.
    fn logged(format: LogFormat, filter: Option<&str>) -> Result<String, LoggingError> {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = log_to(
            move || writer.clone(),
            format,
            false,
            filter,
            Some(Uuid::nil()),
        )?;
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("publish", publication.id = 7);
            span.in_scope(|| tracing::info!(channel = "blog", "published"));
            tracing::debug!("detail");
            tracing::info!(target: "sqlx::query", "SELECT 1");
        });
        let bytes = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// LOCK-7: the worker's id is in every log line.
    #[test]
    fn every_text_line_carries_the_workers_id_and_no_colour() -> Result<(), LoggingError> {
        let text = logged(LogFormat::Text, None)?;
        assert_eq!(text.lines().count(), 1, "{text}");
        let id = format!("worker.id={}", Uuid::nil());
        assert!(text.lines().all(|line| line.ends_with(&id)), "{text}");
        assert!(text.contains("publication.id=7") && text.contains("channel=\"blog\""));
        assert!(!text.contains('\u{1b}'), "{text:?}");
        Ok(())
    }

    /// LOCK-7, and each line is one JSON object.
    #[test]
    fn every_json_line_is_an_object_with_the_workers_id() -> Result<(), Box<dyn std::error::Error>>
    {
        let text = logged(LogFormat::Json, None)?;
        let line: serde_json::Value = serde_json::from_str(text.trim_end())?;
        assert_eq!(line["worker.id"], Uuid::nil().to_string());
        assert_eq!(line["message"], "published");
        assert_eq!(line["channel"], "blog");
        assert_eq!(line["span"]["publication.id"], 7);
        Ok(())
    }

    #[test]
    fn libraries_are_quiet_unless_the_filter_names_them() -> Result<(), LoggingError> {
        let text = logged(LogFormat::Text, Some("debug"))?;
        assert!(
            text.contains("detail") && !text.contains("SELECT 1"),
            "{text}"
        );
        let text = logged(LogFormat::Text, Some("warn,sqlx=info"))?;
        assert!(
            !text.contains("published") && text.contains("SELECT 1"),
            "{text}"
        );
        Ok(())
    }

    #[test]
    fn a_filter_that_is_none_is_refused_with_a_sentence() {
        let refusal = log_to(
            std::io::sink,
            LogFormat::Text,
            false,
            Some("worker=loud"),
            None,
        );
        let text = refusal.err().map(|error| error.to_string());
        assert!(text.is_some_and(|text| text.starts_with("PUNCTUAL_LOG = \"worker=loud\"")));
    }
}
