//! What is asked of a database that decides for itself, and what it answers.

use std::sync::{Arc, Weak};

use krarup_record::ServerVisit;
use krarup_units::{Nanos, Stamp};

use crate::job::Id;
use crate::queues::{JobView, Totals};

/// The client that holds a lease, over all brokers that share the queues: the broker's number
/// above, the connection's below 32 bits.
pub type Taker = i64;

/// Wishes of one kind go into one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementKind {
    /// Messages for any client.
    Put,
    /// Messages with a receiver, a key, or into a tube that must be there.
    Send,
    /// Leases and pops.
    Take,
    /// Deletes.
    Finish,
    /// What else is done to a message by its number.
    Move,
    /// What is looked at and left.
    Look,
    /// Tubes that hold something for a client.
    List,
    /// What is asked so rarely that it has a statement of its own.
    Once,
    /// What happens when no client does anything.
    Sweep,
}

/// A message on its way in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the request")]
pub struct NewMessage {
    pub tube: Arc<str>,
    pub sender: Option<Arc<str>>,
    pub receiver: Option<Arc<str>>,
    pub key: Option<Arc<str>>,
    pub strict: bool,
    pub priority: u32,
    pub delay: u32,
    pub ttr: u32,
    pub flags: u32,
    pub lives: Option<u32>,
    pub body: Arc<[u8]>,
}

/// Which messages are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageSelector {
    /// The first of these tubes that are not paused.
    Tubes(Vec<Arc<str>>),
    /// The first of one created tube.
    Created(Arc<str>),
    /// The first of a sender, in any tube.
    Sender(Arc<str>),
    /// This one.
    Number(Id),
}

/// What is done to one message by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the verbs of the protocol")]
pub enum StateChange {
    Release {
        priority: u32,
        delay: u32,
    },
    Bury {
        priority: u32,
    },
    Touch,
    Kick,
    /// Its holder has gone without a word.
    GiveBack,
}

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// This one.
    Number(Id),
    /// The first ready one of a tube.
    Ready(Arc<str>),
    /// The one of a tube whose delay ends first.
    Delayed(Arc<str>),
    /// The one of a tube that was buried first.
    Buried(Arc<str>),
    /// The first of a created tube.
    Created(Arc<str>),
    /// The first of a sender.
    Sender(Arc<str>),
}

/// What is asked rarely. A kick is of messages that are buried, or that are not and delayed; where
/// it is not said, of these where none is buried. Of a tube that is deleted all messages go, where
/// that is said those up to the last, and then the tube, where the whole of it is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the verbs of the protocol")]
pub enum RareRequest {
    Kick { tube: Arc<str>, bound: u32, buried: Option<bool> },
    StatsJob(Id),
    StatsTube(Arc<str>),
    Stats,
    Tubes,
    Pause { tube: Arc<str>, length: u32, known: bool },
    Login { client: Arc<str>, knows_the_secret: bool },
    Register(Arc<str>),
    Unregister(Arc<str>),
    Create(Arc<str>),
    DeleteTube { tube: Arc<str>, known: bool, whole: bool, last: Option<Id> },
    Limit { tube: Arc<str>, most: u32, dead: Option<Arc<str>> },
    Keep { tube: Arc<str>, expires: Option<u32>, keeps: Option<u32> },
    Backlog { fullest: usize },
}

/// One thing that is asked of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "what they are stands at their types")]
pub enum DatabaseRequest {
    New(NewMessage),
    Take {
        which: MessageSelector,
        client: Option<Arc<str>>,
        taker: Taker,
        most: u32,
        pops: bool,
    },
    Finish {
        id: Id,
        taker: Taker,
    },
    Move {
        id: Id,
        taker: Taker,
        what: StateChange,
    },
    Look {
        what: Lookup,
        client: Option<Arc<str>>,
    },
    /// The tubes that hold something for it or for any client.
    List(Arc<str>),
    Once(RareRequest),
    /// Tubes that are waited for, each with the client that waits.
    Sweep(Vec<(Arc<str>, Option<Arc<str>>)>),
}

impl DatabaseRequest {
    /// With which others it goes into one statement.
    pub fn kind(&self) -> StatementKind {
        match self {
            Self::New(new) if new.receiver.is_none() && new.key.is_none() && !new.strict => {
                StatementKind::Put
            }
            Self::New(_) => StatementKind::Send,
            Self::Take { .. } => StatementKind::Take,
            Self::Finish { .. } => StatementKind::Finish,
            Self::Move { .. } => StatementKind::Move,
            Self::Look { .. } => StatementKind::Look,
            Self::List(_) => StatementKind::List,
            Self::Once(_) => StatementKind::Once,
            Self::Sweep(_) => StatementKind::Sweep,
        }
    }

