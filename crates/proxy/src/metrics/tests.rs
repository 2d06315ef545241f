//! What monitoring is told is well-formed and adds up.

use std::collections::{BTreeMap, BTreeSet};

use krarup_model::headroom::{
    CapacityEstimate, Headroom, HeadroomVerdict, LimitingResource, ProvenRate, ResourceKind, ResourceState,
    Silence, TrafficSeen,
};
use krarup_model::hot_keys::{KeyPool, KeySystem};
use krarup_record::exposition::{BOUNDS, OfOperation, PROCESS, ProcessMetrics, TimeBuckets};
use krarup_record::{
    HotKeyBooks, LoopUse, MeasuredDistribution, Operation, Quantity, Recorder, RecorderSettings,
    SampledRequest, ServerVisit, Visit, VisitTally,
};

use krarup_units::{Nanos, Stamp};

use super::snapshot::{OfPool, OfServer, ProxySnapshot};
use super::*;
use crate::live::KeyState;
use crate::pool::PoolCounts;
use crate::topology::PoolSpec;
use crate::{Config, Core, MultiGet, Topology};

/// A moment with something in every list, and a name that needs escapes.
fn moment() -> ProxySnapshot {
    let mut distribution = MeasuredDistribution::new();
    for micros in [1, 25, 26, 999, 1_000, 70_000_000] {
        distribution.record(Nanos::from_micros(micros));
    }
    let times = TimeBuckets::of(&distribution, true);
    let server = |name: &str, up| OfServer {
        name: name.into(),
        up,
        ejected: false,
        requests: 5,
        errors: 1,
        outstanding: 2,
        losses: 3,
        readers: (1, 2),
        times: times.clone(),
    };
    let operation = |operation| OfOperation {
        operation,
        tally: VisitTally { count: 6, errors: 1, ..VisitTally::EMPTY },
        times: std::array::from_fn(|_| times.clone()),
    };
    let pool = |name: &str| OfPool {
        name: name.into(),
        servers_up: 1,
        is_missed: false,
        in_progress: 4,
        counts: PoolCounts::default(),
    };
    ProxySnapshot {
        pools: vec![pool("main"), pool("users")],
        loops: [7, 9]
            .map(|passes| LoopUse { passes, processor: Nanos::from_millis(250), ..LoopUse::default() })
            .to_vec(),
        uptime: Nanos::from_millis(1_500),
        workers: Some(8),
        operations: vec![operation(Operation::Get), operation(Operation::Set)],
        servers: vec![server("10.0.0.1:11211", true), server("a \"quoted\" \\ name", false)],
        keys: one_key(),
        ..ProxySnapshot::default()
    }
}

/// Ten sampled gets for one key of the pool `main`.
fn one_key() -> KeyState {
    let mut books = HotKeyBooks::default();
    for _ in 0..10 {
        let sampled = SampledRequest {
            pool: 0,
            key: 7,
            name: None,
            heir: None,
            placed_by: None,
            one_of: 8,
            operation: Operation::Get,
            bytes: 100,
            residence: Nanos(900),
            servers: &[(0, Nanos(500))],
        };
        books.add(&sampled, Stamp(1_000));
    }
    let main = KeyPool { name: "main".into(), coalesces: false, copies: 1, servers: 1, reads_one: false };
    let system = KeySystem { pools: vec![Some(main)], loops: 1, ..KeySystem::default() };
    KeyState { kept: books.snapshot(Stamp(2_000)), system }
}

fn process() -> ProcessMetrics {
    ProcessMetrics {
        processor_time: Nanos::from_millis(20),
        resident: Some(1 << 20),
        open_files: Some(9),
        most_files: Some(1 << 10),
    }
}

/// An answer with all its figures.
fn headroom(verdict: HeadroomVerdict) -> Headroom {
    let estimate = Some(CapacityEstimate { low: 1.5, mean: 2.0, high: 2.5 });
    let server = ResourceState {
        resource: ResourceKind::Server,
        name: "a:1".to_owned(),
        full_at_per_s: Some(3_000.0),
        busy_now: Some(0.5),
        service_us: Some(300.0),
        standard_error: None,
        others: None,
        outside_us: None,
        waited: None,
        contention: None,
        stalled: Some(0.125),
    };
    Headroom {
        schema: 1,
        at_ns: Stamp(1),
        traffic: TrafficSeen::default(),
        target: None,
        verdict,
        silent: vec![Silence::FewWaited],
        broken_now: Some(false),
        bottleneck: Some(LimitingResource { resource: ResourceKind::Server, name: "a:1".to_owned() }),
        capacity_per_s: estimate,
        saturation_per_s: Some(3_000.0),
        headroom_ratio: estimate,
        proven_per_s: ProvenRate { one_second: 7.0, tenth_of_a_second: 9.0 },
        resources: vec![server],
        what_if: Vec::new(),
        check: None,
        assumes: Vec::new(),
    }
}

