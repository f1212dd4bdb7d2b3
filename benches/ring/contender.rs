//! The rings that are compared, behind one interface: 64-byte messages whose words all follow from their number.

use disruptor::{BusySpin, build_single_producer};
use isobar::channel::{Frame, Record, ring};

/// The capacity of each ring, in messages.
pub const CAPACITY: usize = 1024;
pub const BATCH: usize = 64;

/// The writing side of a contender. All calls return at once.
pub trait Writer: Send {
    /// Pushes message `id`; whether there was room.
    fn push(&mut self, id: u64) -> bool;
    /// Pushes the messages from `first` on, at most a batch; how many there was room for.
    fn push_batch(&mut self, first: u64, count: usize) -> usize;
}

/// The reading side of a contender; `visit` gets two words of each message, from its two ends.
pub trait Reader: Send {
    /// Pops one message; whether there was one.
    fn pop(&mut self, visit: impl FnMut(u64, u64)) -> bool;
    /// Reads what is there in place, at most a batch; how many.
    fn pop_batch(&mut self, visit: impl FnMut(u64, u64)) -> usize;
}

/// The last word of message `id`.
#[inline(always)]
pub fn last_word(id: u64) -> u64 {
    id.wrapping_mul(3)
}

#[inline(always)]
fn frame(id: u64) -> Frame<[u64; 5]> {
    Frame::Record(Record { ingest_ns: id, event_ns: 7, key_group: id as u16, value: [id, id, id, id, last_word(id)] })
}

pub struct Ours<P>(P);

pub fn ours() -> (impl Writer, impl Reader) {
    let (producer, consumer) = ring::<[u64; 5]>(CAPACITY);
    (Ours(producer), Ours(consumer))
}

impl Writer for Ours<isobar::channel::Producer<[u64; 5]>> {
    #[inline(always)]
    fn push(&mut self, id: u64) -> bool {
        self.0.push(frame(id)).is_ok()
    }

    #[inline(always)]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        self.0.push_batch(&mut (first..first + count as u64).map(frame))
    }
}

impl Reader for Ours<isobar::channel::Consumer<[u64; 5]>> {
    #[inline(always)]
    fn pop(&mut self, mut visit: impl FnMut(u64, u64)) -> bool {
        let Some(Frame::Record(record)) = self.0.pop() else { return false };
        visit(record.ingest_ns, record.value[4]);
        true
    }

    #[inline(always)]
    fn pop_batch(&mut self, mut visit: impl FnMut(u64, u64)) -> usize {
        let mut batch = self.0.batch(BATCH);
        while let Some(record) = batch.next_record() {
            visit(record.ingest_ns, record.value[4]);
        }
        batch.taken()
    }
}

/// A message of the other two, on a line of its own.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Line([u64; 8]);

#[inline(always)]
fn line(id: u64) -> Line {
    Line([id, 7, id, id, id, id, id, last_word(id)])
}

pub struct Rtrb<P>(P);

pub fn rtrb() -> (impl Writer, impl Reader) {
    let (producer, consumer) = rtrb::RingBuffer::<Line>::new(CAPACITY);
    (Rtrb(producer), Rtrb(consumer))
}

impl Writer for Rtrb<rtrb::Producer<Line>> {
    #[inline(always)]
    fn push(&mut self, id: u64) -> bool {
        self.0.push(line(id)).is_ok()
    }

    #[inline(always)]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        match self.0.write_chunk_uninit(count) {
            Ok(chunk) => chunk.fill_from_iter((first..first + count as u64).map(line)),
            Err(_) => 0,
        }
    }
}

impl Reader for Rtrb<rtrb::Consumer<Line>> {
    #[inline(always)]
    fn pop(&mut self, mut visit: impl FnMut(u64, u64)) -> bool {
        let Ok(Line(words)) = self.0.pop() else { return false };
        visit(words[0], words[7]);
        true
    }

    #[inline(always)]
    fn pop_batch(&mut self, mut visit: impl FnMut(u64, u64)) -> usize {
        let ready = self.0.slots().min(BATCH);
        let Ok(chunk) = self.0.read_chunk(ready) else { return 0 };
        let (front, back) = chunk.as_slices();
        front.iter().chain(back).for_each(|Line(words)| visit(words[0], words[7]));
        chunk.commit_all();
        ready
    }
}

struct DisruptorWriter<P>(P);
struct DisruptorReader<P>(P);

pub fn disruptor() -> (impl Writer, impl Reader) {
    let builder = build_single_producer(CAPACITY, || Line([0; 8]), BusySpin);
    let (poller, builder) = builder.new_event_poller();
    (DisruptorWriter(builder.build()), DisruptorReader(poller))
}

impl<P: disruptor::Producer<Line> + Send> Writer for DisruptorWriter<P> {
    #[inline(always)]
    fn push(&mut self, id: u64) -> bool {
        self.0.try_publish(|place| *place = line(id)).is_ok()
    }

    #[inline(always)]
    fn push_batch(&mut self, first: u64, count: usize) -> usize {
        let published = self.0.try_batch_publish(count, |places| {
            places.zip(first..).for_each(|(place, id)| *place = line(id));
        });
        if published.is_ok() { count } else { 0 }
    }
}

impl Reader for DisruptorReader<disruptor::EventPoller<Line, disruptor::SingleProducerBarrier>> {
    #[inline(always)]
    fn pop(&mut self, mut visit: impl FnMut(u64, u64)) -> bool {
        let Ok(mut events) = self.0.take(1) else { return false };
        (&mut events).for_each(|Line(words)| visit(words[0], words[7]));
        true
    }

    #[inline(always)]
    fn pop_batch(&mut self, mut visit: impl FnMut(u64, u64)) -> usize {
        let Ok(mut events) = self.0.take(BATCH as u64) else { return 0 };
        #[allow(clippy::unnecessary_mut_passed)] // `len` is that of `&mut EventGuard`, an iterator
        let ready = (&mut events).len();
        (&mut events).for_each(|Line(words)| visit(words[0], words[7]));
        ready
    }
}
