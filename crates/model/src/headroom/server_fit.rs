//! What is known of one server, by where requests wait for it.

use std::collections::BTreeSet;

use krarup_record::LiveSnapshot;
use krarup_units::{Seconds, Stamp};

use super::answer::{LiveServer, LiveSystem, ServerQueue};
use super::fit::{self, ServiceFit};
use super::kept::{self, Kept, KeptPart, mean};
use super::service_by_request::ServiceByRequest;
use super::stores::{self, GatheredFit};

/// What is known of one server.
#[derive(Clone, Debug)]
pub(super) struct ServerFit {
    /// Parts sent to it per request of all traffic, at the rate at which it is full.
    pub(super) share: f64,
    /// Connections to it; where those that are busy slow each other down, those that were used.
    pub(super) lanes: f64,
    /// Where there are several, those that were used one after the other, of each loop, with its
    /// share of the traffic: clients that share them out evenly leave shorter queues than chance
    /// would.
    pub(super) lane_order: Vec<(Vec<u32>, f64)>,
    /// How many times as much as a mean connection those of the loop with the most traffic for each
    /// have to carry, where requests wait for each of them; at least 1.
    pub(super) busiest_lane: f64,
    /// Mean time from sent to answered.
    pub(super) round_trip: Seconds,
    /// The fit, where enough requests waited.
    pub(super) fit: Option<ServiceFit>,
    /// The fit of a server whose trips carry all requests that wait.
    pub(super) gathered: Option<GatheredFit>,
    /// Where there is neither, the share of the time of its connections for which it was busy at
    /// the most.
    pub(super) most_busy: f64,
}

/// A server of which fewer parts were kept is not fitted.
const FEWEST: usize = 400;

/// What was kept of a server.
fn parts_of(kept: &Kept, number: usize) -> Vec<&KeptPart> {
    kept.parts.iter().filter(|one| one.server == number).collect()
}

/// Fits one server, for which requests wait like this.
pub(super) fn server(kept: &Kept, number: usize, lanes: f64, queue: ServerQueue) -> ServerFit {
    let requests = kept.of_clients().count().max(1);
    let parts = parts_of(kept, number);
    // Trips to a store that found no message: once the store is full, messages wait.
    let counts = |part: &&&KeptPart| !(queue.is_common() && part.is_late);
    let share = parts.iter().filter(counts).count() as f64 / requests as f64;
    let round_trip = mean(parts.iter().map(|one| one.answered - one.sent));
    let (mut fit, mut gathered) = (None, None);
    match queue {
        _ if parts.len() < FEWEST => {}
        ServerQueue::EachConnection => fit = fit::service(kept, number, &parts),
        ServerQueue::Common => fit = stores::one_by_one(kept, number, lanes as usize),
        ServerQueue::Gathered { .. } => gathered = stores::gathered(kept, number),
    }
    let lane_order = if lanes < 2.0 { Vec::new() } else { lane_order(kept, number) };
    let each_waits = queue == ServerQueue::EachConnection;
    let busiest_lane = if each_waits { busiest_lane(&lane_order, lanes) } else { 1.0 };
    let is_fitted = fit.is_some() || gathered.is_some();
    let mut most_busy = if is_fitted { 0.0 } else { outstanding(&parts) };
    most_busy *= busiest_lane * kept.rate() / (requests as f64 * lanes).max(1e-9);
    // Where each loop has one connection, requests find it busy as often as it is; one that is far
    // away is not, however much is outstanding.
    let is_found_so = each_waits && lanes <= f64::from(kept.loops());
    if !is_fitted && is_found_so && parts.len() >= FEWEST {
        most_busy = most_busy.min(fit::share_found_busy(kept, number, &parts));
    }
    // Connections that slow each other down are as many as were used.
    let curve = fit.as_ref().and_then(|fit| fit.by_busy_lanes.as_ref());
    let lanes = curve.map_or(lanes, |curve| curve.lanes() as f64);
    ServerFit { share, lanes, lane_order, busiest_lane, round_trip, fit, gathered, most_busy }
}

