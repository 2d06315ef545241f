//! What a service is to the driver that moves its bytes and tells it the time.
//!
//! ```text
//!            connected(listener) → ClientId           output(client) → bytes that may leave
//! driver ──▶ read(client, bytes, received, now)  ──▶  deadline() → when to tick
//!            written(client, count, now)              paused(client)? finished(client)?
//!            ended / gone / tick(now)                 take_dirty(…) → clients to write to
//! ```
//!
//! A service decides; it has no socket, no clock, no thread and no file, so that a test can drive
//! it through any order of events, and the same events give the same bytes.

#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use krarup_units::{Nanos, Outbox, Stamp};

mod upstreams;

pub use upstreams::{ConnectionLoss, ConnectionNumber, LANES, ProtocolError, Upstreams};

/// One client's connection, as long as it lasts; afterwards the number may be another's.
pub type ClientId = u32;

/// Why the driver disconnects a client that has not ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnect {
    /// It was idle for too long, or its request took too long to arrive.
    TimeLimit,
    /// It held memory without getting on while that was short.
    Memory,
    /// It did not authenticate, or complete its TLS handshake, in time; or too many others had
    /// connected meanwhile.
    Unauthenticated,
}

/// What a loop's thread, and the machine around it, used between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// Passes of the loop.
    pub passes: u64,
    /// Processor time of the thread.
    pub processor: Nanos,
    /// Time in which the thread was ready to run and had no processor.
    pub run_queue: Nanos,
    /// Time in which processors of the machine were at work, whatever for; zero where the system
    /// does not say.
    pub machine_busy: Nanos,
    /// The same with the time in which they were idle: the time that there was.
    pub machine_time: Nanos,
    /// Time in which the machine's busiest link carried bytes at its rate, in the direction in
    /// which it carried more.
    pub link_busy: Nanos,
    /// The same with the time in which it carried none; zero where no link's rate is known.
    pub link_time: Nanos,
}

/// Requests of clients come in as bytes, and replies leave as bytes.
///
/// A call does not block and takes time in proportion to what it is given. Every request that was
/// accepted is answered exactly once, in the order of its client, or its client is gone. Methods
/// with a body are for services that need more than the others.
pub trait Service {
    /// A client has connected at the `listener` of that number.
    fn connected(&mut self, listener: usize, now: Stamp) -> ClientId;

    /// Bytes that `client` has sent and that were not used so far; the last of them came at
    /// `received`. Returns how many are used up. The rest is offered again with more behind it, or
    /// when [`Self::next_runnable`] names the client.
    fn read(&mut self, client: ClientId, bytes: &[u8], received: Stamp, now: Stamp) -> usize;

    /// How many bytes the request has at least of which `client` has sent a part, as far as that is
    /// known; zero if it is not.
    fn needed(&self, client: ClientId) -> usize;

    /// Whether no more is to be read from `client` for now.
    fn paused(&self, client: ClientId) -> bool;

    /// `client` will send no more. What it has asked is still answered.
    fn ended(&mut self, client: ClientId, now: Stamp);

    /// The service stops: `client` is to receive the replies it is owed, and then the end.
    fn dismissed(&mut self, client: ClientId, now: Stamp);

    /// `client` is no more. What it asked has nowhere to go.
    fn gone(&mut self, client: ClientId, now: Stamp);

    /// What may leave to `client`.
    fn output(&self, client: ClientId) -> &Outbox;

    /// So many bytes at the front of `client`'s output have left by `now`.
    fn written(&mut self, client: ClientId, count: usize, now: Stamp);

    /// Whether all replies to `client` have left, and its connection can be closed.
    fn finished(&self, client: ClientId) -> bool;

    /// How many clients are connected.
    fn clients(&self) -> usize;

    /// When [`Self::tick`] is next to be called, if nothing else happens before; none: never.
    fn deadline(&self) -> Option<Stamp>;

    /// It is `now`: what is due is done.
    fn tick(&mut self, now: Stamp);

    /// How many clients were paused and are to be offered their bytes again.
    fn runnable(&self) -> usize;

    /// Takes the first of them.
    fn next_runnable(&mut self) -> Option<ClientId>;

    /// Takes the clients that something may be written to, or that are finished; `into` is emptied
    /// first.
    fn take_dirty(&mut self, into: &mut Vec<ClientId>);

