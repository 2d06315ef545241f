//! Clients' connections, without their sockets: the requests of each in the order they came, its
//! replies in the same order, and which clients are to be written to or offered their bytes again.

use std::collections::VecDeque;

use krarup_units::{Outbox, Stamp};

use crate::arena::Arena;
use crate::books::Books;
use crate::exchange::{Copies, Exchange, Stage};
use crate::ids::{ClientId, Identifier, PoolId, RequestId};
use crate::requests::Requests;
use crate::upstreams::WindowWait;

mod replies;

/// Memory kept for the replies of a client that has read them all, in bytes.
const KEEP: usize = 64 << 10;

/// All clients that are connected, by number.
#[derive(Debug)]
pub(crate) struct Clients {
    all: Arena<ClientId, Client>,
    /// The numbers of the clients that something may be written to, or that are finished.
    dirty: Vec<u32>,
    /// Clients that were held back and are to be offered their bytes again.
    runnable: VecDeque<ClientId>,
    /// Clients that wait for room in the queue, first come first served.
    waiting_for_room: VecDeque<ClientId>,
    /// What their buffers hold, and whether clients wait because that is too much. The driver
    /// counts it.
    memory: (usize, bool),
}

/// A client, without its socket.
#[derive(Debug, Default)]
struct Client {
    /// The pool its keys belong to unless a route says otherwise.
    entry: PoolId,
    /// Replies on their way out.
    out: Outbox,
    /// The oldest request not yet replied to; requests are linked from old to young.
    oldest: Option<RequestId>,
    /// The youngest one.
    youngest: Option<RequestId>,
    /// The oldest one whose reply has not been put into `out`.
    next_to_render: Option<RequestId>,
    /// Requests not yet replied to.
    outstanding: u32,
    /// Since when there have been some.
    waits_since: Option<Stamp>,
    /// Requests since it connected.
    requests: u64,
    /// A request that must be done before the next may be read.
    barrier: Option<RequestId>,
    /// No more requests are read: it said `quit`, or broke the protocol.
    closing: bool,
    /// How long the request is that is not whole yet, from its first byte, as far as that is known;
    /// zero if there is none.
    needed: usize,
    /// The same where its line is whole: the value that is coming was agreed to, and is taken under
    /// whatever limit holds then.
    promised: usize,
    /// How long a reply to it is: the longest of late.
    typical_reply: usize,
    /// Whether it has been given a value, so that this is known.
    known: bool,
    /// For what its next request waits, or has waited.
    wait: Option<WindowWait>,
    /// Bytes of a refused value that are still to come.
    to_discard: u64,
    /// What to do when they have come.
    refused: Option<Box<Refused>>,
    /// Whether it is among the waiting_for_room, the dirty, the runnable.
    waiting_for_room: bool,
    dirty: bool,
    runnable: bool,
    /// Whether it holds back requests that the driver has offered.
    held_back: bool,
}

/// A value that is not taken.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Why.
    pub(crate) reply: &'static [u8],
    /// The key whose old value must go, for a `set` with a value over the limit, and whether it is
    /// in base64.
    pub(crate) key: Option<(Vec<u8>, bool)>,
    pub(crate) noreply: bool,
    pub(crate) bytes_in: u64,
}

impl Clients {
    pub(crate) fn new() -> Self {
        Self {
            all: Arena::new(),
            dirty: Vec::new(),
            runnable: VecDeque::new(),
            waiting_for_room: VecDeque::new(),
            memory: (0, false),
        }
    }

    /// How many are connected.
    pub(crate) fn len(&self) -> usize {
        self.all.used()
    }

    // ---- coming and going -----------------------------------------------------------------------

    /// A client has connected where keys belong to the pool `entry`. As long as nothing is known of
    /// it, its replies count as so long.
    pub(crate) fn open(&mut self, entry: PoolId, typical_reply: usize) -> ClientId {
        let id = self.all.take();
        let out = std::mem::take(&mut self.all[id].out);
        self.all[id] = Client { out, entry, typical_reply, ..Client::default() };
        id
    }

    /// No more requests of it are read.
    pub(crate) fn end(&mut self, id: ClientId) {
        self.all[id].closing = true;
        self.touch(id);
    }

    /// Its requests are not its own any more: the oldest of them, from which the others are linked.
    pub(crate) fn abandon(&mut self, id: ClientId) -> Option<RequestId> {
        self.all[id].oldest.take()
    }

    /// It is gone, and its number may be another's.
    pub(crate) fn close(&mut self, id: ClientId) {
        let client = &mut self.all[id];
        client.out.clear();
        client.out.shrink(0);
        let (dirty, runnable, waiting_for_room) = (client.dirty, client.runnable, client.waiting_for_room);
        if dirty {
            self.dirty.retain(|&other| other != id.number());
        }
        if runnable {
            self.runnable.retain(|&other| other != id);
        }
        if waiting_for_room {
            self.waiting_for_room.retain(|&other| other != id);
        }
        self.all.give_back(id);
    }

