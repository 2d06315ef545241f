//! One queue, W workers. A worker is a slot: it holds one request from when it takes it out of the
//! queue until the reply has been written to the client, then it takes the next.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::ids::RequestId;

mod common;
mod readers;
mod workers;

pub use common::Common;
pub(crate) use readers::{Readers, Waiting};
pub(crate) use workers::Taken;
pub use workers::{MOST_AUTOMATIC, QueueState, WorkerSetting, Workers};

/// The slots and the queue before them, first come first served.
#[derive(Debug)]
pub(crate) struct Dispatch {
    workers: Workers,
    busy: u32,
    /// Requests that wait, and how long each is.
    queue: VecDeque<(RequestId, usize)>,
    queued_bytes: usize,
    bound: usize,
    longest: usize,
    /// Where several loops have one queue: that, and which of them this is.
    common: Option<(Arc<Common>, usize)>,
    /// Those of the busy that belong to the common queue's workers.
    common_busy: u32,
    /// Requests that wait at other loops that are summed up here, or for threads.
    waiting_elsewhere: usize,
    /// Threads that are busy, where threads carry out the requests.
    busy_threads: Option<u32>,
    /// What was seen where the next request was taken out of another queue.
    seen: Option<QueueState>,
    readers: Readers,
}

impl Dispatch {
    /// At most `bound` requests wait.
    pub(crate) fn new(workers: Workers, bound: usize) -> Self {
        Self {
            workers,
            busy: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            bound,
            longest: 0,
            common: None,
            common_busy: 0,
            waiting_elsewhere: 0,
            busy_threads: None,
            seen: None,
            readers: Readers::default(),
        }
    }

    /// From now on the workers are those of several loops, of which this is the one at `place`.
    pub(crate) fn share(&mut self, common: Arc<Common>, place: usize) {
        self.common = Some((common, place));
    }

    /// Which of several loops it is of: 0 is the first, or the only one.
    pub(crate) fn place(&self) -> usize {
        self.common.as_ref().map_or(0, |&(_, place)| place)
    }

    /// The queue that counts, where that is not this one alone.
    fn common(&self) -> Option<(&Common, usize)> {
        let (common, place) = self.common.as_ref().filter(|_| self.workers != Workers::Unlimited)?;
        Some((common, *place))
    }

    /// From now on there are so many workers and places. Who is at work or waits already stays.
    pub(crate) fn resize(&mut self, workers: Workers, bound: usize) {
        self.longest = self.longest();
        self.workers = workers;
        self.bound = bound;
        if let Some((common, place)) = &self.common {
            common.resize(*place, workers, bound);
        }
    }

    /// Whether one more request can be taken or queued. If not, its client is not listened to.
    pub(crate) fn has_room(&self) -> bool {
        match self.common() {
            Some((common, place)) => common.has_room(place),
            None => self.has_idle_worker() || self.queue.len() < self.bound,
        }
    }

    /// Whether a worker takes the next request at once.
    fn has_idle_worker(&self) -> bool {
        match self.workers {
            Workers::Unlimited => true,
            // Requests that wait go first.
            Workers::Limited(limit) => self.busy < limit && self.queue.is_empty(),
        }
    }

    /// An idle worker takes a request that has just come, if there is one.
    pub(crate) fn take_at_once(&mut self) -> Option<Taken> {
        let taken = match self.common() {
            Some((common, _)) => common.take_at_once(),
            None => self.has_idle_worker().then(|| Taken { busy: self.busy + 1, waiting: 0, was_idle: true }),
        };
        self.count(taken.is_some());
        taken
    }

    /// A request has been taken here, or not.
    fn count(&mut self, taken: bool) {
        self.busy += u32::from(taken);
        if self.common().is_some() {
            self.common_busy += u32::from(taken);
        }
    }

    /// The next request that comes was taken out of a queue elsewhere.
    pub(crate) fn taken_elsewhere(&mut self, seen: QueueState) {
        self.seen = Some(seen);
    }

    /// What was seen there.
    pub(crate) fn take_seen(&mut self) -> Option<QueueState> {
        self.seen.take()
    }

