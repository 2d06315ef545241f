//! What a model of the running traffic is given: what the loops have kept, and what is known of the
//! system beside it.
//!
//! A loop hands out what it keeps between two passes, as plain data (some 100 µs for 1.5 MiB); the
//! thread that asks puts that of several together.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use krarup_model::headroom::{LiveSystem, ResponseTarget};
use krarup_net::processors;
use krarup_net::snapshots::{SnapshotSlot, SnapshotSlots};
use krarup_proxy::Config;
use krarup_proxy::live::{KeyState, ReplicatedPool};
use krarup_record::LiveSnapshot;
use krarup_units::Address;

/// What was kept of the traffic, by one loop or several, and of which system it is.
#[derive(Clone, Debug)]
pub struct LiveState {
    /// What the loops have kept.
    pub kept: LiveSnapshot,
    /// Whose servers they asked.
    pub system: LiveSystem,
    /// The response time that the configuration asks for.
    pub target: Option<ResponseTarget>,
    /// Pools of which every server holds all keys, and each may be read.
    pub pools: Vec<ReplicatedPool>,
    /// The file whose lock proxies before the same servers share.
    pub redline_lock: Option<PathBuf>,
    /// The configuration whose pools place keys; none: no keys are placed.
    pub config: Option<Box<Config>>,
    /// The keys that take most, of each loop.
    pub keys: Vec<KeyState>,
}

impl LiveState {
    fn and(mut self, other: Self) -> Self {
        self.kept.merge(&other.kept);
        self.keys.extend(other.keys);
        for (server, elsewhere) in self.system.servers.iter_mut().zip(&other.system.servers) {
            server.away |= elsewhere.away;
        }
        // While a reload goes from loop to loop, one may have pools that another does not.
        for elsewhere in other.pools {
            if let Some(pool) = self.pools.iter_mut().find(|pool| pool.name == elsewhere.name) {
                pool.left_out.extend(elsewhere.left_out);
            }
        }
        self
    }

    /// Whether no more reads can be moved to this server of a pool.
    pub(crate) fn leaves_out(&self, pool: &str, server: &str) -> bool {
        let number = self.system.servers.iter().position(|one| one.name == server);
        let pool = self.pools.iter().find(|one| one.name == pool);
        pool.zip(number).is_some_and(|(pool, number)| pool.left_out.contains(&number))
    }

    /// A number that is another one where servers may get other shares of the requests.
    pub(crate) fn shares_digest(&self) -> Option<u64> {
        self.config.as_ref().map(|config| config.shares_digest())
    }

    /// The address by which a proxy is told from others before the same servers; none: it is not
    /// known to be its own.
    pub(crate) fn listens_at(&self) -> Option<String> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        own_address(&self.config.as_ref()?.listen, host.trim())
    }
}

/// The address of the machine of this name; one that other machines have too begins with the name,
/// and is none where there is none.
fn own_address(listen: &Address, host: &str) -> Option<String> {
    match host {
        _ if !listen.is_unspecified() && !listen.is_local() => Some(listen.to_string()),
        "" => None,
        host => Some(format!("{host}/{listen}")),
    }
}

/// Asks the loops of a process for it, in the order in which they are numbered.
#[derive(Clone)]
pub(crate) struct LiveQuestion(Arc<SnapshotSlots<LiveState>>);

impl LiveQuestion {
    /// Of the loops behind these slots.
    pub(crate) fn new(slots: Vec<Arc<SnapshotSlot<LiveState>>>) -> Self {
        Self(Arc::new(SnapshotSlots::new(slots, LiveState::and)))
    }

