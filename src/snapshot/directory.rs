//! A store in a folder of the file system.
//!
//! ```text
//! DIR/<job>/lock                  flock: one process at a time
//! DIR/<job>/manifest              replaced by temp file, fsync, rename, fsync of the folder
//! DIR/<job>/log/<segment>.log     preallocated, append-only; ten digits, so that names sort as numbers
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::StoreError;
use super::pwrite::PwriteIo;
use super::segment::Segments;
use super::store::{SegmentIo, Store};
use super::uring::UringIo;
use crate::failpoint::{self, Failpoint};

/// The longest job name.
const NAME_MAX: usize = 100;

/// How segments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WriteBackend {
    /// io_uring, or `pwrite` where it is refused.
    #[default]
    Auto,
    /// `pwrite` and `fdatasync`.
    Pwrite,
}

/// One job's folder, locked for this process.
#[derive(Debug)]
pub struct DirectoryStore {
    root: PathBuf,
    backend: WriteBackend,
    /// Holds the lock as long as the store lives.
    _lock: File,
}

impl DirectoryStore {
    /// The store of `job` in `directory`; both are made where they do not exist.
    ///
    /// # Errors
    /// [`StoreError::JobName`], [`StoreError::Locked`] if a process has it open, [`StoreError::Io`].
    pub fn open(directory: &Path, job: &str) -> Result<Self, StoreError> {
        check_name(job)?;
        let root = directory.join(job);
        let log = root.join("log");
        fs::create_dir_all(&log).map_err(StoreError::io("create", display(&log)))?;
        Self::locked(root)
    }

    /// The store of `job` in `directory`, which must exist.
    ///
    /// # Errors
    /// [`StoreError::Missing`], and as [`open`](Self::open).
    pub fn existing(directory: &Path, job: &str) -> Result<Self, StoreError> {
        check_name(job)?;
        let root = directory.join(job);
        if !root.join("manifest").exists() {
            return Err(StoreError::Missing { place: display(&root) });
        }
        Self::locked(root)
    }

    /// The jobs that have a store in `directory`, by name.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the folder cannot be read.
    pub fn jobs(directory: &Path) -> Result<Vec<String>, StoreError> {
        let read = |error| StoreError::io("read", display(directory))(error);
        let mut jobs = Vec::new();
        for entry in fs::read_dir(directory).map_err(read)? {
            let entry = entry.map_err(read)?;
            if entry.path().join("manifest").exists() {
                jobs.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        jobs.sort_unstable();
        Ok(jobs)
    }

    /// Chooses how segments are written.
    pub fn backend(mut self, backend: WriteBackend) -> Self {
        self.backend = backend;
        self
    }

    /// The job's folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Removes segments; one that is not there is no error. Which ones can go,
    /// [`CheckpointLog::superfluous_segments`](super::CheckpointLog::superfluous_segments) says.
    ///
    /// # Errors
    /// [`StoreError::Io`] where a file cannot be removed.
    pub fn remove_segments(&self, segments: &[u32]) -> Result<(), StoreError> {
        segments.iter().try_for_each(|&segment| remove(&self.segments_in().path(segment)))
    }

    /// Removes everything that the store holds, and no other file: what is there afterwards is a new, empty store, still
    /// locked.
    ///
    /// # Errors
    /// [`StoreError::Io`] where a file cannot be removed. The manifest goes first, so that what an interrupted removal
    /// leaves is no store.
    pub fn erase(&self) -> Result<(), StoreError> {
        remove(&self.manifest())?;
        remove(&self.root.join("manifest.new"))?;
        let sync = sync_folder(&self.root);
        sync.map_err(StoreError::io("sync", display(&self.root)))?;
        self.remove_segments(&self.segments()?)
    }

    fn locked(root: PathBuf) -> Result<Self, StoreError> {
        let path = root.join("lock");
        let io = |action| StoreError::io(action, display(&path));
        let mut lock =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io("open"))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            // Who holds it is a courtesy; the lock itself has been refused whatever the file says.
            let _ = lock.read_to_string(&mut holder);
            let holder = holder.trim();
            let holder = if holder.is_empty() { "another process".to_string() } else { format!("process {holder}") };
            return Err(StoreError::Locked { place: display(&path), holder });
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(io("write"))?;
        Ok(Self { root, backend: WriteBackend::Auto, _lock: lock })
    }

    fn manifest(&self) -> PathBuf {
        self.root.join("manifest")
    }

    fn segments_in(&self) -> Segments {
        Segments::new(self.root.join("log"))
    }
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io("remove", display(path))(error)),
        _ => Ok(()),
    }
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn check_name(name: &str) -> Result<(), StoreError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_MAX || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(StoreError::JobName { name: name.to_string() });
    }
    Ok(())
}

