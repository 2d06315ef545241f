//! Published tables, computed again from what was printed. `docs/concepts/statistics.md` quotes
//! these numbers.

use krarup_stats::compare::{Direction, paired, welch};
use krarup_stats::effects::{Effects, KnownError, means_from_effects, recover};
use krarup_stats::factorial::{Term, TwoLevel};
use krarup_stats::usl::{Peak, Usl, UslCoefficient};

const FACTORS: [&str; 3] = ["A", "B", "C"];

/// Rows of a transcribed table without its comments and its header; each row split at its commas.
fn rows(table: &'static str) -> Vec<Vec<&'static str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.skip(1).map(|line| line.split(',').collect()).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is not a number"))
}

/// The value is the printed one to its last digit. `slack` 0: rounded; 0.5: rounded or cut off, as
/// the 2016 models do (11283.575 is printed 11283.5); in units of the last digit.
fn printed(value: f64, text: &str, slack: f64) {
    let decimals = text.split('.').nth(1).map_or(0, str::len);
    let unit = 0.1f64.powi(decimals as i32);
    assert!((value - number(text)).abs() <= (0.5 + slack) * unit + 1e-9, "{value} is not the printed {text}");
}

/// The 2016 models, tables 5 to 7: 2^3 design, r = 5, throughput in operations per second.
fn means_of_2016() -> Vec<f64> {
    let mut means = vec![0.0; 8];
    for row in rows(include_str!("../data/2016-models-table-5.csv")) {
        let cell: usize = (0..3).map(|factor| usize::from(row[factor] == "1") << factor).sum();
        means[cell] = number(row[3]);
    }
    means
}

fn assert_as_printed_in_2016(result: &Effects) {
    for row in rows(include_str!("../data/2016-models-tables-5-6-7.csv")) {
        if row[0] == "error" {
            printed(100.0 * result.error_share, row[2], 0.0);
            continue;
        }
        let estimate = match &row[0][1..] {
            "0" => result.mean,
            term => {
                let effect = result.effect(term).expect("every printed term is analysed");
                // C's share is 7.77496 %, printed 7.78: the means it was computed from had more
                // digits.
                printed(100.0 * effect.share, row[2], 0.05);
                effect.estimate
            }
        };
        printed(estimate.value, row[1], 0.5);
        printed(estimate.interval.low, row[3], 0.5);
        printed(estimate.interval.high, row[4], 0.5);
        assert_eq!((estimate.n, estimate.interval.level), (40, 0.90));
    }
    assert_eq!(result.degrees, 32.0);
    assert!((result.error_sd - 303.4).abs() < 0.3 && (result.error_squares / 2.945e6 - 1.0).abs() < 2e-3);
}

#[test]
fn the_2016_effects_variation_and_intervals_follow_from_the_means_and_the_share_of_the_error() {
    assert_as_printed_in_2016(
        &recover(&FACTORS, &means_of_2016(), 5, KnownError::Share(0.0286), 0.90).unwrap(),
    );
}

#[test]
fn the_2016_tables_follow_as_well_from_the_width_of_one_interval() {
    let half = (11364.8 - 11202.2) / 2.0;
    let known = KnownError::HalfWidth { half, level: 0.90 };
    assert_as_printed_in_2016(&recover(&FACTORS, &means_of_2016(), 5, known, 0.90).unwrap());
}

#[test]
fn only_one_of_the_2016_effects_cannot_be_distinguished_from_zero() {
    let result = recover(&FACTORS, &means_of_2016(), 5, KnownError::Share(0.0286), 0.90).unwrap();
    let undecided: Vec<&str> = result
        .effects
        .iter()
        .filter(|effect| !effect.estimate.differs_from_zero())
        .map(|effect| effect.name.as_str())
        .collect();
    assert_eq!(undecided, ["ABC"]);
}

/// The 2018 report, table 11: 2^3 design, r = 3; effects rounded to 1 request per second and 0.1
/// ms, shares printed to 0.01 %. From rounded effects the shares come out within what the rounding
/// allows.
#[test]
fn the_2018_shares_of_variation_follow_from_the_printed_effects() {
    let table = rows(include_str!("../data/2018-report-table-11.csv"));
    // Columns of effect and share, and how much the rounding of the effects can move a share, in
    // percent points.
    for (kind, effect_column, share_column, tolerance) in
        [("GET", 2, 3, 0.02), ("SET", 2, 3, 0.03), ("GET", 4, 5, 0.03), ("SET", 4, 5, 0.75)]
    {
        let of_kind: Vec<&Vec<&str>> = table.iter().filter(|row| row[0] == kind).collect();
        let error_share = number(of_kind.iter().find(|row| row[1] == "error").unwrap()[share_column]) / 100.0;
        let printed_effects: Vec<f64> = Term::all(3)
            .iter()
            .map(|term| {
                let name = if term.0 == 0 { "0".into() } else { term.name(&FACTORS.map(str::to_owned)) };
                let row = of_kind.iter().find(|row| row[1][1..] == name).unwrap();
                number(row[effect_column])
            })
            .collect();
        let means = means_from_effects(&printed_effects).unwrap();
        let result = recover(&FACTORS, &means, 3, KnownError::Share(error_share), 0.95).unwrap();
        for (effect, value) in result.effects.iter().zip(&printed_effects[1..]) {
            assert!((effect.estimate.value - value).abs() < 1e-9);
            let row = of_kind.iter().find(|row| row[1][1..] == effect.name).unwrap();
            let difference = 100.0 * effect.share - number(row[share_column]);
            assert!(difference.abs() < tolerance, "{kind} {}: off by {difference} points", effect.name);
        }
    }
}

