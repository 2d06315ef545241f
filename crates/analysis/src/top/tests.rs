//! A state from looks, written as the processes expose them.

use krarup_record::exposition::{ExpositionText, TimeBuckets};
use krarup_record::{ClientRates, MeasuredDistribution};
use krarup_units::{Nanos, Stamp};

use super::*;

/// What a proxy exposes after `seconds` at so many requests a second, half of them sent to each of
/// two servers, each answered in `micros`.
fn proxy(seconds: f64, rate: f64, micros: u64) -> Samples {
    let count = (seconds * rate) as u64;
    let buckets = times_of(count, Nanos::from_micros(micros));
    let mut text = ExpositionText::default();
    text.value("krarup_uptime_seconds", seconds);
    text.value("process_cpu_seconds_total", seconds * 0.5);
    text.value("krarup_client_connections", 8);
    text.value("krarup_queue_length", 3);
    text.value("krarup_workers_busy", 2);
    text.value("krarup_workers", 16);
    text.one("krarup_requests_total", "operation", "get", count);
    text.one("krarup_request_errors_total", "operation", "get", count / 10);
    text.one("krarup_hits_total", "operation", "get", count / 2);
    text.histogram("krarup_response_time_seconds", Some(("operation", "get")), &buckets);
    for (server, up) in [("a:1", 1), ("b:1", 0)] {
        text.one("krarup_server_up", "server", server, up);
        text.one("krarup_server_requests_total", "server", server, count / 2);
        text.one("krarup_server_outstanding", "server", server, 1);
        text.histogram("krarup_server_answer_time_seconds", Some(("server", server)), &buckets);
    }
    text.one("krarup_pool_servers_up", "pool", "main", 1);
    text.one("krarup_pool_requests_total", "pool", "main", count);
    Samples::read(&text.0)
}

/// So many times that are alike.
fn times_of(count: u64, time: Nanos) -> TimeBuckets {
    let mut times = MeasuredDistribution::new();
    (0..count).for_each(|_| times.record(time));
    TimeBuckets::of(&times, true)
}

fn broker(seconds: f64, needed: Option<f64>) -> Samples {
    Samples::read(&told_by_broker(seconds, needed).0)
}

fn told_by_broker(seconds: f64, needed: Option<f64>) -> ExpositionText {
    let mut text = ExpositionText::default();
    text.value("krarup_broker_uptime_seconds", seconds);
    text.value("krarup_broker_clients", 4);
    text.one("krarup_broker_messages", "state", "ready", 25);
    text.value("krarup_broker_commits_total", seconds * 200.0);
    text.one("krarup_broker_requests_total", "operation", "put", seconds * 40.0);
    let tube = "jobs\"1";
    text.one("krarup_broker_tube_ready", "tube", tube, 25);
    text.one("krarup_broker_tube_consumers_busy", "tube", tube, 3);
    text.one("krarup_broker_tube_consumers_waiting", "tube", tube, 1);
    text.one("krarup_broker_tube_drain_seconds", "tube", tube, "+Inf");
    text.labelled(
        "krarup_broker_tube_service_time_seconds",
        &[("tube", tube.to_owned()), ("quantile", "0.95".to_owned())],
        0.3,
    );
    for (bound, more) in [("low", -1.0), ("mean", 0.0), ("high", 1.0)] {
        let labels =
            [("tube", tube.to_owned()), ("target", "p95 < 1 s".to_owned()), ("bound", bound.to_owned())];
        needed.into_iter().for_each(|needed| {
            text.labelled("krarup_broker_workers_needed", &labels, needed + more);
        });
    }
    if needed.is_none() {
        let labels = [("tube", tube.to_owned()), ("reason", "few_services".to_owned())];
        text.labelled("krarup_broker_workers_needed_silent", &labels, 1);
    }
    text
}

fn state(names: &[&str]) -> TopState {
    let mut state = TopState::default();
    state.set_instances(names.iter().map(|name| (*name).to_owned()));
    state
}

