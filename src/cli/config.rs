//! `config`: see what files, variables and flags come to.

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};

use super::submit::{self, SubmitArgs};
use super::{Failure, absolute, code, logical_cwd};
use crate::say::{err, out};
use crate::settings::{self, Layer, SettingsError, Sources, show};

#[derive(Subcommand, Debug)]
pub(super) enum ConfigCommand {
    /// Print the settings that `submit` would use here, as a settings file
    ///
    /// Flags of `submit` count as they would there.
    Show(Box<ShowArgs>),
}

#[derive(Args, Debug)]
pub(super) struct ShowArgs {
    /// Say of each setting where it comes from
    #[arg(long)]
    origin: bool,
    #[command(flatten)]
    flags: Flags,
}

/// The flags of `submit`, without a sweep.
#[derive(Debug)]
struct Flags(SubmitArgs);

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let no_file = |arg: clap::Arg| arg.required(false).default_value("sweep.yaml").hide(true);
        SubmitArgs::augment_args(command).mut_arg("file", no_file)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(SubmitArgs::from_arg_matches(matches)?))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

pub(super) fn run(command: ConfigCommand) -> Result<u8, Failure> {
    let ConfigCommand::Show(args) = command;
    let sources = submit::sources(&args.flags.0, &logical_cwd())?;
    out!("{}", show(&sources, args.origin).trim_end());
    Ok(0)
}

/// All that is wrong with the settings, the last of it with the exit code.
pub(super) fn failure(error: SettingsError) -> Failure {
    let mut problems = error.0;
    let last = problems.pop().unwrap_or_else(|| "the settings cannot be used".to_owned());
    for problem in problems {
        err!("error: {problem}");
    }
    Failure::new(code::SWEEP_FILE, last)
}

/// What this shell's `SWEEPCTL_*` variables say, and the profile among it.
pub(super) fn variables() -> Result<(Layer, Option<String>), Failure> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("SWEEPCTL_"))?;
        Some((name, value.to_string_lossy().into_owned()))
    });
    let layer = settings::from_variables(variables).map_err(|w| failure(SettingsError(w)))?;
    let profile = std::env::var("SWEEPCTL_PROFILE").ok().filter(|name| !name.is_empty());
    Ok((layer, profile))
}

/// The state folder by settings, if they name one and can be read.
pub(super) fn state_dir(folder: &Path) -> Option<PathBuf> {
    let (variables, profile) = variables().ok()?;
    let sources = Sources::read(folder, profile.as_deref(), variables, Layer::default()).ok()?;
    sources.settings().state_dir.map(|dir| absolute(&dir))
}

/// The site forbids watchers; `instead` is what to call.
pub(super) fn no_watchers(instead: &str) -> Failure {
    let text = "this site allows no watchers on this machine";
    Failure::new(code::SWEEP_FILE, text).help(format!(
        "`sweepctl {instead}` queues what the limits allow, and `sweepctl tick` by cron or scrontab tops up"
    ))
}
