//! The contracts between user code and the engine: sources, stages, keyed processes and sinks.

mod callback_sink;
pub mod file_sink;
mod process;
mod sink;
mod source;
mod stage;

pub use callback_sink::CallbackSink;
pub use process::{Collector, KeyedCoProcess, KeyedProcess};
pub use sink::{Sink, SinkState};
pub use source::{Polled, Source};
pub use stage::{Filter, FlatMap, Identity, KeyBy, Map, Stage, Then};

/// An error that user code returns to end the job; the engine adds the operator's name and the subtask's index.
pub type OperatorError = Box<dyn std::error::Error + Send + Sync>;
