//! What `check` and `read` say of whole files.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::search;
use crate::search::vectors::cases;

fn checked(text: &str) -> Check {
    check(text.as_bytes(), "s", Surroundings::UNKNOWN)
}

/// Every problem of a file, one a line.
fn problems(text: &str) -> String {
    let check = checked(text);
    let has_error = check.problems.iter().any(|problem| problem.severity == Severity::Error);
    assert_eq!(check.can_run(), !has_error, "{text}");
    let lines = check.problems.iter().map(|problem| {
        let letter = problem.severity.name()[..1].to_uppercase();
        format!("{letter} {} [{}] {problem}\n", problem.code, problem.pointer)
    });
    lines.collect()
}

/// Code and pointer of every problem.
fn codes(text: &str) -> Vec<(String, String)> {
    let pair = |problem: &Problem| (problem.code.to_string(), problem.pointer.clone());
    checked(text).problems.iter().map(pair).collect()
}

fn good(text: &str) -> SweepSpec {
    read(text.as_bytes(), "s").map_err(|p| format!("{p:?}")).unwrap().spec
}

/// A random sweep with the parameter `a`.
fn with_parameter(parameter: &str) -> String {
    format!("program: p\nmethod: random\nparameters:\n  a: {parameter}\n")
}

/// A grid with one more top-level line, the fourth.
fn with_line(line: &str) -> String {
    format!("program: p\nmethod: grid\nparameters: {{a: {{value: 1}}}}\n{line}\n")
}

/// A bayes sweep with more lines.
fn bayes(lines: &str) -> String {
    format!("program: p\nmethod: bayes\nparameters: {{a: {{min: 1, max: 9}}}}\n{lines}\n")
}

/// What is said of each text, one block for each.
fn all_problems(texts: &[&str], file: impl Fn(&str) -> String) -> String {
    texts.iter().map(|text| format!("{text}\n{}\n", problems(&file(text)))).collect()
}

#[test]
fn a_whole_file_is_read() {
    let spec = good(
        "name: n\ndescription: d\nprogram: p.py\nmethod: random\nrun_cap: 5\nproject: x\n\
         entity: y\nkind: sweep\napiVersion: v\ncontroller: {type: local}\n\
         metric: {name: loss, goal: maximize, target: 0.99}\n\
         early_terminate: {type: hyperband, max_iter: 27, s: 2, strict: true}\n\
         command: [python, 5, 1.0e-6, 1e-6, true, null]\n\
         parameters:\n  c: {value: }\n  k: {values: [1, 1.0, 'yes', yes]}\n  \
         i: {min: 1, max: 5}\n  u: {min: 1e-5, max: 1e-1}\n  \
         v: {distribution: uniform, min: 0, max: 1}\n",
    );
    assert_eq!(
        serde_json::to_value(&spec).unwrap(),
        json!({
            "name": "n", "description": "d", "project": "x", "entity": "y", "program": "p.py",
            "method": "random",
            "metric": {"name": "loss", "goal": "maximize", "target": 0.99},
            "early_terminate":
                {"bands": {"max": {"max_iter": 27, "s": 2}}, "eta": 3.0, "strict": true},
            "run_cap": 5,
            "command": ["python", "5", "1e-06", "1e-6", "True", "None"],
            "parameters": {
                "c": {"constant": null},
                "k": {"categorical": [1, 1.0, "yes", true]},
                "i": {"int_uniform": {"min": 1, "max": 5}},
                "u": {"real": {"uniform": {"min": 1e-5, "max": 0.1}}},
                "v": {"real": {"uniform": {"min": 0, "max": 1}}},
            },
        })
    );
}

#[test]
fn every_distribution_is_read() {
    let table = [
        (
            "{values: [1, 2], probabilities: [0.25, 0.75]}",
            json!({"weighted": {"values": [1, 2], "probabilities": [0.25, 0.75]}}),
        ),
        (
            "{distribution: q_uniform, min: 0, max: 10, q: 2}",
            json!({"quantized": {"law": {"uniform": {"min": 0, "max": 10}}, "q": 2}}),
        ),
        (
            "{distribution: q_uniform, min: 0, max: 10}",
            json!({"quantized": {"law": {"uniform": {"min": 0, "max": 10}}, "q": 1.0}}),
        ),
        (
            "{distribution: log_uniform, min: -9, max: -2}",
            json!({"real": {"log_uniform": {"min": -9.0, "max": -2.0}}}),
        ),
        (
            "{distribution: log_uniform_values, min: 1e-5, max: 0.1}",
            json!({"real": {"log_uniform_values": {"min": 1e-5, "max": 0.1}}}),
        ),
        (
            "{distribution: inv_log_uniform, min: 2, max: 9}",
            json!({"real": {"inv_log_uniform": {"min": 2.0, "max": 9.0}}}),
        ),
        (
            "{distribution: inv_log_uniform_values, min: 1, max: 2}",
            json!({"real": {"inv_log_uniform_values": {"min": 1, "max": 2}}}),
        ),
        (
            "{distribution: q_log_uniform, min: 2, max: 9}",
            json!({"quantized": {"law": {"log_uniform": {"min": 2.0, "max": 9.0}}, "q": 1.0}}),
        ),
        (
            "{distribution: q_log_uniform_values, min: 16, max: 256, q: 16}",
            json!({"quantized": {"law": {"log_uniform_values": {"min": 16, "max": 256}}, "q": 16}}),
        ),
        ("{distribution: normal}", json!({"real": {"normal": {"mu": 0.0, "sigma": 1.0}}})),
        (
            "{distribution: q_normal, mu: 3, sigma: 2, q: 0.5}",
            json!({"quantized": {"law": {"normal": {"mu": 3, "sigma": 2.0}}, "q": 0.5}}),
        ),
        (
            "{distribution: log_normal, mu: 1}",
            json!({"real": {"log_normal": {"mu": 1.0, "sigma": 1.0}}}),
        ),
        (
            "{distribution: q_log_normal}",
            json!({"quantized": {"law": {"log_normal": {"mu": 0.0, "sigma": 1.0}}, "q": 1.0}}),
        ),
        ("{distribution: beta, a: 2}", json!({"real": {"beta": {"a": 2.0, "b": 1.0}}})),
        (
            "{distribution: q_beta, q: 0.1}",
            json!({"quantized": {"law": {"beta": {"a": 1.0, "b": 1.0}}, "q": 0.1}}),
        ),
        (
            "{parameters: {b: {value: 1}, c: {parameters: {d: {min: 0, max: 0.5}}}}}",
            json!({"group": {"b": {"constant": 1}, "c": {"group": {"d": {"real": {"uniform": {"min": 0, "max": 0.5}}}}}}}),
        ),
        ("{distribution: constant, value: 1}", json!({"constant": 1})),
        ("{distribution: categorical, values: [1, 2]}", json!({"categorical": [1, 2]})),
        (
            "{distribution: int_uniform, min: 1, max: 2}",
            json!({"int_uniform": {"min": 1, "max": 2}}),
        ),
        (
            "{distribution: categorical_w_probabilities, values: [1, 2], probabilities: [1, 0]}",
            json!({"weighted": {"values": [1, 2], "probabilities": [1.0, 0.0]}}),
        ),
    ];
    for (parameter, want) in table {
        let spec = good(&with_parameter(parameter));
        assert_eq!(serde_json::to_value(&spec.parameters["a"]).unwrap(), want, "{parameter}");
    }
}

