//! Programs of all manners, each in a process of its own.

use std::any::type_name;
use std::fmt::Write as _;
use std::future::pending;
use std::path::Path;
use std::process::{Output, Stdio};
use std::{fs, io};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};

use super::processes::{Process, has_no_children};
use super::*;

/// Set in the process that runs one scenario alone.
const ALONE: &str = "SWEEPCTL_TEST_ALONE";
/// Where a scenario finds its scratch folder, if the test outside gave it one.
const SCRATCH: &str = "SWEEPCTL_TEST_SCRATCH";
/// Wide: a loaded machine is slow, and only a bug reaches it.
const DEADLINE: Duration = Duration::from_secs(120);

/// This test binary again, to run only the test whose scenario has the type `F`.
fn rerun<F>() -> std::process::Command {
    let name = type_name::<F>().split_once("::").unwrap().1;
    let name = name.split("::{{closure}}").next().unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
    command
}

/// Runs the scenario in a process of its own: signals, and the children that become ours,
/// belong to a process and not to a test.
fn alone<F: AsyncFnOnce()>(scenario: F) -> Option<Output> {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let limited = async { timeout(DEADLINE, scenario()).await.unwrap() };
        runtime.unwrap().block_on(limited);
        return None;
    }
    let output = rerun::<F>().output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{shown}\n{errors}", output.status);
    assert!(shown.contains("1 passed"), "the scenario did not run: {shown}");
    Some(output)
}

fn launch(argv: &[&str]) -> Launch {
    let argv = argv.iter().map(OsString::from).collect();
    Launch::new(argv, std::env::vars_os().filter(|(name, _)| name != ALONE).collect())
}

/// A shell script that finds its scratch folder in `$D`.
fn script(folder: &TempDir, text: &str) -> Launch {
    let mut launch = launch(&["sh", "-c", text]);
    launch.env.push(("D".into(), folder.path().into()));
    launch
}

/// Polls until there is what `look` looks for.
async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// The complete first line of a file.
fn line(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok()?.split_once('\n').map(|(line, _)| line.to_owned())
}

fn pid_in(file: &Path) -> Option<Pid> {
    Pid::from_raw(line(file)?.trim().parse().unwrap())
}

fn lives(pid: Pid) -> bool {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok();
    stat.and_then(|stat| Process::parse(&stat)).is_some_and(|process| !process.ended)
}

fn signal_us(signal: Signal) {
    rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
}

#[test]
fn the_exit_code_and_the_environment_are_the_programs_own() {
    alone(async || {
        let mut signals = Signals::install().unwrap();
        let mut launch = launch(&["sh", "-c", "test -z \"$HOME\" && exit $CODE"]);
        launch.env = vec![("CODE".into(), "7".into()), ("PATH".into(), "/usr/bin:/bin".into())];
        let running = start(&launch).await.unwrap();
        let ended = running.wait(&mut signals, pending()).await.unwrap();
        assert_eq!(ended.exit, Exit::Code(7));
        assert!(ended.signals.is_empty() && ended.left.is_empty());
    });
}

#[test]
fn death_by_a_signal_is_told_from_an_exit() {
    alone(async || {
        let mut signals = Signals::install().unwrap();
        let running = start(&launch(&["sh", "-c", "kill -SEGV $$"])).await.unwrap();
        let ended = running.wait(&mut signals, pending()).await.unwrap();
        assert_eq!(ended.exit, Exit::Signal(Signal::SEGV.as_raw()));
    });
}

