//! What the tests of the whole program share: processes with their own handle, and peers to talk
//! to.
//!
//! Nothing here sleeps, and no port is chosen twice: who is started says when it is ready, and all
//! waiting is for bytes. The time limit on reads is only there so that a broken program fails a
//! test instead of hanging it.

pub(crate) mod account;
pub(crate) mod conversation;
pub(crate) mod experiment;
pub(crate) mod malformed;
pub(crate) mod peer;
pub(crate) mod process;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// After this long without a byte a test has failed.
pub(crate) const TOO_LONG: Duration = Duration::from_secs(60);

/// Bytes as a person can read and compare them: line ends and what cannot be printed as escapes,
/// long runs cut short.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 1_500;
    if bytes.len() <= MOST {
        return bytes.escape_ascii().to_string();
    }
    let (head, tail) = (&bytes[..MOST / 2], &bytes[bytes.len() - MOST / 2..]);
    format!("{} …{} bytes… {}", head.escape_ascii(), bytes.len() - MOST, tail.escape_ascii())
}

/// Asks again and again until the answer is yes: `look` is to make a round trip, which is what
/// passes the time.
pub(crate) fn until(what: &str, look: impl FnMut() -> bool) {
    until_within(TOO_LONG, what, look);
}

/// The same for what may take so long.
pub(crate) fn until_within(limit: Duration, what: &str, mut look: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !look() {
        assert!(begun.elapsed() < limit, "it never came to this: {what}");
        thread::yield_now();
    }
}

/// Letters and digits that no other test has which runs now, in this process or another: each has a
/// thread of its own.
pub(crate) fn test_id() -> String {
    let thread: String =
        format!("{:?}", thread::current().id()).chars().filter(char::is_ascii_digit).collect();
    format!("{}-{thread}", std::process::id())
}

/// A path for a file or folder of this test alone; nothing is there.
pub(crate) fn fresh(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", test_id()));
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A file with this text.
pub(crate) fn file(name: &str, text: &str) -> String {
    let path = fresh(name);
    std::fs::write(&path, text).unwrap();
    path.into_os_string().into_string().unwrap()
}
