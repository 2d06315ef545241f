//! `krarup headroom --prometheus` and `krarup model calibrate --prometheus`: of a server that
//! speaks Prometheus' JSON and keeps the series of services whose truth is known.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::fresh;
use crate::support::peer::{Peer, listen};
use crate::support::process::{Ended, Port, Program, skipped};

/// The series of one server of exponential service times that serves 1,000 per second: 200 to 700
/// per second, 100 points until `end`. Response times are off by 3 % up and down in turn.
fn values(of: &str, end: u64) -> String {
    let values = (0..100_u32).map(|step| {
        let rate = 450.0 - 250.0 * (f64::from(step) / 8.0).cos();
        let response =
            1.03_f64.powi(1 - 2 * (step.wrapping_mul(2_654_435_769) >> 31) as i32) / (1_000.0 - rate);
        let value = match of {
            "rate" => rate,
            "flight" => rate * response,
            _ => response,
        };
        format!("[{},\"{value}\"]", end - 60 * u64::from(99 - step))
    });
    values.collect::<Vec<_>>().join(",")
}

/// The series of a service whose requests take 2 ms and then the one of 4 ms of a server that
/// serves 1,000 per second: 0.4 to 60 are in flight, in 200 points.
fn busy_values(of: &str) -> String {
    let values = (0..200_u32).map(|step| {
        let rate = 1_000.0 * (1.0 - 0.6 * 0.03_f64.powf(0.5 - 0.5 * (f64::from(step) / 16.0).cos()));
        let response = 2e-3 + 1.0 / (1_000.0 - rate);
        let value = match of {
            "busy rate" => rate,
            "busy flight" => rate * response,
            _ => response,
        };
        format!("[{},\"{value}\"]", 1_700_000_000 + 60 * step)
    });
    values.collect::<Vec<_>>().join(",")
}

/// What Prometheus answers to a query until `end`, in two chunks. The series `old` end five hours
/// before it.
fn answer(query: &str, end: u64) -> String {
    let series = |values: &str| format!("{{\"metric\":{{}},\"values\":[{values}]}}");
    let (status, result) = match query {
        "rate" | "flight" | "time" => ("200 OK", series(&values(query, end))),
        "old%20rate" | "old%20flight" | "old%20time" => {
            ("200 OK", series(&values(query.trim_start_matches("old%20"), end - 18_000)))
        }
        "busy%20rate" | "busy%20flight" | "busy%20time" => {
            ("200 OK", series(&busy_values(&query.replace("%20", " "))))
        }
        "none" => ("200 OK", String::new()),
        "broken" => ("200 OK", "<html>".into()),
        "two" => ("200 OK", format!("{},{}", series("[1,\"2\"]"), series("[1,\"3\"]"))),
        _ => ("400 Bad Request", String::new()),
    };
    let body = if status == "200 OK" {
        format!("{{\"status\":\"success\",\"data\":{{\"resultType\":\"matrix\",\"result\":[{result}]}}}}")
    } else {
        format!("{{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"cannot parse {query}\"}}")
    };
    let (first, rest) = body.split_at(body.len() / 2);
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    let head = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close";
    format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n{}{}0\r\n\r\n", chunk(first), chunk(rest))
}

/// Begins to answer; ends with the test program.
fn prometheus() -> SocketAddr {
    let listener = listen();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok(mut client) = Peer::accept(&listener) {
            let line = String::from_utf8(client.line().unwrap_or_default()).unwrap();
            let query = line.strip_prefix("GET /p/api/v1/query_range?query=").unwrap_or_default();
            let end = query.split("&end=").nth(1).and_then(|end| end.split(['&', '.']).next());
            let end = end.and_then(|end| end.parse().ok()).unwrap_or(1_700_000_000);
            let query = query.split('&').next().unwrap_or_default();
            // The client reads until the end of the connection.
            while client.line().is_ok_and(|line| line != b"\r\n") {}
            let _ = client.send(answer(query, end).as_bytes());
        }
    });
    address
}

fn headroom(words: &[&str]) -> Ended {
    Program::begin(&[&["headroom"], words].concat()).ended()
}

