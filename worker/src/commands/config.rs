//! `punctual config`: the effective settings and where each came from.

use clap::Args;

use super::table::{Table, Tone, plain};
use super::{GlobalFlags, Refusal, SettingFlags, output};
use crate::settings::Origin;

/// Shows the effective settings and where each came from
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual config
  PUNCTUAL_LEASE=90s punctual config --json
  punctual config --config /etc/punctual.toml --check

Each setting can be given in punctual.toml (lease = \"90s\"), in the environment (PUNCTUAL_LEASE=90s)
or as a flag of run, cleanup and config (--lease 90s; --help lists them). Later ones win.")]
pub(super) struct ConfigArgs {
    /// Only check them: print nothing if they are fine
    #[arg(long)]
    check: bool,

    /// Print an array for programs: name, value, origin, about
    #[arg(long, conflicts_with = "check")]
    json: bool,

    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) fn run(globals: &GlobalFlags, args: &ConfigArgs) -> Result<(), Refusal> {
    let settings = globals.settings(&args.settings)?;
    if args.check {
        return Ok(());
    }
    let described = settings.describe();
    if args.json {
        return output::json(&described);
    }
    let mut table = Table::new(["setting", "value", "from", "what it is"]);
    for setting in described {
        let tone = match setting.origin {
            Origin::Default => Tone::Plain,
            _ => Tone::Good,
        };
        table.row([
            plain(setting.name),
            (setting.value, tone),
            (setting.origin.to_string(), Tone::Faint),
            (setting.about.to_owned(), Tone::Faint),
        ]);
    }
    output::text(table.render())
}
