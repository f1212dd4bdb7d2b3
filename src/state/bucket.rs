//! The layout of a table's page, and the tags that find an entry in it.
//!
//! ```text
//!   0   count   u64   entries of the whole key group; in the first bucket's page only
//!   8   chain   u32   1 + number of the overflow page that continues this page; 0: none
//!  12   unused  u32
//!  16   taken   u64s  bit i of all: slot i holds an entry
//!   E   entries       key, value, both aligned; the last one ends with the page (less at most 15 bytes)
//! ```
//!
//! The tags follow from the keys and are kept beside the pages, dense, in memory alone ([`super::table`]): a lookup
//! reads 16 bytes of them and then, as a rule, one line of the page. (With the tags in the page, every lookup missed
//! the TLB at its first step and waited for two lines of memory in turn: 0.38 x hashbrown at 64 MiB.)
//!
//! A key's *home* group comes from its hash. If that is full, the key goes to the next group with a free slot, in a
//! circle, and each group it passes counts it. A key that finds the whole page full goes to an overflow page, and
//! every group counts it: only a lookup that all groups passed on looks there.

use std::marker::PhantomData;

use super::Plain;
use super::page::{LINE_BYTES, PAGE_BYTES, Page, lines_of};
use super::tags::{self, COUNTER};

const HEADER: usize = 16;
const COUNT_AT: usize = 0;
const CHAIN_AT: usize = 8;
const STUCK: u8 = u8::MAX;

/// The mask of the header's line.
pub(crate) const HEADER_LINE: u64 = 1;
/// The largest entry, in bytes, and its largest alignment.
pub(crate) const MAX_ENTRY: usize = PAGE_BYTES - 2 * HEADER;
pub(crate) const MAX_ALIGN: usize = 16;

/// What a lookup in one page found.
pub(crate) enum Lookup {
    /// The key, in this slot.
    Hit(usize),
    /// The key is not in the table.
    Miss,
    /// The key is not in this page, but may be in its chain.
    Beyond,
}

/// The page layout for keys `K` with values `V`. Where a function takes tags, they are the page's `GROUPS` groups.
pub(crate) struct Layout<K, V>(PhantomData<(K, V)>);

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

impl<K: Plain, V: Plain> Layout<K, V> {
    /// Alignment of an entry.
    pub const ALIGN: usize = larger(align_of::<K>(), align_of::<V>());
    const VALUE_AT: usize = size_of::<K>().next_multiple_of(align_of::<V>());
    /// Bytes from one entry to the next.
    pub const STRIDE: usize = larger(1, (Self::VALUE_AT + size_of::<V>()).next_multiple_of(Self::ALIGN));
    /// Whether an entry fits a page at all.
    pub const FITS: bool = Self::STRIDE <= MAX_ENTRY && Self::ALIGN <= MAX_ALIGN;
    /// Slots of a page.
    pub const SLOTS: usize = Self::count_slots();
    /// Tag groups of a page.
    pub const GROUPS: usize = Self::SLOTS.div_ceil(tags::SLOTS);
    const ENTRIES: usize = Self::entries_at(Self::SLOTS);
    /// Whether no entry lies in two lines.
    const ENTRIES_WITHIN_LINES: bool =
        Self::STRIDE.is_power_of_two() && Self::STRIDE <= LINE_BYTES && Self::ENTRIES % Self::STRIDE == 0;
    /// The lines of header and taken bits.
    pub const TAKEN_LINES: u64 = lines_of(0, Self::taken_end(Self::SLOTS));

    const fn taken_end(slots: usize) -> usize {
        HEADER + slots.div_ceil(64) * 8
    }

    const fn entries_at(slots: usize) -> usize {
        (PAGE_BYTES - slots * Self::STRIDE) & !(MAX_ALIGN - 1)
    }

    const fn count_slots() -> usize {
        if !Self::FITS {
            return 1; // never used: opening such a table is an error
        }
        let mut slots = (PAGE_BYTES - HEADER) / Self::STRIDE;
        while Self::taken_end(slots) > Self::entries_at(slots) {
            slots -= 1;
        }
        slots
    }

