//! The checkpoint log of a job: what it holds, and where it goes on. How that is found out is in
//! [`history`](super::history).

use std::sync::Arc;

use super::command::WriterConfig;
use super::commit::{CommitRecord, Cut};
use super::error::LogError;
use super::history::{History, TornTail, read_commit};
use super::manifest::Manifest;
use super::scan::CommitEntry;
use super::store::Store;
use super::tail::{Origin, Tail};
use super::writer::Writer;

/// What the caller of [`CheckpointLog::open`] knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The highest checkpoint whose output is public, if any: a log that ends before it is an error.
    pub published: Option<u64>,
}

/// An open checkpoint log.
///
/// Every checkpoint in [`checkpoints`](Self::checkpoints) can be restored. Until compaction removes old segments these
/// are all that were ever completed on the way to the newest one; a retained count of n means the last n of them.
pub struct CheckpointLog {
    pub(super) store: Arc<dyn Store>,
    manifest: Manifest,
    pub(super) commits: Vec<CommitEntry>,
    torn: Option<TornTail>,
    highest: u64,
    next_attempt: u64,
    next_segment: u32,
    /// Segments, and where they end: what was preallocated behind that can be given back.
    ends: Vec<(u32, u64)>,
    /// The history's segments, ascending.
    path: Vec<u32>,
}

impl CheckpointLog {
    /// Creates the log of a new job.
    ///
    /// # Errors
    /// [`LogError::Exists`] if the store holds a job already; [`LogError::Store`].
    pub fn create(store: Arc<dyn Store>, manifest: Manifest) -> Result<Self, LogError> {
        if let Some(bytes) = store.read_manifest()? {
            let job = Manifest::from_file(&bytes, &store.manifest_place())
                .map_or_else(|_| "of an unreadable manifest".into(), |manifest| manifest.job);
            return Err(LogError::Exists { place: store.place(), job });
        }
        // Left by a creation that did not get as far as its manifest.
        let left = store.segments()?.last().copied().unwrap_or(0);
        store.replace_manifest(&Manifest { first_segment: left.saturating_add(1), ..manifest }.to_file()?)?;
        Self::open(store, &OpenOptions::default())
    }

    /// Opens the log of a job: reads the manifest and goes through the segments.
    ///
    /// # Errors
    /// [`StoreError::Missing`](super::StoreError::Missing) if there is no manifest, and whatever makes the store
    /// unusable: another format version, damage to what had been durable, a missing segment, a log that ends before
    /// [`OpenOptions::published`].
    pub fn open(store: Arc<dyn Store>, options: &OpenOptions) -> Result<Self, LogError> {
        let Some(bytes) = store.read_manifest()? else {
            return Err(super::StoreError::Missing { place: store.manifest_place() }.into());
        };
        let manifest = Manifest::from_file(&bytes, &store.manifest_place())?;
        let history = History::read(&*store, &manifest)?;
        let log = Self {
            commits: history.commits,
            torn: history.torn,
            highest: history.highest,
            next_attempt: history.attempt + 1,
            next_segment: store.segments()?.last().map_or(manifest.first_segment, |last| last.saturating_add(1)),
            ends: history.newest.into_iter().chain(history.unborn.into_iter().map(|segment| (segment, 0))).collect(),
            path: history.path,
            store,
            manifest,
        };
        let last = log.last().unwrap_or(0);
        match options.published {
            Some(published) if published > last => {
                Err(LogError::BehindPublished { place: log.store.place(), last, published })
            }
            _ => Ok(log),
        }
    }

    /// What the job is.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Checks that `job` is the job of this store, and takes over what may change between runs (parallelism, new
    /// states). The store's identity and history stay.
    ///
    /// # Errors
    /// [`LogError::Mismatch`] names the first difference; [`LogError::Store`].
    pub fn adopt(&mut self, job: &Manifest) -> Result<(), LogError> {
        self.check(job)?;
        let manifest = Manifest {
            store: self.manifest.store,
            first_segment: self.manifest.first_segment,
            images: self.manifest.images.clone(),
            ..job.clone()
        };
        if manifest != self.manifest {
            self.store.replace_manifest(&manifest.to_file()?)?;
            self.manifest = manifest;
        }
        Ok(())
    }

