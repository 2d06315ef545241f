//! One queue and W workers for several event loops. The first request to come is the first to be
//! served, whichever loop read it.
//!
//! Requests stay with their loops; here stands only in which order they came, as a row of loops. A
//! worker that is free belongs to the loop at the head of the row, and that is woken where it was
//! another one's worker. The lock is held for a few instructions.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::workers::{Taken, Workers};

/// Wakes a loop.
type Wake = Box<dyn Fn() + Send + Sync>;

/// The queue of all loops.
pub struct Common {
    line: Mutex<Line>,
    wakers: Vec<OnceLock<Wake>>,
}

#[derive(Debug)]
struct Line {
    workers: Workers,
    bound: usize,
    busy: u32,
    /// The loops whose requests wait, the oldest request's first.
    order: VecDeque<u16>,
    longest: usize,
    /// Loops that have been woken to take what is theirs.
    called: Vec<bool>,
    /// Loops that do not listen to some client until there is room.
    hungry: Vec<bool>,
}

impl Line {
    fn has_idle_worker(&self) -> bool {
        match self.workers {
            Workers::Unlimited => true,
            Workers::Limited(limit) => self.busy < limit,
        }
    }

    /// The loop that is to be woken because a worker is free and the next request is its. The
    /// caller looks for itself.
    fn next_to_call(&mut self, caller: usize) -> Option<usize> {
        let next = usize::from(*self.order.front().filter(|_| self.has_idle_worker())?);
        (next != caller && !std::mem::replace(&mut self.called[next], true)).then_some(next)
    }
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("line", &self.line).finish_non_exhaustive()
    }
}

impl Common {
    /// For so many loops.
    pub fn new(loops: usize, workers: Workers, bound: usize) -> Self {
        let line = Line {
            workers,
            bound,
            busy: 0,
            order: VecDeque::new(),
            longest: 0,
            called: vec![false; loops],
            hungry: vec![false; loops],
        };
        Self { line: Mutex::new(line), wakers: (0..loops).map(|_| OnceLock::new()).collect() }
    }

    /// What wakes a loop; before this is known it is not woken. It is called without a lock.
    pub fn set_waker(&self, place: usize, wake: impl Fn() + Send + Sync + 'static) {
        // A second wake would belong to a second loop, and there is none.
        let _ = self.wakers[place].set(Box::new(wake));
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        // Every change of the row is whole.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, place: usize) {
        if let Some(wake) = self.wakers[place].get() {
            wake();
        }
    }

    pub(super) fn resize(&self, place: usize, workers: Workers, bound: usize) {
        let mut line = self.lock();
        line.workers = workers;
        line.bound = bound;
        let next = line.next_to_call(place);
        drop(line);
        next.into_iter().for_each(|next| self.ring(next));
    }

    /// Whether one more request can be taken or queued; if not, the loop is woken when it can.
    pub(super) fn has_room(&self, place: usize) -> bool {
        let mut line = self.lock();
        let room = line.order.len() < line.bound;
        line.hungry[place] |= !room;
        room
    }

    /// An idle worker takes a request that has just come, if there is one before which none waits.
    pub(super) fn take_at_once(&self) -> Option<Taken> {
        let mut line = self.lock();
        if !line.has_idle_worker() || !line.order.is_empty() {
            return None;
        }
        line.busy += 1;
        Some(Taken { busy: line.busy, waiting: 0, was_idle: true })
    }

    /// A request of this loop waits. Where a worker has become free since it was asked for, it is
    /// taken soon.
    pub(super) fn enqueue(&self, place: usize) {
        let mut line = self.lock();
        line.order.push_back(place as u16);
        line.longest = line.longest.max(line.order.len());
        let next = line.next_to_call(place);
        drop(line);
        next.into_iter().for_each(|next| self.ring(next));
    }

    /// A free worker for this loop's oldest request, if that is the next of all.
    pub(super) fn take_next(&self, place: usize) -> Option<Taken> {
        let mut line = self.lock();
        line.called[place] = false;
        let mine = line.has_idle_worker() && line.order.front() == Some(&(place as u16));
        let taken = mine.then(|| {
            line.order.pop_front();
            line.busy += 1;
            Taken { busy: line.busy, waiting: line.order.len() as u32, was_idle: false }
        });
        let next = line.next_to_call(place);
        let mut fed = Vec::new();
        if taken.is_some() && line.order.len() < line.bound {
            fed.extend((0..line.hungry.len()).filter(|&other| std::mem::take(&mut line.hungry[other])));
        }
        drop(line);
        next.into_iter().chain(fed).for_each(|place| self.ring(place));
        taken
    }

    /// A request of this loop waits no more for one of these workers.
    pub(super) fn leave(&self, place: usize) {
        let mut line = self.lock();
        if let Some(found) = line.order.iter().position(|&other| usize::from(other) == place) {
            line.order.remove(found);
        }
    }

    /// A worker has written its reply.
    pub(super) fn release(&self, place: usize) {
        let mut line = self.lock();
        debug_assert!(line.busy > 0, "a worker that was not busy cannot be done");
        line.busy -= 1;
        let next = line.next_to_call(place);
        drop(line);
        next.into_iter().for_each(|next| self.ring(next));
    }

    pub(super) fn longest(&self) -> usize {
        self.lock().longest
    }

    pub(super) fn forget_longest(&self) {
        let mut line = self.lock();
        line.longest = line.order.len();
    }
}
