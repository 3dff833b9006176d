//! `punctual completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, Refusal, output};

/// Prints the completion script of a shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  punctual completions bash > ~/.local/share/bash-completion/completions/punctual
  punctual completions zsh > ~/.zfunc/_punctual
  punctual completions fish > ~/.config/fish/completions/punctual.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> Result<(), Refusal> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "punctual", &mut script);
    output::text(String::from_utf8_lossy(&script))
}
