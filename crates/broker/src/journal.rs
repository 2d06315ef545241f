//! A thread that writes batches, one after the other, and tells the loop what came of each.
//!
//! ```text
//!  loop ──batch──▶ thread ──one statement, one commit──▶ PostgreSQL
//!       ◀─committed─┘   └─ session broken: have it back, write the same batch again
//! ```
//!
//! Only one batch is under way at a time; what comes meanwhile makes the next. So nobody waits for a timer, and the more there is to
//! do the more each commit carries.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use krarup_net::Clock;
use krarup_units::Stamp;

use crate::changes::Batch;
use crate::job::Id;
use crate::postgres::{Laid, Owned, Problem, words};

/// How often an owner says that he is there.
const RENEW: Duration = Duration::from_millis(500);
/// How often expired keys are cleared away.
const FORGET: Duration = Duration::from_secs(60);
/// How soon to try again to have a session back.
const AGAIN: Duration = Duration::from_millis(100);

enum Order {
    Write(u64, Box<Batch>),
    Sweep,
    /// The loop has ended; nobody will be given an id any more.
    Retire(Id),
}

/// What the thread tells.
#[derive(Debug)]
pub(crate) enum News {
    /// A batch is on disk.
    Committed { number: u64, sent: Stamp, answered: Stamp },
    /// A batch was refused, whole, and why.
    Refused { number: u64, batch: Box<Batch>, why: String },
    /// What applications have laid down.
    Swept(Vec<Laid>),
    /// The session broke, and why; told once until it is back.
    Lost(String),
    /// It is back.
    Back,
    /// It is another's turn.
    Deposed,
}

/// The loop's end of the thread.
#[derive(Debug)]
pub(crate) struct Journal {
    orders: Sender<Order>,
    news: Receiver<News>,
    thread: Option<JoinHandle<()>>,
    /// Whether it has something to do.
    pub(crate) busy: bool,
}

impl Journal {
    /// Begins to write; `wake` is called whenever there are news. Ids below `next_id` have been given.
    pub(crate) fn begin(
        owned: Owned,
        next_id: Id,
        clock: Clock,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, String> {
        let (orders, received) = mpsc::channel();
        let (tell, news) = mpsc::channel();
        let told = move |news| {
            // Nobody hears it any more: the loop has ended.
            let _ = tell.send(news);
            wake();
        };
        let mut writer = Writer { owned, clock, told: Box::new(told), next_id, lost: false };
        let thread = thread::Builder::new()
            .name("journal".into())
            .spawn(move || writer.run(&received))
            .map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { orders, news, thread: Some(thread), busy: false })
    }

    pub(crate) fn write(&mut self, number: u64, batch: Batch) {
        self.order(Order::Write(number, Box::new(batch)));
    }

    pub(crate) fn sweep(&mut self) {
        self.order(Order::Sweep);
    }

    fn order(&mut self, order: Order) {
        self.busy = true;
        // A thread that is no more has said why.
        let _ = self.orders.send(order);
    }

    /// The next news, if there are any.
    pub(crate) fn news(&mut self) -> Option<News> {
        let news = self.news.try_recv().ok()?;
        self.busy &= matches!(news, News::Lost(_) | News::Back);
        Some(news)
    }

    /// Ends the thread: ids below this one were given.
    pub(crate) fn end(mut self, next_id: Id) {
        if self.orders.send(Order::Retire(next_id)).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

struct Writer {
    owned: Owned,
    clock: Clock,
    told: Box<dyn Fn(News) + Send>,
    next_id: Id,
    lost: bool,
}

/// Nothing more is to be done: another owns the queues.
struct Over;

impl Writer {
    fn run(&mut self, orders: &Receiver<Order>) {
        let (mut renewed, mut forgotten) = (Instant::now(), Instant::now());
        loop {
            let done = match orders.recv_timeout(RENEW.saturating_sub(renewed.elapsed())) {
                Ok(Order::Write(number, batch)) => self.write(number, batch),
                Ok(Order::Sweep) => self.sweep(),
                Ok(Order::Retire(next_id)) => {
                    // Where it fails, some ids will never be given.
                    let _ = self.owned.set_down(next_id);
                    return;
                }
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut done = done;
            if done.is_ok() && renewed.elapsed() >= RENEW {
                renewed = Instant::now();
                let next_id = self.next_id;
                done = self.try_until_it_stands(|owned| owned.renew(next_id)).map(drop);
            }
            if done.is_ok() && forgotten.elapsed() >= FORGET {
                forgotten = Instant::now();
                done = self.try_until_it_stands(Owned::forget_keys).map(drop);
            }
            if done.is_err() {
                (self.told)(News::Deposed);
                return;
            }
        }
    }

    fn write(&mut self, number: u64, batch: Box<Batch>) -> Result<(), Over> {
        if let Some(highest) = batch.messages.keys().max() {
            self.next_id = self.next_id.max(highest + 1);
        }
        let sent = self.clock.now();
        let written = self.try_until_it_stands(|owned| owned.write(&batch))?;
        let answered = self.clock.now();
        (self.told)(match written {
            Ok(()) => News::Committed { number, sent, answered },
            Err(why) => News::Refused { number, batch, why },
        });
        Ok(())
    }

    fn sweep(&mut self) -> Result<(), Over> {
        // What cannot be read now is read next time.
        let laid = self.try_until_it_stands(Owned::sweep)?.unwrap_or_default();
        (self.told)(News::Swept(laid));
        Ok(())
    }

    /// Does something that may be done twice, again and again until the session has stood all the time: then what came of it is known.
    fn try_until_it_stands<T>(
        &mut self,
        mut what: impl FnMut(&mut Owned) -> Result<T, postgres::Error>,
    ) -> Result<Result<T, String>, Over> {
        loop {
            match what(&mut self.owned) {
                Ok(done) => return Ok(Ok(done)),
                Err(error) if Owned::is_deposed(&error) => return Err(Over),
                Err(error) if !self.owned.is_over(&error) => return Ok(Err(words(&error))),
                Err(error) => self.lose(&words(&error)),
            }
            loop {
                match self.owned.mend() {
                    Ok(()) => break,
                    Err(Problem::Deposed) => return Err(Over),
                    Err(problem) => {
                        self.lose(&problem.to_string());
                        thread::sleep(AGAIN);
                    }
                }
            }
            self.lost = false;
            (self.told)(News::Back);
        }
    }

    fn lose(&mut self, why: &str) {
        if !std::mem::replace(&mut self.lost, true) {
            (self.told)(News::Lost(why.to_owned()));
        }
    }
}
