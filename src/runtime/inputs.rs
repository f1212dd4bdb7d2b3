//! The head of a chain that reads rings: gates joined with the operator that handles their records.

use crate::channel::{Control, InputGate, Record};
use crate::operator::{Collector, KeyedCoProcess, KeyedProcess, OperatorError};
use crate::runtime::tail::Blockable;
use crate::state::Arena;

/// What a run over the input gates did.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// Records handled.
    pub records: usize,
    /// The control frame that ended the run, already consumed, and its channel.
    pub control: Option<(usize, Control)>,
}

/// One or more gates and what handles their records. Channels are counted through over all gates.
pub(crate) trait Operator: 'static {
    type Out;

    fn open(&mut self, _state: &mut Arena) -> Result<(), OperatorError> {
        Ok(())
    }

    fn channels(&self) -> usize;

    /// Handles up to `budget` records in place, in the order of their channel. Ends early at a control frame, when
    /// the output is blocked, or when no channel has anything.
    fn run(
        &mut self,
        budget: usize,
        state: &mut Arena,
        out: &mut (impl Collector<Self::Out> + Blockable),
        arrivals: &mut Arrivals,
    ) -> Result<Ran, OperatorError>;

    fn stop(&mut self, channel: usize);
    fn resume(&mut self, channel: usize);
    fn end(&mut self, channel: usize);

    fn end_of_data(&mut self, _state: &mut Arena, _out: &mut impl Collector<Self::Out>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn close(&mut self, _state: &mut Arena) -> Result<(), OperatorError> {
        Ok(())
    }
}

/// The due times of the records of one turn, kept where latency is measured.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    pub enabled: bool,
    pub ingest_ns: Vec<u64>,
}

impl Arrivals {
    #[inline(always)]
    fn note(&mut self, ingest_ns: u64) {
        if self.enabled {
            self.ingest_ns.push(ingest_ns);
        }
    }
}

/// Handles records of one gate, whose channels are counted from `first_channel`, until something ends the run; true
/// when that was a lack of records.
#[inline(always)]
fn run_gate<T>(
    gate: &mut InputGate<T>,
    first_channel: usize,
    budget: usize,
    ran: &mut Ran,
    arrivals: &mut Arrivals,
    mut handle: impl FnMut(Record<&T>) -> Result<bool, OperatorError>,
) -> Result<bool, OperatorError> {
    while ran.records < budget {
        let Some((channel, mut batch)) = gate.next_batch(budget - ran.records) else { return Ok(true) };
        while let Some(record) = batch.next_record() {
            arrivals.note(record.ingest_ns);
            let blocked = handle(record)?;
            ran.records += 1;
            if blocked {
                return Ok(false);
            }
        }
        if let Some(control) = batch.next_control() {
            ran.control = Some((first_channel + channel, control));
            return Ok(false);
        }
    }
    Ok(false)
}

/// A keyed process behind one gate.
pub(crate) struct OneInput<P: KeyedProcess> {
    pub gate: InputGate<P::In>,
    pub process: P,
}

impl<P: KeyedProcess> Operator for OneInput<P>
where
    P::In: 'static,
{
    type Out = P::Out;

    fn open(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        self.process.open(state)
    }

    fn channels(&self) -> usize {
        self.gate.channels()
    }

    fn run(
        &mut self,
        budget: usize,
        state: &mut Arena,
        out: &mut (impl Collector<Self::Out> + Blockable),
        arrivals: &mut Arrivals,
    ) -> Result<Ran, OperatorError> {
        let mut ran = Ran::default();
        run_gate(&mut self.gate, 0, budget, &mut ran, arrivals, |record| {
            state.set_key_group(record.key_group)?;
            self.process.process(record, state, out)?;
            Ok(out.is_blocked())
        })?;
        Ok(ran)
    }

    fn stop(&mut self, channel: usize) {
        self.gate.stop(channel);
    }

    fn resume(&mut self, channel: usize) {
        self.gate.resume(channel);
    }

    fn end(&mut self, channel: usize) {
        self.gate.end(channel);
    }

    fn end_of_data(&mut self, state: &mut Arena, out: &mut impl Collector<Self::Out>) -> Result<(), OperatorError> {
        self.process.end_of_data(state, out)
    }

    fn close(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        self.process.close(state)
    }
}

