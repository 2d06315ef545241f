//! `krarup headroom`: of rows whose truth is known, of a running proxy, of a directory of results.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;

use krarup_model::headroom::Headroom;
use krarup_record::file::RunMetadata;
use krarup_record::file::rows::{KeySample, RowFileWriter, RowSettings};
use krarup_record::summary::{MiddlewareSummary, RunSummary};
use krarup_record::{Operation, Recorder, RecorderSettings, ServerVisit, Visit};
use krarup_units::{Nanos, Stamp};
use serde_json::Value;

use crate::broker::monitored;
use crate::support::peer::asked;
use crate::support::process::{Ended, Program};
use crate::support::{file, fresh, until};

fn krarup(words: &[&str]) -> Ended {
    Program::begin(words).ended()
}

/// Rows of one server that works 500 µs on every request, behind a round trip of 400 µs; gaps
/// between requests are exponential, 600 to 1,000 a second, for 60 s.
fn rows(name: &str) -> String {
    let path = fresh(&format!("{name}.parquet"));
    write(&path, &visits());
    path.to_str().unwrap().to_owned()
}

/// The answer to such rows, which says a capacity.
pub(crate) fn of_known_rows(name: &str) -> Headroom {
    let ended =
        krarup(&["headroom", &rows(name), "--target", "p99 < 20ms", "--server-names", "cache-1", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.output).unwrap()
}

pub(crate) fn write(path: &Path, visits: &[Visit]) {
    write_as(path, visits, RunMetadata { epoch_unix: Nanos(0) }.into(), 0);
}

fn write_as(path: &Path, visits: &[Visit], settings: RowSettings, lost: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = RowFileWriter::new(File::create(path).unwrap(), settings).unwrap();
    for visit in visits {
        file.push(visit, &[ServerVisit::ok(0, visit.received, visit.replied)]).unwrap();
    }
    file.lost(lost);
    file.finish().unwrap();
}

pub(crate) fn visits() -> Vec<Visit> {
    let mut visits = Vec::new();
    let (mut now, mut free, mut bits) = (1.0_f64, 0.0_f64, 7_u64);
    while now < 61.0 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        now -= uniform.ln() / (800.0 + 200.0 * (now / 9.0).sin());
        free = free.max(now + 0.0002) + 0.0005;
        let nanos = |seconds: f64| Stamp((seconds * 1e9).round() as u64);
        let mut visit = Visit::at(nanos(now), Operation::Get);
        visit.bytes_out = 100;
        visit.replied = nanos(free + 0.0002);
        visits.push(visit);
    }
    visits
}

fn number(answer: &Value, pointer: &str) -> f64 {
    answer.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer}: {answer:#}"))
}

#[test]
fn rows_of_a_server_of_known_speed_give_its_saturation_and_the_same_bytes_each_time() {
    let rows = rows("headroom-known");
    let words = ["headroom", &rows, "--target", "p99 < 20ms", "--server-names", "cache-1", "--json"];
    let ended = krarup(&words);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let answer: Value = serde_json::from_str(&ended.output).unwrap();
    let saturation = number(&answer, "/saturation_per_s");
    assert!((saturation / 2_000.0 - 1.0).abs() < 0.05, "{saturation}");
    assert_eq!(answer["bottleneck"]["name"], "cache-1");
    assert_eq!(answer["broken_now"], false);
    assert!(number(&answer, "/capacity_per_s/low") < number(&answer, "/capacity_per_s/high"));
    assert_eq!(krarup(&words).output, ended.output);
    // The same in files that were written one after the other.
    let folder = fresh("headroom-files");
    for (number, part) in visits().chunks(10_000).enumerate() {
        write(&folder.join(format!("date=1970-01-01/hour=00/rows-{number}.parquet")), part);
    }
    let of_folder = [
        "headroom",
        folder.to_str().unwrap(),
        "--target",
        "p99 < 20ms",
        "--server-names",
        "cache-1",
        "--json",
    ];
    assert_eq!(krarup(&of_folder).output, ended.output);
    write(&folder.join("another/rows.parquet"), &visits()[..9]);
    let several = krarup(&of_folder);
    assert_eq!(several.code, Some(2), "{several:?}");
    assert!(several.errors.contains("rows of several programs"), "{several:?}");
}

