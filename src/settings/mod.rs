//! Settings: flag > variable > project file > user file > site file > default, and what the site demands.
//!
//! The project file is `sweepctl.yaml` in the folder where `submit` is called, or above it: up to the home, or to
//! the root of a file system. The user file is `$XDG_CONFIG_HOME/sweepctl/config.yaml`, the site file
//! `/etc/sweepctl/site.yaml`. A profile stands before what files say without one.

pub mod init;
pub mod keys;
mod layer;
mod read;
mod show;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::launch::agents::Gate;
use crate::launch::request::Given;
use crate::sweep::problem::nearest;

pub use layer::{Effective, Found, Layer, Origin, Value, from_variables};
pub use read::{SettingsFile, is_variable, read};
pub use show::show;

/// The project file's name.
pub const PROJECT_FILE: &str = "sweepctl.yaml";

const SITE_FILE: &str = "/etc/sweepctl/site.yaml";

/// Everything that is wrong with the settings, one line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct SettingsError(pub Vec<String>);

/// The settings of one call.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Array tasks in the queue or running at a time.
    pub jobs: Option<u32>,
    /// Array tasks running at a time.
    pub parallel: Option<u32>,
    /// Runs that one task does.
    pub runs_per_job: u32,
    /// Where each job's agents are, if it has several: `node` or `task`.
    pub agents: Option<Gate>,
    /// Tries at a run that machines or people took.
    pub max_attempts: u32,
    /// Runs that may start before the sweep is warm.
    pub warmup: u32,
    /// Whether SLURM may start a task again.
    pub requeue: bool,
    /// Where metrics are read from besides the program's file.
    pub metrics: Option<String>,
    /// Seconds that processes of a program may outlive its end.
    pub linger: u64,
    /// GPU hours beyond which a sweep is refused.
    pub max_gpu_hours: Option<f64>,
    /// The state folder.
    pub state_dir: Option<PathBuf>,
    /// A script template of the user's.
    pub template: Option<PathBuf>,
    /// Where runs come from.
    pub controller: String,
    /// Whether runs are processes of this machine.
    pub local: bool,
    /// SLURM's cluster.
    pub clusters: Option<String>,
    /// Lines of shell before the run.
    pub setup: Vec<String>,
    /// Lines of shell after the last run.
    pub teardown: Vec<String>,
    /// The conda environment.
    pub conda: Option<String>,
    /// The folder of the virtual environment.
    pub venv: Option<String>,
    /// Modules to load.
    pub module: Vec<String>,
    /// A file of variables.
    pub env_file: Option<String>,
    /// Variables for the runs, by name.
    pub export: Vec<(String, String)>,
    /// The shell of the set-up lines.
    pub shell: Option<String>,
    /// A folder for temporary files of each job.
    pub scratch: Option<String>,
    /// What `${interpreter}` stands for.
    pub interpreter: Option<String>,
    /// Whether a single process does not see SLURM's ranks; `None` if nobody says.
    pub hide_slurm: Option<bool>,
    /// The folder that runs start in.
    pub chdir: Option<String>,
    /// The container that runs live in.
    pub container: Option<Container>,
    /// sbatch's options, all sources merged.
    pub options: Vec<Given>,
    /// What the site demands.
    pub floors: Floors,
}

/// The container that runs live in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// `apptainer`, `pyxis` or `command`.
    pub runtime: Option<String>,
    /// The image.
    pub image: Option<String>,
    /// More arguments of the runtime.
    pub args: Vec<String>,
    /// Folders to mount.
    pub mounts: Vec<String>,
    /// The folder inside.
    pub workdir: Option<String>,
}

/// What the site demands of everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floors {
    /// Between two looks of a watcher, at least.
    pub min_poll: Duration,
    /// Array tasks of a sweep in the queue or running, at most.
    pub max_tasks: Option<u32>,
    /// SLURM programs that a watcher starts in an hour, at most.
    pub max_rpc_per_hour: Option<u32>,
    /// Whether watchers are forbidden.
    pub no_watchers: bool,
    /// sbatch's options that have to be given.
    pub require: Vec<String>,
    /// Folders in one of which each state folder has to be; empty: anywhere.
    pub state_dirs: Vec<PathBuf>,
}

