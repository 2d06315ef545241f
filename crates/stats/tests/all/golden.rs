//! Our numbers against those of SciPy and statsmodels (`golden/scipy.json`, where each case says
//! how it was computed) and of R (data sets that come with R, whose printed results are well
//! known).

use krarup_stats::anova::{AnovaGroup, contrast, one_way};
use krarup_stats::autocorrelation::{autocorrelation, effective_size};
use krarup_stats::batch::fixed_batch_means;
use krarup_stats::compare::{MeanDifference, paired, welch};
use krarup_stats::factorial::TwoLevel;
use krarup_stats::fit::Fit;
use krarup_stats::full_factorial::{DesignFactor, full_factorial};
use krarup_stats::interval::{proportion, proportion_exact};
use krarup_stats::kolmogorov::{ks_test, ks_two_samples};
use krarup_stats::law::{Law, LawFamily};
use krarup_stats::steady::{WarmUp, mser, mser5, trend};
use krarup_stats::transform::choose_form;
use krarup_stats::usl::{Peak, Usl, UslCoefficient};
use krarup_stats::{Bootstrap, Estimate, Intercept, Interval, Ordered, Predictor, Regression, Summary};
use serde_json::Value;

/// One case of the golden file.
struct Case(Value);

impl Case {
    fn named(name: &str) -> Self {
        let mut all: Value = serde_json::from_str(include_str!("../golden/scipy.json")).expect("valid JSON");
        assert!(!all[name].is_null(), "no case `{name}`");
        Self(all[name].take())
    }

    fn inside(&self, name: &str) -> Self {
        Self(self.0[name].clone())
    }

    fn number(&self, name: &str) -> f64 {
        self.0[name].as_f64().unwrap_or_else(|| panic!("no number `{name}`"))
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        numbers(&self.0[name])
    }

    fn rows(&self, name: &str) -> Vec<Vec<f64>> {
        self.0[name].as_array().expect("a list of lists").iter().map(numbers).collect()
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|value| value.as_f64().expect("a number")).collect()
}

#[track_caller]
fn close(ours: f64, theirs: f64, relative: f64) {
    assert!((ours - theirs).abs() <= relative * theirs.abs().max(1e-9), "{ours} is not {theirs}");
}

#[track_caller]
fn all_close(ours: &[f64], theirs: &[f64], relative: f64) {
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours - theirs).abs() <= relative * theirs.abs().max(1.0), "{ours} is not {theirs}");
    }
}

#[track_caller]
fn estimate_close(ours: &Estimate, theirs: [f64; 3], relative: f64) {
    all_close(&[ours.value, ours.interval.low, ours.interval.high], &theirs, relative);
}

#[test]
fn means_and_spreads() {
    let case = Case::named("mean");
    let summary = Summary::of(&case.numbers("values")).unwrap();
    let mean = summary.mean_estimate(case.number("level")).unwrap();
    estimate_close(&mean, [case.number("mean"), case.number("low"), case.number("high")], 1e-12);
    close(summary.cov().unwrap(), case.number("cov"), 1e-12);
    let sd = summary.sd_estimate(case.number("level")).unwrap();
    estimate_close(&sd, [case.number("sd"), case.number("sd_low"), case.number("sd_high")], 1e-10);
}

#[test]
fn comparisons_of_two() {
    let check = |name: &str, compare: fn(&[f64], &[f64], f64) -> Result<MeanDifference, _>| {
        let case = Case::named(name);
        let result = compare(&case.numbers("base"), &case.numbers("other"), case.number("level")).unwrap();
        estimate_close(
            &result.difference,
            [case.number("difference"), case.number("low"), case.number("high")],
            1e-10,
        );
        close(result.p_value, case.number("p"), 1e-9);
        close(result.degrees, case.number("degrees"), 1e-12);
    };
    check("welch", welch);
    check("paired", paired);
}

