//! The connections of a service's clients, on one thread and edge-triggered: who comes in, what is read and written, who goes.
//!
//! ```text
//!        ┌─▶ wait        for readiness, or for what is due next
//!        │   serve       read ─▶ Service::read          a few reads of each
//!        └── flush       write ◀─ Service::output       until nobody has anything that can be written
//! ```
//!
//! Each of the two has a [`Slice`] of time. What takes longer goes on in the next pass, behind what others have asked for meanwhile.

use std::io::{self, Write};

use krarup_net::mio::{Events, Poll, Registry, Token};
use krarup_net::tls::Acceptor;
use krarup_net::{Clock, Conn, Listener, Moved, Stream, listen};
use krarup_service::{ClientId, Service};
use krarup_units::{Inbox, Nanos, Stamp};

use crate::slice::Slice;

/// Tokens below this are its owner's, for what else the owner listens to.
const LISTENERS: usize = 8;
/// Clients have the tokens from here on.
const CLIENTS: usize = 16;

/// What one read may bring. Clients share the buffer; what makes no whole request is kept apart.
const READ: usize = 256 << 10;
/// Reads of one client in one pass.
const READS_A_PASS: usize = 4;
/// Memory that a quiet client keeps.
const KEEP: usize = 4 << 10;
/// How soon to try again after the system would give no more sockets.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(50);

/// How clients connect.
#[derive(Debug)]
pub(crate) struct Settings {
    /// How many may be connected at once.
    pub(crate) connections: usize,
    /// Greets clients, who then speak TLS; none: in plain text.
    pub(crate) tls: Option<Acceptor>,
    /// A client that vanished without a word is noticed after this time.
    pub(crate) keep_alive: Nanos,
}

/// A client's socket.
#[derive(Debug)]
struct Link {
    conn: Conn,
    inbox: Inbox,
    received: Stamp,
    readable: bool,
    writable: bool,
    /// The system has announced the end: reads go on until they find it.
    end_near: bool,
    /// Whether it is among those that are ready.
    listed: bool,
    /// Whether the service knows that no more will come.
    ended: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Driver {
    settings: Settings,
    clock: Clock,
    poll: Poll,
    /// Where clients come in; none once a stop was asked for.
    listeners: Vec<Listener>,
    /// Whether somebody may be waiting to be let in.
    accept: Accept,
    refused: Option<io::Error>,
    links: Vec<Option<Link>>,
    /// Clients that may have more to read than one pass took.
    ready: Vec<ClientId>,
    /// Clients that may take more than was written to them in their turn, or go on.
    unfinished: Vec<ClientId>,
    /// Nothing is read any more once a socket is empty.
    stopping: bool,
    slice: Slice,
    scratch: Vec<u8>,
    some: Vec<ClientId>,
}

/// Whether somebody may be waiting to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accept {
    /// The listener will tell.
    Idle,
    /// It has told.
    Now,
    /// As soon as a client has gone, or at this time.
    Again(Stamp),
}

impl Driver {
    /// Its owner may have registered something with `poll` under tokens below eight.
    pub(crate) fn new(settings: Settings, poll: Poll, clock: Clock) -> Self {
        Self {
            settings,
            clock,
            poll,
            listeners: Vec::new(),
            accept: Accept::Idle,
            refused: None,
            links: Vec::new(),
            ready: Vec::new(),
            unfinished: Vec::new(),
            stopping: false,
            slice: Slice::default(),
            scratch: vec![0; READ],
            some: Vec::new(),
        }
    }

    /// Where its owner registers what else it listens to.
    pub(crate) fn registry(&self) -> &Registry {
        self.poll.registry()
    }

