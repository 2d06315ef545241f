//! What is sent of all tubes, of one, and of one message.

use std::sync::Arc;

use krarup_beanstalk::ReplyWord;
use krarup_units::Nanos;

use crate::job::{Id, JobCounts};

/// What is counted over all tubes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the protocol's statistics")]
pub struct Totals {
    pub urgent: u64,
    pub ready: u64,
    pub reserved: u64,
    pub delayed: u64,
    pub buried: u64,
    pub waiting: u64,
    pub jobs: u64,
    pub timeouts: u64,
    pub expired: u64,
    pub connections: u64,
    pub all_connections: u64,
    pub producers: u64,
    pub workers: u64,
}

/// One message, as `stats-job` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the protocol's statistics")]
pub struct JobView {
    pub id: Id,
    pub tube: Arc<str>,
    pub state: &'static str,
    pub priority: u32,
    pub age: Nanos,
    pub delay: Nanos,
    pub ttr: Nanos,
    pub time_left: Nanos,
    pub happened: JobCounts,
    pub sender: Option<Arc<str>>,
    pub receiver: Option<Arc<str>>,
}

/// One tube, as `stats-tube` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the protocol's statistics")]
pub struct TubeView {
    pub name: Arc<str>,
    pub urgent: u64,
    pub ready: u64,
    pub reserved: u64,
    pub delayed: u64,
    pub buried: u64,
    pub jobs: u64,
    pub using: u64,
    pub watching: u64,
    pub waiting: u64,
    pub deletes: u64,
    /// None: those of one tube are not counted.
    pub expired: Option<u64>,
    pub expires: Nanos,
    pub keeps: Nanos,
    pub pauses: u64,
    pub pause: Nanos,
    pub pause_left: Nanos,
}

/// Why there is no message to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// There is none.
    Empty,
    /// No client has created the tube.
    UnknownTube,
    /// No client of this name is registered.
    UnknownClient,
}

impl Nothing {
    /// The word for it.
    pub const fn word(self) -> ReplyWord {
        match self {
            Self::Empty => ReplyWord::Empty,
            Self::UnknownTube => ReplyWord::UnknownTube,
            Self::UnknownClient => ReplyWord::UnknownClient,
        }
    }
}
