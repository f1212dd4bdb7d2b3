//! Jobs: the builder with its typed streams, placement on cores, execution attempts, and the handle of a running job.

mod builder;
mod cores;
mod driver;
mod edge;
mod error;
mod event;
mod graph;
mod handle;
mod ingress;
mod placement;
mod stream;

pub use builder::{Driver, Job, JobBuilder, Restore, available_cores};
pub use error::JobError;
pub use event::{CheckpointStats, Event};
pub use handle::{CheckpointTotals, Ended, JobHandle, Outcome, SubtaskReport};
pub use ingress::{Ingress, PushError};
pub use stream::{
    CoProcessHead, ConnectedStreams, Head, KeyedStream, ProcessHead, SharedStream, SourceHead, Stream, UnionHead,
};
