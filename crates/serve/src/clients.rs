//! Which clients ask for how much: the loops count, and the thread that asks makes rates of it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use krarup_net::http::HttpResponse;
use krarup_net::snapshots::{SnapshotSlot, SnapshotSlots, lock};
use krarup_record::{ClientCounts, ClientRates};
use krarup_units::Stamp;

use crate::headroom::json;

/// A report is given once more to what asks so soon after it: the rates of a moment that is shorter
/// say nothing.
const FRESH: Duration = Duration::from_millis(500);

/// What a loop has counted of its clients, or several have.
#[derive(Debug)]
pub(crate) struct CountedClients {
    /// When it was laid down.
    pub(crate) now: Stamp,
    pub(crate) counts: Vec<ClientCounts>,
}

impl CountedClients {
    fn and(mut self, other: Self) -> Self {
        self.counts.extend(other.counts);
        self.now = self.now.max(other.now);
        self
    }
}

/// Answers about the clients of all loops.
pub(crate) struct LiveClients {
    slots: SnapshotSlots<CountedClients>,
    kept: Mutex<KeptReport>,
}

/// The counts of the last report, and that report.
#[derive(Default)]
struct KeptReport {
    rates: ClientRates,
    last: Option<(Instant, HttpResponse)>,
}

impl LiveClients {
    /// Of the loops behind these slots.
    pub(crate) fn new(slots: Vec<Arc<SnapshotSlot<CountedClients>>>) -> Self {
        Self { slots: SnapshotSlots::new(slots, CountedClients::and), kept: Mutex::default() }
    }

    /// The answer to a request for `/clients`.
    pub(crate) fn respond(&self) -> HttpResponse {
        let mut kept = lock(&self.kept);
        if let Some((at, answer)) = &kept.last
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }
        let Some(counted) = self.slots.ask() else {
            return HttpResponse::text(503, "an event loop did not answer within a second\n");
        };
        let report = kept.rates.report(&counted.counts, counted.now);
        let answer = json(serde_json::to_string_pretty(&report));
        kept.last = Some((Instant::now(), answer.clone()));
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use krarup_record::ClientsReport;

    use super::*;

    /// Loops that publish what they have counted when they are woken; those that are stuck do not.
    fn clients(loops: usize, stuck: bool) -> LiveClients {
        let slots = (0..loops).map(|number| {
            let own = Arc::new(OnceLock::<Arc<SnapshotSlot<CountedClients>>>::new());
            let slot = SnapshotSlot::waking(Duration::ZERO, {
                let own = Arc::clone(&own);
                move || {
                    let own = own.get().filter(|_| !stuck);
                    own.into_iter().for_each(|slot| slot.publish(|| counted(number)));
                }
            });
            own.get_or_init(|| Arc::clone(&slot));
            slot
        });
        LiveClients::new(slots.collect())
    }

    /// One client with a hundred requests in two seconds.
    fn counted(number: usize) -> CountedClients {
        let peer = format!("10.0.0.{number}:4000").parse().ok();
        let one = ClientCounts {
            number: (number, 7),
            since: Stamp(0),
            peer,
            requests: 100,
            in_progress: 1,
            received: 1_000,
            sent: 2_000,
        };
        CountedClients { now: Stamp(2_000_000_000), counts: vec![one] }
    }

    #[test]
    fn the_clients_of_all_loops_are_one_report() {
        let answer = clients(2, false).respond();
        assert_eq!((answer.status, answer.kind), (200, "application/json"));
        let report: ClientsReport = serde_json::from_str(&answer.body).unwrap();
        let found: Vec<_> =
            report.clients.iter().map(|one| (one.client.as_str(), one.requests_per_s)).collect();
        assert_eq!(found, [("10.0.0.0:4000", 50.0), ("10.0.0.1:4000", 50.0)]);
    }

    /// Else the second question would have rates of no time at all.
    #[test]
    fn two_questions_at_once_have_one_answer() {
        let clients = clients(1, false);
        assert_eq!(clients.respond(), clients.respond());
    }

    #[test]
    fn a_loop_that_is_stuck_is_said_to_be() {
        assert_eq!(clients(1, true).respond().status, 503);
    }
}
