//! The manifest: what the job is. It is small, replaced as a whole, and only on start, restart and compaction.
//!
//! ```text
//!  0          8         12         16         20       24
//!  | "ISOBARMF" | version | body len | body crc | crc | rkyv archive of `Manifest` |
//! ```
//! All numbers are little-endian; `crc` is the CRC32C of bytes 0..20, `body crc` that of the body.

use std::collections::{BTreeMap, BTreeSet};

use rkyv::{Archive, Deserialize, Serialize};

use super::commit::EncodeError;
use super::error::LogError;
use super::identity::{OperatorId, StoreId};
use super::record::{FORMAT_VERSION, u32_at};

const MAGIC: [u8; 8] = *b"ISOBARMF";
const HEAD_BYTES: usize = 24;

/// What a store belongs to. Two manifests are compared with [`Manifest::check`] before anything is restored.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct Manifest {
    /// The job's name.
    pub job: String,
    /// The store's identity; every segment repeats it.
    pub store: StoreId,
    /// The number of key groups.
    pub max_parallelism: u16,
    /// Every operator with an identity of its own.
    pub operators: Vec<OperatorEntry>,
    /// What the input is, as the application describes it: pairs of name and value, such as length and hash.
    pub input: Vec<(String, String)>,
    /// Segments below this number are no longer part of the history.
    pub first_segment: u32,
    /// Page images, as of the checkpoint that each names. This version writes none.
    pub images: Vec<ImageEntry>,
}

/// One operator of the job.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct OperatorEntry {
    /// Its id, the stable hash of its name.
    pub id: OperatorId,
    /// Its name.
    pub name: String,
    /// How many subtasks it had when the manifest was written. May change from run to run.
    pub parallelism: u32,
    /// Its states.
    pub states: Vec<StateEntry>,
}

/// The type of one state, so that a changed struct is an error and not a reinterpretation.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct StateEntry {
    /// Its number inside the operator: the `state` of its page ids.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// The kind of state: map, list, ..., as the state engine numbers them.
    pub kind: u8,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Alignment of key and value.
    pub align: u32,
    /// The version that the user gave the types.
    pub version: u32,
}

/// One image of a key group's pages.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ImageEntry {
    /// The checkpoint whose state it is.
    pub checkpoint: u64,
    /// The file, relative to the job's folder.
    pub file: String,
}

impl Manifest {
    /// The manifest of a new store.
    pub fn new(job: impl Into<String>, max_parallelism: u16, operators: Vec<OperatorEntry>) -> Self {
        Self {
            job: job.into(),
            store: StoreId::random(),
            max_parallelism,
            operators,
            input: Vec::new(),
            first_segment: 1,
            images: Vec::new(),
        }
    }

    /// The file's bytes.
    pub(crate) fn to_file(&self) -> Result<Vec<u8>, EncodeError> {
        let body = self.encode()?;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&u32::from(FORMAT_VERSION).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// Reads a manifest's bytes; `place` names the file in errors.
    pub(crate) fn from_file(bytes: &[u8], place: &str) -> Result<Self, LogError> {
        let damaged = |offset: usize, what: &str| LogError::Damaged {
            place: place.into(),
            offset: offset as u64,
            what: what.into(),
            advice: "restore the file from a backup",
        };
        if bytes.len() < MAGIC.len() || bytes[..8] != MAGIC {
            return Err(LogError::Foreign { place: place.into(), expected: "the manifest of an isobar store" });
        }
        if bytes.len() < HEAD_BYTES {
            return Err(damaged(bytes.len(), "the file is cut"));
        }
        if crc32c::crc32c(&bytes[..20]) != u32_at(bytes, 20) {
            return Err(damaged(0, "the checksum of the head is wrong"));
        }
        let found = u32_at(bytes, 8);
        if found != u32::from(FORMAT_VERSION) {
            return Err(LogError::Version { place: place.into(), found, supported: FORMAT_VERSION.into() });
        }
        let body = &bytes[HEAD_BYTES..];
        if body.len() as u64 != u64::from(u32_at(bytes, 12)) {
            return Err(damaged(bytes.len(), "the file is cut, or has something behind its end"));
        }
        if crc32c::crc32c(body) != u32_at(bytes, 16) {
            return Err(damaged(HEAD_BYTES, "the checksum of the body is wrong"));
        }
        Self::decode(body).ok_or_else(|| damaged(HEAD_BYTES, "the body is not a manifest"))
    }

    /// Whether a job described by `job` can restore what a store with this manifest holds. The parallelism of
    /// operators may differ; states that the job does not know yet are no obstacle, lost ones are.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, job: &Manifest) -> Result<(), Mismatch> {
        if self.job != job.job {
            return Err(Mismatch::Job { store: self.job.clone(), job: job.job.clone() });
        }
        if self.max_parallelism != job.max_parallelism {
            return Err(Mismatch::MaxParallelism { store: self.max_parallelism, job: job.max_parallelism });
        }
        self.check_operators(job)?;
        self.check_input(job)
    }

