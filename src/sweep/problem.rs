//! One thing wrong with a sweep file, and where.

use std::fmt;

use serde_json::{Value, json};

use super::code::Code;

/// Whether a problem stops the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but perhaps not as its author meant it.
    Warning,
    /// Nothing is wrong, but worth knowing.
    Notice,
}

impl Severity {
    /// The word, for people and programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// One thing wrong with a sweep file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether it stops the sweep.
    pub severity: Severity,
    /// Its kind.
    pub code: Code,
    /// The part at fault, as a JSON pointer.
    pub pointer: String,
    /// The file as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, if we know.
    pub help: Option<String>,
}

impl Problem {
    /// The message and the help, one line each whatever the file holds.
    #[must_use]
    pub fn lines(&self) -> (String, Option<String>) {
        (one_line(&self.message), self.help.as_deref().map(one_line))
    }

    pub(super) fn to_json(&self) -> Value {
        let (message, help) = self.lines();
        json!({
            "severity": self.severity.name(),
            "code": self.code.name(),
            "pointer": self.pointer,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": message,
            "help": help,
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, help, .. } = self;
        f.write_str(&in_one_line(file, (*line, *column), message, help.as_deref()))
    }
}

/// `FILE:LINE:COLUMN: message (help)`, whatever the file holds.
pub(crate) fn in_one_line(
    file: &str,
    (line, column): (usize, usize),
    message: &str,
    help: Option<&str>,
) -> String {
    let help = help.map(|help| format!(" ({})", one_line(help))).unwrap_or_default();
    format!("{file}:{line}:{column}: {}{help}", one_line(message))
}

/// Messages quote the file; a control character in it must not reach the terminal.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// `text` in backticks, cut where it gets long.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("`{}...`", text.get(..end).unwrap_or_default()),
        None => format!("`{text}`"),
    }
}

/// The known word that `word` is most likely meant to be.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // A word this long is no misspelling, and the table would be large.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    let most = |known: &str| (known.len().max(word.chars().count()) / 3).clamp(1, 3);
    known
        .iter()
        .map(|known| (distance(&lower, &known.to_lowercase()), *known))
        .filter(|(distance, known)| *distance <= most(known))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Levenshtein distance, with a swap of neighbours as one step.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (table[i - 1][j] + 1)
                    .min(table[i][j - 1] + 1)
                    .min(table[i - 1][j - 1] + change);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(table[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    table[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_whatever_the_file_holds() {
        let problem = Problem {
            severity: Severity::Error,
            code: Code::Empty,
            pointer: String::new(),
            file: "s.yaml".to_owned(),
            line: 3,
            column: 7,
            message: "bad `a\nb\u{1b}`".to_owned(),
            help: Some("fix it".to_owned()),
        };
        assert_eq!(problem.to_string(), "s.yaml:3:7: bad `a\\nb\\u{1b}` (fix it)");
    }

    #[test]
    fn the_nearest_word_is_found_or_none() {
        let known = ["method", "metric", "parameters"];
        assert_eq!(nearest("metod", &known), Some("method"));
        assert_eq!(nearest("METRIC", &known), Some("metric"));
        assert_eq!(nearest("paramters", &known), Some("parameters"));
        assert_eq!(nearest("colour", &known), None);
    }
}