/// Makes a change of names in a folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Store for DirectoryStore {
    fn place(&self) -> String {
        display(&self.root)
    }

    fn manifest_place(&self) -> String {
        display(&self.manifest())
    }

    fn segment_place(&self, segment: u32) -> String {
        display(&self.segments_in().path(segment))
    }

    fn read_manifest(&self) -> Result<Option<Vec<u8>>, StoreError> {
        match fs::read(self.manifest()) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", self.manifest_place())(error)),
        }
    }

    fn replace_manifest(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let new = self.root.join("manifest.new");
        let replace = || {
            let mut file = File::create(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            failpoint::hit(Failpoint::BeforeRename)?;
            fs::rename(&new, self.manifest())?;
            failpoint::hit(Failpoint::AfterRename)?;
            sync_folder(&self.root)
        };
        replace().map_err(StoreError::io("replace", self.manifest_place()))
    }

    fn segments(&self) -> Result<Vec<u32>, StoreError> {
        let segments = self.segments_in();
        segments.numbers().map_err(StoreError::io("read", display(segments.folder())))
    }

    fn read(&self, segment: u32, offset: u64, bytes: &mut [u8]) -> Result<usize, StoreError> {
        let path = self.segments_in().path(segment);
        let mut read = || {
            let file = File::open(&path)?;
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(n) => filled += n,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(filled)
        };
        read().map_err(StoreError::io("read", display(&path)))
    }

    fn trim(&self, segment: u32, len: u64) -> Result<(), StoreError> {
        let path = self.segments_in().path(segment);
        let trim = || {
            let file = OpenOptions::new().write(true).open(&path)?;
            if file.metadata()?.len() > len {
                file.set_len(len)?;
            }
            Ok(())
        };
        trim().map_err(StoreError::io("trim", display(&path)))
    }

    fn segment_io(&self) -> Result<Box<dyn SegmentIo>, StoreError> {
        let segments = self.segments_in();
        if self.backend == WriteBackend::Pwrite {
            return Ok(Box::new(PwriteIo::new(segments, None)));
        }
        match UringIo::new(segments) {
            Ok(io) => Ok(Box::new(io)),
            Err((segments, error)) => {
                let reason = format!(
                    "io_uring is refused to the snapshot writer ({error}); likely a container's seccomp profile or the \
                     sysctl kernel.io_uring_disabled. Using pwrite."
                );
                Ok(Box::new(PwriteIo::new(segments, Some(reason))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Buffer;
    use crate::snapshot::store::Completion;

    #[test]
    fn a_store_is_opened_by_one_at_a_time_and_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), "job").unwrap();
        let refused = DirectoryStore::open(folder.path(), "job").unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}", std::process::id())), "{refused}");
        drop(store);
        DirectoryStore::open(folder.path(), "job").unwrap();
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", ".", "..", "../x", "a/b", "a b", &"x".repeat(101)] {
            let refused = DirectoryStore::open(folder.path(), name);
            assert!(matches!(refused, Err(StoreError::JobName { .. })), "{name}");
        }
    }

    #[test]
    fn a_manifest_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), "job").unwrap();
        assert_eq!(store.read_manifest().unwrap(), None);
        assert!(DirectoryStore::jobs(folder.path()).unwrap().is_empty());
        store.replace_manifest(b"one").unwrap();
        store.replace_manifest(b"two").unwrap();
        assert_eq!(store.read_manifest().unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(DirectoryStore::jobs(folder.path()).unwrap(), ["job"]);
    }

    #[test]
    fn an_erased_store_is_empty_and_strangers_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), "job").unwrap();
        store.replace_manifest(b"one").unwrap();
        store.segment_io().unwrap().create(3, 1 << 20).unwrap();
        for stranger in ["notes", "log/notes.log"] {
            fs::write(store.path().join(stranger), "mine").unwrap();
        }
        store.erase().unwrap();
        assert_eq!((store.read_manifest().unwrap(), store.segments().unwrap()), (None, vec![]));
        for stranger in ["notes", "log/notes.log"] {
            assert_eq!(fs::read(store.path().join(stranger)).unwrap(), b"mine");
        }
    }

    #[test]
    fn both_backends_write_what_is_read_back() {
        for backend in [WriteBackend::Auto, WriteBackend::Pwrite] {
            let folder = tempfile::tempdir().unwrap();
            let store = DirectoryStore::open(folder.path(), "job").unwrap().backend(backend);
            let mut io = store.segment_io().unwrap();
            io.create(3, 1 << 20).unwrap();
            assert!(io.create(3, 1 << 20).is_err(), "a segment is never created twice");
            let align = io.alignment();
            for i in 0..4u8 {
                let mut buffer = Buffer::new(4096, 0).unwrap();
                buffer.put(&vec![i + 1; align]);
                io.write(u64::from(i) * align as u64, buffer);
            }
            for _ in 0..4 {
                assert!(matches!(io.poll(true), Some(Completion::Write { result: Ok(()), .. })));
            }
            io.sync();
            assert!(matches!(io.poll(true), Some(Completion::Sync(Ok(())))));
            assert!(io.poll(false).is_none());
            assert_eq!(store.segments().unwrap(), [3]);
            let mut bytes = vec![0; 5 * align];
            assert_eq!(store.read(3, 0, &mut bytes).unwrap(), 5 * align);
            for (i, part) in bytes.chunks(align).enumerate() {
                let expected = if i < 4 { i as u8 + 1 } else { 0 };
                assert!(part.iter().all(|&b| b == expected), "{backend:?} {i}");
            }
            io.abandon(2 * align as u64);
            assert_eq!(store.read(3, 0, &mut bytes).unwrap(), 2 * align);
        }
    }
}
