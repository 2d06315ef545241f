//! The mechanics: one request after the other moves through the network, event by event.
//!
//! ```text
//!   arrival, end of thinking ──▶ begin ─┐                 ┌─▶ enter a station ──▶ (agenda: done)
//!                                       ├─▶ advance: op ──┼─▶ wait for a slot, for room, for copies
//!   service complete ─────────▶ done ───┘                 └─▶ finish, or lose ──▶ think again, or gone
//! ```
//!
//! A request leaves its station only when the next one has room for it; until then it keeps its place and what it holds. What its
//! leaving sets free is given away after its own move is over (`settle`), so that moves never nest.
//!
//! Requests live in an arena and are known by their place in it; nothing is allocated per event once the run has
//! reached its size.

use krarup_record::Outcome;
use krarup_units::Seconds;

use super::agenda::{Agenda, ENTRIES, Event, PLACES};
use super::place::{Line, Place, ranks};
use super::program::{Op, Program};
use super::rows::{Rows, Seen};
use super::tally::{ClassTally, FlowTally, PoolTally, Tally};
use crate::Error;
use crate::network::{Class, Network, RateChange, WhenFull, Workload};

/// No request, no station.
pub(super) const NONE: u32 = u32::MAX;

/// Most requests under way at once (and clients): what they take in memory is bounded.
const MOST_REQUESTS: usize = 1 << 22;

/// A request, or one copy of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// When it began.
    started: f64,
    /// When it came to its station or line.
    pub(super) entered: f64,
    /// When its service began.
    pub(super) taken: f64,
    /// Service time; what is left of it, for one that was preempted.
    work: f64,
    pub(super) class: u32,
    op: u32,
    /// Visits still to be made in this instruction.
    repeats: u32,
    /// The station it is at.
    at: u32,
    /// Where it goes, while it waits for room there.
    target: u32,
    /// The fork it is a copy of.
    gather: u32,
    /// Its service is done, and it finds no room where it goes next.
    stuck: bool,
}

/// A fork whose answers are awaited.
#[derive(Clone, Copy, Debug)]
struct Gather {
    /// Who waits; nobody any more when it had enough answers.
    parent: u32,
    needed: u32,
    /// Copies that have not answered.
    pending: u32,
}

#[derive(Clone, Debug)]
struct Slots {
    size: u32,
    free: u32,
    line: Line,
    /// How many may wait.
    most: usize,
    block: bool,
    /// Requests elsewhere that wait for room to wait.
    blocked: std::collections::VecDeque<u32>,
    since: f64,
    tally: PoolTally,
}

impl Slots {
    /// Brings the areas up to now.
    fn note(&mut self, now: f64) {
        let time = now - self.since;
        self.tally.held += f64::from(self.size - self.free) * time;
        self.tally.waiting += self.line.len() as f64 * time;
        self.since = now;
    }
}

/// Those under way somewhere: how many, since when so many, and the sum of the times when they came.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    present: u32,
    since: f64,
    starts: f64,
    /// Sum of ages at the last cut.
    ages: f64,
}

impl Crowd {
    #[inline]
    fn come(&mut self, now: f64, area: &mut f64) {
        *area += f64::from(self.present) * (now - self.since);
        self.since = now;
        self.present += 1;
        self.starts += now;
    }

    #[inline]
    fn go(&mut self, started: f64, now: f64, area: &mut f64) {
        *area += f64::from(self.present) * (now - self.since);
        self.since = now;
        self.present -= 1;
        self.starts = if self.present == 0 { 0.0 } else { self.starts - started };
    }

