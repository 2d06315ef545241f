//! The simulated systems against what is known of them on paper.

use krarup_record::{LiveBooks, LiveVisit};
use krarup_units::Stamp;

use super::judging::{Effort, saturation};
use super::kinds::{KINDS, Kind, candidate};
use super::system::{Interruption, Load, SECOND, ServiceLaw, Simulation, SystemLaw, WriteMix};

const QUICK: Effort =
    Effort { saturation: 60_000, target: 60_000, seconds: 6, kept: 0, minutes: 1, loops: 1 };

/// A loop that takes no time, so that only the server counts.
fn server_alone(law: ServiceLaw) -> SystemLaw {
    SystemLaw { law, pass: 0.0, entry: 0.0, exit: 0.0, ..SystemLaw::of(4e-4, 2e-4) }
}

fn mean_response(law: &SystemLaw, rate: f64) -> f64 {
    let load = Load::Open(vec![rate]);
    let mut run = Simulation::new(law, &load, 3);
    run.keep_from = Some(SECOND);
    run.run_until((400_000.0 / rate) as u64 * SECOND);
    run.responses.iter().sum::<f64>() / run.responses.len() as f64
}

/// R = d + S + ρ S (1 + c²) / (2 (1 − ρ)), Pollaczek and Khinchine.
#[test]
fn one_server_waits_as_pollaczek_and_khinchine_have_it() {
    let service = 4e-4;
    let laws = [
        (ServiceLaw::Constant, 0.0),
        (ServiceLaw::Gamma, 0.25),
        (ServiceLaw::Exponential, 1.0),
        (ServiceLaw::Hyper, 2.0 * (0.1 * 5.4 * 5.4 + 0.9 * (4.6_f64 / 9.0).powi(2)) - 1.0),
    ];
    for (law, variation) in laws {
        let busy = 0.6;
        let expected = 2e-4 + service + busy * service * (1.0 + variation) / (2.0 * (1.0 - busy));
        let found = mean_response(&server_alone(law), busy / service);
        assert!((found / expected - 1.0).abs() < 0.03, "{law:?}: {found} for {expected}");
    }
}

/// What each kind can do at most, where this is known without simulation.
fn known_saturation(kind: Kind, law: &SystemLaw) -> Option<f64> {
    let server = law.servers[0];
    let rate = 1.0 / server.service;
    Some(match kind {
        Kind::Exp | Kind::Det | Kind::Gam | Kind::Hyp | Kind::Rtt | Kind::Wake | Kind::Clients => rate,
        Kind::Threads => rate * law.lanes as f64,
        Kind::Cores => rate * law.processors,
        Kind::Kappa => rate / (1.0 + 16.0 * law.contention),
        Kind::Link => {
            let bytes = f64::from(law.bytes.0 as u32) + 100.0;
            server.link.filter(|_| law.bytes.1 == 0.0)? / bytes
        }
        Kind::Cliff => match law.interruption {
            Interruption::Quota { share, .. } => rate * share,
            _ => return None,
        },
        Kind::Stops => match law.interruption {
            Interruption::Stops { share, .. } => rate * share,
            _ => return None,
        },
        Kind::Collector => match law.interruption {
            Interruption::Collector { work, seconds } => rate / (1.0 + seconds / work),
            _ => return None,
        },
        Kind::Proxies => rate - law.other_proxy?.rate,
        Kind::Diurnal => match law.averaged().mix {
            Some(mix) => rate / (1.0 + (mix.factor - 1.0) * mix.from),
            None => 1.0 / (server.service + law.per_byte * law.bytes.0),
        },
        Kind::Batch => {
            let (most, each) = law.batch?;
            rate * most as f64 / (1.0 - each + each * most as f64)
        }
        _ => return None,
    })
}

/// Of the collector, and of services that now and then take ten times as long, a short run has
/// too few.
fn tolerance(kind: Kind, law: &SystemLaw) -> f64 {
    match kind {
        Kind::Collector => 0.12,
        _ if law.law == ServiceLaw::Hyper => 0.05,
        _ => 0.03,
    }
}

