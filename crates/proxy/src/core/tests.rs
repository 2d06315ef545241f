//! The life of requests under a clock that the test turns by hand, with servers that answer when
//! told to.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use krarup_memcache::{Meta, MetaCommand, Request as Asked, StorageRequest, response};
use krarup_record::{KeyDigest, Outcome, Parts, RecorderSettings as RecordSettings, ServerVisit, Visit};
use krarup_service::{ConnectionLoss, Service as _, Upstreams as _};
use krarup_units::Nanos;
use proptest::prelude::*;

use super::*;
use crate::dispatch::Workers;
use crate::hot_keys::HotKeyMode;
use crate::placement::{KeyDistribution, KeyHash, Member, Placement};
use crate::topology::{Hedge, MultiGet, PoolSpec, Reads, Route, Shadow, StandIn, WhenDown, Writes};
use krarup_memcache::write;

mod decisions;
mod hot_keys;
mod lanes;
mod live;
mod meta;
mod pools;
mod reload;
mod walk;
mod window;

type Rows = Arc<Mutex<Vec<(Visit, Vec<ServerVisit>)>>>;

struct Keep(Rows);

impl RowSink for Keep {
    fn row(&mut self, visit: &Visit, servers: &[ServerVisit], _: usize) {
        self.0.lock().unwrap().push((*visit, servers.to_vec()));
    }
}

/// The world around the core: sockets that move bytes when the test says so, and a clock that
/// stands still.
struct World {
    core: Core,
    now: Stamp,
    /// What each client has sent and the core has not taken.
    unread: HashMap<u32, Vec<u8>>,
    replies: HashMap<u32, Vec<u8>>,
    /// What each server has received and the test not looked at.
    received: Vec<Vec<u8>>,
    rows: Rows,
}

fn settings() -> CoreSettings {
    CoreSettings {
        limits: Limits { value: 100, ..Limits::default() },
        workers: Workers::Unlimited,
        automatic: false,
        queue: 100,
        pipeline: 100,
        reply_buffer: 1 << 20,
        replies: 1 << 30,
        timeout: Nanos::from_secs(1),
        reconnect_after: Nanos::from_millis(20),
        reconnect_at_most: Nanos::from_secs(2),
        eject_after: Some(5),
        eject_for: Nanos::from_secs(10),
        return_over: Nanos::from_secs(10),
        slow_requests: 3,
        hot_keys: HotKeyMode::Name,
        unix: 1_700_000_000,
        run_id: 0,
        refused: Vec::new(),
        server_connections: 1,
        dedicated: false,
    }
}

impl World {
    /// Before servers that all hold everything.
    fn new(servers: usize, settings: CoreSettings) -> Self {
        Self::replicated(servers, MultiGet::Whole, settings)
    }

    fn replicated(servers: usize, multi_get: MultiGet, settings: CoreSettings) -> Self {
        Self::before(Topology::replicated(names(servers), multi_get), settings)
    }

    fn before(topology: Topology, settings: CoreSettings) -> Self {
        let mut world = Self::unconnected(topology, settings);
        (0..world.received.len()).for_each(|server| world.bring_up(server));
        world
    }

    /// Before servers none of which has a connection.
    fn unconnected(topology: Topology, settings: CoreSettings) -> Self {
        let recorder = Recorder::new(RecordSettings::default()).unwrap();
        let servers = topology.servers.len();
        let mut core = Core::new(settings, topology, recorder, Stamp(0));
        let rows = Rows::default();
        core.keep_rows(Box::new(Keep(rows.clone())), 0, 1);
        core.sample_keys(1);
        Self {
            core,
            now: Stamp(0),
            unread: HashMap::new(),
            replies: HashMap::new(),
            received: vec![Vec::new(); servers],
            rows,
        }
    }

    fn bring_up(&mut self, server: usize) {
        self.core.server_connected(server);
        self.write_servers();
        assert_eq!(std::mem::take(&mut self.received[server]), b"version\r\n");
        self.answer(server, "VERSION 1.6.18\r\n");
        assert!(self.core.server_is_up(server));
    }

    fn client(&mut self) -> u32 {
        self.client_of(0)
    }

    /// One that has connected to the address of the pool of that number.
    fn client_of(&mut self, pool: usize) -> u32 {
        let id = self.core.connected(pool, self.now);
        self.unread.insert(id, Vec::new());
        self.replies.insert(id, Vec::new());
        id
    }

    fn at(&mut self, nanos: u64) -> &mut Self {
        assert!(nanos >= self.now.0, "time does not run backwards");
        self.now = Stamp(nanos);
        self
    }

    fn send(&mut self, id: u32, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.unread.get_mut(&id).unwrap().extend_from_slice(bytes.as_ref());
        self.offer(id);
        self
    }

    fn offer(&mut self, id: u32) {
        let unread = self.unread.get_mut(&id).unwrap();
        let used = self.core.read(id, unread, self.now, self.now);
        unread.drain(..used);
    }

    fn write_servers(&mut self) -> &mut Self {
        for server in 0..self.received.len() {
            let output = self.core.server_output(server).unsent().to_vec();
            if !output.is_empty() {
                self.core.server_written(server, output.len(), self.now);
                self.received[server].extend_from_slice(&output);
            }
        }
        self
    }

    fn answer(&mut self, server: usize, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        assert_eq!(self.core.server_read(server, bytes, self.now), Ok(bytes.len()));
        self
    }

    fn write_clients(&mut self) -> &mut Self {
        let ids: Vec<_> = self.replies.keys().copied().collect();
        for id in ids {
            let output = self.core.output(id).unsent().to_vec();
            if !output.is_empty() {
                self.core.written(id, output.len(), self.now);
                self.replies.get_mut(&id).unwrap().extend_from_slice(&output);
            }
        }
        let runnable: Vec<u32> = std::iter::from_fn(|| self.core.next_runnable()).collect();
        for id in runnable {
            self.offer(id);
        }
        self
    }

    fn replied(&mut self, id: u32) -> String {
        self.write_clients();
        String::from_utf8(std::mem::take(self.replies.get_mut(&id).unwrap())).unwrap()
    }

    fn asked(&mut self, server: usize) -> String {
        self.write_servers();
        String::from_utf8(std::mem::take(&mut self.received[server])).unwrap()
    }

