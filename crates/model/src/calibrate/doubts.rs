//! Why a model's predictions are not to be relied on: what its rows tell, and how far a
//! configuration is from them.

use std::fmt;

use krarup_stats::USUAL_LEVEL;
use krarup_stats::compare::{Direction, welch};
use krarup_units::Unit;
use serde::{Deserialize, Serialize};

use super::rows::{CalibrationResidual, CalibrationRow, LAW_TOLERANCE, check_rows};

/// What speaks against every prediction of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalibrationDoubt {
    /// A row's throughput is not known well enough.
    Uncertain {
        /// The row.
        place: String,
        /// Half its interval, relative.
        half_width: f64,
    },
    /// A row's throughput changed while it was measured.
    NotStationary {
        /// The row.
        place: String,
        /// Its second half over its first, less 1.
        drift: f64,
    },
    /// A row breaks a law that holds for every system.
    BrokenLaw {
        /// The row.
        place: String,
        /// The law.
        law: String,
    },
    /// The model, with all rows in view, is still far from one.
    Missed {
        /// The row.
        place: String,
        /// The larger of its errors of X and R.
        error: f64,
    },
    /// Rows of two sessions are off to different sides: the machines were not the same.
    Sessions {
        /// One.
        one: String,
        /// The other.
        other: String,
        /// How far the two are apart.
        difference: f64,
    },
}

/// What speaks against one prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredictionDoubt {
    /// Something that speaks against all of the calibration.
    Rows(CalibrationDoubt),
    /// The configuration lies farther outside of the measured range than any row that was left out
    /// and said well.
    TooFar {
        /// By what factor the clients or the usable workers leave the range.
        factor: f64,
        /// The factor that leaving rows out supports.
        supported: f64,
    },
    /// The interval of X or of R is so wide that the prediction says little.
    Wide {
        /// Upper end over lower end, of the wider one.
        ratio: f64,
    },
}

/// Half widths of X and drifts above this are reported.
const CERTAIN: f64 = 0.1;
/// A row that is missed by more than this, in X or R, with the row in view, is of another shape.
const MISSED: f64 = 0.2;
/// A row that was left out is said well where X and R are not off by more.
const WELL: f64 = 0.15;
/// Beyond what was tried, so much more is still no extrapolation.
const SLACK: f64 = 1.25;
/// An interval from half to twice the value tells little.
pub(super) const WIDE: f64 = 4.0;

/// What the rows of a calibration tell against it.
pub(super) fn calibration_doubts(
    rows: &[CalibrationRow],
    residuals: &[CalibrationResidual],
) -> Vec<CalibrationDoubt> {
    let mut doubts = Vec::new();
    for (row, residual) in rows.iter().zip(residuals) {
        let place = || row.place.clone();
        if let Some(half_width) = row.half_width.filter(|half_width| *half_width > CERTAIN) {
            doubts.push(CalibrationDoubt::Uncertain { place: place(), half_width });
        }
        if let Some(drift) = row.drift.filter(|drift| drift.abs() > CERTAIN) {
            doubts.push(CalibrationDoubt::NotStationary { place: place(), drift });
        }
        let error = residual.throughput.abs().max(residual.response.abs());
        if error > MISSED {
            doubts.push(CalibrationDoubt::Missed { place: place(), error });
        }
    }
    // Clocks of different machines may disagree by more than the tolerance of a report: only what
    // no clock explains speaks against the model.
    let broken = check_rows(rows, 3.0 * LAW_TOLERANCE).into_iter().filter(|check| !check.holds);
    doubts.extend(broken.map(|check| CalibrationDoubt::BrokenLaw { place: check.place, law: check.law }));
    doubts.extend(sessions_apart(rows, residuals));
    doubts
}

