//! Reads the metrics that a training program logs: JSON object lines, and `name=value` lines.
//!
//! Programs die in the middle of a write and print what is not JSON; a line that cannot be read is
//! skipped, and never costs the lines around it.

use std::cmp::Ordering;

use indexmap::IndexMap;
use serde_json::{Map, Number, Value};

/// One logged step, or the last values of many: nested objects are flattened with `.`.
pub type Row = IndexMap<String, Value>;

/// Keys that W&B keeps for itself.
const WANDB_INTERNAL: &str = "_wandb";

/// A longer line is no metrics line, and must not fill our memory.
const MAX_LINE_BYTES: usize = 8 << 20;

/// The last value of each key over all JSON object lines, in the order the keys first appeared.
///
/// A torn last line is ignored; bare `NaN` and `Infinity`, as Python writes them, become strings.
pub fn summary(jsonl: &[u8]) -> Row {
    let mut last = Row::new();
    for row in jsonl.split(|byte| *byte == b'\n').filter_map(parse_object) {
        last.extend(row);
    }
    last
}

/// Parses one line that holds a JSON object; `None` for any other line.
#[must_use]
pub fn parse_object(line: &[u8]) -> Option<Row> {
    let text = std::str::from_utf8(line).ok()?.trim();
    if !text.starts_with('{') {
        return None;
    }
    let object: Map<String, Value> = serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&quote_non_finite(text)))
        .ok()?;
    let mut row = Row::new();
    flatten(object, "", &mut row);
    Some(row)
}

/// Parses a line as a program prints it: a JSON object, or text with `name=value` pairs.
///
/// Only numeric values count: `epoch=3, loss=0.25 device=cuda` gives `epoch` and `loss`.
#[must_use]
pub fn parse_printed(line: &[u8]) -> Row {
    if let Some(row) = parse_object(line) {
        return row;
    }
    let text = String::from_utf8_lossy(line);
    let separator = |c: char| {
        c.is_whitespace() || c.is_control() || matches!(c, ',' | ';' | '|' | '(' | ')' | '[' | ']')
    };
    let mut row = Row::new();
    for word in text.split(separator) {
        let Some((name, value)) = word.split_once('=') else { continue };
        if let (true, Some(value)) = (is_name(name), parse_number(value)) {
            row.insert(name.to_owned(), value);
        }
    }
    row
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && chars.all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '@'))
        && !name.starts_with(WANDB_INTERNAL)
}

fn parse_number(text: &str) -> Option<Value> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    let number: f64 = text.parse().ok()?;
    Some(match Number::from_f64(number) {
        Some(finite) => Value::Number(finite),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    })
}

/// Puts quotes around `NaN`, `Infinity` and `-Infinity` where they stand outside a string.
fn quote_non_finite(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut in_string = false;
    while let Some(next) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| rest.starts_with(word));
        let taken = match (in_string, word) {
            (false, Some(word)) => {
                quoted.extend(["\"", word, "\""]);
                word.len()
            }
            (true, _) if next == '\\' => {
                let escape = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                quoted.push_str(&rest[..escape]);
                escape
            }
            _ => {
                in_string ^= next == '"';
                quoted.push(next);
                next.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    quoted
}

fn flatten(object: Map<String, Value>, prefix: &str, row: &mut Row) {
    for (key, value) in object {
        let name = if prefix.is_empty() { key } else { format!("{prefix}.{key}") };
        if name.starts_with(WANDB_INTERNAL) {
            continue;
        }
        match value {
            Value::Object(inner) => flatten(inner, &name, row),
            value => {
                row.insert(name, value);
            }
        }
    }
}

/// Splits a stream of bytes into lines, whatever the pieces it arrives in.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
    too_long: bool,
}

impl Lines {
    /// Takes the next bytes and hands over each line they complete, without its newline.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, complete) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.too_long |= self.partial.len() + text.len() > MAX_LINE_BYTES;
            if !self.too_long {
                self.partial.extend_from_slice(text);
            }
            if complete {
                self.end(&mut each);
            }
        }
    }

    /// Ends the line begun last, if there is one.
    pub(crate) fn end(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.too_long && !self.partial.is_empty() {
            each(&self.partial);
        }
        *self = Self::default();
    }
}