#[test]
fn proportions() {
    for row in Case::named("proportions").rows("rows") {
        let wilson = proportion(row[0] as u64, row[1] as u64, row[2]).unwrap().interval;
        all_close(&[wilson.low, wilson.high], &row[3..5], 1e-10);
        let exact = proportion_exact(row[0] as u64, row[1] as u64, row[2]).unwrap().interval;
        // Above n = 10,000 the exact ends are approximations.
        all_close(&[exact.low, exact.high], &row[5..7], if row[1] > 1e4 { 1e-6 } else { 1e-9 });
    }
}

#[test]
fn quantiles_of_students_t() {
    for row in Case::named("t quantiles").rows("rows") {
        close(Interval::student(0.0, 1.0, row[1], row[0]).unwrap().high, row[2], 1e-9);
    }
}

#[test]
fn quantiles_of_a_sample() {
    let case = Case::named("quantiles");
    let sample = Ordered::new(case.numbers("values")).unwrap();
    for row in case.rows("rows") {
        let ours = sample.estimate(row[0], case.number("level")).unwrap();
        close(ours.value, row[1], 1e-12);
        assert_eq!([ours.interval.low, ours.interval.high], row[2..4]);
    }
}

#[test]
fn a_correlated_series() {
    let case = Case::named("series");
    let values = case.numbers("values");
    all_close(&autocorrelation(&values, 10).unwrap(), &case.numbers("acf"), 1e-12);
    let size = effective_size(&values).unwrap();
    close(size.time, case.number("time"), 1e-10);
    assert_eq!(size.lags as f64, case.number("lags"));
    let batches = fixed_batch_means(&values, case.number("batches") as usize, 0.95).unwrap();
    let theirs = [case.number("batch_mean"), case.number("batch_low"), case.number("batch_high")];
    estimate_close(&batches.estimate, theirs, 1e-11);
    close(batches.lag1, case.number("batch_lag1"), 1e-10);
}

#[test]
fn the_end_of_a_warm_up() {
    let case = Case::named("warm-up");
    let WarmUp::Ends { after, statistic, .. } = mser(&case.numbers("values")).unwrap() else { panic!() };
    assert_eq!(after as f64, case.number("mser"));
    close(statistic, case.number("statistic"), 1e-10);
    let WarmUp::Ends { after, .. } = mser5(&case.numbers("values")).unwrap() else { panic!() };
    assert_eq!(after as f64, case.number("mser5"));
}

#[test]
fn a_trend() {
    let case = Case::named("trend");
    let ours = trend(&case.numbers("values"), 0.95).unwrap();
    close(ours.tau, case.number("tau"), 1e-12);
    close(ours.p_value, case.number("p"), 1e-10);
    estimate_close(&ours.slope, [case.number("slope"), case.number("low"), case.number("high")], 1e-12);
}

/// Two bootstraps with different streams agree to what their numbers of resamples allow: about 1 %
/// of the width here.
#[test]
fn bootstrap_intervals() {
    let case = Case::named("bootstrap");
    let (values, level) = (case.numbers("values"), case.number("level"));
    let boot = Bootstrap { resamples: 20_000, seed: 1, level };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    for (ours, theirs) in [
        (boot.percentile(&values, mean).unwrap(), case.numbers("percentile")),
        (boot.bca(&values, mean).unwrap(), case.numbers("bca")),
    ] {
        let tolerance = 0.03 * (theirs[1] - theirs[0]);
        assert!((ours.interval.low - theirs[0]).abs() < tolerance, "{ours:.4} {theirs:?}");
        assert!((ours.interval.high - theirs[1]).abs() < tolerance, "{ours:.4} {theirs:?}");
    }
}

