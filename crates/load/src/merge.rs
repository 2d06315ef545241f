//! Results of several generators become that of all: counts and histograms add up exactly,
//! percentiles come from the sum.
//!
//! A merged result is what one generator with all the clients would have reported. Shares of one
//! load are merged only where all of them are there, and whole; their rates are over the time of
//! the longest. Seconds are laid over each other by the wall clock, to the whole second: clocks of
//! generators that asked one server when its second began are compared, and refused where they
//! differ (`clocks`). Generators should begin and end together, and a warning says when they did
//! not.

use std::collections::BTreeMap;

use krarup_record::file::log::Packed;
use krarup_record::{MeasuredDistribution, Operation};
use krarup_settings::Mistake;
use krarup_units::{Nanos, PerSecond, Seconds};

use crate::clocks;
use crate::collect::{warning_of_backlog, warnings_of_counts};
use crate::config::{Load, LoadShare};
use crate::result::{
    ClassResult, Distributions, Generator, GeneratorResult, HistogramResult, LoadResult, LoadWarning,
    OperationResult, RowsKept, SeriesRow, TimeDistribution, WholeRun,
};
use crate::schedule::Arrivals;

/// Generators that begin further apart than this did not run together, in seconds.
const TOGETHER: f64 = 0.5;
/// Nor did those whose measured parts differ by a larger share of the longest.
const ALIKE: f64 = 0.1;

/// Why results are not merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// They cannot be added up.
    #[error("{0}")]
    Results(Mistake),
    /// A share of the load is not there, or was stopped: what is there makes sense, and is not all.
    #[error("{0}")]
    Incomplete(Mistake),
    /// The clocks of the generators differ.
    #[error("{0}")]
    Clocks(Mistake),
}

impl From<Mistake> for MergeError {
    fn from(mistake: Mistake) -> Self {
        Self::Results(mistake)
    }
}

/// The result of all generators together; the results have these names.
///
/// # Errors
/// Results that cannot be added up, with the reason.
pub fn merge(results: &[LoadResult], names: &[String]) -> Result<LoadResult, MergeError> {
    let mut merged = merge_of_any_clocks(results)?;
    let backlog = warning_of_backlog(&merged);
    merged.warnings.extend(backlog);
    let sources = names
        .iter()
        .zip(results)
        .flat_map(|(name, one)| sources(one).into_iter().map(move |source| (name.as_str(), source.clock)));
    let sources: Vec<_> = sources.collect();
    let seen: Vec<_> = sources.iter().map(|(name, clock)| (*name, clock.as_ref())).collect();
    let clocks = clocks::compare(&seen).map_err(MergeError::Clocks)?;
    // One alone has nothing to be compared with.
    Ok(LoadResult { clocks: (seen.len() > 1).then_some(clocks), ..merged })
}

