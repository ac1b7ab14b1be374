//! What one job asks of SLURM, however it was spelled: read, added up, and checked before anything is submitted.

mod options;
mod units;

use std::fmt;
use std::time::Duration;

pub use options::{
    Given, KNOWN, Known, OptionError, Source, Takes, Use, by_name, check, family, from_variables,
    merge, read,
};
pub use units::{TimeLimit, time};
use units::{count, gpus, gres, most_nodes, nodes};

/// What one job asks for. A number that nobody gave is SLURM's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Nodes, at least.
    pub nodes: u32,
    /// SLURM's tasks: processes of one program on all nodes.
    pub ranks: u32,
    /// GPUs of the whole job; `None` if the words do not tell, as with GPUs for each socket.
    pub gpus: Option<u32>,
    /// The time limit, if one is given.
    pub time: Option<TimeLimit>,
    /// The partitions asked for.
    pub partitions: Vec<String>,
}

/// A partition's time limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Whether jobs go there that name none.
    pub is_default: bool,
    /// The longest that a job may ask for.
    pub max_time: TimeLimit,
    /// The limit of a job that asks for none.
    pub default_time: TimeLimit,
}

/// Something about a request that its author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Whether it stops the sweep.
    pub is_error: bool,
    /// A stable name of the kind.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: &'static str,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.help)
    }
}

impl Request {
    /// Adds up options. Values that cannot be read count as not given: [`remarks`] names them.
    #[must_use]
    pub fn of(options: &[Given]) -> Self {
        let value = |name| value(options, name);
        let number = |name| value(name).and_then(count);
        let asked_nodes = value("nodes").and_then(nodes).filter(|nodes| *nodes > 0);
        let gpus_of_job = value("gpus").and_then(gpus);
        let gpus_of_node = value("gpus-per-node").and_then(gpus).or_else(|| gres_gpus(options));
        let gpus_of_rank = value("gpus-per-task").and_then(gpus).filter(|gpus| *gpus > 0);
        let nodes = asked_nodes.unwrap_or(1);
        let all_gpus = gpus_of_job.or(gpus_of_node.and_then(|gpus| gpus.checked_mul(nodes)));
        let by_node = number("ntasks-per-node").and_then(|ranks| ranks.checked_mul(nodes));
        let by_gpu = || number("ntasks-per-gpu")?.checked_mul(all_gpus?);
        let shared_out = || all_gpus?.checked_div(gpus_of_rank?);
        let ranks = number("ntasks")
            .or(by_node)
            .or_else(by_gpu)
            .or_else(shared_out)
            .unwrap_or(nodes)
            .max(1);
        // What the words do not tell: how many nodes a list names, or ranks spread over, or all that a node has.
        let has = |name: &str| last(options, name).is_some();
        let spread = has("nodelist") || has("ntasks-per-node") || has("ntasks-per-socket");
        let untold = ["gpus-per-socket", "exclusive", "tres-per-task"].iter().any(|name| has(name))
            || (gpus_of_job.is_none() && gpus_of_node.is_some() && spread && asked_nodes.is_none())
            || (gpus_of_job.is_none() && gpus_of_node.is_none() && has("ntasks-per-gpu"));
        // Of a range of nodes SLURM may give the most.
        let most = value("nodes").and_then(most_nodes).unwrap_or(nodes).max(nodes);
        let at_most = gpus_of_job.or(gpus_of_node.and_then(|gpus| gpus.checked_mul(most)));
        let gpus = at_most
            .or(gpus_of_rank.and_then(|gpus| gpus.checked_mul(ranks)))
            .or(Some(0))
            .filter(|_| !untold);
        let partitions = value("partition").unwrap_or_default().split(',');
        Self {
            nodes,
            ranks,
            gpus,
            time: value("time").and_then(time),
            partitions: partitions.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        }
    }

    fn may_use(&self, partition: &Partition) -> bool {
        match self.partitions.as_slice() {
            [] => partition.is_default,
            names => names.contains(&partition.name),
        }
    }

