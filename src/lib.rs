//! isobar
pub mod channel;
pub mod checkpoint;
pub mod hash;
pub mod market;
pub mod operator;
pub mod state;
mod sync;
