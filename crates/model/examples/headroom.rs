//! Judges the estimator of headroom on systems whose capacity is known.
//!
//! `headroom` prints one line per system and level, and a table; `headroom KIND [SEED]` prints the
//! whole answers for one system as JSON, beside the truth. Of the environment:
//!
//! - `HEADROOM_SEED`: the first seed. Without it the judging seeds are taken, by which nothing is
//!   tuned; while a constant is being chosen, give 1000.
//! - `HEADROOM_SYSTEMS`: how many systems; each has the next kind and the next seed.
//! - `HEADROOM_KINDS`: the kinds, with commas between them; all otherwise.
//! - `HEADROOM_CHANGES`: 1 judges what is said of changes instead: a line for each, and a table.
//! - `HEADROOM_MINUTES`: for how many each level is watched; 1 otherwise. What an answer found of
//!   the servers is remembered by the next.
//! - `HEADROOM_KEPT`: how many visits the books keep; as many as a loop's otherwise.
//! - `HEADROOM_LOOPS`: through how many event loops the traffic goes; one otherwise. Kinds whose
//!   loop is full first are left out where there are several.

#![allow(clippy::disallowed_methods, reason = "it measures how long it takes")]
#![allow(clippy::print_stdout, reason = "the table is what it is run for")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use headroom::changed::{JudgedChange, watch_changes};
use headroom::judging::{Effort, JUDGING_SEED, Judged, LEVELS, SHAPING_SEED, quantile, watch};
use headroom::kinds::{Candidate, KINDS, Kind, candidate};
use krarup_model::headroom::HeadroomVerdict;
use krarup_record::live::KEPT_VISITS;

#[path = "../tests/all/headroom/mod.rs"]
mod headroom;

/// How long the truth is looked for.
const THOROUGH: Effort =
    Effort { saturation: 200_000, target: 600_000, seconds: 60, kept: KEPT_VISITS, minutes: 1, loops: 1 };

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    if let Some(kind) = words.next() {
        let seed = words.next().map_or(Ok(SHAPING_SEED), |seed| seed.parse())?;
        return print_answers(kind_named(&kind)?, seed);
    }
    let seed = variable("HEADROOM_SEED")?.unwrap_or(JUDGING_SEED);
    let systems = variable("HEADROOM_SYSTEMS")?.unwrap_or(40) as usize;
    let mut kinds = match std::env::var("HEADROOM_KINDS") {
        Ok(list) => list.split(',').map(kind_named).collect::<Result<Vec<_>, _>>()?,
        Err(_) => KINDS.iter().map(|(kind, _)| *kind).collect(),
    };
    let kept = variable("HEADROOM_KEPT")?.map_or(KEPT_VISITS, |kept| kept as usize);
    let begin = Instant::now();
    let minutes = variable("HEADROOM_MINUTES")?.map_or(1, |minutes| minutes.max(1) as usize);
    let loops = variable("HEADROOM_LOOPS")?.map_or(1, |loops| loops.clamp(1, 64) as u16);
    if loops > 1 {
        kinds.retain(|kind| !matches!(kind, Kind::Proxy | Kind::Tls));
    }
    let effort = Effort { kept, minutes, loops, ..THOROUGH };
    if variable("HEADROOM_CHANGES")?.is_some_and(|asked| asked > 0) {
        let effort = Effort { saturation: 60_000, target: 150_000, seconds: 10, ..effort };
        let mut judged = judge_all(&kinds, seed, systems, |one| watch_changes(one, effort));
        judged.sort_by_key(|one| one.seed);
        for one in &judged {
            println!("{}", line_of_change(one));
        }
        print_changes(&judged);
    } else {
        let mut judged = judge_all(&kinds, seed, systems, |one| watch(one, LEVELS.len(), effort));
        judged.sort_by_key(|one| (one.seed, one.level));
        for one in &judged {
            println!("{}", line(one));
        }
        print_levels(&judged);
        print_kinds(&judged);
        print_silence(&judged);
    }
    println!("\n{systems} systems from seed {seed} in {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}

fn variable(name: &str) -> Result<Option<u64>, Box<dyn Error>> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().map_err(|_| format!("{name}={text}: not a number").into()))
        .transpose()
}

