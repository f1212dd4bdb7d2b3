//! The pipeline's two sources. Each reads the whole input on its own and keeps its own position; what it has learned
//! on the way (names, publishers, faults) is its state.

mod check;
mod dbn;
mod directory;
mod itch;
mod lane;

use super::{
    fault::{FaultLog, OnError},
    input::{Feed, Format, Input, InputError},
    result::{BrokenInput, OrderBookResult, Results},
};
use crate::{
    channel::Record,
    operator::{OperatorError, Polled, Source},
    state::{Arena, KeyedMap},
};
use dbn::DbnReader;
use directory::{Directory, Publishers};
use itch::ItchReader;
use std::marker::PhantomData;
use thiserror::Error;

pub use lane::{Lane, Orders, Trades};

/// The source of order events.
pub type OrderSource = MarketSource<Orders>;
/// The source of trade events.
pub type TradeSource = MarketSource<Trades>;

/// A source over an [`Input`].
///
/// An input that is damaged ends there, like one that is complete: what came before the damage is processed by both
/// sources to the same message and committed. That it was damaged is in the [`Results`], in place of a result.
///
///  Its position is the offset of the next message in the uncompressed input, in bytes.
/// [`Source::poll`] neither blocks nor enters the kernel; the thread that reads a file ahead ends with the source.
pub struct MarketSource<L: Lane> {
    input: Input,
    on_error: OnError,
    results: Results,
    open: Option<Open<L>>,
}

/// What exists from `open` on.
struct Open<L> {
    feed: Feed,
    /// Messages read since then.
    messages: u64,
    reader: Reader<L>,
    /// At 0: the offset at which the input broke. State, because a finished job that is resumed has to know.
    broken_at: KeyedMap<u32, u64>,
    /// Why it broke, if it did so in this attempt.
    broken: Option<Box<InputError>>,
}

enum Reader<L> {
    Itch(ItchReader<L>),
    Dbn(DbnReader<L>),
}

/// What reading one message gave.
enum Step<V> {
    Event(Record<V>),
    /// A message of no interest here, or more bytes.
    Nothing,
    /// The bytes at hand are used up.
    Pending,
    End,
    /// The input cannot be read on.
    Broken(Box<InputError>),
}

/// A source was asked for records before it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("source '{0}' was polled before it was opened")]
pub struct NotOpen(&'static str);

/// The one key of [`Open::broken_at`].
const BROKEN_AT: u32 = 0;

/// Messages that one poll looks at before it gives the core back, some microseconds' worth: most of the input is not
/// the trades source's.
const MESSAGES_PER_POLL: usize = 256;

impl<L: Lane> MarketSource<L> {
    /// A source over `input`. When it ends, its faults are published to `results`.
    pub fn new(input: Input, on_error: OnError, results: Results) -> Self {
        Self { input, on_error, results, open: None }
    }
}

impl<L: Lane> Source for MarketSource<L> {
    type Out = L::Event;

    fn open(&mut self, state: &mut Arena, position: Option<u64>) -> Result<(), OperatorError> {
        let faults = if L::COUNTS_FAULTS { Some(FaultLog::open(state, L::NAME, self.on_error)?) } else { None };
        let lane = PhantomData;
        let reader = match self.input.format() {
            Format::Itch => Reader::Itch(ItchReader { directory: Directory::open(state, L::NAME)?, faults, lane }),
            Format::Dbn(header) => {
                let publishers = Publishers::open(state, L::NAME)?;
                Reader::Dbn(DbnReader { path: self.input.path(), header, publishers, faults, lane })
            }
        };
        let feed = self.input.feed(position.unwrap_or_else(|| self.input.begin()))?;
        let broken_at = KeyedMap::open(state, &format!("{}.broken_at", L::NAME), 1)?;
        self.open = Some(Open { feed, messages: 0, reader, broken_at, broken: None });
        Ok(())
    }

    #[inline]
    fn poll(&mut self, state: &mut Arena) -> Result<Polled<L::Event>, OperatorError> {
        let Open { feed, messages, reader, broken_at, broken } = self.open.as_mut().ok_or(NotOpen(L::NAME))?;
        if broken.is_some() {
            return Ok(Polled::EndOfData);
        }
        for _ in 0..MESSAGES_PER_POLL {
            let offset = feed.offset();
            let step = match reader {
                Reader::Itch(reader) => reader.step(feed, state)?,
                Reader::Dbn(reader) => reader.step(feed, state)?,
            };
            *messages += u64::from(feed.offset() != offset);
            match step {
                Step::Event(record) => return Ok(Polled::Record(record)),
                Step::Nothing => {}
                Step::Pending => return Ok(Polled::Pending),
                Step::End => return Ok(Polled::EndOfData),
                Step::Broken(error) if error.is_in_the_bytes() => {
                    broken_at.insert(state, BROKEN_AT, feed.offset())?;
                    *broken = Some(error);
                    return Ok(Polled::EndOfData);
                }
                // To read again may help: the job fails, and its last checkpoint can be resumed.
                Step::Broken(error) => return Err(error),
            }
        }
        Ok(Polled::Pending)
    }

    #[inline]
    fn position(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.feed.offset())
    }

    fn next_index(&self) -> Option<u64> {
        self.open.as_ref().map(|open| open.messages)
    }

    fn close(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        let open = self.open.take().ok_or(NotOpen(L::NAME))?;
        if let Some(&offset) = open.broken_at.get(state, &BROKEN_AT) {
            self.results.publish_broken(match open.broken {
                Some(error) => BrokenInput(error.to_string()),
                None => BrokenInput::before(&self.input, offset),
            });
        }
        let faults = match &open.reader {
            Reader::Itch(reader) => reader.faults.as_ref(),
            Reader::Dbn(reader) => reader.faults.as_ref(),
        };
        if let Some(faults) = faults {
            let mut result = OrderBookResult::default();
            result.messages = open.messages;
            faults.report(state, L::NAME, &mut result.faults);
            self.results.publish(result);
        }
        Ok(())
    }
}
