//! What a service is to the driver that moves its bytes and tells it the time.
//!
//! ```text
//!            connected(listener) → ClientId           output(client) → bytes that may leave
//! driver ──▶ read(client, bytes, received, now)  ──▶  deadline() → when to tick
//!            written(client, count, now)              paused(client)? finished(client)?
//!            ended / gone / tick(now)                 take_dirty(…) → whom to write to
//! ```
//!
//! A service decides; it has no socket, no clock, no thread and no file, so that a test can drive it through any order of events, and the same
//! events give the same bytes.

#![forbid(unsafe_code)]

use krarup_units::Stamp;

/// One client's connection, as long as it lasts; afterwards the number may be another's.
pub type ClientId = u32;

/// Requests of clients come in as bytes, and replies leave as bytes.
///
/// A call does not block and takes time in proportion to what it is given. Every request that was accepted is answered exactly once, in the order of
/// its client, or its client is gone.
pub trait Service {
    /// A client has connected at the `listener` of that number.
    fn connected(&mut self, listener: usize, now: Stamp) -> ClientId;

    /// A client that tried to connect is turned away, because there are as many as may be; what is said to it, if anything.
    fn turned_away(&mut self) -> &'static [u8] {
        b""
    }

    /// The system gives no more sockets for now; those who want to connect wait.
    fn out_of_sockets(&mut self) {}

    /// Bytes that `client` has sent and that were not used so far; the last of them came at `received`. Returns how many are used up. The rest is
    /// offered again with more behind it, or when [`Self::take_runnable`] names the client.
    fn read(&mut self, client: ClientId, bytes: &[u8], received: Stamp, now: Stamp) -> usize;

    /// How many bytes the request has at least of which `client` has sent a part, as far as that is known; zero if it is not.
    fn needed(&self, client: ClientId) -> usize {
        let _ = client;
        0
    }

    /// Whether no more is to be read from `client` for now.
    fn paused(&self, client: ClientId) -> bool;

    /// `client` will send no more. What it has asked is still answered.
    fn ended(&mut self, client: ClientId, now: Stamp);

    /// The service stops: `client` is to hear what it is owed, and then the end.
    fn dismissed(&mut self, client: ClientId, now: Stamp);

    /// `client` is no more. What it asked has nowhere to go.
    fn gone(&mut self, client: ClientId, now: Stamp);

    /// What may leave to `client`.
    fn output(&self, client: ClientId) -> &[u8];

    /// So many bytes at the front of `client`'s output have left. None have when there was nothing to send: then what was carried out without a
    /// reply is over.
    fn written(&mut self, client: ClientId, count: usize, now: Stamp);

    /// Whether all is said to `client`, and its connection can be closed.
    fn finished(&self, client: ClientId) -> bool;

    /// How many clients are connected.
    fn clients(&self) -> usize;

    /// When [`Self::tick`] is next to be called, if nothing else happens before; none: never.
    fn deadline(&self) -> Option<Stamp>;

    /// It is `now`: what is due is done.
    fn tick(&mut self, now: Stamp);

    /// Takes the clients that were paused and are to be offered their bytes again; `into` is emptied first.
    fn take_runnable(&mut self, into: &mut Vec<ClientId>);

    /// Takes the clients to whom something may be written, or who are finished; `into` is emptied first.
    fn take_dirty(&mut self, into: &mut Vec<ClientId>);
}