    fn row(&self, place: usize) -> (Visit, Vec<ServerVisit>) {
        self.rows.lock().unwrap()[place].clone()
    }
}

/// Keys are placed by their remainder: `a`, `d`, `g` at one server, and so on, which server only
/// the placement knows.
fn placed(name: &str, servers: Vec<usize>, copies: usize) -> PoolSpec {
    let members: Vec<_> =
        (0..servers.len()).map(|place| Member { name: format!("m{place}"), weight: 1 }).collect();
    let placement = Placement::new(KeyDistribution::Modulo, KeyHash::Md5, None, &members).unwrap();
    PoolSpec { placement: Some(placement), copies, ..PoolSpec::of(name, servers) }
}

fn names(servers: usize) -> Vec<String> {
    (0..servers).map(|server| format!("server-{server}:1")).collect()
}

fn one_pool(spec: PoolSpec) -> World {
    let servers = names(spec.servers.len());
    World::before(Topology { servers, pools: vec![spec], routes: Vec::new() }, settings())
}

/// The calibration: what the test's clock said when a byte moved is exactly what the stamps say.
#[test]
fn the_stamps_are_the_instants_at_which_the_bytes_moved() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.at(1_000).send(client, "set a 0 0 1\r\n");
    world.at(1_700).send(client, "x\r\n");
    world.at(2_500).write_servers();
    world.at(40_000).answer(1, "STORED\r\n");
    world.at(90_000).answer(0, "STORED\r\n");
    world.at(90_600);
    assert_eq!(world.replied(client), "STORED\r\n");
    let (visit, servers) = world.row(0);
    assert_eq!((visit.received, visit.queued, visit.taken), (Stamp(1_700), Stamp(1_700), Stamp(1_700)));
    assert_eq!(visit.replied, Stamp(90_600));
    assert_eq!(
        servers,
        [ServerVisit::ok(1, Stamp(2_500), Stamp(40_000)), ServerVisit::ok(0, Stamp(2_500), Stamp(90_000)),]
    );
    let expected =
        Parts { queue: Nanos(0), server: Nanos(87_500), own: Nanos(1_400), response: Nanos(88_900) };
    assert_eq!(visit.parts(&servers), expected);
    assert_eq!((visit.bytes_in, visit.bytes_out), (16, 8));
    assert!(visit.is_ordered(&servers));
}

#[test]
fn with_one_worker_the_second_request_waits_exactly_until_the_first_has_been_replied_to() {
    let mut world = World::new(1, CoreSettings { workers: Workers::Limited(1), ..settings() });
    let (first, second) = (world.client(), world.client());
    world.at(100).send(first, "get a\r\n");
    world.at(150).send(second, "get b\r\n");
    assert_eq!(world.at(200).asked(0), "get a\r\n");
    world.at(700).answer(0, "END\r\n");
    assert_eq!(world.asked(0), "", "the worker is held until its reply has left");
    world.at(900);
    assert_eq!(world.replied(first), "END\r\n");
    assert_eq!(world.at(950).asked(0), "get b\r\n");
    world.at(1_500).answer(0, "END\r\n");
    assert_eq!(world.at(1_600).replied(second), "END\r\n");
    let ((one, _), (two, servers)) = (world.row(0), world.row(1));
    assert_eq!((one.worker_was_idle, one.busy_workers, one.queue_length), (true, 1, 0));
    assert_eq!((two.queued, two.taken, two.queue_time()), (Stamp(150), Stamp(900), Nanos(750)));
    assert_eq!((two.worker_was_idle, two.busy_workers, two.queue_length), (false, 1, 0));
    assert_eq!(servers, [ServerVisit::ok(0, Stamp(950), Stamp(1_500))]);
}

#[test]
fn a_request_that_waited_and_failed_at_once_leaves_no_memory_in_its_place() {
    use crate::free_buffers::KEEP;
    use crate::ids::Identifier;
    let limits = Limits { value: 200_000, ..Limits::default() };
    let mut world = World::new(1, CoreSettings { workers: Workers::Limited(1), limits, ..settings() });
    let (first, second) = (world.client(), world.client());
    world.send(first, "get a\r\n");
    world.send(second, format!("set b 0 0 100000 noreply\r\n{}\r\n", "x".repeat(100_000)));
    assert_eq!(world.core.dispatch().waiting(), 1);
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    assert_eq!(world.replied(first), "SERVER_ERROR server-0:1: gone\r\n");
    assert_eq!(world.core.unfinished(), 0);
    for place in [0, 1].map(RequestId::new) {
        assert!(world.core.requests[place].rest.request.capacity() <= KEEP);
    }
}

#[test]
fn a_full_queue_is_not_fed_and_no_request_in_it_is_forgotten() {
    let mut world = World::new(1, CoreSettings { workers: Workers::Limited(1), queue: 2, ..settings() });
    let clients: Vec<_> = (0..6).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get a\r\n");
    }
    assert!(world.core.paused(clients[3]));
    assert_eq!(world.core.dispatch().waiting(), 2);
    for &client in &clients {
        assert_eq!(world.asked(0), "get a\r\n");
        world.answer(0, "END\r\n");
        assert_eq!(world.replied(client), "END\r\n");
    }
    assert_eq!(world.core.unfinished(), 0);
    assert_eq!(world.core.dispatch().longest(), 2);
}

#[test]
fn pipelined_requests_are_answered_in_order_whatever_order_the_servers_have() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "get a\r\nget b\r\nversion\r\nfoo\r\nget c\r\n");
    assert_eq!((world.asked(0), world.asked(1)), ("get a\r\nget c\r\n".into(), "get b\r\n".into()));
    world.answer(1, "VALUE b 0 1\r\nb\r\nEND\r\n");
    assert_eq!(world.replied(client), "");
    world.answer(0, "END\r\nVALUE c 0 1\r\nc\r\nEND\r\n");
    let version = format!("VERSION 1.6.18 krarup-{}\r\n", env!("CARGO_PKG_VERSION"));
    let expected = format!("END\r\nVALUE b 0 1\r\nb\r\nEND\r\n{version}ERROR\r\nVALUE c 0 1\r\nc\r\nEND\r\n");
    assert_eq!(world.replied(client), expected);
}

