//! The output folder that the sinks of all subtasks share.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::FileSinkError;
use super::folder::{Directory, Folder};
use super::name::FileName;
use super::sink::FileSink;
use super::{FileSinkOptions, NewerOutput};
use crate::channel::Record;
use crate::sync::{AtomicU64, Ordering};

/// An output folder, from which the sink of each subtask is made. One folder serves one sink operator.
#[derive(Clone)]
pub struct Outputs {
    shared: Arc<Shared>,
}

/// What a folder holds of this module's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Public parts.
    pub parts: usize,
    /// Hidden files: pending or taken back.
    pub hidden: usize,
    /// The highest checkpoint whose output is public.
    pub newest: Option<u64>,
}

/// What the sinks of one folder have in common.
pub(super) struct Shared {
    pub folder: Arc<dyn Folder>,
    pub options: FileSinkOptions,
    pub sequences: Sequences,
    registry: Mutex<Registry>,
}

/// Numbers for pending files, none twice in one run.
#[derive(Debug, Default)]
pub(super) struct Sequences(AtomicU64);

/// The sinks of the current execution attempt.
#[derive(Debug, Default)]
struct Registry {
    live: usize,
    checkpoint: u64,
    /// Pending files below this sequence are of earlier attempts.
    floor: u64,
    swept: bool,
}

impl Sequences {
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn begin_at(&self, sequence: u64) {
        self.0.fetch_max(sequence, Ordering::Relaxed);
    }
}

impl Outputs {
    /// The folder at `path`, made where it is missing.
    ///
    /// # Errors
    /// [`FileSinkError::Io`] where it cannot be made or read.
    pub fn open(path: &Path, options: FileSinkOptions) -> Result<Self, FileSinkError> {
        let folder = Directory::create(path).map_err(|source| io_error("make output folder", path, source))?;
        Ok(Self::in_folder(Arc::new(folder), options))
    }

    pub(super) fn in_folder(folder: Arc<dyn Folder>, options: FileSinkOptions) -> Self {
        let shared = Shared { folder, options, sequences: Sequences::default(), registry: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// The sink of one subtask. `format` appends a record's line, or nothing, to the buffer; it ends the line itself.
    pub fn sink<T, F>(&self, format: F) -> FileSink<T, F>
    where
        F: FnMut(&Record<T>, &mut Vec<u8>),
    {
        FileSink::new(Arc::clone(&self.shared), format)
    }

    /// What the folder at `path` holds; nothing where there is no such folder.
    ///
    /// # Errors
    /// [`FileSinkError::Io`] where it cannot be read.
    pub fn holdings(path: &Path) -> Result<Holdings, FileSinkError> {
        let mut holdings = Holdings::default();
        for name in ours(path)? {
            match name {
                FileName::Part { checkpoint, .. } => {
                    holdings.parts += 1;
                    holdings.newest = holdings.newest.max(Some(checkpoint));
                }
                FileName::Pending { .. } | FileName::Discarded { .. } => holdings.hidden += 1,
            }
        }
        Ok(holdings)
    }

    /// Removes this module's files, and nothing else, from the folder at `path`. Returns how many there were.
    ///
    /// # Errors
    /// [`FileSinkError::Io`] where a file cannot be removed.
    pub fn remove_all(path: &Path) -> Result<usize, FileSinkError> {
        let names = ours(path)?;
        for name in &names {
            let file = path.join(name.to_string());
            match std::fs::remove_file(&file) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(io_error("remove", &file, source));
                }
                _ => {}
            }
        }
        Ok(names.len())
    }
}

/// The names in the folder at `path` that are this module's.
fn ours(path: &Path) -> Result<Vec<FileName>, FileSinkError> {
    if !path.try_exists().map_err(|source| io_error("look at output folder", path, source))? {
        return Ok(Vec::new());
    }
    let files = Directory::create(path).and_then(|folder| folder.list());
    let files = files.map_err(|source| io_error("read output folder", path, source))?;
    Ok(files.iter().filter_map(|(name, _)| FileName::parse(name)).collect())
}

pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> FileSinkError {
    FileSinkError::Io { action, path: path.to_path_buf(), source }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn list(&self) -> Result<Vec<(FileName, u64)>, FileSinkError> {
        let files = self.folder.list().map_err(|source| io_error("read output folder", self.folder.path(), source))?;
        Ok(files.iter().filter_map(|(name, bytes)| Some((FileName::parse(name)?, *bytes))).collect())
    }

    /// Counts a sink in. The first one of an attempt looks whether the folder fits to the restored checkpoint (`None`:
    /// a fresh start), and takes newer output back where that is asked for.
    pub fn enter(&self, restored: Option<u64>) -> Result<(), FileSinkError> {
        let checkpoint = restored.unwrap_or(0);
        let mut registry = self.registry();
        if registry.live == 0 || registry.checkpoint != checkpoint {
            let floor = self.prepare(restored)?;
            *registry = Registry { live: registry.live, checkpoint, floor, swept: false };
        }
        registry.live += 1;
        Ok(())
    }

    pub fn leave(&self) {
        let mut registry = self.registry();
        registry.live = registry.live.saturating_sub(1);
    }

    fn prepare(&self, restored: Option<u64>) -> Result<u64, FileSinkError> {
        let mut floor = 0;
        let mut newer = Vec::new();
        for (name, _) in self.list()? {
            match name {
                FileName::Pending { sequence, .. } => floor = floor.max(sequence.saturating_add(1)),
                FileName::Part { subtask, checkpoint } if restored.is_none_or(|restored| checkpoint > restored) => {
                    newer.push((checkpoint, subtask));
                }
                FileName::Part { .. } | FileName::Discarded { .. } => {}
            }
        }
        self.sequences.begin_at(floor);
        newer.sort_unstable();
        let Some(&(checkpoint, subtask)) = newer.first() else { return Ok(floor) };
        let folder = self.folder.path().to_path_buf();
        let part = FileName::Part { subtask, checkpoint }.to_string();
        match restored {
            None => Err(FileSinkError::EarlierRun { folder, part }),
            Some(checkpoint) if self.options.newer_output == NewerOutput::Refuse => {
                Err(FileSinkError::NewerOutput { folder, part, checkpoint })
            }
            Some(_) => self.take_back(&newer).map(|()| floor),
        }
    }

    /// Hides parts. Their bytes stay until the sweep: older lines in them are still needed.
    fn take_back(&self, parts: &[(u64, u32)]) -> Result<(), FileSinkError> {
        for &(checkpoint, subtask) in parts {
            let from = FileName::Part { subtask, checkpoint }.to_string();
            let to = FileName::Discarded { subtask, checkpoint }.to_string();
            let done = self.folder.replace(&from, &to);
            done.map_err(|source| io_error("take back", &self.folder.path().join(&from), source))?;
        }
        self.folder.sync().map_err(|source| io_error("sync output folder", self.folder.path(), source))
    }

    /// Whether the caller is to sweep now, and below which sequence: true once in an attempt. To be asked when a
    /// checkpoint of this attempt has completed, so that every subtask has taken over what it restores.
    pub fn claim_sweep(&self) -> Option<u64> {
        let mut registry = self.registry();
        let first = !std::mem::replace(&mut registry.swept, true);
        first.then_some(registry.floor)
    }
}
