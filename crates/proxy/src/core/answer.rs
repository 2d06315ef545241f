//! What servers say: each answer goes to the request it belongs to, or the connection is trusted no
//! more.

use krarup_memcache::{Expect, Parsed, ReplyClass, Response, response};
use krarup_record::{Outcome, ServerVisit};
use krarup_service::ProtocolError;
use krarup_units::{Nanos, Stamp};

use super::Core;
use super::expected::Expected;
use crate::dispatch::Waiting;
use crate::exchange::{Copies, PartAnswer, RetrievalPart, Stage, outcome_of};
use crate::ids::{ConnectionId, RequestId, ServerId};
use crate::large::{BufferMemory, RequestBytes};
use crate::merge;
use crate::meta;
use crate::upstreams::{LostConnection, Pending, Recipient};

/// Why a connection is not used on which a part of the greeting is answered so.
fn refuses(expect: Expect, class: ReplyClass) -> Option<&'static str> {
    match (expect, class) {
        (Expect::Stored, ReplyClass::Stored) | (Expect::Version, ReplyClass::Version) => None,
        (_, ReplyClass::ClientError) => Some("it wants a login, which `edge.server_login` names"),
        (Expect::Stored, _) => Some("it does not take the login that `edge.server_login` names"),
        // As memcached says to one connection too many, which it closes.
        _ => Some("it does not tell its version"),
    }
}

/// Whether an answer has what a read of so many keys asked for, half of it at least, or nothing of
/// it; none where it is in between, or an error. Such an answer may be quick because it is short.
fn has_found(reply: &Response<'_>, keys: usize) -> Option<bool> {
    let hits = reply.hits as usize;
    match reply.class {
        ReplyClass::Values => (hits == 0 || 2 * hits >= keys).then_some(hits > 0),
        ReplyClass::MetaMiss => Some(false),
        class => (!class.is_error()).then_some(true),
    }
}

impl Core {
    pub(super) fn read_server(
        &mut self,
        server: ConnectionId,
        source: RequestBytes<'_>,
        now: Stamp,
    ) -> Result<usize, ProtocolError> {
        let read = self.read_answers(server, source, now);
        self.books.sampling().end_unit();
        read
    }

