//! A snapshot's visits as the estimator reads them: requests with their parts, in seconds from the
//! first stretch, for a range of stretches of which is known what all loops did.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use krarup_record::live::{SLOT, VisitStretch};
use krarup_record::{LiveSnapshot, LiveVisit, LoopWindow};
use krarup_units::{Seconds, Stamp};

use super::answer::{LiveSystem, ProvenRate};
use super::coverage;

/// One server's part of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptPart {
    pub(super) server: usize,
    /// Dense number of the connection among those of its server, over all loops.
    pub(super) lane: u32,
    pub(super) sent: Seconds,
    pub(super) answered: Seconds,
    pub(super) bytes: f64,
    pub(super) is_write: bool,
    /// Whether no client waited for it: of its request neither operation nor bytes are known.
    pub(super) is_late: bool,
    pub(super) in_loop: u16,
}

/// A request, or an answer that no client waited for.
#[derive(Clone, Debug)]
pub(super) struct KeptRequest {
    pub(super) received: Seconds,
    /// Response time; at most [`LONGEST`].
    pub(super) response: Seconds,
    /// When its reply had left; of a longer response time, not before its stretch began.
    pub(super) replied: Seconds,
    /// From the worker's taking it to the reply.
    pub(super) hold: Seconds,
    /// Whether it waited for a worker.
    pub(super) waited: bool,
    /// What neither the queue nor a server accounts for.
    pub(super) own: Seconds,
    pub(super) parts: Range<usize>,
    /// Whether no client waited for it.
    pub(super) late: bool,
    pub(super) in_loop: u16,
}

/// An interval of which every request of every loop was kept.
#[derive(Clone, Debug)]
pub(super) struct KeptStretch {
    pub(super) from: Seconds,
    pub(super) to: Seconds,
    pub(super) requests: Range<usize>,
}

/// What was kept of one range of time.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    pub(super) stretches: Vec<KeptStretch>,
    pub(super) requests: Vec<KeptRequest>,
    pub(super) parts: Vec<KeptPart>,
    /// Connections seen to each server.
    pub(super) lanes: Vec<usize>,
    /// Servers that serve all their connections one after the other: these count as one.
    pub(super) joined: Vec<usize>,
    /// Requests that arrived in each slot of [`SLOT`], from the first stretch on.
    pub(super) arrivals: Vec<f64>,
    /// What loops used.
    pub(super) windows: Vec<LoopWindow>,
    /// From the first stretch to the end of the last.
    pub(super) span: Seconds,
    /// From the first stretch to the end of the range, or to when the snapshot was taken.
    pub(super) watched: Seconds,
    /// For how long at the end of that nothing came and no reply left.
    pub(super) quiet: Seconds,
}

/// What took longer counts as that long.
const LONGEST: Seconds = u32::MAX as f64 / 1e9;

/// The stretches of a snapshot as far back as arrivals are known.
pub(super) fn counted(snapshot: &LiveSnapshot) -> impl Iterator<Item = &VisitStretch> {
    let counted = move |one: &&VisitStretch| snapshot.arrivals.is_empty() || one.to > snapshot.first_slot;
    snapshot.stretches.iter().filter(counted)
}

/// The entries of one request, or of an answer that no client waited for.
struct RequestVisits<'a> {
    /// Which interval it ended in.
    interval: usize,
    /// When its reply had left; of a longer response time, not before its stretch began.
    ended: Stamp,
    /// When that stretch began.
    begun: Stamp,
    in_loop: u16,
    visits: &'a [LiveVisit],
}

/// The requests of these stretches that ended within the intervals, in the order in which they did.
fn in_order<'a>(
    snapshot: &'a LiveSnapshot,
    stretches: &[&VisitStretch],
    intervals: &[(Stamp, Stamp)],
) -> Vec<RequestVisits<'a>> {
    let mut all = Vec::new();
    for &&VisitStretch { in_loop, first, count, from, .. } in stretches {
        let visits = &snapshot.visits[first..first + count];
        all.extend(visits.chunk_by(|_, next| next.follows()).filter_map(|visits| {
            let ended = visits[0].replied_at().max(from);
            let interval = intervals.partition_point(|one| one.0 <= ended).checked_sub(1)?;
            let one = RequestVisits { interval, ended, begun: from, in_loop, visits };
            // A stretch that was cut short ends with its last reply.
            (ended <= intervals[interval].1).then_some(one)
        }));
    }
    all.sort_by_key(|one| one.ended);
    all
}

