//! The checkpoint log of a job: what it holds, and where it goes on.
//!
//! Segments form a tree: each names the one that it continues, and the offset (the cut) up to which. The history is
//! the path from the newest segment back to the first; what lies behind a cut belongs to an abandoned branch and is
//! never read. On the path each commit record names its parent, so a lost one leaves a gap that is noticed.
//!
//! The newest segment ends where the process died. A commit record there whose blocks are not intact was torn, and is
//! cut, unless something says that it had been complete: a later record, the seal of a clean end, or the caller, who
//! knows what has been published. Then it was lost, and that is an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::command::WriterConfig;
use super::commit::{CommitRecord, Cut};
use super::error::LogError;
use super::manifest::Manifest;
use super::record::Kind;
use super::scan::{self, CommitEntry, SegmentScan};
use super::store::Store;
use super::tail::{Origin, Tail};
use super::writer::Writer;

/// What the caller of [`CheckpointLog::open`] knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The highest checkpoint whose output is public, if any: a log that ends before it is an error.
    pub published: Option<u64>,
}

/// What was cut off the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The checkpoint whose commit record is there without all of its blocks.
    pub checkpoint: u64,
    /// The first block that is not intact, as an error's text.
    pub why: String,
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
    /// The history's segments, ascending.
    path: Vec<u32>,
    /// Where the first attempt's history would go on: nowhere.
    newest: Option<(u32, u64)>,
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
            path: history.path,
            newest: history.newest,
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
        if let Some((segment, end)) = self.newest {
            // Gives back what was preallocated behind the end. Nothing depends on it.
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

pub(super) fn read_commit(store: &dyn Store, entry: &CommitEntry) -> Result<CommitRecord, LogError> {
    let mut body = Vec::new();
    scan::read_record(store, entry.segment, entry.offset, None, Kind::Commit, &mut body)?;
    CommitRecord::decode(&body).filter(|record| record.checkpoint == entry.checkpoint).ok_or_else(|| {
        LogError::Damaged {
            place: store.segment_place(entry.segment),
            offset: entry.offset,
            what: format!("the commit record of checkpoint {} cannot be read", entry.checkpoint),
            advice: RESTORE,
        }
    })
}

const RESTORE: &str = "restore the file from a backup";

/// The path from the newest segment back to the first.
struct History {
    commits: Vec<CommitEntry>,
    torn: Option<TornTail>,
    highest: u64,
    attempt: u64,
    path: Vec<u32>,
    newest: Option<(u32, u64)>,
}

impl History {
    fn read(store: &dyn Store, manifest: &Manifest) -> Result<Self, LogError> {
        let mut segments: Vec<u32> = store.segments()?;
        segments.retain(|&segment| segment >= manifest.first_segment);
        let mut history =
            Self { commits: Vec::new(), torn: None, highest: 0, attempt: 0, path: Vec::new(), newest: None };
        let Some((newest, unborn)) = newest_segment(store, manifest, &segments)? else { return Ok(history) };
        let mut proven = newest.durable;
        let scans = history.walk_back(store, manifest, &segments, newest)?;
        history.path = scans.keys().copied().collect();
        for scan in scans.into_values() {
            history.commits.extend(scan.commits);
        }
        history.cut_torn(store, &mut proven)?;
        history.check_parents(store, proven)?;
        let last = history.commits.last().map_or(0, |commit| commit.checkpoint);
        for (segment, scan) in &unborn {
            if scan::was_begun(scan, last, history.attempt) {
                return Err(lost_start(store, *segment));
            }
        }
        history.highest = history.highest.max(last);
        Ok(history)
    }

    /// Follows the cuts from the newest segment to the first, and scans each segment up to its cut.
    fn walk_back(
        &mut self,
        store: &dyn Store,
        manifest: &Manifest,
        segments: &[u32],
        newest: SegmentScan,
    ) -> Result<BTreeMap<u32, SegmentScan>, LogError> {
        let mut scans = BTreeMap::new();
        let mut scan = newest;
        loop {
            let Some(start) = scan.start else { return Ok(scans) };
            if scans.is_empty() {
                (self.highest, self.attempt) = (start.highest, start.attempt);
                self.newest = Some((start.segment, scan.end));
            }
            scans.insert(start.segment, scan);
            let Some(cut) = start.previous.filter(|cut| cut.segment >= manifest.first_segment) else {
                return Ok(scans);
            };
            let known = segments.binary_search(&cut.segment).is_ok();
            if !known || cut.segment >= start.segment {
                let place = store.segment_place(cut.segment);
                return Err(LogError::MissingSegment { place, last: start.parent });
            }
            scan = scan::scan(store, cut.segment, Some(cut.offset))?;
            match scan.start {
                Some(start) => scan::check_store(store, cut.segment, &start, manifest.store)?,
                None => return Err(lost_start(store, cut.segment)),
            }
        }
    }

    /// Cuts commits at the end that were being written when the process died: they are newer than what is proven
    /// to have been complete, and not all of their blocks are intact.
    fn cut_torn(&mut self, store: &dyn Store, proven: &mut u64) -> Result<(), LogError> {
        let first = self.commits.partition_point(|commit| commit.checkpoint <= *proven);
        for at in first..self.commits.len() {
            let entry = self.commits[at];
            let parent = at.checked_sub(1).map_or(0, |before| self.commits[before].checkpoint);
            let why = match verify_blocks(store, &entry) {
                Ok(()) if entry.parent == parent => continue,
                Ok(()) => format!("checkpoint {}, which it builds on, is not there", entry.parent),
                Err(error @ LogError::Store(_)) => return Err(error),
                Err(error) => error.to_string(),
            };
            self.torn = Some(TornTail { checkpoint: entry.checkpoint, why });
            self.commits.truncate(at);
            break;
        }
        Ok(())
    }

    /// Every commit's parent is the one before it, and the last is not older than what is proven.
    fn check_parents(&self, store: &dyn Store, proven: u64) -> Result<(), LogError> {
        let mut parent = 0;
        for commit in &self.commits {
            if commit.parent != parent || commit.checkpoint <= parent {
                return Err(LogError::Damaged {
                    place: store.segment_place(commit.segment),
                    offset: commit.offset,
                    what: format!(
                        "checkpoint {} builds on {}, whose commit record cannot be found",
                        commit.checkpoint, commit.parent
                    ),
                    advice: RESTORE,
                });
            }
            parent = commit.checkpoint;
        }
        if parent < proven {
            let (segment, end) = self.newest.unwrap_or((0, 0));
            return Err(LogError::Damaged {
                place: store.segment_place(segment),
                offset: self.commits.last().map_or(end, |commit| commit.end),
                what: format!("checkpoint {proven} had been complete, and its commit record cannot be found"),
                advice: RESTORE,
            });
        }
        Ok(())
    }
}

/// The newest segment with an intact start, and the newer ones without.
#[allow(clippy::type_complexity)] // a pair of what is found on the way, used once
fn newest_segment(
    store: &dyn Store,
    manifest: &Manifest,
    segments: &[u32],
) -> Result<Option<(SegmentScan, Vec<(u32, SegmentScan)>)>, LogError> {
    let mut unborn = Vec::new();
    for &segment in segments.iter().rev() {
        let scan = scan::scan(store, segment, None)?;
        if let Some(start) = scan.start {
            scan::check_store(store, segment, &start, manifest.store)?;
            return Ok(Some((scan, unborn)));
        }
        unborn.push((segment, scan));
    }
    // Only segments that were never begun, or whose start is lost.
    match unborn.iter().find(|(_, scan)| scan::was_begun(scan, 0, 0)) {
        Some((segment, _)) => Err(lost_start(store, *segment)),
        None => Ok(None),
    }
}

fn lost_start(store: &dyn Store, segment: u32) -> LogError {
    LogError::Damaged {
        place: store.segment_place(segment),
        offset: 0,
        what: "the record that the segment starts with cannot be read".into(),
        advice: RESTORE,
    }
}

/// Reads all blocks that a commit names.
fn verify_blocks(store: &dyn Store, entry: &CommitEntry) -> Result<(), LogError> {
    let mut body = Vec::new();
    for block in read_commit(store, entry)?.blocks {
        let expected = Some((block.body_len, block.body_crc));
        scan::read_record(store, block.segment, block.offset.into(), expected, Kind::Delta, &mut body)?;
    }
    Ok(())
}
