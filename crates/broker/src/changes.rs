//! What must be on disk before it is answered, gathered until the store is free.
//!
//! The owner of the queues decides in memory and writes down what it decided. Everything that has
//! come while the store was busy with one batch makes the next: one statement, one commit, however
//! many requests. Within a batch only the last word on a message counts, so that the order of its
//! lines does not.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use krarup_units::Nanos;

use crate::job::{Id, Job, JobCounts, JobState, TubeId};

/// Where a message stands in a store. Leases are not written: a new owner finds what was reserved
/// ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredState {
    /// Ready, or reserved.
    Ready,
    /// Ready from then on, in nanoseconds since 1970.
    Delayed(Nanos),
    /// Set aside; the number is its place among those.
    Buried(u64),
}

/// A message as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Its number.
    pub id: Id,
    /// The name of its tube.
    pub tube: Arc<str>,
    /// The client that put it.
    pub sender: Option<Arc<str>>,
    /// The only client that may have it.
    pub receiver: Option<Arc<str>>,
    /// The smaller, the sooner.
    pub priority: u32,
    /// What it was put or released with last.
    pub delay: Nanos,
    /// How long a lease lasts.
    pub ttr: Nanos,
    /// When it was put, since 1970.
    pub created: Nanos,
    /// Where it stands.
    pub standing: StoredState,
    /// What happened to it.
    pub happened: JobCounts,
    /// What comes back with it to those that speak memcached's protocol.
    pub flags: u32,
    /// When it is gone if it still waits then, since 1970; none: never.
    pub lives_until: Option<Nanos>,
    /// The message itself.
    pub body: Arc<[u8]>,
}

impl MessageRow {
    /// The message, in this tube and this state.
    pub(crate) fn into_job(self, tube: TubeId, state: JobState) -> Job {
        // When it became ready once more is not stored.
        let never_back = JobCounts { reserves: 0, ..self.happened } == JobCounts::default();
        let since = (self.standing == StoredState::Ready && never_back).then(|| self.created + self.delay);
        Job {
            tube,
            sender: self.sender,
            receiver: self.receiver,
            priority: self.priority,
            delay: self.delay,
            ttr: self.ttr,
            created: self.created,
            state,
            flags: self.flags,
            lives_until: self.lives_until,
            expires: None,
            since,
            happened: self.happened,
            saved: true,
            body: self.body,
        }
    }
}

/// The last word on one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageChange {
    /// It is new.
    Insert(Box<MessageRow>),
    /// Everything but its body may have changed.
    Update(Box<MessageRow>),
    /// It is gone.
    Delete,
}

/// A tube as a store keeps it: one that was created, or has a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TubeRow {
    /// Whether it was created, and stays when it is empty.
    pub created: bool,
    /// How often a message may be reserved; zero: as often as it takes.
    pub most: u32,
    /// Where messages go that were reserved too often; none: they are buried.
    pub dead: Option<Arc<str>>,
    /// How many seconds after its put a message that waits is gone; zero: never.
    pub expires: u32,
    /// For how many seconds a message that is gone is kept in the archive; zero: not at all.
    pub keeps: u32,
}

/// A key that makes a second message none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The oldest message.
    pub id: Id,
    /// Until when it is remembered, in nanoseconds since 1970.
    pub until: Nanos,
}

/// What makes one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitBatch {
    /// The last word on each message.
    pub messages: HashMap<Id, MessageChange>,
    /// The last word on tubes, by name; none: forget it.
    pub tubes: HashMap<Arc<str>, Option<TubeRow>>,
    /// Which clients are registered (true) and which no longer is.
    pub clients: HashMap<Arc<str>, bool>,
    /// Keys of tubes, by tube and key.
    pub keys: HashMap<(Arc<str>, Arc<str>), KeyRow>,
    /// Messages that applications had stored beside the queues, and that are in them from now on.
    pub taken_in: Vec<i64>,
    /// What messages had become in it that are gone, where an archive takes them as they were last.
    pub last: HashMap<Id, Box<MessageRow>>,
    /// Bytes of the messages that were put in it.
    pub(crate) bodies: usize,
}

/// How many bytes of messages a statement has at most, or those of one message: PostgreSQL takes no
/// statement of a gibibyte, and there is more in one than the messages.
pub const MOST_BODIES: usize = 512 << 20;

