//! The protocol of asynchronous barrier snapshots as pure decisions: the aligner at each gate, the coordinator of the job.
//!
//! Nothing here does I/O, reads a clock or knows a thread. Messages and times are handed in, decisions come out; the
//! runtime (and the simulator) carry them out.

mod aligner;

pub use aligner::{Aligner, AlignmentMode, Arrival, Decision, Snapshot, TRACKED_MAX};