#[test]
fn the_limit_of_a_service_is_told_from_what_prometheus_keeps() {
    let url = format!("http://{}/p/", prometheus());
    let asked = ["--prometheus", &url, "--rate", "rate", "--in-flight", "flight", "--time", "time"];
    let json = headroom(&[&asked[..], &["--json"]].concat());
    assert_eq!(json.code, Some(0), "{json:?}");
    let answer = json.json();
    let number = |pointer: &str| answer.pointer(pointer).unwrap().as_f64().unwrap();
    assert!((number("/capacity_per_s/mean") / 1_000.0 - 1.0).abs() < 0.1, "{answer:#}");
    assert!((800.0..1_000.0).contains(&number("/capacity_per_s/low")), "{answer:#}");
    assert_eq!((&answer["verdict"], number("/traffic/points")), (&"stated".into(), 100.0));
    assert!((number("/little") - 1.0).abs() < 1e-9);

    let screen = headroom(&[&asked[..], &["--target", "mean < 5ms"]].concat());
    assert!(screen.output.starts_with("mean < 5.00 ms holds up to about "), "{screen:?}");
    assert!(screen.output.contains("[stated]") && screen.output.contains("\nlaw "), "{screen:?}");
    assert!(screen.output.is_ascii() && screen.output.lines().all(|line| line.len() <= 80), "{screen:?}");
    assert_eq!(screen.code, Some(0), "{screen:?}");
    let broken = headroom(&[&asked[..], &["--target", "mean < 1.1ms"]].concat());
    assert!(broken.code == Some(1) && broken.output.contains(" is broken now"), "{broken:?}");
    // The number in flight of something else.
    let other = ["--prometheus", &url, "--rate", "rate", "--in-flight", "rate", "--time", "time"];
    let silent = headroom(&other);
    assert_eq!(silent.code, Some(3), "{silent:?}");
    assert!(silent.output.contains("because    the number in flight is not rate x"), "{silent:?}");
}

#[test]
fn a_target_that_an_idle_service_missed_hours_ago_is_not_broken_now() {
    let url = format!("http://{}/p/", prometheus());
    let asked = ["--prometheus", &url, "--rate", "old rate", "--in-flight", "old flight"];
    let asked = [&asked[..], &["--time", "old time", "--target", "mean < 1.1ms"]].concat();
    let screen = headroom(&asked);
    assert!(screen.code != Some(1) && !screen.output.contains("broken now"), "{screen:?}");
    assert!(screen.output.contains("none in the last 18000 s, "), "{screen:?}");
    let json = headroom(&[&asked[..], &["--json"]].concat()).json();
    assert!(json["traffic"]["quiet_s"] == 18_000.0 && json["broken_now"].is_null(), "{json:#}");
}

/// What 1,000 per second bounds is calibrated from what Prometheus keeps, and the model that is
/// written says how many come through with any number in flight.
#[test]
fn a_service_is_calibrated_from_what_prometheus_keeps() {
    let url = format!("http://{}/p", prometheus());
    let folder = fresh("service-of-prometheus");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("service.json");
    let file = file.to_str().unwrap();
    let calibrate = |words: &[&str]| {
        Program::begin(&[&["model", "calibrate", "--prometheus", &url, "--out", file], words].concat())
            .ended()
    };
    let busy = ["--rate", "busy rate", "--in-flight", "busy flight", "--time", "busy time"];
    let made = calibrate(&busy);
    assert_eq!(made.code, Some(0), "{made:?}");
    let said =
        Program::begin(&["model", "predict", file, "--population", "10,40", "--workers", "40", "--json"]);
    let said = said.ended().json();
    let rate = |place: usize| said["predictions"][place]["throughput"]["value"].as_f64().unwrap();
    // With n in flight: n = X·(2 ms + 1/(1,000/s − X)).
    for (place, truth) in [(0, 891.5), (1, 974.4)] {
        assert!((rate(place) / truth - 1.0).abs() < 0.03, "{said:#}");
    }
    let explained = Program::begin(&["model", "explain", file]).ended();
    assert_eq!(explained.code, Some(0), "{explained:?}");
    // The service of the other test never has three in flight.
    let few = calibrate(&["--rate", "rate", "--in-flight", "flight", "--time", "time"]);
    assert!(few.code == Some(1) && few.errors.contains("at most 2."), "{few:?}");
    let other = calibrate(&["--rate", "busy rate", "--in-flight", "busy rate", "--time", "busy time"]);
    assert!(other.code == Some(1) && other.errors.contains("times rate"), "{other:?}");
    let both = calibrate(&[&busy[..], &["rows.csv"]].concat());
    assert!(both.code == Some(2) && both.errors.contains("--prometheus"), "{both:?}");
}

