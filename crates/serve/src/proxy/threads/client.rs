//! One client, as the thread sees it that has its request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use krarup_net::blocking::ClientWriter;
use krarup_net::mio::Waker;

/// Tells the network thread whose request is done, which servers' answers were not taken, and when
/// all threads that carry out requests have ended.
#[derive(Debug)]
pub(super) struct Finished {
    clients: Mutex<Vec<u32>>,
    refused: Mutex<Vec<(usize, String)>>,
    threads: AtomicUsize,
    waker: Waker,
}

impl Finished {
    pub(super) fn new(waker: Waker) -> Self {
        Self { clients: Mutex::default(), refused: Mutex::default(), threads: AtomicUsize::new(0), waker }
    }

    /// One more thread carries out requests.
    pub(super) fn thread_begins(&self) {
        self.threads.fetch_add(1, Ordering::SeqCst);
    }

    /// One has ended.
    pub(super) fn thread_ends(&self) {
        self.threads.fetch_sub(1, Ordering::SeqCst);
        self.wake();
    }

    /// How many there are.
    pub(super) fn threads(&self) -> usize {
        self.threads.load(Ordering::SeqCst)
    }

    /// Those that are done since the last call.
    pub(super) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.clients.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wakes the network thread.
    pub(super) fn wake(&self) {
        // It fails only where the loop is gone, and then no thread is to be woken.
        let _ = self.waker.wake();
    }

    /// A connection to this server was closed for its answer, and why.
    pub(super) fn refuse(&self, server: usize, why: String) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push((server, why));
        self.wake();
    }

    /// The servers for which that was so since the last call.
    pub(super) fn take_refused(&self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, client: u32) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        self.wake();
    }
}

/// What the network thread and the thread that has the client's request know of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// None of its requests is under way.
    #[default]
    Free,
    /// One is.
    Busy,
    /// One is, and the network thread wants to hear when it is done.
    Awaited,
}

/// One client.
#[derive(Debug)]
pub(super) struct ClientHandle {
    pub(super) id: u32,
    pub(super) writer: ClientWriter,
    state: Mutex<State>,
    finished: Arc<Finished>,
}

impl ClientHandle {
    pub(super) fn new(id: u32, writer: ClientWriter, finished: Arc<Finished>) -> Self {
        Self { id, writer, state: Mutex::default(), finished }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its next request may be taken now. Where it may not, the network thread will hear of
    /// it.
    pub(super) fn is_free(&self) -> bool {
        let mut state = self.lock();
        if *state != State::Free {
            *state = State::Awaited;
        }
        *state == State::Free
    }

    /// A request of it is under way. Where `more` is there to be done, the network thread will hear
    /// when that is over.
    pub(super) fn take(&self, more: bool) {
        *self.lock() = if more { State::Awaited } else { State::Busy };
    }

    /// Its request is done; where it shall hear no more, the connection ends.
    pub(super) fn done(&self, close: bool) {
        if close {
            self.writer.close();
        }
        let before = std::mem::take(&mut *self.lock());
        if before == State::Awaited {
            self.finished.push(self.id);
        }
    }
}