#[test]
fn mappings_in_values_arrive_with_sorted_keys() {
    let spec = good("program: p\nmethod: grid\nparameters: {a: {value: {b: {d: 1, c: 2}, a: 3}}}");
    assert_eq!(
        serde_json::to_string(&spec.parameters["a"]).unwrap(),
        r#"{"constant":{"a":3,"b":{"c":2,"d":1}}}"#
    );
}

#[test]
fn byte_order_mark_crlf_and_document_marks_are_fine() {
    for text in [
        "\u{feff}program: p\nmethod: grid\nparameters: {a: {value: 1}}\n",
        "program: p\r\nmethod: grid\r\nparameters:\r\n  a:\r\n    value: 1\r\n",
        "---\n# note\nprogram: p\nmethod: grid\nparameters: {a: {value: 1}}\n...\n",
    ] {
        assert_eq!(problems(text), "", "{text:?}");
        assert_eq!(good(text).parameters["a"], Parameter::Constant(json!(1)));
    }
}

#[test]
fn lines_are_counted_alike_with_crlf() {
    let text = "\u{feff}program: p\r\nmethod: grid\r\nparameters:\r\n  \u{e9}: 1\r\n";
    assert!(problems(text).contains("s:4:6: "), "{}", problems(text));
}

#[test]
fn what_is_no_sweep_file_is_one_clear_error() {
    let long = format!("a: {}\n", "9".repeat(5000));
    let table: [(&[u8], &str); 27] = [
        (b"", "s:1:1: the file is empty"),
        (b"# nothing\n", "s:1:1: the file is empty"),
        (b"---\n", "s:1:1: the file is empty"),
        (b"{}\n", "s:1:1: the file is empty"),
        (b"off\n", "s:1:1: the file is empty"),
        (b"- a\n", "s:1:1: the file is not a mapping of keys"),
        (b"text\n", "s:1:1: the file is not a mapping of keys"),
        (b"a: 1\nb: \xff\n", "s:2:4: the file is not UTF-8 text"),
        (b"\xff\xfea\0", "s:1:1: the file is not UTF-8 text"),
        (b"a: \0\n", "s:1:4: YAML does not allow the control character U+0000"),
        (b"a: b\xc2\x85c\n", "s:1:5: W&B takes the character U+0085 for the end of a line"),
        (b"a:\n\tb: 1\n", "s:2:1: YAML does not allow tabs as indentation"),
        (b"a:\n  b:\t1\n", "s:2:5: W&B's reader does not allow tabs outside quotes and comments"),
        (b"a: x\t# y\n", "s:1:5: W&B's reader does not allow tabs outside quotes and comments"),
        (b"a: 'x'\t\n", "s:1:7: W&B's reader does not allow tabs outside quotes and comments"),
        (b"a: 1\n---\nb: 1\n", "s:2:1: the file holds several documents"),
        (b"a: b\nc\nd: e\n", "s:3:1: this is not YAML: a line above lacks its `:`"),
        (
            b"a: [${env}]\n",
            "s:1:6: this is not YAML: while parsing a flow sequence, expected ',' or ']' (within `[...]`, put every `${...}` in quotes)",
        ),
        (b"a: [1\n", "s:2:1: this is not YAML"),
        (b"a: *b\n", "s:1:4: this is not YAML"),
        (b"a: &b [*b]\n", "s:1:8: this alias refers to a value it is part of"),
        (b"a: !python/x 1\n", "s:1:14: the tag `!python/x` has no meaning here"),
        (b"? [a]\n: 1\n", "s:1:3: a key must be text"),
        (b"a: =\n", "s:1:4: `=` is no value in YAML (put it in quotes)"),
        (b"a: [<<]\n", "s:1:5: `<<` is no value in YAML (put it in quotes)"),
        (b"a: 2024-02-30\n", "s:1:4: there is no such date as `2024-02-30` (put it in quotes)"),
        (long.as_bytes(), "s:1:4: `999"),
    ];
    for (text, want) in table {
        let found = read(text, "s").unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        let found = found[0].to_string();
        assert!(found.starts_with(want), "{:?}: {found}", String::from_utf8_lossy(text));
    }
}

#[test]
fn tabs_are_fine_in_quotes_comments_and_block_text() {
    for text in [
        "program: p # a\ttab\nmethod: grid\n# \t\nparameters: {a: {value: 'x\t''\t'}}\n",
        "program: p\nmethod: grid\nparameters: {a: {value: \"x\\\"\t\n  \ty\"}}\n",
        "program: p\nmethod: grid\nparameters:\n  a:\n    value: |\n      x\ty\n\n      \tz\n  b: {value: 1}\n",
        "program: p\nmethod: grid\nparameters:\n  a:\n    value: >-\n      x\ty\n# \tend\n",
    ] {
        assert_eq!(problems(text), "", "{text:?}");
    }
    let behind =
        "program: p\nmethod: grid\nparameters:\n  a:\n    value: |\n      x\ty\n  b:\t{value: 1}\n";
    assert!(problems(behind).starts_with("E tab [] s:7:5: "), "{}", problems(behind));
}

#[test]
fn aliases_and_depth_are_bounded() {
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let alias = format!("*a{}", i - 1);
        laughs += &format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 10].join(", "));
    }
    assert!(problems(&laughs).contains("more than 100000 values"));
    assert!(problems(&format!("a: {}", "[".repeat(200))).contains("deeper than 128 levels"));
    assert!(problems(&"- ".repeat(100_000)).contains("deeper than 128 levels"));
    let mut chain = String::from("a0: &a0 [x]\n");
    for i in 1..200 {
        chain += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
    }
    assert!(problems(&chain).contains("deeper than 128 levels"));
}

#[test]
fn anchors_and_merge_keys_are_resolved() {
    let spec = good(
        "program: p\nmethod: grid\nparameters:\n  base: &b {values: [1, 2]}\n  same: *b\n  \
         more: {<<: *b, distribution: categorical}\n  own: {<<: [*b, {values: [9]}], values: [3]}\n",
    );
    let values = |values: Value| Parameter::Categorical(values.as_array().unwrap().clone());
    assert_eq!(spec.parameters["same"], values(json!([1, 2])));
    assert_eq!(spec.parameters["more"], values(json!([1, 2])));
    assert_eq!(spec.parameters["own"], values(json!([3])));
}

