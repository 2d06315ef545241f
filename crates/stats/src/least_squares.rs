//! Linear least squares by Householder reflections, the safe way to fit: XᵀX is never formed.
//!
//! Own code rather than a matrix library: one factorization is all that is needed here, and a
//! library would cost more build seconds than the rest of the crate.

/// A column that is less than this share of itself away from the span of the columns before it
/// counts as dependent.
const INDEPENDENT: f64 = 1e-10;

/// The solution of min |y − Xβ|, and what its uncertainty needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LeastSquares {
    /// β, one per column.
    pub(crate) coefficients: Vec<f64>,
    /// R of X = QR, by columns: `r[j]` holds rows 0..=j.
    r: Vec<Vec<f64>>,
}

/// Solves for as many coefficients as there are columns. All columns and `y` are finite and of one
/// length, which is at least the number of columns.
///
/// # Errors
/// The index of the first column that depends on those before it.
pub(crate) fn solve(columns: &[Vec<f64>], y: &[f64]) -> Result<LeastSquares, usize> {
    let mut columns = columns.to_vec();
    let mut y = y.to_vec();
    let mut r: Vec<Vec<f64>> = Vec::with_capacity(columns.len());
    for j in 0..columns.len() {
        let (done, rest) = columns.split_at_mut(j + 1);
        let column = &mut done[j];
        let whole = norm(column);
        let below = norm(&column[j..]);
        if below <= INDEPENDENT * whole {
            return Err(j);
        }
        // The reflection that turns column[j..] into (diagonal, 0, …); the sign that adds avoids
        // cancellation.
        let diagonal = -below.copysign(column[j]);
        let mut top: Vec<f64> = column[..j].to_vec();
        top.push(diagonal);
        r.push(top);
        column[j] -= diagonal;
        let mirror = &column[j..];
        let squares = norm(mirror);
        let unit: Vec<f64> = mirror.iter().map(|value| value / squares).collect();
        for other in rest.iter_mut() {
            reflect(&unit, &mut other[j..]);
        }
        reflect(&unit, &mut y[j..]);
    }
    let mut coefficients = vec![0.0; r.len()];
    for j in (0..r.len()).rev() {
        let known: f64 = (j + 1..r.len()).map(|k| r[k][j] * coefficients[k]).sum();
        coefficients[j] = (y[j] - known) / r[j][j];
    }
    Ok(LeastSquares { coefficients, r })
}

impl LeastSquares {
    /// gᵀ (XᵀX)⁻¹ g: times σ², the variance of gᵀβ; for a row of X, its leverage.
    pub(crate) fn spread(&self, g: &[f64]) -> f64 {
        // z solves Rᵀ z = g; then the spread is |z|².
        let mut z: Vec<f64> = Vec::with_capacity(g.len());
        for (column, value) in self.r.iter().zip(g) {
            let known: f64 = z.iter().zip(column).map(|(z, r)| z * r).sum();
            z.push((value - known) / column[z.len()]);
        }
        z.iter().map(|z| z * z).sum()
    }

    /// The spread of one coefficient.
    pub(crate) fn spread_of(&self, coefficient: usize) -> f64 {
        let mut unit = vec![0.0; self.r.len()];
        unit[coefficient] = 1.0;
        self.spread(&unit)
    }
}

/// Euclidean length, without overflow or underflow on the way.
fn norm(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    largest * values.iter().map(|value| (value / largest).powi(2)).sum::<f64>().sqrt()
}

fn reflect(unit: &[f64], values: &mut [f64]) {
    let along: f64 = unit.iter().zip(values.iter()).map(|(unit, value)| unit * value).sum();
    for (value, unit) in values.iter_mut().zip(unit) {
        *value -= 2.0 * along * unit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_column_twice_is_found_by_its_place() {
        let column = vec![1.0, 2.0, 4.0];
        assert_eq!(solve(&[vec![1.0; 3], column.clone(), column], &[1.0, 2.0, 3.0]).unwrap_err(), 2);
        assert_eq!(solve(&[vec![0.0; 3]], &[1.0, 2.0, 3.0]).unwrap_err(), 0);
    }

    proptest! {
        #[test]
        fn residuals_stand_at_right_angles_to_every_column(
            rows in proptest::collection::vec((-10.0..10.0f64, -10.0..10.0f64, -10.0..10.0f64), 4..30),
        ) {
            let x: Vec<f64> = rows.iter().map(|row| row.0).collect();
            let z: Vec<f64> = rows.iter().map(|row| row.1).collect();
            let y: Vec<f64> = rows.iter().map(|row| row.2).collect();
            let columns = [vec![1.0; x.len()], x, z];
            if let Ok(solution) = solve(&columns, &y) {
                let residuals: Vec<f64> = (0..y.len())
                    .map(|i| y[i] - (0..3).map(|j| columns[j][i] * solution.coefficients[j]).sum::<f64>())
                    .collect();
                for column in &columns {
                    let dot: f64 = column.iter().zip(&residuals).map(|(x, e)| x * e).sum();
                    prop_assert!(dot.abs() < 1e-7 * (1.0 + norm(column) * norm(&y)), "{}", dot);
                }
                let total: f64 = (0..y.len())
                    .map(|i| solution.spread(&[1.0, columns[1][i], columns[2][i]]))
                    .sum();
                prop_assert!((total - 3.0).abs() < 1e-6, "leverages sum to the number of coefficients: {}", total);
            }
        }
    }
}
