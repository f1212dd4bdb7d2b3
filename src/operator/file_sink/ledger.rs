//! Which lines lie in which pending file, and how far each is committed. Pure bookkeeping: no file, no thread.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::content::Content;
use super::name::FileName;
use super::publication::{Extract, Publication};
use super::transaction::{CommittedPiece, PIECES_MAX, Transaction};

/// A pending file.
#[derive(Debug)]
struct Piece {
    sequence: u64,
    content: Content,
    born: Instant,
    /// No more lines will be added.
    closed: bool,
    /// The barrier that all its lines lie before, once it is to be published.
    sealed: Option<u64>,
    /// The part that it goes into, once that is on its way.
    part: Option<u64>,
}

/// One subtask's transaction. Pieces are in the order of their lines, and are published in that order.
#[derive(Debug)]
pub(super) struct Ledger {
    subtask: u32,
    /// The newest part that is known to be public, or what was restored; `None` before there is either.
    published: Option<u64>,
    /// The newest part that is on its way or public.
    issued: Option<u64>,
    /// The length that the last closed piece came to, in bytes.
    last_closed_bytes: Option<u64>,
    pieces: VecDeque<Piece>,
    /// Bytes handed to files in this run.
    handed: u64,
    /// The same as of each barrier about whose checkpoint nothing is known yet.
    barriers: VecDeque<(u64, u64)>,
    /// The newest complete checkpoint, and the bytes before its barrier.
    committed: Option<(u64, u64)>,
}

/// What is to be done about a file that cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Repair {
    /// Write what was not durable to this new piece.
    Rewrite { from: u64, to: u64 },
    /// There is no room for another piece until a part that is on its way is public.
    Later,
    /// There is no room for another piece: no checkpoint has completed for too long.
    Exhausted,
}

impl Ledger {
    /// A ledger whose parts up to `published` hold all earlier lines; `None` for a fresh start.
    pub fn new(subtask: u32, published: Option<u64>) -> Self {
        let pieces = VecDeque::with_capacity(PIECES_MAX);
        let (issued, last_closed_bytes) = (published, None);
        Self {
            subtask,
            published,
            issued,
            last_closed_bytes,
            pieces,
            handed: 0,
            barriers: VecDeque::with_capacity(16),
            committed: None,
        }
    }

    /// Counts `data` in and returns the sequence of the pending file that it belongs to.
    pub fn append(&mut self, data: &[u8], now: Instant, next_sequence: impl FnOnce() -> u64) -> u64 {
        self.handed += data.len() as u64;
        if self.pieces.back().is_none_or(|piece| piece.closed) {
            let content = Content::default();
            let sequence = next_sequence();
            self.pieces.push_back(Piece { sequence, content, born: now, closed: false, sealed: None, part: None });
        }
        // The piece was pushed above where there was none; 0 is never reached.
        self.pieces.back_mut().map_or(0, |piece| {
            piece.content = piece.content.with(data);
            piece.sequence
        })
    }

    /// Barrier `checkpoint` has come: closes what is older than `roll`, and gives the transaction for the checkpoint.
    pub fn pre_commit(&mut self, checkpoint: u64, now: Instant, roll: Duration) -> Transaction {
        let oldest = self.pieces.iter().find(|piece| piece.sealed.is_none());
        let due = oldest.is_some_and(|piece| now.saturating_duration_since(piece.born) >= roll);
        // Closing the open piece makes room for another one necessary.
        let close = due && self.pieces.len() < PIECES_MAX;
        for piece in self.pieces.iter_mut().filter(|piece| piece.sealed.is_none()) {
            piece.closed |= close;
            piece.sealed = piece.closed.then_some(checkpoint);
            if close {
                self.last_closed_bytes = Some(piece.content.bytes);
            }
        }
        self.barriers.push_back((checkpoint, self.handed));
        Transaction {
            subtask: self.subtask,
            // Checkpoints that can be restored have ids from 1.
            published: self.published.unwrap_or(0),
            pieces: self.pieces.iter().map(|p| CommittedPiece { sequence: p.sequence, content: p.content }).collect(),
        }
    }