/// What was kept of the stretches that lie within `from..to`.
pub(super) fn kept(snapshot: &LiveSnapshot, system: &LiveSystem, from: Stamp, to: Stamp) -> Kept {
    let within = |one: &&VisitStretch| one.from >= from && one.from < to && one.to.0 <= to.0;
    let chosen: Vec<&VisitStretch> = counted(snapshot).filter(within).collect();
    let intervals = coverage::of_all_loops(snapshot, &chosen);
    let mut kept = Kept { lanes: vec![0; system.servers.len()], ..Kept::default() };
    let Some(&(begin, _)) = intervals.first() else { return kept };
    let origin = begin.max(snapshot.first_slot);
    let at = |stamp: Stamp| (stamp.0 as f64 - origin.0 as f64) / 1e9;
    let mut lanes: HashMap<(usize, u16, u16), u32> = HashMap::new();
    let mut ended = in_order(snapshot, &chosen, &intervals).into_iter().peekable();
    for (interval, &(from, to)) in intervals.iter().enumerate() {
        let first = kept.requests.len();
        while let Some(one) = ended.next_if(|one| one.interval == interval) {
            kept.push(&one, at, &mut lanes);
        }
        let requests = first..kept.requests.len();
        kept.stretches.push(KeptStretch { from: at(from).max(0.0), to: at(to), requests });
        kept.span = kept.span.max(at(to));
    }
    for request in &mut kept.requests {
        let parts = &kept.parts[request.parts.clone()];
        let sent = parts.iter().map(|one| one.sent).fold(f64::INFINITY, f64::min);
        let answered = parts.iter().map(|one| one.answered).fold(f64::NEG_INFINITY, f64::max);
        // Without a part all of it is the program's own.
        request.own = (request.hold - (answered - sent).max(0.0)).max(0.0);
    }
    kept.arrivals = arrivals(snapshot, origin, kept.span);
    // In the slot that goes on something came.
    let came = Stamp(snapshot.first_slot.0 + (snapshot.arrivals.len() as u64 + 1) * SLOT.0);
    kept.watched = at(to.min(snapshot.at));
    kept.quiet = (kept.watched - kept.span.max(at(came))).max(0.0);
    let end = origin.0 + (kept.span * 1e9) as u64;
    let within = |one: &&LoopWindow| one.from >= origin && one.to.0 <= end;
    kept.windows = snapshot.windows.iter().filter(within).copied().collect();
    kept
}

fn request(
    visit: &LiveVisit,
    (received, begun): (Seconds, Seconds),
    parts: Range<usize>,
    in_loop: u16,
) -> KeptRequest {
    let seconds = |nanos: u32| f64::from(nanos) / 1e9;
    let response = seconds(visit.replied);
    KeptRequest {
        received,
        response,
        replied: (received + response).max(begun),
        hold: seconds(visit.replied.saturating_sub(visit.taken)),
        waited: visit.waited(),
        own: 0.0,
        parts,
        late: visit.is_late(),
        in_loop,
    }
}

fn arrivals(snapshot: &LiveSnapshot, origin: Stamp, span: Seconds) -> Vec<f64> {
    let skip = (origin.0.div_ceil(SLOT.0) * SLOT.0).saturating_sub(snapshot.first_slot.0) / SLOT.0;
    let slots = (span * 1e9 / SLOT.0 as f64) as usize;
    snapshot.arrivals.iter().skip(skip as usize).take(slots).map(|&count| f64::from(count)).collect()
}

/// So many that waited, in so many seconds, tell for how long they hold a worker.
const ENOUGH_WAITED: (usize, usize) = (300, 6);
/// What was read of a loop for a shorter time of a second says nothing of the second.
const NEARLY_A_SECOND: Seconds = 0.9;

