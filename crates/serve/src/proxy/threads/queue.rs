//! Requests that wait for a thread, first come first served. The thread that brings one waits where
//! there is no more room.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use krarup_net::blocking::Wakeup;
use krarup_units::Stamp;

use super::client::ClientHandle;
use krarup_proxy::core::QueueState;

/// A whole request, and who wants it.
#[derive(Debug)]
pub(super) struct ReceivedRequest {
    pub(super) client: Arc<ClientHandle>,
    pub(super) bytes: Vec<u8>,
    /// Bytes of a refused value that have gone by behind it.
    pub(super) discarded: u64,
    pub(super) received: Stamp,
    pub(super) queued: Stamp,
}

/// The queue, and who works on it.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    emptied: Condvar,
    bound: usize,
    /// Requests that threads have taken and not finished.
    busy: AtomicU32,
    /// Wakes the thread of a queue that also waits for servers.
    wakeup: Option<Wakeup>,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<ReceivedRequest>,
    longest: usize,
    closed: bool,
}

impl Queue {
    /// At most `bound` requests wait; the thread is woken when one comes.
    pub(super) fn new(bound: usize, wakeup: Option<Wakeup>) -> Self {
        Self {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            bound: bound.max(1),
            busy: AtomicU32::new(0),
            wakeup,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A thread that panicked has left no job half in the queue.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, as soon as there is room.
    pub(super) fn put(&self, job: ReceivedRequest) {
        let full = |waiting: &mut Waiting| waiting.jobs.len() >= self.bound && !waiting.closed;
        let mut waiting = self.emptied.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        waiting.jobs.push_back(job);
        waiting.longest = waiting.longest.max(waiting.jobs.len());
        drop(waiting);
        self.filled.notify_one();
        if let Some(wakeup) = &self.wakeup {
            wakeup.notify();
        }
    }

    /// The next request, as soon as there is one. None: there will be no more.
    pub(super) fn take(&self) -> Option<(ReceivedRequest, QueueState)> {
        let mut waiting = self.lock();
        let was_idle = waiting.jobs.is_empty();
        if was_idle {
            let nothing = |waiting: &mut Waiting| waiting.jobs.is_empty() && !waiting.closed;
            waiting = self.filled.wait_while(waiting, nothing).unwrap_or_else(PoisonError::into_inner);
        }
        self.next(waiting, was_idle)
    }

    /// The next request, if there is one.
    pub(super) fn take_now(&self) -> Option<(ReceivedRequest, QueueState)> {
        self.next(self.lock(), false)
    }

    fn next(
        &self,
        mut waiting: MutexGuard<'_, Waiting>,
        was_idle: bool,
    ) -> Option<(ReceivedRequest, QueueState)> {
        let job = waiting.jobs.pop_front()?;
        let left = waiting.jobs.len() as u32;
        drop(waiting);
        self.emptied.notify_one();
        let busy = self.busy.fetch_add(1, Ordering::Relaxed) + 1;
        let seen = QueueState { queued: job.queued, busy, waiting: left, was_idle };
        Some((job, seen))
    }

    /// A request that was taken is finished.
    pub(super) fn done(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// No more requests will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
        if let Some(wakeup) = &self.wakeup {
            wakeup.notify();
        }
    }

    /// Requests that wait or are being carried out.
    pub(super) fn unfinished(&self) -> usize {
        self.lock().jobs.len() + self.busy.load(Ordering::Relaxed) as usize
    }

    /// The longest it has been.
    pub(super) fn longest(&self) -> usize {
        self.lock().longest
    }

    pub(super) fn wakeup(&self) -> Option<&Wakeup> {
        self.wakeup.as_ref()
    }
}