    /// The hash's low 7 bits, marked as taken.
    #[inline(always)]
    fn tag(hash: u64) -> u8 {
        hash as u8 | 0x80
    }

    /// The home group, from the 10 bits above the tag's. (The key group comes from the bits above these, the bucket
    /// from the upper 32.)
    #[inline(always)]
    pub fn home(hash: u64) -> usize {
        ((hash >> 7 & 0x3FF) as usize * Self::GROUPS) >> 10
    }

    #[inline(always)]
    fn next(group: usize) -> usize {
        if group + 1 == Self::GROUPS { 0 } else { group + 1 }
    }

    #[inline(always)]
    fn entry_at(slot: usize) -> usize {
        Self::ENTRIES + slot * Self::STRIDE
    }

    /// The key in a slot.
    #[inline(always)]
    pub fn key(page: &Page, slot: usize) -> &K {
        page.get(Self::entry_at(slot))
    }

    /// The value in a slot.
    #[inline(always)]
    pub fn value(page: &Page, slot: usize) -> &V {
        page.get(Self::entry_at(slot) + Self::VALUE_AT)
    }

    /// The value in a slot, whose lines are marked.
    #[inline(always)]
    pub fn value_mut(page: &mut Page, slot: usize) -> &mut V {
        page.get_mut(Self::entry_at(slot) + Self::VALUE_AT)
    }

    /// The lines of a slot's value.
    #[inline(always)]
    pub fn value_lines(slot: usize) -> u64 {
        if Self::ENTRIES_WITHIN_LINES {
            return 1 << (Self::entry_at(slot) / LINE_BYTES);
        }
        lines_of(Self::entry_at(slot) + Self::VALUE_AT, larger(1, size_of::<V>()))
    }

    /// The lines that [`Layout::put`] changes.
    pub fn put_lines(slot: usize) -> u64 {
        Self::take_lines(slot) | lines_of(Self::entry_at(slot), Self::STRIDE)
    }

    /// The lines that [`Layout::take`] changes.
    pub fn take_lines(slot: usize) -> u64 {
        lines_of(HEADER + slot / 64 * 8, 8)
    }

    fn word(page: &Page, slot: usize) -> u64 {
        *page.get(HEADER + slot / 64 * 8)
    }

    /// Looks a key up in the first slot of its home group whose tag fits: that is where nine of ten keys are.
    #[inline(always)]
    pub fn find_home(home: usize, tags: &tags::Group, page: &Page, hash: u64, key: &K) -> Option<usize> {
        let candidates = tags::matches(tags, Self::tag(hash));
        if candidates == 0 {
            return None;
        }
        let slot = home * tags::SLOTS + candidates.trailing_zeros() as usize;
        (slot < Self::SLOTS && Self::key(page, slot).as_bytes() == key.as_bytes()).then_some(slot)
    }

    /// Starts loading the entry that [`Layout::find_home`] would look at. Without branches: where there is none, the
    /// load is of no use and does no harm.
    #[inline(always)]
    pub fn prefetch_home(home: usize, tags: &tags::Group, page: &Page, hash: u64) {
        let candidate = tags::matches(tags, Self::tag(hash)).trailing_zeros() as usize % 16;
        let slot = (home * tags::SLOTS + candidate).min(Self::SLOTS - 1);
        tags::prefetch(&page.0[Self::entry_at(slot)]);
    }

    /// Looks a key up, in all groups that it may be in.
    pub fn find(tags: &[tags::Group], page: &Page, hash: u64, key: &K) -> Lookup {
        let mut home = Self::home(hash);
        for _ in 0..Self::GROUPS {
            let group = &tags[home];
            let mut candidates = tags::matches(group, Self::tag(hash));
            while candidates != 0 {
                let slot = home * tags::SLOTS + candidates.trailing_zeros() as usize;
                if Self::key(page, slot).as_bytes() == key.as_bytes() {
                    return Lookup::Hit(slot);
                }
                candidates &= candidates - 1;
            }
            if group[COUNTER] == 0 {
                return Lookup::Miss;
            }
            home = Self::next(home);
        }
        Lookup::Beyond
    }

