//! `check`: all that is wrong with a sweep file, and what it would run.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::{Failure, code, logical_cwd};
use crate::launch::quote;
use crate::say::{err, out};
use crate::sweep::{
    self, Check, Goal, Grid, Method, Parameter, Problem, Severity, Surroundings, SweepSpec,
};
use crate::view::Source;

/// Problems that people are shown.
const MOST_SHOWN: usize = 100;

#[derive(clap::Args, Debug)]
pub(super) struct CheckArgs {
    /// The sweep file; `-` reads it from stdin
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A sweep file with all that is said of it.
pub(super) struct Checked {
    name: String,
    pub(super) text: Vec<u8>,
    pub(super) check: Check,
}

/// Checks a file; 3 if sweepctl cannot run it.
pub(super) fn run(args: &CheckArgs) -> Result<u8, Failure> {
    let checked = Checked::of(&args.file, &logical_cwd())?;
    if args.json {
        out!("{}", checked.check.json());
        return Ok(if checked.check.can_run() { 0 } else { code::SWEEP_FILE });
    }
    checked.print_problems();
    let Some(spec) = &checked.check.spec else { return Err(checked.failure()) };
    for (name, value) in summary(spec, &checked.check) {
        out!("{name:<12}{value}");
    }
    Ok(0)
}

impl Checked {
    /// Reads and checks a file, or stdin for `-`; its runs will start in `folder`.
    pub(super) fn of(path: &Path, folder: &Path) -> Result<Self, Failure> {
        let from_stdin = path == Path::new("-");
        let name = if from_stdin { "stdin".to_owned() } else { path.display().to_string() };
        let read = if from_stdin {
            let mut text = Vec::new();
            io::stdin().read_to_end(&mut text).map(|_| text)
        } else {
            fs::read(path)
        };
        let text =
            read.map_err(|error| Failure::new(code::SWEEP_FILE, format!("{name}: {error}")))?;
        let variable = |name: &str| env::var(name).ok();
        let or = |name: &str, other: &str| variable(name).unwrap_or_else(|| other.to_owned());
        let args_json_file = format!(
            "wandb/sweep-{}/config-{}.json",
            or("WANDB_SWEEP_ID", "SWEEP_ID"),
            or("WANDB_RUN_ID", "RUN_ID"),
        );
        let around = Surroundings {
            has_file: &|name| folder.join(name).is_file(),
            envvar: &variable,
            wandb_dir: &or("WANDB_DIR", "$WANDB_DIR"),
            args_json_file: &args_json_file,
        };
        let check = sweep::check(&text, &name, around);
        Ok(Self { name, text, check })
    }

    pub(super) fn with_embedded_controller(self) -> Self {
        Self { check: self.check.with_embedded_controller(), ..self }
    }

    /// The problems, each with its line, on stderr: errors first if there are too many for a screen.
    pub(super) fn print_problems(&self) {
        let no_colour = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let source = Source::new(&self.text, io::stderr().is_terminal() && !no_colour);
        let mut problems: Vec<&Problem> = self.check.problems.iter().collect();
        if problems.len() > MOST_SHOWN {
            problems.sort_by_key(|problem| problem.severity);
        }
        for problem in problems.iter().take(MOST_SHOWN) {
            err!("{}", source.show(problem));
        }
        if problems.len() > MOST_SHOWN {
            let more = problems.len() - MOST_SHOWN;
            err!("and {more} more; `sweepctl check --json` shows them all");
        }
    }

    /// That the file cannot be run, in one line.
    pub(super) fn failure(&self) -> Failure {
        let count = |severity| {
            self.check.problems.iter().filter(|problem| problem.severity == severity).count()
                as u128
        };
        let mut text =
            format!("{} cannot be run: {}", self.name, many(count(Severity::Error), "error"));
        let warnings = count(Severity::Warning);
        if warnings > 0 {
            text += &format!(", {}", many(warnings, "warning"));
        }
        Failure::new(code::SWEEP_FILE, text)
    }
}

fn summary(spec: &SweepSpec, check: &Check) -> Vec<(&'static str, String)> {
    let method = match spec.method {
        Method::Grid => "grid",
        Method::Random => "random",
        Method::Bayes => "bayes",
        Method::Custom => "custom",
    };
    let mut lines = vec![("method", method.to_owned())];
    if let Some(metric) = &spec.metric {
        let goal = match metric.goal {
            Goal::Minimize => "minimize",
            Goal::Maximize => "maximize",
        };
        lines.push(("metric", format!("{goal} {}", sweep::one_line(&metric.name))));
    }
    let (all, constant) = count(spec.parameters.values());
    lines.push(("parameters", format!("{all}, {constant} of them constant")));
    let mut limits: Vec<_> =
        spec.run_cap.map(|cap| (u128::from(cap), "run_cap")).into_iter().collect();
    if let Some(Grid::Points { size, .. }) = &check.grid {
        let size = size.unwrap_or(u128::MAX);
        lines.push(("grid", many(size, "point")));
        limits.push((size, "the whole grid"));
    }
    lines.push(match limits.iter().min() {
        Some((limit, word)) => ("budget", format!("{} ({word})", many(*limit, "run"))),
        None => ("budget", "no end of its own: give --budget or --jobs".to_owned()),
    });
    if let Some(run) = &check.run {
        let word = if spec.method == Method::Grid { "first run" } else { "such as" };
        let words: Vec<String> =
            run.argv.iter().map(|word| quote(&sweep::one_line(word))).collect();
        lines.push((word, words.join(" ")));
    }
    lines
}

/// The largest number stands for all that are larger.
fn many(count: u128, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        u128::MAX => format!("2^128 {word}s or more"),
        count => format!("{count} {word}s"),
    }
}

/// How many parameters there are, groups opened, and how many of them are constant.
fn count<'a>(parameters: impl Iterator<Item = &'a Parameter>) -> (usize, usize) {
    parameters.fold((0, 0), |(all, constant), parameter| match parameter {
        Parameter::Group(group) => {
            let (more, more_constant) = count(group.values());
            (all + more, constant + more_constant)
        }
        Parameter::Constant(_) => (all + 1, constant + 1),
        _ => (all + 1, constant),
    })
}
