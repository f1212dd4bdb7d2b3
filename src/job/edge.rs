//! Edges between operators, and the rings that an execution attempt makes of them.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use crate::channel::{Consumer, Outbox, OutboxError, Producer, Receiver, Sender, local_ring, ring};

/// How an edge spreads records over the subtasks of the operator that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Subtask i feeds subtask i: both operators have the same parallelism.
    Forward,
    /// A record goes to the subtask that owns its key group.
    KeyGroup,
    /// Every subtask gets every record.
    Broadcast,
}

/// What the graph knows of an edge without its record type.
pub(crate) trait Wire: Send + Sync {
    fn spread(&self) -> Spread;

    /// Makes fresh rings between subtasks that run on the given cores.
    fn wire(&self, id: usize, up: &[usize], down: &[usize], capacity: usize);
}

/// The two ends of one channel, each taken once, by the core that needs it.
enum Ends<T> {
    /// Across cores: both ends exist already.
    Shared { sender: Option<Producer<T>>, receiver: Option<Consumer<T>> },
    /// On one core: the ring is of the kind that stays on its thread, so whoever comes first makes it there.
    Local,
}

struct Rings<T> {
    edge: usize,
    capacity: usize,
    channels: HashMap<(usize, usize), Ends<T>>,
    up: usize,
    down: usize,
}

/// An edge for records of type `T`.
pub(crate) struct Edge<T> {
    spread: Spread,
    rings: std::sync::Mutex<Option<Rings<T>>>,
}

type LocalPair<T> = (Option<Sender<T>>, Option<Receiver<T>>);

/// The rings that stay on one core, by edge and subtasks: a `LocalPair` of the edge's record type each.
pub(crate) type LocalEnds = HashMap<(usize, usize, usize), Box<dyn Any>>;

impl<T: Send + Clone + 'static> Edge<T> {
    pub(crate) fn new(spread: Spread) -> Arc<Self> {
        Arc::new(Self { spread, rings: std::sync::Mutex::new(None) })
    }

    /// The outbox of upstream subtask `up`.
    pub(crate) fn outbox(
        &self,
        up: usize,
        max_parallelism: u16,
        locals: &mut LocalEnds,
    ) -> Result<Outbox<T>, OutboxError> {
        let mut guard = self.rings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let rings = guard.as_mut().expect("an attempt wires every edge before it builds a subtask");
        let down = rings.down;
        let mut senders = || targets(self.spread, up, down).map(|down| rings.sender(up, down, locals)).collect();
        match self.spread {
            Spread::Forward => Ok(Outbox::forward(rings.sender(up, up, locals))),
            Spread::KeyGroup => Outbox::key_groups(senders(), max_parallelism),
            Spread::Broadcast => Outbox::broadcast(senders()),
        }
    }

    /// The receivers of downstream subtask `down`, in order of the upstream subtasks.
    pub(crate) fn receivers(&self, down: usize, locals: &mut LocalEnds) -> Vec<Receiver<T>> {
        let mut guard = self.rings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let rings = guard.as_mut().expect("an attempt wires every edge before it builds a subtask");
        (0..rings.up)
            .filter(|&up| self.spread != Spread::Forward || up == down)
            .map(|up| rings.receiver(up, down, locals))
            .collect()
    }
}

fn targets(spread: Spread, up: usize, down: usize) -> std::ops::Range<usize> {
    if spread == Spread::Forward { up..up + 1 } else { 0..down }
}

impl<T: Send + 'static> Rings<T> {
    fn sender(&mut self, up: usize, down: usize, locals: &mut LocalEnds) -> Sender<T> {
        if let Some(Ends::Shared { sender, .. }) = self.channels.get_mut(&(up, down)) {
            return sender.take().expect("each end is taken once").into();
        }
        self.local_pair(up, down, locals).0.take().expect("each end is taken once")
    }

    fn receiver(&mut self, up: usize, down: usize, locals: &mut LocalEnds) -> Receiver<T> {
        if let Some(Ends::Shared { receiver, .. }) = self.channels.get_mut(&(up, down)) {
            return receiver.take().expect("each end is taken once").into();
        }
        self.local_pair(up, down, locals).1.take().expect("each end is taken once")
    }

    fn local_pair<'a>(&self, up: usize, down: usize, locals: &'a mut LocalEnds) -> &'a mut LocalPair<T> {
        let pair = locals.entry((self.edge, up, down)).or_insert_with(|| {
            let (producer, consumer) = local_ring(self.capacity);
            Box::new((Some(Sender::from(producer)), Some(Receiver::from(consumer))) as LocalPair<T>)
        });
        pair.downcast_mut().expect("an edge has one record type")
    }
}

impl<T: Send + Clone + 'static> Wire for Edge<T> {
    fn spread(&self) -> Spread {
        self.spread
    }

    fn wire(&self, id: usize, up: &[usize], down: &[usize], capacity: usize) {
        let mut channels = HashMap::new();
        for (i, up_core) in up.iter().enumerate() {
            for j in targets(self.spread, i, down.len()) {
                let ends = if *up_core == down[j] {
                    Ends::Local
                } else {
                    let (producer, consumer) = ring(capacity);
                    Ends::Shared { sender: Some(producer), receiver: Some(consumer) }
                };
                channels.insert((i, j), ends);
            }
        }
        let rings = Rings { edge: id, capacity, channels, up: up.len(), down: down.len() };
        *self.rings.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(rings);
    }
}