/// Counters of three hours, a sample each 15 s, of the service that serves 1,000 per second, in the
/// format that promtool makes blocks of.
fn counters(now: f64) -> String {
    let (mut requests, mut seconds) = (0.0, 0.0);
    let mut samples = [String::new(), String::new(), String::new()];
    for step in 0..720_u32 {
        let rate = 1_000.0 * (1.0 - 0.6 * 0.03_f64.powf(0.5 - 0.5 * (f64::from(step) / 60.0).cos()));
        let response = 2e-3 + 1.0 / (1_000.0 - rate);
        requests += 15.0 * rate;
        seconds += 15.0 * rate * response;
        let at = now - 15.0 * f64::from(720 - step);
        for (samples, sample) in samples.iter_mut().zip([
            format!("requests_total {requests} {at}\n"),
            format!("seconds_total {seconds} {at}\n"),
            format!("in_flight {} {at}\n", rate * response),
        ]) {
            samples.push_str(&sample);
        }
    }
    let [requests, seconds, in_flight] = samples;
    format!(
        "# TYPE requests counter\n{requests}# TYPE seconds counter\n{seconds}# TYPE in_flight gauge\n{in_flight}# EOF\n"
    )
}

/// Debian's Prometheus itself, with the counters of a service of known capacity.
#[test]
fn a_service_is_calibrated_from_a_real_prometheus() {
    let folder = fresh("real-prometheus");
    fs::create_dir_all(&folder).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    fs::write(folder.join("counters.txt"), counters(now as f64)).unwrap();
    fs::write(folder.join("prometheus.yml"), "").unwrap();
    let blocks = ["tsdb", "create-blocks-from", "openmetrics", "counters.txt", "data"];
    match Command::new("promtool").current_dir(&folder).args(blocks).output() {
        Ok(made) => assert!(made.status.success(), "{made:?}"),
        Err(error) => {
            return skipped(&format!("promtool cannot be run ({error}); Debian's package is prometheus"));
        }
    }
    let port = Port::new();
    let mut command = Command::new("prometheus");
    command.current_dir(&folder).args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
    command.arg(format!("--web.listen-address={}", port.address()));
    let mut server = Program::spawn(command);
    server.says_text("Server is ready");
    let (url, file) = (format!("http://{}", port.address()), folder.join("service.json"));
    let file = file.to_str().unwrap();
    let words = [
        ["--prometheus", &url],
        ["--over", "3h"],
        ["--rate", "rate(requests_total[$step])"],
        ["--in-flight", "avg_over_time(in_flight[$step])"],
        ["--time", "rate(seconds_total[$step])/rate(requests_total[$step])"],
        ["--out", file],
    ];
    let made = Program::begin(&[&["model", "calibrate"], &words.concat()[..]].concat()).ended();
    assert_eq!(made.code, Some(0), "{made:?}");
    let said =
        Program::begin(&["model", "predict", file, "--population", "10,40", "--workers", "40", "--json"]);
    let said = said.ended().json();
    for (place, truth) in [(0, 891.5), (1, 974.4)] {
        let rate = said["predictions"][place]["throughput"]["value"].as_f64().unwrap();
        assert!((rate / truth - 1.0).abs() < 0.04, "{said:#}");
    }
}

#[test]
fn what_cannot_be_asked_is_refused_with_a_hint() {
    let url = format!("http://{}/p", prometheus());
    let with = |rate: &str, more: &[&str]| {
        let asked = ["--prometheus", &url, "--rate", rate, "--in-flight", "flight", "--time", "time"];
        headroom(&[&asked[..], more].concat())
    };
    for (ended, part) in [
        (with("none", &[]), "--rate: `none` gives nothing over the last"),
        (with("none", &["--over", "1h"]), "$step is 30.0 s now, --step sets it"),
        (with("two", &[]), "put sum"),
        (with("broken", &[]), "hint: is it the address of a Prometheus"),
        (with("wrong", &[]), "cannot parse wrong"),
        (with("rate", &["--target", "p99 < 8ms"]), "mean < 8ms"),
        (with("rate", &["--workers", "3"]), "with --prometheus only"),
        (with("rate", &["--seed", "2"]), "with --prometheus only"),
        (with("rate", &["--over", "1s"]), "--over and --step"),
        (with("rate", &["127.0.0.1:1"]), "--prometheus"),
        (
            headroom(&["--prometheus", "https://a:1", "--rate", "a", "--in-flight", "b", "--time", "c"]),
            "decrypts",
        ),
        (headroom(&["--prometheus", &url, "--rate", "rate"]), "--in-flight"),
        (headroom(&["127.0.0.1:1", "--rate", "rate"]), "--prometheus"),
        (headroom(&["127.0.0.1:1", "--target", "mean < 8ms"]), "p99 < 8ms"),
        (headroom(&[]), "ROWS|DIR|ADDRESS"),
    ] {
        assert!(ended.code == Some(2) && ended.errors.contains(part), "{part}: {ended:?}");
    }
}
