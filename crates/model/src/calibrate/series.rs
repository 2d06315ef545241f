//! Rows from what a monitoring keeps of any service: rate, requests in flight, mean response time.
//!
//! The service is taken as one place in which n requests are: how long one takes, T(n), is what
//! its series show, whatever sent them. So a row has as many clients as requests are in flight, as
//! many workers, and no time outside. By Little's law rate × response time are in flight: that
//! holds for the very requests that are timed, and the number that the service says is only set
//! beside it. Points near a whole number n make the row of n, by a line of ln R on ln n through
//! them, with X = n/R.

use krarup_stats::{Interval, Regression, USUAL_LEVEL};

use super::rows::CalibrationRow;
use crate::Error;
use crate::headroom::{SeriesPoint, SeriesSilence};
use crate::laws::little;

/// Points that far from a number in flight, as a factor, belong to it.
const NEAR: f64 = 1.2;
/// So many of them make a row.
const FEWEST: usize = 4;
/// Rows from which a model can be made.
const ROWS: usize = 3;
/// By this factor the number in flight may differ from rate × response time: gauges are read at
/// moments, and some requests are counted while they are not timed.
const LITTLE: f64 = 1.28;

/// A row for each number in flight that was seen often enough, rising by factors of about 1.4.
///
/// # Errors
/// [`Error::Measurements`] where the three are not of the same requests, or too few different
/// numbers were in flight.
pub fn series_rows(points: &[SeriesPoint]) -> Result<Vec<CalibrationRow>, Error> {
    let numbers = |point: &&SeriesPoint| {
        [point.rate, point.in_flight, point.response].iter().all(|value| value.is_finite() && *value > 0.0)
    };
    let known: Vec<&SeriesPoint> = points.iter().filter(numbers).collect();
    let wrong = |what: String, hint: &str| Err(Error::Measurements { what, hint: hint.into() });
    let there: f64 = known.iter().map(|point| point.in_flight).sum();
    let by_law: f64 = known.iter().map(|point| in_flight(point)).sum();
    if !known.is_empty() && (there / by_law).ln().abs() > LITTLE.ln() {
        return wrong(
            format!("requests in flight are {:.2} times rate × response time", there / by_law),
            SeriesSilence::LittlesLawBroken.text(),
        );
    }
    let most = known.iter().map(|point| in_flight(point)).fold(0.0, f64::max);
    let rows: Vec<CalibrationRow> = levels(most).into_iter().filter_map(|n| row(&known, n)).collect();
    if rows.len() < ROWS {
        return wrong(
            format!("{} numbers of requests in flight were seen often enough, at most {most:.1}", rows.len()),
            "a model needs three from 1 up, each in four steps at least: look at a longer time with quiet and busy hours; \
             krarup headroom --prometheus says where a service with few in flight ends",
        );
    }
    Ok(rows)
}

/// By Little's law, of the requests that are timed.
fn in_flight(point: &SeriesPoint) -> f64 {
    little(point.rate, point.response)
}

/// Whole numbers up to `most`, by factors of about 1.4: 1, 2, 3, 4, 6, 8, 12, …
fn levels(most: f64) -> Vec<u64> {
    let powers = (0..52).map(|power| 1_u64 << power);
    let all = powers.flat_map(|power| [power, power + power / 2]).skip(2);
    let mut levels: Vec<u64> =
        std::iter::once(1).chain(all).take_while(|n| *n as f64 <= most * NEAR).collect();
    levels.dedup();
    levels
}

