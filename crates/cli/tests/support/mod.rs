//! What the tests of the whole program share: processes with their own handle, and peers to talk to.
//!
//! Nothing here sleeps, and no port is chosen twice: who is started says when it is ready, and all waiting is for
//! bytes. The time limit on reads is only there so that a broken program fails a test instead of hanging it.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

pub(crate) mod conversation;
pub(crate) mod peer;
pub(crate) mod process;

use std::time::Duration;

/// After this long without a byte a test has failed.
pub(crate) const TOO_LONG: Duration = Duration::from_secs(20);

/// Bytes as a person can read and compare them: line ends and what cannot be printed as escapes, long runs cut short.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 1_500;
    if bytes.len() <= MOST {
        return bytes.escape_ascii().to_string();
    }
    let (head, tail) = (&bytes[..MOST / 2], &bytes[bytes.len() - MOST / 2..]);
    format!("{} …{} bytes… {}", head.escape_ascii(), bytes.len() - MOST, tail.escape_ascii())
}
