//! What recording costs per request, and rows per second into and out of a file.
//!
//! `cargo bench -p krarup-record`. The request is a SET replicated to three servers; its stamps
//! vary, so that histograms touch many buckets, and the clock passes a window every 20,000
//! requests.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use krarup_record::file::RunMetadata;
use krarup_record::file::rows::{RowFile, RowFileWriter};
use krarup_record::{
    Histograms, LiveBooks, Operation, Recorder, RecorderSettings, ServerVisit, Visit, Windows,
};
use krarup_units::{Nanos, Stamp};

/// 2¹⁶ requests as a proxy would stamp them, each with the parts of three servers.
fn requests() -> Vec<(Visit, [ServerVisit; 3])> {
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: u64| {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        noise % below
    };
    (0..1_u64 << 16)
        .map(|number| {
            let received = Stamp(number * 50_000);
            let taken = received + Nanos(1_000 + next(200_000));
            let sent = taken + Nanos(2_000 + next(3_000));
            let parts =
                [0, 1, 2].map(|server| ServerVisit::ok(server, sent, sent + Nanos(80_000 + next(900_000))));
            let last = parts.iter().map(|part| part.answered).max().unwrap_or(sent);
            let mut visit =
                Visit::at(received, if number % 2 == 0 { Operation::Set } else { Operation::Get });
            (visit.taken, visit.replied) = (taken, last + Nanos(1_000 + next(4_000)));
            (visit.busy_workers, visit.queue_length) = (1 + next(64) as u32, next(128) as u32);
            (visit.keys, visit.bytes_in, visit.bytes_out) = (1, 1_064, 8);
            (visit, parts)
        })
        .collect()
}

/// The same requests again and again, each round later than the one before: the clock never runs
/// back.
struct Rounds {
    requests: Vec<(Visit, [ServerVisit; 3])>,
    begin: Nanos,
}

impl Rounds {
    fn new() -> Self {
        Self { requests: requests(), begin: Nanos::ZERO }
    }

    fn each(&mut self, mut record: impl FnMut(&Visit, &[ServerVisit])) {
        for (visit, servers) in &self.requests {
            let mut visit = *visit;
            for stamp in [&mut visit.received, &mut visit.queued, &mut visit.taken, &mut visit.replied] {
                *stamp = *stamp + self.begin;
            }
            let servers = servers.map(|one| ServerVisit {
                sent: one.sent + self.begin,
                answered: one.answered + self.begin,
                ..one
            });
            record(&visit, &servers);
        }
        self.begin += Nanos(self.requests.len() as u64 * 50_000);
    }
}

fn per_request(criterion: &mut Criterion) {
    let mut rounds = Rounds::new();
    let mut group = criterion.benchmark_group("per request");
    group.throughput(Throughput::Elements(rounds.requests.len() as u64));

    group.bench_function("nothing but its parts", |bencher| {
        bencher.iter(|| {
            rounds.each(|visit, servers| {
                black_box(visit.parts(servers));
            });
        });
    });
    group.bench_function("windows", |bencher| {
        let mut windows = Windows::new(Nanos::from_secs(1), 60).expect("constants");
        bencher.iter(|| rounds.each(|visit, servers| windows.record(visit, servers)));
    });
    group.bench_function("histograms", |bencher| {
        let mut histograms = Histograms::new();
        bencher.iter(|| {
            rounds.each(|visit, servers| histograms.record(visit.operation, &visit.parts(servers)));
        });
    });
    // 20,000 requests a second: a thirtieth is kept; and room for all of them.
    group.bench_function("live books", |bencher| {
        let mut books = LiveBooks::default();
        bencher.iter(|| rounds.each(|visit, servers| books.finish(visit, servers)));
    });
    group.bench_function("live books that keep everything", |bencher| {
        let mut books = LiveBooks::new(64 * 3 * 20_000);
        bencher.iter(|| rounds.each(|visit, servers| books.finish(visit, servers)));
    });
    group.bench_function("recorder", |bencher| {
        let mut recorder = Recorder::new(RecorderSettings::default()).expect("constants");
        bencher.iter(|| rounds.each(|visit, servers| recorder.record(visit, servers)));
    });
    group.finish();
}

/// Rows into and out of memory, so that no disk is measured. A million rows are 15 rounds.
fn per_row(criterion: &mut Criterion) {
    let run = RunMetadata { epoch_unix: Nanos::ZERO };
    let mut rounds = Rounds::new();
    let mut group = criterion.benchmark_group("per row");
    group.sample_size(10).throughput(Throughput::Elements(rounds.requests.len() as u64));

    let mut write = || {
        let mut sink = RowFileWriter::new(Vec::new(), run).expect("memory takes everything");
        rounds.each(|visit, servers| sink.push(visit, servers).expect("memory takes everything"));
        sink.finish().expect("memory takes everything").0
    };
    let file = write();
    group.bench_function("written", |bencher| bencher.iter(&mut write));
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            let mut rows = RowFile::from_bytes(file.clone()).expect("written above");
            rows.for_each(|visit, servers| {
                black_box(visit.parts(servers));
            })
            .expect("written above");
        });
    });
    group.finish();
}

criterion_group!(benches, per_request, per_row);
criterion_main!(benches);
