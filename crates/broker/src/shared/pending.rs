//! What clients wait for: what was asked of the database for them, messages, and answers.

use std::sync::Arc;

use krarup_beanstalk::ReplyWord;
use krarup_units::{Nanos, Stamp};

use crate::database::{RequestTimes, StatementKind, Taker};
use crate::job::{ClientId, Id, IdMap};
use crate::queues::Totals;

/// What a request is for.
#[derive(Clone, Debug)]
pub(super) enum For {
    /// Into this tube, for this client alone, so many bytes, after so many seconds; none: it is
    /// over at once.
    Put(Arc<str>, Option<Arc<str>>, u64, Option<u32>),
    /// Of this tube, if of one alone.
    Take(ReplyWord, Option<Arc<str>>),
    Delete(Id),
    /// After so many seconds.
    Release(Id, u32),
    Bury(Id),
    Touch(Id),
    KickJob,
    /// So many are ready by the parts before.
    Kick(u64),
    Look,
    /// What is empty is said to be so.
    Seek,
    List,
    StatsJob,
    StatsTube(Arc<str>),
    Stats,
    Tubes,
    Pause,
    Login(Arc<str>),
    Register,
    Unregister,
    Create,
    /// This one, and when that was asked.
    DeleteTube(Arc<str>, Stamp),
    Limit,
    Expire,
    Archive,
    /// No client is sent. Into this tube, if that is known.
    GiveBack(Id, Option<Arc<str>>),
    Sweep(Vec<(Arc<str>, Option<Arc<str>>)>),
    Backlog,
}

impl For {
    /// Whether a client asked for it, or gives something back.
    pub(super) fn is_of_a_client(&self) -> bool {
        !matches!(self, Self::Sweep(_) | Self::Backlog)
    }
}

#[derive(Debug)]
pub(super) struct Underway {
    /// The client that asked, and its name; it may be gone.
    pub(super) client: ClientId,
    pub(super) taker: Taker,
    /// The number of its answer.
    pub(super) number: u64,
    pub(super) what: For,
    /// Whether it may change something, for a client.
    pub(super) writes: bool,
}

/// Leases of one client among which those that have run out are looked for, at least.
pub(super) const MOST_LEASES: usize = 4_096;

/// A connection, as far as messages go.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) taker: Taker,
    /// Shared with what it takes, until it goes or has ended its side.
    pub(super) here: Arc<()>,
    /// What of its is under way, all of one kind, and how many.
    pub(super) out: Option<(StatementKind, u32)>,
    /// What it holds.
    pub(super) leases: IdMap<HeldLease>,
    /// With how many of them those that have run out are looked for next.
    pub(super) look_at: usize,
    pub(super) wait: Option<WaitingRequest>,
}

/// A message that a connection holds.
#[derive(Clone, Debug)]
pub(super) struct HeldLease {
    /// Until when.
    pub(super) until: Stamp,
    /// For how many seconds it was given, and is given again.
    pub(super) ttr: u32,
    /// When it was handed out.
    pub(super) since: Stamp,
    /// Its tube, if that is known.
    pub(super) tube: Option<Arc<str>>,
}

/// A request for messages that may have to wait.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) slot: u64,
    pub(super) turn: u64,
    pub(super) tubes: Vec<Arc<str>>,
    pub(super) most: u32,
    pub(super) pops: bool,
    pub(super) shape: ReplyWord,
    /// None: for ever.
    pub(super) until: Option<Stamp>,
    pub(super) alarm: Option<Stamp>,
    /// Whether it is being asked for now, and how often something had become ready before.
    pub(super) asking: bool,
    pub(super) asked_at: u64,
    /// The tube in which a sweep saw something: if this client finds something, it wakes the next
    /// of that one.
    pub(super) wakes: Option<Arc<str>>,
    /// It waits no longer than for the answer that is under way.
    pub(super) gives_up: bool,
    /// Whether there was nothing for it when it was asked for.
    pub(super) has_waited: bool,
    /// When the database was last asked for it.
    pub(super) queried: Stamp,
}

impl WaitingRequest {
    /// When the database was asked once more, where there was nothing the first time.
    pub(super) fn repeated(&self) -> Option<Stamp> {
        self.has_waited.then_some(self.queried)
    }
}

/// An answer for a client.
#[derive(Debug)]
pub(crate) struct PendingReply {
    pub(crate) client: ClientId,
    /// Under which number it asked.
    pub(crate) number: u64,
    pub(crate) bytes: Vec<u8>,
    /// None: it was not the database that answered.
    pub(crate) way: Option<RequestTimes>,
    /// When the database was asked once more, where a message was waited for before.
    pub(crate) repeated: Option<Stamp>,
    /// What of the answer to `stats` the database knows; the rest is to be written.
    pub(crate) stats: Option<(Totals, u64)>,
}

/// The end of a time that begins now.
pub(super) fn after(now: Stamp, seconds: u32) -> Stamp {
    Stamp(now.0.saturating_add(Nanos::from_secs(seconds.into()).0))
}
