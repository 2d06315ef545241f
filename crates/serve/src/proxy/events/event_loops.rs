//! Several event loops in one process, each a thread with clients and server connections of its
//! own.
//!
//! ```text
//!            ┌───────────── connections, fewest first ───────────┐
//!  clients ─▶ first loop ─ messages ─▶ loop 2 … loop N             │ each: its clients, its server connections
//!               │  ▲                     │  ▲                    ┘
//!               │  └── one queue of workers (dispatch::Common) ──┘
//!               └─ inquiries ─▶ a thread ─▶ asks all for their books, adds them up, answers
//! ```
//!
//! The first loop listens, so that no loop gets most of few connections by accident, and unix and
//! inherited sockets work as well; it also receives signals and changes of the configuration, and
//! tells the others. Its messages arrive in order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use krarup_memcache::ReplyClass;
use krarup_net::Stream;
use krarup_net::mio::Waker;
use krarup_units::{Mistake, Stamp};

use crate::driver::EventLoops;
use crate::proxy::configuration::{Numbers, Resolved};
use crate::proxy::credentials::Credentials;
use krarup_net::snapshots::{SnapshotSlot, SnapshotSlots};
use krarup_proxy::core::Core;
use krarup_proxy::core::Inquiry;
use krarup_proxy::dispatch::Common;

/// How long loops may take to forget what they have counted.
const RESET_TIMEOUT: Duration = Duration::from_secs(1);

const STUCK: &[u8] = b"SERVER_ERROR an event loop did not answer within a second\r\n";

/// What one loop is told by another, or by the thread that answers inquiries.
pub(super) enum Message {
    /// A client has connected whose keys belong to this pool.
    Client(Stream, usize),
    /// What a client wanted to know.
    Inform { number: u32, class: ReplyClass, text: Vec<u8> },
    /// Everything counted is to be forgotten.
    Reset(mpsc::Sender<()>),
    /// Servers of this configuration are to be connected to. The number tells it from those before.
    Announce(Box<Resolved>, Arc<Credentials>, u64),
    /// The configuration announced last holds.
    TakeOver,
    /// It will not hold: a stop came first.
    Refuse,
    /// Names of servers have other addresses.
    Numbers(Numbers),
    /// A stop was asked for; the second time, at once.
    Stop,
}

/// What a loop has counted, and when.
pub(super) struct LoopCounts {
    pub(super) core: Core,
    pub(super) now: Stamp,
    pub(super) stopping: bool,
}

impl LoopCounts {
    /// The books of two loops as one.
    #[expect(clippy::needless_pass_by_value, reason = "the sum of two is one, and neither is left")]
    fn and(mut self, other: Self) -> Self {
        self.core.absorb(&other.core);
        self.now = self.now.max(other.now);
        self.stopping |= other.stopping;
        self
    }
}

/// All loops of the process.
pub(super) struct LoopGroup {
    loops: Vec<LoopState>,
    slots: SnapshotSlots<LoopCounts>,
    /// Loops that have something left to do.
    working: AtomicUsize,
}

struct LoopState {
    messages: mpsc::Sender<Message>,
    waker: Arc<Waker>,
    clients: AtomicUsize,
    /// The configuration whose servers it has tried to connect to.
    tried: AtomicU64,
}

/// One loop among all.
pub(super) struct LoopHandle {
    pub(super) group: Arc<LoopGroup>,
    pub(super) number: usize,
    pub(super) messages: mpsc::Receiver<Message>,
    pub(super) slot: Arc<SnapshotSlot<LoopCounts>>,
    inquiries: mpsc::Sender<(usize, Inquiry)>,
    /// The configuration that is there or comes.
    pub(super) generation: u64,
    /// Whether it has said that it has nothing left to do.
    pub(super) rests: bool,
}