#[test]
fn exit_codes_tell_a_conclusion_from_none_and_from_a_broken_target() {
    let rows = rows("headroom-codes");
    let broken = krarup(&["headroom", &rows, "--target", "p50 < 100us"]);
    assert_eq!(broken.code, Some(1), "{broken:?}");
    assert!(broken.output.starts_with("p50 < 100 us is broken now"), "{}", broken.output);
    let silent = krarup(&["headroom", &rows, "--target", "p99 < 20ms", "--to", "2s"]);
    assert_eq!(silent.code, Some(3), "{silent:?}");
    assert!(silent.output.contains("because    "), "{}", silent.output);
    let lost = krarup(&["headroom", &rows, "--what-if", "server b lost"]);
    assert_eq!(lost.code, Some(2), "{lost:?}");
    assert!(lost.errors.contains("there is no server `b`"), "{}", lost.errors);
    for (words, part) in [
        (&["headroom", &rows, "--target", "99 < 8ms"][..], "p99 < 8ms"),
        (&["headroom", &rows, "--until-stated", "1m"], "rows will have no more"),
        (&["headroom", "no-such.parquet"], "no-such.parquet"),
        (&["headroom", "no such thing"], "admin address of a proxy"),
        (&["headroom", "127.0.0.1:1"], "--admin"),
        (&["headroom", "127.0.0.1:1", "--workers", "3"], "are about rows"),
    ] {
        let ended = krarup(words);
        assert!(ended.code == Some(2) && ended.errors.contains(part), "{words:?}: {ended:?}");
    }
}

/// As of a proxy that still runs, or was killed: it has not written how many workers it has.
#[test]
fn rows_without_a_summary_count_workers_as_unlimited_and_say_so() {
    let rows = rows("headroom-no-summary");
    let warns = |more: &[&str]| {
        let ended = krarup(&[&["headroom", &rows][..], more].concat());
        assert!(!ended.output.is_empty(), "{ended:?}");
        ended.errors.contains("workers count as unlimited")
    };
    assert!(warns(&[]) && !warns(&["--workers", "64"]));
}

/// Its requests wait for a message, or in one queue before its database: its rows do not say which.
#[test]
fn rows_of_a_broker_are_not_judged_as_those_of_a_proxy() {
    let folder = fresh("headroom-broker-rows");
    write(&folder.join("rows.parquet"), &visits());
    let recorder = Recorder::new(RecorderSettings::default()).unwrap();
    let mut summary = serde_json::to_value(MiddlewareSummary {
        run: RunSummary::of(&recorder, (Stamp(0), Stamp(61_000_000_000)), None),
        servers: Vec::new(),
    })
    .unwrap();
    let mut judged = |is_broker: bool| {
        summary["free_when_answered"] = is_broker.into();
        fs::write(folder.join("summary.json"), summary.to_string()).unwrap();
        krarup(&["headroom", folder.to_str().unwrap()])
    };
    assert_eq!(judged(false).code, Some(0));
    let refused = judged(true);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.errors.contains("ask its admin address"), "{refused:?}");
}

/// Servers worked for what has no row, too: rates would be too low, and waits taken for service.
#[test]
fn rows_that_are_not_all_requests_of_a_proxy_are_not_judged() {
    let path = fresh("headroom-unfit").join("rows.parquet");
    let all = || RowSettings::from(RunMetadata { epoch_unix: Nanos(0) });
    let sample = || RowSettings { sample: KeySample::one_of(16), ..all() };
    let of_clients = || RowSettings { of_clients: true, ..all() };
    let visits = visits();
    let puts: Vec<_> = visits.iter().map(|visit| Visit { operation: Operation::Put, ..*visit }).collect();
    for (visits, settings, lost, part) in [
        (&visits, sample(), 0, "1/16 of the keys"),
        (&visits, of_clients(), 0, "a load generator wrote these rows"),
        (&visits, all(), 5_000, "5,000 rows are missing"),
        (&puts, all(), 0, "a broker wrote these rows"),
    ] {
        write_as(&path, visits, settings, lost);
        let refused = krarup(&["headroom", path.to_str().unwrap()]);
        assert_eq!(refused.code, Some(2), "{part}: {refused:?}");
        assert!(refused.errors.contains(part) && refused.errors.contains("hint: "), "{part}: {refused:?}");
    }
    write_as(&path, &visits, all(), 5);
    assert_eq!(krarup(&["headroom", path.to_str().unwrap()]).code, Some(0), "one in ten thousand");
}