fn merge_of_any_clocks(results: &[LoadResult]) -> Result<LoadResult, MergeError> {
    let first = results.first().ok_or_else(|| Mistake::plain("there is no result to merge"))?;
    let formats = results.iter().map(|one| one.format);
    if let Some(other) = formats.clone().find(|&format| format != first.format) {
        let what = format!("results of the formats {} and {other} do not add up", first.format);
        return Err(Mistake::plain(what).into());
    }
    let names = |one: &LoadResult| one.classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>();
    if let Some(other) = results.iter().find(|one| names(one) != names(first)) {
        let (first, other) = (names(first), names(other));
        let what = format!("one generator has the classes {first:?}, another {other:?}: they do not add up");
        return Err(Mistake::plain(what).into());
    }
    let seconds = results.iter().map(|one| one.seconds).fold(0.0, f64::max);
    let are_shares = shares_are_whole(results)?;
    // Of a result that was merged before, each of its generators counts.
    let merged_from: Vec<GeneratorResult> = results.iter().flat_map(sources).collect();
    let alike = merged_from.iter().all(|one| one.seconds == seconds);
    let together = (are_shares || alike).then_some(seconds);
    let overall = every(results, together, |one| &one.overall)?;
    let account = account(results);
    let started = merged_from.iter().map(|one| one.started_unix).fold(f64::INFINITY, f64::min);
    let latest = merged_from.iter().map(|one| one.started_unix).fold(started, f64::max);
    let classes = classes(results, are_shares, together)?;
    let mut verified = None;
    for one in results.iter().filter_map(|one| one.verified.clone()) {
        verified.get_or_insert_with(crate::account::Verified::default).merge(one);
    }
    let kept = results.iter().filter_map(|one| one.rows);
    let rows = kept.reduce(|sum, one| RowsKept { kept: sum.kept + one.kept, lost: sum.lost + one.lost });
    let loads: Vec<&Load> = results.iter().map(|one| &one.config).collect();
    let mut warnings = warnings_of_counts(&account, &overall, &loads);
    if latest - started > TOGETHER {
        warnings.push(LoadWarning::StartedApart { seconds: latest - started });
    }
    let shortest = merged_from.iter().map(|one| one.seconds).fold(seconds, f64::min);
    if seconds - shortest > ALIKE * seconds {
        warnings.push(LoadWarning::EndedApart { shortest, longest: seconds });
    }
    warnings.extend(warning_of_seeds(&merged_from));
    for warning in results.iter().flat_map(|one| &one.warnings) {
        let is_its_own = matches!(
            warning,
            LoadWarning::GeneratorBusy { .. }
                | LoadWarning::ProcessorsShort { .. }
                | LoadWarning::GeneratorLate { .. }
                | LoadWarning::ConnectionsWaited { .. }
                | LoadWarning::MultiGetCut { .. }
                | LoadWarning::GaveUp
                | LoadWarning::ConnectionFailed { .. }
        );
        if is_its_own && !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    Ok(LoadResult {
        format: first.format,
        config: config(results),
        started_unix: started,
        seconds,
        interrupted: results.iter().any(|one| one.interrupted),
        generator: generator(results, account.sent),
        account,
        overall,
        classes,
        operations: operations(results, together, |one| &one.operations)?,
        series: series(results, started)?,
        verified,
        rows,
        clock: None,
        clocks: None,
        merged_from,
        warnings,
    })
}

/// Whether any two generators drew the same. Shares of one load have its seed, and draw its parts.
fn warning_of_seeds(generators: &[GeneratorResult]) -> Option<LoadWarning> {
    let alike = |one: &Load, other: &Load| {
        let parted = one.share.zip(other.share).is_some_and(|(one, other)| one.number != other.number);
        one.seed == other.seed && !parted
    };
    let twin = generators
        .iter()
        .enumerate()
        .find(|(place, one)| generators[..*place].iter().any(|other| alike(&one.config, &other.config)));
    twin.map(|(_, one)| LoadWarning::SameSeed { seed: one.config.seed })
}

/// One operation of all generators `together`.
fn every(
    results: &[LoadResult],
    together: Option<Seconds>,
    part: impl Fn(&LoadResult) -> &OperationResult,
) -> Result<OperationResult, Mistake> {
    operation(&results.iter().map(part).collect::<Vec<_>>(), together)
}

/// The classes, which all results have; of shares each has the connections of all.
fn classes(
    results: &[LoadResult],
    are_shares: bool,
    together: Option<Seconds>,
) -> Result<Vec<ClassResult>, Mistake> {
    let of = |(place, class): (usize, &ClassResult)| {
        let all = results.iter().map(|one| &one.classes[place]);
        Ok(ClassResult {
            name: class.name.clone(),
            connections: if are_shares {
                class.connections
            } else {
                all.clone().map(|one| one.connections).sum()
            },
            answered: all.map(|one| one.answered).sum(),
            overall: every(results, together, |one| &one.classes[place].overall)?,
            operations: operations(results, together, |one| &one.classes[place].operations)?,
        })
    };
    results[0].classes.iter().enumerate().map(of).collect()
}

/// The generators of a result: of one that was merged those that it was made of.
pub fn sources(one: &LoadResult) -> Vec<GeneratorResult> {
    if !one.merged_from.is_empty() {
        return one.merged_from.clone();
    }
    vec![GeneratorResult {
        config: one.config.clone(),
        started_unix: one.started_unix,
        seconds: one.seconds,
        throughput: one.overall.throughput,
        clock: one.clock.clone(),
    }]
}

/// Whether these are shares of one load: then all of them are there, each once and whole.
///
/// # Errors
/// What is missing, is there twice, was stopped early, or belongs to another run.
fn shares_are_whole(results: &[LoadResult]) -> Result<bool, MergeError> {
    let shares: Vec<LoadShare> = results.iter().filter_map(|one| one.config.share).collect();
    let Some(&LoadShare { of, start_at, .. }) = shares.first() else { return Ok(false) };
    let refused = |what: String, hint: &str| Err(MergeError::Results(Mistake::new(what, hint)));
    let incomplete = |what: String, hint: &str| Err(MergeError::Incomplete(Mistake::new(what, hint)));
    let of_run = |one: &LoadResult| Load { share: None, ..one.config.clone() };
    let run = of_run(&results[0]);
    if shares.len() < results.len() || results.iter().any(|one| of_run(one) != run) {
        return refused("these are not shares of the same load".into(), "name the shares of one load");
    }
    if shares.iter().any(|one| (one.of, one.start_at) != (of, start_at)) {
        let hint = "name the shares of one run: an older file is none of them";
        return refused("these are shares of runs that began at different times".into(), hint);
    }
    let mut counts = vec![0_u32; of as usize];
    shares.iter().for_each(|one| counts[(one.number - 1) as usize] += 1);
    let named = |wanted: &dyn Fn(u32) -> bool| -> Vec<String> {
        let numbered = (1..).zip(&counts).filter(|(_, count)| wanted(**count));
        numbered.map(|(number, _): (u32, _)| number.to_string()).collect()
    };
    let (missing, twice) = (named(&|count| count == 0), named(&|count| count > 1));
    if !missing.is_empty() {
        let what = format!("of {of} shares these are missing: {}", missing.join(", "));
        return incomplete(what, "the sum of the others would be a lower figure: run all of them again");
    }
    if !twice.is_empty() {
        let what = format!("these shares are there more than once: {}", twice.join(", "));
        return refused(what, "name each result once");
    }
    if let Some(one) = results.iter().find(|one| one.interrupted) {
        let number = one.config.share.map_or(0, |share| share.number);
        let hint = "its requests after that would be missing from the sum: run all shares again";
        return incomplete(format!("share {number} of {of} was stopped before its end"), hint);
    }
    Ok(true)
}

/// All clients, threads and servers together; what else was asked for is taken from the first. Of
/// shares it is what was shared out, with the threads of all.
fn config(results: &[LoadResult]) -> Load {
    let mut config = results[0].config.clone();
    if let Some(share) = config.share.take() {
        config.threads *= share.of;
        return config;
    }
    for other in &results[1..] {
        let other = &other.config;
        config.connections += other.connections;
        config.threads += other.threads;
        for target in &other.targets {
            if !config.targets.contains(target) {
                config.targets.push(target.clone());
            }
        }
        add_rate(&mut config.arrivals, &other.arrivals);
        for (ours, theirs) in config.classes.iter_mut().zip(&other.classes) {
            ours.connections += theirs.connections;
            add_rate(&mut ours.arrivals, &theirs.arrivals);
        }
    }
    config
}

/// Rates that change together add up.
fn add_rate(ours: &mut Arrivals, theirs: &Arrivals) {
    if let (Arrivals::Open(ours), Arrivals::Open(theirs)) = (ours, theirs)
        && ours.legs.iter().map(|leg| leg.seconds).eq(theirs.legs.iter().map(|leg| leg.seconds))
    {
        for (leg, other) in ours.legs.iter_mut().zip(&theirs.legs) {
            leg.from.0 += other.from.0;
            leg.to.0 += other.to.0;
        }
    }
}

fn account(results: &[LoadResult]) -> WholeRun {
    let mut sum = WholeRun::default();
    for one in results {
        let one = &one.account;
        let WholeRun {
            sent,
            answered,
            lost,
            unsent,
            answers,
            keys,
            hits,
            misses,
            bytes_sent,
            bytes_received,
            connections_lost,
            connects_failed,
            connections_renewed,
        } = one;
        sum.sent += sent;
        sum.answered += answered;
        sum.unsent += unsent;
        sum.keys += keys;
        sum.hits += hits;
        sum.misses += misses;
        sum.bytes_sent += bytes_sent;
        sum.bytes_received += bytes_received;
        sum.connections_lost += connections_lost;
        sum.connects_failed += connects_failed;
        sum.connections_renewed += connections_renewed;
        add(&mut sum.lost, lost);
        for (operation, kinds) in answers {
            add(sum.answers.entry(operation.clone()).or_default(), kinds);
        }
    }
    sum
}

fn add(sum: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, count) in more {
        *sum.entry(name.clone()).or_default() += count;
    }
}

