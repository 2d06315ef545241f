//! What a running broker says of its tubes is what happened: `stats-tube`, `/metrics` and `/tubes`
//! agree, and what KEDA asks for is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::broker::{data, monitored, say};
use crate::monitoring::{get, value};
use crate::support::conversation::answers;
use crate::support::peer::Peer;
use crate::support::until;

/// The lines of an answer to `stats-tube`, read as go-beanstalk reads them: what stands before and
/// after the first `: `.
fn stats_tube(peer: &mut Peer, tube: &str) -> BTreeMap<String, String> {
    let text = data(peer, &format!("stats-tube {tube}\r\n"));
    let pairs = text.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[test]
fn stats_tube_metrics_and_the_admin_address_agree_about_what_happened() {
    let (broker, admin) = monitored(&["--waiting-target", "p99 < 250ms", "--tubes-in-metrics", "1"]);
    let (mut producer, mut worker) = (broker.connect(), broker.connect());
    say(&mut worker, "watch jobs\r\nignore default\r\n", "WATCHING 2\r\nWATCHING 1\r\n");
    say(&mut producer, "put 1 0 60 1\r\nx\r\nuse jobs\r\n", "INSERTED 1\r\nUSING jobs\r\n");
    for id in 2..=6 {
        say(&mut producer, "put 1 0 60 1\r\nx\r\n", &format!("INSERTED {id}\r\n"));
    }
    for id in 2..=4 {
        say(&mut worker, "reserve\r\n", &format!("RESERVED {id} 1\r\nx\r\n"));
    }
    say(&mut worker, "delete 2\r\nrelease 3 0 0\r\nbury 4 1\r\n", "DELETED\r\nRELEASED\r\nBURIED\r\n");
    say(&mut worker, "reserve\r\n", "RESERVED 3 1\r\nx\r\n");
    // Put five, released one; of four hand-outs one was the second; one is held, one was deleted,
    // two were given up. The message of the default tube waits.
    let stats = stats_tube(&mut worker, "jobs");
    for (key, expected) in [
        ("current-jobs-ready", "2"),
        ("current-jobs-reserved", "1"),
        ("busy-consumers", "1"),
        ("redeliveries", "1"),
        ("given-up", "2"),
        ("service-times", "1"),
        ("waiting-times", "4"),
        ("waiting-target", "\"p99 < 250 ms\""),
    ] {
        assert_eq!(stats.get(key).map(String::as_str), Some(expected), "{key} in {stats:?}");
    }
    assert!(stats["waiting-time-histogram"].ends_with(", 4]]"), "{stats:?}");
    let seconds = |key: &str| stats[key].parse::<f64>().unwrap();
    assert!(seconds("service-time-mean") > 0.0 && seconds("oldest-age") > 0.0, "{stats:?}");
    let silent = ["no_arrivals", "few_services"];
    assert!(silent.contains(&&*stats["workers-needed-silent"]), "{stats:?}");

    let (status, metrics) = get(admin, "/metrics");
    assert_eq!(status, 200);
    for (name, expected) in [
        ("ready", 2.0),
        ("consumers_busy", 1.0),
        ("consumers_waiting", 0.0),
        ("arrivals_total", 6.0),
        ("redeliveries_total", 1.0),
        ("given_up_total", 2.0),
        ("service_time_seconds_count", 1.0),
        ("waiting_time_seconds_count", 4.0),
    ] {
        let series = format!("krarup_broker_tube_{name}{{tube=\"jobs\"}}");
        assert_eq!(value(&metrics, &series), expected, "{series}");
    }
    let all = "krarup_broker_tube_waiting_time_seconds_bucket{tube=\"jobs\",le=\"+Inf\"}";
    assert_eq!(value(&metrics, all), 4.0);
    assert_eq!(value(&metrics, "krarup_broker_tube_ready{tube=\"*\"}"), 1.0);
    let one_and_others = ["tube=\"jobs\"", "tube=\"*\""];
    for line in metrics.lines().filter(|line| line.contains("{tube=")) {
        assert!(one_and_others.iter().any(|tube| line.contains(tube)), "{line}");
    }

    let (status, tubes) = get(admin, "/tubes");
    assert_eq!(status, 200);
    let tubes: serde_json::Value = serde_json::from_str(&tubes).unwrap();
    let tube = &tubes["tubes"][0];
    assert_eq!((&tubes["schema"], tubes["tubes"].as_array().map(Vec::len)), (&1.into(), Some(1)));
    for (pointer, expected) in [
        ("/ready", 2),
        ("/arrivals", 6),
        ("/redeliveries", 1),
        ("/given_up", 2),
        ("/busy_consumers", 1),
        ("/service_s/count", 1),
        ("/waiting_s/count", 4),
    ] {
        assert_eq!(tube.pointer(pointer).and_then(serde_json::Value::as_u64), Some(expected), "{pointer}");
    }
    assert_eq!((&tube["tube"], &tubes["others"]["ready"]), (&"jobs".into(), &1.into()));
    assert_eq!((&tubes["target"]["quantile"], &tubes["target"]["seconds"]), (&0.99.into(), &0.25.into()));
    assert!(broker.stop().success);
}

fn packaged(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)).unwrap()
}