impl LoopGroup {
    /// As many loops as there are wakers, which share `common`.
    pub(super) fn members(wakers: &[Arc<Waker>], common: &Common) -> Result<Vec<LoopHandle>, Mistake> {
        let (mut loops, mut slots) = (Vec::new(), Vec::new());
        let mut receivers = Vec::new();
        for (number, waker) in wakers.iter().enumerate() {
            let (messages, received) = mpsc::channel();
            let wake = Arc::clone(waker);
            // A loop that cannot be woken looks at its next pass.
            common.set_waker(number, move || _ = wake.wake());
            let slot = SnapshotSlot::new(Arc::clone(waker));
            receivers.push((received, Arc::clone(&slot)));
            slots.push(slot);
            let (clients, tried) = (AtomicUsize::new(0), AtomicU64::new(0));
            loops.push(LoopState { messages, waker: Arc::clone(waker), clients, tried });
        }
        let working = AtomicUsize::new(loops.len());
        let group = Arc::new(Self { loops, slots: SnapshotSlots::new(slots, LoopCounts::and), working });
        let (ask, inquiries) = mpsc::channel();
        let of_thread = Arc::clone(&group);
        thread::Builder::new()
            .name("inquiries".into())
            .spawn(move || of_thread.answer_inquiries(&inquiries))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let member = |(number, (messages, slot)): (
            usize,
            (mpsc::Receiver<Message>, Arc<SnapshotSlot<LoopCounts>>),
        )| {
            LoopHandle {
                group: Arc::clone(&group),
                number,
                messages,
                slot,
                inquiries: ask.clone(),
                generation: 1,
                rests: false,
            }
        };
        Ok(receivers.into_iter().enumerate().map(member).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.loops.len()
    }

    fn message(&self, number: usize, message: Message) {
        let state = &self.loops[number];
        // A loop that is gone has no use for it.
        if state.messages.send(message).is_ok() {
            let _ = state.waker.wake();
        }
    }

    /// Clients connected to all loops.
    pub(super) fn clients(&self) -> usize {
        self.loops.iter().map(|state| state.clients.load(Ordering::Relaxed)).sum()
    }

    /// The loop with the fewest clients, which has one more from now on.
    fn assign_client(&self) -> usize {
        let clients = |number: &usize| self.loops[*number].clients.load(Ordering::Relaxed);
        let number = (0..self.loops.len()).min_by_key(clients).expect("there is a loop");
        self.loops[number].clients.fetch_add(1, Ordering::Relaxed);
        number
    }

    /// The books of all loops added up; none if one does not lay them down in time.
    pub(super) fn books(&self) -> Option<Arc<LoopCounts>> {
        self.slots.ask()
    }

    /// All loops forget what they have counted; whether they have.
    fn reset(&self) -> bool {
        let (done, all_done) = mpsc::channel();
        for number in 0..self.loops.len() {
            self.message(number, Message::Reset(done.clone()));
        }
        self.loops.iter().all(|_| all_done.recv_timeout(RESET_TIMEOUT).is_ok())
    }

    /// Answers what clients ask of all loops, until there are no loops.
    fn answer_inquiries(&self, inquiries: &mpsc::Receiver<(usize, Inquiry)>) {
        while let Ok(first) = inquiries.recv() {
            // One look serves all that have come by now: where a loop is stuck, they do not wait in
            // turn to be told.
            let together: Vec<_> = std::iter::once(first).chain(inquiries.try_iter()).collect();
            let mut books = None;
            for (member, Inquiry { number, argument }) in together {
                let told = if argument == b"reset" {
                    books = None;
                    self.reset().then(|| (ReplyClass::Ok, b"RESET\r\n".to_vec()))
                } else {
                    let books = books.get_or_insert_with(|| self.books()).as_ref();
                    books.map(|books| krarup_proxy::stats::answer(&books.core, &argument, books.now))
                };
                let (class, text) = told.unwrap_or_else(|| (ReplyClass::ServerError, STUCK.to_vec()));
                self.message(member, Message::Inform { number, class, text });
            }
        }
    }
}

impl LoopHandle {
    /// Whether this is the loop that listens and speaks for all.
    pub(super) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// To all others.
    pub(super) fn tell(&self, message: impl Fn() -> Message) {
        (0..self.group.len()).filter(|&number| number != self.number).for_each(|number| {
            self.group.message(number, message());
        });
    }

    /// How clients are distributed over all loops.
    pub(super) fn distribution(&self) -> Box<dyn EventLoops + Send> {
        Box::new(Distribution { group: Arc::clone(&self.group), number: self.number })
    }

    /// A client wants to know what only all together know.
    pub(super) fn inquire(&self, inquiry: Inquiry) {
        // The thread runs as long as there are loops.
        let _ = self.inquiries.send((self.number, inquiry));
    }

    /// The servers of the configuration that is there or comes have been tried here.
    pub(super) fn has_tried(&self) {
        let before = self.group.loops[self.number].tried.swap(self.generation, Ordering::AcqRel);
        if before != self.generation && !self.is_first() {
            let _ = self.group.loops[0].waker.wake();
        }
    }

    /// Whether they have been everywhere else.
    pub(super) fn others_have_tried(&self) -> bool {
        let others = self.group.loops.iter().enumerate().filter(|&(number, _)| number != self.number);
        others.into_iter().all(|(_, state)| state.tried.load(Ordering::Acquire) == self.generation)
    }

    /// This loop has nothing left to do; whether none has.
    pub(super) fn rest(&mut self) -> bool {
        if !std::mem::replace(&mut self.rests, true) && self.group.working.fetch_sub(1, Ordering::AcqRel) == 1
        {
            // The threads that wait for the last one.
            self.group.loops.iter().for_each(|state| _ = state.waker.wake());
        }
        self.group.working.load(Ordering::Acquire) == 0
    }
}

/// Clients go to the loop that has the fewest, as this one sees it.
struct Distribution {
    group: Arc<LoopGroup>,
    number: usize,
}

impl EventLoops for Distribution {
    fn clients(&self) -> usize {
        self.group.clients()
    }

    fn hand_over(&self, stream: Stream, pool: usize) -> Option<Stream> {
        let number = self.group.assign_client();
        if number == self.number {
            return Some(stream);
        }
        self.group.message(number, Message::Client(stream, pool));
        None
    }

    fn one_gone(&self) {
        self.group.loops[self.number].clients.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use krarup_net::mio::{Poll, Token};

    use super::*;

    #[test]
    fn all_that_wait_learn_from_one_look_that_a_loop_is_stuck() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (messages, told) = mpsc::channel();
        let looks = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&looks);
        let slot = SnapshotSlot::waking(Duration::ZERO, move || _ = count.fetch_add(1, Ordering::Relaxed));
        let state = LoopState { messages, waker, clients: AtomicUsize::new(0), tried: AtomicU64::new(0) };
        let slots = SnapshotSlots::new(vec![slot], LoopCounts::and);
        let group = LoopGroup { loops: vec![state], slots, working: AtomicUsize::new(1) };
        let (ask, inquiries) = mpsc::channel();
        for number in 0..50 {
            ask.send((0, Inquiry { number, argument: Vec::new() })).unwrap();
        }
        drop(ask);
        group.answer_inquiries(&inquiries);
        let answered: Vec<_> = told.try_iter().collect();
        let stuck = |message: &Message| matches!(message, Message::Inform { text, .. } if text == STUCK);
        assert!(answered.len() == 50 && answered.iter().all(stuck));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }
}
