//! A whole conversation with the cache: cut anyhow, answered a little at a time, it is the same
//! conversation, and memory stays within its bound.

use krarup_cache::{About, Bounds, CacheSession, ItemStore, SessionProgress, State, Traffic};
use krarup_units::Nanos;

const NOW: Nanos = Nanos::from_secs(1_700_000_000);
const MEMORY: u64 = 2_000;

/// The first two bytes choose the cuts and the allowance, the rest is what a client sends.
pub fn check(bytes: &[u8]) {
    let [cut, allowance, bytes @ ..] = bytes else { return };
    let whole = converse(bytes, usize::MAX, usize::MAX / 2);
    let pieces = converse(bytes, usize::from(*cut) + 1, usize::from(*allowance) + 1);
    assert_eq!(whole.escape_ascii().to_string(), pieces.escape_ascii().to_string());
}

fn converse(bytes: &[u8], cut: usize, allowance: usize) -> Vec<u8> {
    let about = About {
        pid: 1,
        version: "0.1.0".to_owned(),
        started: NOW,
        host: "127.0.0.1".to_owned(),
        port: 11_211,
        connections: 1,
    };
    let store = ItemStore::new(Bounds { memory: MEMORY, item: 600 });
    let mut service = State { store, traffic: Traffic::default(), about, verbosity: 0 };
    let mut session = CacheSession::default();
    let mut out = Vec::new();
    let (mut start, mut end) = (0, bytes.len().min(cut));
    loop {
        let before = out.len();
        let (used, progress) = session.serve(&mut service, NOW, &bytes[start..end], &mut out, allowance);
        assert!(used <= end - start);
        assert!(service.store.bytes() <= MEMORY);
        start += used;
        match progress {
            SessionProgress::Full => assert!(out.len() - before >= allowance),
            SessionProgress::Close => return out,
            SessionProgress::Hungry { needed } => {
                assert!(needed > end - start);
                if end == bytes.len() {
                    return out;
                }
                end = bytes.len().min(end.saturating_add(cut));
            }
        }
    }
}
