//! Pages drawn at many sizes, and what keys do to them.

use std::sync::LazyLock;

use krarup_analysis::top::{TopQueue, TopState};
use krarup_model::headroom::{
    CapacityEstimate, Headroom, HeadroomVerdict, LimitingResource, ProvenRate, ResourceKind, ResourceState,
    ResponseTarget, SCHEMA, Silence, TrafficSeen,
};
use krarup_model::hot_keys::{HOT_KEYS_SCHEMA, HotKey, HotKeys, KeyShare, PoolHotKeys};
use krarup_record::exposition::read::Samples;
use krarup_record::exposition::{BOUNDS, ExpositionText, TimeBuckets};
use krarup_record::{ClientCounts, ClientRates, MeasuredDistribution};
use krarup_units::{Nanos, Seconds, Stamp};
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;

use super::*;

/// What a proxy with three servers exposes after so many seconds.
fn proxy(seconds: u64) -> Samples {
    let mut text = ExpositionText::default();
    text.value("krarup_uptime_seconds", seconds);
    text.value("process_cpu_seconds_total", seconds as f64 * 0.91);
    text.value("krarup_client_connections", 64);
    text.value("krarup_queue_length", 2);
    text.value("krarup_workers_busy", 30);
    text.value("krarup_workers", 32);
    for (operation, rate, micros) in [("get", 9_000, 700), ("set", 1_000, 1_400)] {
        let mut times = MeasuredDistribution::new();
        (0..seconds * 10).for_each(|number| times.record(Nanos((micros + number % 50 * 10) * 1_000)));
        let times = TimeBuckets::of(&times, true);
        text.one("krarup_requests_total", "operation", operation, seconds * rate);
        text.one("krarup_request_errors_total", "operation", operation, seconds * 2);
        for name in ["response", "queue", "server", "own"] {
            let name = format!("krarup_{name}_time_seconds");
            text.histogram(&name, Some(("operation", operation)), &times);
        }
    }
    text.one("krarup_hits_total", "operation", "get", seconds * 8_100);
    text.one("krarup_misses_total", "operation", "get", seconds * 900);
    for (number, server) in ["10.0.0.4:11211", "10.0.0.5:11211", "10.0.0.6:11211"].into_iter().enumerate() {
        let number = number as u64;
        let mut times = MeasuredDistribution::new();
        (0..seconds * 5).for_each(|_| times.record(Nanos((200 + number * 300) * 1_000)));
        text.one("krarup_server_up", "server", server, u8::from(number != 2));
        text.one("krarup_server_requests_total", "server", server, seconds * (5_000 - number * 2_000));
        text.one("krarup_server_errors_total", "server", server, seconds * number);
        text.one("krarup_server_outstanding", "server", server, 10 * number);
        text.one("krarup_server_losses_total", "server", server, number * 7);
        let times = TimeBuckets::of(&times, true);
        text.histogram("krarup_server_answer_time_seconds", Some(("server", server)), &times);
    }
    text.one("krarup_pool_servers_up", "pool", "main", 2);
    text.one("krarup_pool_requests_total", "pool", "main", seconds * 10_000);
    Samples::read(&text.0)
}

/// What a broker with two tubes exposes after so many seconds.
fn broker(seconds: u64) -> Samples {
    let mut text = ExpositionText::default();
    text.value("krarup_broker_uptime_seconds", seconds);
    text.value("krarup_broker_clients", 16);
    for (state, messages) in [("ready", 25), ("reserved", 0), ("delayed", 0), ("buried", 0)] {
        text.one("krarup_broker_messages", "state", state, messages);
    }
    text.value("krarup_broker_tubes", 2);
    text.value("krarup_broker_commits_total", seconds * 201);
    text.one("krarup_broker_requests_total", "operation", "put", seconds * 732);
    for (tube, needed) in [("jobs", 6), ("mails", 2)] {
        text.one("krarup_broker_tube_ready", "tube", tube, needed * 4);
        text.one("krarup_broker_tube_consumers_busy", "tube", tube, 4);
        text.one("krarup_broker_tube_consumers_waiting", "tube", tube, 0);
        text.one("krarup_broker_tube_arrivals_per_second", "tube", tube, 39.2);
        text.one("krarup_broker_tube_drain_seconds", "tube", tube, "+Inf");
        for (bound, workers) in [("low", needed), ("mean", needed), ("high", needed + 1)] {
            let labels =
                [("tube", tube.to_owned()), ("target", "p95 < 100 ms".into()), ("bound", bound.to_owned())];
            text.labelled("krarup_broker_workers_needed", &labels, workers);
        }
    }
    Samples::read(&text.0)
}

