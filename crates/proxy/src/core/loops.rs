//! Statistics, of one loop or of several: each has a core of its own, who may take a request is
//! asked of a queue that all share, and what each has counted adds up.

use krarup_service::Service as _;
use std::sync::Arc;

use krarup_memcache::ReplyClass;
use krarup_record::Operation;
use krarup_units::Stamp;

use super::{Arrival, Core, Inquiry};
use crate::books::AtWork;
use crate::dispatch::{Common, Dispatch};
use crate::exchange::Stage;
use crate::ids::{ClientId, Identifier, RequestId};
use crate::stats;

impl Core {
    /// From now on this is one of several, at `place` among them.
    pub fn join(&mut self, common: Arc<Common>, place: usize) {
        self.dispatch.share(common, place);
        self.one_of_several = true;
    }

    /// Others may have left workers or room: what waits for these goes on.
    pub fn resume(&mut self, now: Stamp) {
        self.pump(now);
    }

    /// `stats`, which one of several loops cannot answer alone.
    pub(super) fn statistics(&mut self, id: ClientId, argument: &[u8], arrival: Arrival) {
        if self.one_of_several {
            return self.inquire(id, argument, arrival);
        }
        if argument == b"reset" {
            self.reset(arrival.now);
            return self.answer_here(id, b"RESET\r\n", ReplyClass::Ok, false, arrival);
        }
        self.settle_books();
        let (class, text) = stats::answer(self, argument, arrival.now);
        self.answer_here(id, &text, class, false, arrival);
    }

    /// `stats` begins anew; what is under way is counted when it ends.
    pub fn reset(&mut self, now: Stamp) {
        let counts = self.routing.take_counts();
        self.books.reset(counts, now);
        self.dispatch.forget_longest();
    }

    /// A client has asked for statistics. They are told with [`Self::inform`].
    fn inquire(&mut self, id: ClientId, argument: &[u8], arrival: Arrival) {
        let number = self.begin(id, Operation::Other, arrival);
        let exchange = &mut self.requests[number];
        exchange.stage = Stage::Sent;
        exchange.waiting = 1;
        self.inquiries.push(Inquiry { number: number.number(), argument: argument.to_vec() });
    }

    /// What clients have asked since the last call.
    pub fn take_inquiries(&mut self) -> Vec<Inquiry> {
        std::mem::take(&mut self.inquiries)
    }

    /// Answers an inquiry.
    pub fn inform(&mut self, number: u32, class: ReplyClass, text: &[u8], now: Stamp) {
        let number = RequestId::new(number);
        self.requests[number].rest.merge.local(class, text);
        self.complete(number, now);
        self.pump(now);
    }

    /// What was counted here adds up to, and how things are, without the requests and clients
    /// themselves, the seconds one by one, and the times of servers that are in no pool any more.
    pub fn books(&mut self) -> Self {
        let mut dispatch = Dispatch::new(self.settings.workers, self.settings.queue);
        dispatch.absorb(&self.dispatch);
        for number in self.routing.ids() {
            let pool = &self.routing[number];
            dispatch.readers_mut().set(number, pool.servers(), pool.spec().readers);
        }
        let at_work = self.at_work();
        let books = self.books.copy(at_work, |server| self.upstreams.wants(server));
        let (routing, upstreams) = (self.routing.copy(), self.upstreams.copy());
        let mut copy = Self::of(self.settings.clone(), routing, upstreams, dispatch, books);
        let (used, short) = self.memory();
        copy.note_memory(used, short);
        copy
    }

    /// Adds what another core has counted, exactly as if it had been counted here.
    pub fn absorb(&mut self, other: &Self) {
        self.books.absorb(&other.books, other.at_work());
        self.dispatch.absorb(&other.dispatch);
        self.routing.absorb(&other.routing);
        self.upstreams.absorb(&other.upstreams);
        let (ours, theirs) = (self.memory(), other.memory());
        self.note_memory(ours.0 + theirs.0, ours.1 || theirs.1);
    }

    /// How many loops' books these are.
    pub(crate) fn loops(&self) -> usize {
        self.books.loops()
    }

    fn at_work(&self) -> AtWork {
        AtWork { clients: self.clients(), in_progress: self.in_progress(), in_flight: self.in_flight() }
    }
}