#[test]
fn tags_say_what_a_scalar_is() {
    let spec = good(
        "program: p\nmethod: grid\nparameters: {a: {values: [!!str 1, !!float 1, !!int '2', ! 3, ! '4']}}",
    );
    assert_eq!(
        spec.parameters["a"],
        Parameter::Categorical(vec![json!("1"), json!(1.0), json!(2), json!(3), json!(4)])
    );
}

#[test]
fn every_problem_is_found_at_once_and_at_its_place() {
    insta::assert_snapshot!(problems(
        "method: Gird\nmetric: {goal: maximise}\nrun_cap: -1\ncommand: python ${program}\n\
         paramters: 1\nparameters:\n  opt: 0.01\n  lr: {min: 1.0, max: 0.1}\n  \
         b: {values: []}\n  lr: {min: 0, max: 0.5}\nearly_terminate: {type: hyperband}\n"
    ));
}

#[test]
fn faults_of_the_top_level() {
    let lines = [
        "run_cap: 0",
        "run_cap: 1.5",
        "run_cap: yes",
        "run_cap: [1]",
        "run_cap: 2",
        "command: 'a b'",
        "command:",
        "name:",
        "name: 5",
        "program: [train.py]",
        "program: train.py --x",
        "description: 2024-01-31",
        "controller: {type: cloud}",
        "controller: {type: remote}",
        "controller: {}",
        "controller: local",
        "kind: run",
        "descripton: x",
        "colour: x",
        "method: Random",
        "method: bayesian",
        "method: [grid]",
        "method: custom",
    ];
    insta::assert_snapshot!(all_problems(&lines, with_line));
}

#[test]
fn faults_of_a_metric() {
    let lines = [
        "metric: loss",
        "metric: {goal: minimize}",
        "metric: {name: }",
        "metric: {name: ''}",
        "metric: {name: 5}",
        "metric: {name: loss, goal: min}",
        "metric: {name: loss, goal: up}",
        "metric: {name: loss, target: 0.1, impute: best}",
        "metric: {name: loss, target: high}",
        "metric: {name: loss, impute: mean}",
        "metric: {name: loss, impute_while_running: false}",
        "metric: {name: loss, unit: s, gaol: maximize}",
    ];
    insta::assert_snapshot!(all_problems(&lines, with_line));
    insta::assert_snapshot!(
        "faults_of_a_metric_that_is_needed",
        all_problems(
            &[&lines[..3], &["", "early_terminate: {type: hyperband, min_iter: 3}"]].concat(),
            bayes
        )
    );
}

#[test]
fn faults_of_early_termination() {
    let values = [
        "{type: hyperband, min_iter: 3}",
        "{type: hyperband, min_iter: 3.0, eta: 1.5, strict: false}",
        "{type: hyperband, max_iter: 27, s: 2}",
        "hyperband",
        "{}",
        "{type: hyperbnad, min_iter: 3}",
        "{type: median, min_iter: 3}",
        "{type: hyperband, eta: 2}",
        "{type: hyperband, max_iter: 27}",
        "{type: hyperband, s: 2}",
        "{type: hyperband, min_iter: 3, max_iter: 27}",
        "{type: hyperband, min_iter: 0, eta: 1, strict: 'yes', threshold: 2}",
        "{type: hyperband, max_iter: 27, s: 2.0}",
        "{type: hyperband, max_iter: 2, s: 1}",
        "{type: hyperband, max_iter: 27, s: 0}",
        "{type: hyperband, min_iter: [1]}",
    ];
    let file = |value: &str| bayes(&format!("metric: {{name: x}}\nearly_terminate: {value}"));
    insta::assert_snapshot!(all_problems(&values, file));
}

#[test]
fn faults_of_launch_keys() {
    let lines = [
        "job: x",
        "image_uri: 5",
        "metrics: []",
        "metrics: x",
        "metrics: [{name: a}, {goal: up}]",
        "scheduler: {engine: wandb, sorce: x}",
        "scheduler: {engine: optuna, optimizer: f}",
        "scheduler: {engine: mine}",
        "scheduler: {}",
        "scheduler: x",
        "scheduler:",
    ];
    insta::assert_snapshot!(all_problems(&lines, with_line));
    let conflicts = "method: custom\nprogram: p\nmetric: {name: l}\nmetrics: [{name: l}, {name: t}]\n\
         scheduler: {engine: ax, source: s.py, search_space: f}\ncontroller: {type: local}\n\
         early_terminate: {type: hyperband, min_iter: 3}\n";
    insta::assert_snapshot!("conflicts_of_launch_keys", problems(conflicts));
}

#[test]
fn faults_of_a_command() {
    let commands = [
        "['${env}', '${arg}', '--x=${args}', '${args}']",
        "['${program} ${args}', '${args_json}']",
        "['${program}', '${envvar:home}', '${args}']",
        "['${program}', '-o=${envvar:home}/${envvar:USER}', '${args}']",
        "['${program}']",
        "['${args}', {a: .inf}]",
        "['${args}', 2024-01-31]",
        "[]",
    ];
    let file = |command: &str| {
        format!(
            "program: p\nmethod: grid\nparameters: {{a: {{values: [1, 2]}}}}\ncommand: {command}\n"
        )
    };
    insta::assert_snapshot!(all_problems(&commands, file));
}

