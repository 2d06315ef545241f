//! What is said of the tubes that messages went through here.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use super::SharedQueues;
use crate::job::{ClientId, Id};
use crate::queues::{Queues, Totals};
use crate::report::{OtherTubes, TubeReport, TubeState, TubesState};
use crate::statistics::QueueFigures;

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

    /// What had been handed out of this tube by then is gone with it.
    pub(super) fn forget_deleted(&mut self, tube: &str, by: Stamp) {
        for holder in self.holders.iter_mut().flatten() {
            holder.leases.retain(|_, lease| lease.since > by || lease.tube.as_deref() != Some(tube));
        }
    }

    /// Whether a client has this message, and its time has not run out.
    pub(crate) fn holds(&self, client: ClientId, id: Id, now: Stamp) -> bool {
        let holder = self.holders[client as usize].as_ref();
        holder.and_then(|holder| holder.leases.get(&id)).is_some_and(|lease| lease.until > now)
    }

    /// Whether a client has a message whose time has not run out.
    pub(crate) fn holds_lease(&self, client: ClientId, now: Stamp) -> bool {
        let holder = self.holders[client as usize].as_ref();
        holder.is_some_and(|holder| holder.leases.values().any(|lease| lease.until > now))
    }

    /// What is known of a tube's waits; none: no message of it was put or handed out here, or it
    /// shares its books with others, and it is not among the fullest.
    pub(super) fn report(&self, queues: &Queues, name: &Arc<str>, now: Stamp) -> Option<TubeReport> {
        let is_full = self.backlog.last(now).is_some_and(|last| last.has(name));
        if !is_full && self.waits.books.get(name).is_none() {
            return None;
        }
        let busy = self.held_tubes(now).filter(|tube| *tube == name).count() as u64;
        Some(TubeReport::of(&self.state_of(name, busy, now), queues.waiting_target()))
    }

    /// How many messages there are, as the database told last; none: not yet, or long ago.
    pub(crate) fn messages(&self, now: Stamp) -> Option<Totals> {
        self.backlog.last(now).map(|last| last.backlog.messages)
    }

    /// In how many tubes messages are ready, as the database told last.
    pub(crate) fn ready_tubes(&self, now: Stamp) -> u64 {
        self.backlog.last(now).map_or(0, |last| last.backlog.tubes)
    }

    /// What is known of the tubes of clients here, and of those that the database says are
    /// fullest.
    pub(crate) fn queue_figures(&self, queues: &Queues, now: Stamp) -> Vec<QueueFigures> {
        let last = self.backlog.last(now);
        let mut names = queues.tube_names();
        names.extend(last.iter().flat_map(|last| &last.backlog.fullest).map(|one| Arc::clone(&one.tube)));
        names.sort_unstable();
        names.dedup();
        let counts = |name: Arc<str>| -> QueueFigures {
            let ready = last.and_then(|last| last.ready(&name)).map(|ready| ("items", ready));
            let counts = ready.into_iter().chain([("waiters", self.waiting_for(&name))]).collect();
            (name, counts)
        };
        names.into_iter().map(counts).collect()
    }

    /// The tubes that messages went through here, and those that the database says are fullest:
    /// those with the most that wait one by one, then those with the most arrivals.
    pub(crate) fn tubes_state(&self, most: usize, now: Stamp) -> TubesState {
        let mut held: HashMap<&Arc<str>, u64> = HashMap::new();
        self.held_tubes(now).for_each(|tube| *held.entry(tube).or_default() += 1);
        let held = |name: &Arc<str>| held.get(name).copied().unwrap_or(0);
        let last = self.backlog.last(now);
        let fullest = || last.iter().flat_map(|last| &last.backlog.fullest);
        let ready = |name: &str| last.and_then(|last| last.ready(name));
        let arrivals = |name: &str| self.waits.books.get(name).map_or(0, krarup_record::JobBooks::arrivals);
        let mut all: Vec<&Arc<str>> = self.waits.books.iter().map(|(name, _)| name).collect();
        all.extend(fullest().map(|one| &one.tube));
        all.sort_by_cached_key(|name| (Reverse((ready(name), arrivals(name))), *name));
        all.dedup();
        let others = all.split_off(all.len().min(most));
        let listed: HashSet<&str> = all.iter().map(|name| &***name).collect();
        let beside = fullest().filter(|one| !listed.contains(&*one.tube));
        TubesState {
            first: all.iter().map(|name| self.state_of(name, held(name), now)).collect(),
            others: OtherTubes {
                // Those that the database counted, and did not name.
                tubes: others.len() as u64 + last.map_or(0, |last| last.unnamed()),
                ready: last.map(|last| last.ready_beside(|name| listed.contains(name))),
                busy_consumers: others.iter().map(|name| held(name)).sum(),
                waiting_consumers: others.iter().map(|name| self.waiting_for(name)).sum(),
                arrivals_per_s: self.waits.books.rate_beside(|name| listed.contains(name), now),
                oldest_s: beside.filter_map(|one| last?.oldest(&one.tube)).max().map(Nanos::as_seconds),
            },
        }
    }

    /// Clients that wait here for a message of this tube.
    pub(super) fn waiting_for(&self, tube: &str) -> u64 {
        self.waiting.get(tube).map_or(0, |line| line.len() as u64)
    }

    /// The tube of each message that a client of this broker holds.
    fn held_tubes(&self, now: Stamp) -> impl Iterator<Item = &Arc<str>> {
        let leases = self.holders.iter().flatten().flat_map(|holder| holder.leases.values());
        leases.filter(move |lease| lease.until > now).filter_map(|lease| lease.tube.as_ref())
    }

    fn state_of(&self, name: &Arc<str>, busy: u64, now: Stamp) -> TubeState {
        let last = self.backlog.last(now);
        TubeState {
            name: name.to_string(),
            ready: last.and_then(|last| last.ready(name)),
            alone: false,
            busy,
            waiting: self.waiting_for(name),
            blocked: false,
            oldest: last.and_then(|last| last.oldest(name)),
            jobs: self.waits.books.snapshot(name, now),
        }
    }
}
