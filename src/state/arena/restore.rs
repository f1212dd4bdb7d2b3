//! Coming back: pages from a snapshot, and the states that find theirs again.

use std::collections::HashMap;

use super::{Arena, State};
use crate::state::StateError;
use crate::state::descriptor::StateDescriptor;
use crate::state::extents::Extent;
use crate::state::page::{LINE_BYTES, Page, PageId, lines_in};

/// What [`Arena::open_state`] gives a state to start from.
pub(crate) struct Opened {
    /// Number of the state.
    pub id: u16,
    /// Its restored pages, ascending by key group and index.
    pub pages: Vec<(PageId, Extent)>,
}

/// Restore: the descriptors, then all pages in the log's order, then the operator opens its states.
impl Arena {
    /// Makes the states of a snapshot known. Called once, on a new arena.
    ///
    /// # Errors
    /// [`StateError::Duplicate`] if an id or a name occurs twice or a state exists already, [`StateError::RestoreOrder`] if ids
    /// have gaps.
    pub fn restore_descriptors(&mut self, descriptors: &[StateDescriptor]) -> Result<(), StateError> {
        let mut sorted: Vec<_> = descriptors.to_vec();
        sorted.sort_by_key(|descriptor| descriptor.id);
        for descriptor in sorted {
            if self.states.iter().any(|state| state.descriptor.name == descriptor.name) {
                return Err(StateError::Duplicate { name: descriptor.name.into() });
            }
            if usize::from(descriptor.id) != self.states.len() {
                return Err(StateError::RestoreOrder {
                    state: descriptor.id,
                    why: "the state numbers are not 0, 1, 2, ...",
                });
            }
            self.states.push(State { descriptor, open: false, restored: HashMap::new() });
        }
        Ok(())
    }

    /// Overwrites the lines in `mask` of a page with `lines`, 64 bytes each in ascending order, creating the page
    /// (zero) if it is new. Restored pages are clean.
    ///
    /// # Errors
    /// If the page belongs to no restored state or to one that is open, to a foreign key group, if `lines` is not
    /// as long as `mask` says, or if the arena is full.
    pub fn apply(&mut self, id: PageId, mask: u64, lines: &[u8]) -> Result<(), StateError> {
        let expected = mask.count_ones() as usize * LINE_BYTES;
        if lines.len() != expected {
            let PageId { state, key_group, index } = id;
            return Err(StateError::Lines { state, key_group, index, got: lines.len(), expected });
        }
        let extent = self.restored_page(id)?;
        let page = self.clean_page_mut(extent);
        for (line, bytes) in lines_in(mask).zip(lines.chunks_exact(LINE_BYTES)) {
            page.0[line * LINE_BYTES..(line + 1) * LINE_BYTES].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn restored_page(&mut self, id: PageId) -> Result<Extent, StateError> {
        let order = |why| StateError::RestoreOrder { state: id.state, why };
        if !self.key_groups.contains(&id.key_group) {
            return Err(self.foreign_group(id.key_group));
        }
        let state = self.states.get(usize::from(id.state)).ok_or_else(|| order("the snapshot has no such state"))?;
        if state.open {
            return Err(order("the state is open already"));
        }
        if let Some(&extent) = state.restored.get(&id) {
            return Ok(extent);
        }
        let extent = self.take_block(0)?;
        self.epochs.adopt(extent, id, None);
        self.states[usize::from(id.state)].restored.insert(id, extent);
        Ok(extent)
    }

    /// Registers a state, or finds a restored one again.
    pub(crate) fn open_state(&mut self, mut found: StateDescriptor) -> Result<Opened, StateError> {
        let known = self.states.iter_mut().find(|state| state.descriptor.name == found.name);
        let Some(state) = known else {
            found.id = u16::try_from(self.states.len())
                .ok()
                .filter(|&id| id < u16::MAX)
                .ok_or_else(|| StateError::TooManyStates { name: found.name.as_str().into() })?;
            let id = found.id;
            self.states.push(State { descriptor: found, open: true, restored: HashMap::new() });
            return Ok(Opened { id, pages: Vec::new() });
        };
        if state.open {
            return Err(StateError::Duplicate { name: found.name.into() });
        }
        state.descriptor.check(&found)?;
        state.open = true;
        let mut pages: Vec<_> = std::mem::take(&mut state.restored).into_iter().collect();
        pages.sort_unstable_by_key(|(id, _)| (id.key_group, id.index));
        Ok(Opened { id: state.descriptor.id, pages })
    }

    /// Copies clean single pages into one block and frees them.
    pub(crate) fn assemble(&mut self, pages: &[Extent]) -> Result<Extent, StateError> {
        let order = pages.len().trailing_zeros() as usize;
        let block = self.extents.take_fresh(order).ok_or_else(|| self.full())?;
        for (&from, to) in pages.iter().zip(block..) {
            let (page, id) = (*self.page(from), self.page_id(from));
            self.epochs.adopt(to, id, None);
            *self.clean_page_mut(to) = page;
            self.extents.give(0, from);
        }
        Ok(block)
    }

    fn page_id(&self, extent: Extent) -> PageId {
        // SAFETY: the owner reads an id that only the owner writes.
        self.epochs.shared().ids.read(extent, |id| unsafe { *id })
    }

    /// A page that was just restored: clean, so in no list.
    fn clean_page_mut(&mut self, extent: Extent) -> &mut Page {
        // SAFETY: restored pages have no entry before their state is opened, so the writer does not know the extent,
        // and `&mut self` keeps the owner's other references away.
        self.epochs.shared().pages.write(extent, |page| unsafe { &mut *page })
    }
}
