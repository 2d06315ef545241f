//! How long a busy loop waits for more to arrive. A policy without a clock.
//!
//! A system call costs the same for one request as for ten, and so does waking a peer. Under load the
//! loop therefore leaves what has arrived since the last pass lying for some microseconds: more comes together, and one read, one write per
//! server and one write per client carry more. With one request in flight nothing can join it, so it never waits.

use krarup_units::Nanos;

/// The wait, in proportion to what is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// For each request in flight.
    each: Nanos,
    /// No longer than this.
    longest: Nanos,
}

impl Hold {
    pub(crate) fn new(longest: Nanos) -> Self {
        Self { each: Nanos(400), longest }
    }

    /// How long to wait after a pass that moved `moved` pieces of work (reads that brought something)
    /// and left `in_flight` requests with the servers.
    pub(crate) fn after(&self, moved: usize, in_flight: usize) -> Nanos {
        if moved < 2 || in_flight < 2 {
            return Nanos::ZERO;
        }
        Nanos(self.each.0 * in_flight as u64).min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_waits_alone_and_nothing_waits_long() {
        let hold = Hold::new(Nanos::from_micros(50));
        assert_eq!(hold.after(1, 100), Nanos::ZERO);
        assert_eq!(hold.after(2, 1), Nanos::ZERO);
        assert_eq!(hold.after(2, 10), Nanos(4_000));
        assert_eq!(hold.after(50, 1_000), Nanos::from_micros(50));
        assert_eq!(Hold::new(Nanos::ZERO).after(50, 1_000), Nanos::ZERO);
    }
}
