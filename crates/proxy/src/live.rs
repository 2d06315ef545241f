//! What is known of the running proxy beside its traffic, for a model of the headroom it has left,
//! and of the keys that take most.

use krarup_model::headroom::{LiveServer, LiveSystem};
use krarup_model::hot_keys::{HotKeys, KeyPool, KeySystem, hottest};
use krarup_record::HotKeySnapshot;
use krarup_units::Stamp;

use crate::config::{Config, ServerConfig};
use crate::core::Core;
use crate::dispatch::Workers;
use crate::engine::{Engine, ThreadDesign};
use crate::ids::ServerId;
use crate::pool::Pool;
use crate::topology::Reads;

/// What is kept of the keys that take most, and what is known beside it.
#[derive(Clone, Debug, Default)]
pub struct KeyState {
    pub(crate) kept: HotKeySnapshot,
    pub(crate) system: KeySystem,
}

impl KeyState {
    /// That of `core`, or of the sum of several, at `now`.
    pub fn of(core: &Core, now: Stamp) -> Self {
        let (mode, kept) = core.hot_keys(now);
        let pools = core.pools().iter().map(|pool| {
            let spec = pool.spec();
            (!pool.is_retired()).then(|| KeyPool {
                name: spec.name.clone(),
                coalesces: spec.coalesce,
                copies: spec.copies,
                servers: spec.servers.len(),
                reads_one: spec.reads == Reads::Primary,
            })
        });
        let servers = core.upstreams().servers().iter().map(|server| server.name().to_owned());
        let system = KeySystem {
            pools: pools.collect(),
            servers: servers.collect(),
            loops: core.loops(),
            keys: mode.name().to_owned(),
        };
        Self { kept, system }
    }

    /// What that says: made by the thread that asks, since it takes longer than the copy.
    pub(crate) fn hottest(&self) -> HotKeys {
        hottest(&self.kept, &self.system)
    }
}

/// The system that `core`, or any one of several such, and `config` are of. The process may use so
/// many `processors`, at least a part of one.
///
/// Servers stand in the order of their numbers, as in the visits, those that have been taken out of
/// the configuration too. Connections are those of all loops, or threads, to one server.
pub fn system(core: &Core, config: &Config, processors: f64) -> LiveSystem {
    let servers = core.upstreams().servers().iter();
    let pools = config.all_pools();
    let configured: Vec<&ServerConfig> = pools.iter().flat_map(|(_, pool)| &pool.servers).collect();
    let servers = servers.map(|server| {
        let name = server.name().to_owned();
        // A server may be in several pools, and be described in one of them.
        let of_name = || configured.iter().filter(|one| one.address.to_string() == name);
        let link = of_name().find_map(|one| one.link).map(|bits| bits / 8.0);
        let (processors, away) = (of_name().find_map(|one| one.cpu), !server.is_up());
        LiveServer { processors, link, away, name, ..LiveServer::default() }
    });
    let (lanes, loops) = match (config.engine, config.thread_form()) {
        (Engine::Threads, Ok(ThreadDesign::Workers(workers))) => (Some(workers), 1),
        // The readers of a server, and its writer.
        (Engine::Threads, Ok(ThreadDesign::Readers(readers))) => (Some(readers + 1), 1),
        _ => {
            let shared = config.server_connections.saturating_mul(config.threads as u32);
            ((!config.dedicated).then_some(shared), config.threads)
        }
    };
    LiveSystem {
        servers: servers.collect(),
        lanes: lanes.map(|lanes| u16::try_from(lanes).unwrap_or(u16::MAX)),
        workers: match core.settings().workers {
            Workers::Unlimited => None,
            Workers::Limited(workers) => Some(workers),
        },
        processors_per_loop: LiveSystem::per_loop(processors, loops),
        most_clients: u32::try_from(config.max_connections).ok(),
        ..LiveSystem::default()
    }
}

/// A pool of which every server holds all keys, and each may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicatedPool {
    /// Its name.
    pub name: String,
    /// Its servers, by their numbers in the visits; at least two.
    pub servers: Vec<usize>,
    /// Those of them to which no more reads can be moved: they are left out because they were slow,
    /// or have just come back.
    pub left_out: Vec<usize>,
}

/// The pools of `core` whose reads can be moved from one server to another, as they are at `now`.
pub fn replicated_pools(core: &Core, now: Stamp) -> Vec<ReplicatedPool> {
    let ramp = core.settings().return_over;
    let moves = |pool: &&Pool| {
        let spec = pool.spec();
        let chooses = spec.readers.is_none() && spec.reads != Reads::Primary;
        !pool.is_retired() && pool.is_replicated() && chooses && pool.servers().len() > 1
    };
    let of = |pool: &Pool| ReplicatedPool {
        name: pool.spec().name.clone(),
        servers: pool.servers().iter().map(|server| server.index()).collect(),
        left_out: pool.left_out(now, ramp).map(ServerId::index).collect(),
    };
    core.routing().pools().iter().filter(moves).map(of).collect()
}

#[cfg(test)]
mod tests {
    use krarup_record::{Recorder, RecorderSettings};

    use super::*;

    fn system_of(config: &str, processors: f64) -> LiveSystem {
        let config = Config::parse(config, "proxy.toml").unwrap();
        let recorder = Recorder::new(RecorderSettings::default()).unwrap();
        let core = Core::new(config.settings(), config.topology().unwrap(), recorder, Stamp(0));
        system(&core, &config, processors)
    }

    #[test]
    fn connections_are_those_of_all_loops_and_none_where_clients_have_their_own() {
        let servers = "servers = [\"a:1\", \"b:1\"]\n";
        let found = system_of(&format!("{servers}threads = 2\nserver_connections = 3\nworkers = 64"), 8.0);
        let names: Vec<_> = found.servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a:1", "b:1"]);
        assert_eq!((found.lanes, found.workers, found.processors_per_loop), (Some(6), Some(64), 1.0));
        let found = system_of(&format!("{servers}dedicated = true\nworkers = \"unlimited\""), 0.5);
        assert_eq!((found.lanes, found.workers, found.processors_per_loop), (None, None, 0.5));
        let found =
            system_of("servers = [{ address = \"a:1\", cpu = 0.5, link = \"8Mbit/s\" }, \"b:1\"]", 1.0);
        let known: Vec<_> = found.servers.iter().map(|one| (one.processors, one.link)).collect();
        assert_eq!(known, [(Some(0.5), Some(1e6)), (None, None)]);
        let found = system_of(&format!("{servers}threads = 4"), 1.0);
        assert_eq!((found.lanes, found.processors_per_loop), (Some(4), 0.25));
    }

    #[test]
    fn each_thread_has_a_connection_of_its_own() {
        let threads = "servers = [\"a:1\", \"b:1\"]\nengine = \"threads\"\n";
        assert_eq!(system_of(&format!("{threads}workers = 16"), 1.0).lanes, Some(16));
        assert_eq!(system_of(&format!("{threads}readers = 4"), 1.0).lanes, Some(5));
    }
}
