//! This machine as a scheduler: array tasks are processes that run the same script.

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::process::{Child, Command};

use crate::log;
use crate::say::err;
use crate::scheduler::{JobId, Row, STARTER_GONE, State};

/// Runs up to `parallel` tasks at a time.
#[derive(Debug)]
pub(super) struct Local {
    parallel: u32,
    sweep_dir: PathBuf,
    jobs: RefCell<Vec<Job>>,
}

#[derive(Debug)]
struct Job {
    id: JobId,
    array: u32,
    name: String,
    script: PathBuf,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
    held: bool,
    tasks: Vec<Task>,
}

#[derive(Debug)]
enum Task {
    Pending,
    /// Its process, and which of the places side by side it has.
    Running(Child, u32),
    Over(State),
}

impl Local {
    /// A scheduler for the sweep in `sweep_dir`.
    pub(super) fn new(parallel: u32, sweep_dir: &Path) -> Self {
        Self {
            parallel: parallel.max(1),
            sweep_dir: sweep_dir.to_owned(),
            jobs: RefCell::default(),
        }
    }

    /// Queues an array of `tasks` tasks.
    pub(super) fn submit(
        &self,
        array: u32,
        name: &str,
        tasks: usize,
        script: &Path,
        env: Vec<(OsString, OsString)>,
        cwd: &Path,
    ) -> JobId {
        // The id says which process starts the tasks: when that is gone, nothing more will start.
        let id = JobId::from(format!("local.{}.{}.{array}", log::host(), own_life()).as_str());
        self.jobs.borrow_mut().push(Job {
            id: id.clone(),
            array,
            name: name.to_owned(),
            script: script.to_owned(),
            env,
            cwd: cwd.to_owned(),
            held: false,
            tasks: (0..tasks).map(|_| Task::Pending).collect(),
        });
        id
    }

    /// Sees which tasks have ended and starts others. Answers whether something ended.
    pub(super) fn pump(&self) -> bool {
        let mut jobs = self.jobs.borrow_mut();
        let (mut taken, mut ended) = (Vec::new(), false);
        for job in jobs.iter_mut() {
            for task in &mut job.tasks {
                if let Task::Running(child, place) = task {
                    match child.try_wait() {
                        Ok(None) => taken.push(*place),
                        Ok(Some(status)) => {
                            ended = true;
                            let state =
                                if status.success() { State::Completed } else { State::Failed };
                            *task = Task::Over(state);
                        }
                        Err(_) => taken.push(*place),
                    }
                }
            }
        }
        for job in jobs.iter_mut().filter(|job| !job.held) {
            for index in 0..job.tasks.len() {
                let Some(place) = (0..self.parallel).find(|place| !taken.contains(place)) else {
                    return ended;
                };
                if matches!(job.tasks[index], Task::Pending) {
                    let gpus = share_of(&gpus_of(&job.env), self.parallel, place);
                    job.tasks[index] = match job.start(index as u32, &self.sweep_dir, gpus) {
                        Ok(child) => {
                            taken.push(place);
                            Task::Running(child, place)
                        }
                        Err(error) => {
                            err!("sweepctl: cannot start a task: {error}");
                            ended = true;
                            Task::Over(State::Failed)
                        }
                    };
                }
            }
        }
        ended
    }

    /// The queue as it is now; tasks of an earlier process of ours too, as far as they can be seen.
    pub(super) fn queue(&self, earlier: &[(u32, String, String, usize)]) -> Vec<Row> {
        self.pump();
        let jobs = self.jobs.borrow();
        let mut rows = Vec::new();
        for job in jobs.iter() {
            for (index, task) in job.tasks.iter().enumerate() {
                let state = match task {
                    Task::Pending => State::Pending,
                    Task::Running(..) => State::Running,
                    Task::Over(state) => state.clone(),
                };
                let reason = if job.held { "JobHeldUser" } else { "" };
                rows.push(row(&job.id, &job.name, index as u32, state, reason));
            }
        }
        for (array, id, name, tasks) in earlier {
            let id = JobId::from(id.as_str());
            if jobs.iter().any(|job| job.id == id) {
                continue;
            }
            for index in 0..*tasks as u32 {
                let state = self.state_of_earlier(*array, id.as_str(), index);
                rows.extend(state.map(|(state, reason)| row(&id, name, index, state, reason)));
            }
        }
        rows
    }

    /// A task of another process, and the reason of its state: by what that wrote down when it started it.
    fn state_of_earlier(&self, array: u32, id: &str, task: u32) -> Option<(State, &'static str)> {
        let rest = id.strip_prefix(&format!("local.{}.", log::host()))?;
        let (life, _) = rest.rsplit_once('.')?;
        // Ended together with its starter, started or not: that says nothing against the task.
        let reason = if lives(life) { "" } else { STARTER_GONE };
        let state = match fs::read_to_string(task_file(&self.sweep_dir, array, task)) {
            Ok(started) if lives(started.trim()) => State::Running,
            Ok(_) => State::NodeFail,
            Err(_) if reason.is_empty() => State::Pending,
            Err(_) => State::Cancelled { by: None },
        };
        Some((state, reason))
    }