const PARAMETERS: &[&str] = &[
    "0.01",
    "[1, 2]",
    "",
    "~",
    "{}",
    "{vaules: [1]}",
    "{lr: {values: [1]}, b: {value: 1}}",
    "{mu: 0, sigma: 1}",
    "{a: 1}",
    "{value: 1, values: [1]}",
    "{values: 3}",
    "{values: 'x, y'}",
    "{values: }",
    "{values: []}",
    "{values: [1, .inf, 2024-01-31]}",
    "{values: [x]}",
    "{values: ['true', \"False\", True, 'yes']}",
    "{value: 'true'}",
    "{values: [tRUE, true, x]}",
    "{min: 1}",
    "{max: 1}",
    "{min: 1, max: 1}",
    "{min: 0, max: 1.0}",
    "{min: true, max: 1}",
    "{min: '0.1', max: 1.0}",
    "{min: -.5, max: 1.0}",
    "{min: 2024-01-31, max: 1.0}",
    "{min: 1, max: 5, q: 2}",
    "{min: 1, max: 5, desc: x}",
    "{min: 1e-5, max: 1e-1}",
    "{min: 1, max: 99999999999999999999}",
    "{min: 0.0, max: .inf}",
    "{distribution: int_uniform, min: 1.0, max: 2}",
    "{distribution: categorical, value: 1}",
    "{distribution: categorical, values: [1, 2], probabilities: [0.5, 0.5]}",
    "{distribution: uniform, min: 1, max: 2, q: 1}",
    "{distribution: normal, min: 0.1, max: 0.9}",
    "{distribution: unifrom, min: 1, max: 2}",
    "{distribution: loguniform, min: 0.1, max: 2}",
    "{distribution: q_inv_log_uniform, min: 1, max: 2}",
    "{distribution: sobol, min: 1, max: 2}",
    "{distribution: , min: 1, max: 2}",
    "{distribution: log_uniform, min: -9, max: -2}",
    "{distribution: log_uniform, min: 1e-5, max: 0.1}",
    "{distribution: inv_log_uniform, min: 0, max: 1}",
    "{distribution: q_log_uniform, min: 16, max: 256}",
    "{distribution: log_uniform, min: 1, max: 1000}",
    "{distribution: log_uniform_values, min: 0, max: 1}",
    "{distribution: log_uniform_values, min: -1, max: -2}",
    "{distribution: q_uniform, min: 1, max: 10, q: 4}",
    "{distribution: q_uniform, min: 16, max: 300, q: 16}",
    "{distribution: q_uniform, min: 0.1, max: 0.3, q: 0.1}",
    "{distribution: q_uniform, min: 0.1, max: 0.4}",
    "{distribution: q_uniform, min: 1, max: 10, q: 0}",
    "{distribution: q_uniform, min: 1, max: 10, q: x}",
    "{distribution: q_beta}",
    "{distribution: normal, sigma: 0}",
    "{distribution: normal, mu: x, sigma: -1}",
    "{distribution: normal, mu: .inf}",
    "{distribution: log_normal, mu: 1000}",
    "{distribution: beta, a: 0, b: -1}",
    "{values: [1, 2], probabilities: 0.5}",
    "{values: [1, 2], probabilities: []}",
    "{values: [1, 2], probabilities: [1.0]}",
    "{values: [1, 2], probabilities: [0.5, 0.6]}",
    "{values: [1, 2], probabilities: [1.5, -0.5]}",
    "{values: [1, 2], probabilities: [a, [1]]}",
    "{values: [1, 2], probabilities: [0.5, 0.500001]}",
    "{parameters: {b: {value: 1}}, value: 2}",
    "{parameters: {}}",
    "{parameters: [1]}",
    "{parameters: {b: 1, c/d: {value: 1}}}",
    "{parameters: {b: {min: 9, max: 2}, c: {min: 0, max: 0.5}}}",
    "{parameters: {b: {distribution: log_uniform, min: -3, max: -2}}}",
];

#[test]
fn faults_of_a_parameter() {
    insta::assert_snapshot!(all_problems(PARAMETERS, with_parameter));
}

#[test]
fn faults_of_a_grid() {
    let parameters = [
        "{min: 0.1, max: 1.0}",
        "{distribution: q_normal}",
        "{distribution: q_uniform, min: 1, max: 10, q: 4}",
        "{distribution: q_uniform, min: 1, max: 10, q: 1.0e-20}",
        "{distribution: q_uniform, min: 1.0e+17, max: 2.0e+17, q: 1}",
        "{values: [1, 2], probabilities: [0.5, 0.5]}",
        "{parameters: {b: {min: 1, max: 2}, c: {min: 0.5, max: 1.0}}}",
    ];
    let file = |parameter: &str| with_parameter(parameter).replace("random", "grid");
    insta::assert_snapshot!(all_problems(&parameters, file));
}

#[test]
fn draws_that_no_number_holds_are_cut() {
    let parameters = [
        "{distribution: log_uniform, min: 0, max: 710}",
        "{distribution: q_log_uniform, min: 0, max: 50, q: 1}",
        "{distribution: normal, mu: 1.0e+308, sigma: 1.0e+308}",
        "{distribution: q_normal, sigma: 1.0e+20, q: 5}",
        "{distribution: q_normal, sigma: 1.0e+20, q: 5.0}",
        "{distribution: q_log_normal, mu: 4, sigma: 5, q: 1}",
        "{parameters: {b: {distribution: log_normal, sigma: 87}}}",
    ];
    insta::assert_snapshot!(all_problems(&parameters, with_parameter));
}

#[test]
fn sizes_of_grids_are_exact_or_left_open() {
    let axis = "{min: -9223372036854775808, max: 9223372036854775807}";
    let text = |axes: usize| {
        let axes: String = (0..axes).map(|index| format!("  p{index}: {axis}\n")).collect();
        format!("program: p\nmethod: grid\nparameters:\n{axes}  z: {{values: [1, 2]}}\n")
    };
    let table = [
        (0, "2"),
        (1, "36893488147419103232"), // 2^65
        (2, "null"),                 // 2^129
    ];
    for (axes, want) in table {
        let check = checked(&text(axes));
        assert!(check.can_run());
        let json = check.json();
        assert!(json.contains(&format!("\"size\": {want},")), "{axes}: {json}");
        let sizes = json.matches(": 18446744073709551616").count();
        assert_eq!(sizes, axes, "{json}");
        let last = &serde_json::from_str::<Value>(&json).unwrap()["grid"]["last"];
        assert_eq!(last["z"], 2);
        assert_eq!(last["p0"], if axes > 0 { json!(i64::MAX) } else { Value::Null });
    }
}

#[test]
fn faults_of_bayes() {
    let file = |parameters: &str| {
        format!("program: p\nmethod: bayes\nmetric: {{name: l}}\nparameters: {parameters}\n")
    };
    let parameters = ["{a: {value: 1}}", "{a: {values: [1, 2], probabilities: [0.5, 0.5]}}"];
    insta::assert_snapshot!(all_problems(&parameters, file));
}

#[test]
fn keys_beside_their_parameter_are_recognised() {
    let text = "program: p\nmethod: grid\nparameters:\n  a:\n  values: [1]\n  min: 1\n";
    let found = problems(text);
    assert_eq!(found.matches("(if it belongs to the parameter above, indent it").count(), 2);
}

#[test]
fn a_program_is_needed_unless_the_command_does_without() {
    let file = |more: &str| format!("{more}method: grid\nparameters: {{a: {{value: 1}}}}\n");
    assert!(problems(&file("")).contains("program-missing [/program] s:1:1: "));
    assert!(problems(&file("command: []\n")).contains("program-missing"));
    assert!(problems(&file("command: ['${program}']\n")).contains("program-missing"));
    assert_eq!(problems(&file("command: [train, '${args}']\n")), "");
}

