//! Keyed state in a paged, copy-on-write arena.

/// Placeholder until the state engine lands.
pub struct Arena {
    _private: (),
}
