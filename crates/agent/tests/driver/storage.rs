//! The disk refuses writes: one notice is shown, the turns continue, and everything is written when there is room again.

use crate::support::*;
use becket_session::Session;
use becket_session::store::{Disk, Io, OpenMode};
use becket_types::{Event, TurnEnd};
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A disk that can be full.
#[derive(Debug, Default)]
struct Full(AtomicBool);

impl Full {
    fn room(&self) -> io::Result<()> {
        if self.0.load(Ordering::SeqCst) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl Io for Full {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.room()?;
        Disk.create_dir(dir)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<File> {
        Disk.open(path, mode)
    }
    fn lock(&self, file: &File) -> Result<(), TryLockError> {
        Disk.lock(file)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        self.room()?;
        Disk.write(file, bytes)
    }
    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        Disk.set_len(file, len)
    }
    fn len(&self, file: &File) -> io::Result<u64> {
        Disk.len(file)
    }
    fn sync(&self, file: &File) -> io::Result<()> {
        self.room()?;
        Disk.sync(file)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Disk.sync_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.room()?;
        Disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.link(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        Disk.read(path)
    }
}

fn notices(rig: &Rig) -> Vec<String> {
    let text = |event: &Event| match event {
        Event::Notice { text, .. } => Some(text.clone()),
        _ => None,
    };
    rig.log.iter().filter_map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_told_once_and_the_session_goes_on() {
    let disk = Arc::new(Full::default());
    let mut setup = Setup::new(vec![say("one"), bash("c1", "make"), say("two"), say("three"), say("four")]);
    setup.disk = Some(disk.clone());
    let mut rig = setup.start();
    rig.turn("first").await;
    assert_eq!(notices(&rig), Vec::<String>::new());

    disk.0.store(true, Ordering::SeqCst);
    for (words, answer) in [("second", "two"), ("third", "three")] {
        let result = rig.turn(words).await;
        assert_eq!((result.end, result.text.as_str()), (TurnEnd::Completed, answer));
    }
    assert_eq!(rig.ran(), ["bash make"]);
    let told = notices(&rig);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("Cannot save"), "{told:?}");

    disk.0.store(false, Ordering::SeqCst);
    assert_eq!(rig.turn("fourth").await.text, "four");
    let all = rig.model.turns().pop().unwrap().lines();
    let setup = rig.again(vec![]).await;
    let session: &Session = setup.session.as_ref().unwrap();
    let stored: Vec<String> = session.view().live().flat_map(|message| render(message)).collect();
    assert_eq!(stored[..all.len()], all);
    assert_eq!(stored.last().unwrap(), "assistant: four");
}
