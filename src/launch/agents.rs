//! Several agents in one job: independent runs side by side, one on each rank or one on each node.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a job's agents are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// On each rank: SLURM_PROCID tells which.
    Task,
    /// On each node: SLURM_NODEID tells which.
    Node,
}

/// How many agents a job has, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agents {
    /// Where they are.
    pub gate: Gate,
    /// How many.
    pub count: u32,
}

/// One agent of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Which one, from 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

impl Side {
    /// The part of a task's list that is this agent's: every agent has some before any has two.
    #[must_use]
    pub fn share<T: Copy>(self, list: &[T]) -> Vec<T> {
        list.iter().skip(self.index as usize).step_by(self.count.max(1) as usize).copied().collect()
    }
}

impl fmt::Display for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gate = match self.gate {
            Gate::Task => "task",
            Gate::Node => "node",
        };
        write!(f, "{gate}:{}", self.count)
    }
}

impl FromStr for Agents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not `task:COUNT` or `node:COUNT`");
        let (gate, count) = text.split_once(':').ok_or_else(wrong)?;
        let gate = match gate {
            "task" => Gate::Task,
            "node" => Gate::Node,
            _ => return Err(wrong()),
        };
        let count = count.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)?;
        Ok(Self { gate, count })
    }
}

/// What the job asked for, in words that srun would take for the step's own: it would then give a step of one rank
/// all GPUs of its node, whatever --gpus-per-task says (seen on 22.05.8).
pub const NOT_FOR_THE_STEP: [&str; 4] =
    ["SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET", "SLURM_GRES"];

impl Agents {
    /// Which agent this process of the step is; an error names the variable that is missing.
    pub fn of_this_process(self, var: impl Fn(&str) -> Option<String>) -> Result<Side, String> {
        let name = match self.gate {
            Gate::Task => "SLURM_PROCID",
            Gate::Node => "SLURM_NODEID",
        };
        let index = var(name).and_then(|text| text.parse().ok());
        let index =
            index.ok_or_else(|| format!("{name} is not set: this is for a step of srun"))?;
        Ok(Side { index, count: self.count })
    }

    /// The step that starts the agents, at most as many as there are runs for: `program` with `args`, one log each.
    ///
    /// `var` reads SLURM's variables in the batch script.
    #[must_use]
    pub fn step(
        self,
        runs: u32,
        logs: &Path,
        task: u32,
        var: impl Fn(&str) -> Option<String>,
        program: Vec<OsString>,
    ) -> Vec<OsString> {
        let count = self.count.min(runs.max(1));
        let mut log = OsString::from("--output=");
        // SLURM replaces what follows a `%`, also in the folder's name.
        log.push(logs.to_string_lossy().replace('%', "%%"));
        log.push(format!("/{task}.%t.log"));
        let mut step: Vec<OsString> =
            ["srun", "--kill-on-bad-exit=0", "--wait=0", "--open-mode=append"]
                .map(Into::into)
                .to_vec();
        step.push(format!("--ntasks={count}").into());
        match self.gate {
            Gate::Node => {
                step.extend([format!("--nodes={count}").into(), "--ntasks-per-node=1".into()])
            }
            Gate::Task => {
                // Not all versions hand the job's own number on to srun (22.05 to 23.02 do not).
                if let Some(cpus) = var("SLURM_CPUS_PER_TASK") {
                    step.push(format!("--cpus-per-task={cpus}").into());
                }
                let number = |name: &str| var(name).and_then(|text| text.parse::<u32>().ok());
                let ranks_here = var("SLURM_TASKS_PER_NODE")
                    .and_then(|text| text.split(['(', ',']).next()?.parse::<u32>().ok());
                if let (Some(gpus), Some(ranks)) = (number("SLURM_GPUS_ON_NODE"), ranks_here)
                    && var("SLURM_GPUS_PER_TASK").is_none()
                    && gpus > 0
                    && gpus % ranks == 0
                {
                    let share = gpus / ranks;
                    step.push(format!("--gpus-per-task={share}").into());
                }
            }
        }
        step.push(log);
        step.extend(program);
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_gets_a_run_before_any_gets_two() {
        let share = |index, count| Side { index, count }.share(&[0, 1, 2, 3, 4]);
        assert_eq!([share(0, 4), share(1, 4), share(3, 4)], [vec![0, 4], vec![1], vec![3]]);
        assert!(share(7, 8).is_empty());
        assert_eq!(share(0, 1), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for agents in [Agents { gate: Gate::Task, count: 4 }, Agents { gate: Gate::Node, count: 1 }]
        {
            assert_eq!(agents.to_string().parse(), Ok(agents));
        }
        for text in ["task", "task:0", "job:1", "task:x", ""] {
            assert!(text.parse::<Agents>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_step_has_no_more_agents_than_runs_and_a_share_of_everything_for_each() {
        let words = |agents: &str, runs, vars: &[(&str, &str)]| {
            let agents: Agents = agents.parse().unwrap();
            let var = |name: &str| {
                vars.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            let step = agents.step(runs, Path::new("/s/50%/logs"), 7, var, vec!["x".into()]);
            let step: Vec<String> =
                step.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            step[4..].join(" ")
        };
        let end = "--output=/s/50%%/logs/7.%t.log x";
        let vars = [
            ("SLURM_CPUS_PER_TASK", "2"),
            ("SLURM_GPUS_ON_NODE", "8"),
            ("SLURM_TASKS_PER_NODE", "4(x2)"),
        ];
        assert_eq!(
            words("task:8", 9, &vars),
            format!("--ntasks=8 --cpus-per-task=2 --gpus-per-task=2 {end}")
        );
        assert_eq!(words("task:8", 3, &[]), format!("--ntasks=3 {end}"));
        assert_eq!(
            words("node:2", 9, &vars),
            format!("--ntasks=2 --nodes=2 --ntasks-per-node=1 {end}")
        );
        let asked = [
            ("SLURM_GPUS_PER_TASK", "1"),
            ("SLURM_GPUS_ON_NODE", "8"),
            ("SLURM_TASKS_PER_NODE", "8"),
        ];
        assert_eq!(words("task:8", 8, &asked), format!("--ntasks=8 {end}"));
    }

    #[test]
    fn a_process_of_the_step_knows_which_agent_it_is() {
        let agents: Agents = "node:2".parse().unwrap();
        let var = |name: &str| (name == "SLURM_NODEID").then(|| "1".to_owned());
        assert_eq!(agents.of_this_process(var), Ok(Side { index: 1, count: 2 }));
        let agents: Agents = "task:2".parse().unwrap();
        assert!(agents.of_this_process(var).unwrap_err().contains("SLURM_PROCID"));
    }
}