#[test]
fn a_program_that_is_not_here_is_missed_unless_it_may_be_elsewhere() {
    let around = Surroundings { has_file: &|name| name == "here.py", ..Surroundings::UNKNOWN };
    let missed = |text: &str| {
        let text = format!("{text}\nmethod: grid\nparameters: {{a: {{value: 1}}}}\n");
        let check = check(text.as_bytes(), "s", around);
        assert!(check.can_run());
        check.problems.iter().any(|problem| problem.code == Code::ProgramNotFound)
    };
    assert!(missed("program: gone.py"));
    assert!(missed("program: gone"));
    assert!(missed("program: gone.py\ncommand: [python, '${program}', '${args}']"));
    assert!(!missed("program: here.py"));
    assert!(!missed("program: gone\ncommand: ['${env}', '${program}', '${args}']"));
    assert!(!missed("program: pkg.gone\ncommand: [python, -m, '${program}', '${args}']"));
    assert!(!missed("program: gone.py\ncommand: [python, other.py, '${args}']"));
}

#[test]
fn a_command_without_args_is_worth_a_warning_only_if_something_is_swept() {
    let file = |values: &str| {
        format!(
            "program: p\nmethod: grid\ncommand: ['${{program}}']\nparameters: {{a: {values}}}\n"
        )
    };
    assert!(problems(&file("{values: [1, 2]}")).starts_with("W no-args-macro [/command] s:3:1: "));
    assert_eq!(problems(&file("{value: 1}")), "");
}

#[test]
fn a_run_cap_above_the_grid_is_worth_a_warning() {
    let file = |cap| {
        format!("program: p\nmethod: grid\nparameters: {{a: {{values: [1, 2]}}}}\nrun_cap: {cap}\n")
    };
    assert_eq!(codes(&file(3)), [("run-cap-above-grid".to_owned(), "/run_cap".to_owned())]);
    assert_eq!(codes(&file(2)), []);
}

#[test]
fn one_notice_counts_all_numbers_that_the_client_takes_for_text() {
    let text = "program: 1e5\nmethod: grid\ncommand: [x, 1e-5, '${args}']\n\
        parameters: {a: {values: [0.1, 1e-3, 1e-4]}, b: {value: '1e-5'}, c: {value: 1.5e3}}\n";
    let found = problems(text);
    assert!(found.starts_with("N scientific-number [/parameters/a/values/1] s:4:32: `1e-3` is taken as a number, and 2 more;"), "{found}");
    assert_eq!(found.lines().count(), 1);
    assert_eq!(good(text).program.as_deref(), Some("1e5"));
}

#[test]
fn what_only_wandbs_controller_does_is_a_notice_until_the_embedded_one_is_to_do_it() {
    let texts = [
        bayes("metric: {name: l}"),
        bayes("metric: {name: l}").replace("bayes", "custom"),
        with_line("metric: {name: l, target: 1}"),
        with_line("metric: {name: l}\nearly_terminate: {type: hyperband, min_iter: 3}"),
    ];
    for text in texts {
        let check = checked(&text);
        assert!(check.can_run() && check.wandb.as_ref().unwrap().valid, "{text}");
        let check = check.with_embedded_controller();
        assert!(!check.can_run());
        let errors = check.problems.iter().filter(|problem| problem.severity == Severity::Error);
        let texts: Vec<String> = errors.map(ToString::to_string).collect();
        assert_eq!(texts.len(), 1);
        assert!(texts[0].contains("needs W&B's controller; the embedded one does not do it ("));
    }
}

#[test]
fn scalars_are_read_as_wandbs_engine_reads_them() {
    for case in cases("yaml_scalars.json") {
        let scalar = case["yaml"].as_str().unwrap();
        let check = checked(&format!("k: {scalar}\n"));
        let Some(verdict) = check.wandb else {
            assert_eq!(case["error"], "ConstructorError", "{scalar}");
            continue;
        };
        let (parsed, types) = verdict.parsed();
        assert_eq!(types["/k"], case["type"], "{scalar}");
        let value = &parsed["k"];
        match (&case["value"]["nonfinite"], case["type"].as_str()) {
            (Value::Null, Some("date")) => assert_eq!(*value, "datetime.date(2024, 1, 2)"),
            (Value::Null, _) => assert_eq!(*value, case["value"], "{scalar}"),
            (number, _) => assert_eq!(special::text(value), number.as_str(), "{scalar}"),
        }
    }
}

#[test]
fn verdicts_are_those_of_wandbs_engine() {
    for case in cases("verdicts.json") {
        let text = case["yaml"].as_str().unwrap();
        let check = checked(text);
        let verdict = check.wandb.unwrap();
        let id = &case["id"];
        // 1e-5 is a number here: the client refuses the file all the same, the schema does not.
        let scientific = id == "v022";
        assert_eq!(
            verdict.client_accepts,
            case["client_refuses"].is_null() && id != "v058",
            "{id}"
        );
        if verdict.client_accepts {
            assert_eq!(verdict.valid, case["valid"] == true, "{id}");
            assert_eq!(verdict.faults_at.is_empty(), verdict.valid, "{id}");
        }
        let key = case["key"].as_str().unwrap();
        if !key.is_empty() {
            let at = format!("/{}", key.replace('.', "/"));
            let inside = format!("{at}/");
            let here = |problem: &&Problem| {
                let is_here = problem.pointer == at || problem.pointer.starts_with(&inside);
                is_here && problem.code != Code::EmbeddedController
            };
            let found = check.problems.iter().find(here);
            let found = found.unwrap_or_else(|| panic!("{id}: nothing at {at}"));
            assert!(scientific == (found.severity == Severity::Notice), "{id}");
        }
        // No engine can hand out a run, or stop one: sweepctl says so before.
        let fails = [&case["suggest"], &case["stopping"]]
            .into_iter()
            .any(|answer| answer.as_str().is_some_and(|answer| answer != "ok"));
        if fails && !scientific && id != "v010" {
            assert!(check.problems.iter().any(|p| p.severity == Severity::Error), "{id}: {text}");
        }
    }
}