/// The two sessions whose rows are off to different sides by more than chance explains, and by more
/// than rows may.
fn sessions_apart(rows: &[CalibrationRow], residuals: &[CalibrationResidual]) -> Option<CalibrationDoubt> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.session.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let errors = |name: &str, of: fn((f64, f64)) -> f64| -> Vec<f64> {
        let of_session = rows.iter().zip(residuals).filter(|(row, _)| row.session == name);
        of_session.filter_map(|(_, residual)| residual.held_out.map(of)).collect()
    };
    for (place, one) in names.iter().enumerate() {
        for other in &names[place + 1..] {
            for of in [(|error| error.0) as fn((f64, f64)) -> f64, |error| error.1] {
                let Ok(found) = welch(&errors(one, of), &errors(other, of), USUAL_LEVEL) else { continue };
                let difference = found.difference.value.abs();
                if found.verdict != Direction::NoConclusion && difference > CERTAIN {
                    let [one, other] = [one, other].map(|name| (*name).to_owned());
                    return Some(CalibrationDoubt::Sessions { one, other, difference });
                }
            }
        }
    }
    None
}

/// By what factor, as a logarithm, a configuration leaves the range of rows: of the clients, or of
/// the workers that so many clients can use.
fn beyond<'a>(
    rows: &(impl Iterator<Item = &'a CalibrationRow> + Clone),
    population: u64,
    workers: u64,
) -> f64 {
    let outside = |value: u64, of: fn(&CalibrationRow) -> u64| {
        let least = rows.clone().map(of).min().unwrap_or(value) as f64;
        let most = rows.clone().map(of).max().unwrap_or(value) as f64;
        let value = value as f64;
        (least / value).ln().max((value / most).ln()).max(0.0)
    };
    outside(population, |row| row.population)
        .max(outside(workers.min(population), |row| row.workers.min(row.population)))
}

/// How far outside of the range rows that were left out were still said well: the farthest before
/// the first that was not.
fn supported(rows: &[CalibrationRow], residuals: &[CalibrationResidual]) -> f64 {
    let mut tried: Vec<(f64, bool)> = rows
        .iter()
        .zip(residuals)
        .enumerate()
        .map(|(out, (row, residual))| {
            let others = rows.iter().enumerate().filter(move |(place, _)| *place != out).map(|(_, row)| row);
            let well = residual.held_out.is_some_and(|(x, r)| x.abs().max(r.abs()) <= WELL);
            (beyond(&others, row.population, row.workers), well)
        })
        .collect();
    tried.sort_by(|one, other| one.0.total_cmp(&other.0));
    let far = tried.iter().filter(|(distance, _)| *distance > 0.0);
    far.take_while(|(_, well)| *well).map(|(distance, _)| *distance).last().unwrap_or(0.0)
}

/// What speaks against a prediction whose intervals have these ratios of upper to lower end.
pub(super) fn prediction_doubts(
    rows: &[CalibrationRow],
    residuals: &[CalibrationResidual],
    of_rows: &[CalibrationDoubt],
    (population, workers): (usize, usize),
    ratios: [f64; 2],
) -> Vec<PredictionDoubt> {
    let mut doubts: Vec<PredictionDoubt> = of_rows.iter().cloned().map(PredictionDoubt::Rows).collect();
    let distance = beyond(&rows.iter(), population as u64, workers as u64);
    let supported = supported(rows, residuals) + SLACK.ln();
    if distance > supported {
        doubts.push(PredictionDoubt::TooFar { factor: distance.exp(), supported: supported.exp() });
    }
    let ratio = ratios[0].max(ratios[1]);
    if ratio > WIDE {
        doubts.push(PredictionDoubt::Wide { ratio });
    }
    doubts
}

impl fmt::Display for CalibrationDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |value: f64| Unit::Share.show(value);
        match self {
            Self::Uncertain { place, half_width } => {
                write!(f, "{place} is known to ± {} only", share(*half_width))
            }
            Self::NotStationary { place, drift } => {
                let change = share(drift.abs());
                let way = if *drift > 0.0 { "rose" } else { "fell" };
                write!(f, "{place} is not stationary: throughput {way} by {change} between its halves")
            }
            Self::BrokenLaw { place, law } => write!(f, "{place} breaks a law ({law})"),
            Self::Missed { place, error } => {
                write!(f, "no form says {place}, which it was fitted to: {} off", share(*error))
            }
            Self::Sessions { one, other, difference } => {
                let apart = share(*difference);
                write!(f, "rows of `{one}` and of `{other}` are {apart} apart: the machines differed")
            }
        }
    }
}

