//! A worker takes a request: which servers are asked, and for what.

use std::borrow::Cow;

use krarup_memcache::request::LONGEST_NAME;
use krarup_memcache::{
    Expect, MetaCommand, ReplyClass, Request, Retrieval, Retrieve, Storage, StorageRequest, request, write,
};
use krarup_record::{KeyDigest, Outcome};
use krarup_units::{Lent, Outbox, Stamp};

use super::Core;
use super::detached::Detached;
use crate::dispatch::{Dispatch, Taken, Waiting};
use crate::exchange::{Copies, LaterTouch, Needs, PartsByServer, RetrievalPart, Stage};
use crate::hot_keys::SampledKey;
use crate::ids::{ConnectionId, PoolId, RequestId, ServerId};
use crate::keys::{MOST_PARTS, NO_PART};
use crate::large::{self, LARGE_REQUEST, RequestBytes};
use crate::merge::How;
use crate::meta::{self, MetaRole};
use crate::placement::KeyHash;
use crate::pool::{Lifetimes, expires_at_once};
use crate::topology::{MultiGet, Writes};
use crate::upstreams::{Pending, Servers};

/// Writes a request for a key as its servers see it, with the lifetimes its pool allows.
type Writer<'a> = &'a mut dyn FnMut(&mut Outbox, &[u8], Lifetimes);

/// A request that changes what is kept under one key.
pub(super) struct KeyWrite<'a> {
    pub(super) expect: Expect,
    /// Whether a holder may be without the key after it: then an `add` of what was read before
    /// would undo it. Where a value is stored, that keeps the `add` out.
    pub(super) undone_by_add: bool,
    pub(super) request: Writer<'a>,
}

/// The longest key a server takes.
const LONGEST_KEY: usize = 250;

/// As many bytes as the keys on a line that touches may take, a blank before each. memcached closes
/// the connection, on which other clients have requests too, on a line of over 1,024 bytes (later:
/// 2,048) that has not come whole and begins neither with `get` nor with `gets`.
const LONGEST_TOUCHED: usize = 1_024 - b"gats -2147483648\r\n".len();

/// What a client is told of a key that its route makes too long, or nothing.
pub(super) const DOES_NOT_FIT: &[u8] = b"CLIENT_ERROR the key does not fit once its route has changed it\r\n";

/// Whether a server takes the key: one that a route has changed may be too long, or nothing.
fn fits(key: &[u8]) -> bool {
    (1..=LONGEST_KEY).contains(&key.len())
}

/// Whether a request that is answered so stores no value.
pub(super) fn stores_nothing(expect: Expect) -> bool {
    match expect {
        Expect::Deleted | Expect::Number => true,
        Expect::Meta { command, .. } => matches!(command, MetaCommand::Delete | MetaCommand::Arithmetic),
        _ => false,
    }
}

/// How much a read of the pool's would come behind at a server: the answers that it owes, and the
/// reads that wait for one of its readers.
pub(super) fn work_before(upstreams: &Servers, dispatch: &Dispatch, pool: PoolId, server: ServerId) -> usize {
    upstreams.outstanding(server) + dispatch.readers().waiting_before(pool, server)
}

/// Writes the value behind a storage line: copied, or lent where it lies.
fn write_value(out: &mut Outbox, data: &[u8], lent: Option<&Lent>) {
    match lent {
        Some(value) => out.lend(value.clone()),
        None => {
            out.tail().extend_from_slice(data);
            out.tail().extend_from_slice(b"\r\n");
        }
    }
}

impl Core {
    /// A worker takes the request, and the servers are asked.
    pub(super) fn carry_out(
        &mut self,
        number: RequestId,
        request: &Request<'_>,
        source: RequestBytes<'_>,
        taken: Taken,
        now: Stamp,
    ) {
        let exchange = &mut self.requests[number];
        exchange.stage = Stage::Sent;
        exchange.holds_worker = true;
        exchange.visit.taken = now;
        exchange.visit.busy_workers = taken.busy;
        exchange.visit.queue_length = taken.waiting;
        exchange.visit.worker_was_idle = taken.was_idle;
        exchange.rest.answered_by(How::One);
        self.ask(number, request, source, now);
    }