fn generator(results: &[LoadResult], sent: u64) -> Generator {
    let all = results.iter().map(|one| &one.generator);
    let cpu: f64 = all.clone().map(|one| one.cpu_seconds).sum();
    Generator {
        cpu_seconds: cpu,
        cpu_per_request: if sent > 0 { cpu / sent as f64 } else { 0.0 },
        busiest_thread: all.clone().map(|one| one.busiest_thread).fold(0.0, f64::max),
        runnable: all.clone().map(|one| one.runnable).fold(0.0, f64::max),
        // Of a sum of which a part is not known nothing is.
        processors: match all.clone().all(|one| one.processors > 0.0) {
            true => all.clone().map(|one| one.processors).sum(),
            false => 0.0,
        },
        elapsed: all.clone().map(|one| one.elapsed).fold(0.0, f64::max),
        late: all.clone().map(|one| one.late).sum(),
        waited: all.map(|one| one.waited).sum(),
    }
}

fn operations(
    results: &[LoadResult],
    together: Option<Seconds>,
    of: impl Fn(&LoadResult) -> &BTreeMap<String, OperationResult>,
) -> Result<BTreeMap<String, OperationResult>, Mistake> {
    let mut parts: BTreeMap<&str, Vec<&OperationResult>> = BTreeMap::new();
    for (name, operation) in results.iter().flat_map(of) {
        parts.entry(name).or_default().push(operation);
    }
    parts.into_iter().map(|(name, parts)| Ok((name.to_owned(), operation(&parts, together)?))).collect()
}

