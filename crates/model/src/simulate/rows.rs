//! One row per visit, in the type of measured visits.
//!
//! Stations are numbered as in the network; pools come after them, in their order. A visit to a
//! pool is a hold, and names the stations that were visited meanwhile as its servers, as a proxy's
//! worker does. What was simulated can so be calibrated from, and compared with what was measured,
//! by the same code.

use krarup_record::{Operation, Outcome, ServerVisit, Visit};
use krarup_units::{Seconds, Stamp};

use super::request::{NONE, SimulatedRequest};
use crate::network::Network;

/// What a request sees when it is taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SystemState {
    /// Servers or slots busy, its own included.
    pub(super) busy: u32,
    /// Requests that still wait.
    pub(super) queue: u32,
    /// It did not wait.
    pub(super) was_idle: bool,
}

/// Takes each row when its visit is over.
pub(super) type EachVisit<'a> = &'a mut dyn FnMut(&Visit, &[ServerVisit]);

/// Gathers what rows need and the simulation does not.
pub(super) struct RowGatherer<'a> {
    each: EachVisit<'a>,
    /// What is added to every time: replications follow each other on one clock.
    begin: Seconds,
    operations: Vec<Operation>,
    /// By request.
    seen: Vec<SystemState>,
    /// By request: the slots it holds, innermost last.
    holds: Vec<Vec<(Visit, Vec<ServerVisit>)>>,
}

impl<'a> RowGatherer<'a> {
    /// For a run whose time 0 is `begin` in its rows.
    pub(super) fn new(network: &Network, begin: Seconds, each: EachVisit<'a>) -> Self {
        let operation = |name: &str| Operation::from_name(name).unwrap_or(Operation::Other);
        let operations = network.classes.iter().map(|class| operation(&class.name)).collect();
        Self { each, begin, operations, seen: Vec::new(), holds: Vec::new() }
    }

    fn visit(
        &self,
        station: usize,
        class: u32,
        came: f64,
        taken: f64,
        left: f64,
        seen: SystemState,
    ) -> Visit {
        let mut visit = Visit::at(self.stamp(came), self.operations[class as usize]);
        (visit.taken, visit.replied) = (self.stamp(taken), self.stamp(left));
        visit.station = station as u16;
        (visit.busy_workers, visit.queue_length, visit.worker_was_idle) =
            (seen.busy, seen.queue, seen.was_idle);
        visit
    }

    /// A service begins.
    pub(super) fn taken(&mut self, id: u32, seen: SystemState) {
        *place(&mut self.seen, id) = seen;
    }

    /// A visit is over. It counts as a server's part in the holds of `holder`.
    pub(super) fn left(
        &mut self,
        station: usize,
        id: u32,
        request: &SimulatedRequest,
        holder: u32,
        now: f64,
    ) {
        let seen = *place(&mut self.seen, id);
        let visit = self.visit(station, request.class, request.entered, request.taken, now, seen);
        (self.each)(&visit, &[]);
        if holder != NONE {
            let part = ServerVisit::ok(station as u16, visit.received, visit.replied);
            // A slot that was free is taken before the station that comes before it is left.
            place(&mut self.holds, holder)
                .iter_mut()
                .filter(|(hold, _)| hold.taken <= part.sent)
                .for_each(|(_, servers)| servers.push(part));
        }
    }

    /// Found no room.
    pub(super) fn refused(&mut self, station: usize, class: u32, now: f64) {
        let mut visit = self.visit(station, class, now, now, now, SystemState::default());
        visit.outcome = Outcome::Refused;
        (self.each)(&visit, &[]);
    }

    /// Got a slot that it asked for at `asked`.
    pub(super) fn granted(
        &mut self,
        id: u32,
        class: u32,
        station: usize,
        asked: f64,
        now: f64,
        seen: SystemState,
    ) {
        let visit = self.visit(station, class, asked, now, now, seen);
        place(&mut self.holds, id).push((visit, Vec::new()));
    }

    /// Gives the slot back that it got last; the station it is still at is one of those visited
    /// meanwhile.
    pub(super) fn gave(&mut self, id: u32, at: u32, entered: f64, outcome: Outcome, now: f64) {
        let (entered, now) = (self.stamp(entered), self.stamp(now));
        if let Some((mut visit, mut servers)) = place(&mut self.holds, id).pop() {
            if at != NONE && entered >= visit.taken {
                servers.push(ServerVisit::ok(at as u16, entered, now));
            }
            (visit.replied, visit.outcome) = (now, outcome);
            (self.each)(&visit, &servers);
        }
    }

    /// Simulated seconds as a stamp.
    fn stamp(&self, time: Seconds) -> Stamp {
        Stamp(((self.begin + time) * 1e9).round() as u64)
    }
}

/// The entry of a request, made if it is new.
fn place<T: Clone + Default>(list: &mut Vec<T>, id: u32) -> &mut T {
    let id = id as usize;
    if list.len() <= id {
        list.resize(id + 1, T::default());
    }
    &mut list[id]
}
