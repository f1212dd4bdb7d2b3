//! Tag groups: 15 slots' tags and a passed-on counter in 16 bytes, compared in one step.
//!
//! A tag is 0 for an empty slot, else 0x80 and seven bits of the hash. Byte 15 counts the keys that wanted a slot in
//! this group and are stored in a later one (the construction of Facebook's F14): a lookup goes on to the next group
//! only if there are any, and a deletion leaves no tombstone. The counter sticks at 255.

/// Slots in a full group.
pub(crate) const SLOTS: usize = 15;
/// Byte of the counter.
pub(crate) const COUNTER: usize = 15;
/// Bits of all slots.
const SLOT_BITS: u32 = (1 << SLOTS) - 1;

/// The 16 bytes of a group.
pub(crate) type Group = [u8; 16];

/// Bit i for each slot i whose tag is `tag`. For an empty tag, slots that a short group lacks count too.
#[inline(always)]
pub(crate) fn matches(group: &Group, tag: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        sse2::matches(group, tag) & SLOT_BITS
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        portable(group, tag) & SLOT_BITS
    }
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

    #[inline(always)]
    pub fn matches(group: &[u8; 16], tag: u8) -> u32 {
        // SAFETY: SSE2 is part of x86-64; the load reads the 16 bytes of `group`, at any alignment.
        unsafe {
            let tags = _mm_loadu_si128(group.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u32
        }
    }
}

/// For machines without SSE2, byte by byte; compilers turn it into what vector instructions there are.
#[cfg_attr(target_arch = "x86_64", allow(dead_code))]
#[inline(always)]
fn portable(group: &Group, tag: u8) -> u32 {
    group.iter().enumerate().fold(0, |bits, (i, &t)| bits | u32::from(t == tag) << i)
}

/// Starts loading the cache line at `address` for reading. Any address will do: nothing is read.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that cannot fault.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_portable_form_finds_the_same_slots(group: [u8; 16], tag: u8, at in 0usize..16) {
            let mut group = group;
            group[at] = tag;
            prop_assert_eq!(matches(&group, tag), portable(&group, tag) & SLOT_BITS);
            prop_assert_eq!(matches(&group, tag) >> at & 1, u32::from(at < SLOTS));
        }
    }
}
