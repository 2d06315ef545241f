//! A whole conversation with the broker, by either protocol: cut anyhow, it is the same
//! conversation, and memory stays within its bound.

use krarup_broker::broker::{BrokerSettings, MEMCACHED};
use krarup_broker::{Broker, Queues, queues};
use krarup_record::{Recorder, recorder};
use krarup_service::Service;
use krarup_units::{Nanos, Stamp};

const NOW: Stamp = Stamp(1_000);
const MEMORY: u64 = 4_000;

/// The first two bytes choose the protocol and the cuts, the rest is what a client sends.
pub fn check(bytes: &[u8]) {
    let [protocol, cut, bytes @ ..] = bytes else { return };
    let memcached = protocol % 2 == 1;
    let whole = converse(memcached, bytes, usize::MAX);
    let pieces = converse(memcached, bytes, usize::from(*cut) + 1);
    assert_eq!(whole.escape_ascii().to_string(), pieces.escape_ascii().to_string());
}

fn converse(memcached: bool, bytes: &[u8], cut: usize) -> Vec<u8> {
    let settings = BrokerSettings { largest: 600, ..BrokerSettings::default() };
    let wall = Nanos::from_secs(1_000);
    let bounds = queues::QueueSettings { memory: MEMORY, wall, ..queues::QueueSettings::default() };
    let recorder =
        Recorder::new(recorder::RecorderSettings::default()).expect("the default settings are valid");
    let mut broker = Broker::new(settings, Queues::new(bounds), recorder);
    let id = if memcached { broker.connected(MEMCACHED, Stamp(0)) } else { broker.connected(0, Stamp(0)) };
    let mut out = Vec::new();
    let (mut start, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end.saturating_add(cut));
        loop {
            let used = broker.read(id, &bytes[start..end], NOW, NOW);
            assert!(used <= end - start);
            start += used;
            out.extend_from_slice(broker.output(id).unsent());
            let length = broker.output(id).unsent().len();
            broker.written(id, length, NOW);
            assert!(broker.queues().memory_used() <= MEMORY);
            // A client whose turn is over has the next one. Who waits for a message would wait for
            // ever: time passes only at the end.
            if used == 0 || start == end || broker.paused(id) && broker.heeds_end(id) {
                break;
            }
        }
        if broker.finished(id) || broker.paused(id) {
            break;
        }
    }
    broker.ended(id, NOW);
    out.extend_from_slice(broker.output(id).unsent());
    out
}
