//! Which extents a table's pages are in, and their tags: all that a table keeps outside the arena.

use crate::state::extents::Extent;
use crate::state::tags::Group;

/// The pages of one kind, by number. `groups` is always the number of tag groups of the table's layout.
#[derive(Default)]
pub(super) struct Directory {
    extents: Vec<Extent>,
    tags: Vec<Group>,
}

impl Directory {
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Adds the next page, without tags.
    pub fn push(&mut self, extent: Extent, groups: usize) {
        if self.extents.len() == self.extents.capacity() {
            // An eighth at a time: little is left unused. What is copied is at most 128 KiB, above which the system's
            // allocator moves page tables instead.
            let pages = 1 + self.extents.len() / 8;
            self.extents.reserve_exact(pages);
            self.tags.reserve_exact(pages * groups);
        }
        self.extents.push(extent);
        self.tags.resize(self.extents.len() * groups, [0; 16]);
    }

    #[inline(always)]
    pub fn get(&self, number: u32) -> Option<Extent> {
        self.extents.get(number as usize).copied()
    }

    #[inline(always)]
    pub fn extent(&self, number: u32) -> Extent {
        self.extents[number as usize]
    }

    #[inline(always)]
    pub fn extent_mut(&mut self, number: u32) -> &mut Extent {
        &mut self.extents[number as usize]
    }

    pub fn extents(&self) -> impl Iterator<Item = Extent> {
        self.extents.iter().copied()
    }

    /// One tag group of a page.
    #[inline(always)]
    pub fn group(&self, number: u32, groups: usize, group: usize) -> &Group {
        &self.tags[number as usize * groups + group]
    }

    /// The tags of a page.
    pub fn tags(&self, number: u32, groups: usize) -> &[Group] {
        let start = number as usize * groups;
        &self.tags[start..start + groups]
    }

    /// The tags of a page, for writing.
    pub fn tags_mut(&mut self, number: u32, groups: usize) -> &mut [Group] {
        let start = number as usize * groups;
        &mut self.tags[start..start + groups]
    }

    /// Bytes of memory used.
    pub fn bytes(&self) -> usize {
        self.tags.capacity() * size_of::<Group>() + self.extents.capacity() * size_of::<Extent>()
    }
}
