use proptest::prelude::*;

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn given(text: &str) -> Vec<Given> {
    read(&words(text)).unwrap()
}

fn again(text: &str) -> String {
    given(text).iter().map(Given::word).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_spelling_of_sbatch_is_read() {
    let table = [
        ("--time=10", "--time=10"),
        ("--time 10", "--time=10"),
        ("-t10", "--time=10"),
        ("-t 10", "--time=10"),
        ("--part gpu", "--partition=gpu"),
        ("--tasks-per-node=2", "--ntasks-per-node=2"),
        ("-kOs -N2", "--no-kill=Os --nodes=2"),
        ("-Os -N2", "--overcommit --oversubscribe --nodes=2"),
        ("--exclusive --exclusive=user", "--exclusive --exclusive=user"),
        ("--exclusive user", "?"),
        ("--nice -N 2", "--nice --nodes=2"),
        ("--comment=a=b", "--comment=a=b"),
        ("--new-thing --other=1 --third 3", "--new-thing --other=1 --third=3"),
        ("--mem=1G --mem=2G", "--mem=1G --mem=2G"),
        ("-Ap", "--account=p"),
    ];
    for (text, want) in table {
        let read = read(&words(text));
        match want {
            "?" => assert!(read.is_err(), "{text}"),
            want => assert_eq!(again(text), want, "{text}"),
        }
    }
}

#[test]
fn what_would_break_the_sweep_is_refused_under_every_name() {
    let all = [
        "--array=0-3",
        "-a 0-3",
        "-a0-3",
        "--arr=1",
        "--wrap=ls",
        "--parsable",
        "--wait",
        "-W",
        "--test-only",
        "--export=ALL",
        "--hold",
        "-H",
        "-OH",
        "--dependency=singleton",
        "-d singleton",
        "-J x",
        "-D /",
        "--requeue",
        "--no-requeue",
        "-M c1",
        "--cluster=c1",
        "-Q",
        "-v",
        "-h",
        "-V",
        "--uid=0",
        "--open-mode=truncate",
    ];
    for text in all {
        let refused = read(&words(text));
        assert!(matches!(refused, Err(OptionError::Refused { .. })), "{text}: {refused:?}");
    }
    assert_eq!(again("-d afterok:7"), "--dependency=afterok:7");
}

#[test]
fn unreadable_words_say_why() {
    let table = [
        ("ls", "`ls` is not an option of sbatch"),
        ("-", "`-` is not an option of sbatch"),
        ("--", "`--` is not an option of sbatch"),
        ("-Z", "`-Z` is not an option of sbatch"),
        ("--time", "`--time` needs a value"),
        ("-N", "`--nodes` needs a value"),
        ("--overcommit=1", "`--overcommit` takes no value"),
        (
            "--no",
            "`--no` may be `--no-kill` or `--no-requeue` or `--nodefile` or `--nodelist` or `--nodes`",
        ),
    ];
    for (text, want) in table {
        assert_eq!(read(&words(text)).unwrap_err().to_string(), want, "{text}");
    }
}

#[test]
fn names_and_letters_are_given_once() {
    for (at, one) in KNOWN.iter().enumerate() {
        for other in &KNOWN[at + 1..] {
            assert_ne!(one.long, other.long);
            assert!(one.short.is_none() || one.short != other.short, "{}", one.long);
            assert!(one.variable.is_none() || one.variable != other.variable, "{}", one.long);
        }
    }
}

#[test]
fn a_nearer_source_replaces_what_says_the_same_in_other_words() {
    let table = [
        ("--time=1 --mem=1G", "--time=2", "--mem=1G --time=2"),
        ("--mem=1G", "--mem-per-cpu=2G", "--mem-per-cpu=2G"),
        ("--gres=gpu:1,lscratch:100", "--gpus-per-node=8", "--gres=lscratch:100 --gpus-per-node=8"),
        ("--gres=gpu:1", "--gpus=2", "--gpus=2"),
        ("--gpus-per-node=8", "--gres=lscratch:5", "--gpus-per-node=8 --gres=lscratch:5"),
        ("--gpus-per-node=8", "--gres=gpu:a100:2", "--gres=gpu:a100:2"),
        ("--unknown=1", "--unknown=2 --unknown=3", "--unknown=2 --unknown=3"),
    ];
    for (far, near, want) in table {
        let merged = merge(vec![given(far), given(near)]);
        let merged: Vec<String> = merged.iter().map(Given::word).collect();
        assert_eq!(merged.join(" "), want, "{far} | {near}");
    }
}

#[test]
fn variables_become_options_and_others_are_named() {
    let table = [
        ("SBATCH_TIMELIMIT", "10"),
        ("SBATCH_EXCLUSIVE", "1"),
        ("SBATCH_OVERCOMMIT", "1"),
        ("SBATCH_ARRAY_INX", "0-3"),
        ("SBATCH_WHATEVER", "x"),
        ("SBATCH_GRES", ""),
        ("PATH", "/bin"),
    ];
    let (options, unused) =
        from_variables(table.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let options: Vec<String> = options.iter().map(ToString::to_string).collect();
    assert_eq!(
        options,
        [
            "`--exclusive` (from SBATCH_EXCLUSIVE)",
            "`--overcommit` (from SBATCH_OVERCOMMIT)",
            "`--time=10` (from SBATCH_TIMELIMIT)",
        ]
    );
    assert_eq!(unused, ["SBATCH_ARRAY_INX", "SBATCH_WHATEVER"]);
}

#[test]
fn a_request_is_added_up_however_it_is_spelled() {
    // Nodes, ranks and GPUs as `scontrol show job` of 22.05.8 gives them for the same words.
    let table = [
        ("", (1, 1, Some(0))),
        ("--gpus-per-node=8", (1, 1, Some(8))),
        ("--gres=gpu:typeA:2", (1, 1, Some(2))),
        ("--gres=gpu", (1, 1, Some(1))),
        ("--gres=mps:20", (1, 1, Some(0))),
        ("--gres=gpu:a100:2,gpu:v100:1", (1, 1, Some(3))),
        ("-G a100:4", (1, 1, Some(4))),
        ("-N2 --gpus-per-node=a100:8", (2, 2, Some(16))),
        ("-N2 --ntasks-per-node=8 --gres=gpu:8", (2, 16, Some(16))),
        ("-N 2-4 -n 8", (2, 8, Some(0))),
        ("-n4 --gpus-per-task=1", (1, 4, Some(4))),
        ("--gpus=8 --gpus-per-task=2", (1, 4, Some(8))),
        ("--gpus=8 --ntasks-per-gpu=1", (1, 8, Some(8))),
        ("--gpus-per-socket=2 --sockets-per-node=2", (1, 1, None)),
        ("--gpus-per-node=0", (1, 1, Some(0))),
        // At most, or untold.
        ("-N 1-2 --gpus-per-node=4", (1, 1, Some(8))),
        ("--exclusive --gpus-per-node=1", (1, 1, None)),
        ("--nodelist=n[1-2] --gpus-per-node=4", (1, 1, None)),
        ("-n2 --ntasks-per-node=1 --gpus-per-node=4", (1, 2, None)),
        ("-n4 --ntasks-per-gpu=1", (1, 4, None)),
        ("--tres-per-task=gres/gpu:4", (1, 1, None)),
    ];
    for (text, want) in table {
        let request = Request::of(&given(text));
        assert_eq!((request.nodes, request.ranks, request.gpus), want, "{text}");
    }
}

#[test]
fn gpu_hours_are_those_of_whole_jobs() {
    let hours = |text: &str| Request::of(&given(text)).gpu_hours(50, None);
    assert_eq!(hours("--gpus-per-node=8 -t 2:00:00"), Some(800.0));
    assert_eq!(hours("-t 2:00:00"), Some(0.0));
    assert_eq!(hours("--gpus=1"), None);
    assert_eq!(hours("--gpus=1 -t 0"), None);
    let request = Request::of(&given("--gpus=2"));
    assert_eq!(request.gpu_hours(10, Some(Duration::from_secs(1800))), Some(10.0));
}

#[test]
fn a_time_beyond_the_partitions_is_refused_and_a_qos_may_lift_it() {
    let hours = |n: u64| TimeLimit::Limited(Duration::from_secs(n * 3600));
    let partition = |name: &str, is_default, max_time| {
        let name = name.to_owned();
        Partition { name, is_default, max_time, default_time: hours(1) }
    };
    let partitions = [
        partition("main", true, hours(24)),
        partition("short", false, hours(1)),
        partition("long", false, TimeLimit::Unlimited),
    ];
    let table = [
        ("-t 24:00:00", None),
        ("-t 24:01:00", Some(true)),
        ("-t 24:01:00 --qos=big", Some(false)),
        ("-t 2:00:00 -p short", Some(true)),
        ("-t 2:00:00 -p short,main", None),
        ("-t 0 -p short", Some(true)),
        ("-t 0 -p long", None),
        ("-p short", None),
        ("-t 9:00:00 -p elsewhere", None),
    ];
    for (text, want) in table {
        let remark = time_remark(&given(text), &partitions);
        assert_eq!(remark.map(|remark| remark.is_error), want, "{text}");
    }
    let remark = time_remark(&given("-t 2-0 -p main"), &partitions).unwrap();
    assert_eq!(
        remark.message,
        "`--time=2-0` is more than its partition allows, 1-00:00:00: SLURM would never start the job"
    );
    assert_eq!(
        Request::of(&given("-p short")).default_time(&partitions),
        Some(Duration::from_secs(3600))
    );
}

fn codes(text: &str, ranks: Ranks) -> Vec<&'static str> {
    remarks(&given(text), ranks).iter().map(|remark| remark.code).collect()
}

#[test]
fn options_that_fight_each_other_are_named() {
    let table: [(&str, &[&str]); 11] = [
        ("-t 10", &[]),
        ("", &["no-time"]),
        ("-t 10 --gres=gpu:1 --gpus-per-node=1", &["gpus-twice"]),
        ("-t 10 --gres=gpu:1 --gpus=1", &["gpus-twice"]),
        ("-t 10 --gres=lscratch:1 --gpus=1", &[]),
        ("-t 10 --mem=1G --mem-per-cpu=1G", &["memory-twice"]),
        ("-t 10 -N1 -n1 --ntasks-per-node=2", &["ranks-disagree"]),
        ("-t 10 -N2 -n4 --ntasks-per-node=2", &[]),
        ("-t soon", &["request-value"]),
        ("-t 10 -N two -G many", &["request-value", "request-value"]),
        ("-t 10 -n 8", &[]),
    ];
    for (text, want) in table {
        assert_eq!(codes(text, Ranks::Unknown), want, "{text}");
    }
}

#[test]
fn ranks_and_programs_that_do_not_go_together_are_named() {
    let table: [(&str, Ranks, &[&str]); 6] = [
        ("-t 10 -n 8", Ranks::Ignored, &["ranks-unused"]),
        ("-t 10 -n 8", Ranks::Started, &[]),
        ("-t 10 -n 8", Ranks::Wanted, &[]),
        ("-t 10 -G 8", Ranks::Wanted, &["ranks-missing"]),
        ("-t 10 -G 1", Ranks::Wanted, &[]),
        ("-t 10 -G 8", Ranks::Ignored, &[]),
    ];
    for (text, ranks, want) in table {
        assert_eq!(codes(text, ranks), want, "{text} {ranks:?}");
    }
}

#[test]
fn ranks_are_seen_in_command_and_program() {
    let command = |text: &str| words(text);
    let plain = command("${env} python ${program} ${args}");
    assert_eq!(Ranks::of(&command("/usr/bin/srun python t.py"), None), Ranks::Started);
    assert_eq!(Ranks::of(&command("python -m torch.distributed.run t.py"), None), Ranks::Started);
    assert_eq!(Ranks::of(&plain, None), Ranks::Unknown);
    assert_eq!(Ranks::of(&plain, Some("import torch")), Ranks::Ignored);
    assert_eq!(Ranks::of(&plain, Some("int(os.environ['LOCAL_RANK'])")), Ranks::Wanted);
}

proptest! {
    #[test]
    fn any_words_are_read_or_refused(words in proptest::collection::vec("(-{0,3}[a-zA-Z]{0,6}[=,:0-9a]{0,4}|\\PC{0,6})", 0..6)) {
        if let Ok(options) = read(&words) {
            let _ = remarks(&options, Ranks::Wanted);
            // What was read means the same when it is read again.
            let again: Vec<String> = options.iter().map(Given::word).collect();
            prop_assert_eq!(read(&again).map_err(|e| e.to_string()), Ok(options));
        }
    }

    #[test]
    fn amounts_never_overflow(text in "[0-9kK:,a-]{0,40}") {
        let _ = (time(&text), count(&text), nodes(&text), gpus(&text), gres(&text));
    }
}