fn kind_named(name: &str) -> Result<Kind, String> {
    let known = || KINDS.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(" ");
    let found = KINDS.iter().find(|(_, known)| *known == name);
    found.map(|(kind, _)| *kind).ok_or_else(|| format!("no kind `{name}`; there are: {}", known()))
}

fn print_answers(kind: Kind, seed: u64) -> Result<(), Box<dyn Error>> {
    let candidate = candidate(kind, seed);
    println!("{:#?}", candidate.law);
    for one in watch(&candidate, LEVELS.len(), THOROUGH) {
        println!("\n{}\n{:?}", line(&one), one.truth);
        println!("{}", serde_json::to_string_pretty(&one.answer)?);
    }
    Ok(())
}

/// What is judged of all systems, over all processors, in no order.
fn judge_all<J: Send>(
    kinds: &[Kind],
    seed: u64,
    systems: usize,
    judge: impl Fn(&Candidate) -> Vec<J> + Sync,
) -> Vec<J> {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= systems {
                        return;
                    }
                    let judged = judge(&candidate(kinds[number % kinds.len()], seed + number as u64));
                    found.lock().expect("no thread panics").extend(judged);
                }
            });
        }
    });
    found.into_inner().expect("no thread panics")
}

fn percent(level: usize) -> f64 {
    LEVELS[level].1 * 100.0
}

fn line(one: &Judged) -> String {
    let error =
        |error: Option<f64>| error.map_or_else(|| "–".to_owned(), |error| format!("{:+.1}%", error * 100.0));
    let verdict = match one.answer.verdict {
        HeadroomVerdict::Proven => "proven",
        HeadroomVerdict::Stated => "stated",
        HeadroomVerdict::Projected => "projected",
        HeadroomVerdict::Silent => "silent",
    };
    let named = one.answer.bottleneck.as_ref().map_or_else(
        || "–".to_owned(),
        |named| format!("{:?} {}", named.resource, named.name).trim().to_lowercase(),
    );
    let interval = one.answer.capacity_per_s.map_or_else(String::new, |interval| {
        format!(
            "{:.0} [{:.0}, {:.0}] of {:.0}",
            interval.mean, interval.low, interval.high, one.truth.capacity
        )
    });
    let check = one
        .answer
        .check
        .map_or_else(String::new, |check| format!("check {:+.2} {:+.2}", check.mean, check.p95));
    format!(
        "{:6} {:9} {:2.0} {verdict:9} {:12} p99 capacity {:>8} saturation {:>8} {} {interval:32} {check} {:?}",
        one.seed,
        one.kind.name(),
        percent(one.level),
        format!("{named}{}", if one.named_right { "" } else { " !" }),
        error(one.capacity_error()),
        error(one.saturation_error()),
        if one.covers() { "in " } else { "OUT" },
        one.answer.silent,
    )
}

/// Median and 90th percentile of what is off, without signs.
fn spread(errors: impl Iterator<Item = f64>) -> String {
    let mut errors: Vec<f64> = errors.map(|error| error.abs() * 100.0).collect();
    if errors.is_empty() {
        return "–".to_owned();
    }
    format!("{:.1} / {:.1} %", quantile(&mut errors, 0.5), quantile(&mut errors, 0.9))
}

const GROUPS: [&str; 3] = ["known kinds", "new kinds", "hidden quota"];

fn group(kind: Kind) -> usize {
    let place = KINDS.iter().position(|(one, _)| *one == kind).unwrap_or(0);
    // A quota shows nothing of itself before it is met: no estimator can know it.
    if kind == Kind::Cliff { 2 } else { usize::from(place >= 20) }
}

fn print_levels(judged: &[Judged]) {
    println!(
        "\n| seen up to | systems | said: stated + projected of all | bottleneck right | saturation error, median / p90 | p99 capacity error, median / p90 | covered | false confident, high (stated) | low (stated) |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (number, name) in GROUPS.iter().enumerate() {
        for level in 0..LEVELS.len() {
            let all = judged.iter().filter(|one| one.level == level && group(one.kind) == number);
            print_level(&format!("{:.0} % | {name}", percent(level)), &all.collect::<Vec<_>>());
        }
    }
    for level in 0..LEVELS.len() {
        let all = judged.iter().filter(|one| one.level == level);
        print_level(&format!("{:.0} % | all", percent(level)), &all.collect::<Vec<_>>());
    }
}

