use super::*;
use crate::launch::request::{self, Source};

fn file(text: &str) -> SettingsFile {
    read(text.as_bytes(), "s.yaml", Path::new("/p"), false)
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn site(text: &str) -> SettingsFile {
    read(text.as_bytes(), "site.yaml", Path::new("/etc/sweepctl"), true)
        .unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn problems(text: &str) -> Vec<String> {
    let read = read(text.as_bytes(), "s.yaml", Path::new("/p"), false);
    read.expect_err("it is wrong").iter().map(ToString::to_string).collect()
}

fn sources(files: Vec<SettingsFile>, profile: Option<&str>) -> Sources {
    Sources::of(files, profile, Layer::default(), Layer::default()).unwrap()
}

fn words(settings: &Settings) -> Vec<String> {
    settings.options.iter().map(Given::word).collect()
}

#[test]
fn options_of_sbatch_are_taken_as_they_are_written() {
    let text = "\
slurm:
  time: 2:00:00
  nodes: 010
  mem: 4G
  begin: 2026-01-31
  gpus-per-node: 0
  partition: [a, b]
  tasks-per-node: 4
  exclusive: true
  contiguous: yes
  overcommit: false
  nice: 100
  kill-on-invalid-dep: yes
  constraint: \"a100|h100\"
  account:
sbatch: [--container-image=x.sqsh, -x, n1]
";
    let options = sources(vec![file(text)], None).settings().options;
    let words: Vec<String> = options.iter().map(Given::word).collect();
    assert_eq!(
        words,
        [
            "--time=2:00:00",
            "--nodes=010",
            "--mem=4G",
            "--begin=2026-01-31",
            "--gpus-per-node=0",
            "--partition=a,b",
            "--ntasks-per-node=4",
            "--exclusive",
            "--contiguous",
            "--nice=100",
            "--kill-on-invalid-dep=yes",
            "--constraint=a100|h100",
            "--container-image=x.sqsh",
            "--exclude=n1",
        ]
    );
    assert_eq!(options[0].source, Source::Settings("s.yaml:2".to_owned()));
    assert_eq!(options[0].to_string(), "`--time=2:00:00` (from s.yaml:2)");
    assert_eq!(options[13].to_string(), "`--exclude=n1` (from s.yaml:16)");
}

#[test]
fn everything_wrong_is_said_at_once_with_its_place() {
    let text = "\
job: 20
runs_per_job: 2
warmup: -1
partition: x
max_tasks: 3
state_dir: /x
method: grid
requeue: \"yes\"
metrics: stderr
max-gpu-hours: 0
slurm:
  tme: 2
  array: 0-3
  dependency: singleton
  time: ten
  exclusive: [1]
  setup: []
  mem: true
  nodes: [1, 2]
  kill-on-invalid-dep: true
sbatch: [--wrap=x]
container: {img: x}
export: {1x: a}
profiles:
  big: {jbs: 2, profiles: {}}
  small: 3
jobs: 1
jobs: 2
";
    insta::assert_snapshot!(problems(text).join("\n"), @r"
    s.yaml:1:1: there is no key `job` (is it `jobs`?)
    s.yaml:2:1: there is no key `runs_per_job` (is it `runs-per-job`?)
    s.yaml:3:9: `-1` is not a whole number, at least 0
    s.yaml:4:1: there is no key `partition` (options of sbatch stand under `slurm:`)
    s.yaml:5:1: there is no key `max_tasks` (it is for the site's own file)
    s.yaml:6:1: there is no key `state_dir` (yours is `state-dir`; `state_dir` is for the site's own file)
    s.yaml:7:1: there is no key `method` (it belongs into the sweep file)
    s.yaml:8:10: `yes` is not true or false
    s.yaml:9:10: `stderr` is not `stdout`
    s.yaml:10:16: `0` is not a number above 0
    s.yaml:12:3: sbatch has no option `tme` (is it `time`?)
    s.yaml:13:3: sbatch's `--array` cannot be used with a sweep: the budget decides; see --budget, --jobs and --parallel
    s.yaml:14:3: sbatch's `--dependency` cannot be used with a sweep: it goes by the job's name, which each array has its own; see --parallel 1
    s.yaml:15:9: `--time=ten` cannot be read (write it as sbatch has it)
    s.yaml:16:14: `exclusive` takes a single value
    s.yaml:17:3: `setup` is not an option of sbatch's jobs (`setup` stands beside `slurm:`, not under it)
    s.yaml:18:8: `mem` takes a value, not true or false
    s.yaml:19:10: `nodes` takes a single value
    s.yaml:20:24: `kill-on-invalid-dep` takes a value, not true or false
    s.yaml:21:9: sbatch's `--wrap` cannot be used with a sweep: the sweep file's `command` is what runs
    s.yaml:22:13: `container` has no key `img` (it has `runtime`, `image`, `args`, `mounts`, `workdir`)
    s.yaml:23:10: `1x` is not a variable's name
    s.yaml:25:9: there is no key `jbs` (is it `jobs`?)
    s.yaml:25:17: there is no key `profiles` (a profile has no profiles of its own)
    s.yaml:26:10: the profile `small` is not a mapping
    s.yaml:28:1: `jobs` is given twice, in lines 27 and 28 (remove one of them)
    ");
}

#[test]
fn refused_options_are_refused_with_the_words_of_the_command_line() {
    for known in request::KNOWN {
        let request::Use::Refused(why) = known.used else { continue };
        let value = if known.takes == request::Takes::Nothing { "true" } else { "x" };
        let said = problems(&format!("slurm: {{{}: {value}}}\n", known.long));
        assert!(said[0].contains(why), "{said:?}");
    }
}

#[test]
fn a_nearer_source_wins_and_profiles_are_merged_key_by_key() {
    let site = site(
        "max_tasks: 8\njobs: 1\nparallel: 1\nwarmup: 1\nlinger: 1\nslurm: {partition: site, mem: 1G, gres: 'gpu:1,ssd:1'}\n\
         profiles: {big: {linger: 2, slurm: {qos: site, time: 1}}}\n",
    );
    let user = file("parallel: 2\nwarmup: 2\nprofile: big\nprofiles: {big: {slurm: {time: 2}}}\n");
    let project = file(
        "warmup: 3\nslurm: {partition: project, mem-per-cpu: 2G}\n\
         profiles: {big: {slurm: {gpus: 4}}, other: {jobs: 100}}\n",
    );
    let mut variables = Layer::default();
    variables.set("max-attempts", Some(Value::Count(5)), Origin::Variable("SWEEPCTL_MAX_ATTEMPTS"));
    let mut flags = Layer::default();
    flags.set("max-attempts", Some(Value::Count(6)), Origin::Flag);
    let files = vec![site.clone(), user, project];
    let all = Sources::of(files, None, variables, flags).unwrap();
    let settings = all.settings();
    assert_eq!((settings.jobs, settings.parallel, settings.warmup), (Some(1), Some(2), 3));
    assert_eq!((settings.linger, settings.max_attempts, settings.runs_per_job), (2, 6, 1));
    assert_eq!(settings.floors.max_tasks, Some(8));
    // Memory and GPUs in other words replace what says the same.
    assert_eq!(
        words(&settings),
        [
            "--gres=ssd:1",
            "--partition=project",
            "--mem-per-cpu=2G",
            "--qos=site",
            "--time=2",
            "--gpus=4"
        ]
    );
    assert_eq!(all.effective.get("jobs").unwrap().origin.to_string(), "site.yaml:2");
    assert_eq!(all.effective.get("max-attempts").unwrap().origin, Origin::Flag);
    assert_eq!(all.effective.get("runs-per-job").unwrap().origin, Origin::Default);
}

#[test]
fn null_takes_back_what_farther_files_say() {
    let far = file(
        "jobs: 5\nlinger: 5\nexport: {A: 1, B: 2}\ncontainer: {image: x, runtime: apptainer}\nslurm: {exclusive: true, mem: 1G, qos: a}\n",
    );
    let near = file(
        "jobs: null\nlinger:\nexport: {A: ~, C: ''}\ncontainer: {image: y}\nslurm: {exclusive: false, mem: ~}\n",
    );
    let settings = sources(vec![far, near], None).settings();
    assert_eq!((settings.jobs, settings.linger), (None, 30));
    assert_eq!(words(&settings), ["--qos=a"]);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(settings.export, [pair("B", "2"), pair("C", "")]);
    let container = settings.container.unwrap();
    assert_eq!(
        (container.runtime.as_deref(), container.image.as_deref()),
        (Some("apptainer"), Some("y"))
    );
}

#[test]
fn null_takes_back_a_whole_mapping() {
    let far = file("container: {image: x, runtime: apptainer}\nexport: {A: 1}\n");
    let near = file("container: null\nexport: null\n");
    let nearest = file("export: {B: 2}\n");
    let settings = sources(vec![far, near, nearest], None).settings();
    assert_eq!(settings.container, None);
    assert_eq!(settings.export, [("B".to_owned(), "2".to_owned())]);
}

#[test]
fn settings_of_the_environment_are_kept_as_they_are_written() {
    let text = "\
setup: |
  module load x
  ulimit -n 4096
teardown: [echo a, echo b]
conda: 3.10
venv: ./.venv
module: cuda/12.1
env-file: $NOT_SET/.env
scratch: $TMPDIR/x
hide-slurm: true
chdir: sub
container: {runtime: apptainer, image: x.sif, args: [--nv], mounts: ['/a:/b'], workdir: /w}
";
    let settings = sources(vec![file(text)], None).settings();
    assert_eq!(settings.setup, ["module load x\nulimit -n 4096"]);
    assert_eq!(settings.teardown, ["echo a", "echo b"]);
    assert_eq!(settings.conda.as_deref(), Some("3.10"));
    assert_eq!(settings.venv.as_deref(), Some("/p/.venv"));
    assert_eq!(settings.module, ["cuda/12.1"]);
    assert_eq!(settings.env_file.as_deref(), Some("$NOT_SET/.env"));
    assert_eq!(settings.scratch.as_deref(), Some("$TMPDIR/x"));
    assert_eq!(settings.hide_slurm, Some(true));
    assert_eq!(settings.chdir.as_deref(), Some("/p/sub"));
    assert_eq!(settings.container.unwrap().args, ["--nv"]);
}

#[test]
fn a_profile_that_nobody_has_is_an_error_with_the_nearest_one() {
    let text = "profiles: {big: {}, small: {}}\n";
    let error = |text: &str, profile| {
        let sources = Sources::of(vec![file(text)], profile, Layer::default(), Layer::default());
        sources.unwrap_err().to_string()
    };
    assert_eq!(error(text, Some("bog")), "there is no profile `bog` (is it `big`?)");
    assert_eq!(error(text, Some("xyz")), "there is no profile `xyz` (there is `big`, `small`)");
    assert_eq!(
        error("\nprofile: x\n", None),
        "s.yaml:2: there is no profile `x` (no settings file has `profiles:`)"
    );
}

#[test]
fn a_key_of_wandb_is_refused_wherever_it_is_written_out() {
    for text in [
        "setup: export WANDB_API_KEY=abc\n",
        "setup: [a, 'export WANDB_API_KEY=\"abc\"']\n",
        "export: {WANDB_API_KEY: abc}\n",
        "profiles: {x: {export: {WANDB_API_KEY: abc}}}\n",
        "jobs: 2\n# wandb login 0123456789012345678901234567890123456789\n",
        "setup: >\n  wandb\n  login\n  0123456789012345678901234567890123456789\n",
        "slurm: {comment: WANDB_API_KEY=abc}\n",
    ] {
        let said = problems(text);
        assert!(said.len() == 1 && said[0].contains("written out"), "{text}: {said:?}");
        assert!(!said[0].contains("abc") && !said[0].contains("0123456789"), "{said:?}");
    }
    file("export: {WANDB_API_KEY: $KEY}\nsetup: export WANDB_API_KEY=$(cat ~/.key)\n");
}

#[test]
fn a_file_of_comments_says_nothing() {
    assert_eq!(file("# jobs: 3\n"), SettingsFile::default());
    assert_eq!(file(""), SettingsFile::default());
    assert_eq!(problems("jobs: 1\n---\njobs: 2\n").len(), 1);
    assert!(problems("- jobs\n")[0].contains("not a mapping"));
}

#[test]
fn floors_are_for_the_site_alone() {
    let text = "min_poll: 60\nmax_tasks: 10\nmax_rpc_per_hour: 30\nwatch: forbid\nrequire: [time, account]\nstate_dir: /scratch\n";
    let floors = sources(vec![site(text)], None).settings().floors;
    assert!(floors.no_watchers);
    assert_eq!(floors.require, ["time", "account"]);
    assert_eq!(floors.state_dirs, [Path::new("/scratch")]);
    assert_eq!(problems(text).len(), 6);
    let wrong = read(b"require: [tme, array]\nwatch: never\n", "site.yaml", Path::new("/"), true);
    assert_eq!(wrong.unwrap_err().len(), 3);
}

#[test]
fn a_watcher_rests_as_long_as_the_site_wants() {
    let seconds = Duration::from_secs;
    let none = Floors::default();
    assert_eq!(none.least_pause(10), Duration::ZERO);
    let floors = Floors { min_poll: seconds(60), ..Floors::default() };
    assert_eq!((floors.least_pause(0), floors.least_pause(99)), (seconds(60), seconds(60)));
    let floors = Floors { max_rpc_per_hour: Some(60), ..floors };
    assert_eq!((floors.least_pause(1), floors.least_pause(3)), (seconds(60), seconds(180)));
}

#[test]
fn a_limit_of_the_site_is_never_raised() {
    let floors = |max_tasks| Floors { max_tasks, ..Floors::default() };
    assert_eq!(floors(None).tasks(Some(5)), Some(5));
    assert_eq!(floors(Some(3)).tasks(Some(5)), Some(3));
    assert_eq!(floors(Some(3)).tasks(Some(2)), Some(2));
    assert_eq!(floors(Some(3)).tasks(None), Some(3));
}

#[test]
fn a_demanded_option_is_given_in_whatever_words() {
    let floors =
        Floors { require: ["time", "mem"].map(str::to_owned).to_vec(), ..Floors::default() };
    let missing = |text: &str| {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        floors.missing(&request::read(&words).unwrap()).join(" ")
    };
    assert_eq!(missing(""), "time mem");
    assert_eq!(missing("--mem-per-gpu 4G"), "time");
    assert_eq!(missing("-t 10 --mem 4G"), "");
}

#[test]
fn neither_links_nor_dots_lead_out_of_the_sites_folder() {
    let scratch = tempfile::tempdir().unwrap();
    let (inside, outside) = (scratch.path().join("in"), scratch.path().join("out"));
    for folder in [&inside, &outside] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
    let floors = Floors { state_dirs: vec![inside.clone()], ..Floors::default() };
    assert!(floors.allow_state_dir(&inside.join("a/b")));
    assert!(floors.allow_state_dir(&outside.join("../in/x")));
    for dir in
        [outside.clone(), inside.join("link/x"), inside.join("../out"), inside.join("a/../../out")]
    {
        assert!(!floors.allow_state_dir(&dir), "{}", dir.display());
    }
    assert!(Floors::default().allow_state_dir(&outside));
}

#[test]
fn what_config_show_prints_is_a_settings_file_that_says_the_same() {
    let text = "\
jobs: 5
requeue: no
max-gpu-hours: 2.5
clusters: \"yes\"
setup: ['a: b', \"c\\nd\", '$X', '# e', '']
export: {A: 'x y', B: '007', C: 'null'}
container: {image: 'docker://a:b', args: []}
slurm: {time: 2:00:00, exclusive: true, comment: \"it's # {x}\", partition: 'no'}
sbatch: ['--container-image=a b']
";
    let first = sources(vec![file(text)], None);
    for origins in [false, true] {
        let shown = show(&first, origins);
        let again = sources(vec![file(&shown)], None);
        let what = |sources: &Sources| {
            format!("{:?}", Settings { options: Vec::new(), ..sources.settings() })
        };
        assert_eq!(what(&again), what(&first), "{shown}");
        assert_eq!(words(&again.settings()), words(&first.settings()), "{shown}");
    }
    insta::assert_snapshot!(show(&first, true), @r##"
    jobs: 5                                   # s.yaml:1
    runs-per-job: 1                           # default
    agents: job                               # default
    max-attempts: 3                           # default
    warmup: 4                                 # default
    requeue: false                            # s.yaml:2
    linger: 30                                # default
    max-gpu-hours: 2.5                        # s.yaml:3
    controller: embedded                      # default
    local: false                              # default
    clusters: "yes"                           # s.yaml:4
    setup: ["a: b", "c\nd", "$X", "# e", ""]  # s.yaml:5
    export:
      A: "x y"                                # s.yaml:6
      B: 007                                  # s.yaml:6
      C: "null"                               # s.yaml:6
    container:
      args: []                                # s.yaml:7
      image: docker://a:b                     # s.yaml:7
    slurm:
      time: 2:00:00                           # s.yaml:8
      exclusive: true                         # s.yaml:8
      comment: "it's # {x}"                   # s.yaml:8
      partition: "no"                         # s.yaml:8
    sbatch:
      - "--container-image=a b"               # s.yaml:9
    "##);
}

#[test]
fn variables_say_what_keys_say() {
    let layer = |pairs: &[(&str, &str)]| {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        from_variables(pairs.iter().map(owned))
    };
    let said = layer(&[("SWEEPCTL_JOBS", "7"), ("SWEEPCTL_REQUEUE", "0"), ("SWEEPCTL_SLOT", "x")]);
    let said = said.unwrap();
    let settings = Sources::of(Vec::new(), None, said, Layer::default()).unwrap().settings();
    assert_eq!((settings.jobs, settings.requeue), (Some(7), false));
    let wrong =
        layer(&[("SWEEPCTL_JOBS", "0"), ("SWEEPCTL_LOCAL", "maybe"), ("SWEEPCTL_LINGER", "")]);
    assert_eq!(
        wrong.unwrap_err(),
        [
            "SWEEPCTL_JOBS: `0` is not a whole number, at least 1",
            "SWEEPCTL_LOCAL: `maybe` is not true or false"
        ]
    );
}

#[test]
fn a_variable_of_jobs_is_no_setting() {
    // What runs' programs find in their environment: a `submit` in a job must not read it.
    for name in [
        "SWEEPCTL_METRICS",
        "SWEEPCTL_SLOT",
        "SWEEPCTL_RUN_DIR",
        "SWEEPCTL_SWEEP",
        "SWEEPCTL_SCRATCH",
        "SWEEPCTL_HELD",
        "SWEEPCTL_LINE",
        "SWEEPCTL_STATUS",
    ] {
        assert!(keys::KEYS.iter().all(|key| key.variable != Some(name)), "{name}");
    }
}

#[test]
fn the_reference_has_every_key_and_no_other() {
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/settings.md"))
            .unwrap();
    let rows = |heading: &str| -> Vec<&str> {
        let part = text.split(&format!("\n## {heading}\n")).nth(1).unwrap_or_default();
        let part = part.split("\n## ").next().unwrap_or_default();
        part.lines().filter(|line| line.starts_with("| `")).collect()
    };
    let row = |key: &keys::Key| {
        let code = |word: Option<&str>| word.map(|word| format!("`{word}`")).unwrap_or_default();
        format!(
            "| `{}` | {} | {} | {} |",
            key.name,
            code(key.default),
            code(key.variable),
            key.about
        )
    };
    let want: Vec<String> = keys::KEYS.iter().map(row).collect();
    assert_eq!(rows("Keys"), want, "\n{}", want.join("\n"));
    let more: Vec<String> =
        keys::MORE.iter().map(|(name, about)| format!("| `{name}` | {about} |")).collect();
    assert_eq!(rows("Options, profiles"), more, "\n{}", more.join("\n"));
    let row = |key: &keys::Key| format!("| `{}` | {} |", key.name, key.about);
    let want: Vec<String> = keys::FLOORS.iter().map(row).collect();
    assert_eq!(rows("What a site demands"), want, "\n{}", want.join("\n"));
    let keys::Takes::Parts(parts) = keys::find("container").unwrap().takes else { panic!() };
    let want: Vec<String> = parts.iter().map(row).collect();
    assert_eq!(rows("The container"), want, "\n{}", want.join("\n"));
}

#[test]
fn the_project_file_is_looked_for_upwards() {
    let scratch = tempfile::tempdir().unwrap();
    let deep = scratch.path().join("a/b/c");
    std::fs::create_dir_all(&deep).unwrap();
    let path = scratch.path().join("a").join(PROJECT_FILE);
    std::fs::write(&path, "jobs: 1\n").unwrap();
    assert_eq!(project_file(&deep), Some(path.clone()));
    std::fs::write(deep.join(PROJECT_FILE), "jobs: 1\n").unwrap();
    assert_eq!(project_file(&deep), Some(deep.join(PROJECT_FILE)));
}

proptest::proptest! {
    #[test]
    fn any_file_is_read_or_refused(text in "([a-z-]{0,9}: ?[\\[\\]{},'\"a-z0-9:$ ~-]{0,12}\n){0,6}", is_site: bool) {
        let _ = read(text.as_bytes(), "s.yaml", Path::new("/p"), is_site);
    }

    #[test]
    fn any_text_is_read_back_from_what_config_show_prints(value in "\\PC{1,20}|[a-z0-9:#'\" ]{1,6}") {
        let mut layer = Layer::default();
        layer.set("conda", Some(Value::Text(value.clone())), Origin::Flag);
        layer.set("setup", Some(Value::Lines(vec![value.clone()])), Origin::Flag);
        let all = Sources::of(Vec::new(), None, Layer::default(), layer).unwrap();
        let again = sources(vec![file(&show(&all, true))], None).settings();
        proptest::prop_assert_eq!(again.conda, Some(value.clone()));
        proptest::prop_assert_eq!(again.setup, vec![value]);
    }
}

#[test]
fn paths_may_name_the_home_and_variables() {
    let variable = |name: &str| match name {
        "HOME" => Some("/home/ann".to_owned()),
        "S" => Some("/scratch".to_owned()),
        _ => None,
    };
    let table = [
        ("~/x", "/home/ann/x"),
        ("~", "/home/ann"),
        ("~ann/x", "~ann/x"),
        ("$HOME/$S/${S}x", "/home/ann//scratch//scratchx"),
        ("$Sx/${T}/$/${", "$Sx/${T}/$/${"),
        ("/a/~/b", "/a/~/b"),
    ];
    for (path, want) in table {
        assert_eq!(fill_in(path, &variable), want, "{path}");
    }
}