/// A write of two copies, of which the client waits for one: the other server works, too.
#[test]
fn rows_without_the_copies_that_no_client_waited_for_are_not_judged() {
    let servers = [(); 2].map(|()| Program::krarup(&["cache", "--listen", "127.0.0.1:0"]));
    let addresses = servers.each_ref().map(Program::address);
    let folder = fresh("headroom-apart");
    let config = "connect_timeout = \"30s\"\ndistribution = \"ketama\"\nreplicas = 2\nwrites = \"async\"\n";
    let config = file("headroom-apart.toml", config);
    let flags = ["--config", &config, "--rows", "--stats-dir", folder.to_str().unwrap()];
    let proxy = Program::proxy(&addresses, &flags);
    let address = proxy.address().to_string();
    let load = krarup(&["load", "-s", &address, "-n", "50", "-c", "2", "--ratio", "1:0", "--keys", "10"]);
    assert!(load.success, "{load:?}");
    assert!(proxy.stop().success);
    let refused = krarup(&["headroom", folder.to_str().unwrap()]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.errors.contains("for no client that waited"), "{refused:?}");
    assert!(refused.errors.contains("ask its admin address"), "{refused:?}");
}

#[test]
fn the_screen_fits_a_terminal_of_eighty_columns() {
    let rows = rows("headroom-screen");
    let ended = krarup(&["headroom", &rows, "--target", "p99 < 20ms", "--what-if", "traffic x1.2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.output.starts_with("p99 < 20 ms holds up to about"), "{}", ended.output);
    assert!(ended.output.contains("what if    traffic x1.2: p99"), "{}", ended.output);
    assert!(ended.output.is_ascii() && ended.output.lines().all(|line| line.len() <= 80), "{}", ended.output);
}

/// A proxy before one store, with an admin address.
fn proxy(server: &Program, more: &[&str]) -> (Program, SocketAddr) {
    let name = server.address().to_string();
    let words = ["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--servers", &name];
    let mut proxy = Program::begin(&[&words[..], more].concat());
    let admin = proxy
        .says(|line| line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok());
    (proxy, admin)
}

#[test]
fn a_running_proxy_is_asked_over_its_admin_address() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let (proxy, admin) = proxy(&server, &["--headroom-target", "p99 < 8ms"]);
    let address = admin.to_string();
    let ended = krarup(&["headroom", &address, "--json"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let answer: Value = serde_json::from_str(&ended.output).unwrap();
    assert_eq!((&answer["verdict"], &answer["silent"][0]), (&"silent".into(), &"short_time".into()));
    assert_eq!(number(&answer, "/target/seconds"), 0.008);
    let screen = krarup(&["headroom", &format!("http://{address}/headroom"), "--target", "p95 < 1s"]);
    assert!(screen.output.contains("p95 < 1 s breaks"), "{screen:?}");
    let wrong = krarup(&["headroom", &address, "--what-if", "server b lost"]);
    assert!(wrong.code == Some(2) && wrong.errors.contains("there is no server `b`"), "{wrong:?}");
    let top = krarup(&["top", &address, "--page", "headroom", "--every", "50ms", "--looks", "1"]);
    assert!(top.success && top.output.contains("p99 < 8 ms breaks"), "{top:?}");
    let metrics = asked(admin, "GET", "/metrics");
    assert!(metrics.contains("krarup_headroom_verdict{verdict=\"silent\"} 1"), "{metrics}");
    assert!(metrics.contains("krarup_headroom_silent{reason=\"short_time\"} 1"), "{metrics}");
    assert!(!metrics.contains("\nkrarup_headroom_ratio"), "{metrics}");
    assert!(proxy.stop().success);
}

/// Two loops, whose traffic is one; of so little nothing is said.
#[test]
fn a_proxy_that_ends_leaves_what_it_says_beside_its_summary() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let folder = fresh("headroom-at-end");
    let words = ["--threads", "2", "--stats-dir", folder.to_str().unwrap()];
    let (proxy, admin) = proxy(&server, &[&words[..], &["--headroom-target", "p99 < 8ms"]].concat());
    assert!(asked(admin, "GET", "/health").contains("200"));
    assert!(proxy.stop().success);
    let said: Value = serde_json::from_slice(&fs::read(folder.join("headroom.json")).unwrap()).unwrap();
    assert_eq!((&said["verdict"], &said["silent"][0]), (&"silent".into(), &"short_time".into()));
    assert_eq!(said["target"], Value::Null, "at which rate the first resource is full");
}

#[test]
fn servers_that_may_be_asked_say_what_they_use() {
    let server = Program::memcached(&["-c", "100", "-m", "10"]);
    let config = file("server-stats.toml", "server_stats = true\n");
    let (_proxy, admin) = proxy(&server, &["--config", &config]);
    let (name, admin) = (server.address().to_string(), admin.to_string());
    // One that does not answer in time says nothing.
    until("the server says what it uses", || {
        let answer = krarup(&["headroom", &admin, "--json"]);
        let answer: Value = serde_json::from_str(&answer.output).unwrap();
        let of_server = |resource: &str| {
            let states = answer["resources"].as_array().unwrap();
            let state = states.iter().find(|state| state["resource"] == resource && state["name"] == *name);
            state.and_then(|state| state["busy_now"].as_f64())
        };
        let Some((memory, connections)) = of_server("memory").zip(of_server("connections")) else {
            return false;
        };
        assert!((0.0..0.01).contains(&memory) && (0.01..0.5).contains(&connections), "{answer}");
        true
    });
    let of_memory = format!("memory of {name}");
    until("the screen shows it", || krarup(&["headroom", &admin]).output.contains(&of_memory));
    let config = file("server-stats-tls.toml", "server_stats = true\n[edge]\nserver_login = \"/dev/null\"\n");
    let refused = krarup(&["proxy", "--servers", "127.0.0.1:1", "--config", &config]);
    assert!(refused.code == Some(2) && refused.errors.contains("leave out `server_stats`"), "{refused:?}");
}

#[test]
fn a_running_broker_is_asked_like_a_proxy() {
    let (broker, admin) = monitored(&["--headroom-target", "p99 < 20ms"]);
    let address = admin.to_string();
    let ended = krarup(&["headroom", &address, "--json"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let answer: Value = serde_json::from_str(&ended.output).unwrap();
    assert_eq!((&answer["verdict"], &answer["silent"][0]), (&"silent".into(), &"short_time".into()));
    assert_eq!(number(&answer, "/target/seconds"), 0.02);
    let metrics = asked(admin, "GET", "/metrics");
    assert!(metrics.contains("krarup_headroom_silent{reason=\"short_time\"} 1"), "{metrics}");
    let paths = asked(admin, "GET", "/");
    assert!(paths.contains("/headroom, /tubes") && !paths.contains("/redline"), "{paths}");
    let wrong = krarup(&["broker", "--headroom-target", "99 < 8ms"]);
    assert!(wrong.code == Some(2) && wrong.errors.contains("p99 < 8ms"), "{wrong:?}");
    assert!(broker.stop().success);
}

#[test]
fn automatic_workers_begin_with_the_most() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let (proxy, admin) = proxy(&server, &["--workers", "auto"]);
    let metrics = asked(admin, "GET", "/metrics");
    assert!(metrics.contains("\nkrarup_workers 256\n"), "{metrics}");
    assert!(proxy.stop().success, "what decides does not hold it up");
}

#[test]
fn waiting_for_a_stated_capacity_ends_with_its_time() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let (_proxy, admin) = proxy(&server, &[]);
    let ended = krarup(&["headroom", &admin.to_string(), "--until-stated", "1ms"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

/// An admin address that answers once with this.
fn answers(body: String) -> (SocketAddr, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut room) = (Vec::new(), [0; 512]);
        while !asked.ends_with(b"\r\n\r\n") {
            let read = stream.read(&mut room).unwrap();
            asked.extend_from_slice(&room[..read]);
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
    });
    (address, served)
}

#[test]
fn who_waits_for_a_stated_capacity_is_told_that_it_did_not_come() {
    let rows = rows("headroom-waited");
    let answer = krarup(&["headroom", &rows, "--json"]).output;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    for (verdict, waiting, code) in
        [("projected", true, 3), ("projected", false, 0), ("stated", true, 0), ("stated", false, 0)]
    {
        let mut answer = answer.clone();
        answer["verdict"] = verdict.into();
        answer["silent"] = Value::Array(Vec::new());
        let (address, served) = answers(answer.to_string());
        let address = address.to_string();
        let mut words = vec!["headroom", address.as_str()];
        words.extend(waiting.then_some(["--until-stated", "0s"]).into_iter().flatten());
        let ended = krarup(&words);
        served.join().unwrap();
        assert_eq!(ended.code, Some(code), "{verdict}, waiting {waiting}: {ended:?}");
    }
}
