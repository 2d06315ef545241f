//! One station's state: who is served, who waits, and how fast it goes.
//!
//! Two engines cover all kinds and disciplines:
//!
//! - **Own server** (FCFS, LIFO, priority at servers; any delay): a service, once begun, lasts as
//!   long as its work.
//! - **Shared speed** (processor sharing, preemption, load-dependent rates): the station has a
//!   clock of its own, V, that counts the work each request in service has had. With k in service
//!   and a total speed of s, dV/dt = s/k, and a request that begins at V with work w is complete at
//!   V + w, whatever comes and goes meanwhile. Only the first to be complete is in the calendar.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::calendar::{PLACE_BITS, PLACES};
use crate::network::{Discipline, Network, Station, StationKind, WhenFull};

/// Requests that wait, in the order of a discipline.
#[derive(Clone, Debug)]
pub(super) struct WaitingLine {
    /// One level for each rank of class priority, or one for all.
    levels: Vec<VecDeque<u32>>,
    newest_first: bool,
    length: usize,
}

impl WaitingLine {
    pub(super) fn new(discipline: Discipline, ranks: usize) -> Self {
        let levels = if discipline == Discipline::Priority { ranks } else { 1 };
        let newest_first = matches!(discipline, Discipline::Lifo | Discipline::LifoPreemptive);
        Self { levels: vec![VecDeque::new(); levels], newest_first, length: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Adds a request of a class of this rank.
    #[inline]
    pub(super) fn push(&mut self, request: u32, rank: u32) {
        let level = if self.levels.len() == 1 { 0 } else { rank as usize };
        self.levels[level].push_back(request);
        self.length += 1;
    }

    /// Who is next.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let next = if self.newest_first {
            self.levels[0].pop_back()
        } else {
            self.levels.iter_mut().find_map(VecDeque::pop_front)
        };
        self.length -= usize::from(next.is_some());
        next
    }
}

/// A station.
#[derive(Clone, Debug)]
pub(super) struct SimulatedStation {
    /// How many are served at once: the servers, or all.
    pub(super) limit: u32,
    /// How many are in service, those included that are done and keep their server because their
    /// next station is full.
    pub(super) serving: u32,
    /// How many of those keep their server without being served.
    pub(super) stuck: u32,
    /// How many are there.
    pub(super) present: u32,
    /// How many may be there.
    pub(super) capacity: u32,
    pub(super) block: bool,
    pub(super) line: WaitingLine,
    /// Requests elsewhere that wait for room here.
    pub(super) blocked: VecDeque<u32>,
    pub(super) shared: Option<SharedStation>,
    /// Busy servers now, since when, and their area before.
    busy: f64,
    since: f64,
    area: f64,
}

/// A station whose requests share its speed.
#[derive(Clone, Debug)]
pub(super) struct SharedStation {
    speed: Speed,
    preemptive: bool,
    /// A request that is done and cannot go on keeps its server: only where it has one of its own.
    keeps_server: bool,
    /// V, when it was last set, and dV/dt since.
    clock: f64,
    updated: f64,
    pace: f64,
    /// In service, first to be complete first.
    active: BinaryHeap<Reverse<u128>>,
    /// Services begun so far.
    begun: u64,
}

/// A service under way as one number, so that comparing two is comparing numbers: when V completes
/// it (its bits: V is not negative, so they order as it does), then which of the station's services
/// it is, then the request.
#[derive(Clone, Copy)]
struct Active {
    complete: f64,
    number: u64,
    request: u32,
}

impl Active {
    fn packed(self) -> u128 {
        debug_assert!(self.number < 1 << (64 - PLACE_BITS), "more services than entries of the calendar");
        u128::from(self.complete.to_bits()) << 64
            | u128::from(self.number << PLACE_BITS | u64::from(self.request))
    }

    fn of(packed: u128) -> Self {
        let low = packed as u64;
        Self {
            complete: f64::from_bits((packed >> 64) as u64),
            number: low >> PLACE_BITS,
            request: (low & (PLACES as u64 - 1)) as u32,
        }
    }
}

#[derive(Clone, Debug)]
enum Speed {
    Servers(f64),
    Rates(Vec<f64>),
    /// As fast as there are requests in service.
    Each,
}

impl SimulatedStation {
    pub(super) fn new(station: &Station, ranks: usize) -> Self {
        let delay = station.kind == StationKind::Delay;
        let sharing = station.discipline == Discipline::ProcessorSharing && !delay;
        let preemptive = station.discipline == Discipline::LifoPreemptive && !delay;
        let servers = match station.kind {
            StationKind::Servers { count } => count,
            StationKind::Delay => u32::MAX,
            StationKind::LoadDependent { .. } | StationKind::Link { .. } => 1,
        };
        let speed = match &station.kind {
            StationKind::LoadDependent { rates } => Some(Speed::Rates(rates.clone())),
            _ if sharing => Some(Speed::Servers(f64::from(servers))),
            _ if preemptive => Some(Speed::Each),
            _ => None,
        };
        let shared = speed.map(|speed| SharedStation {
            speed,
            preemptive,
            keeps_server: !sharing && !preemptive,
            clock: 0.0,
            updated: 0.0,
            pace: 0.0,
            active: BinaryHeap::new(),
            begun: 0,
        });
        let capacity = station.capacity.map_or(u32::MAX, |room| u32::try_from(room).unwrap_or(u32::MAX));
        Self {
            limit: if sharing { u32::MAX } else { servers },
            serving: 0,
            stuck: 0,
            present: 0,
            capacity,
            block: station.when_full == WhenFull::Block,
            line: WaitingLine::new(station.discipline, ranks),
            blocked: VecDeque::new(),
            shared,
            busy: 0.0,
            since: 0.0,
            area: 0.0,
        }
    }

