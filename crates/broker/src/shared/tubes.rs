//! What is said of the tubes that messages went through here.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use krarup_units::Stamp;

use super::SharedQueues;
use crate::job::ClientId;
use crate::queues::Queues;
use crate::report::{OtherTubes, TubeReport, TubeState, TubesState};

impl SharedQueues {
    /// Leases that have run out are none any more.
    pub(super) fn forget_expired(&mut self, client: ClientId, now: Stamp) {
        let Self { holders, waits, .. } = self;
        let holder = holders[client as usize].as_mut().expect("it is connected");
        holder.leases.retain(|_, lease| {
            let holds = lease.until > now;
            if !holds {
                waits.ended(lease, false, now);
            }
            holds
        });
    }

    /// What is known of a tube's waits; none: no message of it was put or handed out here, or it
    /// shares its books with others.
    pub(super) fn report(&self, queues: &Queues, name: &Arc<str>, now: Stamp) -> Option<TubeReport> {
        self.waits.books.get(name)?;
        let busy = self.held_by_tube(now).get(name).copied().unwrap_or(0);
        Some(TubeReport::of(&self.state_of(name, busy, now), queues.waiting_target()))
    }

    /// The tubes that messages went through here, those with the most arrivals one by one.
    pub(crate) fn tubes_state(&self, most: usize, now: Stamp) -> TubesState {
        let held = self.held_by_tube(now);
        let held = |name: &Arc<str>| held.get(name).copied().unwrap_or(0);
        let mut all: Vec<_> =
            self.waits.books.iter().map(|(name, books)| (Reverse(books.arrivals()), name)).collect();
        all.sort_unstable();
        let others = all.split_off(all.len().min(most));
        let listed: HashSet<&str> = all.iter().map(|(_, name)| &***name).collect();
        TubesState {
            first: all.iter().map(|(_, name)| self.state_of(name, held(name), now)).collect(),
            others: OtherTubes {
                tubes: others.len() as u64,
                ready: None,
                busy_consumers: others.iter().map(|(_, name)| held(name)).sum(),
                waiting_consumers: others.iter().map(|(_, name)| self.waiting_for(name)).sum(),
                arrivals_per_s: self.waits.books.rate_beside(|name| listed.contains(name), now),
                oldest_s: None,
            },
        }
    }

    /// Clients that wait here for a message of this tube.
    pub(super) fn waiting_for(&self, tube: &str) -> u64 {
        self.waiting.get(tube).map_or(0, |line| line.len() as u64)
    }

    /// Messages that clients of this broker hold, by their tubes.
    fn held_by_tube(&self, now: Stamp) -> HashMap<Arc<str>, u64> {
        let mut held = HashMap::new();
        let leases = self.holders.iter().flatten().flat_map(|holder| holder.leases.values());
        for tube in leases.filter(|lease| lease.until > now).filter_map(|lease| lease.tube.as_ref()) {
            *held.entry(Arc::clone(tube)).or_default() += 1;
        }
        held
    }

    fn state_of(&self, name: &Arc<str>, busy: u64, now: Stamp) -> TubeState {
        TubeState {
            name: name.to_string(),
            // What waits is in the database, and others take of it too.
            ready: None,
            busy,
            waiting: self.waiting_for(name),
            oldest: None,
            jobs: self.waits.books.get(name).map(|books| books.snapshot(now)).unwrap_or_default(),
        }
    }
}