    // ---- connections ----------------------------------------------------------------------------

    /// A client that tried to connect is turned away, because there are as many as may be; what it
    /// is sent, if anything.
    fn turned_away(&mut self) -> &'static [u8] {
        b""
    }

    /// The system gives no more sockets for now; the clients that want to connect wait.
    fn out_of_sockets(&mut self) {}

    /// A client will be disconnected by the driver.
    fn disconnected(&mut self, why: Disconnect) {
        let _ = why;
    }

    /// A client has sent a wrong password.
    fn authentication_failed(&mut self) {}

    /// The driver answers `length` bytes that `client` has sent, or none, with `reply`, behind the
    /// replies that `client` is owed. Only services whose clients have time limits, or
    /// authenticate, need it.
    fn respond(&mut self, client: ClientId, reply: &[u8], length: usize, received: Stamp, now: Stamp) {
        let _ = (client, reply, length, received, now);
    }

    /// Whether `client` is paused by something that its end would make needless, as by waiting for
    /// a message: then its end is noticed although it is paused.
    fn heeds_end(&self, client: ClientId) -> bool {
        let _ = client;
        false
    }

    // ---- reading and writing --------------------------------------------------------------------

    /// Whether `bytes` of a client begin with a whole request that is better lent than copied.
    fn begins_large(&self, bytes: &[u8]) -> bool {
        let _ = bytes;
        false
    }

    /// The same as [`Self::read`] for the bytes `unread` of memory of which pieces may be kept.
    fn read_lent(
        &mut self,
        client: ClientId,
        memory: &Arc<Vec<u8>>,
        unread: Range<usize>,
        received: Stamp,
        now: Stamp,
    ) -> usize {
        self.read(client, &memory[unread], received, now)
    }

    /// Whether `client` is in the middle of sending what is discarded: nothing of it is kept, and
    /// yet its request has begun.
    fn discards(&self, client: ClientId) -> bool {
        let _ = client;
        false
    }

    /// Whether more for `client` will follow so soon that its first bytes may wait for it.
    fn expects_more(&self, client: ClientId) -> bool {
        let _ = client;
        false
    }

    /// Whether requests of `client` that have no reply are carried out, and nothing that is to
    /// leave stands before them: then [`Self::written`] is called with a count of zero.
    fn has_silent_replies(&self, client: ClientId) -> bool {
        let _ = client;
        false
    }

    // ---- the loop -------------------------------------------------------------------------------

    /// What the driver's loop has used since this was last called. Once a second while there is
    /// something to do.
    fn loop_used(&mut self, used: ThreadUse, now: Stamp) {
        let _ = (used, now);
    }

    // ---- memory ---------------------------------------------------------------------------------

    /// Bytes of memory that replies to `client` hold.
    fn held(&self, client: ClientId) -> usize {
        self.output(client).held_by_waiting()
    }

    /// Bytes by which replies have grown since this was last called, where the service makes them
    /// of what it has itself: what it makes of answers was counted when these were read.
    fn take_growth(&mut self) -> usize {
        0
    }

    /// Bytes of memory that requests hold which wait, of all clients.
    fn queued_bytes(&self) -> usize {
        0
    }

    /// What a request of so many bytes will hold, until it is carried out.
    fn memory_of(&self, request: usize) -> usize {
        request
    }

    /// Requests of `client` that were accepted since it connected, and those of them that are not
    /// answered yet. Only services that say which clients ask for how much need it.
    fn requests(&self, client: ClientId) -> (u64, u64) {
        let _ = client;
        (0, 0)
    }

    /// Whether nothing of `client` is under way.
    fn is_idle(&self, client: ClientId) -> bool {
        self.output(client).is_empty() && !self.paused(client)
    }

    /// Whether `client` works at something that it was given and that has its own time limit: then
    /// it may be silent until that is over.
    fn holds_lease(&self, client: ClientId, now: Stamp) -> bool {
        let _ = (client, now);
        false
    }

    /// `client` has been idle for a while: memory that is kept for it may be given back.
    fn rests(&mut self, client: ClientId) {
        let _ = client;
    }

    /// What the driver's buffers hold, and whether clients wait because that is too much.
    fn note_memory(&mut self, used: usize, short: bool) {
        let _ = (used, short);
    }
}
