//! Values as Python writes them: `str()` for arguments, `json.dumps()` for files.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use super::special;

/// Python's `str(v)`: `True`, `None`, `1e-05`, and the `repr` of lists and dicts.
#[must_use]
pub fn python_text(v: &Value) -> String {
    match v {
        Value::String(text) => text.clone(),
        other => {
            let mut out = String::new();
            repr(other, &mut out);
            out
        }
    }
}

fn repr(v: &Value, out: &mut String) {
    if let Some(number) = special::text(v) {
        return out.push_str(number);
    }
    match v {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => repr_text(text, out),
        Value::Array(items) => push_all(['[', ']'], items, out, repr),
        Value::Object(map) => push_all(['{', '}'], map, out, |(key, item), out| {
            repr_text(key, out);
            out.push_str(": ");
            repr(item, out);
        }),
    }
}

/// Python's `repr` of text: single quotes unless only those occur in it.
fn repr_text(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => push_escape(u32::from(c), out),
        }
    }
    out.push(quote);
}

fn push_escape(code: u32, out: &mut String) {
    // Writing to a `String` cannot fail.
    let _ = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Python's `str.isprintable`; Rust's debug escapes leave out the same Unicode categories.
///
/// Only characters that are newer than one of the two Unicode tables can differ.
fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Not first in the text, as a combining mark would be escaped there.
    let text: String = ['a', c].into_iter().collect();
    text.escape_debug().eq(text.chars())
}

/// A number as Python's `repr` has it; a float always shows that it is one.
pub(super) fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => float_text(value),
        _ => number.to_string(),
    }
}

/// Python's `repr` of a finite float: the shortest digits, an exponent below 1e-4 and from 1e16.
pub(super) fn float_text(value: f64) -> String {
    let short = format!("{value:e}");
    let Some((mantissa, exponent)) = short.split_once('e') else { return short };
    let Ok(exponent) = exponent.parse::<i32>() else { return short };
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Python's `json.dumps(v)`, ASCII only.
#[cfg(test)]
fn python_json(v: &Value) -> String {
    let mut out = String::new();
    dump(v, &mut out);
    out
}

fn dump(v: &Value, out: &mut String) {
    if let Some(number) = special::text(v) {
        return out.push_str(match number {
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            "nan" => "NaN",
            whole => whole,
        });
    }
    match v {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => dump_text(text, out),
        Value::Array(items) => push_all(['[', ']'], items, out, dump),
        Value::Object(map) => dump_entries(map.iter(), out),
    }
}

/// A JSON object from its entries.
pub(super) fn dump_entries<'a>(
    entries: impl Iterator<Item = (&'a String, &'a Value)>,
    out: &mut String,
) {
    push_all(['{', '}'], entries, out, |(key, item), out| {
        dump_text(key, out);
        out.push_str(": ");
        dump(item, out);
    });
}

fn dump_text(text: &str, out: &mut String) {
    push_quoted(text, out, |c, out| match c {
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        ' '..='~' => out.push(c),
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    });
}

/// Items between brackets, with commas.
pub(super) fn push_all<T>(
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    out: &mut String,
    push: impl Fn(T, &mut String),
) {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        push(item, out);
    }
    out.push(close);
}

