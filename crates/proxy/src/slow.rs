//! The slowest requests of each second, with all their stamps: where the time of a bad one went.
//!
//! Only what is slower than the fastest of those kept is looked at more closely; every other
//! request costs one comparison.

use std::collections::VecDeque;
use std::fmt::Write;

use krarup_record::{ServerVisit, Visit};
use krarup_units::{Nanos, Stamp};

/// How long a window is.
const WINDOW: Nanos = Nanos::from_secs(1);
/// How many windows in which there was something are kept, the one that is open among them.
const WINDOWS: usize = 60;

/// One slow request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Its row. Of its first key it has XXH3, as its servers see it: a reader that suspects a key
    /// can tell whether it was that one, no other reader learns it.
    pub visit: Visit,
    /// The servers' parts in it.
    pub servers: Vec<ServerVisit>,
    /// The pool of its first key.
    pub pool: usize,
}

impl Slow {
    fn response(&self) -> Nanos {
        self.visit.replied - self.visit.received
    }

    /// One line: every stamp as microseconds after `received`, unknown servers by their number.
    pub fn line(&self, pool: &str, server: impl Fn(usize) -> String) -> String {
        let visit = &self.visit;
        let after = |stamp: Stamp| stamp.0.saturating_sub(visit.received.0) / 1_000;
        let mut line = format!(
            "{}us {} {} pool={pool} key={:016x} keys={} bytes={}/{} busy={} waiting={} queued={} taken={}",
            after(visit.replied),
            visit.operation,
            visit.outcome,
            visit.key.0,
            visit.keys,
            visit.bytes_in,
            visit.bytes_out,
            visit.busy_workers,
            visit.queue_length,
            after(visit.queued),
            after(visit.taken),
        );
        for part in &self.servers {
            let name = server(usize::from(part.server));
            let (sent, answered) = (after(part.sent), after(part.answered));
            write!(line, " {name}={sent}..{answered}").expect("text takes text");
        }
        line
    }
}

/// The slowest requests of the last windows.
#[derive(Clone, Debug)]
pub(crate) struct Slowest {
    keep: usize,
    windows: VecDeque<(Stamp, Vec<Slow>)>,
    /// What is no slower than this is not kept.
    bar: Nanos,
    ends: Stamp,
}

impl Slowest {
    /// Keeps so many of each window; 0 keeps none.
    pub(crate) fn new(keep: usize) -> Self {
        Self { keep, windows: VecDeque::new(), bar: Nanos::ZERO, ends: Stamp(0) }
    }

    pub(crate) fn keep(&mut self, keep: usize) {
        self.keep = keep;
    }

    /// A request has been replied to.
    #[inline]
    pub(crate) fn offer(&mut self, visit: &Visit, servers: &[ServerVisit], pool: usize) {
        if visit.replied >= self.ends {
            self.open(visit.replied);
        }
        if visit.replied.0.saturating_sub(visit.received.0) > self.bar.0 {
            self.insert(Slow { visit: *visit, servers: servers.to_vec(), pool });
        }
    }

    fn open(&mut self, now: Stamp) {
        let start = Stamp(now.0 - now.0 % WINDOW.0);
        self.ends = start + WINDOW;
        self.bar = if self.keep == 0 { Nanos(u64::MAX) } else { Nanos::ZERO };
        if self.windows.len() >= WINDOWS {
            self.windows.pop_front();
        }
        self.windows.push_back((start, Vec::with_capacity(self.keep)));
    }

    fn insert(&mut self, slow: Slow) {
        let (_, window) = self.windows.back_mut().expect("a window is open");
        if window.len() >= self.keep {
            window.pop();
        }
        let place = window.partition_point(|other| other.response() >= slow.response());
        window.insert(place, slow);
        if window.len() >= self.keep {
            self.bar = window.last().map_or(Nanos::ZERO, Slow::response);
        }
    }

    /// Every window's start and its slowest requests, the slowest first.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (Stamp, &[Slow])> {
        self.windows.iter().map(|(start, window)| (*start, &window[..]))
    }

    /// Adds what others have kept: of each window the slowest of all stay.
    pub(crate) fn absorb(&mut self, other: &Self) {
        for (start, theirs) in &other.windows {
            let place = self.windows.partition_point(|(known, _)| known < start);
            if self.windows.get(place).is_none_or(|(known, _)| known != start) {
                self.windows.insert(place, (*start, Vec::new()));
            }
            let (_, ours) = &mut self.windows[place];
            ours.extend_from_slice(theirs);
            ours.sort_by_key(|slow| std::cmp::Reverse(slow.response()));
            ours.truncate(self.keep);
        }
        let surplus = self.windows.len().saturating_sub(WINDOWS);
        self.windows.drain(..surplus);
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.keep);
    }
}

#[cfg(test)]
mod tests {
    use krarup_record::{KeyDigest, Operation};
    use proptest::prelude::*;

    use super::*;

    fn visit(received: u64, replied: u64) -> Visit {
        let mut visit = Visit::at(Stamp(received), Operation::Get);
        visit.replied = Stamp(replied);
        visit
    }

    #[test]
    fn a_line_says_where_the_time_went() {
        let servers = vec![ServerVisit::ok(1, Stamp(30_000), Stamp(900_000))];
        let mut visit = visit(10_000, 1_010_000);
        (visit.queued, visit.taken, visit.keys) = (Stamp(10_000), Stamp(20_000), 1);
        visit.key = KeyDigest(0xab);
        let line = Slow { visit, servers, pool: 0 }.line("main", |server| format!("m{server}"));
        assert_eq!(
            line,
            "1000us get ok pool=main key=00000000000000ab keys=1 bytes=0/0 busy=0 waiting=0 queued=0 taken=10 m1=20..890"
        );
    }

    #[test]
    fn nothing_is_kept_where_nothing_shall_be() {
        let mut slowest = Slowest::new(0);
        slowest.offer(&visit(0, 500), &[], 0);
        assert!(slowest.windows().all(|(_, window)| window.is_empty()));
    }

    proptest! {
        /// Of each second exactly the slowest are kept, the slowest first.
        #[test]
        fn each_second_has_its_slowest(keep in 1_usize..5, gaps in prop::collection::vec((0_u64..300_000_000, 1_u64..1_000_000), 1..80)) {
            let mut slowest = Slowest::new(keep);
            let mut now = 2_000_000;
            let mut expected: std::collections::BTreeMap<u64, Vec<u64>> = Default::default();
            for (gap, response) in gaps {
                now += gap;
                slowest.offer(&visit(now - response, now), &[], 0);
                expected.entry(now / WINDOW.0).or_default().push(response);
            }
            for window in expected.values_mut() {
                window.sort_unstable_by(|one, other| other.cmp(one));
                window.truncate(keep);
            }
            let found: Vec<Vec<u64>> =
                slowest.windows().map(|(_, window)| window.iter().map(|slow| slow.response().0).collect()).collect();
            let expected: Vec<Vec<u64>> = expected.into_values().rev().take(WINDOWS).rev().collect();
            prop_assert_eq!(found, expected);
        }
    }
}