    /// Ends tasks, `JOB_TASK` or `JOB`; of another process's tasks only those that run and are named.
    pub(super) fn cancel(&self, targets: &[String], pending_only: bool) {
        for target in targets.iter().filter(|_| !pending_only) {
            self.cancel_of_another_process(target);
        }
        for job in self.jobs.borrow_mut().iter_mut() {
            for (index, task) in job.tasks.iter_mut().enumerate() {
                let own = format!("{}_{index}", job.id);
                if !targets.iter().any(|target| *target == own || target == job.id.as_str()) {
                    continue;
                }
                match task {
                    Task::Pending => *task = Task::Over(State::Cancelled { by: None }),
                    Task::Running(child, _) if !pending_only => signal(child, Signal::TERM),
                    _ => {}
                }
            }
        }
    }

    fn cancel_of_another_process(&self, target: &str) {
        let Some((job, task)) = target.rsplit_once('_') else { return };
        let own = format!("local.{}.{}.", log::host(), own_life());
        let here = format!("local.{}.", log::host());
        if job.starts_with(&own) || !job.starts_with(&here) {
            return;
        }
        let array = job.rsplit_once('.').and_then(|(_, array)| array.parse().ok());
        let (Some(array), Ok(task)) = (array, task.parse()) else { return };
        let life = fs::read_to_string(task_file(&self.sweep_dir, array, task)).unwrap_or_default();
        let pid = life.split('-').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| lives(life.trim())) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Whether this very process starts the tasks of the job.
    pub(super) fn has(&self, job: &str) -> bool {
        self.jobs.borrow().iter().any(|own| own.id.as_str() == job)
    }

    /// Holds or lets go what is pending of a job.
    pub(super) fn hold(&self, id: &JobId, held: bool) {
        for job in self.jobs.borrow_mut().iter_mut().filter(|job| job.id == *id) {
            job.held = held;
        }
    }

    /// Starts nothing more and ends what runs: TERM, and KILL for what is still there after the grace.
    pub(super) async fn end_all(&self, grace: Duration) {
        for job in self.jobs.borrow_mut().iter_mut() {
            for task in &mut job.tasks {
                match task {
                    Task::Pending => *task = Task::Over(State::Cancelled { by: None }),
                    Task::Running(child, _) => signal(child, Signal::TERM),
                    Task::Over(_) => {}
                }
            }
        }
        let until = tokio::time::Instant::now() + grace;
        while self.running() > 0 {
            if tokio::time::Instant::now() > until {
                self.kill_all();
            }
            self.pump();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Kills every task with all that it started.
    pub(super) fn kill_all(&self) {
        let jobs = self.jobs.borrow();
        for task in jobs.iter().flat_map(|job| &job.tasks) {
            if let Task::Running(child, _) = task
                && let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()))
            {
                kill_tree(pid);
            }
        }
    }

    fn running(&self) -> usize {
        let jobs = self.jobs.borrow();
        jobs.iter()
            .flat_map(|job| &job.tasks)
            .filter(|task| matches!(task, Task::Running(..)))
            .count()
    }
}

impl Job {
    fn start(&self, task: u32, sweep_dir: &Path, gpus: Option<String>) -> io::Result<Child> {
        let path = crate::drive::state::log_path(sweep_dir, self.array, task);
        let output = fs::OpenOptions::new().create(true).append(true).open(path)?;
        let child = Command::new("bash")
            .arg(&self.script)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .envs(gpus.map(|gpus| ("CUDA_VISIBLE_DEVICES", gpus)))
            .env("SLURM_JOB_ID", format!("{}.{task}", self.id))
            .env("SLURM_ARRAY_JOB_ID", self.id.as_str())
            .env("SLURM_ARRAY_TASK_ID", task.to_string())
            .env("SLURM_ARRAY_TASK_COUNT", self.tasks.len().to_string())
            .env("SLURM_JOB_NAME", &self.name)
            .env("SLURM_PROCID", "0")
            .env("SLURM_LOCALID", "0")
            .env("SLURM_SUBMIT_DIR", &self.cwd)
            .current_dir(&self.cwd)
            .stdin(std::process::Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            // Ctrl-C in the terminal is ours to pass on.
            .process_group(0)
            .spawn()?;
        if let Some(life) = child.id().and_then(life_of) {
            fs::write(task_file(sweep_dir, self.array, task), life)?;
        }
        Ok(child)
    }
}

/// The GPUs that tasks may use: those that the submitting shell was given, else all that NVIDIA's driver shows.
fn gpus_of(env: &[(OsString, OsString)]) -> Vec<String> {
    if let Some((_, given)) = env.iter().find(|(name, _)| name == "CUDA_VISIBLE_DEVICES") {
        let given = given.to_string_lossy();
        return given
            .split(',')
            .map(str::trim)
            .filter(|gpu| !gpu.is_empty())
            .map(str::to_owned)
            .collect();
    }
    let devices = fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut found: Vec<u32> = devices
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("nvidia")?.parse().ok())
        .collect();
    found.sort_unstable();
    found.iter().map(u32::to_string).collect()
}

