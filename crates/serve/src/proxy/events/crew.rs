//! Several event loops in one process, each a thread with clients and server connections of its own.
//!
//! ```text
//!            ┌───────────── connections, fewest first ───────────┐
//!  clients ─▶ first loop ── orders ─▶ loop 2 … loop N            │ each: its clients, its server connections
//!               │  ▲                     │  ▲                    ┘
//!               │  └── one queue of workers (dispatch::Common) ──┘
//!               └─ inquiries ─▶ clerk ─▶ asks all for their books, adds them up, answers
//! ```
//!
//! The first loop listens, so that no loop gets most of few connections by accident, and unix and inherited sockets work as well; it
//! also hears signals and news, and tells the others. What it orders arrives in order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use krarup_memcache::Class;
use krarup_net::Stream;
use krarup_net::mio::Waker;
use krarup_units::Stamp;

use crate::driver::EventLoops;
use crate::proxy::credentials::Credentials;
use crate::proxy::outlook::{Numbers, Resolved};
use krarup_net::board::{Board, Boards};
use krarup_proxy::core::Core;
use krarup_proxy::core::Inquiry;
use krarup_proxy::dispatch::Common;

/// How long loops may take to forget what they have counted.
const PATIENCE: Duration = Duration::from_secs(1);

const STUCK: &[u8] = b"SERVER_ERROR an event loop did not answer within a second\r\n";

/// What one loop is told by another, or by the clerk.
pub(super) enum Order {
    /// A client has come whose keys belong to this pool.
    Guest(Stream, usize),
    /// What a client wanted to know.
    Told { number: u32, class: Class, text: Vec<u8> },
    /// Everything counted is to be forgotten.
    Reset(mpsc::Sender<()>),
    /// ServerConnections of this configuration are to be connected to. It is the crew's so many-th.
    Announce(Box<Resolved>, Arc<Credentials>, u64),
    /// The configuration announced last holds.
    TakeOver,
    /// ServerConnections have other numbers.
    Numbers(Numbers),
    /// A stop was asked for; the second time, at once.
    Stop,
}

/// What a loop has counted, and when.
pub(super) struct Books {
    pub(super) core: Core,
    pub(super) now: Stamp,
    pub(super) stopping: bool,
}

impl Books {
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
pub(super) struct Crew {
    seats: Vec<Seat>,
    boards: Boards<Books>,
    /// Loops that have something left to do.
    working: AtomicUsize,
}

struct Seat {
    orders: mpsc::Sender<Order>,
    waker: Arc<Waker>,
    clients: AtomicUsize,
    /// The configuration whose servers it has tried to connect to.
    tried: AtomicU64,
}

/// One loop's place among all.
pub(super) struct Place {
    pub(super) crew: Arc<Crew>,
    pub(super) number: usize,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) board: Arc<Board<Books>>,
    clerk: mpsc::Sender<(usize, Inquiry)>,
    /// The configuration that is there or comes.
    pub(super) generation: u64,
    /// Whether it has said that it has nothing left to do.
    pub(super) rests: bool,
}

