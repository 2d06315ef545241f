//! One request on its way through: who asked, where its answers are, what its stamps say.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use krarup_memcache::{Expect, MetaCommand, ReplyClass, Response, Retrieval};
use krarup_record::{KeyDigest, Operation, Outcome, ServerVisit, Visit};
use krarup_units::{Lent, Stamp};
use smallvec::SmallVec;

use crate::free_buffers::{FreeBuffers, KEEP};
use crate::ids::{ClientId, PoolId, RequestId, SampleId, ServerId};
use crate::keys::{FEW, KeyList, MOST_PARTS};
use crate::merge::{How, Merge};
use crate::meta::ShownKey;
use crate::routing::KeyLocation;

/// How a request ended that was answered so.
pub(crate) fn outcome_of(class: ReplyClass) -> Outcome {
    match class.severity() {
        0 | 1 => Outcome::Ok,
        2 => Outcome::ClientError,
        _ => Outcome::ServerError,
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for a worker.
    Queued,
    /// Servers have been asked.
    Sent,
    /// All answers are there; older requests of the client are not yet replied to.
    Done,
    /// The reply stands in the client's outbox and ends at this position.
    Rendered(u64),
    /// The reply has left; some server still owes an answer that no client waits for.
    Left,
}

/// What is left to do when the first server has stored a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Copies {
    /// Nothing: all holders were asked at once.
    #[default]
    None,
    /// The other holders get the value, and the reply waits for them: `cas`.
    Awaited,
    /// The other holders get the same whatever the first says, and the reply waits for them: a
    /// write behind a `cas` whose copies are not sent yet.
    Deferred,
    /// The other holders get the same, and no client waits.
    Behind,
    /// If the client has won, the key's first holder has the last word.
    Winner,
}

impl Copies {
    /// Whether the first holder was asked before the others, and the reply waits for them.
    pub(crate) fn follow_decision(self) -> bool {
        matches!(self, Self::Awaited | Self::Deferred)
    }
}

/// What a read says of how long a key is kept, while the first holder has to answer before copies
/// are sent, which would undo it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaterTouch {
    /// The servers that it has changed.
    pub(crate) holders: Vec<ServerId>,
    pub(crate) expect: Expect,
    pub(crate) bytes: Vec<u8>,
}

/// A part of a retrieval: the keys that one server was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetrievalPart {
    pub(crate) server: ServerId,
    /// The pool its keys belong to.
    pub(crate) pool: PoolId,
    /// The part whose keys these were before they had to be looked for elsewhere.
    pub(crate) before: Option<u16>,
    /// Servers that owe an answer for it: two where it was hedged.
    pub(crate) open: u8,
    /// Whether its answer has come.
    pub(crate) answered: bool,
    /// Whether its keys were not found there, so that what is found elsewhere may be stored there.
    pub(crate) missed: bool,
    /// Whether it was sent to a second holder, which one.
    pub(crate) hedged: Option<ServerId>,
    /// Whether it has one of its server's readers, until its answer has come.
    pub(crate) holds_reader: bool,
    /// Whether its servers are asked for the value's flags although the client was not: what they
    /// find is to be stored elsewhere.
    pub(crate) asks_for_flags: bool,
}

/// Which of a request's parts ask which server, of those from a place on.
#[derive(Debug)]
pub(crate) struct PartsByServer {
    old: usize,
    /// Where there are many: the parts by their pool and server, and the first of each pool.
    table: Option<HashMap<(PoolId, Option<ServerId>), u16>>,
    /// The parts before this place stand in the table.
    known: usize,
}

impl PartsByServer {
    pub(crate) fn behind(old: usize) -> Self {
        Self { old, table: None, known: old }
    }

    /// The first part that asks `server`, none: any server, of `pool`.
    #[inline]
    pub(crate) fn find(
        &mut self,
        parts: &[RetrievalPart],
        pool: PoolId,
        server: Option<ServerId>,
    ) -> Option<u16> {
        let new = &parts[self.old..];
        if new.len() > FEW {
            return self.find_among_many(parts, pool, server);
        }
        let asks =
            |part: &RetrievalPart| part.pool == pool && server.is_none_or(|server| part.server == server);
        new.iter().position(asks).map(|found| (self.old + found) as u16)
    }

