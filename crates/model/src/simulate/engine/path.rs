//! A request's way through stations and forks.

use krarup_record::Outcome;

use super::super::calendar::Event;
use super::super::program::Op;
use super::super::request::NONE;
use super::super::rows::SystemState;
use super::{Flow, Gather, Roomy, SimulationEngine};

impl SimulationEngine<'_> {
    pub(super) fn done(&mut self, id: u32) {
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
    pub(super) fn advance(&mut self, id: u32) {
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
    pub(super) fn go(&mut self, id: u32, station: u32) {
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
    pub(super) fn refuse(&mut self, id: u32, station: u32) {
        let class = self.requests[id as usize].class;
        self.flow(station, class).tally.refused += 1;
        if let Some(rows) = &mut self.rows {
            rows.refused(station as usize, class, self.now);
        }
    }

    pub(super) fn flow(&mut self, station: u32, class: u32) -> &mut Flow {
        &mut self.flows[station as usize * self.closed.len() + class as usize]
    }

    pub(super) fn enter(&mut self, id: u32, station: u32) {
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
    pub(super) fn start(&mut self, id: u32, station: u32) {
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
            self.calendar.enter(now + request.work, Event::Done(id));
        }
        if let Some(rows) = &mut self.rows {
            let (busy, queue) = (place.serving - place.stuck, place.line.len());
            rows.taken(id, SystemState { busy, queue: queue as u32, was_idle: request.entered == now });
        }
    }

    /// Starts the visits that there is a server for, and brings a station's speed up to date.
    pub(super) fn refill(&mut self, station: u32) {
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
    pub(super) fn pace(&mut self, station: u32) {
        let now = self.now;
        let place = &mut self.places[station as usize];
        place.note_busy(now);
        if let Some(shared) = &mut place.shared {
            let left = shared.pace(place.line.len());
            self.calendar.enter_shared(station, left.map(|left| now + left));
        }
    }

    pub(super) fn shared_done(&mut self, station: u32) {
        let now = self.now;
        let shared = self.places[station as usize].shared.as_mut().expect("its speed is shared");
        shared.synchronize(now);
        let id = shared.complete().expect("something is in service");
        self.done(id);
    }

    /// Keeps its place at its station, its service done, until there is room where it goes.
    pub(super) fn stick(&mut self, id: u32) {
        let request = &mut self.requests[id as usize];
        if request.at != NONE && !request.stuck {
            request.stuck = true;
            let station = request.at;
            self.places[station as usize].stick(self.now);
            self.refill(station);
        }
    }

    /// Leaves its station, if it is at one.
    pub(super) fn leave(&mut self, id: u32) {
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
    pub(super) fn left_row(&mut self, id: u32, station: u32) {
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

    pub(super) fn fork(&mut self, id: u32, place: usize) {
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
                // Its draw is made all the same, so that the next ones do not depend on who found
                // room.
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

    pub(super) fn new_gather(&mut self, gather: Gather) -> u32 {
        if let Some(place) = self.unused_gathers.pop() {
            self.gathers[place as usize] = gather;
            return place;
        }
        self.gathers.push(gather);
        self.gathers.len() as u32 - 1
    }

    /// A copy is served.
    pub(super) fn answer(&mut self, copy: u32) {
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
}
