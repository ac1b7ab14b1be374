//! What jobs do around their runs: set-up lines, modules, conda, venvs, variables, scratch folders, teardown.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use support::{Scratch, skip};

fn project(runs: u32, program: &str) -> Scratch {
    let scratch = Scratch::new();
    let values: Vec<String> = (0..runs).map(|x| x.to_string()).collect();
    let sweep = format!(
        "program: train.sh\ncommand: [sh, \"${{program}}\", \"${{args}}\"]\nmethod: grid\n\
         parameters: {{x: {{values: [{}]}}}}\n",
        values.join(", ")
    );
    scratch.write("sweep.yaml", &sweep);
    scratch.write("train.sh", program);
    scratch
}

fn submit(scratch: &Scratch, more: &[&str]) -> Command {
    let mut command = scratch.sweepctl();
    command.args(["submit", "sweep.yaml", "--local", "--parallel", "1"]).args(more);
    command
}

/// Fails unless this is the exit code; answers stderr.
#[track_caller]
fn expect_code(output: &Output, code: i32) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    err
}

#[track_caller]
fn run(scratch: &Scratch, more: &[&str], code: i32) -> String {
    expect_code(&submit(scratch, more).output().expect("it runs"), code)
}

fn log(scratch: &Scratch, task: u32) -> String {
    scratch.read(format!(".sweepctl/sweeps/sweep/arrays/0/logs/{task}.log"))
}

/// Writes a program of the user's.
fn tool(scratch: &Scratch, path: &str, text: &str) {
    let path = scratch.write(path, text);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("ours");
}

#[test]
fn what_set_up_lines_do_holds_for_every_run_and_they_run_once() {
    let scratch = project(4, "echo \"$X $(ulimit -n) ${PWD##*/}\" >> ../seen");
    fs::create_dir(scratch.path("inside")).expect("ours");
    scratch.write("inside/train.sh", "echo \"$X $(ulimit -n) ${PWD##*/}\" >> ../seen");
    let lines = [
        "echo once >> set-up",
        "export X=1\nulimit -n 77",
        "cd inside",
        "false | true; : $NO_SUCH",
    ];
    let mut more = vec!["--runs-per-job", "2", "--teardown", "echo \"$X ${PWD##*/}\" >> ../torn"];
    lines.iter().for_each(|line| more.extend(["--setup", line]));
    run(&scratch, &more, 0);
    assert_eq!(scratch.read("seen"), "1 77 inside\n".repeat(4));
    assert_eq!(scratch.read("set-up"), "once\n".repeat(2));
    assert_eq!(scratch.read("torn"), "1 inside\n".repeat(2));
}

#[test]
fn a_set_up_line_that_fails_stops_the_sweep_with_its_text_and_costs_no_run() {
    let scratch = project(20, "echo $SWEEPCTL_SLOT >> ran");
    let err = run(
        &scratch,
        &["--setup", "true", "--setup", "no-such-module x", "--teardown", "echo torn >> torn"],
        6,
    );
    assert!(err.contains("set-up line 2 failed with status 127: `no-such-module x`"), "{err}");
    assert!(!scratch.path("ran").exists());
    // As many times as tasks may start before one has lived.
    assert!(scratch.read("torn").lines().count() <= 4, "{}", scratch.read("torn"));
    assert!(log(&scratch, 0).contains("no-such-module: command not found"), "{}", log(&scratch, 0));

    // Mended by a new shell's PATH; every run is then done.
    tool(&scratch, "bin/no-such-module", "#!/bin/sh\n");
    let path =
        format!("{}:{}", scratch.path("bin").display(), std::env::var("PATH").expect("PATH"));
    for command in ["resume", "watch"] {
        let output = scratch.sweepctl().arg(command).env("PATH", &path).output().expect("it runs");
        expect_code(&output, 0);
    }
    assert_eq!(scratch.read("ran").lines().count(), 20);
}

