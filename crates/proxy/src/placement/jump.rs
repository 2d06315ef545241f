//! Lamping and Veach's jump hash: no table at all, and the least movement when a server is added at
//! the end.
//!
//! Slots are numbered; with n + 1 of them a key stays where it was with n, or jumps to the new one,
//! with probability 1 / (n + 1). Only the end of the list may grow or shrink without moving other
//! keys: where servers come and go in the middle, ketama or rendezvous is the better choice.
//! (Lamping & Veach 2014, "A Fast, Minimal Memory, Consistent Hash Algorithm".)

/// The slot of a number among `slots` of them.
///
/// `slots` must be at least 1.
#[inline]
pub(super) fn slot(mut number: u64, slots: usize) -> usize {
    let mut here = 0;
    let mut next = 0i64;
    while next < slots as i64 {
        here = next;
        number = number.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((here + 1) as f64 * (f64::from(1u32 << 31) / ((number >> 33) + 1) as f64)) as i64;
    }
    here as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::slot;

    proptest! {
        #[test]
        fn one_slot_more_takes_keys_and_moves_no_other(number: u64, slots in 1usize..500) {
            let (before, after) = (slot(number, slots), slot(number, slots + 1));
            prop_assert!(after == before || after == slots);
        }
    }
}
