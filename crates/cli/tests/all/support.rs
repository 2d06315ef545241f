//! What the tests of the whole program share: processes with their own handle, and peers to talk
//! to.
//!
//! No port is chosen twice, and a program that is started says when it is ready: what is waited for
//! is bytes, a thread's progress or the system's word. Two functions here do otherwise, [`until`]
//! and [`pass`], for what their comments say. The time limit on reads is only there so that a
//! broken program fails a test instead of hanging it.

pub(crate) mod account;
pub(crate) mod commands;
pub(crate) mod conversation;
pub(crate) mod experiment;
pub(crate) mod malformed;
pub(crate) mod peer;
pub(crate) mod process;
pub(crate) mod terminal;

use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
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

/// How far other threads of a test have come; they wake whatever waits for it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<ProgressState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ProgressState {
    count: usize,
    ended: bool,
}

/// While it stands, more may come; where it is dropped, also by a thread that panics, a wait ends.
pub(crate) struct Advances<'a>(&'a Progress);

impl Drop for Advances<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.ended = true);
    }
}

impl Progress {
    fn change(&self, change: impl FnOnce(&mut ProgressState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// The thread that drops this advances no more.
    pub(crate) fn advances(&self) -> Advances<'_> {
        Advances(self)
    }

    /// So many more.
    pub(crate) fn add(&self, count: usize) {
        self.change(|state| state.count += count);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Waits until there are so many; whether there are: no, where a thread has ended.
    pub(crate) fn reaches(&self, count: usize) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let lacks = |state: &mut ProgressState| state.count < count && !state.ended;
        let waited = self.changed.wait_timeout_while(state, TOO_LONG, lacks);
        let (state, limit) = waited.unwrap_or_else(PoisonError::into_inner);
        assert!(!limit.timed_out(), "it never came to {count}, only to {}", state.count);
        state.count >= count
    }
}

/// Lets this much time pass, where it is the time that is measured.
pub(crate) fn pass(time: Duration) {
    thread::sleep(time);
}

/// Looks again and again until the answer is yes. For what another program does not report: that it
/// listens on its port, has counted, or has written a file. A look makes a round trip or a call of
/// the system, which is what passes the time; where threads of the test itself are waited for,
/// there is [`Progress`].
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

/// The folder for the files of this run of the tests. They are kept to look at, until a later run
/// removes what runs left that have ended: else they fill the disk.
pub(crate) fn folder_of_the_run() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
        for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
            let run = entry.file_name().to_str().and_then(|name| name.strip_prefix("run-")?.parse().ok());
            if run.is_some_and(|run: u32| !Path::new(&format!("/proc/{run}")).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let folder = all.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder in the folder for tests");
        folder
    })
}

/// A path for a file or folder of this test alone; nothing is there.
pub(crate) fn fresh(name: &str) -> PathBuf {
    let path = folder_of_the_run().join(format!("{name}-{}", test_id()));
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A file of the tests' certificates.
pub(crate) fn certificate(name: &str) -> String {
    format!("{}/tests/certificates/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The configuration of a proxy that shows its servers this certificate, and waits for them on a
/// busy machine.
pub(crate) fn server_tls(who: &str) -> String {
    let [shown, key] = ["pem", "key"].map(|ending| certificate(&format!("{who}.{ending}")));
    let authorities = certificate("authority.pem");
    let tls = format!("authorities = {authorities:?}, certificate = {shown:?}, key = {key:?}");
    format!("connect_timeout = \"60s\"\n[edge]\nserver_tls = {{ {tls} }}\n")
}

/// A file with this text.
pub(crate) fn file(name: &str, text: &str) -> String {
    let path = fresh(name);
    std::fs::write(&path, text).unwrap();
    path.into_os_string().into_string().unwrap()
}
