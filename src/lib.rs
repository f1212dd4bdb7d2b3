//! isobar
pub mod channel;
pub mod failpoint;
pub mod hash;
pub mod operator;
pub mod snapshot;
pub mod state;
mod sync;
