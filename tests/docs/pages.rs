//! The pages of documentation, taken apart: what is code in them, and what is a table.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of the whole project.
pub(super) fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_path_buf()
}

/// One page.
pub(super) struct Page {
    /// Its path from the root.
    pub(super) name: String,
    pub(super) text: String,
}

/// Code that stands by itself.
pub(super) struct Block {
    /// What follows the fence; empty for indented code, which is for the shell.
    pub(super) language: String,
    pub(super) lines: Vec<String>,
}

impl Page {
    pub(super) fn read(name: &str) -> Result<Self> {
        let text = fs::read_to_string(root().join(name)).with_context(|| name.to_owned())?;
        let name = name.to_owned();
        Ok(Self { name, text })
    }

    /// Every page there is.
    pub(super) fn all() -> Result<Vec<Self>> {
        let mut names = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
        for entry in fs::read_dir(root().join("docs"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") {
                names.push(format!("docs/{name}"));
            }
        }
        names.iter().map(|name| Self::read(name)).collect()
    }

    pub(super) fn blocks(&self) -> Vec<Block> {
        self.parts().0
    }

    /// Code of one language.
    pub(super) fn code_in(&self, language: &str) -> Vec<String> {
        let blocks = self.blocks().into_iter();
        blocks
            .filter(|block| block.language == language)
            .map(|block| block.lines.join("\n"))
            .collect()
    }

    /// The text without its blocks.
    pub(super) fn prose(&self) -> String {
        self.parts().1
    }

    /// What is set as code within the text.
    pub(super) fn spans(&self) -> Vec<String> {
        let prose = self.prose();
        let pieces: Vec<&str> = prose.split('`').collect();
        assert!(pieces.len() % 2 == 1, "{}: a ` is not closed", self.name);
        let code = pieces.iter().skip(1).step_by(2);
        code.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    }

    /// Where its links and pictures lead.
    pub(super) fn links(&self) -> Vec<String> {
        let prose = self.prose();
        let targets = prose.split("](").skip(1);
        targets
            .filter_map(|rest| rest.split(')').next())
            .map(str::to_owned)
            .collect()
    }

    /// The rows of the table whose first heading is `heading`, without their code marks.
    pub(super) fn table(&self, heading: &str) -> Vec<Vec<String>> {
        let cells = |line: &str| -> Vec<String> {
            let line = line.trim().trim_matches('|');
            line.split(" | ")
                .map(|cell| cell.trim().trim_matches('`').to_owned())
                .collect()
        };
        let mut lines = self.text.lines();
        lines.find(|line| line.starts_with('|') && cells(line)[0] == heading);
        lines
            .skip(1)
            .take_while(|line| line.starts_with('|'))
            .map(cells)
            .collect()
    }

    fn parts(&self) -> (Vec<Block>, String) {
        let (mut blocks, mut prose) = (Vec::<Block>::new(), String::new());
        let (mut fenced, mut indented, mut after_blank) = (false, false, true);
        for line in self.text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                fenced = !fenced;
                if fenced {
                    blocks.push(Block::new(language));
                }
                continue;
            }
            let deep = line.strip_prefix("    ");
            indented = !fenced && deep.is_some() && (indented || after_blank);
            if indented && after_blank {
                blocks.push(Block::new(""));
            }
            after_blank = line.trim().is_empty();
            match (fenced || indented, blocks.last_mut()) {
                (true, Some(block)) => block.lines.push(deep.unwrap_or(line).to_owned()),
                _ => {
                    prose.push_str(line);
                    prose.push('\n');
                }
            }
        }
        (blocks, prose)
    }
}

impl Block {
    fn new(language: &str) -> Self {
        Self {
            language: language.to_owned(),
            lines: Vec::new(),
        }
    }
}
