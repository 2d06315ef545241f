//! What is read of recorded traffic beside Parquet: traces to be sent again, and parts of an
//! analysis to be put together.

use krarup_analysis::requests::{RequestPart, merge_parts};
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
            for row in &rows {
                let Some(names) = trace.names(row) else { continue };
                assert_eq!(names.len(), row.keys as usize);
                assert!(names.iter().all(|&name| (1..=250).contains(&trace.text(u64::from(name)).len())));
            }
        }
    }
}
