//! The traffic that was seen, sent through the fitted servers: at its own times, to see whether the
//! model gives what was measured, and at other rates, to see where a target breaks.
//!
//! ```text
//! arrival ─▶ loop ─▶ worker, if limited ─┬▶ d/2 + jitter ─▶ connection (FIFO, stalls) ─▶
//! d/2 ─┬▶ reply ├▶ … one for each server asked … ─┤ └▶ queue ─▶ trip of a store's connection ─┘
//! ```
//!
//! Requests are taken in the order of arrival, so the time at which a worker or a connection is
//! free is all that has to be known of those before (Kiefer and Wolfowitz 1955). Where the loop
//! counts, it is played as it works: in passes, each of which reads what is ready, requests and
//! answers.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use krarup_units::Seconds;

use super::answer::{CopyChange, ServerQueue};
use super::fit::{DEEP, ServiceFit};
use super::kept::{Kept, KeptPart, KeptRequest, mean, quantile};
use super::server_fit::ServerFit;
use super::service_by_request::{RelativeSlope, RequestSum};
use super::stores::GatheredFit;
use super::traffic::Arrival;
use crate::simulate::random::RandomStream;

/// A server as requests meet it in a replay.
#[derive(Clone, Debug)]
pub(super) struct ReplayServer<'a> {
    /// The part of the round trip in which nothing queues; of a server at which nothing is known
    /// to wait, the whole round trip.
    pub(super) delay: Seconds,
    /// What is known of its queue; none where nothing is known to wait.
    pub(super) fit: Option<&'a ServiceFit>,
    /// What service times are multiplied with.
    pub(super) scale: f64,
    /// How they grow with the requests outstanding, where they do.
    pub(super) by_depth: Option<RelativeSlope>,
    pub(super) lanes: usize,
    /// The connections as they were used in each loop, with its share of the traffic.
    pub(super) lane_order: &'a [(Vec<u32>, f64)],
    /// Where requests wait for its connections.
    pub(super) queue: ServerQueue,
    /// What its trips take, where they carry all requests that wait.
    pub(super) gathered: Option<&'a GatheredFit>,
}

impl<'a> ReplayServer<'a> {
    /// As fitted, with requests that wait for it like this.
    pub(super) fn of(server: &'a ServerFit, queue: ServerQueue) -> Self {
        Self {
            delay: server.fit.as_ref().map_or(server.round_trip, |fit| fit.delay),
            fit: server.fit.as_ref().filter(|fit| !fit.law.is_empty()),
            scale: 1.0,
            by_depth: server.fit.as_ref().and_then(ServiceFit::grows_with_depth),
            lanes: (server.lanes as usize).max(1),
            lane_order: &server.lane_order,
            queue,
            gathered: server.gathered.as_ref(),
        }
    }

    /// Begin and length of its stalls, as seen.
    fn stalls(&self) -> &'a [(Seconds, Seconds)] {
        self.fit.map_or(&[], |fit| if fit.stalls.counts() { &fit.stalls.seen } else { &[] })
    }

    /// The service time of a part, drawn from the law of its operation, with what its bytes add and
    /// what others do in a gap beyond the mean.
    fn draw(
        &self,
        fit: &ServiceFit,
        part: &KeptPart,
        by_others: Seconds,
        random: &mut RandomStream,
    ) -> Seconds {
        let all = fit.law.len();
        let (from, to) = match fit.writes_from {
            Some(writes) if part.is_write => (writes, all),
            Some(writes) if !part.is_late => (0, writes),
            _ => (0, all),
        };
        let by_bytes = fit.service * fit.requests.by_bytes(&RequestSum::of(part));
        let time = fit.law[from + random.below(to - from)] + by_bytes + by_others;
        time.max(0.0) * self.scale
    }
}

/// A system that requests are sent through.
#[derive(Clone, Debug)]
pub(super) struct TrafficReplay<'a> {
    pub(super) kept: &'a Kept,
    pub(super) servers: Vec<ReplayServer<'a>>,
    /// Workers that hold requests; none where they are unlimited.
    pub(super) workers: Option<usize>,
    /// What requests go through before anything else.
    pub(super) first: FirstStation,
    /// What else a request takes, without a queue.
    pub(super) own: Seconds,
    /// Whether writes have one part more, or one fewer.
    pub(super) copies: Option<CopyChange>,
    /// Where parts go instead.
    pub(super) routes: PartRoutes,
}