/// The time of its connections in which something was outstanding on them.
fn outstanding(parts: &[&KeptPart]) -> Seconds {
    let mut parts = parts.to_vec();
    parts.sort_by(|a, b| a.lane.cmp(&b.lane).then(a.sent.total_cmp(&b.sent)));
    let (mut seconds, mut lane, mut until) = (0.0, None, f64::NEG_INFINITY);
    for part in parts {
        if lane != Some(part.lane) {
            (lane, until) = (Some(part.lane), f64::NEG_INFINITY);
        }
        seconds += (part.answered - part.sent.max(until)).max(0.0);
        until = until.max(part.answered);
    }
    seconds
}

fn lane_order(kept: &Kept, number: usize) -> Vec<(Vec<u32>, f64)> {
    let shares = kept.shares_of_loops().into_iter();
    let mut by_loop: Vec<(Vec<u32>, f64)> = shares.map(|share| (Vec::new(), share)).collect();
    for stretch in &kept.stretches {
        let mut parts: Vec<_> = kept.parts_at(stretch, number).collect();
        parts.sort_by(|a, b| a.sent.total_cmp(&b.sent));
        for part in parts {
            by_loop[usize::from(part.in_loop)].0.push(part.lane);
        }
    }
    by_loop
}

/// See [`ServerFit::busiest_lane`]. A loop has its part of the connections, or as many as it used.
fn busiest_lane(by_loop: &[(Vec<u32>, f64)], lanes: f64) -> f64 {
    if by_loop.len() < 2 {
        return 1.0;
    }
    let of_a_loop = lanes / by_loop.len() as f64;
    let each = by_loop.iter().map(|(order, share)| {
        let used = order.iter().collect::<BTreeSet<_>>().len() as f64;
        lanes * share / used.max(of_a_loop)
    });
    each.fold(1.0, f64::max)
}

/// What was kept of a range, with the connections of servers that serve them one after the other as
/// one.
pub(super) fn seen(snapshot: &LiveSnapshot, system: &LiveSystem, from: Stamp, to: Stamp) -> Kept {
    let mut kept = kept::kept(snapshot, system, from, to);
    kept.join_connections(&one_queues(&kept, system));
    kept
}

/// The servers that serve all their connections one after the other.
pub(super) fn one_queues(kept: &Kept, system: &LiveSystem) -> Vec<usize> {
    let servers = system.servers.iter().enumerate();
    let is_one = |(number, known): &(usize, &LiveServer)| {
        let parts = parts_of(kept, *number);
        let may_be = known.queue == ServerQueue::EachConnection && kept.lanes.get(*number) > Some(&1);
        may_be && parts.len() >= FEWEST && fit::serves_one_queue(kept, *number, &parts)
    };
    servers.filter(is_one).map(|(number, _)| number).collect()
}

/// How the service times of a server depend on what is asked; alike where requests do not wait for
/// each of its connections.
pub(super) fn service_by_request(kept: &Kept, number: usize, queue: ServerQueue) -> ServiceByRequest {
    let parts = parts_of(kept, number);
    let differ = parts.iter().any(|one| (one.is_write, one.bytes) != (parts[0].is_write, parts[0].bytes));
    if queue != ServerQueue::EachConnection || parts.len() < FEWEST || !differ {
        return ServiceByRequest::ALIKE;
    }
    fit::service_by_request(kept, number, &parts)
}

/// A time that tells whether the server is as quick as it was, whatever is asked, with its relative
/// standard error.
pub(super) fn speed(
    kept: &Kept,
    number: usize,
    queue: ServerQueue,
    requests: &ServiceByRequest,
) -> Option<(Seconds, f64)> {
    let parts = parts_of(kept, number);
    match queue {
        ServerQueue::EachConnection if parts.len() < FEWEST => None,
        ServerQueue::EachConnection => fit::speed(kept, number, &parts, requests),
        ServerQueue::Common | ServerQueue::Gathered { .. } => stores::alone(kept, number),
    }
}

/// The mean round trip of requests that found nothing under way, with its relative standard error;
/// none where requests differ in what they take, or it is their [`speed`] already.
pub(super) fn alone(
    kept: &Kept,
    number: usize,
    queue: ServerQueue,
    requests: &ServiceByRequest,
) -> Option<(Seconds, f64)> {
    let tells = queue == ServerQueue::EachConnection && requests.are_alike();
    if tells { stores::alone(kept, number) } else { None }
}
