//! sbatch's options on `submit`'s own command line, under sbatch's own names.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::launch::request::{Given, KNOWN, Known, Source, Takes, Use};

/// sbatch's options as typed before `--`, in the order of the command line.
#[derive(Debug)]
pub(super) struct SbatchArgs(pub(super) Vec<Given>);

/// sbatch's options that have a flag of ours by their name: these are taken after `--`, and under `slurm:`.
const AFTER_HYPHENS: [&str; 1] = ["profile"];

fn flags() -> impl Iterator<Item = &'static Known> {
    KNOWN.iter().filter(|known| !AFTER_HYPHENS.contains(&known.long))
}

const HEADING: &str = "What each job asks for, as sbatch has it (all of its options are taken)";

fn arg(known: &Known) -> Arg {
    let mut arg = Arg::new(known.long)
        .long(known.long)
        .help_heading(HEADING)
        .action(ArgAction::Append)
        .allow_hyphen_values(known.takes == Takes::Value);
    if let Some(short) = known.short {
        arg = arg.short(short);
    }
    arg = match known.takes {
        Takes::Value => arg.value_name("VALUE"),
        Takes::Maybe => arg.num_args(0..=1).require_equals(true).default_missing_value(""),
        // The action for repeated flags counts them; a value of our own keeps their order.
        Takes::Nothing => arg.num_args(0).default_missing_value(""),
    };
    match known.used {
        Use::Shown(help) => arg.help(help),
        Use::Passed | Use::Refused(_) => arg.hide(true),
    }
}

impl Args for SbatchArgs {
    fn augment_args(command: Command) -> Command {
        command.args(flags().map(arg)).mut_arg("ntasks-per-node", |arg| arg.alias("tasks-per-node"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SbatchArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut placed = Vec::new();
        for known in flags() {
            if matches.value_source(known.long) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values = matches.get_many::<String>(known.long).into_iter().flatten();
            for (place, value) in matches.indices_of(known.long).into_iter().flatten().zip(values) {
                let has_value = known.takes == Takes::Value || !value.is_empty();
                let value = has_value.then(|| value.clone());
                let name = known.long.to_owned();
                placed.push((place, Given { name, value, source: Source::CommandLine }));
            }
        }
        placed.sort_by_key(|(place, _)| *place);
        let given: Vec<Given> = placed.into_iter().map(|(_, given)| given).collect();
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
