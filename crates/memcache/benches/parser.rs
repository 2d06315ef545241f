//! What reading costs: requests and answers as they come in one large read, in ns each and bytes a
//! second.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use krarup_memcache::{Expect, Limits, Parsed, request, response};

/// How many messages stand in one buffer.
const MANY: usize = 256;

/// Keys of 20 bytes, each another one.
fn key(number: usize) -> String {
    format!("key:{:016x}", 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(number as u64))
}

fn many(message: impl Fn(usize) -> String) -> Vec<u8> {
    (0..MANY).flat_map(|number| message(number).into_bytes()).collect()
}

/// Reads all messages of a buffer, one after the other, as a proxy does.
fn read(bytes: &[u8], mut next: impl FnMut(&[u8]) -> usize) -> usize {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() {
        rest = &rest[next(rest)..];
        count += 1;
    }
    assert_eq!(count, MANY, "every message is whole");
    count
}

fn requests(criterion: &mut Criterion) {
    let limits = Limits::default();
    let value = |length: usize| "v".repeat(length);
    let keys = |first: usize| (first..first + 9).map(key).collect::<Vec<_>>().join(" ");
    for (name, bytes) in [
        ("get", many(|number| format!("get {}\r\n", key(number)))),
        ("get of 9 keys", many(|number| format!("get {}\r\n", keys(number)))),
        ("set of 64 B", many(|number| format!("set {} 0 0 64\r\n{}\r\n", key(number), value(64)))),
        ("set of 4096 B", many(|number| format!("set {} 0 0 4096\r\n{}\r\n", key(number), value(4096)))),
        ("mg v", many(|number| format!("mg {} v\r\n", key(number)))),
        ("mg v k c t f s O q", many(|number| format!("mg {} v k c t f s O{number} q\r\n", key(number)))),
        ("ms of 64 B", many(|number| format!("ms {} 64 T60 F5\r\n{}\r\n", key(number), value(64)))),
        ("incr", many(|number| format!("incr {} {number}\r\n", key(number)))),
    ] {
        measured(criterion, &format!("request/{name}"), &bytes, |rest| match request::parse(rest, &limits) {
            Parsed::Complete { message, used } => {
                black_box(message);
                used
            }
            other => unreachable!("{other:?}"),
        });
    }
}

fn answers(criterion: &mut Criterion) {
    let value = |number: usize, length: usize| {
        format!("VALUE {} 0 {length}\r\n{}\r\n", key(number), "v".repeat(length))
    };
    let meta = Expect::Meta { command: request::MetaCommand::Get, value: true };
    let values = |keys| Expect::Values { keys, unique: false };
    let nine = |number: usize| (number..number + 9).map(|number| value(number, 64)).collect::<String>();
    for (name, expect, bytes) in [
        ("64 B", values(1), many(|number| format!("{}END\r\n", value(number, 64)))),
        ("4096 B", values(1), many(|number| format!("{}END\r\n", value(number, 4096)))),
        ("9 of 64 B", values(9), many(|number| format!("{}END\r\n", nine(number)))),
        ("a miss", values(1), many(|_| "END\r\n".to_owned())),
        ("STORED", Expect::Stored, many(|_| "STORED\r\n".to_owned())),
        ("VA of 64 B", meta, many(|number| format!("VA 64 c{number} t-1\r\n{}\r\n", "v".repeat(64)))),
    ] {
        measured(criterion, &format!("answer/{name}"), &bytes, |rest| match response::parse(rest, expect) {
            Parsed::Complete { message, used } => {
                black_box(message);
                used
            }
            other => unreachable!("{other:?}"),
        });
    }
}

/// Once with the time for each message, once with that for each byte.
fn measured(criterion: &mut Criterion, name: &str, bytes: &[u8], mut next: impl FnMut(&[u8]) -> usize) {
    let (what, which) = name.split_once('/').expect("a name has two parts");
    let mut group = criterion.benchmark_group(what);
    group.throughput(Throughput::ElementsAndBytes { elements: MANY as u64, bytes: bytes.len() as u64 });
    group.bench_function(which, |bencher| bencher.iter(|| read(black_box(bytes), &mut next)));
    group.finish();
}

criterion_group!(benches, requests, answers);
criterion_main!(benches);