#[test]
fn silence_has_its_reason_and_no_figure_that_could_be_relied_on() {
    let of = |verdict| read(&exposition(&moment(), &process(), Some(&headroom(verdict))));
    let (stated, silent) = (of(HeadroomVerdict::Stated), of(HeadroomVerdict::Silent));
    let first = [("{resource=\"server\",name=\"a:1\"}".to_owned(), 1.0)];
    assert_eq!(stated["krarup_bottleneck"], first);
    assert_eq!(stated["krarup_headroom_ratio"][0], ("{bound=\"low\"}".to_owned(), 1.5));
    let within = "{server=\"a:1\",others=\"within\"}".to_owned();
    assert_eq!(stated["krarup_server_service_seconds"], [(within, 0.0003)]);
    for name in [
        "krarup_bottleneck",
        "krarup_headroom_ratio",
        "krarup_capacity_requests_per_second",
        "krarup_resource_full_requests_per_second",
    ] {
        assert!(silent[name].is_empty() && !stated[name].is_empty(), "{name}");
    }
    let holds = |read: &Read, name: &str| -> Vec<String> {
        read[name].iter().filter(|(_, value)| *value == 1.0).map(|(labels, _)| labels.clone()).collect()
    };
    assert_eq!(holds(&silent, "krarup_headroom_verdict"), ["{verdict=\"silent\"}"]);
    assert_eq!(holds(&silent, "krarup_headroom_silent"), ["{reason=\"few_waited\"}"]);
    assert_eq!(silent["krarup_headroom_silent"].len(), Silence::ALL.len());
    assert!(read(&exposition(&moment(), &process(), None))["krarup_headroom_verdict"].is_empty());
}

#[test]
fn that_the_target_is_broken_is_said_in_silence_too() {
    let of = |broken_now| {
        let headroom = Headroom { broken_now, ..headroom(HeadroomVerdict::Silent) };
        let values = read(&exposition(&moment(), &process(), Some(&headroom)));
        values["krarup_headroom_target_broken"].iter().map(|(_, value)| *value).collect::<Vec<_>>()
    };
    assert_eq!([of(Some(true)), of(Some(false)), of(None)], [vec![1.0], vec![0.0], vec![]]);
}

/// Metrics as a strict reader finds them: name, then labels with value.
type Read = BTreeMap<String, Vec<(String, f64)>>;

/// Reads the text format (version 0.0.4) and accepts nothing that it does not say.
fn read(text: &str) -> Read {
    assert!(text.ends_with('\n'));
    let name_of = |text: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':';
        assert!(!text.is_empty() && text.bytes().all(good) && !text.as_bytes()[0].is_ascii_digit(), "{text}");
        text.to_owned()
    };
    let mut found = Read::new();
    let (mut helped, mut typed) = (String::new(), (String::new(), String::new()));
    let mut samples = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = name_of(help.split_once(' ').expect("a help has a text").0);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type has a kind");
            assert_eq!(name, helped, "help and type come together");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            typed = (name_of(name), kind.to_owned());
            assert!(found.insert(name.to_owned(), Vec::new()).is_none(), "{name} comes twice");
        } else {
            assert!(samples.insert(line.rsplit_once(' ').unwrap().0.to_owned()), "{line} comes twice");
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = match series.split_once('{') {
                Some((name, rest)) => (name, rest.strip_suffix('}').expect("labels end")),
                None => (series, ""),
            };
            let ending =
                name.strip_prefix(&typed.0).unwrap_or_else(|| panic!("{line} is not of {}", typed.0));
            let endings: &[&str] =
                if typed.1 == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(endings.contains(&ending), "{line}");
            let mut rest = labels;
            while !rest.is_empty() {
                let (label, quoted) = rest.split_once("=\"").expect("a label has a value");
                name_of(label);
                let mut escaped = false;
                let end = quoted.find(|character| {
                    let ends = character == '"' && !escaped;
                    escaped = character == '\\' && !escaped;
                    ends
                });
                rest = &quoted[end.expect("a value ends") + 1..];
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
            found.get_mut(&typed.0).unwrap().push((format!("{ending}{{{labels}}}"), value));
        }
    }
    found
}

