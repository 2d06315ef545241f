//! What waits in the tubes, of which the database alone knows: it is asked about once a second.

use std::collections::HashMap;
use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use crate::database::{Backlog, DatabaseReply, RareRequest, TubeBacklog};

/// How often the database is asked.
const EVERY: Nanos = Nanos::from_secs(1);
/// To answer may take it one part in so many of the time, where that is no more rarely than this.
const SHARE: u64 = 50;
const RARELY: Nanos = Nanos::from_secs(120);
/// What it said holds for so long.
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(300);
/// Tubes of which the oldest message is known, at least.
const FULLEST: usize = 100;

/// What the database said last.
#[derive(Debug, Default)]
pub(super) struct KnownBacklog {
    latest: Option<Backlog>,
    /// Where the tubes stand in it.
    places: HashMap<Arc<str>, usize>,
    /// When that was told, and when it is asked again; no two are under way.
    at: Stamp,
    next: Stamp,
    under_way: bool,
}

impl KnownBacklog {
    /// What is to be asked now, where so many tubes are listed; none: nothing.
    pub(super) fn wanted(&mut self, listed: usize, now: Stamp) -> Option<RareRequest> {
        if self.under_way || now < self.next {
            return None;
        }
        self.under_way = true;
        Some(RareRequest::Backlog { fullest: listed.max(FULLEST) })
    }

    /// This is what waits, if the database did not refuse to say.
    pub(super) fn answered(&mut self, reply: DatabaseReply, now: Stamp) {
        self.under_way = false;
        self.next = now + EVERY;
        let DatabaseReply::Backlog(backlog) = reply else { return };
        self.at = now;
        let rest = Nanos(backlog.took.0.saturating_mul(SHARE));
        self.next = now + rest.clamp(EVERY, RARELY);
        let tubes = backlog.fullest.iter().map(|one| Arc::clone(&one.tube));
        self.places = tubes.enumerate().map(|(place, tube)| (tube, place)).collect();
        self.latest = Some(backlog);
    }

    /// What was said last, and how long ago; none: nothing that still holds.
    pub(super) fn last(&self, now: Stamp) -> Option<LastBacklog<'_>> {
        let backlog = self.latest.as_ref().filter(|_| now < self.at + FORGOTTEN_AFTER)?;
        Some(LastBacklog { backlog, places: &self.places, ago: Nanos(now.0.saturating_sub(self.at.0)) })
    }
}

/// What the database said some time ago.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastBacklog<'a> {
    pub(super) backlog: &'a Backlog,
    places: &'a HashMap<Arc<str>, usize>,
    ago: Nanos,
}

impl LastBacklog<'_> {
    /// Messages of this tube that are ready; none: it is not among the fullest.
    pub(super) fn ready(&self, tube: &str) -> Option<u64> {
        match self.of(tube) {
            Some(one) => Some(one.ready),
            // All that have some are among them.
            None => (self.backlog.fullest.len() as u64 == self.backlog.tubes).then_some(0),
        }
    }

    /// Whether this tube is among the fullest.
    pub(super) fn has(&self, tube: &str) -> bool {
        self.places.contains_key(tube)
    }

    /// Time since the put of this tube's oldest message that is ready.
    pub(super) fn oldest(&self, tube: &str) -> Option<Nanos> {
        self.of(tube).and_then(|one| one.age).map(|age| age + self.ago)
    }

    /// Tubes that have messages and are not named.
    pub(super) fn unnamed(&self) -> u64 {
        self.backlog.tubes.saturating_sub(self.backlog.fullest.len() as u64)
    }

    /// Messages that are ready in all other tubes than these.
    pub(super) fn ready_beside(&self, listed: impl Fn(&str) -> bool) -> u64 {
        let here = self.backlog.fullest.iter().filter(|one| listed(&one.tube)).map(|one| one.ready);
        self.backlog.messages.ready.saturating_sub(here.sum())
    }

    fn of(&self, tube: &str) -> Option<&TubeBacklog> {
        self.places.get(tube).map(|place| &self.backlog.fullest[*place])
    }
}
