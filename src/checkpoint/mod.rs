//! The protocol of asynchronous barrier snapshots as pure decisions: the aligner at each gate, the coordinator of the job.
//!
//! Nothing here does I/O, reads a clock or knows a thread. Messages and times are handed in, decisions come out; the
//! runtime (and the simulator) carry them out.

mod action;
mod aligner;
mod config;
mod coordinator;
mod pending;
mod schedule;
mod statistics;
mod subtasks;

pub use action::{AbortReason, Action, Cause, Completion, DeclineReason, JobFailure, Trigger, TriggerError};
pub use aligner::{Aligner, AlignmentMode, Arrival, Decision, Snapshot, TRACKED_MAX};
pub use config::{CheckpointConfig, ConfigError};
pub use coordinator::{Coordinator, Origin};
pub use pending::Acknowledgement;
pub use statistics::CheckpointStatistics;
pub use subtasks::SubtaskPhase;