    /// A request of so many bytes waits.
    pub(crate) fn enqueue(&mut self, request: RequestId, bytes: usize) {
        self.queue.push_back((request, bytes));
        self.queued_bytes += bytes;
        match self.common() {
            Some((common, place)) => common.enqueue(place),
            None => {
                debug_assert!(self.queue.len() <= self.bound, "the queue is full");
                self.longest = self.longest.max(self.queue.len());
            }
        }
    }

    /// A worker has written its reply.
    pub(crate) fn release(&mut self) {
        debug_assert!(self.busy > 0, "a worker that was not busy cannot be done");
        self.busy -= 1;
        if self.common_busy > 0 {
            self.common_busy -= 1;
            if let Some((common, place)) = &self.common {
                common.release(*place);
            }
        }
    }

    /// The next request for a worker that is free, if both exist.
    pub(crate) fn take_next(&mut self) -> Option<(RequestId, Taken)> {
        let taken = match (self.common(), self.workers) {
            (Some((common, place)), _) => common.take_next(place)?,
            (None, Workers::Limited(limit)) if self.busy >= limit => return None,
            (None, _) => Taken {
                busy: self.busy + 1,
                waiting: self.queue.len().saturating_sub(1) as u32,
                was_idle: false,
            },
        };
        let request = self.queue.pop_front();
        if let (None, Some((common, place)), Some(_)) = (self.common(), &self.common, request) {
            // It waited when the workers were limited.
            common.leave(*place);
        }
        debug_assert!(request.is_some() || self.common().is_none(), "what waits in the row waits here");
        self.count(request.is_some());
        let (request, bytes) = request?;
        self.queued_bytes -= bytes;
        Some((request, taken))
    }

