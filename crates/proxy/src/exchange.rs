//! One request on its way through: who asked, where its answers are, what its stamps say.

use krarup_memcache::MetaCommand;
use krarup_record::{Operation, Outcome, ServerVisit, Visit};
use krarup_units::Stamp;

use crate::arena::NOBODY;
use crate::merge::Merge;

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It waits for a worker.
    Queued,
    /// Servers have been asked.
    Asked,
    /// All answers are there; older requests of the client are not yet replied to.
    Done,
    /// The reply stands in the client's outbox and ends at this position.
    Rendered(u64),
}

/// A request and all that is known of it. Kept in an arena: its buffers serve one request after another.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Who asked; [`NOBODY`] once the client is gone.
    pub(crate) client: u32,
    /// The client's next younger request.
    pub(crate) next: u32,
    pub(crate) stage: Stage,
    pub(crate) visit: Visit,
    pub(crate) servers: Vec<ServerVisit>,
    pub(crate) merge: Merge,
    /// Parts without an answer.
    pub(crate) waiting: u32,
    /// Why a part could not be answered.
    pub(crate) failure: Option<Outcome>,
    pub(crate) noreply: bool,
    /// A quiet meta request: it is told only what is not as usual.
    pub(crate) quiet: Option<MetaCommand>,
    pub(crate) holds_worker: bool,
    /// A `cas` whose copies are to be written once the first server has decided.
    pub(crate) decides_first: bool,
    /// The request's bytes, where they are needed later: it waits in the queue, or is a `cas`.
    pub(crate) request: Vec<u8>,
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            client: NOBODY,
            next: NOBODY,
            stage: Stage::Done,
            visit: Visit::at(Stamp(0), Operation::Other),
            servers: Vec::new(),
            merge: Merge::default(),
            waiting: 0,
            failure: None,
            noreply: false,
            quiet: None,
            holds_worker: false,
            decides_first: false,
            request: Vec::new(),
        }
    }
}

/// Memory kept for the next request.
const KEEP: usize = 16 << 10;

impl Exchange {
    /// Begins with a new request of `client`, whose last byte came at `received`.
    pub(crate) fn begin(&mut self, client: u32, operation: Operation, received: Stamp) {
        self.client = client;
        self.next = NOBODY;
        self.stage = Stage::Queued;
        self.visit = Visit::at(received, operation);
        self.servers.clear();
        self.waiting = 0;
        self.failure = None;
        self.noreply = false;
        self.quiet = None;
        self.holds_worker = false;
        self.decides_first = false;
    }

    /// Puts away what the request needed, and gives back the memory of an unusually large one: its place may not be
    /// used again for long.
    pub(crate) fn end(&mut self) {
        if self.request.capacity() > KEEP {
            self.request = Vec::new();
        }
        self.request.clear();
        self.merge.end();
    }
}