/// Where parts go instead: for each server as seen, the shares of all servers of the replay; empty
/// where nothing is moved. Shares of more than 1 in all are of a part that is copied.
#[derive(Clone, Debug, Default)]
pub(super) struct PartRoutes {
    /// Of reads.
    pub(super) reads: Vec<Vec<f64>>,
    /// Of writes, each of which has a part at every holder of its key.
    pub(super) writes: Vec<Vec<f64>>,
    /// Whether what no client waits for is a copy of a write; else it is a second read.
    pub(super) late_are_writes: bool,
    /// Of the writes with a part that goes nowhere the share that fails: a read does.
    pub(super) writes_fail: f64,
}

impl PartRoutes {
    pub(super) fn is_write(&self, part: &KeptPart) -> bool {
        part.is_write || (part.is_late && self.late_are_writes)
    }

    /// The servers that a part goes to, drawn by one number: where it, and each that is greater by
    /// a whole, lies within the shares.
    fn takers<'r>(
        &'r self,
        part: &KeptPart,
        random: &mut RandomStream,
    ) -> impl Iterator<Item = usize> + use<'r> {
        let routes = if self.is_write(part) { &self.writes } else { &self.reads };
        let shares = routes.get(part.server).map(Vec::as_slice);
        let stays = shares.is_none().then_some(part.server);
        let mut rest = shares.map_or(0.0, |_| random.fraction());
        let moved = shares.unwrap_or_default().iter().enumerate().filter_map(move |(server, share)| {
            rest -= share;
            let takes = rest < 0.0;
            rest += f64::from(u8::from(takes));
            takes.then_some(server)
        });
        stays.into_iter().chain(moved)
    }

    /// Whether a request fails of which this part goes nowhere.
    fn fails(&self, part: &KeptPart, random: &mut RandomStream) -> bool {
        !self.is_write(part) || random.fraction() < self.writes_fail
    }
}

/// What requests go through before anything else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FirstStation {
    /// Nothing that takes time.
    Nothing,
    /// What takes so long for each, one after the other.
    OneByOne(Seconds),
    /// An event loop.
    Loop(PassCost),
}

/// What an event loop takes, in seconds of its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PassCost {
    /// For a pass, whatever it finds.
    pub(super) per_pass: Seconds,
    /// For a request: half when it comes, half when it is answered.
    pub(super) per_request: Seconds,
}

/// A request that was sent through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replayed {
    pub(super) arrived: Seconds,
    /// When it was read: a loop reads when a pass begins.
    pub(super) read: Seconds,
    /// From its arrival on.
    pub(super) response: Seconds,
    /// Whether it has no good reply, or none whose time is known: a part of it, or all that was
    /// sent together, went nowhere.
    pub(super) failed: bool,
}

/// How many times the replay at its own times is compared with what was seen, to find the loop's
/// time in what servers seemed to take.
const ROUNDS_TO_TAKE_OUT: usize = 3;

/// On which connection a part goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneChoice {
    /// Each part goes on the connection on which it was seen.
    AsSeen,
    /// Connections follow each other as they were seen to, whatever the parts.
    InTurn,
}

