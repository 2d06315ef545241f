//! `krarup redline` and `/redline`: what is refused, planned, begun and ended. How it goes on from
//! step to step is tested where time is handed in (`model::headroom::redline`).

use std::net::SocketAddr;
use std::thread;

use serde_json::{Value, json};

use crate::support::peer::{Peer, asked, listen};
use crate::support::process::{Ended, Program};
use crate::support::{fresh, until};

fn krarup(words: &[&str]) -> Ended {
    Program::begin(words).ended()
}

/// Two stores, and a proxy before them.
fn replicated(more: &[&str]) -> (Vec<Program>, Program, SocketAddr) {
    let stores: Vec<_> = (0..2).map(|_| Program::krarup(&["cache", "--listen", "127.0.0.1:0"])).collect();
    let (proxy, admin) = before(&stores, more);
    (stores, proxy, admin)
}

fn before(stores: &[Program], more: &[&str]) -> (Program, SocketAddr) {
    let names: Vec<String> = stores.iter().map(|store| store.address().to_string()).collect();
    let names = names.join(",");
    let words = ["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--servers", &names];
    let mut proxy = Program::begin(&[&words[..], more].concat());
    let admin = proxy
        .says(|line| line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok());
    let is_up = |line: &&str| line.starts_with("krarup_server_up{") && line.trim_end().ends_with("} 1");
    let up = || asked(admin, "GET", "/metrics").lines().filter(is_up).count();
    until("the stores are up", || up() == stores.len());
    (proxy, admin)
}

