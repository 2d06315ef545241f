//! A sheet after the measurement: what was guessed, what a model says, what was measured, and how
//! far the first two are from the third.

use krarup_model::sheet::{SheetGuess, SheetInputs, SheetMeasure, SheetQuestion};
use krarup_stats::{Interval, USUAL_LEVEL};
use krarup_units::Unit;
use krarup_units::text::three_digits;

use crate::cell::{Cell, MiddlewareCell};
use crate::change::{Measure, change};
use crate::graded::{Grade, GradedSheet, GradedStep, ORDER, SheetAnswer};
use crate::quantity::{CERTAIN, IntervalBasis, Quantity};
use crate::results::Results;
use crate::trial::SystemPart;
use crate::verdict::{Saturation, Verdict};

/// What a sheet asked, and what is known of its guesses.
#[derive(Clone, Copy, Debug)]
pub struct WantedSheet<'a> {
    /// The questions of the spec.
    pub questions: &'a [SheetQuestion],
    /// What was asked; empty where an earlier version sealed the guesses.
    pub asked: &'a [SheetQuestion],
    /// What was guessed; empty where the file of them is gone.
    pub guesses: &'a [SheetGuess],
    /// When they were sealed; empty where that is not known any more.
    pub sealed: &'a str,
    /// The digest of their file as it is now; none where it is gone.
    pub digest: Option<&'a str>,
    /// How many trials had been measured in the directory when they were sealed.
    pub trials_there: usize,
    /// The digest that each trial was measured under.
    pub trials: &'a [Option<String>],
    /// The factor that sets the number of clients.
    pub population: &'a str,
}

/// What is right, where it is known.
struct Truth {
    value: f64,
    interval: Option<(f64, f64)>,
}

/// The sheet of these results; none where there are neither guesses nor trials that tell of some.
pub fn sheet(results: &Results, wanted: &WantedSheet<'_>) -> Option<GradedSheet> {
    let sealed_under = wanted.trials.iter().flatten();
    if wanted.digest.is_none() && sealed_under.clone().next().is_none() {
        return None;
    }
    let gone = wanted.asked.iter().filter(|asked| now(wanted, &asked.id).is_none());
    Some(GradedSheet {
        sealed: wanted.sealed.to_owned(),
        trials: wanted.trials.len(),
        changed: sealed_under.filter(|digest| Some(digest.as_str()) != wanted.digest).count(),
        before: wanted.trials.iter().filter(|digest| digest.is_none()).count(),
        trials_there: wanted.trials_there,
        reworded: reworded(wanted),
        steps: wanted.questions.iter().chain(gone).map(|question| step(results, wanted, question)).collect(),
    })
}

/// The question of this name, as the spec has it now.
fn now<'a>(wanted: &WantedSheet<'a>, id: &str) -> Option<&'a SheetQuestion> {
    wanted.questions.iter().find(|question| question.id == id)
}

/// What was guessed to a question that is another now, be it in its cell or its tolerance alone, or
/// that is gone.
fn reworded(wanted: &WantedSheet<'_>) -> Vec<String> {
    let is_other = |guess: &&SheetGuess| {
        now(wanted, &guess.id).is_none_or(|now| {
            let asked = wanted.asked.iter().find(|asked| asked.id == guess.id);
            guess.ask != now.ask || asked.is_some_and(|asked| asked != now)
        })
    };
    wanted.guesses.iter().filter(is_other).map(|guess| guess.id.clone()).collect()
}

fn step(results: &Results, wanted: &WantedSheet<'_>, question: &SheetQuestion) -> GradedStep {
    let guess = wanted.guesses.iter().find(|guess| guess.id == question.id).and_then(|guess| guess.value);
    let cells = matching(results, &question.at);
    let fewest = cells.iter().min_by_key(|cell| cell.levels.clients);
    let inputs = SheetInputs {
        clients: clients_asked(results, question, &cells).map(f64::from),
        think: fewest.map_or(0.0, |cell| cell.think),
        least_response: fewest.map(|cell| cell.response.mean.value),
    };
    let model = question.law.figure(inputs);
    let measured = match answer(results, wanted.population, question, &cells) {
        None => SheetAnswer::NotAsked,
        Some(Ok((quantity, at))) => SheetAnswer::Measured {
            value: quantity.value,
            interval: quantity.interval.map(|interval| (interval.low, interval.high)),
            at,
        },
        Some(Err(why)) => SheetAnswer::NoConclusion { why },
    };
    let truth = match &measured {
        SheetAnswer::Measured { value, interval, .. } => Some(Truth { value: *value, interval: *interval }),
        SheetAnswer::NotAsked => model.as_ref().map(|figure| Truth { value: figure.value, interval: None }),
        SheetAnswer::NoConclusion { .. } => None,
    };
    let grade = |value: Option<f64>| grade(value, truth.as_ref(), question);
    let said = model.as_ref().map(|figure| figure.value);
    GradedStep {
        id: question.id.clone(),
        ask: question.ask.clone(),
        unit: question.unit().into(),
        guess,
        grade: grade(guess),
        model_grade: match measured {
            SheetAnswer::NotAsked => Grade::None,
            _ => grade(said),
        },
        model,
        measured,
    }
}