/// Table 11 prints no intervals. They follow from its error shares: at 95 % ± 15 requests per
/// second for GET and ± 33 for SET, so every effect on throughput differs from zero, those that
/// explain 0.24 % included.
#[test]
fn the_2018_effects_on_throughput_all_differ_from_zero() {
    for (kind, half) in [("GET", 14.8), ("SET", 32.5)] {
        let (effects, error_share) = of_2018(kind);
        let means = means_from_effects(&effects).unwrap();
        let result = recover(&FACTORS, &means, 3, KnownError::Share(error_share), 0.95).unwrap();
        assert!((result.mean.interval.half_width() - half).abs() < 0.05);
        assert!(result.effects.iter().all(|effect| effect.estimate.differs_from_zero()));
    }
}

/// The 2018 report keeps the additive model since all values lie within a factor of 3. Logarithms
/// halve what interactions explain: from 1.1 % to 0.5 % for GET and from 4.5 % to 2.3 % for SET.
#[test]
fn logarithms_of_the_2018_means_need_half_the_interactions() {
    for (kind, ratio, plain, logarithmic) in [("GET", 3.00, 1.11, 0.47), ("SET", 2.26, 4.55, 2.35)] {
        let means = means_from_effects(&of_2018(kind).0).unwrap();
        let (low, high) = means.iter().fold((f64::MAX, 0.0f64), |(low, high), &y| (low.min(y), high.max(y)));
        assert!((high / low - ratio).abs() < 0.005);
        let design = TwoLevel::new(&FACTORS, means.iter().map(|&mean| vec![mean]).collect()).unwrap();
        for (design, share) in [(design.clone(), plain), (design.logarithms().unwrap(), logarithmic)] {
            let terms = design.screen().unwrap();
            let interactions: f64 =
                terms.iter().filter(|(term, _)| term.order() > 1).map(|(_, share)| share).sum();
            assert!((100.0 * interactions - share).abs() < 0.005, "{kind}: {interactions}");
        }
    }
}

/// Effects on throughput in the order of the tables, and the share of the error.
fn of_2018(kind: &str) -> (Vec<f64>, f64) {
    let table = rows(include_str!("../data/2018-report-table-11.csv"));
    let of_kind: Vec<&Vec<&str>> = table.iter().filter(|row| row[0] == kind).collect();
    (of_kind[..8].iter().map(|row| number(row[2])).collect(), number(of_kind[8][3]) / 100.0)
}

/// The 2018 report, table 13: throughput of writes against clients. With 64 worker threads per
/// middleware the law has no coherency and a limit of 12.3 thousand per second; with 8, the guess
/// of a peak is not borne out by its interval.
#[test]
fn the_2018_throughput_has_a_limit_and_no_peak() {
    let table = rows(include_str!("../data/2018-report-table-13.csv"));
    let fit = |workers: &str| {
        let of_size: Vec<_> = table.iter().filter(|row| row[1] == workers).collect();
        let column = |index: usize| -> Vec<f64> { of_size.iter().map(|row| number(row[index])).collect() };
        Usl::fit(&column(0), &column(3), 0.95).unwrap()
    };
    let many = fit("64");
    assert_eq!(many.kappa, UslCoefficient::HeldAtZero);
    assert!((many.sigma.value() - 0.0436).abs() < 5e-5);
    let Peak::Limit(limit) = many.peak else { panic!("{:?}", many.peak) };
    assert_eq!(format!("{limit:.0}"), "12298 [11591, 13047] at 95 %, n = 7");
    assert!(matches!(fit("8").peak, Peak::NotShown { guess: Some(load) } if (load - 115.2).abs() < 0.1));
}

/// The 2015 report checks the interactive law on 16 experiments and prints the mean of the absolute
/// differences, 0.21 ms. With their signs, as pairs, they show no difference; as two separate
/// samples they could not show one of a millisecond.
#[test]
fn the_2015_response_times_agree_with_the_interactive_law() {
    let table = rows(include_str!("../data/2015-report-interactive-law.csv"));
    let column = |index: usize| -> Vec<f64> { table.iter().map(|row| number(row[index])).collect() };
    let (measured, law) = (column(2), column(3));
    let absolute: f64 = measured.iter().zip(&law).map(|(r, l)| (r - l).abs()).sum::<f64>() / 16.0;
    assert!((absolute - 0.205).abs() < 0.0005);
    let as_pairs = paired(&law, &measured, 0.95).unwrap();
    assert_eq!(format!("{:.2}", as_pairs.difference), "0.06 [-0.07, 0.19] at 95 %, n = 16");
    assert_eq!(as_pairs.verdict, Direction::NoConclusion);
    let apart = welch(&law, &measured, 0.95).unwrap();
    assert!((apart.difference.interval.half_width() - 1.57).abs() < 0.005);
}
