//! Flow control on one connection: long requests, and requests for long replies, wait for their
//! turn, so that what is short waits behind a few megabytes at most.
//!
//! ```text
//!   client ─▶ its next request is long ─▶ window full? ──no──▶ sent
//!                                             │ yes
//!                                             ▼
//!                          the client is not listened to; first come, first served, as answers come
//! ```

use std::collections::VecDeque;

use krarup_units::{Nanos, Stamp};

use crate::ids::{ClientId, ConnectionId};
use crate::large::LARGE_REQUEST;

/// So many bytes may be under way on a connection before what is long waits. A server at the speed
/// of 10 Gbit/s and three milliseconds away has less under way.
pub(crate) const WINDOW: usize = 4 << 20;
/// Where that would take longer than this, less may be, so that what is short does not wait for
/// more than that behind it.
const PATIENCE: Nanos = Nanos::from_millis(10);
/// But not less than this: one long value can be asked for while another is on its way.
const LEAST: usize = 2 << 20;

/// What is known of how long a request or its reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestLength {
    /// It is long.
    Known,
    /// The client has been given no value yet.
    Unknown,
}

/// A client's request that waits for room on a connection, or has been given it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowWait {
    pub(crate) connection: ConnectionId,
    pub(crate) length: RequestLength,
    pub(crate) bytes: usize,
    /// Whether there is room for it by now.
    pub(crate) admitted: bool,
}

/// What is long, under way on one connection or waiting for that; each list and sum by
/// [`RequestLength`].
#[derive(Debug, Default)]
pub(super) struct SendWindow {
    /// Replies that are likely to be long, or may be: the positions of their requests, which of
    /// both, and how long.
    long: VecDeque<(u64, RequestLength, usize)>,
    /// All of these together.
    long_bytes: [usize; 2],
    /// Clients whose next request waits for room, and how much that takes.
    waiting: [VecDeque<(ClientId, usize)>; 2],
    /// How much those take that have room and have not sent their request yet.
    admitted: [usize; 2],
    /// When the last answer came.
    answered: Stamp,
    /// Nanoseconds for a mebibyte of what is long, from the answer before to its own: a moving
    /// mean. Zero: none was answered yet.
    pace: u64,
}

/// Whether so many bytes more may go where there are `under_way`. What is longer than half of the
/// window goes where no more than the other half is under way: on a busy connection there is always
/// something.
pub(super) fn fits(window: usize, under_way: usize, bytes: usize) -> bool {
    under_way + bytes.min(window / 2) <= window
}

impl SendWindow {
    /// The same without what was under way; the clients that have room keep it.
    pub(super) fn reopened(&self) -> Self {
        Self { admitted: self.admitted, ..Self::default() }
    }

    /// An answer has come at `now` to what was `sent`; with its request it has so many bytes: how
    /// fast what is long gets on here. Returns how long that took since the answer before, or
    /// since it was sent.
    #[inline]
    pub(super) fn keep_pace(&mut self, bytes: usize, sent: Option<Stamp>, now: Stamp) -> Nanos {
        let before = std::mem::replace(&mut self.answered, now);
        let begun = sent.map_or(before, |sent| sent.max(before));
        let took = Nanos(now.0.saturating_sub(begun.0));
        if bytes >= LARGE_REQUEST {
            let took = took.0.saturating_mul(1 << 20) / bytes as u64;
            self.pace = if self.pace == 0 { took } else { self.pace - self.pace / 4 + took / 4 };
        }
        took
    }

    /// When the last answer came.
    pub(super) fn last_answered(&self) -> Stamp {
        self.answered
    }

    /// How many bytes may be under way: as many as get on in a short while, and no more than
    /// `most`.
    pub(super) fn size(&self, most: usize) -> usize {
        let soon = PATIENCE.0.saturating_mul(1 << 20).checked_div(self.pace);
        soon.map_or(most, |soon| most.min((soon as usize).max(LEAST)))
    }

    /// Bytes of long replies that are likely to come, and of what has room.
    pub(super) fn bytes(&self, length: RequestLength) -> usize {
        self.long_bytes[length as usize] + self.admitted[length as usize]
    }

    /// The reply to the request at `start` is likely to have so many bytes, which is long.
    pub(super) fn expect(&mut self, start: u64, length: RequestLength, bytes: usize) {
        self.long.push_back((start, length, bytes));
        self.long_bytes[length as usize] += bytes;
    }

    /// The reply to the request at `start` has come, or never will.
    #[inline]
    pub(super) fn answered(&mut self, start: u64) {
        if let Some(&(first, length, bytes)) = self.long.front()
            && first == start
        {
            self.long.pop_front();
            self.long_bytes[length as usize] -= bytes;
        }
    }

    /// Whether clients wait for room.
    pub(super) fn has_waiting(&self, length: RequestLength) -> bool {
        !self.waiting[length as usize].is_empty()
    }

    /// A client's next request waits for room for so many bytes.
    pub(super) fn wait(&mut self, length: RequestLength, client: ClientId, bytes: usize) {
        self.waiting[length as usize].push_back((client, bytes));
    }

    /// The client whose turn it is, and how many bytes its request was thought to take when it
    /// came.
    pub(super) fn next(&self, length: RequestLength) -> Option<(ClientId, usize)> {
        self.waiting[length as usize].front().copied()
    }

    /// The client whose turn it was is known to be given long replies by now, of so many bytes: it
    /// waits among those.
    pub(super) fn next_is_known(&mut self, bytes: usize) {
        if let Some((client, _)) = self.waiting[RequestLength::Unknown as usize].pop_front() {
            self.wait(RequestLength::Known, client, bytes);
        }
    }

    /// The client whose turn it is has room for so many bytes.
    pub(super) fn admit_next(&mut self, length: RequestLength, bytes: usize) {
        self.waiting[length as usize].pop_front();
        self.admitted[length as usize] += bytes;
    }

    /// The client waits no more, or needs its room no more.
    pub(super) fn leave(&mut self, client: ClientId, wait: &WindowWait) {
        if wait.admitted {
            self.admitted[wait.length as usize] -= wait.bytes;
        } else {
            self.waiting[wait.length as usize].retain(|&(other, _)| other != client);
        }
    }
}
