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

/// What a queue has for a thread that waits for servers, too.
#[derive(Debug)]
pub(super) enum QueueOffer {
    Request(ReceivedRequest, QueueState),
    /// Nothing yet: the thread is woken by the next request.
    Later,
    /// There will be no more.
    Never,
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
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: VecDeque<ReceivedRequest>,
    longest: usize,
    closed: bool,
    /// Of threads that wait for servers, too.
    wakeups: Vec<Arc<Wakeup>>,
}

impl Queue {
    /// At most `bound` requests wait.
    pub(super) fn new(bound: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
            bound: bound.max(1),
            busy: AtomicU32::new(0),
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
        let wakeup = waiting.wakeups.pop();
        drop(waiting);
        self.filled.notify_one();
        if let Some(wakeup) = wakeup {
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

    /// The next request, if there is one; if not, `wakeup` is notified of it until
    /// [`Self::leave`]. `was_idle` says whether the thread had nothing to do before.
    pub(super) fn offer(&self, wakeup: &Arc<Wakeup>, was_idle: bool) -> QueueOffer {
        let mut waiting = self.lock();
        if waiting.jobs.is_empty() && !waiting.closed {
            waiting.wakeups.push(Arc::clone(wakeup));
            return QueueOffer::Later;
        }
        match self.next(waiting, was_idle) {
            Some((job, seen)) => QueueOffer::Request(job, seen),
            None => QueueOffer::Never,
        }
    }

    /// `wakeup` is not notified any more.
    pub(super) fn leave(&self, wakeup: &Arc<Wakeup>) {
        self.lock().wakeups.retain(|other| !Arc::ptr_eq(other, wakeup));
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
        let mut waiting = self.lock();
        waiting.closed = true;
        let wakeups = std::mem::take(&mut waiting.wakeups);
        drop(waiting);
        self.filled.notify_all();
        self.emptied.notify_all();
        wakeups.iter().for_each(|wakeup| wakeup.notify());
    }

    /// Requests that wait, and those that are being carried out.
    pub(super) fn at_work(&self) -> (usize, u32) {
        (self.lock().jobs.len(), self.busy.load(Ordering::Relaxed))
    }

    /// The longest it has been since the last call.
    pub(super) fn take_longest(&self) -> usize {
        let mut waiting = self.lock();
        let now = waiting.jobs.len();
        std::mem::replace(&mut waiting.longest, now)
    }
}