fn report(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or(answer, |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn a_plan_shows_the_steps_and_moves_nothing() {
    let (stores, _proxy, admin) = replicated(&["--headroom-target", "p99 < 8ms"]);
    let address = admin.to_string();
    let ended = krarup(&["redline", &address, "--dry-run", "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let plan = report(&ended.output);
    let steps = plan["steps"].as_array().unwrap();
    // From a half of the reads to all of them, a tenth more each time.
    assert_eq!(
        (steps[0]["share"].as_f64(), steps[steps.len() - 1]["share"].as_f64()),
        (Some(0.5), Some(1.0))
    );
    assert_eq!((steps.len(), &plan["ended"], &plan["proven"]), (9, &Value::Null, &Value::Null));
    assert_eq!(plan["server"], stores[0].address().to_string());
    let screen = krarup(&["redline", &address, "--dry-run", "--server", &stores[1].address().to_string()]);
    assert!(screen.output.contains("planned: nothing was moved"), "{screen:?}");
    assert!(asked(admin, "GET", "/redline").starts_with("HTTP/1.1 404"), "a plan is no redline");
}

/// The push goes on in the proxy meanwhile. It ended with what it had proven, though a request had
/// failed then.
#[test]
fn a_look_that_is_not_answered_ends_nothing() {
    let listener = listen();
    let address = listener.local_addr().unwrap().to_string();
    let report = |ended: Value, proven: Value| {
        let body = json!({
            "schema": 1, "pool": "main", "server": "a:1", "ended": ended, "steps": [], "proven": proven,
        });
        let body = body.to_string();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let proven = json!({
        "target": { "quantile": 0.99, "seconds": 0.008 }, "server_per_s": 1000.0, "traffic_per_s": 3000.0,
    });
    let answers = [report(Value::Null, Value::Null), String::new(), report("errors".into(), proven)];
    let proxy = thread::spawn(move || {
        answers.map(|answer| {
            let mut client = Peer::accept(&listener).unwrap();
            let asked = String::from_utf8(client.line().unwrap()).unwrap();
            while client.line().unwrap() != b"\r\n" {}
            client.send(answer.as_bytes()).unwrap();
            asked.split(' ').next().unwrap().to_owned()
        })
    });
    let ended = krarup(&["redline", &address]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.errors.contains("is no HTTP; it is asked again"), "{ended:?}");
    assert!(ended.output.contains("ended: a request failed"), "{ended:?}");
    assert!(ended.output.contains("proven: a:1 answers 1,000 requests/s"), "{ended:?}");
    assert_eq!(proxy.join().unwrap(), ["POST", "GET", "GET"]);
}

#[test]
fn it_begins_is_alone_and_ends_at_once_when_it_is_told_to() {
    let lock = fresh("redline-lock").with_extension("lock");
    let config = fresh("redline-config").with_extension("toml");
    std::fs::write(&config, format!("redline_lock = {:?}\n", lock.to_str().unwrap())).unwrap();
    let more = ["--config", config.to_str().unwrap(), "--headroom-target", "p99 < 8ms"];
    let (stores, proxy, admin) = replicated(&more);
    let refused = asked(admin, "POST", "/redline");
    assert!(refused.starts_with("HTTP/1.1 409") && refused.contains("nothing can be said"), "{refused}");
    let begun = asked(admin, "POST", "/redline?force=1&most-weight=1.5");
    assert_eq!(report(&begun)["ended"], Value::Null);
    let second = asked(admin, "POST", "/redline?force=1");
    assert!(second.starts_with("HTTP/1.1 409"), "{second}");
    let (_other, other_admin) = before(&stores, &more);
    let locked = asked(other_admin, "POST", "/redline?force=1");
    assert!(locked.starts_with("HTTP/1.1 409") && locked.contains("another proxy"), "{locked}");
    let ended = asked(admin, "DELETE", "/redline");
    assert_eq!(report(&ended)["ended"], "stopped");
    assert_eq!(report(&asked(admin, "GET", "/redline"))["ended"], "stopped");
    assert!(asked(admin, "DELETE", "/redline").starts_with("HTTP/1.1 404"), "there is none to end");
    let begun = asked(other_admin, "POST", "/redline?force=1");
    assert!(begun.starts_with("HTTP/1.1 200"), "the lock is free again: {begun}");
    assert!(proxy.stop().success);
}

#[test]
fn a_server_is_pushed_once_a_day_whichever_proxy_asks_and_after_a_restart() {
    let lock = fresh("redline-day").with_extension("lock");
    std::fs::write(&lock, "a note that was here before\n").unwrap();
    let config = fresh("redline-day").with_extension("toml");
    std::fs::write(&config, format!("redline_lock = {:?}\n", lock.to_str().unwrap())).unwrap();
    let alone = ["--headroom-target", "p99 < 8ms"];
    let more = [&alone[..], &["--config", config.to_str().unwrap()]].concat();
    let (stores, proxy, admin) = replicated(&more);
    let (_other, other_admin) = before(&stores, &more);
    let begin = |admin| asked(admin, "POST", "/redline?force=1");
    let refused = |admin| {
        let answer = asked(admin, "POST", "/redline");
        assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
        answer.contains("was pushed 0 hours ago: once a day") && answer.contains("force=1")
    };
    assert!(!refused(other_admin), "it was never pushed: another reason");
    assert_eq!(report(&begin(admin))["ended"], Value::Null);
    asked(admin, "DELETE", "/redline");
    assert!(refused(admin), "by the same proxy");
    assert!(refused(other_admin), "by another one");
    assert!(proxy.stop().success);
    let (_again, again_admin) = before(&stores, &more);
    assert!(refused(again_admin), "after a restart");
    let second = format!("/redline?server={}", stores[1].address());
    let second = asked(again_admin, "POST", &second);
    assert!(second.contains("nothing can be said"), "another server was not pushed: {second}");
    assert_eq!(report(&begin(again_admin))["ended"], Value::Null);
    asked(again_admin, "DELETE", "/redline");
    let text = std::fs::read_to_string(&lock).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "a note that was here before"), "{text}");
    // Without the file a proxy knows what it pushed itself.
    let (_proxy, admin) = before(&stores, &alone);
    assert!(!refused(admin));
    begin(admin);
    asked(admin, "DELETE", "/redline");
    assert!(refused(admin));
}

#[test]
fn what_cannot_be_pushed_is_refused_with_the_reason() {
    let (_stores, _proxy, admin) = replicated(&[]);
    let address = admin.to_string();
    for (words, part) in [
        (&["redline", &address, "--force"][..], "there is no target"),
        (&["redline", &address, "--pool", "b", "--target", "p99 < 8ms"], "there is no such pool"),
        (&["redline", &address, "--server", "b:1", "--target", "p99 < 8ms"], "there is no such pool"),
        (&["redline", &address, "--target", "p99 < 8ms", "--most-weight", "1"], "is no weight"),
        (&["redline", &address, "--target", "p99 < 8ms"], "nothing can be said of the headroom"),
        (&["redline", "127.0.0.1:1"], "--admin"),
    ] {
        let ended = krarup(words);
        assert!(ended.code == Some(2) && ended.errors.contains(part), "{words:?}: {ended:?}");
    }
    let stores: Vec<_> = (0..2).map(|_| Program::krarup(&["cache", "--listen", "127.0.0.1:0"])).collect();
    let config = fresh("redline-primary").with_extension("toml");
    std::fs::write(&config, "reads = \"primary\"\n").unwrap();
    let primary = ["--config", config.to_str().unwrap(), "--headroom-target", "p99 < 8ms"];
    let (_proxy, admin) = before(&stores, &primary);
    let refused = krarup(&["redline", &admin.to_string(), "--force"]);
    assert!(refused.errors.contains("there is no such pool"), "{refused:?}");
}