/// What one of `places` side by side gets of the GPUs: a fair part, or one together with others.
fn share_of(gpus: &[String], places: u32, place: u32) -> Option<String> {
    let (all, places, place) = (gpus.len(), places as usize, place as usize);
    match all {
        0 => None,
        _ if all < places => Some(gpus[place % all].clone()),
        _ => Some(gpus[place * all / places..(place + 1) * all / places].join(",")),
    }
}

fn row(id: &JobId, name: &str, task: u32, state: State, reason: &str) -> Row {
    Row {
        job: id.clone(),
        tasks: vec![task],
        state,
        reason: reason.to_owned(),
        name: name.to_owned(),
        throttle: None,
        restarts: 0,
        start: None,
        node: None,
    }
}

fn task_file(sweep_dir: &Path, array: u32, task: u32) -> PathBuf {
    sweep_dir.join("arrays").join(array.to_string()).join("beats").join(format!("{task}.process"))
}

fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid as i32)) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills a task and what descends from it. Orphans are found too: a task adopts those of its program.
fn kill_tree(task: Pid) {
    let mut tree = vec![task];
    // Stopped first, they start no more while we look; each round finds what the last one missed.
    for _ in 0..10 {
        for pid in &tree {
            let _ = kill_process(*pid, Signal::STOP);
        }
        let parents = parents();
        let before = tree.len();
        while let Some((pid, _)) =
            parents.iter().find(|(pid, parent)| tree.contains(parent) && !tree.contains(pid))
        {
            tree.push(*pid);
        }
        if tree.len() == before {
            break;
        }
    }
    for pid in tree {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Every process of this machine with its parent.
fn parents() -> Vec<(Pid, Pid)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |text: &str| text.parse().ok().and_then(Pid::from_raw);
    entries
        .filter_map(|entry| {
            let pid = number(entry.file_name().to_str()?)?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = number(stat.rsplit_once(')')?.1.split_whitespace().nth(1)?)?;
            Some((pid, parent))
        })
        .collect()
}

/// `PID-START`, which no other process of this machine has until it is booted anew.
fn life_of(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may hold anything, blanks and brackets too; after its last bracket: field 3 on.
    let start = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?;
    Some(format!("{pid}-{start}"))
}

/// Of this process.
pub(super) fn own_life() -> String {
    let pid = std::process::id();
    life_of(pid).unwrap_or_else(|| format!("{pid}-0"))
}

fn lives(life: &str) -> bool {
    let pid = life.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
    let Some(pid) = pid else { return false };
    let exists = Pid::from_raw(pid as i32).is_some_and(|pid| test_kill_process(pid).is_ok());
    exists && !is_zombie(pid) && life_of(pid).is_none_or(|now| now == life)
}

/// Whether a process of this machine has surely ended; one of another user's may not be asked.
pub(super) fn is_over(life: &str) -> bool {
    let pid = life.split('-').next().and_then(|pid| pid.parse::<i32>().ok()).unwrap_or_default();
    let asked = Pid::from_raw(pid).map(test_kill_process);
    asked != Some(Err(rustix::io::Errno::PERM)) && !lives(life)
}

/// Whether it has ended and was not waited for: some containers never do that.
fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_shared_out_among_the_places() {
        let gpus: Vec<String> = ["0", "2", "5", "GPU-77"].map(str::to_owned).to_vec();
        let shares =
            |places: u32| (0..places).map(|p| share_of(&gpus, places, p)).collect::<Vec<_>>();
        let some =
            |texts: &[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(shares(1), some(&["0,2,5,GPU-77"]));
        assert_eq!(shares(2), some(&["0,2", "5,GPU-77"]));
        assert_eq!(shares(3), some(&["0", "2", "5,GPU-77"]));
        assert_eq!(shares(5), some(&["0", "2", "5", "GPU-77", "0"]));
        assert_eq!(share_of(&[], 2, 0), None);
    }

    #[test]
    fn what_the_shell_was_given_is_not_left() {
        let env = |value: &str| vec![("CUDA_VISIBLE_DEVICES".into(), value.into())];
        assert_eq!(gpus_of(&env("3, 1")), ["3", "1"]);
        assert!(gpus_of(&env("")).is_empty());
    }
}
