//! Numbers that JSON cannot hold: integers of more than 64 bits, infinities and NaN.
//!
//! W&B's client sends them on all the same, so they travel as a mapping of one reserved key to the
//! text that Python gives them. A file that spells out such a mapping gets that number.

use serde_json::{Map, Value};

const KEY: &str = "sweepctl:number";

/// The value that stands for a number: decimal digits, `inf`, `-inf` or `nan`.
pub(super) fn value(text: impl Into<String>) -> Value {
    let mut map = Map::new();
    map.insert(KEY.to_owned(), Value::String(text.into()));
    Value::Object(map)
}

/// A whole number of any size.
pub(super) fn whole(number: u128) -> Value {
    u64::try_from(number).map_or_else(|_| value(number.to_string()), Value::from)
}

/// An infinity or NaN.
pub(super) fn not_finite(number: f64) -> Value {
    value(match number {
        _ if number.is_nan() => "nan",
        _ if number > 0.0 => "inf",
        _ => "-inf",
    })
}

/// Python's text of the number that `value` stands for, if it is one of ours.
pub(super) fn text(value: &Value) -> Option<&str> {
    let map = value.as_object()?;
    let (1, Some(Value::String(text))) = (map.len(), map.get(KEY)) else { return None };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    (is_whole || matches!(text.as_str(), "inf" | "-inf" | "nan")).then_some(text)
}

/// Whether the number is an integer, and so one that JSON's grammar has.
pub(super) fn is_whole(text: &str) -> bool {
    text.ends_with(|c: char| c.is_ascii_digit())
}

/// JSON with these numbers as a reader can have them: integers in full, the rest as text.
pub(super) fn pretty_json(value: &Value) -> String {
    let mut out = String::new();
    push(value, 0, &mut out);
    out
}

fn push(value: &Value, level: usize, out: &mut String) {
    let line = |level: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", level));
    };
    match (value, text(value)) {
        (_, Some(number)) if is_whole(number) => out.push_str(number),
        (_, Some(number)) => out.push_str(&Value::from(number).to_string()),
        (Value::Array(items), _) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(level + 1, out);
                push(item, level + 1, out);
            }
            line(level, out);
            out.push(']');
        }
        (Value::Object(map), _) if !map.is_empty() => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(level + 1, out);
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push_str(": ");
                push(item, level + 1, out);
            }
            line(level, out);
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_come_back_and_nothing_else_does() {
        for number in ["123456789012345678901234567890", "-18446744073709551617", "inf", "nan"] {
            assert_eq!(text(&value(number)), Some(number));
        }
        let mapping = json!({"sweepctl:number": "inf", "more": 1});
        for other in [json!("inf"), json!({"a": "1"}), mapping, value("x"), value("-"), value("")] {
            assert_eq!(text(&other), None, "{other}");
        }
    }

    #[test]
    fn json_has_whole_numbers_in_full_and_the_rest_as_text() {
        let all = json!({"a": [value("123456789012345678901"), value("-inf"), 1.0], "b": {}});
        assert_eq!(
            pretty_json(&all),
            "{\n  \"a\": [\n    123456789012345678901,\n    \"-inf\",\n    1.0\n  ],\n  \"b\": {}\n}"
        );
    }
}