    /// Whether everything it asked has been replied to and nothing more will be.
    pub(crate) fn is_finished(&self, id: ClientId) -> bool {
        let client = &self.all[id];
        client.closing && client.outstanding == 0 && client.out.is_empty()
    }

    /// Whether nothing of it is under way.
    pub(crate) fn is_idle(&self, id: ClientId) -> bool {
        let client = &self.all[id];
        client.outstanding == 0 && client.out.is_empty() && client.to_discard == 0
    }

    // ---- requests -------------------------------------------------------------------------------

    /// The pool its keys belong to unless a route says otherwise.
    #[inline]
    pub(crate) fn entry(&self, id: ClientId) -> PoolId {
        self.all[id].entry
    }

    /// A new request of it is the youngest from now on.
    #[inline]
    pub(crate) fn append(&mut self, id: ClientId, number: RequestId, requests: &mut Requests) {
        let client = &mut self.all[id];
        client.outstanding += 1;
        client.waits_since.get_or_insert(requests[number].visit.received);
        client.requests += 1;
        client.next_to_render.get_or_insert(number);
        let before = client.youngest.replace(number);
        if client.oldest.is_none() {
            client.oldest = Some(number);
        } else if let Some(before) = before {
            requests[before].next = Some(number);
        }
    }

    /// Its requests since it connected, and those of them that are not replied to.
    pub(crate) fn requests(&self, id: ClientId) -> (u64, u64) {
        let client = &self.all[id];
        (client.requests, u64::from(client.outstanding))
    }

    /// No request of it is read before its youngest one is done.
    pub(crate) fn wait_for_youngest(&mut self, id: ClientId) {
        let client = &mut self.all[id];
        client.barrier = client.youngest;
    }

    /// Whether requests of it are not replied to.
    #[inline]
    pub(crate) fn has_outstanding(&self, id: ClientId) -> bool {
        self.all[id].outstanding > 0
    }

    /// Whether any request of it, or a copy of one, is still to be sent to servers.
    pub(crate) fn has_unsent(&self, id: ClientId, requests: &Requests) -> bool {
        let next = |&number: &RequestId| requests[number].next;
        std::iter::successors(self.all[id].next_to_render, next).any(|number| {
            let Exchange { stage, copies, .. } = &requests[number];
            *stage == Stage::Queued || *stage == Stage::Sent && *copies != Copies::None
        })
    }

    /// Whether a request of it before this one, whose reply has not been put into `out`, changes
    /// the key of this one.
    pub(crate) fn awaits_change(&self, id: ClientId, number: RequestId, requests: &Requests) -> bool {
        let key = requests[number].visit.key;
        let next = |&number: &RequestId| requests[number].next;
        std::iter::successors(self.all[id].next_to_render, next)
            .take_while(|&before| before != number)
            .any(|before| requests[before].parts_gets_of(key))
    }

    /// Since when it has waited for replies, if it does no longer; told once.
    #[inline]
    pub(crate) fn take_wait(&mut self, id: ClientId) -> Option<Stamp> {
        let client = &mut self.all[id];
        if client.outstanding == 0 { client.waits_since.take() } else { None }
    }

    /// How long a reply to it is: the longest of late.
    #[inline]
    pub(crate) fn typical_reply(&self, id: ClientId) -> usize {
        self.all[id].typical_reply
    }

    /// Whether it has been given a value, so that this is known.
    #[inline]
    pub(crate) fn is_known(&self, id: ClientId) -> bool {
        self.all[id].known
    }

    /// How long the request is at least that it has sent a part of; zero where it has not, or
    /// nothing is known.
    pub(crate) fn needed(&self, id: ClientId) -> usize {
        self.all[id].needed
    }

    /// The same where its value was agreed to.
    #[inline]
    pub(crate) fn promised(&self, id: ClientId) -> usize {
        self.all[id].promised
    }

    /// It has sent a part of a request of so many bytes; of a value it is known that it will be so
    /// long.
    #[inline]
    pub(crate) fn needs(&mut self, id: ClientId, needed: usize, promised: usize) {
        let client = &mut self.all[id];
        (client.needed, client.promised) = (needed, promised);
    }

    /// It is sending a value that is not taken, of which so many bytes are still to come.
    pub(crate) fn refuse(&mut self, id: ClientId, to_discard: u64, refused: Refused) {
        let client = &mut self.all[id];
        client.to_discard = to_discard;
        client.refused = Some(Box::new(refused));
    }

    /// Whether it is sending a value that is not taken.
    #[inline]
    pub(crate) fn discards(&self, id: ClientId) -> bool {
        self.all[id].to_discard > 0
    }

    /// It has sent `count` bytes while it is sending a value that is not taken: how many of them
    /// belong to that, and what is to be done if it is over.
    pub(crate) fn discard(&mut self, id: ClientId, count: usize) -> (usize, Option<Box<Refused>>) {
        let client = &mut self.all[id];
        let gone = client.to_discard.min(count as u64);
        client.to_discard -= gone;
        let over = client.to_discard == 0;
        (gone as usize, if over { client.refused.take() } else { None })
    }

