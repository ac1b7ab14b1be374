//! `create_once` on file systems that lose answers, hide new names and refuse links: at most one call may
//! win, and all must read what the winner wrote.

#[path = "support/faulty.rs"]
mod faulty;
mod support;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use fuser::Errno;
use sweepctl::log::{Created, create_once, nonce, probe, read_once};

use faulty::{Client, Fault, Op, Server};

/// Enough for a few tries.
const PATIENCE: Duration = Duration::from_secs(3);
const RACERS: usize = 8;
/// Clients whose callers race. One more only reads: the kernel lets nobody look into a folder while it
/// changes something there for the same client.
const WRITERS: usize = 2;
const A_WHILE: Duration = Duration::from_millis(250);

/// A server with its clients.
fn start() -> Option<(Server, Vec<Client>)> {
    if !rustix::process::geteuid().is_root() {
        return support::skip("only root may mount a file system");
    }
    if !Path::new("/dev/fuse").exists() {
        return support::skip("there is no /dev/fuse");
    }
    let server = Server::new();
    match (0..=WRITERS).map(|_| server.mount()).collect() {
        Ok(clients) => Some((server, clients)),
        Err(error) => support::skip(&format!("cannot mount a file system: {error}")),
    }
}

fn everywhere(
    clients: &[Client],
    rule: impl Fn(Op, &str) -> Fault + Clone + Send + Sync + 'static,
) {
    for client in clients {
        client.rule(rule.clone());
    }
}

fn on(op: Op, fault: Fault) -> impl Fn(Op, &str) -> Fault + Clone + Send + Sync + 'static {
    move |which, _| if which == op { fault } else { Fault::No }
}

fn no_links(errno: Errno) -> impl Fn(Op, &str) -> Fault + Clone + Send + Sync + 'static {
    on(Op::Link, Fault::Refuse(errno))
}

/// What came of a race: the racers' answers and what stands there at the end.
struct Race {
    mine: usize,
    unknown: usize,
    content: Option<Vec<u8>>,
    /// How often a reader was told an error.
    read_errors: u32,
}

/// Lets eight callers race while others read, and checks what must hold whatever happens.
fn race(clients: &[Client], name: &str, size: usize, patience: Duration) -> Race {
    let contents: Vec<Vec<u8>> = (0..RACERS)
        .map(|racer| {
            let mut content =
                format!("{{\"racer\":{racer},\"nonce\":\"{}\"}}", nonce()).into_bytes();
            content.resize(size.max(content.len()), b'a' + racer as u8);
            content
        })
        .collect();
    let barrier = Barrier::new(RACERS);
    let over = AtomicBool::new(false);
    let read_errors = AtomicU32::new(0);
    let (answers, seen) = thread::scope(|scope| {
        let readers: Vec<_> = clients
            .iter()
            .map(|client| {
                let (over, read_errors) = (&over, &read_errors);
                scope.spawn(move || {
                    let mut seen = HashSet::new();
                    while !over.load(Ordering::Relaxed) {
                        match read_once(&client.path(name)) {
                            Ok(bytes) => seen.extend(bytes),
                            Err(_) => {
                                read_errors.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                        thread::yield_now();
                    }
                    seen
                })
            })
            .collect();
        let racers: Vec<_> = contents
            .iter()
            .enumerate()
            .map(|(racer, content)| {
                let path = clients[racer % WRITERS].path(name);
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    create_once(&path, content, patience)
                })
            })
            .collect();
        let answers: Vec<_> =
            racers.into_iter().map(|racer| racer.join().expect("no panic")).collect();
        over.store(true, Ordering::Relaxed);
        let seen: HashSet<Vec<u8>> =
            readers.into_iter().flat_map(|reader| reader.join().expect("no panic")).collect();
        (answers, seen)
    });

    let mine: Vec<usize> =
        (0..RACERS).filter(|racer| matches!(answers[*racer], Created::Mine)).collect();
    assert!(mine.len() <= 1, "{name}: {} callers won", mine.len());
    everywhere(clients, |_, _| Fault::No);
    thread::sleep(if seen.is_empty() { A_WHILE } else { Duration::ZERO });
    let mut content = None;
    for client in clients {
        let path = client.path(name);
        if seen.is_empty() && mine.is_empty() && read_once(&path).expect("readable").is_none() {
            continue;
        }
        let mut now = None;
        support::wait_until("everybody sees the file", Duration::from_secs(5), || {
            now = read_once(&path).ok().flatten();
            now.is_some()
        });
        assert!(content.is_none() || content == now, "{name}: two contents");
        content = now;
    }
    if let Some(content) = &content {
        assert!(contents.contains(content), "{name}: a content that nobody wrote, or half of it");
        assert!(seen.iter().all(|bytes| bytes == content), "{name}: somebody read something else");
    }
    for (racer, answer) in answers.iter().enumerate() {
        match answer {
            Created::Mine => assert_eq!(Some(&contents[racer]), content.as_ref(), "{name}"),
            Created::Theirs(bytes) => {
                assert_eq!(Some(bytes), content.as_ref(), "{name}");
                assert_ne!(bytes, &contents[racer], "{name}: its own content is called another's");
            }
            Created::Unknown(_) => {}
        }
    }
    let unknown = answers.iter().filter(|a| matches!(a, Created::Unknown(_))).count();
    Race { mine: mine.len(), unknown, content, read_errors: read_errors.into_inner() }
}