impl Kept {
    /// Adds a request with its parts; nothing of one whose servers are no longer there.
    fn push(
        &mut self,
        ended: &RequestVisits<'_>,
        at: impl Fn(Stamp) -> Seconds,
        lanes: &mut HashMap<(usize, u16, u16), u32>,
    ) {
        let &RequestVisits { begun, in_loop, visits, .. } = ended;
        let first = self.parts.len();
        for visit in visits.iter().filter(|one| !one.asked_no_server()) {
            let Some(seen) = self.lanes.get_mut(visit.server()) else { continue };
            let lane = *lanes.entry((visit.server(), in_loop, visit.lane())).or_insert_with(|| {
                *seen += 1;
                *seen as u32 - 1
            });
            self.parts.push(KeptPart {
                server: visit.server(),
                lane,
                sent: at(visit.sent_at()),
                answered: at(visit.answered_at()),
                bytes: f64::from(visit.bytes),
                is_write: visit.is_write() && !visit.is_late(),
                is_late: visit.is_late(),
                in_loop,
            });
        }
        let parts = first..self.parts.len();
        if !parts.is_empty() || visits[0].asked_no_server() {
            self.requests.push(request(&visits[0], (at(visits[0].received), at(begun)), parts, in_loop));
        }
    }

    /// The requests for which a client waited.
    pub(super) fn of_clients(&self) -> impl Iterator<Item = &KeptRequest> + Clone {
        self.requests.iter().filter(|one| !one.late)
    }

    /// Mean time for which a request holds a worker, and how many times that it is once all workers
    /// are busy: of those that waited for one. Where no request waits, servers fall asleep in
    /// between and take the time to wake up.
    pub(super) fn hold(&self) -> (Seconds, f64) {
        let all = mean(self.of_clients().map(|one| one.hold));
        let waited: Vec<&KeptRequest> = self.of_clients().filter(|one| one.waited).collect();
        let seconds: BTreeSet<i64> = waited.iter().map(|one| one.received as i64).collect();
        if waited.len() < ENOUGH_WAITED.0 || seconds.len() < ENOUGH_WAITED.1 {
            return (all, 1.0);
        }
        (all, mean(waited.iter().map(|one| one.hold)) / all.max(1e-12))
    }

    /// The connections of these servers, which serve them one after the other, count as one.
    pub(super) fn join_connections(&mut self, servers: &[usize]) {
        for part in self.parts.iter_mut().filter(|part| servers.contains(&part.server)) {
            part.lane = 0;
        }
        servers.iter().for_each(|&server| self.lanes[server] = self.lanes[server].min(1));
        self.joined.extend(servers);
    }

    /// Connections to a server: as many as there are by configuration, or were seen.
    pub(super) fn lanes_to(&self, server: usize, system: &LiveSystem) -> f64 {
        if self.joined.contains(&server) {
            return 1.0;
        }
        self.lanes[server].max(usize::from(system.lanes.unwrap_or(1))) as f64
    }

    /// Clients that were connected to all loops at the end.
    pub(super) fn clients(&self) -> u32 {
        let loops = self.windows.iter().map(|one| one.in_loop).max().map_or(0, |last| last + 1);
        let last = |number: u16| self.windows.iter().rev().find(|one| one.in_loop == number);
        (0..loops).filter_map(last).map(|one| one.used.clients).sum()
    }

