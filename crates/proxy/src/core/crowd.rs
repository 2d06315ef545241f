//! Long requests, and requests for long replies, wait for their turn at a connection: what is short waits there behind a few megabytes at most.
//!
//! ```text
//!   client ─▶ its next request is long ─▶ connection full? ──no──▶ asked
//!                                             │ yes
//!                                             ▼
//!                          the client is not listened to; first come, first asked, as answers come
//! ```

use krarup_memcache::Request;
use krarup_memcache::request::LONGEST_NAME;
use krarup_units::{Nanos, Stamp};

use super::{Core, LARGE_REQUEST};
use crate::arena::NOBODY;
use crate::clients::WindowWait;
use crate::route;
use crate::server::{Health, Length};

/// So many bytes may be under way on a connection before what is long waits. A server at the speed of 10 Gbit/s and three milliseconds away has less under way.
const WINDOW: usize = 4 << 20;
/// A reply to a client that has been given none yet counts as so long, where its server had long values of late: 16 of them go at once, whatever
/// else is under way.
const UNKNOWN: usize = 256 << 10;
/// The same before so many answers of a server, by which nothing is known of its values.
const FIRST: u64 = 100;
/// Of late.
const OF_LATE: Nanos = Nanos::from_secs(60);

/// Whether so many bytes more may go where there are `under_way`. What is longer than half of the window goes where no more than the other half is
/// under way: on a busy connection there is always something.
fn fits(window: usize, under_way: usize, bytes: usize) -> bool {
    under_way + bytes.min(window / 2) <= window
}

impl Core {
    /// Whether the client's next request, of `length` bytes, waits for room on the connection that it would take.
    #[inline]
    pub(super) fn is_crowded_out(
        &mut self,
        id: u32,
        request: &Request<'_>,
        length: usize,
        now: Stamp,
    ) -> bool {
        let long = if route::retrieves(request) { self.clients.typical_reply(id) } else { length };
        long >= LARGE_REQUEST && !self.settings.dedicated && self.waits_in_the_crowd(id, request, long, now)
    }

    fn waits_in_the_crowd(&mut self, id: u32, request: &Request<'_>, long: usize, now: Stamp) -> bool {
        if let Some(wait) = self.clients.window_wait(id) {
            return !wait.admitted;
        }
        let mut buffer = [0; LONGEST_NAME];
        let key = match request {
            Request::Retrieve(retrieve) => retrieve.keys.first(),
            Request::Store(store) => store.key,
            Request::Meta(meta) => meta.name(&mut buffer),
            _ => return false,
        };
        let holders = self.routing.holders_at_home(self.clients.entry(id), key);
        let mut full = None;
        let window = self.window();
        let length = if route::retrieves(request) { self.length_of_replies(id) } else { Length::Known };
        for &server in &*holders {
            let connection = self.lane(server, id);
            let link = &self.servers[connection];
            if link.health != Health::Up {
                continue;
            }
            let bytes = match length {
                Length::Known => long,
                Length::Unknown => self.unknown_length(connection, now),
            };
            let under_way = link.under_way(length);
            let others = !link.crowd[length as usize].is_empty();
            if under_way > 0 && bytes > 0 && (!fits(window, under_way, bytes) || others) {
                full = Some((connection, bytes));
            } else if route::retrieves(request) {
                // This holder can be read.
                full = None;
                break;
            }
        }
        let Some((connection, bytes)) = full else { return false };
        self.servers[connection].crowd[length as usize].push_back((id, bytes));
        self.clients.wait_for_window(id, WindowWait { connection, length, bytes, admitted: false });
        self.books.count(|events| &mut events.held_back);
        true
    }

    /// How much that is long may be under way on a connection: with little memory less, so that one client that reads slowly does not use it up.
    fn window(&self) -> usize {
        WINDOW.min(self.settings.replies / 2)
    }

    fn length_of_replies(&self, id: u32) -> Length {
        if id == NOBODY || self.clients.is_known(id) { Length::Known } else { Length::Unknown }
    }

    /// How long a reply counts whose length nobody can know: not at all where those of this connection are short.
    fn unknown_length(&self, connection: usize, now: Stamp) -> usize {
        let link = &self.servers[self.server_of(connection)];
        let of_late = |had: Stamp| now.0.saturating_sub(had.0) < OF_LATE.0;
        if link.answered_since_up < FIRST || link.had_long.is_some_and(of_late) { UNKNOWN } else { 0 }
    }

    /// A retrieval was asked on a connection: its reply counts there, where it is likely to be long.
    #[inline]
    pub(super) fn expect_reply(&mut self, connection: usize, number: u32) {
        let exchange = &self.requests[number];
        let long = exchange.expected as usize;
        if long >= LARGE_REQUEST {
            let length = self.length_of_replies(exchange.client);
            let bytes = match length {
                Length::Known => long,
                Length::Unknown => self.unknown_length(connection, exchange.visit.taken),
            };
            self.servers[connection].expect_long(length, bytes);
        }
    }

    /// A connection has got on: those whose turn it is are listened to again.
    #[inline]
    pub(super) fn let_in(&mut self, connection: usize) {
        for length in [Length::Unknown, Length::Known] {
            if !self.servers[connection].crowd[length as usize].is_empty() {
                self.let_in_the_crowd(connection, length);
            }
        }
    }

    fn let_in_the_crowd(&mut self, connection: usize, length: Length) {
        let window = self.window();
        let link = &mut self.servers[connection];
        let mut under_way = link.under_way(length);
        while let Some(&(id, bytes)) = link.crowd[length as usize].front()
            && (fits(window, under_way, bytes) || link.health != Health::Up)
        {
            link.crowd[length as usize].pop_front();
            under_way += bytes;
            link.let_in[length as usize] += bytes;
            self.clients.wait_for_window(id, WindowWait { connection, length, bytes, admitted: true });
            self.clients.run_again(id);
        }
    }

    /// A request was accepted of a client that had waited for room, or the client is gone: where it took none, the next has it.
    #[inline]
    pub(super) fn leave_the_crowd(&mut self, id: u32) {
        let Some(WindowWait { connection, length, bytes, admitted }) = self.clients.take_window_wait(id)
        else {
            return;
        };
        let link = &mut self.servers[connection];
        if admitted {
            link.let_in[length as usize] -= bytes;
        } else {
            link.crowd[length as usize].retain(|&(other, _)| other != id);
        }
        self.let_in(connection);
    }
}