#[test]
fn two_hundred_requests_fill_the_first_resource_and_no_more() {
    let mut seen = 0;
    for (kind, name) in KINDS {
        for seed in 500..502 {
            let law = candidate(kind, seed).law;
            let Some(expected) = known_saturation(kind, &law) else { continue };
            let found = saturation(&law.averaged(), QUICK, seed);
            assert!(
                (found / expected - 1.0).abs() < tolerance(kind, &law),
                "{name} {seed}: {found} for {expected}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 25, "{seen}");
}

/// The share of work that the most loaded server has: its own, and copies of its neighbour's or
/// what failed there.
#[test]
fn copies_and_second_tries_load_the_next_server_as_requests_do() {
    for kind in [Kind::Hedge, Kind::Retry] {
        let one = candidate(kind, 500);
        let servers = &one.law.servers;
        let twice = one.law.hedged + one.law.retried;
        let load = |place: usize| servers[place].share + twice * servers[(place + 2) % 3].share;
        let highest = (0..3).map(load).fold(0.0, f64::max);
        let expected = 1.0 / (servers[0].service * highest);
        let found = saturation(&one.law, QUICK, 1);
        // With 200 clients the others are empty now and then, never the first.
        assert!((found / expected - 1.0).abs() < 0.05, "{kind:?}: {found} for {expected}");
        assert!((load(one.limit.1) - highest).abs() < 1e-12);
    }
}

/// What failed at one server is asked of the next when that is known, and both are in the books.
#[test]
fn a_second_try_begins_when_the_first_has_failed() {
    let law = candidate(Kind::Retry, 500).law;
    let load = Load::Open(vec![0.3 * saturation(&law, QUICK, 1)]);
    let mut run = Simulation::new(&law, &load, 2);
    run.books = Some(LiveBooks::new(1 << 20));
    run.run_until(5 * SECOND);
    let kept = run.books.as_ref().unwrap().snapshot(Stamp(5 * SECOND)).visits;
    let twice: Vec<_> = kept.windows(2).filter(|pair| pair[1].follows()).collect();
    for pair in &twice {
        assert_eq!(pair[1].server(), (pair[0].server() + 1) % 3);
        assert!(pair[0].answered <= pair[1].sent && pair[0].received == pair[1].received, "{pair:?}");
    }
    let share = twice.len() as f64 / run.replies as f64;
    assert!((share / law.retried - 1.0).abs() < 0.2, "{share} for {}", law.retried);
}

/// A share of writes that turns is where it began after each turn, and in the mean half way.
#[test]
fn what_turns_is_the_same_system_after_each_turn() {
    let mix = WriteMix { factor: 2.0, from: 0.1, to: 0.3, over: 10.0, turns: true };
    let law = SystemLaw { mix: Some(mix), ..SystemLaw::of(4e-4, 2e-4) };
    assert!(
        !law.changes() && SystemLaw { mix: Some(WriteMix { turns: false, ..mix }), ..law.clone() }.changes()
    );
    let load = Load::Open(vec![500.0]);
    let mut run = Simulation::new(&law, &load, 2);
    run.books = Some(LiveBooks::new(1 << 20));
    run.run_until(60 * SECOND);
    let kept = run.books.as_ref().unwrap().snapshot(Stamp(60 * SECOND)).visits;
    let share = |tenths: std::ops::Range<u64>| {
        let of = |one: &&LiveVisit| tenths.contains(&(one.received.0 / (SECOND / 10) % 100));
        let all: Vec<_> = kept.iter().filter(of).collect();
        all.iter().filter(|one| one.is_write()).count() as f64 / all.len() as f64
    };
    for (part, expected) in [(0..5, 0.1), (45..55, 0.3), (95..100, 0.1), (0..100, 0.2)] {
        let found = share(part.clone());
        assert!((found - expected).abs() < 0.025, "{part:?}: {found}");
    }
}

/// What two kinds have in common: the loop is full, and a pass is shared by what it reads.
#[test]
fn a_full_loop_serves_as_fast_as_its_passes_allow() {
    let law = candidate(Kind::Proxy, 500).law;
    let each = law.entry + law.exit;
    let found = saturation(&law, QUICK, 1);
    assert!(found <= 1.001 / each, "{found} for {}", 1.0 / each);
    assert!(found >= 0.7 / each, "{found} for {}", 1.0 / each);
}

/// Little's law: no more than W requests are held at once.
#[test]
fn workers_bound_the_throughput_by_what_they_hold() {
    let law = candidate(Kind::Workers, 501).law;
    let server = law.servers[0];
    let held = server.delay * (1.0 + 0.5 * law.jitter) + server.service;
    let bound = law.workers.unwrap() as f64 / held;
    let found = saturation(&law, QUICK, 1);
    assert!(found < bound && found > 0.75 * bound, "{found} of {bound}");
    assert!(found < 0.8 / server.service, "the server is not full");
}

/// Every request is in the books once, its stamps in order, and the windows add up.
#[test]
fn books_hold_what_happened() {
    for (kind, name) in KINDS {
        let law = candidate(kind, 502).law;
        let load = Load::Open(vec![0.3 * saturation(&law, QUICK, 1)]);
        let mut run = Simulation::new(&law, &load, 2);
        run.books = Some(LiveBooks::new(1 << 20));
        run.run_until(5 * SECOND);
        let kept = run.books.as_ref().unwrap().snapshot(Stamp(5 * SECOND));
        let replied = kept.visits.iter().filter(|one| !one.is_late() && !one.follows()).count() as u64;
        assert_eq!(replied, run.replies, "{name}");
        assert!(replied > 100, "{name}");
        for one in &kept.visits {
            assert!(one.taken <= one.sent && one.sent < one.answered, "{name}: {one:?}");
            assert!(one.answered <= one.replied, "{name}: {one:?}");
        }
        let is_hedged = kept.visits.iter().any(LiveVisit::is_late);
        assert_eq!(is_hedged, kind == Kind::Hedge, "{name}");
        assert_eq!(kept.windows.len(), 5, "{name}");
        let requests: u64 = kept.windows.iter().map(|one| one.requests).sum();
        assert!(requests <= replied && requests + 100 > replied, "{name}: {requests} of {replied}");
        for window in &kept.windows {
            assert!(window.used.passes > 0 && window.used.processor.0 < SECOND, "{name}: {window:?}");
        }
    }
}

/// Answers on one lane come in the order in which requests were sent.
#[test]
fn a_lane_keeps_its_order() {
    let law = candidate(Kind::Threads, 503).law;
    let load = Load::Open(vec![0.8 * saturation(&law, QUICK, 1)]);
    let mut run = Simulation::new(&law, &load, 2);
    run.books = Some(LiveBooks::new(1 << 20));
    run.run_until(5 * SECOND);
    let kept = run.books.as_ref().unwrap().snapshot(Stamp(5 * SECOND));
    let mut last = vec![(0, 0); law.lanes];
    let mut together = 0;
    for one in &kept.visits {
        let newest = (one.sent_at().0, one.answered_at().0);
        let before = std::mem::replace(&mut last[usize::from(one.lane())], newest);
        assert!(before <= newest && before.1 <= newest.1, "{before:?} before {newest:?}");
        together += u32::from(before.1 == newest.1);
    }
    assert!(together < kept.visits.len() as u32 / 2, "{together}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let law = candidate(Kind::Slow, 504).law;
    let responses = |seed| {
        let load = Load::Open(vec![1000.0]);
        let mut run = Simulation::new(&law, &load, seed);
        run.keep_from = Some(0);
        run.run_until(2 * SECOND);
        run.responses
    };
    assert_eq!(responses(1), responses(1));
    assert_ne!(responses(1), responses(2));
}
