//! Monitoring is answered from what the loop lays down, and from nothing else.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use krarup_broker::report::{TubeState, TubesReport, TubesState};
use krarup_model::headroom::ResponseTarget;
use krarup_net::snapshots::{SnapshotSlot, SnapshotSlots};
use krarup_record::JobSnapshot;

use super::*;

/// The numbers of a service that counts requests.
#[derive(Clone, Copy)]
struct Numbers {
    requests: u64,
    stopping: bool,
}

impl Monitored for Numbers {
    fn not_ready(&self) -> Option<String> {
        self.stopping.then(|| "stopping".to_owned())
    }

    fn metrics(&self, _: &ProcessMetrics, _: Option<&Headroom>) -> String {
        format!("requests_total {}\n", self.requests)
    }
}

const NO_QUERY: HttpQuery<'static> = HttpQuery { text: "", page: false };

const MOMENT: Numbers = Numbers { requests: 6, stopping: false };

/// A slot before a loop that is woken through a channel.
fn slot() -> (Arc<SnapshotSlot<Numbers>>, mpsc::Receiver<()>) {
    let (wake, woken) = mpsc::channel();
    (SnapshotSlot::waking(Duration::from_secs(60), move || _ = wake.send(())), woken)
}

/// Reads again what is no good.
fn reload() -> Arc<Reload> {
    Arc::new(Reload {
        what: "configuration",
        reload: Box::new(|| Err("line 1: nothing is good".into())),
        alone: Mutex::default(),
    })
}

/// A broker that serves nothing, for this reason.
fn waiting(why: &str, takes_clients: bool) -> AdminState {
    AdminState { served: None, waits_for: why.to_owned(), takes_clients, reload: None }
}

/// Monitoring that asks one slot.
fn monitoring(slot: &Arc<SnapshotSlot<Numbers>>) -> Monitoring<Numbers> {
    let slots = SnapshotSlots::of(Arc::clone(slot));
    Monitoring {
        program: "krarup proxy",
        ask: Box::new(move || slots.ask()),
        headroom: None,
        clients: None,
        redline: None,
        reload: Some(reload()),
    }
}

#[test]
fn numbers_are_published_when_asked_for_and_not_before() {
    let (slot, woken) = slot();
    slot.publish(|| panic!("it was not asked"));
    let monitoring = monitoring(&slot);
    let asked = thread::spawn(move || monitoring.answer(HttpMethod::Get, "/metrics", NO_QUERY));
    woken.recv().unwrap();
    slot.publish(|| MOMENT);
    slot.publish(|| panic!("one asked, and has been answered"));
    let answer = asked.join().unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("requests_total 6"));
}

/// A proxy's snapshot has its hot keys; what counts none has no such page.
#[test]
fn hot_keys_are_told_as_json_where_there_are_any() {
    let slot = SnapshotSlot::waking(Duration::from_secs(60), || {});
    let (proxy, other) = (Arc::new(krarup_proxy::metrics::ProxySnapshot::default()), Arc::new(MOMENT));
    let program = "krarup proxy";
    let ask = Box::new(move || Some(Arc::clone(&proxy)));
    let answer = Monitoring { program, ask, headroom: None, clients: None, redline: None, reload: None }
        .answer(HttpMethod::Get, "/hotkeys", NO_QUERY);
    assert_eq!((answer.status, answer.kind), (200, "application/json"));
    let keys: krarup_model::hot_keys::HotKeys = serde_json::from_str(&answer.body).unwrap();
    assert!(keys.pools.is_empty(), "{keys:?}");
    let ask = Box::new(move || Some(Arc::clone(&other)));
    let answer = Monitoring { ask, ..monitoring(&slot) }.answer(HttpMethod::Get, "/hotkeys", NO_QUERY);
    assert_eq!(answer.status, 404);
}

