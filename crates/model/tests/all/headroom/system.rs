//! A system whose capacity is known because it is simulated: clients, the event loop of a proxy,
//! its workers, connections (lanes) to servers, and back.
//!
//! ```text
//! clients ─▶ loop ─▶ workers ─▶ lane: way there ─▶ thread: queue, service ─▶ link ─▶ way back ─▶ loop ─▶ clients
//!            (passes)           (delay, in order)   (stops, quota, contention)        (in order)
//! ```
//!
//! It is not a queueing network of `krarup_model::simulate`: a server here stops, runs out of a
//! quota, becomes slower as more waits, serves batches; and the stamps are those of a loop that
//! reads and writes in passes. Requests that one pass reads from a lane share a stamp, and so do
//! those that it writes. Where the two can say the same system they agree ([`super::networks`]).
//! Time is in nanoseconds from zero; the same seed gives the same run.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use krarup_record::{LiveBooks, LoopUse, Operation, Outcome, ServerVisit, Visit};
use krarup_units::{Nanos, Stamp};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution as _, Exp1, Gamma};

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Bursts last so long.
const BURST: u64 = SECOND / 20;

/// A pass of the loop that took so long leaves the rest to the next one.
const SLICE: u64 = 2_000_000;

/// The law of service times, as multiples of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ServiceLaw {
    Constant,
    Exponential,
    /// One of ten takes 5.4 times the mean on average.
    Hyper,
    /// The sum of four exponential phases.
    Gamma,
}

/// What keeps a server from working although there is work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Interruption {
    Never,
    /// So much processor time in each period, then nothing until the next.
    Quota {
        period: f64,
        share: f64,
    },
    /// At the end of each period it stands still.
    Stops {
        period: f64,
        share: f64,
    },
    /// It collects garbage after so much work on average, and stands still.
    Collector {
        work: f64,
        seconds: f64,
    },
}

/// One server and the way to it. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerLaw {
    /// Mean service time without what depends on bytes.
    pub(crate) service: f64,
    /// Both ways together.
    pub(crate) delay: f64,
    /// Bytes per second of the link behind it.
    pub(crate) link: Option<f64>,
    /// The share of requests that go to it.
    pub(crate) share: f64,
}

/// A slow change of the share of writes: from one share to another within some seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteMix {
    /// Service time of a write over that of a read.
    pub(crate) factor: f64,
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) over: f64,
    /// It turns: within these seconds from the one share to the other and back, again and again.
    pub(crate) turns: bool,
}

/// Bytes that rise and fall about their mean by a share of it, once in some seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeSwing {
    pub(crate) share: f64,
    pub(crate) period: f64,
}

/// What another proxy, which nothing is seen of, asks of the first server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherProxy {
    /// Requests per second.
    pub(crate) rate: f64,
    /// By how much it swings about that, as a share.
    pub(crate) swing: f64,
    /// How long a swing takes, in seconds.
    pub(crate) period: f64,
}