/// Orders two metric values, the better one first; NaN and missing values come last, as equals.
#[must_use]
pub fn better(goal_minimize: bool, a: Option<f64>, b: Option<f64>) -> Ordering {
    let known = |value: Option<f64>| value.filter(|number| !number.is_nan());
    match (known(a), known(b)) {
        (Some(a), Some(b)) => {
            let ascending = a.partial_cmp(&b).unwrap_or(Ordering::Equal);
            if goal_minimize { ascending } else { ascending.reverse() }
        }
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn as_json(row: &Row) -> Value {
        serde_json::to_value(row).unwrap()
    }

    #[test]
    fn the_last_value_of_each_key_wins_and_a_torn_line_is_ignored() {
        let log =
            b"{\"loss\": 2, \"_step\": 0}\nnoise\n{\"loss\": 1.5, \"acc\": 0.5}\n{\"loss\": 0.";
        assert_eq!(as_json(&summary(log)), json!({"loss": 1.5, "_step": 0, "acc": 0.5}));
    }

    #[test]
    fn nested_objects_are_flattened_and_keys_internal_to_wandb_dropped() {
        let log = br#"{"val": {"loss": {"min": 1}}, "_wandb": {"runtime": 3}, "_runtime": 2}"#;
        assert_eq!(as_json(&summary(log)), json!({"val.loss.min": 1, "_runtime": 2}));
    }

    #[test]
    fn bare_nan_and_infinity_become_strings_but_not_inside_strings() {
        let log = br#"{"a": NaN, "b": -Infinity, "c": [Infinity], "d": "NaN \" NaN", "NaN": 1}"#;
        let wanted =
            json!({"a": "NaN", "b": "-Infinity", "c": ["Infinity"], "d": "NaN \" NaN", "NaN": 1});
        assert_eq!(as_json(&summary(log)), wanted);
    }

    #[test]
    fn a_line_that_is_no_utf8_costs_only_itself() {
        assert_eq!(
            as_json(&summary(b"{\"a\": 1}\n{\"a\": \"\xff\"}\n{\"b\": 2}")),
            json!({"a": 1, "b": 2})
        );
    }

    #[test]
    fn printed_pairs_count_if_their_value_is_a_number() {
        let row = parse_printed(
            "epoch=3, val/loss=2.5e-1 (acc=nan) device=cuda 1=2 a==3 é=4 p=9%".as_bytes(),
        );
        assert_eq!(as_json(&row), json!({"epoch": 3, "val/loss": 0.25, "acc": "NaN", "é": 4}));
        assert_eq!(as_json(&parse_printed(b"{\"x\": {\"y\": 1}}")), json!({"x.y": 1}));
    }

    #[test]
    fn nan_and_missing_come_last_whatever_the_goal() {
        let sorted = |minimize| {
            let mut values = [None, Some(2.0), Some(f64::NAN), Some(1.0), Some(f64::INFINITY)];
            values.sort_by(|a, b| better(minimize, *a, *b));
            values.map(|value| value.filter(|number| !number.is_nan()))
        };
        assert_eq!(sorted(true), [Some(1.0), Some(2.0), Some(f64::INFINITY), None, None]);
        assert_eq!(sorted(false), [Some(f64::INFINITY), Some(2.0), Some(1.0), None, None]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_any_split_gives_the_same_lines(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            cut in 0usize..200,
        ) {
            let _ = (summary(&bytes), parse_printed(&bytes));
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut lines = Lines::default();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for part in [head, tail] {
                lines.push(part, |line| seen.push(line.to_vec()));
            }
            lines.end(|line| seen.push(line.to_vec()));
            let whole: Vec<Vec<u8>> = bytes
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(<[u8]>::to_vec)
                .collect();
            prop_assert_eq!(seen, whole);
        }

        #[test]
        fn quoting_never_panics(text in "[\\PC\"\\\\]{0,40}") {
            let _ = quote_non_finite(&text);
        }
    }
}
