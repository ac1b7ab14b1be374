//! Settings as whole commands see them: files, variables, flags, and what a site demands.

#![expect(clippy::unwrap_used, reason = "what helps tests may fail them")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::time::Duration;

use support::{Scratch, Testbed, expect_code, wait_until};

const LIMIT: Duration = Duration::from_secs(150);

const SWEEP: &str = "\
program: train.sh
command: [sh, \"${program}\", \"${args}\"]
method: grid
parameters:
  x: {values: [0, 1, 2, 3, 4, 5]}
";

fn project() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sweep.yaml", SWEEP);
    scratch.write("train.sh", "echo $* >>seen\n");
    scratch
}

fn call(scratch: &Scratch, args: &str) -> Output {
    scratch.sweepctl().args(args.split_whitespace()).output().expect("it runs")
}

/// The user's own options in a script.
fn options(script: &str) -> Vec<&str> {
    script.lines().filter_map(|line| line.strip_prefix("#SBATCH ")).skip(4).collect()
}

/// Puts a program in front of the others on a command's PATH.
fn stand_in(scratch: &Scratch, name: &str, text: &str) {
    let path = scratch.write(format!("bin/{name}"), text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_stand_ins(scratch: &Scratch, command: &mut Command, path: &str) {
    command.env("PATH", format!("{}:{path}", scratch.path("bin").display()));
}

#[test]
fn config_show_says_where_each_setting_is_from() {
    let scratch = project();
    scratch.write_outside("home/.config/sweepctl/config.yaml", "parallel: 3\nprofile: big\n");
    scratch.write(
        "sweepctl.yaml",
        "jobs: 20\nslurm: {time: 2:00:00}\nprofiles:\n  big:\n    slurm: {qos: high}\n",
    );
    scratch.write("deep/down/x", "");
    let output = scratch
        .sweepctl()
        .args(["config", "show", "--origin", "--warmup", "9", "-G", "2"])
        .current_dir(scratch.path("deep/down"))
        .envs([("SWEEPCTL_LINGER", "7"), ("SBATCH_ACCOUNT", "lab")])
        .output();
    let (shown, _) = expect_code(&output.unwrap(), 0);
    let lines: Vec<String> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .map(|line| line.replace(&*scratch.path("").to_string_lossy(), "HERE/"))
        .map(|line| {
            line.replace(
                &*scratch.path("../home").canonicalize().unwrap().to_string_lossy(),
                "HOME",
            )
        })
        .collect();
    for want in [
        "# with the profile big",
        "jobs: 20 # HERE/sweepctl.yaml:1",
        "parallel: 3 # HOME/.config/sweepctl/config.yaml:1",
        "runs-per-job: 1 # default",
        "warmup: 9 # flag",
        "linger: 7 # SWEEPCTL_LINGER",
        "time: 2:00:00 # HERE/sweepctl.yaml:2",
        "qos: high # HERE/sweepctl.yaml:5",
        "account: lab # SBATCH_ACCOUNT",
        "gpus: 2 # flag",
    ] {
        assert!(lines.iter().any(|line| line == want), "{want}:\n{}", lines.join("\n"));
    }
    let plain = call(&scratch, "config show");
    assert!(!expect_code(&plain, 0).0.contains("# default"));
}

#[test]
fn a_script_has_what_settings_say_unless_something_nearer_says_otherwise() {
    let scratch = project();
    scratch.write(
        "sweepctl.yaml",
        "requeue: false\nslurm: {time: 2:00:00, mem: 1G, partition: [a, b]}\n\
         sbatch: [--container-image=x.sqsh]\n\
         profiles: {big: {slurm: {time: 1-00:00:00, profile: task}}}\n",
    );
    let (script, _) = expect_code(&call(&scratch, "render sweep.yaml --mem-per-cpu 2G"), 0);
    assert_eq!(
        options(&script),
        ["--time=2:00:00", "\"--partition=a,b\"", "--container-image=x.sqsh", "--mem-per-cpu=2G"]
            .map(|option| option.trim_matches('"')),
    );
    assert!(script.contains("#SBATCH --no-requeue\n"), "{script}");
    let (script, _) = expect_code(&call(&scratch, "render sweep.yaml --profile big --requeue"), 0);
    assert!(script.contains("#SBATCH --requeue\n"), "{script}");
    assert!(options(&script).ends_with(&["--time=1-00:00:00", "--profile=task"]), "{script}");
    let output = scratch
        .sweepctl()
        .args(["render", "sweep.yaml"])
        .envs([("SWEEPCTL_PROFILE", "big"), ("SBATCH_TIMELIMIT", "5")])
        .output();
    let (script, _) = expect_code(&output.unwrap(), 0);
    assert!(options(&script).ends_with(&["--profile=task", "--time=5"]), "{script}");
    let (_, err) = expect_code(&call(&scratch, "render sweep.yaml --profile bug"), 3);
    assert!(err.contains("there is no profile `bug` (is it `big`?)"), "{err}");
}

#[test]
fn what_is_wrong_in_any_file_is_said_at_once() {
    let scratch = project();
    scratch.write_outside("home/.config/sweepctl/config.yaml", "\njosb: 3\nmin_poll: 1\n");
    scratch.write("sweepctl.yaml", "slurm:\n  tme: 10\n  array: 0-9\n");
    for command in ["submit sweep.yaml", "render sweep.yaml", "config show"] {
        let (_, err) = expect_code(&call(&scratch, command), 3);
        for want in [
            "config.yaml:2:1: there is no key `josb` (is it `jobs`?)",
            "config.yaml:3:1: there is no key `min_poll` (it is for the site's own file)",
            "error: sweepctl.yaml:2:3: sbatch has no option `tme` (is it `time`?)",
            "error: sweepctl.yaml:3:3: sbatch's `--array` cannot be used with a sweep: the budget decides",
        ] {
            assert!(err.contains(want), "{want}:\n{err}");
        }
    }
    assert!(!scratch.path(".sweepctl").exists());
    // Looking at sweeps needs no settings.
    let (_, err) = expect_code(&call(&scratch, "status"), 2);
    assert!(err.contains("no sweep here"), "{err}");
}

#[test]
fn a_settings_file_that_is_a_link_to_nowhere_is_an_error() {
    let scratch = Scratch::new();
    scratch.write("sweep.yaml", "program: p\nmethod: grid\nparameters: {x: {value: 0}}\n");
    std::os::unix::fs::symlink("/nowhere/at/all", scratch.path("sweepctl.yaml")).expect("ours");
    let output = call(&scratch, "render sweep.yaml");
    assert_eq!(output.status.code(), Some(3));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains("sweepctl.yaml: No such file"), "{err}");
}

#[test]
fn a_key_of_wandb_in_a_settings_file_is_refused_and_not_repeated() {
    let scratch = project();
    let key = "0123456789abcdef0123456789abcdef01234567";
    scratch.write("sweepctl.yaml", &format!("setup:\n  - export WANDB_API_KEY={key}\n"));
    let (out, err) = expect_code(&call(&scratch, "submit sweep.yaml"), 3);
    assert!(err.contains("sweepctl.yaml:2:") && err.contains("~/.netrc"), "{err}");
    assert!(!err.contains(key) && !out.contains(key), "{err}");
}

#[test]
fn a_wrong_variable_is_named() {
    let scratch = project();
    let output =
        scratch.sweepctl().args(["submit", "sweep.yaml"]).env("SWEEPCTL_JOBS", "many").output();
    let (_, err) = expect_code(&output.unwrap(), 3);
    assert!(err.contains("SWEEPCTL_JOBS: `many` is not a whole number, at least 1"), "{err}");
}

#[test]
fn a_local_sweep_by_settings_is_found_where_they_say_it_is() {
    let scratch = project();
    scratch.write("sweepctl.yaml", "local: true\nstate-dir: state\nruns-per-job: 2\n");
    let output = scratch.sweepctl().args(["submit", "sweep.yaml"]).env("SBATCH_QOS", "x").output();
    let (out, _) = expect_code(&output.unwrap(), 0);
    assert!(out.starts_with("sweep: 6 of 6 runs finished"), "{out}");
    assert!(scratch.path("state/sweeps/sweep/sweep.json").exists());
    assert!(!scratch.path(".sweepctl").exists());
    let mut status = scratch.sweepctl();
    scratch.write("deep/x", "");
    let output = status.arg("status").current_dir(scratch.path("deep")).output();
    assert!(expect_code(&output.unwrap(), 0).0.contains("sweep: 6 of 6"), "found from below");
    let (_, err) = expect_code(&call(&scratch, "submit sweep.yaml --detach"), 2);
    assert!(err.contains("this sweep is local"), "{err}");
}

#[test]
fn what_jobs_do_around_their_runs_can_stand_in_settings() {
    let scratch = project();
    scratch.write("deep/sweep.yaml", SWEEP);
    scratch.write("deep/train.sh", "echo $A $B $C $FROM_VENV $FROM_FILE $LIMIT >>seen\n");
    scratch.write("venv/bin/activate", "export FROM_VENV=venv\n");
    scratch.write("vars.env", "FROM_FILE=file\n");
    scratch.write(
        "sweepctl.yaml",
        "local: true\nvenv: venv\nenv-file: ./vars.env\nexport: {A: 1, B: 2, C: '$A'}\n\
         setup: |\n  ulimit -n 77\n  export LIMIT=$(ulimit -n)\nteardown: [echo over >>ended]\n",
    );
    let command = |args: &str| {
        let mut command = scratch.sweepctl();
        command.current_dir(scratch.path("deep")).args(args.split_whitespace());
        command.output().unwrap()
    };
    expect_code(&command("submit sweep.yaml --export B=flag"), 0);
    let seen = scratch.read("deep/seen");
    assert_eq!(seen.lines().count(), 6);
    assert!(seen.lines().all(|line| line == "1 flag $A venv file 77"), "{seen}");
    assert!(scratch.read("deep/ended").starts_with("over\n"));
    // A flag replaces a list.
    let (script, _) = expect_code(&command("render sweep.yaml --setup true"), 0);
    assert!(script.contains("true") && !script.contains("ulimit"), "{script}");
    let (_, err) = expect_code(&command("render sweep.yaml --venv nowhere"), 2);
    assert!(err.contains("deep/nowhere/bin/activate"), "{err}");
}

#[test]
fn r42_the_python_of_a_profiles_venv_is_the_programs() {
    let scratch = project();
    scratch.write("sweep.yaml", &SWEEP.replace("[sh,", "[\"${env}\", \"${interpreter}\","));
    stand_in(&scratch, "python", "#!/bin/sh\necho the wrong one >>seen\n");
    let inside = scratch.write("venv/bin/python", "#!/bin/sh\necho the right one >>seen\n");
    fs::set_permissions(inside, fs::Permissions::from_mode(0o755)).unwrap();
    let folder = scratch.path("venv/bin");
    scratch.write("venv/bin/activate", &format!("PATH={}:$PATH\n", folder.display()));
    scratch.write("sweepctl.yaml", "local: true\nprofiles: {mine: {venv: venv}}\n");
    let mut submit = scratch.sweepctl();
    with_stand_ins(&scratch, &mut submit, &std::env::var("PATH").unwrap());
    let output = submit.args(["submit", "sweep.yaml", "--profile", "mine"]).output();
    expect_code(&output.unwrap(), 0);
    assert_eq!(scratch.read("seen"), "the right one\n".repeat(6));
}

#[test]
fn a_strangers_file_where_everybody_may_write_is_refused() {
    if !rustix::process::geteuid().is_root() {
        support::skip::<()>("only root can give files away");
        return;
    }
    let scratch = project();
    let path = scratch.write("sweepctl.yaml", "local: true\n");
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    // A colleague's file in a group's folder is what such folders are for.
    expect_code(&call(&scratch, "render sweep.yaml"), 0);
    fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o1777)).unwrap();
    let (_, err) = expect_code(&call(&scratch, "render sweep.yaml"), 3);
    assert!(err.contains("sweepctl.yaml: this file belongs to another user"), "{err}");
    std::os::unix::fs::chown(&path, Some(0), None).unwrap();
    expect_code(&call(&scratch, "render sweep.yaml"), 0);
}