    /// Bytes of the requests that wait.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub(crate) fn readers(&self) -> &Readers {
        &self.readers
    }

    pub(crate) fn readers_mut(&mut self) -> &mut Readers {
        &mut self.readers
    }

    pub(crate) fn busy(&self) -> u32 {
        self.busy + self.busy_threads.unwrap_or(0)
    }

    /// Whether threads carry out the requests, each with a core of its own.
    pub(crate) fn is_of_threads(&self) -> bool {
        self.busy_threads.is_some()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.queue.len() + self.waiting_elsewhere
    }

    /// So many threads are busy, so many requests wait for them, and the longest of their queues
    /// has been this long.
    pub(crate) fn enter_threads(&mut self, busy: u32, waiting: usize, longest: usize) {
        self.busy_threads = Some(busy);
        self.waiting_elsewhere = waiting;
        self.longest = self.longest.max(longest);
    }

    /// From now on only what comes counts for [`Self::longest`].
    pub(crate) fn forget_longest(&mut self) {
        self.longest = self.queue.len();
        if let Some((common, _)) = &self.common {
            common.forget_longest();
        }
    }

    /// The longest the queue has been.
    pub(crate) fn longest(&self) -> usize {
        match self.common() {
            Some((common, _)) => self.longest.max(common.longest()),
            None => self.longest,
        }
    }

    /// Adds what another loop has at work and waiting, for the books of all.
    pub(crate) fn absorb(&mut self, other: &Self) {
        self.busy += other.busy;
        self.waiting_elsewhere += other.waiting();
        self.longest = self.longest().max(other.longest());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;
    use crate::ids::Identifier;

    #[test]
    fn workers_take_in_the_order_of_arrival_and_see_what_waits() {
        let mut dispatch = Dispatch::new(Workers::Limited(2), 3);
        assert_eq!(dispatch.take_at_once(), Some(Taken { busy: 1, waiting: 0, was_idle: true }));
        assert_eq!(dispatch.take_at_once(), Some(Taken { busy: 2, waiting: 0, was_idle: true }));
        assert_eq!(dispatch.take_at_once(), None);
        for request in [7, 8, 9].map(RequestId::new) {
            assert!(dispatch.has_room());
            dispatch.enqueue(request, 10);
        }
        assert!(!dispatch.has_room());
        assert_eq!(dispatch.take_next(), None);
        dispatch.release();
        assert_eq!(
            dispatch.take_next(),
            Some((RequestId::new(7), Taken { busy: 2, waiting: 2, was_idle: false }))
        );
        dispatch.release();
        assert_eq!(
            dispatch.take_next(),
            Some((RequestId::new(8), Taken { busy: 2, waiting: 1, was_idle: false }))
        );
        assert_eq!((dispatch.longest(), dispatch.queued_bytes()), (3, 10));
    }

    #[test]
    fn without_a_limit_no_request_waits() {
        let mut dispatch = Dispatch::new(Workers::Unlimited, 0);
        for busy in 1..=1_000 {
            assert!(dispatch.has_room());
            assert_eq!(dispatch.take_at_once().map(|taken| taken.busy), Some(busy));
        }
    }

    /// Loops as they are: each takes what is its own whenever it is woken, in whatever order that
    /// happens.
    #[derive(Default)]
    struct Loops {
        dispatches: Vec<Dispatch>,
        rung: Arc<Mutex<Vec<usize>>>,
        taken: Vec<u32>,
        busy_at: Vec<usize>,
    }

    impl Loops {
        fn new(loops: usize, workers: u32, bound: usize) -> Self {
            let mut all = Self::default();
            let workers = Workers::Limited(workers);
            let common = Arc::new(Common::new(loops, workers, bound));
            for place in 0..loops {
                let rung = all.rung.clone();
                common.set_waker(place, move || rung.lock().unwrap().push(place));
                let mut dispatch = Dispatch::new(workers, bound);
                dispatch.share(common.clone(), place);
                all.dispatches.push(dispatch);
            }
            all
        }

        fn pump(&mut self, place: usize) {
            while let Some((request, _)) = self.dispatches[place].take_next() {
                self.taken.push(request.number());
                self.busy_at.push(place);
            }
        }
    }

    #[test]
    fn how_long_the_queue_of_several_loops_was_is_known_without_a_limit_too() {
        let mut all = Loops::new(2, 1, 5);
        assert!(all.dispatches[0].take_at_once().is_some());
        for (request, place) in [1, 0, 1].into_iter().enumerate() {
            all.dispatches[place].enqueue(RequestId::new(request as u32), 10);
        }
        for dispatch in &mut all.dispatches {
            dispatch.resize(Workers::Unlimited, 5);
            assert_eq!(dispatch.longest(), 3);
        }
    }

    proptest! {
        /// Never more than the limit are busy, all are served in the order in which they came over
        /// all loops, and no free worker is forgotten: every one that has to be woken is.
        #[test]
        fn several_loops_have_one_queue(
            loops in 1_usize..4,
            workers in 1_u32..4,
            bound in 1_usize..6,
            steps in proptest::collection::vec((0_u8..3, 0_usize..4), 0..200),
        ) {
            let mut all = Loops::new(loops, workers, bound);
            let mut sent = 0;
            let mut kept_out = [false; 4];
            for (what, who) in steps {
                let place = who % loops;
                match what {
                    0 if all.dispatches[place].has_room() => {
                        if all.dispatches[place].take_at_once().is_some() {
                            all.taken.push(sent);
                            all.busy_at.push(place);
                        } else {
                            all.dispatches[place].enqueue(RequestId::new(sent), 10);
                            all.pump(place);
                        }
                        sent += 1;
                    }
                    0 => kept_out[place] = true,
                    1 if !all.busy_at.is_empty() => {
                        let place = all.busy_at.remove(who % all.busy_at.len());
                        all.dispatches[place].release();
                        all.pump(place);
                    }
                    _ => {
                        let rung = std::mem::take(&mut *all.rung.lock().unwrap());
                        for place in rung {
                            kept_out[place] = false;
                            all.pump(place);
                        }
                    }
                }
                prop_assert!(all.busy_at.len() <= workers as usize);
            }
            // Every loop that was called comes, and every request ends, in turn.
            for _ in 0..2 * sent + 2 {
                let rung = std::mem::take(&mut *all.rung.lock().unwrap());
                for place in rung {
                    kept_out[place] = false;
                    all.pump(place);
                }
                if let Some(place) = all.busy_at.pop() {
                    all.dispatches[place].release();
                    all.pump(place);
                }
            }
            prop_assert_eq!(all.taken, (0..sent).collect::<Vec<_>>());
            prop_assert!(all.dispatches.iter().all(|dispatch| dispatch.busy() == 0 && dispatch.waiting() == 0));
            prop_assert_eq!(kept_out, [false; 4], "who found no room is told when there is some");
        }
    }
}