    fn read_answers(
        &mut self,
        server: ConnectionId,
        source: RequestBytes<'_>,
        now: Stamp,
    ) -> Result<usize, ProtocolError> {
        let RequestBytes { bytes, memory } = source;
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let untrusted = |why: &'static str| {
                let line = rest.split(|&byte| byte == b'\n').next().unwrap_or(rest);
                let line = String::from_utf8_lossy(&line[..line.len().min(60)]).trim_end().to_owned();
                Err(ProtocolError { why, line })
            };
            let Some(&pending) = self.upstreams.front(server) else {
                self.books.count(|events| &mut events.desynchronised);
                return untrusted("an answer to nothing");
            };
            if pending.sent.is_none() {
                self.books.count(|events| &mut events.desynchronised);
                return untrusted("an answer before its question");
            }
            let mut read = self.upstreams.read_of_front(server);
            let mut expected = self.expected_of(&pending, read.place);
            match response::parse_asked(rest, pending.expect, &mut expected, &mut read) {
                Parsed::Complete { message, used: length } => {
                    if pending.recipient == Recipient::Greeting
                        && let Some(why) = refuses(pending.expect, message.class)
                    {
                        return untrusted(why);
                    }
                    if !expected.is_answered_by(&message) {
                        self.books.count(|events| &mut events.desynchronised);
                        self.pump(now);
                        return untrusted("an answer about something that was not asked for");
                    }
                    let read_whole = pending.expect.read_whole(&message);
                    self.answered(server, &pending, &message, memory, now);
                    used += length;
                    if !read_whole {
                        self.books.count(|events| &mut events.desynchronised);
                        self.pump(now);
                        return untrusted("fault found with a request that is well formed");
                    }
                }
                Parsed::Incomplete { .. } => {
                    self.upstreams.note_read(server, read);
                    break;
                }
                Parsed::Invalid(why) => {
                    self.books.count(|events| &mut events.desynchronised);
                    self.pump(now);
                    return untrusted(why);
                }
            }
        }
        self.admit_waiting(server);
        self.pump(now);
        Ok(used)
    }

    /// What the next answer of a connection must be about, which has been read up to a place among
    /// the keys that were asked for.
    fn expected_of(&self, pending: &Pending, place: usize) -> Expected<'_> {
        match pending.recipient {
            Recipient::Request(number) => Expected::by(&self.requests[number], pending, place),
            Recipient::Greeting | Recipient::Detached | Recipient::Copy(_) => Expected::Anything,
        }
    }

    /// Everything asked on a connection that is lost is answered with an error that says `why`.
    pub(super) fn lost(&mut self, connection: ConnectionId, why: &str, outcome: Outcome, now: Stamp) {
        self.books.count(|events| &mut events.server_losses);
        let lost = self.upstreams.lost(connection, why);
        let LostConnection { server, by_lane, stood, ejected, text } = lost;
        self.books.count_if(ejected, |events| &mut events.ejections);
        if !by_lane {
            // One that stood still for a moment has what it had.
            self.routing.went_down(server, outcome == Outcome::ServerLost || !stood);
        }
        while let Some(pending) = self.upstreams.pop(connection) {
            let visit = pending.sent.map(|sent| ServerVisit {
                server: server.number(),
                lane: connection.lane_number(),
                outcome,
                sent,
                answered: now,
            });
            let Recipient::Request(number) = pending.recipient else {
                if pending.recipient != Recipient::Greeting {
                    self.detached_ended(pending.recipient, true, visit.as_ref());
                }
                continue;
            };
            let exchange = &mut self.requests[number];
            exchange.owed -= 1;
            if exchange.stage != Stage::Sent {
                if let Some(visit) = visit {
                    self.books.late(&visit);
                }
                self.free_if_left(number);
                continue;
            }
            exchange.servers.extend(visit);
            if let Some(part) = exchange.rest.parts.get_mut(usize::from(pending.part))
                && !pending.follows
            {
                part.open -= 1;
                self.part_failed(number, pending.part, &text, outcome, now);
                continue;
            }
            exchange.failure = Some(outcome);
            exchange.rest.merge.fail(pending.part, ReplyClass::ServerError, text.as_bytes());
            exchange.waiting -= 1;
            self.first_ends(number, None, now);
            self.complete_if_answered(number, now);
        }
        self.admit_waiting(connection);
        for pool in self.routing.ids().filter(|_| !by_lane) {
            for Waiting { exchange, part } in self.dispatch.readers_mut().take_all(pool, server) {
                self.leaves_queue(exchange, now);
                self.part_failed(exchange, part, &text, outcome, now);
            }
        }
        self.pump(now);
    }

    // Every answer comes this way, from one place.
    #[inline(always)]
    fn answered(
        &mut self,
        connection: ConnectionId,
        pending: &Pending,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
        now: Stamp,
    ) {
        if pending.recipient == Recipient::Greeting {
            if let Some((server, gradually)) = self.upstreams.greeted(connection, reply) {
                self.routing.server_up(server, now, gradually);
            }
            return;
        }
        let (server, occupied) = self.upstreams.answered(connection, reply.bytes.len(), now);
        self.books.sampling().occupied(occupied);
        let sent = pending.sent.expect("only what was sent is answered");
        let outcome = outcome_of(reply.class);
        let lane = connection.lane_number();
        let visit = ServerVisit { server: server.number(), lane, outcome, sent, answered: now };
        let Recipient::Request(number) = pending.recipient else {
            return self.detached_ended(pending.recipient, reply.class.is_error(), Some(&visit));
        };
        let exchange = &mut self.requests[number];
        exchange.owed -= 1;
        if let Some(sample) = exchange.sample {
            self.books.sampling().answered(sample, &visit);
        }
        let shown = exchange.rest.used().and_then(|rest| rest.shown.as_ref());
        let renamed = shown.map(|shown| meta::with_key(reply, pending.expect, shown, exchange.visit.key.0));
        let reply = &renamed.as_ref().map_or(*reply, |bytes| Response { bytes, ..*reply });
        if exchange.stage != Stage::Sent {
            // Enough others had answered: no client waits for this one.
            self.books.late(&visit);
            let rest = exchange.rest.used().filter(|_| !pending.follows);
            if let Some(rest) = rest
                && let Some(&part) = rest.parts.get(usize::from(pending.part))
            {
                let keys = rest.keys.count_of(pending.part);
                self.part_took(part, server, visit.time(), reply, keys, now);
            }
            return self.free_if_left(number);
        }
        exchange.servers.push(visit);
        if exchange.rest.used().is_some_and(|rest| !rest.parts.is_empty()) && !pending.follows {
            return self.part_answered(server, number, pending.part, reply, memory, now);
        }
        exchange.waiting -= 1;
        if exchange.copies == Copies::Winner {
            exchange.copies = Copies::None;
            if self.asks_primary(number, reply) {
                return;
            }
        }
        let exchange = &mut self.requests[number];
        let told = !exchange.noreply && exchange.quiet.is_none();
        let plain = exchange.rest.used().is_none_or(|rest| rest.merge.is_plain());
        let plain = plain && exchange.waiting == 0 && told;
        if plain
            && exchange.copies == Copies::None
            && let Some(client) = exchange.client
            && self.clients.next_to_render(client) == Some(number)
        {
            let (requests, books) = (&mut self.requests, &mut self.books);
            self.clients.render_directly(client, number, reply, memory, requests, books);
            // Others behind it may have been answered before it.
            self.clients.render(client, requests, books);
            return self.settle(client, now);
        }
        if pending.follows {
            exchange.rest.merge.follow(pending.part, reply);
        } else {
            self.requests.add(number, pending.part, reply, memory);
        }
        self.first_ends(number, Some(reply.class), now);
        self.complete_if_answered(number, now);
    }

    /// A server will not answer for its keys of a retrieval: they are asked for elsewhere, or the
    /// request has failed.
    pub(super) fn part_failed(
        &mut self,
        number: RequestId,
        part: u16,
        text: &str,
        outcome: Outcome,
        now: Stamp,
    ) {
        let this = self.requests[number].rest.parts[usize::from(part)];
        if this.open > 0 || this.answered {
            return;
        }
        if let Some(kept) = self.requests[number].rest.take_incomplete(part) {
            return self.decided_by_kept(number, part, &kept, now);
        }
        self.reader_is_done(number, part);
        if self.fall_back(number, part, now) {
            return;
        }
        let exchange = &mut self.requests[number];
        exchange.rest.parts[usize::from(part)].answered = true;
        exchange.failure = Some(outcome);
        exchange.rest.merge.fail(part, ReplyClass::ServerError, text.as_bytes());
        exchange.waiting -= 1;
        self.complete_if_answered(number, now);
    }

    /// A server has answered a part of so many `keys` after `time`, also where another was asked
    /// too and was quicker. How long reads take is how long the first that was asked takes: if the
    /// quickest counted, the time after which a second is asked would sink to that of the second.
    fn part_took(
        &mut self,
        part: RetrievalPart,
        server: ServerId,
        time: Nanos,
        reply: &Response<'_>,
        keys: usize,
        now: Stamp,
    ) {
        let pool = &mut self.routing[part.pool];
        if let Some(found) = has_found(reply, keys) {
            pool.member_took(server, time, found, now, self.settings.eject_for);
        }
        if server == part.server && !reply.class.is_error() {
            pool.took(time);
        }
    }

    /// A server has answered for some of the keys of a retrieval.
    fn part_answered(
        &mut self,
        server: ServerId,
        number: RequestId,
        part: u16,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
        now: Stamp,
    ) {
        let exchange = &self.requests[number];
        let time = exchange.servers.last().expect("a server has answered").time();
        let asked = exchange.rest.parts[usize::from(part)];
        let keys = exchange.rest.keys.count_of(part);
        self.part_took(asked, server, time, reply, keys, now);
        let exchange = &mut self.requests[number];
        let this = &mut exchange.rest.parts[usize::from(part)];
        this.open -= 1;
        if this.answered || (reply.class.is_error() && this.open > 0) {
            return;
        }
        if this.hedged.is_some() {
            return self.one_of_two_answered(server, number, part, reply, memory, now);
        }
        self.part_decided(server, number, part, reply, memory, now);
    }

    /// The same where two servers were asked: what the one does not have, the other may.
    #[cold]
    fn one_of_two_answered(
        &mut self,
        server: ServerId,
        number: RequestId,
        part: u16,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
        now: Stamp,
    ) {
        let this = &self.requests[number].rest.parts[usize::from(part)];
        let (open, first) = (this.open > 0, this.server);
        if open && self.looks_on(number, part, reply) {
            if server == first {
                // A hedge has no reader.
                self.reader_is_done(number, part);
            }
            let answer = PartAnswer::of(part, server, reply);
            return self.requests[number].rest.incomplete.push(answer);
        }
        let bytes;
        let (server, reply, memory) = match self.requests[number].rest.take_incomplete(part) {
            Some(kept) if reply.class.is_error() => return self.decided_by_kept(number, part, &kept, now),
            Some(kept) if kept.has_values() => {
                let keys = self.requests[number].rest.keys.of(part);
                let hits;
                (hits, bytes) = merge::union(keys, &kept.reply(), reply);
                (first, Response { class: ReplyClass::Values, hits, bytes: &bytes }, None)
            }
            // What neither has is missing at the first, as if it alone had been asked.
            Some(_) if reply.hits == 0 && self.looks_on(number, part, reply) => (first, *reply, memory),
            _ => (server, *reply, memory),
        };
        self.part_decided(server, number, part, &reply, memory, now);
    }

    /// The other server will say nothing: the answer that was kept is that to the part.
    #[cold]
    fn decided_by_kept(&mut self, number: RequestId, part: u16, kept: &PartAnswer, now: Stamp) {
        self.part_decided(kept.server, number, part, &kept.reply(), None, now);
    }

    /// What is answered to a part is known: it is a part of the reply, and what is missing is
    /// looked for elsewhere.
    // Every answer of a part comes this way, nearly all of them from one place.
    #[inline(always)]
    fn part_decided(
        &mut self,
        server: ServerId,
        number: RequestId,
        part: u16,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
        now: Stamp,
    ) {
        let this = &self.requests[number].rest.parts[usize::from(part)];
        let (pool, won) = (this.pool, this.hedged == Some(server));
        if meta::wins(reply) && self.defers_to_primary(number, part, server, now) {
            return;
        }
        self.reader_is_done(number, part);
        if reply.class.is_error() && self.fall_back(number, part, now) {
            return;
        }
        let exchange = &mut self.requests[number];
        exchange.waiting -= 1;
        let this = &mut exchange.rest.parts[usize::from(part)];
        this.answered = true;
        if won && this.open == 0 {
            // What is missing is missing there.
            this.hedged = Some(std::mem::replace(&mut this.server, server));
        }
        if won {
            self.routing[pool].count(|counts| &mut counts.hedges_won);
        }
        let as_meta = self.requests[number].as_meta;
        if reply.class == ReplyClass::Values || as_meta {
            self.refill(number, part, reply, now);
            let looks = self.fall_back_on_miss(number, part, reply, now);
            if looks && as_meta {
                // The only key is on its way again.
                return;
            }
        }
        self.add_part(number, part, reply, memory);
        self.complete_if_answered(number, now);
    }
}