#[test]
fn multiple_regression_with_and_without_intercept() {
    let case = Case::named("regression");
    let columns = ["x1", "x2"].map(|name| Predictor::new(name, &case.numbers(name)));
    for (intercept, name) in [(Intercept::Fitted, "constant"), (Intercept::Zero, "origin")] {
        let ours = Regression::fit(&columns, intercept, &case.numbers("y"), 0.95).unwrap();
        let theirs = case.inside(name);
        let of = |take: fn(&krarup_stats::regression::Coefficient) -> f64| -> Vec<f64> {
            ours.coefficients.iter().map(take).collect()
        };
        all_close(&of(|c| c.estimate.value), &theirs.numbers("params"), 1e-11);
        all_close(&of(|c| c.standard_error), &theirs.numbers("se"), 1e-11);
        all_close(&of(|c| c.estimate.interval.low), &theirs.numbers("low"), 1e-10);
        all_close(&of(|c| c.estimate.interval.high), &theirs.numbers("high"), 1e-10);
        for (ours, theirs) in of(|c| c.p_value).iter().zip(theirs.numbers("p")) {
            close(*ours, theirs, 1e-7);
        }
        close(ours.r_squared, theirs.number("r_squared"), 1e-12);
        close(ours.adjusted_r_squared, theirs.number("adjusted"), 1e-12);
        close(ours.residual_sd, theirs.number("sd"), 1e-11);
        close(ours.error_squares, theirs.number("error_squares"), 1e-11);
        close(ours.durbin_watson.unwrap(), theirs.number("durbin_watson"), 1e-10);
        let f = ours.f_test.unwrap();
        close(f.f, theirs.number("f"), 1e-10);
        close(f.p_value, theirs.number("f_p"), 1e-6);
        all_close(&ours.leverage, &theirs.numbers("leverage"), 1e-11);
        all_close(&ours.studentized().unwrap(), &theirs.numbers("studentized"), 1e-9);
        let at = ours.predict(&case.numbers("at")).unwrap();
        let predicted = [at.value, at.mean.low, at.mean.high, at.observation.low, at.observation.high];
        all_close(&predicted, &theirs.numbers("predicted"), 1e-10);
    }
}

#[test]
fn a_two_level_design_is_a_regression_on_its_signs() {
    let case = Case::named("two-level");
    let ours = TwoLevel::new(&["A", "B", "C"], case.rows("cells")).unwrap().effects(0.9).unwrap();
    let estimates: Vec<Estimate> =
        std::iter::once(ours.mean).chain(ours.effects.iter().map(|effect| effect.estimate)).collect();
    for (j, estimate) in estimates.iter().enumerate() {
        let theirs = ["effects", "low", "high"].map(|name| case.numbers(name)[j]);
        estimate_close(estimate, theirs, 1e-11);
    }
    let shares: Vec<f64> = ours.effects.iter().map(|effect| effect.share).collect();
    all_close(&shares, &case.numbers("share"), 1e-11);
    close(ours.error_squares, case.number("error_squares"), 1e-11);
    close(ours.error_sd, case.number("error_sd"), 1e-11);
}

#[test]
fn the_power_of_a_transformation() {
    let design = TwoLevel::new(&["A", "B", "C"], Case::named("two-level").rows("cells")).unwrap();
    let case = Case::named("power");
    let ours = choose_form(&design, 0.9).unwrap();
    all_close(
        &[ours.power.value, ours.power.interval.low, ours.power.interval.high],
        &["power", "low", "high"].map(|name| case.number(name)),
        1e-5,
    );
    close(ours.additive.log_likelihood - ours.multiplicative.log_likelihood, case.number("difference"), 1e-9);
}

#[test]
fn one_factor() {
    let case = Case::named("one-way");
    let groups: Vec<AnovaGroup> = case
        .rows("groups")
        .into_iter()
        .zip(["a", "b", "c"])
        .map(|(values, name)| AnovaGroup { name: name.into(), values })
        .collect();
    let ours = one_way("factor", &groups, 0.95).unwrap();
    let f = ours.sources[0].f_test.unwrap();
    close(f.f, case.number("f"), 1e-11);
    close(f.p_value, case.number("p"), 1e-9);
    close(ours.error_squares, case.number("error_squares"), 1e-11);
    let theirs = case.numbers("contrast");
    estimate_close(&contrast(&groups, "a", "b", 0.95).unwrap(), [theirs[0], theirs[1], theirs[2]], 1e-10);
}