/// One operation of several generators. Over one length of time its requests are counted
/// `together`; over several, each generator has a rate of its own, also where it was merged before.
fn operation(parts: &[&OperationResult], together: Option<Seconds>) -> Result<OperationResult, Mistake> {
    let sum = |of: &dyn Fn(&OperationResult) -> u64| parts.iter().map(|one| of(one)).sum::<u64>();
    let add_up = |of: &dyn Fn(&Distributions) -> &Packed| -> Result<MeasuredDistribution, Mistake> {
        let packed = parts.iter().map(|one| one.distributions.as_ref().map(of));
        unpack_all(packed)
    };
    let mut errors = BTreeMap::new();
    parts.iter().for_each(|one| add(&mut errors, &one.errors));
    let count = sum(&|one| one.count);
    let throughput = match together {
        Some(seconds) => {
            let done = count.saturating_sub(errors.values().sum());
            PerSecond::over(done, Nanos::from_seconds(seconds))
        }
        None => PerSecond(parts.iter().map(|one| one.throughput.0).sum()),
    };
    let response = add_up(&|all| &all.response_time)?;
    let from_sent = add_up(&|all| &all.time_from_sent)?;
    let lateness = add_up(&|all| &all.lateness)?;
    Ok(OperationResult {
        count,
        throughput,
        errors,
        keys: sum(&|one| one.keys),
        hits: sum(&|one| one.hits),
        misses: sum(&|one| one.misses),
        bytes_sent: sum(&|one| one.bytes_sent),
        bytes_received: sum(&|one| one.bytes_received),
        response_time: TimeDistribution::of(&response),
        time_from_sent: TimeDistribution::of(&from_sent),
        lateness: TimeDistribution::of(&lateness),
        histogram: HistogramResult::of(&response),
        distributions: Some(Distributions {
            response_time: Packed::of(&response),
            time_from_sent: Packed::of(&from_sent),
            lateness: Packed::of(&lateness),
        }),
    })
}