/// A system. Times are in seconds.
#[derive(Clone, Debug)]
pub(crate) struct SystemLaw {
    pub(crate) servers: Vec<ServerLaw>,
    /// Connections to each server. Each has a thread of its own at the server.
    pub(crate) lanes: usize,
    pub(crate) law: ServiceLaw,
    /// Mean of an exponential addition to the way there, as a share of half the delay.
    pub(crate) jitter: f64,
    /// Service time per byte.
    pub(crate) per_byte: f64,
    /// By how much a service is longer per request that waits, as a share; up to 16 of them.
    pub(crate) contention: f64,
    /// What a service takes longer that finds its thread idle.
    pub(crate) wake: f64,
    /// Processors that the threads of a server share.
    pub(crate) processors: f64,
    pub(crate) workers: Option<usize>,
    /// What a pass of the loop takes beside its requests.
    pub(crate) pass: f64,
    /// What a request takes of the loop when it comes.
    pub(crate) entry: f64,
    /// What its answer takes.
    pub(crate) exit: f64,
    /// What each record of 16 KiB that is begun adds to an answer, and each byte.
    pub(crate) encryption: Option<(f64, f64)>,
    pub(crate) interruption: Interruption,
    /// From this second on, service times are multiplied by this.
    pub(crate) change: Option<(f64, f64)>,
    /// Mean and coefficient of variation of the bytes of a request.
    pub(crate) bytes: (f64, f64),
    /// By which share of the mean the bytes grow per second.
    pub(crate) growth: f64,
    pub(crate) swing: Option<SizeSwing>,
    /// In each 50 ms the rate is this share above or below.
    pub(crate) burst: f64,
    pub(crate) mix: Option<WriteMix>,
    pub(crate) other_proxy: Option<OtherProxy>,
    /// Most requests that a thread serves at once, and the share of the service time that each adds
    /// to the rest, which is paid once.
    pub(crate) batch: Option<(usize, f64)>,
    /// The share of requests of which a copy goes to the next server.
    pub(crate) hedged: f64,
    /// The share of requests that fail at their server, and are then sent to the next one.
    pub(crate) retried: f64,
}

impl SystemLaw {
    /// One server, one lane, a loop that takes 5 µs and unlimited workers.
    pub(crate) fn of(service: f64, delay: f64) -> Self {
        Self {
            servers: vec![ServerLaw { service, delay, link: None, share: 1.0 }],
            lanes: 1,
            law: ServiceLaw::Exponential,
            jitter: 0.0,
            per_byte: 0.0,
            contention: 0.0,
            wake: 0.0,
            processors: f64::INFINITY,
            workers: None,
            pass: 3e-6,
            entry: 2e-6,
            exit: 2e-6,
            encryption: None,
            interruption: Interruption::Never,
            change: None,
            bytes: (100.0, 0.0),
            growth: 0.0,
            swing: None,
            burst: 0.0,
            mix: None,
            other_proxy: None,
            batch: None,
            hedged: 0.0,
            retried: 0.0,
        }
    }

    /// The system as it is in that second, for ever.
    pub(crate) fn frozen_at(&self, second: f64) -> Self {
        let mut still = self.clone();
        still.change = self.change.filter(|(from, _)| *from < second).map(|(_, factor)| (-1.0, factor));
        still.bytes.0 *= 1.0 + self.growth * second;
        still.growth = 0.0;
        if let Some(mix) = still.mix.as_mut().filter(|mix| !mix.turns) {
            mix.from = mix.share_at(second);
            mix.to = mix.from;
        }
        still
    }

    /// Whether it is another system later. What turns is the same one after each turn.
    pub(crate) fn changes(&self) -> bool {
        let drifts = |mix: WriteMix| mix.from != mix.to && !mix.turns;
        self.change.is_some() || self.growth > 0.0 || self.mix.is_some_and(drifts)
    }

    /// The system without its turns: requests at any time are like those of a whole turn. Traffic
    /// that turns by the clock fills a server when one of these does, while clients that ask again
    /// at once would ask for less of what takes long.
    pub(crate) fn averaged(&self) -> Self {
        let mut even = self.clone();
        even.swing = None;
        if let Some(mix) = even.mix.as_mut().filter(|mix| mix.turns) {
            mix.from = f64::midpoint(mix.from, mix.to);
            mix.to = mix.from;
        }
        even
    }
}