    /// Checks that `job` is the job of this store.
    ///
    /// # Errors
    /// [`LogError::Mismatch`] names the first difference.
    pub fn check(&self, job: &Manifest) -> Result<(), LogError> {
        self.manifest.check(job).map_err(|mismatch| LogError::Mismatch { place: self.store.place(), mismatch })
    }

    /// The checkpoints that can be restored, oldest first.
    pub fn checkpoints(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
        self.commits.iter().map(|commit| commit.checkpoint)
    }

    /// The newest checkpoint.
    pub fn last(&self) -> Option<u64> {
        self.commits.last().map(|commit| commit.checkpoint)
    }

    /// The highest checkpoint id that was ever complete, on an abandoned branch too; 0 if none. New ids start behind
    /// it, so that no id ever means two things.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The number that the next execution attempt will have, from 1.
    pub fn next_attempt(&self) -> u64 {
        self.next_attempt
    }

    /// The segments that no checkpoint needs: those of abandoned branches, and one that an attempt had made ready when it
    /// died. They can be removed.
    ///
    /// # Errors
    /// [`LogError::Store`].
    pub fn superfluous_segments(&self) -> Result<Vec<u32>, LogError> {
        let mut segments = self.store.segments()?;
        segments.retain(|segment| self.path.binary_search(segment).is_err());
        Ok(segments)
    }

    /// What was cut off the end, if a checkpoint was being written when the process died.
    pub fn torn_tail(&self) -> Option<&TornTail> {
        self.torn.as_ref()
    }

    /// The commit record of a checkpoint.
    ///
    /// # Errors
    /// [`LogError::UnknownCheckpoint`], [`LogError::Damaged`], [`LogError::Store`].
    pub fn commit(&self, checkpoint: u64) -> Result<CommitRecord, LogError> {
        read_commit(&*self.store, &self.commits[self.index_of(checkpoint)?])
    }

    pub(super) fn index_of(&self, checkpoint: u64) -> Result<usize, LogError> {
        self.commits.binary_search_by_key(&checkpoint, |commit| commit.checkpoint).map_err(|_| {
            let held = match (self.commits.first(), self.commits.last(), self.commits.len()) {
                (Some(only), _, 1) => format!("checkpoint {}", only.checkpoint),
                (Some(first), Some(last), n) => format!("{n}, from {} to {}", first.checkpoint, last.checkpoint),
                _ => "none yet".to_owned(),
            };
            LogError::UnknownCheckpoint { checkpoint, place: self.store.place(), held }
        })
    }

    /// Begins an execution attempt from `parent` (`None`: from nothing): writes its attempt record, durably, and gives
    /// the writer that goes on behind it. Checkpoints after `parent` no longer belong to the history from here on.
    ///
    /// Call it on the thread that will turn the writer; [`WriterThread`](super::WriterThread) does. After the attempt
    /// has ended, open the log again.
    ///
    /// # Errors
    /// [`LogError::UnknownCheckpoint`], [`LogError::Config`], [`LogError::Start`], [`LogError::Store`].
    pub fn writer(&self, parent: Option<u64>, config: WriterConfig) -> Result<Writer, LogError> {
        config.check()?;
        let previous = match parent {
            Some(parent) => {
                let commit = &self.commits[self.index_of(parent)?];
                Some(Cut { segment: commit.segment, offset: commit.end })
            }
            None => None,
        };
        let origin = Origin {
            store: self.manifest.store,
            attempt: self.next_attempt,
            parent: parent.unwrap_or(0),
            highest: self.highest,
            previous,
            next_segment: self.next_segment,
        };
        for &(segment, end) in &self.ends {
            // Only gives space back; an error is no matter.
            let _ = self.store.trim(segment, end);
        }
        let store = Arc::clone(&self.store);
        let places = Box::new(move |segment| store.segment_place(segment));
        let mut tail = Tail::new(self.store.segment_io()?, places, config.clone(), origin);
        tail.start().map_err(LogError::Start)?;
        Ok(Writer::new(tail, config, self.next_attempt))
    }
}

impl std::fmt::Debug for CheckpointLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckpointLog")
            .field("place", &self.store.place())
            .field("checkpoints", &self.commits.len())
            .field("last", &self.last())
            .field("torn", &self.torn)
            .finish_non_exhaustive()
    }
}