    fn check_operators(&self, job: &Manifest) -> Result<(), Mismatch> {
        let wanted: BTreeMap<OperatorId, &OperatorEntry> = job.operators.iter().map(|o| (o.id, o)).collect();
        let known: BTreeSet<OperatorId> = self.operators.iter().map(|o| o.id).collect();
        if let Some(added) = job.operators.iter().find(|o| !known.contains(&o.id)) {
            return Err(Mismatch::OperatorAdded { name: added.name.clone() });
        }
        for stored in &self.operators {
            let Some(operator) = wanted.get(&stored.id) else {
                return Err(Mismatch::OperatorMissing { name: stored.name.clone() });
            };
            for state in &stored.states {
                check_state(operator, state)?;
            }
        }
        Ok(())
    }

    fn check_input(&self, job: &Manifest) -> Result<(), Mismatch> {
        if self.input == job.input {
            return Ok(());
        }
        let value = |input: &[(String, String)], name: &str| {
            input.iter().find(|(n, _)| n == name).map_or_else(|| "nothing".to_owned(), |(_, v)| v.clone())
        };
        let names = self.input.iter().chain(&job.input).map(|(name, _)| name.as_str());
        let (name, store, now) = names
            .map(|name| (name, value(&self.input, name), value(&job.input, name)))
            .find(|(_, store, now)| store != now)
            .unwrap_or(("order", "another order".into(), "this order".into()));
        Err(Mismatch::Input { name: name.to_owned(), store, job: now })
    }
}

fn check_state(operator: &OperatorEntry, stored: &StateEntry) -> Result<(), Mismatch> {
    let Some(state) = operator.states.iter().find(|s| s.name == stored.name) else {
        return Err(Mismatch::StateMissing { operator: operator.name.clone(), state: stored.name.clone() });
    };
    if state == stored {
        return Ok(());
    }
    let describe = |s: &StateEntry| {
        format!(
            "number {}, kind {}, keys of {} and values of {} bytes, alignment {}, version {}",
            s.id, s.kind, s.key_size, s.value_size, s.align, s.version
        )
    };
    Err(Mismatch::StateType {
        operator: operator.name.clone(),
        state: stored.name.clone(),
        store: describe(stored),
        job: describe(state),
    })
}

