//! What becomes of the process when one of its threads panics.

use std::thread;

/// Threads without which a service would seem to live, and would keep its clients, its port and the
/// lock of its queues, while what they ask is not answered. What any other thread is needed for
/// ends with it alone: an answer to monitoring, a reload, the rows, one client, one shard.
const VITAL: [&str; 8] =
    ["front", "keeper", "krarup-loop", "krarup-worker", "pen", "pool", "reader", "sweeper"];

/// The exit code of a program in Rust whose main thread panics, and ours where a vital one does.
pub(crate) const PANICKED: i32 = 101;

/// From now on `end` is called when a vital thread has panicked, and has said why.
pub(crate) fn end_with_vital_threads(end: impl Fn() + Send + Sync + 'static) {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        if thread::current().name().is_some_and(|name| VITAL.contains(&name)) {
            end();
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::mpsc;

    use super::*;

    fn panics() {
        panic!("as no thread should");
    }

    #[test]
    fn a_thread_that_a_service_cannot_do_without_ends_it_and_no_other_does() {
        let (ended, ends) = mpsc::channel();
        end_with_vital_threads(move || ended.send(thread::current().name().map(str::to_owned)).unwrap());
        for name in ["headroom", "pen", "rows"] {
            assert!(thread::Builder::new().name(name.into()).spawn(panics).unwrap().join().is_err());
        }
        drop(std::panic::take_hook());
        assert_eq!(ends.iter().collect::<Vec<_>>(), [Some("pen".to_owned())]);
    }

    #[test]
    fn vital_threads_are_begun_by_their_names() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let begin = [
            "serve/src/broker/front.rs",
            "serve/src/proxy/events.rs",
            "serve/src/proxy/threads/mod.rs",
            "store/src/journal.rs",
            "store/src/pool.rs",
        ];
        let sources = begin.map(|file| fs::read_to_string(crates.join(file)).unwrap()).concat();
        for name in VITAL {
            assert!(sources.contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
