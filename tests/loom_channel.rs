//! Every interleaving of the ring's two ends, on small rings:
//! `RUSTFLAGS="--cfg isobar_loom" CARGO_TARGET_DIR=target/loom cargo test --release --test loom_channel`.
//!
//! Loom checks each access to a slot's body against the tags' and the head's ordering. A weaker ordering of any of
//! the three (tag store, tag load, head store, head load) fails here.
#![cfg(isobar_loom)]

use isobar::channel::{Barrier, BarrierKind, Consumer, Frame, Producer, Record, ring_at};
use loom::{sync::Arc, thread};

/// A value whose loss or second drop loom reports, since it tracks its `Arc`s.
type Value = Arc<u64>;

fn record(id: u64) -> Frame<Value> {
    Frame::Record(Record { ingest_ns: id, event_ns: 0, key_group: id as u16, value: Arc::new(id) })
}

fn push(producer: &mut Producer<Value>, mut frame: Frame<Value>) {
    while let Err(full) = producer.push(frame) {
        frame = full.0;
        thread::yield_now();
    }
}

fn pop(consumer: &mut Consumer<Value>) -> Frame<Value> {
    loop {
        if let Some(frame) = consumer.pop() {
            return frame;
        }
        thread::yield_now();
    }
}

fn assert_record(frame: Frame<Value>, id: u64) {
    let Frame::Record(record) = frame else { panic!("record {id} was sent") };
    assert_eq!((*record.value, record.ingest_ns, record.key_group), (id, id, id as u16));
}

/// Capacity 1 and 2, three frames: both wrap, and the producer finds the ring full. The lap counter wraps too.
#[test]
fn frames_arrive_whole_and_in_order() {
    for capacity_log2 in [0, 1] {
        loom::model(move || {
            let start = (1u64 << (32 + capacity_log2)) - 1;
            let (mut producer, mut consumer) = ring_at::<Value>(1 << capacity_log2, start);
            let feeder = thread::spawn(move || (0..3).for_each(|id| push(&mut producer, record(id))));
            (0..3).for_each(|id| assert_record(pop(&mut consumer), id));
            feeder.join().unwrap();
            assert!(consumer.is_disconnected() && consumer.is_empty());
        });
    }
}

#[test]
fn a_batch_reads_in_place_and_gives_its_slots_back_at_the_end() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring_at::<Value>(2, 0);
        let feeder = thread::spawn(move || {
            let mut frames = (0..3).map(record);
            let mut pushed = 0;
            while pushed < 3 {
                pushed += producer.push_batch(&mut frames);
                thread::yield_now();
            }
        });
        let mut next = 0;
        while next < 3 {
            let mut batch = consumer.batch(2);
            if let Some(record) = batch.next_record() {
                assert_eq!(**record.value, next);
                next += 1;
            }
            if let Some(record) = batch.take_record() {
                assert_eq!(*record.value, next);
                next += 1;
            }
            drop(batch);
            thread::yield_now();
        }
        feeder.join().unwrap();
    });
}

/// One tag publishes a run: whoever sees its first frame sees its last. Starting one before the wrap makes two runs of
/// it, which may be seen apart.
#[test]
fn a_run_is_seen_as_a_whole_but_for_a_wrap() {
    for (start, wraps) in [(0, false), (3, true)] {
        loom::model(move || {
            let (mut producer, mut consumer) = ring_at::<Value>(4, start);
            let feeder = thread::spawn(move || assert_eq!(producer.push_batch(&mut (0..3).map(record)), 3));
            if consumer.peek().is_some() {
                assert!(wraps || consumer.peek_at(2).is_some(), "a part of a run was seen");
            }
            (0..3).for_each(|id| assert_record(pop(&mut consumer), id));
            feeder.join().unwrap();
            assert!(consumer.is_empty());
        });
    }
}

/// The next run is written while the one before it is read, on the slots that its head gave back.
#[test]
fn a_run_read_in_part_gives_back_that_part_only() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring_at::<Value>(2, 0);
        assert_eq!(producer.push_batch(&mut (0..2).map(record)), 2);
        let feeder = thread::spawn(move || {
            let mut frames = (2..4).map(record);
            let pushed = producer.push_batch(&mut frames);
            pushed + producer.push_batch(&mut frames)
        });
        assert_record(pop(&mut consumer), 0);
        thread::yield_now();
        let Some(Frame::Record(record)) = consumer.peek() else { panic!("its run was pushed whole") };
        assert_eq!(**record.value, 1);
        assert_record(pop(&mut consumer), 1);
        let pushed = feeder.join().unwrap() as u64;
        (2..2 + pushed).for_each(|id| assert_record(pop(&mut consumer), id));
        assert!(consumer.is_empty());
    });
}

#[test]
fn a_barrier_keeps_its_place_and_its_words() {
    loom::model(|| {
        let barrier = Barrier { checkpoint: 7, trigger_ns: 9, kind: BarrierKind::Savepoint };
        let (mut producer, mut consumer) = ring_at::<Value>(2, 0);
        let feeder = thread::spawn(move || {
            push(&mut producer, record(1));
            push(&mut producer, Frame::Barrier(barrier));
            push(&mut producer, Frame::Watermark(5));
        });
        assert_record(pop(&mut consumer), 1);
        assert!(matches!(pop(&mut consumer), Frame::Barrier(b) if b == barrier));
        assert!(matches!(pop(&mut consumer), Frame::Watermark(5)));
        feeder.join().unwrap();
    });
}

/// Whoever goes last drops what was not read; loom reports a leaked or doubly dropped `Arc`.
#[test]
fn unread_frames_are_dropped_with_the_ring() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring_at::<Value>(2, u64::MAX);
        let feeder = thread::spawn(move || {
            let frames = [record(0), record(1)];
            frames.into_iter().all(|frame| producer.push(frame).is_ok())
        });
        consumer.pop();
        drop(consumer);
        assert!(feeder.join().unwrap(), "two frames fit");
    });
}

/// Both ends go while a run is under way, of which the consumer has read what it saw of the first frames.
#[test]
fn the_rest_of_a_run_is_dropped_with_the_ring() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring_at::<Value>(4, 2);
        let feeder = thread::spawn(move || {
            assert_eq!(producer.push_batch(&mut (0..3).map(record)), 3);
            producer.is_disconnected()
        });
        let mut batch = consumer.batch(4);
        if let Some(record) = batch.next_record() {
            assert_eq!(**record.value, 0);
        }
        drop(batch);
        drop(consumer);
        feeder.join().unwrap();
    });
}

/// After the disconnection was seen, empty is final: no frame is lost by an early stop.
#[test]
fn what_was_pushed_before_the_producer_went_is_seen_after_it() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring_at::<Value>(2, 0);
        let feeder = thread::spawn(move || push(&mut producer, record(0)));
        let mut received = 0;
        loop {
            let gone = consumer.is_disconnected();
            match consumer.pop() {
                Some(_) => received += 1,
                None if gone => break,
                None => thread::yield_now(),
            }
        }
        assert_eq!(received, 1);
        feeder.join().unwrap();
    });
}

#[test]
fn a_producer_sees_that_its_consumer_went() {
    loom::model(|| {
        let (producer, consumer) = ring_at::<Value>(1, 0);
        let reader = thread::spawn(move || drop(consumer));
        while !producer.is_disconnected() {
            thread::yield_now();
        }
        reader.join().unwrap();
    });
}
