//! Frames and the lock-free rings that carry them between subtasks.

mod frame;

pub use frame::{Barrier, BarrierKind, Frame, Record};