/// A keyed process behind two gates of different types; the second gate's channels are counted behind the first's.
pub(crate) struct TwoInputs<P: KeyedCoProcess> {
    pub gate1: InputGate<P::In1>,
    pub gate2: InputGate<P::In2>,
    pub process: P,
    pub second_first: bool,
}

impl<P: KeyedCoProcess> TwoInputs<P> {
    fn split(&self, channel: usize) -> Result<usize, usize> {
        channel.checked_sub(self.gate1.channels()).map_or(Ok(channel), Err)
    }
}

impl<P: KeyedCoProcess> Operator for TwoInputs<P>
where
    P::In1: 'static,
    P::In2: 'static,
{
    type Out = P::Out;

    fn open(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        self.process.open(state)
    }

    fn channels(&self) -> usize {
        self.gate1.channels() + self.gate2.channels()
    }

    fn run(
        &mut self,
        budget: usize,
        state: &mut Arena,
        out: &mut (impl Collector<Self::Out> + Blockable),
        arrivals: &mut Arrivals,
    ) -> Result<Ran, OperatorError> {
        // Each gate gets half of the budget before the other's turn, so that neither starves.
        let mut ran = Ran::default();
        let first_channels = self.gate1.channels();
        self.second_first = !self.second_first;
        for second in [self.second_first, !self.second_first] {
            let limit = (ran.records + budget.div_ceil(2)).min(budget);
            let dry = if second {
                run_gate(&mut self.gate2, first_channels, limit, &mut ran, arrivals, |record| {
                    state.set_key_group(record.key_group)?;
                    self.process.process2(record, state, out)?;
                    Ok(out.is_blocked())
                })?
            } else {
                run_gate(&mut self.gate1, 0, limit, &mut ran, arrivals, |record| {
                    state.set_key_group(record.key_group)?;
                    self.process.process1(record, state, out)?;
                    Ok(out.is_blocked())
                })?
            };
            if !dry && (ran.control.is_some() || out.is_blocked()) {
                break;
            }
        }
        Ok(ran)
    }

    fn stop(&mut self, channel: usize) {
        match self.split(channel) {
            Ok(first) => self.gate1.stop(first),
            Err(second) => self.gate2.stop(second),
        };
    }

    fn resume(&mut self, channel: usize) {
        match self.split(channel) {
            Ok(first) => self.gate1.resume(first),
            Err(second) => self.gate2.resume(second),
        };
    }

    fn end(&mut self, channel: usize) {
        match self.split(channel) {
            Ok(first) => self.gate1.end(first),
            Err(second) => self.gate2.end(second),
        };
    }

    fn end_of_data(&mut self, state: &mut Arena, out: &mut impl Collector<Self::Out>) -> Result<(), OperatorError> {
        self.process.end_of_data(state, out)
    }

    fn close(&mut self, state: &mut Arena) -> Result<(), OperatorError> {
        self.process.close(state)
    }
}

/// Several streams of one type read as one, in no particular order between channels.
pub(crate) struct Union<T> {
    pub gate: InputGate<T>,
}

impl<T: Clone + 'static> Operator for Union<T> {
    type Out = T;

    fn channels(&self) -> usize {
        self.gate.channels()
    }

    fn run(
        &mut self,
        budget: usize,
        _state: &mut Arena,
        out: &mut (impl Collector<T> + Blockable),
        arrivals: &mut Arrivals,
    ) -> Result<Ran, OperatorError> {
        let mut ran = Ran::default();
        run_gate(&mut self.gate, 0, budget, &mut ran, arrivals, |record| {
            out.collect(record.with(record.value.clone()));
            Ok(out.is_blocked())
        })?;
        Ok(ran)
    }

    fn stop(&mut self, channel: usize) {
        self.gate.stop(channel);
    }

    fn resume(&mut self, channel: usize) {
        self.gate.resume(channel);
    }

    fn end(&mut self, channel: usize) {
        self.gate.end(channel);
    }
}
