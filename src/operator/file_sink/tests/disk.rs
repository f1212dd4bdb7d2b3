//! A folder in memory that keeps live and durable bytes apart, fails on demand, and can lose its power.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use super::super::folder::{AppendFile, Folder};

type Bytes = Arc<Mutex<Inode>>;

#[derive(Clone, Debug, Default)]
struct Inode {
    live: Vec<u8>,
    /// What a power loss leaves.
    durable: Vec<u8>,
    /// A sync failed: the lost pages count as clean from then on, as on Linux.
    lost: bool,
}

/// An operation that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Append,
    SyncFile,
    SyncFolder,
    Rename,
    Create,
    /// Writing zeros into a new file.
    Prepare,
}

#[derive(Default)]
struct State {
    live: BTreeMap<String, Bytes>,
    durable: BTreeMap<String, Bytes>,
    faults: Vec<Fault>,
    always: Option<Fault>,
}

/// Locks are taken in one order: the folder's before a file's.
#[derive(Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The next operation of this kind fails.
    pub fn fail_once(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Every operation of this kind fails until told otherwise.
    pub fn fail_always(&self, fault: Option<Fault>) {
        self.state().always = fault;
    }

    pub fn heal(&self) {
        self.state().faults.clear();
    }

    fn check(&self, fault: Fault) -> io::Result<()> {
        let mut state = self.state();
        let once = state.faults.iter().position(|&armed| armed == fault);
        if let Some(index) = once {
            state.faults.remove(index);
        } else if state.always != Some(fault) {
            return Ok(());
        }
        Err(io::Error::other(format!("injected at {fault:?}")))
    }

    /// The folder as the process leaves it when it is killed at this moment.
    pub fn killed(&self) -> Disk {
        let state = self.state();
        let mut copies: BTreeMap<*const Mutex<Inode>, Bytes> = BTreeMap::new();
        let mut copy = |files: &BTreeMap<String, Bytes>| -> BTreeMap<String, Bytes> {
            let mut inode = |file: &Bytes| {
                let copied = copies.entry(Arc::as_ptr(file));
                Arc::clone(copied.or_insert_with(|| Arc::new(Mutex::new(file.lock().unwrap().clone()))))
            };
            files.iter().map(|(name, file)| (name.clone(), inode(file))).collect()
        };
        let (live, durable) = (copy(&state.live), copy(&state.durable));
        Disk(Arc::new(Mutex::new(State { live, durable, ..State::default() })))
    }

    /// Only what was made durable is left.
    pub fn lose_power(&self) {
        let mut state = self.state();
        state.live = state.durable.clone();
        for file in state.live.values() {
            let mut file = file.lock().unwrap();
            file.live = file.durable.clone();
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.state().live.keys().cloned().collect()
    }

    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.state().live.get(name).map(|file| file.lock().unwrap().live.clone())
    }

    /// Puts a file there from outside, durable.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let file = Arc::new(Mutex::new(Inode { live: bytes.to_vec(), durable: bytes.to_vec(), lost: false }));
        let mut state = self.state();
        state.live.insert(name.to_string(), Arc::clone(&file));
        state.durable.insert(name.to_string(), file);
    }

    pub fn delete(&self, name: &str) {
        let mut state = self.state();
        state.live.remove(name);
        state.durable.remove(name);
    }

    fn open(&self, name: &str) -> io::Result<Bytes> {
        self.state().live.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// An open file and where in it the next bytes go.
struct Handle(Disk, Bytes, usize);

impl Inode {
    fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        self.live.resize(self.live.len().max(end), 0);
        self.live[at..end].copy_from_slice(data);
    }
}

impl AppendFile for Handle {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        let check = self.0.check(Fault::Append);
        let mut file = self.1.lock().unwrap();
        if let Err(error) = check {
            // A short write.
            file.write(self.2, &data[..data.len() / 2]);
            return Err(error);
        }
        file.write(self.2, data);
        self.2 += data.len();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let check = self.0.check(Fault::SyncFile);
        let mut file = self.1.lock().unwrap();
        if let Err(error) = check {
            file.lost = true;
            return Err(error);
        }
        if !file.lost {
            file.durable = file.live.clone();
        }
        Ok(())
    }
}

impl Folder for Disk {
    fn path(&self) -> &Path {
        Path::new("/simulated")
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.state();
        Ok(state.live.iter().map(|(name, file)| (name.clone(), file.lock().unwrap().live.len() as u64)).collect())
    }

    fn create(&self, name: &str, prepared: u64) -> io::Result<Box<dyn AppendFile>> {
        self.check(Fault::Create)?;
        let unprepared = if prepared > 0 { self.check(Fault::Prepare) } else { Ok(()) };
        let mut state = self.state();
        if state.live.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Less than is asked for: the sink must not rely on more than its own bytes.
        let zeros = vec![0; prepared.min(256) as usize];
        let file = Arc::new(Mutex::new(Inode { live: zeros.clone(), durable: zeros, lost: false }));
        state.live.insert(name.to_string(), Arc::clone(&file));
        // It is there all the same, as it would be after a failed write.
        unprepared?;
        Ok(Box::new(Handle(self.clone(), file, 0)))
    }

    fn read(&self, name: &str, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let bytes = self.open(name)?.lock().unwrap().live.clone();
        // Small and uneven, so that ranges begin and end inside of chunks.
        bytes.chunks(7).for_each(take);
        Ok(())
    }

    fn cut(&self, name: &str, bytes: u64) -> io::Result<()> {
        let file = self.open(name)?;
        let mut file = file.lock().unwrap();
        file.live.truncate(bytes as usize);
        file.durable.truncate(bytes as usize);
        if !file.lost {
            file.durable = file.live.clone();
        }
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        if self.state().live.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.replace(from, to)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.check(Fault::Rename)?;
        let mut state = self.state();
        let file = state.live.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.live.insert(to.to_string(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().live.remove(name);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check(Fault::SyncFolder)?;
        let mut state = self.state();
        state.durable = state.live.clone();
        Ok(())
    }
}
