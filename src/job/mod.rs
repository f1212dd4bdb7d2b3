//! Jobs: the builder with its typed streams, placement on cores, execution attempts, and the handle of a running job.

mod attempt;
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
mod totals;

pub use builder::{Driver, Job, JobBuilder, Restore};
pub use error::JobError;
pub use event::{CheckpointStats, Event};
pub use handle::{CheckpointTotals, Ended, JobHandle, Outcome, SubtaskReport};
pub use ingress::{Ingress, IngressHead, IngressSource, PushError};
pub use stream::{
    CoProcessHead, ConnectedStreams, Head, KeyedStream, ProcessHead, SharedStream, SourceHead, Stream, UnionHead,
};
