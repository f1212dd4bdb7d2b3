//! The input gate's cost per record by the number of channels, on one core.

use std::time::{Duration, Instant};

use isobar::channel::{Frame, InputGate, Receiver, Record, Sender, local_ring};

use super::contender::BATCH;

/// Fills `channels` rings evenly and drains them through a gate, `records` in all; the time that the draining took.
pub fn drain(channels: usize, records: u64) -> Duration {
    let pairs = (0..channels).map(|_| local_ring::<[u64; 5]>(1024 / channels));
    let (mut senders, receivers): (Vec<_>, Vec<_>) = pairs.map(|(p, c)| (Sender::from(p), Receiver::from(c))).unzip();
    let mut gate = InputGate::new(receivers);
    let (mut sent, mut sum, mut elapsed) = (0, 0, Duration::ZERO);
    while sent < records {
        for sender in &mut senders {
            let room = (sender.free_slots() as u64).min(records - sent);
            let frames = (sent..sent + room)
                .map(|id| Frame::Record(Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: [id; 5] }));
            sent += sender.push_batch(&mut { frames }) as u64;
        }
        let start = Instant::now();
        while let Some((_, mut batch)) = gate.next_batch(BATCH) {
            while let Some(record) = batch.next_record() {
                sum += record.value[0];
            }
        }
        elapsed += start.elapsed();
    }
    assert_eq!(sum, records * (records - 1) / 2, "not what was sent");
    elapsed
}