/// The sum of distributions, all of which must be there.
fn unpack_all<'a>(packed: impl Iterator<Item = Option<&'a Packed>>) -> Result<MeasuredDistribution, Mistake> {
    let mut sum = MeasuredDistribution::new();
    for one in packed {
        let one = one.ok_or_else(|| {
            Mistake::new("a result without its histograms cannot be merged", "run the generator anew")
        })?;
        sum.merge(&one.unpack()?);
    }
    Ok(sum)
}

/// Where a row of the series stands: its second, its class, its operation.
type Place = (u64, usize, usize, bool);

fn series(results: &[LoadResult], started: f64) -> Result<Vec<SeriesRow>, Mistake> {
    let classes: Vec<&str> = results[0].classes.iter().map(|class| class.name.as_str()).collect();
    let mut rows: BTreeMap<Place, Vec<SeriesRow>> = BTreeMap::new();
    for one in results {
        let shift = (one.started_unix - started).round();
        for row in &one.series {
            let start = row.start + shift;
            let class = classes.iter().position(|&name| name == row.class).map_or(0, |place| place + 1);
            let operation = Operation::from_name(&row.operation).map_or(0, |operation| operation.index() + 1);
            let place = (Nanos::from_seconds(start).0, class, operation, row.measured);
            rows.entry(place).or_default().push(SeriesRow { start, ..row.clone() });
        }
    }
    rows.into_values().map(|parts| row(&parts)).collect()
}

/// The same second of several generators.
fn row(parts: &[SeriesRow]) -> Result<SeriesRow, Mistake> {
    let busy = || parts.iter().filter(|one| one.count > 0);
    let response = unpack_all(busy().map(|one| one.response_times.as_ref()))?;
    let sum = |of: &dyn Fn(&SeriesRow) -> u64| parts.iter().map(of).sum::<u64>();
    let at = |quantile| response.quantile(quantile).map_or(0.0, Nanos::as_seconds);
    let (count, errors) = (sum(&|one| one.count), sum(&|one| one.errors));
    let length = parts.iter().map(|one| one.length).fold(0.0, f64::max);
    // A mean is a whole number of nanoseconds over a count: its sum can be had back.
    let late = sum(&|one| Nanos::from_seconds(one.lateness * one.count as f64).0);
    let exact = response.exact();
    let is_any = count > 0;
    Ok(SeriesRow {
        count,
        errors,
        length,
        throughput: PerSecond::over(count.saturating_sub(errors), Nanos::from_seconds(length)),
        hits: sum(&|one| one.hits),
        misses: sum(&|one| one.misses),
        bytes_sent: sum(&|one| one.bytes_sent),
        bytes_received: sum(&|one| one.bytes_received),
        mean: response.mean().unwrap_or(0.0),
        min: if is_any { exact.least.as_seconds() } else { 0.0 },
        p50: at(0.5),
        p99: at(0.99),
        max: exact.greatest.as_seconds(),
        lateness: if is_any { Nanos(late).as_seconds() / count as f64 } else { 0.0 },
        response_times: is_any.then(|| Packed::of(&response)),
        ..parts[0].clone()
    })
}

#[cfg(test)]
mod tests {
    use krarup_memcache::ReplyClass as Kind;
    use krarup_net::Clock;
    use krarup_record::{ServerVisit, Visit};
    use krarup_units::Stamp;
    use proptest::prelude::*;

    use super::*;
    use crate::account::{Account, LossReason, MeasuredSpan, Segment};
    use crate::clocks::{AskedServer, ServerSecond};
    use crate::collect::Collected;
    use crate::config::{ClientClass, Extent};
    use crate::engine::Done;
    use crate::run::Phase;

