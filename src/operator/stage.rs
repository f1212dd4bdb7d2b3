//! The stateless steps that chain into one call: map, filter, flat_map and key_by.
//!
//! A chain is a type: `Then<Map<F>, Filter<G>>` compiles into one function with no ring, box or copy between the
//! steps.

use zerocopy::{Immutable, IntoBytes};

use super::Collector;
use crate::channel::Record;
use crate::hash::{key_group, stable_hash};

/// One step of a chain: takes a record and gives any number of records.
///
/// A stage has no state that a checkpoint would know of; what must survive belongs into a keyed process.
pub trait Stage<In>: Clone + Send + 'static {
    /// The values that the stage gives.
    type Out;

    /// Handles one record.
    fn apply(&mut self, record: Record<In>, out: &mut impl Collector<Self::Out>);

    /// Tells the stage the job's number of key groups, once, before the first record.
    fn configure(&mut self, _max_parallelism: u16) {}
}

/// The empty chain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

impl<T> Stage<T> for Identity {
    type Out = T;

    #[inline(always)]
    fn apply(&mut self, record: Record<T>, out: &mut impl Collector<T>) {
        out.collect(record);
    }
}

/// One stage behind another.
#[derive(Clone, Copy, Debug)]
pub struct Then<A, B>(pub(crate) A, pub(crate) B);

struct Feed<'a, B, O> {
    stage: &'a mut B,
    out: &'a mut O,
}

impl<T, B: Stage<T>, O: Collector<B::Out>> Collector<T> for Feed<'_, B, O> {
    #[inline(always)]
    fn collect(&mut self, record: Record<T>) {
        self.stage.apply(record, self.out);
    }
}

impl<In, A: Stage<In>, B: Stage<A::Out>> Stage<In> for Then<A, B> {
    type Out = B::Out;

    #[inline(always)]
    fn apply(&mut self, record: Record<In>, out: &mut impl Collector<Self::Out>) {
        self.0.apply(record, &mut Feed { stage: &mut self.1, out });
    }

    fn configure(&mut self, max_parallelism: u16) {
        self.0.configure(max_parallelism);
        self.1.configure(max_parallelism);
    }
}

/// See [`Stream::map`](crate::job::Stream::map).
#[derive(Clone, Copy, Debug)]
pub struct Map<F>(pub(crate) F);

impl<In, Out, F: FnMut(In) -> Out + Clone + Send + 'static> Stage<In> for Map<F> {
    type Out = Out;

    #[inline(always)]
    fn apply(&mut self, record: Record<In>, out: &mut impl Collector<Out>) {
        out.collect(record.map(&mut self.0));
    }
}

/// See [`Stream::filter`](crate::job::Stream::filter).
#[derive(Clone, Copy, Debug)]
pub struct Filter<F>(pub(crate) F);

impl<T, F: FnMut(&T) -> bool + Clone + Send + 'static> Stage<T> for Filter<F> {
    type Out = T;

    #[inline(always)]
    fn apply(&mut self, record: Record<T>, out: &mut impl Collector<T>) {
        if (self.0)(&record.value) {
            out.collect(record);
        }
    }
}

/// See [`Stream::flat_map`](crate::job::Stream::flat_map).
#[derive(Clone, Copy, Debug)]
pub struct FlatMap<F>(pub(crate) F);

impl<In, I: IntoIterator, F: FnMut(In) -> I + Clone + Send + 'static> Stage<In> for FlatMap<F> {
    type Out = I::Item;

    #[inline(always)]
    fn apply(&mut self, record: Record<In>, out: &mut impl Collector<I::Item>) {
        let blank = record.with(());
        for value in (self.0)(record.value) {
            out.collect(blank.with(value));
        }
    }
}

/// Gives each record its key group. See [`Stream::key_by`](crate::job::Stream::key_by).
#[derive(Clone, Copy, Debug)]
pub struct KeyBy<F> {
    key: F,
    max_parallelism: u16,
}

impl<F> KeyBy<F> {
    pub(crate) fn new(key: F) -> Self {
        Self { key, max_parallelism: 1 }
    }
}

impl<T, K: IntoBytes + Immutable, F: FnMut(&T) -> K + Clone + Send + 'static> Stage<T> for KeyBy<F> {
    type Out = T;

    #[inline(always)]
    fn apply(&mut self, mut record: Record<T>, out: &mut impl Collector<T>) {
        let key = (self.key)(&record.value);
        record.key_group = key_group(stable_hash(key.as_bytes()), self.max_parallelism);
        out.collect(record);
    }

    fn configure(&mut self, max_parallelism: u16) {
        self.max_parallelism = max_parallelism;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T> Collector<T> for Vec<Record<T>> {
        fn collect(&mut self, record: Record<T>) {
            self.push(record);
        }
    }

    #[test]
    fn a_chain_keeps_order_times_and_key_group() {
        let mut chain = Then(
            Then(Then(Identity, Map(|n: u32| n + 1)), Filter(|n: &u32| n.is_multiple_of(2))),
            FlatMap(|n: u32| (0..n).map(move |i| u64::from(n * 10 + i))),
        );
        let mut out = Vec::new();
        for n in 0..4 {
            chain.apply(Record { ingest_ns: 7, event_ns: 8, key_group: 9, value: n }, &mut out);
        }
        let expected: Vec<_> =
            [20, 21, 40, 41, 42, 43].map(|value| Record { ingest_ns: 7, event_ns: 8, key_group: 9, value }).into();
        assert_eq!(out, expected);
    }

    #[test]
    fn key_by_places_a_record_by_its_keys_bytes() {
        let mut chain = KeyBy::new(|n: &u64| *n);
        Stage::<u64>::configure(&mut chain, 128);
        let mut out = Vec::new();
        chain.apply(Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: 77u64 }, &mut out);
        assert_eq!(out[0].key_group, key_group(stable_hash(&77u64.to_le_bytes()), 128));
    }
}
