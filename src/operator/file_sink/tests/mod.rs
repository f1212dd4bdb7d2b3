//! The sink against a model, over a disk that fails and loses what was not synced.

mod directory;
mod disk;
mod model;
mod scenarios;
