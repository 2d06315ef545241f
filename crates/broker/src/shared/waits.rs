//! What this broker sees of the tubes that it shares: messages that clients put here, and those
//! that they are handed here. What goes through other brokers it does not see.
//!
//! A message's tube is the one that its taker watches alone, or else the database says it; when it
//! became ready is known of those that were put, or given back, here. A delayed message arrives
//! with its put.

use std::collections::VecDeque;
use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use super::pending::{HeldLease, after};
use crate::books::TubeBooks;
use crate::job::{Id, IdMap};

/// Messages that are known from here until they are handed out, at most: some 3 MB.
const MOST_KNOWN: usize = 57_344;

/// A message that became ready here.
#[derive(Debug)]
struct KnownMessage {
    tube: Arc<str>,
    ready: Stamp,
    /// It was handed out before.
    given_back: bool,
}

/// What is seen of the tubes.
#[derive(Debug, Default)]
pub(super) struct SharedWaits {
    pub(super) books: TubeBooks,
    known: IdMap<KnownMessage>,
    /// In the order in which they became known; some of them are known no more.
    order: VecDeque<Id>,
}

impl SharedWaits {
    /// A message is there from now on, after so many seconds of delay.
    pub(super) fn arrived(&mut self, id: Id, tube: &Arc<str>, delay: u32, given_back: bool, now: Stamp) {
        self.books.of(tube, &mut None, now).arrived(now);
        if self.order.len() >= MOST_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(id);
        let ready = after(now, delay);
        self.known.insert(id, KnownMessage { tube: Arc::clone(tube), ready, given_back });
    }

    /// A message is handed out, of this tube if that is known; its tube.
    pub(super) fn handed_out(&mut self, id: Id, tube: Option<Arc<str>>, now: Stamp) -> Option<Arc<str>> {
        let known = self.known.remove(&id);
        let waited = known.as_ref().map(|known| Nanos(now.0.saturating_sub(known.ready.0)));
        let given_back = known.as_ref().is_some_and(|known| known.given_back);
        let tube = tube.or(known.map(|known| known.tube))?;
        self.books.of(&tube, &mut None, now).handed_out(waited, given_back);
        Some(tube)
    }

    /// A lease has ended by now, with the message done if it had not run out before.
    pub(super) fn ended(&mut self, lease: &HeldLease, done: bool, now: Stamp) {
        let Some(tube) = &lease.tube else { return };
        let end = now.min(lease.until);
        let time = Nanos(end.0.saturating_sub(lease.since.0));
        self.books.of(tube, &mut None, now).ended(time, done && lease.until > now);
    }
}