    // ---- being listened to ----------------------------------------------------------------------

    /// Whether one more request of it may be read, where there is `room` in the queue or not, at
    /// most `pipeline` requests may be under way and so many bytes of replies wait for it; if not,
    /// it is offered its bytes again when it may.
    #[inline]
    pub(crate) fn listens(
        &mut self,
        id: ClientId,
        room: bool,
        pipeline: u32,
        reply_buffer: usize,
        books: &mut Books,
    ) -> bool {
        let client = &mut self.all[id];
        let own = !client.closing
            && client.barrier.is_none()
            && client.outstanding < pipeline
            && client.out.len() < reply_buffer;
        if own && !room && !client.waiting_for_room {
            client.waiting_for_room = true;
            self.waiting_for_room.push_back(id);
        }
        let listens = own && room;
        books.count_if(!listens && !client.held_back && !client.closing, |events| &mut events.held_back);
        client.held_back = !listens;
        listens
    }

    /// Its next request is not read for now.
    pub(crate) fn hold_back(&mut self, id: ClientId) {
        self.all[id].held_back = true;
    }

    /// Whether its next request is not read for now.
    #[inline]
    pub(crate) fn is_held_back(&self, id: ClientId) -> bool {
        self.all[id].held_back
    }

    /// It is to be offered its bytes again.
    pub(crate) fn make_runnable(&mut self, id: ClientId) {
        if !std::mem::replace(&mut self.all[id].runnable, true) {
            self.runnable.push_back(id);
        }
    }

    /// Something has got on: it is to be offered its bytes again if it was held back, unless it
    /// waits for room in the queue.
    #[inline]
    pub(crate) fn resume(&mut self, id: ClientId) {
        let client = &self.all[id];
        if client.held_back && !client.waiting_for_room {
            self.make_runnable(id);
        }
    }

    /// Whether any client waits for room in the queue.
    #[inline]
    pub(crate) fn any_waiting_for_room(&self) -> bool {
        !self.waiting_for_room.is_empty()
    }

    /// There is room in the queue for one.
    pub(crate) fn admit_one(&mut self) {
        if let Some(id) = self.waiting_for_room.pop_front() {
            self.all[id].waiting_for_room = false;
            self.make_runnable(id);
        }
    }

    /// How many are to be offered their bytes again.
    pub(crate) fn runnable(&self) -> usize {
        self.runnable.len()
    }

    /// The next that is to be offered its bytes again.
    pub(crate) fn next_runnable(&mut self) -> Option<ClientId> {
        let id = self.runnable.pop_front()?;
        let client = &mut self.all[id];
        (client.runnable, client.held_back) = (false, false);
        Some(id)
    }

    /// For what its next request waits, or has waited, on a connection to a server.
    #[inline]
    pub(crate) fn window_wait(&self, id: ClientId) -> Option<WindowWait> {
        self.all[id].wait
    }

    pub(crate) fn wait_for_window(&mut self, id: ClientId, wait: WindowWait) {
        self.all[id].wait = Some(wait);
    }

    /// Its next request has taken the room that it waited for, or does not need it.
    #[inline]
    pub(crate) fn take_window_wait(&mut self, id: ClientId) -> Option<WindowWait> {
        self.all[id].wait.take()
    }

    // ---- written to -----------------------------------------------------------------------------

    /// There may be something to write to it, or it is finished.
    #[inline]
    pub(crate) fn touch(&mut self, id: ClientId) {
        let client = &mut self.all[id];
        if !client.dirty {
            client.dirty = true;
            self.dirty.push(id.number());
        }
    }

    /// Whether there are any to be written to, or to be offered their bytes again.
    pub(crate) fn has_news(&self) -> bool {
        !(self.dirty.is_empty() && self.runnable.is_empty())
    }

    /// Takes the clients that something may be written to, or that are finished; `into` is emptied
    /// first.
    pub(crate) fn take_dirty(&mut self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for &id in &*into {
            self.all[ClientId::new(id)].dirty = false;
        }
    }

    /// Replies on their way to it.
    #[inline]
    pub(crate) fn outbox(&self, id: ClientId) -> &Outbox {
        &self.all[id].out
    }

    /// So many bytes of its replies have left.
    #[inline]
    pub(crate) fn written(&mut self, id: ClientId, count: usize, requests: &mut Requests) {
        let out = &mut self.all[id].out;
        out.advance_and(count, |piece| {
            if let Some(memory) = piece.into_whole() {
                requests.reuse(memory);
            }
        });
        out.shrink(KEEP);
    }

    /// It has been quiet for a while: the memory of its replies is given back.
    pub(crate) fn rest(&mut self, id: ClientId) {
        self.all[id].out.shrink(0);
    }

    /// What their buffers hold, and whether clients wait because that is too much.
    pub(crate) fn note_memory(&mut self, used: usize, short: bool) {
        self.memory = (used, short);
    }

    /// The same, as it was noted.
    pub(crate) fn memory(&self) -> (usize, bool) {
        self.memory
    }
}