#[test]
fn a_signal_that_reaches_us_after_the_programs_end_explains_it() {
    alone(async || {
        let mut signals = Signals::install().unwrap();
        for end in ["kill -TERM $$", "exit 143"] {
            let running = start(&launch(&["sh", "-c", end])).await.unwrap();
            let late = async {
                sleep(Duration::from_millis(200)).await;
                signal_us(Signal::CONT);
                sleep(Duration::from_millis(300)).await;
                signal_us(Signal::TERM);
                pending::<()>().await;
            };
            let ended = tokio::select! {
                ended = running.wait(&mut signals, pending()) => ended.unwrap(),
                () = late => unreachable!("it waits for ever"),
            };
            assert_eq!(
                ended.signals,
                [Signal::CONT, Signal::TERM].map(|signal| signal.as_raw()),
                "{end}"
            );
        }
    });
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    alone(async || {
        let error = start(&launch(&["no-such-program"])).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(start(&launch(&[])).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn term_is_forwarded_once_and_the_program_saves_before_its_exit() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let program = "
import os, signal, time
folder, terms = os.environ['D'], []
signal.signal(signal.SIGTERM, lambda *_: terms.append(1))
open(folder + '/ready', 'w').write('yes\\n')
while not terms:
    time.sleep(0.01)
open(folder + '/got', 'w').write('yes\\n')
while not os.path.exists(folder + '/again'):
    time.sleep(0.01)
open(folder + '/saved', 'w').write(str(len(terms)) + '\\n')
";
        let mut launch = launch(&["python3", "-c", program]);
        launch.env.push(("D".into(), folder.path().into()));
        let running = start(&launch).await.unwrap();
        let at = |name: &str| folder.path().join(name);
        // A listener of our own: what it sees, the one under test was handed too.
        let mut terms = signal(SignalKind::terminate()).unwrap();
        let story = async {
            until(|| line(&at("ready"))).await;
            signal_us(Signal::TERM);
            terms.recv().await;
            until(|| line(&at("got"))).await;
            signal_us(Signal::TERM);
            terms.recv().await;
            tokio::task::yield_now().await;
            fs::write(at("again"), "").unwrap();
        };
        let (ended, ()) = tokio::join!(running.wait(&mut signals, pending()), story);
        let ended = ended.unwrap();
        assert_eq!(ended.exit, Exit::Code(0));
        assert_eq!(line(&at("saved")).unwrap(), "1");
        let term = Signal::TERM.as_raw();
        assert_eq!(ended.signals, [term, term]);
        assert_eq!(signals.received(), [term, term]);
    });
}

#[test]
fn usr1_reaches_the_program_and_its_children() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let text = "
            sh -c 'trap \"exit 5\" USR1; echo > $D/inner; while :; do sleep 0.01; done' &
            trap 'wait $!; exit $?' USR1
            echo > $D/outer; while :; do sleep 0.01; done";
        let running = start(&script(&folder, text)).await.unwrap();
        let story = async {
            until(|| line(&folder.path().join("inner"))).await;
            until(|| line(&folder.path().join("outer"))).await;
            signal_us(Signal::USR1);
        };
        let (ended, ()) = tokio::join!(running.wait(&mut signals, pending()), story);
        let ended = ended.unwrap();
        assert_eq!(ended.exit, Exit::Code(5));
        assert_eq!(ended.signals, [Signal::USR1.as_raw()]);
    });
}

#[test]
fn a_signal_that_came_before_the_program_reaches_it() {
    alone(async || {
        let mut signals = Signals::install().unwrap();
        signal_us(Signal::TERM);
        let term = Signal::TERM.as_raw();
        until(|| signals.received().contains(&term).then_some(())).await;
        let running = start(&launch(&["sleep", "1000"])).await.unwrap();
        let ended = running.wait(&mut signals, pending()).await.unwrap();
        assert_eq!(ended.exit, Exit::Signal(term));
        assert_eq!(signals.received(), [term]);
    });
}

