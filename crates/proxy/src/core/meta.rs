//! Meta commands on their way to the holders of their key: [`crate::meta`] says to which.

use krarup_memcache::request::LONGEST_NAME;
use krarup_memcache::{
    Expect, Meta, MetaCommand, ReplyClass, Request, Response, Retrieval, Storage, request, write,
};
use krarup_units::{Outbox, Stamp};

use super::Core;
use super::detached::{Detached, send_detached_to};
use super::expected::trace;
use super::fallback::Move;
use super::forward::{DOES_NOT_FIT, KeyWrite, stores_nothing, work_before};
use crate::exchange::{Copies, LaterTouch, RetrievalPart};
use crate::ids::{ConnectionId, PoolId, RequestId, ServerId};
use crate::large::{self, BufferMemory, RequestBytes};
use crate::meta::{self, MetaRole, Rule, ShownKey};
use crate::pool::Lifetimes;
use crate::topology::{PoolSpec, Route};
use crate::upstreams::Pending;

/// As many bytes as the flags of a request may take. With the longest key, and what is added to
/// them, its line is no longer than a server reads: that closes the connection on a line of over
/// 2,048 bytes, and other clients have requests there.
const LONGEST_FLAGS: usize = 1_500;

/// What a client is told of a key that would end the line of its answer.
const NOT_SHOWN: &[u8] = b"CLIENT_ERROR a key with a line feed cannot be shown\r\n";

impl Core {
    /// A worker has taken a meta command.
    pub(super) fn meta(
        &mut self,
        number: RequestId,
        request: &Meta<'_>,
        source: RequestBytes<'_>,
        now: Stamp,
    ) {
        let mut buffer = [0; LONGEST_NAME];
        let key = request.name(&mut buffer);
        let route = self.routing.routes().find(key);
        let home = route.map_or(self.requests[number].entry, |route| PoolId::new(route.pool));
        let rewriting = route.filter(|route| route.rewrites());
        if let Some(why) = refusal(request, key, rewriting, self.routing[home].spec()) {
            return self.requests[number].rest.merge.local(ReplyClass::ClientError, why);
        }
        let shows = match rewriting {
            Some(_) => request.has_any(b"k") || request.command == MetaCommand::Debug,
            None => meta::withholds_key(request),
        };
        if shows {
            self.requests[number].rest.shown = Some(ShownKey::of(request, key));
        }
        let opaque = request.flag(b'O').map(trace);
        self.requests[number].rest.opaque = opaque;
        let rule = meta::rule(request);
        if matches!(rule, Rule::Everyone | Rule::FirstDecides) {
            let value = large::value(source.memory, request.data);
            let expect = request.expect();
            // Appends, prepends and replaces store where there was something.
            let undone_by_add = stores_nothing(expect)
                || meta::expires_at_once(request, self.routing.unix_at(now))
                || request.flag(b'M').is_some_and(|mode| b"aApPrR".contains(mode.first().unwrap_or(&b'S')));
            let write = KeyWrite {
                expect,
                undone_by_add,
                request: &mut |out, sent, lifetimes| match &value {
                    None => meta::write(out.tail(), request, sent, MetaRole::Answers, lifetimes),
                    Some(value) => {
                        meta::write_line(out.tail(), request, sent, MetaRole::Answers, lifetimes);
                        out.lend(value.clone());
                    }
                },
            };
            return self.write_key(number, key, write, source, now);
        }
        if self.routing[home].needs_a_second_look() {
            return self.read_meta(number, request, key, rule, now);
        }
        let place = self.routing.locate(self.requests[number].entry, key, now);
        let sent = place.key(key);
        if !self.admit(number, place.home, sent, now) {
            return;
        }
        self.routing.asks(place.home, place.pool);
        self.routing[place.pool].reads_one();
        let first = place.holders[0];
        let server = match rule {
            Rule::AnyHolder => self.choose(place.pool, sent, &place.holders, 1, now),
            _ => Some(first),
        };
        let Some(server) = server else {
            self.fail_without_server(number, 0, &place.holders);
            return;
        };
        let asked =
            |role| move |out: &mut Outbox| meta::write(out.tail(), request, sent, role, place.lifetimes);
        self.send_to(server, number, 0, false, request.expect(), &mut asked(MetaRole::Answers));
        if rule == Rule::FirstThenOthers {
            for (part, &other) in place.holders.iter().enumerate().skip(1) {
                self.send_to(other, number, part as u16, true, request.expect(), &mut asked(MetaRole::Other));
            }
            if !self.deciding.is_empty() {
                let key = self.requests[number].visit.key;
                let touch = later_touch(request, sent, &place.holders, place.lifetimes);
                self.touch_after_copies(key, &touch);
            }
        }
        if server != first {
            let exchange = &mut self.requests[number];
            exchange.copies = Copies::Winner;
            if exchange.rest.request.is_empty() {
                exchange.rest.request.extend_from_slice(source.bytes);
            }
            exchange.rest.location = Some(place);
        }
    }