#[test]
fn kinds_are_inferred_as_wandbs_engine_does() {
    for case in cases("inferred.json") {
        let parameter = case["yaml"].as_str().unwrap();
        // In a group, where the client does not look.
        let text = format!(
            "program: p\nmethod: random\nparameters: {{g: {{parameters: {{p: {parameter}}}}}}}\n"
        );
        let spec = checked(&text).spec;
        let id = &case["id"];
        let Some(spec) = spec else {
            assert!(!case["error"].is_null(), "{id}: {parameter} is refused");
            continue;
        };
        // The two where sweepctl knows better: 1e3 is a number, and groups are parameters.
        if id == "i026" || id == "i028" {
            continue;
        }
        let Parameter::Group(group) = &spec.parameters["g"] else { panic!() };
        let filled = &case["filled"];
        assert!(filled.is_object(), "{id}: {parameter} is accepted");
        let name = filled["distribution"].as_str().unwrap();
        let number = |key: &str| filled[key].as_f64();
        let law = |law: &Law| match law {
            Law::Uniform { min, max } => {
                (filled["min"] == json!(min) && filled["max"] == json!(max)).then_some("uniform")
            }
            Law::LogUniform { min, max } => (number("min") == Some(*min)
                && number("max") == Some(*max))
            .then_some("log_uniform"),
            Law::LogUniformValues { .. } => Some("log_uniform_values"),
            Law::InvLogUniform { .. } => Some("inv_log_uniform"),
            Law::InvLogUniformValues { .. } => Some("inv_log_uniform_values"),
            Law::Normal { mu, sigma } => {
                (number("mu") == mu.as_f64() && number("sigma") == Some(*sigma)).then_some("normal")
            }
            Law::LogNormal { mu, sigma } => (number("mu") == Some(*mu)
                && number("sigma") == Some(*sigma))
            .then_some("log_normal"),
            Law::Beta { a, b } => {
                (number("a") == Some(*a) && number("b") == Some(*b)).then_some("beta")
            }
        };
        let got = match &group["p"] {
            Parameter::Constant(value) => {
                (filled["value"] == *value).then(|| "constant".to_owned())
            }
            Parameter::Categorical(values) => {
                (filled["values"] == json!(values)).then(|| "categorical".to_owned())
            }
            Parameter::Weighted { .. } => Some("categorical_w_probabilities".to_owned()),
            Parameter::IntUniform { .. } => Some("int_uniform".to_owned()),
            Parameter::Real(real) => law(real).map(str::to_owned),
            Parameter::Quantized { law: of, q } => {
                law(of).filter(|_| filled["q"] == json!(q)).map(|name| format!("q_{name}"))
            }
            Parameter::Group(_) => None,
        };
        assert_eq!(got.as_deref(), Some(name), "{id}: {parameter}");
    }
}

/// Every file of tests/data/sweeps, to see which problems they show.
fn files() -> Vec<String> {
    let folder = format!("{}/tests/data/sweeps", env!("CARGO_MANIFEST_DIR"));
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let yaml = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    yaml.map(|path| String::from_utf8(std::fs::read(path).unwrap()).unwrap()).collect()
}

/// A file for each code, with the part at fault.
fn examples() -> Vec<(Code, &'static str, String)> {
    let parameter = with_parameter;
    let grid = |text: &str| with_parameter(text).replace("random", "grid");
    let line = with_line;
    let stop = |text: &str| bayes(&format!("metric: {{name: l}}\nearly_terminate: {text}"));
    let command = |text: &str| grid("{values: [1, 2]}") + &format!("command: {text}\n");
    vec![
        (Code::AliasLoop, "", "a: &b [*b]\n".into()),
        (Code::ControlCharacter, "", "a: \0\n".into()),
        (Code::DuplicateKey, "/parameters/a/min", parameter("{min: 1, max: 3, min: 2}")),
        (Code::Empty, "", "# nothing\n".into()),
        (Code::FileTooLarge, "", "#".repeat((8 << 20) + 1)),
        (Code::KeyKind, "", "? [a]\n: 1\n".into()),
        (Code::MergeKey, "", parameter("{<<: 1}")),
        (Code::NotAMapping, "", "- a\n".into()),
        (Code::SeveralDocuments, "", "a: 1\n---\nb: 1\n".into()),
        (Code::Tab, "", "a:\n\tb: 1\n".into()),
        (Code::Tag, "", "a: !!python/tuple [1]\n".into()),
        (Code::TooDeep, "", "[".repeat(200)),
        (Code::TooManyValues, "", format!("a: [{}]\n", "1,".repeat(100_000))),
        (Code::YamlSyntax, "", "a: [1\n".into()),
        (Code::YamlValue, "", "a: =\n".into()),
        (Code::Date, "/parameters/a/values/1", parameter("{values: [1, 2024-01-31]}")),
        (Code::ScientificNumber, "/parameters/a/value", parameter("{value: 1e-5}")),
        (Code::ControllerKind, "/controller/type", line("controller: {type: remote}")),
        (Code::EmbeddedController, "/method", bayes("metric: {name: l}")),
        (Code::EmptyKey, "/name", line("name:")),
        (Code::KindUnknown, "/kind", line("kind: run")),
        (Code::LaunchConflict, "/metrics", line("metrics: [{name: a}, {name: b}]")),
        (Code::LaunchKey, "/job", line("job: x")),
        (Code::LaunchKind, "/scheduler/engine", line("scheduler: {engine: mine}")),
        (Code::MethodMissing, "/method", "parameters: {a: {value: 1}}\n".into()),
        (Code::MethodUnknown, "/method", parameter("{value: 1}").replace("random", "randm")),
        (Code::NothingToSearch, "/parameters", bayes("").replace("{min: 1, max: 9}", "{value: 1}")),
        (Code::RunCap, "/run_cap", line("run_cap: 0")),
        (Code::RunCapAboveGrid, "/run_cap", line("run_cap: 2")),
        (Code::TextWanted, "/name", line("name: 5")),
        (Code::UnknownKey, "/seed", line("seed: 5")),
        (Code::GoalUnknown, "/metric/goal", line("metric: {name: l, goal: minimise}")),
        (Code::ImputeUnknown, "/metric/impute", line("metric: {name: l, impute: mean}")),
        (Code::MetricKind, "/metric", line("metric: loss")),
        (Code::MetricMissing, "/metric", bayes("")),
        (Code::MetricName, "/metric/name", line("metric: {goal: minimize}")),
        (Code::MetricTarget, "/metric/target", line("metric: {name: l, target: high}")),
        (Code::NoEffect, "/metric/impute", line("metric: {name: l, impute: best}")),
        (Code::EarlyTerminateIncomplete, "/early_terminate", stop("{type: hyperband}")),
        (Code::EarlyTerminateKind, "/early_terminate", stop("hyperband")),
        (
            Code::EarlyTerminateNoBand,
            "/early_terminate",
            stop("{type: hyperband, max_iter: 2, s: 1}"),
        ),
        (Code::EarlyTerminateType, "/early_terminate/type", stop("{type: median, min_iter: 1}")),
        (
            Code::EarlyTerminateValue,
            "/early_terminate/eta",
            stop("{type: hyperband, min_iter: 1, eta: 1}"),
        ),
        (Code::CommandKind, "/command", line("command: python x")),
        (Code::EnvvarLowerCase, "/command/1", command("['${args}', '${envvar:home}']")),
        (Code::MacroInsideItem, "/command/1", command("['${args}', '-x=${args}']")),
        (Code::NoArgsMacro, "/command", command("[python, x]")),
        (Code::ProgramBlanks, "/program", line("program: a b")),
        (Code::ProgramMissing, "/program", line("").replace("program: p", "")),
        (Code::UnknownMacro, "/command/0", command("['${arg}', '${args}']")),
        (Code::BoundKind, "/parameters/a/min", parameter("{min: true, max: 1}")),
        (Code::BoundsMixed, "/parameters/a", parameter("{min: 0, max: 1.0}")),
        (Code::BoundsOrder, "/parameters/a/max", parameter("{min: 2, max: 1}")),
        (Code::DistributionUnknown, "/parameters/a/distribution", parameter("{distribution: x}")),
        (Code::DrawsCut, "/parameters/a", parameter("{distribution: log_normal, sigma: 200}")),
        (Code::GridContinuous, "/parameters/a", grid("{min: 0.1, max: 1.0}")),
        (Code::GridProbabilities, "/parameters/a", grid("{values: [1], probabilities: [1]}")),
        (
            Code::LogBoundsLookLikeValues,
            "/parameters/a/distribution",
            parameter("{distribution: log_uniform, min: 0.1, max: 0.5}"),
        ),
        (
            Code::LogFromZero,
            "/parameters/a/min",
            parameter("{distribution: log_uniform_values, min: 0, max: 1}"),
        ),
        (Code::NameChanges, "/parameters/true", line("").replace("a:", "on:")),
        (Code::NamePattern, "/parameters/a~1b", line("").replace("a:", "a/b:")),
        (
            Code::OldDistribution,
            "/parameters/a/distribution",
            parameter("{distribution: log_uniform, min: -9, max: -2}"),
        ),
        (Code::OneValue, "/parameters/a/values", parameter("{values: [1]}")),
        (Code::ParameterIncomplete, "/parameters/a", parameter("{min: 1}")),
        (Code::ParameterKeys, "/parameters/a/desc", parameter("{value: 1, desc: x}")),
        (Code::ParameterKind, "/parameters/a", parameter("0.1")),
        (Code::ParameterNumber, "/parameters/a/q", parameter("{distribution: q_beta, q: 0}")),
        (Code::ParametersEmpty, "/parameters", "method: random\nparameters: {}\n".into()),
        (Code::ParametersKind, "/parameters", "method: random\nparameters: [1]\n".into()),
        (Code::ParametersMissing, "/parameters", "method: random\n".into()),
        (
            Code::ProbabilitiesKind,
            "/parameters/a/probabilities/1",
            parameter("{values: [1, 2], probabilities: [1.5, -0.5]}"),
        ),
        (
            Code::ProbabilitiesLength,
            "/parameters/a/probabilities",
            parameter("{values: [1, 2], probabilities: [1]}"),
        ),
        (
            Code::ProbabilitiesSum,
            "/parameters/a/probabilities",
            parameter("{values: [1, 2], probabilities: [0.5, 0.6]}"),
        ),
        (
            Code::ProbabilitiesWithBayes,
            "/parameters/a/probabilities",
            bayes("").replace("{min: 1, max: 9}", "{values: [1, 2], probabilities: [0.5, 0.5]}"),
        ),
        (
            Code::QOutsideBounds,
            "/parameters/a/q",
            parameter("{distribution: q_uniform, min: 1, max: 10, q: 4}"),
        ),
        (Code::QTooCoarse, "/parameters/a", parameter("{distribution: q_beta}")),
        (Code::QuotedBoolean, "/parameters/a/value", parameter("{value: 'true'}")),
        (Code::ValuesEmpty, "/parameters/a/values", parameter("{values: []}")),
        (Code::ValuesKind, "/parameters/a/values", parameter("{values: 3}")),
    ]
}

