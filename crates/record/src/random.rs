//! Numbers that look random and belong to a number: the same again each time.

/// A number from 0 to below 1 that belongs to `number`: its bits mixed by the finalizer of
/// SplitMix64 (Steele, Lea and Flood 2014). Those of numbers in a row look independent.
pub(crate) fn fraction_of(number: u64) -> f64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}