#[test]
fn without_a_warm_up_a_set_up_line_that_fails_gives_every_run_up_in_the_end() {
    let scratch = project(2, "echo $SWEEPCTL_SLOT >> ran");
    let more = ["--warmup", "0", "--max-attempts", "2", "--setup", "echo tried >> tried; false"];
    let err = run(&scratch, &more, 6);
    assert!(err.contains("2 given up"), "{err}");
    assert_eq!(scratch.read("tried"), "tried\n".repeat(4));
    assert!(!scratch.path("ran").exists());
}

#[test]
fn a_line_that_would_replace_the_shell_is_refused() {
    let scratch = project(1, "echo ran > ran");
    let err = run(&scratch, &["--setup", "exec true"], 3);
    assert!(err.contains("the set-up line `exec true` replaces the shell"), "{err}");
    run(&scratch, &["--setup", "exec 3>&1"], 0);
}

#[test]
fn a_line_that_leaves_the_shell_is_named() {
    let scratch = project(1, "echo $SWEEPCTL_SLOT >> ran");
    let err = run(&scratch, &["--setup", "exit 0"], 6);
    assert!(err.contains("set-up line 1 left the shell: `exit 0`"), "{err}");
    assert!(!scratch.path("ran").exists());
}

#[test]
fn teardown_runs_after_a_program_that_failed() {
    let scratch = project(1, "exit 3");
    run(&scratch, &["--warmup", "0", "--teardown", "false", "--teardown", "echo torn > torn"], 6);
    assert_eq!(scratch.read("torn"), "torn\n");
    assert!(
        log(&scratch, 0).contains("a teardown line ended with status 1"),
        "{}",
        log(&scratch, 0)
    );
}

#[test]
fn start_up_files_may_end_with_a_test_that_fails() {
    let scratch = project(1, "echo \"$FROM_RC\" > seen");
    scratch.write("rc", "export FROM_RC=yes\n[ -n \"$NOT_SET\" ] && echo never\n");
    run(&scratch, &["--setup", "source ./rc"], 0);
    assert_eq!(scratch.read("seen"), "yes\n");
    if fs::exists("/etc/skel/.bashrc").unwrap_or(false) {
        let scratch = project(1, "echo fine > seen");
        run(&scratch, &["--setup", "source /etc/skel/.bashrc", "--shell", "bash -l"], 0);
        assert_eq!(scratch.read("seen"), "fine\n");
    } else {
        skip::<()>("this is no Debian: there is no /etc/skel/.bashrc");
    }
}

#[test]
fn a_conda_environment_is_activated_by_its_own_hook() {
    let scratch = project(1, "echo \"$CONDA_DEFAULT_ENV $(command -v python)\" > seen");
    // As conda's hook: functions, variables that may be unset, and tests that may fail.
    tool(
        &scratch,
        "conda/bin/conda",
        "#!/bin/sh\n[ \"$1 $2\" = 'shell.bash hook' ] || exit 1\ncat <<'EOF'\n\
         conda() {\n  [ \"$1\" = activate ] || return 1\n  export CONDA_DEFAULT_ENV=\"$2\"\n\
         PATH=\"${CONDA_EXE%/*}/../envs/$2/bin:$PATH\"; export PATH\n  [ -n \"$_CONDA_NOT_SET\" ] && echo never\n  :\n}\n\
         if [ -z \"${CONDA_SHLVL+x}\" ]; then export CONDA_SHLVL=0; fi\nEOF\n",
    );
    tool(&scratch, "conda/envs/my env/bin/python", "#!/bin/sh\n");
    let mut command = submit(&scratch, &["--conda", "my env"]);
    command.env("CONDA_EXE", scratch.path("conda/bin/conda"));
    expect_code(&command.output().expect("it runs"), 0);
    let seen = scratch.read("seen");
    assert!(seen.starts_with("my env ") && seen.ends_with("/envs/my env/bin/python\n"), "{seen}");
}

