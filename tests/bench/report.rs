//! Figures: medians with their spread, and whether they are as good as wanted.

use std::fs;

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

/// What a figure has to reach.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    AtLeast(f64),
    AtMost(f64),
    /// It is shown for orientation.
    Nothing,
}

impl Wanted {
    fn holds(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::Nothing => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {}", short(least)),
            Self::AtMost(most) => format!("<= {}", short(most)),
            Self::Nothing => String::new(),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figure {
    name: String,
    unit: &'static str,
    median: f64,
    lowest: f64,
    highest: f64,
    wanted: String,
    holds: Option<bool>,
}

/// The figures of one run.
pub(crate) struct Report {
    json: bool,
    load_at_start: String,
    figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            load_at_start: load_average(),
            figures: Vec::new(),
        }
    }

    /// Adds a figure that was taken several times.
    pub(crate) fn add(
        &mut self,
        name: impl Into<String>,
        unit: &'static str,
        values: &[f64],
        wanted: Wanted,
    ) {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(lowest), Some(highest)) = (sorted.first(), sorted.last()) else {
            return;
        };
        let median = percentile(&sorted, 50.0);
        self.figures.push(Figure {
            name: name.into(),
            unit,
            median,
            lowest: *lowest,
            highest: *highest,
            wanted: wanted.text(),
            holds: wanted.holds(median),
        });
    }

    pub(crate) fn print(&self) -> Result<()> {
        if self.json {
            let report = json!({
                "loadAtStart": self.load_at_start,
                "loadAtEnd": load_average(),
                "figures": self.figures,
            });
            println!("{}", serde_json::to_string_pretty(&report)?);
            return Ok(());
        }
        let width = self.figures.iter().map(|f| f.name.len()).max().unwrap_or(0);
        println!(
            "{:width$}  {:>10} {:<7} {:>21}  {:<10} holds",
            "", "median", "", "lowest – highest", "wanted"
        );
        for figure in &self.figures {
            let spread = format!("{} – {}", short(figure.lowest), short(figure.highest));
            let holds = match figure.holds {
                Some(true) => "yes",
                Some(false) => "NO",
                None => "",
            };
            println!(
                "{:width$}  {:>10} {:<7} {spread:>21}  {:<10} {holds}",
                figure.name,
                short(figure.median),
                figure.unit,
                figure.wanted,
            );
        }
        println!(
            "load average (1, 5, 15 min): {} before, {} after",
            self.load_at_start,
            load_average()
        );
        Ok(())
    }
}

/// A percentile of sorted values, by the nearest rank.
pub(crate) fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    let at = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// Three digits that matter, and no more.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// How busy the machine is: a figure from a busy one is a ratio at best.
fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}