#[test]
fn a_loop_that_is_stuck_is_not_healthy() {
    let slot = SnapshotSlot::waking(Duration::from_millis(1), || {});
    let monitoring = monitoring(&slot);
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(monitoring.answer(HttpMethod::Get, path, NO_QUERY).status, 503, "{path}");
        assert_eq!(monitoring.answer(HttpMethod::Post, path, NO_QUERY).status, 405, "{path}");
    }
    assert_eq!(monitoring.answer(HttpMethod::Get, "/", NO_QUERY).status, 200);
    assert_eq!(monitoring.answer(HttpMethod::Get, "/etc/passwd", NO_QUERY).status, 404);
    assert_eq!(monitoring.answer(HttpMethod::Get, "/reload", NO_QUERY).status, 405);
    let refused = monitoring.answer(HttpMethod::Post, "/reload", NO_QUERY);
    assert_eq!(refused.status, 409);
    assert!(refused.body.starts_with("line 1: nothing is good"), "{}", refused.body);
}

#[test]
fn ready_is_what_says_nothing_against_it() {
    let ready = |numbers: Numbers| {
        let (slot, woken) = slot();
        let monitoring = monitoring(&slot);
        let asked = thread::spawn(move || {
            (
                monitoring.answer(HttpMethod::Get, "/ready", NO_QUERY),
                monitoring.answer(HttpMethod::Get, "/health", NO_QUERY),
            )
        });
        for _ in 0..2 {
            woken.recv().unwrap();
            slot.publish(|| numbers);
        }
        let (ready, health) = asked.join().unwrap();
        assert_eq!(health.status, 200);
        (ready.status, ready.body)
    };
    assert_eq!(ready(MOMENT), (200, "ready\n".into()));
    assert_eq!(ready(Numbers { stopping: true, ..MOMENT }), (503, "stopping\n".into()));
}

/// The numbers of a service with tubes.
struct TubeNumbers;

impl Monitored for TubeNumbers {
    const PATHS: &'static [&'static str] = &["/tubes"];

    fn not_ready(&self) -> Option<String> {
        None
    }

    fn metrics(&self, _: &ProcessMetrics, _: Option<&Headroom>) -> String {
        String::new()
    }

    fn report(&self, _: &str) -> serde_json::Result<String> {
        let target = ResponseTarget { quantile: 0.95, seconds: 1.0 };
        let jobs = Some(JobSnapshot::default());
        let state = TubesState {
            first: vec![TubeState { name: "jobs".into(), jobs, ..TubeState::default() }],
            ..TubesState::default()
        };
        serde_json::to_string_pretty(&TubesReport::of(&state, target))
    }
}

#[test]
fn tubes_are_listed_as_json_where_there_are_tubes() {
    let (wake, woken) = mpsc::channel();
    let slot = SnapshotSlot::waking(Duration::from_secs(60), move || _ = wake.send(()));
    let slots = SnapshotSlots::of(Arc::clone(&slot));
    let monitoring = Monitoring {
        program: "krarup broker",
        ask: Box::new(move || slots.ask()),
        headroom: None,
        clients: None,
        redline: None,
        reload: None,
    };
    assert!(monitoring.answer(HttpMethod::Get, "/", NO_QUERY).body.contains("/tubes"));
    assert_eq!(monitoring.answer(HttpMethod::Post, "/tubes", NO_QUERY).status, 405);
    let asked = thread::spawn(move || monitoring.answer(HttpMethod::Get, "/tubes", NO_QUERY));
    woken.recv().unwrap();
    slot.publish(|| TubeNumbers);
    let answer = asked.join().unwrap();
    assert_eq!((answer.status, answer.kind), (200, "application/json"));
    let tubes: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(tubes["tubes"][0]["tube"], "jobs");
    assert_eq!(tubes["tubes"][0]["workers"]["silent"], "no_arrivals");

    let (of_proxy, _woken) = self::slot();
    let of_proxy = self::monitoring(&of_proxy);
    assert_eq!(of_proxy.answer(HttpMethod::Get, "/tubes", NO_QUERY).status, 404);
    assert!(!of_proxy.answer(HttpMethod::Get, "/", NO_QUERY).body.contains("/tubes"));
}