impl TrafficReplay<'_> {
    /// Puts something into the path that takes requests one by one: what it takes is no longer a
    /// part of the rest, and where it takes more than that, the stamps have counted it to the
    /// servers (it writes after `sent` and reads before `answered`).
    pub(super) fn serve_one_by_one(&mut self, per_request: Seconds) {
        self.first = FirstStation::OneByOne(per_request);
        let beyond_own = (per_request - self.own).max(0.0);
        self.own = (self.own - per_request).max(0.0);
        for server in &mut self.servers {
            server.delay = (server.delay - beyond_own).max(0.0);
        }
    }

    /// Puts an event loop into the path. What it takes of the requests as they were seen is no
    /// longer a part of the rest, and answers that wait for it are no longer a part of the servers'
    /// round trips, nor of what seemed to be their service: from being sent to being answered takes
    /// as long in the mean as it was seen to.
    /// Trips that carry all that wait are replayed with a loop that takes `one_by_one`.
    pub(super) fn serve_in_passes(&mut self, cost: PassCost, one_by_one: Seconds, random: &mut RandomStream) {
        if self.servers.iter().any(|server| server.gathered.is_some()) {
            return self.serve_one_by_one(one_by_one);
        }
        self.first = FirstStation::Loop(cost);
        let (arrivals, stalls) = (self.own_times(Some(cost)), self.stalls_as_seen());
        let waited = self.kept.of_clients();
        // What is read is taken when its pass has read all, if there are workers.
        let own =
            self.own + quantile(&mut waited.map(|one| one.response - one.hold).collect::<Vec<_>>(), 0.5);
        for _ in 0..ROUNDS_TO_TAKE_OUT {
            let seen = self.in_passes(cost, arrivals.iter().copied(), LaneChoice::AsSeen, &stalls, random);
            self.own = (own - seen.own).max(0.0);
            let beyond = seen.away - self.away_as_seen();
            if beyond <= 0.0 {
                break;
            }
            for server in &mut self.servers {
                let at_server = (seen.away - seen.reading - server.delay).max(1e-12);
                let of_service = (beyond - server.delay).max(0.0) / at_server;
                server.delay = (server.delay - beyond).max(0.0);
                server.scale *= (1.0 - of_service).max(0.1);
            }
        }
    }

    /// From being sent to the last answer of what was sent together, in the mean.
    fn away_as_seen(&self) -> Seconds {
        let waited = self.kept.requests.iter().filter(|one| !one.late && !one.parts.is_empty());
        mean(waited.map(|one| seen_time(sent_together(&self.kept.parts[one.parts.clone()]).0)))
    }

    /// Arrivals at another rate. Stalls come as often as they were seen, or the more often the more
    /// requests there are.
    pub(super) fn at_rate(&self, arrivals: &[Arrival], random: &mut RandomStream) -> Vec<Replayed> {
        let end = arrivals.last().map_or(0.0, |last| last.at);
        let covered = self.kept.covered().max(1e-9);
        let seen = self.kept.requests.len() as f64 / covered;
        let more = arrivals.len() as f64 / end.max(1e-9) / seen.max(1e-9);
        let stalls = self.servers.iter().map(|one| {
            let with_requests = one.fit.map_or(0.0, |fit| fit.stalls.with_requests);
            let times = 1.0 + with_requests * (more - 1.0);
            spread_stalls(one.stalls(), covered / times.max(0.01), end, random)
        });
        let stalls: Vec<_> = stalls.collect();
        self.play(arrivals.iter().copied(), LaneChoice::InTurn, &stalls, random)
    }

    /// What was kept, at the times at which it came; the answers are in the order of the requests
    /// that clients waited for, with their places.
    pub(super) fn at_own_times(&self, random: &mut RandomStream) -> Vec<(u32, Replayed)> {
        let arrivals = match self.first {
            FirstStation::Loop(cost) => self.own_times(Some(cost)),
            FirstStation::Nothing | FirstStation::OneByOne(_) => self.own_times(None),
        };
        let replayed =
            self.play(arrivals.iter().copied(), LaneChoice::AsSeen, &self.stalls_as_seen(), random);
        let waited =
            arrivals.iter().map(|one| one.like).filter(|place| !self.kept.requests[*place as usize].late);
        // From its being read on, as it was measured.
        let from_read = |one: Replayed| Replayed { response: one.response - (one.read - one.arrived), ..one };
        waited.zip(replayed).map(|(place, one)| (place, from_read(one))).collect()
    }

    /// When requests came, as far as it is known: a loop reads what has come when a pass begins,
    /// one after the other, and sends it when the pass ends. So a request that was read before the
    /// one before was sent had come before that pass began. Where requests wait for workers, what
    /// they were sent with is not known.
    fn own_times(&self, passes: Option<PassCost>) -> Vec<Arrival> {
        let requests = &self.kept.requests;
        let mut arrivals: Vec<Arrival> = Vec::with_capacity(requests.len());
        for stretch in &self.kept.stretches {
            let come = |place: u32| (requests[place as usize].in_loop, requests[place as usize].received);
            let mut order: Vec<u32> = (stretch.requests.start as u32..stretch.requests.end as u32).collect();
            order.sort_by(|a, b| come(*a).0.cmp(&come(*b).0).then(come(*a).1.total_cmp(&come(*b).1)));
            let (mut begun, mut sent, mut in_loop) = (f64::NEG_INFINITY, f64::NEG_INFINITY, 0);
            for like in order {
                let request = &requests[like as usize];
                if request.in_loop != in_loop {
                    (sent, in_loop) = (f64::NEG_INFINITY, request.in_loop);
                }
                let Some(cost) = passes.filter(|_| !request.late) else {
                    arrivals.push(Arrival { at: request.received, like });
                    continue;
                };
                if request.received >= sent {
                    begun = request.received - cost.per_pass;
                }
                arrivals.push(Arrival { at: begun, like });
                if let Some(first) =
                    self.kept.parts[request.parts.clone()].first().filter(|_| self.workers.is_none())
                {
                    sent = first.sent;
                }
            }
        }
        arrivals.sort_by(|a, b| a.at.total_cmp(&b.at));
        arrivals
    }

    fn stalls_as_seen(&self) -> Vec<Vec<(Seconds, Seconds)>> {
        self.servers.iter().map(|one| one.stalls().to_vec()).collect()
    }

    fn play(
        &self,
        arrivals: impl Iterator<Item = Arrival>,
        choice: LaneChoice,
        stalls: &[Vec<(Seconds, Seconds)>],
        random: &mut RandomStream,
    ) -> Vec<Replayed> {
        let per_request = match self.first {
            FirstStation::Loop(cost) => {
                return self.in_passes(cost, arrivals, choice, stalls, random).replayed;
            }
            FirstStation::OneByOne(per_request) => per_request,
            FirstStation::Nothing => 0.0,
        };
        let mut course = ReplayCourse::of(self, choice, stalls, random);
        let mut workers = self.workers.map(FreeTimes::new);
        let mut first_free = f64::NEG_INFINITY;
        for Arrival { at, like } in arrivals {
            let request = &self.kept.requests[like as usize];
            let mut now = at;
            if per_request > 0.0 {
                first_free = now.max(first_free) + per_request;
                now = first_free;
            }
            if let Some(workers) = &workers
                && !request.late
            {
                now = now.max(workers.earliest());
            }
            course.send_later(now, random);
            let place = (!request.late).then_some(course.out.len());
            if place.is_some() {
                course.out.push(Replayed { arrived: at, read: at, response: 0.0, failed: false });
            }
            let (done, rest) = course.send_request(request, now, place, random);
            let Some(place) = place else { continue };
            if !rest.is_empty() {
                course.later.push(LaterParts {
                    sent: now,
                    at: done,
                    request: Some(place),
                    parts: rest,
                    is_first: true,
                });
            }
            if let Some(workers) = &mut workers {
                workers.take_earliest_until(done + seen_time(rest));
            }
            course.out[place].response = done - at + self.own;
        }
        course.end(random)
    }

    /// The same through an event loop, which sends and replies when a pass ends. A request that
    /// finds no worker is sent in the pass that sets one free.
    fn in_passes(
        &self,
        cost: PassCost,
        arrivals: impl IntoIterator<Item = Arrival>,
        choice: LaneChoice,
        stalls: &[Vec<(Seconds, Seconds)>],
        random: &mut RandomStream,
    ) -> PlayedInPasses {
        let mut course = ReplayCourse::of(self, choice, stalls, random);
        let mut arrivals = arrivals.into_iter().peekable();
        let mut free_workers = self.workers.map_or(usize::MAX, |workers| workers.max(1));
        let (mut waiting, mut unwaited) = (VecDeque::new(), Vec::new());
        let mut answered = Vec::new();
        let (mut sending, mut replying) = (Vec::new(), Vec::new());
        let (mut reading, mut away) = (Vec::new(), Vec::new());
        let mut clock = f64::NEG_INFINITY;
        loop {
            let come = arrivals.peek().map(|arrival| arrival.at);
            let first = course.later.peek().map(|answer| answer.at).into_iter().chain(come);
            let begin = clock.max(first.fold(f64::INFINITY, f64::min));
            if begin == f64::INFINITY {
                break;
            }
            let read_from = begin + cost.per_pass;
            clock = read_from;
            while course.later.peek().is_some_and(|answer| answer.at <= begin) {
                let Some(answer) = course.later.pop() else { break };
                reading.push(clock - answer.at);
                away.extend(answer.request.filter(|_| answer.is_first).map(|_| clock - answer.sent));
                answered.push((answer, clock));
                clock += 0.5 * cost.per_request;
            }
            while let Some(arrival) = arrivals.next_if(|arrival| arrival.at <= begin) {
                let read = clock;
                clock += 0.5 * cost.per_request;
                let request = &self.kept.requests[arrival.like as usize];
                if request.late {
                    unwaited.push(request);
                } else {
                    waiting.push_back((request, course.out.len(), read));
                    let arrived = arrival.at;
                    course.out.push(Replayed { arrived, read, response: 0.0, failed: false });
                }
            }
            for (answer, read) in answered.drain(..) {
                if !answer.parts.is_empty() {
                    course.send_rest(answer.request, answer.parts, clock, random);
                } else if let Some(place) = answer.request {
                    course.reply(place, clock);
                    replying.push(clock - read);
                    free_workers = free_workers.saturating_add(1);
                }
            }
            for request in unwaited.drain(..) {
                course.send_and_await(request, clock, None, random);
            }
            while free_workers > 0
                && let Some((request, place, read)) = waiting.pop_front()
            {
                if read >= read_from {
                    sending.push(clock - read);
                }
                if request.parts.is_empty() {
                    course.reply(place, clock);
                    continue;
                }
                free_workers -= 1;
                course.send_and_await(request, clock, Some(place), random);
            }
        }
        PlayedInPasses {
            own: mean(sending) + mean(replying),
            reading: mean(reading),
            away: mean(away),
            replayed: course.out,
        }
    }

    /// The parts of a request: a write that has several loses one where there is a copy fewer.
    fn parts_of(&self, request: &KeptRequest) -> &[KeptPart] {
        let parts = &self.kept.parts[request.parts.clone()];
        let fewer = self.copies == Some(CopyChange::Fewer) && parts.len() > 1 && parts[0].is_write;
        &parts[usize::from(fewer)..]
    }

    /// The server that a write goes to as well where there is one copy more: any that it has not.
    fn one_more_copy(&self, request: &KeptRequest, random: &mut RandomStream) -> Option<usize> {
        let parts = &self.kept.parts[request.parts.clone()];
        let writes = self.copies == Some(CopyChange::More) && parts.first()?.is_write;
        let servers = self.servers.len();
        let first = if writes { random.below(servers) } else { return None };
        (0..servers)
            .map(|offset| (first + offset) % servers)
            .find(|server| parts.iter().all(|part| part.server != *server))
    }

    /// The connections of a server in the order in which they were used, each loop's from anywhere.
    fn turns(&self, server: usize, random: &mut RandomStream) -> LaneTurns<'_> {
        let ReplayServer { lanes, lane_order, .. } = self.servers[server];
        let mut from_anywhere = |seen: &'_ Vec<u32>| random.below(seen.len().max(1));
        let all = lane_order.iter().map(|(seen, share)| (seen.as_slice(), from_anywhere(seen), *share));
        LaneTurns { lanes, by_loop: all.filter(|(seen, ..)| !seen.is_empty()).collect() }
    }

    /// Quantiles of the response time of arrivals like these, of each of the `shares`, the first
    /// twentieth and what fails left out; infinite without any.
    pub(super) fn quantiles<const COUNT: usize>(
        &self,
        arrivals: &[Arrival],
        shares: [f64; COUNT],
        random: &mut RandomStream,
    ) -> [Seconds; COUNT] {
        let replayed = self.at_rate(arrivals, random);
        let replied = replayed[replayed.len() / 20..].iter().filter(|one| !one.failed);
        let mut times: Vec<_> = replied.map(|one| one.response).collect();
        shares.map(|share| if times.is_empty() { f64::INFINITY } else { quantile(&mut times, share) })
    }

    /// Completions per second of arrivals that come faster than they can be served.
    pub(super) fn throughput(&self, arrivals: &[Arrival], random: &mut RandomStream) -> f64 {
        let mut ends: Vec<_> =
            self.at_rate(arrivals, random).iter().map(|one| one.arrived + one.response).collect();
        ends.sort_by(f64::total_cmp);
        let count = ends.len();
        if count < 20 {
            return 0.0;
        }
        0.9 * count as f64 / (ends[count * 95 / 100] - ends[count / 20]).max(1e-12)
    }
}