fn print_level(name: &str, all: &[&Judged]) {
    if all.is_empty() {
        return;
    }
    let said: Vec<&&Judged> = all.iter().filter(|one| one.said()).collect();
    let is_stated = |one: &Judged| one.answer.verdict == HeadroomVerdict::Stated;
    let stated = said.iter().filter(|one| is_stated(one)).count();
    let right = said.iter().filter(|one| one.named_right).count();
    let covered = said.iter().filter(|one| one.covers()).count();
    let wrong = |high: bool| {
        let wrong: Vec<_> =
            said.iter().filter(|one| one.false_confident().is_some_and(|off| (off > 0.0) == high)).collect();
        format!("{} ({})", wrong.len(), wrong.iter().filter(|one| is_stated(one)).count())
    };
    println!(
        "| {name} | {}: {stated} + {} of {} | {right} | {} | {} | {covered} | {} | {} |",
        said.len(),
        said.len() - stated,
        all.len(),
        spread(said.iter().filter_map(|one| one.saturation_error())),
        spread(said.iter().filter_map(|one| one.capacity_error())),
        wrong(true),
        wrong(false),
    );
}

fn print_kinds(judged: &[Judged]) {
    println!(
        "\n| kind | said of all | right | p99 capacity error, median / p90 | saturation error, median / p90 | covered |"
    );
    println!("|---|---|---|---|---|---|");
    for (kind, name) in KINDS {
        let all: Vec<_> = judged.iter().filter(|one| one.kind == kind).collect();
        let said: Vec<_> = all.iter().filter(|one| one.said()).collect();
        if all.is_empty() {
            continue;
        }
        println!(
            "| {name} | {} of {} | {} | {} | {} | {} |",
            said.len(),
            all.len(),
            said.iter().filter(|one| one.named_right).count(),
            spread(said.iter().filter_map(|one| one.capacity_error())),
            spread(said.iter().filter_map(|one| one.saturation_error())),
            said.iter().filter(|one| one.covers()).count(),
        );
    }
}

fn print_silence(judged: &[Judged]) {
    let mut reasons = BTreeMap::new();
    for reason in judged.iter().flat_map(|one| &one.answer.silent) {
        *reasons.entry(format!("{reason:?}")).or_insert(0) += 1;
    }
    let silent = judged.iter().filter(|one| !one.said()).count();
    println!("\nsilent {silent} of {}, because of: {reasons:?}", judged.len());
}

fn line_of_change(one: &JudgedChange) -> String {
    let error = one.error().map_or_else(|| "–".to_owned(), |error| format!("{:+.1}%", error * 100.0));
    let silent = if one.said_as_it_is { one.effect.silent.as_deref() } else { Some("silent as it is") };
    let interval = one.effect.capacity_per_s.map_or_else(String::new, |interval| {
        format!("{:.0} [{:.0}, {:.0}] of {:.0}", interval.mean, interval.low, interval.high, one.truth)
    });
    let covers = one.covers().map_or("", |covers| if covers { "in " } else { "OUT" });
    format!(
        "{:6} {:9} {:18} {error:>8} {covers} {interval:32} {}",
        one.seed,
        one.kind.name(),
        one.change,
        silent.unwrap_or("")
    )
}

fn print_changes(judged: &[JudgedChange]) {
    println!("\n| change | said of all | off by, median / p90 | covered |\n|---|---|---|---|");
    let changes: BTreeSet<&str> = judged.iter().map(|one| one.change).collect();
    for change in changes {
        let all: Vec<_> = judged.iter().filter(|one| one.change == change).collect();
        let said: Vec<_> = all.iter().filter(|one| one.said()).collect();
        let covered: Vec<bool> = said.iter().filter_map(|one| one.covers()).collect();
        let inside = covered.iter().filter(|covers| **covers).count();
        let covered =
            if covered.is_empty() { "–".to_owned() } else { format!("{inside} of {}", covered.len()) };
        let off = spread(said.iter().filter_map(|one| one.error()));
        println!("| {change} | {} of {} | {off} | {covered} |", said.len(), all.len());
    }
}