#[test]
fn one_reload_at_a_time_waits_for_the_loop() {
    let slot = SnapshotSlot::waking(Duration::from_millis(1), || {});
    let monitoring = monitoring(&slot);
    let under_way = monitoring.reload.as_ref().unwrap().alone.lock().unwrap();
    let refused = monitoring.answer(HttpMethod::Post, "/reload", NO_QUERY);
    assert!(refused.status == 409 && refused.body.contains("under way"), "{}", refused.body);
    drop(under_way);
    assert!(monitoring.answer(HttpMethod::Post, "/reload", NO_QUERY).body.contains("nothing is good"));
}

#[test]
fn a_service_that_reads_no_configuration_has_nothing_to_reload() {
    let (slot, _woken) = slot();
    let monitoring = Monitoring { reload: None, program: "krarup broker", ..monitoring(&slot) };
    assert_eq!(monitoring.answer(HttpMethod::Post, "/reload", NO_QUERY).status, 404);
    assert!(!monitoring.answer(HttpMethod::Get, "/", NO_QUERY).body.contains("reload"));
}

#[test]
fn an_engine_that_ends_late_leaves_what_its_successor_shows() {
    let admin = AdminAddress::listen(&"127.0.0.1:0".parse().unwrap(), "--admin", "it waits", None).unwrap();
    let is_served = || lock(&admin.state).served.is_some();
    assert!(!is_served());
    let (slot, _woken) = slot();
    let first = admin.show(monitoring(&slot));
    let second = admin.show(monitoring(&slot));
    drop(first);
    assert!(is_served());
    drop(second);
    assert!(!is_served());
}

#[test]
fn a_broker_that_serves_nothing_is_well_and_not_ready() {
    let state = waiting("it waits for its turn", false);
    let say = |method, path| {
        let said = unserved(method, path, NO_QUERY, &state);
        (said.status, said.body)
    };
    assert_eq!(say(HttpMethod::Get, "/health"), (200, "ok\n".to_owned()));
    for path in ["/ready", "/headroom", "/tubes"] {
        assert_eq!(say(HttpMethod::Get, path), (503, "it waits for its turn\n".to_owned()));
    }
    assert_eq!(say(HttpMethod::Post, "/health").0, 405);
    let (status, metrics) = say(HttpMethod::Get, "/metrics");
    assert_eq!(status, 200);
    assert!(metrics.contains("\nkrarup_broker_waiting 1\n") && metrics.contains("krarup_build_info{"));
    assert!(!metrics.contains("krarup_broker_clients"));
}

#[test]
fn a_broker_that_takes_clients_is_ready_where_another_owns_the_shard() {
    let state = waiting("shard 0 is not served here", true);
    let say = |method, path| {
        let said = unserved(method, path, NO_QUERY, &state);
        (said.status, said.body)
    };
    let ready = (200, "ready for clients: shard 0 is not served here\n".to_owned());
    assert_eq!(say(HttpMethod::Get, "/ready"), ready);
    assert_eq!(say(HttpMethod::Post, "/ready").0, 405);
    assert_eq!(say(HttpMethod::Get, "/tubes").0, 503);
    assert!(say(HttpMethod::Get, "/metrics").1.contains("\nkrarup_broker_waiting 1\n"));
}

/// Its clients come when its turn does, and see what was read last.
#[test]
fn a_broker_that_serves_nothing_reads_its_certificate_all_the_same() {
    let plain = waiting("it waits for its turn", false);
    let say = |method, state: &AdminState| unserved(method, "/reload", NO_QUERY, state);
    assert_eq!(say(HttpMethod::Post, &plain).status, 404);
    let encrypted = AdminState { reload: Some(reload()), ..plain };
    assert_eq!(say(HttpMethod::Get, &encrypted).status, 405);
    let refused = say(HttpMethod::Post, &encrypted);
    assert!(refused.status == 409 && refused.body.contains("nothing is good"), "{}", refused.body);
}
