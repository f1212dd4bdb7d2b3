//! The stable hash of keys. It decides a key's group and its place in a page, so it is part of the on-disk format
//! (format version 1) and never changes under that version.

const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
const MULTIPLIER: u64 = 0xD6E8_FEB8_6659_FD93;

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Hashes the bytes of a fixed-size key by folded 64 x 64 -> 128 bit multiplication (the construction of wyhash),
/// eight bytes a round, little-endian, the length mixed in at the end. All 64 bits of the result are usable.
///
/// Not meant to withstand chosen keys: whoever controls the keys can make them collide.
#[inline(always)]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let mut state = SEED;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        state = fold(state ^ u64::from_le_bytes(word), MULTIPLIER);
    }
    let tail = chunks.remainder();
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        state = fold(state ^ u64::from_le_bytes(word), MULTIPLIER);
    }
    fold(state ^ bytes.len() as u64, SEED)
}

/// The key group of a key's hash, in `0..max_parallelism`, taken from the hash's low 32 bits (the high bits place
/// the key inside its group's pages).
#[inline(always)]
pub fn key_group(hash: u64, max_parallelism: u16) -> u16 {
    ((u64::from(hash as u32) * u64::from(max_parallelism)) >> 32) as u16
}

/// The subtask that owns a key group, as in Flink: groups are split into contiguous ranges of nearly equal length.
#[inline(always)]
pub fn subtask_of(key_group: u16, max_parallelism: u16, parallelism: usize) -> usize {
    usize::from(key_group) * parallelism / usize::from(max_parallelism)
}

/// The key groups that a subtask owns: exactly those that [`subtask_of`] maps to it.
pub fn key_groups_of(subtask: usize, max_parallelism: u16, parallelism: usize) -> std::ops::Range<u16> {
    let bound = |s: usize| ((s * usize::from(max_parallelism)).div_ceil(parallelism)) as u16;
    bound(subtask)..bound(subtask + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_format_version_1_is_pinned() {
        assert_eq!(stable_hash(b""), 0xbe8c_ab64_4efd_da51);
        assert_eq!(stable_hash(b"isobar"), 0x3aab_a324_adc5_53b1);
        assert_eq!(stable_hash(&7u64.to_le_bytes()), 0xf941_f37b_31ed_e479);
        assert_eq!(stable_hash(b"a key of 21 bytes len"), 0x35ea_7b12_63a5_243d);
    }

    #[test]
    fn ranges_and_owners_agree_for_every_parallelism() {
        for max in [1u16, 7, 128, 1000] {
            for parallelism in 1..=usize::from(max).min(130) {
                let mut next = 0;
                for subtask in 0..parallelism {
                    let range = key_groups_of(subtask, max, parallelism);
                    assert_eq!(range.start, next);
                    assert!(range.clone().all(|g| subtask_of(g, max, parallelism) == subtask));
                    next = range.end;
                }
                assert_eq!(next, max);
            }
        }
    }

    #[test]
    fn consecutive_keys_spread_evenly_over_the_groups() {
        let mut counts = [0u32; 128];
        for key in 0u64..128_000 {
            counts[usize::from(key_group(stable_hash(&key.to_le_bytes()), 128))] += 1;
        }
        assert!(counts.iter().all(|&n| (850..1150).contains(&n)), "{counts:?}");
    }
}
