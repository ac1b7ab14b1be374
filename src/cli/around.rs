//! `submit`'s flags for what stands around the agent in each job.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::{Failure, code};
use crate::drive::state::Around;
use crate::launch::container::{Container, Runtime};
use crate::launch::environment::{Environment, bad_line, leaves_shell};
use crate::launch::secret::looks_like_key_literal;
use crate::settings::{self, Layer, Origin, Settings, Value, is_variable};

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
    chdir: Option<PathBuf>,
}

impl AroundArgs {
    /// Adds what these flags say to a layer of settings; paths are meant from `here`.
    pub(super) fn add_to(&self, layer: &mut Layer, here: &Path) -> Result<(), Failure> {
        let text = |text: &Option<String>| text.clone().map(Value::Text);
        let path = |path: &Option<PathBuf>| {
            let path = path.as_ref().map(|path| here.join(path).to_string_lossy().into_owned());
            path.map(Value::Text)
        };
        let lines = |lines: &[String]| (!lines.is_empty()).then(|| Value::Lines(lines.to_vec()));
        for export in &self.export {
            let pair = export.split_once('=').filter(|(name, _)| is_variable(name));
            let Some((name, value)) = pair else {
                let text = format!("--export {export}: this is not NAME=VALUE");
                return Err(Failure::new(code::COMMAND_LINE, text)
                    .help("jobs get the whole environment of this shell; --export adds to it"));
            };
            layer.set(&format!("export.{name}"), Some(Value::Text(value.to_owned())), Origin::Flag);
        }
        let runtime = self.container_runtime.and_then(|runtime| runtime.to_possible_value());
        let runtime = runtime.map(|runtime| Value::Text(runtime.get_name().to_owned()));
        for (key, value) in [
            ("setup", lines(&self.setup)),
            ("teardown", lines(&self.teardown)),
            ("shell", text(&self.shell)),
            ("module", lines(&self.module)),
            ("conda", text(&self.conda)),
            ("venv", path(&self.venv)),
            ("env-file", path(&self.env_file)),
            ("scratch", text(&self.scratch)),
            ("interpreter", text(&self.interpreter)),
            ("hide-slurm", self.hide_slurm.then_some(Value::Switch(true))),
            ("chdir", path(&self.chdir)),
            ("container.image", text(&self.container_image)),
            ("container.runtime", runtime),
            ("container.mounts", lines(&self.container_mounts)),
            ("container.workdir", text(&self.container_workdir)),
            ("container.args", lines(&self.container_arg)),
        ] {
            layer.set(key, value, Origin::Flag);
        }
        Ok(())
    }
}

/// What settings say of a job around its runs; paths are meant from `here`.
pub(super) fn of(settings: &Settings, here: &Path) -> Result<Around, Failure> {
    for (key, file) in [
        ("env-file", settings.env_file.clone()),
        ("venv", settings.venv.as_ref().map(|dir| format!("{dir}/bin/activate"))),
    ] {
        if let Some(file) = file.map(|file| here.join(file)).filter(|file| !file.is_file()) {
            let text = format!("--{key}: there is no file {}", file.display());
            return Err(Failure::new(code::COMMAND_LINE, text));
        }
    }
    if let Some(file) = &settings.env_file
        && let Some(line) = bad_line(&std::fs::read_to_string(here.join(file)).unwrap_or_default())
    {
        return Err(Failure::new(
            code::SWEEP_FILE,
            format!("{file}:{line}: this is not NAME=VALUE"),
        )
        .help("a shell reads the file: put a value with blanks in quotes"));
    }
    if let Some(line) = settings.setup.iter().find(|line| leaves_shell(line)) {
        let line = line.lines().next().unwrap_or_default();
        let text =
            format!("the set-up line `{line}` replaces the shell that is to become the agent");
        return Err(Failure::new(code::SWEEP_FILE, text).help("run the command without `exec`"));
    }
    let exports = settings.export.iter().map(|(name, value)| format!("{name}={value}"));
    let environment = Environment {
        exports: exports.collect(),
        env_file: settings.env_file.clone(),
        modules: settings.module.clone(),
        conda: settings.conda.clone(),
        venv: settings.venv.clone(),
        scratch: settings.scratch.clone(),
        lines: settings.setup.clone(),
    };
    let around = Around {
        shell: settings.shell.clone().unwrap_or_default(),
        set_up: environment.set_up(),
        teardown: settings.teardown.clone(),
        interpreter: settings.interpreter.clone().unwrap_or_default(),
        hide_slurm: settings.hide_slurm.unwrap_or_default(),
        container: settings.container.as_ref().map(|asked| container(asked, here)).transpose()?,
        ..Around::default()
    };
    let mut lines = around.set_up.iter().chain(&around.teardown);
    if let Some(line) = lines.find(|line| looks_like_key_literal(line)) {
        let flag =
            if around.teardown.contains(line) { "--teardown" } else { "--setup or --export" };
        return Err(key_refused(flag));
    }
    Ok(around)
}

fn container(asked: &settings::Container, here: &Path) -> Result<Container, Failure> {
    let image = asked.image.clone().unwrap_or_default();
    let named = asked.runtime.as_ref().and_then(|name| Runtime::from_str(name, true).ok());
    let runtime = named.unwrap_or_else(|| Runtime::of_image(&image));
    match (image.is_empty(), runtime) {
        (true, Runtime::Command) if !asked.args.is_empty() => {}
        (true, _) => {
            return Err(Failure::new(code::COMMAND_LINE, "a container needs --container-image"));
        }
        (false, Runtime::Command) if asked.args.is_empty() => {
            let text = "--container-runtime command needs the words that start the container";
            return Err(Failure::new(code::COMMAND_LINE, text)
                .help("give each by --container-arg: --container-arg podman --container-arg run"));
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
    Ok(Container {
        runtime,
        image,
        args: asked.args.clone(),
        mounts: asked.mounts.clone(),
        workdir: asked.workdir.clone(),
    })
}

/// Why a text that holds a W&B key is not taken.
pub(super) fn key_refused(what: &str) -> Failure {
    Failure::new(
        code::SWEEP_FILE,
        format!("{what} seems to hold a W&B API key, which everyone could read in the script and the process list"),
    )
    .help("`wandb login` once on a login node keeps it in ~/.netrc; or read it in a set-up line: --setup 'export WANDB_API_KEY=$(cat ~/.wandb-key)'")
}
