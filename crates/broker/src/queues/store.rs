//! What is asked of a store that has messages which are not in memory, and what is known of these.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use crate::changes::MessageRow;
use crate::job::{ClientId, Id};

/// The sender of a message, and the only client that may have it.
pub(crate) type FromTo = (Arc<str>, Option<Arc<str>>);

/// What is kept in memory of messages that wait, where a store keeps them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// With more than this, in bytes, lines are cut.
    pub bytes: u64,
    /// Nothing is cut of a line that has no more than so many, or than fewer, down to one, where
    /// bytes come near half of the rest of the memory; and so many are read at a time. At least 1.
    pub heads: usize,
}

/// Messages that are read of a line so that the age of its oldest is known: when that one goes, the
/// next is here while the line is read on.
pub const READ_FOR_AGE: usize = 2;

/// A line of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoredQueue {
    /// Ready, in this tube, for any client or for one receiver; by priority.
    Ready(Arc<str>, Option<Arc<str>>),
    /// Delayed, in this tube; by the end of the delay.
    Delayed(Arc<str>),
    /// Set aside, in this tube; by their order.
    Buried(Arc<str>),
    /// Ready, of this sender, for any client or for one receiver; by number alone.
    Sent(FromTo),
}

/// Something to be read from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// What makes reading lines quick: it is asked for once, when the first line is cut.
    Begin,
    /// The messages of a line, those from this place on: what the line is ordered by (for delays:
    /// since 1970, in nanoseconds), then the number.
    Heads(StoredQueue, (u64, Id)),
    /// The first messages of a line, [`READ_FOR_AGE`] of them.
    First(StoredQueue),
    /// These messages.
    Named(Vec<Id>),
}

/// What a store answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The messages, in the order of their line.
    pub rows: Vec<MessageRow>,
    /// Of a sender's line: their numbers alone.
    pub ids: Vec<Id>,
    /// Whether they are the last of their line.
    pub complete: bool,
}

/// A kick in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kicking {
    pub(super) buried: bool,
    pub(super) done: u32,
}

/// What is known of messages that are not in memory.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// Whether any line was ever cut.
    pub(super) begun: bool,
    pub(super) wanted: VecDeque<FetchRequest>,
    /// Lines of ready messages that were only counted when the queues were loaded, the shortest
    /// first.
    pub(super) unread: BTreeSet<(u64, StoredQueue)>,
    pub(super) fetching: Option<FetchRequest>,
    /// Messages that are here beside their lines, and the batch after which the store knows all
    /// about them.
    pub(super) leaving: HashMap<Id, u64>,
    /// Which client needs which messages.
    pub(super) seekers: VecDeque<(ClientId, Vec<Id>)>,
    /// Which client was given what it sought, in which generation of those that leave.
    pub(super) sought: HashMap<ClientId, u64>,
    pub(super) generation: u64,
    pub(super) committed: u64,
    pub(super) kicking: HashMap<ClientId, Kicking>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FetchRequest {
    Begin,
    Line(StoredQueue),
    /// The first of a line that was only counted, and how many it had.
    First(u64, StoredQueue),
    Seekers(Vec<(ClientId, Vec<Id>)>),
}
