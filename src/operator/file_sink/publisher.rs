//! The thread that changes names in the output folder: publications, prepared files, the sweep.
//!
//! All of it commits the file system's journal, which may take hundreds of ms; no checkpoint waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use super::name::FileName;
use super::outputs::Shared;
use super::publication::Publication;
use super::spares::Spares;

/// Between two looks for tasks; tests are in a hurry. Nobody waits for one.
const LOOK: Duration = Duration::from_micros(if cfg!(test) { 20 } else { 10_000 });
/// Between attempts to publish what could not be published.
const RETRY: Duration = Duration::from_millis(if cfg!(test) { 1 } else { 20 });

/// What the sink asks for. Tasks are carried out in order.
#[derive(Debug)]
pub(super) enum Task {
    /// Give a part its name.
    Publish(Publication),
    /// Make a pending file ready, prepared for this many bytes.
    Spare { bytes: u64 },
    /// Remove pending files with sequences below this one, and discarded parts.
    Sweep { below: u64 },
    /// Finish, and say how it went.
    Close,
}

/// What the publisher reports.
#[derive(Debug)]
pub(super) enum News {
    /// A part is public, durably.
    Published { checkpoint: u64 },
    /// A part could not be published; it is tried again.
    Unpublished { reason: String },
    /// The answer to [`Task::Close`].
    Closed(Result<(), String>),
}

pub(super) struct Publisher {
    pub shared: Arc<Shared>,
    pub subtask: u32,
    pub tasks: Receiver<Task>,
    pub news: Sender<News>,
    pub spares: Arc<Spares>,
    /// Publications that are not public yet, in order.
    pub backlog: VecDeque<Publication>,
}

impl Publisher {
    /// Works until the sink is dropped or closed. It looks for tasks by itself, as the
    /// [worker](super::worker::Worker::run) does.
    pub fn run(mut self) {
        let mut last_attempt = Instant::now();
        loop {
            match self.tasks.try_recv() {
                Ok(Task::Close) => {
                    let closed = self.publish();
                    self.report(News::Closed(closed));
                    return;
                }
                Ok(task) => {
                    self.carry_out(task);
                    last_attempt = Instant::now();
                }
                Err(TryRecvError::Empty) if !self.backlog.is_empty() && last_attempt.elapsed() >= RETRY => {
                    self.try_to_publish();
                    last_attempt = Instant::now();
                }
                Err(TryRecvError::Empty) => thread::park_timeout(LOOK),
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    fn carry_out(&mut self, task: Task) {
        match task {
            Task::Publish(publication) => {
                self.backlog.push_back(publication);
                self.try_to_publish();
            }
            Task::Spare { bytes } => {
                let sequence = self.shared.sequences.next();
                // A failure costs speed alone: the file is made when its first lines come.
                let _ = self.spares.make(&*self.shared.folder, self.subtask, sequence, bytes);
            }
            Task::Sweep { below } => self.sweep(below),
            Task::Close => {}
        }
    }

    fn report(&self, news: News) {
        // A sink that has gone wants no news.
        let _ = self.news.send(news);
    }

    fn try_to_publish(&mut self) {
        if let Err(reason) = self.publish() {
            self.report(News::Unpublished { reason });
        }
    }

    /// Publishes in order, as far as it goes.
    fn publish(&mut self) -> Result<(), String> {
        while let Some(publication) = self.backlog.front_mut() {
            let done = publication.run(&*self.shared.folder, &self.shared.sequences);
            done.map_err(|error| format!("publishing failed: {error}"))?;
            let checkpoint = publication.checkpoint;
            self.backlog.pop_front();
            self.report(News::Published { checkpoint });
        }
        Ok(())
    }

    fn sweep(&self, below: u64) {
        let Ok(files) = self.shared.list() else { return };
        for (name, _) in files {
            let swept = match name {
                FileName::Part { .. } => false,
                FileName::Pending { sequence, .. } => sequence < below,
                FileName::Discarded { .. } => true,
            };
            if swept {
                // Best effort: deletion is repeated after every start.
                let _ = self.shared.folder.remove(&name.to_string());
            }
        }
    }
}
