//! How long a pass of a loop may spend on servers, on clients, on writing: a time slice for each,
//! so that no client's large values or long pipelines keep others waiting. A policy without a
//! clock.

use krarup_units::{Nanos, Stamp};

/// What does not fit is done in the next pass, before what comes then.
const SLICE: Nanos = Nanos::from_millis(2);

/// One slice. It begins with the first look at the clock after [`Slice::begin`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slice {
    begun: Option<Stamp>,
    spent: bool,
}

impl Slice {
    pub(crate) fn begin(&mut self) {
        *self = Self::default();
    }

    /// It is `now`; whether the slice is spent.
    #[inline]
    pub(crate) fn passes(&mut self, now: Stamp) -> bool {
        let begun = self.begun.get_or_insert(now);
        self.spent |= now.0.saturating_sub(begun.0) > SLICE.0;
        self.spent
    }

    /// Whether it was spent when it was last looked at the clock.
    #[inline]
    pub(crate) fn is_spent(&self) -> bool {
        self.spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_spent_some_time_after_the_first_look_at_the_clock_until_the_next_begins() {
        let mut slice = Slice::default();
        assert!(!slice.passes(Stamp(1_000)));
        assert!(!slice.passes(Stamp(1_000) + SLICE));
        assert!(slice.passes(Stamp(1_001) + SLICE));
        assert!(slice.is_spent() && slice.passes(Stamp(1_000)), "whatever the clock says then");
        slice.begin();
        assert!(!slice.is_spent() && !slice.passes(Stamp(1_001) + SLICE));
    }
}
