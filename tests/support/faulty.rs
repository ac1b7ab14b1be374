//! A file system in memory that loses answers, hides names and refuses links when told to.
//!
//! One [`Server`] is mounted several times; each mount is a client, with faults and kernel caches of its own,
//! as the nodes of a cluster are.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use std::{fs, io, thread};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use tempfile::TempDir;

const NO_CACHE: Duration = Duration::ZERO;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Lookup,
    Open,
    Read,
    ReadLink,
    Create,
    Write,
    Fsync,
    FsyncDir,
    Link,
    Symlink,
    Unlink,
    Rename,
    Mkdir,
}

/// What becomes of one operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    No,
    /// Nothing is done, and this is the answer.
    Refuse(Errno),
    /// It is done, and this is the answer.
    Lose(Errno),
    /// A link that is not done, and the answer says that it is.
    Pretend,
    /// The new name is done, and for a while nobody sees it.
    Hide(Duration),
    /// The new name is done, and for a while only this client sees it.
    HideFromOthers(Duration),
    /// It is done late.
    Delay(Duration),
}

type Rule = Arc<dyn Fn(Op, &str) -> Fault + Send + Sync>;

struct Entry {
    ino: u64,
    /// Until when it is hidden, and the client that sees it nevertheless.
    hidden: Option<(Instant, Option<usize>)>,
}

enum Data {
    File(Vec<u8>),
    Symlink(Vec<u8>),
    Folder(BTreeMap<String, Entry>),
}

struct Node {
    /// The name that it was made with.
    name: String,
    data: Data,
}

struct Store {
    nodes: HashMap<u64, Node>,
    clients: usize,
}

impl Store {
    fn folder(&mut self, ino: u64) -> Result<&mut BTreeMap<String, Entry>, Errno> {
        match self.nodes.get_mut(&ino).map(|node| &mut node.data) {
            Some(Data::Folder(entries)) => Ok(entries),
            Some(_) => Err(Errno::ENOTDIR),
            None => Err(Errno::ESTALE),
        }
    }

    fn make(&mut self, folder: u64, name: &str, data: Data) -> Result<u64, Errno> {
        let ino = self.nodes.len() as u64 + 1;
        self.enter(folder, name, ino)?;
        self.nodes.insert(ino, Node { name: name.into(), data });
        Ok(ino)
    }

    fn enter(&mut self, folder: u64, name: &str, ino: u64) -> Result<(), Errno> {
        let entries = self.folder(folder)?;
        if entries.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        entries.insert(name.into(), Entry { ino, hidden: None });
        Ok(())
    }

