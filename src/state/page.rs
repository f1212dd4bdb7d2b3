//! Pages and lines: the units in which state is copied, marked dirty, written and restored.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Plain;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a line, the unit of the dirty mask: a page has exactly as many lines as a `u64` has bits.
pub const LINE_BYTES: usize = 64;
const LINES: usize = PAGE_BYTES / LINE_BYTES;
const _: () = assert!(LINES == u64::BITS as usize);

/// The dirty mask that names every line of a page.
pub(crate) const ALL_LINES: u64 = u64::MAX;

/// A page's name in snapshots: stable for the life of the job, also across restores and rescales. (Where it lies in
/// memory is its extent, which changes whenever copy-on-write moves it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PageId {
    /// Index of the page within its state and key group; its upper two bits tell what the page is used for.
    pub index: u32,
    /// The state's id in the operator ([`super::StateDescriptor::id`]).
    pub state: u16,
    /// The key group that all entries of the page belong to.
    pub key_group: u16,
}

/// The memory of one page.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub(crate) struct Page(pub [u8; PAGE_BYTES]);

impl Page {
    /// The value at a byte offset that is a multiple of its alignment.
    ///
    /// # Panics
    /// If the value does not lie in the page, aligned. Where the layout is known at compile time, as it is in tables,
    /// little of the check is left.
    #[inline(always)]
    pub fn get<T: Plain>(&self, offset: usize) -> &T {
        Self::check::<T>(offset);
        // SAFETY: in bounds and aligned, as checked (the page itself is aligned to 64); any bytes are a `T`.
        unsafe { &*self.0.as_ptr().add(offset).cast::<T>() }
    }

    /// As [`Page::get`], for writing. The caller has marked the lines that it changes.
    #[inline(always)]
    pub fn get_mut<T: Plain>(&mut self, offset: usize) -> &mut T {
        Self::check::<T>(offset);
        // SAFETY: as in `get`; a `T` has no padding, so the page's bytes stay initialised.
        unsafe { &mut *self.0.as_mut_ptr().add(offset).cast::<T>() }
    }

    #[inline(always)]
    fn check<T>(offset: usize) {
        const { assert!(align_of::<T>() <= LINE_BYTES) };
        assert!(
            offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= PAGE_BYTES,
            "page offset {offset}"
        );
    }

    /// The bytes of one line.
    #[cfg(test)]
    pub fn line(&self, line: usize) -> &[u8] {
        &self.0[line * LINE_BYTES..(line + 1) * LINE_BYTES]
    }
}

/// The mask of the lines that `bytes` bytes from `offset` on lie in; both are within one page, `bytes` at least 1.
#[inline(always)]
pub(crate) const fn lines_of(offset: usize, bytes: usize) -> u64 {
    let first = offset / LINE_BYTES;
    let last = (offset + bytes - 1) / LINE_BYTES;
    (ALL_LINES >> (LINES - 1 - (last - first))) << first
}

/// The indices of the lines in a mask, ascending.
pub(crate) fn lines_in(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let line = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            line
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_covers_exactly_the_lines_of_its_bytes() {
        for offset in 0..PAGE_BYTES {
            for bytes in [1, 8, 16, 63, 64, 65, 200, PAGE_BYTES] {
                if offset + bytes > PAGE_BYTES {
                    continue;
                }
                let expected = (offset..offset + bytes).fold(0, |mask, byte| mask | 1u64 << (byte / LINE_BYTES));
                assert_eq!(lines_of(offset, bytes), expected, "offset {offset}, {bytes} bytes");
            }
        }
        assert_eq!(lines_in(0b1001_0000).collect::<Vec<_>>(), [4, 7]);
    }
}