#[test]
fn a_container_of_several_files_is_one() {
    let scratch = project();
    scratch.write_outside(
        "home/.config/sweepctl/config.yaml",
        "container: {runtime: apptainer, mounts: [/data]}\n",
    );
    scratch.write("images/x.sif", "");
    scratch.write("sweepctl.yaml", "container: {image: images/x.sif}\n");
    let (shown, _) = expect_code(&call(&scratch, "config show --container-mounts /a,/b"), 0);
    let image = scratch.path("images/x.sif");
    for want in ["runtime: apptainer", "mounts: [/a, /b]", &*format!("image: {}", image.display())]
    {
        assert!(shown.contains(want), "{want}:\n{shown}");
    }
    expect_code(&call(&scratch, "render sweep.yaml"), 0);
    scratch.write("sweepctl.yaml", "container: {image: null, args: [--nv]}\n");
    let (_, err) = expect_code(&call(&scratch, "render sweep.yaml"), 2);
    assert!(err.contains("a container needs"), "{err}");
}

#[test]
fn init_without_slurm_writes_a_local_project_that_runs_and_overwrites_nothing() {
    let scratch = Scratch::new();
    scratch.write("main.py", "echo $* >>seen\n");
    stand_in(&scratch, "python", "#!/bin/sh\nexec /bin/sh \"$@\"\n");
    let call = |args: &str| {
        let mut command = scratch.sweepctl();
        with_stand_ins(&scratch, &mut command, "/nowhere");
        command.args(args.split_whitespace()).output().unwrap()
    };
    let (out, err) = expect_code(&call("init"), 0);
    assert_eq!(out, "sweepctl.yaml\nsweep.yaml\n");
    assert!(err.contains("no SLURM here"), "{err}");
    assert!(scratch.read("sweepctl.yaml").contains("\nlocal: true\n"));
    assert!(scratch.read("sweep.yaml").contains("\nprogram: main.py\n"));
    // SLURM may be here: this project has no use for it.
    let mut submit = scratch.sweepctl();
    with_stand_ins(&scratch, &mut submit, &std::env::var("PATH").unwrap());
    expect_code(&submit.args(["submit", "sweep.yaml"]).output().unwrap(), 0);
    assert_eq!(scratch.read("seen").lines().count(), 6);
    scratch.write("sweepctl.yaml", "mine\n");
    fs::remove_file(scratch.path("sweep.yaml")).unwrap();
    let (out, err) = expect_code(&call("init"), 0);
    assert_eq!(out, "sweep.yaml\n");
    assert!(err.contains("sweepctl.yaml is there already"), "{err}");
    assert_eq!(scratch.read("sweepctl.yaml"), "mine\n");
}