fn grade(value: Option<f64>, truth: Option<&Truth>, question: &SheetQuestion) -> Grade {
    let Some(value) = value else { return Grade::None };
    let Some(truth) = truth else { return Grade::NotDecidable };
    // Round figures lie on the edge, which binary fractions miss: 66 / 60 - 1 is more than 0.1.
    let within = question.within * (1.0 + 1e-9);
    let inside = truth.interval.is_some_and(|(low, high)| (low..=high).contains(&value));
    if question.unit() == Unit::Share {
        let by = value - truth.value;
        let (low, high) = truth.interval.unwrap_or((truth.value, truth.value));
        return match by {
            by if inside || by.abs() <= within => Grade::Right,
            // No change has no direction.
            by if value == 0.0 || (low..=high).contains(&0.0) => Grade::OffPoints { by },
            by if value * truth.value > 0.0 => Grade::RightDirection { by },
            by => Grade::WrongDirection { by },
        };
    }
    let times = value / truth.value;
    let near = (times - 1.0).abs() <= within || value == truth.value;
    if inside || near {
        // Levels that lie far apart hold nearly every answer: that one is among them says nothing.
        let far_apart = truth.interval.is_some_and(|(low, high)| high > ORDER * low);
        if far_apart { Grade::NotDecidable } else { Grade::Right }
    } else if times > 1.0 / ORDER && times < ORDER {
        Grade::RightOrder { times }
    } else {
        // A file of JSON has no infinity.
        Grade::Off { times: if times.is_finite() { times } else { f64::MAX } }
    }
}

/// N of the cell that answers: the only one, or the one at the limit.
fn clients_asked(results: &Results, question: &SheetQuestion, cells: &[&Cell]) -> Option<u32> {
    match cells {
        [only] => Some(only.levels.clients),
        [first, ..] if question.measured.is_some() => {
            limit_of(results, first).ok().map(|verdict| verdict.at.clients)
        }
        _ => None,
    }
}

/// The cells with these levels.
fn matching<'a>(results: &'a Results, at: &[(String, String)]) -> Vec<&'a Cell> {
    results.cells.iter().filter(|cell| at.iter().all(|level| cell.factors.contains(level))).collect()
}

type Answer = Result<(Quantity, String), String>;

/// What was measured; none where nothing is asked of it.
fn answer(results: &Results, population: &str, question: &SheetQuestion, cells: &[&Cell]) -> Option<Answer> {
    let measure = question.measured?;
    let Some(first) = cells.first() else { return Some(Err("no such cell was measured".into())) };
    let has_population = |cell: &Cell| cell.factors.iter().any(|(name, _)| name == population);
    let named = question.at.iter().any(|(name, _)| name == population) || !has_population(first);
    let of_limit = limit_of(results, first);
    if measure == SheetMeasure::ClientsAtLimit {
        let limit = of_limit.map(|verdict| (clients(cells, verdict), verdict.at.workload.clone()));
        return Some(limit);
    }
    let cell = if named { Ok(*first) } else { of_limit.and_then(|verdict| at_limit(results, verdict)) };
    let found = cell.and_then(|cell| {
        let quantity = if question.beside.is_empty() {
            known(measured(measure, cell)?)
        } else {
            changed(results, measure, question, cell)
        };
        Ok((quantity?, format!("{}, {} clients", cell.levels.workload, cell.levels.clients)))
    });
    Some(found)
}

/// The verdict on a cell's load, if its limit was reached.
fn limit_of<'a>(results: &'a Results, cell: &Cell) -> Result<&'a Verdict, String> {
    let verdict = results.verdicts.iter().find(|verdict| verdict.at.workload == cell.levels.workload);
    limit(verdict.ok_or("nothing was concluded of this load")?)
}

