//! The writer's own thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;

use super::command::{Command, Event, Progress, WriterConfig};
use super::error::LogError;
use super::log::CheckpointLog;
use super::store::WriterInfo;
use super::writer::Writer;

/// Pages packed between two looks at the mailbox.
const PAGES_PER_TURN: usize = 1024;

/// A writer that turns itself on a thread of its own.
///
/// Dropping it without [`Command::Close`] lets the thread finish what it has been told and stop without a seal, as a
/// crash would.
#[derive(Debug)]
pub struct WriterThread {
    commands: Option<Sender<Command>>,
    info: WriterInfo,
    attempt: u64,
    thread: Option<JoinHandle<()>>,
}

impl WriterThread {
    /// Begins an attempt from `parent` (see [`CheckpointLog::writer`]) on a new thread, and returns when its attempt
    /// record is durable. `on_event` is called on that thread and must not block; the last event it gets is
    /// [`Event::Closed`].
    ///
    /// # Errors
    /// As [`CheckpointLog::writer`]; [`LogError::Config`] if no thread can be started.
    pub fn start(
        log: CheckpointLog,
        parent: Option<u64>,
        config: WriterConfig,
        on_event: impl FnMut(Event) + Send + 'static,
    ) -> Result<Self, LogError> {
        let (commands, inbox) = channel();
        let (started, outcome) = sync_channel(1);
        let attempt = log.next_attempt();
        // The ring belongs to the thread that creates it, so the writer is made over there.
        let body = move || match log.writer(parent, config) {
            Ok(writer) => {
                let _ = started.send(Ok(writer.info().clone()));
                run(writer, &inbox, on_event);
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        };
        let cannot = |why: String| LogError::Config(format!("cannot start the writer's thread: {why}"));
        let thread = std::thread::Builder::new()
            .name("isobar-writer".into())
            .spawn(body)
            .map_err(|error| cannot(error.to_string()))?;
        match outcome.recv() {
            Ok(info) => Ok(Self { commands: Some(commands), info: info?, attempt, thread: Some(thread) }),
            Err(_) => Err(cannot("it panicked".into())),
        }
    }

    /// How the disk is reached.
    pub fn info(&self) -> &WriterInfo {
        &self.info
    }

    /// The number of the attempt that it writes for.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Gives an order. Returns false if the thread has ended; [`Event::Closed`] has then said why.
    pub fn command(&self, command: Command) -> bool {
        self.commands.as_ref().is_some_and(|commands| commands.send(command).is_ok())
    }

    /// A handle that gives orders from another thread. The writer's thread ends only when all are gone.
    pub fn sender(&self) -> Option<Sender<Command>> {
        self.commands.clone()
    }

    /// Waits for the thread to end, after [`Command::Close`].
    pub fn join(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // A panic over there was caught and reported as an event.
            let _ = thread.join();
        }
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.end();
    }
}

/// Turns the writer until it is closed or nobody is left to command it. A panic, which can only come from the lists
/// or from `on_event`, ends the writer and is reported, so that nobody waits for it for ever.
fn run(mut writer: Writer, inbox: &Receiver<Command>, mut on_event: impl FnMut(Event)) {
    let result = catch_unwind(AssertUnwindSafe(|| turn_until_closed(&mut writer, inbox, &mut on_event)));
    if let Err(panic) = result {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let why = format!("the writer panicked: {}", text.unwrap_or("no message"));
        let _ = catch_unwind(AssertUnwindSafe(|| on_event(Event::Closed(Some(why)))));
    }
}

fn turn_until_closed(writer: &mut Writer, inbox: &Receiver<Command>, on_event: &mut impl FnMut(Event)) {
    let mut orphaned = false;
    loop {
        loop {
            match inbox.try_recv() {
                Ok(command) => writer.command(command),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    orphaned = true;
                    break;
                }
            }
        }
        let progress = writer.turn(PAGES_PER_TURN);
        while let Some(event) = writer.event() {
            on_event(event);
        }
        match progress {
            Progress::Busy => {}
            Progress::Waiting => writer.wait(),
            Progress::Closed => return,
            Progress::Idle if orphaned => return on_event(Event::Closed(Some("nobody commands it any more".into()))),
            Progress::Idle => match inbox.recv() {
                Ok(command) => writer.command(command),
                Err(_) => orphaned = true,
            },
        }
    }
}