/// However much one client has sent, another that asks meanwhile is behind a turn of it and not
/// behind all.
#[test]
fn a_long_pipeline_is_accepted_a_turn_at_a_time() {
    let mut world = World::new(1, CoreSettings { pipeline: 1_000, queue: 1_000, ..settings() });
    let (patient, brief) = (world.client(), world.client());
    world.send(patient, "get a\r\n".repeat(300));
    let asked = world.send(brief, "get b\r\n").asked(0);
    let turn = asked.find("get b").expect("it has been asked") / "get a\r\n".len();
    assert!(turn < 300, "{turn} requests of the other came first");
    world.answer(0, "END\r\n".repeat(turn + 1));
    let mut answered = turn;
    while answered < 300 {
        world.write_clients();
        let more = world.asked(0).matches("get a").count();
        assert!((1..=turn).contains(&more), "{answered} of 300, then {more}");
        world.answer(0, "END\r\n".repeat(more));
        answered += more;
    }
    world.write_clients();
    assert_eq!(world.replied(patient), "END\r\n".repeat(300));
    assert_eq!(world.replied(brief), "END\r\n");
}

#[test]
fn a_sharded_multi_get_comes_back_in_the_order_of_its_keys() {
    let mut world = World::replicated(3, MultiGet::Sharded, settings());
    let client = world.client();
    world.send(client, "get a b c d e f g\r\n");
    assert_eq!(world.asked(0), "get a b c\r\n");
    assert_eq!(world.asked(1), "get d e\r\n");
    assert_eq!(world.asked(2), "get f g\r\n");
    world
        .answer(2, "VALUE g 0 1\r\n7\r\nEND\r\n")
        .answer(0, "VALUE a 0 1\r\n1\r\nEND\r\n")
        .answer(1, "END\r\n");
    assert_eq!(world.replied(client), "VALUE a 0 1\r\n1\r\nVALUE g 0 1\r\n7\r\nEND\r\n");
    let (visit, servers) = world.row(0);
    assert_eq!((visit.operation, visit.keys, visit.hits, visit.misses), (Operation::MultiGet, 7, 2, 5));
    assert_eq!(servers.len(), 3);
}

#[test]
fn a_sharded_multi_get_goes_by_the_share_that_is_ordered() {
    let mut world = World::replicated(2, MultiGet::Sharded, settings());
    let client = world.client();
    let until = world.now + Nanos::from_secs(1);
    let push = ReadPush { pool: "main".into(), server: "server-0:1".into(), share: 1.0, until };
    world.core.push_reads(Some(&push));
    world.send(client, "get a b c d\r\n");
    assert_eq!((world.asked(0).as_str(), world.asked(1).as_str()), ("get a b c d\r\n", ""));
    world.answer(0, "END\r\n");
    assert_eq!(world.replied(client), "END\r\n");
    world.core.push_reads(None);
    world.send(client, "get a b c d\r\n");
    assert_eq!((world.asked(0).as_str(), world.asked(1).as_str()), ("get a b\r\n", "get c d\r\n"));
}

#[test]
fn a_write_that_one_server_refuses_is_refused_and_counted() {
    let mut world = World::new(3, settings());
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\n").write_servers();
    world
        .answer(0, "STORED\r\n")
        .answer(1, "SERVER_ERROR out of memory storing object\r\n")
        .answer(2, "STORED\r\n");
    assert_eq!(world.replied(client), "SERVER_ERROR out of memory storing object\r\n");
    assert_eq!(world.core.events().disagreements, 1);
    assert_eq!(world.row(0).0.outcome, Outcome::ServerError);
}

#[test]
fn noreply_is_carried_out_and_answered_with_nothing() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "set a 0 0 1 noreply\r\nx\r\ndelete b noreply\r\nget a\r\n");
    assert_eq!(world.asked(0), "set a 0 0 1\r\nx\r\ndelete b\r\nget a\r\n");
    world.answer(0, "STORED\r\nNOT_FOUND\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(world.replied(client), "VALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(world.rows.lock().unwrap().len(), 3);
}

#[test]
fn cas_is_decided_by_the_first_server_and_copied_to_the_others() {
    let mut world = World::new(3, settings());
    let client = world.client();
    world.send(client, "gets a\r\ncas a 5 9 1 77\r\ny\r\nget a\r\n");
    assert_eq!(world.asked(0), "gets a\r\ncas a 5 9 1 77\r\ny\r\n");
    assert_eq!((world.asked(1), world.asked(2)), (String::new(), String::new()));
    world.answer(0, "VALUE a 5 1 77\r\nx\r\nEND\r\nSTORED\r\n");
    assert_eq!(world.asked(1), "set a 5 9 1\r\ny\r\n");
    assert_eq!(world.asked(2), "set a 5 9 1\r\ny\r\n");
    world.answer(1, "STORED\r\n");
    assert_eq!(world.replied(client), "VALUE a 5 1 77\r\nx\r\nEND\r\n");
    world.answer(2, "STORED\r\n");
    assert_eq!(world.replied(client), "STORED\r\n");
    // What the client sent behind it was held back until the copies were there.
    let asked: String = (0..3).map(|server| world.asked(server)).collect();
    assert_eq!(asked, "get a\r\n");
}

#[test]
fn a_cas_that_comes_too_late_is_copied_nowhere() {
    let mut world = World::new(2, settings());
    let client = world.client();
    world.send(client, "cas a 0 0 1 77\r\ny\r\n").write_servers();
    world.answer(0, "EXISTS\r\n");
    assert_eq!(world.replied(client), "EXISTS\r\n");
    assert_eq!(world.asked(1), "");
}

