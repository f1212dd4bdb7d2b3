//! What the writer takes from the state engine: frozen pages, in the order in which they became dirty.

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a line, the unit of dirtiness.
pub const LINE_BYTES: usize = 64;

/// Which page of an operator's state: the same in memory and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageId {
    /// The state's id inside its operator.
    pub state: u16,
    /// The key group that the page belongs to.
    pub key_group: u16,
    /// The page's number inside state and key group.
    pub index: u32,
}

/// A page as it was at the freeze, with the lines that changed since the one before.
#[derive(Clone, Copy, Debug)]
pub struct FrozenPage<'a> {
    /// Which page.
    pub id: PageId,
    /// Bit i is set if line i (bytes `64 * i..64 * i + 64`) is dirty.
    pub mask: u64,
    /// The whole page.
    pub bytes: &'a [u8; PAGE_BYTES],
}

/// The frozen pages of one subtask and one checkpoint.
///
/// A list is read from front to back, once, and the lists of one subtask in the order of their freezes: the state
/// engine may reuse a page as soon as it is behind the reader.
pub trait FrozenPages: Send {
    /// The next page. Asking for it (and, at the end, dropping the list) gives the page before it back.
    fn next(&mut self) -> Option<FrozenPage<'_>>;
}
