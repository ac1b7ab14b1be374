//! A problem of a sweep file with the line it is in, for people.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

use crate::sweep::{Problem, Severity, lines};

/// Columns of a line that are shown, and those of them before the place at fault.
const WIDEST: usize = 100;
const BEFORE: usize = 60;
const TAB: &str = "    ";

/// A file's lines, to show problems in.
#[derive(Debug)]
pub struct Source<'a> {
    text: Cow<'a, str>,
    colour: bool,
}

impl<'a> Source<'a> {
    /// The lines of `text`, counted as problems count them.
    #[must_use]
    pub fn new(text: &'a [u8], colour: bool) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        Self { text: String::from_utf8_lossy(text), colour }
    }

    /// The problem, its line with a caret at the place, and what to do.
    #[must_use]
    pub fn show(&self, problem: &Problem) -> String {
        let Problem { severity, code, file, line, column, .. } = problem;
        let (message, help) = problem.lines();
        let word = self.paint(*severity, severity.name());
        let mut shown = format!("{word}: {file}:{line}:{column}: {message} [{code}]");
        let text = line.checked_sub(1).and_then(|index| lines(&self.text).nth(index));
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            let (text, before) = window(text, column.saturating_sub(1));
            let (number, caret) = (format!("{line:>5}"), self.paint(*severity, "^"));
            let gap = " ".repeat(number.len());
            let indent = " ".repeat(before);
            shown += &format!("\n{number} | {text}\n{gap} | {indent}{caret}");
        }
        match help {
            Some(help) => shown + "\n      = help: " + &help,
            None => shown,
        }
    }

    fn paint(&self, severity: Severity, text: &str) -> String {
        let colour = match severity {
            Severity::Error => "31",
            Severity::Warning => "33",
            Severity::Notice => "36",
        };
        if self.colour { format!("\x1b[1;{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The part of a line around its `index`th character, and that character's column in it.
fn window(line: &str, index: usize) -> (String, usize) {
    let line = line.trim_end();
    let at = line.char_indices().nth(index).map_or(line.len(), |(at, _)| at);
    let (before, after) = line.split_at(at);
    let all_fits = shown(line.chars(), WIDEST).1;
    let most = if all_fits { WIDEST } else { BEFORE };
    let (cells, whole) = shown(before.chars().rev(), most);
    let mut column: usize = cells.iter().map(|(_, width)| width).sum();
    let mut text: String = cells.iter().rev().map(|(text, _)| text.as_str()).collect();
    if !whole {
        text.insert(0, '…');
        column += 1;
    }
    let (cells, whole) = shown(after.chars(), WIDEST.saturating_sub(column));
    text.extend(cells.iter().map(|(text, _)| text.as_str()));
    if !whole {
        text.push('…');
    }
    (text, column)
}

/// As many characters as fit into so many columns, and whether that is all.
///
/// Characters without a width are counted too: a line may have millions of them.
fn shown(chars: impl Iterator<Item = char>, most: usize) -> (Vec<(String, usize)>, bool) {
    let (mut cells, mut width) = (Vec::new(), 0);
    for cell in chars.map(cell) {
        width += cell.1;
        if width > most || cells.len() > 4 * most {
            return (cells, false);
        }
        cells.push(cell);
    }
    (cells, true)
}

/// What a terminal shows for a character, and how wide: nothing that could steer it.
fn cell(c: char) -> (String, usize) {
    match c {
        '\t' => (TAB.to_owned(), TAB.len()),
        c if c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
        {
            ('\u{fffd}'.to_string(), 1)
        }
        c => (c.to_string(), c.width().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Surroundings, check};

    fn shown(text: &str) -> String {
        let source = Source::new(text.as_bytes(), false);
        let check = check(text.as_bytes(), "s.yaml", Surroundings::UNKNOWN);
        let shown: Vec<String> = check.problems.iter().map(|p| source.show(p)).collect();
        shown.join("\n")
    }

    #[test]
    fn a_caret_stands_under_the_place() {
        insta::assert_snapshot!(
            shown("program: p\nmethod: random\nparameters:\n  lr: {min: 1.0, max: 0.1}\n"),
            @r"
        error: s.yaml:4:23: `lr`: `min` must be less than `max` [bounds-order]
            4 |   lr: {min: 1.0, max: 0.1}
              |                       ^
              = help: swap them
        "
        );
    }

    #[test]
    fn wide_characters_and_tabs_move_the_caret() {
        insta::assert_snapshot!(
            shown("program: p\nmethod: grid\nparameters: {\"日本\": 1}\n"),
            @r#"
        warning: s.yaml:3:14: W&B may object to the name `日本` [name-pattern]
            3 | parameters: {"日本": 1}
              |              ^
              = help: a name has letters, digits, `_`, `.` and `-`, and starts with a letter or `_`
        error: s.yaml:3:20: `日本` is `1` and needs `value:` [parameter-kind]
            3 | parameters: {"日本": 1}
              |                      ^
              = help: write `{value: 1}`
        "#
        );
        let (line, column) = window("a:\t'\t' x", 6);
        assert_eq!((line.as_str(), column), ("a:    '    ' x", 12));
        // A combining accent takes no room.
        assert_eq!(window("e\u{301}x", 2).1, 1);
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let line = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let (shown, column) = window(&line, 500);
        assert_eq!(shown.chars().nth(column), Some('X'));
        assert!(shown.starts_with("…a") && shown.ends_with("b…"));
        assert!(shown.chars().count() <= WIDEST + 2, "{}", shown.chars().count());
        let start = window(&line, 3);
        assert!(start.0.starts_with("aaaa") && start.0.ends_with("…"));
        assert_eq!(start.1, 3);
    }

    #[test]
    fn a_file_cannot_steer_the_terminal() {
        let (shown, _) = window("a\u{1b}[31m\u{202e}b", 0);
        assert_eq!(shown, "a\u{fffd}[31m\u{fffd}b");
    }

    #[test]
    fn colours_are_only_for_terminals() {
        let text = b"method: grid\n";
        let check = check(text, "s", Surroundings::UNKNOWN);
        let plain = Source::new(text, false).show(&check.problems[0]);
        let coloured = Source::new(text, true).show(&check.problems[0]);
        assert!(!plain.contains('\x1b') && coloured.starts_with("\x1b[1;31merror\x1b[0m: "));
    }
}
