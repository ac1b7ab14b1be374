//! Job scripts that people use for sweeps today, each replaced by a settings file and one `submit`.
//!
//! `tests/profiles/profiles.jsonl` has the facts of public scripts, one a line, names replaced; `ID.yaml` beside it is
//! the settings file. `SWEEPCTL_TEST_PROFILES=FILE` takes another such file, with its settings beside it.

#![expect(clippy::unwrap_used, reason = "what helps tests may fail them")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Scratch, expect_none, repository};

/// What a run notes of its environment: `NAME=value` lines, in a file of its own.
const PROGRAM: &str = "{ env; echo \"CWD=$PWD\"; } > \"$HOME/seen/$SWEEPCTL_SLOT\"\n";

/// Scripts that sweepctl does not replace, and why; at most three.
const REFUSED: &[(&str, &str)] = &[(
    "J010",
    "several agents in the background of one rank: SLURM has nothing that shares the one rank's CPUs and GPU out among them",
)];

struct Profile {
    id: String,
    facts: Value,
    settings: PathBuf,
}

impl Profile {
    fn text(&self, key: &str) -> &str {
        self.facts[key].as_str().unwrap_or_default()
    }

    fn has(&self, key: &str, word: &str) -> bool {
        self.text(key).split('+').any(|part| part == word)
    }

    fn exports(&self) -> impl Iterator<Item = &str> {
        self.facts["exports"].as_array().into_iter().flatten().filter_map(Value::as_str)
    }

    /// The options of sbatch in the script, by their full names: the last of each counts, as for sbatch.
    fn options(&self) -> BTreeMap<String, String> {
        // What the sweep itself says: which tasks there are, their name, that logs are appended to.
        const OURS: [&str; 4] = ["array", "job-name", "open-mode", "chdir"];
        let mut options = BTreeMap::new();
        for directive in self.facts["directives"].as_array().into_iter().flatten() {
            let word = |at: usize| directive[at].as_str().unwrap_or_default();
            let name = if word(0) == "tasks-per-node" { "ntasks-per-node" } else { word(0) };
            let by_flags =
                name.starts_with("container-") || ["cluster", "dependency"].contains(&name);
            if !OURS.contains(&name) && !by_flags {
                let value = word(1).trim_matches('"').replace("%x", "sweep");
                options.insert(name.to_owned(), value);
            }
        }
        options
    }

    /// How many agents the script starts side by side: on each rank, or on each node.
    fn agents(&self) -> u32 {
        let options = self.options();
        let number = |name: &str| options.get(name).and_then(|text| text.parse::<u32>().ok());
        let nodes = number("nodes").unwrap_or(1);
        match self.text("agent") {
            agent if agent.starts_with("one agent per node") => nodes,
            agent if agent.starts_with("k step agents") || agent.contains("on purpose") => {
                number("ntasks")
                    .or(number("ntasks-per-node").map(|ranks| ranks * nodes))
                    .unwrap_or(1)
            }
            // Most who start one on each rank do so by mistake; the others start one.
            _ => 1,
        }
    }

    /// How many runs an agent of the script does, if it does a certain number of them.
    fn runs_per_job(&self) -> u32 {
        let runs = &self.facts["runs_per_job"];
        let said = runs.as_u64().map(|runs| runs as u32).or_else(|| runs.as_str()?.parse().ok());
        if self.text("agent").starts_with("two agents") { 2 } else { said.unwrap_or(1) }
    }
}

fn profiles() -> Vec<Profile> {
    let file = match std::env::var_os("SWEEPCTL_TEST_PROFILES") {
        Some(file) => PathBuf::from(file),
        None => repository().join("tests/profiles/profiles.jsonl"),
    };
    let text = fs::read_to_string(&file).unwrap();
    let profiles = text.lines().map(|line| {
        let facts: Value = serde_json::from_str(line).unwrap();
        let id = facts["id"].as_str().unwrap().to_owned();
        Profile { settings: file.with_file_name(format!("{id}.yaml")), id, facts }
    });
    assert!(REFUSED.len() <= 3);
    let refused = |id: &str| REFUSED.iter().any(|(refused, _)| *refused == id);
    profiles.filter(|profile| !refused(&profile.id)).collect()
}