#[test]
fn three_factors_with_repetitions() {
    let case = Case::named("full factorial");
    let factors = [
        DesignFactor::new("a", &["0", "1", "2"]),
        DesignFactor::new("b", &["0", "1"]),
        DesignFactor::new("c", &["0", "1", "2"]),
    ];
    let ours = full_factorial(&factors, &case.rows("cells"), 0.95).unwrap();
    assert_eq!(ours.sources.len(), 7);
    for (j, source) in ours.sources.iter().enumerate() {
        close(source.squares, case.numbers("squares")[j], 1e-9);
        assert_eq!(source.degrees, case.numbers("degrees")[j]);
        close(source.f_test.unwrap().f, case.numbers("f")[j], 1e-9);
        close(source.f_test.unwrap().p_value, case.numbers("p")[j], 1e-7);
    }
    close(ours.error_squares, case.number("error_squares"), 1e-10);
    let find = |source: &str, level: &str| {
        ours.effects.iter().find(|effect| effect.source == source && effect.level == level).unwrap().estimate
    };
    for (level, theirs) in ["0", "1"].iter().zip(case.rows("a")) {
        estimate_close(&find("a", level), [theirs[0], theirs[1], theirs[2]], 1e-9);
    }
    let theirs = &case.rows("ab")[0];
    estimate_close(&find("a × b", "0 × 0"), [theirs[0], theirs[1], theirs[2]], 1e-9);
}

#[test]
fn laws_fitted_by_maximum_likelihood() {
    let case = Case::named("fits");
    for family in LawFamily::ALL {
        let theirs = case.inside(&family.to_string());
        let ours = Fit::of(family, &case.numbers("values"), 0.95).unwrap();
        for (j, (_, estimate)) in ours.parameters.iter().enumerate() {
            close(estimate.value, theirs.numbers("params")[j], 1e-8);
            all_close(&[estimate.interval.low, estimate.interval.high], &theirs.rows("intervals")[j], 1e-8);
        }
        close(ours.log_likelihood, theirs.number("log_likelihood"), 1e-9);
        close(ours.aic, 2.0 * ours.law.parameters() as f64 - 2.0 * theirs.number("log_likelihood"), 1e-9);
        close(ours.ks.statistic, theirs.number("d"), 1e-8);
        assert!(
            (ours.ks.p_value - theirs.number("p")).abs() < 0.02,
            "{} {}",
            ours.ks.p_value,
            theirs.number("p")
        );
    }
}

#[test]
fn kolmogorov_and_smirnov() {
    let case = Case::named("ks");
    let (left, right) = (case.numbers("left"), case.numbers("right"));
    let two = ks_two_samples(&left, &right).unwrap();
    close(two.statistic, case.number("d"), 1e-12);
    assert!((two.p_value - case.number("p")).abs() < 0.02, "{} {}", two.p_value, case.number("p"));
    // The lognormal law of exp(x) is the normal law of x.
    let exponentials: Vec<f64> = left.iter().map(|x| x.exp()).collect();
    let standard = Law::LogNormal { mu: 0.0, sigma: 1.0 };
    let one = ks_test(&exponentials, |x| standard.cdf(x)).unwrap();
    close(one.statistic, case.number("normal_d"), 1e-9);
    assert!((one.p_value - case.number("normal_p")).abs() < 0.01);
}

#[test]
fn the_scalability_law() {
    let case = Case::named("usl");
    let ours = Usl::fit(&case.numbers("loads"), &case.numbers("throughputs"), 0.95).unwrap();
    let (UslCoefficient::Fitted(sigma), UslCoefficient::Fitted(kappa)) = (ours.sigma, ours.kappa) else {
        panic!()
    };
    for (j, estimate) in [ours.lambda, sigma, kappa].iter().enumerate() {
        for (value, name) in
            [(estimate.value, "params"), (estimate.interval.low, "low"), (estimate.interval.high, "high")]
        {
            close(value, case.numbers(name)[j], 1e-5);
        }
    }
    let Peak::At { load, .. } = ours.peak else { panic!() };
    let theirs = case.numbers("peak");
    estimate_close(&load, [theirs[0], theirs[1], theirs[2]], 1e-5);
}

