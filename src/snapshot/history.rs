//! The history of a log: the way from its newest segment back to the first.
//!
//! Segments form a tree: each names the one that it continues, and the offset (the cut) up to which. The history is
//! the path from the newest segment back to the first; what lies behind a cut belongs to an abandoned branch and is
//! never read. On the path each commit record names its parent, so a lost one leaves a gap that is noticed.
//!
//! The newest segment ends where the process died. A commit record there whose blocks are not intact was torn, and is
//! cut, unless something says that it had been complete: a later record, the seal of a clean end, or the caller, who
//! knows what has been published. Then it was lost, and that is an error.

use std::collections::BTreeMap;

use super::commit::CommitRecord;
use super::error::LogError;
use super::manifest::Manifest;
use super::record::Kind;
use super::scan::{self, CommitEntry, SegmentScan};
use super::store::Store;

/// What was cut off the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The checkpoint whose commit record is there without all of its blocks.
    pub checkpoint: u64,
    /// The first block that is not intact, as an error's text.
    pub why: String,
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
#[derive(Default)]
pub(super) struct History {
    /// Oldest first.
    pub commits: Vec<CommitEntry>,
    pub torn: Option<TornTail>,
    /// The highest checkpoint that was ever complete.
    pub highest: u64,
    /// The last attempt.
    pub attempt: u64,
    /// The segments that it lies in, ascending.
    pub path: Vec<u32>,
    /// Newer segments that were created and never begun.
    pub unborn: Vec<u32>,
    /// The newest segment, and where it ends.
    pub newest: Option<(u32, u64)>,
}

impl History {
    pub fn read(store: &dyn Store, manifest: &Manifest) -> Result<Self, LogError> {
        let mut segments: Vec<u32> = store.segments()?;
        segments.retain(|&segment| segment >= manifest.first_segment);
        let mut history = Self::default();
        let Newest { scan: newest, unborn } = newest_segment(store, manifest, &segments)?;
        let proven = newest.durable;
        let scans = history.walk_back(store, manifest, &segments, newest)?;
        history.path = scans.keys().copied().collect();
        for scan in scans.into_values() {
            history.commits.extend(scan.commits);
        }
        history.cut_torn(store, proven)?;
        history.check_parents(store, proven)?;
        let last = history.commits.last().map_or(0, |commit| commit.checkpoint);
        for (segment, scan) in &unborn {
            if scan::was_begun(scan, last, history.attempt) {
                return Err(lost_start(store, *segment));
            }
        }
        history.unborn = unborn.into_iter().map(|(segment, _)| segment).collect();
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
    fn cut_torn(&mut self, store: &dyn Store, proven: u64) -> Result<(), LogError> {
        let first = self.commits.partition_point(|commit| commit.checkpoint <= proven);
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

/// Where the history begins to be read.
#[derive(Default)]
struct Newest {
    /// The newest segment with an intact start; empty if there is none.
    scan: SegmentScan,
    /// The newer ones.
    unborn: Vec<(u32, SegmentScan)>,
}

fn newest_segment(store: &dyn Store, manifest: &Manifest, segments: &[u32]) -> Result<Newest, LogError> {
    let mut newest = Newest::default();
    for &segment in segments.iter().rev() {
        let scan = scan::scan(store, segment, None)?;
        if let Some(start) = scan.start {
            scan::check_store(store, segment, &start, manifest.store)?;
            newest.scan = scan;
            break;
        }
        newest.unborn.push((segment, scan));
    }
    Ok(newest)
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
