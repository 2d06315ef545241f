//! What is read of recorded traffic beside Parquet: traces to be sent again, and parts of an
//! analysis to be put together.

use krarup_analysis::requests::{RequestPart, merge_parts};
use krarup_analysis::trace::{TraceReading, TraceUse};
use krarup_load::trace::Trace;

/// The first byte chooses what is read, the rest is its content.
pub fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    if first % 2 == 1 {
        if let Ok(part) = serde_json::from_slice::<RequestPart>(bytes)
            && let Ok(runs) = merge_parts(vec![part])
        {
            assert!(!runs.is_empty(), "a part is of a run");
        }
        return;
    }
    match Trace::of_csv(bytes) {
        Err(why) => assert!(!why.to_string().contains('\n'), "{why:?}"),
        Ok(trace) => {
            let rows: Vec<_> = (0..trace.len()).filter_map(|number| trace.row(number)).collect();
            assert_eq!(rows.len(), trace.len());
            assert!(rows.is_sorted_by_key(|row| row.at), "requests are in the order of time");
            assert_eq!(rows[0].at.0, 0, "time counts from the first");
            let clients: u64 = trace.clients().iter().sum();
            assert!(clients == 0 || clients == rows.len() as u64, "each request has one client, or none");
            let mut reading = TraceReading::default();
            for row in &rows {
                let used = if row.lifetime().is_some() { TraceUse::Write } else { TraceUse::Read };
                let about = (row.size, row.lifetime());
                reading.see(row.at, row.command.name(), used, trace.names(row).unwrap_or_default(), about);
                let Some(names) = trace.names(row) else { continue };
                assert_eq!(names.len(), row.keys as usize);
                assert!(names.iter().all(|&name| (1..=250).contains(&trace.text(u64::from(name)).len())));
            }
            let told = reading.end(|key| trace.text(u64::from(key)).len(), trace.clients());
            if let Some(memory) = told.memory {
                assert!(memory.most_hits <= 1.0 && memory.expired <= memory.reads, "{memory:?}");
                assert!(memory.sizes.is_sorted_by_key(|size| size.keys), "{memory:?}");
            }
        }
    }
}
