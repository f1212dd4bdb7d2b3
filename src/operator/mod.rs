//! The contracts between user code and the engine: sources, stages, keyed processes and sinks.

mod process;
mod sink;
mod source;

pub use process::{Collector, KeyedCoProcess, KeyedProcess};
pub use sink::Sink;
pub use source::{Polled, Source};

/// An error that user code returns to end the job; the engine adds the operator's name and the subtask's index.
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;
