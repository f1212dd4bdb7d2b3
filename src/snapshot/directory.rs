//! A store in a folder: `DIR/<job>/` with `lock`, `manifest` and `log/<segment>.log`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::StoreError;
use super::pwrite::PwriteIo;
use super::segment_file::{SegmentFolder, sync_folder};
use super::store::{SegmentIo, Store};
use super::uring::UringIo;
use crate::failpoint::{self, Failpoint};

/// No manifest is larger: what is read of a file that is none.
const MANIFEST_MAX_BYTES: u64 = 16 << 20;

/// One job's store in the file system. It is locked while this value lives, against other processes and tools too.
#[derive(Debug)]
pub struct DirectoryStore {
    folder: PathBuf,
    segments: SegmentFolder,
    /// The segment that was read last.
    reading: Mutex<Option<(u32, File)>>,
    use_ring: bool,
    _lock: File,
}

impl DirectoryStore {
    /// Opens the store of `job` below `dir`, and creates the folders that are missing.
    ///
    /// # Errors
    /// [`StoreError::JobName`], [`StoreError::Locked`], [`StoreError::Io`].
    pub fn create(dir: &Path, job: &str) -> Result<Self, StoreError> {
        let folder = folder_of(dir, job)?;
        let log = folder.join("log");
        fs::create_dir_all(&log).map_err(StoreError::io("create", show(&log)))?;
        for created in [dir, &folder] {
            sync_folder(created).map_err(StoreError::io("make durable", show(created)))?;
        }
        Self::lock(folder)
    }

    /// Opens the store of `job` below `dir`.
    ///
    /// # Errors
    /// [`StoreError::Missing`] if there is none, and as [`create`](Self::create).
    pub fn open(dir: &Path, job: &str) -> Result<Self, StoreError> {
        let folder = folder_of(dir, job)?;
        match folder.join("log").metadata() {
            Ok(_) => Self::lock(folder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Missing { place: show(&folder) }),
            Err(error) => Err(StoreError::io("open", show(&folder))(error)),
        }
    }

    /// The jobs that have a store below `dir`, by name.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the folder cannot be read.
    pub fn jobs(dir: &Path) -> Result<Vec<String>, StoreError> {
        let read = |error| StoreError::io("read", show(dir))(error);
        let mut jobs = Vec::new();
        for entry in fs::read_dir(dir).map_err(read)? {
            let entry = entry.map_err(read)?;
            if entry.path().join("manifest").exists() {
                jobs.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        jobs.sort_unstable();
        Ok(jobs)
    }

    /// Writes with `pwrite` even where io_uring is possible: where a ring would be in the way, and in tests.
    #[must_use]
    pub fn without_io_uring(mut self) -> Self {
        self.use_ring = false;
        self
    }

    /// The job's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Removes segments; one that is not there is no error. Which ones can go,
    /// [`CheckpointLog::superfluous_segments`](super::CheckpointLog::superfluous_segments) says.
    ///
    /// # Errors
    /// [`StoreError::Io`] where a file cannot be removed.
    pub fn remove_segments(&self, segments: &[u32]) -> Result<(), StoreError> {
        segments.iter().try_for_each(|&segment| remove(&self.segments.path(segment)))
    }

    /// Removes everything that the store holds, and no other file: what is there afterwards is a new, empty store, still
    /// locked.
    ///
    /// # Errors
    /// [`StoreError::Io`] where a file cannot be removed. The manifest goes first, so that what an interrupted removal
    /// leaves is no store.
    pub fn erase(&self) -> Result<(), StoreError> {
        remove(&self.manifest())?;
        sync_folder(&self.folder).map_err(StoreError::io("make durable", show(&self.folder)))?;
        self.remove_segments(&self.segments()?)
    }

    fn lock(folder: PathBuf) -> Result<Self, StoreError> {
        let path = folder.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(StoreError::io("open", show(&path)))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(StoreError::Locked { place: show(&path), holder: holder(&mut lock) }),
            Err(error) => return Err(StoreError::io("lock", show(&path))(error.into())),
        }
        // For the message of whoever is refused; the lock holds without it.
        let _ = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
        let segments = SegmentFolder::new(folder.join("log"));
        let store = Self { folder, segments, reading: Mutex::new(None), use_ring: true, _lock: lock };
        // What a crash in the middle of a replacement has left.
        remove(&store.manifest_new()).map(|()| store)
    }

    fn manifest(&self) -> PathBuf {
        self.folder.join("manifest")
    }

    fn manifest_new(&self) -> PathBuf {
        self.folder.join("manifest.new")
    }
}

/// Who holds the lock, as far as the file tells.
fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    let read = lock.rewind().and_then(|()| lock.take(20).read_to_string(&mut text));
    match (read, text.trim().parse::<u32>()) {
        (Ok(_), Ok(pid)) => format!("process {pid}"),
        _ => "another process".into(),
    }
}

