//! The remainder of the key's number: as even as can be, and a change of the list moves nearly
//! every key.

/// The slot of a number among `slots` of them, which must be at least 1.
#[inline]
pub(super) fn slot(number: u64, slots: usize) -> usize {
    (number % slots as u64) as usize
}
