//! Hedged reads: while the first holder has not answered, a second one is asked.

use krarup_units::Stamp;

use super::Core;
use crate::exchange::Stage;
use crate::ids::RequestId;

impl Core {
    /// Reads that have taken long at `now` are sent to a second holder.
    pub(super) fn hedge_due(&mut self, now: Stamp) {
        while let Some((number, part, generation)) = self.deadlines.take_due(now) {
            let exchange = &self.requests[number];
            if exchange.generation == generation && exchange.stage == Stage::Sent {
                self.hedge(number, part, now);
            }
        }
    }

    fn hedge(&mut self, number: RequestId, part: u16, now: Stamp) {
        let exchange = &self.requests[number];
        let this = exchange.rest.parts[usize::from(part)];
        let first = exchange.rest.keys.places_of(part).next();
        let single = exchange.rest.keys.count_of(part) == 1 || self.routing[this.pool].is_replicated();
        let Some(place) = first else { return };
        if this.answered || this.hedged.is_some() || this.open != 1 || !single {
            return;
        }
        // The holder that is found counts as asked.
        if !self.routing[this.pool].may_hedge() {
            return;
        }
        // A server that stands in has no say while a holder is only late.
        let Some(server) = self.next_holder(number, part, place, this.pool, false, now) else { return };
        self.routing[this.pool].hedges_one();
        self.requests[number].rest.parts[usize::from(part)].hedged = Some(server);
        self.send_part_to(number, part, server, now);
    }
}