#[test]
#[cfg(not(feature = "abort-hook"))]
fn a_build_for_users_has_no_way_around_the_sites_file() {
    let binary = fs::read(env!("CARGO_BIN_EXE_sweepctl")).unwrap();
    let has = |text: &str| binary.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("/etc/sweepctl/site.yaml"));
    assert!(!has("SWEEPCTL_SITE_FILE"));
}

#[cfg(feature = "abort-hook")]
mod site {
    use super::*;

    #[test]
    fn what_a_site_demands_cannot_be_weakened() {
        let scratch = project();
        let refused = |site: &str, args: &str, want: &str| {
            scratch.write_outside("site.yaml", site);
            let (_, err) = expect_code(&call(&scratch, args), 3);
            assert!(err.contains(want), "{want}:\n{err}");
            assert!(!scratch.path(".sweepctl").exists());
        };
        refused("watch: forbid\n", "submit sweep.yaml", "allows no watchers");
        refused("watch: forbid\n", "submit sweep.yaml", "`sweepctl submit --detach`");
        refused("watch: forbid\n", "submit sweep.yaml", "cron or scrontab");
        refused("require: [time, account]\n", "render sweep.yaml -t 5", "to give --account");
        refused("require: [time, account]\n", "render sweep.yaml", "--time and --account");
        refused("state_dir: /scratch\n", "submit sweep.yaml --local", "state folders in /scratch");
        refused(
            "state_dir: /scratch\n",
            "render sweep.yaml --state-dir /scratch/../tmp/x",
            "would be",
        );
        refused("min_pol: 60\n", "submit sweep.yaml --local", "is it `min_poll`?");
        refused("min_poll: often\n", "submit sweep.yaml --local", "site.yaml:1:11");
        scratch.write_outside("site.yaml", "watch: forbid\nrequire: [time]\nslurm: {time: 5}\n");
        let (script, _) = expect_code(&call(&scratch, "render sweep.yaml"), 0);
        assert_eq!(options(&script), ["--time=5"]);
        // The site's own defaults can be changed, its floors cannot.
        scratch.write("sweepctl.yaml", "slurm: {time: null}\n");
        let (_, err) = expect_code(&call(&scratch, "render sweep.yaml"), 3);
        assert!(err.contains("to give --time"), "{err}");
        fs::remove_file(scratch.path("sweepctl.yaml")).unwrap();
        let (shown, _) = expect_code(&call(&scratch, "config show --origin"), 0);
        assert!(shown.contains("#   watch: forbid") && shown.contains("site.yaml:2"), "{shown}");
        // On this machine alone, a sweep costs nobody's slurmctld anything.
        expect_code(&call(&scratch, "submit sweep.yaml --local"), 0);
    }