    /// Clients come in here too; the service knows the listener by its place, from zero on.
    pub(crate) fn listen_at(&mut self, mut listener: Listener) -> io::Result<()> {
        listener.register(self.poll.registry(), Token(LISTENERS + self.listeners.len()))?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Where clients come in.
    pub(crate) fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Waits until something happens or is `due`.
    pub(crate) fn wait(&mut self, events: &mut Events, due: Option<Stamp>) -> io::Result<()> {
        let again = match self.accept {
            Accept::Again(time) => Some(time),
            _ => None,
        };
        let limit = if self.has_more_to_do() {
            Some(Nanos::ZERO)
        } else {
            // One nanosecond more than nothing, so that what is due at an instant is due when it is looked at.
            let next = due.into_iter().chain(again).min();
            next.map(|next| Nanos(next.0.saturating_sub(self.clock.now().0) + 1))
        };
        match self.poll.poll(events, limit.map(Nanos::as_duration)) {
            // Whatever interrupted it is announced by the poll itself.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            result => result,
        }
    }

    fn has_more_to_do(&self) -> bool {
        !self.ready.is_empty() || !self.unfinished.is_empty() || self.slice.is_spent()
    }

    /// Hears of connections, lets clients in and reads from them. Events under its owner's tokens are the owner's.
    pub(crate) fn serve(&mut self, service: &mut impl Service, events: &Events) {
        self.slice.begin();
        for event in events {
            let Token(token) = event.token();
            if (LISTENERS..CLIENTS).contains(&token) {
                self.accept = Accept::Now;
            }
            let Some(id) = token.checked_sub(CLIENTS) else { continue };
            // One that has gone in this very batch may still be told of.
            let Some(link) = self.links.get_mut(id).and_then(Option::as_mut) else { continue };
            let end_near = event.is_read_closed() || event.is_error();
            link.writable |= event.is_writable();
            link.end_near |= end_near;
            link.readable |= event.is_readable() || end_near;
            let id = id as ClientId;
            if event.is_writable() {
                if link.conn.is_waiting() {
                    // Where it fails, reading will find out.
                    let _ = link.conn.flush();
                }
                self.write(service, id);
            }
            self.list(id);
        }
        if match self.accept {
            Accept::Idle => false,
            Accept::Now => true,
            Accept::Again(time) => time <= self.clock.now(),
        } {
            self.accept(service);
        }
        let mut ready = std::mem::take(&mut self.ready);
        for id in ready.drain(..) {
            if let Some(Some(link)) = self.links.get_mut(id as usize) {
                link.listed = false;
                self.read(service, id);
            }
        }
        if self.ready.is_empty() {
            self.ready = ready;
        }
    }

    /// Why clients cannot be let in, if that was so since the last call.
    pub(crate) fn take_refusal(&mut self) -> Option<io::Error> {
        self.refused.take()
    }

    fn list(&mut self, id: ClientId) {
        if let Some(Some(link)) = self.links.get_mut(id as usize)
            && !std::mem::replace(&mut link.listed, true)
        {
            self.ready.push(id);
        }
    }

    // ---- reading ----------------------------------------------------------------------------------------

    /// Reads what a client has sent, a few times at most.
    fn read(&mut self, service: &mut impl Service, id: ClientId) {
        for _ in 0..READS_A_PASS {
            let Some(link) = self.links.get_mut(id as usize).and_then(Option::as_mut) else { return };
            if !link.readable {
                return;
            }
            // Who is not heard is not read from either; but the end of one who waits must be noticed.
            if service.paused(id) && (!link.end_near || !link.inbox.is_empty()) {
                return;
            }
            if self.slice.is_spent() {
                break;
            }
            let kept = !link.inbox.is_empty();
            let missing = service.needed(id).saturating_sub(link.inbox.unread().len());
            let room = if kept { link.inbox.room(missing.max(READ / 4)) } else { &mut self.scratch[..] };
            let length = room.len();
            match link.conn.read(room) {
                Moved::Some(count) => {
                    let now = self.clock.now();
                    self.slice.passes(now);
                    link.received = now;
                    let emptied = count < length && !link.end_near;
                    link.readable = !emptied;
                    if kept {
                        link.inbox.filled(count);
                        self.offer(service, id);
                    } else {
                        let used = service.read(id, &self.scratch[..count], now, now);
                        link.inbox.append(&self.scratch[used..count]);
                    }
                    if emptied && self.stopping {
                        return self.end(service, id);
                    }
                }
                Moved::None => {
                    link.readable = false;
                    if self.stopping {
                        self.end(service, id);
                    }
                }
                Moved::Closed => {
                    link.readable = false;
                    return self.end(service, id);
                }
                Moved::Failed(_) => return self.lose(service, id),
            }
        }
        self.list(id);
    }

    fn end(&mut self, service: &mut impl Service, id: ClientId) {
        if let Some(Some(link)) = self.links.get_mut(id as usize)
            && !std::mem::replace(&mut link.ended, true)
        {
            service.ended(id, self.clock.now());
        }
    }

    /// Offers the service what a client sent earlier.
    fn offer(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(link) = self.links.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let used = service.read(id, link.inbox.unread(), link.received, self.clock.now());
        link.inbox.consume(used);
        link.inbox.shrink(KEEP);
    }

    // ---- writing ----------------------------------------------------------------------------------------

    /// Writes until nobody has anything that can be written.
    pub(crate) fn flush(&mut self, service: &mut impl Service) {
        self.slice.begin();
        let mut some = std::mem::take(&mut self.some);
        for id in std::mem::take(&mut self.unfinished) {
            self.write(service, id);
        }
        loop {
            service.take_runnable(&mut some);
            let mut nothing = some.is_empty();
            for &id in &some {
                self.offer(service, id);
                self.read(service, id);
            }
            service.take_dirty(&mut some);
            nothing &= some.is_empty();
            for &id in &some {
                self.write(service, id);
            }
            if nothing || self.slice.passes(self.clock.now()) {
                break;
            }
        }
        self.some = some;
    }

    fn write(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(link) = self.links.get_mut(id as usize).and_then(Option::as_mut) else { return };
        while link.writable && !service.output(id).is_empty() {
            if self.slice.is_spent() {
                return self.unfinished.push(id);
            }
            let output = service.output(id);
            let length = output.len();
            match link.conn.write(output) {
                Moved::Some(count) => {
                    let now = self.clock.now();
                    self.slice.passes(now);
                    link.writable = count == length;
                    service.written(id, count, now);
                }
                Moved::None => link.writable = false,
                Moved::Closed | Moved::Failed(_) => return self.lose(service, id),
            }
        }
        if service.output(id).is_empty() {
            service.written(id, 0, self.clock.now());
        }
        if service.finished(id) && !link.conn.is_waiting() {
            link.conn.finish();
            self.lose(service, id);
        }
    }

    fn lose(&mut self, service: &mut impl Service, id: ClientId) {
        if self.links[id as usize].take().is_some() {
            service.gone(id, self.clock.now());
            if self.accept != Accept::Idle {
                self.accept = Accept::Now;
                self.accept(service);
            }
        }
    }

    // ---- coming and going -------------------------------------------------------------------------------

    fn accept(&mut self, service: &mut impl Service) {
        self.accept = Accept::Idle;
        for place in 0..self.listeners.len() {
            loop {
                match self.listeners[place].accept() {
                    Ok(stream) => self.admit(service, stream, place),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if listen::is_of_one(&error) => {}
                    Err(error) => {
                        // Out of descriptors, most likely: others must close first.
                        service.out_of_sockets();
                        self.refused = Some(error);
                        self.accept = Accept::Again(self.clock.now() + ACCEPT_PAUSE);
                        return;
                    }
                }
            }
        }
    }

    fn admit(&mut self, service: &mut impl Service, mut stream: Stream, listener: usize) {
        if service.clients() >= self.settings.connections {
            let word = service.turned_away();
            if self.settings.tls.is_none() && !word.is_empty() {
                // An empty socket takes one line at once, or its client is gone.
                let _ = stream.write(word);
            }
            return;
        }
        let now = self.clock.now();
        let id = service.connected(listener, now);
        let token = Token(CLIENTS + id as usize);
        let greeted = Conn::accepted(stream, self.poll.registry(), token).and_then(|mut conn| {
            if let Some(acceptor) = &self.settings.tls {
                conn.encrypt_accepted(acceptor)?;
            }
            Ok(conn)
        });
        let Ok(conn) = greeted else { return service.gone(id, now) };
        // Whose socket does not know it does without.
        let _ = conn.keep_alive(self.settings.keep_alive);
        if self.links.len() <= id as usize {
            self.links.resize_with(id as usize + 1, || None);
        }
        self.links[id as usize] = Some(Link {
            conn,
            inbox: Inbox::default(),
            received: now,
            readable: true,
            writable: true,
            end_near: false,
            listed: false,
            ended: false,
        });
        self.list(id);
    }

    /// Nobody comes in any more. What has arrived is still answered; then each client hears the end.
    pub(crate) fn stop(&mut self, service: &mut impl Service) {
        // Who has connected is heard.
        self.accept(service);
        self.listeners.clear();
        self.accept = Accept::Idle;
        self.stopping = true;
        for id in 0..self.links.len() as ClientId {
            if let Some(link) = &mut self.links[id as usize] {
                // The last look into its socket.
                link.readable = true;
                self.slice.begin();
                self.read(service, id);
                if self.links[id as usize].is_some() {
                    service.dismissed(id, self.clock.now());
                }
            }
        }
    }
}
