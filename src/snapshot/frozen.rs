//! What the writer takes from the state engine: frozen pages, in the order in which they became dirty.

pub use crate::state::{LINE_BYTES, PAGE_BYTES, PageId};

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

impl FrozenPages for crate::state::FrozenList {
    fn next(&mut self) -> Option<FrozenPage<'_>> {
        let page = crate::state::FrozenList::next(self)?;
        Some(FrozenPage { id: page.id, mask: page.mask, bytes: page.bytes })
    }
}