/// A verdict whose limit was reached.
fn limit(verdict: &Verdict) -> Result<&Verdict, String> {
    if let Some(most) = verdict.saturation.doubt() {
        let most = Unit::Share.show(most);
        return Err(format!(
            "whether the limit was reached is not known: by the interval more clients may bring {most} more"
        ));
    }
    match verdict.saturation {
        Saturation::Reached { .. } => Ok(verdict),
        Saturation::NotReached { growth, shown } => {
            let growth = Unit::Share.show(growth);
            Err(match shown {
                true => {
                    format!("the limit was not reached: the last step of clients still brought {growth} more")
                }
                false => format!(
                    "whether the limit was reached is not known: the last step of clients brought {growth} more, which the runs do not tell from none"
                ),
            })
        }
        Saturation::Given => Err("the rate was given, so that no limit was looked for".into()),
        Saturation::Unknown => Err("the cells are not known well enough, or too few, to find a limit".into()),
    }
}

fn at_limit<'a>(results: &'a Results, verdict: &Verdict) -> Result<&'a Cell, String> {
    results.cell(&verdict.at).ok_or_else(|| "no such cell was measured".into())
}

/// The number of clients at the limit: more than the number before that is known well, which was
/// too few.
fn clients(cells: &[&Cell], verdict: &Verdict) -> Quantity {
    let at = verdict.at.clients;
    let is_unsure = |clients: u32| verdict.unsure.iter().any(|one| one.clients == clients);
    let numbers = cells.iter().map(|cell| cell.levels.clients);
    let before = numbers.filter(|clients| *clients < at && !is_unsure(*clients)).max();
    let (low, high) = (f64::from(before.map_or(1, |before| before + 1).min(at)), f64::from(at));
    Quantity {
        value: high,
        interval: Some(Interval { low, high, level: USUAL_LEVEL }),
        n: cells.len() as u64,
        basis: IntervalBasis::Repetitions,
    }
}

fn known(quantity: Quantity) -> Result<Quantity, String> {
    if quantity.is_certain() {
        return Ok(quantity);
    }
    let half = Unit::Share.show(quantity.half_share().unwrap_or_default());
    Err(format!("its interval is wider than a fifth of it (± {half})"))
}

fn measured(measure: SheetMeasure, cell: &Cell) -> Result<Quantity, String> {
    let middleware = |of: fn(&MiddlewareCell) -> Option<Quantity>| {
        cell.middleware.as_ref().and_then(of).ok_or_else(|| "no middleware was asked".to_owned())
    };
    match measure {
        SheetMeasure::Throughput => Ok(cell.throughput),
        SheetMeasure::Keys => cell.keys.ok_or_else(|| "no key was read".to_owned()),
        SheetMeasure::Response => Ok(cell.response.mean),
        SheetMeasure::QueueTime => middleware(|side| Some(side.queue.mean)),
        SheetMeasure::ServerTime => middleware(|side| Some(side.server.mean)),
        SheetMeasure::QueueLength => middleware(|side| side.queue_length),
        SheetMeasure::AtServers => {
            let time = middleware(|side| Some(side.server.mean))?;
            // Little's law.
            Ok(product(&cell.throughput, &time))
        }
        SheetMeasure::MiddlewareBytes => {
            let of = cell.links.iter().filter(|link| link.station == SystemPart::Middleware);
            let bits: f64 = of.map(|link| link.sent).sum();
            if bits == 0.0 || cell.throughput.value == 0.0 {
                return Err("nothing was counted on the middlewares' links".into());
            }
            let per_request = |rate: f64| bits / 8.0 / rate;
            let interval = cell.throughput.interval.filter(|interval| interval.low > 0.0);
            Ok(Quantity {
                value: per_request(cell.throughput.value),
                interval: interval.map(|interval| Interval {
                    low: per_request(interval.high),
                    high: per_request(interval.low),
                    ..interval
                }),
                ..cell.throughput
            })
        }
        SheetMeasure::ClientsAtLimit => Err("it is no figure of one cell".into()),
    }
}

/// One times the other, with the widest interval.
fn product(one: &Quantity, other: &Quantity) -> Quantity {
    let interval = one.interval.zip(other.interval).map(|(one, other)| Interval {
        low: one.low.max(0.0) * other.low.max(0.0),
        high: one.high * other.high,
        level: one.level,
    });
    Quantity { value: one.value * other.value, interval, ..*one }
}

