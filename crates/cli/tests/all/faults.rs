//! Servers that do wrong under load: every request is answered once all the same, no client is
//! given another's data, and the accounts agree to the unit.

use crate::support::account::{accounts_of, load, number, reset};
use crate::support::process::Program;
use crate::support::{file, until};
use rustix::process::Signal;
use saboteur::{Fault, Saboteur};
use serde_json::Value;

mod saboteur;

/// How often the server does wrong.
const TIMES: usize = 4;

/// Fifty clients before two servers, of which the second does wrong [`TIMES`] times and is well in
/// between. Returns what the proxy says at the end.
fn under_load(fault: Fault) -> Value {
    let servers = [Program::memcached(&[]), Program::memcached(&[])];
    let saboteur = Saboteur::before(servers[1].address(), fault, TIMES);
    let quick = "timeout = \"300ms\"\nreconnect_after = \"1ms\"\nreconnect_at_most = \"20ms\"";
    let config = file(&format!("{fault:?}"), quick);
    let proxy = Program::proxy(&[servers[0].address(), saboteur.address()], &["--json", "--config", &config]);
    let target = proxy.address().to_string();
    assert!(load(&target, &["--populate-only"]).ended().success);
    reset(&proxy);
    saboteur.begin();

    let flags = ["-c", "50", "--ratio", "1:4", "--verify", "--json", "-", "--seconds", "600"];
    let running = load(&target, &flags);
    let mut observer = proxy.connect();
    until("all has gone wrong", || observer.count("requests") > 0 && saboteur.committed() == TIMES);
    until("both servers are up again", || observer.count("servers_up") == 2);
    let before = observer.count("requests");
    until("and are at work", || observer.count("requests") > before + 1_000);
    drop(observer);
    running.signal(Signal::INT);
    let ended = running.ended();
    let (_, proxy) = accounts_of(&ended, proxy);
    let [well, ill] = [0, 1].map(|place| &proxy["servers"][place]);
    assert!(number(ill, "/losses") >= TIMES as u64, "{ill}");
    // On a machine that is slow the other one may be late itself.
    let late = number(&proxy, "/events/timeouts") > TIMES as u64;
    assert!(late || number(well, "/losses") == number(well, "/errors"), "no other client suffers: {well}");
    proxy
}

/// How often the proxy found questions and answers out of step.
fn out_of_step(proxy: &Value) -> u64 {
    number(proxy, "/events/desynchronised")
}

#[test]
fn a_connection_that_ends_in_the_middle_of_an_answer() {
    assert_eq!(out_of_step(&under_load(Fault::HalfAnswer)), 0);
}

#[test]
fn a_connection_that_is_reset() {
    assert_eq!(out_of_step(&under_load(Fault::Reset)), 0);
}

#[test]
fn a_server_that_stalls() {
    let proxy = under_load(Fault::Stall);
    assert_eq!(out_of_step(&proxy), 0);
    assert!(number(&proxy, "/events/timeouts") >= 1, "{}", proxy["events"]);
}

#[test]
fn a_server_that_connects_and_says_nothing_at_first() {
    assert_eq!(out_of_step(&under_load(Fault::Deaf)), 0);
}

#[test]
fn a_server_that_talks_nonsense() {
    assert!(out_of_step(&under_load(Fault::Garbage)) >= 1);
}

#[test]
fn a_server_that_answers_twice() {
    assert!(out_of_step(&under_load(Fault::Twice)) >= 1);
}