/// An answer to what was sent of a request, and the parts that are sent then: another try. Mostly
/// there are none.
#[derive(Clone, Copy, Debug)]
struct LaterParts<'a> {
    /// When the parts before were sent.
    sent: Seconds,
    /// When they are answered.
    at: Seconds,
    /// The place of its request among those replayed; none: no client waits for it.
    request: Option<usize>,
    parts: &'a [KeptPart],
    /// Whether what is answered was the first that was sent of the request.
    is_first: bool,
}

// The earliest is on top of a heap.
impl Ord for LaterParts<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then(other.request.cmp(&self.request))
    }
}

impl PartialOrd for LaterParts<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for LaterParts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for LaterParts<'_> {}

/// The parts of a request that were sent before any of them was answered, and those that followed.
fn sent_together(parts: &[KeptPart]) -> (&[KeptPart], &[KeptPart]) {
    let last = parts.windows(2).position(|pair| pair[1].sent >= pair[0].answered);
    parts.split_at(last.map_or(parts.len(), |last| last + 1))
}

/// From the first part's being sent to the last answer, as seen.
fn seen_time(parts: &[KeptPart]) -> Seconds {
    parts.first().zip(parts.last()).map_or(0.0, |(first, last)| (last.answered - first.sent).max(0.0))
}