    /// Asks the servers that a request's keys name, where its client's pool may be no more.
    #[inline]
    pub(super) fn ask(
        &mut self,
        number: RequestId,
        request: &Request<'_>,
        source: RequestBytes<'_>,
        now: Stamp,
    ) {
        let entry = self.routing.living(self.requests[number].entry);
        self.requests[number].entry = entry;
        match request {
            Request::Retrieve(retrieve) => self.retrieve(number, retrieve, now),
            Request::Store(store) => self.store(number, store, source, now),
            Request::Delete { key, .. } => {
                let request: Writer<'_> = &mut |out, key, _| write::delete(out.tail(), key);
                let write = KeyWrite { expect: Expect::Deleted, undone_by_add: true, request };
                self.write_key(number, key, write, source, now);
            }
            Request::Arithmetic { command, key, delta, .. } => {
                let request: Writer<'_> =
                    &mut |out, key, _| write::arithmetic(out.tail(), *command, key, *delta);
                let write = KeyWrite { expect: Expect::Number, undone_by_add: true, request };
                self.write_key(number, key, write, source, now);
            }
            Request::Touch { key, exptime, .. } => {
                let request: Writer<'_> =
                    &mut |out, key, lifetimes| write::touch(out.tail(), key, lifetimes.of(*exptime));
                let undone_by_add = expires_at_once(*exptime, self.routing.unix_at(now));
                let write = KeyWrite { expect: Expect::Touched, undone_by_add, request };
                self.write_key(number, key, write, source, now);
            }
            Request::FlushAll { delay, .. } => {
                self.flush_parts_gets(number);
                self.flush_copies(*delay);
                let timeout = self.settings.timeout;
                self.routing.pools_mut().iter_mut().for_each(|pool| pool.changes(None, now, timeout));
                self.send_to_all(number, &mut |out| write::flush_all(out.tail(), *delay));
            }
            Request::Verbosity { level, .. } => {
                self.send_to_all(number, &mut |out| write::verbosity(out.tail(), *level));
            }
            Request::Meta(meta) => self.meta(number, meta, source, now),
            Request::NoOp | Request::Stats { .. } | Request::Version | Request::Quit => {
                unreachable!("answered without a worker")
            }
        }
        self.complete_if_answered(number, now);
    }

    // ---- one key --------------------------------------------------------------------------------

    /// The holder of `key` that is read, by the policy of a pool without readers, and given `keys`
    /// keys; none where all are down.
    pub(super) fn choose(
        &mut self,
        pool: PoolId,
        key: &[u8],
        holders: &[ServerId],
        keys: usize,
        now: Stamp,
    ) -> Option<ServerId> {
        let upstreams = &self.upstreams;
        self.routing.choose(pool, key, holders, keys, now, |server| upstreams.outstanding(server))
    }

    /// Counts the request for the pool of its key, once; where a bound of that is reached, or the
    /// key does not fit, it is refused.
    pub(super) fn admit(&mut self, number: RequestId, pool: PoolId, sent: &[u8], now: Stamp) -> bool {
        let was_counted = self.requests[number].counted_in.is_some();
        let admitted = self.admit_hashed(number, pool, fits(sent).then(|| KeyHash::Xxh3.number(sent)), now);
        if admitted
            && !was_counted
            && let Some(one_of) = self.books.sampling().samples(now)
        {
            self.sample(number, one_of, sent);
        }
        admitted
    }

    /// The same for the keys that are listed: the bounds of the pool of each hold, and all must
    /// fit.
    pub(super) fn admit_listed(&mut self, number: RequestId, now: Stamp) -> bool {
        let Needs { keys, other_pools, .. } = &mut *self.requests[number].rest;
        let first = keys.get(0);
        let mut fit = true;
        for key in keys.iter() {
            fit &= fits(key.sent);
            if key.pool != first.pool
                && let Err(place) = other_pools.binary_search(&key.pool)
            {
                other_pools.insert(place, key.pool);
            }
        }
        let (pool, hash) = (first.pool, fit.then(|| KeyHash::Xxh3.number(first.sent)));
        let admitted = self.admit_hashed(number, pool, hash, now);
        if admitted && let Some(one_of) = self.books.sampling().samples(now) {
            self.sample(number, one_of, b"");
            self.sample_listed(number);
        }
        admitted
    }

    /// The request is sampled, with its first key, and stands for so many.
    #[cold]
    fn sample(&mut self, number: RequestId, one_of: u32, sent: &[u8]) {
        let exchange = &mut self.requests[number];
        let (pool, digest) = (exchange.home, exchange.visit.key.0);
        let (heir, placed_by) = (self.routing[pool].heir(sent), self.routing[pool].placed_by(sent));
        let key = SampledKey { pool, digest, name: sent, heir, placed_by };
        exchange.sample = Some(self.books.sampling().begin(one_of, key));
    }

    /// A sampled request stands there with one of the keys that are listed, each with the same
    /// probability.
    #[cold]
    fn sample_listed(&mut self, number: RequestId) {
        let exchange = &self.requests[number];
        let (Some(sample), sampling) = (exchange.sample, self.books.sampling()) else { return };
        let key = exchange.rest.keys.get(sampling.place_among(exchange.rest.keys.len()));
        let pool = &mut self.routing[key.pool];
        let (heir, placed_by) = (pool.heir(key.sent), pool.placed_by(key.sent));
        let digest = KeyHash::Xxh3.number(key.sent);
        sampling.choose(sample, SampledKey { pool: key.pool, digest, name: key.sent, heir, placed_by });
    }

