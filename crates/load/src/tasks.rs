//! Who does what: the clients of every class, shared out over threads and servers.
//!
//! Clients are numbered through all classes; client g is driven by thread g mod threads and asks
//! server g mod servers first. An open class has one schedule, of which each thread that has any of
//! its connections takes every so-manieth request. Of several generators that send one load
//! together, each has the threads that are its share of all. Each class has random streams of its
//! own, by its name: another class beside it changes nothing in what it sends.

use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use crate::account::MeasuredSpan;
use crate::client::Client;
use crate::config::{ClientClass, Extent, Load, LoginSettings, ServerChoice};
use crate::engine::{
    Arriving, ClientGroup, ClosedClient, DueTimes, NewConnection, RequestSource, StandingConnections,
    StopTime, Task,
};
use crate::queue::{self, Hello};
use crate::random::mix;
use crate::schedule::{Arrivals, Schedule, Think};
use crate::target::Target;
use crate::trace::{Dues, Replay, Speed, Trace};
use crate::workload::PreparedWorkload;

/// The traces of those classes that replay one, in the order of the classes.
pub(crate) type Traces = Vec<Option<Arc<Trace>>>;

/// The seed of a class: that of the run, for the one without a name.
fn seed(load: &Load, class: &ClientClass) -> u64 {
    class.name.bytes().fold(load.seed, |seed, byte| mix(seed ^ mix(u64::from(byte))))
}

/// Every thread's part of a checked load, or of this generator's share of it.
pub(crate) fn tasks(
    load: &Load,
    targets: &Arc<[Target]>,
    traces: &Traces,
    stop: &Arc<StopTime>,
) -> Vec<Task> {
    let end = match load.extent {
        Extent::Seconds(seconds) => Stamp(Nanos::from_seconds(seconds).0),
        Extent::Requests(_) | Extent::Trace => Stamp(u64::MAX / 2),
    };
    let classes = load.parts();
    let standing = Arc::new(StandingConnections::default());
    let empty = |_| Task {
        targets: Arc::clone(targets),
        groups: Vec::new(),
        owners: Vec::new(),
        connections: Vec::new(),
        classes: classes.len(),
        measured: MeasuredSpan {
            from: Stamp(Nanos::from_seconds(load.warm_up).0),
            to: Stamp(end.0 - Nanos::from_seconds(load.cool_down).0),
        },
        end,
        drain: Nanos::from_seconds(load.drain),
        request_timeout: Nanos::from_seconds(load.request_timeout),
        give_up: Nanos::from_seconds(load.give_up),
        standing: Arc::clone(&standing),
        verify: load.verify,
        stop: Arc::clone(stop),
    };
    // The threads of all generators; that of this one are every so-manieth.
    let (skipped, generators) = load.share.map_or((0, 1), |share| (share.number - 1, share.of));
    let mut tasks: Vec<Task> = (0..load.threads * generators).map(empty).collect();
    let requests = requests(load, &classes);
    let mut first = 0;
    for (number, class) in classes.iter().enumerate() {
        let part = Part { load, class, number: number as u16, first, requests: requests[number] };
        part.share_out(traces[number].as_ref(), &mut tasks);
        first += u64::from(class.connections);
    }
    tasks.into_iter().skip(skipped as usize).step_by(generators as usize).collect()
}

/// How many requests each class may send. Those of a counted run are shared out by connections.
fn requests(load: &Load, classes: &[ClientClass]) -> Vec<u64> {
    let Extent::Requests(all) = load.extent else { return vec![u64::MAX; classes.len()] };
    let connections: u64 = classes.iter().map(|class| u64::from(class.connections)).sum();
    let until = |count: u64| (u128::from(all) * u128::from(count) / u128::from(connections.max(1))) as u64;
    let mut before = 0;
    let share = |class: &ClientClass| {
        let from = until(before);
        before += u64::from(class.connections);
        until(before) - from
    };
    classes.iter().map(share).collect()
}