/// The change from the cell beside, as a share.
fn changed(
    results: &Results,
    measure: SheetMeasure,
    question: &SheetQuestion,
    cell: &Cell,
) -> Result<Quantity, String> {
    let level = |(name, level): &(String, String)| {
        let other = question.beside.iter().find(|(known, _)| known == name);
        (name.clone(), other.map_or(level, |(_, other)| other).clone())
    };
    let wanted: Vec<(String, String)> = cell.factors.iter().map(level).collect();
    let base = matching(results, &wanted).first().copied().ok_or("the cell beside was not measured")?;
    let measure = if measure == SheetMeasure::Response { Measure::Response } else { Measure::Throughput };
    let change = change(measure, base, cell);
    let (Some(ratio), Some(interval)) = (change.ratio, change.ratio_interval) else {
        return Err("two repetitions that both cells have are needed to tell a difference".into());
    };
    let interval = Interval { low: interval.low - 1.0, high: interval.high - 1.0, ..interval };
    if interval.half_width() > CERTAIN {
        let half = three_digits(100.0 * interval.half_width());
        return Err(format!("the difference is known to ± {half} points only"));
    }
    Ok(Quantity { value: ratio - 1.0, interval: Some(interval), ..change.other })
}

#[cfg(test)]
mod tests {
    use krarup_model::sheet::SheetLaw;

    use super::*;
    use crate::results::Environment;
    use crate::sweep::summarise;
    use crate::sweep::tests::steady_trial;
    use crate::trial::Trial;
    use crate::verdict::Unsure;

    /// Reads that stop growing at 8 clients, 20,000 a second; each cell three times.
    fn results(rates: &[(u32, f64)]) -> Results {
        let mut trials: Vec<Trial> = Vec::new();
        for (clients, rate) in rates {
            for repetition in 0..3 {
                let mut trial = steady_trial("read", *clients, rate + f64::from(repetition));
                trial.repetition = repetition;
                trial.factors = vec![("clients".into(), clients.to_string())];
                trials.push(trial);
            }
        }
        summarise("t", Environment::default(), &trials).unwrap()
    }

    fn question(measured: Option<SheetMeasure>, at: Option<u32>) -> SheetQuestion {
        SheetQuestion {
            id: "q".into(),
            ask: "how many?".into(),
            measured,
            at: at.map(|clients| ("clients".into(), clients.to_string())).into_iter().collect(),
            beside: Vec::new(),
            within: 0.1,
            law: SheetLaw::Slots { slots: 40, time: 2e-3 },
        }
    }

    fn one(results: &Results, question: SheetQuestion, guess: f64) -> GradedStep {
        let guesses = [SheetGuess {
            id: "q".into(),
            ask: "how many?".into(),
            written: String::new(),
            value: Some(guess),
        }];
        let wanted = WantedSheet {
            questions: &[question],
            asked: &[],
            guesses: &guesses,
            sealed: "then",
            digest: Some("d"),
            trials_there: 0,
            trials: &[Some("d".into())],
            population: "clients",
        };
        sheet(results, &wanted).unwrap().steps.remove(0)
    }

    #[test]
    fn guess_and_model_are_graded_by_what_was_measured() {
        let results = results(&[(1, 5_000.0), (8, 20_000.0), (16, 20_100.0)]);
        for (guess, grade) in [
            (20_001.0, "right"),
            (21_500.0, "right"),
            (40_000.0, "right order, 2.00 times too high"),
            (10_000.0, "right order, 2.00 times too low"),
            (200_000.0, "off: 10.0 times too high"),
            (0.0, "off: it is not 0"),
        ] {
            let step = one(&results, question(Some(SheetMeasure::Throughput), None), guess);
            assert_eq!(step.grade.to_string(), grade, "{step:?}");
            assert_eq!(step.model_grade, Grade::Right, "{step:?}");
        }
        let step = one(&results, question(Some(SheetMeasure::Throughput), Some(1)), 5_000.0);
        assert_eq!(
            (step.grade, step.model_grade.to_string().as_str()),
            (Grade::Right, "off: 4.00 times too high")
        );
    }