    /// What all loops have kept until now, and the processors that they may use now; none where one
    /// of them is stuck.
    pub(crate) fn ask(&self) -> Option<Arc<LiveState>> {
        let mut state = self.0.ask()?;
        // A quota may change while the process runs.
        let loops = state.config.as_ref().map_or(1, |config| config.threads);
        // Copied only where several threads have asked together.
        let system = &mut Arc::make_mut(&mut state).system;
        system.processors_per_loop = LiveSystem::per_loop(processors::usable(), loops);
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use krarup_record::{LiveBooks, Operation, ServerVisit, Visit};
    use krarup_units::{Nanos, Stamp};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Asks a loop for each state; each answers when it is woken, the last one first.
    fn question(states: Vec<LiveState>) -> LiveQuestion {
        let all = Arc::<Mutex<Vec<Arc<SnapshotSlot<LiveState>>>>>::default();
        let states: Arc<[LiveState]> = states.into();
        let slots: Vec<_> = (0..states.len())
            .map(|_| {
                let (all, states) = (Arc::clone(&all), Arc::clone(&states));
                SnapshotSlot::waking(Nanos::from_secs(1).as_duration(), move || {
                    for (slot, state) in all.lock().unwrap().iter().zip(states.iter()).rev() {
                        slot.publish(|| state.clone());
                    }
                })
            })
            .collect();
        all.lock().unwrap().clone_from(&slots);
        LiveQuestion::new(slots)
    }

    #[test]
    fn the_processors_of_a_loop_are_those_that_it_may_use_now() {
        let two = Config::parse("servers = [\"a:1\"]\nthreads = 2", "proxy.toml").unwrap();
        for (config, loops) in [(Some(Box::new(two)), 2), (None, 1)] {
            let mut state = LiveState { config, ..state_of(0) };
            state.system.processors_per_loop = 0.01;
            let now = LiveSystem::per_loop(processors::usable(), loops);
            assert_eq!(question(vec![state]).ask().unwrap().system.processors_per_loop, now);
        }
        assert_eq!((LiveSystem::per_loop(0.5, 2), LiveSystem::per_loop(4.0, 2)), (0.25, 1.0));
    }

    /// So that what was proven to one proxy is not told by another that listens as it does.
    #[test]
    fn an_address_that_other_machines_have_too_goes_with_the_name_of_the_machine() {
        let own = |listen: &str, host: &str| own_address(&listen.parse().unwrap(), host);
        for shared in ["0.0.0.0:11211", "[::]:11211", "127.0.0.1:11211", "unix:/run/proxy.sock"] {
            let (first, second) = (own(shared, "one"), own(shared, "two"));
            assert!(first.is_some() && second.is_some() && first != second, "{first:?}, {second:?}");
            assert_eq!(own(shared, ""), None, "{shared}");
        }
        assert_eq!(own("10.0.0.9:11211", "one").as_deref(), Some("10.0.0.9:11211"));
    }

    #[test]
    fn a_server_is_away_where_one_loop_has_it_so() {
        let mut states: Vec<LiveState> = (0..2).map(state_of).collect();
        states[1].system.servers[0].away = true;
        assert!(question(states).ask().unwrap().system.servers[0].away);
    }

    #[test]
    fn a_server_is_left_out_where_one_loop_does_so() {
        let mut states: Vec<LiveState> = (0..2).map(state_of).collect();
        for (state, left_out) in states.iter_mut().zip([Vec::new(), vec![0]]) {
            state.pools.push(ReplicatedPool { name: "main".to_owned(), servers: vec![0, 1], left_out });
        }
        let state = question(states).ask().unwrap();
        assert!(state.leaves_out("main", "a:1"));
        assert!(!state.leaves_out("main", "b:1") && !state.leaves_out("other", "a:1"));
    }

    /// A reload takes the pool before it away, and has reached one of two loops.
    #[test]
    fn a_server_is_left_out_of_its_own_pool_while_a_reload_goes_from_loop_to_loop() {
        let pool = |name: &str, left_out: &[usize]| ReplicatedPool {
            name: name.to_owned(),
            servers: vec![0, 1],
            left_out: left_out.to_vec(),
        };
        let before = LiveState { pools: vec![pool("first", &[]), pool("main", &[])], ..state_of(0) };
        let after = LiveState { pools: vec![pool("main", &[0])], ..state_of(1) };
        for states in [vec![before.clone(), after.clone()], vec![after, before]] {
            let state = question(states).ask().unwrap();
            assert!(state.leaves_out("main", "a:1"));
            assert!(!state.leaves_out("first", "a:1"));
        }
    }

    #[test]
    fn what_several_loops_keep_is_one_snapshot_in_their_order() {
        let state = question((0..2).map(state_of).collect()).ask().unwrap();
        assert_eq!((state.kept.loops, state.system.servers.len()), (2, 1));
        let servers: Vec<_> = state.kept.visits.iter().map(krarup_record::LiveVisit::server).collect();
        assert_eq!(servers, [0, 1]);
        let loops: Vec<_> = state.kept.stretches.iter().map(|one| one.in_loop).collect();
        assert_eq!(loops, [0, 1]);
    }

    /// A loop that has asked one server, of its own number, once.
    fn state_of(number: u16) -> LiveState {
        let mut books = LiveBooks::new(1);
        let visit = Visit::at(Stamp(SECOND), Operation::Get);
        books.finish(&visit, &[ServerVisit::ok(number, visit.received, visit.replied)]);
        let kept = books.snapshot(Stamp(3 * SECOND));
        LiveState {
            kept,
            system: LiveSystem::of(["a:1".to_owned()]),
            target: None,
            pools: Vec::new(),
            redline_lock: None,
            config: None,
            keys: Vec::new(),
        }
    }
}
