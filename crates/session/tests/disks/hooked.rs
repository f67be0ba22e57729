//! A disk with a hook in front of each call: to fail it, to count it, or to do something else in between, as another process
//! would.

use becket_session::store::{Disk, Io, OpenMode, PathState};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Kind of call, for hooks that apply only to some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Dir,
    Open,
    Lock,
    Write,
    Cut,
    Length,
    Sync,
    Rename,
    Link,
    Remove,
    Read,
    Named,
}

type Hook = Box<dyn Fn(usize, Call) -> io::Result<()> + Send + Sync>;

/// A disk with a hook. `hook` gets the number of each call, from 1, before the call happens; if it returns an error, the call fails
/// with it. Nothing is synced, but syncs count as calls. A write that fails first writes `share` 64ths of its bytes.
pub struct Hooked {
    calls: AtomicUsize,
    on: AtomicBool,
    hook: Hook,
    share: usize,
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked").field("calls", &self.calls).finish_non_exhaustive()
    }
}

impl Hooked {
    pub fn new(
        share: usize,
        hook: impl Fn(usize, Call) -> io::Result<()> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (calls, on) = (AtomicUsize::new(0), AtomicBool::new(true));
        Arc::new(Self { calls, on, hook: Box::new(hook), share })
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Switches the hook off.
    pub fn heal(&self) {
        self.on.store(false, Ordering::SeqCst);
    }

    fn before(&self, call: Call) -> io::Result<()> {
        let n = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.on.load(Ordering::SeqCst) { (self.hook)(n, call) } else { Ok(()) }
    }
}

impl Io for Hooked {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.before(Call::Dir)?;
        Disk.create_dir(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        self.before(Call::Open)?;
        Disk.open(path, mode)
    }
    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        self.before(Call::Lock).map_err(TryLockError::Error)?;
        Disk.lock(file)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.before(Call::Write) {
            let torn = &bytes[..bytes.len() * self.share / 64];
            if !torn.is_empty() {
                Disk.write(file, torn)?;
            }
            return Err(error);
        }
        Disk.write(file, bytes)
    }
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        self.before(Call::Cut)?;
        Disk.set_len(file, len)
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        self.before(Call::Length)?;
        Disk.len(file)
    }
    fn sync(&self, _: &File) -> io::Result<()> {
        self.before(Call::Sync)
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.before(Call::Sync)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(Call::Rename)?;
        Disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(Call::Link)?;
        Disk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.before(Call::Remove)?;
        Disk.remove(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.before(Call::Read)?;
        Disk.read(path)
    }
    fn named(&self, file: &File, path: &Path) -> io::Result<PathState> {
        self.before(Call::Named)?;
        Disk.named(file, path)
    }
}
