//! How long to wait before what failed is tried again.

use std::time::Duration;

/// Pauses that double, up to the longest.
#[derive(Clone, Debug)]
pub struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// The pauses from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { next: first, longest }
    }

    /// How long to wait now; the next pause is twice as long.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let pauses = [(); 6].map(|()| backoff.pause().as_millis());
        assert_eq!(pauses, [100, 200, 400, 800, 1_000, 1_000]);
    }
}
