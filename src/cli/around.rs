//! `submit`'s flags for what stands around the agent in each job.

use std::path::{Path, PathBuf};

use super::{Failure, code};
use crate::drive::state::Around;
use crate::launch::container::{Container, Runtime};
use crate::launch::environment::{Environment, holds_key};

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "What each job does around its runs")]
pub(super) struct AroundArgs {
    /// A line for the job's shell before its first run; may be given several times, or be a block of lines
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    setup: Vec<String>,
    /// A line for the same shell after its last run
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    teardown: Vec<String>,
    /// The shell of those lines [default: bash]
    #[arg(long, value_name = "SHELL", allow_hyphen_values = true)]
    shell: Option<String>,
    /// A module to load
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// A conda environment to activate
    #[arg(long, value_name = "ENV")]
    conda: Option<String>,
    /// A Python venv to activate
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// A file of NAME=VALUE lines for the environment
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// A variable for the environment
    #[arg(long, value_name = "NAME=VALUE")]
    export: Vec<String>,
    /// A folder for temporary and W&B files, made in the job; may name its variables, as in '$TMPDIR/sweep'
    #[arg(long, value_name = "DIR")]
    scratch: Option<String>,
    /// An image in which the program runs
    #[arg(long, value_name = "IMAGE")]
    container_image: Option<String>,
    /// What runs it [default: by the image's name]
    #[arg(long, value_name = "RUNTIME", value_enum)]
    container_runtime: Option<Runtime>,
    /// More folders to be seen inside, with commas: SOURCE or SOURCE:TARGET; the job's own are
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    container_mounts: Vec<String>,
    /// The folder inside [default: the job's own]
    #[arg(long, value_name = "DIR")]
    container_workdir: Option<String>,
    /// A word more for the runtime; with `command` these words start the container
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    container_arg: Vec<String>,
    /// What ${interpreter} stands for [default: python]
    #[arg(long, value_name = "PROGRAM")]
    interpreter: Option<String>,
    /// Hide SLURM's variables that tell of ranks from the program
    #[arg(long)]
    hide_slurm: bool,
    /// The folder in which jobs run [default: this one]
    #[arg(short = 'D', long, value_name = "DIR")]
    pub(super) chdir: Option<PathBuf>,
}

impl AroundArgs {
    /// Reads the flags; paths are meant from `here`.
    pub(super) fn read(&self, here: &Path) -> Result<Around, Failure> {
        let path = |path: &PathBuf| here.join(path).to_string_lossy().into_owned();
        for export in &self.export {
            let name = export.split('=').next().unwrap_or_default();
            let mut bytes = name.bytes();
            let starts = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
            let valid = starts && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !valid || !export.contains('=') {
                let text = format!("--export {export}: this is not NAME=VALUE");
                return Err(Failure::new(code::COMMAND_LINE, text)
                    .help("jobs get the whole environment of this shell; --export adds to it"));
            }
        }
        for (flag, file) in [
            ("--env-file", self.env_file.clone()),
            ("--venv", self.venv.as_ref().map(|dir| dir.join("bin/activate"))),
        ] {
            if let Some(file) = file.map(|file| here.join(file)).filter(|file| !file.is_file()) {
                let text = format!("{flag}: there is no file {}", file.display());
                return Err(Failure::new(code::COMMAND_LINE, text));
            }
        }
        let environment = Environment {
            exports: self.export.clone(),
            env_file: self.env_file.as_ref().map(path),
            modules: self.module.clone(),
            conda: self.conda.clone(),
            venv: self.venv.as_ref().map(path),
            scratch: self.scratch.clone(),
            lines: self.setup.clone(),
        };
        let around = Around {
            shell: self.shell.clone().unwrap_or_default(),
            set_up: environment.set_up(),
            teardown: self.teardown.clone(),
            interpreter: self.interpreter.clone().unwrap_or_default(),
            hide_slurm: self.hide_slurm,
            container: self.container(here)?,
            ..Around::default()
        };
        if let Some(line) =
            around.set_up.iter().chain(&around.teardown).find(|line| holds_key(line))
        {
            let flag =
                if around.teardown.contains(line) { "--teardown" } else { "--setup or --export" };
            return Err(key_refused(flag));
        }
        Ok(around)
    }
}

impl AroundArgs {
    fn container(&self, here: &Path) -> Result<Option<Container>, Failure> {
        let image = self.container_image.clone().unwrap_or_default();
        let others = !self.container_mounts.is_empty()
            || !self.container_arg.is_empty()
            || self.container_workdir.is_some()
            || self.container_runtime.is_some();
        let runtime = self.container_runtime.unwrap_or_else(|| Runtime::of_image(&image));
        match (image.is_empty(), runtime) {
            (true, _) if !others => return Ok(None),
            (true, Runtime::Command) if !self.container_arg.is_empty() => {}
            (true, _) => {
                return Err(Failure::new(
                    code::COMMAND_LINE,
                    "a container needs --container-image",
                ));
            }
            (false, Runtime::Command) if self.container_arg.is_empty() => {
                let text = "--container-runtime command needs the words that start the container";
                return Err(Failure::new(code::COMMAND_LINE, text).help(
                    "give each by --container-arg: --container-arg podman --container-arg run",
                ));
            }
            (false, _) => {}
        }
        // A file is meant from here, wherever the job runs.
        let file = here.join(&image);
        let image = if !image.is_empty() && file.exists() {
            file.to_string_lossy().into_owned()
        } else {
            image
        };
        Ok(Some(Container {
            runtime,
            image,
            args: self.container_arg.clone(),
            mounts: self.container_mounts.clone(),
            workdir: self.container_workdir.clone(),
        }))
    }
}

/// Why a text that holds a W&B key is not taken.
pub(super) fn key_refused(what: &str) -> Failure {
    Failure::new(
        code::SWEEP_FILE,
        format!("{what} seems to hold a W&B API key, which everyone could read in the script and the process list"),
    )
    .help("`wandb login` once on a login node keeps it in ~/.netrc; or read it in a set-up line: --setup 'export WANDB_API_KEY=$(cat ~/.wandb-key)'")
}
