//! The reply: its turn in the client's outbox, and what is done when it has left.

use std::sync::Arc;

use krarup_memcache::{Class, Reply, request, response};
use krarup_record::{Operation, Outcome};
use krarup_units::Lent;
use krarup_units::Stamp;

use super::{Core, LARGE_REQUEST, outcome_of};
use crate::arena::NOBODY;
use crate::exchange::Stage;
use crate::merge::Merged;

impl Core {
    pub(super) fn complete_if_answered(&mut self, number: u32, now: Stamp) {
        let exchange = &self.exchanges[number];
        if exchange.waiting == 0
            || exchange.rest.used().is_some_and(|rest| rest.merge.is_decided(exchange.waiting))
        {
            self.complete(number, now);
        }
    }

    pub(super) fn complete(&mut self, number: u32, now: Stamp) {
        let exchange = &mut self.exchanges[number];
        exchange.stage = Stage::Done;
        exchange.waiting = 0;
        if exchange.leads {
            self.answer_followers(number, now);
        }
        let exchange = &self.exchanges[number];
        let client = exchange.client;
        if client == NOBODY {
            return self.finish(number, now);
        }
        if self.clients[client].next_to_render == number {
            self.render(client);
            self.settle(client, now);
        }
    }

    /// Moves all replies whose turn it is into the client's outbox.
    pub(super) fn render(&mut self, id: u32) {
        loop {
            let client = &mut self.clients[id];
            let number = client.next_to_render;
            if number == NOBODY || self.exchanges[number].stage != Stage::Done {
                break;
            }
            let exchange = &mut self.exchanges[number];
            let start = client.out.end();
            let rest = &mut *exchange.rest;
            let merged = rest.merge.render(&rest.keys, &mut client.out);
            let quiet = exchange.quiet.is_some_and(|command| response::suppressed(command, merged.class));
            if exchange.noreply || quiet {
                client.out.take_back(start);
            }
            self.rendered(id, number, start, merged);
        }
        if self.clients[id].closing {
            self.touch_client(id);
        }
    }

    /// The one answer of a request whose turn it is goes straight into the client's outbox: the usual case.
    pub(super) fn render_directly(&mut self, id: u32, number: u32, reply: &Reply<'_>) {
        let piece = self.lent_piece(reply.bytes);
        let out = &mut self.clients[id].out;
        let start = out.end();
        match piece {
            Some(piece) => out.lend(piece),
            None => out.tail().extend_from_slice(reply.bytes),
        }
        self.rendered(id, number, start, Merged { class: reply.class, hits: reply.hits, disagreed: false });
    }

    /// The reply of `number` stands in the client's outbox from `start` on.
    fn rendered(&mut self, id: u32, number: u32, start: u64, merged: Merged) {
        let client = &mut self.clients[id];
        let exchange = &mut self.exchanges[number];
        let visit = &mut exchange.visit;
        visit.bytes_out = client.out.end() - start;
        self.expected -= std::mem::take(&mut exchange.expected) as usize;
        visit.outcome = match outcome_of(merged.class) {
            Outcome::ServerError => exchange.failure.unwrap_or(Outcome::ServerError),
            outcome => outcome,
        };
        let reads = matches!(visit.operation, Operation::Get | Operation::Gat);
        if reads || visit.operation == Operation::MultiGet {
            let length = visit.bytes_out as usize;
            // Of a client that is new one value tells more than the guess; that there is none tells little.
            let first_value = !client.known && length > b"END\r\n".len();
            let before = if first_value { 0 } else { client.typical_reply - client.typical_reply / 8 };
            client.typical_reply = length.max(before);
            client.known |= first_value || client.typical_reply < LARGE_REQUEST;
        }
        match merged.class {
            Class::Values => {
                visit.hits = merged.hits;
                visit.misses = visit.keys - merged.hits;
            }
            Class::MetaMiss if reads => visit.misses = 1,
            Class::MetaDone | Class::MetaValue if reads => visit.hits = 1,
            _ => {}
        }
        self.books.count_if(merged.disagreed, |events| &mut events.disagreements);
        exchange.stage = Stage::Rendered(client.out.end());
        client.next_to_render = exchange.next;
        if visit.bytes_out > 0 {
            self.touch_client(id);
        }
    }

    /// Everything whose reply has left is finished.
    pub(super) fn settle(&mut self, id: u32, now: Stamp) {
        loop {
            let client = &mut self.clients[id];
            let number = client.oldest;
            if number == NOBODY {
                client.youngest = NOBODY;
                break;
            }
            match self.exchanges[number].stage {
                Stage::Rendered(end) if end <= client.out.position() => {
                    client.oldest = self.exchanges[number].next;
                    client.outstanding -= 1;
                    if client.barrier == number {
                        client.barrier = NOBODY;
                    }
                    self.finish(number, now);
                }
                _ => break,
            }
        }
        let client = &mut self.clients[id];
        if client.held_back && !client.starving {
            self.run_again(id);
        }
    }

    /// The reply has left, or has nowhere to go: one row, and the worker is free.
    pub(super) fn finish(&mut self, number: u32, now: Stamp) {
        let exchange = &mut self.exchanges[number];
        exchange.visit.replied = now;
        self.expected -= std::mem::take(&mut exchange.expected) as usize;
        if exchange.client == NOBODY {
            exchange.visit.outcome = Outcome::ClientGone;
        }
        self.books.finish(&exchange.visit, &exchange.servers, exchange.home, exchange.key);
        if exchange.holds_worker {
            self.dispatch.release();
        }
        if let Some(pool) = exchange.counted_in.take() {
            self.routing[pool].end();
        }
        exchange.client = NOBODY;
        exchange.stage = Stage::Left;
        self.free_if_forgotten(number);
    }

    /// The place of a request is free when its reply has left and no server owes it an answer.
    pub(super) fn free_if_forgotten(&mut self, number: u32) {
        let exchange = &mut self.exchanges[number];
        if exchange.stage == Stage::Left && exchange.owed == 0 {
            exchange.rest.end(&mut self.spares);
            self.exchanges.give_back(number);
        }
    }

    /// Free workers take what waits; then those who waited for room are listened to again.
    pub(super) fn pump(&mut self, now: Stamp) {
        self.pump_readers(now);
        while let Some((number, taken)) = self.dispatch.take_next() {
            // Taken out while it is read, and put back with its memory: a `cas` needs it once more.
            let raw = std::mem::take(&mut self.exchanges[number].rest.request);
            let large = self.exchanges[number].rest.lent.take();
            let words = large.as_ref().map_or(&raw[..], Lent::bytes);
            self.queued_bytes -= words.len();
            // What is being read now may lie elsewhere.
            let reading = self.lent.take();
            self.lent = large.as_ref().map(|piece| Arc::clone(piece.whole()));
            self.carry_out(number, &request::accepted(words), words, taken, now);
            self.lent = reading;
            let exchange = &mut self.exchanges[number];
            if exchange.rest.request.is_empty() {
                exchange.rest.request = raw;
                // Where it was finished at once, its place is free, and stays empty.
                if exchange.stage == Stage::Left {
                    exchange.rest.request.clear();
                }
            }
        }
        // One place in the queue wakes one client; the next place, the next. Who is woken in vain would lose its turn.
        while !self.starving.is_empty()
            && self.has_room()
            && self.runnable.len() + self.dispatch.waiting() + self.queued_at_servers
                < self.settings.queue.max(1)
            && let Some(id) = self.starving.pop_front()
        {
            self.clients[id].starving = false;
            self.run_again(id);
        }
    }
}
