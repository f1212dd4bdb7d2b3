//! What a file must hold, as length and checksum.

/// A run of bytes by its length and CRC32C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub bytes: u64,
    pub crc: u32,
}

impl Content {
    #[cfg(test)]
    pub fn of(data: &[u8]) -> Self {
        Self::default().with(data)
    }

    /// These bytes followed by `data`.
    #[must_use]
    pub fn with(self, data: &[u8]) -> Self {
        Self { bytes: self.bytes + data.len() as u64, crc: crc32c::crc32c_append(self.crc, data) }
    }

    /// These bytes followed by `next`.
    #[must_use]
    pub fn then(self, next: Content) -> Self {
        let crc = crc32c::crc32c_combine(self.crc, next.crc, next.bytes as usize);
        Self { bytes: self.bytes + next.bytes, crc }
    }

    /// What remains behind `prefix`, of which these bytes must be a continuation. CRC32C is linear: combining the
    /// prefix with the remainder is an exclusive or, so a second one takes the prefix out again.
    #[must_use]
    pub fn behind(self, prefix: Content) -> Self {
        debug_assert!(prefix.bytes <= self.bytes);
        let bytes = self.bytes - prefix.bytes;
        Self { bytes, crc: self.crc ^ crc32c::crc32c_combine(prefix.crc, 0, bytes as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn contents_join_and_part(a in proptest::collection::vec(any::<u8>(), 0..300), b in proptest::collection::vec(any::<u8>(), 0..300)) {
            let whole = Content::of(&a).with(&b);
            prop_assert_eq!(whole, Content::of(&[a.clone(), b.clone()].concat()));
            prop_assert_eq!(Content::of(&a).then(Content::of(&b)), whole);
            prop_assert_eq!(whole.behind(Content::of(&a)), Content::of(&b));
        }
    }
}
