//! Growth: one bucket is split when the table is full enough, so that no insert ever waits for a rehash.

use super::{BUCKETS, OVERFLOW, SPACE_SHIFT, Table};
use crate::state::bucket::{self, HEADER_LINE, Layout};
use crate::state::extents::Extent;
use crate::state::page::PageId;
use crate::state::spiral::{Spiral, page_of};
use crate::state::{Arena, Plain, StateError};

/// Mean load of the bucket pages at which one is split, in percent. The fullest bucket has 1.44 times the mean, the
/// emptiest 0.72: at 78 % about 1 % of the entries lie in overflow pages, and an entry of 16 bytes costs 23, all told
/// (benches/state.rs).
const LOAD_PERCENT: u64 = 78;

/// The entries at which a table of this size is split.
pub(super) fn limit<K: Plain, V: Plain>(spiral: Spiral) -> u64 {
    u64::from(spiral.buckets()) * Layout::<K, V>::SLOTS as u64 * LOAD_PERCENT / 100
}

impl<K: Plain, V: Plain> Table<K, V> {
    /// Lets the current key group's table grow by a page if it has none or is full enough. On an error it is as before.
    #[inline]
    pub(super) fn make_room(&mut self, arena: &mut Arena) -> Result<(), StateError> {
        let group = self.group(arena);
        if group.entries < group.limit { Ok(()) } else { self.grow(arena) }
    }

    #[cold]
    fn grow(&mut self, arena: &mut Arena) -> Result<(), StateError> {
        // Pages of one entry each gain less than an entry by a split, so there may be two.
        for _ in 0..2 {
            let group = self.group(arena);
            match group.spiral.buckets() {
                0 => return self.add_bucket(arena).map(|_| ()),
                Spiral::MAX_BUCKETS => return Ok(()), // longer chains from here on
                _ if group.entries < group.limit => return Ok(()),
                _ => self.split(arena)?,
            }
        }
        Ok(())
    }

    /// Adds the next bucket page, empty, and addresses by it.
    fn add_bucket(&mut self, arena: &mut Arena) -> Result<Extent, StateError> {
        let number = self.group(arena).buckets.len() as u32;
        let index = BUCKETS << SPACE_SHIFT | number;
        let id = PageId { index, state: self.state, key_group: arena.key_group() };
        let extent = arena.allocate(id, 0, HEADER_LINE)?;
        let group = self.group_mut(arena);
        group.buckets.push(extent, Self::GROUPS);
        group.spiral = Spiral::new(number + 1);
        group.limit = limit::<K, V>(group.spiral);
        Ok(extent)
    }

    /// Splits the next bucket: its even child stays in its page, the odd one gets a new page.
    fn split(&mut self, arena: &mut Arena) -> Result<(), StateError> {
        let parent = self.group(arena).spiral.buckets();
        let even = page_of(parent);
        // All that can fail comes first.
        let even_extent = self.touch(arena, even, Layout::<K, V>::TAKEN_LINES)?;
        let chain: Vec<_> = self.group(arena).chain(arena, even_extent).map(|page| page.0).collect();
        for &number in &chain {
            self.touch(arena, OVERFLOW << SPACE_SHIFT | number, Layout::<K, V>::TAKEN_LINES)?;
        }
        let odd_extent = self.add_bucket(arena)?;

        let children = [
            Child { number: even, extent: even_extent },
            Child { number: page_of(2 * parent + 1), extent: odd_extent },
        ];
        self.move_odd(arena, 2 * parent, &children);
        if let Some(&first) = chain.first() {
            bucket::set_chain(arena.rewrite(even_extent, 0), None);
            for number in chain {
                self.unspill(arena, 2 * parent, &children, (number, first));
            }
        }
        Ok(())
    }

    /// Moves the odd bucket's entries from the even one's page to its own, and makes the even one's tags anew: what was
    /// in the chain has yet to find its place.
    fn move_odd(&mut self, arena: &mut Arena, even_bucket: u32, [even, odd]: &[Child; 2]) {
        let group = self.group_mut(arena);
        let old = *arena.page(even.extent);
        group.buckets.tags_mut(even.number, Self::GROUPS).fill([0; 16]);
        for slot in Layout::<K, V>::taken(&old) {
            let key = Layout::<K, V>::key(&old, slot);
            let hash = Self::hash(key);
            let odd_tags = group.buckets.tags_mut(odd.number, Self::GROUPS);
            match Layout::<K, V>::vacant(odd_tags, hash) {
                Some(free) if group.spiral.bucket(hash) != even_bucket => {
                    let page = arena.rewrite(odd.extent, Layout::<K, V>::put_lines(free));
                    Layout::<K, V>::put(odd_tags, page, hash, free, key, Layout::<K, V>::value(&old, slot));
                    Layout::<K, V>::clear(arena.rewrite(even.extent, 0), slot);
                }
                _ => Layout::<K, V>::tag_slot(group.buckets.tags_mut(even.number, Self::GROUPS), hash, slot),
            }
        }
    }

    /// Moves what the split bucket had in an overflow page to its children's pages. What does not fit (only if the
    /// hashes are badly spread) stays, and its bucket gets the chain, which starts at overflow page `first`.
    fn unspill(&mut self, arena: &mut Arena, even_bucket: u32, children: &[Child; 2], (number, first): (u32, u32)) {
        let group = self.group_mut(arena);
        let extent = group.overflow.pages.extent(number);
        let old = *arena.page(extent);
        for slot in Layout::<K, V>::taken(&old) {
            let (key, value) = (Layout::<K, V>::key(&old, slot), Layout::<K, V>::value(&old, slot));
            let hash = Self::hash(key);
            let Some(child) = children.get((group.spiral.bucket(hash) ^ even_bucket) as usize) else {
                continue; // another bucket's
            };
            let tags = group.buckets.tags_mut(child.number, Self::GROUPS);
            match Layout::<K, V>::vacant(tags, hash) {
                Some(free) => {
                    let page = arena.rewrite(child.extent, Layout::<K, V>::put_lines(free));
                    Layout::<K, V>::put(tags, page, hash, free, key, value);
                    let tags = group.overflow.pages.tags_mut(number, Self::GROUPS);
                    Layout::<K, V>::take(tags, arena.rewrite(extent, 0), hash, slot);
                    group.overflow.freed(number);
                }
                None => {
                    bucket::pass_all(tags);
                    bucket::set_chain(arena.rewrite(child.extent, HEADER_LINE), Some(first));
                }
            }
        }
    }
}

/// One of the two buckets that a bucket is split into: its page.
struct Child {
    number: u32,
    extent: Extent,
}