    fn attr(&self, ino: u64) -> Result<FileAttr, Errno> {
        let node = self.nodes.get(&ino).ok_or(Errno::ESTALE)?;
        let (kind, perm, size) = match &node.data {
            Data::File(bytes) => (FileType::RegularFile, 0o600, bytes.len()),
            Data::Symlink(target) => (FileType::Symlink, 0o777, target.len()),
            Data::Folder(_) => (FileType::Directory, 0o700, 0),
        };
        let time = SystemTime::UNIX_EPOCH;
        Ok(FileAttr {
            ino: INodeNo(ino),
            size: size as u64,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the clients share.
pub(crate) struct Server {
    store: Arc<Mutex<Store>>,
}

impl Server {
    pub(crate) fn new() -> Self {
        let root = Node { name: "/".into(), data: Data::Folder(BTreeMap::new()) };
        let store = Store { nodes: HashMap::from([(INodeNo::ROOT.0, root)]), clients: 0 };
        Self { store: Arc::new(Mutex::new(store)) }
    }

    pub(crate) fn mount(&self) -> io::Result<Client> {
        let number = {
            let mut store = lock(&self.store);
            store.clients += 1;
            store.clients
        };
        let rule: Rule = Arc::new(|_, _| Fault::No);
        let rule = Arc::new(Mutex::new(rule));
        let folder = TempDir::with_prefix("sweepctl-faulty-")?;
        let view = View { number, store: self.store.clone(), rule: rule.clone() };
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faulty".into())];
        config.n_threads = Some(4);
        let session = fuser::spawn_mount(view, folder.path(), &config)?;
        Ok(Client { session: Some(session), folder: Some(folder), rule })
    }

    /// Every name but the folders', whoever may see it.
    pub(crate) fn names(&self) -> Vec<String> {
        let store = lock(&self.store);
        let folders = store.nodes.values().filter_map(|node| match &node.data {
            Data::Folder(entries) => Some(entries),
            _ => None,
        });
        folders
            .flatten()
            .filter(|(_, entry)| {
                !matches!(store.nodes.get(&entry.ino), Some(Node { data: Data::Folder(_), .. }))
            })
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// One mount, taken down when this is dropped.
pub(crate) struct Client {
    session: Option<BackgroundSession>,
    folder: Option<TempDir>,
    rule: Arc<Mutex<Rule>>,
}

impl Client {
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.folder.as_ref().expect("it is there until the drop").path().join(relative)
    }

    /// From now on, `rule` says what becomes of this client's operations.
    pub(crate) fn rule(&self, rule: impl Fn(Op, &str) -> Fault + Send + Sync + 'static) {
        *lock(&self.rule) = Arc::new(rule);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let path = self.path("");
        let detach = rustix::mount::UnmountFlags::DETACH;
        if let Err(error) = rustix::mount::unmount(&path, detach) {
            eprintln!("cannot unmount {}: {error}", path.display());
            // A folder with a mount must not be emptied.
            self.folder.take().map(TempDir::keep);
        }
        drop(self.session.take());
        // Nothing below may follow into the mount: only the empty folder goes.
        if let Some(folder) = self.folder.take() {
            let _ = fs::remove_dir(folder.keep());
        }
    }
}

/// What the kernel talks to for one client.
struct View {
    number: usize,
    store: Arc<Mutex<Store>>,
    rule: Arc<Mutex<Rule>>,
}

impl View {
    /// Does an operation with the fault that it is to have.
    fn act<T>(
        &self,
        op: Op,
        name: &str,
        act: impl FnOnce(&mut Store) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.act_in(op, name, None, act)
    }

    /// The same for an operation that makes `name` in a folder.
    fn act_in<T>(
        &self,
        op: Op,
        name: &str,
        folder: Option<u64>,
        act: impl FnOnce(&mut Store) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let rule = lock(&self.rule).clone();
        self.act_with(rule(op, name), name, folder, act)
    }

    fn act_with<T>(
        &self,
        fault: Fault,
        name: &str,
        folder: Option<u64>,
        act: impl FnOnce(&mut Store) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match fault {
            Fault::Refuse(errno) => return Err(errno),
            Fault::Delay(time) => thread::sleep(time),
            _ => {}
        }
        let mut store = lock(&self.store);
        let done = act(&mut store)?;
        let hidden = match fault {
            Fault::Lose(errno) => return Err(errno),
            Fault::Hide(time) => Some((Instant::now() + time, None)),
            Fault::HideFromOthers(time) => Some((Instant::now() + time, Some(self.number))),
            _ => None,
        };
        if let Some(folder) = folder
            && hidden.is_some()
            && let Some(entry) = store.folder(folder)?.get_mut(name)
        {
            entry.hidden = hidden;
        }
        Ok(done)
    }

    fn name_of(&self, ino: INodeNo) -> String {
        lock(&self.store).nodes.get(&ino.0).map(|node| node.name.clone()).unwrap_or_default()
    }

    fn sees(&self, entry: &Entry) -> bool {
        entry.hidden.is_none_or(|(until, but)| but == Some(self.number) || until <= Instant::now())
    }
}

fn text(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn answer_entry(reply: ReplyEntry, attr: Result<FileAttr, Errno>) {
    match attr {
        Ok(attr) => reply.entry(&NO_CACHE, &attr, Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn answer_empty(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn answer_data(reply: ReplyData, bytes: Result<Vec<u8>, Errno>) {
    match bytes {
        Ok(bytes) => reply.data(&bytes),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for View {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = text(name);
        let attr = self.act(Op::Lookup, &name, |store| {
            let entry = store.folder(parent.0)?.get(&name).filter(|entry| self.sees(entry));
            let ino = entry.ok_or(Errno::ENOENT)?.ino;
            store.attr(ino)
        });
        answer_entry(reply, attr);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match lock(&self.store).attr(ino.0) {
            Ok(attr) => reply.attr(&NO_CACHE, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let name = self.name_of(ino);
        let target =
            self.act(Op::ReadLink, &name, |store| match store.nodes.get(&ino.0).map(|n| &n.data) {
                Some(Data::Symlink(target)) => Ok(target.clone()),
                _ => Err(Errno::EINVAL),
            });
        answer_data(reply, target);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let name = text(name);
        let attr = self.act_in(Op::Mkdir, &name, Some(parent.0), |store| {
            let ino = store.make(parent.0, &name, Data::Folder(BTreeMap::new()))?;
            store.attr(ino)
        });
        answer_entry(reply, attr);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = text(name);
        let done = self.act(Op::Unlink, &name, |store| {
            store.folder(parent.0)?.remove(&name).map(|_| ()).ok_or(Errno::ENOENT)
        });
        answer_empty(reply, done);
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let name = text(name);
        let target = target.as_os_str().as_bytes().to_vec();
        let attr = self.act_in(Op::Symlink, &name, Some(parent.0), |store| {
            let ino = store.make(parent.0, &name, Data::Symlink(target))?;
            store.attr(ino)
        });
        answer_entry(reply, attr);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, newname) = (text(name), text(newname));
        let done = self.act_in(Op::Rename, &newname, Some(newparent.0), |store| {
            let entry = store.folder(parent.0)?.remove(&name).ok_or(Errno::ENOENT)?;
            store.folder(newparent.0)?.insert(newname.clone(), entry);
            Ok(())
        });
        answer_empty(reply, done);
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let name = text(newname);
        let rule = lock(&self.rule).clone();
        let fault = rule(Op::Link, &name);
        let done = if matches!(fault, Fault::Pretend) {
            Ok(())
        } else {
            self.act_with(fault, &name, Some(newparent.0), |store| {
                store.enter(newparent.0, &name, ino.0)
            })
        };
        answer_entry(reply, done.and_then(|()| lock(&self.store).attr(ino.0)));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let name = text(name);
        let attr = self.act_in(Op::Create, &name, Some(parent.0), |store| {
            let ino = store.make(parent.0, &name, Data::File(Vec::new()))?;
            store.attr(ino)
        });
        match attr {
            Ok(attr) => reply.created(
                &NO_CACHE,
                &attr,
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_DIRECT_IO,
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let name = self.name_of(ino);
        match self.act(Op::Open, &name, |_| Ok(())) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let name = self.name_of(ino);
        let bytes = self.act(Op::Read, &name, |store| {
            match store.nodes.get(&ino.0).map(|node| &node.data) {
                Some(Data::File(bytes)) => {
                    let from = bytes.len().min(offset as usize);
                    let to = bytes.len().min(from + size as usize);
                    Ok(bytes[from..to].to_vec())
                }
                _ => Err(Errno::EISDIR),
            }
        });
        answer_data(reply, bytes);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let name = self.name_of(ino);
        // Little at a time, so that there is a half file to be seen.
        let data = &data[..data.len().min(4096)];
        let done = self.act(Op::Write, &name, |store| match store.nodes.get_mut(&ino.0) {
            Some(Node { data: Data::File(bytes), .. }) => {
                bytes.truncate(offset as usize);
                bytes.extend_from_slice(data);
                Ok(())
            }
            _ => Err(Errno::EISDIR),
        });
        match done {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let name = self.name_of(ino);
        answer_empty(reply, self.act(Op::Fsync, &name, |_| Ok(())));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let name = self.name_of(ino);
        answer_empty(reply, self.act(Op::FsyncDir, &name, |_| Ok(())));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut store = lock(&self.store);
        let entries: Vec<(String, u64)> = match store.folder(ino.0) {
            Ok(entries) => entries
                .iter()
                .filter(|(_, entry)| self.sees(entry))
                .map(|(name, entry)| (name.clone(), entry.ino))
                .collect(),
            Err(errno) => return reply.error(errno),
        };
        for (index, (name, ino)) in entries.into_iter().enumerate().skip(offset as usize) {
            let kind = store.attr(ino).map_or(FileType::RegularFile, |attr| attr.kind);
            if reply.add(INodeNo(ino), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
