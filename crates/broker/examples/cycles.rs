//! Drives the broker in memory without sockets, so that `valgrind` can count what a message costs
//! outside the kernel: its put, its reserve and its delete.
//!
//! ```sh
//! cargo build --release -p krarup-broker --example cycles
//! valgrind --tool=callgrind target/release/examples/cycles 100000
//! ```
//! Its one argument more is how many messages go through, sixteen at a time. The difference of two
//! counts is what messages cost.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::fmt::Write as _;

use krarup_broker::broker::BrokerSettings;
use krarup_broker::queues::QueueSettings;
use krarup_broker::{Broker, Queues};
use krarup_record::{Recorder, recorder};
use krarup_service::Service as _;
use krarup_units::{Nanos, Stamp};

/// Messages that a client puts, then takes, then deletes, each in one write.
const TOGETHER: u64 = 16;

/// Between two writes of the client: some 100,000 messages a second go through.
const STEP: Nanos = Nanos(53_000);

fn main() {
    let Some(count) = std::env::args().nth(1).and_then(|count| count.parse::<u64>().ok()) else {
        eprintln!("usage: cycles COUNT");
        std::process::exit(2);
    };
    println!("{} messages", drive(count));
}

fn drive(count: u64) -> u64 {
    let wall = Nanos::from_secs(1_000);
    let queues = Queues::new(QueueSettings { memory: 1 << 30, wall, ..QueueSettings::default() });
    let recorder = Recorder::new(recorder::RecorderSettings::default()).expect("the settings are good");
    let mut broker = Broker::new(BrokerSettings::default(), queues, recorder);
    let client = broker.connected(0, Stamp(0));
    let mut now = Stamp(0);
    let mut say = |text: &str| {
        now = now + STEP;
        assert_eq!(broker.read(client, text.as_bytes(), now, now), text.len());
        while !broker.output(client).unsent().is_empty() {
            broker.written(client, broker.output(client).unsent().len(), now);
        }
    };
    let puts = format!("put 1 0 60 64\r\n{}\r\n", "x".repeat(64)).repeat(TOGETHER as usize);
    let reserves = "reserve\r\n".repeat(TOGETHER as usize);
    let (mut done, mut deletes) = (0, String::new());
    while done < count {
        say(&puts);
        say(&reserves);
        deletes.clear();
        for id in done + 1..=done + TOGETHER {
            writeln!(deletes, "delete {id}\r").expect("a text takes all");
        }
        say(&deletes);
        done += TOGETHER;
    }
    assert_eq!(broker.queues().totals().ready, 0);
    done
}