    /// Whether it changes something in the database.
    pub fn writes(&self) -> bool {
        match self {
            Self::Look { .. } | Self::List(_) => false,
            Self::Once(once) => !matches!(
                once,
                RareRequest::StatsJob(_)
                    | RareRequest::StatsTube(_)
                    | RareRequest::Stats
                    | RareRequest::Tubes
                    | RareRequest::Backlog { .. }
                    | RareRequest::Login { knows_the_secret: false, .. }
            ),
            _ => true,
        }
    }
}

/// The result of a request for messages, as the functions of the schema return it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCode {
    /// Done, found, inserted.
    Done,
    /// There is none, or it is another's; a key that is taken.
    None,
    /// No such tube; a message that was given up.
    Tube,
    /// No such client.
    Client,
}

/// A message in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultRow {
    /// What became of the request.
    pub word: ResultCode,
    /// The message's number, if there is one.
    pub id: Id,
    /// How long its lease lasts, in seconds.
    pub ttr: u32,
    /// What comes back with it to those that speak memcached's protocol.
    pub flags: u32,
    /// Its tube, where that is told.
    pub tube: Option<Arc<str>>,
    /// The message, if it was asked for.
    pub body: Arc<[u8]>,
}

/// What the database knows of one tube.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the protocol's statistics")]
pub struct TubeFacts {
    pub totals: Totals,
    /// Whether it was created, has a limit or is paused.
    pub kept: bool,
    pub expires: Nanos,
    pub keeps: Nanos,
    pub pause: Nanos,
    pub pause_left: Nanos,
}

/// What waits in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Tubes with the most messages that are ready, the fullest first.
    pub fullest: Vec<TubeBacklog>,
    /// How many tubes have some.
    pub tubes: u64,
    /// How many messages there are, in all tubes.
    pub messages: Totals,
    /// How long it took to find that out.
    pub took: Nanos,
}

/// What waits in one tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TubeBacklog {
    /// Its name.
    pub tube: Arc<str>,
    /// Messages that are ready, those for one receiver among them.
    pub ready: u64,
    /// Time since the put of the oldest that is for any client; none: there is none such.
    pub age: Option<Nanos>,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseReply {
    /// Messages, or a word about one.
    Lines(Vec<ResultRow>),
    /// How many.
    Count(u64),
    /// More messages than one statement is about.
    Part {
        /// How many of them it was about.
        done: u64,
        /// What is to be asked about the others.
        rest: RareRequest,
    },
    /// Whether it was so.
    Yes(bool),
    /// Names.
    Names(Vec<Arc<str>>),
    /// One message.
    Job(Option<Box<JobView>>),
    /// One tube.
    Tube(TubeFacts),
    /// All messages, and how many tubes hold some.
    Totals(Totals, u64),
    /// What a sweep found.
    Places {
        /// The places of the tubes waited for that hold something.
        places: Vec<usize>,
        /// How many messages have expired.
        expired: u64,
        /// Whether more is due than one sweep takes.
        more: bool,
    },
    /// What waits.
    Backlog(Backlog),
    /// The database refuses, and will again.
    Failed(String),
    /// It was not asked, or is undone: the request is not wanted any more.
    NotAsked,
}

impl DatabaseReply {
    /// Whether something was done.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Failed(_) | Self::NotAsked | Self::Count(0) => false,
            Self::Lines(lines) => lines.iter().any(|line| line.word != ResultCode::None),
            _ => true,
        }
    }
}

/// A request on its way to the database.
#[derive(Clone, Debug)]
pub struct QueuedRequest {
    /// Its number.
    pub number: u64,
    /// What is asked.
    pub query: DatabaseRequest,
    /// It belongs to the same client request as the one before it, and goes into its statement.
    pub joins: bool,
    /// The client that takes something, for as long as it is there. None: what is asked is to be
    /// done whatever becomes of its client.
    pub client: Option<Weak<()>>,
}

impl QueuedRequest {
    /// Whether there is a client for what it would take, if it takes anything.
    pub fn is_wanted(&self) -> bool {
        self.client.as_ref().is_none_or(|client| client.strong_count() > 0)
    }
}

/// What the way there and back was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimes {
    /// When a connection took it.
    pub taken: Stamp,
    /// When its statement was sent.
    pub sent: Stamp,
    /// When its commit, or the answer where nothing was to be committed, is known.
    pub answered: Stamp,
    /// How many connections were busy then, its own included.
    pub busy: u32,
    /// How many queries were left waiting.
    pub left: u32,
    /// How many shared its statement, itself included.
    pub together: u32,
    /// The connection that it took, from zero.
    pub connection: u16,
}

impl RequestTimes {
    /// The visit at the store that this was, not begun before `taken`.
    pub(crate) fn store_visit(&self, taken: Stamp) -> ServerVisit {
        let sent = self.sent.max(taken);
        ServerVisit { lane: self.connection, ..ServerVisit::ok(0, sent, self.answered.max(sent)) }
    }
}
