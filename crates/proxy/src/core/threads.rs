//! What an engine with threads needs of cores: each thread has one to ask servers with, and one
//! more keeps the books of all.

use krarup_memcache::request::LONGEST_NAME;
use krarup_memcache::{MetaCommand, Parsed, Request, request};
use krarup_record::{ServerVisit, Visit};
use krarup_units::Stamp;

use super::{Core, Events};
use crate::dispatch::QueueState;
use crate::ids::{PoolId, ServerId};
use crate::pool::Pool;
use crate::routing::KeyLocation;
use crate::topology::{MultiGet, Reads};

/// What a request wants of a server of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChoice {
    /// To be read at this server: the key's first, or one of those of which any may be read.
    Read(usize),
    /// To be written, at this server first.
    Write(usize),
    /// No server in particular, or not even well formed.
    Any,
    /// The books.
    Statistics,
}

impl Core {
    /// Gives back memory of requests that was not needed for a while.
    pub fn tidy(&mut self, now: Stamp) {
        self.requests.tidy(now);
    }

    /// From now on long requests wait for no room on their connection: what is offered is taken.
    pub fn lift_windows(&mut self) {
        self.upstreams.lift_windows();
    }

    /// The next request offered was taken out of a queue that this core does not see.
    pub fn taken_elsewhere(&mut self, seen: QueueState) {
        self.dispatch.taken_elsewhere(seen);
    }

    /// Reads that several servers could answer are asked of this one, while it is up. A pool that
    /// reads the primary, or asks each server for a share, does so still.
    pub fn read_from(&mut self, server: usize) {
        let pools = self.routing.pools_mut().iter_mut();
        for pool in pools.filter(|pool| pool.spec().reads != Reads::Primary) {
            if pool.spec().multi_get == MultiGet::Whole {
                pool.push(Some((ServerId::new(server), 1.0, Stamp(u64::MAX))));
            }
        }
    }

    /// Enters the row of a request that another core has carried out, and the number of the pool of
    /// its first key.
    pub fn enter(&mut self, visit: &Visit, servers: &[ServerVisit], pool: usize) {
        self.books.enter(visit, servers, PoolId::new(pool));
    }

    /// Enters that a server has answered another core's request whose row is entered already.
    pub fn enter_late(&mut self, visit: &ServerVisit) {
        self.books.late(visit);
    }

    /// Enters that a server has answered what no request of another core waited for.
    pub fn enter_detached(&mut self, visit: &ServerVisit) {
        self.books.detached(visit);
    }

    /// Enters what happened at another core since `earlier`. Clients are counted where they
    /// connect.
    pub fn enter_events(&mut self, now: &Events, earlier: &Events) {
        self.books.enter_events(now, earlier);
    }

    /// Whether pools have counted anything that was not taken over by another core.
    pub fn pools_have_counted(&self) -> bool {
        self.routing.pools().iter().any(Pool::has_counted)
    }

    /// Takes over what the pools of `other`, which has the same, have counted.
    pub fn take_pool_counts(&mut self, other: &mut Self) {
        let pools = self.routing.pools_mut().iter_mut().zip(other.routing.pools_mut());
        pools.for_each(|(ours, theirs)| ours.take_over(theirs));
    }

    /// Enters that another core's connection to a server stands, or why it does not, and whether it
    /// `stood` before.
    pub fn enter_server(&mut self, server: usize, state: Result<Option<&str>, &str>, stood: bool) {
        self.upstreams.enter(ServerId::new(server), state, stood);
    }

    /// Enters how many threads are busy and how many requests wait for them, which this core does
    /// not see, and the longest that their queues have been.
    pub fn enter_queues(&mut self, busy: u32, waiting: usize, longest: usize) {
        self.dispatch.enter_threads(busy, waiting, longest);
        self.books.enter_in_progress(busy as usize + waiting);
    }

    /// Where a whole request belongs that came where keys belong to the pool `entry`. Of servers of
    /// which any may be read each has its `turn`.
    pub fn choose_queue(&mut self, entry: usize, bytes: &[u8], turn: usize) -> QueueChoice {
        let Parsed::Complete { message, .. } = request::parse(bytes, &self.settings.limits) else {
            return QueueChoice::Any;
        };
        let mut buffer = [0; LONGEST_NAME];
        let (key, writes) = match &message {
            Request::Retrieve(retrieve) => (retrieve.keys.iter().next(), retrieve.command.touches()),
            Request::Store(store) => (Some(store.key), true),
            Request::Delete { key, .. } | Request::Arithmetic { key, .. } | Request::Touch { key, .. } => {
                (Some(*key), true)
            }
            Request::Meta(meta) => (Some(meta.name(&mut buffer)), meta.command != MetaCommand::Get),
            Request::Stats { .. } => return QueueChoice::Statistics,
            Request::FlushAll { .. }
            | Request::Verbosity { .. }
            | Request::NoOp
            | Request::Version
            | Request::Quit => return QueueChoice::Any,
        };
        let Some(key) = key else { return QueueChoice::Any };
        // Here no server is ever up, and how long values live does not matter.
        let KeyLocation { pool, holders, .. } = self.routing.locate(PoolId::new(entry), key, Stamp(0));
        let primary = writes || self.routing[pool].spec().reads == Reads::Primary;
        let place = if primary { 0 } else { turn % holders.len().max(1) };
        match holders.get(place).map(|server| server.index()) {
            None => QueueChoice::Any,
            Some(server) if writes => QueueChoice::Write(server),
            Some(server) => QueueChoice::Read(server),
        }
    }

    /// The length of the first request in `bytes`, and how many bytes behind it belong to a value
    /// that is refused. None: more must come.
    pub fn first_request(&self, bytes: &[u8]) -> Option<(usize, u64)> {
        use krarup_memcache::request::Refusal;
        match request::parse(bytes, &self.settings.limits) {
            Parsed::Complete { used, .. } | Parsed::Invalid(Refusal::Answer { used, .. }) => Some((used, 0)),
            Parsed::Invalid(
                Refusal::TooLarge { used, discard, .. } | Refusal::Discard { used, discard, .. },
            ) => Some((used, discard)),
            Parsed::Invalid(Refusal::Close { .. }) => Some((bytes.len(), 0)),
            Parsed::Incomplete { .. } => None,
        }
    }
}