fn headroom(verdict: HeadroomVerdict) -> Headroom {
    let estimate = |low, mean, high| CapacityEstimate { low, mean, high };
    let is_silent = verdict == HeadroomVerdict::Silent;
    Headroom {
        schema: SCHEMA,
        at_ns: Stamp(1),
        traffic: TrafficSeen { now_per_s: 10_000.0, highest_per_s: 12_000.0, over_s: 60.0, c1: 0.0, c2: 0.0 },
        target: Some(ResponseTarget { quantile: 0.99, seconds: 0.008 }),
        verdict,
        silent: if is_silent { vec![Silence::FewWaited] } else { Vec::new() },
        broken_now: Some(false),
        bottleneck: Some(LimitingResource {
            resource: ResourceKind::Server,
            name: "10.0.0.4:11211".to_owned(),
        }),
        capacity_per_s: Some(estimate(19_700.0, 23_900.0, 26_800.0)),
        saturation_per_s: Some(31_000.0),
        headroom_ratio: Some(estimate(1.97, 2.39, 2.68)),
        proven_per_s: ProvenRate { one_second: 12_300.0, tenth_of_a_second: 13_000.0 },
        resources: vec![ResourceState {
            resource: ResourceKind::Server,
            name: "10.0.0.4:11211".to_owned(),
            full_at_per_s: Some(31_000.0),
            busy_now: Some(0.3),
            service_us: Some(65.0),
            standard_error: Some(0.01),
            others: None,
            outside_us: Some(90.0),
            waited: Some(5_327),
            contention: Some(0.0),
            stalled: Some(0.0),
        }],
        what_if: Vec::new(),
        check: None,
        assumes: vec!["clients go on as they do".to_owned()],
    }
}

fn hot_keys() -> HotKeys {
    let key = HotKey {
        key: "00000000000000ab".to_owned(),
        name: Some("user:1:profile".to_owned()),
        share: KeyShare { mean: 0.07, low: 0.06, high: 0.08, se: 0.005 },
        samples: 62,
        requests_per_s: 1_386.0,
        reads: 0.95,
        time: 0.07,
        bytes: 0.01,
        server: Some("10.0.0.4:11211".to_owned()),
        heir: None,
        of_server: Some(0.21),
        coalescing_saves: Some(0.004),
        copy_saves: None,
    };
    let pool = PoolHotKeys {
        pool: "main".to_owned(),
        requests_per_s: 10_000.0,
        samples: 9_375,
        one_of: 8.0,
        unseen_time: 0.004,
        unseen_bytes: 0.003,
        by_time: vec![key.clone()],
        by_bytes: vec![HotKey { key: "cd".to_owned(), name: None, ..key }],
    };
    HotKeys { schema: HOT_KEYS_SCHEMA, keys: "name".to_owned(), covers_s: 7.5, pools: vec![pool] }
}

/// Two proxies of which one does not answer, and a broker, watched for ten seconds.
fn state(names: &[&str]) -> TopState {
    let mut state = TopState::default();
    state.set_instances(names.iter().map(|name| (*name).to_owned()));
    for second in 0..10 {
        for name in names {
            match *name {
                "lost:9151" if second > 4 => {
                    state.lost(name, second as f64, "connection refused");
                }
                "broker:9150" => state.looked(name, second as f64, broker(700 + second)),
                _ => state.looked(name, second as f64, proxy(700 + second)),
            }
        }
        state.advance(second as f64);
    }
    let clients: Vec<_> = (0..5)
        .map(|number| ClientCounts {
            number: (0, number),
            since: Stamp(0),
            peer: Some(format!("10.1.0.{}:4000", number / 2).parse().unwrap()),
            requests: u64::from(number) * 100,
            in_progress: 1,
            received: 40_000,
            sent: 1 << 20,
        })
        .collect();
    let report = ClientRates::default().report(&clients, Stamp(Nanos::from_secs(1).0));
    for name in names.iter().filter(|name| **name != "broker:9150") {
        state.set_headroom(name, headroom(HeadroomVerdict::Stated));
        state.set_hot_keys(name, hot_keys());
        state.set_clients(name, report.clone());
    }
    state
}

const NOW: Seconds = 9.0;

/// States of every mixture: what is drawn of one is made once.
static STATES: LazyLock<[TopState; 4]> = LazyLock::new(|| {
    [&["p:9151"][..], &["broker:9150"], &["lost:9151", "p:9151"], &["broker:9150", "lost:9151", "p:9151"]]
        .map(state)
});

/// The lines of a page.
fn lines(state: &TopState, view: &mut TopView, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame.area(), frame.buffer_mut(), state, NOW, view)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |row: u16| -> String { (0..width).map(|column| buffer[(column, row)].symbol()).collect() };
    (0..height).map(|number| row(number).trim_end().to_owned()).collect()
}

