//! Where a run keeps its checkpoints and its output, and what an earlier run may have left there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use isobar::job::Restore;
use isobar::operator::file_sink::{FileSinkOptions, NewerOutput, Outputs};
use isobar::snapshot::{DirectoryStore, Store};

use super::JOB;
use crate::arguments::{Interval, RunArguments};
use crate::failure::Failure;

/// How a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Fresh,
    Resume,
    From(u64),
}

impl Start {
    fn of(arguments: &RunArguments) -> Self {
        match arguments.restore {
            Some(checkpoint) => Self::From(checkpoint),
            None if arguments.resume => Self::Resume,
            None => Self::Fresh,
        }
    }

    pub fn restore(self) -> Restore {
        match self {
            Self::Fresh => Restore::Fresh,
            Self::Resume => Restore::Latest,
            Self::From(checkpoint) => Restore::Checkpoint(checkpoint),
        }
    }
}

/// The folders of a run, ready for it.
pub struct Places {
    start: Start,
    store: Option<Arc<DirectoryStore>>,
    outputs: Option<Outputs>,
    published: Option<u64>,
    /// Removed when the run ends.
    temporary: Option<tempfile::TempDir>,
    store_path: Option<PathBuf>,
}

impl Places {
    /// Opens store and output, refuses what an earlier run left there, or removes it with `--overwrite`.
    pub fn prepare(arguments: &RunArguments) -> Result<Self, Failure> {
        let start = Start::of(arguments);
        let mut temporary = None;
        let store = match &arguments.store {
            Some(path) => Some(open_store(path, start, arguments.overwrite)?),
            None if arguments.checkpoint_interval == Interval::Off => None,
            None => {
                let folder = tempfile::Builder::new().prefix("isobar-").tempdir();
                let folder = folder.map_err(|error| Failure::io("make", "a temporary store", error))?;
                let store = DirectoryStore::create(folder.path(), JOB)?;
                temporary = Some(folder);
                Some(store)
            }
        };
        let has_earlier = store.as_ref().map(|store| store.read_manifest()).transpose()?.flatten().is_some();
        let mut published = None;
        if let Some(path) = &arguments.output {
            published = look_at_output(path, start, arguments.overwrite, has_earlier)?;
        }
        let outputs = arguments.output.as_deref().map(|path| open_output(path, arguments)).transpose()?;
        let store_path = arguments.store.clone();
        Ok(Self { start, store: store.map(Arc::new), outputs, published, temporary, store_path })
    }

    pub fn start(&self) -> Start {
        self.start
    }

    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.store.clone().map(|store| store as Arc<dyn Store>)
    }

    /// The store's folder as the user named it.
    pub fn store_path(&self) -> Option<&Path> {
        self.store_path.as_deref()
    }

    pub fn outputs(&self) -> Option<Outputs> {
        self.outputs.clone()
    }

    /// The newest checkpoint whose output is public, where that must not be repeated.
    pub fn published(&self) -> Option<u64> {
        self.published
    }

    /// The store's folder, where it is to be removed at the end.
    pub fn temporary(&self) -> Option<PathBuf> {
        self.temporary.as_ref().map(|folder| folder.path().to_path_buf())
    }
}

fn open_store(path: &Path, start: Start, overwrite: bool) -> Result<DirectoryStore, Failure> {
    let store = DirectoryStore::create(path, JOB)?;
    if start == Start::Fresh && overwrite {
        store.erase()?;
    }
    if start == Start::Fresh && store.read_manifest()?.is_some() {
        let place = path.display();
        return Err(Failure::Failed(format!(
            "--store {place} holds an earlier run: continue it with --resume, remove it with --overwrite, or choose \
             another folder"
        )));
    }
    Ok(store)
}

/// Deals with what an earlier run left; gives the newest checkpoint whose output must not be repeated.
fn look_at_output(path: &Path, start: Start, overwrite: bool, has_earlier: bool) -> Result<Option<u64>, Failure> {
    if start == Start::Fresh && overwrite {
        Outputs::remove_all(path)?;
    }
    let holdings = Outputs::holdings(path)?;
    let place = path.display();
    match start {
        Start::Fresh if holdings.parts + holdings.hidden > 0 => Err(Failure::Failed(format!(
            "--output {place} holds an earlier run: continue it with --resume, remove it with --overwrite, or choose \
             another folder"
        ))),
        Start::Resume if holdings.parts > 0 && !has_earlier => Err(Failure::Failed(format!(
            "--output {place} holds an earlier run, but --store holds none that could be resumed: give that run's \
             store, or start again with --overwrite"
        ))),
        Start::Resume => Ok(holdings.newest),
        // With an explicit checkpoint the sink decides about newer output.
        Start::Fresh | Start::From(_) => Ok(None),
    }
}

fn open_output(path: &Path, arguments: &RunArguments) -> Result<Outputs, Failure> {
    let newer_output = if arguments.discard_newer_output { NewerOutput::Discard } else { NewerOutput::Refuse };
    let options = FileSinkOptions { roll: arguments.output_roll, newer_output, ..FileSinkOptions::default() };
    Ok(Outputs::open(path, options)?)
}
