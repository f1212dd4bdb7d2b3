#![doc = include_str!("../README.md")]

pub mod channel;
pub mod checkpoint;
pub mod failpoint;
pub mod hash;
pub mod job;
pub mod market;
pub mod measure;
pub mod operator;
pub mod runtime;
pub mod snapshot;
pub mod state;
mod sync;
