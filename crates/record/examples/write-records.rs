//! Writes every kind of record file, for a look at them with other tools:
//! `write-records FOLDER [ROWS]`.
//!
//! The requests are made up: a SET replicated to three servers every 50 µs, every tenth a GET of
//! one of them.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use krarup_record::file::rows::RowFileWriter;
use krarup_record::file::{Partial, RunMetadata, save_all};
use krarup_record::{Operation, Recorder, RecorderSettings, ServerVisit, Visit};
use krarup_units::{Nanos, Stamp};

#[expect(clippy::print_stdout, reason = "what it wrote is what it is run for")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let folder = words.next().ok_or("usage: write-records FOLDER [ROWS]")?;
    let rows: u64 = words.next().map_or(Ok(1_000_000), |word| word.parse())?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;

    let run = RunMetadata { epoch_unix: Nanos::from_secs(1_795_000_000) };
    let mut recorder = Recorder::new(RecorderSettings::default())?;
    let mut sink = RowFileWriter::new(Partial::create(&folder.join("rows.parquet"))?, run)?;
    let begin = Instant::now();
    for number in 0..rows {
        let (visit, servers) = request(number);
        let servers = if visit.operation == Operation::Get { &servers[..1] } else { &servers[..] };
        recorder.record(&visit, servers);
        sink.push(&visit, servers)?;
    }
    let (file, rows) = sink.finish()?;
    file.complete()?;
    println!("{rows} rows recorded and written in {:?}", begin.elapsed());
    save_all(folder, &recorder, run)?;
    println!("{recorder}");
    Ok(())
}

fn request(number: u64) -> (Visit, [ServerVisit; 3]) {
    let noise = |below: u64, salt: u64| (number ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) % below;
    let operation = if number.is_multiple_of(10) { Operation::Get } else { Operation::Set };
    let mut visit = Visit::at(Stamp(number * 50_000), operation);
    visit.taken = visit.queued + Nanos(noise(200_000, 1));
    let sent = visit.taken + Nanos(2_000 + noise(3_000, 2));
    let servers = [0_u16, 1, 2].map(|server| {
        ServerVisit::ok(server, sent, sent + Nanos(80_000 + noise(900_000, u64::from(server) + 3)))
    });
    visit.replied = sent + Nanos(1_000_000 + noise(4_000, 7));
    (visit.busy_workers, visit.queue_length) = (1 + noise(64, 8) as u32, noise(128, 9) as u32);
    (visit.keys, visit.bytes_in, visit.bytes_out) = (1, 1_064, 8);
    (visit, servers)
}
