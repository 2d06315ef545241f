//! Time limits and the bound on memory, applied to clients.

use std::cmp::Reverse;

use krarup_service::{ClientId, Disconnect, Service};
use krarup_units::{Nanos, Stamp};

use super::clients::{Driver, DriverNotice, Outbound, READ};
use super::connection::ClientConnection;
use super::memory::{CAREFUL, MemoryEvent, SMALL};
use super::time_limits::Waited;

/// A client that has been quiet for this long gives back the memory of its replies, when clients
/// are next looked at.
const RESTS_AFTER: Nanos = Nanos::from_secs(2);

/// Who has sent less than this of a long request in the second in which nothing got on stands
/// still.
const STANDS_STILL: usize = 4 << 10;

/// An answer of up to so many bytes costs no server its connection, however little memory there
/// is: it may be one value.
const ONE_VALUE: usize = 2 << 20;

/// What a client hears whose request stood still while others waited for its memory.
const NO_MEMORY: &[u8] =
    b"SERVER_ERROR out of memory: the request did not arrive while others waited; try again\r\n";

impl Driver {
    /// Disconnects clients that have said nothing for too long, or take too long over one request
    /// or its reply.
    pub(super) fn apply_time_limits(&mut self, service: &mut impl Service, now: Stamp) {
        if !self.time_limits.is_due(now) {
            return;
        }
        for id in 0..self.clients.len() as u32 {
            if self.takes_nothing(service, id, now) {
                service.disconnected(Disconnect::TimeLimit);
                self.drop_client(service, id);
                continue;
            }
            let Some(link) = self.clients[id as usize].as_mut() else { continue };
            let held_back = link.waits || service.paused(id);
            let idle = service.is_idle(id) && !link.conn.is_waiting() && !service.holds_lease(id, now);
            // What it was told last is as good as what it has said.
            let quiet_since = idle.then_some(link.received.max(link.wrote));
            let waited = Waited::of(link.begun, held_back, quiet_since);
            if waited.quiet_since.is_some_and(|since| now.0.saturating_sub(since.0) > RESTS_AFTER.0) {
                service.rests(id);
            }
            let Some(last_words) = self.time_limits.ends(&waited, now) else { continue };
            service.disconnected(Disconnect::TimeLimit);
            self.end_of_requests(service, id, last_words);
        }
    }

    /// Whether a client has taken nothing of its replies for as long as a request may take: they
    /// may hold what others wait for. The system tells of room in a socket only when there is much
    /// of it; of less a last try tells.
    fn takes_nothing(&mut self, service: &mut impl Service, id: ClientId, now: Stamp) -> bool {
        let Some(Some(link)) = self.clients.get_mut(id as usize) else { return false };
        let is_written = service.output(id).is_empty() && !link.conn.is_waiting();
        if link.writable || is_written {
            return false;
        }
        link.note_taken(now);
        let before = link.wrote;
        if !self.time_limits.ends_unread(before, now) {
            return false;
        }
        link.flush(self.clock.now());
        self.write_client(service, id);
        self.clients[id as usize].as_ref().is_some_and(|link| link.wrote == before)
    }

    /// How much may be read from a client now; none: it waits for memory, and is not read.
    pub(super) fn room_for(&mut self, service: &impl Service, id: ClientId) -> Option<usize> {
        let link = self.clients.get_mut(id as usize).and_then(Option::as_mut)?;
        let have = link.inbox.unread().len();
        let tight = self.memory.is_tight(READ);
        let room = if have == 0 {
            let under_way = tight && self.memory.is_full() && !service.is_idle(id);
            match tight {
                _ if under_way => None,
                true => Some(CAREFUL),
                false => Some(READ),
            }
        } else {
            // What is kept of a request that is not whole, and what is still to come of it.
            let wanted = service.needed(id).max(have + 1);
            if wanted <= SMALL {
                Some(if tight { SMALL - have } else { READ / 4 })
            } else if wanted <= link.reserved {
                Some(link.reserved - have)
            } else {
                // Of a line it is not known how long it will be.
                let wanted = wanted.max(have + SMALL);
                // Of a longer line fewer copies may be made: what is reserved stays.
                let in_all = service.memory_of(wanted).max(link.reserved_in_all);
                let first = link.reserved == 0;
                let more = in_all - link.reserved_in_all;
                self.memory.reserve(id, more, first).then(|| {
                    (link.reserved, link.reserved_in_all) = (wanted, in_all);
                    link.had = have;
                    wanted - have
                })
            }
        };
        if room.is_none() && !std::mem::replace(&mut link.waits, true) {
            self.memory.waiting.push_back(id);
            self.changed = true;
        }
        room
    }