#[test]
fn gat_reads_at_one_server_and_touches_at_the_others() {
    let mut world = World::new(3, settings());
    let client = world.client();
    world.send(client, "gat 60 a b\r\n");
    assert_eq!(world.asked(0), "gat 60 a b\r\n");
    assert_eq!(world.asked(1), "touch a 60\r\ntouch b 60\r\n");
    assert_eq!(world.asked(2), "touch a 60\r\ntouch b 60\r\n");
    world.answer(0, "VALUE a 0 1\r\nx\r\nEND\r\n").answer(1, "TOUCHED\r\nNOT_FOUND\r\n");
    world.answer(2, "TOUCHED\r\nNOT_FOUND\r\n");
    assert_eq!(world.replied(client), "VALUE a 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn a_value_over_the_limit_takes_the_old_one_with_it() {
    let mut world = World::new(2, settings());
    let client = world.client();
    let large = "y".repeat(101);
    world.send(client, format!("set a 0 0 101\r\n{large}"));
    assert_eq!(world.replied(client), "", "the answer comes when the value has gone by");
    world.send(client, "\r\nadd a 0 0 101\r\n").send(client, format!("{large}\r\nversion\r\n"));
    assert_eq!((world.asked(0), world.asked(1)), ("delete a\r\n".into(), "delete a\r\n".into()));
    world.answer(0, "DELETED\r\n").answer(1, "NOT_FOUND\r\n");
    let replies = world.replied(client);
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    assert!(replies.starts_with(&format!("{too_large}{too_large}VERSION ")), "{replies}");
}

/// Until then the client is sending, and no answer is late.
#[test]
fn a_value_over_the_limit_is_received_with_its_last_byte() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.at(10).send(client, "set a 0 0 101\r\n");
    world.at(5_000).send(client, format!("{}\r\n", "y".repeat(101)));
    assert_eq!(world.at(5_010).asked(0), "delete a\r\n");
    world.answer(0, "DELETED\r\n").write_clients();
    let (visit, _) = world.row(0);
    assert_eq!((visit.received, visit.response_time()), (Stamp(5_000), Nanos(10)));
}

/// What waited for a worker was stored after the removal, and the old value stayed.
#[test]
fn the_old_value_is_removed_after_what_its_client_asked_before() {
    let mut world = World::new(1, CoreSettings { workers: Workers::Limited(1), ..settings() });
    let (busy, client) = (world.client(), world.client());
    let refused = format!("set a 0 0 101\r\n{}\r\nget a\r\n", "y".repeat(101));
    world.send(busy, "get b\r\n").send(client, format!("set a 0 0 1\r\nx\r\nversion\r\n{refused}"));
    assert_eq!(world.asked(0), "get b\r\n");
    world.answer(0, "END\r\n");
    assert_eq!(world.replied(busy), "END\r\n");
    assert_eq!(world.asked(0), "set a 0 0 1\r\nx\r\n");
    world.answer(0, "STORED\r\n");
    let replies = world.replied(client);
    assert!(replies.starts_with("STORED\r\nVERSION "), "{replies}");
    assert_eq!(world.asked(0), "delete a\r\nget a\r\n");
    world.answer(0, "DELETED\r\nEND\r\n");
    assert_eq!(world.replied(client), "SERVER_ERROR object too large for cache\r\nEND\r\n");
}

#[test]
fn a_lost_server_answers_everything_it_owes_with_its_name() {
    let mut world = World::new(2, settings());
    let clients: Vec<_> = (0..4).map(|_| world.client()).collect();
    for &client in &clients {
        world.send(client, "get a\r\n");
    }
    assert_eq!((world.asked(0), world.asked(1)), ("get a\r\nget a\r\n".into(), "get a\r\nget a\r\n".into()));
    world.answer(0, "END\r\n");
    world.core.server_lost(1, "the server closed\r\nthe connection", ConnectionLoss::Broken, world.now);
    let replies: Vec<_> = clients.iter().map(|&client| world.replied(client)).collect();
    let lost = "SERVER_ERROR server-1:1: the server closed  the connection\r\n";
    assert_eq!(replies, ["END\r\n", lost, "", lost]);
    world.answer(0, "END\r\n");
    assert_eq!(world.replied(clients[2]), "END\r\n");
    // Reads go to the one that is left, writes say that a copy is missing.
    world.send(clients[0], "get b\r\nset b 0 0 1\r\nx\r\n");
    assert_eq!(world.asked(0), "get b\r\nset b 0 0 1\r\nx\r\n");
    world.answer(0, "END\r\nSTORED\r\n");
    assert_eq!(world.replied(clients[0]), "END\r\nSERVER_ERROR server-1:1 is down\r\n");
    world.core.server_lost(0, "gone", ConnectionLoss::Broken, world.now);
    world.send(clients[0], "get b\r\n");
    assert_eq!(world.replied(clients[0]), "SERVER_ERROR no server is up (server-0:1, server-1:1)\r\n");
    world.bring_up(1);
    world.send(clients[0], "get b\r\n");
    assert_eq!(world.asked(1), "get b\r\n");
}

#[test]
fn an_answer_of_the_wrong_kind_ends_the_trust_in_the_connection() {
    for (answer, why) in [
        ("STORED\r\n", "neither values nor their end"),
        ("END\r\nEND\r\n", "an answer to nothing"),
        ("VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\ny\r\nEND\r\n", "more values than keys"),
    ] {
        let mut world = World::new(1, settings());
        let client = world.client();
        world.send(client, "get a\r\n").write_servers();
        let error = world.core.server_read(0, answer.as_bytes(), world.now).unwrap_err();
        assert!(error.why.contains(why), "{error}");
        assert_eq!(world.core.events().desynchronised, 1);
    }
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "set a 0 0 1\r\nx\r\n").write_servers();
    world.core.server_read(0, b"CLIENT_ERROR bad data chunk\r\n", world.now).unwrap_err();
    assert_eq!(world.replied(client), "CLIENT_ERROR bad data chunk\r\n");
}

