//! Clients come, are heard, and go.

use std::io;
use std::ops::Range;

use krarup_memcache::request::NO_DATAGRAMS;
use krarup_net::mio::Token;
use krarup_net::{Conn, Moved, Stream};
use krarup_units::Inbox;
use krarup_units::{Nanos, Stamp};

use super::{
    Accepting, CLIENT_READ, CLIENTS, ClientLink, Engine, Entrance, Login, Notice, PASS_ON, refuse_datagrams,
};

/// Reads of one client in one pass: nobody else waits for a client that sends without end.
pub(super) const READS_A_PASS: usize = 4;

/// Bytes of long requests in one pass, from all clients together: nobody who asks for little waits for more than that.
const LONG_A_PASS: usize = 2 << 20;

/// How long a connection that was closed on our side may take to be closed on the other.
const LINGER: Nanos = Nanos::from_secs(1);

/// Memory for a request of up to this length is taken in one piece: what grows step by step leaves holes that nobody else fits into.
const AT_ONCE: usize = 4 << 20;

/// Whoever has less room than this to be read into has to wait until what came before is looked at.
const LEAST_ROOM: usize = CLIENT_READ / 4;

/// One read from a client: where in the common memory it lies, and when it had come.
pub(super) struct Came {
    id: u32,
    at: Range<usize>,
    received: Stamp,
}

impl<N: FnMut(Notice)> Engine<N> {
    pub(super) fn accept(&mut self) {
        for entrance in 0..self.entrances.len() {
            self.accept_at(entrance);
            if let Some(datagrams) = &self.entrances[entrance].datagrams {
                datagrams.refuse(NO_DATAGRAMS);
            }
        }
    }

