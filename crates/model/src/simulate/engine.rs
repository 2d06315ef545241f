//! The mechanics: one request after the other moves through the network, event by event.
//!
//! ```text
//!   arrival, end of thinking ──▶ begin ─┐                 ┌─▶ enter a station ──▶ (calendar: done)
//!                                       ├─▶ advance: op ──┼─▶ wait for a slot, for room, for copies
//!   service complete ─────────▶ done ───┘                 └─▶ finish, or lose ──▶ think again, or gone
//! ```
//!
//! A request leaves its station only when the next one has room for it; until then it keeps its
//! place and what it holds. What its leaving sets free is given away after its own move is over
//! (`settle`), so that moves never nest.
//!
//! Requests live in an arena and are known by their place in it; nothing is allocated per event
//! once the run has reached its size.

use krarup_record::Outcome;
use krarup_units::Seconds;

use super::calendar::{Calendar, ENTRIES, Event, PLACES};
use super::place::{SimulatedStation, WaitingLine, ranks};
use super::program::PathProgram;
use super::request::{NONE, SimulatedRequest};
use super::rows::RowGatherer;
use super::tally::{ClassTally, FlowTally, IntervalTally, PoolTally};
use crate::Error;
use crate::network::{Class, ClassWorkload, Network, RateChange, WhenFull};

mod balance;
mod path;
mod slots;

/// Most requests under way at once (and clients): what they take in memory is bounded.
const MOST_REQUESTS: usize = 1 << 22;
/// Most clients that find no room at one moment, beyond some for each request under way: more are
/// the same ones, back at once and refused again.
const MOST_REFUSED: u64 = 1 << 20;

/// A fork whose answers are awaited.
#[derive(Clone, Copy, Debug)]
struct Gather {
    /// The request that waits; none any more when it had enough answers.
    parent: u32,
    needed: u32,
    /// Copies that have not answered.
    pending: u32,
}

#[derive(Clone, Debug)]
struct Slots {
    size: u32,
    free: u32,
    line: WaitingLine,
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

/// Those under way somewhere: how many, since when so many, and the sum of the times when they
/// came.
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
pub(super) struct SimulationEngine<'a> {
    network: &'a Network,
    program: PathProgram,
    calendar: Calendar,
    pub(super) now: Seconds,
    /// Arrivals, ends of thinking and completed services so far.
    pub(super) events: u64,
    requests: Vec<SimulatedRequest>,
    unused: Vec<u32>,
    gathers: Vec<Gather>,
    unused_gathers: Vec<u32>,
    places: Vec<SimulatedStation>,
    pools: Vec<Slots>,
    flows: Vec<Flow>,
    classes: Vec<Crowd>,
    tally: IntervalTally,
    arrivals: Vec<Option<Arrivals>>,
    closed: Vec<bool>,
    ranks: Vec<u32>,
    /// Requests that may go on, stations and pools that have room again: all to be seen to before
    /// the next event.
    ready: Vec<u32>,
    roomy: Vec<Roomy>,
    /// Which stations copies go to, in the order of their choice.
    choice: Vec<u32>,
    rows: Option<RowGatherer<'a>>,
    full: bool,
    refused: Refused,
}

/// Clients that found no room at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Refused {
    at: f64,
    count: u64,
    /// Of the last one.
    class: usize,
}

#[derive(Clone, Copy, Debug)]
enum Roomy {
    Station(u32),
    Pool(u32),
}

impl<'a> SimulationEngine<'a> {
    /// A checked network at time 0, empty: clients begin to think, open classes wait for their
    /// first arrival.
    pub(super) fn new(
        network: &'a Network,
        seed: u64,
        replication: u64,
        rows: Option<RowGatherer<'a>>,
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
            line: WaitingLine::new(pool.discipline, levels),
            most: pool.waiting.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)),
            block: pool.when_full == WhenFull::Block,
            blocked: Default::default(),
            since: 0.0,
            tally: PoolTally::default(),
        });
        let arrivals = network.classes.iter().map(|class| match &class.workload {
            ClassWorkload::Open { profile, .. } => Some(Arrivals::new(profile)),
            ClassWorkload::Closed { .. } => None,
        });
        let places: Vec<SimulatedStation> =
            network.stations.iter().map(|station| SimulatedStation::new(station, levels)).collect();
        let mut engine = Self {
            network,
            program: PathProgram::new(network, seed, replication),
            calendar: Calendar::new(stations, places.iter().any(|place| place.shared.is_some())),
            now: 0.0,
            events: 0,
            requests: Vec::new(),
            unused: Vec::new(),
            gathers: Vec::new(),
            unused_gathers: Vec::new(),
            places,
            pools: pools.collect(),
            flows: vec![Flow::default(); classes * stations],
            classes: vec![Crowd::default(); classes],
            tally: IntervalTally::new(classes, stations, network.pools.len()),
            arrivals: arrivals.collect(),
            closed: network.classes.iter().map(|class| class.population().is_some()).collect(),
            ranks,
            ready: Vec::new(),
            roomy: Vec::new(),
            choice: Vec::new(),
            rows,
            full: false,
            refused: Refused::default(),
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
    /// When requests are there and nothing more can happen to them (a deadlock), too many are
    /// there, or time stands still, since those that find no room are back at once.
    pub(super) fn run(&mut self, time: Seconds, events: u64) -> Result<Pause, Error> {
        while let Some(due) = self.calendar.next_time() {
            if due >= time {
                self.now = time;
                return Ok(Pause::Time);
            }
            if self.events >= events {
                return Ok(Pause::Events);
            }
            let (due, number, event) = self.calendar.take().expect("it is due");
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
                Event::Shared(station) => self.shared_done(station),
            }
            if !(self.ready.is_empty() && self.roomy.is_empty()) {
                self.settle();
            }
            if self.full || number >= ENTRIES - 1 {
                return Err(if self.stands_still() { self.no_time() } else { self.too_many() });
            }
        }
        if self.classes.iter().any(|class| class.present > 0) {
            return Err(self.deadlock());
        }
        self.now = time;
        Ok(Pause::Time)
    }

    /// What was counted since the last cut.
    pub(super) fn cut(&mut self, length: Seconds) -> IntervalTally {
        let (stations, pools) = (self.places.len(), self.pools.len());
        let now = self.now;
        let mut tally =
            std::mem::replace(&mut self.tally, IntervalTally::new(self.classes.len(), stations, pools));
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

    fn next_arrival(&mut self, class: u32) {
        let gap = self.program.gaps[class as usize].next();
        let arrivals = self.arrivals[class as usize].as_mut().expect("only open classes arrive");
        if let Some(time) = arrivals.after(gap) {
            self.calendar.enter(time.max(self.now), Event::Arrival(class));
        }
    }

    fn new_request(&mut self, class: u32) -> u32 {
        let request = SimulatedRequest {
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
        if self.closed[request.class as usize] {
            let count = if self.refused.at < self.now { 1 } else { self.refused.count + 1 };
            self.refused = Refused { at: self.now, count, class: request.class as usize };
            self.full |= self.stands_still();
        }
        self.end(id);
    }

    /// Whether so many clients found no room at one moment that some must have come back at once.
    fn stands_still(&self) -> bool {
        self.refused.count > MOST_REFUSED + 16 * self.requests.len() as u64
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
        self.calendar.enter(self.now + time, Event::Begin(id));
    }

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
}