    #[test]
    fn a_model_at_the_limit_has_the_clients_of_that_cell() {
        let known = results(&[(1, 5_000.0), (8, 20_000.0), (16, 20_100.0)]);
        let mut asked = question(Some(SheetMeasure::Response), None);
        asked.law = SheetLaw::Interactive { throughput: 20_000.0 };
        let step = one(&known, asked.clone(), 1.0);
        assert!(matches!(step.measured, SheetAnswer::Measured { ref at, .. } if at == "read, 8 clients"));
        assert_eq!(step.model.unwrap().value, 8.0 / 20_000.0);
        // Without a limit there is no such cell.
        let growing = results(&[(1, 5_000.0), (8, 20_000.0)]);
        assert_eq!(one(&growing, asked, 1.0).model, None);
    }

    #[test]
    fn the_clients_at_the_limit_lie_between_two_that_were_tried() {
        let known = results(&[(1, 5_000.0), (3, 15_000.0), (8, 20_000.0), (16, 20_100.0)]);
        let mut asked = question(Some(SheetMeasure::ClientsAtLimit), None);
        asked.law = SheetLaw::Knee { throughput: 20_000.0, response: None };
        let step = one(&known, asked.clone(), 5.0);
        assert_eq!(step.grade, Grade::Right);
        // R(1) = 1/5000 s.
        assert!((step.model.unwrap().value - 4.0).abs() < 0.01);
        assert!(matches!(step.measured, SheetAnswer::Measured { interval: Some((4.0, 8.0)), .. }));
        // Three were measured, and are too few.
        assert!(matches!(one(&known, asked.clone(), 3.0).grade, Grade::RightOrder { .. }));
        // Of a number that is not known well nothing says that it is too few.
        let mut unsure = known.clone();
        unsure.verdicts[0].unsure = vec![Unsure { clients: 3, half: 0.3, of_response: false }];
        let step = one(&unsure, asked.clone(), 3.0);
        assert!(matches!(step.measured, SheetAnswer::Measured { interval: Some((2.0, 8.0)), .. }));
        assert_eq!(step.grade, Grade::NotDecidable);
        // Between one and eight lies nearly everything.
        let coarse = results(&[(1, 5_000.0), (8, 20_000.0), (16, 20_100.0)]);
        for guess in [5.0, 8.0, 8.5] {
            assert_eq!(one(&coarse, asked.clone(), guess).grade, Grade::NotDecidable);
        }
        assert!(matches!(one(&coarse, asked, 80.0).grade, Grade::Off { .. }));
    }

    #[test]
    fn without_a_conclusion_nothing_is_graded() {
        let growing = results(&[(1, 5_000.0), (8, 20_000.0)]);
        let step = one(&growing, question(Some(SheetMeasure::Throughput), None), 5.0);
        assert_eq!((&step.grade, &step.model_grade), (&Grade::NotDecidable, &Grade::NotDecidable));
        assert!(
            matches!(step.measured, SheetAnswer::NoConclusion { ref why } if why.contains("limit was not reached"))
        );
        let gone = one(&growing, question(Some(SheetMeasure::Throughput), Some(5)), 5.0);
        assert!(
            matches!(gone.measured, SheetAnswer::NoConclusion { ref why } if why.contains("no such cell"))
        );
        let mut wide = results(&[(1, 5_000.0), (8, 20_000.0), (16, 20_100.0)]);
        wide.verdicts[0].saturation =
            Saturation::Reached { knee: None, tried: 16, longer: 2.0, most: Some(0.15) };
        let step = one(&wide, question(Some(SheetMeasure::Throughput), None), 20_000.0);
        assert_eq!(step.grade, Grade::NotDecidable);
        assert!(
            matches!(step.measured, SheetAnswer::NoConclusion { ref why } if why.contains("bring 15.0 % more"))
        );
    }

    #[test]
    fn what_is_not_measured_is_held_against_the_model() {
        let results = results(&[(1, 5_000.0)]);
        let step = one(&results, question(None, None), 19_900.0);
        assert_eq!(
            (step.measured, step.grade, step.model_grade),
            (SheetAnswer::NotAsked, Grade::Right, Grade::None)
        );
    }

    #[test]
    fn a_tolerance_reaches_as_far_up_as_down() {
        let sixty = Truth { value: 60.0, interval: None };
        for guess in [54.0, 66.0] {
            assert_eq!(grade(Some(guess), Some(&sixty), &question(None, None)), Grade::Right, "{guess}");
        }
        let mix = krarup_model::sheet::CostlyShare { share: 0.1, before: 0.0, times: 2.0 };
        let asked = SheetQuestion { within: 0.02, law: SheetLaw::MixResponse(mix), ..question(None, None) };
        let tenth = Truth { value: 0.1, interval: None };
        for guess in [0.08, 0.12] {
            assert_eq!(grade(Some(guess), Some(&tenth), &asked), Grade::Right, "{guess}");
        }
    }