/// The value of a key that stands once in a file.
fn key<'a>(file: &'a str, key: &str) -> &'a str {
    let found = file.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("no {key} in {file}")).trim().trim_matches('"')
}

/// KEDA's scaler for beanstalkd (`pkg/scalers/beanstalkd_scaler.go`) asks by go-beanstalk, on a
/// connection of its own: `stats-tube` and nothing else. It takes these keys for whole numbers, and
/// a tube that is not found for an empty one.
#[test]
fn kedas_scaler_for_beanstalkd_finds_the_keys_that_it_reads() {
    let backlog = packaged("keda-backlog.yaml");
    let tube = key(&backlog, "tube");
    assert_eq!(key(&backlog, "- type"), "beanstalkd");
    let (broker, _) = monitored(&[]);
    let mut keda = broker.connect();
    say(&mut keda, &format!("stats-tube {tube}\r\n"), "NOT_FOUND\r\n");
    let mut client = broker.connect();
    say(&mut client, &format!("use {tube}\r\n"), &format!("USING {tube}\r\n"));
    say(&mut client, &format!("watch {tube}\r\n"), "WATCHING 2\r\n");
    for (id, put) in ["put 1 0 60 1", "put 1 0 60 1", "put 9999 0 60 1", "put 1 600 60 1"].iter().enumerate()
    {
        say(&mut client, &format!("{put}\r\nx\r\n"), &format!("INSERTED {}\r\n", id + 1));
    }
    say(&mut client, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    let stats = stats_tube(&mut keda, tube);
    let number = |key: &str| stats[key].parse::<i64>().unwrap();
    for (key, expected) in [
        ("total-jobs", 4),
        ("current-jobs-ready", 2),
        ("current-jobs-reserved", 1),
        ("current-jobs-urgent", 1),
        ("current-jobs-buried", 0),
        ("current-jobs-delayed", 1),
    ] {
        assert_eq!(number(key), expected, "{key}");
    }
}

/// The series of a query that are chosen by labels: name and labels.
fn selectors(query: &str) -> Vec<(&str, Vec<&str>)> {
    let parts = query.split('}').filter_map(|part| part.split_once('{'));
    let name = |before: &str| before.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_');
    parts
        .map(|(before, labels)| (&before[name(before).map_or(0, |at| at + 1)..], labels.split(',').collect()))
        .collect()
}

#[test]
fn kedas_scaler_for_prometheus_finds_the_workers_of_a_tube_that_works() {
    let need = packaged("keda-workers.yaml");
    let query =
        need.lines().skip_while(|line| !line.contains("query: >-")).skip(1).take(3).collect::<String>();
    let selectors = selectors(&query);
    let names: Vec<_> = selectors.iter().map(|(name, _)| *name).collect();
    let silent = "krarup_broker_workers_needed_silent";
    assert_eq!(names, ["krarup_broker_workers_needed", silent, silent]);
    let chosen = |metrics: &str, place: usize| {
        let (name, labels) = &selectors[place];
        let series = metrics.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let chosen = series.filter(|line| labels.iter().all(|label| line.contains(label)));
        chosen.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };

    let (broker, admin) = monitored(&[]);
    let mut worker = broker.connect();
    say(&mut worker, "watch jobs\r\n", "WATCHING 2\r\n");
    let metrics = || get(admin, "/metrics").1;
    // Before the first message: none is needed. Without that number KEDA had an error.
    let before = metrics();
    assert_eq!((chosen(&before, 0), chosen(&before, 1)), (vec![], vec![1.0]));
    let (mut said, mut expected) =
        ("use jobs\r\nwatch jobs\r\n".to_owned(), "USING jobs\r\nWATCHING 2\r\n".to_owned());
    for id in 1..=4_000 {
        said += &format!("put 1 0 60 1\r\nx\r\nreserve\r\ndelete {id}\r\n");
        expected += &format!("INSERTED {id}\r\nRESERVED {id} 1\r\nx\r\nDELETED\r\n");
    }
    assert!(answers(&broker, said.as_bytes()) == expected.as_bytes());
    // The tenth of a second in which messages arrived must be over.
    let mut after = String::new();
    until("there is a conclusion", || {
        after = metrics();
        !chosen(&after, 0).is_empty()
    });
    let [high] = chosen(&after, 0)[..] else { panic!("KEDA takes one number: {after}") };
    assert!(chosen(&after, 1).is_empty());
    let series = |bound: &str| {
        format!("krarup_broker_workers_needed{{tube=\"jobs\",target=\"p95 < 1 s\",bound=\"{bound}\"}}")
    };
    let [low, mean] = ["low", "mean"].map(|bound| value(&after, &series(bound)));
    assert!(1.0 <= low && low <= mean && mean <= high, "{low} {mean} {high}");
    let tubes: serde_json::Value = serde_json::from_str(&get(admin, "/tubes").1).unwrap();
    let workers =
        &tubes["tubes"].as_array().unwrap().iter().find(|tube| tube["tube"] == "jobs").unwrap()["workers"];
    let needed = &workers["needed"];
    assert!(needed["mean"].as_u64() >= Some(1) && needed["service_s"].as_f64() > Some(0.0), "{workers}");
}
