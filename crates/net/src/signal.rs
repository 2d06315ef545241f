//! SIGINT, SIGTERM and SIGHUP as readiness: a byte in a socket for each.

use std::fs;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, pipe, raise};

/// Whether SIGHUP came, where it is kept.
static KEPT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Whether SIGINT and SIGTERM end the first process of a container: nothing in it handles them yet.
static UNHANDLED: AtomicBool = AtomicBool::new(true);

/// For the first process of a container, to which the kernel gives no signal that it does not
/// handle: from now on SIGINT and SIGTERM end it, with 128 and their number as its exit code, until
/// they are registered here otherwise.
///
/// # Errors
/// From the system, when signals are refused.
pub fn end_first_process() -> io::Result<()> {
    let end = |signal| flag::register_conditional_shutdown(signal, 128 + signal, &UNHANDLED).map(drop);
    [SIGINT, SIGTERM].into_iter().try_for_each(end)
}

/// From now on a file that has reached the limit on its size (`ulimit -f`) no longer kills the
/// process: the write fails. Programs that it starts have the signal as it was.
///
/// # Errors
/// From the system, when signals are refused.
pub fn fail_beyond_file_limit() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::<AtomicBool>::default()).map(drop)
}

/// From now on SIGHUP no longer kills the process: the next [`Signals`] hear of one that comes
/// before they are registered.
///
/// # Errors
/// From the system, when signals are refused.
pub fn keep_reloads() -> io::Result<()> {
    flag::register(SIGHUP, Arc::clone(KEPT.get_or_init(Arc::default))).map(drop)
}

/// Ends the process as SIGTERM does where nothing hears it.
pub fn end() {
    // It does not return: the signal is known, and ends the process.
    let _ = emulate_default_handler(SIGTERM);
}

/// The signals that end a service, delivered to one event loop.
#[derive(Debug)]
pub struct Signals {
    stop: UnixStream,
    /// Kept so that the other end stays open.
    reload: UnixStream,
}

impl Signals {
    /// From now on SIGINT and SIGTERM no longer kill the process but make `stop` readable, SIGHUP
    /// `reload`.
    ///
    /// # Errors
    /// From the system, when signals or sockets are refused.
    pub fn register(registry: &Registry, stop: Token, reload: Token) -> io::Result<Self> {
        let signals = Self {
            stop: readable(registry, stop, &[SIGINT, SIGTERM])?,
            reload: readable(registry, reload, &[SIGHUP])?,
        };
        UNHANDLED.store(false, Ordering::SeqCst);
        if KEPT.get().is_some_and(|kept| kept.load(Ordering::SeqCst)) {
            raise(SIGHUP)?;
        }
        Ok(signals)
    }

    /// How many times a stop was asked for since the last call.
    pub fn stops(&mut self) -> usize {
        drain(&mut self.stop)
    }

    /// How many times a reload was asked for since the last call.
    pub fn reloads(&mut self) -> usize {
        drain(&mut self.reload)
    }
}

/// The signals that end a work in order: SIGINT, SIGTERM and SIGHUP, but no SIGHUP that is ignored.
/// nohup has no other means than that to let a work outlive its terminal.
fn ends() -> &'static [i32] {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if ignores(&status, SIGHUP) { &[SIGINT, SIGTERM] } else { &[SIGINT, SIGTERM, SIGHUP] }
}

/// From now on those signals no longer kill the process but set `asked`.
///
/// # Errors
/// From the system, when signals are refused.
pub fn flag_ends(asked: &Arc<AtomicBool>) -> io::Result<()> {
    for &signal in ends() {
        flag::register(signal, Arc::clone(asked))?;
    }
    UNHANDLED.store(false, Ordering::SeqCst);
    Ok(())
}

/// Whether a process ignores a signal, by what the kernel says of it.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (signal - 1)) & 1 == 1)
}

/// Signals of one meaning, delivered to one event loop.
#[derive(Debug)]
pub struct SignalStream(UnixStream);

impl SignalStream {
    /// From now on SIGUSR1 no longer kills the process but makes `token` readable.
    ///
    /// # Errors
    /// From the system, when signals or sockets are refused.
    pub fn user_one(registry: &Registry, token: Token) -> io::Result<Self> {
        readable(registry, token, &[SIGUSR1]).map(Self)
    }

    /// From now on the signals that end a work in order no longer kill the process but make `token`
    /// readable.
    ///
    /// # Errors
    /// From the system, when signals or sockets are refused.
    pub fn ending(registry: &Registry, token: Token) -> io::Result<Self> {
        let stream = readable(registry, token, ends()).map(Self)?;
        UNHANDLED.store(false, Ordering::SeqCst);
        Ok(stream)
    }

    /// How many came since the last call.
    pub fn count(&mut self) -> usize {
        drain(&mut self.0)
    }
}

fn readable(registry: &Registry, token: Token, signals: &[i32]) -> io::Result<UnixStream> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    for &signal in signals {
        pipe::register(signal, theirs.try_clone()?)?;
    }
    let mut ours = UnixStream::from_std(ours);
    registry.register(&mut ours, token, Interest::READABLE)?;
    Ok(ours)
}

fn drain(stream: &mut UnixStream) -> usize {
    let mut count = 0;
    let mut bytes = [0; 16];
    while let Ok(read) = stream.read(&mut bytes) {
        if read == 0 {
            break;
        }
        count += read;
    }
    count
}

#[cfg(test)]
mod tests {
    use mio::{Events, Poll};

    use super::*;

    #[test]
    fn a_signal_is_seen_as_readiness() {
        keep_reloads().unwrap();
        raise(SIGHUP).unwrap();
        let mut poll = Poll::new().unwrap();
        let mut signals = Signals::register(poll.registry(), Token(1), Token(2)).unwrap();
        let mut events = Events::with_capacity(4);
        poll.poll(&mut events, None).unwrap();
        assert_eq!((signals.stops(), signals.reloads()), (0, 1), "what came before");
        let mut ending = SignalStream::ending(poll.registry(), Token(3)).unwrap();
        raise(SIGTERM).unwrap();
        raise(SIGHUP).unwrap();
        poll.poll(&mut events, None).unwrap();
        assert_eq!((signals.stops(), signals.reloads()), (1, 1));
        assert_eq!((signals.stops(), ending.count()), (0, 2));
    }

    #[test]
    fn a_signal_that_is_ignored_is_told_from_one_that_is_not() {
        // What the kernel says under nohup of a program that ignores SIGPIPE itself.
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000004002\n";
        assert!(ignores(status, SIGHUP));
        assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM) && !ignores("", SIGHUP));
    }
}