#[test]
fn rates_are_what_was_counted_between_two_looks() {
    let mut state = state(&["p"]);
    state.looked("p", 0.0, proxy(100.0, 400.0, 300));
    assert_eq!(state.figures(0.0, None).totals, None);
    state.looked("p", 2.0, proxy(102.0, 400.0, 300));
    let figures = state.figures(2.0, None);
    let totals = figures.totals.unwrap();
    assert_eq!((totals.throughput_per_s, totals.errors_per_s, totals.processors), (400.0, 40.0, 0.5));
    // All times lie in the bucket from 250 to 500 µs.
    assert!((0.000_25..=0.000_5).contains(&totals.p99_s.unwrap()), "{totals:?}");
    let queue = figures.queue.unwrap();
    assert_eq!((queue.waiting, queue.busy_workers, queue.workers), (3.0, 2.0, Some(16.0)));
    assert_eq!((queue.servers_up, queue.servers), (1.0, 2.0));
    let server = &figures.servers[0];
    assert_eq!((server.server.as_str(), server.up, server.proxies), ("a:1", 1, 1));
    assert_eq!((server.requests_per_s, server.share, server.outstanding), (200.0, Some(0.5), 1.0));
    assert_eq!((figures.pools[0].requests_per_s, figures.operations[0].hit_ratio), (400.0, Some(1.0)));
    assert!(figures.tubes.is_empty() && figures.store.is_none());
}

#[test]
fn several_instances_are_summed_and_one_can_be_looked_at_alone() {
    let mut state = state(&["p", "q", "r"]);
    for (name, rate) in [("p", 400.0), ("q", 100.0)] {
        state.looked(name, 0.0, proxy(100.0, rate, 300));
    }
    state.advance(0.0);
    for (name, rate) in [("p", 400.0), ("q", 100.0)] {
        state.looked(name, 1.0, proxy(101.0, rate, 300));
    }
    state.lost("r", 1.0, "refused");
    state.advance(1.0);
    state.lost("r", 4.0, "refused still");
    let figures = state.figures(5.0, None);
    assert_eq!(figures.totals.unwrap().throughput_per_s, 500.0);
    let server = &figures.servers[0];
    assert_eq!((server.up, server.proxies, server.requests_per_s), (2, 2, 250.0));
    assert_eq!(figures.servers[1].up, 0);
    let lost = &figures.instances[2];
    assert_eq!((lost.lost.as_deref(), lost.lost_s, lost.totals), (Some("refused still"), Some(4.0), None));
    assert_eq!(figures.instances[0].totals.unwrap().throughput_per_s, 400.0);
    let only = state.figures(5.0, Some("q"));
    assert_eq!((only.totals.unwrap().throughput_per_s, only.instances.len()), (100.0, 3));
    for (only, expected) in [(None, Some(500.0)), (Some("q"), Some(100.0)), (Some("r"), None)] {
        assert_eq!(state.course(1.0, 1, only)[0].throughput_per_s, expected, "{only:?}");
    }
}

/// The time without an answer belongs to no rate, and neither does what a new process has counted.
#[test]
fn an_instance_that_comes_back_begins_anew() {
    let mut state = state(&["p"]);
    state.looked("p", 0.0, proxy(100.0, 400.0, 300));
    state.lost("p", 1.0, "refused");
    state.looked("p", 2.0, proxy(102.0, 400.0, 300));
    assert_eq!(state.figures(2.0, None).totals, None);
    state.looked("p", 3.0, proxy(103.0, 400.0, 300));
    assert_eq!(state.figures(3.0, None).totals.unwrap().throughput_per_s, 400.0);
    // It was started anew between two looks.
    state.looked("p", 4.0, proxy(0.5, 400.0, 300));
    assert_eq!(state.figures(4.0, None).totals, None);
    // What comes of an instance that is looked at no more is dropped.
    state.set_instances(["q".to_owned()]);
    state.looked("p", 5.0, proxy(1.5, 400.0, 300));
    assert_eq!(state.instances().collect::<Vec<_>>(), ["q"]);
    assert_eq!((state.kind("p"), state.figures(5.0, None).totals), (None, None));
}