    fn admit_hashed(&mut self, number: RequestId, pool: PoolId, hash: Option<u64>, now: Stamp) -> bool {
        let exchange = &mut self.requests[number];
        exchange.home = pool;
        let Some(hash) = hash else {
            exchange.rest.merge.local(ReplyClass::ClientError, DOES_NOT_FIT);
            return false;
        };
        exchange.visit.key = KeyDigest(hash);
        if exchange.counted_in.is_some() {
            // It has waited for a decision.
            return true;
        }
        exchange.counted_in = Some(pool);
        let place = self.dispatch.place();
        let refused = exchange.counted_pools().find_map(|pool| self.routing[pool].admits(place, now).err());
        if let Some(why) = refused {
            exchange.counted_in = None;
            let why = format!("SERVER_ERROR {why}\r\n");
            exchange.rest.merge.local(ReplyClass::ServerError, why.as_bytes());
            return false;
        }
        for pool in exchange.counted_pools() {
            self.routing[pool].begin();
        }
        self.routing[pool].count(|counts| &mut counts.requests);
        true
    }

    fn store(&mut self, number: RequestId, store: &StorageRequest<'_>, source: RequestBytes<'_>, now: Stamp) {
        let value = large::value(source.memory, store.data);
        let request: Writer<'_> = &mut |out, key, lifetimes| {
            let exptime = lifetimes.of(store.exptime);
            if value.is_none() && exptime == store.exptime && key == store.key {
                return write::store(out.tail(), store);
            }
            let StorageRequest { command, flags, unique, data, .. } = *store;
            write::storage_line(out.tail(), command, key, flags, exptime, unique, data.len());
            write_value(out, data, value.as_ref());
        };
        let stays = matches!(store.command, Storage::Set | Storage::Add | Storage::Cas)
            && !expires_at_once(store.exptime, self.routing.unix_at(now));
        let write = KeyWrite { expect: Expect::Stored, undone_by_add: !stays, request };
        self.write_key(number, store.key, write, source, now);
    }

    /// A request that changes what is kept under one key: all its holders are asked, when depends
    /// on what it is.
    pub(super) fn write_key(
        &mut self,
        number: RequestId,
        key: &[u8],
        write: KeyWrite<'_>,
        source: RequestBytes<'_>,
        now: Stamp,
    ) {
        let KeyWrite { expect, undone_by_add, request } = write;
        let place = self.routing.locate(self.requests[number].entry, key, now);
        let sent = place.key(key);
        if !place.holders.iter().all(|&server| self.upstreams.takes(server, expect)) {
            return self.requests[number].rest.merge.local(ReplyClass::Error, request::ERROR);
        }
        if !self.admit(number, place.home, sent, now) {
            return;
        }
        if !self.deciding.is_empty() && self.waits_for_decision(number, &place.holders, source) {
            return;
        }
        self.routing.asks(place.home, place.pool);
        let shares = self.routing[place.home].spec().coalesce;
        if shares {
            self.write_parts_gets(number, place.home);
        }
        if undone_by_add {
            self.note_change(number, place.pool, now);
        }
        let lifetimes = place.lifetimes;
        let mut request = |out: &mut Outbox| request(out, sent, lifetimes);
        self.shadow(place.home, sent, expect, &mut request);
        let writes = self.routing[place.pool].spec().writes;
        let copies = self.copies_of(number, &place.holders, writes);
        let exchange = &mut self.requests[number];
        if copies != Copies::None {
            exchange.copies = copies;
            exchange.rest.others.clear();
            exchange.rest.others.extend_from_slice(&place.holders[1..]);
            if exchange.rest.request.is_empty() {
                self.requests.keep(number, source);
            }
            self.send_to(place.holders[0], number, 0, false, expect, &mut request);
            let rest = &mut *self.requests[number].rest;
            (rest.location, rest.undone_by_add) = (Some(place), undone_by_add);
            self.decision_begins(number);
        } else {
            exchange.rest.answered_by(match place.holders.len() {
                1 if !shares => How::One,
                // Such a reply does not go out before gets are parted.
                1 => How::Worst,
                holders => self.routing[place.pool].write_answered_by(holders),
            });
            for (part, &server) in place.holders.iter().enumerate() {
                self.send_to(server, number, part as u16, false, expect, &mut request);
            }
        }
    }

    /// A key changes such that an `add` of what was read before would undo it.
    pub(super) fn note_change(&mut self, number: RequestId, pool: PoolId, now: Stamp) {
        let key = self.requests[number].visit.key;
        self.routing[pool].changes(Some(key), now, self.settings.timeout);
    }

    /// What was kept under a key whose new value was refused is removed, without a word to the
    /// client: an error of it is no answer.
    pub(super) fn remove_quietly(&mut self, number: RequestId, key: &[u8], base64: bool, now: Stamp) {
        let mut buffer = [0; LONGEST_NAME];
        let name = if base64 { request::name_of(key, &mut buffer) } else { key };
        let place = self.routing.locate(self.requests[number].entry, name, now);
        let sent = match base64 {
            true if place.is_renamed() => Cow::Owned(meta::encoded(place.key(name))),
            true => Cow::Borrowed(key),
            false => Cow::Borrowed(place.key(key)),
        };
        let digest = KeyDigest::of(place.key(name));
        let exchange = &mut self.requests[number];
        (exchange.home, exchange.visit.key) = (place.home, digest);
        if self.routing[place.home].spec().coalesce {
            self.write_parts_gets(number, place.home);
        }
        let expect = match base64 {
            true => Expect::Meta { command: MetaCommand::Delete, value: false },
            false => Expect::Deleted,
        };
        self.note_change(number, place.pool, now);
        if fits(&sent) {
            self.drop_copies(digest, &place.holders);
            for (part, &server) in place.holders.iter().enumerate() {
                self.send_to(server, number, part as u16, true, expect, &mut |out| match base64 {
                    true => write::meta_delete(out.tail(), &sent, true),
                    false => write::delete(out.tail(), &sent),
                });
            }
        }
    }

    /// The first holder has stored what a `cas` or a write with copies behind it brought, or has
    /// answered, or cannot, what came behind a `cas`: the others get it.
    pub(super) fn copy_to_others(&mut self, number: RequestId, copies: Copies, now: Stamp) {
        let Needs { request, lent, others, location, .. } = &mut *self.requests[number].rest;
        let (raw, large, mut others) = (std::mem::take(request), lent.take(), std::mem::take(others));
        let place = location.take().expect("kept when the first holder was asked");
        // What is in no pool any more needs no copy, and may be closed already.
        others.retain(|&server| !self.upstreams.is_retired(server));
        let memory = large.as_ref().map(Lent::whole);
        let words = large.as_ref().map_or(&raw[..], Lent::bytes);
        let message = request::accepted(words);
        let value = match &message {
            Request::Store(store) => large::value(memory, store.data),
            Request::Meta(meta) if !meta::forgets(meta) => large::value(memory, meta.data),
            _ => None,
        };
        let mut buffer = [0; LONGEST_NAME];
        let (key, expect) = match &message {
            Request::Store(store) => (store.key, Expect::Stored),
            Request::Delete { key, .. } => (*key, Expect::Deleted),
            Request::Arithmetic { key, .. } => (*key, Expect::Number),
            Request::Touch { key, .. } => (*key, Expect::Touched),
            Request::Meta(meta) if meta::forgets(meta) => {
                (meta.name(&mut buffer), Expect::Meta { command: MetaCommand::Delete, value: false })
            }
            Request::Meta(meta) => (meta.name(&mut buffer), meta.expect()),
            _ => unreachable!("only writes have copies"),
        };
        // That there was nothing to forget is no answer.
        let follows = matches!(&message, Request::Meta(meta) if meta::forgets(meta));
        let (sent, lifetimes) = (place.key(key), place.lifetimes);
        let role = if copies == Copies::Deferred { MetaRole::Answers } else { MetaRole::Follows };
        let mut request = |out: &mut Outbox| match &message {
            Request::Store(store) => {
                let (flags, exptime) = (store.flags, lifetimes.of(store.exptime));
                // Whether it may be stored has been decided.
                let command = match store.command {
                    Storage::Append | Storage::Prepend => store.command,
                    _ if copies == Copies::Deferred => store.command,
                    _ => Storage::Set,
                };
                write::storage_line(out.tail(), command, sent, flags, exptime, 0, store.data.len());
                write_value(out, store.data, value.as_ref());
            }
            Request::Delete { .. } => write::delete(out.tail(), sent),
            Request::Arithmetic { command, delta, .. } => {
                write::arithmetic(out.tail(), *command, sent, *delta);
            }
            Request::Touch { exptime, .. } => write::touch(out.tail(), sent, lifetimes.of(*exptime)),
            Request::Meta(meta) => match &value {
                None => meta::write(out.tail(), meta, sent, role, lifetimes),
                Some(value) => {
                    meta::write_line(out.tail(), meta, sent, role, lifetimes);
                    out.lend(value.clone());
                }
            },
            _ => unreachable!("only writes have copies"),
        };
        if copies.follow_decision() {
            self.await_copies(number, copies, place.pool, others.len());
        }
        if self.requests[number].rest.undone_by_add {
            self.note_change(number, place.pool, now);
        }
        let (home, behind) = (place.home, self.routing[place.pool].spec().writes == Writes::Async);
        for (place, &server) in others.iter().enumerate() {
            match copies {
                Copies::Awaited | Copies::Deferred => {
                    let part = place as u16 + 1;
                    let Some(own) = self.open_part(server, number, part) else { continue };
                    // Copies of earlier writes went by the first: it must not overtake them.
                    let connection = if behind { server.into() } else { own };
                    let pending = Pending::of(number, part, follows, expect);
                    self.send_by(server, connection, number, pending, &mut request);
                    self.touch_behind_copy(server, connection, number);
                }
                _ => {
                    let takes = self.upstreams.takes_aside(server);
                    self.send_detached(home, server, Detached::Copy(home), expect, &mut request);
                    if takes {
                        self.touch_behind_copy(server, server.into(), number);
                    }
                }
            }
        }
        self.requests[number].rest.request = raw;
        self.requests[number].rest.others = others;
    }

    fn send_to_all(&mut self, number: RequestId, request: &mut dyn FnMut(&mut Outbox)) {
        self.requests[number].rest.merge.begin(How::Worst);
        for server in self.upstreams.ids() {
            if !self.upstreams.is_retired(server) {
                self.send_to(server, number, server.number(), false, Expect::Ok, request);
            }
        }
    }

    /// Puts a part of a request on its way to a server; where that is down, the part has failed
    /// already.
    pub(super) fn send_to(
        &mut self,
        server: ServerId,
        number: RequestId,
        part: u16,
        follows: bool,
        expect: Expect,
        request: &mut dyn FnMut(&mut Outbox),
    ) {
        let Some(connection) = self.open_part(server, number, part) else { return };
        let pending = Pending::of(number, part, follows, expect);
        self.send_by(server, connection, number, pending, request);
    }

    /// Puts an opened part on its way by this connection.
    #[inline]
    fn send_by(
        &mut self,
        server: ServerId,
        connection: ConnectionId,
        number: RequestId,
        pending: Pending,
        request: &mut dyn FnMut(&mut Outbox),
    ) {
        let length = self.upstreams.send(connection, pending, |out| request(out));
        self.part_sent(server, connection, number, length);
    }

    /// The connection by which a part of a request goes to a server; where that is down, the part
    /// has failed already.
    #[inline]
    pub(super) fn open_part(
        &mut self,
        server: ServerId,
        number: RequestId,
        part: u16,
    ) -> Option<ConnectionId> {
        if !self.upstreams.is_up(server) {
            self.fail_part(server, number, part);
            return None;
        }
        let exchange = &mut self.requests[number];
        exchange.waiting += 1;
        exchange.owed += 1;
        Some(self.upstreams.connection(server, exchange.client))
    }

    #[cold]
    fn fail_part(&mut self, server: ServerId, number: RequestId, part: u16) {
        let text = self.upstreams.down_text(server);
        let exchange = &mut self.requests[number];
        exchange.failure = Some(Outcome::ServerLost);
        exchange.rest.merge.fail(part, ReplyClass::ServerError, text.as_bytes());
    }

    /// A part of so many bytes was put on its way.
    #[inline]
    pub(super) fn part_sent(
        &mut self,
        server: ServerId,
        connection: ConnectionId,
        number: RequestId,
        length: usize,
    ) {
        if length >= LARGE_REQUEST {
            self.upstreams.had_long(server, length, self.requests[number].visit.taken);
        }
        self.expect_reply(connection, number);
    }

    pub(super) fn fail_without_server(&mut self, number: RequestId, part: u16, holders: &[ServerId]) {
        let exchange = &mut self.requests[number];
        exchange.failure = Some(Outcome::ServerLost);
        let names = holders.iter().map(|&server| self.upstreams.name(server)).collect::<Vec<_>>();
        let text = match names[..] {
            [only] => format!("SERVER_ERROR {only} is down\r\n"),
            _ => format!("SERVER_ERROR no server is up ({})\r\n", names.join(", ")),
        };
        exchange.rest.merge.fail(part, ReplyClass::ServerError, text.as_bytes());
    }

    // ---- retrievals -----------------------------------------------------------------------------

    fn retrieve(&mut self, number: RequestId, retrieve: &Retrieve<'_>, now: Stamp) {
        let entry = self.requests[number].entry;
        let count = retrieve.keys.len();
        let pool = &self.routing[entry];
        let is_sharded = count > 1 && pool.spec().multi_get == MultiGet::Sharded;
        let simple = self.routing.routes().is_empty()
            && retrieve.command == Retrieval::Get
            && !pool.needs_a_second_look()
            && (count == 1 || pool.is_replicated() && !(is_sharded && pool.has_uneven_shares()));
        if !simple {
            return self.retrieve_by_key(number, retrieve, now);
        }
        let key = retrieve.keys.first();
        if !self.admit(number, entry, key, now) {
            return;
        }
        self.routing[entry].reads_one();
        if count > 1 {
            // What comes back is compared with them.
            self.requests[number].rest.keys.take(&retrieve.keys, entry);
            if self.requests[number].sample.is_some() {
                self.sample_listed(number);
            }
        }
        if is_sharded {
            return self.retrieve_sharded(number, entry, count);
        }
        let holders = self.routing[entry].holders(key);
        match self.choose(entry, key, &holders, count, now) {
            None => self.fail_without_server(number, 0, &holders),
            Some(server) => {
                let expect = Expect::Values { keys: count as u32, unique: false };
                self.send_to(server, number, 0, false, expect, &mut |out| match retrieve.keys.plain() {
                    Some(keys) => write::get_plain(out.tail(), keys),
                    None => write::retrieve(out.tail(), Retrieval::Get, 0, retrieve.keys.iter()),
                });
            }
        }
    }

    /// An even share of the keys for every server of a pool that holds them all.
    fn retrieve_sharded(&mut self, number: RequestId, pool: PoolId, count: usize) {
        self.requests[number].rest.merge.begin(How::InOrder);
        self.routing[pool].divide(count);
        let runs = self.routing[pool].runs().len();
        let mut before = 0;
        for part in 0..runs {
            let (server, length) = self.routing[pool].runs()[part];
            let (run, part) = (before..before + length, part as u16);
            self.requests[number].rest.keys.assign_run(run.clone(), part);
            before += length;
            let Some(connection) = self.open_part(server, number, part) else { continue };
            let expect = Expect::Values { keys: length as u32, unique: false };
            let keys = &self.requests[number].rest.keys;
            let length = self.upstreams.send(connection, Pending::of(number, part, false, expect), |out| {
                write::get_plain(out.tail(), keys.run(run));
            });
            self.part_sent(server, connection, number, length);
        }
        if runs == 0 {
            let holders = self.routing[pool].servers().to_vec();
            self.fail_without_server(number, 0, &holders);
        }
    }

    /// Each key by itself: whose it is, who holds it, and who of those is asked.
    fn retrieve_by_key(&mut self, number: RequestId, retrieve: &Retrieve<'_>, now: Stamp) {
        let command = retrieve.command;
        let exchange = &mut self.requests[number];
        let entry = exchange.entry;
        exchange.rest.retrieval = (command, retrieve.exptime);
        exchange.rest.merge.begin(How::ByKey);
        exchange.rest.keys.clear(usize::MAX);
        for key in retrieve.keys.iter() {
            match self.routing.routes().find(key) {
                Some(route) => {
                    exchange.rest.keys.push(key, PoolId::new(route.pool), route.stripped(), &route.add);
                }
                None => exchange.rest.keys.push(key, entry, 0, b""),
            }
        }
        if !self.admit_listed(number, now) {
            return;
        }
        let keys = &self.requests[number].rest.keys;
        let shares =
            command == Retrieval::Get && keys.len() == 1 && self.routing[keys.get(0).pool].spec().coalesce;
        if shares && self.join_leader(number) {
            return;
        }
        self.assign_keys(number, command, now);
        if command.touches() {
            self.touch_parts_gets(number);
            self.divide_long_lines(number);
        }
        self.shadow_read(number, command, now);
        for part in 0..self.requests[number].rest.parts.len() {
            if !command.with_unique() {
                let pool = self.requests[number].rest.parts[part].pool;
                self.routing[pool].reads_one();
            }
            self.send_part(number, part as u16, now);
        }
        if command.touches() {
            self.touch_other_holders(number, retrieve.exptime, now);
        }
    }

    /// Finds for each key the server that is asked for it.
    fn assign_keys(&mut self, number: RequestId, command: Retrieval, now: Stamp) {
        let count = self.requests[number].rest.keys.len();
        // Found out with the second key that must be looked for.
        let mut repeated = None;
        let mut by_server = PartsByServer::behind(0);
        for place in 0..count {
            let Needs { keys, parts, .. } = &mut *self.requests[number].rest;
            let key = keys.get(place);
            let home = key.pool;
            let replicated = self.routing[home].is_replicated();
            // Where every server holds everything, the keys of one request stay together.
            let whole = self.routing[home].spec().multi_get == MultiGet::Whole;
            let together = replicated && (whole || command.touches());
            if together && let Some(part) = by_server.find(parts, home, None) {
                keys.assign(place, part);
                continue;
            }
            if command.touches() && place > 0 {
                let repeated = repeated.get_or_insert_with(|| keys.repeated());
                if let Ok(found) = repeated.binary_search_by_key(&place, |&(place, _)| place) {
                    // Asked for twice, a key whose time is over with the first touch must not be
                    // found by the second.
                    let (_, first) = repeated[found];
                    let part = keys.get(first).part;
                    if part != NO_PART {
                        keys.assign(place, part);
                    }
                    continue;
                }
            }
            let (pool, holders) = self.routing.holders_or_gutter(home, key.sent);
            self.routing.asks(home, pool);
            let server = if command.with_unique() {
                // Uniques belong to one server: no other replaces it.
                Some(holders[0]).filter(|&server| self.upstreams.is_up(server))
            } else {
                let weight = if together { count } else { 1 };
                let load = |server: ServerId| work_before(&self.upstreams, &self.dispatch, pool, server);
                self.routing.choose(pool, key.sent, &holders, weight, now, load)
            };
            let Some(server) = server else {
                let asked = if command.with_unique() { &holders[..1] } else { &holders[..] };
                self.fail_without_server(number, place as u16, asked);
                continue;
            };
            match by_server.find_or_add(parts, RetrievalPart::of(server, pool, None)) {
                Some(part) => keys.assign(place, part),
                None => self.routing[pool].is_not_asked(server),
            }
        }
    }

    /// Keys that would make a part's line too long go to further parts, which the same server is
    /// asked behind it.
    fn divide_long_lines(&mut self, number: RequestId) {
        let Needs { keys, parts, .. } = &mut *self.requests[number].rest;
        for part in 0..parts.len() as u16 {
            if keys.of(part).map(|key| 1 + key.len()).sum::<usize>() <= LONGEST_TOUCHED {
                continue;
            }
            let lengths: Vec<usize> = keys.of(part).map(|key| 1 + key.len()).collect();
            let RetrievalPart { server, pool, .. } = parts[usize::from(part)];
            let (mut lengths, mut last, mut length) = (lengths.into_iter(), part, 0);
            keys.move_from(part, |_| {
                let key = lengths.next()?;
                length += key;
                if length > LONGEST_TOUCHED && parts.len() < MOST_PARTS {
                    (last, length) = (parts.len() as u16, key);
                    parts.push(RetrievalPart::of(server, pool, None));
                }
                Some(last)
            });
        }
    }

    /// Asks a part's server for the part's keys, as soon as one of its readers is free.
    pub(super) fn send_part(&mut self, number: RequestId, part: u16, now: Stamp) {
        let exchange = &mut self.requests[number];
        exchange.waiting += 1;
        let this = &mut exchange.rest.parts[usize::from(part)];
        let (pool, server) = (this.pool, this.server);
        if self.routing[pool].spec().readers.is_some() {
            if !self.dispatch.readers_mut().take(pool, server) {
                return self.dispatch.readers_mut().wait(pool, server, Waiting { exchange: number, part });
            }
            this.holds_reader = true;
            self.read_begins(number, pool, server, true, now);
        }
        self.send_part_to(number, part, server, now);
    }

    /// A part waits for a reader no longer, or did not have to: whether no server was asked before
    /// for its request, which was taken, or given up, now.
    pub(super) fn leaves_queue(&mut self, number: RequestId, now: Stamp) -> bool {
        let exchange = &mut self.requests[number];
        let first = exchange.servers.is_empty() && exchange.owed == 0;
        if first {
            exchange.visit.taken = now;
        }
        first
    }

    /// A reader has taken a part.
    fn read_begins(&mut self, number: RequestId, pool: PoolId, server: ServerId, was_idle: bool, now: Stamp) {
        if self.leaves_queue(number, now)
            && let Some((busy, ..)) = self.dispatch.readers().of(pool, server)
        {
            let visit = &mut self.requests[number].visit;
            visit.busy_workers = busy;
            // Before all servers, as the time in the queue is that of all requests (Little's law).
            visit.queue_length = self.dispatch.readers().waiting() as u32;
            visit.worker_was_idle = was_idle;
        }
    }

    /// A part has its answer, or will have none: its reader is free. It does not wait for the reply
    /// to leave, because that may wait for a part, or for an older request of the client, that
    /// waits for a reader itself.
    pub(super) fn reader_is_done(&mut self, number: RequestId, part: u16) {
        let part = &mut self.requests[number].rest.parts[usize::from(part)];
        if std::mem::take(&mut part.holds_reader) {
            self.dispatch.readers_mut().release(part.pool, part.server);
        }
    }

    /// Readers that have become free take what waits for them.
    pub(super) fn pump_readers(&mut self, now: Stamp) {
        while let Some((pool, server)) = self.dispatch.readers_mut().next_freed() {
            while let Some(Waiting { exchange, part }) = self.dispatch.readers_mut().take_next(pool, server) {
                let this = &mut self.requests[exchange].rest.parts[usize::from(part)];
                this.holds_reader = true;
                self.read_begins(exchange, pool, server, false, now);
                self.send_part_to(exchange, part, server, now);
            }
        }
    }

    /// How long what a part finds may live: as its keys' own pools say, and where another stands in
    /// for one of these, no longer than it keeps things for it.
    pub(super) fn lifetimes_of(&self, number: RequestId, part: u16, now: Stamp) -> Lifetimes {
        let exchange = &self.requests[number];
        let asked = exchange.rest.parts[usize::from(part)].pool;
        let keys = &exchange.rest.keys;
        let homes = keys.places_of(part).map(|place| keys.get(place).pool);
        let caps = homes.filter_map(|home| self.routing.lifetimes(home, asked, now).cap);
        Lifetimes { cap: caps.min(), ..self.routing.lifetimes(asked, asked, now) }
    }

    /// Asks a server for a part's keys: its own, or a second one while that has not answered.
    pub(super) fn send_part_to(&mut self, number: RequestId, part: u16, server: ServerId, now: Stamp) {
        // A `get` sets none; of what is written as `mg`, every other kind may.
        let lifetimes = if self.requests[number].rest.retrieval.0 != Retrieval::Get {
            self.lifetimes_of(number, part, now)
        } else {
            Lifetimes { cap: None, unix: 0 }
        };
        let exchange = &mut self.requests[number];
        let (command, exptime) = exchange.rest.retrieval;
        let count = exchange.rest.keys.count_of(part);
        let this = &mut exchange.rest.parts[usize::from(part)];
        let pool = this.pool;
        let first = this.server == server;
        this.open += 1;
        exchange.owed += 1;
        let generation = exchange.generation;
        let connection = self.upstreams.connection(server, exchange.client);
        if exchange.as_meta {
            self.send_meta_part(number, part, connection, lifetimes);
        } else {
            let expect = Expect::Values { keys: count as u32, unique: command.with_unique() };
            let keys = &exchange.rest.keys;
            self.upstreams.send(connection, Pending::of(number, part, false, expect), |out| {
                write::retrieve(out.tail(), command, lifetimes.of(exptime), keys.of(part));
            });
        }
        self.expect_reply(connection, number);
        if first
            && command == Retrieval::Get
            && let Some(after) = self.routing[pool].hedge_after()
        {
            self.deadlines.hedge(now + after, number, part, generation);
        }
    }

    /// `gat` reads at one holder; the others set the expiry time, once for a key that is asked for
    /// twice, and only their errors count.
    fn touch_other_holders(&mut self, number: RequestId, exptime: i32, now: Stamp) {
        let repeated = self.requests[number].rest.keys.repeated();
        let mut repeated = repeated.into_iter().map(|(place, _)| place).peekable();
        for place in 0..self.requests[number].rest.keys.len() {
            if repeated.next_if_eq(&place).is_some() {
                continue;
            }
            let rest = &self.requests[number].rest;
            let key = rest.keys.get(place);
            let Some(part) = rest.parts.get(usize::from(key.part)).copied() else { continue };
            let lifetimes = self.routing.lifetimes(key.pool, part.pool, now);
            let holders = self.routing[part.pool].holders(key.sent);
            if expires_at_once(exptime, lifetimes.unix) {
                let digest = KeyDigest::of(key.sent);
                self.routing[part.pool].changes(Some(digest), now, self.settings.timeout);
            }
            for &server in holders.iter().filter(|&&server| server != part.server) {
                let Some(connection) = self.open_part(server, number, place as u16) else { continue };
                let pending = Pending::of(number, place as u16, true, Expect::Touched);
                let key = self.requests[number].rest.keys.get(place);
                let length = self.upstreams.send(connection, pending, |out| {
                    write::touch(out.tail(), key.sent, lifetimes.of(exptime));
                });
                self.part_sent(server, connection, number, length);
            }
            if !self.deciding.is_empty() {
                let key = self.requests[number].rest.keys.get(place).sent;
                let (digest, mut bytes) = (KeyDigest::of(key), Vec::new());
                write::touch(&mut bytes, key, lifetimes.of(exptime));
                let touch = LaterTouch { holders: holders.to_vec(), expect: Expect::Touched, bytes };
                self.touch_after_copies(digest, &touch);
            }
        }
    }
}