/// A race that must have a winner and leave nobody in doubt, nor any file but the one (and its data).
fn decided(server: &Server, clients: &[Client], name: &str, size: usize) {
    let race = race(clients, name, size, PATIENCE);
    assert_eq!((race.mine, race.unknown), (1, 0), "{name}: winners, and callers who do not know");
    assert!(race.content.is_some());
    assert_eq!(race.read_errors, 0, "{name}: a reader met a file that was not whole");
    assert!(
        !server.names().iter().any(|name| name.starts_with(".tmp")),
        "{name}: left over: {:?}",
        server.names()
    );
}

#[test]
fn without_faults_one_wins_and_nothing_is_left_over() {
    let Some((server, clients)) = start() else { return };
    for round in 0..10 {
        decided(&server, &clients, &format!("new/folder/{round}"), 20_000);
    }
    assert_eq!(server.names().len(), 10);
    probe(&clients[0].path("")).unwrap();
}

#[test]
fn c03_the_owner_of_a_link_whose_answer_is_lost_wins() {
    let Some((server, clients)) = start() else { return };
    for errno in [Errno::EIO, Errno::EEXIST, Errno::ESTALE, Errno::ENOENT, Errno::EPERM] {
        everywhere(&clients, on(Op::Link, Fault::Lose(errno)));
        let path = clients[0].path(format!("alone{}", errno.code()));
        assert!(matches!(create_once(&path, b"me", Duration::ZERO), Created::Mine), "{errno:?}");
        decided(&server, &clients, &format!("race{}", errno.code()), 0);
    }
}

#[test]
fn c03_the_owner_of_a_symbolic_link_whose_answer_is_lost_wins() {
    let Some((server, clients)) = start() else { return };
    for (round, errno) in [Errno::EIO, Errno::EEXIST, Errno::EPERM].into_iter().enumerate() {
        for size in [0, 5000] {
            everywhere(&clients, move |op, _| match op {
                Op::Link => Fault::Refuse(Errno::EPERM),
                Op::Symlink => Fault::Lose(errno),
                _ => Fault::No,
            });
            decided(&server, &clients, &format!("{round}-{size}"), size);
        }
    }
}

#[test]
fn who_comes_too_late_and_is_told_another_error_reads_the_winner() {
    let Some((_server, clients)) = start() else { return };
    for errno in [
        Errno::ENOENT,
        Errno::ESTALE,
        Errno::EIO,
        Errno::EPERM,
        Errno::ENOTSUP,
        Errno::EMLINK,
        Errno::ENOSPC,
        Errno::ENOSYS,
    ] {
        let name = errno.code().to_string();
        assert!(matches!(
            create_once(&clients[0].path(&name), b"first", Duration::ZERO),
            Created::Mine
        ));
        clients[1].rule(on(Op::Link, Fault::Refuse(errno)));
        let late = create_once(&clients[1].path(&name), b"late", Duration::ZERO);
        assert!(matches!(late, Created::Theirs(bytes) if bytes == b"first"), "{errno:?}");
    }
}

