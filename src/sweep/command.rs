//! The command of a run: W&B's macros filled in as its agent does.

use serde_json::Value;

use super::model::SweepSpec;
use super::python::{dump_entries, python_text};
use crate::search::Config;

/// The command of a sweep that gives none.
pub(super) const DEFAULT_COMMAND: [&str; 4] = ["${env}", "${interpreter}", "${program}", "${args}"];

/// The macros that hand a run its parameters.
pub(super) const ARGS_MACROS: [&str; 8] = [
    "args",
    "args_no_hyphens",
    "args_no_boolean_flags",
    "args_no_equals",
    "args_append_hydra",
    "args_override_hydra",
    "args_json",
    "args_json_file",
];

/// Every macro but `envvar:NAME`.
pub(super) const MACROS: [&str; 11] = [
    "env",
    "interpreter",
    "program",
    "args",
    "args_no_hyphens",
    "args_no_boolean_flags",
    "args_no_equals",
    "args_append_hydra",
    "args_override_hydra",
    "args_json",
    "args_json_file",
];

/// The argument list that W&B's agent would start for `config`; no shell is involved.
///
/// An item that is exactly a macro becomes none, one or many arguments, and vanishes if the macro
/// is unknown. Inside longer items only `${envvar:NAME}` is replaced. `args_json_file` is the path
/// of a file that the caller fills with what `${args_json}` gives.
#[must_use]
pub fn argv(
    spec: &SweepSpec,
    config: &Config,
    interpreter: &str,
    args_json_file: &str,
    envvar: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let command: Vec<&str> = match &spec.command {
        Some(command) if !command.is_empty() => command.iter().map(String::as_str).collect(),
        _ => DEFAULT_COMMAND.to_vec(),
    };
    let mut argv = Vec::new();
    for item in command {
        let item = replace_envvars(item, envvar);
        match macro_name(&item) {
            None => argv.push(item),
            Some("env") => argv.push("/usr/bin/env".to_owned()),
            Some("interpreter") => argv.push(interpreter.to_owned()),
            Some("program") => argv.extend(spec.program.clone()),
            Some("args_json") => argv.push(json(config)),
            Some("args_json_file") => argv.push(args_json_file.to_owned()),
            Some(name) => argv.extend(config.iter().flat_map(|(key, v)| argument(name, key, v))),
        }
    }
    argv
}

/// The name of the macro that an item is from end to end.
pub(super) fn macro_name(item: &str) -> Option<&str> {
    item.strip_prefix("${")?.strip_suffix('}')
}

/// Replaces every `${envvar:NAME}`; an unset variable becomes its own name.
pub(super) fn replace_envvars(item: &str, envvar: &dyn Fn(&str) -> Option<String>) -> String {
    const OPEN: &str = "${envvar:";
    let (mut done, mut rest) = (String::new(), item);
    while let Some((before, after)) = rest.split_once(OPEN) {
        done.push_str(before);
        let is_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        match after.split_once('}') {
            Some((name, behind)) if name.bytes().all(is_name) => {
                done.push_str(&envvar(name).unwrap_or_else(|| name.to_owned()));
                rest = behind;
            }
            _ => {
                done.push_str(OPEN);
                rest = after;
            }
        }
    }
    done + rest
}

fn json(config: &Config) -> String {
    let mut out = String::new();
    dump_entries(config.iter(), &mut out);
    out
}

fn argument(name: &str, key: &str, value: &Value) -> Vec<String> {
    let text = || python_text(value);
    match (name, value) {
        ("args_no_boolean_flags", Value::Bool(true)) => vec![format!("--{key}")],
        ("args_no_boolean_flags", Value::Bool(false)) => Vec::new(),
        ("args" | "args_no_boolean_flags", _) => vec![format!("--{key}={}", text())],
        ("args_no_hyphens", _) => vec![format!("{key}={}", text())],
        ("args_no_equals", _) => vec![format!("--{key}"), text()],
        ("args_append_hydra", _) => vec![format!("+{key}={}", text())],
        ("args_override_hydra", _) => vec![format!("++{key}={}", text())],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(command: Option<&[&str]>) -> Vec<String> {
        let mut spec = crate::sweep::read(
            b"program: fit.py\nmethod: grid\nparameters: {a: {value: 1}}",
            "s.yaml",
        )
        .unwrap()
        .spec;
        spec.command = command.map(|items| items.iter().map(|item| (*item).to_owned()).collect());
        let config = json!({
            "d": {"x": 1}, "flag": true, "l": [1, "a"], "lr": 0.1, "n": null, "off": false
        });
        let config: Config = config.as_object().unwrap().clone().into_iter().collect();
        argv(&spec, &config, "python", "/run/args.json", &|name| {
            (name == "USER").then(|| "alice".to_owned())
        })
    }

    #[test]
    fn without_a_command_the_default_is_used() {
        let want = [
            "/usr/bin/env",
            "python",
            "fit.py",
            "--d={'x': 1}",
            "--flag=True",
            "--l=[1, 'a']",
            "--lr=0.1",
            "--n=None",
            "--off=False",
        ];
        assert_eq!(run(None), want);
        assert_eq!(run(Some(&[])), want);
    }

    #[test]
    fn every_macro_gives_what_the_agent_gives() {
        let table: [(&str, &[&str]); 13] = [
            ("${env}", &["/usr/bin/env"]),
            ("${interpreter}", &["python"]),
            ("${program}", &["fit.py"]),
            (
                "${args_no_hyphens}",
                &["d={'x': 1}", "flag=True", "l=[1, 'a']", "lr=0.1", "n=None", "off=False"],
            ),
            (
                "${args_no_boolean_flags}",
                &["--d={'x': 1}", "--flag", "--l=[1, 'a']", "--lr=0.1", "--n=None"],
            ),
            (
                "${args_no_equals}",
                &[
                    "--d", "{'x': 1}", "--flag", "True", "--l", "[1, 'a']", "--lr", "0.1", "--n",
                    "None", "--off", "False",
                ],
            ),
            (
                "${args_append_hydra}",
                &["+d={'x': 1}", "+flag=True", "+l=[1, 'a']", "+lr=0.1", "+n=None", "+off=False"],
            ),
            (
                "${args_override_hydra}",
                &[
                    "++d={'x': 1}",
                    "++flag=True",
                    "++l=[1, 'a']",
                    "++lr=0.1",
                    "++n=None",
                    "++off=False",
                ],
            ),
            (
                "${args_json}",
                &[
                    r#"{"d": {"x": 1}, "flag": true, "l": [1, "a"], "lr": 0.1, "n": null, "off": false}"#,
                ],
            ),
            ("${args_json_file}", &["/run/args.json"]),
            ("${unknown}", &[]),
            ("${program} ${args}", &[]),
            ("--cfg=${args_json}", &["--cfg=${args_json}"]),
        ];
        for (item, want) in table {
            assert_eq!(run(Some(&[item])), want, "{item}");
        }
    }

    #[test]
    fn environment_macros_are_replaced_anywhere() {
        let table: [(&str, &[&str]); 6] = [
            ("${envvar:USER}", &["alice"]),
            ("--o=/${envvar:USER}/${envvar:USER}", &["--o=/alice/alice"]),
            ("${envvar:NOT_SET}", &["NOT_SET"]),
            ("${envvar:lower}", &[]),
            ("j${envvar:lower}x", &["j${envvar:lower}x"]),
            ("${envvar:a${envvar:USER}-", &["${envvar:aalice-"]),
        ];
        for (item, want) in table {
            assert_eq!(run(Some(&[item])), want, "{item}");
        }
    }
}