    pub(super) fn accept_at(&mut self, entrance: usize) {
        while self.accepting == Accepting::Yes {
            let Entrance { listener, pool, .. } = &self.entrances[entrance];
            let pool = *pool;
            match listener.accept() {
                Ok(stream) => {
                    let clients = match &self.crew {
                        Some(place) => place.crew.clients(),
                        None => self.core.clients(),
                    };
                    if clients >= self.config.max_connections {
                        self.turn_away(stream);
                        continue;
                    }
                    let mine = match &self.crew {
                        Some(place) => place.seat(stream, pool),
                        None => Some(stream),
                    };
                    if let Some(stream) = mine {
                        self.welcome(stream, pool);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The one that was to be accepted has gone again.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors, most likely: others must close first.
                    (self.notice)(Notice::NotAccepting(error.to_string()));
                    self.accepting = Accepting::Retry(self.clock.now() + Nanos::from_millis(100));
                    return;
                }
            }
        }
    }

    /// One client more than there may be is told so.
    pub(super) fn turn_away(&mut self, stream: Stream) {
        self.core.client_refused();
        if let Ok(mut conn) = Conn::accepted(stream, self.poll.registry(), Token(usize::MAX - 1)) {
            let _ = conn.write(b"ERROR Too many open connections\r\n");
        }
    }

    /// A client is to be served here, where keys belong to the pool `entry`.
    pub(super) fn welcome(&mut self, stream: Stream, entry: usize) {
        let id = self.core.client_opened_at(entry);
        let now = self.clock.now();
        self.settled_until = Stamp(0);
        let conn = Conn::accepted(stream, self.poll.registry(), Token(CLIENTS + id as usize));
        let conn = conn.and_then(|mut conn| {
            if self.config.edge.keep_alive > Nanos::ZERO {
                // Whose socket does not know it does without.
                let _ = conn.keep_alive(self.config.edge.keep_alive);
            }
            if let Some(acceptor) = &self.credentials.acceptor {
                conn.encrypt_accepted(acceptor)?;
            }
            Ok(conn)
        });
        let Ok(conn) = conn else { return self.leave(id, now) };
        let place = id as usize;
        if self.clients.len() <= place {
            self.clients.resize_with(place + 1, || None);
        }
        let admitted = self.credentials.users.is_none();
        let known = admitted && conn.is_greeted();
        self.clients[place] = Some(ClientLink {
            conn,
            inbox: Inbox::default(),
            received: now,
            begun: None,
            admitted,
            login: Login::begun(now, known),
            readable: true,
            writable: true,
            end_near: false,
            ended: false,
            unentered: false,
            wrote: now,
            reserved: 0,
            reserved_in_all: 0,
            waits: false,
            listed: true,
            had: 0,
        });
        if !known {
            self.await_login(id, now);
        }
        self.ready.push(id);
    }

    /// A client is no more.
    pub(super) fn leave(&mut self, id: u32, now: Stamp) {
        self.core.client_gone(id, now);
        self.slice.passes(self.clock.now());
        self.to_cut.retain(|&(_, _, other)| other != id);
        self.lanes_to_close |= self.config.dedicated;
        if let Some(place) = &self.crew {
            place.one_left();
        }
    }

    /// Reads from all clients that have sent something. First the calls of the system, then what came: either goes quicker while the
    /// processor's caches know it.
    pub(super) fn read_clients(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        let mut end = 0;
        self.slice.begin();
        for (place, &id) in ready.iter().enumerate() {
            if self.slice.is_spent() {
                self.ready.splice(..0, ready[place..].iter().copied());
                break;
            }
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            link.listed = false;
            if !link.inbox.is_empty() || !link.login.known || link.end_near {
                // It goes on where it stopped, or there is more to find out; what was read before lies in the common memory still.
                self.apart.push(id);
                continue;
            }
            if !link.readable || self.core.client_held_back(id) {
                continue;
            }
            let mut most = self.scratch.len() - end;
            if self.memory.is_tight(CLIENT_READ) {
                match self.room_for(id) {
                    Some(room) => most = most.min(room),
                    None => continue,
                }
            }
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            let room = &mut self.scratch[end..end + most];
            let length = room.len();
            match link.conn.read(room) {
                Moved::Some(count) => {
                    // Less than there was room for: the socket is empty, and will say when it is not.
                    link.readable = count == length;
                    let received = self.clock.now();
                    self.slice.passes(received);
                    self.came.push(Came { id, at: end..end + count, received });
                    self.taken_in += count;
                    self.memory.came(count);
                    end += count;
                }
                other => self.nothing_came(id, &other),
            }
            if self.taken_in >= PASS_ON || CLIENT_READ - end < LEAST_ROOM {
                self.take_what_came();
                end = 0;
            }
            self.pass_on();
        }
        self.take_what_came();
        let mut apart = std::mem::take(&mut self.apart);
        self.taken_apart = 0;
        self.slice.begin();
        for id in apart.drain(..) {
            if self.taken_apart < LONG_A_PASS && !self.slice.is_spent() {
                self.read_client(id);
                self.pass_on();
            } else {
                self.read_again(id);
            }
        }
        self.apart = apart;
        // What is still readable was pushed again; the emptied vector's memory is kept for next time.
        if self.ready.is_empty() {
            ready.clear();
            self.ready = ready;
        }
    }

    /// Where much has come, servers are written to before more is read.
    fn pass_on(&mut self) {
        if self.taken_in >= PASS_ON {
            self.write_servers();
            self.count_memory();
        }
    }

    /// Offers the core what has been read, all of it before the common memory is used again.
    fn take_what_came(&mut self) {
        if self.came.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut came = std::mem::take(&mut self.came);
        for Came { id, at, received } in &came {
            self.take_in(*id, at.clone(), *received, now);
        }
        for Came { id, .. } in came.drain(..) {
            match self.clients.get(id as usize) {
                // There may be more than there was room for.
                Some(Some(link)) if link.readable => self.read_client(id),
                _ => self.conclude(id),
            }
        }
        self.came = came;
    }

    /// Offers the core what lies in the common memory, and keeps what makes no whole request.
    fn take_in(&mut self, id: u32, at: Range<usize>, received: Stamp, now: Stamp) {
        let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
        link.received = received;
        let bytes = &self.scratch[at];
        let used = self.core.client_bytes(id, bytes, received, now);
        link.begun = (used < bytes.len() || self.core.client_swallows(id)).then_some(received);
        link.inbox.append(&bytes[used..]);
    }

    /// Nothing could be read.
    fn nothing_came(&mut self, id: u32, moved: &Moved) {
        if matches!(moved, Moved::Failed(_)) {
            return self.drop_client(id);
        }
        if let Some(Some(link)) = self.clients.get_mut(id as usize) {
            link.readable = false;
            link.ended |= matches!(moved, Moved::Closed);
            self.conclude(id);
        }
    }

    /// Reads what a client has sent, a few times at most.
    pub(super) fn read_client(&mut self, id: u32) {
        for _ in 0..READS_A_PASS {
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
            if !link.readable || self.core.client_held_back(id) {
                return;
            }
            if self.slice.is_spent() {
                break;
            }
            if link.login.answer_due {
                return;
            }
            let Some(most) = self.room_for(id) else { return };
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
            let (kept, known) = (!link.inbox.is_empty(), link.login.known);
            let room = if kept {
                link.inbox.room_up_to(most, AT_ONCE)
            } else {
                &mut self.scratch[..most.min(CLIENT_READ)]
            };
            let length = room.len();
            let moved = link.conn.read(room);
            if !known {
                self.recognise(id);
            }
            let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
            match moved {
                Moved::Some(count) => {
                    let now = self.clock.now();
                    self.slice.passes(now);
                    link.received = now;
                    self.taken_in += count;
                    self.taken_apart += count;
                    self.memory.came(count);
                    if kept {
                        link.inbox.filled(count);
                        if link.reserved > 0 {
                            self.memory.progressed(count);
                        }
                        self.offer(id);
                    } else if link.admitted {
                        self.take_in(id, 0..count, now, now);
                    } else {
                        link.inbox.append(&self.scratch[..count]);
                        self.offer(id);
                    }
                    // Less than there was room for: the socket is empty, and will say when it is not.
                    if count < length
                        && let Some(Some(link)) = self.clients.get_mut(id as usize)
                        && !link.end_near
                    {
                        link.readable = false;
                        self.conclude(id);
                        return;
                    }
                }
                other => return self.nothing_came(id, &other),
            }
        }
        self.read_again(id);
    }

    /// It may have sent more than was read.
    pub(super) fn read_again(&mut self, id: u32) {
        if let Some(Some(link)) = self.clients.get_mut(id as usize)
            && !std::mem::replace(&mut link.listed, true)
        {
            self.ready.push(id);
        }
    }

    /// Offers the core what a client sent earlier, and reads on where there was no more than that.
    pub(super) fn offer(&mut self, id: u32) {
        self.knock(id);
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if !link.inbox.is_empty() && link.admitted {
            let now = self.clock.now();
            let used = if self.core.begins_large(link.inbox.unread()) {
                let (memory, unread) = link.inbox.hand_out();
                let used = self.core.client_bytes_lent(id, &memory, unread.clone(), link.received, now);
                link.inbox.give_back(memory, unread.start + used..unread.end);
                used
            } else {
                let used = self.core.client_bytes(id, link.inbox.unread(), link.received, now);
                link.inbox.consume(used);
                used
            };
            if link.inbox.is_empty() && !self.core.client_swallows(id) {
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
        if link.readable && !link.waits && !link.login.answer_due && !self.core.client_held_back(id) {
            self.read_again(id);
        }
        self.conclude(id);
    }

    /// No more requests of this client will be taken, if it has said its last or a stop was asked for, and everything that had arrived by
    /// then has been taken: what a bound holds back is not forgotten.
    pub(super) fn conclude(&mut self, id: u32) {
        let Some(link) = self.clients.get(id as usize).and_then(Option::as_ref) else { return };
        let last = link.ended || self.stop_by.is_some();
        if last && !link.readable && !self.core.client_held_back(id) {
            self.core.client_ended(id);
        }
    }

    /// Everything asked is answered: the last reply is on its way, and then the end.
    pub(super) fn close_client(&mut self, id: u32) {
        let Some(mut link) = self.clients[id as usize].take() else { return };
        let now = self.clock.now();
        self.leave(id, now);
        self.free_memory_of(&mut link);
        self.forget_login(link.login);
        if link.ended {
            return;
        }
        // What it may still be sending is read and dropped: closing over unread bytes would reset the
        // connection, and the reset could overtake the last reply.
        link.conn.finish();
        // The next client may have its number. What it still sends is looked for, and not waited for.
        let _ = link.conn.deregister(self.poll.registry());
        self.lingering.push((id, link, now + LINGER));
    }

    /// The connection is broken, nobody reads any more.
    pub(super) fn drop_client(&mut self, id: u32) {
        if let Some(mut link) = self.clients[id as usize].take() {
            self.free_memory_of(&mut link);
            self.forget_login(link.login);
        }
        self.leave(id, self.clock.now());
    }

    /// The servers have been tried: clients may come.
    pub(super) fn open(&mut self) {
        self.accepting = Accepting::Yes;
        for entrance in 0..self.entrances.len() {
            self.open_entrance(entrance);
        }
    }

    pub(super) fn open_entrance(&mut self, entrance: usize) {
        let Entrance { listener, datagrams, token, .. } = &mut self.entrances[entrance];
        *datagrams =
            listener.address().ok().and_then(|address| refuse_datagrams(&address, &self.poll, *token));
        let registered = listener.register(self.poll.registry(), *token);
        match registered.and_then(|()| listener.address()) {
            Ok(address) => {
                let asked = self.credentials.users.is_some()
                    || self.config.edge.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some());
                (self.notice)(Notice::Listening(address.clone()));
                if !address.is_local() && !asked {
                    (self.notice)(Notice::Open(address));
                }
            }
            Err(error) => (self.notice)(Notice::NotAccepting(error.to_string())),
        }
    }
}
