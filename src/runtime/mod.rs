//! Cores at work: subtasks, the loop that turns them, and what drives the loop.

mod body;
pub(crate) mod core_loop;
pub(crate) mod glommio_driver;
pub(crate) mod idle;
pub(crate) mod inputs;
pub(crate) mod mailbox;
pub(crate) mod metrics;
pub(crate) mod operator_task;
pub(crate) mod pulse;
pub(crate) mod source_task;
pub(crate) mod subtask;
pub(crate) mod tail;
pub(crate) mod thread_driver;

pub(crate) use body::{Body, BodySettings};
pub use idle::IdleStrategy;
pub use metrics::SubtaskReading;
