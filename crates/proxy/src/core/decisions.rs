//! Decisions under way: what comes for a key between a `cas`, or a write with copies
//! behind it, and these copies.
//!
//! ```text
//! cas       ─▶ first holder ─ STORED ─▶ set ─▶ the others
//!    append ─▶ first holder ─ STORED ─▶ append ─▶ the others
//! ```
//!
//! The first holder carries out what it is sent in that order. So what another client writes behind
//! a decision goes to it alone, too, and to the others when it has answered: behind the copy, which
//! would undo it. What has reached the others already is put in order otherwise: where nothing is
//! left of the key (it was flushed, or its new value was too large) there is nothing to copy any
//! more, and a read that has set how long it is kept says so behind the copy once more.
//!
//! After a reload, when a server is back, or by another pool, another holder may be the first: it
//! has no part in that order. What is written then waits until the earlier first has answered, and
//! is sent behind its copies; and so does, in its turn, what comes for the key while that waits.
//!
//! Each loop knows of its own decisions, and each connection has its own order: what comes by
//! another one may still overtake a copy.

use krarup_memcache::{MetaCommand, ReplyClass, Request, Storage, request, write};
use krarup_record::KeyDigest;
use krarup_units::Stamp;

use super::Core;
use crate::exchange::{Copies, Exchange, LaterTouch, Needs};
use crate::ids::{ConnectionId, PoolId, RequestId, ServerId};
use crate::large::RequestBytes;
use crate::merge::How;
use crate::topology::Writes;
use crate::upstreams::Pending;

impl Core {
    /// What is left to do when the first of a key's holders has answered a write.
    #[inline]
    pub(super) fn copies_of(&mut self, number: RequestId, holders: &[ServerId], writes: Writes) -> Copies {
        match writes {
            _ if holders.len() < 2 => Copies::None,
            _ if self.requests[number].decides => Copies::Awaited,
            Writes::Async => Copies::Behind,
            _ if !self.deciding.is_empty() && self.comes_behind_decision(number, holders) => Copies::Deferred,
            _ => Copies::None,
        }
    }

    /// Whether a write comes behind a decision about its key. What its client sends next may be
    /// read at another holder, and waits for the copies. A lane may still decide where the first
    /// holder is down: that one answers nothing that the others could wait for.
    #[cold]
    fn comes_behind_decision(&mut self, number: RequestId, holders: &[ServerId]) -> bool {
        let Exchange { visit, client, .. } = &self.requests[number];
        let mut decisions = self.deciding.get(&visit.key).into_iter().flatten();
        let behind = self.upstreams.is_up(holders[0])
            && decisions.any(|&decision| self.requests[decision].rest.is_copied_to(holders));
        if behind && let Some(client) = *client {
            self.clients.wait_for_youngest(client);
        }
        behind
    }

    /// Makes a write wait if an earlier first holder of its key has not answered yet, whose copies
    /// would undo it, or another write waits so. Whether it does; its client's next request waits
    /// for it, too, then.
    pub(super) fn waits_for_decision(
        &mut self,
        number: RequestId,
        holders: &[ServerId],
        source: RequestBytes<'_>,
    ) -> bool {
        let Some(deciding) = self.deciding.get(&self.requests[number].visit.key) else { return false };
        let holders_of = |decision: RequestId| {
            let location = self.requests[decision].rest.location.as_ref();
            location.map(|location| &location.holders[..])
        };
        let is_elsewhere = |&decision: &RequestId| {
            holders_of(decision).is_some_and(|others| others[0] != holders[0])
                && self.requests[decision].rest.is_copied_to(holders)
        };
        let Some(&youngest) = deciding.last() else { return false };
        // All that wait do so for the youngest. One that has the same holders and for which none
        // waits had none to wait for, either: mostly so, and of a busy key there may be many.
        let passes = self.requests[youngest].rest.followers.is_empty()
            && (holders_of(youngest) == Some(holders) || !deciding.iter().any(is_elsewhere));
        if passes {
            return false;
        }
        self.requests[youngest].rest.followers.push(number);
        if self.requests[number].rest.request.is_empty() {
            self.requests.keep(number, source);
        }
        let exchange = &mut self.requests[number];
        exchange.waiting = 1;
        if let Some(client) = exchange.client {
            self.clients.wait_for_youngest(client);
        }
        true
    }

    /// The writes that have waited for a decision are sent, in the order in which they came.
    #[cold]
    fn send_followers(&mut self, number: RequestId, now: Stamp) {
        for write in std::mem::take(&mut self.requests[number].rest.followers) {
            self.requests[write].waiting = 0;
            self.with_kept_words(write, |core, request, source| core.ask(write, request, source, now));
        }
    }