/// R: `t.test(extra ~ group, data = sleep)` and the same with `paired = TRUE`.
#[test]
fn r_on_sleep() {
    let drug1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    let drug2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
    let ours = welch(&drug2, &drug1, 0.95).unwrap();
    estimate_close(&ours.difference, [-1.58, -3.365_483_2, 0.205_483_2], 1e-7);
    assert!((ours.degrees - 17.776).abs() < 5e-4 && (ours.p_value - 0.079_39).abs() < 5e-6);
    let ours = paired(&drug2, &drug1, 0.95).unwrap();
    estimate_close(&ours.difference, [-1.58, -2.459_885_8, -0.700_114_2], 1e-7);
    assert!((ours.p_value - 0.002_833).abs() < 5e-7);
}

/// R: `summary(lm(dist ~ speed, data = cars))`.
#[test]
fn r_on_cars() {
    let speed = [
        4, 4, 7, 7, 8, 9, 10, 10, 10, 11, 11, 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 16,
        16, 17, 17, 17, 18, 18, 18, 18, 19, 19, 19, 20, 20, 20, 20, 20, 22, 23, 24, 24, 24, 24, 25,
    ];
    let distance = [
        2, 10, 4, 22, 16, 10, 18, 26, 34, 17, 28, 14, 20, 24, 28, 26, 34, 34, 46, 26, 36, 60, 80, 20, 26, 54,
        32, 40, 32, 40, 50, 42, 56, 76, 84, 36, 46, 68, 32, 48, 52, 56, 64, 66, 54, 70, 92, 93, 120, 85,
    ];
    let line = Regression::line(&speed.map(f64::from), &distance.map(f64::from), 0.95).unwrap();
    let [intercept, slope] = &line.coefficients[..] else { panic!() };
    assert!(
        (intercept.estimate.value - -17.5791).abs() < 5e-5
            && (intercept.standard_error - 6.7584).abs() < 5e-5
    );
    assert!((slope.estimate.value - 3.9324).abs() < 5e-5 && (slope.standard_error - 0.4155).abs() < 5e-5);
    assert!((intercept.p_value - 0.0123).abs() < 5e-5 && (slope.p_value - 1.49e-12).abs() < 5e-15);
    assert!((line.residual_sd - 15.38).abs() < 5e-3 && line.degrees == 48.0);
    assert!((line.r_squared - 0.6511).abs() < 5e-5 && (line.adjusted_r_squared - 0.6438).abs() < 5e-5);
    assert!((line.f_test.unwrap().f - 89.57).abs() < 5e-3);
}

/// R: `summary(aov(weight ~ group, data = PlantGrowth))`.
#[test]
fn r_on_plant_growth() {
    let group = |name: &str, values: [f64; 10]| AnovaGroup { name: name.into(), values: values.to_vec() };
    let groups = [
        group("ctrl", [4.17, 5.58, 5.18, 6.11, 4.50, 4.61, 5.17, 4.53, 5.33, 5.14]),
        group("trt1", [4.81, 4.17, 4.41, 3.59, 5.87, 3.83, 6.03, 4.89, 4.32, 4.69]),
        group("trt2", [6.31, 5.12, 5.54, 5.50, 5.37, 5.29, 4.92, 6.15, 5.80, 5.26]),
    ];
    let ours = one_way("group", &groups, 0.95).unwrap();
    let source = ours.source("group").unwrap();
    assert!((source.squares - 3.766).abs() < 5e-4 && (ours.error_squares - 10.492).abs() < 5e-4);
    assert_eq!((source.degrees, ours.degrees), (2.0, 27.0));
    let f = source.f_test.unwrap();
    assert!((f.f - 4.846).abs() < 5e-4 && (f.p_value - 0.0159).abs() < 5e-5);
}
