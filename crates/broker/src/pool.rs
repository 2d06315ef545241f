//! The queue before the database connections, and the connections that take from it.
//!
//! ```text
//!                    ┌─ lane ─▶ connection ─▶ BEGIN, statement, COMMIT ─┐
//!  loop ── wishes ──▶┤   ⋮                                               ├─▶ answers ── loop
//!                    └─ lane ─▶ connection ─────────────────────────────┘
//! ```
//!
//! **direct**: one lane before C connections; each takes one wish, for one statement. **batch**: a lane for each class of wishes and
//! one connection for each lane; it takes all that wait of the kind of the first. There is no timer: the next batch is what has come
//! while the last was at the database. One thread moves all of it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::pending;
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use futures_util::future::{Either, select};
use krarup_net::Clock;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use crate::postgres::session::{Clearing, Session, Stub, Trouble};
use crate::postgres::{Problem, Sharing};
use crate::wish::{Asked, Kind, Reply, Way, Wish};

/// Wishes that share a statement at most.
const MOST_TOGETHER: usize = 512;
/// How soon to try again what failed.
const AGAIN: Duration = Duration::from_millis(100);

/// How the database is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether waiting wishes share a statement; then there is one connection for each class of wishes.
    pub gathers: bool,
    /// Connections, where they do not.
    pub connections: u32,
    /// How long a key of `put-unique` is remembered.
    pub remember_keys: Duration,
}

/// What the thread tells.
#[derive(Debug)]
pub(crate) enum News {
    /// What came of wishes.
    Answered(Vec<(u64, Reply)>, Way),
    /// The database refused something, and why; told when it changes.
    Refused(String),
    /// It takes again what it refused.
    Takes,
    /// The database is out of reach, and why; told once until it is back.
    Lost(String),
    /// It is back.
    Back,
    /// Somebody owns the queues now.
    Deposed,
}

/// The loop's end of the thread.
#[derive(Debug)]
pub(crate) struct Pool {
    wishes: Option<UnboundedSender<Vec<Asked>>>,
    news: Receiver<News>,
    thread: Option<JoinHandle<()>>,
}

impl Pool {
    /// Begins to take wishes; `wake` is called whenever there are news.
    pub(crate) fn begin(
        sharing: Sharing,
        settings: Settings,
        clock: Clock,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, String> {
        let (wishes, received) = unbounded_channel();
        let (tell, news) = mpsc::channel();
        let told = Told { tell, wake: Box::new(wake) };
        let thread = thread::Builder::new()
            .name("pool".into())
            .spawn(move || work(sharing, settings, clock, told, received))
            .map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { wishes: Some(wishes), news, thread: Some(thread) })
    }

    pub(crate) fn ask(&self, wishes: Vec<Asked>) {
        if let Some(sender) = &self.wishes {
            // A thread that is no more has said why.
            let _ = sender.send(wishes);
        }
    }

    pub(crate) fn news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// Ends the thread; where nothing is left to be done, its connections are closed in order.
    pub(crate) fn end(mut self, nothing_left: bool) {
        self.wishes = None;
        if let Some(thread) = self.thread.take()
            && nothing_left
        {
            let _ = thread.join();
        }
    }
}

struct Told {
    tell: Sender<News>,
    wake: Box<dyn Fn() + Send>,
}

/// What the connections share.
struct Shop {
    settings: Settings,
    sharing_number: i64,
    config: tokio_postgres::Config,
    clock: Clock,
    told: Told,
    lanes: Vec<Lane>,
    busy: Cell<u32>,
    /// Wishes in all lanes and with all connections.
    open: Cell<usize>,
    over: Notify,
    ending: Cell<bool>,
    /// There is an owner now.
    deposed: Notify,
    is_deposed: Cell<bool>,
    next_serial: Cell<i64>,
    /// Transactions whose end is not known.
    serials: RefCell<BTreeSet<i64>>,
    cleared: Cell<i64>,
    lost: Cell<bool>,
    refused: RefCell<Option<String>>,
}

#[derive(Default)]
struct Lane {
    waiting: RefCell<VecDeque<Asked>>,
    come: Notify,
}

/// Nobody shares the queues any more: there is an owner.
struct Over;

fn work(
    sharing: Sharing,
    settings: Settings,
    clock: Clock,
    told: Told,
    mut wishes: UnboundedReceiver<Vec<Asked>>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return told.say(News::Lost(format!("no runtime can be had: {error}"))),
    };
    let Sharing { place, number, first } = sharing;
    let shop = Rc::new(Shop::new(settings, number, place.into_config(), clock, told));
    LocalSet::new().block_on(&runtime, async {
        for lane in 0..shop.lanes.len() {
            for _ in 0..shop.connections(lane) {
                let shop = Rc::clone(&shop);
                tokio::task::spawn_local(async move { shop.serve(lane).await });
            }
        }
        loop {
            let came = pin!(wishes.recv());
            let deposed = pin!(shop.deposed.notified());
            match select(came, deposed).await {
                Either::Left((Some(some), _)) => shop.take_in(some),
                Either::Left((None, _)) => break,
                // All connections end here and now: what they held must not stand in the way of who comes next.
                Either::Right(_) => return,
            }
        }
        shop.ending.set(true);
        while shop.open.get() > 0 && !shop.is_deposed.get() {
            shop.over.notified().await;
        }
    });
    // It also held the lock while the connections came.
    drop(first);
}