#[test]
fn links_that_fail_for_a_while_are_tried_again() {
    let Some((server, clients)) = start() else { return };
    for errno in [Errno::ENOENT, Errno::ESTALE, Errno::EIO] {
        let start = Instant::now();
        everywhere(&clients, move |op, _| {
            let early = start.elapsed() < A_WHILE;
            if op == Op::Link && early { Fault::Refuse(errno) } else { Fault::No }
        });
        decided(&server, &clients, &errno.code().to_string(), 0);
    }
}

#[test]
fn a_link_that_is_said_to_be_made_and_is_not_makes_no_owner() {
    let Some((server, clients)) = start() else { return };
    everywhere(&clients, on(Op::Link, Fault::Pretend));
    let race = race(&clients, "always", 0, Duration::from_millis(200));
    assert_eq!((race.mine, race.unknown, race.content), (0, RACERS, None));
    let start = Instant::now();
    everywhere(&clients, move |op, _| {
        let early = start.elapsed() < A_WHILE;
        if op == Op::Link && early { Fault::Pretend } else { Fault::No }
    });
    decided(&server, &clients, "once", 0);
}

#[test]
fn links_that_always_fail_leave_everybody_in_doubt_and_nothing_behind() {
    let Some((server, clients)) = start() else { return };
    for errno in [Errno::ENOENT, Errno::ESTALE, Errno::EIO] {
        everywhere(&clients, on(Op::Link, Fault::Refuse(errno)));
        let race = race(&clients, &errno.code().to_string(), 0, Duration::from_millis(200));
        assert_eq!((race.mine, race.unknown), (0, RACERS));
    }
    assert_eq!(server.names(), [""; 0]);
}

#[test]
fn a_new_name_that_nobody_sees_at_first_has_one_owner() {
    let Some((server, clients)) = start() else { return };
    everywhere(&clients, on(Op::Link, Fault::Hide(A_WHILE)));
    decided(&server, &clients, "links", 0);
    for size in [0, 5000] {
        everywhere(&clients, move |op, _| match op {
            Op::Link => Fault::Refuse(Errno::EPERM),
            Op::Symlink => Fault::Hide(A_WHILE),
            _ => Fault::No,
        });
        decided(&server, &clients, &format!("symlinks{size}"), size);
    }
}

#[test]
fn a_new_name_that_only_its_creator_sees_at_first_has_one_owner() {
    let Some((server, clients)) = start() else { return };
    everywhere(&clients, on(Op::Link, Fault::HideFromOthers(A_WHILE)));
    decided(&server, &clients, "links", 0);
    everywhere(&clients, move |op, _| match op {
        Op::Link => Fault::Refuse(Errno::EPERM),
        Op::Symlink => Fault::HideFromOthers(A_WHILE),
        _ => Fault::No,
    });
    decided(&server, &clients, "symlinks", 5000);
}

#[test]
fn where_links_are_refused_symbolic_links_decide() {
    // ENOSYS is the last one: newer kernels remember it and answer EPERM from then on.
    let Some((server, clients)) = start() else { return };
    for errno in [Errno::EPERM, Errno::ENOTSUP, Errno::EMLINK, Errno::ENOSYS] {
        for size in [0, 20_000] {
            everywhere(&clients, no_links(errno));
            decided(&server, &clients, &format!("{}-{size}", errno.code()), size);
        }
        everywhere(&clients, no_links(errno));
        probe(&clients[0].path("")).unwrap();
    }
    // Four names, four with data that nobody but the winner keeps.
    assert_eq!(server.names().len(), 12, "{:?}", server.names());
}

#[test]
fn a_client_that_can_link_and_one_that_cannot_have_one_winner() {
    let Some((server, clients)) = start() else { return };
    for (round, errno) in
        [Errno::EPERM, Errno::ENOTSUP, Errno::EMLINK, Errno::ENOSYS].into_iter().enumerate()
    {
        for size in [0, 20_000] {
            for again in 0..5 {
                clients[1].rule(no_links(errno));
                decided(&server, &clients, &format!("{round}-{size}-{again}"), size);
            }
        }
        clients[0].rule(on(Op::Link, Fault::HideFromOthers(A_WHILE)));
        clients[1].rule(no_links(errno));
        decided(&server, &clients, &format!("{round}-hidden"), 5000);
    }
}