impl Floors {
    fn of(layer: &Layer) -> Self {
        let count = |key| match layer.find(key).map(|found| &found.value) {
            Some(Value::Count(number)) => Some(*number),
            _ => None,
        };
        let lines = |key| match layer.find(key).map(|found| &found.value) {
            Some(Value::Lines(lines)) => lines.clone(),
            _ => Vec::new(),
        };
        let watch = layer.find("watch").map(|found| &found.value);
        Self {
            min_poll: Duration::from_secs(count("min_poll").unwrap_or(0).into()),
            max_tasks: count("max_tasks"),
            max_rpc_per_hour: count("max_rpc_per_hour"),
            no_watchers: watch == Some(&Value::Text("forbid".to_owned())),
            require: lines("require"),
            state_dirs: lines("state_dir").into_iter().map(PathBuf::from).collect(),
        }
    }

    /// The site's floors on this machine.
    ///
    /// # Errors
    /// If there is a site file that cannot be used: what it demands is then not known.
    pub fn of_this_machine() -> Result<Self, SettingsError> {
        let path = site_file();
        let mut problems = Vec::new();
        let file = read_file(&path, &path, true, &mut problems);
        if problems.is_empty() {
            Ok(file.map(|file| Self::of(&file.floors)).unwrap_or_default())
        } else {
            Err(SettingsError(problems))
        }
    }

    /// How long a watcher rests at least that has just started so many of SLURM's programs.
    #[must_use]
    pub fn least_pause(&self, programs: u32) -> Duration {
        let by_rate = self.max_rpc_per_hour.map_or(Duration::ZERO, |most| {
            Duration::from_secs(3600).saturating_mul(programs) / most.max(1)
        });
        self.min_poll.max(by_rate)
    }

    /// The lower one of a limit on tasks and the site's.
    #[must_use]
    pub fn tasks(&self, asked: Option<u32>) -> Option<u32> {
        [asked, self.max_tasks].into_iter().flatten().min()
    }

    /// The demanded options that nobody gave.
    #[must_use]
    pub fn missing(&self, options: &[Given]) -> Vec<&str> {
        let is_given = |name: &str| {
            let family = crate::launch::request::family(name);
            options.iter().any(|given| family.contains(&given.name.as_str()))
        };
        self.require.iter().map(String::as_str).filter(|name| !is_given(name)).collect()
    }

    /// Whether a state folder may be there. Links and `..` lead nowhere else.
    #[must_use]
    pub fn allow_state_dir(&self, dir: &Path) -> bool {
        let real = |path: &Path| {
            let there = path.ancestors().find(|part| part.exists())?;
            let rest = path.strip_prefix(there).ok()?;
            let plain = |part| matches!(part, std::path::Component::Normal(_));
            rest.components().all(plain).then_some(())?;
            Some(there.canonicalize().ok()?.join(rest))
        };
        self.state_dirs.is_empty()
            || real(dir).is_some_and(|dir| {
                self.state_dirs
                    .iter()
                    .filter_map(|site| real(site))
                    .any(|site| dir.starts_with(site))
            })
    }
}

/// All sources of one call, read and put together.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What they say together.
    pub effective: Effective,
    /// The site's floors, as its file has them.
    pub floors: Layer,
    /// The profile in use.
    pub profile: Option<String>,
}