    #[test]
    fn a_guess_where_none_is_right_is_off_by_no_factor() {
        let none = Truth { value: 0.0, interval: None };
        let found = grade(Some(5.0), Some(&none), &question(None, None));
        assert_eq!((&found, found.to_string().as_str()), (&Grade::Off { times: f64::MAX }, "off: it is 0"));
    }

    #[test]
    fn a_change_is_graded_in_points_and_takes_two_runs() {
        let results = results(&[(8, 20_000.0), (16, 18_000.0)]);
        let mut asked = question(Some(SheetMeasure::Throughput), Some(16));
        asked.beside = vec![("clients".into(), "8".into())];
        asked.within = 0.02;
        asked.law =
            SheetLaw::MixThroughput(krarup_model::sheet::CostlyShare { share: 0.1, before: 0.0, times: 2.0 });
        for (guess, grade) in [
            (-0.1, "right"),
            (-0.11, "right"),
            (-0.3, "right direction, 20.0 points too low"),
            (0.05, "off: wrong direction, 15.0 points too high"),
            (0.0, "off: 10.0 points too high"),
        ] {
            assert_eq!(one(&results, asked.clone(), guess).grade.to_string(), grade);
        }
        // An interval over 0 has no direction, wherever its middle is.
        let unknown = Truth { value: -0.01, interval: Some((-0.03, 0.01)) };
        assert_eq!(grade(Some(0.04), Some(&unknown), &asked).to_string(), "off: 5.00 points too high");
        assert_eq!(grade(Some(-0.06), Some(&unknown), &asked).to_string(), "off: 5.00 points too low");
        let single: Vec<Trial> = [(8, 20_000.0), (16, 18_000.0)]
            .map(|(clients, rate)| Trial {
                factors: vec![("clients".into(), clients.to_string())],
                ..steady_trial("read", clients, rate)
            })
            .to_vec();
        let single = summarise("t", Environment::default(), &single).unwrap();
        assert_eq!(one(&single, asked, -0.1).grade, Grade::NotDecidable);
    }

    #[test]
    fn trials_tell_of_guesses_that_were_changed_or_came_late() {
        let results = results(&[(1, 5_000.0)]);
        let asked = [question(None, None)];
        let wanted = |digest: Option<&'static str>, trials: &'static [Option<String>]| WantedSheet {
            questions: &asked,
            asked: &[],
            guesses: &[],
            sealed: "",
            digest,
            trials_there: 0,
            trials,
            population: "clients",
        };
        assert_eq!(sheet(&results, &wanted(None, &[None])), None, "no guess is sealed");
        let trials: &'static [Option<String>] =
            Box::leak(Box::new([Some("a".into()), Some("b".into()), None]));
        let found = sheet(&results, &wanted(Some("a"), trials)).unwrap();
        assert_eq!((found.trials, found.changed, found.before), (3, 1, 1));
        let gone = sheet(&results, &wanted(None, trials)).unwrap();
        assert_eq!((gone.changed, gone.steps[0].grade.clone()), (2, Grade::None));

        // Another tolerance is named, and a question that is gone from the spec is still graded.
        let then = [
            SheetQuestion { within: 0.2, ..question(None, None) },
            SheetQuestion { id: "gone".into(), ..question(None, None) },
        ];
        let guess = |id: &str| SheetGuess {
            id: id.into(),
            ask: "how many?".into(),
            written: "20k".into(),
            value: Some(20_000.0),
        };
        let guesses = ["q", "gone"].map(guess);
        let edited = WantedSheet { asked: &then, guesses: &guesses, ..wanted(Some("a"), trials) };
        let found = sheet(&results, &edited).unwrap();
        assert_eq!(found.reworded, ["q", "gone"]);
        assert_eq!((found.steps.len(), found.steps[1].grade.clone()), (2, Grade::Right));
        // Earlier versions kept the words alone.
        let earlier = WantedSheet { asked: &[], ..edited };
        assert_eq!(sheet(&results, &earlier).unwrap().reworded, ["gone"]);
    }
}