    struct Bench {
        slurm: Testbed,
        project: Scratch,
    }

    impl Bench {
        fn start(settings: &[(&str, &str)], project: Scratch) -> Option<Self> {
            Some(Self { slurm: Testbed::start(settings)?, project })
        }

        fn command(&self, args: &str) -> Command {
            let mut command = self.project.sweepctl();
            command.envs(self.slurm.env()).env("SWEEPCTL_SPANS", "2");
            let path = command.get_envs().find(|(name, _)| *name == "PATH");
            let path = path.unwrap().1.unwrap().to_string_lossy().into_owned();
            with_stand_ins(&self.project, &mut command, &path);
            command.args(args.split_whitespace());
            command
        }

        fn run(&self, args: &str) -> Output {
            self.command(args).output().expect("it runs")
        }

        fn queued(&self) -> usize {
            self.slurm.run("squeue", &["--noheader", "--array"]).lines().count()
        }

        fn seen(&self) -> usize {
            fs::read_to_string(self.project.path("seen")).unwrap_or_default().lines().count()
        }
    }

    fn init_and_submit(settings: &[(&str, &str)]) -> Option<String> {
        let bench = Bench::start(settings, Scratch::new())?;
        bench.project.write("train.py", "echo $* >>seen\n");
        stand_in(&bench.project, "python", "#!/bin/sh\nexec /bin/sh \"$@\"\n");
        expect_code(&bench.run("init"), 0);
        let file = bench.project.read("sweepctl.yaml");
        let (out, _) = expect_code(&bench.run("submit sweep.yaml"), 0);
        assert!(out.starts_with("sweep: 6 of 6 runs finished"), "{out}");
        assert_eq!(bench.seen(), 6);
        Some(file)
    }

