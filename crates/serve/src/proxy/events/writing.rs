//! What waits to leave: one write for each server that was asked something, one for each client that is answered.

use krarup_net::Moved;
use krarup_record::Outcome;
use krarup_units::Stamp;

use super::{Engine, Notice, SERVER_READ};
use crate::proxy::plain;

/// Replies of so many bytes do not wait for those that follow: one write costs little beside them.
const TOGETHER: usize = 16 << 10;

/// Replies of so many bytes leave after shorter ones.
const LONG: usize = 64 << 10;

/// One write to a client: how many bytes of its output have left, and when.
pub(super) struct Written {
    id: u32,
    count: usize,
    after: Stamp,
}

impl<N: FnMut(Notice)> Engine<N> {
    /// Writes until nobody has anything to write that can be written: replies free workers, and these ask servers again. Where that takes
    /// longer than a [`Slice`], the rest is for the next one.
    pub(super) fn flush(&mut self) {
        self.slice.begin();
        loop {
            let wrote = self.write_servers();
            let mut clients = std::mem::take(&mut self.some_clients);
            self.core.take_dirty_clients(&mut clients);
            let nothing = !wrote && clients.is_empty();
            for id in clients.drain(..) {
                let length = self.core.client_outbox(id).len();
                if length < TOGETHER && self.core.client_expects_more(id) {
                    self.partly.push(id);
                } else if length < LONG {
                    self.send_to_client(id);
                } else {
                    self.unwritten.push_back(id);
                }
            }
            self.some_clients = clients;
            self.write_long_replies();
            self.enter_what_left();
            let runnable = self.core.runnable();
            let nothing = nothing && runnable == 0;
            for _ in 0..runnable {
                if self.slice.passes(self.clock.now()) {
                    return;
                }
                let Some(id) = self.core.next_runnable() else { break };
                self.offer(id);
            }
            if nothing || self.slice.is_spent() {
                break;
            }
        }
    }

    /// Long replies leave after the short ones, and never hold these up for long.
    fn write_long_replies(&mut self) {
        while !self.slice.is_spent()
            && let Some(id) = self.unwritten.pop_front()
        {
            self.send_to_client(id);
        }
    }

    /// A client takes more again.
    pub(super) fn write_in_turn(&mut self, id: u32) {
        if self.slice.is_spent() {
            self.unwritten.push_back(id);
        } else {
            self.write_client(id);
        }
    }

    /// What these clients have waited with leaves now.
    pub(super) fn write_clients(&mut self, mut clients: Vec<u32>) {
        for id in clients.drain(..) {
            self.send_to_client(id);
        }
        self.enter_what_left();
        if self.partly.is_empty() {
            // Its memory is kept for next time.
            self.partly = clients;
        }
    }

    /// One write for each server that was asked something; whether there was any.
    pub(super) fn write_servers(&mut self) -> bool {
        self.taken_in = 0;
        let mut servers = std::mem::take(&mut self.some_servers);
        self.core.take_dirty_servers(&mut servers);
        if self.core.has_new_lanes() {
            self.open_lanes(self.clock.now());
        }
        for &server in &servers {
            self.write_server(server);
        }
        let any = !servers.is_empty();
        self.some_servers = servers;
        any
    }

    pub(super) fn write_server(&mut self, server: usize) {
        let link = &mut self.servers[server];
        let Some(conn) = &mut link.conn else { return };
        while link.writable && !self.core.server_output(server).is_empty() {
            let before = self.clock.now();
            if self.slice.passes(before) {
                return self.ready_again(server, false);
            }
            let (length, moved) = conn.write_from(self.core.server_outbox(server));
            match moved {
                Moved::Some(count) => {
                    self.core.server_written(server, count, before);
                    // A short write means that the kernel has no more room; it will say when it has.
                    link.writable = count == length;
                }
                Moved::None => link.writable = false,
                Moved::Closed => return self.last_answers(server, "the server closed the connection"),
                Moved::Failed(error) => return self.last_answers(server, &plain(&error)),
            }
        }
    }

    /// Nothing can be written to a server any more. What it answered before that has been carried out and counted there, and is
    /// still to be read; everything else is lost.
    pub(super) fn last_answers(&mut self, server: usize, why: &str) {
        loop {
            let link = &mut self.servers[server];
            let Some(conn) = &mut link.conn else { return };
            let Moved::Some(count) = conn.read(link.inbox.room(SERVER_READ)) else { break };
            link.inbox.filled(count);
            match self.core.server_bytes(server, link.inbox.unread(), self.clock.now()) {
                Ok(used) => link.inbox.consume(used),
                Err(why) => return self.distrust(server, &why),
            }
        }
        self.lose(server, why, Outcome::ServerLost);
    }

    /// Writes once to a client, if there is something and it takes any; how many bytes have left. Whom nothing can be written to any more is dropped.
    fn write_once(&mut self, id: u32) -> Option<usize> {
        let link = self.clients.get_mut(id as usize)?.as_mut()?;
        let out = self.core.client_outbox(id);
        if link.unentered || !link.writable || out.is_empty() {
            return None;
        }
        let (length, moved) = link.conn.write_from(out);
        match moved {
            Moved::Some(count) => {
                link.writable = count == length;
                return Some(count);
            }
            Moved::None => link.writable = false,
            Moved::Closed | Moved::Failed(_) => self.drop_client(id),
        }
        None
    }

    /// The same; what has left is entered with that of all others: see [`Self::read_clients`].
    fn send_to_client(&mut self, id: u32) {
        let Some(count) = self.write_once(id) else { return self.close_if_finished(id) };
        let after = self.clock.now();
        self.slice.passes(after);
        if let Some(Some(link)) = self.clients.get_mut(id as usize) {
            (link.unentered, link.wrote) = (true, after);
            self.unentered.push(Written { id, count, after });
        }
    }

    /// Tells the core what has left, and writes what could not leave at once.
    fn enter_what_left(&mut self) {
        let mut unentered = std::mem::take(&mut self.unentered);
        for Written { id, count, after } in unentered.drain(..) {
            let Some(Some(link)) = self.clients.get_mut(id as usize) else { continue };
            link.unentered = false;
            self.core.client_written(id, count, after);
            self.write_client(id);
        }
        self.unentered = unentered;
    }

    pub(super) fn write_client(&mut self, id: u32) {
        while let Some(count) = self.write_once(id) {
            let now = self.clock.now();
            if let Some(Some(link)) = self.clients.get_mut(id as usize) {
                link.wrote = now;
            }
            self.core.client_written(id, count, now);
            if self.slice.passes(now) && !self.core.client_outbox(id).is_empty() {
                return self.unwritten.push_back(id);
            }
        }
        self.close_if_finished(id);
    }

    /// The connection is closed once it has nothing more to say.
    fn close_if_finished(&mut self, id: u32) {
        let Some(Some(link)) = self.clients.get(id as usize) else { return };
        if self.core.client_finished(id) && !link.conn.is_waiting() {
            self.close_client(id);
        }
    }
}
