//! `create_once`: a file that appears with its content, for the first who asks and for nobody else.
//!
//! Errors decide nothing, the content does: an NFS client that repeats a lost request tells the creator
//! EEXIST, and a stale folder handle may say ENOENT to one who came too late.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::nonce;

/// Contents above this go to a file of their own where links are symbolic (many file systems end at 4095).
const SYMLINK_LIMIT: usize = 1000;

/// What became of a file that was to be created.
#[derive(Debug)]
pub enum Created {
    /// It is there with the given content: this call decided.
    Mine,
    /// It is there with another content, given here.
    Theirs(Vec<u8>),
    /// Nobody can tell; the error is the last one seen.
    Unknown(io::Error),
}

/// Creates `path` with `content`, which must hold something that no other call's content holds.
///
/// The folder is made if it is missing. Tries for at most `patience` where the file system gives no clear
/// answer, and not at all again where it says that there is no room, no right or no way.
pub fn create_once(path: &Path, content: &[u8], patience: Duration) -> Created {
    let until = Instant::now() + patience;
    let mut pause = Duration::from_millis(100);
    // One for all tries: a link of an earlier one may yet appear, and must not dangle then.
    let data = path.with_file_name(format!("@data.{}", nonce()));
    loop {
        let error = match attempt(path, content, &data) {
            Ok(None) => {
                crate::abort::step();
                return Created::Mine;
            }
            Ok(Some(theirs)) => {
                if content.len() > SYMLINK_LIMIT {
                    let _ = fs::remove_file(&data);
                }
                return Created::Theirs(theirs);
            }
            Err(error) => error,
        };
        use io::ErrorKind::{
            PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull, Unsupported,
        };
        let hopeless = matches!(
            error.kind(),
            PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull | Unsupported
        );
        if hopeless || Instant::now() + pause > until {
            return Created::Unknown(error);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

/// A temporary file, which goes when this is dropped.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// One try: None when the file holds our content, else what it holds.
fn attempt(path: &Path, content: &[u8], data: &Path) -> io::Result<Option<Vec<u8>>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Each try has its own: an earlier one's may be the file by now, and stay when it cannot be removed.
    let tmp = Temporary(folder.join(format!(".tmp.{}", nonce())));
    if let Err(error) = write_synced(&tmp.0, content) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        create_folder(folder)?;
        write_synced(&tmp.0, content)?;
    }
    let mut made = fs::hard_link(&tmp.0, path);
    let mut found = read_once(path);
    if let (Ok(None), Err(error)) = (&found, &made)
        && links_are_refused(error)
    {
        // From here on the refusal says nothing more: whether to try again is for the symbolic link.
        made = link_symbolically(&tmp.0, content, data, path);
        found = read_once(path);
    }
    drop(tmp);
    // The name must be as durable as the content before anybody acts on it.
    sync_folder(folder)?;
    match found? {
        Some(bytes) if bytes == content => Ok(None),
        Some(bytes) => Ok(Some(bytes)),
        None => Err(made.err().unwrap_or_else(|| io::ErrorKind::NotFound.into())),
    }
}

/// Makes `path` a symbolic link whose text is the content or, if that is long, the name of `data`.
fn link_symbolically(tmp: &Path, content: &[u8], data: &Path, path: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let target = if content.len() > SYMLINK_LIMIT {
        fs::rename(tmp, data)?;
        // A link that outlives its data in a crash would block the log for ever.
        sync_folder(path.parent().unwrap_or(Path::new(".")))?;
        data.file_name().unwrap_or_default()
    } else {
        std::ffi::OsStr::from_bytes(content)
    };
    symlink(target, path).map_err(|error| {
        if !links_are_refused(&error) {
            return error;
        }
        let why = format!("neither hard nor symbolic links can be made here: {error}");
        io::Error::new(io::ErrorKind::Unsupported, why)
    })
}

/// Makes a folder, and those above it that are missing, as durable as what will be put there: a log whose
/// folder vanishes in a crash is gone with it.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Ok(()) => {}
        // Somebody else may have made it a moment ago, and not have come to the fsync.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_folder(folder.parent().ok_or(error)?)?;
            match fs::create_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Err(error) => return Err(error),
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    sync_folder(above.unwrap_or(Path::new(".")))
}

/// Makes a folder's names durable.
///
/// Some file systems have no fsync for folders (EINVAL, ENOTSUP, ENOSYS): nobody can do more there, and
/// that must not keep the call from its answer. Any other error does, as the name may vanish in a crash.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    use rustix::io::Errno;
    #[cfg(test)]
    SYNCED.with_borrow_mut(|synced| synced.push(folder.to_owned()));
    let Err(error) = File::open(folder)?.sync_all() else { return Ok(()) };
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        _ => Err(error),
    }
}