    /// The rest of what this link holds will not be sent.
    pub(super) fn free_memory_of(&mut self, link: &mut ClientConnection) {
        link.inbox.clear();
        link.inbox.shrink(0);
        self.memory.shrank();
        if std::mem::take(&mut link.reserved) > 0 {
            self.memory.release(std::mem::take(&mut link.reserved_in_all));
        }
    }

    /// The end of a client has been announced that waits for memory. It goes at once where nothing
    /// of it can be answered any more.
    pub(super) fn ends_while_it_waits(&mut self, service: &mut impl Service, id: ClientId, broken: bool) {
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let missing = service.needed(id).saturating_sub(link.inbox.unread().len());
        // Where it has only said its last, the request may have come whole, and the client waits
        // for the answer.
        let never_whole = missing > 0 && link.conn.unread().is_some_and(|unread| unread < missing);
        if broken {
            return self.drop_client(service, id);
        }
        if never_whole {
            self.end_of_requests(service, id, b"");
            self.write_client(service, id);
        }
    }

    /// Nothing more is read from this client: the `last_words` follow the replies it is owed, and
    /// then the end.
    pub(super) fn end_of_requests(&mut self, service: &mut impl Service, id: ClientId, last_words: &[u8]) {
        let now = self.clock.now();
        let Some(mut link) = self.clients.get_mut(id as usize).and_then(Option::take) else { return };
        self.free_memory_of(&mut link);
        link.readable = false;
        link.begun = None;
        link.concluded = true;
        self.clients[id as usize] = Some(link);
        if !last_words.is_empty() {
            service.respond(id, last_words, 0, now, now);
        }
        service.ended(id, now);
    }

