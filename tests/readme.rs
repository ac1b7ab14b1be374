//! What README.md says works.

mod support;

use support::{Scratch, repository};

fn readme() -> String {
    std::fs::read_to_string(repository().join("README.md")).expect("README.md")
}

/// The commands in code blocks and in code quotes that begin with `start`.
fn commands(start: &str) -> Vec<String> {
    let text = readme();
    let blocks = text.lines().filter_map(|line| line.strip_prefix("    "));
    let quotes = text.split('`').skip(1).step_by(2);
    blocks
        .chain(quotes)
        .filter_map(|command| command.split_once(start).map(|(_, rest)| rest.to_owned()))
        .collect()
}

#[test]
fn the_quickstart_command_runs_every_run_and_shows_the_best() {
    let command = &commands("cd examples/quickstart && cargo run --release -- ")[0];
    let scratch = Scratch::with_example("quickstart");
    let output = scratch.sweepctl().args(command.split_whitespace()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.starts_with("sweep: 12 of 12 runs finished; best loss 0.0"), "{stdout}");
    assert!(
        readme().contains(stdout.lines().next().unwrap()),
        "README shows other figures: {stdout}"
    );
}

#[test]
fn every_command_and_flag_in_the_readme_is_in_the_help() {
    let scratch = Scratch::new();
    let help = |command: &str| {
        let output = scratch.sweepctl().args(command.split(' ')).arg("--help").output().unwrap();
        assert!(output.status.success(), "{command}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut seen = 0;
    for line in commands("sweepctl ") {
        let mut words = line.split_whitespace();
        let Some(command) =
            words.next().filter(|word| word.chars().all(|c| c.is_ascii_lowercase()))
        else {
            continue;
        };
        let help = match words.clone().next() {
            Some(second) if command == "config" => help(&format!("{command} {second}")),
            _ => help(command),
        };
        for flag in words.take_while(|word| *word != "--") {
            let flag = flag.trim_matches(['[', ']']);
            if flag.starts_with("--") {
                assert!(help.contains(flag), "`{flag}` of `sweepctl {line}`");
            }
        }
        seen += 1;
    }
    assert!(seen >= 8, "only {seen} commands found");
    let submit = help("submit");
    for flag in readme().split('`').skip(1).step_by(2).filter(|quote| quote.starts_with("--")) {
        let flag = flag.split([' ', ':']).next().unwrap();
        assert!(flag == "--" || submit.contains(flag), "{flag}");
    }
}
