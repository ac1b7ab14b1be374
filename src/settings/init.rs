//! A first settings file from what a cluster says of itself, and a first sweep file.

use std::collections::BTreeMap;
use std::time::Duration;

use super::show::text;
use crate::launch::request::{Partition, TimeLimit, clock};

/// What a cluster says of itself.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Its name.
    pub cluster: String,
    /// SLURM's version.
    pub version: String,
    /// The partitions with their limits.
    pub partitions: Vec<Partition>,
    /// The kinds of nodes of each partition that is up, by its name.
    pub nodes: BTreeMap<String, Vec<Nodes>>,
    /// The user's accounts; none where there is no accounting.
    pub accounts: Vec<Account>,
}

/// Nodes that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// How many.
    pub count: u32,
    /// CPUs of each.
    pub cpus: u32,
    /// Memory of each.
    pub memory_mib: u64,
    /// Generic resources of each, as SLURM writes them; empty if it has none.
    pub gres: String,
}

/// An account that the user may charge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Whether jobs that name none are charged to it.
    pub is_default: bool,
    /// The qualities of service that its jobs may ask for.
    pub qos: Vec<String>,
}

const HEAD: &str = "\
# `sweepctl config show --origin` prints the settings that hold here and where each comes from; `sweepctl submit --help`
# says what they do. Flags and SWEEPCTL_*, SBATCH_* variables go before what stands here.
";

/// The file for a cluster, or for a machine without SLURM; `require` are options that the site demands.
#[must_use]
pub fn settings_file(survey: Option<&Survey>, require: &[String]) -> String {
    let Some(survey) = survey else {
        return format!(
            "# Settings of the sweeps in this folder and below it.\n{HEAD}\n\
             # No SLURM was found: runs are processes of this machine. Remove this line on a cluster.\nlocal: true\n\n\
             # Runs at a time; without it as many as there are cores.\n# parallel: 4\n"
        );
    };
    let Survey { cluster, version, .. } = survey;
    let mut file = format!(
        "# Settings of the sweeps in this folder and below it, for the cluster {} (SLURM {version}).\n{HEAD}\n\
         # Array tasks running at a time; without it as many as SLURM lets run.\n# parallel: 10\n\n\
         # What each job asks for, as sbatch has it: any of its options, by its long name.\nslurm:\n",
        text(cluster)
    );
    let is_required = |name: &str| require.iter().any(|wanted| wanted == name);
    let up = |partition: &&Partition| survey.nodes.contains_key(&partition.name);
    let usable = || survey.partitions.iter().filter(up);
    let chosen = usable().find(|partition| partition.is_default).or_else(|| usable().next());
    file.push_str("  # Partitions that are up:\n");
    let width = usable().map(|partition| partition.name.len()).max().unwrap_or_default();
    for partition in usable() {
        let nodes: Vec<String> =
            survey.nodes[&partition.name].iter().map(Nodes::to_string).collect();
        let limit = match partition.max_time {
            TimeLimit::Limited(span) => format!("up to {}", clock(span)),
            TimeLimit::Unlimited => "no time limit".to_owned(),
        };
        let default = if partition.is_default { " (default)" } else { "" };
        file.push_str(&format!(
            "  #   {:width$}  {limit}; {}{default}\n",
            partition.name,
            nodes.join(", ")
        ));
    }
    match chosen {
        Some(partition) => {
            file.push_str(&format!("  partition: {}\n", text(&partition.name)));
            let hour = Duration::from_secs(3600);
            let time = match partition.max_time {
                TimeLimit::Limited(most) => most.min(hour),
                TimeLimit::Unlimited => hour,
            };
            file.push_str("  # The longest that a task may take; less starts sooner.\n");
            file.push_str(&format!("  time: {}\n", clock(time)));
        }
        None => file.push_str("  # none\n  time: 1:00:00\n"),
    }
    accounts(&mut file, survey, is_required("qos"));
    let gres: Vec<&str> = chosen
        .and_then(|partition| survey.nodes.get(&partition.name))
        .into_iter()
        .flatten()
        .map(|nodes| nodes.gres.as_str())
        .filter(|gres| gres.contains("gpu"))
        .collect();
    if !gres.is_empty() {
        file.push_str(&format!("  # GPUs of each job; nodes have {}.\n", gres.join(" or ")));
        file.push_str("  # gpus-per-node: 1\n");
    }
    file.push_str("  # cpus-per-task: 4\n  # mem: 8G\n");
    let written = ["partition", "time", "account", "qos"];
    for name in require.iter().filter(|name| !written.contains(&name.as_str())) {
        file.push_str(&format!("  # This site wants one:\n  # {name}: ...\n"));
    }
    file
}

fn accounts(file: &mut String, survey: &Survey, wants_qos: bool) {
    let own = &survey.accounts;
    let Some(first) = own.iter().find(|account| account.is_default).or_else(|| own.first()) else {
        return;
    };
    let each = own.iter().map(|account| match account.qos.as_slice() {
        [] => account.name.clone(),
        qos => format!("{} (QOS {})", account.name, qos.join(", ")),
    });
    file.push_str(&format!("  # Your accounts: {}\n", each.collect::<Vec<_>>().join("; ")));
    file.push_str(&format!("  account: {}\n", text(&first.name)));
    if let Some(qos) = first.qos.first() {
        let comment = if wants_qos { "" } else { "# " };
        file.push_str(&format!("  {comment}qos: {}\n", text(qos)));
    }
}

