//! Command lines as the pages write them, taken apart enough to be judged.

/// The commands of one line, each as its words. What follows three spaces is a remark.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word = String::new();
    let (mut quote, mut depth, mut quoted, mut spaces) = (None, 0, false, 0);
    for c in line.trim().chars().chain([' ']) {
        if let Some(open) = quote {
            if c == open {
                quote = None;
            } else {
                word.push(c);
            }
            continue;
        }
        spaces = if c == ' ' { spaces + 1 } else { 0 };
        match c {
            '\'' | '"' if depth == 0 => (quote, quoted) = (Some(c), true),
            '(' | ')' => {
                depth += if c == '(' { 1 } else { -1 };
                word.push(c);
            }
            ' ' | '|' | ';' | '&' if depth == 0 => {
                if !word.is_empty() || quoted {
                    let last = commands.len() - 1;
                    commands[last].push(std::mem::take(&mut word));
                    quoted = false;
                }
                if c != ' ' {
                    commands.push(Vec::new());
                }
                if spaces == 3 {
                    break;
                }
            }
            _ => word.push(c),
        }
    }
    commands.retain(|words| !words.is_empty());
    commands
}

/// A word that sets a variable: `LEASE=90s`.
pub(super) fn variable(word: &str) -> Option<&str> {
    let (name, _) = word.split_once('=')?;
    let upper = |c: char| c.is_ascii_uppercase() || c == '_';
    (!name.is_empty() && name.chars().all(upper)).then_some(name)
}

#[test]
fn lines_are_taken_apart_as_a_shell_would() {
    let line = "A=$(x -c | y) sudo punctual cleanup --schedule '0 * *' && z \"a b\"    a remark";
    let expected = [
        vec![
            "A=$(x -c | y)",
            "sudo",
            "punctual",
            "cleanup",
            "--schedule",
            "0 * *",
        ],
        vec!["z", "a b"],
    ];
    assert_eq!(commands(line), expected);
    assert_eq!(variable("A=$(x -c | y)"), Some("A"));
    assert_eq!(variable("key=value"), None);
}
