//! Names that outlive a process: operators and stores.

use rkyv::{Archive, Deserialize, Serialize};

use crate::hash::stable_hash;

/// An operator's identity on disk: the stable hash of the name that the user gave it, so that it stays the same when
/// the job's graph changes around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Archive, Serialize, Deserialize)]
pub struct OperatorId(pub u64);

impl OperatorId {
    /// The id of the operator called `name`.
    pub fn from_name(name: &str) -> Self {
        Self(stable_hash(name.as_bytes()))
    }
}

impl std::fmt::Display for OperatorId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A store's identity, drawn when it is created: a segment of another store is recognised by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Archive, Serialize, Deserialize)]
pub struct StoreId(pub [u8; 16]);

impl StoreId {
    /// A fresh random id, from the operating system's generator by way of the standard library's hash seeds.
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let mut bytes = [0; 16];
        let seed = (std::process::id(), std::time::SystemTime::now());
        bytes[..8].copy_from_slice(&RandomState::new().hash_one(seed).to_le_bytes());
        bytes[8..].copy_from_slice(&RandomState::new().hash_one(seed).to_le_bytes());
        Self(bytes)
    }
}

impl std::fmt::Display for StoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_known_by_its_name_alone() {
        assert_eq!(OperatorId::from_name("book"), OperatorId::from_name("book"));
        assert_ne!(OperatorId::from_name("book"), OperatorId::from_name("books"));
    }

    #[test]
    fn two_stores_differ() {
        assert_ne!(StoreId::random(), StoreId::random());
    }
}