    /// Requests a second and clients that were connected, of all loops, in each second in which
    /// both are known of every loop.
    pub(super) fn clients_at_rates(&self) -> Vec<(f64, f64)> {
        let Some(origin) = self.windows.iter().map(|one| one.from.0).min() else { return Vec::new() };
        let loops = self.windows.iter().map(|one| one.in_loop).max().map_or(0, |last| last + 1);
        let mut seconds: BTreeMap<u64, BTreeMap<u16, (f64, f64)>> = BTreeMap::new();
        for one in &self.windows {
            let rate = one.requests as f64 * 1e9 / (one.to.0 - one.from.0).max(1) as f64;
            let second = seconds.entry((one.from.0 - origin) / 1_000_000_000).or_default();
            second.insert(one.in_loop, (rate, f64::from(one.used.clients)));
        }
        let whole = seconds.into_values().filter(|second| second.len() == usize::from(loops));
        whole.map(|all| all.values().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))).collect()
    }

    /// The time of all clients that were connected, and the part of it in which they waited for
    /// replies; none where that is not known.
    fn client_time(&self) -> Option<(Seconds, Seconds)> {
        let there: f64 = self.windows.iter().map(|one| f64::from(one.used.clients) * one.seconds()).sum();
        let waited: f64 = self.windows.iter().map(|one| one.waited.as_seconds()).sum();
        (waited > 0.0 && there > 0.0).then(|| (there, waited.min(there)))
    }

    /// The share of their time in which clients waited for replies; none where that is not known.
    pub(super) fn clients_busy(&self) -> Option<f64> {
        self.client_time().map(|(there, waited)| waited / there)
    }

    /// The rate of all traffic with which clients would wait for replies all the time, if these
    /// took as long as they did; none where that is not known.
    pub(super) fn clients_full_at(&self) -> Option<f64> {
        let (there, waited) = self.client_time()?;
        let mut seconds: BTreeMap<u16, f64> = BTreeMap::new();
        for one in &self.windows {
            *seconds.entry(one.in_loop).or_default() += one.seconds();
        }
        let requests: f64 = self.windows.iter().map(|one| one.requests as f64).sum();
        Some(requests / mean(seconds.into_values()) * there / waited).filter(|rate| *rate > 0.0)
    }

    /// Mean time for which a client has all its replies before it asks again; none where that is
    /// not known.
    pub(super) fn client_idle(&self) -> Option<Seconds> {
        let requests: f64 = self.windows.iter().map(|one| one.requests as f64).sum();
        self.client_time().filter(|_| requests > 0.0).map(|(there, waited)| (there - waited) / requests)
    }

    /// Loops of which requests were kept; one at the least.
    pub(super) fn loops(&self) -> u16 {
        self.requests.iter().map(|one| one.in_loop).max().map_or(1, |last| last + 1)
    }

    /// Time that the stretches cover.
    pub(super) fn covered(&self) -> Seconds {
        self.stretches.iter().map(|one| one.to - one.from).sum()
    }

    /// Requests a second of all loops, those that were not kept and quiet seconds among them.
    pub(super) fn rate(&self) -> f64 {
        let slot = SLOT.as_seconds();
        if self.arrivals.is_empty() {
            return self.of_clients().count() as f64 / self.covered().max(1e-9);
        }
        // The slot that goes on at the end is not complete, and quiet ones may be missing there.
        let slots = (self.span / slot - 1.0).max(self.arrivals.len() as f64);
        self.arrivals.iter().sum::<f64>() / (slots * slot).max(slot)
    }

    /// The share of the requests that each loop had; of those that were kept where no windows tell.
    pub(super) fn shares_of_loops(&self) -> Vec<f64> {
        let told = self.windows.iter().map(|one| one.in_loop + 1).max();
        let mut counts = vec![0.0; usize::from(self.loops().max(told.unwrap_or(0)))];
        for one in &self.windows {
            counts[usize::from(one.in_loop)] += one.requests as f64;
        }
        if counts.iter().sum::<f64>() == 0.0 {
            for one in &self.requests {
                counts[usize::from(one.in_loop)] += 1.0;
            }
        }
        let all = counts.iter().sum::<f64>().max(1.0);
        counts.into_iter().map(|count| count / all).collect()
    }

    /// Replies of all loops in each second, with a loop's share of it where that is known.
    fn replies(&self) -> Vec<f64> {
        let Some(origin) = self.windows.iter().map(|one| one.from.0).min() else { return Vec::new() };
        let mut by_loop: BTreeMap<(u64, u16), (f64, f64)> = BTreeMap::new();
        for one in &self.windows {
            let second = (one.from.0 - origin) / 1_000_000_000;
            let sum = by_loop.entry((second, one.in_loop)).or_default();
            *sum = (sum.0 + one.requests as f64, sum.1 + one.seconds());
        }
        let mut by_second: BTreeMap<u64, f64> = BTreeMap::new();
        for ((second, _), (requests, seconds)) in by_loop {
            let rate = if seconds < NEARLY_A_SECOND { 0.0 } else { requests / seconds };
            *by_second.entry(second).or_default() += rate;
        }
        by_second.into_values().collect()
    }

    /// The highest rate of all loops that was served for seconds on end: of five successive seconds
    /// the middle one; zero where fewer are known.
    pub(super) fn served(&self) -> f64 {
        self.replies().windows(5).map(|five| quantile(&mut five.to_vec(), 0.5)).fold(0.0, f64::max)
    }

    /// The highest rates that were served, over a second and over 100 ms. Of the latter only what
    /// was kept is counted, but in some tenth of a second was served what is its mean.
    pub(super) fn proven(&self) -> ProvenRate {
        let one_second = self.replies().into_iter().fold(0.0, f64::max);
        let mut tenths: BTreeMap<i64, f64> = BTreeMap::new();
        for request in self.requests.iter().filter(|one| !one.late && one.response < LONGEST) {
            *tenths.entry((10.0 * request.replied).floor() as i64).or_default() += 10.0;
        }
        ProvenRate { one_second, tenth_of_a_second: tenths.into_values().fold(one_second, f64::max) }
    }

    /// The parts of one stretch that went to one server.
    pub(super) fn parts_at<'a>(
        &'a self,
        stretch: &KeptStretch,
        server: usize,
    ) -> impl Iterator<Item = &'a KeptPart> + 'a {
        let requests = &self.requests[stretch.requests.clone()];
        let parts = match (requests.first(), requests.last()) {
            (Some(first), Some(last)) => first.parts.start..last.parts.end,
            _ => 0..0,
        };
        self.parts[parts].iter().filter(move |one| one.server == server)
    }
}