#[test]
fn r42_a_venv_decides_which_python_runs_and_what_is_missing_is_said_at_once() {
    let scratch = project(1, "");
    scratch.write("sweep.yaml", "program: t.py\nmethod: grid\nparameters: {x: {value: 1}}\n");
    scratch.write("t.py", "import sys\nopen('seen', 'w').write(sys.prefix)\n");
    let err = run(&scratch, &["--venv", "v e"], 2);
    assert!(err.contains("--venv: there is no file ") && err.contains("v e/bin/activate"), "{err}");
    let made = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(scratch.path("v e"))
        .output()
        .expect("python3");
    if !made.status.success() {
        return skip("python3 has no venv module").unwrap_or_default();
    }
    run(&scratch, &["--venv", "v e"], 0);
    assert_eq!(scratch.read("seen"), scratch.path("v e").display().to_string());
    assert!(log(&scratch, 0).contains("v e/bin/python"), "{}", log(&scratch, 0));
}

#[test]
fn modules_are_loaded_by_the_sites_function() {
    let scratch = project(1, "echo \"$LOADED\" > seen");
    let mut command = submit(&scratch, &["--module", "cuda/12", "--module", "gcc"]);
    command.env("BASH_FUNC_module%%", "() { shift; export LOADED=\"$LOADED $*\"\n}");
    expect_code(&command.output().expect("it runs"), 0);
    assert_eq!(scratch.read("seen"), " cuda/12 gcc\n");
    // A function that says no, as Lmod does for a module that is not there.
    let scratch = project(9, "echo ran > ran");
    let mut command = submit(&scratch, &["--module", "cuda/99"]);
    command.env("BASH_FUNC_module%%", "() { echo no such module >&2; return 1\n}");
    let err = expect_code(&command.output().expect("it runs"), 6);
    assert!(err.contains("failed with status 1: `module load cuda/99`"), "{err}");
    assert!(!scratch.path("ran").exists());
}

#[test]
fn variables_come_from_flags_and_files_and_are_taken_literally() {
    let scratch = project(1, "echo \"$A|$B|$C\" > seen");
    scratch.write("e nv", "B='from the file'\nC=$HOME\n");
    run(&scratch, &["--export", "A=it's $(touch x)", "--env-file", "e nv"], 0);
    let home = scratch.path("../home").display().to_string();
    let seen = scratch.read("seen");
    assert!(seen.starts_with("it's $(touch x)|from the file|"), "{seen} {home}");
    scratch.write("bad", "A=1\nB=from file\n");
    let err = run(&scratch, &["--env-file", "bad", "--new"], 3);
    assert!(err.contains("bad:2: this is not NAME=VALUE"), "{err}");
    for (flag, value, want) in [
        ("--export", "ALL", "--export ALL: this is not NAME=VALUE"),
        ("--export", "1A=2", "this is not NAME=VALUE"),
        ("--env-file", "none", "--env-file: there is no file "),
        ("--chdir", "none", "there is no such folder"),
    ] {
        let err = run(&scratch, &[flag, value, "--new"], 2);
        assert!(err.contains(want), "{err}");
    }
}

#[test]
fn scratch_holds_what_wandb_writes_and_may_name_the_job() {
    let scratch = project(
        1,
        "echo \"$WANDB_DIR $TMPDIR\" > seen; touch \"$WANDB_CACHE_DIR/a\" \"$WANDB_DATA_DIR/a\" \"$WANDB_CONFIG_DIR/a\"",
    );
    let folder = format!("{}/$SLURM_ARRAY_TASK_ID", scratch.path("s p").display());
    run(&scratch, &["--scratch", &folder], 0);
    let folder = scratch.path("s p/0").display().to_string();
    assert_eq!(scratch.read("seen"), format!("{folder}/wandb {folder}/tmp\n"));
}

