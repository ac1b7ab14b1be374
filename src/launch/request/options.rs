//! sbatch's options: their names, what they take, and words read as sbatch reads them.

use std::fmt;

/// What follows an option's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A value: `--time=10`, `--time 10`, `-t10` or `-t 10`.
    Value,
    /// A value in the same word, or none: `--exclusive` or `--exclusive=user`.
    Maybe,
    /// Nothing.
    Nothing,
}

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Given to sbatch, and shown in our help with these words.
    Shown(&'static str),
    /// Given to sbatch.
    Passed,
    /// It would break the sweep, or is ours to say: what to do instead.
    Refused(&'static str),
}

/// One option of sbatch.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name, without the hyphens.
    pub long: &'static str,
    /// Its letter.
    pub short: Option<char>,
    /// What follows it.
    pub takes: Takes,
    /// The variable by which a shell gives it.
    pub variable: Option<&'static str>,
    /// What becomes of it.
    pub used: Use,
}

const fn known(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    variable: Option<&'static str>,
    used: Use,
) -> Known {
    Known { long, short, takes, variable, used }
}

const THE_BUDGET: &str = "the budget decides; see --budget, --jobs and --parallel";
const OTHER_USER: &str = "jobs are yours";

/// Every option of sbatch 22.05.8 by its manual, and those that later versions added.
#[rustfmt::skip]
pub const KNOWN: &[Known] = {
    use Takes::{Maybe, Nothing, Value};
    use Use::{Passed, Refused, Shown};
    &[
        known("account", Some('A'), Value, Some("SBATCH_ACCOUNT"), Shown("Account that pays")),
        known("partition", Some('p'), Value, Some("SBATCH_PARTITION"), Shown("Partition, or several with commas")),
        known("qos", Some('q'), Value, Some("SBATCH_QOS"), Shown("Quality of service")),
        known("time", Some('t'), Value, Some("SBATCH_TIMELIMIT"), Shown("Time limit: minutes, H:M:S or D-H:M:S")),
        known("nodes", Some('N'), Value, None, Shown("Nodes of each job")),
        known("ntasks", Some('n'), Value, None, Shown("Ranks of each job")),
        known("ntasks-per-node", None, Value, None, Shown("Ranks on each node")),
        known("cpus-per-task", Some('c'), Value, None, Shown("CPUs of each rank")),
        known("mem", None, Value, Some("SBATCH_MEM_PER_NODE"), Shown("Memory of each node")),
        known("mem-per-cpu", None, Value, Some("SBATCH_MEM_PER_CPU"), Shown("Memory for each CPU")),
        known("gpus-per-node", None, Value, Some("SBATCH_GPUS_PER_NODE"), Shown("GPUs of each node, as 8 or a100:8")),
        known("gpus", Some('G'), Value, Some("SBATCH_GPUS"), Shown("GPUs of each job")),
        known("gres", None, Value, Some("SBATCH_GRES"), Shown("Generic resources of each node")),
        known("constraint", Some('C'), Value, Some("SBATCH_CONSTRAINT"), Shown("Features that nodes must have")),
        known("exclude", Some('x'), Value, None, Shown("Nodes not to use")),
        known("acctg-freq", None, Value, Some("SBATCH_ACCTG_FREQ"), Passed),
        known("batch", None, Value, Some("SBATCH_BATCH"), Passed),
        known("bb", None, Value, None, Passed),
        known("bbf", None, Value, None, Passed),
        known("begin", Some('b'), Value, None, Passed),
        known("cluster-constraint", None, Value, None, Passed),
        known("comment", None, Value, None, Passed),
        known("consolidate-segments", None, Nothing, None, Passed), // 25.05
        known("container", None, Value, Some("SBATCH_CONTAINER"), Passed),
        known("container-id", None, Value, Some("SBATCH_CONTAINER_ID"), Passed), // 23.02
        known("contiguous", None, Nothing, None, Passed),
        known("core-spec", Some('S'), Value, Some("SBATCH_CORE_SPEC"), Passed),
        known("cores-per-socket", None, Value, None, Passed),
        known("cpu-freq", None, Value, None, Passed),
        known("cpus-per-gpu", None, Value, Some("SBATCH_CPUS_PER_GPU"), Passed),
        known("deadline", None, Value, None, Passed),
        known("delay-boot", None, Value, Some("SBATCH_DELAY_BOOT"), Passed),
        known("dependency", Some('d'), Value, None, Passed),
        known("distribution", Some('m'), Value, Some("SBATCH_DISTRIBUTION"), Passed),
        known("exclusive", None, Maybe, Some("SBATCH_EXCLUSIVE"), Passed),
        known("extra", None, Value, None, Passed), // 23.02
        known("extra-node-info", Some('B'), Value, None, Passed),
        known("gpu-bind", None, Value, Some("SBATCH_GPU_BIND"), Passed),
        known("gpu-freq", None, Value, Some("SBATCH_GPU_FREQ"), Passed),
        known("gpus-per-socket", None, Value, None, Passed),
        known("gpus-per-task", None, Value, Some("SBATCH_GPUS_PER_TASK"), Passed),
        known("gres-flags", None, Value, Some("SBATCH_GRES_FLAGS"), Passed),
        known("hint", None, Value, Some("SBATCH_HINT"), Passed),
        known("kill-on-invalid-dep", None, Value, None, Passed),
        known("licenses", Some('L'), Value, None, Passed),
        known("mail-type", None, Value, None, Passed),
        known("mail-user", None, Value, None, Passed),
        known("mcs-label", None, Value, None, Passed),
        known("mem-bind", None, Value, Some("SBATCH_MEM_BIND"), Passed),
        known("mem-per-gpu", None, Value, Some("SBATCH_MEM_PER_GPU"), Passed),
        known("mincpus", None, Value, None, Passed),
        known("network", None, Value, Some("SBATCH_NETWORK"), Passed),
        known("nice", None, Maybe, None, Passed),
        known("no-kill", Some('k'), Maybe, Some("SBATCH_NO_KILL"), Passed),
        known("nodefile", Some('F'), Value, None, Passed),
        known("nodelist", Some('w'), Value, None, Passed),
        known("ntasks-per-core", None, Value, None, Passed),
        known("ntasks-per-gpu", None, Value, None, Passed),
        known("ntasks-per-socket", None, Value, None, Passed),
        known("oom-kill-step", None, Maybe, None, Passed), // 24.05
        known("overcommit", Some('O'), Nothing, Some("SBATCH_OVERCOMMIT"), Passed),
        known("oversubscribe", Some('s'), Nothing, None, Passed),
        known("power", None, Value, Some("SBATCH_POWER"), Passed),
        known("prefer", None, Value, None, Passed),
        known("priority", None, Value, None, Passed),
        known("profile", None, Value, Some("SBATCH_PROFILE"), Passed),
        known("propagate", None, Maybe, None, Passed),
        known("reboot", None, Nothing, None, Passed),
        known("reservation", None, Value, Some("SBATCH_RESERVATION"), Passed),
        known("resv-ports", None, Maybe, None, Passed), // 23.11
        known("segment", None, Value, Some("SBATCH_SEGMENT_SIZE"), Passed), // 24.05
        known("signal", None, Value, Some("SBATCH_SIGNAL"), Passed),
        known("sockets-per-node", None, Value, None, Passed),
        known("spread-job", None, Nothing, Some("SBATCH_SPREAD_JOB"), Passed),
        known("spread-segments", None, Nothing, None, Passed), // 25.05
        known("stepmgr", None, Nothing, Some("SBATCH_STEPMGR"), Passed), // 24.05
        known("switches", None, Value, None, Passed),
        known("thread-spec", None, Value, Some("SBATCH_THREAD_SPEC"), Passed),
        known("threads-per-core", None, Value, Some("SBATCH_THREADS_PER_CORE"), Passed),
        known("time-min", None, Value, None, Passed),
        known("tmp", None, Value, None, Passed),
        known("tres-bind", None, Value, Some("SBATCH_TRES_BIND"), Passed), // 23.02
        known("tres-per-task", None, Value, Some("SBATCH_TRES_PER_TASK"), Passed), // 23.11
        known("use-min-nodes", None, Nothing, Some("SBATCH_USE_MIN_NODES"), Passed),
        known("wait-all-nodes", None, Value, Some("SBATCH_WAIT_ALL_NODES"), Passed),
        known("wckey", None, Value, Some("SBATCH_WCKEY"), Passed),
        known("array", Some('a'), Value, Some("SBATCH_ARRAY_INX"), Refused(THE_BUDGET)),
        known("error", Some('e'), Value, Some("SBATCH_ERROR"), Shown("Where its errors go [default: with its output]")),
        known("export-file", None, Value, None, Refused("jobs get the environment of this shell")),
        known("get-user-env", None, Maybe, Some("SBATCH_GET_USER_ENV"), Refused("jobs get the environment of this shell")),
        known("gid", None, Value, None, Refused(OTHER_USER)),
        known("hold", Some('H'), Nothing, None, Refused("see `sweepctl pause`")),
        known("ignore-pbs", None, Nothing, Some("SBATCH_IGNORE_PBS"), Refused("the script is ours and has no #PBS lines")),
        known("input", Some('i'), Value, Some("SBATCH_INPUT"), Refused("a run's standard input is at its end, as under W&B's agent")),
        known("job-name", Some('J'), Value, Some("SBATCH_JOB_NAME"), Refused("see --name")),
        known("open-mode", None, Value, Some("SBATCH_OPEN_MODE"), Refused("logs are appended to, so that a requeued task keeps what it wrote")),
        known("output", Some('o'), Value, Some("SBATCH_OUTPUT"), Shown("Where each job's output goes, with SLURM's % forms [default: the sweep's folder]")),
        known("parsable", None, Nothing, None, Refused("see --quiet")),
        known("test-only", None, Nothing, None, Refused("see --dry-run")),
        known("uid", None, Value, None, Refused(OTHER_USER)),
        known("wait", Some('W'), Nothing, Some("SBATCH_WAIT"), Refused("submit watches by itself")),
        known("wrap", None, Value, None, Refused("the sweep file's `command` is what runs")),
    ]
};