/// A replay under way.
struct ReplayCourse<'a> {
    replay: &'a TrafficReplay<'a>,
    choice: LaneChoice,
    stations: Vec<Station<'a>>,
    turns: Vec<LaneTurns<'a>>,
    gathering: Vec<Vec<WaitingPart>>,
    later: BinaryHeap<LaterParts<'a>>,
    out: Vec<Replayed>,
}

/// What came of a replay through an event loop.
struct PlayedInPasses {
    replayed: Vec<Replayed>,
    /// What the loop takes of a request from its being read to its being sent, and from its answer
    /// to the reply, in the mean.
    own: Seconds,
    /// How long an answer waits until the loop has it, in the mean.
    reading: Seconds,
    /// From a request's being sent until the loop has its answer, in the mean.
    away: Seconds,
}

impl<'a> ReplayCourse<'a> {
    fn of(
        replay: &'a TrafficReplay<'a>,
        choice: LaneChoice,
        stalls: &'a [Vec<(Seconds, Seconds)>],
        random: &mut RandomStream,
    ) -> Self {
        Self {
            replay,
            choice,
            stations: replay.servers.iter().zip(stalls).map(Station::new).collect(),
            turns: (0..replay.servers.len()).map(|server| replay.turns(server, random)).collect(),
            gathering: vec![Vec::new(); replay.servers.len()],
            later: BinaryHeap::new(),
            out: Vec::new(),
        }
    }

