//! Which extents a table's pages are in, and their tags: all that a table keeps outside the arena.

use crate::state::extents::Extent;
use crate::state::tags::Group;

/// Pages whose tags are allocated together: growth copies nothing but pointers.
const CHUNK: usize = 16;

/// The pages of one kind, by number. `groups` is always the number of tag groups of the table's layout.
#[derive(Default)]
pub(super) struct Directory {
    extents: Vec<Extent>,
    tags: Vec<Box<[Group]>>,
}

impl Directory {
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Adds the next page, without tags.
    pub fn push(&mut self, extent: Extent, groups: usize) {
        if self.extents.len() % CHUNK == 0 {
            self.tags.push(vec![[0; 16]; CHUNK * groups].into());
        }
        self.extents.push(extent);
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
        &self.tags[number as usize / CHUNK][number as usize % CHUNK * groups + group]
    }

    /// The tags of a page.
    pub fn tags(&self, number: u32, groups: usize) -> &[Group] {
        let start = number as usize % CHUNK * groups;
        &self.tags[number as usize / CHUNK][start..start + groups]
    }

    /// The tags of a page, for writing.
    pub fn tags_mut(&mut self, number: u32, groups: usize) -> &mut [Group] {
        let start = number as usize % CHUNK * groups;
        &mut self.tags[number as usize / CHUNK][start..start + groups]
    }

    /// Bytes of memory used.
    pub fn bytes(&self) -> usize {
        let tags: usize = self.tags.iter().map(|chunk| size_of_val(&**chunk)).sum();
        tags + self.tags.capacity() * size_of::<Box<[Group]>>() + self.extents.capacity() * size_of::<Extent>()
    }
}
