//! Whether what was cut off at a run's beginning was enough: by the spread of its windows, and by
//! their trend.

use krarup_stats::steady::{Drift, WarmUp, mser, trend};
use krarup_stats::{Interval, Summary};
use krarup_units::Seconds;

use crate::trial::Trial;
use crate::warning::Warning;

/// Windows that the rule may leave out without a word, as a share of all: it leaves out a few of
/// any steady series.
const FEW: f64 = 0.2;
/// The level of the tests: with hundreds of runs, one in a hundred is told by chance.
const LEVEL: f64 = 0.99;
/// A trend by less than this share of the mean over the whole run does no harm.
const HARMLESS: f64 = 0.05;

/// What the windows of a run say about its beginning and its course. Runs of fewer than ten windows
/// say nothing.
pub fn check(trial: &Trial) -> Vec<Warning> {
    let windows = &trial.client.windows;
    let rates: Vec<f64> = windows.iter().map(|window| window.completed as f64 / window.length).collect();
    of_rates(&rates, trial.length / windows.len().max(1) as f64)
}

/// The same of the rates of windows of one length.
pub fn of_rates(rates: &[f64], window: Seconds) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let left = |windows: usize| Warning::WarmUpLeft {
        seconds: windows as f64 * window,
        of: rates.len() as f64 * window,
    };
    match mser(rates) {
        Ok(WarmUp::Ends { after, .. })
            if after as f64 > FEW * rates.len() as f64 && is_apart(rates, after) =>
        {
            warnings.push(left(after));
        }
        Ok(WarmUp::NotOver { .. }) if is_apart(rates, rates.len() / 2) => {
            warnings.push(left(rates.len() / 2));
        }
        _ => {}
    }
    if let Ok(found) = trend(rates, LEVEL)
        && found.drift != Drift::NotShown
    {
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let share = found.slope.value * (rates.len() - 1) as f64 / mean;
        if share.abs() > HARMLESS {
            warnings.push(Warning::Drifts { share, p_value: found.p_value });
        }
    }
    warnings
}

/// Whether what would be cut off differs from the rest by enough to matter, and by more than chance
/// explains: by the spread of the rest, as a beginning that rises has a wider one of its own.
fn is_apart(rates: &[f64], cut: usize) -> bool {
    let (before, after) = rates.split_at(cut);
    let (Ok(before), Ok(after)) = (Summary::of(before), Summary::of(after)) else { return false };
    let Ok(spread) = after.sd() else { return false };
    let error = spread * (1.0 / before.n as f64 + 1.0 / after.n as f64).sqrt();
    let chance = Interval::student(0.0, error, (after.n - 1) as f64, LEVEL);
    let is_beyond = chance.is_ok_and(|chance| !chance.contains(before.mean - after.mean));
    is_beyond && (before.mean / after.mean - 1.0).abs() > HARMLESS
}

#[cfg(test)]
mod tests {
    use krarup_record::scaled::ScaledTestbed;

    use super::*;
    use crate::results::Environment;
    use crate::sweep::summarise;
    use crate::sweep::tests::steady_trial;
    use crate::trial::ClientWindow;

    fn run(rates: &[f64]) -> Trial {
        let window = |(start, rate): (usize, &f64)| ClientWindow {
            start: start as f64,
            length: 1.0,
            completed: *rate as u64,
            response: Some(0.001),
        };
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.length = rates.len() as f64;
        trial.client.windows = rates.iter().enumerate().map(window).collect();
        trial
    }

    fn noise(number: u32) -> f64 {
        f64::from(number * 37 % 11) * 10.0
    }

    #[test]
    fn a_steady_run_is_steady() {
        assert_eq!(check(&run(&(0..30).map(|second| 1_000.0 + noise(second)).collect::<Vec<_>>())), []);
        assert_eq!(check(&run(&[1_000.0; 5])), []);
        assert_eq!(check(&run(&[1_000.0; 30])), []);
    }

    /// Some 22 requests a second, independent of each other. The rule would leave out the first
    /// three windows, whose mean is lower by a seventh.
    #[test]
    fn what_chance_makes_of_few_requests_is_no_warm_up() {
        let rates = [14.0, 30.0, 15.0, 26.0, 21.0, 25.0, 17.0, 23.0, 21.0, 27.0];
        assert!(matches!(mser(&rates), Ok(WarmUp::Ends { after: 3, .. })), "{:?}", mser(&rates));
        assert_eq!(check(&run(&rates)), []);
        // The same beginning, and a rest that is as good as steady.
        let rates = [14.0, 30.0, 15.0, 26.0, 26.0, 25.0, 26.0, 25.0, 26.0, 26.0];
        assert!(matches!(check(&run(&rates))[..], [Warning::WarmUpLeft { .. }]), "{:?}", check(&run(&rates)));
    }

    #[test]
    fn a_beginning_that_was_not_cut_off_is_found() {
        let rates: Vec<f64> =
            (0..40).map(|second| if second < 12 { 300.0 } else { 1_000.0 } + noise(second)).collect();
        let warnings = check(&run(&rates));
        assert!(
            matches!(warnings[0], Warning::WarmUpLeft { seconds, of } if seconds == 12.0 && of == 40.0),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_warm_up_is_as_long_as_it_was_on_a_scaled_testbed() {
        let rates: Vec<f64> =
            (0..30).map(|second| if second < 12 { 300.0 } else { 1_000.0 } + noise(second)).collect();
        let trial = run(&rates).scaled_back(11.0);
        let mut results = summarise("test", Environment::default(), &[trial]).unwrap();
        results.scaled_by(ScaledTestbed { by: 11.0, stations: Vec::new(), baselines: Vec::new() });
        let said: Vec<String> = results.concerns.iter().map(|one| one.warning.to_string()).collect();
        assert!(said.iter().any(|text| text.starts_with("The first 12.0 s of 30.0 s are ")), "{said:?}");
    }

    #[test]
    fn a_run_that_slows_down_all_the_time_is_reported() {
        let rates: Vec<f64> =
            (0..40).map(|second| 2_000.0 - 20.0 * f64::from(second) + noise(second)).collect();
        let warnings = check(&run(&rates));
        let drifts = warnings.iter().find_map(|warning| match warning {
            Warning::Drifts { share, .. } => Some(*share),
            _ => None,
        });
        assert!((-0.55..-0.4).contains(&drifts.unwrap()), "{warnings:?}");
    }
}