/// How the job of a store differs from the one that wants it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another job.
    #[error("it was written by job {store:?}, this is {job:?}; choose that job's own store")]
    Job {
        /// The store's job.
        store: String,
        /// The one at hand.
        job: String,
    },
    /// Another number of key groups.
    #[error("it has max parallelism {store}, the job {job}; key groups cannot be changed: set it to {store}")]
    MaxParallelism {
        /// The store's.
        store: u16,
        /// The job's.
        job: u16,
    },
    /// An operator of the store is not in the job.
    #[error("it holds state of operator {name:?}, which the job does not have; give the operator its name back")]
    OperatorMissing {
        /// The operator.
        name: String,
    },
    /// An operator of the job is not in the store.
    #[error("it does not know operator {name:?}; give the operator its earlier name back or start afresh")]
    OperatorAdded {
        /// The operator.
        name: String,
    },
    /// A state of the store is not in the job.
    #[error("it holds state {state:?} of operator {operator:?}, which the job does not register; register it again")]
    StateMissing {
        /// The operator.
        operator: String,
        /// The state.
        state: String,
    },
    /// A state has another type.
    #[error("state {state:?} of operator {operator:?} has another type: the store has {store}, the job {job}")]
    StateType {
        /// The operator.
        operator: String,
        /// The state.
        state: String,
        /// The type in the store.
        store: String,
        /// The type in the job.
        job: String,
    },
    /// Another input.
    #[error("it was written for another input ({name}: {store} there, {job} here); give it the input it knows")]
    Input {
        /// What of the input differs.
        name: String,
        /// The store's value.
        store: String,
        /// The job's.
        job: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str) -> StateEntry {
        StateEntry { id: 0, name: name.into(), kind: 1, key_size: 8, value_size: 16, align: 8, version: 1 }
    }

    fn manifest() -> Manifest {
        let operator = |name: &str| OperatorEntry {
            id: OperatorId::from_name(name),
            name: name.into(),
            parallelism: 2,
            states: vec![state("orders")],
        };
        let mut manifest = Manifest::new("orderbook", 128, vec![operator("source"), operator("book")]);
        manifest.input = vec![("length".into(), "123".into()), ("hash".into(), "abc".into())];
        manifest
    }

    #[test]
    fn a_manifest_comes_back_as_it_was() {
        let manifest = manifest();
        assert_eq!(Manifest::from_file(&manifest.to_file().unwrap(), "m").unwrap(), manifest);
    }

    #[test]
    fn every_flipped_byte_and_every_cut_is_a_typed_error() {
        let bytes = manifest().to_file().unwrap();
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x41;
            assert!(Manifest::from_file(&flipped, "m").is_err(), "flip at {at}");
            assert!(Manifest::from_file(&bytes[..at], "m").is_err(), "cut at {at}");
        }
        assert!(Manifest::from_file(&[&bytes[..], &[0]].concat(), "m").is_err());
    }

    #[test]
    fn a_foreign_file_and_another_version_are_told_apart() {
        assert!(matches!(Manifest::from_file(b"{\"json\": true}", "m"), Err(LogError::Foreign { .. })));
        let mut bytes = manifest().to_file().unwrap();
        bytes[8] = 9;
        let crc = crc32c::crc32c(&bytes[..20]).to_le_bytes();
        bytes[20..24].copy_from_slice(&crc);
        assert!(matches!(Manifest::from_file(&bytes, "m"), Err(LogError::Version { found: 9, .. })));
    }

    #[test]
    fn another_parallelism_and_a_new_state_fit() {
        let (store, mut job) = (manifest(), manifest());
        job.operators[1].parallelism = 5;
        job.operators[1].states.push(state("levels"));
        assert_eq!(store.check(&job), Ok(()));
    }

    #[test]
    fn every_difference_is_named() {
        let store = manifest();
        let differs = |change: fn(&mut Manifest)| {
            let mut job = manifest();
            change(&mut job);
            store.check(&job).unwrap_err()
        };
        assert!(matches!(differs(|m| m.job = "other".into()), Mismatch::Job { .. }));
        assert_eq!(differs(|m| m.max_parallelism = 64), Mismatch::MaxParallelism { store: 128, job: 64 });
        assert!(matches!(differs(|m| drop(m.operators.pop())), Mismatch::OperatorMissing { name } if name == "book"));
        assert!(matches!(
            differs(|m| m.operators.push(OperatorEntry { id: OperatorId(5), ..m.operators[0].clone() })),
            Mismatch::OperatorAdded { .. }
        ));
        assert!(matches!(differs(|m| m.operators[0].states.clear()), Mismatch::StateMissing { .. }));
        assert!(matches!(differs(|m| m.operators[0].states[0].value_size = 24), Mismatch::StateType { .. }));
        assert!(
            matches!(differs(|m| m.input[1].1 = "abd".into()), Mismatch::Input { name, store, job } if (&name[..], &store[..], &job[..]) == ("hash", "abc", "abd"))
        );
    }
}