    fn find_among_many(
        &mut self,
        parts: &[RetrievalPart],
        pool: PoolId,
        server: Option<ServerId>,
    ) -> Option<u16> {
        let table = self.table.get_or_insert_with(HashMap::new);
        for (place, part) in parts.iter().enumerate().skip(self.known) {
            for server in [Some(part.server), None] {
                table.entry((part.pool, server)).or_insert(place as u16);
            }
        }
        self.known = parts.len();
        table.get(&(pool, server)).copied()
    }

    /// The part that asks the server of `new`, which becomes that part where there is none yet;
    /// none where a request may have no more parts.
    #[inline]
    pub(crate) fn find_or_add(&mut self, parts: &mut Vec<RetrievalPart>, new: RetrievalPart) -> Option<u16> {
        let found = self.find(parts, new.pool, Some(new.server));
        found.or_else(|| {
            let number = parts.len();
            (number < MOST_PARTS).then(|| {
                parts.push(new);
                number as u16
            })
        })
    }
}

/// The answer of one of two servers that a part was sent to, which does not have all of its keys:
/// kept until the other has answered.
#[derive(Debug)]
pub(crate) struct PartAnswer {
    part: u16,
    /// Whose it is.
    pub(crate) server: ServerId,
    class: ReplyClass,
    hits: u32,
    bytes: Vec<u8>,
}

impl PartAnswer {
    pub(crate) fn of(part: u16, server: ServerId, reply: &Response<'_>) -> Self {
        Self { part, server, class: reply.class, hits: reply.hits, bytes: reply.bytes.to_vec() }
    }

    /// As it came.
    pub(crate) fn reply(&self) -> Response<'_> {
        Response { class: self.class, hits: self.hits, bytes: &self.bytes }
    }

    /// Whether it has some of the keys.
    pub(crate) fn has_values(&self) -> bool {
        self.hits > 0
    }
}

/// A request and all that is known of it. Kept in an arena: its buffers serve one request after
/// another.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The client that asked; none once it is gone.
    pub(crate) client: Option<ClientId>,
    /// The client's next younger request.
    pub(crate) next: Option<RequestId>,
    pub(crate) stage: Stage,
    pub(crate) visit: Visit,
    pub(crate) servers: SmallVec<[ServerVisit; 1]>,
    /// Parts without an answer that the reply waits for.
    pub(crate) waiting: u32,
    /// Answers that servers owe, awaited or not.
    pub(crate) owed: u32,
    /// One more with each request that uses this place.
    pub(crate) generation: u32,
    /// The pool of the address its client connected to.
    pub(crate) entry: PoolId,
    /// The pool of its first key, of which `visit` has the digest.
    pub(crate) home: PoolId,
    /// Where it is sampled for the hottest keys: until it has left.
    pub(crate) sample: Option<SampleId>,
    /// The pool of its first key, while it counts for the bounds of that and of `other_pools`.
    pub(crate) counted_in: Option<PoolId>,
    /// Whether it is written as `mg` or `me`: the words of it stand in `request`.
    pub(crate) as_meta: bool,
    /// Whether the first holder decides, and the others follow.
    pub(crate) decides: bool,
    pub(crate) copies: Copies,
    /// Whether others may wait for it, or it is a write, or a read that touches, which parts the
    /// gets before it from those behind it.
    pub(crate) leads: bool,
    /// How long its reply was expected to be, until it is known.
    pub(crate) expected: u32,
    /// Why a part could not be answered.
    pub(crate) failure: Option<Outcome>,
    pub(crate) noreply: bool,
    /// A quiet meta request: it is told only what is not as usual.
    pub(crate) quiet: Option<MetaCommand>,
    pub(crate) holds_worker: bool,
    /// What most requests do not need.
    pub(crate) rest: Rest,
}

