//! How often the operator is told that clients cannot be accepted, or what servers answer.

use krarup_units::{Nanos, Stamp};

/// No sooner than so long after the last time.
const NOTICE_AGAIN: Nanos = Nanos::from_secs(60);

/// When the operator was last told that a client cannot be accepted, or an answer of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefusalNotices(Option<Stamp>);

impl RefusalNotices {
    /// Whether it is told now, and not at every attempt.
    pub(crate) fn is_due(&mut self, now: Stamp) -> bool {
        let due = self.0.is_none_or(|told| told + NOTICE_AGAIN <= now);
        if due {
            self.0 = Some(now);
        }
        due
    }
}