impl WriteMix {
    fn share_at(&self, second: f64) -> f64 {
        let way = if self.turns {
            0.5 - 0.5 * (second / self.over * std::f64::consts::TAU).cos()
        } else {
            (second / self.over).clamp(0.0, 1.0)
        };
        self.from + (self.to - self.from) * way
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// Requests come at these rates per second, one for each second from zero; the last one stays.
    Open(Vec<f64>),
    /// So many clients from these seconds on, each of which thinks (mean, exponential) after each
    /// reply.
    Closed { clients: Vec<(f64, usize)>, think: f64 },
}

#[derive(Clone, Copy, Debug, Default)]
struct Request {
    arrived: u64,
    received: u64,
    taken: u64,
    sent: u64,
    /// When it was sent the time before.
    first_sent: u64,
    bytes: u32,
    lane: u32,
    /// The lane of the copy, or of the second try; the same: none.
    copy: u32,
    /// Answers that are still to come.
    pending: u8,
    /// The second one is sent when the first has failed.
    tries_again: bool,
    /// When the answer came that was a failure.
    failed: u64,
    is_write: bool,
    is_replied: bool,
    busy_workers: u32,
    queue_length: u32,
}

/// In the queue of a thread: a request of the other proxy.
const HIDDEN: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Lane {
    /// On the way to the server, and back, with the times of arrival.
    there: VecDeque<(u64, u32)>,
    back: VecDeque<(u64, u32)>,
    /// Answers that the loop may read.
    inbox: Vec<u32>,
    /// At the server, those in service first.
    queue: VecDeque<u32>,
    serving: usize,
    server: u32,
    /// When the last one to be sent arrives.
    newest: u64,
}

#[derive(Debug, Default)]
struct Server {
    busy: u32,
    link_free: u64,
    /// Used of the quota in a period.
    used: f64,
    period: u64,
    /// Work until the collector runs.
    until_collection: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Due {
    Arrival,
    Delivery,
    Done,
    Back,
    Pass,
    Second,
    Hidden,
    Clients,
}

const DUE: [Due; 8] =
    [Due::Arrival, Due::Delivery, Due::Done, Due::Back, Due::Pass, Due::Second, Due::Hidden, Due::Clients];

/// What the loop finds when it looks.
#[derive(Clone, Copy, Debug)]
enum Ready {
    Request(u32),
    Lane(u32),
}

#[derive(Clone, Copy, Debug, Default)]
struct LoopState {
    is_busy: bool,
    passes: u64,
    used: u64,
    busy_workers: usize,
}

/// A run of a system.
#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    law: &'a SystemLaw,
    load: &'a Load,
    now: u64,
    sequence: u32,
    calendar: BinaryHeap<Reverse<u128>>,
    next_arrival: u64,
    slot_factor: f64,
    slot_end: u64,
    requests: Vec<Request>,
    free: Vec<u32>,
    lanes: Vec<Lane>,
    servers: Vec<Server>,
    shares: Vec<f64>,
    ready: VecDeque<Ready>,
    waiting: VecDeque<u32>,
    outgoing: Vec<u32>,
    leaving: Vec<(u32, ServerVisit)>,
    event_loop: LoopState,
    population: usize,
    asked_population: usize,
    arrivals: Xoshiro256PlusPlus,
    services: Xoshiro256PlusPlus,
    attributes: Xoshiro256PlusPlus,
    sizes: Option<Gamma<f64>>,
    /// Workers from now on.
    pub(crate) workers: Option<usize>,
    /// What the loop keeps.
    pub(crate) books: Option<LiveBooks>,
    /// From when on response times are kept, and these: from the arrival to the reply, in seconds.
    pub(crate) keep_from: Option<u64>,
    pub(crate) responses: Vec<f64>,
    /// Replies so far.
    pub(crate) replies: u64,
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn fraction(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

fn exponential(random: &mut Xoshiro256PlusPlus) -> f64 {
    Exp1.sample(random)
}

impl<'a> Simulation<'a> {
    /// A run that has not begun.
    pub(crate) fn new(law: &'a SystemLaw, load: &'a Load, seed: u64) -> Self {
        let stream = |number: u64| {
            Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number)
        };
        let lanes = (0..law.servers.len() * law.lanes)
            .map(|lane| Lane { server: (lane / law.lanes) as u32, ..Lane::default() })
            .collect();
        let mut sum = 0.0;
        let shares = law.servers.iter().map(|server| {
            sum += server.share;
            sum
        });
        let (mean, variation) = law.bytes;
        let sizes = (variation > 0.0)
            .then(|| Gamma::new(variation.powi(-2), variation * variation * mean).expect("a law of sizes"));
        let mut run = Self {
            law,
            load,
            now: 0,
            sequence: 0,
            calendar: BinaryHeap::new(),
            next_arrival: u64::MAX,
            slot_factor: 1.0,
            slot_end: 0,
            requests: Vec::new(),
            free: Vec::new(),
            lanes,
            servers: Vec::new(),
            shares: shares.collect(),
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            outgoing: Vec::new(),
            leaving: Vec::new(),
            event_loop: LoopState::default(),
            population: 0,
            asked_population: 0,
            arrivals: stream(1),
            services: stream(2),
            attributes: stream(3),
            sizes,
            workers: law.workers,
            books: None,
            keep_from: None,
            responses: Vec::new(),
            replies: 0,
        };
        run.servers = (0..law.servers.len()).map(|_| Server::default()).collect();
        run.begin();
        run
    }

    fn begin(&mut self) {
        if let Interruption::Collector { work, .. } = self.law.interruption {
            for server in &mut self.servers {
                server.until_collection = work * exponential(&mut self.services);
            }
        }
        match self.load {
            Load::Open(_) => self.draw_arrival(0),
            Load::Closed { clients, .. } => {
                for (place, (from, _)) in clients.iter().enumerate() {
                    self.enter(nanos(*from), Due::Clients, place as u32);
                }
            }
        }
        if self.law.other_proxy.is_some() {
            self.draw_hidden(0);
        }
        self.enter(SECOND, Due::Second, 0);
    }

    fn enter(&mut self, time: u64, due: Due, place: u32) {
        self.sequence = self.sequence.wrapping_add(1);
        let what = u128::from((due as u32) << 28 | place);
        self.calendar.push(Reverse(u128::from(time) << 64 | u128::from(self.sequence) << 32 | what));
    }

    /// Goes on until this time.
    pub(crate) fn run_until(&mut self, end: u64) {
        loop {
            let first = self.calendar.peek().map_or(u64::MAX, |Reverse(entry)| (entry >> 64) as u64);
            if self.next_arrival.min(first) > end {
                self.now = end;
                return;
            }
            if self.next_arrival <= first {
                self.now = self.next_arrival;
                self.arrive();
                self.draw_arrival(self.now);
                continue;
            }
            let Some(Reverse(entry)) = self.calendar.pop() else { return };
            self.now = first;
            let what = entry as u32;
            let place = what & 0x0fff_ffff;
            match DUE[(what >> 28) as usize] {
                Due::Arrival => self.arrive(),
                Due::Delivery => self.deliver(place as usize),
                Due::Done => self.complete(place as usize),
                Due::Back => self.come_back(place as usize),
                Due::Pass => self.pass(),
                Due::Second => self.end_second(),
                Due::Hidden => self.arrive_hidden(),
                Due::Clients => self.change_clients(place as usize),
            }
        }
    }

    // ---- clients --------------------------------------------------------------------------------

    /// Poisson within 50 ms; where the next one would come later it is drawn anew from there.
    fn draw_arrival(&mut self, from: u64) {
        let Load::Open(rates) = self.load else { return };
        let mut at = from;
        loop {
            if at >= self.slot_end {
                let up = self.arrivals.next_u64() & 1 == 1;
                self.slot_factor = if up { 1.0 + self.law.burst } else { 1.0 - self.law.burst };
                self.slot_end = at / BURST * BURST + BURST;
            }
            let second = (at / SECOND) as usize;
            let rate = rates[second.min(rates.len() - 1)] * self.slot_factor;
            let gap = exponential(&mut self.arrivals) / rate.max(1e-9) * 1e9;
            let next = at as f64 + gap;
            if next < self.slot_end as f64 {
                self.next_arrival = next as u64;
                return;
            }
            at = self.slot_end;
        }
    }

    fn change_clients(&mut self, place: usize) {
        let Load::Closed { clients, think } = self.load else { return };
        self.asked_population = clients[place].1;
        while self.population < self.asked_population {
            self.population += 1;
            let first = self.now + nanos(think * exponential(&mut self.arrivals));
            self.enter(first, Due::Arrival, 0);
        }
    }

    /// A client that had its reply asks again, or leaves.
    fn ask_again(&mut self, replied: u64) {
        let Load::Closed { think, .. } = self.load else { return };
        if self.population > self.asked_population {
            self.population -= 1;
            return;
        }
        let next = replied + nanos(think * exponential(&mut self.arrivals));
        self.enter(next, Due::Arrival, 0);
    }

    fn arrive(&mut self) {
        let server = self.choose_server();
        let lanes = self.law.lanes;
        // A client keeps to one connection, and any client may be the next to ask.
        let turn = if lanes > 1 { (fraction(&mut self.attributes) * lanes as f64) as usize } else { 0 };
        let lane = server * lanes + turn;
        let seconds = self.now as f64 * 1e-9;
        let size = match &self.sizes {
            Some(law) => law.sample(&mut self.attributes),
            None => self.law.bytes.0,
        };
        let mut happens = |share: f64| share > 0.0 && fraction(&mut self.attributes) < share;
        let is_hedged = happens(self.law.hedged);
        let tries_again = happens(self.law.retried);
        let copy = if is_hedged || tries_again { (lane + lanes) % self.lanes.len() } else { lane };
        let swing = self
            .law
            .swing
            .map_or(0.0, |swing| swing.share * (seconds / swing.period * std::f64::consts::TAU).sin());
        let mix = self.law.mix;
        let is_write = mix.is_some_and(|mix| fraction(&mut self.attributes) < mix.share_at(seconds));
        let request = Request {
            arrived: self.now,
            bytes: (size * (1.0 + self.law.growth * seconds + swing)) as u32,
            lane: lane as u32,
            copy: copy as u32,
            pending: 1 + u8::from(copy != lane),
            tries_again,
            is_write,
            ..Request::default()
        };
        let place = if let Some(place) = self.free.pop() {
            self.requests[place as usize] = request;
            place
        } else {
            self.requests.push(request);
            self.requests.len() as u32 - 1
        };
        self.ready.push_back(Ready::Request(place));
        self.wake();
    }

    fn choose_server(&mut self) -> usize {
        if self.shares.len() == 1 {
            return 0;
        }
        let drawn = fraction(&mut self.attributes);
        self.shares.iter().position(|end| drawn < *end).unwrap_or(self.shares.len() - 1)
    }

    // ---- the loop -------------------------------------------------------------------------------

    fn wake(&mut self) {
        if !self.event_loop.is_busy {
            self.pass();
        }
    }

    /// Reads what is ready, then writes: to servers, to clients, and to servers for what had waited
    /// for the workers that these set free.
    fn pass(&mut self) {
        self.event_loop.is_busy = !self.ready.is_empty();
        if self.ready.is_empty() {
            return;
        }
        let mut clock = self.now + nanos(self.law.pass);
        for _ in 0..self.ready.len() {
            if clock - self.now > SLICE {
                break;
            }
            match self.ready.pop_front() {
                Some(Ready::Request(request)) => self.read_request(request, &mut clock),
                Some(Ready::Lane(lane)) => self.read_answers(lane as usize, &mut clock),
                None => break,
            }
        }
        self.send(clock);
        self.reply(clock);
        while self.has_worker() {
            let Some(request) = self.waiting.pop_front() else { break };
            self.take(request, clock);
        }
        self.send(clock);
        self.event_loop.passes += 1;
        self.event_loop.used += clock - self.now;
        self.enter(clock, Due::Pass, 0);
    }

    fn has_worker(&self) -> bool {
        self.workers.is_none_or(|workers| self.event_loop.busy_workers < workers)
    }

    fn read_request(&mut self, request: u32, clock: &mut u64) {
        self.requests[request as usize].received = *clock;
        *clock += nanos(self.law.entry);
        if self.waiting.is_empty() && self.has_worker() {
            self.take(request, *clock);
        } else {
            self.waiting.push_back(request);
        }
    }

    fn take(&mut self, request: u32, at: u64) {
        self.event_loop.busy_workers += 1;
        let taken = &mut self.requests[request as usize];
        taken.taken = at;
        taken.busy_workers = self.event_loop.busy_workers as u32;
        taken.queue_length = self.waiting.len() as u32;
        self.outgoing.push(request);
    }

    fn read_answers(&mut self, lane: usize, clock: &mut u64) {
        let answered = *clock;
        let mut inbox = std::mem::take(&mut self.lanes[lane].inbox);
        for place in inbox.drain(..) {
            let request = &mut self.requests[place as usize];
            request.pending -= 1;
            let per_server = self.law.lanes;
            let part = ServerVisit {
                lane: (lane % per_server) as u16,
                ..ServerVisit::ok((lane / per_server) as u16, Stamp(request.sent), Stamp(answered))
            };
            let is_last = request.pending == 0;
            if request.tries_again && !is_last {
                (request.failed, request.lane) = (answered, request.copy);
                self.outgoing.push(place);
                continue;
            }
            if !std::mem::replace(&mut request.is_replied, true) {
                let records = self.law.encryption.map_or(0.0, |(record, byte)| {
                    f64::from(request.bytes.div_ceil(16 << 10)) * record + f64::from(request.bytes) * byte
                });
                *clock += nanos(self.law.exit + records);
                self.leaving.push((place, part));
                continue;
            }
            if let Some(books) = &mut self.books {
                books.late(&part);
            }
            // One that leaves in this pass is given up there.
            if is_last && self.leaving.iter().all(|(leaving, _)| *leaving != place) {
                self.free.push(place);
            }
        }
        self.lanes[lane].inbox = inbox;
    }

    /// One write to each lane: what it carries shares a stamp.
    fn send(&mut self, sent: u64) {
        let mut outgoing = std::mem::take(&mut self.outgoing);
        for place in outgoing.drain(..) {
            let request = &mut self.requests[place as usize];
            let (lane, copy) = (request.lane as usize, request.copy as usize);
            let both = copy != lane && !request.tries_again;
            (request.first_sent, request.sent) = (request.sent, sent);
            self.send_on(lane, place, sent);
            if both {
                self.send_on(copy, place, sent);
            }
        }
        self.outgoing = outgoing;
    }

    fn send_on(&mut self, lane: usize, place: u32, sent: u64) {
        let law = self.law;
        let mut way = law.servers[self.lanes[lane].server as usize].delay * 0.5;
        if law.jitter > 0.0 {
            way *= 1.0 + law.jitter * exponential(&mut self.attributes);
        }
        let lane_state = &mut self.lanes[lane];
        let at = (sent + nanos(way)).max(lane_state.newest);
        lane_state.newest = at;
        lane_state.there.push_back((at, place));
        if lane_state.there.len() == 1 {
            self.enter(at, Due::Delivery, lane as u32);
        }
    }

    fn reply(&mut self, replied: u64) {
        let mut leaving = std::mem::take(&mut self.leaving);
        for (place, part) in leaving.drain(..) {
            let request = self.requests[place as usize];
            self.event_loop.busy_workers -= 1;
            self.replies += 1;
            if self.keep_from.is_some_and(|from| request.arrived >= from) {
                self.responses.push((replied - request.arrived) as f64 * 1e-9);
            }
            if let Some(books) = &mut self.books {
                let operation = if request.is_write { Operation::Set } else { Operation::Get };
                let visit = Visit {
                    queued: Stamp(request.received),
                    taken: Stamp(request.taken),
                    replied: Stamp(replied),
                    busy_workers: request.busy_workers,
                    queue_length: request.queue_length,
                    keys: 1,
                    bytes_in: 30,
                    bytes_out: u64::from(request.bytes),
                    ..Visit::at(Stamp(request.received), operation)
                };
                match request.failed {
                    0 => books.finish(&visit, &[part]),
                    failed => {
                        let before = (usize::from(part.server) + self.servers.len() - 1) % self.servers.len();
                        let (sent, failed) = (Stamp(request.first_sent), Stamp(failed));
                        let tried = ServerVisit {
                            lane: part.lane,
                            outcome: Outcome::ServerError,
                            ..ServerVisit::ok(before as u16, sent, failed)
                        };
                        books.finish(&visit, &[tried, part]);
                    }
                }
            }
            if request.pending == 0 {
                self.free.push(place);
            }
            self.ask_again(replied);
        }
        self.leaving = leaving;
    }

    fn end_second(&mut self) {
        let clients = match self.load {
            Load::Open(_) => 64,
            Load::Closed { .. } => self.population as u32,
        };
        if let Some(books) = &mut self.books {
            let used = LoopUse {
                passes: self.event_loop.passes,
                processor: Nanos(self.event_loop.used),
                run_queue: Nanos(0),
                clients,
                ..LoopUse::default()
            };
            books.loop_use(Stamp(self.now), used);
        }
        (self.event_loop.passes, self.event_loop.used) = (0, 0);
        self.enter(self.now + SECOND, Due::Second, 0);
    }

    // ---- servers --------------------------------------------------------------------------------

    fn deliver(&mut self, lane: usize) {
        let (_, place) = self.lanes[lane].there.pop_front().expect("something is on its way");
        if let Some(&(next, _)) = self.lanes[lane].there.front() {
            self.enter(next, Due::Delivery, lane as u32);
        }
        self.join(lane, place);
    }

    fn join(&mut self, lane: usize, place: u32) {
        self.lanes[lane].queue.push_back(place);
        if self.lanes[lane].serving == 0 {
            self.serve(lane, true);
        }
    }

    fn draw_hidden(&mut self, from: u64) {
        let Some(other) = self.law.other_proxy else { return };
        // Candidates at the highest rate, of which a share is taken (Lewis and Shedler 1979).
        let highest = other.rate * (1.0 + other.swing);
        let mut at = from as f64;
        loop {
            at += exponential(&mut self.arrivals) / highest * 1e9;
            let phase = at * 1e-9 / other.period * std::f64::consts::TAU;
            if fraction(&mut self.arrivals) * highest < other.rate * (1.0 + other.swing * phase.sin()) {
                break;
            }
        }
        self.enter(at as u64, Due::Hidden, 0);
    }

    fn arrive_hidden(&mut self) {
        self.join(0, HIDDEN);
        self.draw_hidden(self.now);
    }

    fn serve(&mut self, lane: usize, was_idle: bool) {
        let law = self.law;
        let server = self.lanes[lane].server as usize;
        let waiting = self.lanes[lane].queue.len();
        let (most, each) = law.batch.unwrap_or((1, 0.0));
        let together = waiting.min(most);
        self.lanes[lane].serving = together;
        self.servers[server].busy += 1;
        let first = self.lanes[lane].queue[0];
        let mut work = law.servers[server].service * self.draw_service();
        if let Some((from, factor)) = law.change
            && self.now as f64 * 1e-9 > from
        {
            work *= factor;
        }
        if first != HIDDEN {
            let request = &self.requests[first as usize];
            if request.is_write {
                work *= law.mix.map_or(1.0, |mix| mix.factor);
            }
            work += law.per_byte * f64::from(request.bytes);
        }
        work *= 1.0 - each + each * together as f64;
        work *= (f64::from(self.servers[server].busy) / law.processors).max(1.0);
        work *= 1.0 + law.contention * (waiting - 1).min(16) as f64;
        if was_idle {
            work += law.wake;
        }
        let end = self.end_of(server, work);
        self.enter(end, Due::Done, lane as u32);
    }

    fn draw_service(&mut self) -> f64 {
        let random = &mut self.services;
        match self.law.law {
            ServiceLaw::Constant => 1.0,
            ServiceLaw::Exponential => exponential(random),
            ServiceLaw::Hyper => {
                let mean = if fraction(random) < 0.1 { 5.4 } else { 4.6 / 9.0 };
                mean * exponential(random)
            }
            ServiceLaw::Gamma => (0..4).map(|_| exponential(random)).sum::<f64>() * 0.25,
        }
    }

    /// When so many seconds of work that begin now are done.
    fn end_of(&mut self, server: usize, work: f64) -> u64 {
        let now = self.now as f64 * 1e-9;
        let state = &mut self.servers[server];
        match self.law.interruption {
            Interruption::Never => self.now + nanos(work),
            Interruption::Quota { period, share } => {
                let budget = period * share;
                if state.period != (now / period) as u64 {
                    (state.period, state.used) = ((now / period) as u64, 0.0);
                }
                let (mut rest, mut at) = (work, now);
                while rest > budget - state.used {
                    rest -= (budget - state.used).max(0.0);
                    state.period += 1;
                    (at, state.used) = (state.period as f64 * period, 0.0);
                }
                state.used += rest;
                nanos(at + rest).max(self.now)
            }
            Interruption::Stops { period, share } => {
                let on = period * share;
                let mut begin = (now / period).floor() * period;
                let (mut rest, mut at) = (work, now);
                if at - begin >= on {
                    begin += period;
                    at = begin;
                }
                while rest > begin + on - at {
                    rest -= begin + on - at;
                    begin += period;
                    at = begin;
                }
                nanos(at + rest).max(self.now)
            }
            Interruption::Collector { work: between, seconds } => {
                let mut end = self.now + nanos(work);
                state.until_collection -= work;
                while state.until_collection < 0.0 {
                    state.until_collection += between * exponential(&mut self.services);
                    end += nanos(seconds);
                }
                end
            }
        }
    }

    fn complete(&mut self, lane: usize) {
        let server = self.lanes[lane].server as usize;
        let law = &self.law.servers[server];
        self.servers[server].busy -= 1;
        for _ in 0..self.lanes[lane].serving {
            let place = self.lanes[lane].queue.pop_front().expect("what is served is in the queue");
            if place == HIDDEN {
                continue;
            }
            let mut at = self.now;
            if let Some(link) = law.link {
                let bytes = f64::from(self.requests[place as usize].bytes) + 100.0;
                at = at.max(self.servers[server].link_free) + nanos(bytes / link);
                self.servers[server].link_free = at;
            }
            at += nanos(law.delay * 0.5);
            self.lanes[lane].back.push_back((at, place));
            if self.lanes[lane].back.len() == 1 {
                self.enter(at, Due::Back, lane as u32);
            }
        }
        self.lanes[lane].serving = 0;
        if !self.lanes[lane].queue.is_empty() {
            self.serve(lane, false);
        }
    }

    fn come_back(&mut self, lane: usize) {
        let state = &mut self.lanes[lane];
        let (_, place) = state.back.pop_front().expect("something is on its way");
        state.inbox.push(place);
        let is_first = state.inbox.len() == 1;
        if let Some(&(next, _)) = state.back.front() {
            self.enter(next, Due::Back, lane as u32);
        }
        if is_first {
            self.ready.push_back(Ready::Lane(lane as u32));
        }
        self.wake();
    }
}