/// Other spellings that sbatch takes, and options that are our own under the same name.
const ALIASES: &[(&str, &str)] =
    &[("tasks-per-node", "ntasks-per-node"), ("share", "oversubscribe"), ("workdir", "chdir")];

/// Options of sbatch that `submit` has itself, before `--`.
const OURS: &[(&str, &str)] = &[
    ("requeue", "it is on unless --no-requeue is given"),
    ("no-requeue", "give it before `--`"),
    ("clusters", "give it before `--`"),
    ("cluster", "give --clusters before `--`"),
    ("chdir", "give it before `--`"),
    ("export", "give it before `--`, as NAME=VALUE"),
    ("quiet", "give it before `--`"),
    ("verbose", "sbatch's talk is not shown"),
    ("help", "see `man sbatch`"),
    ("usage", "see `man sbatch`"),
    ("version", "see `sbatch --version`"),
];

/// Their letters.
const OUR_LETTERS: &[(char, &str)] = &[
    ('D', "chdir"),
    ('M', "clusters"),
    ('Q', "quiet"),
    ('v', "verbose"),
    ('h', "help"),
    ('V', "version"),
];

/// Where an option comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    CommandLine,
    /// A variable of the submitting shell.
    Variable(&'static str),
    /// A settings file: `FILE:LINE`.
    Settings(String),
}

