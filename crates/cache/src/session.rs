//! One client's bytes in, its answers out; never a socket.

use krarup_memcache::request::{self, Refusal, Request, Retrieve};
use krarup_memcache::{Limits, Parsed, write};
use krarup_units::Nanos;

use crate::statistics::{self, State};
use crate::store::{NoNumber, Stored};

/// memcached's answer to a value that does not fit all its memory.
const NO_MEMORY: &[u8] = b"SERVER_ERROR out of memory storing object\r\n";
/// memcached's answer to a number that does not fit all its memory.
const NO_MEMORY_FOR_NUMBER: &[u8] = b"SERVER_ERROR out of memory in incr\r\n";
/// memcached's answer to counting what is no number.
const NOT_NUMERIC: &[u8] = b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";

/// Where one client stands between two pieces of its bytes.
#[derive(Debug, Default)]
pub struct CacheSession {
    /// A refused value of which this many bytes are still to go by, and the answer that is then
    /// due.
    refused: Option<(u64, &'static [u8])>,
    /// Keys of the retrieval at the front that are answered already: its answer did not fit at
    /// once.
    keys_done: usize,
}

/// How far the session got with the bytes it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionProgress {
    /// The bytes left over begin a request that has at least `needed` bytes.
    Hungry {
        /// Counted from the first byte left over; more than there are.
        needed: usize,
    },
    /// The allowance for answers is used up: send some, then come back with the bytes left over.
    Full,
    /// Send what is there, then close.
    Close,
}

impl CacheSession {
    /// Answers the requests at the front of `bytes` into `out`, as many as there are, but ends as
    /// soon as it has appended `allowance` bytes or more; the last value may exceed it. Gives how
    /// many bytes it is done with, and why it ended. Where the bytes were cut makes no difference
    /// to the answers.
    pub fn serve(
        &mut self,
        state: &mut State,
        now: Nanos,
        bytes: &[u8],
        out: &mut Vec<u8>,
        allowance: usize,
    ) -> (usize, SessionProgress) {
        let full = out.len() + allowance;
        let bounds = state.store.bounds();
        let limits = Limits { value: bounds.item as usize, ..Limits::default() };
        let mut done = 0;
        loop {
            let rest = &bytes[done..];
            if let Some((discard, answer)) = self.refused.take() {
                let gone = discard.min(rest.len() as u64);
                done += gone as usize;
                if gone < discard {
                    self.refused = Some((discard - gone, answer));
                    return (done, SessionProgress::Hungry { needed: 1 });
                }
                out.extend_from_slice(answer);
                continue;
            }
            if rest.is_empty() {
                return (done, SessionProgress::Hungry { needed: 1 });
            }
            if out.len() >= full {
                return (done, SessionProgress::Full);
            }
            match request::parse(rest, &limits) {
                Parsed::Incomplete { needed } => return (done, SessionProgress::Hungry { needed }),
                Parsed::Complete { message: Request::Quit, used } => {
                    return (done + used, SessionProgress::Close);
                }
                Parsed::Complete { message: Request::Retrieve(retrieve), used } => {
                    if !self.retrieve(state, now, &retrieve, out, full) {
                        return (done, SessionProgress::Full);
                    }
                    done += used;
                }
                Parsed::Complete { message, used } => {
                    done += used;
                    let noreply = message.noreply();
                    let before = out.len();
                    execute(state, now, message, out);
                    if noreply {
                        out.truncate(before);
                    }
                }
                Parsed::Invalid(Refusal::Answer { reply, used }) => {
                    done += used;
                    out.extend_from_slice(reply);
                }
                Parsed::Invalid(Refusal::TooLarge { used, discard, .. }) if is_meta_set(rest) => {
                    done += used;
                    self.refused = Some((discard, request::ERROR));
                }
                Parsed::Invalid(Refusal::TooLarge { command, key, used, discard, noreply, .. }) => {
                    state.store.refuse_too_large(command, key);
                    done += used;
                    self.refused = Some((discard, if noreply { b"" } else { request::TOO_LARGE }));
                }
                Parsed::Invalid(Refusal::Discard { used, discard, .. }) => {
                    done += used;
                    self.refused = Some((discard, request::ERROR));
                }
                Parsed::Invalid(Refusal::Close { reply }) => {
                    write::closing_reply(out, rest, reply);
                    return (bytes.len(), SessionProgress::Close);
                }
            }
        }
    }

    /// Whether the retrieval is answered in full; else it goes on where it stopped when it is
    /// handed in again.
    fn retrieve(
        &mut self,
        state: &mut State,
        now: Nanos,
        retrieve: &Retrieve<'_>,
        out: &mut Vec<u8>,
        full: usize,
    ) -> bool {
        for key in retrieve.keys.iter().skip(self.keys_done) {
            if out.len() >= full {
                return false;
            }
            let found = if retrieve.command.touches() {
                state.store.get_and_touch(key, retrieve.exptime, now)
            } else {
                state.store.get(key, now)
            };
            if let Some(found) = found {
                let unique = retrieve.command.with_unique().then_some(found.unique);
                write::value(out, key, found.flags, unique, found.data);
            }
            self.keys_done += 1;
        }
        self.keys_done = 0;
        out.extend_from_slice(b"END\r\n");
        true
    }
}

/// Whether a meta set stands at the front: it is not served here, however long its value is.
fn is_meta_set(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().starts_with(b"ms ")
}

/// Does what is asked and answers it, also where no answer is wanted.
fn execute(state: &mut State, now: Nanos, message: Request<'_>, out: &mut Vec<u8>) {
    let store = &mut state.store;
    let answer: &[u8] = match message {
        Request::Store(request) => match store.store(&request, now) {
            Stored::Stored => b"STORED\r\n",
            Stored::NotStored => b"NOT_STORED\r\n",
            Stored::Exists => b"EXISTS\r\n",
            Stored::NotFound => b"NOT_FOUND\r\n",
            Stored::TooLarge => request::TOO_LARGE,
            Stored::NoMemory => NO_MEMORY,
        },
        Request::Delete { key, .. } if store.delete(key, now) => b"DELETED\r\n",
        Request::Touch { key, exptime, .. } if store.touch(key, exptime, now) => b"TOUCHED\r\n",
        Request::Delete { .. } | Request::Touch { .. } => b"NOT_FOUND\r\n",
        Request::Arithmetic { command, key, delta, .. } => match store.arithmetic(command, key, delta, now) {
            Ok(number) => {
                write::number_line(out, number);
                return;
            }
            Err(NoNumber::NotFound) => b"NOT_FOUND\r\n",
            Err(NoNumber::NotNumeric) => NOT_NUMERIC,
            Err(NoNumber::NoMemory) => NO_MEMORY_FOR_NUMBER,
        },
        Request::FlushAll { delay, .. } => {
            store.flush(delay, now);
            b"OK\r\n"
        }
        Request::Verbosity { level, .. } => {
            state.verbosity = level;
            b"OK\r\n"
        }
        // Only the classic commands are served here.
        Request::Meta(_) | Request::NoOp => request::ERROR,
        Request::Stats { argument } => return statistics::answer(state, argument, now, out),
        Request::Version => {
            out.extend_from_slice(b"VERSION ");
            out.extend_from_slice(state.about.version.as_bytes());
            b"\r\n"
        }
        Request::Retrieve(_) | Request::Quit => unreachable!("answered before this is called"),
    };
    out.extend_from_slice(answer);
}

#[cfg(test)]
mod tests;