    /// The number of servers for the utilization: infinite at a delay.
    pub(super) fn servers(station: &Station) -> f64 {
        match station.kind {
            StationKind::Servers { count } => f64::from(count),
            StationKind::Delay => f64::INFINITY,
            StationKind::LoadDependent { .. } | StationKind::Link { .. } => 1.0,
        }
    }

    /// Sets the number of busy servers from what goes on.
    #[inline]
    pub(super) fn note_busy(&mut self, now: f64) {
        let busy = match &self.shared {
            None => f64::from(self.serving - self.stuck),
            Some(shared) => {
                let active = shared.active.len() as f64;
                match shared.speed {
                    Speed::Servers(most) => active.min(most),
                    Speed::Each => active,
                    Speed::Rates(_) => active.min(1.0),
                }
            }
        };
        if busy != self.busy {
            self.area += self.busy * (now - self.since);
            (self.busy, self.since) = (busy, now);
        }
    }

    /// The area of busy servers since the last call.
    pub(super) fn cut_busy(&mut self, now: f64) -> f64 {
        let area = self.area + self.busy * (now - self.since);
        (self.area, self.since) = (0.0, now);
        area
    }

    /// A request keeps its place although its service is done, because it finds no room where it
    /// goes next.
    pub(super) fn stick(&mut self, now: f64) {
        let keeps = self.shared.as_ref().is_none_or(|shared| shared.keeps_server);
        if keeps {
            self.stuck += 1;
        } else {
            self.serving -= 1;
        }
        self.note_busy(now);
    }

    /// What [`SimulatedStation::stick`] did is over; the request leaves.
    pub(super) fn unstick(&mut self) {
        let keeps = self.shared.as_ref().is_none_or(|shared| shared.keeps_server);
        if keeps {
            self.stuck -= 1;
        } else {
            self.serving += 1;
        }
    }
}

impl SharedStation {
    /// Brings V up to now.
    pub(super) fn synchronize(&mut self, now: f64) {
        self.clock += (now - self.updated) * self.pace;
        self.updated = now;
        if self.active.is_empty() {
            self.clock = 0.0; // keeps its precision in long runs
        }
    }

    /// Begins or resumes a service; V is up to now.
    pub(super) fn begin(&mut self, request: u32, work: f64) {
        self.begun += 1;
        let begun = Active { complete: self.clock + work, number: self.begun, request };
        self.active.push(Reverse(begun.packed()));
    }

    /// Takes the one out that began first, with the work it still has to get; V is up to now.
    pub(super) fn preempt(&mut self) -> (u32, f64) {
        let oldest = self.active.iter().map(|active| Active::of(active.0)).min_by_key(|active| active.number);
        let oldest = oldest.expect("only a station without a free server preempts");
        self.active.retain(|active| active.0 != oldest.packed());
        (oldest.request, (oldest.complete - self.clock).max(0.0))
    }

    /// Whether the newest goes first at once.
    pub(super) fn is_preemptive(&self) -> bool {
        self.preemptive
    }

    /// Takes out the one that is complete first.
    pub(super) fn complete(&mut self) -> Option<u32> {
        let first = Active::of(self.active.pop()?.0);
        // It sets V exactly, so that rounding does not add up.
        self.clock = self.clock.max(first.complete);
        Some(first.request)
    }

    /// Sets dV/dt for `waiting` requests there that are not in service, and says how long until the
    /// first is complete.
    pub(super) fn pace(&mut self, waiting: usize) -> Option<f64> {
        let first = Active::of(self.active.peek()?.0);
        let active = self.active.len();
        let speed = match &self.speed {
            Speed::Servers(most) => most.min(active as f64),
            Speed::Rates(rates) => rates[(active + waiting).min(rates.len()) - 1],
            Speed::Each => active as f64,
        };
        self.pace = speed / active as f64;
        Some((first.complete - self.clock).max(0.0) / self.pace)
    }
}

/// The rank of each class by its priority, from 0, and how many ranks there are.
pub(super) fn ranks(network: &Network) -> (Vec<u32>, usize) {
    let mut priorities: Vec<u32> = network.classes.iter().map(|class| class.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let rank = |priority: u32| priorities.partition_point(|other| *other < priority) as u32;
    (network.classes.iter().map(|class| rank(class.priority)).collect(), priorities.len())
}
