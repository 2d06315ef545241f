//! What is asked when messages are taken, and what comes of it.

use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use crate::job::Id;

/// After which batch an operation may be answered; none: at once.
pub type After = Option<u64>;

/// Messages that one request may take at most.
pub(crate) const MOST_AT_ONCE: u32 = 1_000;

/// What becomes of a message that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeMode {
    /// It is leased, and is to be deleted when it is done.
    Lease,
    /// It is gone.
    Pop,
    /// It stays: it only wants to know that it is there.
    Look,
}

/// A request for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// What becomes of them.
    pub how: TakeMode,
    /// How many at most, at least 1. No client waits for a second one.
    pub most: u32,
    /// How long to wait; none: for ever.
    pub timeout: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingClient {
    /// Clients stand in each line in the order of their turns.
    pub(super) turn: u64,
    pub(super) how: TakeMode,
    /// How long it waits; none: for ever.
    pub(super) until: Option<Stamp>,
    /// When to look after it.
    pub(super) alarm: Option<Stamp>,
}

/// A message that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenMessage {
    /// Its number.
    pub id: Id,
    /// Its flags, if it is sent them.
    pub flags: Option<u32>,
    /// The message.
    pub body: Arc<[u8]>,
    /// After which batch it may be handed out: one that was popped, after its end is on disk.
    pub after: After,
}

/// What a request for messages resulted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReserveResult {
    /// Here they are, one at least.
    Taken(Vec<TakenMessage>),
    /// None arrived in time.
    TimedOut,
    /// A lease of its is about to end.
    DeadlineSoon,
    /// There is one, of this priority and number; it was there when this was answered.
    Ready(u32, Id),
}
