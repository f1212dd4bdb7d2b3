//! Growth: one bucket is split when the table is full enough, so that no insert ever waits for a rehash.

use super::{BUCKETS, OVERFLOW, SPACE_SHIFT, Table};
use crate::state::bucket::{self, HEADER_LINE, Layout};
use crate::state::extents::Extent;
use crate::state::page::PageId;
use crate::state::spiral::{Spiral, page_of};
use crate::state::{Arena, Plain, StateError};

/// Mean load of the bucket pages at which one is split, in percent. The fullest bucket has 1.44 times the mean, the
/// emptiest 0.72: at 76 % about 1 % of the entries lie in overflow pages, and with 16-byte entries an entry costs
/// 23 bytes, all told (benches/state.rs). At 80 % it would be 22.4 bytes and 3 % of the entries.
const LOAD_PERCENT: u64 = 76;

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
        group.buckets.push(extent);
        group.spiral = Spiral::new(number + 1);
        group.limit = limit::<K, V>(group.spiral);
        Ok(extent)
    }

    /// Splits the next bucket: its even child stays in its page, the odd one gets a new page.
    fn split(&mut self, arena: &mut Arena) -> Result<(), StateError> {
        let parent = page_of(self.group(arena).spiral.buckets());
        // All that can fail comes first.
        let even = self.touch(arena, parent, Layout::<K, V>::TAG_LINES)?;
        let chain = self.touch_chain(arena, parent)?;
        let odd = self.add_bucket(arena)?;
        let odd_bucket = (self.group(arena).spiral.buckets() - 1) * 2 + 1;

        self.move_odd(arena, odd_bucket, even, odd);
        if chain.is_some() {
            bucket::set_chain(arena.rewrite(even, HEADER_LINE), None);
            self.unspill(arena, odd_bucket, chain, even, odd);
        }
        Ok(())
    }

    /// Makes the tags of a bucket's whole chain writable; returns its first page.
    fn touch_chain(&mut self, arena: &mut Arena, bucket: u32) -> Result<Option<u32>, StateError> {
        let group = self.group(arena);
        let first = group.overflow.follow(None, bucket::chain(group.bucket_page(arena, bucket))).map(|page| page.0);
        let mut next = first;
        while let Some(number) = next {
            let extent = self.touch(arena, OVERFLOW << SPACE_SHIFT | number, Layout::<K, V>::TAG_LINES)?;
            next =
                self.group(arena).overflow.follow(Some(number), bucket::chain(arena.page(extent))).map(|page| page.0);
        }
        Ok(first)
    }

    /// Moves the odd bucket's entries from the even one's page to its own.
    fn move_odd(&mut self, arena: &mut Arena, odd_bucket: u32, even: Extent, odd: Extent) {
        let spiral = self.group(arena).spiral;
        let old = *arena.page(even);
        for slot in Layout::<K, V>::taken(&old) {
            let key = Layout::<K, V>::key(&old, slot);
            let hash = Self::hash(key);
            if spiral.bucket(hash) != odd_bucket {
                continue;
            }
            if let Some(free) = Layout::<K, V>::vacant(arena.page(odd), hash) {
                let page = arena.rewrite(odd, Layout::<K, V>::put_lines(hash, free));
                Layout::<K, V>::put(page, hash, free, key, Layout::<K, V>::value(&old, slot));
                Layout::<K, V>::take(arena.rewrite(even, 0), hash, slot);
            }
        }
        Layout::<K, V>::recount(arena.rewrite(even, 0), Self::hash);
    }

    /// Moves what the split bucket had in its chain to its children's pages. What does not fit (only if the hashes
    /// are badly spread) stays, and its bucket keeps the chain.
    fn unspill(&mut self, arena: &mut Arena, odd_bucket: u32, chain: Option<u32>, even: Extent, odd: Extent) {
        let group = self.group_mut(arena);
        let spiral = group.spiral;
        let mut next = group.overflow.follow(None, chain);
        while let Some((number, extent)) = next {
            let old = *arena.page(extent);
            for slot in Layout::<K, V>::taken(&old) {
                let (key, value) = (Layout::<K, V>::key(&old, slot), Layout::<K, V>::value(&old, slot));
                let hash = Self::hash(key);
                let child = match odd_bucket ^ spiral.bucket(hash) {
                    0 => odd,
                    1 => even,
                    _ => continue, // another bucket's
                };
                match Layout::<K, V>::vacant(arena.page(child), hash) {
                    Some(free) => {
                        let page = arena.rewrite(child, Layout::<K, V>::put_lines(hash, free));
                        Layout::<K, V>::put(page, hash, free, key, value);
                        Layout::<K, V>::take(arena.rewrite(extent, 0), hash, slot);
                        group.overflow.freed(number);
                    }
                    None => {
                        let page = arena.rewrite(child, Layout::<K, V>::TAG_LINES);
                        Layout::<K, V>::pass_all(page);
                        bucket::set_chain(page, chain);
                    }
                }
            }
            next = group.overflow.follow(Some(number), bucket::chain(&old));
        }
    }
}