impl std::fmt::Display for Nodes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, cpus, memory_mib, gres } = self;
        let gib = memory_mib / 1024;
        let nodes = if *count == 1 { "node" } else { "nodes" };
        write!(f, "{count} {nodes} with {cpus} CPUs, {gib} GiB")?;
        if gres.is_empty() { Ok(()) } else { write!(f, ", {gres}") }
    }
}

/// A first sweep file, for this program.
#[must_use]
pub fn sweep_file(program: &str) -> String {
    format!(
        "\
# A sweep, in W&B's format: https://docs.wandb.ai/guides/sweeps
# `sweepctl render THIS_FILE` shows the first commands, `sweepctl submit THIS_FILE` runs them.

# What runs: `python {program} --lr=0.1 --layers=2`; `command:` changes that.
program: {}

# Each combination once. `random` draws instead, and needs an end: `run_cap: 20` here, or `submit --budget 20`.
method: grid

# Which run is the best: by what the program writes to the file named by SWEEPCTL_METRICS, as in
# `{{\"loss\": 0.1}}`, or prints, with `submit --metrics stdout`.
metric:
  name: loss
  goal: minimize

parameters:
  lr:
    values: [0.1, 0.01, 0.001]
  layers:
    values: [1, 2]
",
        text(program)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Sources, read};
    use std::path::Path;

    fn survey() -> Survey {
        let partition = |name: &str, is_default, minutes: u64| Partition {
            name: name.to_owned(),
            is_default,
            max_time: TimeLimit::Limited(Duration::from_secs(minutes * 60)),
            default_time: TimeLimit::Limited(Duration::from_secs(60)),
        };
        let nodes = |gres: &str| {
            vec![Nodes { count: 2, cpus: 16, memory_mib: 64_000, gres: gres.to_owned() }]
        };
        Survey {
            cluster: "testbed".to_owned(),
            version: "22.05.8".to_owned(),
            partitions: vec![
                partition("closed", true, 1440),
                partition("short", false, 2),
                partition("main", false, 1440),
            ],
            nodes: [("short".to_owned(), nodes("gpu:4")), ("main".to_owned(), nodes(""))].into(),
            accounts: Vec::new(),
        }
    }

    /// The options that the file gives, which is read without an error.
    #[track_caller]
    fn options(file: &str) -> Vec<String> {
        let read = read(file.as_bytes(), "sweepctl.yaml", Path::new("/p"), false);
        let read = read.unwrap_or_else(|problems| panic!("{file}\n{problems:?}"));
        let sources = Sources::of(vec![read], None, Default::default(), Default::default());
        sources.unwrap().settings().options.iter().map(|given| given.word()).collect()
    }

    #[test]
    fn the_file_of_a_cluster_asks_for_what_that_cluster_gives() {
        let file = settings_file(Some(&survey()), &[]);
        assert_eq!(options(&file), ["--partition=short", "--time=0:02:00"]);
        assert!(file.contains("nodes have gpu:4"), "{file}");
        let mut survey = survey();
        let account = |name: &str, is_default| Account {
            name: name.to_owned(),
            is_default,
            qos: vec!["normal".to_owned(), "tiny".to_owned()],
        };
        survey.accounts = vec![account("root", false), account("lab1", true)];
        survey.partitions.reverse();
        let file = settings_file(Some(&survey), &[]);
        assert_eq!(options(&file), ["--partition=main", "--time=1:00:00", "--account=lab1"]);
        let require = ["qos".to_owned(), "constraint".to_owned()];
        let file = settings_file(Some(&survey), &require);
        assert!(options(&file).contains(&"--qos=normal".to_owned()), "{file}");
        assert!(file.contains("# This site wants one:\n  # constraint: ...\n"), "{file}");
    }

    #[test]
    fn a_cluster_that_says_nothing_makes_a_file_all_the_same() {
        assert_eq!(options(&settings_file(Some(&Survey::default()), &[])), ["--time=1:00:00"]);
        assert_eq!(options(&settings_file(None, &[])), [""; 0]);
    }

    #[test]
    fn names_that_are_no_plain_text_in_yaml_are_quoted() {
        let mut survey = survey();
        survey.partitions[1].name = "no".to_owned();
        let nodes = survey.nodes.remove("short").unwrap();
        survey.nodes.insert("no".to_owned(), nodes);
        assert_eq!(options(&settings_file(Some(&survey), &[]))[0], "--partition=no");
    }

    #[test]
    fn the_sweep_file_is_one() {
        let read = |program| crate::sweep::read(sweep_file(program).as_bytes(), "s.yaml").unwrap();
        assert_eq!(read("train: it.py").spec.program.as_deref(), Some("train: it.py"));
        let read = read("train.py");
        assert_eq!(read.warnings, []);
        assert_eq!(read.spec.grid_size(), Some(6));
    }
}