    /// The longest that a job of this request may run without a limit of its own.
    #[must_use]
    pub fn default_time(&self, partitions: &[Partition]) -> Option<Duration> {
        let usable = partitions.iter().filter(|partition| self.may_use(partition));
        match usable.map(|partition| partition.default_time).max()? {
            TimeLimit::Limited(span) => Some(span),
            TimeLimit::Unlimited => None,
        }
    }

    /// GPU hours of `jobs` such jobs, if each uses its whole time; `None` if there is no limit to go by.
    ///
    /// Jobs without GPUs make none.
    #[must_use]
    pub fn gpu_hours(&self, jobs: u64, default_time: Option<Duration>) -> Option<f64> {
        let gpus = self.gpus?;
        if gpus == 0 {
            return Some(0.0);
        }
        let limit = match self.time {
            Some(TimeLimit::Limited(limit)) => limit,
            Some(TimeLimit::Unlimited) => return None,
            None => default_time?,
        };
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        Some(jobs as f64 * f64::from(gpus) * limit.as_secs_f64() / 3600.0)
    }
}

/// An option's last value: sbatch lets the last one win.
fn value<'a>(options: &'a [Given], name: &str) -> Option<&'a str> {
    options.iter().rev().find(|given| given.name == name)?.value.as_deref()
}

fn last<'a>(options: &'a [Given], name: &str) -> Option<&'a Given> {
    options.iter().rev().find(|given| given.name == name)
}

/// GPUs of each node by `--gres`, `None` if it asks for none.
fn gres_gpus(options: &[Given]) -> Option<u32> {
    let mut items = options::gpu_items(last(options, "gres")?).map(gres).peekable();
    items.peek()?;
    items.try_fold(0_u32, |sum, item| sum.checked_add(item?))
}

/// What is wrong with a request as far as its words tell, with all that `program` says of its ranks.
#[must_use]
pub fn remarks(options: &[Given], program: Ranks) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut add = |is_error, code, message: String, help| {
        remarks.push(Remark { is_error, code, message, help });
    };
    for given in options.iter().filter(|given| !is_readable(given)) {
        let message = format!("{given} cannot be read");
        add(true, "request-value", message, "write it as sbatch has it");
    }
    let request = Request::of(options);
    if let (Some(generic), Some(own)) =
        (last(options, "gres"), last(options, "gpus-per-node").or(last(options, "gpus")))
        && gres_gpus(options).is_some()
    {
        let message = format!("{generic} and {own} both ask for GPUs");
        let help = "keep one of them: SLURM 22.05 adds them up, and 26.05 refuses them";
        add(true, "gpus-twice", message, help);
    }
    let memory: Vec<&Given> = ["mem", "mem-per-cpu", "mem-per-gpu"]
        .iter()
        .filter_map(|name| last(options, name))
        .collect();
    if let [one, other, ..] = memory.as_slice() {
        let message = format!("{one} and {other} exclude each other");
        add(true, "memory-twice", message, "keep one of them");
    }
    let number = |name| value(options, name).and_then(count);
    if let (Some(ranks), Some(each)) = (number("ntasks"), number("ntasks-per-node"))
        && ranks < each.saturating_mul(request.nodes)
    {
        let message = format!(
            "`--ntasks={ranks}` is less than {} nodes x {each} ranks by --ntasks-per-node, which confuses trainers",
            request.nodes
        );
        add(false, "ranks-disagree", message, "drop --ntasks");
    }
    if request.time.is_none() && value(options, "time").is_none() {
        let message =
            "no `--time`: SLURM takes the partition's default, and a long one waits longest"
                .to_owned();
        add(false, "no-time", message, "give the longest that a run may take, as `--time=2:00:00`");
    }
    let ranks = request.ranks;
    match program {
        Ranks::Ignored if ranks > 1 => {
            let message = format!(
                "each job asks for {ranks} ranks, and nothing starts the program on them: it runs once, in the batch step"
            );
            let help = "put `srun` in front of the program in the sweep file's `command`, or drop the ranks";
            add(false, "ranks-unused", message, help);
        }
        Ranks::Wanted if ranks == 1 && request.gpus.is_some_and(|gpus| gpus > 1) => {
            let message = format!(
                "the program looks at its rank, and of {} GPUs only one process will be started",
                request.gpus.unwrap_or_default()
            );
            let help = "start it with `torchrun` or the like in the sweep file's `command`, or give --ntasks-per-node and `srun`";
            add(false, "ranks-missing", message, help);
        }
        _ => {}
    }
    remarks
}