impl CommitBatch {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.is_of_messages()
    }

    /// Whether there is nothing in it but messages: then one statement writes it.
    pub fn is_of_messages(&self) -> bool {
        self.tubes.is_empty() && self.clients.is_empty() && self.keys.is_empty() && self.taken_in.is_empty()
    }

    /// How many messages it is about.
    pub fn lines(&self) -> usize {
        self.messages.len()
    }

    /// Bytes of the messages that were put in it.
    pub fn bytes(&self) -> usize {
        self.bodies
    }

    /// Whether it may be written while another is, in any order: both are about messages alone, and
    /// none of them is the same.
    pub fn may_go_beside(&self, other: &Self) -> bool {
        let (few, many) = if self.lines() < other.lines() { (self, other) } else { (other, self) };
        self.is_of_messages()
            && other.is_of_messages()
            && few.messages.keys().all(|id| !many.messages.contains_key(id))
    }

    /// Whether one more message of this length may be put in it: then one statement still holds it.
    pub fn has_room(&self, length: usize) -> bool {
        self.bodies == 0 || self.bodies + length <= MOST_BODIES
    }

    /// A message is new.
    pub fn insert(&mut self, row: MessageRow) {
        self.bodies += row.body.len();
        self.messages.insert(row.id, MessageChange::Insert(Box::new(row)));
    }

    /// A message has changed.
    pub fn update(&mut self, row: MessageRow) {
        match self.messages.entry(row.id) {
            Entry::Occupied(mut there) => {
                let new = matches!(there.get(), MessageChange::Insert(_));
                there.insert(if new {
                    MessageChange::Insert(Box::new(row))
                } else {
                    MessageChange::Update(Box::new(row))
                });
            }
            Entry::Vacant(place) => _ = place.insert(MessageChange::Update(Box::new(row))),
        }
    }

    /// A message is gone.
    pub fn delete(&mut self, id: Id) {
        match self.messages.entry(id) {
            // The store has never had it.
            Entry::Occupied(there) if matches!(there.get(), MessageChange::Insert(_)) => _ = there.remove(),
            Entry::Occupied(mut there) => _ = there.insert(MessageChange::Delete),
            Entry::Vacant(place) => _ = place.insert(MessageChange::Delete),
        }
    }

    /// A message is gone, into an archive.
    pub fn archive(&mut self, id: Id) {
        if let Some(MessageChange::Update(row)) = self.messages.get(&id) {
            self.last.insert(id, row.clone());
        }
        self.delete(id);
    }

    /// Keeps what messages had become that are gone with the batch after this one: both will be
    /// written as one.
    pub fn keep_last_before(&mut self, newer: &Self) {
        for (id, change) in &newer.messages {
            if let (MessageChange::Delete, Some(MessageChange::Update(row))) = (change, self.messages.get(id))
            {
                self.last.insert(*id, row.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: Id, priority: u32) -> MessageRow {
        MessageRow {
            id,
            tube: "default".into(),
            sender: None,
            receiver: None,
            priority,
            delay: Nanos::ZERO,
            ttr: Nanos::from_secs(1),
            created: Nanos::ZERO,
            standing: StoredState::Ready,
            happened: JobCounts::default(),
            flags: 0,
            lives_until: None,
            body: Arc::from(&b"x"[..]),
        }
    }

    #[test]
    fn only_the_last_word_on_a_message_is_written() {
        let mut batch = CommitBatch::default();
        batch.insert(row(1, 5));
        batch.update(row(1, 6));
        batch.update(row(2, 7));
        batch.delete(2);
        assert_eq!(batch.messages[&1], MessageChange::Insert(Box::new(row(1, 6))));
        assert_eq!(batch.messages[&2], MessageChange::Delete);
    }

    #[test]
    fn what_becomes_of_a_message_is_written_before_an_archive_takes_it() {
        let mut batch = CommitBatch::default();
        batch.update(row(1, 5));
        batch.update(row(2, 6));
        batch.archive(1);
        batch.delete(2);
        batch.archive(3);
        assert!([1_u64, 2, 3].iter().all(|id| batch.messages[id] == MessageChange::Delete));
        assert_eq!(batch.last, [(1, Box::new(row(1, 5)))].into());
    }

    #[test]
    fn what_was_made_and_deleted_within_a_batch_is_not_written_at_all() {
        let mut batch = CommitBatch::default();
        batch.insert(row(1, 5));
        batch.delete(1);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_batch_takes_no_more_than_a_statement_holds_but_any_message_alone() {
        let mut batch = CommitBatch::default();
        assert!(batch.has_room(MOST_BODIES + 1));
        batch.insert(MessageRow { body: [0; 100][..].into(), ..row(1, 1) });
        assert!(batch.has_room(MOST_BODIES - 100));
        assert!(!batch.has_room(MOST_BODIES - 99));
    }

    #[test]
    fn only_batches_without_a_message_in_common_may_be_written_in_any_order() {
        let (mut one, mut other) = (CommitBatch::default(), CommitBatch::default());
        one.update(row(1, 5));
        one.insert(row(2, 5));
        other.delete(3);
        assert!(one.may_go_beside(&other) && other.may_go_beside(&one));
        other.delete(1);
        assert!(!one.may_go_beside(&other) && !other.may_go_beside(&one));
    }

    #[test]
    fn a_batch_of_more_than_messages_is_written_alone() {
        let (mut one, mut other) = (CommitBatch::default(), CommitBatch::default());
        one.insert(row(1, 5));
        other.tubes.insert("t".into(), Some(TubeRow::default()));
        assert!(!one.may_go_beside(&other) && !other.may_go_beside(&one));
    }
}
