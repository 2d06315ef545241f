//! One queue, W workers. A worker is a slot: it holds one request from when it takes it out of the queue
//! until the reply has been written to the client, then it takes the next.

use std::collections::VecDeque;

/// How many requests may be with the servers at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// Every request is taken at once: there is no queue.
    Unlimited,
    /// At most this many, at least one; the others wait.
    Limited(u32),
}

/// The slots and the queue before them, first come first served.
#[derive(Debug)]
pub(crate) struct Dispatch {
    workers: Workers,
    busy: u32,
    queue: VecDeque<u32>,
    bound: usize,
    longest: usize,
}

/// What a worker saw when it took a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Workers busy now, this one included.
    pub(crate) busy: u32,
    /// Requests that still wait.
    pub(crate) waiting: u32,
    /// Whether the worker had nothing to do before.
    pub(crate) was_idle: bool,
}

impl Dispatch {
    /// At most `bound` requests wait.
    pub(crate) fn new(workers: Workers, bound: usize) -> Self {
        Self { workers, busy: 0, queue: VecDeque::new(), bound, longest: 0 }
    }

    /// From now on there are so many workers and places. Who is at work or waits already stays.
    pub(crate) fn resize(&mut self, workers: Workers, bound: usize) {
        self.workers = workers;
        self.bound = bound;
    }

    /// Whether one more request can be taken or queued. If not, its client is not listened to.
    pub(crate) fn has_room(&self) -> bool {
        self.has_idle_worker() || self.queue.len() < self.bound
    }

    /// Whether a worker takes the next request at once.
    pub(crate) fn has_idle_worker(&self) -> bool {
        match self.workers {
            Workers::Unlimited => true,
            // Those who wait go first.
            Workers::Limited(limit) => self.busy < limit && self.queue.is_empty(),
        }
    }

    /// An idle worker takes a request that has just come.
    pub(crate) fn take_at_once(&mut self) -> Taken {
        debug_assert!(self.has_idle_worker(), "no worker is idle");
        self.busy += 1;
        Taken { busy: self.busy, waiting: 0, was_idle: true }
    }

    /// A request waits.
    pub(crate) fn enqueue(&mut self, request: u32) {
        debug_assert!(self.queue.len() < self.bound, "the queue is full");
        self.queue.push_back(request);
        self.longest = self.longest.max(self.queue.len());
    }

    /// A worker has written its reply.
    pub(crate) fn release(&mut self) {
        debug_assert!(self.busy > 0, "a worker that was not busy cannot be done");
        self.busy -= 1;
    }

    /// The next request for a worker that is free, if both exist.
    pub(crate) fn take_next(&mut self) -> Option<(u32, Taken)> {
        if let Workers::Limited(limit) = self.workers
            && self.busy >= limit
        {
            return None;
        }
        let request = self.queue.pop_front()?;
        self.busy += 1;
        Some((request, Taken { busy: self.busy, waiting: self.queue.len() as u32, was_idle: false }))
    }

    pub(crate) fn busy(&self) -> u32 {
        self.busy
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// A queue elsewhere has been this long.
    pub(crate) fn saw(&mut self, length: usize) {
        self.longest = self.longest.max(length);
    }

    /// From now on only what comes counts for [`Self::longest`].
    pub(crate) fn forget_longest(&mut self) {
        self.longest = self.queue.len();
    }

    /// The longest the queue has been.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_take_in_the_order_of_arrival_and_see_who_waits() {
        let mut dispatch = Dispatch::new(Workers::Limited(2), 3);
        assert_eq!(dispatch.take_at_once(), Taken { busy: 1, waiting: 0, was_idle: true });
        assert_eq!(dispatch.take_at_once(), Taken { busy: 2, waiting: 0, was_idle: true });
        assert!(!dispatch.has_idle_worker());
        for request in [7, 8, 9] {
            assert!(dispatch.has_room());
            dispatch.enqueue(request);
        }
        assert!(!dispatch.has_room());
        assert_eq!(dispatch.take_next(), None);
        dispatch.release();
        assert_eq!(dispatch.take_next(), Some((7, Taken { busy: 2, waiting: 2, was_idle: false })));
        dispatch.release();
        assert_eq!(dispatch.take_next(), Some((8, Taken { busy: 2, waiting: 1, was_idle: false })));
        assert_eq!(dispatch.longest(), 3);
    }

    #[test]
    fn without_a_limit_nobody_waits() {
        let mut dispatch = Dispatch::new(Workers::Unlimited, 0);
        for busy in 1..=1_000 {
            assert!(dispatch.has_room());
            assert_eq!(dispatch.take_at_once().busy, busy);
        }
    }
}