impl Told {
    fn say(&self, news: News) {
        // Nobody hears it any more: the loop has ended.
        let _ = self.tell.send(news);
        (self.wake)();
    }
}

impl Shop {
    fn new(
        settings: Settings,
        sharing_number: i64,
        config: tokio_postgres::Config,
        clock: Clock,
        told: Told,
    ) -> Self {
        let lanes = if settings.gathers { LANES } else { 2 };
        Self {
            settings,
            sharing_number,
            config,
            clock,
            told,
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            busy: Cell::new(0),
            open: Cell::new(0),
            over: Notify::new(),
            ending: Cell::new(false),
            deposed: Notify::new(),
            is_deposed: Cell::new(false),
            next_serial: Cell::new(1),
            serials: RefCell::default(),
            cleared: Cell::new(0),
            lost: Cell::new(false),
            refused: RefCell::default(),
        }
    }

    /// In which lane a wish waits; the first is that of the sweeps, which wait for nobody.
    fn lane(&self, kind: Kind) -> usize {
        match kind {
            Kind::Sweep => 0,
            _ if !self.settings.gathers => 1,
            Kind::Put | Kind::Send => 1,
            Kind::Take => 2,
            Kind::Finish | Kind::Move => 3,
            Kind::Look | Kind::List | Kind::Once => 4,
        }
    }

    fn connections(&self, lane: usize) -> u32 {
        if lane == 0 || self.settings.gathers { 1 } else { self.settings.connections }
    }

    fn take_in(&self, wishes: Vec<Asked>) {
        self.open.set(self.open.get() + wishes.len());
        for asked in wishes {
            let lane = &self.lanes[self.lane(asked.wish.kind())];
            lane.waiting.borrow_mut().push_back(asked);
            lane.come.notify_one();
        }
    }

    /// What one connection does all its life.
    async fn serve(self: Rc<Self>, lane: usize) {
        let mut session = self.connect().await;
        loop {
            let (asked, mut way) = self.next(lane).await;
            let count = asked.len();
            let done = self.carry_out(&mut session, asked, &mut way).await;
            self.busy.set(self.busy.get() - 1);
            self.open.set(self.open.get() - count);
            if self.ending.get() {
                self.over.notify_one();
            }
            if done.is_err() {
                // Nothing is answered any more.
                self.told.say(News::Deposed);
                self.is_deposed.set(true);
                self.deposed.notify_one();
                self.over.notify_one();
                pending::<()>().await;
            }
        }
    }

    /// The next wishes of a lane, when there are some.
    async fn next(&self, lane: usize) -> (Vec<Asked>, Way) {
        let lane = &self.lanes[lane];
        loop {
            if let Some(next) = self.take(lane) {
                return next;
            }
            lane.come.notified().await;
        }
    }

    fn take(&self, lane: &Lane) -> Option<(Vec<Asked>, Way)> {
        let mut waiting = lane.waiting.borrow_mut();
        let first = waiting.pop_front()?;
        let kind = first.wish.kind();
        let mut some = vec![first];
        if self.settings.gathers && !matches!(kind, Kind::Once | Kind::Sweep) {
            gather(&mut waiting, kind, &mut some);
        }
        // A request of many messages keeps their order.
        while !self.settings.gathers && waiting.front().is_some_and(|next| next.joins) {
            some.extend(waiting.pop_front());
        }
        self.busy.set(self.busy.get() + 1);
        let way = Way {
            taken: self.clock.now(),
            busy: self.busy.get(),
            left: waiting.len() as u32,
            together: some.len() as u32,
            ..Way::default()
        };
        Some((some, way))
    }