#[test]
fn what_prometheus_reads_is_well_formed_and_complete() {
    let read = read(&exposition(&moment(), &process(), Some(&headroom(HeadroomVerdict::Stated))));
    assert_eq!(read.len(), PROCESS.len() + TABLE.len());
    let of_process = PROCESS.iter().map(|metric| metric.described.name);
    for name in of_process.chain(TABLE.iter().map(|metric| metric.name)) {
        assert!(!read[name].is_empty(), "{name} has a value");
    }
    assert_eq!(read["krarup_hot_key_ratio"], [("{pool=\"main\"}".to_owned(), 1.0)]);
    assert_eq!(read["krarup_uptime_seconds"], [("{}".to_owned(), 1.5)]);
    let of_loops = [("{loop=\"0\"}".to_owned(), 7.0), ("{loop=\"1\"}".to_owned(), 9.0)];
    assert_eq!(read["krarup_loop_passes_total"], of_loops);
    assert_eq!(read["krarup_loop_cpu_seconds_total"][1].1, 0.25);
    assert_eq!(read["krarup_server_up"][1], ("{server=\"a \\\"quoted\\\" \\\\ name\"}".to_owned(), 0.0));
}

#[test]
fn the_buckets_of_a_histogram_rise_to_its_count() {
    let read = read(&exposition(&moment(), &process(), Some(&headroom(HeadroomVerdict::Stated))));
    for metric in TABLE.iter().filter(|metric| metric.kind() == "histogram") {
        let (name, samples) = (metric.name, &read[metric.name]);
        let first: Vec<_> = samples.iter().take(BOUNDS.len() + 3).collect();
        let (buckets, rest) = first.split_at(BOUNDS.len() + 1);
        assert!(buckets.is_sorted_by(|one, next| one.1 <= next.1), "{name}: {buckets:?}");
        assert_eq!(buckets.last().unwrap().1, rest[1].1, "{name}");
    }
    let times = &moment().operations[0].times[Quantity::Response.index()];
    // Up to 25 µs two, up to 50 µs the third, up to 1 ms the fifth; the sixth is beyond all.
    assert_eq!((times.up_to[0], times.up_to[1], times.up_to[4], times.up_to[5]), (2, 3, 3, 5));
    assert_eq!((times.up_to[17], times.count), (5, 6));
}

/// So many servers, each of which holds everything.
fn replicated(servers: usize) -> Topology {
    let names = (0..servers).map(|server| format!("server-{server}:1")).collect();
    Topology::replicated(names, MultiGet::Whole)
}

/// A core at its start, with the settings of the default configuration.
fn core_of(topology: Topology) -> Core {
    let recorder = Recorder::new(RecorderSettings::default()).unwrap();
    Core::new(Config::default().settings(), topology, recorder, Stamp(0))
}

#[test]
fn servers_of_earlier_configurations_take_no_buckets_from_those_of_now() {
    let mut core = core_of(replicated(65));
    let mut visit = Visit::at(Stamp(10), Operation::Get);
    visit.replied = Stamp(30);
    core.enter(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)], 0);
    let buckets = |core: &Core| ProxySnapshot::of(core, Stamp(40), false).servers[0].times.up_to.len();
    assert_eq!(buckets(&core), 0);
    core.reconfigure(Config::default().settings(), replicated(64), Stamp(35));
    assert_eq!(buckets(&core), BOUNDS.len());
}

#[test]
fn sums_of_loops_leave_out_seconds_one_by_one_and_servers_that_are_gone() {
    let mut core = core_of(replicated(3));
    for second in 0..50_u16 {
        let visit = Visit::at(Stamp(u64::from(second) * 1_000_000_000), Operation::Get);
        core.enter(&visit, &[ServerVisit::ok(second % 3, visit.received, visit.replied)], 0);
    }
    let now = Stamp(50_000_000_000);
    let requests = |core: &Core| {
        let told = ProxySnapshot::of(core, now, false);
        told.servers.iter().map(|one| one.requests).collect::<Vec<_>>()
    };
    let mut between = core.books();
    core.reconfigure(Config::default().settings(), replicated(2), now);
    // What one loop has already left out does not stand there with what the other counted alone.
    between.absorb(&core.books());
    assert_eq!(requests(&between), [34, 34]);
    let mut sum = core.books();
    sum.absorb(&core.books());
    let kept: Vec<_> = sum.recorder().servers().map(|(number, one)| (number, one.requests)).collect();
    assert_eq!((sum.recorder().windows().len(), kept), (1, vec![(0, 34), (1, 34)]));
    assert_eq!((sum.recorder().overall().count, core.recorder().windows().len()), (100, 50));
    // As before where statistics begin anew.
    core.reset(now);
    for core in [&core.books(), &core] {
        assert_eq!(requests(core), [17, 17]);
        assert_eq!(ProxySnapshot::of(core, now, false).operations[0].tally.count, 50);
    }
}

