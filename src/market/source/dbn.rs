//! Reading DBN: from a window of bytes to events, one record a step.

use super::{Lane, Step, check::check_mbo, directory::Publishers};
use crate::{
    channel::Record,
    market::{
        fault::{Fault, FaultKind, FaultLog},
        input::{DBN_HEADER, DbnHeader, Feed, FramedRecord, InputError, Mbo, Refill, frame_record},
    },
    operator::OperatorError,
    state::Arena,
};
use std::{marker::PhantomData, path::PathBuf, sync::Arc};

/// Reads DBN records for lane `L`.
pub(super) struct DbnReader<L> {
    pub(super) path: PathBuf,
    pub(super) header: Arc<DbnHeader>,
    pub(super) publishers: Publishers,
    pub(super) faults: Option<FaultLog>,
    pub(super) lane: PhantomData<fn() -> L>,
}

impl<L: Lane> DbnReader<L> {
    /// Reads one record.
    #[inline]
    pub(super) fn step(&mut self, feed: &mut Feed, state: &mut Arena) -> Result<Step<L::Event>, OperatorError> {
        let offset = feed.offset();
        match frame_record(feed.window()) {
            FramedRecord::Mbo(&mbo, taken) => {
                feed.advance(taken);
                self.mbo(state, &mbo, offset)
            }
            FramedRecord::ShortMbo(taken) => {
                feed.advance(taken);
                let fault = Fault { offset, kind: FaultKind::WrongLength, subject: 0, detail: taken as u64 };
                self.reject(state, fault)?;
                Ok(Step::Nothing)
            }
            FramedRecord::Other(taken) => {
                feed.advance(taken);
                Ok(Step::Nothing)
            }
            FramedRecord::Incomplete => self.more(feed, state),
            FramedRecord::Unframed => {
                let reason = format!("it is shorter than the {DBN_HEADER} bytes of a header");
                Ok(Step::Broken(InputError::Record { path: self.path.clone(), offset, reason }.into()))
            }
        }
    }

    fn mbo(&mut self, state: &mut Arena, mbo: &Mbo, offset: u64) -> Result<Step<L::Event>, OperatorError> {
        let instrument = mbo.instrument.get();
        let symbol = self.header.symbol(instrument, mbo.ts_recv.get());
        let mut outcome = check_mbo(mbo);
        if outcome.is_ok() && !self.publishers.admit(state, instrument, mbo.publisher.get())? {
            outcome = Err((FaultKind::SecondPublisher, u64::from(instrument)));
        }
        let event = match outcome {
            Ok(()) => L::of_mbo(mbo, symbol, offset),
            Err((kind, detail)) => {
                self.reject(state, Fault { offset, kind, subject: mbo.action, detail })?;
                let ends_event = mbo.flags & dbn::flags::LAST != 0;
                if ends_event { L::end_mark(instrument, symbol, offset) } else { None }
            }
        };
        // The bits of an undefined time (the highest number) survive the round trip through the record.
        let event_ns = mbo.ts_event.get() as i64;
        Ok(event.map_or(Step::Nothing, |value| Step::Event(Record { ingest_ns: 0, event_ns, key_group: 0, value })))
    }

    #[cold]
    fn reject(&mut self, state: &mut Arena, fault: Fault) -> Result<(), OperatorError> {
        match &mut self.faults {
            Some(faults) => faults.record(state, 0, fault),
            None => Ok(()),
        }
    }

    /// The window holds no whole record.
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
                    self.reject(state, Fault { offset, kind: FaultKind::CutShort, subject: 0, detail: left as u64 })?;
                }
                Ok(Step::End)
            }
        }
    }
}