/// What a request needs that is not the usual one: for one key, asked of one server, whose answer
/// goes on as it is. The usual ones do not touch its memory, of which there is more than of all
/// else that is known of a request.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    needs: Box<Needs>,
    used: bool,
}

/// See [`Rest`].
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub(crate) merge: Merge,
    /// The opaque word of a meta request, as it is traced.
    pub(crate) opaque: Option<u64>,
    /// The key by which the client is told the item, where servers know it by another.
    pub(crate) shown: Option<ShownKey>,
    /// Which retrieval, and its expiry time; for looking again elsewhere.
    pub(crate) retrieval: (Retrieval, i32),
    /// The keys of a retrieval whose parts must be told apart, and who was asked for them.
    pub(crate) keys: KeyList,
    /// The pools of these keys, but for that of the first, in the order of their numbers.
    pub(crate) other_pools: Vec<PoolId>,
    pub(crate) parts: Vec<RetrievalPart>,
    /// Answers that wait for that of another server to the same part.
    pub(crate) incomplete: Vec<PartAnswer>,
    /// Where the key was kept when one of its holders was asked before others: these know it by the
    /// same name and are given the same lifetime, whatever has changed meanwhile.
    pub(crate) location: Option<KeyLocation>,
    /// Whether storing an older value anew would undo it, when its copies are sent, too.
    pub(crate) undone_by_add: bool,
    /// The servers that get copies once the first has stored.
    pub(crate) others: Vec<ServerId>,
    /// What they are sent behind the copies.
    pub(crate) later: Vec<LaterTouch>,
    /// Requests for the same key that wait for this one's answer.
    pub(crate) followers: Vec<RequestId>,
    /// The request's bytes, where they are needed later: it waits in the queue or for a decision,
    /// is a `cas`, or may be asked again elsewhere.
    pub(crate) request: Vec<u8>,
    /// The same where it is large: not copied.
    pub(crate) lent: Option<Lent>,
}

impl Deref for Rest {
    type Target = Needs;

    #[inline]
    fn deref(&self) -> &Needs {
        &self.needs
    }
}

impl DerefMut for Rest {
    #[inline]
    fn deref_mut(&mut self) -> &mut Needs {
        self.used = true;
        &mut self.needs
    }
}

impl Rest {
    /// What was needed so far; none if that is as at the beginning.
    #[inline]
    pub(crate) fn used(&self) -> Option<&Needs> {
        self.used.then_some(&*self.needs)
    }

    /// How answers become one, before the first has come.
    #[inline]
    pub(crate) fn answered_by(&mut self, how: How) {
        if self.used || how != How::One {
            self.merge.begin(how);
        }
    }

    /// As at the beginning, whatever was done after the [end](Self::end).
    #[inline]
    fn begin(&mut self) {
        if std::mem::take(&mut self.used) {
            self.needs.clear();
        }
    }

    /// Puts away what was needed, and gives back the memory of an unusually large one: its place
    /// may not be used again for long.
    #[inline]
    pub(crate) fn end(&mut self, buffers: &mut FreeBuffers) {
        if std::mem::take(&mut self.used) {
            self.needs.merge.end(buffers);
            self.needs.clear();
        }
    }
}

impl Needs {
    /// The request's bytes, where they were kept.
    pub(crate) fn words(&self) -> &[u8] {
        self.lent.as_ref().map_or(&self.request[..], Lent::bytes)
    }

    /// Whether some of these servers are to get copies.
    pub(crate) fn is_copied_to(&self, servers: &[ServerId]) -> bool {
        self.others.iter().any(|other| servers.contains(other))
    }

    /// The answer to a part that has waited for that of another server.
    pub(crate) fn take_incomplete(&mut self, part: u16) -> Option<PartAnswer> {
        let place = self.incomplete.iter().position(|answer| answer.part == part)?;
        Some(self.incomplete.swap_remove(place))
    }