fn tool(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A project with the profile's settings, and a machine with stand-ins for what its set-up calls.
fn project(profile: &Profile) -> (Scratch, Command) {
    let scratch = Scratch::new();
    let home = scratch.path("../home");
    fs::copy(&profile.settings, scratch.path("sweepctl.yaml"))
        .unwrap_or_else(|error| panic!("{}: {error}", profile.settings.display()));
    let runs = 0..profile.runs_per_job() * profile.agents();
    let runs: Vec<String> = runs.map(|x| x.to_string()).collect();
    let uv = if profile.has("environment", "uv") { "uv, run, " } else { "" };
    scratch.write(
        "sweep.yaml",
        &format!(
            "program: train.sh\ncommand: [{uv}sh, \"${{program}}\", \"${{args}}\"]\nmethod: grid\n\
             parameters: {{x: {{values: [{}]}}}}\n",
            runs.join(", ")
        ),
    );
    scratch.write("train.sh", PROGRAM);
    scratch.write("work/train.sh", PROGRAM);
    scratch.write(".env", "FROM_ENV_FILE=yes\n");
    scratch.write(
        ".venv/bin/activate",
        "export VIRTUAL_ENV=here\n[ -n \"${NOT_SET:-}\" ] && false\n:\n",
    );
    scratch.write("img.sif", "");
    for (file, text) in [
        ("seen/.here", ""),
        (".bashrc", "export FROM_BASHRC=yes\n[ -n \"$NOT_SET\" ] && echo never\n"),
        ("wandb-key", "0123456789abcdef0123456789abcdef01234567\n"),
        ("data/points", "1 2 3\n"),
    ] {
        fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
        fs::write(home.join(file), text).unwrap();
    }
    let bin = scratch.path("../bin");
    tool(
        &bin.join("uv"),
        "#!/bin/bash\n[ \"$1\" = run ] || exit 9\nshift\nexport FROM_UV=yes\nexec \"$@\"\n",
    );
    tool(&bin.join("pip"), "#!/bin/sh\n[ \"$1\" = install ] && echo pip >> \"$HOME/pip\"\n");
    tool(
        &bin.join("conda"),
        "#!/bin/sh\necho 'conda() { export CONDA_DEFAULT_ENV=\"$2\"; [ -n \"$NOT_SET\" ] && echo never; :; }'\n",
    );
    let inside = "while :; do case $1 in exec) shift;; --bind|--pwd) shift 2;; --*) shift;; *) break;; esac; done\n";
    tool(
        &bin.join("singularity"),
        &format!("#!/bin/bash\n{inside}shift\nexport FROM_CONTAINER=singularity\nexec \"$@\"\n"),
    );
    // Starts as many as it is told to, each with its rank and its own log, as srun does; by bash, as other shells do
    // not hand exported functions on.
    tool(
        &bin.join("srun"),
        "#!/bin/bash\nntasks=1\nwhile :; do case $1 in --ntasks=*) ntasks=${1#*=};; --output=*) log=${1#*=};;\n\
         --container-image=*) export FROM_CONTAINER=srun;; --*) ;; *) break;; esac; shift; done\n\
         [ \"$log\" ] || exec \"$@\"\nrank=0\nwhile [ $rank -lt $ntasks ]; do\n\
         SLURM_PROCID=$rank SLURM_NODEID=$rank \"$@\" >>\"${log%\\%t.log}$rank.log\" 2>&1 &\n\
         rank=$((rank+1)); done\nwait\n",
    );
    let mut command = scratch.sweepctl();
    let path = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("BASH_FUNC_module%%", "() { export LOADED=\"$*\"\n}")
        .env_remove("WANDB_API_KEY");
    (scratch, command)
}

#[test]
fn every_profile_asks_slurm_for_what_its_script_asked_for() {
    let mut differences = Vec::new();
    for profile in profiles() {
        let (_scratch, mut command) = project(&profile);
        let output = command.args(["render", "sweep.yaml"]).output().unwrap();
        let (script, said) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            differences.push(format!("{}: {said}", profile.id));
            continue;
        }
        let options = script
            .lines()
            .filter_map(|line| line.strip_prefix("#SBATCH ")?.trim_matches('"').strip_prefix("--"));
        let options: BTreeMap<String, String> = options
            .map(|option| {
                let (name, value) = option.split_once('=').unwrap_or((option, ""));
                (name.to_owned(), value.trim_matches('"').to_owned())
            })
            .filter(|(name, _)| !["job-name", "open-mode", "requeue"].contains(&&**name))
            .collect();
        let mut want = profile.options();
        // Without a log of its own a script had SLURM's default; ours go to the sweep's folder.
        if let Some(output) = options.get("output").filter(|_| !want.contains_key("output")) {
            assert!(output.contains(".sweepctl/"), "{output}");
            want.insert("output".to_owned(), output.clone());
        }
        // What the script's option asks for is there without being an option of the job.
        let settings = fs::read_to_string(&profile.settings).unwrap();
        for directive in profile.facts["directives"].as_array().unwrap() {
            let instead = match directive[0].as_str().unwrap() {
                "dependency" => "parallel: 1",
                "cluster" => "clusters: ",
                "chdir" => "chdir: ",
                "container-image" => "image: ",
                "container-mounts" => "mounts: ",
                "container-workdir" => "workdir: ",
                _ => continue,
            };
            if !settings.contains(instead) {
                differences.push(format!("{}: no `{instead}` for {directive}", profile.id));
            }
        }
        if options != want {
            differences.push(format!("{}: {options:?}, not {want:?}", profile.id));
        }
    }
    expect_none(&differences);
}