    /// Adds up what waits in all buffers, now and then, and keeps it within the bound: an answer
    /// that fills half of it is given up, then clients are disconnected until the rest fits. First
    /// go those with more than 16 KiB of replies that they do not read, and of these the one that
    /// has taken nothing for longest.
    #[inline]
    pub(crate) fn count_memory<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        self.memory.grew(service.take_growth());
        if self.memory.is_due() {
            self.count_memory_now(service, outbound);
        }
    }

    fn count_memory_now<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        let mut total = outbound.buffered(service) + service.queued_bytes();
        for (id, link) in self.clients.iter().enumerate() {
            let Some(link) = link else { continue };
            let requests = link.reserved_in_all.max(link.inbox.capacity());
            total += requests + link.replies(service, id as u32);
        }
        self.memory.counted(total);
        if self.memory.excess() == 0 {
            return;
        }
        total -= self.write_what_can_leave(service, self.memory.excess());
        self.memory.counted(total);
        if self.memory.excess() > 0 {
            total -= outbound.shed(service, (self.settings.memory / 2).max(ONE_VALUE));
            self.memory.counted(total);
        }
        let mut excess = self.memory.excess();
        let mut holders = if excess > 0 { self.holders_of_replies(service, |_| true) } else { Vec::new() };
        while excess > 0
            && holders.len() > usize::from(!outbound.has_answers())
            && let Some((_, replies, id)) = holders.pop()
        {
            self.cut(service, id, replies);
            excess = excess.saturating_sub(replies);
            total -= replies;
        }
        self.memory.counted(total);
    }

    /// Replies that wait for their turn leave now, until so many bytes of memory are `wanted` no
    /// more; how many are free. That is so when the last byte of a reply has left: each client is
    /// written to until it takes no more.
    fn write_what_can_leave(&mut self, service: &mut impl Service, wanted: usize) -> usize {
        self.queue_writes(service);
        let mut free = 0;
        while free < wanted
            && let Some(id) = self.unwritten.pop_back()
        {
            let Some(Some(link)) = self.clients.get(id as usize) else { continue };
            let before = link.replies(service, id);
            self.write_client(service, id);
            let link = self.clients.get(id as usize).and_then(Option::as_ref);
            free += before.saturating_sub(link.map_or(0, |link| link.replies(service, id)));
        }
        free
    }

    /// Clients with replies that wait for them, with bytes of these: last those that do not read,
    /// that wait for much, that have taken nothing for longest.
    fn holders_of_replies(
        &self,
        service: &impl Service,
        which: impl Fn(&ClientConnection) -> bool,
    ) -> Vec<(bool, usize, ClientId)> {
        let links = self.clients.iter().enumerate();
        let links =
            links.filter_map(|(id, link)| Some((id as u32, link.as_ref().filter(|link| which(link))?)));
        let waiting = links.map(|(id, link)| (!link.writable, link.replies(service, id), id));
        // What can leave will: only much of it is worth a connection.
        let holds =
            |&(blocked, replies, _): &(bool, usize, ClientId)| replies > if blocked { 0 } else { SMALL };
        let mut waiting: Vec<_> = waiting.filter(holds).collect();
        let wrote = |id: ClientId| self.clients[id as usize].as_ref().map(|link| link.wrote);
        waiting
            .sort_unstable_by_key(|&(blocked, replies, id)| (blocked, replies > SMALL, Reverse(wrote(id))));
        waiting
    }

    /// A client is disconnected for the memory that it holds.
    fn cut(&mut self, service: &mut impl Service, id: ClientId, bytes: usize) {
        service.disconnected(Disconnect::Memory);
        self.drop_client(service, id);
        if self.memory.cut_one() {
            self.notices.push(DriverNotice::Cut(id, bytes));
        }
    }

    /// After each pass: who waits for memory is read on where there is some, and where nothing has
    /// got on for a second the largest that stand still are disconnected.
    pub(crate) fn look_after_memory<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        self.count_memory(service, outbound);
        if !self.memory.waiting.is_empty() && self.memory.has_changed() {
            self.count_memory_now(service, outbound);
        }
        if !self.to_cut.is_empty() {
            self.cut_the_stalled(service, outbound);
        }
        if self.memory.is_quiet() {
            return;
        }
        self.grant_memory(service);
        let (stalled, change) = self.memory.look(self.clock.now());
        if stalled {
            self.find_the_stalled(service);
            self.cut_the_stalled(service, outbound);
            self.grant_memory(service);
        }
        match change {
            Some(MemoryEvent::Short) => self.notices.push(DriverNotice::MemoryShort),
            Some(MemoryEvent::Enough { cut }) => self.notices.push(DriverNotice::MemoryEnough(cut)),
            None => {}
        }
        self.note_memory(service);
    }

    /// Those that wait for memory are read where there is some, first come first served; one that
    /// does not fit waits alone.
    fn grant_memory(&mut self, service: &mut impl Service) {
        let waiting = std::mem::take(&mut self.memory.waiting);
        let mut first = None;
        for id in waiting {
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            if !std::mem::take(&mut link.waits) || !link.readable {
                continue;
            }
            let room = self.room_for(service, id);
            if room.is_none() && first.is_none() && service.needed(id) > SMALL {
                first = Some(id);
            }
            if room.is_some()
                && let Some(Some(link)) = self.clients.get_mut(id as usize)
                && !service.paused(id)
            {
                // While it waited it could send nothing.
                link.begun = link.begun.map(|_| self.clock.now());
                self.queue_read(id);
            }
        }
        self.memory.offered(first);
    }

    /// Nothing has got on for a second, and clients wait: those that stand still are to be
    /// disconnected, the largest first, until what is waited for fits.
    fn find_the_stalled(&mut self, service: &impl Service) {
        let waiting = self.memory.waiting.iter();
        let mut wanted: usize =
            waiting.map(|&id| service.needed(id).max(SMALL)).fold(0, usize::saturating_add);
        let mut stalled = self.holders_of_replies(service, |link| !link.writable && link.reserved == 0);
        for (id, link) in self.clients.iter_mut().enumerate() {
            let Some(link) = link.as_mut().filter(|link| link.reserved > 0) else { continue };
            let have = link.inbox.unread().len();
            if have - link.had.min(have) < STANDS_STILL {
                stalled.push((true, link.reserved_in_all, id as u32));
            }
            link.had = have;
        }
        stalled.sort_unstable();
        self.to_cut.clear();
        while wanted > 0
            && let Some((_, bytes, id)) = stalled.pop()
        {
            wanted = wanted.saturating_sub(bytes);
            let half = self.clients[id as usize].as_ref().is_some_and(|link| link.reserved > 0);
            self.to_cut.push((half, bytes, id));
        }
        self.to_cut.reverse();
    }

    /// As many of those are disconnected as there is time for in one pass.
    fn cut_the_stalled<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        self.slice.begin();
        while !self.slice.passes(self.clock.now())
            && let Some((half, bytes, id)) = self.to_cut.pop()
        {
            let Some(Some(link)) = self.clients.get(id as usize) else { continue };
            if half != (link.reserved > 0) || !half && link.writable {
                // It has got on meanwhile.
                continue;
            }
            if half {
                service.disconnected(Disconnect::Memory);
                if self.memory.cut_one() {
                    self.notices.push(DriverNotice::Cut(id, bytes));
                }
                self.end_of_requests(service, id, NO_MEMORY);
                self.write_client(service, id);
            } else {
                self.cut(service, id, bytes);
            }
        }
        self.count_memory_now(service, outbound);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use krarup_broker::Broker;
    use krarup_cache::Cache;
    use krarup_net::Moved;
    use krarup_net::mio::Events;

    use super::super::clients::{ClientLimits, DriverSettings};
    use super::super::readiness::ServerPoll;
    use super::super::testing;
    use super::super::upstreams::{ConnectSettings, ServerConnection, ServerConnections};
    use super::*;

    #[test]
    fn a_worker_is_idle_from_when_it_was_told_something_and_never_while_it_has_a_message() {
        let limits = ClientLimits { idle: Nanos::from_secs(8), ..ClientLimits::default() };
        let (mut driver, mut broker) = (testing::driver(limits.into()), testing::broker());
        let clock = driver.clock;
        let _peer = testing::connect(&mut driver, &mut broker);
        let at = |seconds| clock.now() + Nanos::from_secs(seconds);
        let say = |broker: &mut Broker, said: &str, now| {
            assert_eq!(broker.read(0, said.as_bytes(), now, now), said.len());
            broker.written(0, broker.output(0).len(), now);
        };
        let mut ends = |broker: &mut Broker, wrote, now| {
            driver.clients[0].as_mut().unwrap().wrote = wrote;
            driver.apply_time_limits(broker, now);
            driver.clients[0].as_ref().unwrap().concluded
        };
        say(&mut broker, "put 1 0 60 1\r\nx\r\nreserve\r\n", at(0));
        assert!(!ends(&mut broker, at(0), at(20)), "it has a message");
        say(&mut broker, "delete 1\r\n", at(25));
        assert!(!ends(&mut broker, at(25), at(30)), "it was told something");
        assert!(ends(&mut broker, at(25), at(40)));
    }

    /// A broker and a cache set no limit to a request.
    #[test]
    fn a_client_that_falls_silent_in_the_middle_of_a_message_is_idle() {
        let limits = ClientLimits { idle: Nanos::from_secs(8), ..ClientLimits::default() };
        let (mut driver, mut broker) = (testing::driver(limits.into()), testing::broker());
        let mut client = testing::connect(&mut driver, &mut broker);
        client.write_all(b"put 1 0 60 10\r\nhalf").unwrap();
        testing::read(&mut driver, &mut broker, 0);
        assert!(driver.clients[0].as_ref().unwrap().begun.is_some());
        let now = driver.clock.now();
        driver.apply_time_limits(&mut broker, now + Nanos::from_secs(20));
        assert!(driver.clients[0].as_ref().unwrap().concluded);
    }

    #[test]
    fn a_client_that_takes_nothing_is_disconnected_and_one_that_takes_some_is_not() {
        let request = Nanos::from_secs(60);
        let settings = DriverSettings { request, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let mut clients = [(); 2].map(|()| testing::connect(&mut driver, &mut cache));
        for id in 0..2 {
            cache.respond(id, &vec![b'v'; 1 << 20], 0, Stamp(0), Stamp(0));
            driver.write_client(&mut cache, id);
        }
        assert!(clients[1].read(&mut vec![0; 1 << 20]).unwrap() > 0);
        let now = driver.clock.now();
        driver.apply_time_limits(&mut cache, now + Nanos(request.0 / 2));
        assert!(driver.clients.iter().all(Option::is_some));
        driver.apply_time_limits(&mut cache, now + request);
        assert!(driver.clients[0].is_none() && driver.clients[1].is_some());
    }

    /// What waits encrypted is not taken yet: who takes none of it is disconnected for that, and
    /// not for being idle.
    #[test]
    fn a_client_that_takes_nothing_is_disconnected_also_where_all_waits_encrypted() {
        let limit = Nanos::from_secs(60);
        for (request, idle) in [(limit, Nanos::ZERO), (Nanos::ZERO, limit)] {
            let tls = Some(testing::acceptor());
            let settings = DriverSettings { request, idle, tls, ..ClientLimits::default().into() };
            let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
            let mut clients = [0, 1].map(|id| testing::connect_encrypted(&mut driver, &mut cache, id));
            for id in 0..2 {
                cache.respond(id, &vec![b'v'; 64 << 10], 0, Stamp(0), Stamp(0));
                driver.write_client(&mut cache, id);
                let link = driver.clients[id as usize].as_ref().unwrap();
                assert!(cache.output(id).is_empty() && link.replies(&cache, id) > 32 << 10);
            }
            assert!(!matches!(clients[1].read(&mut [0; 8]), Moved::Failed(_)));
            let now = driver.clock.now();
            driver.apply_time_limits(&mut cache, now + limit);
            assert_eq!(driver.clients[0].is_none(), request == limit);
            assert!(driver.clients[1].is_some());
            assert!(driver.clients.iter().flatten().all(|link| !link.concluded));
        }
    }

    /// What leaves while it is read refills its socket: the last try finds no room.
    #[test]
    fn a_client_that_takes_some_while_it_sends_is_not_disconnected() {
        let request = Nanos::from_secs(60);
        let tls = Some(testing::acceptor());
        let settings = DriverSettings { request, tls, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let mut client = testing::connect_encrypted(&mut driver, &mut cache, 0);
        cache.respond(0, &vec![b'v'; 64 << 10], 0, Stamp(0), Stamp(0));
        driver.write_client(&mut cache, 0);
        assert!(matches!(client.read(&mut [0; 8]), Moved::None));
        assert!(matches!(client.write(b"delete x\r\n"), Moved::Some(10)));
        testing::read(&mut driver, &mut cache, 0);
        let now = driver.clock.now();
        driver.apply_time_limits(&mut cache, now + request);
        assert!(driver.clients[0].is_some());
        driver.apply_time_limits(&mut cache, now + request + request);
        assert!(driver.clients[0].is_none());
    }

    fn store_big(cache: &mut Cache) {
        let set = format!("set big 0 0 400000\r\n{}\r\n", "v".repeat(400_000));
        assert_eq!(cache.read(0, set.as_bytes(), Stamp(0), Stamp(0)), set.len());
    }

    fn serve_all(driver: &mut Driver, cache: &mut Cache) {
        while driver.has_more_to_do() {
            driver.serve(cache, &Events::with_capacity(1));
            driver.flush_clients(cache);
        }
    }

    /// A few bytes ask for much, and no server sends it.
    #[test]
    fn replies_that_are_not_read_stay_within_the_bound_where_the_service_makes_them() {
        let memory = 1 << 20;
        let settings = DriverSettings { memory, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let mut clients = [(); 8].map(|()| testing::connect(&mut driver, &mut cache));
        store_big(&mut cache);
        for client in &mut clients {
            client.write_all(b"get big\r\n").unwrap();
        }
        serve_all(&mut driver, &mut cache);
        let connected = (0..8).filter(|&id| driver.clients[id].is_some());
        let held: Vec<usize> = connected.map(|id| cache.held(id as ClientId)).collect();
        assert!((1..8).contains(&held.len()) && held.iter().sum::<usize>() <= memory, "{held:?}");
        assert!(driver.notices.iter().any(|notice| matches!(notice, DriverNotice::Cut(..))));
    }

    #[test]
    fn the_only_answer_goes_on_though_it_is_larger_than_the_bound() {
        let settings = DriverSettings { memory: 1 << 18, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let mut client = testing::connect(&mut driver, &mut cache);
        store_big(&mut cache);
        client.write_all(b"get big\r\n").unwrap();
        serve_all(&mut driver, &mut cache);
        assert!(driver.clients[0].is_some() && cache.held(0) > 1 << 18);
    }

    #[test]
    fn an_answer_that_fills_half_of_the_memory_costs_its_connection_and_no_client() {
        let memory = 16 << 20;
        let settings = DriverSettings { memory, ..ClientLimits::default().into() };
        let (mut driver, mut core) = (testing::driver(settings), testing::proxy());
        let _peer = testing::connect(&mut driver, &mut core);
        core.respond(0, &vec![b'v'; 1 << 20], 0, Stamp(0), Stamp(0));
        driver.clients[0].as_mut().unwrap().writable = false;
        let address = "127.0.0.1:1".parse().unwrap();
        let first = vec![ServerConnection::to(address, Vec::new(), driver.clock.now())];
        let settings = ConnectSettings { connect_timeout: Nanos::ZERO, keep_alive: Nanos::ZERO, tls: None };
        let (registry, poll) = (driver.registry().try_clone().unwrap(), ServerPoll::new().unwrap());
        let mut servers = ServerConnections::new(settings, first, driver.clock, registry, poll);
        servers.links[0].inbox.append(&vec![b'v'; memory]);
        driver.count_memory_now(&mut core, &mut servers);
        assert!(driver.clients[0].is_some());
        assert!(servers.links[0].inbox.capacity() < memory / 2);
        let [DriverNotice::ServerDown(_, why)] = servers.notices.as_slice() else { panic!("one is lost") };
        assert_eq!(why, "its answer is larger than half of what an event loop may hold (`memory`)");
    }
}
