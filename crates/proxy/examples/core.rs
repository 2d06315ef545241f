//! Drives the core without sockets, so that `valgrind` can count what a request costs outside the
//! kernel:
//!
//! ```sh
//! cargo build --release -p krarup-proxy --example core
//! valgrind --tool=callgrind target/release/examples/core get 100000
//! ```
//! Its first argument is the workload: `get` (sixteen at once, 64 B, one server), `set` (the same),
//! `multiget` (nine keys of 64 B, sharded over three servers). The second is how many requests, the
//! third how many nanoseconds there are between two stamps, 1,000 unless it is given: with a
//! million some thousand requests come in a second, and a larger part of them is sampled.
//! `bench/instructions.py` takes the difference of two counts.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use krarup_service::{Service as _, Upstreams as _};
use std::fmt::Write as _;

use krarup_proxy::{Config, Core};
use krarup_record::{Recorder, recorder};
use krarup_units::Stamp;

/// Requests that a client sends at once.
const TOGETHER: usize = 16;
const CLIENTS: usize = 8;

fn value(key: &str) -> String {
    format!("VALUE {key} 0 64\r\n{}\r\n", "x".repeat(64))
}

/// What one client sends at once, and what each of the servers answers to what it was asked.
struct Workload {
    servers: usize,
    requests: usize,
    text: String,
    answer: fn(&str) -> String,
}

fn workload(name: &str) -> Option<Workload> {
    let key = |number: usize| format!("memtier-{number:06}");
    let text = match name {
        "get" => (0..TOGETHER).map(|number| format!("get {}\r\n", key(number))).collect(),
        "set" => {
            let value = "x".repeat(64);
            (0..TOGETHER).map(|number| format!("set {} 0 0 64\r\n{value}\r\n", key(number))).collect()
        }
        "multiget" => {
            (0..9).fold("get".to_owned(), |mut text, number| {
                let _ = write!(text, " {}", key(number));
                text
            }) + "\r\n"
        }
        _ => return None,
    };
    Some(Workload {
        servers: if name == "multiget" { 3 } else { 1 },
        requests: if name == "multiget" { 1 } else { TOGETHER },
        text,
        answer: |asked| {
            let answers = asked.lines().filter_map(|line| {
                let mut words = line.split(' ');
                match words.next() {
                    Some("get") => Some(words.map(value).collect::<String>() + "END\r\n"),
                    Some("set") => Some("STORED\r\n".to_owned()),
                    _ => None,
                }
            });
            answers.collect()
        },
    })
}

fn main() {
    let mut words = std::env::args().skip(1);
    let (name, count) = (words.next().unwrap_or_default(), words.next().and_then(|count| count.parse().ok()));
    let (Some(workload), Some(count)) = (workload(&name), count) else {
        eprintln!("usage: core get|set|multiget COUNT [NANOSECONDS]");
        std::process::exit(2);
    };
    let step = words.next().and_then(|step| step.parse().ok()).unwrap_or(1_000);
    let done = drive(&workload, count, step);
    println!("{done} requests");
}

/// After so many rounds every server has answered often enough, and every client has been given
/// replies.
const KNOWN: usize = 100;

fn drive(workload: &Workload, count: usize, step: u64) -> usize {
    let names: Vec<String> = (1..=workload.servers).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let text = format!("servers = [{}]\nmulti_get = \"sharded\"\n", names.join(", "));
    let config = Config::parse(&text, "core").expect("the configuration is good");
    let recorder = Recorder::new(recorder::RecorderSettings::default()).expect("the settings are good");
    let topology = config.topology().expect("the topology is good");
    let mut core = Core::new(config.settings(), topology, recorder, Stamp(0));
    core.keep_live();
    core.sample_keys(1);
    let mut now = 0;
    let mut tick = || {
        now += step;
        Stamp(now)
    };
    for server in 0..workload.servers {
        core.server_connected(server);
        core.server_written(server, core.server_output(server).unsent().len(), tick());
        core.server_read(server, b"VERSION 1.6.18\r\n", tick()).expect("it is a version");
    }
    let clients: Vec<u32> = (0..CLIENTS).map(|_| core.connected(0, Stamp(0))).collect();
    // What servers answer to what they are asked is always the same, and made once.
    let mut answers: Vec<Option<String>> = vec![None; workload.servers];
    let (mut done, mut dirty, mut ready) = (0, Vec::new(), Vec::new());
    let mut rounds = 0;
    while done < count {
        // How long replies are is not known at first, and few are asked for at once until some have
        // come.
        let at_once = if rounds < KNOWN { 1 } else { clients.len() };
        if rounds == KNOWN {
            answers.fill(None);
        }
        rounds += 1;
        for some in clients.chunks(at_once) {
            for &client in some {
                let now = tick();
                let used = core.read(client, workload.text.as_bytes(), now, now);
                assert_eq!(used, workload.text.len());
                done += workload.requests;
            }
            core.take_dirty_servers(&mut dirty);
            for &server in &dirty {
                let output = core.server_output(server).unsent();
                let answer = answers[server]
                    .get_or_insert_with(|| (workload.answer)(&String::from_utf8_lossy(output)));
                core.server_written(server, output.len(), tick());
                assert_eq!(core.server_read(server, answer.as_bytes(), tick()), Ok(answer.len()));
            }
            core.take_dirty(&mut ready);
            for &client in &ready {
                while !core.output(client).unsent().is_empty() {
                    core.written(client, core.output(client).unsent().len(), tick());
                }
            }
        }
    }
    assert_eq!(core.unfinished(), 0);
    done
}
