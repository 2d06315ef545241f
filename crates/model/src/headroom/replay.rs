//! The traffic that was seen, sent through the fitted servers: at its own times, to see whether the
//! model gives what was measured, and at other rates, to see where a target breaks.
//!
//! ```text
//! arrival ─▶ loop (FIFO) ─▶ worker, if limited ─┬▶ d/2 + jitter ─▶ connection (FIFO, stalls) ─▶ d/2 ─┬▶ reply
//!                                               └▶ … one for each server asked …                    ─┘
//! ```
//!
//! Requests are taken in the order of arrival, so the time at which a worker or a connection is
//! free is all that has to be known of those before (Kiefer and Wolfowitz 1955).

use krarup_units::Seconds;

use super::fit::ServerFit;
use super::kept::{Kept, quantile};
use super::traffic::Arrival;
use crate::simulate::random::RandomStream;

/// A server as requests meet it in a replay.
#[derive(Clone, Debug)]
pub(super) struct ReplayServer<'a> {
    /// The part of the round trip in which nothing queues; of a server at which nothing is known
    /// to wait, the whole round trip.
    pub(super) delay: Seconds,
    pub(super) jitter: Seconds,
    /// Service times to draw from; none where nothing waits.
    pub(super) law: &'a [Seconds],
    /// What service times are multiplied with.
    pub(super) scale: f64,
    pub(super) lanes: usize,
    /// Begin and length of stalls, as seen.
    pub(super) stalls: &'a [(Seconds, Seconds)],
}

impl<'a> ReplayServer<'a> {
    /// As fitted.
    pub(super) fn of(server: &'a ServerFit) -> Self {
        let lanes = (server.lanes as usize).max(1);
        match &server.fit {
            Some(fit) => Self {
                delay: fit.delay,
                jitter: fit.jitter,
                law: &fit.law,
                scale: 1.0,
                lanes,
                stalls: if fit.stalls.counts() { &fit.stalls.seen } else { &[] },
            },
            None => Self { delay: server.round_trip, jitter: 0.0, law: &[], scale: 1.0, lanes, stalls: &[] },
        }
    }
}

/// A system that requests are sent through.
#[derive(Clone, Debug)]
pub(super) struct Replay<'a> {
    pub(super) kept: &'a Kept,
    pub(super) servers: Vec<ReplayServer<'a>>,
    /// Workers that hold requests; none where they are unlimited.
    pub(super) workers: Option<usize>,
    /// What the loop takes for a request, one after the other.
    pub(super) per_request: Seconds,
    /// What else a request takes, without a queue.
    pub(super) own: Seconds,
    /// Where parts go instead: for each server as seen, the shares of all servers of the replay;
    /// empty where nothing is moved.
    pub(super) routes: Vec<Vec<f64>>,
}

/// A request that was sent through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replayed {
    pub(super) arrived: Seconds,
    pub(super) response: Seconds,
}

/// On which connection a part goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneChoice {
    AsSeen,
    AnyOne,
}