    /// Sends a request, with one copy more where it has one; when the last part of these is
    /// answered, and the parts that follow.
    fn send_request(
        &mut self,
        request: &KeptRequest,
        now: Seconds,
        place: Option<usize>,
        random: &mut RandomStream,
    ) -> (Seconds, &'a [KeptPart]) {
        let replay = self.replay;
        let (first, rest) = sent_together(replay.parts_of(request));
        let mut done = self.send(first, now, place, random);
        if let Some(server) = replay.one_more_copy(request, random) {
            let lane = self.turns[server].next(random);
            let part = &replay.kept.parts[request.parts.start];
            done = done.max(self.stations[server].serve(part, now, lane, random));
        }
        (done, rest)
    }

    /// Sends a request whose answer an event loop reads.
    fn send_and_await(
        &mut self,
        request: &KeptRequest,
        now: Seconds,
        place: Option<usize>,
        random: &mut RandomStream,
    ) {
        let (at, parts) = self.send_request(request, now, place, random);
        self.later.push(LaterParts { sent: now, at, request: place, parts, is_first: true });
    }

    /// Replies to a request.
    fn reply(&mut self, place: usize, at: Seconds) {
        let replied = &mut self.out[place];
        replied.response = at - replied.arrived + self.replay.own;
    }

    /// Sends parts whose request has had an answer before; what follows them is sent later.
    fn send_rest(
        &mut self,
        request: Option<usize>,
        parts: &'a [KeptPart],
        now: Seconds,
        random: &mut RandomStream,
    ) -> Seconds {
        let (first, rest) = sent_together(parts);
        let done = self.send(first, now, request, random);
        self.later.push(LaterParts { sent: now, at: done, request, parts: rest, is_first: false });
        done
    }

    /// Sends parts of the request that has this place, or of one that no client waits for; when the
    /// last is answered.
    fn send(
        &mut self,
        parts: &[KeptPart],
        now: Seconds,
        request: Option<usize>,
        random: &mut RandomStream,
    ) -> Seconds {
        let (replay, mut done, mut is_any_sent) = (self.replay, now, parts.is_empty());
        for part in parts {
            let mut is_sent = false;
            for server in replay.routes.takers(part, random) {
                is_sent = true;
                if replay.servers[server].gathered.is_some() {
                    self.gathering[server].push(WaitingPart { since: now, request });
                    continue;
                }
                let lane = match self.choice {
                    LaneChoice::AsSeen => part.lane as usize,
                    LaneChoice::InTurn => self.turns[server].next(random),
                };
                done = done.max(self.stations[server].serve(part, now, lane, random));
            }
            if let Some(place) = request.filter(|_| !is_sent) {
                self.out[place].failed |= replay.routes.fails(part, random);
            }
            is_any_sent |= is_sent;
        }
        // Another server than those of the replay may reply to it, such as a gutter's.
        if let Some(place) = request.filter(|_| !is_any_sent) {
            self.out[place].failed = true;
        }
        done
    }

    /// Sends what is due until then, in the order of time.
    fn send_later(&mut self, until: Seconds, random: &mut RandomStream) {
        while self.later.peek().is_some_and(|first| first.at <= until) {
            let Some(LaterParts { at, request: Some(place), parts, .. }) = self.later.pop() else { return };
            if parts.is_empty() {
                continue;
            }
            let done = self.send_rest(Some(place), parts, at, random);
            let replayed = &mut self.out[place];
            replayed.response = replayed.response.max(done - replayed.arrived + self.replay.own);
        }
    }

    /// Sends what is left.
    fn end(mut self, random: &mut RandomStream) -> Vec<Replayed> {
        self.send_later(f64::INFINITY, random);
        for (server, waiting) in self.replay.servers.iter().zip(&self.gathering) {
            server.gather(waiting, self.replay.own, &mut self.out, random);
        }
        self.out
    }
}