#[test]
fn no_room_is_said_quickly_and_leaves_nothing_behind() {
    let Some((server, clients)) = start() else { return };
    for errno in [Errno::ENOSPC, Errno::EDQUOT] {
        for op in [Op::Create, Op::Write, Op::Fsync, Op::Link] {
            everywhere(&clients, on(op, Fault::Refuse(errno)));
            let name = format!("{}-{op:?}", errno.code());
            let start = Instant::now();
            let race = race(&clients, &name, 5000, Duration::from_secs(600));
            assert!(start.elapsed() < Duration::from_secs(2), "{name} took too long");
            assert_eq!((race.mine, race.unknown, race.content), (0, RACERS, None), "{name}");
            assert_eq!(server.names(), [""; 0], "{name}");
            let later = create_once(&clients[0].path(&name), b"later", Duration::ZERO);
            assert!(matches!(later, Created::Mine), "{name}");
            fs::remove_file(clients[0].path(&name)).unwrap();
        }
        // Half of it was written.
        let writes = AtomicU64::new(0);
        clients[0].rule(move |op, _| match op {
            Op::Write if writes.fetch_add(1, Ordering::Relaxed) > 0 => Fault::Refuse(errno),
            _ => Fault::No,
        });
        let answer = create_once(&clients[0].path("half"), &[b'x'; 20_000], PATIENCE);
        assert!(matches!(answer, Created::Unknown(_)));
        assert_eq!(server.names(), [""; 0]);
    }
}

#[test]
fn a_file_whose_creation_has_lost_its_answer_is_not_left_over() {
    let Some((server, clients)) = start() else { return };
    for op in [Op::Create, Op::Write, Op::Fsync, Op::Rename] {
        let start = Instant::now();
        everywhere(&clients, move |which, _| match which {
            Op::Link if op == Op::Rename => Fault::Refuse(Errno::EPERM),
            _ if which == op && start.elapsed() < A_WHILE => Fault::Lose(Errno::EIO),
            _ => Fault::No,
        });
        decided(&server, &clients, &format!("{op:?}"), 5000);
    }
}

#[test]
fn folders_that_cannot_be_synced_fail_no_call() {
    let Some((server, clients)) = start() else { return };
    // ENOSYS is the last one: the kernel remembers it and says success.
    for errno in [Errno::EINVAL, Errno::ENOTSUP, Errno::ENOSYS] {
        everywhere(&clients, on(Op::FsyncDir, Fault::Refuse(errno)));
        decided(&server, &clients, &errno.code().to_string(), 0);
        everywhere(&clients, on(Op::FsyncDir, Fault::Refuse(errno)));
        probe(&clients[0].path("")).unwrap();
    }
}

#[test]
fn a_folder_whose_sync_fails_for_another_reason_is_synced_again() {
    let Some((server, clients)) = start() else { return };
    let start = Instant::now();
    everywhere(&clients, move |op, _| {
        let early = start.elapsed() < A_WHILE;
        if op == Op::FsyncDir && early { Fault::Refuse(Errno::EIO) } else { Fault::No }
    });
    decided(&server, &clients, "0", 0);
    everywhere(&clients, on(Op::FsyncDir, Fault::Refuse(Errno::EIO)));
    let race = race(&clients, "1", 0, Duration::from_millis(200));
    assert_eq!((race.mine, race.unknown), (0, RACERS), "what may vanish is nobody's");
}

#[test]
fn a_temporary_file_that_cannot_be_removed_changes_nothing() {
    let Some((_server, clients)) = start() else { return };
    for (name, link) in [
        ("links", Fault::No),
        ("hidden links", Fault::Hide(A_WHILE)),
        ("symlinks", Fault::Refuse(Errno::EPERM)),
    ] {
        everywhere(&clients, move |op, _| match op {
            Op::Link => link,
            Op::Unlink => Fault::Refuse(Errno::EIO),
            _ => Fault::No,
        });
        let race = race(&clients, name, 0, PATIENCE);
        assert_eq!((race.mine, race.unknown), (1, 0), "{name}");
    }
}

