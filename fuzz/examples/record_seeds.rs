//! Writes the seeds for the files of a run anew, when their columns have changed:
//! `cargo run --example record_seeds`.

use std::fs;
use std::path::Path;

use krarup_record::file::{self, RunMetadata};
use krarup_record::{Operation, Recorder, ServerVisit, Visit, recorder};
use krarup_units::{Nanos, Stamp};

fn main() {
    let mut recorder =
        Recorder::new(recorder::RecorderSettings::default()).expect("the default settings are valid");
    for number in 0..40_u64 {
        let start = Stamp(number * 90_000_000);
        let after = |micros| start + Nanos::from_micros(micros);
        let operation = [Operation::Get, Operation::MultiGet, Operation::Set][number as usize % 3];
        let visit = Visit {
            queued: after(1),
            taken: after(10 + number),
            replied: after(400 + number * number),
            busy_workers: 1 + number as u32 % 4,
            queue_length: number as u32 % 3,
            keys: 3,
            hits: 2,
            misses: 1,
            bytes_in: 40,
            bytes_out: 4_000,
            ..Visit::at(start, operation)
        };
        recorder.record(&visit, &[ServerVisit::ok(number as u16 % 2, after(60), after(300))]);
    }
    let folder = std::env::temp_dir().join("krarup-record-seeds");
    let run = RunMetadata { epoch_unix: Nanos::from_secs(1_700_000_000) };
    file::save_all(&folder, &recorder, run).expect("the files of a small run can be written");
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/records");
    fs::create_dir_all(&seeds).expect("the folder of seeds");
    let names = ["windows.csv", "holds.csv", "histogram.csv", "servers.csv", "histograms.hlog"];
    for (choice, name) in (0_u8..).zip(names) {
        let content = fs::read(folder.join(name)).expect("just written");
        fs::write(seeds.join(name), [&[choice], &content[..]].concat()).expect("the folder of seeds");
    }
    fs::remove_dir_all(&folder).expect("just written");
}
