//! The file that all proxies before the same servers lock, and what it says: which server was
//! pushed when, and what it proved to the proxy that pushed it. So a server is pushed once a day
//! also where another proxy pushed it, or this one was restarted, which then knows what was proven.
//!
//! ```text
//! 1764180000 10.0.0.4:11211                  seconds since 1970 (UTC), and the server
//! proven 1764180300 10.0.0.4:11211 10.0.0.9:11211 00c0ffee00c0ffee {…}
//!                                            the same when it ended, where the proxy listens (with
//!                                            its machine's name before it, as `one/0.0.0.0:11211`,
//!                                            where other machines have that address too), of which
//!                                            shares, and the proof as JSON
//! ```
//!
//! How much of all traffic gets to the server is another share at another proxy, and with other
//! pools, so a proof counts for the proxy that it names while the configuration gives servers the
//! shares that they had. Other lines stand there for another reason: they say nothing here,
//! and stay.

use std::fmt::Display;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use krarup_model::headroom::ProvenServer;
use krarup_units::Mistake;

/// A server is pushed once in this time, and what it proved counts as long.
pub(crate) const COOL_DOWN: Duration = Duration::from_secs(86_400);

/// What a server has proven.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ServerProof {
    pub(crate) proven: ProvenServer,
    /// The digest of the shares that servers had then; none: it is not known.
    pub(crate) shares: Option<u64>,
}

/// What servers have proven to this proxy, and how long ago, by the file.
pub(crate) fn proofs(path: &Path, proxy: &str, now: SystemTime) -> Vec<(String, ServerProof, Duration)> {
    let (text, now) = (text_of(path), seconds(now));
    let of_line = |line: &[u8]| {
        let proof = written(line).filter(|proof| proof.proxy == proxy && counts(proof.at, now))?;
        Some((proof.server.to_owned(), proof.proof, age(proof.at, now)))
    };
    lines(&text).filter_map(of_line).collect()
}

/// The file, locked until this is dropped.
pub(crate) struct RedlineLock {
    file: File,
    path: PathBuf,
    /// What it says.
    text: Vec<u8>,
}

impl RedlineLock {
    /// Locks the file `path`, which is made where there is none.
    pub(crate) fn take(path: &Path) -> Result<Self, Mistake> {
        let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path);
        let file = opened.map_err(|error| at(path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(at(path, &"another proxy has a redline under way, or is about to begin one"));
            }
            Err(TryLockError::Error(error)) => return Err(at(path, &error)),
        }
        Ok(Self { file, path: path.to_owned(), text: text_of(path) })
    }

    /// How long ago the server was pushed last, where that is less than a day.
    pub(crate) fn since_push(&self, server: &str, now: SystemTime) -> Option<Duration> {
        let now = seconds(now);
        let pushes = lines(&self.text).filter_map(push);
        let of_server = pushes.filter(|&(at, pushed)| pushed == server && counts(at, now));
        of_server.map(|(at, _)| age(at, now)).min()
    }

    /// Notes that the server is pushed now, and leaves out what is older than a day.
    pub(crate) fn note(&mut self, server: &str, now: SystemTime) -> Result<(), Mistake> {
        let now = seconds(now);
        let stays = |line: &[u8]| push(line).is_none_or(|(at, pushed)| pushed != server && counts(at, now));
        self.write(stays, &format!("{now} {server}"))
    }

    /// Notes what the server has proven now to this proxy; what it had proven before is left out.
    pub(crate) fn note_proof(
        &mut self,
        server: &str,
        proxy: &str,
        proof: ServerProof,
        now: SystemTime,
    ) -> Result<(), Mistake> {
        let now = seconds(now);
        let text = serde_json::to_string(&proof.proven).map_err(|error| at(&self.path, &error))?;
        let shares = proof.shares.map(|shares| format!("{shares:016x} ")).unwrap_or_default();
        let is_other = |known: WrittenProof<'_>| (known.server, known.proxy) != (server, proxy);
        let stays = |line: &[u8]| written(line).is_none_or(|known| counts(known.at, now) && is_other(known));
        self.write(stays, &format!("proven {now} {server} {proxy} {shares}{text}"))
    }

    /// Writes the lines that stay, and one more.
    fn write(&mut self, stays: impl Fn(&[u8]) -> bool, more: &str) -> Result<(), Mistake> {
        let mut text = Vec::new();
        for line in lines(&self.text).filter(|line| stays(line)).chain([more.as_bytes()]) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        let written = self.file.write_all_at(&text, 0).and_then(|()| self.file.set_len(text.len() as u64));
        written.map_err(|error| at(&self.path, &error))?;
        self.text = text;
        Ok(())
    }
}

/// What a file says; nothing where it is none, or cannot be read.
fn text_of(path: &Path) -> Vec<u8> {
    if path.is_file() { std::fs::read(path).unwrap_or_default() } else { Vec::new() }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn at(path: &Path, why: &dyn Display) -> Mistake {
    Mistake::plain(format!("{}: {why}", path.display()))
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// How long ago that was. A clock that was set back since then makes it a moment ago.
fn age(at: u64, now: u64) -> Duration {
    Duration::from_secs(now.saturating_sub(at))
}

/// When which server was pushed, by one line.
fn push(line: &[u8]) -> Option<(u64, &str)> {
    let (at, server) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((at.parse().ok()?, server))
}

/// What one line says that a server has proven.
struct WrittenProof<'a> {
    at: u64,
    server: &'a str,
    proxy: &'a str,
    proof: ServerProof,
}

fn written(line: &[u8]) -> Option<WrittenProof<'_>> {
    let line = std::str::from_utf8(line).ok()?.strip_prefix("proven ")?;
    let mut words = line.splitn(4, ' ');
    let (at, server, proxy) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let rest = words.next()?;
    let (shares, text) = match rest.split_once(' ') {
        Some((shares, text)) if !rest.starts_with('{') => (Some(u64::from_str_radix(shares, 16).ok()?), text),
        // As before shares were noted.
        _ => (None, rest),
    };
    let proof = ServerProof { proven: serde_json::from_str(text).ok()?, shares };
    Some(WrittenProof { at, server, proxy, proof })
}