impl fmt::Display for PredictionDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(doubt) => doubt.fmt(f),
            Self::TooFar { factor, supported } => write!(
                f,
                "{factor:.1} times beyond what was measured; rows left out support {supported:.1} times"
            ),
            Self::Wide { ratio } => write!(f, "the interval spans a factor of {ratio:.1}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of two pools, and how far each was off when it was left out.
    fn rows() -> (Vec<CalibrationRow>, Vec<CalibrationResidual>) {
        let rows: Vec<CalibrationRow> = [(4, 8), (24, 8), (96, 8), (24, 32), (96, 32), (192, 32)]
            .map(|(n, m)| CalibrationRow::measured(n, m, 1_000.0).with_times(2e-3, 0.0))
            .to_vec();
        let residual = |row: &CalibrationRow| CalibrationResidual {
            place: row.place.clone(),
            throughput: 0.01,
            response: -0.02,
            held_out: Some((0.02, -0.03)),
        };
        let residuals = rows.iter().map(residual).collect();
        (rows, residuals)
    }

    #[test]
    fn good_rows_raise_no_doubt_within_their_range() {
        let (rows, residuals) = rows();
        assert!(calibration_doubts(&rows, &residuals).is_empty());
        assert!(prediction_doubts(&rows, &residuals, &[], (48, 16), [1.3, 1.5]).is_empty());
        // The row with 4 clients was said well from those with 24 and more: so far is supported.
        assert!(prediction_doubts(&rows, &residuals, &[], (1_000, 32), [1.3, 1.5]).is_empty());
    }

    #[test]
    fn what_speaks_against_rows_is_told_with_the_row() {
        let (mut rows, mut residuals) = rows();
        rows[1].half_width = Some(0.14);
        rows[2].drift = Some(-0.3);
        rows[3].response = 60e-3;
        residuals[4].response = 0.4;
        let told: Vec<String> =
            calibration_doubts(&rows, &residuals).iter().map(ToString::to_string).collect();
        for word in
            ["± 14.0 %", "fell by 30.0 %", "N = 24, M = 32 breaks a law", "no form says N = 96, M = 32"]
        {
            assert!(told.iter().any(|said| said.contains(word)), "{word}: {told:?}");
        }
        let all = calibration_doubts(&rows, &residuals);
        assert!(!prediction_doubts(&rows, &residuals, &all, (48, 16), [1.3, 1.5]).is_empty());
    }

    #[test]
    fn sessions_that_are_off_to_different_sides_are_two_machines() {
        let (mut rows, mut residuals) = rows();
        for (place, (row, residual)) in rows.iter_mut().zip(&mut residuals).enumerate() {
            row.session = if place % 2 == 0 { "monday" } else { "friday" }.into();
            let side = if place % 2 == 0 { 0.2 } else { -0.2 };
            residual.held_out = Some((side + 0.01 * place as f64, 0.0));
        }
        let doubts = calibration_doubts(&rows, &residuals);
        assert!(
            matches!(&doubts[..], [CalibrationDoubt::Sessions { difference, .. }] if *difference > 0.3),
            "{doubts:?}"
        );
        residuals.iter_mut().for_each(|residual| residual.held_out = Some((0.02, 0.01)));
        assert!(calibration_doubts(&rows, &residuals).is_empty());
    }

    #[test]
    fn as_far_as_rows_left_out_were_said_and_no_farther() {
        let (rows, mut residuals) = rows();
        // The row with 4 clients was missed when it was left out.
        residuals[0].held_out = Some((0.5, 0.5));
        let doubts = prediction_doubts(&rows, &residuals, &[], (2_000, 32), [1.3, 1.5]);
        assert!(matches!(doubts[..], [PredictionDoubt::TooFar { .. }]), "{doubts:?}");
        let wide = prediction_doubts(&rows, &residuals, &[], (48, 16), [1.3, 5.0]);
        assert_eq!(wide, [PredictionDoubt::Wide { ratio: 5.0 }]);
    }
}