fn links_are_refused(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK)
    )
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Reads a file made by [`create_once`]; None if it is not seen.
pub fn read_once(path: &Path) -> io::Result<Option<Vec<u8>>> {
    use rustix::fs::OFlags;
    #[cfg(test)]
    READS.set(READS.get() + 1);
    let not_followed =
        OpenOptions::new().read(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    let mut file = match not_followed {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return read_symlink(path).map(Some);
        }
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    Ok(Some(bytes))
}

fn read_symlink(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let target = fs::read_link(path)?.into_os_string().into_vec();
    if target.starts_with(b"@data.") {
        let name = String::from_utf8_lossy(&target).into_owned();
        return fs::read(path.with_file_name(name));
    }
    Ok(target)
}

/// Finds out whether `folder` can hold such files at all; the error says why not.
pub fn probe(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".tmp.probe.{}", nonce()));
    let content = nonce();
    let first = create_once(&path, content.as_bytes(), Duration::ZERO);
    let second = create_once(&path, nonce().as_bytes(), Duration::ZERO);
    let _ = fs::remove_file(&path);
    match (first, second) {
        (Created::Mine, Created::Theirs(bytes)) if bytes == content.as_bytes() => Ok(()),
        (Created::Unknown(error), _) | (_, Created::Unknown(error)) => Err(error),
        _ => Err(io::Error::other("a file could be created twice")),
    }
}

#[cfg(test)]
thread_local! {
    /// How many files this thread has looked for.
    pub static READS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    /// The folders that this thread has made durable, in turn.
    pub static SYNCED: std::cell::RefCell<Vec<PathBuf>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_as_durable_as_what_is_in_it_and_an_old_one_costs_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let synced = |file: &str| {
            SYNCED.take();
            let path = folder.path().join(file);
            assert!(matches!(create_once(&path, file.as_bytes(), Duration::ZERO), Created::Mine));
            let synced = SYNCED.take();
            let inside = |path: &PathBuf| path.strip_prefix(&folder).unwrap().to_owned();
            synced.iter().map(inside).collect::<Vec<_>>()
        };
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(synced("a/b/0"), paths(&["", "a", "a/b"]));
        assert_eq!(synced("a/b/1"), paths(&["a/b"]));
    }

    /// Folders on the file systems at hand: the temporary folder's and, where it exists, a tmpfs.
    fn folders() -> Vec<tempfile::TempDir> {
        let mut all = vec![tempfile::tempdir().unwrap()];
        if Path::new("/dev/shm").is_dir() {
            all.extend(tempfile::tempdir_in("/dev/shm"));
        }
        all
    }

    #[test]
    fn the_first_decides_and_everybody_else_reads_its_content() {
        for folder in folders() {
            let path = folder.path().join("a/b/0");
            assert!(matches!(create_once(&path, b"one", Duration::ZERO), Created::Mine));
            let Created::Theirs(bytes) = create_once(&path, b"two", Duration::ZERO) else {
                panic!("a second creator won");
            };
            assert_eq!(bytes, b"one");
            assert_eq!(
                fs::read_dir(path.parent().unwrap()).unwrap().count(),
                1,
                "nothing is left over"
            );
        }
    }

    #[test]
    fn c03_the_owner_whose_answer_was_lost_recognises_its_own_content() {
        for folder in folders() {
            let path = folder.path().join("0");
            // The link was made and its answer lost: the repeated request meets the file.
            fs::write(&path, b"mine-nonce").unwrap();
            assert!(matches!(create_once(&path, b"mine-nonce", Duration::ZERO), Created::Mine));
        }
    }

    #[test]
    fn of_many_at_once_exactly_one_wins() {
        for folder in folders() {
            for round in 0..20 {
                let path = folder.path().join(round.to_string());
                let wins = std::thread::scope(|scope| {
                    let racers: Vec<_> = (0..8)
                        .map(|racer: u32| {
                            let path = &path;
                            scope.spawn(move || {
                                let content = racer.to_string();
                                matches!(
                                    create_once(path, content.as_bytes(), Duration::from_secs(5)),
                                    Created::Mine
                                )
                            })
                        })
                        .collect();
                    racers.into_iter().map(|r| r.join().unwrap()).filter(|w| *w).count()
                });
                assert_eq!(wins, 1);
            }
        }
    }

    #[test]
    fn a_symbolic_link_is_read_by_its_text_and_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0");
        symlink("{\"v\":1}", &path).unwrap();
        assert_eq!(read_once(&path).unwrap().unwrap(), b"{\"v\":1}");
        fs::write(folder.path().join("@data.x"), b"long").unwrap();
        symlink("@data.x", folder.path().join("1")).unwrap();
        assert_eq!(read_once(&folder.path().join("1")).unwrap().unwrap(), b"long");
    }

    #[test]
    fn no_right_to_write_is_not_tried_for_minutes() {
        let path = Path::new("/proc/self/no-such-folder/0");
        assert!(matches!(create_once(path, b"x", Duration::from_secs(1)), Created::Unknown(_)));
    }

    #[test]
    fn a_usable_folder_passes_the_probe() {
        for folder in folders() {
            probe(folder.path()).unwrap();
        }
    }
}
