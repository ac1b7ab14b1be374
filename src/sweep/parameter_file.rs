//! The file through which `wandb.init` learns a run's parameters.

use std::fmt::Write as _;

use serde_json::Value;

use super::python::{number_text, push_all, push_quoted};
use super::scalar::{self, Meaning};
use super::special;
use crate::search::Config;

/// A configuration as YAML that readers of YAML 1.1 and 1.2 understand alike.
///
/// Text that either could take for something else is quoted, floats have a dot and a signed
/// exponent, and lists and mappings are written in flow style.
#[must_use]
pub fn parameter_file(config: &Config) -> String {
    let mut out = String::from("wandb_version: 1\n\n");
    for (name, value) in config {
        push_text(name, &mut out);
        out.push_str(":\n  value: ");
        match value {
            Value::String(text) => push_text(text, &mut out),
            other => push_flow(other, &mut out),
        }
        out.push('\n');
    }
    out
}

fn push_text(text: &str, out: &mut String) {
    if is_plain(text) { out.push_str(text) } else { push_yaml_text(text, out) }
}

/// Whether every reader takes `text`, written bare, for that text.
fn is_plain(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_simple = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-');
    // `y` and `n` are booleans by the letter of YAML 1.1, though not for PyYAML.
    starts_well
        && text.bytes().all(is_simple)
        && !matches!(text, "y" | "Y" | "n" | "N")
        && matches!(scalar::resolve(text), Ok(Meaning::Value(Value::String(_))))
}

fn push_yaml_text(text: &str, out: &mut String) {
    push_quoted(text, out, |c, out| match c {
        // What YAML does not count as printable, or takes for the end of a line.
        '\0'..='\x1f'
        | '\x7f'..='\u{a0}'
        | '\u{2028}'
        | '\u{2029}'
        | '\u{feff}'
        | '\u{fffe}'
        | '\u{ffff}' => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
        c => out.push(c),
    });
}

fn push_flow(value: &Value, out: &mut String) {
    if let Some(number) = special::text(value) {
        return match number {
            "-inf" => out.push_str("-.inf"),
            number if special::is_whole(number) => out.push_str(number),
            number => out.extend([".", number]),
        };
    }
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => {
            let text = number_text(number);
            match text.split_once('e') {
                // `1e-05` is text for a reader of YAML 1.1; `1.0e-05` is a number for all.
                Some((mantissa, exponent)) if !mantissa.contains('.') => {
                    let _ = write!(out, "{mantissa}.0e{exponent}");
                }
                _ => out.push_str(&text),
            }
        }
        Value::String(text) => push_yaml_text(text, out),
        Value::Array(items) => push_all(['[', ']'], items, out, push_flow),
        Value::Object(map) => push_all(['{', '}'], map, out, |(key, item), out| {
            push_yaml_text(key, out);
            out.push_str(": ");
            push_flow(item, out);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::python::tests::{any_text, any_value, python, samples};
    use super::*;
    use serde_json::json;

    fn config(value: Value) -> Config {
        value.as_object().unwrap().clone().into_iter().collect()
    }

    #[test]
    fn the_file_has_the_agents_form() {
        let config = config(json!({
            "d": {"x": 1, "yes": [1e-5, "a"]}, "flag": true, "lr": 0.1, "n": null, "opt": "adam",
            "tiny": 1e-5, "big": 1e17, "s": "on", "t": "1e3", "u": "x y", "y": "n"
        }));
        assert_eq!(
            parameter_file(&config),
            "wandb_version: 1\n\n\
             d:\n  value: {\"x\": 1, \"yes\": [1.0e-05, \"a\"]}\n\
             flag:\n  value: true\n\
             lr:\n  value: 0.1\n\
             \"n\":\n  value: null\n\
             opt:\n  value: adam\n\
             tiny:\n  value: 1.0e-05\n\
             big:\n  value: 1.0e+17\n\
             s:\n  value: \"on\"\n\
             t:\n  value: \"1e3\"\n\
             u:\n  value: \"x y\"\n\
             \"y\":\n  value: \"n\"\n"
        );
    }

    #[test]
    fn pyyaml_reads_back_every_value_with_its_type() {
        let values = samples(&(any_text(), any_value()), 1500);
        let files: Vec<Value> = values
            .iter()
            .map(|(name, value)| {
                let config = Config::from_iter([(name.clone(), value.clone())]);
                Value::from(parameter_file(&config))
            })
            .collect();
        let program = "import yaml,json,sys\nprint(json.dumps([[yaml.safe_load(t)] for t in json.load(sys.stdin)]))";
        let Some(answer) = python(program, &Value::Array(files.clone())) else { return };
        for ((file, (name, value)), got) in
            files.iter().zip(&values).zip(answer.as_array().unwrap())
        {
            assert_eq!(got[0][name]["value"].to_string(), value.to_string(), "{file}");
        }
    }

    #[test]
    fn a_reader_of_yaml_1_2_reads_back_every_text() {
        for (name, text) in samples(&(any_text(), any_text()), 1500) {
            let file =
                parameter_file(&Config::from_iter([(name.clone(), Value::from(text.clone()))]));
            let documents = yaml_rust2::YamlLoader::load_from_str(&file).unwrap();
            assert_eq!(
                documents[0][name.as_str()]["value"].as_str(),
                Some(text.as_str()),
                "{file}"
            );
        }
    }
}
