//! Another configuration while requests are under way: nothing that was accepted is lost.
//!
//! Servers and pools keep their numbers for ever, because requests under way refer to them. What the new configuration does not
//! have is retired: it gets no more requests, and its connection may be closed when it owes no answer.

use krarup_units::Stamp;

use super::{Core, Settings};
use crate::pool::Waiting;
use crate::server::{Health, Server};
use crate::topology::Topology;

/// What the engine does after [`Core::reconfigure`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconfigured {
    /// For each server of the new topology, its number.
    pub servers: Vec<usize>,
    /// For each pool of the new topology, its number: what [`Core::client_opened_at`] is told.
    pub pools: Vec<usize>,
}

impl Core {
    /// Goes on with other settings and another topology. Pools and servers with the same names go on as they are; clients of a
    /// pool that is no more belong to the first pool of the new topology.
    pub fn reconfigure(&mut self, settings: Settings, topology: Topology, now: Stamp) -> Reconfigured {
        assert!(!topology.pools.is_empty(), "there is at least one pool");
        self.dispatch.resize(settings.workers, settings.queue);
        self.books.keep_slowest(settings.slow_requests);
        // The clock goes on.
        self.settings = Settings { unix: self.settings.unix, ..settings };
        let servers: Vec<usize> =
            topology.servers.into_iter().map(|name| self.number_of_server(name)).collect();
        for number in 0..self.servers.len() {
            self.servers[number].retired = !servers.contains(&number);
            self.servers[number].announced = false;
        }
        let up: Vec<usize> =
            (0..self.servers.len()).filter(|&server| self.servers[server].health == Health::Up).collect();
        let ramp = self.settings.return_over;
        let (pools, stranded) =
            self.routing.reconfigure(topology.pools, topology.routes, ramp, &servers, &up, now);
        // They have waited long enough for a reader that there may be no more.
        for Waiting { exchange, part } in stranded {
            self.queued_at_servers -= 1;
            let server = self.requests[exchange].rest.parts[usize::from(part)].server;
            if self.servers[server].health == Health::Up {
                self.ask_part_at(exchange, part, server, now);
            } else {
                let text = format!("SERVER_ERROR {} is down\r\n", self.servers[server].name);
                self.part_failed(exchange, part, &text, krarup_record::Outcome::ServerLost, now);
            }
        }
        for pool in 0..self.routing.pools().len() {
            for server in self.routing[pool].spec().servers.clone() {
                self.freed_readers.push((pool, server));
            }
        }
        self.pump(now);
        Reconfigured { servers, pools }
    }

    /// Whether the server is in no pool any more and owes no answer: its connection can be closed.
    pub fn server_can_go(&self, server: usize) -> bool {
        let link = &self.servers[server];
        link.retired && link.outstanding() == 0 && link.out.is_empty()
    }

    /// Whether the server is in a pool, or will be.
    pub fn server_is_wanted(&self, server: usize) -> bool {
        let link = &self.servers[server];
        !link.retired || link.announced
    }

    /// These servers, and no others, will be in the topology that is to come: they can be connected to before it holds, so that
    /// nothing waits or fails when it does. Returns their numbers.
    pub fn announce(&mut self, names: Vec<String>) -> Vec<usize> {
        for server in self.servers.iter_mut() {
            server.announced = false;
        }
        let before = self.servers.len();
        let numbers: Vec<usize> = names.into_iter().map(|name| self.number_of_server(name)).collect();
        for &number in &numbers {
            self.servers[number].announced = true;
            self.servers[number].retired |= number >= before;
        }
        numbers
    }

    /// A server that is in no pool any more has been closed.
    pub fn server_let_go(&mut self, server: usize) {
        debug_assert!(self.server_can_go(server), "nothing it owes is lost");
        self.servers[server].health = Health::Down;
        self.routing.went_down(server);
    }

    fn number_of_server(&mut self, name: String) -> usize {
        let known = self.servers.iter().position(|server| server.name == name);
        known.unwrap_or_else(|| {
            self.servers.push(Server::new(name));
            let server = self.servers.len() - 1;
            self.open_shared(server);
            server
        })
    }
}