    /// The free slot that a key would be put into.
    pub fn vacant(tags: &[tags::Group], hash: u64) -> Option<usize> {
        let mut group = Self::home(hash);
        for _ in 0..Self::GROUPS {
            let free = tags::matches(&tags[group], 0).trailing_zeros() as usize;
            let slot = group * tags::SLOTS + free;
            // The last group may be short, and its missing slots look free.
            if free < tags::SLOTS && slot < Self::SLOTS {
                return Some(slot);
            }
            group = Self::next(group);
        }
        None
    }

    /// Stores an entry in a slot that [`Layout::vacant`] gave for its hash.
    pub fn put(tags: &mut [tags::Group], page: &mut Page, hash: u64, slot: usize, key: &K, value: &V) {
        Self::tag_slot(tags, hash, slot);
        *page.get_mut(HEADER + slot / 64 * 8) = Self::word(page, slot) | 1 << (slot % 64);
        *page.get_mut(Self::entry_at(slot)) = *key;
        *Self::value_mut(page, slot) = *value;
    }

    /// Frees a slot.
    pub fn take(tags: &mut [tags::Group], page: &mut Page, hash: u64, slot: usize) {
        Self::pass(tags, hash, slot, fewer);
        tags[slot / tags::SLOTS][slot % tags::SLOTS] = 0;
        Self::clear(page, slot);
    }

    /// Frees a slot in the page alone.
    pub fn clear(page: &mut Page, slot: usize) {
        *page.get_mut(HEADER + slot / 64 * 8) = Self::word(page, slot) & !(1 << (slot % 64));
    }

    /// Notes an entry of the page in the tags.
    pub fn tag_slot(tags: &mut [tags::Group], hash: u64, slot: usize) {
        Self::pass(tags, hash, slot, |counter| counter.saturating_add(1));
        tags[slot / tags::SLOTS][slot % tags::SLOTS] = Self::tag(hash);
    }

    /// Changes the counters of the groups before the slot's, from the home group on.
    fn pass(tags: &mut [tags::Group], hash: u64, slot: usize, change: impl Fn(u8) -> u8) {
        let last = slot / tags::SLOTS;
        let mut group = Self::home(hash);
        while group != last {
            let counter = &mut tags[group][COUNTER];
            *counter = change(*counter);
            group = Self::next(group);
        }
    }

    /// The slots that are taken.
    pub fn taken(page: &Page) -> impl Iterator<Item = usize> + use<'_, K, V> {
        (0..Self::SLOTS.div_ceil(64)).flat_map(|word| {
            let mut bits = Self::word(page, word * 64);
            std::iter::from_fn(move || {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                (bits != 0 && slot < Self::SLOTS).then(|| {
                    bits &= bits - 1;
                    slot
                })
            })
        })
    }
}

/// Notes that one key more of a page is in its chain.
pub(crate) fn pass_all(tags: &mut [tags::Group]) {
    tags.iter_mut().for_each(|group| group[COUNTER] = group[COUNTER].saturating_add(1));
}

/// Notes that one key less of a page is in its chain.
pub(crate) fn unpass_all(tags: &mut [tags::Group]) {
    tags.iter_mut().for_each(|group| group[COUNTER] = fewer(group[COUNTER]));
}

fn fewer(counter: u8) -> u8 {
    if counter == STUCK { STUCK } else { counter.saturating_sub(1) }
}

/// Entries of the key group, in the page of its first bucket.
pub(crate) fn count_mut(page: &mut Page) -> &mut u64 {
    page.get_mut(COUNT_AT)
}

/// As [`count_mut`], for reading.
pub(crate) fn count(page: &Page) -> u64 {
    *page.get(COUNT_AT)
}

/// Number of the overflow page that continues a page.
pub(crate) fn chain(page: &Page) -> Option<u32> {
    page.get::<u32>(CHAIN_AT).checked_sub(1)
}