/// Whether a line of this second still counts. One that is further ahead than a day is of a clock
/// that was wrong.
fn counts(at: u64, now: u64) -> bool {
    at.abs_diff(now) < COOL_DOWN.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;
    const NOON: u64 = 1_764_180_000;

    /// The lock of a new file with this text.
    fn of(name: &str, text: &[u8]) -> (PathBuf, RedlineLock) {
        let path = std::env::temp_dir().join(format!("krarup-redline-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let taken = RedlineLock::take(&path).unwrap();
        (path, taken)
    }

    fn time(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_push_is_known_for_a_day_to_the_next_that_locks_the_file() {
        let (path, mut first) = of("day", b"");
        assert_eq!(first.since_push("a:1", time(NOON)), None);
        first.note("a:1", time(NOON)).unwrap();
        assert!(RedlineLock::take(&path).is_err(), "it is locked");
        drop(first);
        let mut next = RedlineLock::take(&path).unwrap();
        assert_eq!(next.since_push("a:1", time(NOON + 2 * HOUR)), Some(Duration::from_secs(2 * HOUR)));
        assert_eq!(next.since_push("a:1", time(NOON - HOUR)), Some(Duration::ZERO), "the clock was set back");
        assert_eq!(next.since_push("a:1", time(NOON + 24 * HOUR)), None);
        assert_eq!(next.since_push("a:11", time(NOON)), None, "another server");
        next.note("b:1", time(NOON + HOUR)).unwrap();
        drop(next);
        let mut later = RedlineLock::take(&path).unwrap();
        later.note("c:1", time(NOON + 24 * HOUR)).unwrap();
        drop(later);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, format!("{} b:1\n{} c:1\n", NOON + HOUR, NOON + 24 * HOUR), "a:1 is a day old");
    }

    #[test]
    fn a_file_that_says_something_else_is_no_mistake_and_keeps_it() {
        for (name, text) in [
            ("settings", &b"listen = \"a:1\"\n"[..]),
            ("bytes", b"\xff\xfe\x00 a:1\n"),
            ("cut", b"17641800"),
            ("number", b"99999999999999999999999 a:1\n"),
        ] {
            let (path, mut taken) = of(name, text);
            assert_eq!(taken.since_push("a:1", time(NOON)), None, "{name}");
            taken.note("a:1", time(NOON)).unwrap();
            drop(taken);
            let taken = RedlineLock::take(&path).unwrap();
            assert_eq!(taken.since_push("a:1", time(NOON)), Some(Duration::ZERO), "{name}");
            std::fs::remove_file(&path).unwrap();
            assert!(taken.text.starts_with(text.trim_ascii_end()), "{name}");
        }
    }

    #[test]
    fn what_was_proven_is_known_for_a_day_to_the_proxy_it_was_proven_to() {
        let target = "p99 < 8ms".parse().unwrap();
        let proven = |traffic_per_s: f64| ServerProof {
            proven: ProvenServer {
                target,
                server_per_s: 700.0,
                usual_parts: None,
                traffic_per_s,
                missed_per_s: None,
                slower_per_s: Some(2_000.0),
            },
            shares: Some(7),
        };
        let (path, mut taken) = of("proof", b"proven otherwise\nproven 1 a:1 p:1 {}\n");
        taken.note("a:1", time(NOON)).unwrap();
        taken.note_proof("a:1", "p:1", proven(1_000.0), time(NOON)).unwrap();
        taken.note_proof("a:1", "p:2", proven(900.0), time(NOON)).unwrap();
        taken.note_proof("a:1", "p:1", proven(1_400.0), time(NOON + HOUR)).unwrap();
        let known = proofs(&path, "p:1", time(NOON + 3 * HOUR));
        assert_eq!(known, [("a:1".to_owned(), proven(1_400.0), Duration::from_secs(2 * HOUR))]);
        assert_eq!(proofs(&path, "p:3", time(NOON + HOUR)), []);
        assert_eq!(proofs(&path, "p:1", time(NOON + 25 * HOUR)), []);
        assert_eq!(taken.since_push("a:1", time(NOON)), Some(Duration::ZERO));
        let text = std::fs::read_to_string(&path).unwrap();
        // As before shares were noted.
        std::fs::write(&path, text.replace(" 0000000000000007 ", " ")).unwrap();
        let known = proofs(&path, "p:1", time(NOON + HOUR));
        assert_eq!(known[0].1, ServerProof { shares: None, ..proven(1_400.0) });
        std::fs::remove_file(&path).unwrap();
        // Two were no proofs, and stay; of the same proxy one took the place of another.
        assert!(text.starts_with("proven otherwise\nproven 1 a:1 p:1 {}\n"), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_locked_is_named() {
        let Err(why) = RedlineLock::take(Path::new("/nowhere/redline")) else {
            panic!("there is no such folder")
        };
        assert!(why.to_string().contains("/nowhere/redline"), "{why}");
    }
}