/// A process that has run for longer than the one before it, or another one behind its address, is
/// told by the time that the reader saw pass.
#[test]
fn two_looks_an_hour_apart_are_of_one_run_only_if_it_ran_for_that_hour() {
    for (uptime, is_same) in [(3_540.0, false), (4_196.0, true), (4_210.0, false)] {
        let mut state = state(&["p"]);
        state.looked("p", 0.0, proxy(600.0, 1.0, 300));
        state.looked("p", 3_600.0, proxy(uptime, 1.0, 300));
        assert_eq!(state.figures(3_600.0, None).totals.is_some(), is_same, "{uptime}");
    }
}

#[test]
fn the_course_has_a_gap_where_nothing_answers() {
    let mut state = state(&["p"]);
    state.looked("p", 0.0, proxy(100.0, 400.0, 300));
    state.advance(0.0);
    state.looked("p", 30.0, proxy(130.0, 400.0, 300));
    state.advance(30.0);
    state.lost("p", 31.0, "refused");
    state.advance(60.0);
    let halves = state.course(60.0, 2, None);
    assert_eq!((halves[0].throughput_per_s, halves[1].throughput_per_s), (Some(400.0), None));
}

#[test]
fn a_tube_has_its_workers_or_the_reason_why_there_is_no_conclusion() {
    let mut state = state(&["b", "c"]);
    for uptime in [10.0, 11.0] {
        state.looked("b", uptime, broker(uptime, Some(6.0)));
    }
    let figures = state.figures(1.0, None);
    let tube = &figures.tubes[0];
    assert_eq!((tube.ready, tube.reserved, tube.consumers_waiting), (Some(25.0), 3.0, 1.0));
    assert_eq!((tube.service_p95_s, tube.drain_s), (Some(0.3), Some(f64::INFINITY)));
    assert_eq!(serde_json::to_value(tube).unwrap()["drain_s"], "never");
    let needed = tube.workers.as_ref().unwrap();
    assert_eq!((needed.low, needed.mean, needed.high, needed.target.as_str()), (5.0, 6.0, 7.0, "p95 < 1 s"));
    assert_eq!((figures.store.unwrap().ready, figures.store.unwrap().commits_per_s), (Some(25.0), 200.0));
    assert_eq!(figures.services, [ServiceKind::Broker]);
    // Each of two brokers sees a part of the arrivals.
    for uptime in [10.0, 11.0] {
        state.looked("c", uptime, broker(uptime, Some(4.0)));
    }
    let two = state.figures(1.0, None);
    assert_eq!(
        (two.tubes[0].workers.as_ref(), two.tubes[0].silent.as_deref()),
        (None, Some("several_brokers"))
    );
    let mut silent = self::state(&["b"]);
    for uptime in [10.0, 11.0] {
        silent.looked("b", uptime, broker(uptime, None));
    }
    assert_eq!(silent.figures(1.0, None).tubes[0].silent.as_deref(), Some("few_services"));
}

/// Brokers that share a database tell the messages of all; owners of queues their own.
#[test]
fn messages_that_brokers_share_are_counted_once() {
    for (owners, ready) in [(false, 25.0), (true, 50.0)] {
        let mut state = state(&["b", "c"]);
        for (name, uptime) in [("b", 10.0), ("c", 10.0), ("b", 11.0), ("c", 11.0)] {
            let mut text = told_by_broker(uptime, None);
            if owners {
                text.value("krarup_broker_leases_expired_total", 0);
            }
            state.looked(name, uptime, Samples::read(&text.0));
        }
        let figures = state.figures(1.0, None);
        assert_eq!((figures.store.unwrap().ready, figures.tubes[0].ready), (Some(ready), Some(ready)));
        assert_eq!(figures.tubes[0].reserved, 6.0, "each tells its own consumers");
    }
}

