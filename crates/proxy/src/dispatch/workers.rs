//! How many workers there are, and what one saw when it took a request.

use krarup_units::Stamp;

/// How many requests may be with the servers at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// Every request is taken at once: there is no queue.
    Unlimited,
    /// At most this many, at least one; the others wait.
    Limited(u32),
}

/// What the configuration says of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerSetting {
    /// They are so many.
    Fixed(Workers),
    /// They are as many as the servers need, [`MOST_AUTOMATIC`] before that is known.
    Automatic,
}

/// The most workers that are set automatically.
pub const MOST_AUTOMATIC: u32 = 256;

impl WorkerSetting {
    /// How many there are at first.
    pub const fn at_start(self) -> Workers {
        match self {
            Self::Fixed(workers) => workers,
            Self::Automatic => Workers::Limited(MOST_AUTOMATIC),
        }
    }
}

/// What a worker saw when it took a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Workers busy now, this one included.
    pub(crate) busy: u32,
    /// Requests that still wait.
    pub(crate) waiting: u32,
    /// Whether the worker had nothing to do before.
    pub(crate) was_idle: bool,
}

/// What a thread saw when it took a request out of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueState {
    /// When the request was put into the queue.
    pub queued: Stamp,
    /// Threads busy now, this one included.
    pub busy: u32,
    /// Requests that still wait.
    pub waiting: u32,
    /// Whether the thread had nothing to do before.
    pub was_idle: bool,
}

impl QueueState {
    pub(crate) fn taken(self) -> Taken {
        Taken { busy: self.busy, waiting: self.waiting, was_idle: self.was_idle }
    }
}