#[test]
fn the_last_of_many_servers_has_its_own_numbers() {
    let pools = vec![PoolSpec::of("main", vec![1_029])];
    let mut core = core_of(Topology { pools, ..replicated(1_030) });
    let visit = Visit::at(Stamp(10), Operation::Get);
    core.enter(&visit, &[ServerVisit::ok(1_029, visit.received, visit.replied)], 0);
    assert_eq!(ProxySnapshot::of(&core, Stamp(40), false).servers[1_029].requests, 1);
    let (_, told) = crate::stats::answer(&core, b"servers", Stamp(40));
    assert!(String::from_utf8(told).unwrap().contains("STAT 1029:requests 1\r\n"));
}

#[test]
fn names_follow_the_conventions() {
    for metric in TABLE {
        let name = metric.name;
        assert_eq!(name.ends_with("_total"), metric.kind() == "counter", "{name}");
        assert!(name.starts_with("krarup_") || name.starts_with("process_"), "{name}");
        assert!(metric.help.ends_with('.') && !metric.help.contains('\n'), "{name}");
        assert!(metric.kind() != "histogram" || name.ends_with("_seconds"), "{name}");
    }
}

#[test]
fn everything_that_a_pool_counts_is_told() {
    for (name, _) in PoolCounts::default().named() {
        assert!(TABLE.iter().any(|metric| metric.name == format!("krarup_pool_{name}_total")), "{name}");
    }
}

#[test]
fn ready_is_what_has_a_server_and_is_not_stopping() {
    assert_eq!(moment().not_ready(), None);
    assert_eq!(ProxySnapshot { stopping: true, ..moment() }.not_ready(), Some("stopping".into()));
    // Which buffers there is no room in is known to the event loop alone.
    let short = ProxySnapshot { memory: (1, true), ..moment() };
    assert_eq!(short.not_ready(), Some("clients wait for memory".into()));
    let mut down = moment();
    down.pools[1].is_missed = true;
    assert_eq!(down.not_ready(), Some("no server of the pool users is up".into()));
}

/// A core of these pools, of whose servers these are up: those of `main` have the first numbers,
/// then come those of the others by name.
fn core_with(config: &str, up: &[usize]) -> Core {
    let mut core = core_of(Config::parse(config, "test").unwrap().topology().unwrap());
    up.iter().for_each(|&server| core.enter_server(server, Ok(Some("1.6.18")), false));
    core
}

#[test]
fn only_a_pool_that_clients_ask_and_for_which_no_gutter_stands_in_is_missed() {
    let pools = "servers = [\"main:1\"]\ngutter = \"spare\"\nshadow = \"canary\"\n\
        [pools.spare]\nservers = [\"spare:1\"]\n[pools.canary]\nservers = [\"canary:1\"]\n";
    let (main, canary, spare) = (0, 1, 2);
    let listens = "listen = \"127.0.0.1:9\"\n";
    let route = "[[routes]]\nprefix = \"c:\"\npool = \"canary\"\n";
    let all = "[[routes]]\nprefix = \"\"\npool = \"canary\"\n";
    let cases: [(&str, &[usize], Option<&str>); 7] = [
        ("", &[main, canary, spare], None),
        ("", &[main], None),
        ("", &[spare], None),
        ("", &[canary], Some("main")),
        (listens, &[main, spare], Some("canary")),
        (route, &[main, spare], Some("canary")),
        (all, &[canary], None),
    ];
    for (more, up, missed) in cases {
        let mut core = core_with(&format!("{pools}{more}"), up);
        let expected = missed.map(|pool| format!("no server of the pool {pool} is up"));
        for core in [&core.books(), &core] {
            let now = ProxySnapshot::of(core, Stamp(40), false);
            assert_eq!(now.not_ready(), expected, "{more}, up {up:?}");
        }
    }
}

/// Its clients get errors, and an alert tells so; those of the other loops would be sent away, too.
#[test]
fn a_loop_that_has_lost_the_servers_takes_no_clients_from_the_others() {
    let config = "servers = [\"main:1\"]";
    for loops in [[false, true, true], [true, false, true], [true, true, false]] {
        let [mut sum, second, third] = loops.map(|up| core_with(config, if up { &[0] } else { &[] }).books());
        sum.absorb(&second);
        sum.absorb(&third);
        let now = ProxySnapshot::of(&sum, Stamp(40), false);
        assert_eq!((now.not_ready(), now.pools[0].servers_up), (None, 0));
    }
    let [mut sum, other] = [(); 2].map(|()| core_with(config, &[]).books());
    sum.absorb(&other);
    assert!(ProxySnapshot::of(&sum, Stamp(40), false).not_ready().is_some());
}
