//! What a writer is told, and what it tells.

use std::sync::Arc;

use super::commit::{CommitParts, Completed};
use super::error::{FailReason, LogError};
use super::frozen::FrozenPages;
use super::identity::OperatorId;

/// An order to the writer. Orders are carried out in the order in which they come.
pub enum Command {
    /// Pack and append a subtask's frozen pages. The lists of one subtask come in the order of their freezes, and all
    /// lists of a checkpoint before its [`Command::Commit`]. Lists of checkpoints that fail are sent all the same.
    Delta {
        /// The checkpoint for which the list was frozen.
        checkpoint: u64,
        /// Whose it is.
        operator: OperatorId,
        /// Which subtask of the operator.
        subtask: u32,
        /// The pages. Dropped, and so given back, when they are packed.
        pages: Box<dyn FrozenPages>,
    },
    /// Make a checkpoint complete. Answered by exactly one [`Event::Durable`] or [`Event::Failed`].
    Commit(CommitParts),
    /// Forget a checkpoint. If its commit is waiting it is answered with [`FailReason::Aborted`]; if it is being
    /// written, the answer is what comes of that. Its lines are kept for the next checkpoint in any case.
    Abort {
        /// The checkpoint.
        checkpoint: u64,
    },
    /// Carry out what came before, mark the log's end as a clean one, and stop. Answered by [`Event::Closed`].
    Close,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Command::Delta { checkpoint, operator, subtask, .. } => f
                .debug_struct("Delta")
                .field("checkpoint", checkpoint)
                .field("operator", operator)
                .field("subtask", subtask)
                .finish_non_exhaustive(),
            Command::Commit(parts) => f.debug_tuple("Commit").field(parts).finish(),
            Command::Abort { checkpoint } => f.debug_struct("Abort").field("checkpoint", checkpoint).finish(),
            Command::Close => f.write_str("Close"),
        }
    }
}

/// What the writer reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A checkpoint is complete: it survives a crash from here on.
    Durable(Completed),
    /// A checkpoint is not complete and never will be. The writer goes on.
    Failed {
        /// The checkpoint.
        checkpoint: u64,
        /// Why.
        reason: FailReason,
    },
    /// The writer has stopped and takes no more orders. `None` after [`Command::Close`], else why.
    Closed(Option<String>),
}

/// What a turn of the writer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do at once.
    Busy,
    /// Something is in flight; nothing can be done until it completes.
    Waiting,
    /// Nothing to do until the next command.
    Idle,
    /// Closed: nothing will ever be done again.
    Closed,
}

/// A clock: ns of the job's monotonic time.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Sizes and limits of a writer.
#[derive(Clone)]
pub struct WriterConfig {
    /// Bytes of a segment, preallocated. Default 64 MiB.
    pub segment_bytes: u64,
    /// Bytes that are gathered into one write, and the limit of a delta block. Default 1 MiB.
    pub buffer_bytes: usize,
    /// Bytes that may be packed and not durable yet. Past it no list is taken until the disk has caught up, so that
    /// the state engine declines new freezes. Default 64 MiB.
    pub held_bytes: usize,
    /// Writes in flight at a time. Default 4.
    pub max_in_flight: usize,
    /// The clock for the phase times.
    pub clock: Clock,
}

impl Default for WriterConfig {
    fn default() -> Self {
        let origin = std::time::Instant::now();
        Self {
            segment_bytes: 64 << 20,
            buffer_bytes: 1 << 20,
            held_bytes: 64 << 20,
            max_in_flight: 4,
            clock: Arc::new(move || origin.elapsed().as_nanos() as u64),
        }
    }
}

impl WriterConfig {
    /// The least a buffer may hold: a full page with its frame, at the coarsest alignment.
    pub const MIN_BUFFER_BYTES: usize = 16 << 10;

    /// # Errors
    /// [`LogError::Config`] if the sizes do not fit together.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        let config = |what: String| Err(LogError::Config(what));
        let (buffer, segment) = (self.buffer_bytes as u64, self.segment_bytes);
        if !(Self::MIN_BUFFER_BYTES..=1 << 20).contains(&self.buffer_bytes) || !buffer.is_multiple_of(4096) {
            return config(format!("buffer_bytes is {buffer}: it must be a multiple of 4096 from 16 KiB to 1 MiB"));
        }
        if segment < 4 * buffer || segment > 1 << 30 || !segment.is_multiple_of(4096) {
            return config(format!(
                "segment_bytes is {segment}: it must be a multiple of 4096 from four buffers ({}) to 1 GiB",
                4 * buffer
            ));
        }
        if self.held_bytes < 4 * self.buffer_bytes {
            return config(format!("held_bytes is {}: it must be at least four buffers", self.held_bytes));
        }
        if self.max_in_flight == 0 || self.max_in_flight > 64 {
            return config(format!("max_in_flight is {}: it must be 1 to 64", self.max_in_flight));
        }
        Ok(())
    }
}

impl std::fmt::Debug for WriterConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterConfig")
            .field("segment_bytes", &self.segment_bytes)
            .field("buffer_bytes", &self.buffer_bytes)
            .field("held_bytes", &self.held_bytes)
            .field("max_in_flight", &self.max_in_flight)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_do_not_fit_together_are_refused() {
        assert!(WriterConfig::default().check().is_ok());
        let refused = |change: fn(&mut WriterConfig)| {
            let mut config = WriterConfig::default();
            change(&mut config);
            config.check().is_err()
        };
        assert!(refused(|c| c.buffer_bytes = 4096));
        assert!(refused(|c| c.buffer_bytes = 2 << 20));
        assert!(refused(|c| c.segment_bytes = 2 << 20));
        assert!(refused(|c| c.segment_bytes = 4 << 30));
        assert!(refused(|c| c.held_bytes = 1 << 20));
        assert!(refused(|c| c.max_in_flight = 0));
    }
}
