//! Where an entry was written.

use std::path::{Path, PathBuf};

use crate::commands::Refusal;

/// Where an entry was written: nowhere in particular, or in a line of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(Option<(PathBuf, u64)>);

impl Place {
    pub(super) fn line(list: &Path, line: u64) -> Self {
        Self(Some((list.to_path_buf(), line)))
    }

    /// The line, for sentences about another one.
    pub(super) fn number(&self) -> Option<u64> {
        self.0.as_ref().map(|(_, line)| *line)
    }

    /// A refusal that says where. What cannot be found in a list is a fault of the list.
    pub(super) fn refuse(&self, refusal: Refusal) -> Refusal {
        let Some((list, line)) = &self.0 else {
            return refusal;
        };
        let refusal = match refusal {
            Refusal::NotFound(sentence) => Refusal::Input(sentence),
            other => other,
        };
        refusal.map(|sentence| format!("{} line {line}: {sentence}", list.display()))
    }
}

/// How many problems of a list are told at once.
const TOLD: usize = 20;

/// All problems of a list as one refusal; the first says which exit code it has.
pub(super) fn together(mut problems: Vec<Refusal>) -> Refusal {
    let mut sentences: Vec<String> = problems
        .iter()
        .take(TOLD)
        .map(ToString::to_string)
        .collect();
    if problems.len() > TOLD {
        sentences.push(format!("and {} more lines", problems.len() - TOLD));
    }
    problems.swap_remove(0).map(|_| sentences.join("\n"))
}
