//! Messages between the coordinator and a core: one ring each way, polled, with no wake-up call.

use crate::channel::{Consumer, Frame, Producer, Record, ring};

/// The sending half.
pub(crate) struct MailSender<M>(Producer<M>);

/// The receiving half.
pub(crate) struct MailReceiver<M>(Consumer<M>);

/// A mailbox for up to `capacity` unread messages.
pub(crate) fn mailbox<M: Send>(capacity: usize) -> (MailSender<M>, MailReceiver<M>) {
    let (producer, consumer) = ring(capacity);
    (MailSender(producer), MailReceiver(consumer))
}

impl<M: Send> MailSender<M> {
    /// Sends, or gives the message back where the mailbox is full.
    pub(crate) fn send(&mut self, message: M) -> Result<(), M> {
        let record = Record { ingest_ns: 0, event_ns: 0, key_group: 0, value: message };
        match self.0.push(Frame::Record(record)) {
            Ok(()) => Ok(()),
            Err(full) => match full.0 {
                Frame::Record(record) => Err(record.value),
                _ => unreachable!("a mailbox holds nothing but records"),
            },
        }
    }
}

impl<M: Send> MailReceiver<M> {
    /// The oldest unread message.
    #[inline]
    pub(crate) fn receive(&mut self) -> Option<M> {
        match self.0.pop()? {
            Frame::Record(record) => Some(record.value),
            _ => None,
        }
    }
}