    /// The decisions about a key that are to be copied to some of these servers.
    fn each_decision(&mut self, key: KeyDigest, holders: &[ServerId], mut with: impl FnMut(&mut Needs)) {
        for &number in self.deciding.get(&key).into_iter().flatten() {
            let decision = &mut *self.requests[number].rest;
            if decision.is_copied_to(holders) {
                with(decision);
            }
        }
    }

    /// The first holder of a request's key has been asked before the others, unless it is down.
    pub(super) fn decision_begins(&mut self, number: RequestId) {
        let Exchange { visit, waiting, .. } = &self.requests[number];
        if *waiting > 0 {
            self.deciding.entry(visit.key).or_default().push(number);
        }
    }

    /// The first holder has answered so, or never will. The others get what they are to get now.
    #[inline]
    pub(super) fn first_ends(&mut self, number: RequestId, answer: Option<ReplyClass>, now: Stamp) {
        let copies = std::mem::take(&mut self.requests[number].copies);
        if matches!(copies, Copies::None | Copies::Winner) {
            return;
        }
        self.decision_ends(number);
        if copies == Copies::Deferred || answer.is_some_and(|answer| self.others_follow(number, answer)) {
            self.copy_to_others(number, copies, now);
        }
        if !self.requests[number].rest.followers.is_empty() {
            self.send_followers(number, now);
        }
    }

    /// Whether the others do what the first has answered so: what it has done, and where it is
    /// without the key though it has not, that the key is removed.
    fn others_follow(&mut self, number: RequestId, answer: ReplyClass) -> bool {
        if answer.severity() == 0 {
            return true;
        }
        let rest = &mut self.requests[number].rest;
        let mut removal = Vec::new();
        match (answer, request::accepted(rest.words())) {
            // What is gone at the first goes at the others too, unless it was to be compared.
            (ReplyClass::NotFound, Request::Delete { .. }) => return true,
            (ReplyClass::NotFound, Request::Meta(meta)) => {
                return meta.command == MetaCommand::Delete && !meta.has_any(b"C");
            }
            // A server without room for a value has removed what was there.
            (ReplyClass::ServerError, Request::Store(store)) if store.command == Storage::Set => {
                write::delete(&mut removal, store.key);
            }
            (ReplyClass::ServerError, Request::Meta(meta)) if meta.command == MetaCommand::Set => {
                write::meta_delete(&mut removal, meta.key, meta.base64);
            }
            _ => return false,
        }
        (rest.request, rest.lent) = (removal, None);
        true
    }

    fn decision_ends(&mut self, number: RequestId) {
        let key = self.requests[number].visit.key;
        let Some(deciding) = self.deciding.get_mut(&key) else { return };
        // Mostly the oldest: of a busy key there may be many.
        if let Some(place) = deciding.iter().position(|other| *other == number) {
            deciding.remove(place);
        }
        if deciding.is_empty() {
            self.deciding.remove(&key);
        }
    }

    /// The reply waits for copies from now on: of a `cas` for all, of what came behind one for as
    /// many as the pool wants of any write.
    pub(super) fn await_copies(&mut self, number: RequestId, copies: Copies, pool: PoolId, others: usize) {
        let how = match copies {
            Copies::Awaited => How::Decided,
            _ => self.routing[pool].write_answered_by(1 + others),
        };
        self.requests[number].rest.merge.widen(how);
    }

    /// A key is removed at these servers at once: what was asked before leaves nothing to copy to
    /// them.
    pub(super) fn drop_copies(&mut self, key: KeyDigest, holders: &[ServerId]) {
        self.each_decision(key, holders, |decision| decision.others.retain(|other| !holders.contains(other)));
    }

    /// The same for all keys at all servers, unless they are kept for a while.
    pub(super) fn flush_copies(&mut self, delay: Option<i32>) {
        if delay.is_none_or(|delay| delay <= 0) {
            for &number in self.deciding.values().flatten() {
                self.requests[number].rest.others.clear();
            }
        }
    }

    /// A read has changed how long a key is kept: that is to be so behind copies, too.
    #[cold]
    pub(super) fn touch_after_copies(&mut self, key: KeyDigest, touch: &LaterTouch) {
        self.each_decision(key, &touch.holders, |decision| {
            // They are sent in a row: of those that are alike one is enough.
            if decision.later.last() != Some(touch) {
                decision.later.push(touch.clone());
            }
        });
    }

    /// A server has been sent a copy by this connection: it is sent what is to follow it there.
    pub(super) fn touch_behind_copy(
        &mut self,
        server: ServerId,
        connection: ConnectionId,
        number: RequestId,
    ) {
        let exchange = &self.requests[number];
        for touch in exchange.rest.later.iter().filter(|touch| touch.holders.contains(&server)) {
            let pending = Pending::copy(exchange.home, touch.expect);
            self.upstreams.send(connection, pending, |out| out.tail().extend_from_slice(&touch.bytes));
        }
    }
}