/// A script that waits for queues to be empty must not go on because the database is gone.
#[test]
fn messages_of_which_the_database_has_not_told_are_not_none() {
    let mut state = state(&["b"]);
    for uptime in [10.0, 11.0] {
        let mut text = ExpositionText::default();
        text.value("krarup_broker_uptime_seconds", uptime);
        text.one("krarup_broker_tube_consumers_busy", "tube", "jobs", 3);
        state.looked("b", uptime, Samples::read(&text.0));
    }
    let figures = serde_json::to_value(state.figures(1.0, None)).unwrap();
    let absent = ["ready", "reserved", "delayed", "buried"].map(|state| &figures["store"][state]);
    assert!(absent.iter().all(|count| count.is_null()), "{figures}");
    assert!(figures["store"]["clients_waiting"].is_number() && figures["tubes"][0]["drain_s"].is_null());
}

#[test]
fn how_long_a_message_is_waited_for_is_no_response_time_of_the_whole() {
    let mut state = state(&["b"]);
    for uptime in [10_u32, 11] {
        let mut text = told_by_broker(f64::from(uptime), None);
        let waited = Nanos::from_secs(10);
        for (operation, time) in [("put", Nanos::from_micros(300)), ("reserve", waited), ("pop", waited)] {
            let buckets = times_of(100 * u64::from(uptime), time);
            let of = Some(("operation", operation));
            text.histogram("krarup_broker_response_time_seconds", of, &buckets);
        }
        state.looked("b", f64::from(uptime), Samples::read(&text.0));
    }
    let totals = state.figures(1.0, None).totals.unwrap();
    assert!((0.000_25..=0.000_5).contains(&totals.p99_s.unwrap()), "{totals:?}");
}

/// Its histogram is since the start of the broker: that it is read for the first time does not make
/// its times those of the last second.
#[test]
fn a_tube_that_comes_into_the_list_has_no_waiting_times_at_first() {
    let mut state = state(&["b"]);
    let mut seen = Vec::new();
    for (uptime, quick) in [(10.0, None), (11.0, Some(0)), (12.0, Some(100))] {
        let mut text = told_by_broker(uptime, None);
        if let Some(quick) = quick {
            let mut waits = MeasuredDistribution::new();
            (0..1_000).for_each(|_| waits.record(Nanos::from_secs(8)));
            (0..quick).for_each(|_| waits.record(Nanos::from_micros(20)));
            let waits = TimeBuckets::of(&waits, true);
            text.histogram("krarup_broker_tube_waiting_time_seconds", Some(("tube", "jobs\"1")), &waits);
        }
        state.looked("b", uptime, Samples::read(&text.0));
        seen.extend(state.figures(uptime, None).tubes.iter().map(|tube| tube.waiting_p95_s));
    }
    assert_eq!((seen.len(), seen[0]), (2, None));
    assert!((0.0..=0.000_025).contains(&seen[1].unwrap()), "{seen:?}");
}

#[test]
fn brokers_whose_store_is_at_fault_are_counted() {
    let mut state = state(&["b", "c"]);
    for (name, uptime, takes) in [("b", 10.0, 1), ("c", 10.0, 1), ("b", 11.0, 1), ("c", 11.0, 0)] {
        let mut text = told_by_broker(uptime, None);
        text.value("krarup_broker_store_takes", takes);
        state.looked(name, uptime, Samples::read(&text.0));
    }
    let of = |only| state.figures(1.0, only).store.unwrap().at_fault;
    assert_eq!((of(None), of(Some("b")), of(Some("c"))), (1.0, 0.0, 1.0));
}

#[test]
fn what_is_said_beside_numbers_is_that_of_instances_that_answer() {
    let mut state = state(&["p"]);
    let report = ClientRates::default().report(&[], Stamp(0));
    for uptime in [10.0, 11.0] {
        state.looked("p", uptime, proxy(uptime, 10.0, 300));
    }
    state.set_clients("p", report.clone());
    state.set_clients("unknown", report.clone());
    assert_eq!(state.figures(1.0, None).clients.len(), 1);
    state.set_clients("p", None);
    assert_eq!(state.figures(1.0, None).clients, []);
    state.set_clients("p", report);
    state.lost("p", 2.0, "refused");
    assert_eq!(state.figures(2.0, None).clients, []);
}