fn has(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn the_servers_of_a_proxy_in_eighty_columns() {
    let lines = lines(&state(&["p:9151"]), &mut TopView::of(TopPage::Servers, false), 80, 16);
    let expected = [
        "krarup proxy at p:9151, up 11 min 49 s: 64 clients, 0.91 processors",
        "headroom   23,900/s (19,700 – 26,800), 2.39 × now, stated: p99 < 8 ms holds up …",
        "queue      2 wait; 30 of 32 workers busy; 2 of 3 servers up",
    ];
    assert_eq!(lines[..3], expected);
    assert!(
        lines[3].starts_with("throughput 10,000/s") && lines[3].contains("highest 10,000/s"),
        "{lines:#?}"
    );
    let expected = [
        " 1 servers  2 pools 3 operations 4 clients 5 hot keys 6 headroom 7 instances",
        "server          state  share   rate  outstanding    p50    p99  errors  losses",
        "                           %     /s                  ms     ms      /s",
        "10.0.0.4:11211  up      55.6  5,000            0  0.175  0.249       0       0",
        "10.0.0.5:11211  up      33.3  3,000           10  0.375  0.497    1.00       7",
        "10.0.0.6:11211  down    11.1  1,000           20  0.750  0.995    2.00      14",
    ];
    assert_eq!(lines[5..11], expected, "{lines:#?}");
    assert!(lines[15].starts_with("q quit  ? help"), "{lines:#?}");
}

/// What matters most is there at each width; the wider, the more.
#[test]
fn a_wider_terminal_shows_more_columns_of_each_page() {
    let state = state(&["p:9151", "lost:9151", "broker:9150"]);
    for (page, first, always, wide) in [
        (TopPage::Servers, "server", "rate", "losses"),
        (TopPage::Pools, "pool", "rate", "gutter"),
        (TopPage::Tubes, "tube", "workers needed", "drained in"),
        (TopPage::Operations, "operation", "p99", "hits"),
        (TopPage::Clients, "client", "rate", "sent"),
        (TopPage::HotKeys, "key", "time", "if copied"),
        (TopPage::Headroom, "resource", "full at", "outside"),
        (TopPage::Instances, "instance", "rate", "used"),
    ] {
        let mut columns = 0;
        for width in [60, 80, 120, 200] {
            let lines = lines(&state, &mut TopView::of(page, true), width, 40);
            let heading = lines.iter().find(|line| line.starts_with(first) && line.contains(always));
            let heading = heading.unwrap_or_else(|| panic!("{page:?} {width}: {lines:#?}"));
            let words = heading.split("  ").filter(|word| !word.is_empty()).count();
            assert!(words >= columns, "{page:?} {width}: {heading}");
            columns = words;
            assert!(width < 120 || heading.contains(wide), "{page:?} {width}: {heading}");
            let lost = "no answer  lost:9151 for 4 s: connection refused";
            let says =
                if width < 120 { lost } else { &format!("{lost}; it is asked again until it answers") };
            assert!(lines.iter().any(|line| line.trim_end() == says), "{lines:#?}");
            assert!(has(&lines, "headroom   23,900/s (19,700 – 26,800), 2.39 × now, "), "{lines:#?}");
            assert!(has(&lines, "tube jobs has 4 and needs 6 (6 – 7)"), "{lines:#?}");
            assert!(has(&lines, "krarup proxy and broker: 2 of 3 instances answer"), "{lines:#?}");
        }
    }
}

/// What a narrow terminal leaves out is said, has a key, and is named by help.
#[test]
fn a_narrow_terminal_says_which_columns_it_leaves_out() {
    let state = state(&["p:9151"]);
    let figures = state.figures(NOW, None);
    let mut view = TopView::of(TopPage::Servers, false);
    let narrow = lines(&state, &mut view, 60, 24);
    assert!(narrow[5].starts_with(" 1 servers  2 3 4 5 6 7"), "{narrow:#?}");
    assert!(has(&narrow, "p99") && !has(&narrow, "p50"), "{narrow:#?}");
    let foot = &narrow[23];
    assert!(foot.starts_with("c 3 columns more  q quit  ? help"), "{foot}");
    view.press(TopKey::Help, &figures);
    let help = lines(&state, &mut view, 60, 24);
    assert!(has(&help, "not shown here: share, p50, losses; c shows them"), "{help:#?}");
    assert!(has(&help, "pages: 1 servers, 2 pools, 3 operations"), "{help:#?}");
    view.press(TopKey::Close, &figures);
    view.press(TopKey::Columns, &figures);
    let others = lines(&state, &mut view, 60, 24);
    assert!(others[6].starts_with("server ") && others[6].contains("p50"), "{others:#?}");
    assert!(others[6].contains("losses") && !has(&others, "outstanding"), "{others:#?}");
    view.press(TopKey::Columns, &figures);
    assert_eq!(lines(&state, &mut view, 60, 24), narrow);
    let wide = lines(&state, &mut view, 120, 24);
    assert!(wide[23].starts_with("q quit"), "{wide:#?}");
}

#[test]
fn requests_of_workers_without_a_limit_are_said_to_be_under_way() {
    let queue = TopQueue { waiting: 0.0, busy_workers: 2.0, workers: None, servers_up: 3.0, servers: 3.0 };
    assert_eq!(draw::queue_line(&queue, 1).text, "0 wait; 2 under way, no limit; 3 of 3 servers up");
    let two = draw::queue_line(&queue, 2).text;
    assert!(two.ends_with("3 of 3 servers up, seen from 2 instances"), "{two}");
}

#[test]
fn a_low_terminal_keeps_the_table_and_a_high_one_has_the_courses() {
    let state = state(&["p:9151"]);
    let of = |height| lines(&state, &mut TopView::of(TopPage::Servers, false), 80, height);
    assert!(has(&of(3), "10.0.0.4:11211"), "{:#?}", of(3));
    let low = of(9);
    assert!(has(&low, "now        10,000/s, 4/s errors; p50") && has(&low, "10.0.0.4:11211"), "{low:#?}");
    assert!(!has(&of(11), "highest") && has(&of(12), "highest"));
}

#[test]
fn keys_choose_page_order_and_moment() {
    let state = state(&["p:9151", "q:9151"]);
    let mut view = TopView::of(TopPage::Servers, false);
    let figures = state.figures(NOW, None);
    let first = |view: &mut TopView| {
        let lines = lines(&state, view, 100, 30);
        let table = lines.iter().position(|line| line.starts_with("server")).unwrap();
        (lines[table].clone(), lines[table + 2].split(' ').next().unwrap().to_owned())
    };
    let press = |view: &mut TopView, keys: &[TopKey]| {
        keys.iter().for_each(|key| assert!(view.press(*key, &figures), "{key:?} does not end it"));
    };
    assert_eq!(first(&mut view).1, "10.0.0.4:11211");
    // Sorted by name, by state, by share, by rate, by what is outstanding.
    press(&mut view, &[TopKey::Sort; 5]);
    let (heading, name) = first(&mut view);
    assert!(heading.contains("outstanding▼"), "{heading}");
    assert_eq!(name, "10.0.0.6:11211");
    press(&mut view, &[TopKey::Reverse]);
    let (heading, name) = first(&mut view);
    assert!(heading.contains("outstanding▲"), "{heading}");
    assert_eq!(name, "10.0.0.4:11211");
    press(&mut view, &[TopKey::Sort; 5]);
    assert!(!first(&mut view).0.contains(['▼', '▲']), "behind the last column it is as at first");
    press(&mut view, &[TopKey::PreviousPage]);
    assert_eq!(view.page, TopPage::Instances, "before the first page is the last");
    press(&mut view, &[TopKey::NextPage, TopKey::NextPage]);
    assert_eq!(view.page, TopPage::Pools);
    press(&mut view, &[TopKey::Page(4), TopKey::Page(9), TopKey::Page(0)]);
    assert_eq!(view.page, TopPage::Clients);
    let hosts = lines(&state, &mut view, 100, 30);
    assert!(has(&hosts, "10.1.0.1 ") && !has(&hosts, "10.1.0.1:4000"), "{hosts:#?}");
    press(&mut view, &[TopKey::Group]);
    assert!(has(&lines(&state, &mut view, 100, 30), "10.1.0.1:4000"));
    press(&mut view, &[TopKey::Instance]);
    assert_eq!(view.instance.as_deref(), Some("p:9151"));
    press(&mut view, &[TopKey::Instance, TopKey::Instance]);
    assert_eq!(view.instance, None);
    view.instance = Some("gone:9151".to_owned());
    assert!(has(&lines(&state, &mut view, 100, 30), "2 of 2 instances answer"));
    press(&mut view, &[TopKey::Pause, TopKey::Help]);
    let helped = lines(&state, &mut view, 100, 30);
    assert!(has(&helped, "paused") && has(&helped, "keys, and the columns of clients"), "{helped:#?}");
    press(&mut view, &[TopKey::Close]);
    assert!(!view.help && view.paused);
    assert!(!view.press(TopKey::Quit, &figures));
}

/// A page of a kind of service that is not there gives way to one that is.
#[test]
fn a_broker_has_its_own_pages() {
    let lines = lines(&state(&["broker:9150"]), &mut TopView::of(TopPage::Servers, false), 100, 20);
    assert!(has(&lines, "1 tubes  2 operations 3 headroom 4 instances"), "{lines:#?}");
    assert!(has(&lines, "messages   25 ready, 0 reserved"), "{lines:#?}");
    let jobs = lines.iter().find(|line| line.starts_with("jobs")).unwrap();
    assert!(jobs.contains("6 (6 – 7)"), "{lines:#?}");
}

/// What waits for it has no response time that could show it.
#[test]
fn a_store_that_is_at_fault_stands_above_the_table() {
    let shown = |takes: [u32; 2]| {
        let mut state = TopState::default();
        let names = ["a:9150", "b:9150"];
        state.set_instances(names.map(str::to_owned));
        for second in 0..2_u32 {
            for (name, takes) in names.into_iter().zip(takes) {
                let mut text = ExpositionText::default();
                text.value("krarup_broker_uptime_seconds", 700 + second);
                text.value("krarup_broker_store_takes", takes);
                state.looked(name, f64::from(second), Samples::read(&text.0));
            }
        }
        let mut one = TopView::of(TopPage::Tubes, false);
        one.instance = Some("b:9150".to_owned());
        let both = lines(&state, &mut TopView::of(TopPage::Tubes, false), 120, 20);
        [both, lines(&state, &mut one, 120, 20)]
    };
    let out = ": it cannot be reached, does not answer, or refuses a write, a read or a sweep";
    let [both, one] = shown([1, 0]);
    assert!(has(&both, &format!("store      is at fault for 1 of 2 brokers{out}")), "{both:#?}");
    assert!(has(&one, &format!("store      is at fault{out}")), "{one:#?}");
    for well in shown([1, 1]) {
        assert!(has(&well, "store      0 wait") && !has(&well, "is at fault"), "{well:#?}");
        let unknown = "messages   not told by the database, in 0 tubes; 0 clients wait for one";
        assert!(has(&well, unknown) && !has(&well, "0 ready"), "{well:#?}");
    }
}

/// However many messages wait in the tubes that are not listed.
#[test]
fn tubes_that_are_not_listed_come_last() {
    let mut state = TopState::default();
    state.set_instances(["broker:9150".to_owned()]);
    for second in 0..2_u32 {
        let mut text = ExpositionText::default();
        text.value("krarup_broker_uptime_seconds", 700 + second);
        for (tube, ready) in [("*", 1_000), ("mails", 8), ("jobs", 24)] {
            text.one("krarup_broker_tube_ready", "tube", tube, ready);
            text.one("krarup_broker_tube_consumers_busy", "tube", tube, 4);
        }
        state.looked("broker:9150", f64::from(second), Samples::read(&text.0));
    }
    let lines = lines(&state, &mut TopView::of(TopPage::Tubes, false), 100, 20);
    let place = |name: &str| lines.iter().position(|line| line.starts_with(name)).unwrap();
    let places = ["jobs", "mails", "others"].map(place);
    assert!(places.is_sorted(), "{places:?} {lines:#?}");
}

#[test]
fn rows_that_do_not_fit_are_scrolled_to_and_no_further() {
    let mut state = state(&["p:9151"]);
    let clients: Vec<_> = (0..50)
        .map(|number| ClientCounts {
            number: (0, number),
            since: Stamp(0),
            peer: Some(format!("10.1.0.{number}:4000").parse().unwrap()),
            requests: 1_000 - u64::from(number),
            in_progress: 0,
            received: 0,
            sent: 0,
        })
        .collect();
    state.set_clients("p:9151", ClientRates::default().report(&clients, Stamp(Nanos::from_secs(1).0)));
    let mut view = TopView::of(TopPage::Clients, false);
    let figures = state.figures(NOW, None);
    let shown = lines(&state, &mut view, 100, 30);
    assert!(has(&shown, "10.1.0.0 ") && has(&shown, "more") && !has(&shown, "10.1.0.49 "), "{shown:#?}");
    view.press(TopKey::Last, &figures);
    let last = lines(&state, &mut view, 100, 30);
    assert!(has(&last, "10.1.0.49 ") && !has(&last, "10.1.0.0 ") && !has(&last, " more"), "{last:#?}");
    // One row up is one row up, however often Page Down was pressed.
    view.press(TopKey::Scroll(10), &figures);
    lines(&state, &mut view, 100, 30);
    view.press(TopKey::Scroll(-1), &figures);
    let up = lines(&state, &mut view, 100, 30);
    assert!(has(&up, " more") && !has(&up, "10.1.0.49 "), "{up:#?}");
    view.press(TopKey::First, &figures);
    assert!(has(&lines(&state, &mut view, 100, 30), "10.1.0.0 "));
}

/// Buckets are wide and end at 10 s: times that are all alike have a p99 beyond their mean, and a
/// mean may be larger than a p99 of so much.
#[test]
fn where_there_is_a_percentile_of_times_its_buckets_are_named() {
    for page in TopPage::ALL {
        let is_bounded = pages::columns(page).iter().any(|column| column.heading == "p99");
        for part in ["as if times lay evenly within buckets", "10 s where it is longer"] {
            assert_eq!(pages::legend(page).contains(part), is_bounded, "{page:?}");
        }
    }
    assert_eq!(BOUNDS.last(), Some(&10_000_000_000));
}

/// However many rows there are: what an answer stands on bounds the rates above it.
#[test]
fn what_is_said_under_the_rows_is_scrolled_to() {
    for (resources, width, height) in [(20, 80, 24), (8, 80, 20), (8, 20, 24)] {
        let mut says = headroom(HeadroomVerdict::Stated);
        let one = says.resources.remove(0);
        let named = |number: u16| ResourceState { name: format!("10.0.0.{number}:11211"), ..one.clone() };
        says.resources = (0..resources).map(named).collect();
        says.assumes = vec!["clients go on as they do".to_owned(), "the end".to_owned()];
        let mut state = state(&["p:9151"]);
        state.set_headroom("p:9151", says);
        let mut view = TopView::of(TopPage::Headroom, false);
        let figures = state.figures(NOW, None);
        let more = |lines: &[String]| -> Option<isize> {
            lines.iter().find_map(|line| line.strip_prefix("↓ ")?.strip_suffix(" more")?.parse().ok())
        };
        let shown = lines(&state, &mut view, width, height);
        let hidden = more(&shown).unwrap_or_else(|| panic!("{shown:#?}"));
        assert!(!has(&shown, "the end"), "{shown:#?}");
        view.press(TopKey::Last, &figures);
        let last = lines(&state, &mut view, width, height);
        assert!(has(&last, "the end") && more(&last).is_none(), "{last:#?}");
        // The line that says how many there are stands on one of them.
        view.press(TopKey::First, &figures);
        view.press(TopKey::Scroll(hidden - 1), &figures);
        assert_eq!(lines(&state, &mut view, width, height), last);
    }
}

/// A colour says nothing that the words do not say, and without colours there is none.
#[test]
fn colours_are_used_only_where_they_may_be() {
    let state = state(&["p:9151", "lost:9151"]);
    let colours = |color: bool| {
        let area = Rect::new(0, 0, 100, 30);
        let mut buffer = Buffer::empty(area);
        draw(area, &mut buffer, &state, NOW, &mut TopView::of(TopPage::Servers, color));
        let mut found: Vec<_> = buffer.content.iter().flat_map(|cell| [cell.fg, cell.bg]).collect();
        found.retain(|colour| *colour != Color::Reset);
        found
    };
    assert!(colours(true).contains(&Color::Red) && colours(true).contains(&Color::Green));
    assert_eq!(colours(false), []);
}

#[test]
fn the_text_has_every_column_and_only_letters_of_ascii() {
    let state = state(&["p:9151", "lost:9151", "broker:9150"]);
    for page in TopPage::ALL {
        let text = text(&state, NOW, &mut TopView::of(page, false), true);
        assert!(text.is_ascii(), "{text}");
        assert!(text.lines().all(|line| line.len() <= 256 && !line.ends_with(' ')), "{text}");
        for column in pages::columns(page) {
            assert!(text.contains(column.heading), "{page:?} {}: {text}", column.heading);
        }
    }
    let said = text(&state, NOW, &mut TopView::of(TopPage::Headroom, false), false);
    assert!(said.contains("p99 < 8 ms holds up to about 23,900/s (19,700 – 26,800)"), "{said}");
}

#[test]
fn the_text_has_every_column_however_long_names_are() {
    let names = ["p", "q"].map(|letter| letter.repeat(60));
    let mut state = state(&names.each_ref().map(String::as_str));
    let mut keys = hot_keys();
    for pool in &mut keys.pools {
        pool.pool = "main".repeat(20);
        for key in pool.by_time.iter_mut().chain(&mut pool.by_bytes) {
            (key.name, key.server) = (Some("key".repeat(20)), Some("server".repeat(20)));
        }
    }
    names.iter().for_each(|name| state.set_hot_keys(name, keys.clone()));
    let text = text(&state, NOW, &mut TopView::of(TopPage::HotKeys, false), true);
    let heading = text.lines().find(|line| line.starts_with("key ")).unwrap();
    for column in pages::columns(TopPage::HotKeys) {
        assert!(heading.contains(column.heading), "{}: {text}", column.heading);
    }
}

/// Two proxies may have pools of one name.
#[test]
fn hot_keys_of_several_proxies_have_a_column_that_says_of_which() {
    let shown = |names: &[&str]| {
        let lines = lines(&state(names), &mut TopView::of(TopPage::HotKeys, false), 200, 30);
        let heading = lines.iter().find(|line| line.starts_with("key ")).unwrap().clone();
        let row = |name: &&&str| lines.iter().any(|line| line.contains("user:1") && line.ends_with(**name));
        (heading.ends_with("instance"), names.iter().filter(row).count())
    };
    assert_eq!(shown(&["p:9151", "q:9151"]), (true, 2));
    assert_eq!(shown(&["p:9151"]), (false, 0));
}

/// What the others count, lack and do is not beside the figures of one.
#[test]
fn one_instance_alone_is_shown_without_the_others() {
    let of = |state: &TopState, page: TopPage, only: Option<&str>| {
        let mut view = TopView::of(page, false);
        view.instance = only.map(str::to_owned);
        lines(state, &mut view, 120, 30)
    };
    let begins = |lines: &[String], word: &str| lines.iter().any(|line| line.starts_with(word));
    let mixed = state(&["p:9151", "broker:9150"]);
    let both = of(&mixed, TopPage::Servers, None);
    assert!(begins(&both, "workers ") && has(&both, "60 s, highest 10,732/s"), "{both:#?}");
    assert!(!has(&both, "seen from"), "one proxy alone counts servers: {both:#?}");
    let alone = of(&mixed, TopPage::Servers, Some("p:9151"));
    assert!(has(&alone, "p:9151, one of 2 instances"), "{alone:#?}");
    assert!(!begins(&alone, "workers ") && has(&alone, "60 s, highest 10,000/s"), "{alone:#?}");
    let several = state(&["lost:9151", "p:9151", "q:9151"]);
    assert!(has(&of(&several, TopPage::Servers, None), "seen from 2 instances"));
    let one = of(&several, TopPage::Servers, Some("q:9151"));
    assert!(!has(&one, "seen from") && !begins(&one, "no answer"), "{one:#?}");
    let lost = of(&several, TopPage::Servers, Some("lost:9151"));
    assert!(begins(&lost, "no answer  lost:9151") && !begins(&lost, "headroom"), "{lost:#?}");
    assert!(has(&lost, "figures come two looks after"), "{lost:#?}");
}

#[test]
fn tubes_are_sorted_by_the_number_of_workers_they_need() {
    let state = state(&["broker:9150"]);
    let figures = state.figures(NOW, None);
    let mut view = TopView::of(TopPage::Tubes, false);
    (0..10).for_each(|_| assert!(view.press(TopKey::Sort, &figures)));
    let lines = lines(&state, &mut view, 120, 30);
    assert!(has(&lines, "workers needed▼"), "{lines:#?}");
    let place = |tube: &str| lines.iter().position(|line| line.starts_with(tube));
    assert!(place("jobs") < place("mails"), "6 before 2: {lines:#?}");
}

#[test]
fn where_nothing_is_concluded_the_reason_stands_on_each_page() {
    let mut state = state(&["p:9151"]);
    state.set_headroom("p:9151", headroom(HeadroomVerdict::Silent));
    let quiet = lines(&state, &mut TopView::of(TopPage::Pools, true), 100, 24);
    assert!(has(&quiet, "headroom   no conclusion: too few requests found a server busy"), "{quiet:#?}");
    let broken = Headroom { broken_now: Some(true), ..headroom(HeadroomVerdict::Silent) };
    state.set_headroom("p:9151", broken);
    let broken = lines(&state, &mut TopView::of(TopPage::Pools, true), 100, 24);
    assert!(has(&broken, "headroom   p99 < 8 ms is broken now"), "{broken:#?}");
    let no_traffic = Headroom { headroom_ratio: None, ..headroom(HeadroomVerdict::Stated) };
    state.set_headroom("p:9151", no_traffic);
    let capacity = lines(&state, &mut TopView::of(TopPage::Pools, true), 100, 24);
    assert!(has(&capacity, "headroom   23,900/s (19,700 – 26,800), stated: p99 < 8 ms"), "{capacity:#?}");
}

#[test]
fn what_is_broken_at_one_instance_comes_before_the_headroom_of_others() {
    let mut state = state(&["p:9151", "q:9151"]);
    let says = |state: &TopState| {
        let lines = lines(state, &mut TopView::of(TopPage::Pools, false), 200, 24);
        lines.into_iter().find(|line| line.starts_with("headroom")).unwrap()
    };
    assert!(says(&state).contains("the least of 2"), "{}", says(&state));
    let silent = Headroom { headroom_ratio: None, ..headroom(HeadroomVerdict::Silent) };
    state.set_headroom("p:9151", silent.clone());
    let quiet = says(&state);
    assert!(quiet.contains("23,900/s") && !quiet.contains("the least of 2"), "{quiet}");
    assert!(quiet.ends_with("; no conclusion from 1 of 2 instances"), "{quiet}");
    state.set_headroom("p:9151", Headroom { broken_now: Some(true), ..silent });
    assert!(says(&state).contains("p99 < 8 ms is broken now"), "{}", says(&state));
    for (name, mean) in [("p:9151", 9_000.0), ("q:9151", 8_000.0)] {
        let capacity_per_s = Some(CapacityEstimate { low: 7_000.0, mean, high: 9_500.0 });
        let no_traffic = headroom(HeadroomVerdict::Stated);
        state.set_headroom(name, Headroom { capacity_per_s, headroom_ratio: None, ..no_traffic });
    }
    let idle = says(&state);
    assert!(idle.contains("8,000/s") && !idle.contains("the least of"), "{idle}");
}

fn key() -> impl Strategy<Value = TopKey> {
    prop_oneof![
        prop::sample::select(vec![
            TopKey::Help,
            TopKey::Close,
            TopKey::Sort,
            TopKey::Reverse,
            TopKey::Pause,
            TopKey::Instance,
            TopKey::Group,
            TopKey::Columns,
            TopKey::NextPage,
            TopKey::PreviousPage,
            TopKey::First,
            TopKey::Last,
        ]),
        (0_usize..12).prop_map(TopKey::Page),
        (-30_isize..30).prop_map(TopKey::Scroll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A terminal may have any size, and be asked for anything.
    #[test]
    fn no_size_and_no_keys_make_it_panic(
        sizes in prop::collection::vec((1_u16..220, 1_u16..60), 1..4),
        keys in prop::collection::vec(key(), 0..20),
        mixture in 0_usize..4,
        color in any::<bool>(),
    ) {
        let state = &STATES[mixture];
        let figures = state.figures(NOW, None);
        let mut view = TopView::of(TopPage::Servers, color);
        for key in &keys {
            view.press(*key, &figures);
        }
        for (width, height) in sizes {
            prop_assert_eq!(lines(state, &mut view, width, height).len(), usize::from(height));
        }
    }

    /// Nothing is written outside of the area.
    #[test]
    fn what_is_around_the_area_stays(x in 0_u16..20, y in 0_u16..20, width in 0_u16..90, height in 0_u16..40) {
        let whole = Rect::new(0, 0, 100, 50);
        let area = Rect::new(x, y, width, height);
        let mut buffer = Buffer::filled(whole, ratatui::buffer::Cell::new("#"));
        let mut view = TopView::of(TopPage::Servers, true);
        view.help = x % 2 == 0;
        draw(area, &mut buffer, &STATES[0], NOW, &mut view);
        let outside = whole.positions().filter(|place| !area.contains(*place));
        prop_assert!(outside.into_iter().all(|place| buffer[place].symbol() == "#"));
    }
}

#[test]
fn the_smallest_sizes_one_by_one() {
    let state = &STATES[3];
    for page in TopPage::ALL {
        for (width, height) in (1..=12).flat_map(|width| (1..=14).map(move |height| (width, height))) {
            for help in [false, true] {
                let mut view = TopView::of(page, true);
                view.help = help;
                assert_eq!(lines(state, &mut view, width, height).len(), usize::from(height));
            }
        }
    }
}

#[test]
fn without_a_hot_key_the_page_says_whether_requests_were_sampled() {
    let shown = |keys: HotKeys| {
        let mut state = state(&["p:9151"]);
        state.set_hot_keys("p:9151", keys);
        let mut view = TopView::of(TopPage::HotKeys, false);
        lines(&state, &mut view, 160, 30)
    };
    let mut sampled = hot_keys();
    for pool in &mut sampled.pools {
        pool.by_time.clear();
        pool.by_bytes.clear();
    }
    let seen = shown(sampled);
    assert!(has(&seen, "no key stands out") && !has(&seen, "no request was sampled"), "{seen:#?}");
    let none = |keys: &str| HotKeys { keys: keys.to_owned(), pools: Vec::new(), ..hot_keys() };
    assert!(has(&shown(none("digest")), "no request was sampled"));
    let off = shown(none("off"));
    assert!(has(&off, "nothing is kept") && !has(&off, "sampled in the last"), "{off:#?}");
    let mut state = state(&["p:9151"]);
    state.set_hot_keys("p:9151", None);
    let unsaid = lines(&state, &mut TopView::of(TopPage::HotKeys, false), 160, 30);
    assert!(has(&unsaid, "no answer yet") && !has(&unsaid, "sampled in the last"), "{unsaid:#?}");
}

#[test]
fn a_state_that_has_seen_nothing_is_drawn() {
    let mut state = TopState::default();
    let nothing = lines(&state, &mut TopView::of(TopPage::Servers, true), 80, 24);
    assert!(has(&nothing, "0 of 0 instances"), "{nothing:#?}");
    state.set_instances(["p:9151".to_owned()]);
    state.lost("p:9151", 1.0, "connection refused");
    let lost = lines(&state, &mut TopView::of(TopPage::Servers, true), 80, 24);
    let says = "no answer  p:9151 for 8 s: connection refused";
    assert!(lost.iter().any(|line| line.trim_end() == says), "{lost:#?}");
    let wide = lines(&state, &mut TopView::of(TopPage::Servers, true), 120, 24);
    assert!(has(&wide, &format!("{says}; it is asked again until it answers")), "{wide:#?}");
}