/// A server in the course of a replay.
struct Station<'a> {
    server: &'a ReplayServer<'a>,
    free: Vec<Seconds>,
    /// When the last part was sent on each connection.
    sent: Vec<Seconds>,
    stalls: &'a [(Seconds, Seconds)],
    next_stall: usize,
    stalled_until: Seconds,
    /// The share of requests that found their connection busy.
    busy_share: f64,
    /// When each of what is outstanding will be done, in order; where that counts.
    outstanding: VecDeque<Seconds>,
}

impl<'a> Station<'a> {
    fn new((server, stalls): (&'a ReplayServer<'a>, &'a Vec<(Seconds, Seconds)>)) -> Self {
        let free = vec![f64::NEG_INFINITY; server.lanes];
        let sent = free.clone();
        Self {
            server,
            free,
            sent,
            stalls,
            next_stall: 0,
            stalled_until: f64::NEG_INFINITY,
            busy_share: 0.0,
            outstanding: VecDeque::new(),
        }
    }

    /// Serves a part that is sent at `now` by this connection; when it is answered.
    fn serve(&mut self, part: &KeptPart, now: Seconds, lane: usize, random: &mut RandomStream) -> Seconds {
        let server = self.server;
        let Some(fit) = server.fit else { return now + server.delay };
        let jitter = if fit.jitter > 0.0 { random.draw(&rand_distr::Exp1) * fit.jitter } else { 0.0 };
        let lane = if server.queue == ServerQueue::Common { self.first_free() } else { lane };
        if lane >= self.free.len() {
            self.free.resize(lane + 1, f64::NEG_INFINITY);
            self.sent.resize(lane + 1, f64::NEG_INFINITY);
        }
        let arrival = now + 0.5 * server.delay + jitter;
        let by_others = match fit.others {
            Some(others) if self.free[lane] > arrival => others.share * (now - self.sent[lane] - others.gap),
            _ => 0.0,
        };
        self.sent[lane] = now;
        let mut begin = self.free[lane].max(arrival);
        while let Some(&(at, length)) = self.stalls.get(self.next_stall)
            && at <= begin
        {
            self.stalled_until = self.stalled_until.max(at + length);
            self.next_stall += 1;
        }
        begin = begin.max(self.stalled_until);
        let factor = fit.by_busy_lanes.as_ref().map_or(1.0, |curve| {
            let busy = self.others_busy(begin, lane, begin > now + server.delay, random);
            curve.factor(busy + 1)
        });
        let factor =
            factor * server.by_depth.map_or(1.0, |slope| slope.times_at(self.found(arrival).min(DEEP)));
        let mut done = begin + server.draw(fit, part, by_others, random) * factor;
        for &(at, length) in &self.stalls[self.next_stall..] {
            if at >= done {
                break;
            }
            done += length;
        }
        self.free[lane] = done;
        if server.by_depth.is_some() {
            self.outstanding.insert(self.outstanding.partition_point(|&other| other <= done), done);
        }
        done + 0.5 * server.delay
    }

    /// How many are outstanding when a service begins. Those that come until then are not known
    /// yet; they are as many, in distribution, as an arrival finds.
    fn found(&mut self, arrival: Seconds) -> f64 {
        let gone = self.outstanding.partition_point(|&done| done <= arrival);
        self.outstanding.drain(..gone);
        self.outstanding.len().max(1) as f64
    }
}

impl Station<'_> {
    /// The connection that is free first.
    fn first_free(&self) -> usize {
        let all = self.free.iter().enumerate();
        all.min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(lane, _)| lane)
    }

    /// How many other connections are busy at `begin`. A request that waits begins in the future,
    /// for which other connections may get requests that are not known yet: they are busy then with
    /// the probability with which they were until now.
    fn others_busy(&mut self, begin: Seconds, lane: usize, waits: bool, random: &mut RandomStream) -> usize {
        let mut busy = 0;
        for (other, &free) in self.free.iter().enumerate() {
            let is_busy = free > begin || (waits && random.fraction() < self.busy_share);
            busy += usize::from(other != lane && is_busy);
        }
        // A moving mean over about a thousand requests of what arrivals meet.
        let met = if waits { 1.0 } else { 0.0 };
        self.busy_share += (met - self.busy_share) / 1_000.0;
        busy
    }
}

/// The order in which connections to a server are used.
struct LaneTurns<'a> {
    /// How many there are.
    lanes: usize,
    /// The connections as they were used in each loop that used any, the place of the next, and the
    /// loop's share of the traffic.
    by_loop: Vec<(&'a [u32], usize, f64)>,
}