    /// A holder that is not the first has answered a read. If it says that the client has won, the
    /// first one is asked, who gives that out once; whether it is.
    pub(super) fn asks_primary(&mut self, number: RequestId, reply: &Response<'_>) -> bool {
        let place = self.requests[number].rest.location.take().expect("kept when another was asked");
        let first = place.holders[0];
        let won = reply.meta_flags().any(|(letter, _)| letter == b'W');
        if !won || !self.upstreams.is_up(first) {
            return false;
        }
        let Some(connection) = self.open_part(first, number, 0) else { return true };
        let mut buffer = [0; LONGEST_NAME];
        let asked = own(&self.requests[number].rest.request);
        let sent = place.key(asked.name(&mut buffer));
        let pending = Pending::of(number, 0, false, asked.expect());
        let length = self.upstreams.send(connection, pending, |out| {
            meta::write(out.tail(), &asked, sent, MetaRole::Answers, place.lifetimes);
        });
        self.part_sent(first, connection, number, length);
        true
    }

    // ---- reads that may be looked at again ------------------------------------------------------

    /// A read in a pool where it may be asked again elsewhere, wait for a reader, or share
    /// another's answer: the only part of a retrieval of one key, whose words are kept.
    fn read_meta(&mut self, number: RequestId, request: &Meta<'_>, name: &[u8], rule: Rule, now: Stamp) {
        let exchange = &mut self.requests[number];
        exchange.as_meta = true;
        let kind = match rule {
            Rule::AnyHolder => Retrieval::Get,
            // As with `gats` no other replaces the first holder; as with `gat` all of them are
            // told.
            Rule::FirstThenOthers => Retrieval::Gat,
            _ => Retrieval::Gets,
        };
        exchange.rest.retrieval = (kind, 0);
        exchange.rest.request.clear();
        write::meta(&mut exchange.rest.request, request);
        exchange.rest.keys.clear(usize::MAX);
        match self.routing.routes().find(name) {
            Some(route) => {
                exchange.rest.keys.push(name, PoolId::new(route.pool), route.stripped(), &route.add);
            }
            None => exchange.rest.keys.push(name, exchange.entry, 0, b""),
        }
        if !self.admit_listed(number, now) {
            return;
        }
        if request.has_any(b"NRTE") {
            self.touch_parts_gets(number);
        }
        let pool = self.requests[number].rest.keys.get(0).pool;
        let shares = kind == Retrieval::Get && self.routing[pool].spec().coalesce;
        if !(shares && self.join_leader(number)) {
            self.send_meta(number, now);
            self.shadow_read(number, kind, now);
        }
    }