#[test]
fn r67_the_interpreter_the_folder_and_hidden_ranks() {
    let scratch = project(1, "");
    scratch.write("sweep.yaml", "program: t.sh\nmethod: grid\nparameters: {x: {value: 1}}\n");
    fs::create_dir(scratch.path("in side")).expect("ours");
    scratch.write("in side/t.sh", "echo \"$1 ${SLURM_NTASKS-hidden} ${SLURM_PROCID-hidden} ${SLURM_ARRAY_TASK_ID-hidden}\" > seen\n");
    let mut command = submit(
        &scratch,
        &[
            "--interpreter",
            "sh",
            "--chdir",
            "in side",
            "--hide-slurm",
            "--export",
            "SLURM_NTASKS=4",
            "--export",
            "SLURM_PROCID=0",
        ],
    );
    expect_code(&command.output().expect("it runs"), 0);
    command = submit(
        &scratch,
        &["--new", "--interpreter", "sh", "--chdir", "in side", "--export", "SLURM_NTASKS=4"],
    );
    assert_eq!(scratch.read("in side/seen"), "--x=1 hidden hidden 0\n");
    expect_code(&command.output().expect("it runs"), 0);
    assert!(
        scratch.read("in side/seen").starts_with("--x=1 4 "),
        "{}",
        scratch.read("in side/seen")
    );
}

#[test]
fn a_key_in_a_line_a_variable_or_the_sweep_file_is_refused() {
    let key = "0123456789abcdef0123456789abcdef01234567";
    let scratch = project(1, "echo ran > ran");
    for (flag, value) in [
        ("--setup", format!("export WANDB_API_KEY={key}")),
        ("--setup", format!("wandb login {key}")),
        ("--export", format!("WANDB_API_KEY={key}")),
        ("--teardown", format!("WANDB_API_KEY={key} wandb sync")),
        ("--comment", format!("WANDB_API_KEY={key}")),
    ] {
        let err = run(&scratch, &[flag, &value], 3);
        assert!(err.contains("seems to hold a W&B API key"), "{err}");
        assert!(!err.contains(key), "{err}");
    }
    let sweep =
        scratch.read("sweep.yaml").replace("[sh,", &format!("[env, WANDB_API_KEY={key}, sh,"));
    scratch.write("sweep.yaml", &sweep);
    let err = run(&scratch, &[], 3);
    assert!(err.contains("seems to hold a W&B API key") && !err.contains(key), "{err}");
    scratch.write("mine.hbs", &format!("#!/bin/bash\nexport WANDB_API_KEY={key}\n"));
    let err = run(&scratch, &["--template", "mine.hbs"], 3);
    assert!(err.contains("seems to hold a W&B API key") && !err.contains(key), "{err}");
    assert!(!scratch.path(".sweepctl/sweeps").exists() && !scratch.path("ran").exists());
    // A reference to one is how it is done.
    let scratch = project(1, "echo ran > ran");
    scratch.write("key", key);
    run(&scratch, &["--setup", "export WANDB_API_KEY=$(cat key)"], 0);
    assert!(scratch.path("ran").exists());
}

/// A stand-in for a container runtime: `bind`s by its own option, then a root of its own without `/root` and `/home`.
const INSIDE: &str = r#"
root=$(mktemp -d)
export ROOT="$root" WORKDIR="$workdir" INSIDE="$image"
exec unshare --mount bash -c '
  mount -t tmpfs none "$ROOT"
  for path in /usr /bin /lib /lib64 /etc /dev /proc "${@:1:COUNT}"; do
    [ -e "$path" ] || continue
    mkdir -p "$ROOT$path" && mount --rbind "$path" "$ROOT$path" || exit 1
  done
  exec chroot "$ROOT" /usr/bin/env -C "$WORKDIR" "${@:COUNT+1}"' bash "${binds[@]}" "$@"
"#;

