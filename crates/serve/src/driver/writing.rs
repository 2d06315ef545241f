//! What leaves to clients: one write for each that is answered, however many replies.

use krarup_net::Moved;
use krarup_service::{ClientId, Service};

use super::clients::{Driver, Outbound};
use super::connection::WrittenBytes;

/// Replies of so many bytes do not wait for those that follow: one write costs little beside them.
const TOGETHER: usize = 16 << 10;

/// Replies of so many bytes leave after shorter ones.
const LONG: usize = 64 << 10;

impl Driver {
    /// Writes until no client has anything to write that can be written: replies free workers, and
    /// these ask servers again. Where that takes longer than a [`Slice`], the rest is for the next
    /// one.
    pub(crate) fn flush<S: Service>(&mut self, service: &mut S, outbound: &mut impl Outbound<S>) {
        self.slice.begin();
        loop {
            self.taken_in = 0;
            let wrote = outbound.write(service, &mut self.slice);
            let mut clients = std::mem::take(&mut self.some);
            service.take_dirty(&mut clients);
            let nothing = !wrote && clients.is_empty();
            for id in clients.drain(..) {
                self.read_on(service, id);
                let length = service.output(id).len();
                if length < TOGETHER && service.expects_more(id) {
                    self.partly.push(id);
                } else if length < LONG {
                    self.send_to_client(service, id);
                } else {
                    self.unwritten.push_back(id);
                }
            }
            self.some = clients;
            self.write_long_replies(service);
            self.enter_what_left(service);
            let runnable = service.runnable();
            let nothing = nothing && runnable == 0;
            for place in 0..runnable {
                // One goes on in each pass, however long others took to be written to.
                if self.slice.passes(self.clock.now()) && place > 0 {
                    return;
                }
                let Some(id) = service.next_runnable() else { break };
                self.resume(service, id);
            }
            if nothing || self.slice.is_spent() {
                break;
            }
        }
    }

    /// What a client sent while it waited is read now.
    fn read_on(&mut self, service: &impl Service, id: ClientId) {
        if service.heeds_end(id)
            && !service.paused(id)
            && let Some(Some(link)) = self.clients.get(id as usize)
            && link.readable
        {
            self.queue_read(id);
        }
    }

    /// All that something may be written to have their turn with those of long replies.
    pub(super) fn queue_writes(&mut self, service: &mut impl Service) {
        let mut clients = std::mem::take(&mut self.some);
        service.take_dirty(&mut clients);
        for id in clients.drain(..) {
            self.read_on(service, id);
            self.unwritten.push_back(id);
        }
        self.some = clients;
    }

    /// Long replies leave after the short ones, and never hold these up for long.
    fn write_long_replies(&mut self, service: &mut impl Service) {
        while !self.slice.is_spent()
            && let Some(id) = self.unwritten.pop_front()
        {
            self.send_to_client(service, id);
        }
    }

    /// A client takes more again.
    pub(super) fn write_in_turn(&mut self, service: &mut impl Service, id: ClientId) {
        if self.slice.is_spent() {
            self.unwritten.push_back(id);
        } else {
            self.write_client(service, id);
        }
    }

