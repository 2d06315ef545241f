//! What clients have sent.

use std::ops::Range;

use krarup_net::Moved;
use krarup_service::{ClientId, Service};
use krarup_units::Stamp;

use super::clients::{Driver, Outbound, READ};
use super::connection::{ClientConnection, Read};

/// Bytes from clients after which upstreams are written to in the middle of a pass: large values go
/// on while they are in the processor's cache, and the server begins with the first while the last
/// is still read. Fewer would wake the server for each value of 64 KiB.
const PASS_ON: usize = 192 << 10;

/// Reads of one client in one pass: no other waits for a client that sends without end.
pub(super) const READS_A_PASS: usize = 4;

/// Bytes of long requests in one pass, from all clients together: no client that asks for little
/// waits for more than that.
const LONG_A_PASS: usize = 2 << 20;

/// Memory for a request of up to this length is taken in one piece: what grows step by step leaves
/// holes that no other buffer fits into.
const AT_ONCE: usize = 4 << 20;

/// A client with less room than this to be read into waits until what came before is looked at.
const LEAST_ROOM: usize = READ / 4;

impl Driver {
    /// Reads from all clients that have sent something. First the calls of the system, then what
    /// came: either goes quicker while the processor's caches know it.
    pub(crate) fn read_clients<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        let mut ready = std::mem::take(&mut self.ready);
        let mut end = 0;
        self.slice.begin();
        for (place, &id) in ready.iter().enumerate() {
            if self.slice.is_spent() {
                self.ready.splice(..0, ready[place..].iter().copied());
                break;
            }
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            if !std::mem::replace(&mut link.listed, false) {
                // This place was taken by one with the same number that has gone.
                continue;
            }
            if !link.inbox.is_empty() || !link.login.complete || link.end_near {
                // It goes on where it stopped, or there is more to find out; what was read before
                // lies in the common memory still.
                self.apart.push(id);
                continue;
            }
            if !link.readable || service.paused(id) {
                continue;
            }
            let mut most = self.scratch.len() - end;
            if self.memory.is_tight(READ) {
                match self.room_for(service, id) {
                    Some(room) => most = most.min(room),
                    None => continue,
                }
            }
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            let room = &mut self.scratch[end..end + most];
            let length = room.len();
            match link.conn.read(room) {
                Moved::Some(count) => {
                    link.bytes.0 += count as u64;
                    // Less than there was room for: the socket is empty, and will say when it is
                    // not.
                    link.end_near |= link.conn.has_ended();
                    link.readable = count == length || link.end_near;
                    let received = self.clock.now();
                    self.slice.passes(received);
                    self.reads.push(Read { id, at: end..end + count, received });
                    self.taken_in += count;
                    self.memory.grew(count);
                    end += count;
                }
                other => self.read_nothing(service, id, &other),
            }
            if self.taken_in >= PASS_ON || READ - end < LEAST_ROOM {
                self.process_reads(service, outbound);
                end = 0;
            }
            self.pass_on(service, outbound);
        }
        self.process_reads(service, outbound);
        let mut apart = std::mem::take(&mut self.apart);
        self.taken_apart = 0;
        self.slice.begin();
        for id in apart.drain(..) {
            if self.taken_apart < LONG_A_PASS && !self.slice.is_spent() {
                self.read_client(service, id);
                self.pass_on(service, outbound);
            } else {
                self.queue_read(id);
            }
        }
        self.apart = apart;
        // What is still readable was pushed again; the emptied vector's memory is kept for next
        // time.
        if self.ready.is_empty() {
            ready.clear();
            self.ready = ready;
        }
    }

    /// Where much has come, servers are written to before more is read.
    fn pass_on<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        if self.taken_in >= PASS_ON {
            self.taken_in = 0;
            outbound.write(service, &mut self.slice);
            self.count_memory(service, outbound);
        }
    }

    /// Offers the service what has been read, all of it before the common memory is used again.
    fn process_reads<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        if self.reads.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut came = std::mem::take(&mut self.reads);
        for Read { id, at, received } in &came {
            self.take_in(service, *id, at.clone(), *received, now);
            // A few bytes may ask for much.
            self.count_memory(service, outbound);
        }
        for Read { id, .. } in came.drain(..) {
            match self.clients.get(id as usize) {
                // There may be more than there was room for.
                Some(Some(link)) if link.readable => self.read_client(service, id),
                _ => self.conclude(service, id),
            }
        }
        self.reads = came;
    }

    /// Offers the service what lies in the common memory, and keeps what makes no whole request.
    fn take_in(
        &mut self,
        service: &mut impl Service,
        id: ClientId,
        at: Range<usize>,
        received: Stamp,
        now: Stamp,
    ) {
        let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
        link.received = received;
        let bytes = &self.scratch[at];
        let discarded = service.discards(id).then(|| service.requests(id));
        let used = service.read(id, bytes, received, now);
        let discards = service.discards(id);
        // In the middle of what is discarded it is the same request as before.
        if !discards || discarded != Some(service.requests(id)) {
            link.begun = (used < bytes.len() || discards).then_some(received);
        }
        link.inbox.append(&bytes[used..]);
    }

    /// Nothing could be read.
    fn read_nothing(&mut self, service: &mut impl Service, id: ClientId, moved: &Moved) {
        if matches!(moved, Moved::Failed(_)) {
            return self.drop_client(service, id);
        }
        if let Some(Some(link)) = self.clients.get_mut(id as usize) {
            link.readable = false;
            link.ended |= matches!(moved, Moved::Closed);
            self.conclude(service, id);
        }
    }

    /// Reads what a client has sent, a few times at most.
    pub(super) fn read_client(&mut self, service: &mut impl Service, id: ClientId) {
        for _ in 0..READS_A_PASS {
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
            if !link.readable || service.paused(id) && !Self::looks_for_end(service, id, link, self.stopping)
            {
                return;
            }
            if self.slice.is_spent() {
                break;
            }
            if link.login.answer_due {
                return;
            }
            let Some(most) = self.room_for(service, id) else { return };
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
            let (kept, complete) = (!link.inbox.is_empty(), link.login.complete);
            let room =
                if kept { link.inbox.room_up_to(most, AT_ONCE) } else { &mut self.scratch[..most.min(READ)] };
            let length = room.len();
            let moved = link.conn.read(room);
            if !complete {
                // A handshake takes long, and brings nothing to read.
                self.slice.passes(self.clock.now());
                self.complete_login(id);
            }
            let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
            match moved {
                Moved::Some(count) => {
                    let now = self.clock.now();
                    self.slice.passes(now);
                    link.received = now;
                    link.bytes.0 += count as u64;
                    link.end_near |= link.conn.has_ended();
                    self.taken_in += count;
                    self.taken_apart += count;
                    self.memory.grew(count);
                    if kept {
                        link.inbox.filled(count);
                        if link.reserved > 0 {
                            self.memory.progressed(count);
                        }
                        self.offer(service, id);
                    } else if link.admitted {
                        self.take_in(service, id, 0..count, now, now);
                    } else {
                        link.inbox.append(&self.scratch[..count]);
                        self.offer(service, id);
                    }
                    // Less than there was room for: the socket is empty, and will say when it is
                    // not.
                    if count < length
                        && let Some(Some(link)) = self.clients.get_mut(id as usize)
                        && !link.end_near
                    {
                        link.readable = false;
                        self.conclude(service, id);
                        return;
                    }
                }
                other => return self.read_nothing(service, id, &other),
            }
        }
        self.queue_read(id);
    }

    /// It may have sent more than was read.
    pub(super) fn queue_read(&mut self, id: ClientId) {
        if let Some(Some(link)) = self.clients.get_mut(id as usize)
            && !std::mem::replace(&mut link.listed, true)
        {
            self.ready.push(id);
        }
    }

    /// `client` was paused and is not any more: the service looks at what it sent earlier, be it
    /// nothing.
    pub(super) fn resume(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(link) = self.clients.get(id as usize).and_then(Option::as_ref) else { return };
        if link.inbox.is_empty() && link.admitted {
            service.read(id, b"", link.received, self.clock.now());
        }
        self.offer(service, id);
    }

    /// Offers the service what a client sent earlier, and reads on where there was no more than
    /// that.
    pub(super) fn offer(&mut self, service: &mut impl Service, id: ClientId) {
        self.authenticate(service, id);
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if !link.inbox.is_empty() && link.admitted {
            let now = self.clock.now();
            let used = if service.begins_large(link.inbox.unread()) {
                let (memory, unread) = link.inbox.hand_out();
                let used = service.read_lent(id, &memory, unread.clone(), link.received, now);
                link.inbox.give_back(memory, unread.start + used..unread.end);
                used
            } else {
                let used = service.read(id, link.inbox.unread(), link.received, now);
                link.inbox.consume(used);
                used
            };
            if link.inbox.is_empty() && !service.discards(id) {
                link.begun = None;
            } else if used > 0 || link.begun.is_none() {
                link.begun = Some(link.received);
            }
            if link.inbox.is_empty() {
                link.inbox.shrink(0);
            }
            if used > 0 && link.reserved > 0 {
                // What it was for has gone on.
                link.reserved = 0;
                self.memory.release(std::mem::take(&mut link.reserved_in_all));
            }
        }
        if link.readable && !link.waits && !link.login.answer_due && !service.paused(id) {
            self.queue_read(id);
        }
        self.conclude(service, id);
    }

    /// No more requests of this client will be taken, if it has said its last or a stop was asked
    /// for, and everything that had arrived by then has been taken: what a bound holds back is not
    /// forgotten.
    pub(super) fn conclude(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let last = link.ended || self.stopping;
        if !last || link.readable || link.concluded {
            return;
        }
        if service.paused(id) && !(link.inbox.is_empty() && service.heeds_end(id)) {
            return;
        }
        link.concluded = true;
        if link.ended {
            service.ended(id, self.clock.now());
        } else {
            service.dismissed(id, self.clock.now());
        }
    }

    /// Whether a paused client is read all the same, because its end would matter.
    fn looks_for_end(service: &impl Service, id: ClientId, link: &ClientConnection, stopping: bool) -> bool {
        (link.end_near || stopping) && link.inbox.is_empty() && service.heeds_end(id)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write};

    use krarup_net::mio::Events;
    use krarup_units::Nanos;

    use super::super::clients::{ClientLimits, DriverSettings};
    use super::super::testing::{self, answer};
    use super::*;

    /// While memory is short a read brings little, and what came is looked at only afterwards.
    #[test]
    fn a_client_with_the_number_of_one_that_has_gone_is_read_once() {
        let settings = DriverSettings { memory: 1 << 20, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        testing::connect(&mut driver, &mut cache);
        driver.drop_client(&mut cache, 0);
        let mut client = testing::connect(&mut driver, &mut cache);
        assert_eq!(driver.ready, [0, 0]);
        let value = format!("{}\r\ndelete y\r\n{}", "v".repeat(5_000), "v".repeat(900));
        client.write_all(format!("set x 0 0 {}\r\n{value}\r\n", value.len()).as_bytes()).unwrap();
        while driver.has_more_to_do() {
            driver.serve(&mut cache, &Events::with_capacity(1));
            driver.flush_clients(&mut cache);
        }
        let mut heard = [0; 256];
        let count = client.read(&mut heard).unwrap();
        assert_eq!(String::from_utf8_lossy(&heard[..count]), "STORED\r\n");
    }

    #[test]
    fn a_handshake_is_part_of_the_slice_though_it_brings_nothing_to_read() {
        let settings = DriverSettings { tls: Some(testing::acceptor()), ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let _client = testing::connect_encrypted(&mut driver, &mut cache, 0);
        // The last of it was all that was read in this slice.
        let later = driver.clock.now() + Nanos::from_secs(1);
        assert!(driver.slice.passes(later), "it has begun");
    }

    #[test]
    fn a_value_that_is_refused_has_the_time_of_one_request_in_however_many_pieces_it_comes() {
        let request = Nanos::from_secs(60);
        let settings = DriverSettings { request, ..ClientLimits::default().into() };
        let (mut driver, mut core) = (testing::driver(settings), testing::proxy());
        let mut client = testing::connect(&mut driver, &mut core);
        let mut begun_after = |driver: &mut Driver, said: &str| {
            answer(driver, &mut core, &mut client, 0, said);
            driver.clients[0].as_ref().unwrap().begun.expect("it has begun")
        };
        let begun = begun_after(&mut driver, "add a 0 0 2000020\r\n");
        for _ in 0..5 {
            assert_eq!(begun_after(&mut driver, "half"), begun);
        }
        // One that follows it has its own.
        for _ in 0..40 {
            begun_after(&mut driver, &"v".repeat(50_000));
        }
        let next = begun_after(&mut driver, "\r\nadd b 0 0 2000020\r\n");
        assert!(next > begun);
        driver.apply_time_limits(&mut core, next + request);
        assert!(driver.clients[0].as_ref().unwrap().concluded);
    }
}