fn folder_of(dir: &Path, job: &str) -> Result<PathBuf, StoreError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let good = (1..=100).contains(&job.len()) && job.bytes().all(plain) && !job.starts_with('.');
    match good {
        true => Ok(dir.join(job)),
        false => Err(StoreError::JobName { name: job.into() }),
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", show(path))(error)),
        _ => Ok(()),
    }
}

fn show(path: &Path) -> String {
    path.display().to_string()
}

impl Store for DirectoryStore {
    fn place(&self) -> String {
        show(&self.folder)
    }

    fn manifest_place(&self) -> String {
        show(&self.manifest())
    }

    fn segment_place(&self, segment: u32) -> String {
        show(&self.segments.path(segment))
    }

    fn read_manifest(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.manifest();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("open", show(&path))(error)),
        };
        let mut bytes = Vec::new();
        file.take(MANIFEST_MAX_BYTES).read_to_end(&mut bytes).map_err(StoreError::io("read", show(&path)))?;
        Ok(Some(bytes))
    }

    fn replace_manifest(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let (old, new) = (self.manifest(), self.manifest_new());
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(StoreError::io("write", show(&new)))?;
        failpoint::hit(Failpoint::BeforeRename)
            .and_then(|()| fs::rename(&new, &old))
            .map_err(StoreError::io("replace", show(&old)))?;
        failpoint::hit(Failpoint::AfterRename)
            .and_then(|()| sync_folder(&self.folder))
            .map_err(StoreError::io("make durable", show(&self.folder)))
    }

    fn segments(&self) -> Result<Vec<u32>, StoreError> {
        let log = self.folder.join("log");
        let list = || -> io::Result<Vec<u32>> {
            let mut numbers = Vec::new();
            for entry in fs::read_dir(&log)? {
                numbers.extend(entry?.file_name().to_str().and_then(SegmentFolder::number));
            }
            numbers.sort_unstable();
            Ok(numbers)
        };
        list().map_err(StoreError::io("list", show(&log)))
    }

    fn read(&self, segment: u32, offset: u64, bytes: &mut [u8]) -> Result<usize, StoreError> {
        // A panic while it is held leaves an open file at worst.
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.segments.path(segment);
        let file = match &mut *reading {
            Some((open, file)) if *open == segment => &*file,
            other => {
                let file = File::open(&path).map_err(StoreError::io("open", show(&path)))?;
                &other.insert((segment, file)).1
            }
        };
        let mut read = 0;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StoreError::io("read", show(&path))(error)),
            }
        }
        Ok(read)
    }

    fn trim(&self, segment: u32, len: u64) -> Result<(), StoreError> {
        let path = self.segments.path(segment);
        let trim = || {
            let file = OpenOptions::new().write(true).open(&path)?;
            // Never longer: a cut that lies behind the end has been overtaken by events.
            if file.metadata()?.len() > len { file.set_len(len) } else { Ok(()) }
        };
        trim().map_err(StoreError::io("cut", show(&path)))
    }

    fn segment_io(&self) -> Result<Box<dyn SegmentIo>, StoreError> {
        let pwrite = |why: String| Box::new(PwriteIo::new(self.segments.clone(), why));
        if !self.use_ring {
            return Ok(pwrite("io_uring is switched off".into()));
        }
        Ok(match UringIo::new(self.segments.clone()) {
            Ok(io) => Box::new(io),
            Err(error) => pwrite(format!("io_uring is refused: {error}")),
        })
    }
}