#[test]
fn an_answer_about_something_else_ends_the_trust_in_the_connection() {
    for (servers, asked, answer) in [
        (1, "get a\r\n", "VALUE b 0 1\r\nx\r\nEND\r\n"),
        (1, "get a b\r\n", "VALUE b 0 1\r\nx\r\nVALUE a 0 1\r\ny\r\nEND\r\n"),
        (1, "get a b\r\n", "VALUE a 0 1\r\nx\r\nVALUE c 0 1\r\ny\r\nEND\r\n"),
        (1, "gets a\r\n", "VALUE b 0 1 7\r\nx\r\nEND\r\n"),
        (1, "gat 0 a\r\n", "VALUE b 0 1\r\nx\r\nEND\r\n"),
        (1, "mg a v k\r\n", "VA 1 kb\r\nx\r\n"),
        (1, "mg a v O7\r\n", "VA 1 O8\r\nx\r\n"),
        (1, "mg a v\r\n", "VA 1 O7\r\nx\r\n"),
        (1, "ms a 1 O7\r\nx\r\n", "HD O8\r\n"),
        (1, "md a k\r\n", "NF kb\r\n"),
    ] {
        let mut world = World::new(servers, settings());
        let client = world.client();
        world.send(client, asked).write_servers();
        // The value itself need not have come.
        let error = world.core.server_read(0, answer.as_bytes(), world.now).unwrap_err();
        assert!(error.why.contains("that was not asked for"), "{asked}: {error}");
        assert_eq!((world.core.events().desynchronised, world.replied(client).as_str()), (1, ""), "{asked}");
        world.core.server_lost(0, error.why, ConnectionLoss::Untrusted, world.now);
        world.write_clients();
        assert_eq!(world.replied(client), format!("SERVER_ERROR server-0:1: {}\r\n", error.why), "{asked}");
    }
    // What was asked for twice may be told twice, and what is base64 need not be read.
    for (asked, answer) in [
        ("get a b a\r\n", "VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ("get a b c\r\n", "VALUE c 0 1\r\nx\r\nEND\r\n"),
        ("mg YQ== b v k O7\r\n", "VA 1 b kYQ== O7\r\nx\r\n"),
        ("mg a k O7\r\n", "EN\r\n"),
    ] {
        let mut world = World::new(1, settings());
        let client = world.client();
        world.send(client, asked).write_servers().answer(0, answer);
        world.write_clients();
        assert_eq!(world.replied(client), answer);
    }
}

#[test]
fn an_answer_is_held_to_its_keys_in_however_many_pieces_it_comes() {
    let mut world = World::new(1, settings());
    let client = world.client();
    let (right, wrong) = ("VALUE a 0 1\r\nx\r\nVALUE c 0 1\r\ny\r\n", "VALUE b 0 1\r\nz\r\n");
    for whole in [format!("{right}END\r\n"), format!("{right}{wrong}")] {
        world.send(client, "get a b c\r\n").write_servers();
        let ends = if whole.ends_with(wrong) { whole.len() - "\r\nz\r\n".len() } else { whole.len() };
        for cut in 1..ends {
            let come = &whole.as_bytes()[..cut];
            assert_eq!(world.core.server_read(0, come, world.now), Ok(0), "{cut} of {whole:?}");
        }
        let read = world.core.server_read(0, whole.as_bytes(), world.now);
        assert_eq!(read.is_ok(), whole.ends_with("END\r\n"), "{read:?}");
    }
    assert_eq!(world.replied(client), format!("{right}END\r\n"));
}

#[test]
fn each_server_of_a_sharded_multi_get_is_held_to_its_own_keys() {
    let mut world = World::replicated(2, MultiGet::Sharded, settings());
    let client = world.client();
    world.send(client, "get a b c d\r\n").write_servers();
    let first = world.asked(0);
    let other = if first.contains(" a ") { "VALUE c 0 1" } else { "VALUE a 0 1" };
    world.core.server_read(0, format!("{other}\r\nx\r\nEND\r\n").as_bytes(), world.now).unwrap_err();
}

#[test]
fn a_server_that_wants_a_login_is_not_up_before_it_has_one() {
    let mut core = Core::new(
        settings(),
        Topology::replicated(vec!["a:1".into()], MultiGet::Whole),
        Recorder::new(RecordSettings::default()).unwrap(),
        Stamp(0),
    );
    core.server_connected(0);
    core.server_written(0, core.server_output(0).unsent().len(), Stamp(1));
    let error = core.server_read(0, b"CLIENT_ERROR unauthenticated\r\n", Stamp(2)).unwrap_err();
    assert!(error.why.contains("edge.server_login"), "{error}");
    assert!(error.to_string().contains("unauthenticated"), "the log has the line: {error}");
    assert!(!core.server_is_up(0));
}

#[test]
fn a_server_that_does_not_take_the_login_is_not_up() {
    let login = "set x 0 0 3\r\na b\r\n";
    let greeted = || {
        let topology = Topology::replicated(vec!["a:1".into()], MultiGet::Whole);
        let mut world = World::unconnected(topology, settings());
        world.core.sign_in_with(Some(login.as_bytes().to_vec()));
        world.core.server_connected(0);
        assert_eq!(world.asked(0), format!("{login}version\r\n"));
        world
    };
    for answer in ["NOT_STORED\r\n", "ERROR\r\n", "SERVER_ERROR busy\r\n"] {
        let mut world = greeted();
        let error = world.core.server_read(0, answer.as_bytes(), world.now).unwrap_err();
        assert!(error.why.contains("edge.server_login"), "{error}");
        assert!(!world.core.server_is_up(0), "{answer:?}");
    }
    let mut world = greeted();
    world.answer(0, "STORED\r\n");
    assert!(!world.core.server_is_up(0), "it has not told its version");
    world.answer(0, "VERSION 1.6.18\r\n");
    assert!(world.core.server_is_up(0));
}

/// It was up until it closed the connection, at each attempt.
#[test]
fn a_server_that_answers_an_error_for_its_version_is_not_up() {
    for answer in ["ERROR Too many open connections", "ERROR", "SERVER_ERROR busy"] {
        let mut world = World::unconnected(Topology::replicated(names(1), MultiGet::Whole), settings());
        world.core.server_connected(0);
        assert_eq!(world.asked(0), "version\r\n");
        let error = world.core.server_read(0, format!("{answer}\r\n").as_bytes(), world.now).unwrap_err();
        assert_eq!(error.to_string(), format!("it does not tell its version: `{answer}`"));
        assert!(!world.core.server_is_up(0), "{answer}");
        assert_eq!(world.core.events().desynchronised, 0);
    }
}

#[test]
fn the_places_of_a_client_that_is_gone_come_back() {
    let mut world = World::new(1, CoreSettings { workers: Workers::Limited(2), ..settings() });
    let (leaves, stays) = (world.client(), world.client());
    world.send(leaves, "get a\r\nget b\r\nget c\r\n").send(stays, "get d\r\n");
    assert_eq!(world.asked(0), "get a\r\nget b\r\n");
    world.answer(0, "END\r\n");
    world.core.gone(leaves, world.now);
    world.replies.remove(&leaves);
    assert_eq!(world.asked(0), "get c\r\n", "the reply had nowhere to go, so its worker was free");
    world.answer(0, "END\r\nEND\r\n");
    assert_eq!(world.asked(0), "get d\r\n");
    world.answer(0, "END\r\n");
    assert_eq!(world.replied(stays), "END\r\n");
    assert_eq!((world.core.unfinished(), world.core.dispatch().busy(), world.core.clients()), (0, 0, 1));
    let gone =
        world.rows.lock().unwrap().iter().filter(|(visit, _)| visit.outcome == Outcome::ClientGone).count();
    assert_eq!(gone, 3);
}

/// A row names its first key by a digest; requests without one have none.
#[test]
fn a_row_knows_the_first_key_of_its_request() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "get a\r\nversion\r\nget b a\r\ndelete c\r\n");
    assert_eq!(world.asked(0), "get a\r\nget b a\r\ndelete c\r\n");
    world.answer(0, "END\r\nEND\r\nNOT_FOUND\r\n");
    assert!(world.replied(client).ends_with("END\r\nNOT_FOUND\r\n"));
    let keys: Vec<KeyDigest> = (0..4).map(|row| world.row(row).0.key).collect();
    let of = |key: &str| KeyDigest::of(key.as_bytes());
    assert_eq!(keys, [of("a"), KeyDigest::NONE, of("b"), of("c")]);
}