impl Crew {
    /// Places for as many loops as there are wakers, which share `common`.
    pub(super) fn gather(wakers: &[Arc<Waker>], common: &Common) -> Result<Vec<Place>, String> {
        let (mut seats, mut boards) = (Vec::new(), Vec::new());
        let mut receivers = Vec::new();
        for (number, waker) in wakers.iter().enumerate() {
            let (orders, received) = mpsc::channel();
            let bell = Arc::clone(waker);
            // A loop that cannot be woken looks at its next pass.
            common.hang_bell(number, move || _ = bell.wake());
            let board = Board::new(Arc::clone(waker));
            receivers.push((received, Arc::clone(&board)));
            boards.push(board);
            let (clients, tried) = (AtomicUsize::new(0), AtomicU64::new(0));
            seats.push(Seat { orders, waker: Arc::clone(waker), clients, tried });
        }
        let working = AtomicUsize::new(seats.len());
        let crew = Arc::new(Self { seats, boards: Boards::new(boards, Books::and), working });
        let (clerk, inquiries) = mpsc::channel();
        let at_work = Arc::clone(&crew);
        thread::Builder::new()
            .name("clerk".into())
            .spawn(move || at_work.keep_the_books(&inquiries))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let place = |(number, (orders, board)): (usize, (mpsc::Receiver<Order>, Arc<Board<Books>>))| Place {
            crew: Arc::clone(&crew),
            number,
            orders,
            board,
            clerk: clerk.clone(),
            generation: 1,
            rests: false,
        };
        Ok(receivers.into_iter().enumerate().map(place).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    fn order(&self, number: usize, order: Order) {
        let seat = &self.seats[number];
        // A loop that is gone has no use for it.
        if seat.orders.send(order).is_ok() {
            let _ = seat.waker.wake();
        }
    }

    /// Clients connected to all loops.
    pub(super) fn clients(&self) -> usize {
        self.seats.iter().map(|seat| seat.clients.load(Ordering::Relaxed)).sum()
    }

    /// The loop with the fewest clients, which has one more from now on.
    fn seat_one(&self) -> usize {
        let clients = |number: &usize| self.seats[*number].clients.load(Ordering::Relaxed);
        let number = (0..self.seats.len()).min_by_key(clients).expect("there is a loop");
        self.seats[number].clients.fetch_add(1, Ordering::Relaxed);
        number
    }

    /// The books of all loops added up; none if one does not lay them down in time.
    pub(super) fn books(&self) -> Option<Arc<Books>> {
        self.boards.ask()
    }

    /// All loops forget what they have counted; whether they have.
    fn reset(&self) -> bool {
        let (done, all_done) = mpsc::channel();
        for number in 0..self.seats.len() {
            self.order(number, Order::Reset(done.clone()));
        }
        self.seats.iter().all(|_| all_done.recv_timeout(PATIENCE).is_ok())
    }

    /// The clerk's work: answers what clients ask of all loops, until there are none.
    fn keep_the_books(&self, inquiries: &mpsc::Receiver<(usize, Inquiry)>) {
        while let Ok(first) = inquiries.recv() {
            // One look serves all that have come by now: where a loop is stuck, they do not wait in turn to hear of it.
            let together: Vec<_> = std::iter::once(first).chain(inquiries.try_iter()).collect();
            let mut books = None;
            for (place, Inquiry { number, argument }) in together {
                let told = if argument == b"reset" {
                    books = None;
                    self.reset().then(|| (Class::Ok, b"RESET\r\n".to_vec()))
                } else {
                    let books = books.get_or_insert_with(|| self.books()).as_ref();
                    books.map(|books| krarup_proxy::stats::answer(&books.core, &argument, books.now))
                };
                let (class, text) = told.unwrap_or_else(|| (Class::ServerError, STUCK.to_vec()));
                self.order(place, Order::Told { number, class, text });
            }
        }
    }
}

impl Place {
    /// Whether this is the loop that listens and speaks for all.
    pub(super) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// To all others.
    pub(super) fn tell(&self, order: impl Fn() -> Order) {
        (0..self.crew.len()).filter(|&number| number != self.number).for_each(|number| {
            self.crew.order(number, order());
        });
    }

    /// How clients are distributed over all loops.
    pub(super) fn distribution(&self) -> Box<dyn EventLoops + Send> {
        Box::new(Distribution { crew: Arc::clone(&self.crew), number: self.number })
    }

    /// A client wants to know what only all together know.
    pub(super) fn inquire(&self, inquiry: Inquiry) {
        // The clerk works as long as there are loops.
        let _ = self.clerk.send((self.number, inquiry));
    }

    /// The servers of the configuration that is there or comes have been tried here.
    pub(super) fn has_tried(&self) {
        let before = self.crew.seats[self.number].tried.swap(self.generation, Ordering::AcqRel);
        if before != self.generation && !self.is_first() {
            let _ = self.crew.seats[0].waker.wake();
        }
    }

    /// Whether they have been everywhere else.
    pub(super) fn others_have_tried(&self) -> bool {
        let others = self.crew.seats.iter().enumerate().filter(|&(number, _)| number != self.number);
        others.into_iter().all(|(_, seat)| seat.tried.load(Ordering::Acquire) == self.generation)
    }

    /// This loop has nothing left to do; whether none has.
    pub(super) fn rest(&mut self) -> bool {
        if !std::mem::replace(&mut self.rests, true) && self.crew.working.fetch_sub(1, Ordering::AcqRel) == 1
        {
            // Those who wait for the last one.
            self.crew.seats.iter().for_each(|seat| _ = seat.waker.wake());
        }
        self.crew.working.load(Ordering::Acquire) == 0
    }
}

/// Clients go to the loop that has the fewest, as this one sees it.
struct Distribution {
    crew: Arc<Crew>,
    number: usize,
}

impl EventLoops for Distribution {
    fn clients(&self) -> usize {
        self.crew.clients()
    }

    fn hand_over(&self, stream: Stream, pool: usize) -> Option<Stream> {
        let number = self.crew.seat_one();
        if number == self.number {
            return Some(stream);
        }
        self.crew.order(number, Order::Guest(stream, pool));
        None
    }

    fn one_gone(&self) {
        self.crew.seats[self.number].clients.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use krarup_net::mio::{Poll, Token};

    use super::*;

    #[test]
    fn all_who_wait_hear_from_one_look_that_a_loop_is_stuck() {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (orders, told) = mpsc::channel();
        let looks = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&looks);
        let board = Board::waking(Duration::ZERO, move || _ = count.fetch_add(1, Ordering::Relaxed));
        let seat = Seat { orders, waker, clients: AtomicUsize::new(0), tried: AtomicU64::new(0) };
        let boards = Boards::new(vec![board], Books::and);
        let crew = Crew { seats: vec![seat], boards, working: AtomicUsize::new(1) };
        let (ask, inquiries) = mpsc::channel();
        for number in 0..50 {
            ask.send((0, Inquiry { number, argument: Vec::new() })).unwrap();
        }
        drop(ask);
        crew.keep_the_books(&inquiries);
        let answered: Vec<_> = told.try_iter().collect();
        let stuck = |order: &Order| matches!(order, Order::Told { text, .. } if text == STUCK);
        assert!(answered.len() == 50 && answered.iter().all(stuck));
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }
}
