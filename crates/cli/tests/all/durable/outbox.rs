//! `examples/outbox` in each language: a shop whose orders and messages are one transaction, and a
//! worker that does the work of each message once.
//!
//! Left out, with a line that says so, is what is not built; `make test-clients` builds it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cluster::Cluster;
use super::counts::told;
use super::{broker, said, say};
use crate::support::peer::Peer;
use crate::support::process::{python, skipped};
use crate::support::until;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/outbox").join(name)
}

fn put(peer: &mut Peer, body: &[u8]) {
    let head = format!("put 5000 0 60 {}\r\n", body.len());
    peer.send(&[head.as_bytes(), body, b"\r\n"].concat()).unwrap();
    assert!(peer.line().unwrap().starts_with(b"INSERTED "));
}

/// Messages for which no bill can be written: no orders, and orders that there are not.
const UNBILLED: [&[u8]; 5] =
    [b"no order", b"\xff", b"{\"order\": {}}", b"{\"order\": 999}", b"{\"order\": 99999999999999999999}"];

/// Twelve orders of goods for ten; then a message that came twice, those for which no bill can be
/// written, and one in another tube.
fn shop_and_worker(language: &str, url: impl Fn(u16) -> String, program: impl Fn() -> Command) {
    let Some(cluster) = Cluster::start(&format!("shop-{language}")) else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let broker = broker(&cluster.database("shop"), "owned");
    cluster.sql("shop", &std::fs::read_to_string(example("tables.sql")).unwrap());
    let run = |what: &str, third: &str| {
        said(&program().args([what, &url(cluster.over_tcp().port), third]).output().unwrap())
    };
    assert_eq!(run("shop", "12"), "10 orders taken, 2 refused");
    let mut peer = broker.connect();
    put(&mut peer, b"not theirs");
    say(&mut peer, "use bills\r\n", "USING bills\r\n");
    put(&mut peer, b"{\"order\": 1}");
    UNBILLED.iter().for_each(|body| put(&mut peer, body));
    until("all of them are ready", || {
        told(&mut peer, "stats-tube bills\r\n", ["current-jobs-ready"]) == [16]
    });
    assert_eq!(run("worker", &broker.address().to_string()), "11 messages done");
    assert_eq!(cluster.sql("shop", "SELECT count(*), sum(order_id) FROM bills"), "10|55");
    assert_eq!(cluster.sql("shop", "SELECT quantity FROM stock"), "0");
    let of = |peer: &mut Peer, tube: &str| {
        told(peer, &format!("stats-tube {tube}\r\n"), ["current-jobs-ready", "current-jobs-buried"])
    };
    assert_eq!(of(&mut peer, "default"), [1, 0], "no worker takes messages of other tubes");
    assert_eq!(of(&mut peer, "bills"), [0, 5]);
    peer.send(b"peek-buried\r\n").unwrap();
    assert!(peer.line().unwrap().starts_with(b"FOUND ") && peer.line().unwrap() == b"no order\r\n");
    say(&mut peer, "peek-ready\r\n", "NOT_FOUND\r\n");
    assert!(broker.stop().success);
}

fn url(port: u16) -> String {
    format!("postgres://krarup@127.0.0.1:{port}/shop?sslmode=disable")
}

/// What the page says is to be done once is what was done for these tests.
#[test]
fn the_page_says_how_each_language_is_made_ready() {
    let text = |name: &str| std::fs::read_to_string(example(name)).unwrap();
    let page = text("README.md");
    let scripts = text("../../scripts/clients") + &text("../../scripts/python-clients");
    for (language, command) in [
        ("Python", "greenstalk 'psycopg[binary]'"),
        ("Go", "go mod tidy"),
        ("Node", "npm install"),
        ("Java", "mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib && javac -d classes"),
        ("Java", " && javac -d classes -cp 'lib/*' ./*.java"),
    ] {
        let row = page.lines().find(|line| line.starts_with(&format!("| {language} |"))).unwrap();
        assert!(row.contains(command), "{row}");
        assert!(scripts.contains(command), "{command}");
    }
}

#[test]
fn the_outbox_and_its_worker_in_python() {
    let Some(python) = python("psycopg, greenstalk") else {
        return skipped("no Python has psycopg and greenstalk; CLIENTS_PYTHON names one");
    };
    shop_and_worker("python", url, || {
        let mut command = Command::new(&python);
        command.arg(example("python/outbox.py"));
        command
    });
}

/// What `make test-clients` has built of another language.
fn built(language: &str, needed: &str, url: impl Fn(u16) -> String, program: &str, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients/outbox");
    if !folder.join(needed).exists() {
        return skipped(&format!("the outbox in {language} is not built; `make test-clients` builds it"));
    }
    shop_and_worker(language, url, || {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&folder);
        command
    });
}

#[test]
fn the_outbox_and_its_worker_in_go() {
    built("go", "go/session", url, "./go/session", &[]);
}

#[test]
fn the_outbox_and_its_worker_in_node() {
    built("node", "node/node_modules/pg", url, "node", &["node/outbox.js"]);
}

#[test]
fn the_outbox_and_its_worker_in_java() {
    let url = |port| format!("jdbc:postgresql://127.0.0.1:{port}/shop?user=krarup&sslmode=disable");
    built("java", "java/classes/Outbox.class", url, "java", &["-cp", "java/classes:java/lib/*", "Outbox"]);
}