/// An option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its full name, without the hyphens.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: Source,
}

impl Given {
    /// The option as one word for sbatch.
    #[must_use]
    pub fn word(&self) -> String {
        match &self.value {
            Some(value) => format!("--{}={value}", self.name),
            None => format!("--{}", self.name),
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::CommandLine => write!(f, "`{}`", self.word()),
            Source::Variable(name) => write!(f, "`{}` (from {name})", self.word()),
            Source::Settings(place) => write!(f, "`{}` (from {place})", self.word()),
        }
    }
}

/// Why words are no options of a sweep's jobs.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// It is no option.
    #[error("`{word}` is not an option of sbatch")]
    NoOption {
        /// As typed.
        word: String,
    },
    /// An abbreviation of several.
    #[error("`--{name}` may be {}", .meant.join(" or "))]
    Ambiguous {
        /// As typed.
        name: String,
        /// The options that begin so.
        meant: Vec<String>,
    },
    /// Its value is missing.
    #[error("`--{name}` needs a value")]
    NoValue {
        /// The full name.
        name: String,
    },
    /// It has a value and takes none.
    #[error("`--{name}` takes no value")]
    Value {
        /// The full name.
        name: String,
    },
    /// It would break the sweep.
    #[error("sbatch's `--{name}` cannot be used with a sweep: {why}")]
    Refused {
        /// The full name.
        name: String,
        /// What to do instead.
        why: &'static str,
    },
}