impl Kept {
    /// Whether servers or writes have another share of the last [`RECENT`] seconds than of the time
    /// before.
    pub(super) fn mix_changed(&self) -> bool {
        let begin = self.span - RECENT;
        let is_other = |of: &dyn Fn(&KeptPart) -> bool, least: f64| {
            let count = |recent: bool| {
                let parts = self.parts.iter().filter(|part| (part.sent > begin) == recent);
                parts.fold((0.0, 0.0), |sum, part| (sum.0 + f64::from(u8::from(of(part))), sum.1 + 1.0))
            };
            let ((new, new_all), (old, old_all)) = (count(true), count(false));
            // Half a part more of each, so that none is no endless ratio.
            let (new, old) = (new + 0.5, old + 0.5);
            let (now, then) = (new / f64::max(new_all, 1.0), old / f64::max(old_all, 1.0));
            let larger = now.max(then);
            if larger < 0.05 || larger * f64::min(new_all, old_all) < 30.0 {
                return false;
            }
            let error = (1.0 / new + 1.0 / old).sqrt();
            (now / then).ln().abs() > (4.0 * error).max(least)
        };
        let servers = self.lanes.len();
        servers > 1 && (0..servers).any(|server| is_other(&|part| part.server == server, SHARE_OF_SERVER))
            || is_other(&|part| part.is_write, SHARE_OF_WRITES)
    }

    /// Parts that a server had in the last [`RECENT`] seconds, or for as long before as it takes to
    /// be `enough`, and of how many requests of clients: not those of a time with other shares.
    pub(super) fn lately(&self, server: usize, enough: f64) -> (f64, f64) {
        let begin = self.span - RECENT;
        let (mut parts, mut requests) = (0.0, 0.0);
        for one in self.requests.iter().rev() {
            if one.replied < begin && parts >= enough {
                break;
            }
            let own = self.parts[one.parts.clone()].iter().filter(|part| part.server == server);
            parts += own.count() as f64;
            requests += f64::from(u8::from(!one.late));
        }
        (parts, requests)
    }
}

/// The last seconds, which are compared with the time before.
const RECENT: Seconds = 10.0;
/// A server's share that differs by so much, in logarithms, is another one.
const SHARE_OF_SERVER: f64 = 0.25;
/// The same of the share of writes, which moves the service time only as far as writes differ.
const SHARE_OF_WRITES: f64 = 0.5;

/// The `share` quantile of values in any order; zero without any.
pub(super) fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let place = ((values.len() - 1) as f64 * share).round() as usize;
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// The arithmetic mean; zero without values.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut count, mut sum) = (0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
    }
    if count == 0.0 { 0.0 } else { sum / count }
}
