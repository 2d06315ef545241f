//! `krarup proxy` before real memcacheds against one alone: whoever talks to it need not know that it is there.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::conversation::{answers, cases, converse, memcached, requests, runner};
use support::process::Program;
use support::shown;

mod support;

/// A proxy, and the servers behind it.
struct Proxied {
    proxy: Program,
    servers: Vec<Program>,
}

fn proxied(servers: usize, flags: &[&str]) -> Proxied {
    let servers: Vec<Program> = (0..servers).map(|_| memcached()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let addresses = addresses.join(",");
    let arguments = [&["proxy", "--listen", "127.0.0.1:0", "--servers", &addresses], flags].concat();
    Proxied { proxy: Program::krarup(&arguments), servers }
}

/// Before each case, on a connection of its own: nothing is stored but `k`.
const BEFORE: &[u8] = b"flush_all\r\nset k 5 0 2\r\n10\r\n";
/// After each case: whether the connection still listens, and what became of `k`, with its cas unique.
const AFTER: &[u8] = b"gets k\r\n";

#[test]
fn every_case_is_answered_as_memcached_alone_answers_it() {
    let alone = memcached();
    let Proxied { proxy, servers } = proxied(1, &[]);
    let mut differences = Vec::new();
    // Statistics are the proxy's own.
    for case in cases().iter().filter(|case| !case.starts_with(b"stats")) {
        let ask = |program| {
            assert_eq!(answers(program, BEFORE), b"OK\r\nSTORED\r\n");
            answers(program, &[case, AFTER].concat())
        };
        let (theirs, ours) = (ask(&alone), ask(&proxy));
        if theirs != ours {
            differences.push(format!(
                "  {}\n    memcached: {}\n        proxy: {}",
                shown(case),
                shown(&theirs),
                shown(&ours)
            ));
        }
    }
    assert!(differences.is_empty(), "{} answers differ:\n{}", differences.len(), differences.join("\n"));
    drop(servers);
}

/// Three servers that hold the same, however their work is shared, are to a client as one; and they do hold the same.
#[test]
fn any_conversation_with_three_servers_is_that_with_one() {
    for flags in [&["-s", "false"][..], &["-s", "true"], &["-s", "true", "-t", "1"]] {
        runner(6)
            .run(&requests(), |requests| {
                let alone = memcached();
                let Proxied { proxy, servers } = proxied(3, flags);
                let (theirs, ours) = (converse(&alone, &requests), converse(&proxy, &requests));
                for ((request, theirs), ours) in requests.iter().zip(theirs).zip(ours) {
                    prop_assert_eq!(theirs, ours, "memcached and proxy {:?} about {}", flags, request);
                }
                let held = |server| shown(&answers(server, b"get a b c d\r\n"));
                for server in &servers {
                    prop_assert_eq!(held(&alone), held(server));
                }
                Ok(())
            })
            .unwrap();
    }
}

/// What the servers were asked, by name of their counters.
fn counters(server: &Program) -> BTreeMap<String, u64> {
    String::from_utf8(answers(server, b"stats\r\n"))
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

#[test]
fn reads_are_shared_evenly_and_writes_go_to_all() {
    let Proxied { proxy, servers } = proxied(3, &["-s", "true"]);
    let mut client = proxy.connect();
    for number in 0..30 {
        client.send(format!("set k{number} 0 0 2\r\n{number:02}\r\n").as_bytes()).unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
    for number in 0..30 {
        client.send(format!("get k{number}\r\n").as_bytes()).unwrap();
        client.expect(format!("VALUE k{number} 0 2\r\n{number:02}\r\nEND\r\n").as_bytes()).unwrap();
        client.send(b"get k0 k1 k2 k3 nothing k5\r\n").unwrap();
        let values = [0, 1, 2, 3, 5].map(|key| format!("VALUE k{key} 0 2\r\n{key:02}\r\n")).concat();
        client.expect(format!("{values}END\r\n").as_bytes()).unwrap();
    }
    drop(client);
    assert!(proxy.stop().success);
    for server in &servers {
        let counters = counters(server);
        // 30 sets to each; 30 keys alone and 180 in company, a third each.
        assert_eq!((counters["cmd_set"], counters["cmd_get"]), (30, 70));
    }
}