impl Sources {
    /// Reads the files for a call in `folder`, and puts variables and flags over them.
    ///
    /// # Errors
    /// Everything that is wrong with any of them.
    pub fn read(
        folder: &Path,
        profile: Option<&str>,
        variables: Layer,
        flags: Layer,
    ) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        // The farthest first.
        let mut files = Vec::new();
        let site = site_file();
        files.extend(read_file(&site, &site, true, &mut problems));
        if let Some(path) = user_file() {
            files.extend(read_file(&path, &path, false, &mut problems));
        }
        if let Some(path) = project_file(folder) {
            let name = path.strip_prefix(folder).unwrap_or(&path);
            match strange_owner(&path) {
                Some(problem) => problems.push(problem),
                None => files.extend(read_file(&path, name, false, &mut problems)),
            }
        }
        if !problems.is_empty() {
            return Err(SettingsError(problems));
        }
        Self::of(files, profile, variables, flags)
    }

    /// Puts sources together; files the farthest first.
    ///
    /// # Errors
    /// If there is no such profile.
    pub fn of(
        files: Vec<SettingsFile>,
        profile: Option<&str>,
        variables: Layer,
        flags: Layer,
    ) -> Result<Self, SettingsError> {
        let chosen = match profile {
            Some(name) => Some((name.to_owned(), None)),
            None => {
                let by_file = files.iter().rev().find_map(|file| file.profile.clone());
                by_file.map(|(name, origin)| (name, Some(origin)))
            }
        };
        if let Some((name, origin)) = &chosen
            && !files.iter().any(|file| file.profiles.contains_key(name))
        {
            let mut known: Vec<&str> =
                files.iter().flat_map(|file| file.profiles.keys()).map(String::as_str).collect();
            known.sort_unstable();
            known.dedup();
            let place = origin.as_ref().map_or_else(String::new, |origin| format!("{origin}: "));
            let help = match (nearest(name, &known), known.as_slice()) {
                (Some(near), _) => format!("is it `{near}`?"),
                (None, []) => "no settings file has `profiles:`".to_owned(),
                (None, known) => format!("there is `{}`", known.join("`, `")),
            };
            let problem = format!("{place}there is no profile `{}` ({help})", name.escape_debug());
            return Err(SettingsError(vec![problem]));
        }
        let profile = chosen.map(|(name, _)| name);
        let floors =
            files.iter().map(|file| file.floors.clone()).find(|layer| *layer != Layer::default());
        let of_profile: Vec<Layer> = match &profile {
            Some(name) => {
                files.iter().filter_map(|file| file.profiles.get(name).cloned()).collect()
            }
            None => Vec::new(),
        };
        let plain = files.into_iter().map(|file| file.plain);
        let layers = plain.chain(of_profile).chain([variables, flags]).collect();
        let effective = Effective::of(layers);
        Ok(Self { effective, floors: floors.unwrap_or_default(), profile })
    }

    /// The settings, each as what it is.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let all = &self.effective;
        let switch = |key| all.switch(key).unwrap_or_default();
        let count = |key| all.count(key).unwrap_or_default();
        let text = |key: &str| all.text(key);
        let variable = |name: &str| std::env::var(name).ok();
        // What a shell gave us, it has filled in itself.
        let path = |key: &str| match all.get(key)?.origin {
            Origin::Flag => all.text(key),
            _ => Some(fill_in(&all.text(key)?, &variable)),
        };
        let export = all.parts("export").filter_map(|(name, found)| match &found.value {
            Value::Text(value) => Some((name.to_owned(), value.clone())),
            _ => None,
        });
        let container = all.parts("container").next().is_some().then(|| Container {
            runtime: text("container.runtime"),
            image: path("container.image"),
            args: all.lines("container.args"),
            mounts: all.lines("container.mounts"),
            workdir: text("container.workdir"),
        });
        Settings {
            jobs: all.count("jobs"),
            parallel: all.count("parallel"),
            runs_per_job: count("runs-per-job"),
            agents: match all.text("agents").as_deref() {
                Some("task") => Some(Gate::Task),
                Some("node") => Some(Gate::Node),
                _ => None,
            },
            max_attempts: count("max-attempts"),
            warmup: count("warmup"),
            requeue: switch("requeue"),
            metrics: text("metrics"),
            linger: count("linger").into(),
            max_gpu_hours: all.amount("max-gpu-hours"),
            state_dir: path("state-dir").map(PathBuf::from),
            template: path("template").map(PathBuf::from),
            controller: text("controller").unwrap_or_default(),
            local: switch("local"),
            clusters: text("clusters"),
            setup: all.lines("setup"),
            teardown: all.lines("teardown"),
            conda: text("conda"),
            venv: path("venv"),
            module: all.lines("module"),
            env_file: path("env-file"),
            export: export.collect(),
            shell: text("shell"),
            scratch: text("scratch"),
            interpreter: text("interpreter"),
            hide_slurm: all.switch("hide-slurm"),
            chdir: path("chdir"),
            container,
            options: all.options.clone(),
            floors: Floors::of(&self.floors),
        }
    }
}