#[test]
fn a_program_that_ignores_term_is_killed_with_all_its_children() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let text = "
            trap '' TERM
            setsid sh -c 'echo $$ > $D/child; exec sleep 1000' &
            echo > $D/ready; while :; do sleep 0.01; done";
        let mut launch = script(&folder, text);
        launch.kill_after = Duration::from_millis(200);
        let running = start(&launch).await.unwrap();
        let child = folder.path().join("child");
        let stop = async {
            until(|| line(&folder.path().join("ready"))).await;
            until(|| line(&child)).await;
        };
        let ended = running.wait(&mut signals, stop).await.unwrap();
        assert_eq!(ended.exit, Exit::Signal(Signal::KILL.as_raw()));
        assert!(ended.signals.is_empty());
        assert!(!lives(pid_in(&child).unwrap()));
    });
}

#[test]
fn a_stray_in_a_session_of_its_own_is_gone_afterwards() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let text = "
            (setsid sh -c 'trap \"\" TERM HUP; echo $$ > $D/stray; while :; do sleep 0.01; done' &)
            while ! test -s $D/stray; do sleep 0.01; done; exit 3";
        let mut launch = script(&folder, text);
        (launch.linger, launch.kill_after) = (Duration::ZERO, Duration::from_millis(100));
        let running = start(&launch).await.unwrap();
        let ended = running.wait(&mut signals, pending()).await.unwrap();
        assert_eq!(ended.exit, Exit::Code(3));
        assert!(ended.left.is_empty());
        assert!(!lives(pid_in(&folder.path().join("stray")).unwrap()));
        assert!(has_no_children(), "a zombie is left");
    });
}

#[test]
fn what_lingers_may_finish_its_work() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let text = "(setsid sh -c 'sleep 0.3; echo > $D/uploaded' &)";
        let mut launch = script(&folder, text);
        launch.linger = DEADLINE;
        let running = start(&launch).await.unwrap();
        running.wait(&mut signals, pending()).await.unwrap();
        assert!(folder.path().join("uploaded").exists());
    });
}

#[test]
fn stop_ends_the_lingering_at_once() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let text = "(setsid sh -c 'echo $$ > $D/stray; exec sleep 1000' &)";
        let mut launch = script(&folder, text);
        (launch.linger, launch.kill_after) = (DEADLINE * 2, DEADLINE * 2);
        let running = start(&launch).await.unwrap();
        let pid = Pid::from_raw(running.pid().cast_signed()).unwrap();
        let stray = folder.path().join("stray");
        let stop = until(|| (!lives(pid) && line(&stray).is_some()).then_some(()));
        let ended = running.wait(&mut signals, stop).await.unwrap();
        assert_eq!(ended.exit, Exit::Code(0));
        assert!(!lives(pid_in(&stray).unwrap()));
    });
}

#[test]
fn a_dropped_wait_leaves_nothing_behind() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let text = "setsid sh -c 'echo $$ > $D/stray; exec sleep 1000' & exec sleep 1000";
        let running = start(&script(&folder, text)).await.unwrap();
        let pid = Pid::from_raw(running.pid().cast_signed()).unwrap();
        let stray = folder.path().join("stray");
        tokio::select! {
            _ = running.wait(&mut signals, pending()) => panic!("it ended by itself"),
            _ = until(|| line(&stray)) => {}
        }
        until(|| (!lives(pid) && !lives(pid_in(&stray).unwrap())).then_some(())).await;
    });
}

#[test]
fn our_other_programs_are_left_alone() {
    alone(async || {
        let folder = tempfile::tempdir().unwrap();
        let mut signals = Signals::install().unwrap();
        let mut earlier = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let text = "(setsid sleep 1000 &)";
        let mut launch = script(&folder, text);
        launch.linger = Duration::from_millis(100);
        let running = start(&launch).await.unwrap();
        let mut meanwhile = Command::new("sh").args(["-c", "exit 4"]).spawn().unwrap();
        running.wait(&mut signals, pending()).await.unwrap();
        assert_eq!(meanwhile.wait().await.unwrap().code(), Some(4));
        assert!(earlier.try_wait().unwrap().is_none());
        earlier.kill().await.unwrap();
    });
}

