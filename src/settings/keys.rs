//! The keys of settings files: names, what they take, and what they are for.

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Takes {
    /// A whole number, at least this one.
    Count(u32),
    /// A number above 0.
    Amount,
    /// `true` or `false`.
    Switch,
    /// Text; numbers are taken as they are written.
    Text,
    /// A path. A relative one in a file begins at that file's folder; `~`, `$` and the like are left to the shell.
    Path,
    /// The image of a container: a path like the others if there is such a file, else a name.
    Image,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A list of texts, or one text.
    Lines,
    /// A mapping of variables' names to their values.
    Variables,
    /// A mapping of these keys.
    Parts(&'static [Key]),
}

/// A key of settings files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Key {
    /// Its name: that of the flag of `submit` which says the same.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// What holds where nobody says anything.
    pub default: Option<&'static str>,
    /// The variable that says the same.
    pub variable: Option<&'static str>,
    /// What it is for.
    pub about: &'static str,
}

const fn key(
    name: &'static str,
    takes: Takes,
    default: Option<&'static str>,
    variable: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key { name, takes, default, variable, about }
}

/// The parts of `container`.
const CONTAINER: &[Key] = &[
    key(
        "runtime",
        Takes::OneOf(&["apptainer", "pyxis", "command"]),
        None,
        None,
        "what enters the container",
    ),
    key("image", Takes::Image, None, None, "the image, as that runtime names it"),
    key("args", Takes::Lines, None, None, "more arguments of the runtime"),
    key(
        "mounts",
        Takes::Lines,
        None,
        None,
        "folders to mount besides the project's, as `FROM:TO` or `FOLDER`",
    ),
    key("workdir", Takes::Text, None, None, "the folder inside"),
];

/// All keys that a file, or a profile in it, may have, but for `slurm` and `sbatch`.
///
/// A key that gets a flag, or a flag that gets a key, needs a line here, one in [`super::Settings`] and one in
/// docs/reference/settings.md.
#[rustfmt::skip]
pub const KEYS: &[Key] = {
    use Takes::{Amount, Count, Lines, OneOf, Parts, Path, Switch, Text, Variables};
    &[
        key("jobs", Count(1), None, Some("SWEEPCTL_JOBS"), "array tasks in the queue or running at a time"),
        key("parallel", Count(1), None, Some("SWEEPCTL_PARALLEL"), "array tasks running at a time"),
        key("runs-per-job", Count(1), Some("1"), Some("SWEEPCTL_RUNS_PER_JOB"), "runs that one task does, one after the other"),
        key("agents", OneOf(&["job", "node", "task"]), Some("job"), Some("SWEEPCTL_AGENTS"), "agents of each job: one, one on each node, or one on each rank"),
        key("max-attempts", Count(1), Some("3"), Some("SWEEPCTL_MAX_ATTEMPTS"), "tries at a run that machines or people took"),
        key("warmup", Count(0), Some("4"), Some("SWEEPCTL_WARMUP"), "runs that may start before one has lived for a minute; 0: no such caution"),
        key("requeue", Switch, Some("true"), Some("SWEEPCTL_REQUEUE"), "whether SLURM may start a task again by itself"),
        // SWEEPCTL_METRICS is where a run's program writes them.
        key("metrics", OneOf(&["stdout"]), None, None, "where metrics are read from besides the program's own file"),
        key("linger", Count(0), Some("30"), Some("SWEEPCTL_LINGER"), "seconds that processes of a program may outlive its end"),
        key("max-gpu-hours", Amount, None, Some("SWEEPCTL_MAX_GPU_HOURS"), "GPU hours beyond which a sweep is refused"),
        key("state-dir", Path, None, Some("SWEEPCTL_STATE_DIR"), "the state folder"),
        key("template", Path, None, Some("SWEEPCTL_TEMPLATE"), "a script template of your own"),
        key("controller", OneOf(&["embedded"]), Some("embedded"), Some("SWEEPCTL_CONTROLLER"), "where runs come from"),
        key("local", Switch, Some("false"), Some("SWEEPCTL_LOCAL"), "whether runs are processes of this machine instead of SLURM's"),
        key("clusters", Text, None, Some("SWEEPCTL_CLUSTERS"), "SLURM's cluster, as for sbatch"),
        key("setup", Lines, None, Some("SWEEPCTL_SETUP"), "lines of shell before the run"),
        key("teardown", Lines, None, Some("SWEEPCTL_TEARDOWN"), "lines of shell after the last run"),
        key("conda", Text, None, Some("SWEEPCTL_CONDA"), "the conda environment, by name or path"),
        key("venv", Path, None, Some("SWEEPCTL_VENV"), "the folder of the virtual environment"),
        key("module", Lines, None, Some("SWEEPCTL_MODULE"), "modules to load, in this order"),
        key("env-file", Path, None, Some("SWEEPCTL_ENV_FILE"), "a file of variables for the runs"),
        key("export", Variables, None, None, "variables for the runs"),
        key("shell", Text, None, Some("SWEEPCTL_SHELL"), "the shell of the set-up lines"),
        // SWEEPCTL_SCRATCH is where a run finds it.
        key("scratch", Text, None, None, "a folder for temporary files of each job; may hold variables of the job"),
        key("interpreter", Text, None, Some("SWEEPCTL_INTERPRETER"), "what `${interpreter}` stands for in the sweep file's command"),
        key("hide-slurm", Switch, None, Some("SWEEPCTL_HIDE_SLURM"), "whether a single process does not see SLURM's ranks"),
        key("chdir", Path, None, Some("SWEEPCTL_CHDIR"), "the folder that runs start in"),
        key("container", Parts(CONTAINER), None, None, "the container that runs live in"),
    ]
};

/// Keys that a file has besides [`KEYS`]; the last two are for files alone, not for a profile in one.
pub const MORE: &[(&str, &str)] = &[
    ("slurm", "sbatch's options by their long names, for each job"),
    (
        "sbatch",
        "more options for sbatch, word by word as behind `--`: those of a plug-in, or newer than this version",
    ),
    ("profile", "the profile that is used when none is named"),
    (
        "profiles",
        "sets of settings by name, chosen by `--profile NAME`, SWEEPCTL_PROFILE or `profile:`",
    ),
];

/// What the site file alone may have: no user can weaken it.
#[rustfmt::skip]
pub const FLOORS: &[Key] = &[
    key("min_poll", Takes::Count(1), None, None, "seconds between two looks of a watcher, at least"),
    key("max_tasks", Takes::Count(1), None, None, "array tasks of a sweep in the queue or running at a time, at most"),
    key("max_rpc_per_hour", Takes::Count(1), None, None, "SLURM programs that a watcher starts in an hour, at most"),
    key("watch", Takes::OneOf(&["forbid", "nice"]), Some("nice"), None, "`forbid`: no watchers, sweeps are submitted with `--detach`; `nice`: they run at low priority"),
    key("require", Takes::Lines, None, None, "sbatch's options that have to be given"),
    key("state_dir", Takes::Lines, None, None, "folders in one of which each state folder has to be"),
];

/// A key of [`KEYS`] by name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}