/// Reads words as sbatch does: `--name=value`, `--name value`, `-nvalue`, `-n value`, letters in one word, and
/// beginnings of names.
///
/// A long option that we do not know is kept: sbatch may be newer. A word behind it that begins with no hyphen is
/// its value.
pub fn read(words: &[String]) -> Result<Vec<Given>, OptionError> {
    let mut given = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let Some(option) = find(name)? else {
                let next = words.next_if(|next| value.is_none() && !next.starts_with('-'));
                given.push(by_hand(name, value.or_else(|| next.cloned())));
                continue;
            };
            let value = match (option.takes, value) {
                (Takes::Value, None) => Some(value_of(option, words.next())?),
                (Takes::Nothing, Some(_)) => {
                    return Err(OptionError::Value { name: option.long.to_owned() });
                }
                (_, value) => value,
            };
            given.push(by_hand(option.long, value));
            continue;
        }
        let mut letters = word.strip_prefix('-').unwrap_or_default().chars();
        if letters.as_str().is_empty() {
            return Err(OptionError::NoOption { word: word.clone() });
        }
        while let Some(letter) = letters.next() {
            let Some(option) = by_letter(letter)? else {
                return Err(OptionError::NoOption { word: word.clone() });
            };
            let rest = letters.as_str();
            let value = match option.takes {
                Takes::Nothing => None,
                Takes::Maybe => (!rest.is_empty()).then(|| rest.to_owned()),
                Takes::Value if rest.is_empty() => Some(value_of(option, words.next())?),
                Takes::Value => Some(rest.to_owned()),
            };
            given.push(by_hand(option.long, value));
            if option.takes != Takes::Nothing {
                break;
            }
        }
    }
    given.iter().try_for_each(check)?;
    Ok(given)
}

fn by_hand(name: &str, value: Option<String>) -> Given {
    Given { name: name.to_owned(), value, source: Source::CommandLine }
}

fn value_of(option: &Known, word: Option<&String>) -> Result<String, OptionError> {
    word.cloned().ok_or_else(|| OptionError::NoValue { name: option.long.to_owned() })
}

/// An option by its letter, `None` if sbatch has none.
fn by_letter(letter: char) -> Result<Option<&'static Known>, OptionError> {
    match OUR_LETTERS.iter().find(|(ours, _)| *ours == letter) {
        Some((_, name)) => find(name),
        None => Ok(KNOWN.iter().find(|known| known.short == Some(letter))),
    }
}

/// An option by its name or an unmistakable beginning of it, as getopt_long has it; `None` if nothing begins so.
fn find(name: &str) -> Result<Option<&'static Known>, OptionError> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, full)| *full);
    if let Some(known) = KNOWN.iter().find(|known| known.long == name) {
        return Ok(Some(known));
    }
    if let Some((full, why)) = OURS.iter().find(|(ours, _)| *ours == name) {
        return Err(OptionError::Refused { name: (*full).to_owned(), why });
    }
    let ours = OURS.iter().map(|(ours, _)| *ours);
    let mut meant: Vec<&str> = KNOWN
        .iter()
        .map(|known| known.long)
        .chain(ours)
        .filter(|long| long.starts_with(name))
        .collect();
    meant.sort_unstable();
    match meant.as_slice() {
        [] => Ok(None),
        [one] => find(one),
        several => Err(OptionError::Ambiguous {
            name: name.to_owned(),
            meant: several.iter().map(|long| format!("`--{long}`")).collect(),
        }),
    }
}

/// An option by its full name, or another one that sbatch has for it.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Known> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, full)| *full);
    KNOWN.iter().find(|known| known.long == name)
}

