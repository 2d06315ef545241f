//! What reading costs: requests and replies as they come in one large read, in ns each and bytes a
//! second.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use krarup_beanstalk::{reply, request};
use krarup_units::Parsed;

/// How many messages stand in one buffer.
const MANY: usize = 256;

fn requests(criterion: &mut Criterion) {
    let body = "x".repeat(64);
    for (name, text) in [
        ("put of 64 B", format!("put 1024 0 120 64\r\n{body}\r\n")),
        ("send of 64 B", format!("send load-tube-1 load-client-2 64\r\n{body}\r\n")),
        ("reserve", "reserve\r\n".to_owned()),
        ("reserve-with-timeout", "reserve-with-timeout 0\r\n".to_owned()),
        ("delete", "delete 1234567\r\n".to_owned()),
        ("pop", "pop 0\r\n".to_owned()),
        ("pop-tube", "pop-tube load-tube-3\r\n".to_owned()),
    ] {
        measured(criterion, &format!("request/{name}"), &text, |rest| match request::parse(rest, 65_535) {
            Parsed::Complete { message, used } => {
                black_box(message);
                used
            }
            other => unreachable!("{other:?}"),
        });
    }
}

fn replies(criterion: &mut Criterion) {
    let body = "x".repeat(64);
    for (name, text) in [
        ("INSERTED", "INSERTED 1234567\r\n".to_owned()),
        ("RESERVED of 64 B", format!("RESERVED 1234567 64\r\n{body}\r\n")),
        ("DELETED", "DELETED\r\n".to_owned()),
        ("TIMED_OUT", "TIMED_OUT\r\n".to_owned()),
    ] {
        measured(criterion, &format!("reply/{name}"), &text, |rest| match reply::parse(rest) {
            Parsed::Complete { message, used } => {
                black_box(message);
                used
            }
            other => unreachable!("{other:?}"),
        });
    }
}

/// Reads all messages of a buffer, one after the other.
fn measured(criterion: &mut Criterion, name: &str, text: &str, mut next: impl FnMut(&[u8]) -> usize) {
    let bytes = text.repeat(MANY).into_bytes();
    let (what, which) = name.split_once('/').expect("a name has two parts");
    let mut group = criterion.benchmark_group(what);
    group.throughput(Throughput::ElementsAndBytes { elements: MANY as u64, bytes: bytes.len() as u64 });
    group.bench_function(which, |bencher| {
        bencher.iter(|| {
            let mut rest = black_box(&bytes[..]);
            while !rest.is_empty() {
                rest = &rest[next(rest)..];
            }
        });
    });
    group.finish();
}

criterion_group!(benches, requests, replies);
criterion_main!(benches);