/// Part `number` of `of`, shared out evenly over `parts`.
fn share(of: u64, number: u64, parts: u64) -> u64 {
    if of == u64::MAX { of } else { of / parts + u64::from(number < of % parts) }
}

/// One class on its way to the threads.
struct Part<'a> {
    load: &'a Load,
    class: &'a ClientClass,
    number: u16,
    /// The number of its first client among those of all classes.
    first: u64,
    requests: u64,
}

impl Part<'_> {
    fn share_out(&self, trace: Option<&Arc<Trace>>, tasks: &mut [Task]) {
        let (class, threads) = (self.class, tasks.len() as u64);
        let clients = u64::from(class.connections);
        let busy = clients.min(threads);
        let is_closed = class.arrivals.is_closed();
        let streams = if is_closed { clients } else { busy };
        let seed = seed(self.load, class);
        let mut workload = class.workload.clone();
        if workload.names == 0 {
            workload.names = class.connections;
        }
        workload.longest_think = self.load.longest_think();
        let least = self.load.least_value();
        let plan = PreparedWorkload::replaying(workload, seed, streams, trace.cloned(), least);
        for turn in 0..busy {
            let task = &mut tasks[((self.first + turn) % threads) as usize];
            let source = match self.due(trace, seed) {
                None => RequestSource::Closed,
                Some(due) => RequestSource::Open(Box::new(Arriving {
                    due,
                    stride: busy,
                    offset: turn,
                    budget: share(self.requests, turn, busy),
                    stream: plan.stream(turn),
                })),
            };
            task.groups.push(ClientGroup::new(self.number, Arc::clone(&plan), class.habits, source));
        }
        for client in 0..clients {
            let task = &mut tasks[((self.first + client) % threads) as usize];
            let owner = is_closed.then(|| {
                let rows = trace.map_or(u64::MAX, |trace| share(trace.len() as u64, client, clients));
                let budget = share(self.requests, client, clients).min(rows);
                task.owners.push(ClosedClient { stream: plan.stream(client), budget });
                task.owners.len() as u32 - 1
            });
            self.add_connection(task, client, seed, owner);
        }
    }

    /// When the requests of an open class are due.
    fn due(&self, trace: Option<&Arc<Trace>>, seed: u64) -> Option<DueTimes> {
        match (&self.class.arrivals, trace) {
            (Arrivals::Open(open), _) => Some(DueTimes::Law(Schedule::new(open, seed))),
            (Arrivals::Replay(Replay { speed: Speed::Times(times), .. }), Some(trace)) => {
                Some(DueTimes::Trace(Dues::new(Arc::clone(trace), *times)))
            }
            _ => None,
        }
    }

    /// What a client says first to a message broker.
    fn hello(&self, client: u64) -> Option<Hello> {
        let (class, workload) = (self.class, &self.class.workload);
        if !workload.is_of_queue() {
            return None;
        }
        let names = if workload.names == 0 { class.connections } else { workload.names };
        let secret = self.load.login.as_ref().map(LoginSettings::password);
        let clients = u64::from(class.connections);
        queue::hello(client, clients, (workload.tubes, names), workload.needs_names(), secret)
    }

    /// Gives a client its connection, or one to every server, the first of which has its slots.
    fn add_connection(&self, task: &mut Task, client: u64, seed: u64, owner: Option<u32>) {
        let think = owner.map(|_| match self.class.arrivals {
            Arrivals::Closed(think) => think,
            _ => Think::None,
        });
        let targets = task.targets.len() as u64;
        let connections = if self.load.spread == ServerChoice::Every { targets } else { 1 };
        let begun = task.connections.len() as u32;
        for connection in 0..connections {
            let target = ((self.first + client + connection) % targets) as u16;
            // In an open load every connection has slots of its own: whichever is free takes the
            // next request.
            let depth = if connection == 0 || owner.is_none() { self.class.pipeline } else { 0 };
            let next =
                (connections > 1 && owner.is_some()).then(|| begun + ((connection + 1) % connections) as u32);
            task.connections.push(NewConnection {
                // Each connection draws think times of its own.
                client: Client::new(seed, client | (connection << 40), depth, think, target, self.number),
                target,
                group: task.groups.len() as u16 - 1,
                owner,
                next,
                hello: self.hello(client),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use krarup_units::PerSecond;

    use super::*;
    use crate::account::Account;
    use crate::client::ThreadContext;
    use crate::config::LoadShare;
    use crate::schedule::{ArrivalProcess, Leg, Open};
    use crate::workload::{Mix, Scratch, Workload};

    fn tasks_of(load: &Load) -> Vec<Task> {
        assert_eq!(load.check(), Ok(()));
        let targets: Arc<[Target]> = Target::all(load, None, &mut || false).unwrap().into();
        let traces = load.parts().iter().map(|_| None).collect();
        tasks(load, &targets, &traces, &Arc::new(StopTime::default()))
    }

    fn class(name: &str, connections: u32) -> ClientClass {
        ClientClass { name: name.to_owned(), connections, ..ClientClass::default() }
    }

    fn open(rate: f64) -> Arrivals {
        let legs = vec![Leg { from: PerSecond(rate), to: PerSecond(rate), seconds: 0.0 }];
        Arrivals::Open(Open { process: ArrivalProcess::Paced, legs })
    }

    #[test]
    fn every_client_has_one_place_and_every_request_one_client() {
        let arrivals = open(100.0);
        let classes = vec![class("a", 5), ClientClass { arrivals, ..class("b", 2) }, class("c", 3)];
        let load =
            Load { connections: 10, threads: 4, classes, extent: Extent::Requests(103), ..Load::default() };
        let tasks = tasks_of(&load);
        let connections: usize = tasks.iter().map(|task| task.connections.len()).sum();
        assert_eq!(connections, 10);
        assert!(tasks.iter().all(|task| (2..=3).contains(&task.connections.len())));
        let closed: u64 = tasks.iter().flat_map(|task| &task.owners).map(|owner| owner.budget).sum();
        let opened: u64 = tasks
            .iter()
            .flat_map(|task| &task.groups)
            .map(|group| if let RequestSource::Open(arriving) = &group.source { arriving.budget } else { 0 })
            .sum();
        assert_eq!(closed + opened, 103);
        for task in &tasks {
            for connection in &task.connections {
                let is_open =
                    matches!(task.groups[usize::from(connection.group)].source, RequestSource::Open(_));
                assert_eq!(is_open, connection.owner.is_none());
            }
        }
    }

    #[test]
    fn a_client_that_asks_every_server_has_a_ring_of_connections() {
        let targets = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
        let targets = targets.iter().map(|text| text.parse().unwrap()).collect();
        let load = Load { targets, spread: ServerChoice::Every, connections: 2, ..Load::default() };
        let tasks = tasks_of(&load);
        let ring: Vec<_> = tasks[0]
            .connections
            .iter()
            .map(|connection| (connection.target, connection.next, connection.client.free()))
            .collect();
        assert_eq!(
            ring,
            [
                (0, Some(1), 1),
                (1, Some(2), 0),
                (2, Some(0), 0),
                (1, Some(4), 1),
                (2, Some(5), 0),
                (0, Some(3), 0)
            ]
        );
    }

    /// How long the one client thinks after its first answer, on its connection to each server.
    fn first_thoughts(targets: &[&str]) -> Vec<Option<Stamp>> {
        let workload = Workload { mix: Mix::Ratio { sets: 0, gets: 1 }, ..Workload::default() };
        let load = Load {
            targets: targets.iter().map(|text| text.parse().unwrap()).collect(),
            spread: ServerChoice::Every,
            connections: 1,
            arrivals: Arrivals::Closed(Think::Exponential(1.0)),
            workload,
            ..Load::default()
        };
        let mut task = tasks_of(&load).remove(0);
        let (mut account, mut scratch) = (Account::new(task.measured, 1), Scratch::default());
        let mut shared = ThreadContext {
            plan: &task.groups[0].plan,
            account: &mut account,
            scratch: &mut scratch,
            verify: false,
        };
        let mut thoughts = Vec::new();
        for NewConnection { client, .. } in &mut task.connections {
            client.put_slot(Stamp(0));
            client.issue(None, Stamp(0), &mut task.owners[0].stream, &mut shared);
            while client.take_slot().is_some() {}
            assert_eq!(client.receive(b"END\r\n", Stamp(0), &mut shared), Ok(1));
            thoughts.push(client.wants());
        }
        thoughts
    }

    #[test]
    fn each_connection_of_a_client_has_think_times_of_its_own() {
        let both = first_thoughts(&["127.0.0.1:1", "127.0.0.1:2"]);
        assert_ne!(both[0], both[1]);
        assert_eq!(both[..1], first_thoughts(&["127.0.0.1:1"]));
    }

    /// What each thread is to do, as a text: its connections (client and server), how many requests
    /// its clients may send, and when those of open classes are due.
    fn described(tasks: &[Task]) -> Vec<String> {
        let one = |task: &Task| {
            let connections: Vec<_> =
                task.connections.iter().map(|one| format!("{:?} {}", one.client, one.target)).collect();
            let owners: Vec<_> = task.owners.iter().map(|one| format!("{one:?}")).collect();
            let sources: Vec<_> = task.groups.iter().map(|group| format!("{:?}", group.source)).collect();
            format!("{connections:?} {owners:?} {sources:?}")
        };
        tasks.iter().map(one).collect()
    }

    /// Threads of several generators are those of one with as many: the same clients with the same
    /// streams of requests, to the same servers.
    #[test]
    fn shares_together_are_the_whole_load() {
        let classes = vec![class("a", 13), ClientClass { arrivals: open(100.0), ..class("b", 9) }];
        let targets = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"];
        let targets = targets.iter().map(|text| text.parse().unwrap()).collect();
        let whole =
            Load { connections: 22, classes, targets, extent: Extent::Requests(1_003), ..Load::default() };
        let (threads, of) = (2, 4);
        let all = described(&tasks_of(&Load { threads: threads * of, ..whole.clone() }));
        let mut shares = vec![Vec::new(); all.len()];
        for number in 1..=of {
            let share = Some(LoadShare { number, of, start_at: None });
            let own = described(&tasks_of(&Load { threads, share, ..whole.clone() }));
            assert_eq!(own.len(), 2);
            for (thread, task) in own.into_iter().enumerate() {
                shares[(number - 1) as usize + thread * of as usize].push(task);
            }
        }
        assert_eq!(shares.concat(), all);
    }

    /// A message is put by one class, and reserved by another that thinks before it deletes it.
    #[test]
    fn every_class_knows_the_longest_think_time_of_all() {
        let thinking = |name, think| ClientClass { arrivals: Arrivals::Closed(think), ..class(name, 1) };
        let classes =
            vec![class("a", 1), thinking("b", Think::Exponential(60.0)), thinking("c", Think::Fixed(90.0))];
        let tasks = tasks_of(&Load { connections: 3, classes, ..Load::default() });
        let known: Vec<_> = tasks[0].groups.iter().map(|group| group.plan.workload.longest_think).collect();
        assert_eq!(known, [2_400.0; 3]);
    }

    #[test]
    fn a_class_sends_the_same_whatever_stands_beside_it() {
        let alone = Load { connections: 2, classes: vec![class("a", 2)], ..Load::default() };
        let beside = Load { connections: 5, classes: vec![class("b", 3), class("a", 2)], ..Load::default() };
        let other = Load { connections: 2, classes: vec![class("b", 2)], ..Load::default() };
        assert_eq!(seed(&alone, &alone.classes[0]), seed(&beside, &beside.classes[1]));
        assert_ne!(seed(&alone, &alone.classes[0]), seed(&other, &other.classes[0]));
    }
}
