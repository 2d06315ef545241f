//! The rendering of replies: each takes its turn in its client's outbox.

use krarup_memcache::{ReplyClass, Response, response};
use krarup_record::{Operation, Outcome};

use super::Clients;
use crate::books::Books;
use crate::exchange::{Stage, outcome_of};
use crate::ids::{ClientId, RequestId};
use crate::large::{self, BufferMemory, LARGE_REQUEST};
use crate::merge::Merged;
use crate::requests::Requests;

impl Clients {
    /// The oldest request of a client whose reply is not rendered.
    #[inline]
    pub(crate) fn next_to_render(&self, id: ClientId) -> Option<RequestId> {
        self.all[id].next_to_render
    }

    /// Moves all replies whose turn it is into the client's outbox.
    pub(crate) fn render(&mut self, id: ClientId, requests: &mut Requests, books: &mut Books) {
        loop {
            let client = &mut self.all[id];
            let Some(number) = client.next_to_render.filter(|&next| requests[next].stage == Stage::Done)
            else {
                break;
            };
            let exchange = &mut requests[number];
            let start = client.out.end();
            let rest = &mut *exchange.rest;
            let merged = rest.merge.render(&rest.keys, &mut client.out);
            let quiet = exchange.quiet.is_some_and(|command| response::suppressed(command, merged.class));
            if exchange.noreply || quiet {
                client.out.take_back(start);
            }
            self.rendered(id, number, start, merged, requests, books);
        }
        if self.all[id].closing {
            self.touch(id);
        }
    }

    /// The one answer of a request whose turn it is goes straight into the client's outbox: the
    /// usual case.
    // Every request comes this way, from one place.
    #[inline(always)]
    pub(crate) fn render_directly(
        &mut self,
        id: ClientId,
        number: RequestId,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
        requests: &mut Requests,
        books: &mut Books,
    ) {
        let piece = large::reply(memory, reply.bytes);
        let out = &mut self.all[id].out;
        let start = out.end();
        match piece {
            Some(piece) => out.lend(piece),
            None => out.tail().extend_from_slice(reply.bytes),
        }
        let merged = Merged { class: reply.class, hits: reply.hits, disagreed: false };
        self.rendered(id, number, start, merged, requests, books);
    }

    /// The reply of `number` stands in the client's outbox from `start` on.
    fn rendered(
        &mut self,
        id: ClientId,
        number: RequestId,
        start: u64,
        merged: Merged,
        requests: &mut Requests,
        books: &mut Books,
    ) {
        requests.expect_no_more(number);
        let client = &mut self.all[id];
        let exchange = &mut requests[number];
        let visit = &mut exchange.visit;
        visit.bytes_out = client.out.end() - start;
        visit.outcome = match outcome_of(merged.class) {
            Outcome::ServerError => exchange.failure.unwrap_or(Outcome::ServerError),
            outcome => outcome,
        };
        let reads = matches!(visit.operation, Operation::Get | Operation::Gat);
        if reads || visit.operation == Operation::MultiGet {
            let length = visit.bytes_out as usize;
            // Of a client that is new one value tells more than the guess; that there is none tells
            // little.
            let first_value = !client.known && length > b"END\r\n".len();
            let before = if first_value { 0 } else { client.typical_reply - client.typical_reply / 8 };
            client.typical_reply = length.max(before);
            client.known |= first_value || client.typical_reply < LARGE_REQUEST;
        }
        match merged.class {
            ReplyClass::Values => {
                visit.hits = merged.hits;
                visit.misses = visit.keys - merged.hits;
            }
            ReplyClass::MetaMiss if reads => visit.misses = 1,
            ReplyClass::MetaDone | ReplyClass::MetaValue if reads => visit.hits = 1,
            _ => {}
        }
        books.count_if(merged.disagreed, |events| &mut events.disagreements);
        exchange.stage = Stage::Rendered(client.out.end());
        client.next_to_render = exchange.next;
        if visit.bytes_out > 0 {
            self.touch(id);
        }
    }

    /// The oldest request of the client, if its reply has left; it is not the client's any more.
    #[inline]
    pub(crate) fn take_replied(&mut self, id: ClientId, requests: &Requests) -> Option<RequestId> {
        let client = &mut self.all[id];
        let Some(number) = client.oldest else {
            client.youngest = None;
            return None;
        };
        match requests[number].stage {
            Stage::Rendered(end) if end <= client.out.position() => {
                client.oldest = requests[number].next;
                client.outstanding -= 1;
                if client.barrier == Some(number) {
                    client.barrier = None;
                }
                Some(number)
            }
            _ => None,
        }
    }

    /// How many bytes of memory replies hold that wait for the client, and answers that wait for
    /// older ones.
    pub(crate) fn waiting(&self, id: ClientId, requests: &Requests) -> usize {
        let client = &self.all[id];
        let mut waiting = client.out.held_by_waiting();
        let mut next = client.next_to_render;
        while let Some(number) = next {
            let exchange = &requests[number];
            waiting += exchange.rest.used().map_or(0, |rest| rest.merge.kept());
            next = exchange.next;
        }
        waiting
    }
}