/// The options that say the same thing in other words, itself included.
#[must_use]
pub fn family(name: &str) -> Vec<&str> {
    let family = FAMILIES.iter().find(|family| family.contains(&name));
    family.map_or_else(|| vec![name], |family| family.to_vec())
}

/// Refuses what would break the sweep.
pub fn check(given: &Given) -> Result<(), OptionError> {
    let known = KNOWN.iter().find(|known| known.long == given.name);
    let why = match known.map(|known| known.used) {
        Some(Use::Refused(why)) => why,
        _ if given.name == "dependency" && given.value.as_deref() == Some("singleton") => {
            "it goes by the job's name, which each array has its own; see --parallel 1"
        }
        _ => return Ok(()),
    };
    Err(OptionError::Refused { name: given.name.clone(), why })
}

/// What `SBATCH_*` variables of a shell ask for, by name; and the names of those that are not used.
///
/// sbatch would let them win over the script's own lines, so they become options of the sweep: a later `watch` in
/// another shell then submits the same jobs.
pub fn from_variables(
    variables: impl Iterator<Item = (String, String)>,
) -> (Vec<Given>, Vec<String>) {
    let mut variables: Vec<_> = variables
        .filter(|(name, value)| name.starts_with("SBATCH_") && !value.is_empty())
        .collect();
    variables.sort();
    let (mut given, mut unused) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let known = KNOWN.iter().find(|known| known.variable == Some(name.as_str()));
        let option = known.and_then(|known| {
            let value = match (known.takes, value.as_str()) {
                (Takes::Value, _) => Some(value),
                (Takes::Maybe, "" | "1" | "yes") => None,
                (Takes::Maybe, _) => Some(value),
                (Takes::Nothing, _) => None,
            };
            let source = Source::Variable(known.variable?);
            Some(Given { name: known.long.to_owned(), value, source })
        });
        match option.filter(|given| check(given).is_ok()) {
            Some(option) => given.push(option),
            None => unused.push(name),
        }
    }
    (given, unused)
}

/// Options that say the same thing in other words: one that is given nearer to the user replaces them all.
const FAMILIES: &[&[&str]] = &[
    &["mem", "mem-per-cpu", "mem-per-gpu"],
    &["gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres"],
];

/// The options of several sources as one list, the nearest source last; what a nearer one says otherwise is left out.
#[must_use]
pub fn merge(farthest_first: Vec<Vec<Given>>) -> Vec<Given> {
    let mut merged: Vec<Given> = Vec::new();
    for nearer in farthest_first {
        merged = merged.into_iter().filter_map(|far| left_of(far, &nearer)).collect();
        merged.extend(nearer);
    }
    merged
}

/// What is left of an option when nearer ones are given too.
fn left_of(far: Given, nearer: &[Given]) -> Option<Given> {
    if nearer.iter().any(|near| near.name == far.name) {
        return None;
    }
    let family = FAMILIES.iter().find(|family| family.contains(&far.name.as_str()));
    let Some(family) = family else { return Some(far) };
    let says_otherwise = |near: &Given| {
        family.contains(&near.name.as_str())
            && (near.name != "gres" || gpu_items(near).next().is_some())
    };
    if !nearer.iter().any(says_otherwise) {
        return Some(far);
    }
    // Of `--gres` only the GPUs are said otherwise.
    let others: Vec<&str> = gres_items(&far).filter(|item| !is_gpu(item)).collect();
    let value = others.join(",");
    (far.name == "gres" && !value.is_empty()).then_some(Given { value: Some(value), ..far })
}

/// The items of a `--gres` list.
fn gres_items(given: &Given) -> impl Iterator<Item = &str> {
    given.value.as_deref().unwrap_or_default().split(',').filter(|item| !item.is_empty())
}

/// Those that are GPUs.
pub(super) fn gpu_items(given: &Given) -> impl Iterator<Item = &str> {
    gres_items(given).filter(|item| is_gpu(item))
}

fn is_gpu(item: &str) -> bool {
    let name = item.split([':', '=']).next().unwrap_or_default();
    matches!(name, "gpu" | "gres/gpu")
}