/// A path with its `~`, `$NAME` and `${NAME}` filled in; names that are not set stay.
fn fill_in(path: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    let mut rest = path;
    if let Some(behind) =
        path.strip_prefix('~').filter(|behind| behind.is_empty() || behind.starts_with('/'))
        && let Some(home) = variable("HOME")
    {
        filled.push_str(&home);
        rest = behind;
    }
    while let Some((before, behind)) = rest.split_once('$') {
        filled.push_str(before);
        let braced = behind.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        let plain = || {
            let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            behind.split_at(end.unwrap_or(behind.len()))
        };
        let (name, after) = braced.unwrap_or_else(plain);
        match variable(name) {
            Some(value) => filled.push_str(&value),
            None => {
                filled.push('$');
                rest = behind;
                continue;
            }
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// Where the site's file is. Users cannot move it: only tests can, in builds for tests.
fn site_file() -> PathBuf {
    #[cfg(feature = "abort-hook")]
    if let Some(path) = std::env::var_os("SWEEPCTL_SITE_FILE") {
        return path.into();
    }
    SITE_FILE.into()
}

fn user_file() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = set.filter(|path| path.is_absolute());
    let folder = folder.or_else(|| Some(std::env::home_dir()?.join(".config")))?;
    Some(folder.join("sweepctl").join("config.yaml"))
}

/// The project file for a call in `folder`: there or above, up to the home or the root of a file system.
#[must_use]
pub fn project_file(folder: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let home = std::env::home_dir();
    let mut last = device(folder);
    for part in folder.ancestors() {
        if device(part) != last {
            return None;
        }
        last = device(part);
        let path = part.join(PROJECT_FILE);
        if fs::symlink_metadata(&path).is_ok() {
            return Some(path);
        }
        if home.as_deref() == Some(part) {
            return None;
        }
    }
    None
}

/// Whether somebody else put the file where everybody may: its set-up lines would be theirs.
fn strange_owner(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let file = fs::metadata(path).ok()?;
    let folder = fs::metadata(path.parent()?).ok()?;
    let ours = [0, rustix::process::getuid().as_raw()].contains(&file.uid());
    (!ours && folder.mode() & 0o002 != 0).then(|| {
        format!(
            "{}: this file belongs to another user, in a folder that everybody may write to (remove it, or submit \
             from a folder of your own)",
            path.display()
        )
    })
}

/// Reads a file if there is one; `name` is its name for messages.
fn read_file(
    path: &Path,
    name: &Path,
    is_site: bool,
    problems: &mut Vec<String>,
) -> Option<SettingsFile> {
    let text = match fs::read(path) {
        Ok(text) => text,
        // A link that leads nowhere is a file that should be there: on a file system that is away, perhaps.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                && fs::symlink_metadata(path).is_err() =>
        {
            return None;
        }
        Err(error) => {
            problems.push(format!("{}: {error}", name.display()));
            return None;
        }
    };
    let folder = path.parent().unwrap_or(path);
    match read(&text, &name.to_string_lossy(), folder, is_site) {
        Ok(file) => Some(file),
        Err(found) => {
            problems.extend(found.iter().map(ToString::to_string));
            None
        }
    }
}

#[cfg(test)]
mod tests;