    /// Takes the clients whose first replies wait for those that follow.
    pub(crate) fn take_delayed(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.partly)
    }

    /// What these clients have waited with leaves now.
    pub(crate) fn write_delayed(&mut self, service: &mut impl Service, mut clients: Vec<ClientId>) {
        for id in clients.drain(..) {
            self.send_to_client(service, id);
        }
        self.enter_what_left(service);
        if self.partly.is_empty() {
            // Its memory is kept for next time.
            self.partly = clients;
        }
    }

    /// Writes once to a client, if there is something and it takes any; how many bytes have left. A
    /// client that nothing can be written to any more is dropped.
    fn write_once(&mut self, service: &mut impl Service, id: ClientId) -> Option<usize> {
        let link = self.clients.get_mut(id as usize)?.as_mut()?;
        let out = service.output(id);
        if link.unentered || !link.writable || out.is_empty() {
            return None;
        }
        let (length, moved) = link.conn.write_from(out);
        match moved {
            Moved::Some(count) => {
                link.writable = count == length && !link.conn.is_waiting();
                link.bytes.1 += count as u64;
                link.sent = link.conn.sent();
                self.memory.shrank();
                return Some(count);
            }
            Moved::None => link.writable = false,
            Moved::Closed | Moved::Failed(_) => self.drop_client(service, id),
        }
        None
    }

    /// The same; what has left is entered with that of all others: see [`Self::read_clients`].
    fn send_to_client(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(count) = self.write_once(service, id) else { return self.close_if_finished(service, id) };
        let after = self.clock.now();
        self.slice.passes(after);
        if let Some(Some(link)) = self.clients.get_mut(id as usize) {
            (link.unentered, link.wrote) = (true, after);
            self.unentered.push(WrittenBytes { id, count, after });
        }
    }

    /// Tells the service what has left, and writes what could not leave at once.
    fn enter_what_left(&mut self, service: &mut impl Service) {
        let mut unentered = std::mem::take(&mut self.unentered);
        for WrittenBytes { id, count, after } in unentered.drain(..) {
            let Some(Some(link)) = self.clients.get_mut(id as usize) else { continue };
            link.unentered = false;
            service.written(id, count, after);
            self.write_client(service, id);
        }
        self.unentered = unentered;
    }

    pub(super) fn write_client(&mut self, service: &mut impl Service, id: ClientId) {
        while let Some(count) = self.write_once(service, id) {
            let now = self.clock.now();
            if let Some(Some(link)) = self.clients.get_mut(id as usize) {
                link.wrote = now;
            }
            service.written(id, count, now);
            if self.slice.passes(now) && !service.output(id).is_empty() {
                return self.unwritten.push_back(id);
            }
        }
        self.close_if_finished(service, id);
    }

    /// The connection is closed once it has nothing more to say.
    fn close_if_finished(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
        if service.has_silent_replies(id) && !link.unentered {
            service.written(id, 0, self.clock.now());
        }
        // A connection that is broken has nothing left to wait for.
        if service.finished(id) && link.conn.flush().unwrap_or(true) {
            self.close_client(service, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use krarup_net::mio::Events;
    use krarup_units::Stamp;

    use super::super::clients::{ClientLimits, DriverSettings};
    use super::super::testing;
    use super::*;
    use crate::slice::Slice;

    /// Writing to it takes longer than a slice.
    struct SlowUpstream;

    impl<S> Outbound<S> for SlowUpstream {
        fn write(&mut self, _: &mut S, slice: &mut Slice) -> bool {
            slice.passes(Stamp(0));
            slice.passes(Stamp(1_000_000_000));
            false
        }

        fn buffered(&self, _: &S) -> usize {
            0
        }

        fn shed(&mut self, _: &mut S, _: usize) -> usize {
            0
        }
    }

    #[test]
    fn a_client_whose_turn_is_over_goes_on_though_the_slice_is_spent() {
        let (mut driver, mut broker) = (testing::driver(ClientLimits::default().into()), testing::broker());
        let mut client = testing::connect(&mut driver, &mut broker);
        client.write_all("ping\r\n".repeat(1_200).as_bytes()).unwrap();
        testing::read(&mut driver, &mut broker, 0);
        assert!(broker.runnable() == 1 && broker.paused(0));
        driver.flush(&mut broker, &mut SlowUpstream);
        assert!(driver.has_more_to_do(), "its replies are written in the next pass");
        assert!(broker.runnable() == 0 && !broker.paused(0));
    }

    /// All that it is owed waits encrypted, and will never leave.
    #[test]
    fn a_client_that_breaks_off_while_replies_wait_encrypted_is_closed() {
        let settings = DriverSettings { tls: Some(testing::acceptor()), ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let mut client = testing::connect_encrypted(&mut driver, &mut cache, 0);
        cache.respond(0, &vec![b'v'; 64 << 10], 0, Stamp(0), Stamp(0));
        driver.write_client(&mut cache, 0);
        assert!(cache.output(0).is_empty());
        assert!(driver.clients[0].as_ref().unwrap().conn.is_waiting());
        // The failure is told to the first write alone: without unread bytes no read is told of it.
        assert!(matches!(client.read(&mut [0; 8]), Moved::None));
        drop(client);
        let mut events = Events::with_capacity(8);
        driver.wait_for(&cache, &mut events, None).unwrap();
        while driver.has_more_to_do() {
            driver.serve(&mut cache, &events);
            driver.flush_clients(&mut cache);
        }
        assert!(driver.clients[0].is_none());
    }
}
