//! Workers set by what the servers show, against the best number that could have been set by hand.

use krarup_model::headroom::{LiveServer, LiveSystem, Silence, workers_wanted};
use krarup_record::{LiveBooks, LiveSnapshot};
use krarup_units::{Nanos, Stamp};

use super::system::{Load, SECOND, Simulation, SystemLaw};

const MOST: u32 = 256;
/// The usual traffic lasts so long, and the overload after it.
const USUAL: u64 = 150;
const OVERLOAD: u64 = 40;

/// Up to 60 % of saturation, then three times saturation.
fn load(saturation: f64) -> Load {
    let usual = |second: u64| saturation * (0.35 + 0.25 * (second as f64 / 7.0).sin());
    Load::Open((0..USUAL).map(usual).chain((0..OVERLOAD).map(|_| 3.0 * saturation)).collect())
}

/// Replies in each second of the overload, with workers that are decided every ten seconds, or with
/// so many all the time; and the numbers that were decided.
fn overload(law: &SystemLaw, saturation: f64, fixed: Option<usize>) -> (Vec<u64>, Vec<u32>) {
    let load = load(saturation);
    let mut run = Simulation::new(law, &load, 11);
    run.books = Some(LiveBooks::default());
    let mut workers = MOST;
    run.workers = Some(fixed.unwrap_or(MOST as usize));
    let (mut replies, mut decided) = (Vec::new(), Vec::new());
    for second in 1..=USUAL + OVERLOAD {
        let before = run.replies;
        run.run_until(second * SECOND);
        if second > USUAL + 2 {
            replies.push(run.replies - before);
        }
        if fixed.is_none() && second % 10 == 0 {
            let system = known(law, workers);
            let snapshot = run.books.as_ref().unwrap().snapshot(Stamp(second * SECOND));
            workers = workers_wanted(&snapshot, &system, workers, MOST).unwrap_or(workers);
            decided.push(workers);
            run.workers = Some(workers as usize);
        }
    }
    (replies, decided)
}

/// What a proxy before this system knows of it.
fn known(law: &SystemLaw, workers: u32) -> LiveSystem {
    let server = LiveServer { name: "a".to_owned(), ..LiveServer::default() };
    LiveSystem {
        servers: vec![server],
        lanes: Some(law.lanes as u16),
        workers: Some(workers),
        processors_per_loop: 1.0,
        ..LiveSystem::default()
    }
}

/// What its usual traffic shows.
fn usual(law: &SystemLaw, saturation: f64) -> LiveSnapshot {
    let load = load(saturation);
    let mut run = Simulation::new(law, &load, 11);
    run.books = Some(LiveBooks::default());
    run.run_until(USUAL * SECOND);
    run.books.as_ref().unwrap().snapshot(Stamp(USUAL * SECOND))
}

/// What is decided of it, from `MOST` workers.
fn decided(law: &SystemLaw, snapshot: &LiveSnapshot) -> Result<u32, Silence> {
    workers_wanted(snapshot, &known(law, MOST), MOST, MOST)
}

#[test]
fn where_nothing_is_said_of_the_headroom_the_number_stays() {
    let law = SystemLaw::of(8e-4, 3.2e-3);
    let seen = usual(&law, 1.0 / 8e-4);
    assert_eq!(decided(&law, &seen), Ok(MOST / 2), "down, by a half at the most");
    let mut contended = seen.clone();
    for window in &mut contended.windows {
        window.used.run_queue = Nanos::from_millis(200);
    }
    assert_eq!(decided(&law, &contended), Err(Silence::MachineContended));
    let mut failing = seen.clone();
    for window in &mut failing.windows {
        window.failures = window.requests / 50;
    }
    assert_eq!(decided(&law, &failing), Err(Silence::Failures));
    let slower = SystemLaw { change: Some((140.0, 2.2)), ..law.clone() };
    assert_eq!(decided(&law, &usual(&slower, 1.0 / 8e-4)), Err(Silence::ChangedJustNow));
}

/// A quick server: what a loop can do more where it has more to do at once would be lost.
#[test]
fn where_the_loop_is_full_first_or_requests_are_batched_the_number_stays() {
    let law = SystemLaw::of(8e-4, 3.2e-3);
    let mut seen = usual(&law, 1.0 / 8e-4);
    for window in &mut seen.windows {
        window.used.processor = Nanos(420_000 * window.requests);
    }
    assert_eq!(decided(&law, &seen), Ok(MOST), "the loop may be full at 2,400/s");
    for (batch, traffic) in [((16, 0.6), 800.0), ((4, 0.8), 2_500.0)] {
        let law = SystemLaw { batch: Some(batch), ..law.clone() };
        // Also where nothing is concluded the number stays.
        let stays = decided(&law, &usual(&law, traffic)).unwrap_or(MOST);
        assert_eq!(stays, MOST, "several at once: {batch:?}");
    }
}

#[test]
fn at_three_times_overload_goodput_is_that_of_the_best_fixed_number() {
    let plain = SystemLaw::of(8e-4, 3.2e-3);
    let contended = SystemLaw { contention: 0.03, ..plain.clone() };
    let lanes = SystemLaw { lanes: 3, ..SystemLaw::of(2e-3, 4e-3) };
    for (name, law) in [("plain", plain), ("contended", contended), ("lanes", lanes)] {
        let saturation = law.lanes as f64 / law.servers[0].service;
        let sum = |replies: &[u64]| replies.iter().sum::<u64>() as f64;
        let fixed: Vec<(usize, f64)> = [4, 6, 8, 12, 16, 24, 48, 256]
            .into_iter()
            .map(|workers| (workers, sum(&overload(&law, saturation, Some(workers)).0)))
            .collect();
        let best = fixed.iter().map(|one| one.1).fold(0.0, f64::max);
        let (replies, decided) = overload(&law, saturation, None);
        let share = sum(&replies) / best;
        println!("{name}: {share:.3} of the best; {decided:?}; fixed {fixed:?}");
        assert!(share >= 0.95, "{name}: {share} of the best of {fixed:?}; decided {decided:?}");
        // No second in which it dips.
        let mean = sum(&replies) / replies.len() as f64;
        let least = replies.iter().min().copied().unwrap_or(0) as f64;
        assert!(least >= 0.85 * mean, "{name}: {least} of {mean}");
    }
}