/// Code and severity of every row of the reference.
fn reference() -> Vec<(String, String)> {
    let path = format!("{}/docs/reference/problems.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let (code, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        Some((code.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn every_code_has_a_file_that_shows_it_as_the_reference_says() {
    let examples = examples();
    let reference = reference();
    // These two need more than a text: they have tests of their own.
    let elsewhere = [Code::NotUtf8, Code::ProgramNotFound];
    for code in Code::ALL.iter().filter(|code| !elsewhere.contains(code)) {
        let shown = examples.iter().filter(|(shown, ..)| shown == code);
        assert_eq!(shown.count(), 1, "{code}");
    }
    for (code, pointer, text) in examples {
        let problems = checked(&text).problems;
        let is_it = |problem: &&Problem| problem.code == code && problem.pointer == pointer;
        let found: Vec<&Problem> = problems.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{code} at {pointer}: {problems:?}");
        let severity = found[0].severity.name().to_owned();
        assert!(reference.contains(&(code.to_string(), severity)), "{code}");
    }
}

#[test]
fn every_code_is_in_the_reference_and_nothing_else_is() {
    let reference = reference();
    let listed: Vec<&str> = reference.iter().map(|(code, _)| code.as_str()).collect();
    let unique: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(unique.len(), listed.len(), "a code is listed twice");
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(known, unique);
}

#[test]
fn clean_files_have_no_problem() {
    let clean = [
        include_str!("../../examples/quickstart/sweep.yaml"),
        "program: train.py\nmethod: bayes\nmetric: {name: loss, goal: minimize}\nparameters:\n  \
         lr: {distribution: log_uniform_values, min: 1.0e-5, max: 0.1}\n  \
         opt: {values: [adam, sgd]}\n  seed: {value: 1}\n  q: {value: \"on\"}\n",
        "program: train.py\nmethod: random\nrun_cap: 20\ncommand: ['${env}', python, '${program}', \
         --out, '${envvar:HOME}/x', '${args_no_hyphens}']\nparameters:\n  \
         batch: {distribution: q_uniform, min: 16, max: 256, q: 16}\n  \
         model: {parameters: {depth: {min: 1, max: 5}, drop: {min: 0.0, max: 0.5}}}\n  \
         w: {values: [1, 2], probabilities: [0.5, 0.5]}\n  n: {distribution: normal}\n",
        "name: n\ndescription: d\nproject: p\nentity: e\nkind: sweep\napiVersion: v1\n\
         controller: {type: cloud}\nprogram: p\nmethod: grid\nrun_cap: 2\n\
         metric: {name: a, goal: maximize}\nparameters:\n  a: {values: [true, false]}\n",
    ];
    for text in clean {
        let found: Vec<_> =
            codes(text).into_iter().filter(|(code, _)| code != "embedded-controller").collect();
        assert_eq!(found, [], "{text}");
    }
}

#[test]
fn every_problem_points_into_its_file() {
    let mut texts = files();
    texts.extend(PARAMETERS.iter().map(|parameter| with_parameter(parameter)));
    for text in texts {
        let lines = text.lines().count().max(1);
        for problem in checked(&text).problems {
            assert!((1..=lines + 1).contains(&problem.line), "{problem}");
            assert!(problem.pointer.is_empty() || problem.pointer.starts_with('/'), "{problem}");
        }
    }
}

#[test]
fn a_large_file_is_checked_fast() {
    let mut text = String::from("program: p\nmethod: random\nparameters:\n");
    for index in 0..5000 {
        text += &format!("  p{index}:\n    values: [1, 2.5, 1e-5, yes, \"no\", x]\n");
    }
    // 50 ms are asked for; here without optimisation, and on a busy machine.
    let start = std::time::Instant::now();
    let found = problems(&text);
    let took = start.elapsed();
    assert_eq!(found.lines().count(), 1);
    assert!(took.as_secs_f64() < 5.0, "{took:?}");
}

/// Files of the cases with a few characters changed.
fn mutated(count: usize) -> Vec<String> {
    let files = files();
    let edit = (
        any::<prop::sample::Index>(),
        0_usize..3,
        prop_oneof![
            3 => "[-a-c0-2:?,{}\\[\\]&*!|>'\"%@` #\n\t.~<\u{e9}]{0,3}",
            1 => prop::sample::select(vec![
                "1e-5", "yes", "010", "1:30", ".inf", "~", "2024-01-31", "!!str 1", "  ", "\n  ", ": ",
                "<<: {a: 1}, ", "99999999999999999999", "-.5", "0x1F", "'x'", "\"y\\n\"", "1_000",
            ])
            .prop_map(str::to_owned),
        ],
    );
    let strategy = (0..files.len(), prop::collection::vec(edit, 1..4));
    let mutate = |(file, edits): (usize, Vec<(prop::sample::Index, usize, String)>)| {
        let mut text: Vec<char> = files[file].chars().collect();
        for (at, cut, put) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + cut).min(text.len());
            text.splice(at..end, put.chars());
        }
        text.into_iter().collect()
    };
    python::tests::samples(&strategy, count).into_iter().map(mutate).collect()
}

