//! Several tests together: how many of them would show a difference by chance.

/// P-values as they stand where all tests together may be wrong with one level (Holm 1979): a
/// difference is shown where its adjusted value is below that level. It holds however the tests
/// depend on each other, and shows all that the level divided by their number does (Bonferroni).
///
/// ```text
/// p(1) ≤ … ≤ p(m)      adjusted p(k) = max over j ≤ k of min(1, (m − j + 1) p(j))
/// ```
///
/// In the order of `p_values`, each of which lies from 0 to 1.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (smaller, &place) in order.iter().enumerate() {
        let left = (p_values.len() - smaller) as f64;
        largest = largest.max((left * p_values[place]).min(1.0));
        adjusted[place] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// R 4: `p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")`.
    #[test]
    fn the_values_are_those_of_r() {
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found} and {expected}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.04]), [0.04]);
    }

    proptest! {
        /// No value gets smaller, none exceeds Bonferroni's, and their order stays.
        #[test]
        fn it_lies_between_the_plain_value_and_bonferronis(
            p_values in proptest::collection::vec(0.0..=1.0f64, 1..20),
        ) {
            let adjusted = holm(&p_values);
            for (p, found) in p_values.iter().zip(&adjusted) {
                prop_assert!(found >= p && *found <= (p * p_values.len() as f64).min(1.0) + 1e-12);
            }
            for (one, p) in p_values.iter().enumerate() {
                for (other, q) in p_values.iter().enumerate() {
                    prop_assert!(p > q || adjusted[one] <= adjusted[other]);
                }
            }
        }
    }
}
