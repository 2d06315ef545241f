//! Flow control: a client's long request, or one for a long reply, waits for room on the connection
//! that it takes.

use krarup_memcache::Request;
use krarup_memcache::request::LONGEST_NAME;
use krarup_units::Stamp;

use super::Core;
use crate::ids::{ClientId, ConnectionId, RequestId};
use crate::large::LARGE_REQUEST;
use crate::route;
use crate::upstreams::{RequestLength, WindowWait};

impl Core {
    /// Whether the client's next request, of `length` bytes, waits for room on the connection that
    /// it would take.
    #[inline]
    pub(super) fn waits_for_window(
        &mut self,
        id: ClientId,
        request: &Request<'_>,
        length: usize,
        now: Stamp,
    ) -> bool {
        let long = if route::retrieves(request) { self.clients.typical_reply(id) } else { length };
        long >= LARGE_REQUEST && self.upstreams.has_windows() && self.long_waits(id, request, long, now)
    }

    fn long_waits(&mut self, id: ClientId, request: &Request<'_>, long: usize, now: Stamp) -> bool {
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
        let reads = route::retrieves(request);
        let length = if reads { self.length_of_replies(Some(id)) } else { RequestLength::Known };
        let mut full = None;
        for &server in &*self.routing.holders_at_home(self.clients.entry(id), key) {
            match self.upstreams.full(server, id, length, long, now) {
                None => {}
                Some(Err(place)) => full = Some(place),
                // This holder can be read.
                Some(Ok(())) if reads => return false,
                Some(Ok(())) => {}
            }
        }
        let Some((connection, bytes)) = full else { return false };
        let wait = WindowWait { connection, length, bytes, admitted: false };
        self.upstreams.wait(id, &wait);
        self.clients.wait_for_window(id, wait);
        self.books.count(|events| &mut events.held_back);
        true
    }

    fn length_of_replies(&self, client: Option<ClientId>) -> RequestLength {
        let unknown = client.is_some_and(|id| !self.clients.is_known(id));
        if unknown { RequestLength::Unknown } else { RequestLength::Known }
    }

    /// A retrieval was sent on a connection: its reply counts there, where it is likely to be long.
    #[inline]
    pub(super) fn expect_reply(&mut self, connection: ConnectionId, number: RequestId) {
        let exchange = &self.requests[number];
        let (long, taken) = (exchange.expected as usize, exchange.visit.taken);
        if long >= LARGE_REQUEST {
            let length = self.length_of_replies(exchange.client);
            self.upstreams.expect_long(connection, length, long, taken);
        }
    }

    /// A connection has got on: clients whose turn it is are listened to again.
    #[inline]
    pub(super) fn admit_waiting(&mut self, connection: ConnectionId) {
        for length in [RequestLength::Unknown, RequestLength::Known] {
            while let Some(id) = self.upstreams.next_waiting(connection, length) {
                // Of one that came when nothing was known of its replies the first may have come
                // meanwhile.
                let known = length == RequestLength::Unknown && self.clients.is_known(id);
                let known = known.then(|| self.clients.typical_reply(id));
                if let Some(bytes) = known.filter(|&bytes| bytes >= LARGE_REQUEST) {
                    self.upstreams.next_is_known(connection, bytes);
                    let wait =
                        WindowWait { connection, length: RequestLength::Known, bytes, admitted: false };
                    self.clients.wait_for_window(id, wait);
                    continue;
                }
                let Some(bytes) = self.upstreams.admit_next(connection, length, known) else { break };
                self.clients.wait_for_window(id, WindowWait { connection, length, bytes, admitted: true });
                self.clients.make_runnable(id);
            }
        }
    }

    /// A request was accepted of a client that had waited for room, or the client is gone: where it
    /// took none, the next has it.
    #[inline]
    pub(super) fn leave_window(&mut self, id: ClientId) {
        let Some(wait) = self.clients.take_window_wait(id) else { return };
        self.upstreams.leave_window(id, &wait);
        self.admit_waiting(wait.connection);
    }
}