    #[test]
    fn what_init_writes_can_be_submitted() {
        let Some(file) = init_and_submit(&[("NODES", "2")]) else { return };
        for want in [
            "for the cluster testbed (SLURM ",
            "  #   main         up to 1-00:00:00; 2 nodes with 16 CPUs, 62 GiB, gpu:4 (default)\n",
            "\n  partition: main\n",
            "\n  time: 1:00:00\n",
            "# gpus-per-node: 1\n",
        ] {
            assert!(file.contains(want), "{want}:\n{file}");
        }
        assert!(!file.contains("closed") && !file.contains("account"), "{file}");
    }

    #[test]
    fn what_init_writes_can_be_submitted_where_accounts_are_kept() {
        let Some(file) = init_and_submit(&[("NODES", "1"), ("ACCOUNTING", "1")]) else { return };
        assert!(file.contains("\n  account: lab1\n  # qos: normal\n"), "{file}");
    }

    #[test]
    fn a_limit_on_tasks_holds_for_detached_sweeps_and_is_kept_when_it_is_lowered() {
        let Some(bench) = Bench::start(&[("NODES", "1")], project()) else { return };
        bench.project.write("train.sh", "echo $* >>seen\nuntil test -e go; do sleep 0.1; done\n");
        bench.project.write_outside("site.yaml", "max_tasks: 3\nwatch: forbid\n");
        let (_, err) = expect_code(&bench.run("submit sweep.yaml --time 5 --jobs 5 --detach"), 0);
        assert_eq!(bench.queued(), 3, "{err}");
        assert!(err.contains("3 runs are not queued yet"), "{err}");
        let (_, err) = expect_code(&bench.run("watch"), 3);
        assert!(err.contains("`sweepctl tick sweep`"), "{err}");
        bench.project.write_outside("site.yaml", "max_tasks: 1\nwatch: forbid\n");
        bench.project.write("go", "");
        wait_until("the first ones have ended", LIMIT, || bench.queued() == 0);
        fs::remove_file(bench.project.path("go")).unwrap();
        for _ in 0..3 {
            expect_code(&bench.run("tick"), 0);
        }
        assert_eq!(bench.queued(), 1);
        expect_code(&bench.run("cancel"), 0);
    }

