//! isobar
pub mod channel;
pub mod checkpoint;
pub mod hash;
pub mod market;
pub mod measure;
pub mod operator;
pub mod state;
mod sync;