fn program_in_a_container(more: &[&str], name: &str, options: &str) {
    if !rustix::process::geteuid().is_root() {
        skip::<()>("a stand-in for containers needs root");
        return;
    }
    let scratch = project(2, "");
    scratch.write(
        "train.sh",
        "echo \"$INSIDE $(readlink /proc/self/ns/mnt) $PWD $1\" >> seen; [ ! -e \"$OUTSIDE\" ]; echo \"outside: $?\" >> seen\n\
         echo '{\"loss\": 1}' >> \"$SWEEPCTL_METRICS\"; ls \"$SWEEPCTL_SCRATCH\" > /dev/null && echo scratch >> seen\n",
    );
    let tool_text =
        format!("#!/bin/bash\nbinds=()\n{options}\nexport COUNT=${{#binds[@]}}\n{INSIDE}");
    tool(&scratch, &format!("tools/{name}"), &tool_text);
    let outside = scratch.path("../home/outside");
    fs::write(&outside, "").expect("ours");
    let path =
        format!("{}:{}", scratch.path("tools").display(), std::env::var("PATH").expect("PATH"));
    let folder = tempfile::tempdir().expect("a folder");
    let set_up = "readlink /proc/self/ns/mnt >> outer";
    let mut command =
        submit(&scratch, &["--setup", set_up, "--scratch", &folder.path().display().to_string()]);
    command.args(more).env("PATH", path).env("OUTSIDE", &outside);
    expect_code(&command.output().expect("it runs"), 0);
    let seen = scratch.read("seen");
    let outer = scratch.read("outer");
    let here = scratch.path("x").parent().expect("a folder").display().to_string();
    for (line, x) in seen.lines().filter(|line| line.contains("mnt:")).zip(0..) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[2]), ("img:1", &*here), "{seen}");
        assert_eq!(words[3], format!("--x={x}"));
        assert!(!outer.contains(words[1]), "the program is outside");
    }
    assert_eq!(seen.matches("mnt:").count(), 2, "{seen}");
    assert_eq!(seen.matches("outside: 0").count(), 2, "what is not mounted is seen: {seen}");
    assert_eq!(seen.matches("scratch").count(), 2, "{seen}");
    let status = scratch.sweepctl().args(["status", "--json"]).output().expect("it runs");
    let json: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(json["sweeps"][0]["runs"][1]["summary"]["loss"], 1, "{json}");
}

#[test]
fn a_program_runs_in_an_apptainer_container_and_its_wrapper_outside() {
    let options = "[ \"$1\" = exec ] || exit 9; shift\n\
        while :; do case $1 in --bind) binds+=(\"$2\"); shift 2;; --pwd) workdir=$2; shift 2;; --nv) shift;; *) break;; esac; done\n\
        image=$1; shift";
    let more = [
        "--container-image",
        "img:1",
        "--container-runtime",
        "apptainer",
        "--container-arg",
        "--nv",
    ];
    program_in_a_container(&more, "apptainer", options);
    program_in_a_container(&more, "singularity", options);
}

#[test]
fn a_program_runs_in_a_pyxis_container_and_its_wrapper_outside() {
    let options = "while :; do case $1 in --container-image=*) image=${1#*=};; --container-workdir=*) workdir=${1#*=};;\n\
        --container-mounts=*) IFS=, read -ra pairs <<<\"${1#*=}\"; for pair in \"${pairs[@]}\"; do binds+=(\"${pair%%:*}\"); done;;\n\
        --ntasks=1|--nodes=1) ;; *) break;; esac; shift; done";
    program_in_a_container(&["--container-image", "img:1"], "srun", options);
}

#[test]
fn a_container_may_be_started_by_words_of_ones_own() {
    let scratch = project(1, "echo \"$INSIDE\" > seen");
    let more =
        ["--container-runtime", "command", "--container-arg", "env", "--container-arg", "INSIDE=1"];
    run(&scratch, &more, 0);
    assert_eq!(scratch.read("seen"), "1\n");
    for more in [&["--container-runtime", "command"][..], &["--container-mounts", "/data"]] {
        let err = run(&scratch, more, 2);
        assert!(err.contains("a container needs --container-image"), "{err}");
    }
    let err = run(&scratch, &["--container-image", "img", "--container-runtime", "command"], 2);
    assert!(err.contains("needs the words that start the container"), "{err}");
    let err = run(&scratch, &["--new", "--container-image", "img.sif"], 6);
    assert!(err.contains("`singularity` not found"), "{err}");
}
