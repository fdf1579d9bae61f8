//! A pool of clients, with one thread per session. The calling thread listens to them and to the
//! user. Whatever ends the work ends all of it, but everything that was finished before is
//! reported.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Engine, EngineError, Execution, Session, SessionError};

/// Interval of the checks for the user's request to end.
const TICK: Duration = Duration::from_millis(50);
/// The same for clients that wait for their time, because many of them wait at once.
const NAP: Duration = Duration::from_millis(200);
/// How long an engine that disappeared may take until its end is visible.
const DEATH: Duration = Duration::from_secs(2);

/// How the work ended.
#[derive(Debug)]
pub enum End {
    /// All of it is done.
    Complete,
    /// The user ended it.
    Interrupted,
    /// The engine disappeared, or a client could not start.
    Failed(EngineError),
}

/// State shared by all clients.
#[derive(Debug, Default)]
struct Common {
    over: AtomicBool,
    lost: Mutex<Option<String>>,
}

/// One client of the pool.
#[derive(Debug)]
pub struct Client<'a, E> {
    events: Sender<E>,
    common: &'a Common,
}

impl<E> Client<'_, E> {
    /// Whether to stop working.
    pub fn is_over(&self) -> bool {
        self.common.over.load(Ordering::Relaxed)
    }

    /// Sends an event to the listener.
    pub fn send(&self, event: E) {
        // The listener runs until all clients have ended.
        let _ = self.events.send(event);
    }

    /// Runs a query. `Err` is the engine's objection, and `None` is the end of the work.
    pub fn run(&self, session: &mut dyn Session, sql: &str) -> Option<Result<Execution, String>> {
        let result = session.run(sql);
        if self.is_over() {
            return None;
        }
        match result {
            Ok(execution) => Some(Ok(execution)),
            Err(SessionError::Refused(cause)) => Some(Err(cause)),
            Err(SessionError::Lost(cause)) => {
                let mut lost = self.common.lost.lock().unwrap_or_else(PoisonError::into_inner);
                lost.get_or_insert(cause);
                self.common.over.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Sleeps until a moment; returns whether the work continues then.
    pub fn sleep_until(&self, moment: Instant) -> bool {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if self.is_over() || left.is_zero() {
                return !self.is_over();
            }
            thread::sleep(left.min(NAP));
        }
    }
}

/// Runs each session in its own thread until all are done.
pub fn run_clients<E: Send>(
    engine: &dyn Engine,
    sessions: &mut [Box<dyn Session>],
    stop: &AtomicBool,
    worker: impl Fn(&mut dyn Session, &Client<'_, E>) + Sync,
    listen: &mut dyn FnMut(E),
) -> End {
    let (events, heard) = mpsc::channel();
    let common = Common::default();
    let mut started = Ok(());
    let mut interrupted = false;
    thread::scope(|scope| {
        for session in sessions {
            let client = Client { events: events.clone(), common: &common };
            let worker = &worker;
            let thread = thread::Builder::new()
                .name("client".to_owned())
                .spawn_scoped(scope, move || worker(session.as_mut(), &client));
            if let Err(error) = thread {
                common.over.store(true, Ordering::Relaxed);
                started = Err(EngineError::Thread(error));
                break;
            }
        }
        // The clients hold the other senders, so the channel ends with the last client.
        drop(events);
        loop {
            match heard.recv_timeout(TICK) {
                Ok(event) => listen(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if stop.load(Ordering::Relaxed) && !interrupted {
                interrupted = true;
                common.over.store(true, Ordering::Relaxed);
                engine.interrupt();
            }
        }
    });
    if interrupted {
        return End::Interrupted;
    }
    let lost = common.lost.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (started, lost) {
        (Err(error), _) => End::Failed(error),
        (Ok(()), Some(cause)) => End::Failed(death(engine, cause)),
        (Ok(()), None) => End::Complete,
    }
}

/// Why the engine disappeared: its exit status, or else the error of the connection.
fn death(engine: &dyn Engine, cause: String) -> EngineError {
    let deadline = Instant::now() + DEATH;
    loop {
        if let Some(death) = engine.death() {
            return death;
        }
        if Instant::now() >= deadline {
            return EngineError::Connection { engine: engine.title().to_owned(), cause };
        }
        thread::sleep(TICK);
    }
}