    /// Checkpoint `checkpoint`, and with it every earlier one, is complete: what is to be published.
    pub fn commit(&mut self, checkpoint: u64) -> Option<Publication> {
        while let Some(&barrier) = self.barriers.front()
            && barrier.0 <= checkpoint
        {
            self.committed = Some(barrier);
            self.barriers.pop_front();
        }
        self.publish(|piece| piece.sealed.is_some_and(|sealed| sealed <= checkpoint), checkpoint)
    }

    /// Part `checkpoint`, and with it every earlier one, is public for good.
    pub fn confirm(&mut self, checkpoint: u64) {
        while self.pieces.front().is_some_and(|piece| piece.part.is_some_and(|part| part <= checkpoint)) {
            self.pieces.pop_front();
        }
        self.published = Some(checkpoint);
    }

    /// Whose transaction this is.
    pub fn subtask(&self) -> u32 {
        self.subtask
    }

    /// How old the open file is, if there is one.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        let open = self.pieces.back().filter(|piece| !piece.closed)?;
        Some(now.saturating_duration_since(open.born))
    }

    /// What the file before the open one came to, in bytes.
    pub fn last_closed_bytes(&self) -> Option<u64> {
        self.last_closed_bytes
    }

    /// The job has ended: what is to be published so that nothing committed stays hidden. Lines behind the last
    /// complete checkpoint stay where they are.
    pub fn close(&mut self) -> Option<Publication> {
        let (checkpoint, handed) = self.committed?;
        if handed == self.handed { self.publish(|_| true, checkpoint) } else { None }
    }

    /// Sends the first pieces that are not on their way yet, as far as they are `ready`. They stay in the transaction
    /// until they are known to be public.
    fn publish(&mut self, ready: impl Fn(&Piece) -> bool, checkpoint: u64) -> Option<Publication> {
        let mut extracts = Vec::new();
        for piece in self.pieces.iter_mut().filter(|piece| piece.part.is_none()) {
            if !ready(piece) {
                break;
            }
            (piece.part, piece.closed) = (Some(checkpoint), true);
            extracts.push(Extract {
                file: FileName::Pending { subtask: self.subtask, sequence: piece.sequence },
                offset: 0,
                content: piece.content,
                // It may have been prepared for more, or hold what was not durable.
                cut: true,
            });
        }
        if extracts.is_empty() {
            return None;
        }
        let onto = self.issued == Some(checkpoint);
        self.issued = Some(checkpoint);
        Some(Publication::new(self.subtask, checkpoint, extracts, onto))
    }

    /// File `sequence` is not to be trusted behind `durable`. `None` where the ledger knows no such piece.
    pub fn repair(&mut self, sequence: u64, durable: Content, next_sequence: impl FnOnce() -> u64) -> Option<Repair> {
        let index = self.pieces.iter().position(|piece| piece.sequence == sequence)?;
        if durable.bytes > 0 && self.pieces.len() == PIECES_MAX {
            let is_on_its_way = self.pieces.iter().any(|piece| piece.part.is_some());
            return Some(if is_on_its_way { Repair::Later } else { Repair::Exhausted });
        }
        let to = next_sequence();
        let piece = &mut self.pieces[index];
        if durable.bytes == 0 {
            piece.sequence = to;
        } else {
            let rest = Piece { sequence: to, content: piece.content.behind(durable), ..*piece };
            (piece.content, piece.closed) = (durable, true);
            self.pieces.insert(index + 1, rest);
        }
        Some(Repair::Rewrite { from: sequence, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn append(ledger: &mut Ledger, data: &[u8], sequence: u64) {
        assert_eq!(ledger.append(data, Instant::now(), || sequence), sequence);
    }

    fn files(publication: &Publication) -> Vec<u64> {
        let sequence = |extract: &Extract| match extract.file {
            FileName::Pending { sequence, .. } => sequence,
            other => panic!("{other}"),
        };
        publication.extracts.iter().map(sequence).collect()
    }

    #[test]
    fn a_young_file_stays_open_over_checkpoints() {
        let mut ledger = Ledger::new(0, None);
        append(&mut ledger, b"one\n", 5);
        assert_eq!(ledger.pre_commit(1, Instant::now(), DAY).pieces[0].content, Content::of(b"one\n"));
        assert_eq!(ledger.commit(1), None);
        append(&mut ledger, b"two\n", 5);
        assert_eq!(ledger.pre_commit(2, Instant::now(), DAY).pieces[0].content, Content::of(b"one\ntwo\n"));
        assert_eq!(ledger.commit(2), None);
        let last = ledger.close().unwrap();
        assert_eq!((last.checkpoint, files(&last)), (2, vec![5]));
    }

    #[test]
    fn what_a_failed_checkpoint_sealed_is_published_by_the_next() {
        let mut ledger = Ledger::new(0, None);
        append(&mut ledger, b"one\n", 1);
        ledger.pre_commit(1, Instant::now(), Duration::ZERO);
        append(&mut ledger, b"two\n", 2);
        let transaction = ledger.pre_commit(2, Instant::now(), Duration::ZERO);
        assert_eq!((transaction.published, transaction.pieces.len()), (0, 2));
        append(&mut ledger, b"three\n", 3);
        let publication = ledger.commit(2).unwrap();
        assert_eq!((publication.checkpoint, files(&publication), publication.onto), (2, vec![1, 2], false));
        assert_eq!(ledger.commit(2), None, "a repeated commit has nothing to do");
        assert_eq!(ledger.close(), None, "the third line is not committed");
        let waiting = ledger.pre_commit(3, Instant::now(), DAY);
        assert_eq!((waiting.published, waiting.pieces.len()), (0, 3), "not known to be public yet");
        ledger.confirm(2);
        let rest = ledger.pre_commit(4, Instant::now(), DAY);
        assert_eq!((rest.published, rest.pieces.len()), (2, 1));
    }

    #[test]
    fn lines_that_outlive_their_seal_go_onto_the_last_part_at_the_end() {
        let mut ledger = Ledger::new(0, None);
        append(&mut ledger, b"one\n", 1);
        ledger.pre_commit(1, Instant::now(), Duration::ZERO);
        append(&mut ledger, b"two\n", 2);
        ledger.pre_commit(2, Instant::now(), DAY);
        assert_eq!(files(&ledger.commit(2).unwrap()), [1]);
        let last = ledger.close().unwrap();
        assert_eq!((last.checkpoint, files(&last), last.onto), (2, vec![2], true));
    }

    #[test]
    fn a_broken_file_keeps_its_durable_lines_and_gives_the_rest_to_a_new_one() {
        let mut ledger = Ledger::new(0, None);
        append(&mut ledger, b"durable\nlost\n", 1);
        let durable = Content::of(b"durable\n");
        assert_eq!(ledger.repair(1, durable, || 2), Some(Repair::Rewrite { from: 1, to: 2 }));
        append(&mut ledger, b"more\n", 2);
        let pieces = ledger.pre_commit(1, Instant::now(), DAY).pieces;
        assert_eq!(pieces[0], CommittedPiece { sequence: 1, content: durable });
        assert_eq!(pieces[1], CommittedPiece { sequence: 2, content: Content::of(b"lost\nmore\n") });
        assert_eq!(ledger.repair(2, Content::default(), || 3), Some(Repair::Rewrite { from: 2, to: 3 }));
        assert_eq!(ledger.pre_commit(2, Instant::now(), DAY).pieces[1].sequence, 3);
        assert_eq!(files(&ledger.commit(2).unwrap()), [1], "the durable beginning is closed, so it goes out");
    }

    #[test]
    fn pieces_are_bounded_while_no_checkpoint_completes() {
        let mut ledger = Ledger::new(0, None);
        for n in 0..100 {
            ledger.append(b"x\n", Instant::now(), || n);
            assert!(ledger.pre_commit(n + 1, Instant::now(), Duration::ZERO).pieces.len() <= PIECES_MAX);
        }
        assert_eq!(ledger.repair(PIECES_MAX as u64 - 1, Content::of(b"x\n"), || 200), Some(Repair::Exhausted));
        assert_eq!(ledger.commit(100).unwrap().extracts.len(), PIECES_MAX - 1);
        let last = PIECES_MAX as u64 - 1;
        assert_eq!(ledger.repair(last, Content::of(b"x\n"), || 200), Some(Repair::Later), "room is on its way");
        ledger.confirm(100);
        assert_eq!(ledger.repair(last, Content::of(b"x\n"), || 200), Some(Repair::Rewrite { from: last, to: 200 }));
    }
}