#[test]
fn the_program_dies_with_us_even_by_kill() {
    let scenario = async || {
        let folder = PathBuf::from(std::env::var_os(SCRATCH).unwrap());
        let mut signals = Signals::install().unwrap();
        let mut launch = launch(&["sh", "-c", "trap '' TERM HUP; echo $$ > pid; exec sleep 1000"]);
        launch.cwd = Some(folder);
        let running = start(&launch).await.unwrap();
        running.wait(&mut signals, pending()).await.unwrap();
    };
    if std::env::var_os(ALONE).is_some() {
        alone(scenario);
        return;
    }
    fn rerun_of<F>(_: &F) -> std::process::Command {
        rerun::<F>()
    }
    let folder = tempfile::tempdir().unwrap();
    let mut us =
        rerun_of(&scenario).env(SCRATCH, folder.path()).stdout(Stdio::null()).spawn().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let started = until(|| pid_in(&folder.path().join("pid")));
    let program = runtime.block_on(async { timeout(DEADLINE, started).await.unwrap() });
    assert!(lives(program));
    us.kill().unwrap();
    us.wait().unwrap();
    let gone = until(|| (!lives(program)).then_some(()));
    runtime.block_on(async { timeout(DEADLINE, gone).await.unwrap() });
}

#[test]
fn stdout_is_copied_byte_for_byte_while_its_metrics_are_read() {
    let output = alone(async || {
        let mut signals = Signals::install().unwrap();
        let text =
            r#"printf 'loss=3 \377\000|\n{"acc": {"val": NaN}}\nstep 1 loss=0.5\rloss=0.25, n=2'"#;
        let mut launch = launch(&["sh", "-c", text]);
        launch.metrics_from_stdout = true;
        let running = start(&launch).await.unwrap();
        let ended = running.wait(&mut signals, pending()).await.unwrap();
        let wanted = serde_json::json!({"loss": 0.25, "acc.val": "NaN", "n": 2});
        assert_eq!(serde_json::to_value(&ended.summary).unwrap(), wanted);
    });
    let Some(output) = output else { return };
    let wanted = b"loss=3 \xff\0|\n{\"acc\": {\"val\": NaN}}\nstep 1 loss=0.5\rloss=0.25, n=2";
    assert!(output.stdout.windows(wanted.len()).any(|bytes| bytes == wanted));
}

#[test]
fn metrics_of_a_flood_of_output_are_complete() {
    let output = alone(async || {
        let mut signals = Signals::install().unwrap();
        let text = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo step=$i; done";
        let mut launch = launch(&["sh", "-c", text]);
        launch.metrics_from_stdout = true;
        let running = start(&launch).await.unwrap();
        let ended = running.wait(&mut signals, pending()).await.unwrap();
        assert_eq!(ended.summary["step"], 20000);
    });
    let Some(output) = output else { return };
    let mut wanted = String::new();
    (1..=20000).for_each(|step| writeln!(wanted, "step={step}").unwrap());
    assert!(String::from_utf8(output.stdout).unwrap().contains(&wanted));
}

#[test]
fn a_hundred_quick_programs_in_a_row_lose_no_exit_code() {
    alone(async || {
        let mut signals = Signals::install().unwrap();
        for code in 0..100 {
            let text = format!("(true &); exit {code}");
            let running = start(&launch(&["sh", "-c", &text])).await.unwrap();
            let ended = running.wait(&mut signals, pending()).await.unwrap();
            assert_eq!(ended.exit, Exit::Code(code));
            assert!(has_no_children());
        }
    });
}

#[test]
fn a_process_name_may_hold_parentheses_and_blanks() {
    // Invented, as any program may give itself such a name with PR_SET_NAME.
    let stat = b"42 (a) Z 1 () S 7 40 39 0 -1 4194560 102 0 0 0 0 0 0 0 20 0 1 0 5150 8 1 2";
    let process = Process::parse(stat).unwrap();
    assert_eq!((process.parent, process.group, process.ended), (7, 40, false));
    assert_eq!(process.identity(), (42, 5150));
}