    fn merge(results: &[LoadResult]) -> Result<LoadResult, MergeError> {
        let names: Vec<String> = (1..=results.len()).map(|number| format!("{number}.json")).collect();
        super::merge(results, &names)
    }

    /// One request: class, operation, due, sent, answered, whether it was lost.
    type Request = (u16, Operation, u64, u64, u64, bool);

    fn segments(load: &Load, requests: &[Request]) -> Vec<Segment> {
        let measured = MeasuredSpan { from: Stamp(1_500_000_000), to: Stamp(3_000_000_000) };
        let mut account = Account::new(measured, load.parts().len());
        let mut requests = requests.to_vec();
        requests.sort_by_key(|one| one.2 + one.3 + one.4);
        for (class, operation, due, late, took, is_lost) in requests {
            let mut visit = Visit::at(Stamp(due), operation);
            visit.station = class;
            visit.taken = Stamp(due + late);
            visit.replied = visit.taken + Nanos(took);
            visit.keys = 1;
            visit.bytes_in = due % 100;
            let server = ServerVisit::ok(0, visit.taken, visit.replied);
            if is_lost {
                account.lost(LossReason::TimedOut, &mut visit, server);
            } else {
                account.answered(Kind::Stored, &mut visit, server);
            }
        }
        account.close(Stamp(4_000_000_000));
        account.over
    }

    fn done(requests: usize) -> Done {
        Done {
            sent: requests as u64,
            unsent: 1,
            late: Vec::new(),
            bytes_sent: 10,
            bytes_received: 20,
            verified: crate::account::Verified::default(),
            last: Stamp(4_000_000_000),
            cpu: Nanos(1_000),
            run_queue: Nanos::ZERO,
            gave_up: false,
            failure: None,
        }
    }

    /// What a generator reports whose threads had these requests.
    fn reported(load: &Load, clock: Clock, threads: &[&[Request]]) -> LoadResult {
        let mut collected = Collected::new(threads.len(), load, Phase::Run, clock);
        for (number, requests) in threads.iter().enumerate() {
            for segment in segments(load, requests) {
                collected.take(number, Some(segment), &mut |_| {});
            }
            collected.take(number, None, &mut |_| {});
        }
        let done: Vec<_> = threads.iter().map(|requests| done(requests.len())).collect();
        collected.result(load, &done, false, 1.0)
    }

    fn load(connections: u32, threads: u32) -> Load {
        let class = |name: &str| ClientClass { name: name.to_owned(), connections, ..ClientClass::default() };
        Load {
            connections: 2 * connections,
            threads,
            classes: vec![class("a"), class("b")],
            extent: Extent::Seconds(4.0),
            warm_up: 1.5,
            cool_down: 1.0,
            ..Load::default()
        }
    }