impl LaneTurns<'_> {
    /// The next one, of a loop drawn by its share of the traffic; any, where none was seen.
    fn next(&mut self, random: &mut RandomStream) -> usize {
        if self.by_loop.is_empty() {
            return random.below(self.lanes);
        }
        let mut rest = random.fraction() * self.by_loop.iter().map(|one| one.2).sum::<f64>();
        let drawn = self.by_loop.iter().position(|(.., share)| {
            rest -= share;
            rest < 0.0
        });
        let (seen, next, _) = &mut self.by_loop[drawn.unwrap_or(0)];
        let lane = seen[*next];
        *next = (*next + 1) % seen.len();
        lane as usize
    }
}

/// A part that waits until a trip takes it.
#[derive(Clone, Copy, Debug)]
struct WaitingPart {
    since: Seconds,
    /// The place of its request among those replayed; none: no client waits for it.
    request: Option<usize>,
}

impl ReplayServer<'_> {
    /// Sends trips that take all that wait, in the order in which it came, and sets back the
    /// replies of its requests. `own` is what else a request takes.
    fn gather(&self, waiting: &[WaitingPart], own: Seconds, out: &mut [Replayed], random: &mut RandomStream) {
        let (Some(fit), ServerQueue::Gathered { most, beside }) = (self.gathered, self.queue) else { return };
        let lanes = fit.side_by_side.max(1);
        let mut under_way: Vec<(Seconds, usize)> = Vec::new();
        let mut next = 0;
        let mut now = f64::NEG_INFINITY;
        while next < waiting.len() {
            now = now.max(waiting[next].since);
            under_way.retain(|(end, _)| *end > now);
            let come =
                waiting[next..].iter().take(most as usize).take_while(|part| part.since <= now).count();
            let others: usize = under_way.iter().map(|(_, count)| count).sum();
            let begins =
                under_way.is_empty() || (under_way.len() < lanes && others + come <= beside as usize);
            if !begins {
                now = under_way.iter().map(|(end, _)| *end).fold(f64::INFINITY, f64::min);
                continue;
            }
            let ratio = fit.ratios[random.below(fit.ratios.len())];
            let end = now + fit.time(come as f64) * ratio * self.scale;
            under_way.push((end, come));
            for part in &waiting[next..next + come] {
                if let Some(request) = part.request.and_then(|place| out.get_mut(place)) {
                    request.response = request.response.max(end - request.arrived + own);
                }
            }
            next += come;
        }
    }
}

/// Stalls as often as they were seen in `covered` seconds, spread over `end` seconds: one in each
/// interval, anywhere in it.
fn spread_stalls(
    seen: &[(Seconds, Seconds)],
    covered: Seconds,
    end: Seconds,
    random: &mut RandomStream,
) -> Vec<(Seconds, Seconds)> {
    if seen.is_empty() {
        return Vec::new();
    }
    let every = covered / seen.len() as f64;
    let spread = irregularity(seen);
    let mut from = 0.0;
    let mut stalls = Vec::new();
    while from < end {
        let length = seen[random.below(seen.len())].1;
        stalls.push((from + spread * random.fraction() * (every - length).max(0.0), length));
        from += every;
    }
    stalls
}

/// From 0, a clock's, to 1, chance: the middle half of the gaps between stalls over their median,
/// which is 1.58 for gaps of chance.
fn irregularity(seen: &[(Seconds, Seconds)]) -> f64 {
    let mut gaps: Vec<f64> = seen.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    if gaps.len() < 8 {
        return 1.0;
    }
    let (low, middle, high) =
        (quantile(&mut gaps, 0.25), quantile(&mut gaps, 0.5), quantile(&mut gaps, 0.75));
    ((high - low) / middle.max(1e-12) / 1.58).min(1.0)
}

/// When each of some workers is free: a heap whose least is on top.
struct FreeTimes(Vec<Seconds>);

impl FreeTimes {
    fn new(workers: usize) -> Self {
        Self(vec![f64::NEG_INFINITY; workers.max(1)])
    }

    fn earliest(&self) -> Seconds {
        self.0[0]
    }

    fn take_earliest_until(&mut self, done: Seconds) {
        let heap = &mut self.0;
        let mut place = 0;
        loop {
            let left = 2 * place + 1;
            if left >= heap.len() {
                break;
            }
            let least = if left + 1 < heap.len() && heap[left + 1] < heap[left] { left + 1 } else { left };
            if heap[least] >= done {
                break;
            }
            heap[place] = heap[least];
            place = least;
        }
        heap[place] = done;
    }
}
