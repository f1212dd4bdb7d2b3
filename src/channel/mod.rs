//! Frames, the lock-free rings that carry them between subtasks, and a subtask's two sides: the [`InputGate`] that it
//! reads from and the [`Outbox`] that it writes to.
//!
//! **Invariants.** A frame never overtakes another on its channel, whatever it is. Nothing here blocks, waits, knows
//! what a checkpoint is, or reads a clock. Nothing allocates once warm.

mod batch;
mod buffer;
mod consumer;
mod frame;
mod gate;
mod outbox;
mod producer;
mod reader;
mod ring;
mod slot;
mod writer;

pub use batch::Batch;
pub use consumer::{Consumer, Receiver};
pub use frame::{Barrier, BarrierKind, Control, Frame, Record};
pub use gate::InputGate;
pub use outbox::{Outbox, OutboxError, OutboxStats};
pub use producer::{Full, Producer, Sender};
pub use ring::{AnyCore, CAPACITY_MAX, CrossCore, SameCore, Sharing, local_ring, ring};
#[doc(hidden)]
pub use ring::{local_ring_at, ring_at};