/// The row of so many in flight.
fn row(points: &[&SeriesPoint], number: u64) -> Option<CalibrationRow> {
    let n = number as f64;
    let near = |point: &&&SeriesPoint| (in_flight(point) / n).ln().abs() <= NEAR.ln();
    let near: Vec<&&SeriesPoint> = points.iter().filter(near).collect();
    if near.len() < FEWEST {
        return None;
    }
    let away: Vec<f64> = near.iter().map(|point| (in_flight(point) / n).ln()).collect();
    let responses: Vec<f64> = near.iter().map(|point| point.response.ln()).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let line = Regression::line(&away, &responses, USUAL_LEVEL).ok();
    let fitted = line.as_ref().map_or(0.5, |line| line.coefficients[1].estimate.value);
    // More requests make each take no less time, and no more than all of them by turns.
    let slope = fitted.clamp(0.0, 1.0);
    let at: Vec<f64> = responses.iter().zip(&away).map(|(response, away)| response - slope * away).collect();
    let response = mean(&at).exp();
    // A slope that was fitted is not known: the line's own interval has that.
    let by_line = line.filter(|_| (0.0..=1.0).contains(&fitted)).and_then(|line| line.predict(&[0.0]).ok());
    let of_mean = || {
        let spread = mean(&at.iter().map(|value| (value - mean(&at)).powi(2)).collect::<Vec<_>>());
        let error = (spread / (at.len() - 1) as f64).sqrt();
        Interval::student(0.0, error, (at.len() - 1) as f64, USUAL_LEVEL).ok()
    };
    let half_width = by_line.map(|said| said.mean).or_else(of_mean).map(|found| found.half_width());
    // R of the earlier half over that of the later: how X changed at the same number in flight.
    let (earlier, later) = at.split_at(at.len() / 2);
    let drift = (at.len() >= 2 * FEWEST).then(|| (mean(earlier) - mean(later)).exp_m1());
    Some(CalibrationRow {
        place: format!("{number} in flight"),
        half_width,
        drift,
        ..CalibrationRow::measured(number, number, n / response).with_times(response, 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::calibrate;
    use crate::station::mmm;

    /// Four servers that serve 1,000 per second together, behind a delay of 2 ms: a day of steps.
    fn day() -> Vec<SeriesPoint> {
        let point = |step: u32| {
            let rate = 640.0 - 340.0 * (f64::from(step) / 40.0).cos();
            let noise = 1.02_f64.powi(1 - 2 * (step.wrapping_mul(2_654_435_769) >> 31) as i32);
            let response = noise * (2e-3 + mmm(rate, 4e-3, 4).unwrap().response);
            SeriesPoint { at: 60.0 * f64::from(step), rate, in_flight: rate * response, response }
        };
        (0..500).map(point).collect()
    }

    #[test]
    fn a_service_is_predicted_at_numbers_in_flight_that_were_seen_and_its_limit_told() {
        let rows = series_rows(&day()).unwrap();
        let seen: Vec<u64> = rows.iter().map(|row| row.population).collect();
        assert!(seen.starts_with(&[2, 3, 4, 6, 8]), "{seen:?}");
        assert!(rows.iter().all(|row| row.half_width.unwrap() < 0.05), "{rows:?}");
        let calibration = calibrate(&rows, None).unwrap();
        for rate in [500.0, 800.0, 900.0] {
            let response = 2e-3 + mmm(rate, 4e-3, 4).unwrap().response;
            let n = (rate * response).round() as usize;
            let said = calibration.predict(n, n).unwrap().throughput.value;
            // The number in flight is whole, and the rate follows it.
            assert!(
                (said / rate * (rate * response / n as f64).powf(0.5) - 1.0).abs() < 0.06,
                "{said} {rate}"
            );
        }
        let far = calibration.predict(200, 200).unwrap();
        assert!((850.0..1_150.0).contains(&far.throughput.value), "{far:?}");
    }

    #[test]
    fn a_row_is_known_no_better_than_the_line_through_its_points() {
        let (away, off) = ([0.9_f64, 0.97, 1.03, 1.1].map(f64::ln), [0.01, -0.02, 0.015, -0.005]);
        let responses = [0, 1, 2, 3].map(|place| 1e-3_f64.ln() + 0.5 * away[place] + off[place]);
        let points = [0, 1, 2, 3].map(|place| {
            let (in_flight, response) = (8.0 * away[place].exp(), responses[place].exp());
            SeriesPoint { at: place as f64, rate: in_flight / response, in_flight, response }
        });
        let found = row(&points.each_ref(), 8).unwrap().half_width.unwrap();
        let line = Regression::line(&away, &responses, USUAL_LEVEL).unwrap();
        assert!((0.0..1.0).contains(&line.coefficients[1].estimate.value), "{:?}", line.coefficients);
        let expected = line.predict(&[0.0]).unwrap().mean.half_width();
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
    }

    #[test]
    fn series_of_different_things_and_of_few_requests_are_refused() {
        let mut other = day();
        other.iter_mut().for_each(|point| point.in_flight *= 1.1);
        assert_eq!(series_rows(&other).unwrap(), series_rows(&day()).unwrap());
        other.iter_mut().for_each(|point| point.in_flight *= 2.0 / 1.1);
        let error = series_rows(&other).unwrap_err();
        assert!(error.to_string().contains("2.00 times rate"), "{error}");
        let mut quiet = day();
        quiet.retain(|point| in_flight(point) < 2.5);
        let error = series_rows(&quiet).unwrap_err();
        assert!(
            error.to_string().contains("at most 2.") && error.hint().unwrap().contains("headroom"),
            "{error}"
        );
        assert!(series_rows(&[]).is_err());
    }

    #[test]
    fn a_service_that_became_slower_is_not_stationary() {
        let mut changed = day();
        for point in changed.iter_mut().skip(250) {
            point.response *= 1.5;
            point.in_flight *= 1.5;
        }
        let rows = series_rows(&changed).unwrap();
        assert!(rows.iter().any(|row| row.drift.is_some_and(|drift| drift < -0.1)), "{rows:?}");
        let calibration = calibrate(&rows, None).unwrap();
        assert!(
            calibration.doubts.iter().any(|doubt| doubt.to_string().contains("stationary")),
            "{:?}",
            calibration.doubts
        );
    }
}
