//! `template`: see, write out and check the templates of scripts.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{Failure, around, code};
use crate::launch::secret::looks_like_key_literal;
use crate::launch::template::{BUILT_IN, BuiltIn, faults};
use crate::say::{err, out};

#[derive(Subcommand, Debug)]
pub(super) enum TemplateCommand {
    /// List the built-in templates
    List,
    /// Print a template, with what can be filled in
    Show {
        /// Its name
        #[arg(default_value = "array")]
        name: String,
    },
    /// Write a template to a file of yours, to be changed and given as `submit --template FILE`
    Eject {
        /// Its name
        #[arg(default_value = "array")]
        name: String,
        /// The file, which must not exist
        #[arg(long, value_name = "FILE", default_value = "sweepctl.sbatch.hbs")]
        to: PathBuf,
    },
    /// Check a template of yours
    Check {
        /// The file
        file: PathBuf,
    },
}

pub(super) fn run(command: TemplateCommand) -> Result<u8, Failure> {
    match command {
        TemplateCommand::List => {
            for template in BUILT_IN {
                out!("{}  {}", template.name, template.about);
            }
        }
        TemplateCommand::Show { name } => out!("{}", find(&name)?.text.trim_end()),
        TemplateCommand::Eject { name, to } => {
            let text = find(&name)?.text;
            let failed = |error: std::io::Error| {
                Failure::new(code::UNEXPECTED, format!("{}: {error}", to.display()))
                    .help("name another file with --to")
            };
            let file = OpenOptions::new().write(true).create_new(true).open(&to);
            file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)?;
            err!("change {0}, then `sweepctl submit --template {0}`", to.display());
        }
        TemplateCommand::Check { file } => {
            read(&file)?;
            out!("{}: usable", file.display());
        }
    }
    Ok(0)
}

fn find(name: &str) -> Result<&'static BuiltIn, Failure> {
    BUILT_IN.iter().find(|template| template.name == name).ok_or_else(|| {
        let names: Vec<&str> = BUILT_IN.iter().map(|template| template.name).collect();
        Failure::new(code::COMMAND_LINE, format!("there is no template `{name}`"))
            .help(format!("there is {}", names.join(", ")))
    })
}

/// Reads a template that can be used; all that it lacks is said.
pub(super) fn read(path: &Path) -> Result<String, Failure> {
    let place = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(code::SWEEP_FILE, format!("{place}: {error}")))?;
    if looks_like_key_literal(&text) {
        return Err(around::key_refused(&path.to_string_lossy()));
    }
    let mut found = faults(&text)
        .map_err(|error| {
            Failure::new(code::SWEEP_FILE, format!("{place}: {error}"))
                .help("`sweepctl template show` lists what can be filled in")
        })?
        .into_iter()
        .map(|fault| format!("{place}: {fault}"))
        .collect::<Vec<_>>();
    let Some(last) = found.pop() else { return Ok(text) };
    for fault in found {
        err!("error: {fault}");
    }
    Err(Failure::new(code::SWEEP_FILE, last).help("compare it with `sweepctl template show`"))
}