/// What is wrong with a request by the limits of the partitions that it names, or of the default one.
///
/// SLURM would accept most such jobs, and never start them. A QOS may lift a partition's limit.
#[must_use]
pub fn time_remark(options: &[Given], partitions: &[Partition]) -> Option<Remark> {
    let request = Request::of(options);
    let asked = request.time?;
    let longest = partitions
        .iter()
        .filter(|partition| request.may_use(partition))
        .map(|partition| partition.max_time)
        .max()?;
    if asked <= longest {
        return None;
    }
    let TimeLimit::Limited(most) = longest else { return None };
    let given = last(options, "time")?;
    let message = format!(
        "{given} is more than its partition allows, {}: SLURM would never start the job",
        clock(most)
    );
    let help = "give less, or another --partition (`sinfo -o '%P %l'` lists their limits)";
    let lifted = last(options, "qos").is_some();
    Some(Remark { is_error: !lifted, code: "time-over-partition", message, help })
}

/// A span as sbatch reads it back.
#[must_use]
pub fn clock(span: Duration) -> String {
    let minutes = span.as_secs() / 60;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    if days > 0 {
        format!("{days}-{hours:02}:{minutes:02}:00")
    } else {
        format!("{hours}:{minutes:02}:00")
    }
}

/// Whether an option's value is one that we can read, if it is one that we do read.
#[must_use]
pub fn is_readable(given: &Given) -> bool {
    let value = given.value.as_deref().unwrap_or_default();
    match given.name.as_str() {
        "time" => time(value).is_some(),
        "nodes" => nodes(value).is_some(),
        "gpus" | "gpus-per-node" | "gpus-per-task" => gpus(value).is_some(),
        "ntasks" | "ntasks-per-node" | "cpus-per-task" => count(value).is_some(),
        _ => true,
    }
}

/// What a program does about ranks, as far as its command and text tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// Its command starts them itself: srun, torchrun, mpirun, accelerate and others.
    Started,
    /// It asks which rank it is.
    Wanted,
    /// It never looks.
    Ignored,
    /// Its text is not here.
    Unknown,
}

impl Ranks {
    /// Judges by the words of a command and the program's text.
    #[must_use]
    pub fn of(command: &[String], program: Option<&str>) -> Self {
        const LAUNCHERS: &[&str] = &[
            "srun",
            "torchrun",
            "mpirun",
            "mpiexec",
            "accelerate",
            "deepspeed",
            "horovodrun",
            "torch.distributed.run",
            "torch.distributed.launch",
            "composer",
            "colossalai",
            "ray",
        ];
        const MARKS: &[&str] = &[
            "SLURM_PROCID",
            "SLURM_LOCALID",
            "LOCAL_RANK",
            "\"RANK\"",
            "'RANK'",
            "WORLD_SIZE",
            "init_process_group",
            "DistributedDataParallel",
            "torch.distributed",
            "horovod",
            "MPI.COMM_WORLD",
            "jax.distributed",
            "MultiWorkerMirroredStrategy",
            "deepspeed",
        ];
        let launches = |word: &String| {
            let names = word.split_whitespace().map(|name| name.rsplit('/').next().unwrap_or(name));
            names.into_iter().any(|name| LAUNCHERS.contains(&name))
        };
        match program {
            _ if command.iter().any(launches) => Self::Started,
            Some(text) if MARKS.iter().any(|mark| text.contains(mark)) => Self::Wanted,
            Some(_) => Self::Ignored,
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
