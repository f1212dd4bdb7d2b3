//! What can go wrong with state, and why a freeze may be declined.

use thiserror::Error;

/// An operation on an arena or on a state in it failed. The state is as it was before the operation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StateError {
    /// The arena holds as much as it may.
    #[error(
        "state memory is full: the arena's limit of {max_bytes} bytes is reached; raise `max_bytes`, or spread the key groups over more subtasks"
    )]
    MemoryFull {
        /// The limit, in bytes.
        max_bytes: u64,
    },
    /// The operating system refused to reserve address space.
    #[error(
        "cannot reserve {bytes} bytes of address space for state: {reason}; lower `max_bytes`, or raise the process's limit (ulimit -v, vm.overcommit_memory)"
    )]
    Reserve {
        /// Bytes asked for.
        bytes: u64,
        /// The system's reason.
        reason: Box<str>,
    },
    /// The arena's options contradict themselves.
    #[error("arena option `{option}` is {value}: it must be {expected}")]
    Options {
        /// The option's name.
        option: &'static str,
        /// What was given.
        value: Box<str>,
        /// What is allowed.
        expected: &'static str,
    },
    /// A record or a page of a key group that this subtask does not own.
    #[error(
        "key group {key_group} is outside this subtask's groups {start}..{end}: the record was routed, or the snapshot read, with another parallelism or maximum parallelism"
    )]
    KeyGroup {
        /// The group in question.
        key_group: u16,
        /// First group owned.
        start: u16,
        /// One past the last group owned.
        end: u16,
    },
    /// Two states of one operator have the same name.
    #[error("state `{name}` is already open in this operator: give each state a name of its own")]
    Duplicate {
        /// The name.
        name: Box<str>,
    },
    /// The operator has more states than a page id can tell apart.
    #[error("state `{name}` cannot be opened: an operator has at most 65535 states")]
    TooManyStates {
        /// The name.
        name: Box<str>,
    },
    /// A state's type is not what the snapshot holds.
    #[error(
        "state `{name}` was stored with {what} {stored}, the program has {found}: restore with the program that wrote it, or give the new type a new name"
    )]
    TypeChanged {
        /// The state's name.
        name: Box<str>,
        /// Which property differs.
        what: &'static str,
        /// Its value in the snapshot.
        stored: Box<str>,
        /// Its value in this program.
        found: Box<str>,
    },
    /// An entry does not fit a page.
    #[error(
        "state `{name}`: an entry of {bytes} bytes (alignment {align}) does not fit: the limits are {max_bytes} bytes and alignment 16; store large values in a KeyedList of smaller parts"
    )]
    EntryTooLarge {
        /// The state's name.
        name: Box<str>,
        /// Bytes of one key and value.
        bytes: usize,
        /// Their alignment.
        align: usize,
        /// The most that fits.
        max_bytes: usize,
    },
    /// A list would outgrow the largest block.
    #[error("a list of {len} elements of {element_bytes} bytes exceeds {max_bytes} bytes: split it over several keys")]
    ListTooLong {
        /// The length asked for.
        len: usize,
        /// Bytes of one element.
        element_bytes: usize,
        /// The largest list, in bytes.
        max_bytes: usize,
    },
    /// A position behind a list's end.
    #[error("index {index} is behind the end of a list of {len} elements")]
    Index {
        /// The position asked for.
        index: usize,
        /// The list's length.
        len: usize,
    },
    /// A restored page belongs to no restored state, or to one that is open already.
    #[error(
        "a page of state {state} cannot be restored: {why}; restore the descriptors first, then all pages, then open the states"
    )]
    RestoreOrder {
        /// The page's state.
        state: u16,
        /// What is the matter.
        why: &'static str,
    },
    /// A restored page and its mask do not fit together.
    #[error(
        "a restored page of state {state}, key group {key_group}, index {index} has {got} bytes of lines, its mask says {expected}: the snapshot is damaged"
    )]
    Lines {
        /// The page's state.
        state: u16,
        /// Its key group.
        key_group: u16,
        /// Its index.
        index: u32,
        /// Bytes given.
        got: usize,
        /// Bytes that the mask stands for.
        expected: usize,
    },
    /// The pages of a restored state contradict each other.
    #[error("state `{name}`, key group {key_group}: {what}; the snapshot is damaged, restore another checkpoint")]
    Damaged {
        /// The state's name.
        name: Box<str>,
        /// The key group.
        key_group: u16,
        /// What is wrong.
        what: Box<str>,
    },
}

/// Why an arena would not freeze just now. The running epoch simply goes on: nothing is lost, and the next freeze has
/// this one's lines too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FreezeDeclined {
    /// The writer is behind: moved pages have used up the spare memory.
    #[error(
        "checkpoint declined: {free} spare pages are left, at least {low_water} are needed; the writer is behind, lengthen the interval or raise `spare_ratio`"
    )]
    SparesLow {
        /// Free spare pages.
        free: u32,
        /// The low-water mark, in pages.
        low_water: u32,
    },
    /// The writer is behind: too many frozen lists wait for it.
    #[error(
        "checkpoint declined: {waiting} frozen lists wait for the writer, at most {max} may; lengthen the interval"
    )]
    ListsWaiting {
        /// Lists not yet written.
        waiting: usize,
        /// The limit.
        max: usize,
    },
    /// An earlier list was dropped before it was read to its end, so later deltas would have a gap.
    #[error(
        "checkpoint declined: an earlier frozen list was dropped unread, so no later delta is complete; restart the job from its last checkpoint"
    )]
    ListLost,
}
