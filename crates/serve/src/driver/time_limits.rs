//! Which clients take too long. A policy without a clock.
//!
//! Looking at every client costs time, so it is done a few times in the shortest of the limits: a
//! client goes at most a quarter of that later than it must.

use krarup_units::{Nanos, Stamp};

/// What is said to a client whose request does not come to its end.
const LATE: &[u8] = b"CLIENT_ERROR the request took too long to arrive\r\n";

/// How long clients may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    idle: Nanos,
    request: Nanos,
    next: Stamp,
}

/// What one client has been doing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    /// Since when it has been sending a request that is not whole, while it was listened to.
    pub(crate) begun: Option<Stamp>,
    /// Since when nothing has come from it, if nothing of it is under way.
    pub(crate) quiet_since: Option<Stamp>,
}

impl Waited {
    /// Of a client that has begun a request and is quiet since then, where it has and is. A request
    /// that is `held_back` waits for room or memory, and not for its client.
    pub(crate) fn of(begun: Option<Stamp>, held_back: bool, quiet_since: Option<Stamp>) -> Self {
        if held_back && begun.is_some() {
            return Self { begun: None, quiet_since: None };
        }
        Self { begun, quiet_since }
    }
}

impl TimeLimits {
    /// Zero is without end.
    pub(crate) fn new(idle: Nanos, request: Nanos, now: Stamp) -> Self {
        let mut limits = Self { idle, request, next: now };
        limits.next = now + limits.step();
        limits
    }

    /// The time between two looks.
    fn step(&self) -> Nanos {
        let limits = [self.idle, self.request].into_iter().filter(|&limit| limit > Nanos::ZERO);
        limits.min().map_or(Nanos(u64::MAX / 4), |least| Nanos((least.0 / 4).max(1_000_000)))
    }

    /// When clients are to be looked at again; none: never.
    pub(crate) fn due(&self) -> Option<Stamp> {
        (self.idle > Nanos::ZERO || self.request > Nanos::ZERO).then_some(self.next)
    }

    /// Whether clients are to be looked at now; then they are not for a while.
    pub(crate) fn is_due(&mut self, now: Stamp) -> bool {
        let due = self.due().is_some_and(|due| due <= now);
        if due {
            self.next = now + self.step();
        }
        due
    }

    /// Whether the time is over in which a client must take some of its replies that has taken
    /// nothing `since`.
    pub(crate) fn ends_unread(&self, since: Stamp, now: Stamp) -> bool {
        is_over(since, self.request, now)
    }

    /// The last words to a client whose time is over, which may be none.
    pub(crate) fn ends(&self, waited: &Waited, now: Stamp) -> Option<&'static [u8]> {
        let over = |since: Option<Stamp>, limit: Nanos| since.is_some_and(|since| is_over(since, limit, now));
        // A request that has no limit of its own excuses no silence.
        let may_be_idle = waited.begun.is_none() || self.request == Nanos::ZERO;
        if over(waited.begun, self.request) {
            Some(LATE)
        } else if may_be_idle && over(waited.quiet_since, self.idle) {
            Some(b"")
        } else {
            None
        }
    }
}

/// Whether it is longer ago than it may be; zero is without end.
fn is_over(since: Stamp, limit: Nanos, now: Stamp) -> bool {
    limit > Nanos::ZERO && now.0.saturating_sub(since.0) >= limit.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_client_goes_when_its_time_is_over_and_not_before() {
        let limits = TimeLimits::new(Nanos::from_secs(8), Nanos::from_secs(4), Stamp(0));
        let quiet = Waited::of(None, false, Some(Stamp(0)));
        let slow = Waited::of(Some(Stamp(0)), false, Some(Stamp(0)));
        let busy = Waited::of(None, false, None);
        let held_back = Waited::of(Some(Stamp(0)), true, Some(Stamp(0)));
        assert_eq!(limits.ends(&quiet, Stamp(8 * SECOND - 1)), None);
        assert_eq!(limits.ends(&quiet, Stamp(8 * SECOND)), Some(&b""[..]));
        assert_eq!(limits.ends(&slow, Stamp(4 * SECOND - 1)), None);
        assert_eq!(limits.ends(&slow, Stamp(4 * SECOND)), Some(LATE));
        assert_eq!(limits.ends(&busy, Stamp(1_000 * SECOND)), None);
        assert_eq!(limits.ends(&held_back, Stamp(1_000 * SECOND)), None, "it waits for us");
        assert_eq!(
            limits.ends(&Waited::of(None, true, Some(Stamp(0))), Stamp(8 * SECOND)),
            Some(&b""[..]),
            "nothing of it is held back"
        );
    }

    #[test]
    fn who_falls_silent_in_the_middle_of_a_request_is_idle_where_requests_have_no_limit() {
        let [half, held_back] =
            [false, true].map(|held_back| Waited::of(Some(Stamp(0)), held_back, Some(Stamp(0))));
        let of = |request| TimeLimits::new(Nanos::from_secs(8), request, Stamp(0));
        let limits = of(Nanos::ZERO);
        assert_eq!(limits.ends(&half, Stamp(8 * SECOND - 1)), None);
        assert_eq!(limits.ends(&half, Stamp(8 * SECOND)), Some(&b""[..]));
        assert_eq!(limits.ends(&held_back, Stamp(8 * SECOND)), None, "it waits for us");
        assert_eq!(of(Nanos::from_secs(60)).ends(&half, Stamp(8 * SECOND)), None, "its time goes on");
    }

    #[test]
    fn looks_are_a_quarter_of_the_shortest_limit_apart() {
        let mut limits = TimeLimits::new(Nanos::ZERO, Nanos::from_secs(4), Stamp(0));
        assert!(!limits.is_due(Stamp(SECOND - 1)));
        assert!(limits.is_due(Stamp(SECOND)));
        assert_eq!(limits.due(), Some(Stamp(2 * SECOND)));
    }

    #[test]
    fn without_limits_no_client_is_ever_looked_at() {
        let mut limits = TimeLimits::new(Nanos::ZERO, Nanos::ZERO, Stamp(0));
        assert_eq!(limits.due(), None);
        assert!(!limits.is_due(Stamp(u64::MAX / 8)));
        let quiet = Waited { begun: Some(Stamp(0)), quiet_since: Some(Stamp(0)) };
        assert_eq!(limits.ends(&quiet, Stamp(u64::MAX / 8)), None);
    }
}
