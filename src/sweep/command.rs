//! The command of a run: W&B's macros filled in as its agent does.

use serde_json::Value;

use super::model::SweepSpec;
use super::python::{dump_entries, python_text};
use crate::search::Config;

/// The command of a sweep that gives none.
pub(super) const DEFAULT_COMMAND: [&str; 4] = ["${env}", "${interpreter}", "${program}", "${args}"];

/// Every macro but `envvar:NAME`; those that hand a run its parameters come first.
pub(super) const MACROS: [&str; 12] = [
    "args",
    "args_no_hyphens",
    "args_no_boolean_flags",
    "args_no_equals",
    "args_append_hydra",
    "args_override_hydra",
    "args_json",
    "args_json_file",
    "args_dict",
    "env",
    "interpreter",
    "program",
];

/// The macros that hand a run its parameters: `args_dict` gives their names alone.
pub(super) const ARGS_MACROS: &[&str] = MACROS.split_at(8).0;

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
            Some("program") => argv.push(spec.program.clone().unwrap_or_default()),
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
        // W&B's agent has a mapping there, of which a list takes the keys.
        ("args_dict", _) => vec![key.to_owned()],
        ("args_append_hydra", _) => vec![format!("+{key}={}", text())],
        ("args_override_hydra", _) => vec![format!("++{key}={}", text())],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameter_file::parameter_file;
    use super::super::python::tests::{any_text, any_value, python, samples};
    use super::*;
    use proptest::prelude::*;
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
        let table: [(&str, &[&str]); 15] = [
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
            ("${args_dict}", &["d", "flag", "l", "lr", "n", "off"]),
            ("${}", &[]),
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

    #[test]
    fn a_sweep_without_a_program_has_an_empty_one() {
        let spec: SweepSpec =
            serde_json::from_value(json!({"method": "grid", "parameters": {}})).unwrap();
        let argv = argv(&spec, &Config::new(), "python", "", &|_| None);
        assert_eq!(argv, ["/usr/bin/env", "python", ""]);
    }

    fn any_item() -> impl Strategy<Value = String> {
        let macros: Vec<String> = MACROS
            .into_iter()
            .chain(["", "unknown", "envvar:lower", "envvar:UNSET", "envvar:", "envvar:MACRO"])
            .map(|name| format!("${{{name}}}"))
            .collect();
        let pieces = macros.clone().into_iter().chain(
            [
                "${envvar:NAME}",
                "${envvar:EMPTY}",
                "${envvar:",
                "${",
                "}",
                "$",
                "x",
                "--a=",
                " ",
                "\u{e9}",
            ]
            .map(str::to_owned),
        );
        prop_oneof![
            2 => prop::sample::select(macros),
            2 => prop::collection::vec(prop::sample::select(pieces.collect::<Vec<_>>()), 1..4)
                .prop_map(|pieces| pieces.concat()),
            1 => any_text(),
        ]
    }

    /// W&B's own agent, its start of a process replaced by a recorder.
    const AGENT: &str = r#"
import json, os, sys, tempfile, types
import yaml
from wandb import wandb_agent
started = []
wandb_agent.AgentProcess = lambda command, **_: started.append(command) or types.SimpleNamespace()
given = json.load(sys.stdin)
folder = tempfile.TemporaryDirectory()
os.environ.update(given["env"], WANDB_DIR=folder.name, WANDB_SWEEP_ID="s")
os.environ.pop("UNSET", None)
def typed(v):
    if isinstance(v, dict): return ["dict", [[typed(k), typed(x)] for k, x in sorted(v.items())]]
    if isinstance(v, list): return ["list", [typed(x) for x in v]]
    return [type(v).__name__, repr(v)]
answers = []
for case in given["cases"]:
    agent = types.SimpleNamespace(_sweep_command=case["command"], _in_jupyter=False, _function=None,
                                  _forward_signals=False, _run_processes={})
    args = {name: {"value": value} for name, value in case["config"].items()}
    wandb_agent.Agent._command_run(agent, {"run_id": "r", "program": "fit.py", "args": args})
    base = os.path.join(folder.name, "wandb", "sweep-s", "config-r")
    theirs = yaml.safe_load(open(base + ".yaml", encoding="utf-8"))
    ours = yaml.safe_load(case["file"])
    # PyYAML does not read back every text that it wrote itself (U+0085); then ours need not equal it.
    lossy = typed(theirs) != typed({"wandb_version": 1} | args)
    text = None
    if "${args_json_file}" in (case["command"] or []): text = open(base + ".json").read()
    argv = [a.replace(folder.name, "DIR") for a in started.pop()]
    answers.append([argv, text, lossy or typed(theirs) == typed(ours)])
print(json.dumps(answers))
"#;

    #[test]
    fn argument_lists_and_files_are_those_of_the_official_agent() {
        let names = prop_oneof![3 => "[a-zA-Z_][a-zA-Z0-9_.-]{0,5}", 1 => any_text()];
        let config = prop::collection::vec((names, any_value()), 0..5);
        let command = prop::option::of(prop::collection::vec(any_item(), 0..5));
        let env = json!({"NAME": "alice", "EMPTY": "", "MACRO": "${args}"});
        let cases: Vec<(Config, Option<Vec<String>>)> = samples(&(config, command), 2000)
            .into_iter()
            .map(|(config, command)| (config.into_iter().collect(), command))
            .collect();
        let given: Vec<Value> = cases
            .iter()
            .map(|(config, command)| {
                json!({"command": command, "config": config, "file": parameter_file(config)})
            })
            .collect();
        let Some(answers) = python(AGENT, &json!({"env": env, "cases": given})) else { return };
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), cases.len());
        let mut spec: SweepSpec = serde_json::from_value(
            json!({"method": "grid", "program": "fit.py", "parameters": {}}),
        )
        .unwrap();
        for ((config, command), answer) in cases.iter().zip(answers) {
            spec.command.clone_from(command);
            let ours = argv(&spec, config, "python", "DIR/wandb/sweep-s/config-r.json", &|name| {
                env.get(name).and_then(Value::as_str).map(str::to_owned)
            });
            assert_eq!(json!(ours), answer[0], "{command:?} {config:?}");
            if let Some(text) = answer[1].as_str() {
                assert_eq!(json(config), text, "{config:?}");
            }
            assert_eq!(answer[2], true, "{}", parameter_file(config));
        }
    }
}
