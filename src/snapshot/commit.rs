//! The bodies of attempt and commit records: rkyv archives, checked when they are read.

use rkyv::rancor::Error as ArchiveError;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Deserialize, Serialize};

use super::identity::{OperatorId, StoreId};

/// What the subtasks report when they have taken part in a checkpoint; the writer adds the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommitParts {
    /// The checkpoint; greater than every one before it.
    pub checkpoint: u64,
    /// Wall-clock time of the trigger, in ns since the Unix epoch: for people, never compared.
    pub wall_clock_ns: u64,
    /// Every subtask of the job, finished ones too.
    pub subtasks: Vec<SubtaskCommit>,
}

/// One subtask's part in a checkpoint.
#[derive(Clone, Debug, PartialEq, Archive, Serialize, Deserialize)]
pub struct SubtaskCommit {
    /// The operator.
    pub operator: OperatorId,
    /// The subtask's index inside the operator.
    pub subtask: u32,
    /// Where a source stood at the barrier; `None` for other operators.
    pub position: Option<u64>,
    /// What the sink's `pre_commit` returned; empty for other operators.
    pub sink_state: Vec<u8>,
    /// The subtask had ended: it has no more input, and its state stays as it is.
    pub finished: bool,
    /// How long the checkpoint's phases took in this subtask.
    pub times: PhaseTimes,
}

/// The phases of a checkpoint in one subtask. Times are durations in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// From the trigger to the first barrier at the subtask.
    pub start_delay_ns: u64,
    /// From the first barrier to the last.
    pub t_align_ns: u64,
    /// The synchronous phase: how long the subtask stood still.
    pub sync_ns: u64,
    /// The writer's packing of the subtask's lines. Filled in by the writer.
    pub pack_ns: u64,
    /// From the arrival of the subtask's list at the writer until its lines were packed. Filled in by the writer;
    /// the time until the checkpoint was durable is in [`Completed`].
    pub async_ns: u64,
    /// Bytes packed. Filled in by the writer.
    pub bytes: u64,
    /// Pages with dirty lines. Filled in by the writer.
    pub dirty_pages: u64,
    /// Pages that the subtask had to copy because it wrote to them before the writer had read them.
    pub copied_pages: u64,
}

/// How a checkpoint ended. It is known only after its commit record was written, so it goes with the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Completed {
    /// The checkpoint.
    pub checkpoint: u64,
    /// From the arrival of its first list at the writer (or of its commit, if it had none) until it was durable, in ns.
    pub async_ns: u64,
    /// From the commit record's submission until the log was durable, in ns.
    pub durable_ns: u64,
    /// Bytes that the log grew by since the checkpoint before: blocks, commit record and padding.
    pub bytes: u64,
}

/// Where a delta block lies, and the checksum of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct BlockRef {
    /// The segment.
    pub segment: u32,
    /// The record's first byte in it.
    pub offset: u32,
    /// Bytes of the body.
    pub body_len: u32,
    /// CRC32C of the body.
    pub body_crc: u32,
}

/// A commit record: what makes a checkpoint complete.
#[derive(Clone, Debug, PartialEq, Archive, Serialize, Deserialize)]
pub struct CommitRecord {
    /// The checkpoint.
    pub checkpoint: u64,
    /// The execution attempt that took it.
    pub attempt: u64,
    /// The complete checkpoint before it, 0 if it is the first.
    pub parent: u64,
    /// Wall-clock time of the trigger, in ns since the Unix epoch.
    pub wall_clock_ns: u64,
    /// Every subtask's part.
    pub subtasks: Vec<SubtaskCommit>,
    /// How the checkpoint before it ended, if it was complete in the same attempt.
    pub previous: Option<Completed>,
    /// The blocks that lead from the parent's state to this one, in the order in which they apply.
    pub blocks: Vec<BlockRef>,
}

/// The end of the part of an earlier segment that a segment continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Cut {
    /// The segment.
    pub segment: u32,
    /// What lies at or behind this offset does not belong to the job's history.
    pub offset: u64,
}

/// The first record of each segment. Where `attempt` changes it is the attempt record: everything below the cut was
/// durable when it was written, and what lies behind it is never read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub(crate) struct StartRecord {
    pub store: StoreId,
    pub segment: u32,
    pub attempt: u64,
    /// The checkpoint that the attempt started from, or the last complete one; 0 if none.
    pub parent: u64,
    /// The highest checkpoint id that was ever complete, on whatever branch.
    pub highest: u64,
    /// What this segment continues; `None` for the very first.
    pub previous: Option<Cut>,
}

/// The record cannot be archived: out of memory, or more than 4 GiB.
#[derive(Debug, thiserror::Error)]
#[error("cannot archive a record: {0}")]
pub struct EncodeError(String);

macro_rules! archived_body {
    ($type:ty) => {
        impl $type {
            pub(crate) fn encode(&self) -> Result<AlignedVec, EncodeError> {
                rkyv::to_bytes::<ArchiveError>(self).map_err(|error| EncodeError(error.to_string()))
            }

            /// Reads a body back; `None` if the bytes are not a valid archive.
            pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
                rkyv::from_bytes::<Self, ArchiveError>(bytes).ok()
            }
        }
    };
}
archived_body!(CommitRecord);
archived_body!(StartRecord);
archived_body!(super::manifest::Manifest);

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> CommitRecord {
        let subtask = |i: u32| SubtaskCommit {
            operator: OperatorId(1),
            subtask: i,
            position: (i == 0).then_some(99),
            sink_state: vec![i as u8; i as usize * 10],
            finished: i == 1,
            times: PhaseTimes { sync_ns: 700, ..PhaseTimes::default() },
        };
        CommitRecord {
            checkpoint: 12,
            attempt: 2,
            parent: 10,
            wall_clock_ns: 1 << 60,
            subtasks: (0..3).map(subtask).collect(),
            previous: Some(Completed { checkpoint: 10, async_ns: 1, durable_ns: 2, bytes: 3 }),
            blocks: vec![BlockRef { segment: 1, offset: 64, body_len: 9, body_crc: 8 }; 3],
        }
    }

    #[test]
    fn a_commit_record_comes_back_as_it_was() {
        let record = record();
        assert_eq!(CommitRecord::decode(&record.encode().unwrap()), Some(record));
    }

    #[test]
    fn cut_or_changed_archives_never_panic() {
        let bytes = record().encode().unwrap();
        for len in 0..bytes.len() {
            let _ = CommitRecord::decode(&bytes[..len]);
            let mut changed = bytes.to_vec();
            changed[len] ^= 0x80;
            let _ = CommitRecord::decode(&changed);
        }
        assert_eq!(CommitRecord::decode(&[]), None);
    }
}
