//! Another configuration while requests are under way: nothing that was accepted is lost.
//!
//! Servers and pools keep their numbers for ever, because requests under way refer to them. What
//! the new configuration does not have is retired: it gets no more requests, and its connection may
//! be closed when it owes no answer.

use krarup_units::Stamp;

use super::{Core, CoreSettings};
use crate::dispatch::{Waiting, Workers};
use crate::ids::{PoolId, ServerId};
use crate::topology::Topology;

/// What the engine does after [`Core::reconfigure`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// For each server of the new topology, its number.
    pub servers: Vec<usize>,
    /// For each pool of the new topology, its number: what [`krarup_service::Service::connected`]
    /// is told.
    pub pools: Vec<usize>,
}

impl Core {
    /// Goes on with other settings and another topology. Pools and servers with the same names go
    /// on as they are; clients of a pool that is no more belong to the one that is said to be its
    /// successor, or else to the first.
    pub fn reconfigure(&mut self, settings: CoreSettings, topology: Topology, now: Stamp) -> Reconfigured {
        assert!(!topology.pools.is_empty(), "there is at least one pool");
        let mut settings = settings;
        if settings.automatic && self.settings.automatic {
            settings.workers = self.settings.workers;
        }
        self.dispatch.resize(settings.workers, settings.queue);
        self.books.keep_slowest(settings.slow_requests);
        self.books.sampling().set_mode(settings.hot_keys);
        // The clock goes on.
        self.settings = CoreSettings { unix: self.settings.unix, run_id: self.settings.run_id, ..settings };
        let servers = self.upstreams.reconfigure(topology.servers, self.settings.upstreams());
        let up: Vec<ServerId> = self.upstreams.ids().filter(|&server| self.upstreams.is_up(server)).collect();
        let ramp = self.settings.return_over;
        let pools = self.routing.reconfigure(topology.pools, topology.routes, ramp, &servers, &up, now);
        for pool in self.routing.pools_mut() {
            pool.limit_ejections(self.settings.eject_for, now);
        }
        // They have waited long enough for a reader that there may be no more.
        for Waiting { exchange, part } in self.limit_readers(&pools) {
            self.leaves_queue(exchange, now);
            let server = self.requests[exchange].rest.parts[usize::from(part)].server;
            if self.upstreams.is_up(server) {
                self.send_part_to(exchange, part, server, now);
            } else {
                let text = self.upstreams.down_text(server);
                self.part_failed(exchange, part, &text, krarup_record::Outcome::ServerLost, now);
            }
        }
        self.dispatch.readers_mut().release_all();
        self.pump(now);
        Reconfigured {
            servers: servers.into_iter().map(ServerId::index).collect(),
            pools: pools.into_iter().map(PoolId::index).collect(),
        }
    }

    /// There are so many workers from now on, where their number is set automatically.
    pub fn set_workers(&mut self, workers: u32, now: Stamp) {
        let workers = Workers::Limited(workers.max(1));
        if self.settings.automatic && self.settings.workers != workers {
            self.settings.workers = workers;
            self.dispatch.resize(workers, self.settings.queue);
            self.pump(now);
        }
    }

    /// The servers of pools have so many readers as their specification says, those of pools that
    /// are no more none. `pools` are the others. Returns the parts of reads whose queue is no more.
    fn limit_readers(&mut self, pools: &[PoolId]) -> Vec<Waiting> {
        let (all, readers) = (&self.routing, self.dispatch.readers_mut());
        let retired = all.ids().filter(|&number| all[number].is_retired());
        let mut stranded: Vec<Waiting> = retired.flat_map(|number| readers.empty(number)).collect();
        for &number in pools {
            let pool = &all[number];
            stranded.append(&mut readers.set(number, pool.servers(), pool.spec().readers));
        }
        stranded
    }
}