    /// Asks the holder that is to be read, and tells the others where they are to be told.
    pub(super) fn send_meta(&mut self, number: RequestId, now: Stamp) {
        let rest = &mut *self.requests[number].rest;
        rest.keys.assign(0, 0);
        let (key, kind) = (rest.keys.get(0), rest.retrieval.0);
        let home = key.pool;
        let (pool, holders) = self.routing.holders_or_gutter(home, key.sent);
        self.routing.asks(home, pool);
        self.routing[pool].reads_one();
        let (server, asked) = match kind {
            Retrieval::Get => {
                let load = |server: ServerId| work_before(&self.upstreams, &self.dispatch, pool, server);
                (self.routing.choose(pool, key.sent, &holders, 1, now, load), &holders[..])
            }
            _ => {
                let first = holders[0];
                (Some(first).filter(|&first| self.upstreams.is_up(first)), &holders[..1])
            }
        };
        match server {
            Some(server) => {
                rest.parts.push(RetrievalPart::of(server, pool, None));
                self.send_part(number, 0, now);
            }
            None => self.fail_without_server(number, 0, asked),
        }
        if kind.touches() {
            let lifetimes = self.routing.lifetimes(home, pool, now);
            if meta::expires_at_once(&own(&self.requests[number].rest.request), lifetimes.unix) {
                self.note_change(number, pool, now);
            }
            for (part, &other) in holders.iter().enumerate().skip(1) {
                let Some(connection) = self.open_part(other, number, part as u16) else { continue };
                let rest = &self.requests[number].rest;
                let (asked, sent) = (own(&rest.request), rest.keys.get(0).sent);
                let pending = Pending::of(number, part as u16, true, asked.expect());
                let length = self.upstreams.send(connection, pending, |out| {
                    meta::write(out.tail(), &asked, sent, MetaRole::Other, lifetimes);
                });
                self.part_sent(other, connection, number, length);
            }
            if !self.deciding.is_empty() {
                let exchange = &self.requests[number];
                let (asked, sent) = (own(&exchange.rest.request), exchange.rest.keys.get(0).sent);
                let (key, touch) = (exchange.visit.key, later_touch(&asked, sent, &holders, lifetimes));
                self.touch_after_copies(key, &touch);
            }
        }
    }

    /// Writes a part for its server; with one flag more where what it finds is to be stored
    /// elsewhere.
    pub(super) fn send_meta_part(
        &mut self,
        number: RequestId,
        part: u16,
        connection: ConnectionId,
        lifetimes: Lifetimes,
    ) {
        let exchange = &mut self.requests[number];
        let refills = exchange.lineage(part).any(|part| part.missed);
        let asked = own(&exchange.rest.request);
        let more = refills && meta::lacks_flags(&asked);
        let sent = exchange.rest.keys.get(0).sent;
        self.upstreams.send(connection, Pending::of(number, part, false, asked.expect()), |out| {
            meta::write(out.tail(), &asked, sent, MetaRole::Answers, lifetimes);
            if more {
                meta::ask_for_flags(out.tail());
            }
        });
        exchange.rest.parts[usize::from(part)].asks_for_flags = more;
    }

    /// A part's answer becomes the reply, without what the client did not ask for.
    pub(super) fn add_part(
        &mut self,
        number: RequestId,
        part: u16,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
    ) {
        let exchange = &mut self.requests[number];
        if exchange.rest.parts[usize::from(part)].asks_for_flags && reply.class == ReplyClass::MetaValue {
            let bytes = meta::without_flags(reply);
            return self.requests.add(number, part, &Response { bytes: &bytes, ..*reply }, None);
        }
        self.requests.add(number, part, reply, memory);
    }

    /// A server says that the client has won. Unless it is the key's first holder, that one gives
    /// this out, once; whether it has yet to speak.
    pub(super) fn defers_to_primary(
        &mut self,
        number: RequestId,
        part: u16,
        server: ServerId,
        now: Stamp,
    ) -> bool {
        let exchange = &self.requests[number];
        let this = exchange.rest.parts[usize::from(part)];
        let holders = self.routing[this.pool].holders(exchange.rest.keys.get(0).sent);
        let first = holders[0];
        if first == server || !self.upstreams.is_up(first) || exchange.rest.retrieval.0 != Retrieval::Get {
            return false;
        }
        if exchange.lineage(part).any(|part| part.was_sent_to(first)) {
            // Asked at the same time, it will say; asked before, it has nothing to say.
            return this.open > 0 && this.was_sent_to(first);
        }
        self.reader_is_done(number, part);
        let exchange = &mut self.requests[number];
        exchange.rest.parts[usize::from(part)].answered = true;
        exchange.waiting -= 1;
        self.move_keys(number, part, &[Move { place: 0, pool: this.pool, server: first }], now);
        true
    }