impl Replay<'_> {
    /// Arrivals at another rate. Stalls come as often as they were seen.
    pub(super) fn at_rate(&self, arrivals: &[Arrival], random: &mut RandomStream) -> Vec<Replayed> {
        let end = arrivals.last().map_or(0.0, |last| last.at);
        let covered = self.kept.covered().max(1e-9);
        let stalls: Vec<_> =
            self.servers.iter().map(|one| spread_stalls(one.stalls, covered, end, random)).collect();
        let arrivals = arrivals.iter().map(|one| (one.at, one.like));
        self.play(arrivals, LaneChoice::AnyOne, &stalls, random)
    }

    /// What was kept, at the times at which it came; the answers are in the order of the requests
    /// that clients waited for, with their places.
    pub(super) fn at_own_times(&self, random: &mut RandomStream) -> Vec<(u32, Replayed)> {
        let mut order: Vec<u32> = (0..self.kept.requests.len() as u32).collect();
        let received = |place: &u32| self.kept.requests[*place as usize].received;
        order.sort_by(|a, b| received(a).total_cmp(&received(b)));
        let stalls: Vec<_> = self.servers.iter().map(|one| one.stalls.to_vec()).collect();
        let arrivals = order.iter().map(|&place| (received(&place), place));
        let replayed = self.play(arrivals, LaneChoice::AsSeen, &stalls, random);
        let waited = |place: &u32| !self.kept.requests[*place as usize].late;
        order.into_iter().filter(waited).zip(replayed).collect()
    }

    fn play(
        &self,
        arrivals: impl Iterator<Item = (Seconds, u32)>,
        choice: LaneChoice,
        stalls: &[Vec<(Seconds, Seconds)>],
        random: &mut RandomStream,
    ) -> Vec<Replayed> {
        let mut stations: Vec<Station> = self.servers.iter().zip(stalls).map(Station::new).collect();
        let mut workers = self.workers.map(FreeTimes::new);
        let mut loop_free = f64::NEG_INFINITY;
        let mut out = Vec::new();
        for (at, like) in arrivals {
            let request = &self.kept.requests[like as usize];
            let mut now = at;
            if self.per_request > 0.0 {
                loop_free = now.max(loop_free) + self.per_request;
                now = loop_free;
            }
            if let Some(workers) = &workers
                && !request.late
            {
                now = now.max(workers.earliest());
            }
            let mut done = now;
            for part in &self.kept.parts[request.parts.clone()] {
                let Some(server) = self.route(part.server, random) else { continue };
                let lane = match choice {
                    LaneChoice::AsSeen => part.lane as usize,
                    LaneChoice::AnyOne => random.below(self.servers[server].lanes),
                };
                done = done.max(stations[server].serve(now, lane, random));
            }
            if request.late {
                continue;
            }
            if let Some(workers) = &mut workers {
                workers.take_earliest_until(done);
            }
            out.push(Replayed { arrived: at, response: done - at + self.own });
        }
        out
    }

    /// The server that a part goes to; none where its share goes nowhere.
    fn route(&self, server: usize, random: &mut RandomStream) -> Option<usize> {
        let Some(shares) = self.routes.get(server) else { return Some(server) };
        let mut rest = random.fraction();
        shares.iter().position(|share| {
            rest -= share;
            rest < 0.0
        })
    }

    /// The `share` quantile of the response time of arrivals like these, the first twentieth left
    /// out; infinite without arrivals.
    pub(super) fn quantile(&self, arrivals: &[Arrival], share: f64, random: &mut RandomStream) -> Seconds {
        let replayed = self.at_rate(arrivals, random);
        let mut times: Vec<_> = replayed[replayed.len() / 20..].iter().map(|one| one.response).collect();
        if times.is_empty() { f64::INFINITY } else { quantile(&mut times, share) }
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

/// A server in the course of a replay.
struct Station<'a> {
    server: &'a ReplayServer<'a>,
    free: Vec<Seconds>,
    stalls: &'a [(Seconds, Seconds)],
    next_stall: usize,
    stalled_until: Seconds,
}

impl<'a> Station<'a> {
    fn new((server, stalls): (&'a ReplayServer<'a>, &'a Vec<(Seconds, Seconds)>)) -> Self {
        let free = vec![f64::NEG_INFINITY; server.lanes];
        Self { server, free, stalls, next_stall: 0, stalled_until: f64::NEG_INFINITY }
    }

    /// Serves a part that is sent at `now` by this connection; when it is answered.
    fn serve(&mut self, now: Seconds, lane: usize, random: &mut RandomStream) -> Seconds {
        let server = self.server;
        let jitter = if server.jitter > 0.0 { random.draw(&rand_distr::Exp1) * server.jitter } else { 0.0 };
        if server.law.is_empty() {
            return now + server.delay;
        }
        if lane >= self.free.len() {
            self.free.resize(lane + 1, f64::NEG_INFINITY);
        }
        let mut begin = self.free[lane].max(now + 0.5 * server.delay + jitter);
        while let Some(&(at, length)) = self.stalls.get(self.next_stall)
            && at <= begin
        {
            self.stalled_until = self.stalled_until.max(at + length);
            self.next_stall += 1;
        }
        begin = begin.max(self.stalled_until);
        let mut done = begin + server.law[random.below(server.law.len())] * server.scale;
        for &(at, length) in &self.stalls[self.next_stall..] {
            if at >= done {
                break;
            }
            done += length;
        }
        self.free[lane] = done;
        done + 0.5 * server.delay
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
    let mut from = 0.0;
    let mut stalls = Vec::new();
    while from < end {
        let length = seen[random.below(seen.len())].1;
        stalls.push((from + random.fraction() * (every - length).max(0.0), length));
        from += every;
    }
    stalls
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