#[test]
fn mutated_files_mean_the_same_to_a_real_pyyaml() {
    let texts = mutated(1500);
    let program = r"
import yaml,json,sys,math,datetime
def types(v,p,out):
    if isinstance(v,dict) and v:
        for k,x in v.items():
            at=p+'/'+str(k).replace('~','~0').replace('/','~1')
            if not isinstance(k,str): out[at+'#key']=type(k).__name__
            types(x,at,out)
    elif isinstance(v,list) and v:
        for i,x in enumerate(v): types(x,p+'/'+str(i),out)
    else: out[p]=type(v).__name__+('(empty)' if isinstance(v,(dict,list)) else '')
    return out
def show(v):
    if isinstance(v,dict): return {str(k):show(x) for k,x in v.items()}
    if isinstance(v,list): return [show(x) for x in v]
    if isinstance(v,(datetime.date,datetime.datetime)): return repr(v)
    return str(v) if isinstance(v,float) and not math.isfinite(v) else v
def read(t):
    try: v=yaml.safe_load(t)
    except Exception as e: return {'error':' '.join(str(e).split())}
    return {'parsed':show(v),'types':types(v,'',{})} if v else {'error':'empty'}
print(json.dumps([read(t) for t in json.load(sys.stdin)]))";
    let Some(answers) = python::tests::python(program, &json!(texts)) else { return };
    let (mut read, mut lenient, mut strict) = (0, 0, 0);
    for (text, answer) in texts.iter().zip(answers.as_array().unwrap()) {
        let check = checked(text);
        match (check.wandb, answer["error"].as_str()) {
            (None, Some(_)) => {}
            (Some(verdict), None) => {
                read += 1;
                // Through text, as JSON has large integers as floats.
                let (parsed, types) = verdict.parsed();
                let parsed: Value = serde_json::from_str(&special::pretty_json(&parsed)).unwrap();
                assert_eq!(parsed, answer["parsed"], "{text}");
                assert_eq!(Value::Object(types), answer["types"], "{text}");
            }
            // yaml-rust2's grammar is YAML 1.2's, which differs in corners.
            (Some(_), Some(_)) => lenient += 1,
            (None, None) => strict += 1,
        }
    }
    assert!(read > texts.len() / 3, "{read}");
    assert!(lenient + strict < texts.len() / 50, "{lenient} {strict}");
}

const BASE: &str = "program: p\nmethod: random\nmetric: {name: loss, goal: minimize}\nrun_cap: 5\n\
    command:\n- ${env}\n- \"${args}\"\n- '${envvar:HOME}'\nparameters:\n  a: &a {values: [1, 1.0, yes, 1e3]}\n  \
    b: {<<: *a}\n  c: {min: 1, max: 5}\n  d:\n    min: 1e-5\n    max: 1.0\n  e: {value: x}\n  \
    f: {value: !!str 010}\n  g: {parameters: {h: {distribution: q_normal, q: 2}}}\n  \
    i: {distribution: log_uniform_values, min: 0.1, max: 1}\nearly_terminate: {type: hyperband, min_iter: 3}\n";

fn exercise(text: &[u8]) {
    let check = check(text, "s", Surroundings::UNKNOWN);
    assert!(check.problems.iter().all(|problem| !problem.to_string().contains('\n')));
    serde_json::from_str::<Value>(&check.json()).unwrap();
    if let Some(verdict) = &check.wandb
        && verdict.client_accepts
    {
        assert_eq!(verdict.valid, verdict.faults_at.is_empty());
    }
    let Some(spec) = check.spec else { return };
    let json = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<SweepSpec>(&json).unwrap(), spec);
    for slot in [0, 1, u64::MAX] {
        if let Some(config) = search::configuration(&spec, 1, slot) {
            assert!(config.keys().is_sorted());
            let _ = argv(&spec, &config, "python", "file", &|_| None);
            let _ = parameter_file(&config);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn reading_random_bytes_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
        exercise(&text);
    }

    #[test]
    fn reading_random_yaml_characters_never_panics(
        text in "[-a-c0-2:?,{}\\[\\]&*!|>'\"%@` #\n\t.~<\u{e9}\r]{0,60}"
    ) {
        exercise(text.as_bytes());
    }

    #[test]
    fn reading_a_mutated_file_never_panics(
        edits in prop::collection::vec(
            (0_usize..400, 0_usize..6, "[-a-c0-2:?,{}\\[\\]&*!|>'\"%@` #\n\t.~<\u{e9}]{0,4}"),
            1..5,
        )
    ) {
        let mut text: Vec<u8> = BASE.into();
        for (at, cut, put) in edits {
            let at = at.min(text.len());
            let end = (at + cut).min(text.len());
            text.splice(at..end, put.into_bytes());
        }
        exercise(&text);
    }
}
