//! What is known of one server, by where requests wait for it.

use krarup_units::Seconds;

use super::answer::ServerQueue;
use super::fit::{self, ServiceFit};
use super::kept::{Kept, KeptPart, mean};
use super::stores::{self, GatheredFit};

/// What is known of one server.
#[derive(Clone, Debug)]
pub(super) struct ServerFit {
    /// Parts sent to it per request of all traffic.
    pub(super) share: f64,
    /// Connections to it.
    pub(super) lanes: f64,
    /// Where there are several, those that were used one after the other, of each loop: clients
    /// that share them out evenly leave shorter queues than chance would.
    pub(super) lane_order: Vec<Vec<u32>>,
    /// Mean time from sent to answered.
    pub(super) round_trip: Seconds,
    /// The fit, where enough requests waited.
    pub(super) fit: Option<ServiceFit>,
    /// The fit of a server whose trips carry all requests that wait.
    pub(super) gathered: Option<GatheredFit>,
}

/// Fits one server, for which requests wait like this.
pub(super) fn server(kept: &Kept, number: usize, lanes: f64, queue: ServerQueue) -> ServerFit {
    let requests = kept.requests.iter().filter(|one| !one.late).count().max(1);
    let parts: Vec<&KeptPart> = kept.parts.iter().filter(|one| one.server == number).collect();
    let share = parts.len() as f64 / requests as f64;
    let round_trip = mean(parts.iter().map(|one| one.answered - one.sent));
    let (mut fit, mut gathered) = (None, None);
    match queue {
        _ if parts.len() < 400 => {}
        ServerQueue::EachConnection => fit = fit::service(kept, number, &parts),
        ServerQueue::Common => fit = stores::one_by_one(kept, number, lanes as usize),
        ServerQueue::Gathered { .. } => gathered = stores::gathered(kept, number),
    }
    let lane_order = if lanes < 2.0 { Vec::new() } else { lane_order(kept, number) };
    ServerFit { share, lanes, lane_order, round_trip, fit, gathered }
}

fn lane_order(kept: &Kept, number: usize) -> Vec<Vec<u32>> {
    let mut by_loop: Vec<Vec<u32>> = Vec::new();
    for stretch in &kept.stretches {
        let place = stretch.in_loop as usize;
        if by_loop.len() <= place {
            by_loop.resize_with(place + 1, Default::default);
        }
        let mut parts: Vec<_> = kept.parts_at(stretch, number).collect();
        parts.sort_by(|a, b| a.sent.total_cmp(&b.sent));
        by_loop[place].extend(parts.iter().map(|part| part.lane));
    }
    by_loop
}

/// A time that tells whether the server is as quick as it was, with its relative standard error.
pub(super) fn speed(kept: &Kept, number: usize, queue: ServerQueue) -> Option<(Seconds, f64)> {
    match queue {
        ServerQueue::EachConnection => {
            server(kept, number, 1.0, queue).fit.map(|fit| (fit.service, fit.error))
        }
        ServerQueue::Common | ServerQueue::Gathered { .. } => stores::alone(kept, number),
    }
}