    /// Carries out wishes of one kind until the answers are known, and tells them.
    async fn carry_out(
        &self,
        session: &mut Option<Session>,
        asked: Vec<Asked>,
        way: &mut Way,
    ) -> Result<(), Over> {
        let mut unknown: Option<(Stub, Option<Vec<Reply>>)> = None;
        loop {
            if session.is_none() {
                *session = Some(self.connect_again().await?);
            }
            let Some(open) = session.as_ref() else { continue };
            if let Some((stub, replies)) = unknown.take() {
                let came = match open.was_committed(stub).await {
                    Ok(true) => match replies.clone() {
                        Some(replies) => Ok(Some(replies)),
                        None => open.replies(&asked, stub).await.map(Some),
                    },
                    Ok(false) => Ok(None),
                    Err(error) => Err(error),
                };
                match came {
                    Ok(Some(replies)) => {
                        self.done(stub);
                        self.answer(&asked, replies, way);
                        return Ok(());
                    }
                    Ok(None) => self.done(stub),
                    Err(error) => {
                        self.lose(&crate::postgres::words(&error));
                        *session = None;
                        unknown = Some((stub, replies));
                        tokio::time::sleep(AGAIN).await;
                        continue;
                    }
                }
            }
            let stub = self.stub();
            way.sent = self.clock.now();
            let clearing = self.clearing();
            let came = open.carry_out(&asked, stub, self.settings.remember_keys, clearing).await;
            match came {
                Ok(replies) => {
                    self.done(stub);
                    if matches!(asked[0].wish, Wish::Sweep(_)) {
                        self.cleared.set(clearing.to);
                    }
                    self.takes();
                    self.answer(&asked, replies, way);
                    return Ok(());
                }
                Err(Trouble::Broken(why)) => {
                    self.done(stub);
                    self.lose(&why);
                    *session = None;
                }
                Err(Trouble::Unknown(replies)) => {
                    self.lose("the connection broke during a commit");
                    *session = None;
                    unknown = Some((stub, replies));
                }
                Err(Trouble::Refused { .. }) if asked.len() > 1 => {
                    self.done(stub);
                    // One of them spoils it: each for itself.
                    for one in asked {
                        Box::pin(self.carry_out(session, vec![one], way)).await?;
                    }
                    return Ok(());
                }
                Err(Trouble::Refused { why, passes }) => {
                    self.done(stub);
                    let new = matches!(asked[0].wish, Wish::New(_));
                    if passes {
                        self.refuse(&why);
                    }
                    if new || !passes || matches!(asked[0].wish, Wish::Sweep(_)) {
                        self.answer(&asked, vec![Reply::Failed(why)], way);
                        return Ok(());
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    fn answer(&self, asked: &[Asked], replies: Vec<Reply>, way: &mut Way) {
        way.answered = self.clock.now();
        let answers = asked.iter().map(|one| one.number).zip(replies).collect();
        self.told.say(News::Answered(answers, *way));
    }

    // ---- transactions ---------------------------------------------------------------------------------------

    fn stub(&self) -> Stub {
        let serial = self.next_serial.replace(self.next_serial.get() + 1);
        self.serials.borrow_mut().insert(serial);
        Stub { broker: self.sharing_number, serial }
    }

    fn done(&self, stub: Stub) {
        self.serials.borrow_mut().remove(&stub.serial);
    }

    /// Which rows of transactions can go: all below the oldest whose end is not known.
    fn clearing(&self) -> Clearing {
        let to = self.serials.borrow().first().copied().unwrap_or(self.next_serial.get());
        Clearing { from: self.cleared.get(), to }
    }

    // ---- connections ----------------------------------------------------------------------------------------

    /// The first connection; where there is none to be had it is looked for when it is needed.
    async fn connect(&self) -> Option<Session> {
        Session::connect(&self.config, self.sharing_number).await.ok()
    }

    async fn connect_again(&self) -> Result<Session, Over> {
        loop {
            match Session::connect(&self.config, self.sharing_number).await {
                Ok(session) => {
                    if self.lost.replace(false) {
                        self.told.say(News::Back);
                    }
                    return Ok(session);
                }
                Err(Problem::Deposed) => return Err(Over),
                Err(problem) => {
                    self.lose(&problem.to_string());
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    fn lose(&self, why: &str) {
        if !self.lost.replace(true) {
            self.told.say(News::Lost(why.to_owned()));
        }
    }

    fn refuse(&self, why: &str) {
        let mut refused = self.refused.borrow_mut();
        if refused.as_deref() != Some(why) {
            *refused = Some(why.to_owned());
            self.told.say(News::Refused(why.to_owned()));
        }
    }

    fn takes(&self) {
        if self.refused.borrow_mut().take().is_some() {
            self.told.say(News::Takes);
        }
    }
}

const LANES: usize = 5;

/// Takes all of a kind out of a lane, up to a bound. No client has wishes of two kinds, so that none is overtaken by its own.
fn gather(waiting: &mut VecDeque<Asked>, kind: Kind, some: &mut Vec<Asked>) {
    while some.len() < MOST_TOGETHER && waiting.front().is_some_and(|next| next.wish.kind() == kind) {
        some.extend(waiting.pop_front());
    }
    if waiting.is_empty() || some.len() >= MOST_TOGETHER {
        return;
    }
    for asked in std::mem::take(waiting) {
        if some.len() < MOST_TOGETHER && asked.wish.kind() == kind {
            some.push(asked);
        } else {
            waiting.push_back(asked);
        }
    }
}