    fn any_request() -> impl Strategy<Value = Request> {
        let operation = prop_oneof![Just(Operation::Get), Just(Operation::Set), Just(Operation::Delete)];
        (
            0_u16..2,
            operation,
            0_u64..3_000_000_000,
            0_u64..1_000_000,
            0_u64..900_000_000,
            prop::bool::weighted(0.1),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        /// Two generators merged are one generator with the threads of both, in every figure.
        #[test]
        fn a_merged_result_is_that_of_the_whole(
            left in prop::collection::vec(any_request(), 1..12),
            right in prop::collection::vec(any_request(), 0..12),
        ) {
            let clock = Clock::start();
            let whole = reported(&load(10, 2), clock, &[&left, &right]);
            let parts = [reported(&load(5, 1), clock, &[&left]), reported(&load(5, 1), clock, &[&right])];
            // As files: what is written is what is read.
            let parts = parts.map(|one| serde_json::from_str::<LoadResult>(&serde_json::to_string(&one).unwrap()).unwrap());
            let merged = merge(&parts).unwrap();
            prop_assert_eq!(&merged.account, &whole.account);
            prop_assert_eq!(&merged.overall, &whole.overall);
            prop_assert_eq!(&merged.operations, &whole.operations);
            prop_assert_eq!(&merged.classes, &whole.classes);
            prop_assert_eq!(&merged.series, &whole.series);
            prop_assert_eq!(&merged.config, &whole.config);
            prop_assert_eq!(merged.seconds, whole.seconds);
            prop_assert_eq!(merged.merged_from.len(), 2);
        }
    }

    #[test]
    fn shares_are_merged_only_where_all_are_there_once_and_whole() {
        let clock = Clock::start();
        let whole = load(5, 1);
        let share = |number| {
            let share = Some(LoadShare { number, of: 3, start_at: Some(7) });
            let load = Load { share, ..whole.clone() };
            reported(&load, clock, &[&[(0, Operation::Get, 2_000_000_000, 0, 5, false)]])
        };
        let all = [share(1), share(2), share(3)];
        let merged = merge(&all).unwrap();
        assert_eq!((merged.config, merged.account.sent), (Load { threads: 3, ..whole.clone() }, 3));
        assert_eq!((merged.overall.count, merged.classes[0].connections), (3, 5));
        let refused = |results: &[LoadResult]| merge(results).unwrap_err().to_string();
        assert!(refused(&all[..2]).contains("of 3 shares these are missing: 3"));
        assert!(matches!(merge(&all[..2]), Err(MergeError::Incomplete(_))), "they make sense");
        assert!(refused(&[share(2)]).contains("missing: 1, 3"));
        assert!(refused(&[share(1), share(2), share(3), share(2)]).contains("more than once: 2"));
        let [first, second, mut third] = all;
        third.interrupted = true;
        let mut parts = [first, second, third];
        assert!(refused(&parts).contains("share 3 of 3 was stopped before its end"));
        assert!(matches!(merge(&parts), Err(MergeError::Incomplete(_))));
        parts[2] = share(3);
        parts[2].config.share.as_mut().unwrap().start_at = Some(8);
        assert!(refused(&parts).contains("began at different times"));
        parts[2] = share(3);
        parts[2].config.seed = 9;
        assert!(refused(&parts).contains("not shares of the same load"));
        parts[2].config.share = None;
        assert!(refused(&parts).contains("not shares of the same load"));
    }

    /// As one generator counts them, whose threads end apart.
    #[test]
    fn the_rate_of_shares_is_over_the_longest_and_lengths_that_differ_are_told() {
        let clock = Clock::start();
        let part = |share, seconds, operation| {
            let load = Load { share, ..load(5, 1) };
            let one = reported(&load, clock, &[&[(0, operation, 2_000_000_000, 0, 5, false)]]);
            LoadResult { seconds, ..one }
        };
        let share = |number| Some(LoadShare { number, of: 2, start_at: None });
        let parts = |longest| [part(share(1), 1.0, Operation::Get), part(share(2), longest, Operation::Set)];
        let merged = merge(&parts(4.0)).unwrap();
        let rates = [&merged.overall, &merged.operations["get"], &merged.classes[0].overall];
        assert_eq!(rates.map(|one| one.throughput.0), [0.5, 0.25, 0.5]);
        assert_eq!(merged.seconds, 4.0);
        let apart = LoadWarning::EndedApart { shortest: 1.0, longest: 4.0 };
        assert!(merged.warnings.contains(&apart), "{:?}", merged.warnings);
        assert!(apart.to_string().contains("measured for 1.00 s to 4.00 s"), "{apart}");
        let differs = |merged: &LoadResult| {
            merged.warnings.iter().any(|one| matches!(one, LoadWarning::EndedApart { .. }))
        };
        assert!(!differs(&merge(&parts(1.01)).unwrap()));
        // Generators that send loads of their own have rates of their own.
        let each = [1.0, 4.0].map(|seconds| part(None, seconds, Operation::Get));
        let both = merge(&each).unwrap();
        assert_eq!(both.overall.throughput.0, 2.0 * each[0].overall.throughput.0);
        assert!(differs(&both) && differs(&merge(&[both.clone(), each[0].clone()]).unwrap()));
        // And so they have where they are merged in steps.
        for rest in [vec![], vec![each[1].clone()]] {
            let steps = merge(&[vec![both.clone()], rest.clone()].concat()).unwrap();
            let once = merge(&[each.to_vec(), rest].concat()).unwrap();
            let rates = |all: &LoadResult| {
                [&all.overall, &all.operations["get"], &all.classes[0].overall].map(|one| one.throughput)
            };
            assert_eq!(rates(&steps), rates(&once));
        }
    }

    #[test]
    fn generators_of_one_seed_are_told_unless_they_are_shares() {
        let clock = Clock::start();
        let part = |seed, number: Option<u32>| {
            let share = number.map(|number| LoadShare { number, of: 2, start_at: None });
            let load = Load { seed, share, ..load(5, 1) };
            reported(&load, clock, &[&[(0, Operation::Get, 2_000_000_000, 0, 5, false)]])
        };
        let same = LoadWarning::SameSeed { seed: 7 };
        let told = |results: &[LoadResult]| merge(results).unwrap().warnings.contains(&same);
        assert!(told(&[part(8, None), part(7, None), part(7, None)]));
        assert!(!told(&[part(7, None), part(8, None)]));
        let shares = [part(7, Some(1)), part(7, Some(2))];
        assert!(!told(&shares));
        assert!(told(&[merge(&shares).unwrap(), part(7, None)]), "merged once more");
        assert!(same.to_string().contains("give each a --seed of its own"), "{same}");
    }

    #[test]
    fn clocks_of_generators_are_compared_through_merged_results_too() {
        let clock = Clock::start();
        let part = |began| {
            let one = reported(&load(5, 1), clock, &[&[(0, Operation::Get, 0, 0, 5, false)]]);
            let server = AskedServer { address: "a:1".to_owned(), pid: 7, started: 9, id: None };
            let seen = ServerSecond { server, second: 50, began, within: 0.001 };
            LoadResult { clock: Some(seen), ..one }
        };
        let both = merge(&[part(50.25), part(50.26)]).unwrap();
        let within = both.clocks.as_ref().unwrap().within.unwrap();
        assert!((within - 0.012).abs() < 1e-9, "{within}");
        assert!(crate::table::table(&both, None).contains("\nclocks agree within 12.0 ms\n"));
        let bare = LoadResult { clock: None, ..part(0.0) };
        let three = merge(&[both.clone(), bare]).unwrap().clocks.unwrap();
        assert_eq!((three.asked, three.unknown), (vec![2], 1));
        let Err(MergeError::Clocks(refused)) = merge(&[both, part(52.0)]) else { panic!() };
        assert!(
            refused.what.starts_with("the clock of 2.json is 1.75 s ahead of that of 1.json"),
            "{refused}"
        );
    }

    #[test]
    fn what_does_not_add_up_is_refused_and_what_is_apart_is_told() {
        let clock = Clock::start();
        let one = reported(&load(5, 1), clock, &[&[(0, Operation::Get, 0, 0, 5, false)]]);
        assert!(merge(&[]).is_err());
        let other = LoadResult { format: 99, ..one.clone() };
        assert!(merge(&[one.clone(), other]).unwrap_err().to_string().contains("99"));
        let other = LoadResult { classes: Vec::new(), ..one.clone() };
        assert!(merge(&[one.clone(), other]).unwrap_err().to_string().contains("classes"));
        let mut later = one.clone();
        later.started_unix += 2.1;
        let merged = merge(&[one.clone(), later]).unwrap();
        let apart = |merged: &LoadResult| {
            merged.warnings.iter().any(|warning| matches!(warning, LoadWarning::StartedApart { .. }))
        };
        assert!(apart(&merged));
        assert!(apart(&merge(&[merged.clone(), one.clone()]).unwrap()), "merged once more");
        assert!(merged.series.iter().any(|row| row.start == 2.0 && row.operation == "get" && row.count == 1));
        let mut bare = one.clone();
        bare.overall.distributions = None;
        assert!(merge(&[one, bare]).unwrap_err().to_string().contains("histograms"));
    }
}