/// What is wrong with the environment of a run, a map of its variables.
fn environment_faults(profile: &Profile, seen: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut want = |name: &str, value: Option<&str>| {
        let got = seen.get(name).copied();
        if got.is_none() || value.is_some_and(|value| got != Some(value)) {
            faults.push(format!("{}: {name} is {got:?}, not {value:?}", profile.id));
        }
    };
    for (part, name, value) in [
        ("conda", "CONDA_DEFAULT_ENV", "nn"),
        ("module", "LOADED", "load cuda/12"),
        ("venv", "VIRTUAL_ENV", "here"),
        ("dotenv", "FROM_ENV_FILE", "yes"),
        ("bashrc", "FROM_BASHRC", "yes"),
        ("uv", "FROM_UV", "yes"),
    ] {
        if profile.has("environment", part) {
            want(name, Some(value));
        }
    }
    for name in profile.exports() {
        match name {
            // The agent's own, which each run has for itself.
            "WANDB_RUN_ID" | "WANDB_SWEEP_ID" => want(name, None),
            "WANDB_RESUME" => {}
            "PATH" => {}
            "OTHER" => want(name, Some("of-the-profile")),
            name => want(name, None),
        }
    }
    match profile.text("container") {
        "" => {}
        "pyxis" => want("FROM_CONTAINER", Some("srun")),
        _ => want("FROM_CONTAINER", Some("singularity")),
    }
    if profile.text("api_key") != "stored login" {
        want("WANDB_API_KEY", Some("0123456789abcdef0123456789abcdef01234567"));
    }
    if !profile.text("chdir").is_empty() && !seen["CWD"].ends_with("/project/work") {
        faults.push(format!("{}: runs in {}", profile.id, seen["CWD"]));
    }
    faults
}

#[test]
fn every_profile_starts_as_many_agents_as_were_wanted_in_the_environment_that_was_wanted() {
    let mut differences = Vec::new();
    for profile in profiles() {
        let (scratch, mut command) = project(&profile);
        command.args(["submit", "sweep.yaml", "--local", "--parallel", "1", "--warmup", "0"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let logs = scratch.path(".sweepctl/sweeps/sweep/arrays/0/logs");
        let logs: Vec<String> = fs::read_dir(logs)
            .into_iter()
            .flatten()
            .map(|log| fs::read_to_string(log.unwrap().path()).unwrap())
            .collect();
        let all = logs.concat();
        if !output.status.success() {
            differences.push(format!("{}: {said}{all}", profile.id));
            continue;
        }
        // Each agent has a log with its first line; with several there is the job's own besides.
        let several = all.contains(" agents, whose logs are ");
        let agents = all.matches("sweepctl: job ").count() - usize::from(several);
        if agents as u32 != profile.agents() || logs.len() - usize::from(several) != agents {
            differences.push(format!("{}: {agents} agents, {} logs", profile.id, logs.len()));
        }
        let seen = fs::read_dir(scratch.path("../home/seen")).unwrap();
        let runs: Vec<String> = seen
            .map(|run| fs::read_to_string(run.unwrap().path()).unwrap())
            .filter(|run| !run.is_empty())
            .collect();
        if runs.len() as u32 != profile.runs_per_job() * profile.agents() {
            differences.push(format!("{}: {} runs in its job", profile.id, runs.len()));
        }
        for run in &runs {
            let seen = run.lines().filter_map(|line| line.split_once('=')).collect();
            differences.extend(environment_faults(&profile, &seen));
        }
        let home = |name: &str| scratch.path("../home").join(name);
        for (part, file) in [("pip-at-start", "pip")] {
            if profile.has("environment", part) && !home(file).exists() {
                differences.push(format!("{}: no {file}", profile.id));
            }
        }
        if profile.facts["after_agent"] == true && !home("after").exists() {
            differences.push(format!("{}: nothing ran after the agent", profile.id));
        }
        if profile.facts["staging"] == true && !home("results/points").exists() {
            differences.push(format!("{}: what was staged is not back", profile.id));
        }
    }
    expect_none(&differences);
}