    #[test]
    fn a_watcher_looks_no_more_often_than_the_site_wants_and_stands_back() {
        let Some(bench) = Bench::start(&[("NODES", "1")], project()) else { return };
        stand_in(
            &bench.project,
            "squeue",
            "#!/bin/sh\ndate +%s.%N >>looks\nPATH=${PATH#*:}\nexec squeue \"$@\"\n",
        );
        let looks = || -> Vec<f64> {
            let text = fs::read_to_string(bench.project.path("looks")).unwrap_or_default();
            text.lines().filter_map(|line| line.parse().ok()).collect()
        };
        // Either there is nothing to do for long, or something after each look.
        let (long, short) = ("sleep 600\n", "true\n");
        for (site, work, least) in [
            ("min_poll: 5\n", long, 4.9),
            ("min_poll: 5\n", short, 4.9),
            ("max_rpc_per_hour: 720\n", long, 4.9),
            ("", long, 0.1),
        ] {
            bench.project.write("train.sh", work);
            bench.project.write_outside("site.yaml", site);
            let _ = fs::remove_file(bench.project.path("looks"));
            let args = "submit sweep.yaml --time 5 --new --jobs 1";
            let mut watcher = bench.command(args).spawn().unwrap();
            wait_until("it has looked four times", LIMIT, || looks().len() >= 4);
            let stat = fs::read_to_string(format!("/proc/{}/stat", watcher.id())).unwrap();
            watcher.kill().unwrap();
            watcher.wait().unwrap();
            let nice = stat.rsplit(") ").next().unwrap().split(' ').nth(16).unwrap();
            assert_eq!(nice, "10");
            let looks = looks();
            let gaps: Vec<f64> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(gaps.iter().all(|gap| *gap >= least), "{site}{gaps:?}");
            // The test could not tell, if watchers were slow by themselves.
            assert!(!site.is_empty() || gaps.iter().any(|gap| *gap < 4.9), "{gaps:?}");
            let newest = fs::read_dir(bench.project.path(".sweepctl/sweeps")).unwrap().flatten();
            for sweep in newest {
                let name = sweep.file_name();
                bench.project.write_outside("site.yaml", "");
                bench.command("cancel").arg(name).output().unwrap();
            }
        }
    }

    #[test]
    fn a_tick_waits_until_the_site_allows_another_look() {
        let Some(bench) = Bench::start(&[("NODES", "1")], project()) else { return };
        bench.project.write("train.sh", "sleep 600\n");
        expect_code(&bench.run("submit sweep.yaml --time 5 --detach"), 0);
        expect_code(&bench.run("tick"), 0);
        bench.project.write_outside("site.yaml", "min_poll: 6\n");
        let (_, err) = expect_code(&bench.run("tick"), 0);
        assert!(err.contains("this site allows the next look in "), "{err}");
        bench.project.write_outside("site.yaml", "");
        expect_code(&bench.run("cancel"), 0);
    }
}
