//! Reading ITCH: from a window of bytes to events, one message a step.

use super::{Lane, Step, check::check_itch, directory::Directory};
use crate::{
    channel::Record,
    market::{
        fault::{Fault, FaultKind, FaultLog},
        input::{Feed, Refill},
        itch::{Framed, Message, PREFIX, Stock, frame},
    },
    operator::OperatorError,
    state::Arena,
};
use std::marker::PhantomData;

/// Reads ITCH messages for lane `L`.
pub(super) struct ItchReader<L> {
    pub(super) directory: Directory,
    pub(super) faults: Option<FaultLog>,
    pub(super) lane: PhantomData<fn() -> L>,
}

impl<L: Lane> ItchReader<L> {
    /// Reads one message.
    #[inline]
    pub(super) fn step(&mut self, feed: &mut Feed, state: &mut Arena) -> Result<Step<L::Event>, OperatorError> {
        let offset = feed.offset();
        let Framed::Body(body) = frame(feed.window()) else { return self.more(feed, state) };
        let Some(&message_type) = body.first() else { return self.zero_length(feed, state) };
        let taken = PREFIX + body.len();
        if !L::looks_at(message_type) {
            feed.advance(taken);
            return Ok(Step::Nothing);
        }
        let outcome = check_itch(body, offset).map(|message| (named(&message), event::<L>(&message, offset)));
        feed.advance(taken);
        let (named, event) = match outcome {
            Ok(accepted) => accepted,
            Err(fault) => return self.reject(state, fault),
        };
        if let Some((locate, stock)) = named
            && let Err((kind, detail)) = self.directory.admit(state, locate, stock)?
        {
            return self.reject(state, Fault { offset, kind, subject: message_type, detail });
        }
        Ok(event.map_or(Step::Nothing, Step::Event))
    }

    #[cold]
    fn reject(&mut self, state: &mut Arena, fault: Fault) -> Result<Step<L::Event>, OperatorError> {
        if let Some(faults) = &mut self.faults {
            faults.record(state, 0, fault)?;
        }
        Ok(Step::Nothing)
    }

    /// The window holds no whole message.
    #[cold]
    fn more(&mut self, feed: &mut Feed, state: &mut Arena) -> Result<Step<L::Event>, OperatorError> {
        match feed.refill() {
            Err(error) => Ok(Step::Broken(error.into())),
            Ok(Refill::More) => Ok(Step::Nothing),
            Ok(Refill::Pending) => Ok(Step::Pending),
            Ok(Refill::End) => {
                let (offset, left) = (feed.offset(), feed.window().len());
                if left > 0 {
                    feed.advance(left);
                    let subject = 0;
                    self.reject(state, Fault { offset, kind: FaultKind::CutShort, subject, detail: left as u64 })?;
                }
                Ok(Step::End)
            }
        }
    }

    /// A length of zero ends the session if nothing follows, and is a fault otherwise.
    #[cold]
    fn zero_length(&mut self, feed: &mut Feed, state: &mut Arena) -> Result<Step<L::Event>, OperatorError> {
        if feed.window().len() > PREFIX {
            let fault = Fault { offset: feed.offset(), kind: FaultKind::ZeroLength, subject: 0, detail: 0 };
            feed.advance(PREFIX);
            return self.reject(state, fault);
        }
        match feed.refill() {
            Err(error) => Ok(Step::Broken(error.into())),
            Ok(Refill::More) => Ok(Step::Nothing),
            Ok(Refill::Pending) => Ok(Step::Pending),
            Ok(Refill::End) => {
                feed.advance(PREFIX);
                Ok(Step::End)
            }
        }
    }
}

/// The event of a message with its time.
#[inline]
fn event<L: Lane>(message: &Message<'_>, offset: u64) -> Option<Record<L::Event>> {
    let event_ns = message.header().timestamp.ns() as i64;
    L::of_itch(message, offset).map(|value| Record { ingest_ns: 0, event_ns, key_group: 0, value })
}

/// The locate code and symbol of a message that names one.
#[inline]
fn named(message: &Message<'_>) -> Option<(u16, Stock)> {
    let stock = match message {
        Message::StockDirectory(m) => m.stock,
        Message::AddOrder(m) => m.stock,
        Message::AddOrderAttributed(m) => m.stock,
        Message::Trade(m) => m.stock,
        Message::CrossTrade(m) => m.stock,
        _ => return None,
    };
    Some((message.header().locate.get(), stock))
}