    /// Brings the area and the difference of ages up to now.
    fn cut(&mut self, now: f64, area: &mut f64, ages: &mut f64) {
        *area += f64::from(self.present) * (now - self.since);
        self.since = now;
        let sum = f64::from(self.present) * now - self.starts;
        *ages += sum - self.ages;
        self.ages = sum;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    crowd: Crowd,
    tally: FlowTally,
}

/// Open arrivals in the time of their own, in which the rate is steady.
#[derive(Clone, Debug)]
struct Arrivals {
    profile: Vec<RateChange>,
    /// Index of the next change.
    next: usize,
    /// Arrivals' own time at the last change, and real time then.
    own: f64,
    real: f64,
    factor: f64,
    /// When the last arrival was, in own time.
    last: f64,
}

impl Arrivals {
    fn new(profile: &[RateChange]) -> Self {
        Self { profile: profile.to_vec(), next: 0, own: 0.0, real: 0.0, factor: 1.0, last: 0.0 }
    }

    /// The real time of the arrival `gap` of own time after the last; `None` if it never comes.
    fn after(&mut self, gap: f64) -> Option<f64> {
        self.last += gap;
        while let Some(change) = self.profile.get(self.next) {
            let own = self.own + self.factor * (change.at - self.real).max(0.0);
            if own >= self.last {
                break;
            }
            (self.own, self.real, self.factor) = (own, change.at.max(0.0), change.factor);
            self.next += 1;
        }
        let time = self.real + (self.last - self.own) / self.factor;
        time.is_finite().then_some(time)
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// The time that was asked for.
    Time,
    /// As many events as were allowed.
    Events,
}

/// A network in motion.
pub(super) struct Engine<'a> {
    network: &'a Network,
    program: Program,
    agenda: Agenda,
    pub(super) now: Seconds,
    /// Arrivals, ends of thinking and completed services so far.
    pub(super) events: u64,
    requests: Vec<Request>,
    unused: Vec<u32>,
    gathers: Vec<Gather>,
    unused_gathers: Vec<u32>,
    places: Vec<Place>,
    pools: Vec<Slots>,
    flows: Vec<Flow>,
    classes: Vec<Crowd>,
    tally: Tally,
    arrivals: Vec<Option<Arrivals>>,
    closed: Vec<bool>,
    ranks: Vec<u32>,
    /// Requests that may go on, stations and pools that have room again: all to be seen to before the next event.
    ready: Vec<u32>,
    roomy: Vec<Roomy>,
    /// Which stations copies go to, in the order of their choice.
    choice: Vec<u32>,
    rows: Option<Rows<'a>>,
    full: bool,
}

#[derive(Clone, Copy, Debug)]
enum Roomy {
    Station(u32),
    Pool(u32),
}

impl<'a> Engine<'a> {
    /// A checked network at time 0, empty: clients begin to think, open classes wait for their first arrival.
    pub(super) fn new(
        network: &'a Network,
        seed: u64,
        replication: u64,
        rows: Option<Rows<'a>>,
    ) -> Result<Self, Error> {
        let (classes, stations) = (network.classes.len(), network.stations.len());
        let clients: u64 = network.classes.iter().filter_map(Class::population).sum();
        if clients as usize > MOST_REQUESTS || classes.max(stations) >= PLACES {
            return Err(Error::TooLarge {
                what: format!("a simulation of {clients} clients"),
                hint: format!("at most {MOST_REQUESTS}: use an open class of the same rate"),
            });
        }
        let (ranks, levels) = ranks(network);
        let pools = network.pools.iter().map(|pool| Slots {
            size: pool.size,
            free: pool.size,
            line: Line::new(pool.discipline, levels),
            most: pool.waiting.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)),
            block: pool.when_full == WhenFull::Block,
            blocked: Default::default(),
            since: 0.0,
            tally: PoolTally::default(),
        });
        let arrivals = network.classes.iter().map(|class| match &class.workload {
            Workload::Open { profile, .. } => Some(Arrivals::new(profile)),
            Workload::Closed { .. } => None,
        });
        let mut engine = Self {
            network,
            program: Program::new(network, seed, replication),
            agenda: Agenda::default(),
            now: 0.0,
            events: 0,
            requests: Vec::new(),
            unused: Vec::new(),
            gathers: Vec::new(),
            unused_gathers: Vec::new(),
            places: network.stations.iter().map(|station| Place::new(station, levels)).collect(),
            pools: pools.collect(),
            flows: vec![Flow::default(); classes * stations],
            classes: vec![Crowd::default(); classes],
            tally: Tally::new(classes, stations, network.pools.len()),
            arrivals: arrivals.collect(),
            closed: network.classes.iter().map(|class| class.population().is_some()).collect(),
            ranks,
            ready: Vec::new(),
            roomy: Vec::new(),
            choice: Vec::new(),
            rows,
            full: false,
        };
        for (class, description) in network.classes.iter().enumerate() {
            let class = class as u32;
            match description.population() {
                Some(population) => (0..population).for_each(|_| {
                    let client = engine.new_request(class);
                    engine.think(client);
                }),
                None => engine.next_arrival(class),
            }
        }
        Ok(engine)
    }

    /// Runs to `time`, or until `events` have happened in all.
    ///
    /// # Errors
    /// When requests are there and nothing more can happen to them (a deadlock), or too many are there.
    pub(super) fn run(&mut self, time: Seconds, events: u64) -> Result<Pause, Error> {
        while let Some(due) = self.agenda.next_time() {
            if due >= time {
                self.now = time;
                return Ok(Pause::Time);
            }
            if self.events >= events {
                return Ok(Pause::Events);
            }
            let (due, number, event) = self.agenda.take().expect("it is due");
            self.now = due;
            self.events += 1;
            match event {
                Event::Arrival(class) => {
                    self.next_arrival(class);
                    let request = self.new_request(class);
                    self.begin(request);
                }
                Event::Begin(request) => self.begin(request),
                Event::Done(request) => self.done(request),
                Event::Shared(station) => self.shared_done(station, number),
            }
            if !(self.ready.is_empty() && self.roomy.is_empty()) {
                self.settle();
            }
            if self.full || number >= ENTRIES - 1 {
                return Err(self.too_many());
            }
        }
        if self.classes.iter().any(|class| class.present > 0) {
            return Err(self.deadlock());
        }
        self.now = time;
        Ok(Pause::Time)
    }

    /// What was counted since the last cut.
    pub(super) fn cut(&mut self, length: Seconds) -> Tally {
        let (stations, pools) = (self.places.len(), self.pools.len());
        let now = self.now;
        let mut tally = std::mem::replace(&mut self.tally, Tally::new(self.classes.len(), stations, pools));
        tally.time = length;
        for (crowd, sums) in self.classes.iter_mut().zip(&mut tally.classes) {
            crowd.cut(now, &mut sums.area, &mut sums.ages);
        }
        for (flow, sums) in self.flows.iter_mut().zip(&mut tally.flows) {
            flow.crowd.cut(now, &mut flow.tally.area, &mut flow.tally.ages);
            *sums = std::mem::take(&mut flow.tally);
        }
        for (place, busy) in self.places.iter_mut().zip(&mut tally.busy) {
            *busy = place.cut_busy(now);
        }
        for (slots, sums) in self.pools.iter_mut().zip(&mut tally.pools) {
            slots.note(now);
            *sums = std::mem::take(&mut slots.tally);
        }
        tally
    }

    /// The sums of a class since the last cut, up to now.
    pub(super) fn class(&self, class: usize) -> ClassTally {
        let (mut sums, mut crowd) = (self.tally.classes[class], self.classes[class]);
        crowd.cut(self.now, &mut sums.area, &mut sums.ages);
        sums
    }

    // ------------------------------------------------------------------ beginning and end of requests

    fn next_arrival(&mut self, class: u32) {
        let gap = self.program.gaps[class as usize].next();
        let arrivals = self.arrivals[class as usize].as_mut().expect("only open classes arrive");
        if let Some(time) = arrivals.after(gap) {
            self.agenda.enter(time.max(self.now), Event::Arrival(class));
        }
    }

    fn new_request(&mut self, class: u32) -> u32 {
        let request = Request {
            started: self.now,
            entered: self.now,
            taken: self.now,
            work: 0.0,
            class,
            op: 0,
            repeats: 0,
            at: NONE,
            target: NONE,
            gather: NONE,
            stuck: false,
        };
        if let Some(place) = self.unused.pop() {
            self.requests[place as usize] = request;
            return place;
        }
        self.full |= self.requests.len() >= MOST_REQUESTS;
        self.requests.push(request);
        self.requests.len() as u32 - 1
    }

    fn begin(&mut self, id: u32) {
        let now = self.now;
        let request = &mut self.requests[id as usize];
        let class = request.class as usize;
        (request.started, request.op, request.repeats) = (now, self.program.entry[class], 0);
        let sums = &mut self.tally.classes[class];
        sums.begun += 1;
        self.classes[class].come(now, &mut sums.area);
        self.advance(id);
    }

    fn finish(&mut self, id: u32) {
        let request = self.requests[id as usize];
        let class = request.class as usize;
        let response = self.now - request.started;
        let sums = &mut self.tally.classes[class];
        sums.completed += 1;
        sums.response += response;
        self.tally.responses[class].record(response);
        self.end(id);
    }

    /// A request that found no room: it gives back what it holds and is no more.
    fn lose(&mut self, id: u32) {
        self.leave(id);
        let request = self.requests[id as usize];
        for index in (0..self.program.held[request.op as usize].len()).rev() {
            let pool = self.program.held[request.op as usize][index];
            self.give(id, pool, Outcome::Refused);
        }
        let sums = &mut self.tally.classes[request.class as usize];
        sums.lost += 1;
        sums.spent += self.now - request.started;
        self.end(id);
    }

    fn end(&mut self, id: u32) {
        let request = self.requests[id as usize];
        let class = request.class as usize;
        self.classes[class].go(request.started, self.now, &mut self.tally.classes[class].area);
        self.requests[id as usize].op = self.program.entry[class];
        if self.closed[class] { self.think(id) } else { self.unused.push(id) }
    }

    fn think(&mut self, id: u32) {
        let class = self.requests[id as usize].class as usize;
        let time = self.program.gaps[class].next();
        self.agenda.enter(self.now + time, Event::Begin(id));
    }

    // ------------------------------------------------------------------ along the path

    fn done(&mut self, id: u32) {
        let request = &mut self.requests[id as usize];
        if request.gather != NONE {
            self.answer(id);
            return;
        }
        request.repeats -= 1;
        request.op += u32::from(request.repeats == 0);
        self.advance(id);
    }

    /// Follows the path until the request has to wait for something.
    fn advance(&mut self, id: u32) {
        loop {
            let request = &mut self.requests[id as usize];
            match self.program.ops[request.op as usize] {
                Op::Visit { station, times, whole, fraction, coin } => {
                    if request.repeats == 0 {
                        let more = fraction > 0.0 && self.program.coins[coin as usize].fraction() < fraction;
                        request.repeats = whole + u32::from(more);
                        if request.repeats == 0 {
                            request.op += 1;
                            continue;
                        }
                    }
                    request.work = self.program.times[times as usize].next();
                    self.go(id, station);
                    return;
                }
                Op::Take(pool) => {
                    if !self.take(id, pool) {
                        return;
                    }
                    self.requests[id as usize].op += 1;
                }
                Op::Give(pool) => {
                    self.give(id, pool, Outcome::Ok);
                    self.requests[id as usize].op += 1;
                }
                Op::Branch(place) => {
                    let branches = &self.program.branches[place as usize];
                    let coin = self.program.coins[branches.coin as usize].fraction();
                    let way = branches.ways.partition_point(|(share, _)| *share <= coin);
                    // Shares sum to 1 but for rounding.
                    request.op = branches.ways[way.min(branches.ways.len() - 1)].1;
                }
                Op::Jump(place) => request.op = place,
                Op::Fork(place) => {
                    self.fork(id, place as usize);
                    return;
                }
                Op::End => {
                    self.leave(id);
                    self.finish(id);
                    return;
                }
            }
        }
    }

    /// To a station, if there is room.
    fn go(&mut self, id: u32, station: u32) {
        let request = &mut self.requests[id as usize];
        let place = &mut self.places[station as usize];
        let others = place.present - u32::from(request.at == station);
        if others < place.capacity {
            self.leave(id);
            self.enter(id, station);
        } else if place.block {
            request.target = station;
            place.blocked.push_back(id);
            self.stick(id);
        } else {
            self.refuse(id, station);
            self.lose(id);
        }
    }

    #[cold]
    fn refuse(&mut self, id: u32, station: u32) {
        let class = self.requests[id as usize].class;
        self.flow(station, class).tally.refused += 1;
        if let Some(rows) = &mut self.rows {
            rows.refused(station as usize, class, self.now);
        }
    }

    fn flow(&mut self, station: u32, class: u32) -> &mut Flow {
        &mut self.flows[station as usize * self.closed.len() + class as usize]
    }

    fn enter(&mut self, id: u32, station: u32) {
        let now = self.now;
        let request = &mut self.requests[id as usize];
        (request.at, request.entered, request.taken) = (station, now, now);
        let (class, work) = (request.class, request.work);
        let flow = self.flow(station, class);
        flow.crowd.come(now, &mut flow.tally.area);
        flow.tally.entered += 1;
        flow.tally.work += work;
        let place = &mut self.places[station as usize];
        place.present += 1;
        if let Some(shared) = &mut place.shared {
            shared.synchronize(now);
            if place.serving == place.limit && shared.is_preemptive() {
                let (oldest, left) = shared.preempt();
                place.serving -= 1;
                let oldest_request = &mut self.requests[oldest as usize];
                oldest_request.work = left;
                place.line.push(oldest, self.ranks[oldest_request.class as usize]);
            }
        }
        if place.serving < place.limit {
            self.start(id, station);
        } else {
            place.line.push(id, self.ranks[class as usize]);
        }
        self.pace(station);
    }

    /// Begins (or resumes) a service.
    fn start(&mut self, id: u32, station: u32) {
        let now = self.now;
        let place = &mut self.places[station as usize];
        let request = &mut self.requests[id as usize];
        place.serving += 1;
        if let Some(shared) = &mut place.shared {
            shared.begin(id, request.work);
            if !shared.is_preemptive() {
                request.taken = now;
            }
        } else {
            request.taken = now;
            self.agenda.enter(now + request.work, Event::Done(id));
        }
        if let Some(rows) = &mut self.rows {
            let (busy, queue) = (place.serving - place.stuck, place.line.len());
            rows.taken(id, Seen { busy, queue: queue as u32, was_idle: request.entered == now });
        }
    }

    /// Starts whom there is a server for, and brings a station's speed up to date.
    fn refill(&mut self, station: u32) {
        let place = &mut self.places[station as usize];
        if place.serving < place.limit
            && let Some(next) = place.line.pop()
        {
            // One server at most has become free since the last time.
            self.start(next, station);
        }
        self.pace(station);
    }

    /// Counts busy servers; where speed is shared, enters the time of the next completion.
    fn pace(&mut self, station: u32) {
        let now = self.now;
        let place = &mut self.places[station as usize];
        place.note_busy(now);
        if let Some(shared) = &mut place.shared {
            shared.pending = match shared.pace(place.line.len()) {
                Some(left) => self.agenda.enter(now + left, Event::Shared(station)),
                None => 0,
            };
        }
    }

    fn shared_done(&mut self, station: u32, number: u64) {
        let now = self.now;
        let shared = self.places[station as usize].shared.as_mut().expect("its speed is shared");
        if shared.pending != number {
            self.events -= 1; // out of date: something came or went since
            return;
        }
        shared.synchronize(now);
        let id = shared.complete().expect("something is in service");
        shared.pending = 0;
        self.done(id);
    }

    /// Keeps its place at its station, its service done, until there is room where it goes.
    fn stick(&mut self, id: u32) {
        let request = &mut self.requests[id as usize];
        if request.at != NONE && !request.stuck {
            request.stuck = true;
            let station = request.at;
            self.places[station as usize].stick(self.now);
            self.refill(station);
        }
    }

    /// Leaves its station, if it is at one.
    fn leave(&mut self, id: u32) {
        let now = self.now;
        let request = &mut self.requests[id as usize];
        let station = request.at;
        if station == NONE {
            return;
        }
        request.at = NONE;
        let (class, entered, taken) = (request.class, request.entered, request.taken);
        let place = &mut self.places[station as usize];
        if std::mem::take(&mut request.stuck) {
            place.unstick();
        }
        place.present -= 1;
        place.serving -= 1;
        if let Some(shared) = &mut place.shared {
            shared.synchronize(now);
        }
        if !place.blocked.is_empty() {
            self.roomy.push(Roomy::Station(station));
        }
        let flow = self.flow(station, class);
        flow.crowd.go(entered, now, &mut flow.tally.area);
        flow.tally.left += 1;
        flow.tally.residence += now - entered;
        flow.tally.wait += taken - entered;
        self.refill(station);
        if self.rows.is_some() {
            self.left_row(id, station);
        }
    }

    #[cold]
    fn left_row(&mut self, id: u32, station: u32) {
        let request = self.requests[id as usize];
        // A copy speaks for the request that waits for it.
        let holder = match request.gather {
            NONE => id,
            gather => self.gathers[gather as usize].parent,
        };
        if let Some(rows) = &mut self.rows {
            rows.left(station as usize, id, &request, holder, self.now);
        }
    }

    // ------------------------------------------------------------------ forks

    fn fork(&mut self, id: u32, place: usize) {
        let fork = &self.program.forks[place];
        let (all, choose, needed) = (fork.stations.len(), fork.choose as usize, fork.needed);
        self.choice.clear();
        self.choice.extend(0..all as u32);
        if choose < all {
            let coin = &mut self.program.coins[fork.coin as usize];
            for chosen in 0..choose {
                let other = chosen + coin.below(all - chosen);
                self.choice.swap(chosen, other);
            }
        }
        if choose == 1 {
            // A random choice of one server is a visit, not a copy.
            let (station, times) = fork.stations[self.choice[0] as usize];
            let request = &mut self.requests[id as usize];
            request.repeats = 1;
            request.work = self.program.times[times as usize].next();
            self.go(id, station);
            return;
        }
        self.leave(id);
        let class = self.requests[id as usize].class;
        let gather = self.new_gather(Gather { parent: id, needed, pending: 0 });
        let mut sent = 0;
        for chosen in 0..choose {
            let (station, times) = self.program.forks[place].stations[self.choice[chosen] as usize];
            let work = self.program.times[times as usize].next();
            let there = &self.places[station as usize];
            let room = there.present < there.capacity;
            if !room && !there.block {
                // Its draw is made all the same, so that the next ones do not depend on who found room.
                self.refuse(id, station);
                continue;
            }
            sent += 1;
            let copy = self.new_request(class);
            let request = &mut self.requests[copy as usize];
            (request.work, request.gather) = (work, gather);
            if room {
                self.enter(copy, station);
            } else {
                request.target = station;
                self.places[station as usize].blocked.push_back(copy);
            }
        }
        self.gathers[gather as usize].pending = sent;
        if sent < needed {
            // Too few copies found room for the request ever to have enough answers.
            self.gathers[gather as usize].parent = NONE;
            if sent == 0 {
                self.unused_gathers.push(gather);
            }
            self.lose(id);
        }
    }

    fn new_gather(&mut self, gather: Gather) -> u32 {
        if let Some(place) = self.unused_gathers.pop() {
            self.gathers[place as usize] = gather;
            return place;
        }
        self.gathers.push(gather);
        self.gathers.len() as u32 - 1
    }

    /// A copy is served.
    fn answer(&mut self, copy: u32) {
        self.leave(copy);
        let place = self.requests[copy as usize].gather;
        self.unused.push(copy);
        let gather = &mut self.gathers[place as usize];
        gather.pending -= 1;
        if gather.pending == 0 {
            self.unused_gathers.push(place);
        }
        if gather.parent != NONE {
            gather.needed -= 1;
            if gather.needed == 0 {
                let parent = std::mem::replace(&mut gather.parent, NONE);
                self.requests[parent as usize].op += 1;
                self.advance(parent);
            }
        }
    }

    // ------------------------------------------------------------------ pools

    /// Whether a slot was free. Otherwise the request waits, or is lost.
    fn take(&mut self, id: u32, pool: u32) -> bool {
        let now = self.now;
        let slots = &mut self.pools[pool as usize];
        if slots.free > 0 {
            slots.note(now);
            slots.free -= 1;
            slots.tally.granted += 1;
            self.granted_row(id, pool, now, true);
            return true;
        }
        if slots.line.len() < slots.most {
            self.leave(id);
            self.wait(id, pool);
        } else if slots.block {
            slots.blocked.push_back(id);
            self.stick(id);
        } else {
            slots.tally.refused += 1;
            if let Some(rows) = &mut self.rows {
                let station = self.network.stations.len() + pool as usize;
                rows.refused(station, self.requests[id as usize].class, now);
            }
            self.lose(id);
        }
        false
    }

    /// Joins those who wait for a slot.
    fn wait(&mut self, id: u32, pool: u32) {
        let request = &mut self.requests[id as usize];
        request.entered = self.now;
        let rank = self.ranks[request.class as usize];
        let slots = &mut self.pools[pool as usize];
        slots.note(self.now);
        slots.line.push(id, rank);
    }

    /// Gives a slot back: to the next who waits, if there is one.
    fn give(&mut self, id: u32, pool: u32, outcome: Outcome) {
        let now = self.now;
        if let Some(rows) = &mut self.rows {
            let request = &self.requests[id as usize];
            rows.gave(id, request.at, request.entered, outcome, now);
        }
        let slots = &mut self.pools[pool as usize];
        slots.note(now);
        let next = if let Some(next) = slots.line.pop() {
            let asked = self.requests[next as usize].entered;
            slots.tally.wait += now - asked;
            if !slots.blocked.is_empty() {
                self.roomy.push(Roomy::Pool(pool));
            }
            Some((next, asked))
        } else {
            // Where nobody may wait, those who are blocked elsewhere are next.
            slots.blocked.pop_front().map(|next| (next, now))
        };
        let Some((next, asked)) = next else {
            slots.free += 1;
            return;
        };
        slots.tally.granted += 1;
        self.granted_row(next, pool, asked, false);
        self.requests[next as usize].op += 1;
        self.ready.push(next);
    }

    fn granted_row(&mut self, id: u32, pool: u32, asked: f64, was_idle: bool) {
        if let Some(rows) = &mut self.rows {
            let slots = &self.pools[pool as usize];
            let seen = Seen { busy: slots.size - slots.free, queue: slots.line.len() as u32, was_idle };
            let class = self.requests[id as usize].class;
            rows.granted(id, class, self.network.stations.len() + pool as usize, asked, self.now, seen);
        }
    }

    // ------------------------------------------------------------------ what a move has set free

    fn settle(&mut self) {
        loop {
            if let Some(roomy) = self.roomy.pop() {
                match roomy {
                    Roomy::Station(station) => self.admit(station),
                    Roomy::Pool(pool) => self.admit_to_line(pool),
                }
            } else if let Some(id) = self.ready.pop() {
                self.advance(id);
            } else {
                break;
            }
        }
    }

    fn admit(&mut self, station: u32) {
        loop {
            let place = &mut self.places[station as usize];
            if place.present >= place.capacity {
                break;
            }
            let Some(id) = place.blocked.pop_front() else { break };
            debug_assert_eq!(self.requests[id as usize].target, station, "it waited for this station");
            self.leave(id);
            self.enter(id, station);
        }
    }

    fn admit_to_line(&mut self, pool: u32) {
        while self.pools[pool as usize].line.len() < self.pools[pool as usize].most {
            let Some(id) = self.pools[pool as usize].blocked.pop_front() else { break };
            self.leave(id);
            self.wait(id, pool);
        }
    }

    // ------------------------------------------------------------------ checks

    /// Counts everybody again, one by one: nobody was lost or made on the way.
    ///
    /// # Errors
    /// [`Error::Violated`], naming the station, class or pool.
    pub(super) fn check_balance(&self) -> Result<(), Error> {
        let differ = |what: String, counted: u64, kept: u64| {
            let law = format!("flow balance: {counted} are there, {kept} by arrivals and departures");
            if counted == kept { Ok(()) } else { Err(Error::Violated { station: what, law }) }
        };
        let mut used = vec![true; self.requests.len()];
        self.unused.iter().for_each(|id| used[*id as usize] = false);
        let live = || self.requests.iter().zip(&used).filter(|(_, used)| **used).map(|(request, _)| request);
        for (number, place) in self.places.iter().enumerate() {
            let counted = live().filter(|request| request.at as usize == number).count();
            let name = format!("station `{}`", self.network.stations[number].name);
            differ(name, counted as u64, u64::from(place.present))?;
        }
        for (number, class) in self.network.classes.iter().enumerate() {
            let own = || live().filter(|request| request.class as usize == number && request.gather == NONE);
            let kept = class.population().unwrap_or(u64::from(self.classes[number].present));
            differ(format!("class `{}`", class.name), own().count() as u64, kept)?;
        }
        for (number, slots) in self.pools.iter().enumerate() {
            let name = &self.network.pools[number].name;
            let holds = |request: &&Request| {
                request.gather == NONE && self.program.held[request.op as usize].contains(&(number as u32))
            };
            let held = u64::from(slots.size - slots.free);
            differ(format!("pool `{name}`"), live().filter(holds).count() as u64, held)?;
        }
        Ok(())
    }

    fn too_many(&self) -> Error {
        let most = (0..self.places.len()).max_by_key(|&place| self.places[place].present);
        let place = most.map_or("", |place| self.network.stations[place].name.as_str());
        Error::TooLarge {
            what: format!(
                "after {:.3} s of simulated time {} requests are under way at once, most of them at `{place}`",
                self.now,
                self.requests.len() - self.unused.len()
            ),
            hint: "more work arrives than is done: lower the rate, add servers, or limit the queue".into(),
        }
    }

    fn deadlock(&self) -> Error {
        let stations = self.places.iter().zip(&self.network.stations);
        let full: Vec<String> = stations
            .filter(|(place, _)| !place.blocked.is_empty())
            .map(|(_, station)| format!("room at `{}`", station.name))
            .chain(
                self.pools
                    .iter()
                    .zip(&self.network.pools)
                    .filter(|(slots, _)| !slots.blocked.is_empty() || slots.line.len() > 0)
                    .map(|(_, pool)| format!("a slot of `{}`", pool.name)),
            )
            .collect();
        Error::Invalid {
            thing: "network".into(),
            why: format!(
                "deadlock after {:.3} s of simulated time: all who are under way wait for {}",
                self.now,
                full.join(" and ")
            ),
            hint: "take slots in one order everywhere, or let a full station lose requests".into(),
        }
    }
}