    /// As at the beginning.
    fn clear(&mut self) {
        if self.request.capacity() > KEEP {
            self.request = Vec::new();
        }
        self.request.clear();
        self.lent = None;
        self.opaque = None;
        self.shown = None;
        self.retrieval = (Retrieval::Get, 0);
        self.keys.clear(KEEP);
        self.other_pools.clear();
        self.parts.clear();
        self.incomplete.clear();
        self.location = None;
        self.undone_by_add = false;
        self.others.clear();
        self.later.clear();
        self.followers.clear();
        // There may have been as many as clients.
        self.followers.shrink_to(FEW);
        self.merge.begin(How::One);
    }
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            client: None,
            next: None,
            stage: Stage::Done,
            visit: Visit::at(Stamp(0), Operation::Other),
            servers: SmallVec::new(),
            waiting: 0,
            owed: 0,
            generation: 0,
            entry: PoolId::default(),
            home: PoolId::default(),
            sample: None,
            counted_in: None,
            as_meta: false,
            decides: false,
            copies: Copies::None,
            leads: false,
            expected: 0,
            failure: None,
            noreply: false,
            quiet: None,
            holds_worker: false,
            rest: Rest::default(),
        }
    }
}

impl RetrievalPart {
    pub(crate) fn of(server: ServerId, pool: PoolId, before: Option<u16>) -> Self {
        Self {
            server,
            pool,
            before,
            open: 0,
            answered: false,
            missed: false,
            hedged: None,
            holds_reader: false,
            asks_for_flags: false,
        }
    }

    /// Whether its keys have been asked for at `server`.
    pub(crate) fn was_sent_to(&self, server: ServerId) -> bool {
        self.server == server || self.hedged == Some(server)
    }
}

impl Exchange {
    /// Begins with a new request of `client`, whose last byte came at `received`.
    pub(crate) fn begin(&mut self, client: ClientId, entry: PoolId, operation: Operation, received: Stamp) {
        debug_assert!(
            self.owed == 0 && self.rest.used().is_none_or(|rest| rest.followers.is_empty()),
            "a place is free when nothing refers to it"
        );
        self.rest.begin();
        self.generation = self.generation.wrapping_add(1);
        self.entry = entry;
        self.home = entry;
        self.sample = None;
        self.counted_in = None;
        self.copies = Copies::None;
        self.as_meta = false;
        self.leads = false;
        self.client = Some(client);
        self.next = None;
        self.stage = Stage::Queued;
        self.visit = Visit::at(received, operation);
        self.servers.clear();
        self.waiting = 0;
        self.failure = None;
        self.noreply = false;
        self.decides = false;
        self.quiet = None;
        self.holds_worker = false;
    }

    /// The pools whose bounds it counts for.
    #[inline]
    pub(crate) fn counted_pools(&self) -> impl Iterator<Item = PoolId> {
        let rest = self.rest.used().filter(|_| self.counted_in.is_some());
        self.counted_in.into_iter().chain(rest.into_iter().flat_map(|rest| rest.other_pools.iter().copied()))
    }

    /// Whether it parts the gets of this key, or of all, before it from those behind it.
    pub(crate) fn parts_gets_of(&self, key: KeyDigest) -> bool {
        self.leads
            && match self.visit.operation {
                Operation::Get => self.rest.retrieval.0 != Retrieval::Get,
                Operation::Gat | Operation::Flush => true,
                _ => self.visit.key == key,
            }
    }

    /// A part, and those before it whose keys it looks for again.
    pub(crate) fn lineage(&self, part: u16) -> impl Iterator<Item = RetrievalPart> {
        std::iter::successors(Some(self.rest.parts[usize::from(part)]), |part| {
            part.before.map(|before| self.rest.parts[usize::from(before)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of requests under way there may be thousands, more than the processor's nearest cache holds.
    #[test]
    fn what_a_usual_request_needs_is_four_lines_of_the_cache() {
        assert!(size_of::<Exchange>() <= 256, "{}", size_of::<Exchange>());
    }
}
