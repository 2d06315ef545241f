//! The numbers of one moment, as the loop lays them down: plain, and made in tens of microseconds.

use krarup_model::hot_keys::HotKeys;
use krarup_record::LoopUse;
use krarup_record::exposition::{OfOperation, TimeBuckets};
use krarup_service::Service as _;
use krarup_units::{Nanos, Stamp};

use crate::core::{Core, Events};
use crate::dispatch::Workers;
use crate::ids::{PoolId, ServerId};
use crate::live::KeyState;
use crate::pool::{Pool, PoolCounts};

/// Servers up to which each has its buckets: counting them takes the loop some microseconds a
/// server.
const SERVERS_WITH_BUCKETS: usize = 64;

/// The numbers of one moment.
#[derive(Clone, Debug, Default)]
pub struct ProxySnapshot {
    /// Whether a stop was asked for.
    pub stopping: bool,
    pub(super) uptime: Nanos,
    pub(super) clients: usize,
    pub(super) events: Events,
    pub(super) in_progress: usize,
    /// None: unlimited.
    pub(super) workers: Option<u32>,
    pub(super) busy: u32,
    pub(super) waiting: usize,
    pub(super) longest: usize,
    pub(super) disordered: u64,
    /// What each event loop has used.
    pub(super) loops: Vec<LoopUse>,
    /// What clients' buffers hold, in bytes, and whether clients wait because that is too much.
    pub(super) memory: (usize, bool),
    pub(super) operations: Vec<OfOperation>,
    pub(super) servers: Vec<OfServer>,
    pub(super) pools: Vec<OfPool>,
    pub(super) keys: KeyState,
}

/// How one server is, and what it did.
#[derive(Clone, Debug)]
pub(super) struct OfServer {
    pub(super) name: String,
    pub(super) up: bool,
    pub(super) ejected: bool,
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) outstanding: usize,
    pub(super) losses: u64,
    /// Readers busy, and parts of reads that wait for one.
    pub(super) readers: (u64, u64),
    pub(super) times: TimeBuckets,
}

/// How one pool is, and what it did.
#[derive(Clone, Debug)]
pub(super) struct OfPool {
    pub(super) name: String,
    pub(super) servers_up: usize,
    /// Whether keys that clients ask for belong to it, and no loop can ask a server for them, its
    /// gutter's neither.
    pub(super) is_missed: bool,
    pub(super) in_progress: u32,
    pub(super) counts: PoolCounts,
}

impl ProxySnapshot {
    /// The numbers now.
    pub fn of(core: &Core, now: Stamp, stopping: bool) -> Self {
        let recorder = core.counted().recorder_since_start(|server| core.upstreams().wants(server));
        let up = |server: &ServerId| core.upstreams().is_up(*server);
        let is_served =
            |pool: &Pool| pool.servers().iter().any(|&server| core.upstreams().is_up_in_a_loop(server));
        let pool = |(number, pool): (usize, &Pool)| OfPool {
            name: pool.spec().name.clone(),
            servers_up: pool.servers().iter().filter(|&server| up(server)).count(),
            is_missed: core.routing().leads_to(PoolId::new(number))
                && !is_served(pool)
                && !pool.spec().gutter.is_some_and(|gutter| is_served(&core.pools()[gutter.pool])),
            in_progress: pool.busy(),
            counts: core.counts_since_start(number),
        };
        let living = core.upstreams().servers().iter().filter(|server| !server.is_retired());
        let buckets = living.count() <= SERVERS_WITH_BUCKETS;
        let readers = |number| {
            let of_pools = core
                .routing()
                .ids()
                .filter_map(|pool| core.dispatch().readers().of(pool, ServerId::new(number)));
            of_pools.fold((0, 0), |(busy, waiting), one| (busy + u64::from(one.0), waiting + one.1 as u64))
        };
        let known = core.upstreams().servers().iter().enumerate();
        let servers = known.filter(|(_, server)| !server.is_retired()).map(|(number, server)| {
            let totals = recorder.server(number);
            OfServer {
                name: server.name().to_owned(),
                up: server.is_up(),
                ejected: server.is_ejected(),
                requests: totals.map_or(0, |totals| totals.requests),
                errors: totals.map_or(0, |totals| totals.errors),
                outstanding: core.upstreams().outstanding(ServerId::new(number)),
                losses: server.losses(),
                readers: readers(number),
                times: totals
                    .map_or_else(TimeBuckets::default, |totals| TimeBuckets::of(&totals.time, buckets)),
            }
        });
        Self {
            stopping,
            uptime: now - core.started(),
            clients: core.clients(),
            events: core.counted().events_since_start(),
            in_progress: core.in_progress(),
            workers: match core.settings().workers {
                Workers::Unlimited => None,
                Workers::Limited(workers) => Some(workers),
            },
            busy: core.dispatch().busy(),
            waiting: core.dispatch().waiting(),
            longest: core.dispatch().longest(),
            disordered: recorder.disordered(),
            loops: core.counted().used().to_vec(),
            memory: core.memory(),
            operations: OfOperation::seen(&recorder),
            pools: core.pools().iter().enumerate().filter(|(_, pool)| !pool.is_retired()).map(pool).collect(),
            servers: servers.collect(),
            keys: KeyState::of(core, now),
        }
    }

    /// The keys that take most.
    pub fn hot_keys(&self) -> HotKeys {
        self.keys.hottest()
    }

    /// Gets answered, and requests of any kind: counters that must never go back.
    #[cfg(test)]
    pub(crate) fn gets_and_requests(&self) -> (u64, u64) {
        let gets = self.operations.iter().filter(|one| one.operation == krarup_record::Operation::Get);
        (gets.map(|one| one.tally.count).sum(), self.events.requests)
    }

    /// Why no more clients should be sent here; none if they should.
    pub fn not_ready(&self) -> Option<String> {
        if self.stopping {
            return Some("stopping".into());
        }
        if self.memory.1 {
            return Some("clients wait for memory".into());
        }
        let missed = self.pools.iter().find(|pool| pool.is_missed)?;
        Some(format!("no server of the pool {} is up", missed.name))
    }
}