#[test]
fn without_any_kind_of_link_the_probe_says_so() {
    let Some((server, clients)) = start() else { return };
    for errno in [Errno::EPERM, Errno::ENOTSUP, Errno::ENOSYS] {
        everywhere(&clients, move |op, _| match op {
            Op::Link | Op::Symlink => Fault::Refuse(errno),
            _ => Fault::No,
        });
        let error = probe(&clients[0].path("")).unwrap_err();
        assert!(error.to_string().contains("neither"), "{error}");
        let start = Instant::now();
        let answer = create_once(&clients[0].path("0"), b"x", Duration::from_secs(600));
        assert!(matches!(answer, Created::Unknown(_)));
        assert!(start.elapsed() < Duration::from_secs(2), "it took too long to say so");
        assert_eq!(server.names(), [""; 0]);
    }
}

#[test]
fn c02_a_crash_before_the_link_shows_nothing_and_blocks_nobody() {
    let Some((_server, clients)) = start() else { return };
    fs::write(clients[0].path(".tmp.0123456789abcdef"), b"half a cont").unwrap();
    fs::write(clients[0].path("@data.0123456789abcdef"), b"half a cont").unwrap();
    assert!(read_once(&clients[1].path("0")).unwrap().is_none());
    let race = race(&clients, "0", 0, PATIENCE);
    assert_eq!((race.mine, race.unknown), (1, 0));
}

#[test]
fn nobody_reads_an_empty_or_half_file_however_slowly_it_is_written() {
    let Some((server, clients)) = start() else { return };
    for (name, link) in [("links", Fault::No), ("symlinks", Fault::Refuse(Errno::EPERM))] {
        everywhere(&clients, move |op, _| match op {
            Op::Link => link,
            Op::Write | Op::Rename | Op::Symlink => Fault::Delay(Duration::from_millis(10)),
            _ => Fault::No,
        });
        decided(&server, &clients, name, 20_000);
    }
}

/// Numbers that look random and are the same for the same seed.
struct Dice(AtomicU64);

impl Dice {
    fn roll(&self, sides: u64) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }

    fn fault(&self, op: Op) -> Fault {
        const ERRORS: [Errno; 7] = [
            Errno::EIO,
            Errno::ESTALE,
            Errno::ENOENT,
            Errno::EEXIST,
            Errno::EPERM,
            Errno::ENOTSUP,
            Errno::ENOSPC,
        ];
        let often = if matches!(op, Op::Link | Op::Symlink) { 2 } else { 15 };
        if self.roll(often) != 0 {
            return Fault::No;
        }
        let errno = ERRORS[self.roll(ERRORS.len() as u64) as usize];
        let time = Duration::from_millis(self.roll(150));
        match (op, self.roll(5)) {
            // Absence may be a lie; content never is.
            (Op::Lookup | Op::Open | Op::Read | Op::ReadLink, _) => Fault::Refuse(errno),
            (_, 0) => Fault::Refuse(errno),
            (_, 1) => Fault::Lose(errno),
            (_, 2) => Fault::Hide(time),
            (Op::Link, 3) => Fault::Pretend,
            _ => Fault::HideFromOthers(time),
        }
    }
}

#[test]
fn with_random_faults_no_path_has_two_owners_or_two_contents() {
    let Some((_server, clients)) = start() else { return };
    let mut won = 0;
    for seed in 0..40 {
        eprintln!("seed {seed}");
        for (number, client) in clients.iter().enumerate() {
            let dice = Dice(AtomicU64::new(seed * 10 + number as u64));
            client.rule(move |op, _| dice.fault(op));
        }
        let size = if seed % 2 == 0 { 0 } else { 5000 };
        let patience = Duration::from_millis(seed % 4 * 150);
        won += race(&clients, &format!("{seed}/file"), size, patience).mine;
    }
    assert!(won > 5, "so many faults test nothing: {won} races had a winner");
}
