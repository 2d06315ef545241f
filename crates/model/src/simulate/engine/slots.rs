//! Slots of pools: taken, waited for, given back.

use krarup_record::Outcome;

use super::super::rows::SystemState;
use super::{Roomy, SimulationEngine};

impl SimulationEngine<'_> {
    /// Whether a slot was free. Otherwise the request waits, or is lost.
    pub(super) fn take(&mut self, id: u32, pool: u32) -> bool {
        let now = self.now;
        let slots = &mut self.pools[pool as usize];
        if slots.free > 0 {
            slots.note(now);
            slots.free -= 1;
            slots.tally.granted += 1;
            self.granted_row(id, pool, now, true);
            return true;
        }
        if slots.line.len() < slots.most {
            self.leave(id);
            self.wait(id, pool);
        } else if slots.block {
            slots.blocked.push_back(id);
            self.stick(id);
        } else {
            slots.tally.refused += 1;
            if let Some(rows) = &mut self.rows {
                let station = self.network.stations.len() + pool as usize;
                rows.refused(station, self.requests[id as usize].class, now);
            }
            self.lose(id);
        }
        false
    }

    /// Joins the requests that wait for a slot.
    pub(super) fn wait(&mut self, id: u32, pool: u32) {
        let request = &mut self.requests[id as usize];
        request.entered = self.now;
        let rank = self.ranks[request.class as usize];
        let slots = &mut self.pools[pool as usize];
        slots.note(self.now);
        slots.line.push(id, rank);
    }

    /// Gives a slot back: to the next who waits, if there is one.
    pub(super) fn give(&mut self, id: u32, pool: u32, outcome: Outcome) {
        let now = self.now;
        if let Some(rows) = &mut self.rows {
            let request = &self.requests[id as usize];
            rows.gave(id, request.at, request.entered, outcome, now);
        }
        let slots = &mut self.pools[pool as usize];
        slots.note(now);
        let next = if let Some(next) = slots.line.pop() {
            let asked = self.requests[next as usize].entered;
            slots.tally.wait += now - asked;
            if !slots.blocked.is_empty() {
                self.roomy.push(Roomy::Pool(pool));
            }
            Some((next, asked))
        } else {
            // Where no request may wait, those that are blocked elsewhere are next.
            slots.blocked.pop_front().map(|next| (next, now))
        };
        let Some((next, asked)) = next else {
            slots.free += 1;
            return;
        };
        slots.tally.granted += 1;
        self.granted_row(next, pool, asked, false);
        self.requests[next as usize].op += 1;
        self.ready.push(next);
    }

    pub(super) fn granted_row(&mut self, id: u32, pool: u32, asked: f64, was_idle: bool) {
        if let Some(rows) = &mut self.rows {
            let slots = &self.pools[pool as usize];
            let seen =
                SystemState { busy: slots.size - slots.free, queue: slots.line.len() as u32, was_idle };
            let class = self.requests[id as usize].class;
            rows.granted(id, class, self.network.stations.len() + pool as usize, asked, self.now, seen);
        }
    }
}
