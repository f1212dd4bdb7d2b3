//! What the first write to a page costs its owner, beyond the write itself.

use std::hint::black_box;

use crate::common::keyed_state::{Op, State, drain, seconds, uniform_ops};
use crate::common::median;

/// Seconds for one page.
pub struct Prices {
    /// For the first write of an epoch to a page, in place.
    first_write_s: f64,
    /// For moving a page that the writer has not read yet, on top.
    move_s: f64,
}

impl Prices {
    /// Compares the same updates with all their pages dirty, clean, and frozen but unread, in turn.
    pub fn measure(state: &mut State, entries: u64) -> Self {
        let ops = uniform_ops(entries, 20_000.min(entries as usize));
        let update = |state: &mut State| seconds(|| ops.iter().for_each(|op: &Op| state.update(*op)));
        let (mut first_writes, mut moves) = (Vec::new(), Vec::new());
        for _ in 0..31 {
            drain(state.freeze());
            let clean_s = update(state);
            let dirty_s = update(state);
            let pages = f64::from(state.arena.stats().dirty_pages);
            let unread = state.freeze();
            let frozen_s = update(state);
            drain(black_box(unread));
            first_writes.push((clean_s - dirty_s) / pages);
            moves.push((frozen_s - clean_s) / pages);
        }
        Self { first_write_s: median(&mut first_writes).max(0.0), move_s: median(&mut moves).max(0.0) }
    }

    /// Seconds for these many pages.
    pub fn of(&self, dirty_pages: u64, moved_pages: u64) -> f64 {
        dirty_pages as f64 * self.first_write_s + moved_pages as f64 * self.move_s
    }
}
