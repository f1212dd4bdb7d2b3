//! What a snapshot's manifest keeps of each state, so that a changed type is an error and not a reinterpretation.

use super::StateError;

/// The shape of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StateKind {
    /// A [`super::KeyedMap`].
    Map = 1,
    /// A [`super::KeyedList`].
    List = 2,
}

impl StateKind {
    /// The kind that a manifest's number stands for.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::Map, Self::List].into_iter().find(|&kind| kind as u8 == number)
    }
}

/// A state's name, number and types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDescriptor {
    /// Number within the operator, as in [`super::PageId::state`]. Given in the order in which the states were first
    /// opened, so the same in every subtask.
    pub id: u16,
    /// Name within the operator.
    pub name: String,
    /// Map or list.
    pub kind: StateKind,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a map's value, or of a list's element.
    pub value_size: u32,
    /// Alignment of an entry, in bytes.
    pub align: u32,
    /// The user's own version of the types: raised when their meaning changes and their size does not.
    pub version: u32,
}

impl StateDescriptor {
    /// Compares what is stored with what the program has.
    pub(super) fn check(&self, found: &Self) -> Result<(), StateError> {
        let differs = |what, stored: String, found: String| {
            Err(StateError::TypeChanged {
                name: self.name.as_str().into(),
                what,
                stored: stored.into(),
                found: found.into(),
            })
        };
        if self.kind != found.kind {
            return differs("kind", format!("{:?}", self.kind), format!("{:?}", found.kind));
        }
        let numbers = [
            ("key size", self.key_size, found.key_size),
            ("value size", self.value_size, found.value_size),
            ("alignment", self.align, found.align),
            ("version", self.version, found.version),
        ];
        match numbers.into_iter().find(|(_, stored, found)| stored != found) {
            Some((what, stored, found)) => differs(what, stored.to_string(), found.to_string()),
            None => Ok(()),
        }
    }
}