#[test]
fn an_answer_is_overdue_when_its_time_is_over() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.at(5).send(client, "get a\r\n");
    assert_eq!(world.core.server_deadline(0), None);
    world.at(10).write_servers();
    assert!(!world.core.server_overdue(0, Stamp(1_000_000_009)));
    assert!(world.core.server_overdue(0, Stamp(1_000_000_010)));
}

/// A store that answers as memcached does, as far as the property needs it.
#[derive(Default)]
struct Memory {
    values: HashMap<Vec<u8>, Vec<u8>>,
}

impl Memory {
    /// `mg` with the flags v k f O.
    fn look(&self, meta: &Meta<'_>, out: &mut Vec<u8>) -> ReplyClass {
        let value = self.values.get(meta.key);
        let (class, code) = match value {
            None => (ReplyClass::MetaMiss, "EN".to_owned()),
            Some(value) if meta.has_any(b"v") => (ReplyClass::MetaValue, format!("VA {}", value.len())),
            Some(_) => (ReplyClass::MetaDone, "HD".to_owned()),
        };
        out.extend_from_slice(code.as_bytes());
        for (letter, token) in meta.flags.iter().filter(|_| class != ReplyClass::MetaMiss) {
            match letter {
                b'k' => out.extend([b" k", meta.key].concat()),
                b'f' => out.extend_from_slice(b" f0"),
                b'O' => out.extend([b" O", token].concat()),
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
        if class == ReplyClass::MetaValue {
            out.extend_from_slice(value.expect("a hit"));
            out.extend_from_slice(b"\r\n");
        }
        class
    }

    fn answer(&mut self, bytes: &[u8]) -> (usize, Vec<u8>) {
        let Parsed::Complete { message, used } = request::parse(bytes, &Limits::default()) else {
            panic!("the core sends whole requests: {:?}", String::from_utf8_lossy(bytes))
        };
        let mut out = Vec::new();
        match message {
            Asked::Retrieve(retrieve) => {
                for key in retrieve.keys.iter() {
                    if let Some(value) = self.values.get(key) {
                        let unique = retrieve.command.with_unique().then_some(7);
                        write::value(&mut out, key, 0, unique, value);
                    }
                }
                out.extend_from_slice(b"END\r\n");
            }
            Asked::Store(StorageRequest { command: Storage::Add, key, .. })
                if self.values.contains_key(key) =>
            {
                out.extend_from_slice(b"NOT_STORED\r\n");
            }
            Asked::Version => out.extend_from_slice(b"VERSION 1.6.18\r\n"),
            Asked::Touch { key, .. } => {
                let known = self.values.contains_key(key);
                out.extend_from_slice(if known { b"TOUCHED\r\n" } else { b"NOT_FOUND\r\n" });
            }
            Asked::Store(StorageRequest { key, data, .. }) => {
                self.values.insert(key.to_vec(), data.to_vec());
                out.extend_from_slice(b"STORED\r\n");
            }
            Asked::Delete { key, .. } => {
                let known = self.values.remove(key).is_some();
                out.extend_from_slice(if known { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" });
            }
            Asked::Meta(meta) if meta.command == MetaCommand::Get => {
                let class = self.look(&meta, &mut out);
                if meta.quiet && response::suppressed(meta.command, class) {
                    out.clear();
                }
            }
            Asked::Meta(meta) if meta.command == MetaCommand::Set => {
                self.values.insert(meta.key.to_vec(), meta.data.to_vec());
                out.extend_from_slice(b"HD\r\n");
            }
            other => panic!("not asked here: {other:?}"),
        }
        (used, out)
    }
}

/// What one client does; its keys are its own, so that its replies do not depend on the others.
fn dialogue() -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
    prop::collection::vec((0_u8..5, 0_u8..4, any::<u8>()), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// However the network cuts the bytes and interleaves clients and servers, every client gets
    /// the bytes it would get from one memcached alone, and every request leaves exactly one row
    /// with ordered stamps.
    #[test]
    fn any_interleaving_gives_each_client_the_same_bytes(
        dialogues in prop::collection::vec(dialogue(), 1..4),
        servers in 1_usize..4,
        sharded: bool,
        spread in prop::option::of((0_usize..5, 1_usize..4)),
        reads in 0_usize..5,
        besides in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        readers in prop::option::of(1_u32..3),
        workers in prop::option::of(1_u32..3),
        queue in 1_usize..4,
        choices in prop::collection::vec((0_u8..4, 0_u8..16, 1_usize..30), 0..400),
    ) {
        let multi_get = if sharded { MultiGet::Sharded } else { MultiGet::Whole };
        let workers = workers.map_or(Workers::Unlimited, Workers::Limited);
        let reads = [Reads::LeastWork, Reads::LeastOutstanding, Reads::TwoChoices, Reads::RoundRobin, Reads::Primary][reads];
        let members: Vec<_> = (0..servers).map(|place| Member { name: format!("m{place}"), weight: 1 }).collect();
        let placement = spread.map(|(distribution, _)| {
            Placement::new(KeyDistribution::ALL[distribution].0, KeyHash::Md5, None, &members).unwrap()
        });
        let spec = PoolSpec {
            copies: spread.map_or(servers, |(_, copies)| copies.min(servers)),
            placement,
            reads,
            multi_get,
            fall_back_on_error: besides.0,
            fall_back_on_miss: besides.1,
            coalesce: besides.2,
            readers,
            ..PoolSpec::of("main", (0..servers).collect())
        };
        // A read that is tried again, or waits for a reader, may see a write that its client sent
        // behind it.
        let pipeline = if besides.0 || besides.1 || readers.is_some() { 1 } else { 3 };
        // Keys of the first client go through a route that renames them.
        let routes = if besides.3 { vec![Route { prefix: b"0-".to_vec(), pool: 0, strip: true, add: b"z".to_vec() }] } else { vec![] };
        let topology = Topology { servers: names(servers), pools: vec![spec.clone()], routes };
        let mut world = World::before(topology, CoreSettings { workers, queue, pipeline, ..settings() });
        let mut stores: Vec<Memory> = (0..servers).map(|_| Memory::default()).collect();
        let mut answers: Vec<Vec<u8>> = vec![Vec::new(); servers];
        let mut come = vec![0; servers];
        let mut requests = 0;
        let mut clients = Vec::new();
        for (number, dialogue) in dialogues.iter().enumerate() {
            let (mut bytes, mut alone, mut expected) = (Vec::new(), Memory::default(), Vec::new());
            for &(what, key, value) in dialogue {
                let key = format!("{number}-{key}");
                let mut request = Vec::new();
                match what {
                    0 => write::retrieve(&mut request, krarup_memcache::Retrieval::Get, 0, [key.as_bytes()]),
                    1 => {
                        let keys: Vec<_> = (0..4).map(|key| format!("{number}-{key}")).collect();
                        write::retrieve(&mut request, krarup_memcache::Retrieval::Get, 0, keys.iter().map(String::as_bytes));
                    }
                    4 => {
                        let flags = ["", " v", " v f", " v q O9", " q", " v k f"][usize::from(value) % 6];
                        request.extend_from_slice(format!("mg {key}{flags}\r\n").as_bytes());
                    }
                    2 => write::storage(&mut request, Storage::Set, key.as_bytes(), 0, 0, 0, &vec![value; value as usize / 4]),
                    _ => write::delete(&mut request, key.as_bytes()),
                }
                expected.extend(alone.answer(&request).1);
                bytes.extend(request);
                requests += 1;
            }
            clients.push((world.client(), bytes, expected));
        }
        // First as the choices say, then round and round until nothing moves any more.
        let rounds = (0..4_000_usize).map(|round| ((round % 4) as u8, (round / 4 % 16) as u8, 1_000));
        for (time, (what, who, size)) in choices.into_iter().chain(rounds).enumerate() {
            world.at(time as u64 * 10);
            let (server, client) = (usize::from(who) % servers, usize::from(who) % clients.len());
            match what {
                0 => {
                    let (id, bytes, _) = &mut clients[client];
                    let cut = size.min(bytes.len());
                    let sent: Vec<u8> = bytes.drain(..cut).collect();
                    world.send(*id, sent);
                }
                1 => {
                    let output = world.core.server_output(server).unsent();
                    let cut = size.min(output.len());
                    world.received[server].extend_from_slice(&output[..cut]);
                    world.core.server_written(server, cut, Stamp(world.now.0));
                    while matches!(request::parse(&world.received[server], &Limits::default()), Parsed::Complete { .. }) {
                        let (used, answer) = stores[server].answer(&world.received[server]);
                        world.received[server].drain(..used);
                        answers[server].extend(answer);
                    }
                }
                2 => {
                    // What came before and was not used comes again.
                    let cut = (come[server] + size).min(answers[server].len());
                    let used = world.core.server_read(server, &answers[server][..cut], world.now).unwrap();
                    answers[server].drain(..used);
                    come[server] = cut - used;
                }
                _ => {
                    let (id, ..) = clients[client];
                    let output = world.core.output(id).unsent();
                    let cut = size.min(output.len());
                    world.replies.get_mut(&id).unwrap().extend_from_slice(&output[..cut]);
                    world.core.written(id, cut, world.now);
                    let runnable: Vec<u32> = std::iter::from_fn(|| world.core.next_runnable()).collect();
                    runnable.into_iter().for_each(|id| world.offer(id));
                }
            }
        }
        for (id, unsent, expected) in &clients {
            prop_assert!(unsent.is_empty() && world.unread[id].is_empty());
            prop_assert_eq!(String::from_utf8_lossy(&world.replies[id]), String::from_utf8_lossy(expected));
        }
        prop_assert_eq!(world.rows.lock().unwrap().len(), requests);
        prop_assert_eq!((world.core.unfinished(), world.core.in_flight()), (0, 0));
        for (visit, servers) in world.rows.lock().unwrap().iter() {
            prop_assert!(visit.is_ordered(servers), "{visit:?} {servers:?}");
        }
        // Where every server holds everything, all hold the same; elsewhere each key is at so many
        // servers.
        for (store, other) in stores.iter().zip(stores.iter().skip(1)).filter(|_| spec.placement.is_none()) {
            prop_assert_eq!(&store.values, &other.values);
        }
        for key in stores.iter().flat_map(|store| store.values.keys()) {
            prop_assert_eq!(stores.iter().filter(|store| store.values.contains_key(key)).count(), spec.copies);
        }
    }

    /// A server may be lost at any moment, whatever the pool does besides: every request is still
    /// answered exactly once, and every client in order.
    #[test]
    fn every_request_is_answered_exactly_once_whatever_is_lost(
        steps in prop::collection::vec((0_u8..8, 0_usize..3), 0..200),
        workers in prop::option::of(1_u32..3),
        copies in prop::option::of(1_usize..4),
        policies in (0_usize..4, 0_usize..5),
        besides in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
        readers in prop::option::of(1_u32..3),
    ) {
        let workers = workers.map_or(Workers::Unlimited, Workers::Limited);
        let members: Vec<_> = (0..3).map(|place| Member { name: format!("m{place}"), weight: 1 }).collect();
        let placement =
            copies.map(|_| Placement::new(KeyDistribution::Ketama, KeyHash::Md5, None, &members).unwrap());
        let spec = PoolSpec {
            copies: copies.unwrap_or(3),
            placement,
            multi_get: if besides.0 { MultiGet::Sharded } else { MultiGet::Whole },
            writes: [Writes::All, Writes::Quorum, Writes::First, Writes::Async][policies.0],
            reads: [Reads::LeastWork, Reads::LeastOutstanding, Reads::TwoChoices, Reads::RoundRobin, Reads::Primary][policies.1],
            when_down: if besides.1 { WhenDown::Next } else { WhenDown::Error },
            fall_back_on_error: besides.2,
            fall_back_on_miss: besides.3,
            refill: Some(60),
            coalesce: besides.4,
            hedge: besides.3.then_some(Hedge { quantile: 0.5, budget: 0.5 }),
            readers,
            ..PoolSpec::of("main", vec![0, 1, 2])
        };
        let topology = Topology { servers: names(3), pools: vec![spec], routes: Vec::new() };
        let mut world = World::before(topology, CoreSettings { workers, ..settings() });
        let client = world.client();
        let mut sent = 0;
        let mut owed: [VecDeque<&str>; 3] = Default::default();
        let take_up = |world: &mut World, owed: &mut [VecDeque<&str>; 3], server: usize| {
            let text = world.asked(server);
            for line in text.lines() {
                match line.split(' ').next() {
                    Some("get") => owed[server].push_back("END\r\n"),
                    Some("set" | "add") => owed[server].push_back("STORED\r\n"),
                    // Some are to be fetched anew, as this server sees it.
                    Some("mg") => owed[server].push_back(["EN\r\n", "HD W X\r\n", "HD\r\n"][(line.len() + server) % 3]),
                    _ => {}
                }
            }
        };
        for (time, (what, server)) in steps.into_iter().enumerate() {
            world.at(time as u64 * 1_000);
            world.core.tick(world.now);
            match what {
                0 | 1 => {
                    sent += 1;
                    world.send(client, "get a b c\r\n");
                }
                5 => {
                    sent += 1;
                    world.send(client, format!("get k{server}\r\n"));
                }
                6 => {
                    sent += 1;
                    world.send(client, format!("set k{server} 0 0 1\r\nx\r\n"));
                }
                7 => {
                    sent += 1;
                    world.send(client, format!("mg {}\r\n", "m".repeat(server + 1)));
                }
                2 if world.core.server_is_up(server) => take_up(&mut world, &mut owed, server),
                3 => {
                    if let Some(answer) = owed[server].pop_front() {
                        world.answer(server, answer);
                        world.write_clients();
                    }
                }
                4 if world.core.server_is_up(server) => {
                    world.received[server].clear();
                    owed[server].clear();
                    world.core.server_lost(server, "lost", ConnectionLoss::Broken, world.now);
                    world.bring_up(server);
                }
                _ => {}
            }
        }
        // A key that no server has is looked for at all three, one after the other.
        for _ in 0..4 * sent + 10 {
            for server in 0..3 {
                take_up(&mut world, &mut owed, server);
                for answer in std::mem::take(&mut owed[server]) {
                    world.answer(server, answer);
                }
            }
            world.write_clients();
        }
        let replies = world.replied(client);
        prop_assert_eq!(replies.lines().count(), sent);
        prop_assert!(replies.lines().all(|line| matches!(line, "END" | "STORED" | "EN" | "HD" | "HD W X") || line.starts_with("SERVER_ERROR server-")));
        prop_assert_eq!(world.rows.lock().unwrap().len(), sent);
        prop_assert_eq!((world.core.unfinished(), world.core.in_flight(), world.core.dispatch().busy()), (0, 0, 0));
        prop_assert_eq!((world.core.dispatch.readers().waiting(), world.core.pools()[0].busy()), (0, 0));
    }
}

/// A key of one client is nothing that another client may read.
#[test]
fn clients_on_a_connection_that_is_lost_are_told_why_and_nothing_of_each_other() {
    let mut world = World::new(1, settings());
    let (one, other) = (world.client(), world.client());
    world.send(one, "get a\r\n").send(other, "get secret\r\n").write_servers();
    let error = world.core.server_read(0, b"VALUE secret 0 1\r\nx\r\nEND\r\n", world.now).unwrap_err();
    assert!(error.to_string().contains("secret"), "the log has the line: {error}");
    world.core.server_lost(0, error.why, ConnectionLoss::Untrusted, world.now);
    world.write_clients();
    for client in [one, other] {
        let told = world.replied(client);
        assert_eq!(told, "SERVER_ERROR server-0:1: a value of a key that was not asked for\r\n");
    }
    world.send(one, "stats servers\r\n").write_clients();
    assert!(!world.replied(one).contains("secret"));
}

#[test]
fn stats_and_version_tell_the_same_version() {
    let mut world = World::new(1, settings());
    let client = world.client();
    world.send(client, "version\r\n").write_clients();
    let version = world.replied(client).replace("VERSION ", "");
    world.send(client, "stats\r\n").write_clients();
    let stats = world.replied(client);
    assert!(stats.contains(&format!("STAT version {version}")), "{stats}");
}

/// A client may begin its statistics anew; a counter of monitoring never goes back.
#[test]
fn what_monitoring_counts_outlives_a_reset() {
    use crate::metrics::ProxySnapshot;
    let mut world = World::new(1, settings());
    let client = world.client();
    let mut counted = Vec::new();
    for round in 0..3 {
        world.send(client, "get a\r\n").write_servers().answer(0, "END\r\n");
        world.write_clients();
        if round < 2 {
            world.send(client, "stats reset\r\n").write_clients();
        }
        world.core.settle_books();
        counted.push(ProxySnapshot::of(&world.core, world.now, false).gets_and_requests());
    }
    // Requests count the resets as well.
    assert_eq!(counted, [(1, 2), (2, 4), (3, 5)]);
    world.replied(client);
    world.send(client, "stats\r\n").write_clients();
    let stats = world.replied(client);
    assert!(stats.contains("STAT cmd_get 1\r\n"), "{stats}");
}