/// Text in double quotes; `push` is for what JSON and YAML do not escape alike.
pub(super) fn push_quoted(text: &str, out: &mut String, push: impl Fn(char, &mut String)) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => push(c, out),
        }
    }
    out.push('"');
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    use serde_json::json;
    use std::env;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    #[test]
    fn values_are_written_as_python_writes_them() {
        let table = [
            (json!(true), "True"),
            (json!(null), "None"),
            (special::value("inf"), "inf"),
            (
                json!([special::value("nan"), special::value("-99999999999999999999")]),
                "[nan, -99999999999999999999]",
            ),
            (json!(3), "3"),
            (json!(3.0), "3.0"),
            (json!(1e-5), "1e-05"),
            (json!(0.0001), "0.0001"),
            (json!(1e16), "1e+16"),
            (json!(1e15), "1000000000000000.0"),
            (json!(1.5e300), "1.5e+300"),
            (json!(-0.0), "-0.0"),
            (json!(0.30000000000000004), "0.30000000000000004"),
            (json!("it's"), "it's"),
            (json!([1, 2.0, true, null, "x", "it's"]), "[1, 2.0, True, None, 'x', \"it's\"]"),
            (json!(["a'b\"c", "a\\b\n"]), "['a\\'b\"c', 'a\\\\b\\n']"),
            (json!({"k": "v", "n": [1], "z": null}), "{'k': 'v', 'n': [1], 'z': None}"),
            (json!([]), "[]"),
            (json!({}), "{}"),
            (
                json!(["é\u{a0}\u{7f}\u{200b}\u{e000}\u{f0000}e\u{301}"]),
                "['é\\xa0\\x7f\\u200b\\ue000\\U000f0000e\u{301}']",
            ),
        ];
        for (value, want) in table {
            assert_eq!(python_text(&value), want);
        }
    }

    fn any_char() -> impl Strategy<Value = char> {
        prop_oneof![
            4 => proptest::char::range(' ', '~'),
            2 => prop::sample::select(vec!['\'', '"', '\\', '\n', ' ', ':', '#', '-', '{', '\0']),
            1 => proptest::char::range('\0', '\u{2ff}'),
            1 => proptest::char::range('\u{300}', '\u{36f}'),
            1 => proptest::char::range('\u{2000}', '\u{202f}'),
            1 => proptest::char::range('\u{4e00}', '\u{4eff}'),
            1 => proptest::char::range('\u{e000}', '\u{e0ff}'),
            1 => proptest::char::range('\u{fff0}', '\u{ffff}'),
            1 => proptest::char::range('\u{1f600}', '\u{1f64f}'),
            1 => proptest::char::range('\u{10fff0}', '\u{10ffff}'),
        ]
    }

    pub(in crate::sweep) fn any_text() -> impl Strategy<Value = String> {
        let words = vec![
            "yes",
            "no",
            "null",
            "~",
            "1e3",
            "010",
            "0x1",
            "1:30",
            "2024-01-31",
            "y",
            "",
            "=",
            "<<",
            "a: b",
            "- a",
            "a #b",
            ".inf",
            "0o7",
            "1_0",
            "-",
            "*a",
            "&a",
            "!x",
            "%a",
            "on",
            "True",
            "N",
            "a:",
            "@",
            "`",
            ".",
            "...",
            "---",
            "nan",
            ".5",
            "-.5",
            "1.5e3",
        ];
        prop_oneof![
            1 => prop::sample::select(words).prop_map(str::to_owned),
            4 => prop::collection::vec(any_char(), 0..8).prop_map(String::from_iter),
        ]
    }

    pub(in crate::sweep) fn any_value() -> impl Strategy<Value = Value> {
        let float = prop_oneof![
            any::<f64>().prop_filter("finite", |f| f.is_finite()),
            (-1000_i32..1000).prop_map(f64::from),
            (-100_000_i32..100_000).prop_map(|n| f64::from(n) / 1000.0),
            (0_i32..25, 1_i32..100).prop_map(|(e, m)| f64::from(m) * 10_f64.powi(e)),
            (0_i32..12, 1_i32..100).prop_map(|(e, m)| f64::from(m) / 10_f64.powi(e)),
            // All magnitudes, and the neighbours of round numbers.
            (-324_i32..309, 1_i32..10, -1_i64..2).prop_map(|(e, m, next)| {
                let round: f64 = format!("{m}e{e}").parse().unwrap();
                let bits = round.to_bits().saturating_add_signed(next);
                Some(f64::from_bits(bits)).filter(|f| f.is_finite()).unwrap_or(f64::MAX)
            }),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (0_u32..64, -1_i64..2)
                .prop_map(|(bits, more)| Value::from((1_i64 << bits.min(62)) + more)),
            float.prop_map(Value::from),
            any_text().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any_text(), inner), 0..4)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    /// Values of a fixed seed, so that python3 is started only once for all of them.
    pub(in crate::sweep) fn samples<S: Strategy>(strategy: &S, count: usize) -> Vec<S::Value> {
        let mut runner = TestRunner::deterministic();
        (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
    }

    /// Runs a Python program with JSON on its stdin; `None` without Python or its module.
    ///
    /// The Python is `SWEEPCTL_TEST_PYTHON`, which scripts/test sets to one with PyYAML and wandb,
    /// or python3.
    pub(in crate::sweep) fn python(program: &str, input: &Value) -> Option<Value> {
        let python = env::var_os("SWEEPCTL_TEST_PYTHON").unwrap_or_else(|| "python3".into());
        let skip = |why: &str| {
            assert!(env::var_os("SWEEPCTL_REQUIRE_ALL").is_none(), "cannot run here: {why}");
            println!("skipped: {why}");
        };
        let child = Command::new(&python)
            .args(["-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            skip("no python3");
            return None;
        };
        // A missing module ends python3 before it reads: then the write fails, and that is fine.
        let _ = child.stdin.take().unwrap().write_all(python_json(input).as_bytes());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains("ModuleNotFoundError") {
            skip(&format!("no python3 with the module: {stderr}"));
            return None;
        }
        assert!(output.status.success(), "{stderr}");
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }

    #[test]
    fn text_and_json_equal_those_of_a_real_python() {
        let values = samples(&any_value(), 5000);
        let program = "import json,sys\nv=json.load(sys.stdin)\nprint(json.dumps([[str(x),json.dumps(x)] for x in v]))";
        let Some(answer) = python(program, &Value::Array(values.clone())) else { return };
        let answer = answer.as_array().unwrap();
        assert_eq!(answer.len(), values.len());
        for (value, want) in values.iter().zip(answer) {
            assert_eq!(python_text(value), want[0].as_str().unwrap(), "{value:?}");
            assert_eq!(python_json(value), want[1].as_str().unwrap(), "{value:?}");
        }
    }

    #[test]
    fn every_character_is_written_as_python_writes_it() {
        // `null`: not in Python's Unicode table, which may be older than Rust's.
        let program = "
import json, sys, unicodedata
def text(c):
    return None if unicodedata.category(chr(c)) in ('Cn', 'Cs') else repr(chr(c))
json.load(sys.stdin)
print(json.dumps([unicodedata.unidata_version, [text(c) for c in range(0x110000)]]))";
        let Some(answer) = python(program, &Value::Null) else { return };
        let version = answer[0].as_str().unwrap().split('.').next().unwrap();
        if version.parse::<u8>().unwrap() > char::UNICODE_VERSION.0 {
            println!("skipped: Python's Unicode {version} is newer than Rust's");
            return;
        }
        for (code, want) in (0..).zip(answer[1].as_array().unwrap()) {
            let (Some(c), Some(want)) = (char::from_u32(code), want.as_str()) else { continue };
            let mut text = String::new();
            repr_text(c.encode_utf8(&mut [0; 4]), &mut text);
            assert_eq!(text, want, "U+{code:04X}");
        }
    }
}