    /// The value that a part has found goes to those that did not have it, unless it is one that is
    /// to be fetched anew.
    pub(super) fn refill_meta(&mut self, number: RequestId, part: u16, reply: &Response<'_>, now: Stamp) {
        let (Some(data), Some(flags)) = (reply.meta_value(), meta::flags_of(reply)) else { return };
        if meta::is_stale(reply) {
            return;
        }
        for (pool, server, ttl) in self.where_missed(number, part, 0, now) {
            let rest = &self.requests[number].rest;
            let (asked, sent) = (own(&rest.request), rest.keys.get(0).sent);
            let expect = match asked.base64 {
                true => Expect::Meta { command: MetaCommand::Set, value: false },
                false => Expect::Stored,
            };
            let pool = &mut self.routing[pool];
            send_detached_to(&mut self.upstreams, pool, server, Detached::Refill, expect, |out| {
                if asked.base64 {
                    write::meta_add(out.tail(), &meta::wire(&asked, sent), flags, ttl, data);
                } else {
                    write::storage(out.tail(), Storage::Add, sent, flags, ttl, 0, data);
                }
            });
        }
    }

    /// The shadow gets the same read.
    pub(super) fn shadow_meta(&mut self, number: RequestId, pool: PoolId, shadow: PoolId, now: Stamp) {
        let rest = &self.requests[number].rest;
        let (asked, sent) = (own(&rest.request), rest.keys.get(0).sent);
        let holders = self.routing[shadow].holders(sent);
        let lifetimes = self.routing.lifetimes(pool, pool, now);
        let pool = &mut self.routing[pool];
        let expect = asked.expect();
        send_detached_to(&mut self.upstreams, pool, holders[0], Detached::Shadow, expect, |out| {
            meta::write(out.tail(), &asked, sent, MetaRole::Answers, lifetimes);
        });
    }
}

/// What the client is told of a request about `key` that no server is asked, because it would be
/// misread, or its answer would.
fn refusal(
    request: &Meta<'_>,
    key: &[u8],
    rewriting: Option<&Route>,
    spec: &PoolSpec,
) -> Option<&'static [u8]> {
    let misfits = |route: &Route| !meta::fits_encoded(key.len() - route.stripped() + route.add.len());
    if request.base64 && rewriting.is_some_and(misfits) {
        return Some(DOES_NOT_FIT);
    }
    let cut = request.command == MetaCommand::Set && (spec.ttl_cap.is_some() || spec.gutter.is_some());
    // With a flag too many a server takes the value for the next command.
    if cut && !meta::has_room_for_lifetime(request) || request.flags.length() > LONGEST_FLAGS {
        return Some(request::TOO_MANY_FLAGS);
    }
    (request.command == MetaCommand::Debug && key.contains(&b'\n')).then_some(NOT_SHOWN)
}

/// What a read says of how long these holders keep its key.
fn later_touch(request: &Meta<'_>, sent: &[u8], holders: &[ServerId], lifetimes: Lifetimes) -> LaterTouch {
    let mut bytes = Vec::new();
    meta::write(&mut bytes, request, sent, MetaRole::Other, lifetimes);
    LaterTouch { holders: holders.to_vec(), expect: request.expect(), bytes }
}

/// A read that was kept, in its words as they were written.
fn own(words: &[u8]) -> Meta<'_> {
    match request::accepted(words) {
        Request::Meta(meta) => meta,
        other => unreachable!("the words of a meta request are kept: {other:?}"),
    }
}
