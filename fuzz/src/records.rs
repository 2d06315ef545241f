//! The files of a run, but for Parquet, whose reader is not ours: nothing in them makes a reader
//! panic, and what is read can be written, and reads back as the same.

use krarup_record::file::{buckets, holds, log, servers, windows};

/// The first byte chooses the file, the rest is its content.
pub fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    match first % 5 {
        0 => {
            if let Ok(rows) = windows::read(bytes) {
                let mut out = Vec::new();
                windows::write(&mut out, rows.iter().cloned()).expect("memory takes everything");
                assert_eq!(windows::read(&out[..]).expect("what is written reads back"), rows);
            }
        }
        1 => {
            if let Ok(rows) = holds::read(bytes) {
                let mut out = Vec::new();
                holds::write(&mut out, rows.iter().cloned()).expect("memory takes everything");
                assert_eq!(holds::read(&out[..]).expect("what is written reads back"), rows);
            }
        }
        2 => drop(buckets::read(bytes)),
        3 => drop(servers::read(bytes)),
        _ => drop(log::read(bytes)),
    }
}