/// Sets or cuts a page's chain; its header line is marked.
pub(crate) fn set_chain(page: &mut Page, overflow: Option<u32>) {
    *page.get_mut(CHAIN_AT) = overflow.map_or(0, |number| number + 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::stable_hash;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use zerocopy::IntoBytes;

    type Small = Layout<u64, u64>;

    fn hash(key: &u64) -> u64 {
        stable_hash(key.as_bytes())
    }

    fn check_layout<K: Plain, V: Plain>(slots: usize) {
        type L<K, V> = Layout<K, V>;
        assert_eq!(L::<K, V>::SLOTS, slots);
        assert!(L::<K, V>::taken_end(slots) <= L::<K, V>::ENTRIES);
        assert!(L::<K, V>::entry_at(slots) <= PAGE_BYTES);
        assert_eq!(L::<K, V>::entry_at(0) % L::<K, V>::ALIGN, 0);
    }

    #[test]
    fn the_layouts_of_format_version_1_are_pinned() {
        check_layout::<u64, u64>(253);
        check_layout::<u32, u32>(502);
        check_layout::<u64, [u64; 3]>(127);
        check_layout::<u16, [u8; 3]>(664);
        check_layout::<u64, [u64; 500]>(1);
        check_layout::<u8, ()>(3616);
        assert_eq!(Small::ENTRIES, 48);
    }

    #[test]
    fn entries_of_a_power_of_two_do_not_straddle_lines() {
        for slot in 0..Small::SLOTS {
            assert_eq!(lines_of(Small::entry_at(slot), 16), Small::value_lines(slot));
        }
        type Wide = Layout<u64, [u64; 3]>;
        for slot in 0..Wide::SLOTS {
            assert_eq!(lines_of(Wide::entry_at(slot), 32), Wide::value_lines(slot));
        }
    }

    proptest! {
        /// A page full of entries that come and go is a map; every key outside it is known to be outside.
        #[test]
        fn a_page_is_a_small_map(ops in prop::collection::vec((any::<bool>(), 0u64..400), 1..1500)) {
            let (mut page, mut tags, mut model) = (Page([0; PAGE_BYTES]), [[0; 16]; Small::GROUPS], BTreeMap::new());
            for (i, (insert, key)) in ops.into_iter().enumerate() {
                let (hash, before) = (hash(&key), page);
                let mut lines = 0;
                match Small::find(&tags, &page, hash, &key) {
                    Lookup::Hit(slot) if !insert => {
                        lines = Small::take_lines(slot);
                        Small::take(&mut tags, &mut page, hash, slot);
                        prop_assert!(model.remove(&key).is_some());
                    }
                    Lookup::Hit(slot) => prop_assert_eq!(model.get(&key), Some(Small::value(&page, slot))),
                    Lookup::Miss | Lookup::Beyond => {
                        prop_assert!(!model.contains_key(&key));
                        if let (true, Some(slot)) = (insert, Small::vacant(&tags, hash)) {
                            lines = Small::put_lines(slot);
                            Small::put(&mut tags, &mut page, hash, slot, &key, &(i as u64));
                            model.insert(key, i as u64);
                        } else {
                            prop_assert!(!insert || model.len() == Small::SLOTS);
                        }
                    }
                }
                let changed = (0..64).filter(|&l| before.line(l) != page.line(l)).fold(0u64, |m, l| m | 1 << l);
                prop_assert_eq!(changed & !lines, 0, "changed lines are announced");
            }
            let found: BTreeMap<_, _> =
                Small::taken(&page).map(|slot| (*Small::key(&page, slot), *Small::value(&page, slot))).collect();
            prop_assert_eq!(&found, &model);
            let mut again = [[0; 16]; Small::GROUPS];
            Small::taken(&page).for_each(|slot| Small::tag_slot(&mut again, hash(Small::key(&page, slot)), slot));
            prop_assert_eq!(tags, again, "the tags follow from the page");
        }
    }
}
