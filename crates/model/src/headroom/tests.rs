//! Small systems whose truth is known in closed form.

use krarup_record::{LiveBooks, LiveSnapshot, LoopUse, Operation, Outcome, ServerVisit, Visit};
use krarup_units::Stamp;

use super::*;
use crate::simulate::random::RandomStream;

/// One connection to one server: a fixed round trip around a FIFO queue.
struct OneServer {
    /// Round trip without a queue, in seconds.
    outside: f64,
    /// Mean service time, in seconds.
    service: f64,
    /// Whether service times are exponential; else constant.
    exponential: bool,
    /// Requests per second at a time.
    rate: fn(f64) -> f64,
    seconds: f64,
    /// From when on the service time is so many times as long.
    change: Option<(f64, f64)>,
    /// By which share it goes up and down in every thirty seconds.
    swing: f64,
}

impl OneServer {
    /// An exponential one of a thousand requests a second, which stays as it is.
    fn for_a_minute(rate: fn(f64) -> f64) -> Self {
        Self {
            outside: 1e-3,
            service: 1e-3,
            exponential: true,
            rate,
            seconds: 60.0,
            change: None,
            swing: 0.0,
        }
    }

    fn run(&self, seed: u64) -> LiveSnapshot {
        let mut random = RandomStream::named(seed, 0, &["test"]);
        let mut books = LiveBooks::default();
        let (mut now, mut free, mut second) = (1.0, 0.0, 1.0_f64);
        while now < self.seconds {
            now += random.draw(&rand_distr::Exp1) / (self.rate)(now);
            let draw = random.draw(&rand_distr::Exp1);
            let slower = self.change.filter(|&(at, _)| now > at).map_or(1.0, |(_, times)| times);
            let turn = 1.0 + self.swing * (now / 30.0 * std::f64::consts::TAU).sin();
            let service = self.service * slower * turn * if self.exponential { draw } else { 1.0 };
            free = (now + 0.5 * self.outside).max(free) + service;
            while second < free + 0.5 * self.outside {
                books.loop_use(moment(second), LoopUse::default());
                second += 1.0;
            }
            let mut visit = Visit::at(moment(now), Operation::Get);
            let answered = moment(free + 0.5 * self.outside);
            visit.replied = answered;
            visit.bytes_out = 100;
            books.finish(&visit, &[ServerVisit::ok(0, visit.received, answered)]);
        }
        books.snapshot(moment(self.seconds))
    }
}

fn asked(seconds: f64) -> HeadroomQuestion {
    let target = Some(ResponseTarget { quantile: 0.99, seconds });
    HeadroomQuestion { target, changes: Vec::new(), seed: 1 }
}

fn one() -> LiveSystem {
    LiveSystem::of(["a".to_owned()])
}

/// The answer, with what changes do also where nothing is told of the system as it is.
fn with_effects(seen: &LiveSnapshot, system: &LiveSystem, question: &HeadroomQuestion) -> Headroom {
    judge::with_effects(seen, system, question, &mut HeadroomMemory::default(), |_| true)
}

/// M/M/1: P(R > t) = exp(−(μ − λ) t) of the queue's own part.
#[test]
fn an_exponential_server_is_found_from_a_third_of_its_load() {
    let system = OneServer {
        outside: 400e-6,
        service: 500e-6,
        exponential: true,
        rate: |now| 500.0 + 150.0 * (now / 10.0).sin(),
        seconds: 61.0,
        change: None,
        swing: 0.0,
    };
    let target = 400e-6 + (100.0_f64).ln() / (2_000.0 - 1_500.0);
    let answer = judge(&system.run(7), &one(), &asked(target));
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation / 2_000.0 - 1.0).abs() < 0.05, "{saturation}");
    let capacity = answer.capacity_per_s.unwrap();
    assert!((capacity.mean / 1_500.0 - 1.0).abs() < 0.1, "{capacity:?}");
}

/// Of two loops with a connection each one has three quarters of the traffic: its connection is
/// full at 10,000 of these.
#[test]
fn the_connection_of_the_loop_with_the_most_traffic_is_full_first() {
    let of_loop = |rate: fn(f64) -> f64, seed: u64| {
        OneServer { service: 100e-6, ..OneServer::for_a_minute(rate) }.run(seed)
    };
    let mut seen = of_loop(|_| 6_000.0, 1);
    seen.merge(&of_loop(|_| 2_000.0, 2));
    let answer = judge(&seen, &one(), &HeadroomQuestion { target: None, ..asked(1.0) });
    let full_at = answer.resources.iter().find_map(|one| one.full_at_per_s).unwrap();
    assert!((12_000.0..14_500.0).contains(&full_at), "{full_at}");
}

/// Constant service times at servers that each have one queue for the connections of two loops.
struct TwoLoops {
    /// Visits that a loop keeps of a second; any more are left out.
    kept_a_second: usize,
    services: Vec<f64>,
    seconds: f64,
}

impl TwoLoops {
    /// At a time, of each loop, with the server that its requests go to.
    fn run(
        &self,
        rates: [fn(f64) -> f64; 2],
        server_of: impl Fn(usize, f64) -> usize,
        seed: u64,
    ) -> LiveSnapshot {
        let mut random = RandomStream::named(seed, 0, &["two loops"]);
        let mut loops = [(), ()].map(|()| LiveBooks::new(64 * self.kept_a_second));
        let mut free = vec![0.0; self.services.len()];
        let mut next = [1.0, 1.0].map(|now| now + random.draw(&rand_distr::Exp1) / 1e3);
        let mut done: Vec<(f64, f64, usize, usize)> = Vec::new();
        loop {
            let number = usize::from(next[1] < next[0]);
            let now = next[number];
            if now > self.seconds {
                break;
            }
            next[number] += random.draw(&rand_distr::Exp1) / rates[number](now);
            let server = server_of(number, random.fraction());
            free[server] = f64::max(now + 50e-6, free[server]) + self.services[server];
            done.push((free[server] + 50e-6, now, number, server));
        }
        done.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut second = 1.0;
        for (answered, sent, number, server) in done {
            while second < answered {
                loops.iter_mut().for_each(|books| books.loop_use(moment(second), LoopUse::default()));
                second += 1.0;
            }
            let mut visit = Visit::at(moment(sent), Operation::Get);
            visit.replied = moment(answered);
            visit.bytes_out = 100;
            loops[number].finish(&visit, &[ServerVisit::ok(server as u16, visit.received, visit.replied)]);
        }
        let [mut all, other] = loops.map(|books| books.snapshot(moment(self.seconds)));
        all.merge(&other);
        all
    }
}

/// A server with one thread does 2,000 requests a second, also where each loop sees a half of its
/// work alone.
#[test]
fn loops_that_wait_for_one_server_do_not_each_have_their_own() {
    let servers = TwoLoops { kept_a_second: 768, services: vec![500e-6], seconds: 61.0 };
    let half = |now: f64| 600.0 + 150.0 * (now / 10.0).sin();
    let seen = servers.run([half, half], |_, _| 0, 3);
    // Also where there are six loops more that have no clients.
    for lanes in [None, Some(8)] {
        let system = LiveSystem { lanes, ..one() };
        let answer = judge(&seen, &system, &HeadroomQuestion { target: None, ..asked(1.0) });
        // How many connections were busy when a service began says not all of how many are
        // meanwhile.
        let saturation = answer.saturation_per_s.unwrap();
        assert!((saturation / 2_000.0 - 1.0).abs() < 0.15, "{answer:?}");
        let capacity = answer.capacity_per_s.unwrap();
        assert!(capacity.low < 2_000.0 && capacity.high > 2_000.0, "{answer:?}");
    }
}

/// The first loop has ten times as many requests, of which it can keep a tenth. Its server a is
/// full at 10,000 of them.
#[test]
fn a_request_counts_alike_in_each_loop_however_many_it_keeps() {
    let servers = TwoLoops { kept_a_second: 300, services: vec![100e-6, 100e-6], seconds: 61.0 };
    let rates: [fn(f64) -> f64; 2] = [|now| 6_000.0 + 800.0 * (now / 10.0).sin(), |_| 600.0];
    let seen = servers.run(rates, |number, _| number, 3);
    let system = LiveSystem::of(["a", "b"].map(str::to_owned));
    let answer = judge(&seen, &system, &HeadroomQuestion { target: None, ..asked(1.0) });
    let first = answer.resources.iter().find(|one| one.name == "a").unwrap();
    let full_at = first.full_at_per_s.unwrap();
    assert!((full_at / 11_000.0 - 1.0).abs() < 0.1, "{answer:?}");
    assert!((answer.saturation_per_s.unwrap() / 11_000.0 - 1.0).abs() < 0.1, "{answer:?}");
}

/// What the quiet loop kept is older than all that is known of the other.
#[test]
fn a_loop_that_was_asked_hours_ago_changes_nothing_that_is_said_of_the_other() {
    const HOURS: f64 = 7.0 * 3_600.0;
    let mut busy = OneServer::for_a_minute(|_| 500.0).run(7);
    let visits = busy.visits.iter_mut().map(|one| &mut one.received);
    let stretches = busy.stretches.iter_mut().flat_map(|one| [&mut one.from, &mut one.to]);
    let windows = busy.windows.iter_mut().flat_map(|one| [&mut one.from, &mut one.to]);
    for stamp in visits.chain(stretches).chain(windows).chain([&mut busy.at, &mut busy.first_slot]) {
        stamp.0 += moment(HOURS).0;
    }
    let mut books = LiveBooks::default();
    for at in [1.0, 1.1, 1.2] {
        let mut visit = Visit::at(moment(at), Operation::Get);
        visit.replied = moment(at + 1e-3);
        books.finish(&visit, &[ServerVisit::ok(1, visit.received, visit.replied)]);
    }
    (0..60).for_each(|second| books.loop_use(moment(HOURS + f64::from(second)), LoopUse::default()));
    let quiet = books.snapshot(busy.at);
    let system = LiveSystem::of(["a".to_owned(), "b".to_owned()]);
    let alone = judge(&busy, &system, &asked(20e-3));
    let figures = |answer: &Headroom| {
        let (traffic, capacity) = (answer.traffic, answer.capacity_per_s.unwrap().mean);
        [traffic.over_s, traffic.highest_per_s, capacity, answer.saturation_per_s.unwrap()]
    };
    for (mut both, other) in [(busy.clone(), &quiet), (quiet.clone(), &busy)] {
        both.merge(other);
        let answer = judge(&both, &system, &asked(20e-3));
        assert_eq!((answer.verdict, &answer.silent), (alone.verdict, &alone.silent));
        for (seen, expected) in figures(&answer).into_iter().zip(figures(&alone)) {
            assert!((seen / expected - 1.0).abs() < 0.01, "{seen}, not {expected}: {answer:?}");
        }
    }
}

#[test]
fn a_constant_server_far_away_is_found() {
    let system = OneServer {
        outside: 4e-3,
        service: 300e-6,
        exponential: false,
        rate: |_| 1_300.0,
        seconds: 61.0,
        change: None,
        swing: 0.0,
    };
    let answer = judge(&system.run(3), &one(), &asked(10e-3));
    let state = &answer.resources[0];
    assert!((state.service_us.unwrap() - 300.0).abs() < 9.0, "{state:?}");
    assert!((state.outside_us.unwrap() - 4_000.0).abs() < 60.0, "{state:?}");
    assert_eq!(answer.verdict, HeadroomVerdict::Projected, "{:?}", answer.silent);
}

/// A server that got slower or quicker: never the old figure 5 s later, the new one or nothing.
#[test]
fn a_change_of_the_service_time_is_seen_within_five_seconds() {
    for (times, seed) in [(1.6, 1), (1.6, 2), (2.2, 3), (0.5, 4), (0.5, 5)] {
        for after in [5.0, 8.0, 20.0, 30.0, 45.0] {
            let system = OneServer {
                outside: 400e-6,
                service: 500e-6,
                exponential: true,
                rate: |now| 500.0 + 100.0 * (now / 7.0).sin(),
                seconds: 100.0 + after,
                change: Some((100.0, times)),
                swing: 0.0,
            };
            let answer = judge(&system.run(seed), &one(), &HeadroomQuestion { target: None, ..asked(1.0) });
            let (truth, told) = (2_000.0 / times, answer.saturation_per_s.unwrap_or(0.0));
            let right = (told / truth).ln().abs() < 0.1;
            assert!(
                right || answer.verdict == HeadroomVerdict::Silent,
                "x{times} after {after} s: {told}, not {truth}"
            );
        }
    }
}

/// What goes up and down has its mean speed wherever the time ends, and has not changed. Half a
/// round is no proof of that.
#[test]
fn a_speed_that_goes_up_and_down_has_not_changed() {
    for seconds in [61.0, 66.0, 71.0, 76.0, 81.0, 86.0] {
        let system = OneServer {
            outside: 400e-6,
            service: 500e-6,
            exponential: true,
            rate: |_| 550.0,
            seconds,
            change: None,
            swing: 0.3,
        };
        let answer = judge(&system.run(11), &one(), &HeadroomQuestion { target: None, ..asked(1.0) });
        // Mean of 1/(1 + a sin) over a round: 1/√(1 − a²).
        let truth = 2_000.0 / (1.0_f64 - 0.3 * 0.3).sqrt();
        let told = answer.saturation_per_s.unwrap();
        assert!((told / truth).ln().abs() < 0.15, "{told}, not {truth}, after {seconds} s");
        assert!(!answer.silent.contains(&Silence::ChangedJustNow), "{:?}", answer.silent);
        assert!(answer.traffic.over_s > seconds - 3.0, "{:?}", answer.traffic);
    }
}

#[test]
fn when_traffic_has_stopped_there_is_none_now() {
    let mut seen = OneServer::for_a_minute(|_| 500.0).run(7);
    let changes = vec![HeadroomChange::Traffic(1.5), HeadroomChange::ServerSlow(0, 1.2)];
    let question = HeadroomQuestion { changes, ..asked(8e-3) };
    let running = judge(&seen, &one(), &question);
    assert!((running.traffic.now_per_s / 500.0 - 1.0).abs() < 0.1, "{:?}", running.traffic);
    assert_eq!(running.broken_now, Some(true));
    seen.at = moment(65.0);
    let half = judge(&seen, &one(), &question).traffic.now_per_s / running.traffic.now_per_s;
    assert!((half - 0.5).abs() < 0.05, "of half of the ten seconds: {half}");
    seen.at = moment(300.0);
    let answer = with_effects(&seen, &one(), &question);
    assert_eq!((answer.traffic.now_per_s, answer.headroom_ratio), (0.0, None));
    assert_eq!(answer.broken_now, None, "no reply shows it");
    assert_eq!(answer.saturation_per_s, running.saturation_per_s);
    assert_eq!(answer.what_if[0].silent.as_deref(), Some("no_traffic"));
    let slower = &answer.what_if[1];
    assert!(slower.capacity_per_s.is_some() && slower.quantile_s.is_none(), "{slower:?}");
}

/// What waits for the store has no reply that could show for how long.
#[test]
fn while_the_store_takes_nothing_no_capacity_is_stated() {
    let target = ResponseTarget { quantile: 0.99, seconds: 20e-3 };
    let mut system = one();
    system.servers[0].proven = Some(ProvenServer {
        target,
        server_per_s: 600.0,
        usual_parts: None,
        traffic_per_s: 600.0,
        missed_per_s: None,
        slower_per_s: None,
    });
    let minute = OneServer::for_a_minute(|_| 500.0).run(7);
    for seen in [minute, LiveSnapshot::default()] {
        system.store_takes_nothing = false;
        let before = judge(&seen, &system, &asked(20e-3));
        assert_ne!(before.verdict, HeadroomVerdict::Silent, "{:?}", before.silent);
        system.store_takes_nothing = true;
        let answer = judge(&seen, &system, &asked(20e-3));
        assert_eq!(answer.verdict, HeadroomVerdict::Silent);
        assert_eq!(answer.silent[0], Silence::StoreTakesNothing);
    }
}

/// The change is as near to the end of the traffic as it was then.
#[test]
fn a_quiet_end_does_not_hide_a_change_before() {
    let system = OneServer { seconds: 75.0, change: Some((50.0, 1.6)), ..OneServer::for_a_minute(|_| 400.0) };
    for seed in 7..10 {
        let mut seen = system.run(seed);
        seen.at = moment(86.0);
        let answer = judge(&seen, &one(), &HeadroomQuestion { target: None, ..asked(1.0) });
        let told = answer.saturation_per_s;
        assert!(told.is_none_or(|told| (told * 1.6e-3).ln().abs() < 0.15), "{told:?}, not 625: {answer:?}");
    }
}

#[test]
fn of_a_target_below_the_response_time_without_a_queue_no_rate_is_told() {
    let seen = OneServer { service: 2e-4, exponential: false, ..OneServer::for_a_minute(|_| 1_500.0) }.run(3);
    let answer = judge(&seen, &one(), &asked(0.5e-3));
    assert_eq!((answer.verdict, answer.capacity_per_s), (HeadroomVerdict::Silent, None));
    assert_eq!(answer.silent, [Silence::TargetBelowIdle]);
    assert_eq!(answer.broken_now, Some(true));
    assert!(answer.saturation_per_s.is_some() && answer.check.is_some());
    // What else is wrong is told, too.
    let mut contended = seen.clone();
    contended.windows.iter_mut().for_each(|one| one.used.run_queue = krarup_units::Nanos(500_000_000));
    let silent = judge(&contended, &one(), &asked(0.5e-3)).silent;
    assert_eq!(silent, [Silence::MachineContended, Silence::TargetBelowIdle]);
    // A change may do the same.
    let changes = vec![HeadroomChange::ServerSlow(0, 4.0)];
    let seen = OneServer::for_a_minute(|_| 300.0).run(3);
    let answer = with_effects(&seen, &one(), &HeadroomQuestion { changes, ..asked(0.01) });
    assert!(answer.capacity_per_s.is_some());
    assert_eq!(answer.what_if[0].silent.as_deref(), Some("target_below_idle"));
}

/// 3,000 requests within a second, of which the server does 1,000 a second.
#[test]
fn what_was_served_is_what_was_replied_to() {
    let rate: fn(f64) -> f64 = |now| if (30.0..31.0).contains(&now) { 3_000.0 } else { 300.0 };
    let answer = judge(
        &OneServer { exponential: false, ..OneServer::for_a_minute(rate) }.run(3),
        &one(),
        &HeadroomQuestion { target: None, ..asked(1.0) },
    );
    let proven = answer.proven_per_s;
    assert!((950.0..=1_050.0).contains(&proven.one_second), "{proven:?}");
    assert!((proven.one_second..=1_050.0).contains(&proven.tenth_of_a_second), "{proven:?}");
}

/// Three requests for each two replies: at the end the last reply is to a request of 15 s ago,
/// which is longer than a visit can tell.
#[test]
fn a_target_is_broken_while_all_replies_are_to_old_requests() {
    let mut books = LiveBooks::default();
    for number in 0..45_000 {
        let mut visit = Visit::at(moment(1.0 + f64::from(number) / 1_500.0), Operation::Get);
        visit.replied = moment(1.0 + f64::from(number + 1) / 1_000.0);
        books.finish(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)]);
    }
    let answer = judge(&books.snapshot(moment(46.0)), &one(), &asked(0.01));
    assert_eq!(answer.broken_now, Some(true));
    assert!(answer.traffic.now_per_s > 1_200.0, "{:?}", answer.traffic);
}

/// Traffic in every other second: twenty minutes have replies in so many seconds as ten of steady
/// traffic, and arrivals are known of ten.
#[test]
fn requests_and_arrivals_are_of_the_same_time() {
    let mut books = LiveBooks::default();
    for second in (0..1_500).step_by(2) {
        for number in 0..10 {
            let at = f64::from(second) + 0.1 * f64::from(number);
            let mut visit = Visit::at(moment(at), Operation::Get);
            visit.replied = moment(at + 1e-3);
            books.finish(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)]);
        }
    }
    let snapshot = books.snapshot(moment(1_500.0));
    let kept = kept::kept(&snapshot, &one(), Stamp(0), snapshot.at);
    let seconds = kept.arrivals.len() as f64 / 20.0;
    assert!((seconds - kept.span).abs() < 1.0, "{seconds} of {}", kept.span);
    for (second, slots) in kept.arrivals.chunks(20).enumerate() {
        let second = second as f64;
        let received = kept.requests.iter().map(|one| one.received);
        let received = received.filter(|at| (second..second + 1.0).contains(at)).count() as f64;
        let arrived: f64 = slots.iter().sum();
        // The slot that went on at the end is not complete.
        assert!((arrived - received).abs() <= 1.0, "{second}: {arrived} and {received}");
    }
}

/// A moment, so many seconds after the clock began.
fn moment(seconds: f64) -> Stamp {
    Stamp((seconds * 1e9).round() as u64)
}

/// The system as fitted to a request each millisecond for 20 s.
fn each_millisecond(
    system: &LiveSystem,
    request: impl Fn(f64) -> (Visit, Vec<ServerVisit>),
) -> fitted::Fitted<'_> {
    let mut books = LiveBooks::default();
    for number in 0..20_000 {
        let at = 1.0 + f64::from(number) * 1e-3;
        if number % 1_000 == 0 {
            books.loop_use(moment(at), LoopUse::default());
        }
        let (visit, servers) = request(at);
        books.finish(&visit, &servers);
    }
    let snapshot = books.snapshot(moment(21.0));
    let kept = kept::kept(&snapshot, system, Stamp(0), snapshot.at);
    let traffic = traffic::SeenTraffic::of(&kept).unwrap();
    fitted::Fitted::of(kept, traffic, system, &[], 1)
}

/// Another try begins when the first has ended.
#[test]
fn parts_that_follow_others_are_replayed_one_after_the_other() {
    let system = LiveSystem::of(["a".to_owned(), "b".to_owned()]);
    let fitted = each_millisecond(&system, |at| {
        let mut visit = Visit::at(moment(at), Operation::Get);
        let (failed, answered) = (moment(at + 100e-6), moment(at + 300e-6));
        visit.replied = answered;
        let first =
            ServerVisit { outcome: Outcome::ServerError, ..ServerVisit::ok(0, visit.received, failed) };
        (visit, vec![first, ServerVisit::ok(1, failed, answered)])
    });
    let check = fitted.check().unwrap();
    assert!(check.mean.abs() < 0.01 && check.p95.abs() < 0.01, "{check:?}");
}

/// Far apart, each request has two passes of its own; all at once, a pass carries all.
#[test]
fn a_loop_takes_what_is_ready_in_one_pass() {
    let system = LiveSystem::of(["a".to_owned()]);
    let fitted = each_millisecond(&system, |at| {
        let mut visit = Visit::at(moment(at), Operation::Get);
        // 10 µs in the loop, 100 µs away, 10 µs in the loop.
        visit.replied = moment(at + 120e-6);
        (visit, vec![ServerVisit::ok(0, moment(at + 10e-6), moment(at + 110e-6))])
    });
    let cost = replay::PassCost { per_pass: 4e-6, per_request: 20e-6 };
    let mut random = fitted.random("passes");
    let mut replay = fitted.replay(false);
    replay.serve_in_passes(cost, 24e-6, &mut random);
    // The pass that reads an answer begins 4 µs before: they were counted to the server.
    let seen = replay.at_own_times(&mut random);
    assert!(seen.iter().all(|(_, one)| (one.response - 120e-6).abs() < 1e-9), "{:?}", seen[0]);
    let at_once: Vec<_> = (0..1_000).map(|like| traffic::Arrival { at: 0.0, like }).collect();
    // All are read in one pass and replied to in another.
    let both = 2.0 * cost.per_pass + 1_000.0 * cost.per_request;
    let last = replay.at_rate(&at_once, &mut random).iter().map(|one| one.response).fold(0.0, f64::max);
    assert!((last - both).abs() < 0.02 * both, "{last} for {both}");
}

/// A link that seems full, and carries more.
#[test]
fn what_was_served_refutes_a_resource_that_is_told_full_before() {
    let rate = |second: f64| 100.0 + 400.0 * (second / 60.0);
    let seen = OneServer::for_a_minute(rate);
    let mut snapshot = seen.run(5);
    assert_eq!(judge(&snapshot, &one(), &asked(0.02)).silent, []);
    for window in &mut snapshot.windows {
        window.used.link_time = krarup_units::Nanos::from_secs(1);
        window.used.link_busy = krarup_units::Nanos(700_000_000 + 1_000_000 * window.requests.min(300));
    }
    let answer = judge(&snapshot, &one(), &asked(0.02));
    assert_eq!(answer.bottleneck.map(|one| one.resource), Some(ResourceKind::Link));
    assert_eq!(answer.silent, [Silence::CheckFailed], "full at {:?}", answer.saturation_per_s);
}

/// What others leave of a machine is no limit, and their work distorts what is measured.
#[test]
fn a_machine_that_others_use_silences_and_is_not_named() {
    let rate = |second: f64| 100.0 + 400.0 * (second / 60.0);
    let seen = OneServer::for_a_minute(rate);
    let snapshot = seen.run(5);
    // Shares of the machine that others take, and of the loop's time that it waits; 100 us a
    // request on the loop, 200 us on the machine.
    let judged = |others: f64, waited: f64| {
        let mut snapshot = snapshot.clone();
        for window in &mut snapshot.windows {
            window.used.processor = krarup_units::Nanos(100_000 * window.requests);
            window.used.run_queue = krarup_units::Nanos((waited * 1e9) as u64);
            window.used.machine_time = krarup_units::Nanos::from_secs(1);
            let busy = (others * 1e9) as u64 + 200_000 * window.requests;
            window.used.machine_busy = krarup_units::Nanos(busy.min(1_000_000_000));
        }
        judge(&snapshot, &one(), &HeadroomQuestion { target: None, ..asked(0.02) })
    };
    let silent = |others: f64, waited: f64| judged(others, waited).silent;
    assert_eq!(silent(0.1, 0.01), []);
    assert_eq!(silent(0.1, 0.04), [Silence::MachineContended], "its own processor time is 3 %");
    for others in [0.5, 0.9, 0.99] {
        let answer = judged(others, 0.01);
        assert_eq!(answer.silent, [Silence::MachineContended], "{others}");
        assert_eq!(answer.bottleneck.map(|one| one.resource), Some(ResourceKind::Server), "{others}");
        let processors = answer.resources.iter().find(|one| one.resource == ResourceKind::Processors);
        let state = processors.map(|one| (one.full_at_per_s, one.busy_now.unwrap() > others - 1e-6));
        assert_eq!(state, Some((None, true)));
    }
}

/// Waits for a processor of a quota are no other program's, unless the machine shows one.
#[test]
fn a_loop_that_waits_for_its_own_quota_is_told_so() {
    let mut seen = OneServer::for_a_minute(|second| 100.0 + 400.0 * (second / 60.0)).run(5);
    seen.windows.iter_mut().for_each(|one| one.used.run_queue = krarup_units::Nanos(400_000_000));
    let silent = |seen: &LiveSnapshot, processors_per_loop: f64| {
        judge(seen, &LiveSystem { processors_per_loop, ..one() }, &asked(0.02)).silent
    };
    assert_eq!(silent(&seen, 1.0), [Silence::MachineContended]);
    assert_eq!(silent(&seen, 0.5), [Silence::OwnQuota]);
    for window in &mut seen.windows {
        window.used.machine_time = krarup_units::Nanos::from_secs(1);
        window.used.machine_busy = krarup_units::Nanos(500_000_000 + 200_000 * window.requests);
    }
    assert_eq!(silent(&seen, 0.5), [Silence::MachineContended]);
}

/// Or it would count for a day after the machine is quiet again.
#[test]
fn what_was_seen_on_a_machine_that_others_use_is_not_remembered() {
    let mut seen = OneServer::for_a_minute(|second| 100.0 + 400.0 * (second / 60.0)).run(5);
    let remembered = |seen: &LiveSnapshot| {
        let mut memory = HeadroomMemory::default();
        let answer = judge_remembering(seen, &one(), &asked(0.02), &mut memory);
        (answer.silent.contains(&Silence::MachineContended), memory.of("a", Stamp(u64::MAX)).len())
    };
    assert_eq!(remembered(&seen), (false, 1));
    seen.windows.iter_mut().for_each(|one| one.used.run_queue = krarup_units::Nanos(400_000_000));
    assert_eq!(remembered(&seen), (true, 0));
}

/// What is used up by clients that come with the traffic is full before the server is.
#[test]
fn connections_that_grow_with_the_traffic_are_the_limit() {
    let rate = |second: f64| 300.0 + 200.0 * (second / 8.0).sin();
    let seen = OneServer::for_a_minute(rate);
    let mut snapshot = seen.run(5);
    let most = |clients: u32| LiveSystem { most_clients: Some(clients), ..one() };
    let question = HeadroomQuestion { target: None, ..asked(0.02) };
    for window in &mut snapshot.windows {
        window.used.clients = 10 + window.requests as u32 / 10;
    }
    let answer = judge(&snapshot, &most(80), &question);
    let bottleneck = answer.bottleneck.as_ref().map(|one| one.resource);
    assert_eq!(bottleneck, Some(ResourceKind::Connections), "{answer:#?}");
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation / 700.0 - 1.0).abs() < 0.05, "{saturation}");
    assert!(answer.capacity_per_s.unwrap().mean <= saturation);
    assert_eq!(answer.resources[0].full_at_per_s, Some(saturation), "first");
    // Changes of the server do not give it more; what it lacks without them it lacks with them.
    let changes =
        [HeadroomChange::ServerMore, HeadroomChange::ServerSlow(0, 1.1), HeadroomChange::ServerSlow(0, 2.0)];
    let changed = HeadroomQuestion { changes: changes.to_vec(), ..question.clone() };
    let found = with_effects(&snapshot, &most(80), &changed).what_if;
    let means: Vec<f64> = found.iter().map(|effect| effect.capacity_per_s.unwrap().mean).collect();
    assert_eq!(means[..2], [saturation, saturation], "{found:#?}");
    assert!((means[2] / 500.0 - 1.0).abs() < 0.1, "the server is full before: {means:?}");
    let target = asked(0.02).target;
    let changes = vec![HeadroomChange::Traffic(0.5), HeadroomChange::Traffic(5.0)];
    let question_of_rates = HeadroomQuestion { target, changes, seed: 1 };
    let at_rates = with_effects(&snapshot, &most(80), &question_of_rates).what_if;
    assert!(at_rates[0].quantile_s.is_some(), "{at_rates:#?}");
    assert_eq!((at_rates[1].quantile_s, at_rates[1].holds), (None, Some(false)), "it would be refused");
    // There is room for many more.
    let server = judge(&snapshot, &most(1_000), &question);
    assert_eq!(server.bottleneck.map(|one| one.resource), Some(ResourceKind::Server));
    // They stay as many as they are, near the limit.
    snapshot.windows.iter_mut().for_each(|window| window.used.clients = 75);
    let near = judge(&snapshot, &most(80), &question);
    assert!(near.assumes.iter().any(|one| one.contains("connections: 94 % used")), "{:?}", near.assumes);
    assert!(near.assumes.iter().any(|one| one.starts_with("others who ask the same servers")));
}

/// One worker before a server that falls asleep when it has nothing to do for 10 µs, and wakes up
/// within 60 µs: with more traffic it sleeps less.
#[test]
fn a_full_worker_meets_a_server_that_is_awake() {
    let mut random = RandomStream::named(1, 0, &["asleep"]);
    let mut books = LiveBooks::default();
    let (mut now, mut free) = (1.0_f64, 0.0_f64);
    while now < 61.0 {
        now += random.draw(&rand_distr::Exp1) / (3_000.0 + 1_000.0 * (now / 9.0).sin());
        let begin = free.max(now);
        let asleep = if begin > free + 10e-6 { 60e-6 } else { 0.0 };
        free = begin + 40e-6 * random.draw(&rand_distr::Exp1) + 20e-6 + asleep;
        let mut visit = Visit::at(moment(now), Operation::Get);
        (visit.taken, visit.replied) = (moment(begin), moment(free));
        books.finish(&visit, &[ServerVisit::ok(0, moment(begin), moment(free))]);
    }
    let system = LiveSystem { workers: Some(1), ..one() };
    let answer = judge(&books.snapshot(moment(61.0)), &system, &asked(1e-3));
    assert_eq!(answer.bottleneck.unwrap().resource, ResourceKind::Workers);
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation * 60e-6 - 1.0).abs() < 0.05, "{saturation} of {}", 1.0 / 60e-6);
    // Of M/G/1 at 0.95 the mean wait is 0.8 ms already.
    let capacity = answer.capacity_per_s.unwrap().mean;
    assert!((0.6..0.95).contains(&(capacity * 60e-6)), "{capacity}");
}

/// Of requests that are read together all but the first are taken a little later, by idle workers:
/// that they take longer says nothing of full ones.
#[test]
fn what_is_read_together_has_not_waited_for_a_worker() {
    let mut books = LiveBooks::default();
    for number in 0..8_000 {
        let at = 1.0 + f64::from(number) * 1e-3;
        let mut visit = Visit::at(moment(at), Operation::Get);
        let (after, hold) = if number % 2 == 0 { (5e-6, 400e-6) } else { (0.0, 200e-6) };
        let taken = moment(at + after);
        (visit.queued, visit.taken, visit.replied) = (taken, taken, moment(at + after + hold));
        books.finish(&visit, &[ServerVisit::ok(0, taken, visit.replied)]);
    }
    let snapshot = books.snapshot(moment(9.0));
    let (mean, when_full) = kept::kept(&snapshot, &one(), Stamp(0), snapshot.at).hold();
    assert!((mean - 300e-6).abs() < 1e-6, "{mean}");
    assert!((when_full - 1.0).abs() < 1e-9, "{when_full}");
}

/// Two servers that swap their shares: what was fitted is of another mix.
#[test]
fn shares_that_change_silence() {
    let judged = |swapped: f64| {
        let mut random = RandomStream::named(1, 0, &["mix"]);
        let mut books = LiveBooks::default();
        let (mut now, mut free) = (1.0_f64, [0.0_f64; 2]);
        while now < 61.0 {
            now += random.draw(&rand_distr::Exp1) / 600.0;
            let share = if now > swapped { 0.3 } else { 0.7 };
            let server = usize::from(random.fraction() > share);
            free[server] = free[server].max(now + 1e-4) + 5e-4 * random.draw(&rand_distr::Exp1);
            let mut visit = Visit::at(moment(now), Operation::Get);
            visit.replied = moment(free[server] + 1e-4);
            books.finish(&visit, &[ServerVisit::ok(server as u16, visit.received, visit.replied)]);
        }
        let system = LiveSystem::of(["a".to_owned(), "b".to_owned()]);
        judge(&books.snapshot(Stamp(61_000_000_000)), &system, &asked(5e-3)).silent
    };
    assert!(judged(52.0).contains(&Silence::MixChanged));
    assert!(!judged(100.0).contains(&Silence::MixChanged));
}

/// At a low rate the time before is kept for minutes, and so long the mix is another.
#[test]
fn for_how_long_a_mix_that_changed_silences_is_said() {
    let mut books = LiveBooks::default();
    for number in 0..42_000_u16 {
        let at = 1.0 + f64::from(number) * 0.01;
        let server = if at < 300.0 { number % 3 } else { number % 2 };
        let mut visit = Visit::at(moment(at), Operation::Get);
        visit.replied = moment(at + 1e-3);
        books.finish(&visit, &[ServerVisit::ok(server, visit.received, visit.replied)]);
    }
    let system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    let snapshot = books.snapshot(moment(421.0));
    assert!(kept::kept(&snapshot, &system, Stamp(0), snapshot.at).mix_changed(), "after two minutes");
    assert!(Silence::MixChanged.text().ends_with("one minute at high rates and up to ten at low ones"));
}

/// Requests at a constant rate, each to the server that is said for its moment and number; nothing
/// waits anywhere.
fn without_a_queue(rate: f64, seconds: f64, server: impl Fn(f64, u16) -> u16) -> LiveSnapshot {
    let mut books = LiveBooks::default();
    let mut second = 1.0_f64;
    for number in 0..(rate * seconds) as u16 {
        let at = 1.0 + f64::from(number) / rate;
        while second < at {
            books.loop_use(moment(second), LoopUse::default());
            second += 1.0;
        }
        let mut visit = Visit::at(moment(at), Operation::Get);
        visit.replied = moment(at + 1e-3);
        let part = ServerVisit::ok(server(at, number), visit.received, visit.replied);
        books.finish(&visit, &[part]);
    }
    books.snapshot(moment(1.0 + seconds))
}

/// Neither a push that has ended, nor the time before a server was lost, is in the share by which a
/// proof is told; and the server whose proof it is is what is full first.
#[test]
fn a_proof_is_told_of_the_shares_of_the_last_seconds() {
    let pushed = |at: f64, number: u16| match number % 13 {
        _ if !(101.0..251.0).contains(&at) => number % 3,
        0..6 => 0,
        _ => 1 + number % 2,
    };
    let lost = |at: f64, number: u16| number % if at < 361.0 { 3 } else { 2 };
    let few = |_: f64, number: u16| number % 3;
    let mut system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    system.servers[0].proven = Some(ProvenServer {
        target: ResponseTarget { quantile: 0.99, seconds: 10e-3 },
        server_per_s: 1_000.0,
        usual_parts: Some(1.0 / 3.0),
        traffic_per_s: 3_000.0,
        missed_per_s: None,
        slower_per_s: None,
    });
    for (seen, told) in [
        (without_a_queue(150.0, 327.0, pushed), 3_000.0),
        (without_a_queue(60.0, 600.0, lost), 2_000.0),
        (without_a_queue(150.0, 10.0, few), 3_000.0),
    ] {
        let answer = judge(&seen, &system, &HeadroomQuestion { target: None, ..asked(1.0) });
        assert_eq!(answer.verdict, HeadroomVerdict::Proven, "{answer:?}");
        let capacity = answer.capacity_per_s.unwrap().high;
        assert!((capacity / told - 1.0).abs() < 0.01, "{capacity}, not {told}");
        assert_eq!(answer.bottleneck.map(|one| one.name).as_deref(), Some("a"));
    }
}

/// One of five servers gets nothing any more, or is new: what was fitted is of another mix.
#[test]
fn a_server_that_vanishes_or_appears_silences() {
    let judged = |gets: fn(f64) -> usize| {
        let mut random = RandomStream::named(1, 0, &["mix of five"]);
        let mut books = LiveBooks::default();
        let mut now = 1.0_f64;
        while now < 61.0 {
            now += random.draw(&rand_distr::Exp1) / 600.0;
            let mut visit = Visit::at(moment(now), Operation::Get);
            visit.replied = moment(now + 1e-3);
            let server = random.below(gets(now)) as u16;
            books.finish(&visit, &[ServerVisit::ok(server, visit.received, visit.replied)]);
        }
        let system = LiveSystem::of(["a", "b", "c", "d", "e"].map(str::to_owned));
        let snapshot = books.snapshot(moment(61.0));
        kept::kept(&snapshot, &system, Stamp(0), snapshot.at).mix_changed()
    };
    assert!(judged(|now| if now > 50.0 { 4 } else { 5 }));
    assert!(judged(|now| if now > 52.0 { 5 } else { 4 }));
    assert!(!judged(|_| 5) && !judged(|_| 4));
}

/// A database behind a pool: requests wait before its connections.
#[derive(Clone, Copy)]
struct OneStore {
    queue: ServerQueue,
    lanes: usize,
    /// Mean time of a trip with so many requests while so many trips are under way.
    time: fn(f64, f64) -> f64,
    clients: u32,
    /// The share of the trips that find no message.
    in_vain: f64,
}

impl OneStore {
    /// Requests at a rate that may change with time: when each came, its trip began and ended, and
    /// on which connection.
    fn trips(&self, rate: fn(f64, f64) -> f64, at: f64, seconds: f64, seed: u64) -> Vec<[f64; 4]> {
        let mut random = RandomStream::named(seed, 0, &["store"]);
        let (mut came, mut now) = (Vec::new(), 1.0);
        while now < seconds {
            now += random.draw(&rand_distr::Exp1) / rate(now, at);
            came.push(now);
        }
        let mut free = vec![0.0_f64; self.lanes];
        let (mut next, mut out) = (0, Vec::new());
        while next < came.len() {
            let lane = (0..self.lanes).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap();
            let begin = free[lane].max(came[next]);
            let most = if let ServerQueue::Gathered { most, .. } = self.queue { most as usize } else { 1 };
            let count = came[next..].iter().take(most).take_while(|came| **came <= begin).count();
            let under_way = 1 + free.iter().filter(|free| **free > begin).count();
            let varies = 0.6 + 0.4 * random.draw(&rand_distr::Exp1);
            let end = begin + (self.time)(count as f64, under_way as f64) * varies;
            free[lane] = end;
            out.extend(came[next..next + count].iter().map(|came| [*came, begin, end, lane as f64]));
            next += count;
        }
        out
    }

    fn snapshot(&self, rate: fn(f64, f64) -> f64, seed: u64) -> LiveSnapshot {
        let mut trips = self.trips(rate, 0.0, 61.0, seed);
        trips.sort_by(|a, b| a[2].total_cmp(&b[2]));
        let mut books = LiveBooks::default();
        let mut second = 1.0_f64;
        let mut random = RandomStream::named(seed, 0, &["in vain"]);
        for [came, begin, end, lane] in trips {
            while second < end {
                books.loop_use(moment(second), LoopUse { clients: self.clients, ..LoopUse::default() });
                second += 1.0;
            }
            let mut visit = Visit::at(moment(came), Operation::Put);
            (visit.taken, visit.replied) = (moment(begin), moment(end));
            let trip = ServerVisit { lane: lane as u16, ..ServerVisit::ok(0, moment(begin), moment(end)) };
            if random.fraction() < self.in_vain {
                books.late(&trip);
            } else {
                books.finish(&visit, &[trip]);
            }
        }
        books.snapshot(moment(61.0))
    }

    fn p99_at(&self, rate: f64) -> f64 {
        let trips = self.trips(|_, at| at, rate, 120.0, 99);
        let mut times: Vec<f64> = trips.iter().map(|[came, _, end, _]| end - came).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() * 99 / 100]
    }

    fn answer(&self, rate: fn(f64, f64) -> f64, target: f64) -> Headroom {
        judge(&self.snapshot(rate, 5), &self.system(), &asked(target))
    }

    fn system(&self) -> LiveSystem {
        let server = LiveServer { name: "db".to_owned(), queue: self.queue, ..LiveServer::default() };
        let lanes = Some(self.lanes as u16);
        LiveSystem { servers: vec![server], lanes, ..one() }
    }

    /// What is said, and by how much the capacity for the target that breaks at this rate is off.
    fn judged(&self, rate: fn(f64, f64) -> f64, breaks_at: f64) -> (Headroom, f64) {
        let answer = self.answer(rate, self.p99_at(breaks_at));
        let capacity = answer.capacity_per_s.unwrap();
        assert!(capacity.low < breaks_at && breaks_at < capacity.high, "{capacity:?}");
        (answer, capacity.mean / breaks_at)
    }
}

#[test]
fn a_store_whose_trips_carry_all_that_waits_is_full_when_all_clients_wait() {
    let store = OneStore {
        queue: ServerQueue::Gathered { most: 512, beside: 512 },
        lanes: 1,
        time: |count, _| 1.5e-3 + 60e-6 * count,
        clients: 200,
        in_vain: 0.0,
    };
    let full = 200.0 / (1.5e-3 + 60e-6 * 200.0);
    let (answer, off) = store.judged(|now, _| 5_000.0 + 2_500.0 * (now / 9.0).sin(), 11_000.0);
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation / full - 1.0).abs() < 0.08, "{saturation} of {full}");
    assert!((off - 1.0).abs() < 0.15, "{off}");
    assert_eq!(answer.bottleneck.unwrap().name, "db");
    let changes = vec![HeadroomChange::Values(2.0)];
    let question = HeadroomQuestion { target: None, changes, ..asked(1.0) };
    let seen = store.snapshot(|now, _| 5_000.0 + 2_500.0 * (now / 9.0).sin(), 5);
    let answer = with_effects(&seen, &store.system(), &question);
    assert_eq!(answer.what_if[0].silent.as_deref(), Some("sizes_do_not_vary"));
}

#[test]
fn a_pool_of_connections_that_share_processors_is_full_when_all_are_busy() {
    let store = OneStore {
        queue: ServerQueue::Common,
        lanes: 8,
        // Two processors' worth of work, half of the time elsewhere.
        time: |_, under_way| 1e-3 + 1e-3 * (under_way / 2.0).max(1.0),
        clients: 200,
        in_vain: 0.0,
    };
    let full = 8.0 / 5e-3;
    let (answer, off) = store.judged(|now, _| 800.0 + 300.0 * (now / 9.0).sin(), 1_250.0);
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation / full - 1.0).abs() < 0.1, "{saturation} of {full}");
    assert!((off - 1.0).abs() < 0.15, "{off}");
}

#[test]
fn trips_that_find_no_message_take_connections_until_the_store_is_full() {
    let queue = ServerQueue::Common;
    let store = OneStore { queue, lanes: 8, time: |_, _| 5e-3, clients: 200, in_vain: 0.3 };
    // Of 1,000 trips 700 are told of.
    let answer = store.answer(|now, _| 1_000.0 + 300.0 * (now / 9.0).sin(), store.p99_at(1_250.0));
    let capacity = answer.capacity_per_s.unwrap().mean;
    assert!((900.0..1_250.0).contains(&capacity), "as many trips, some of them still in vain: {capacity}");
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation / (8.0 / 5e-3) - 1.0).abs() < 0.1, "{saturation}");
    let check = answer.check.unwrap();
    assert!(check.mean.abs() < 0.05 && check.p95.abs() < 0.05, "{check:?}");
}

/// Requests to one of three servers each, half of them writes, which go to as many as there are
/// copies.
fn writes_and_reads(rate: fn(f64) -> f64, copies: usize, seed: u64) -> LiveSnapshot {
    let mut random = RandomStream::named(seed, 0, &["writes"]);
    let (mut now, mut free, mut done) = (1.0, [0.0_f64; 3], Vec::new());
    while now < 61.0 {
        now += random.draw(&rand_distr::Exp1) / rate(now);
        let first = random.below(3);
        let operation = if random.fraction() < 0.5 { Operation::Set } else { Operation::Get };
        let servers = if operation == Operation::Set { copies } else { 1 };
        let servers = (first..first + servers).map(|server| server % 3);
        let parts: Vec<(u16, f64)> = servers
            .map(|server| {
                free[server] = free[server].max(now) + 1e-3 * random.draw(&rand_distr::Exp1);
                (server as u16, free[server])
            })
            .collect();
        let end = parts.iter().map(|part| part.1).fold(0.0, f64::max);
        done.push((end, now, parts, operation));
    }
    snapshot_of(done)
}

/// When a request was replied to, when it came, when each server answered it, and what it was.
type DoneRequest = (f64, f64, Vec<(u16, f64)>, Operation);

/// What is kept of requests of a minute.
fn snapshot_of(mut done: Vec<DoneRequest>) -> LiveSnapshot {
    done.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut books = LiveBooks::default();
    let mut second = 1.0_f64;
    for (end, came, parts, operation) in done {
        while second < end {
            books.loop_use(moment(second), LoopUse::default());
            second += 1.0;
        }
        let mut visit = Visit::at(moment(came), operation);
        (visit.replied, visit.bytes_in) = (moment(end), 1_000);
        let part = |&(server, end): &(u16, f64)| ServerVisit::ok(server, moment(came), moment(end));
        books.finish(&visit, &parts.iter().map(part).collect::<Vec<_>>());
    }
    books.snapshot(moment(61.0))
}

/// Two servers of exponential service times, the second so many seconds away, each with requests of
/// its own.
fn two_servers(rates: [f64; 2], services: [f64; 2], away: f64, seed: u64) -> LiveSnapshot {
    let mut random = RandomStream::named(seed, 0, &["two servers"]);
    let mut done: Vec<DoneRequest> = Vec::new();
    for (server, (rate, service)) in rates.into_iter().zip(services).enumerate() {
        let back = away * server as f64;
        let (mut now, mut free) = (1.0_f64, 0.0_f64);
        loop {
            now += random.draw(&rand_distr::Exp1) / rate;
            if now > 60.0 {
                break;
            }
            free = free.max(now) + service * random.draw(&rand_distr::Exp1);
            done.push((free + back, now, vec![(server as u16, free + back)], Operation::Get));
        }
    }
    snapshot_of(done)
}

/// Of b 325 requests came, which is too few to fit it: it is full at 1,830 requests a second of
/// both, a at 2,870.
#[test]
fn a_server_of_which_nothing_is_known_may_be_full_first() {
    let system = LiveSystem::of(["a", "b"].map(str::to_owned));
    let seen = two_servers([1_000.0, 5.5], [0.35e-3, 100e-3], 0.0, 3);
    let answer = judge(&seen, &system, &HeadroomQuestion { target: None, ..asked(1.0) });
    assert_eq!(answer.bottleneck.as_ref().map(|one| one.name.as_str()), Some("a"));
    let capacity = answer.capacity_per_s.unwrap();
    assert!(capacity.low < 2_300.0 && capacity.mean > 2_700.0, "{capacity:?}");
    let told = answer.assumes.iter().any(|one| one.starts_with("server b is not full before "));
    assert!(told, "{:?}", answer.assumes);
}

/// Something is outstanding at b for 63 % of the time, and hardly a request waits there.
#[test]
fn a_server_that_is_far_away_is_not_taken_for_one_that_is_busy() {
    let system = LiveSystem::of(["a", "b"].map(str::to_owned));
    let seen = two_servers([1_000.0, 100.0], [0.35e-3, 10e-6], 10e-3, 3);
    let answer = judge(&seen, &system, &HeadroomQuestion { target: None, ..asked(1.0) });
    assert_eq!(answer.bottleneck.as_ref().map(|one| one.name.as_str()), Some("a"));
    let bounded = answer.assumes.iter().any(|one| one.contains("not full before"));
    assert!(!bounded && answer.capacity_per_s.unwrap().low > 1_900.0, "{answer:?}");
}

/// All that a has would go to b, of which 240 requests tell nothing: not the event loop is full
/// first then.
#[test]
fn of_a_server_that_inherits_and_is_not_known_nothing_is_told() {
    let system = LiveSystem::of(["a", "b"].map(str::to_owned));
    let mut seen = two_servers([400.0, 4.0], [1e-3, 5e-3], 0.0, 3);
    for window in &mut seen.windows {
        window.used.processor = krarup_units::Nanos(100_000 * window.requests);
    }
    let changes = [Some(0), Some(1), None].map(HeadroomChange::ServerLost).to_vec();
    let answer = with_effects(&seen, &system, &HeadroomQuestion { target: None, changes, seed: 1 });
    let is_known = |one: &ResourceState| one.full_at_per_s.is_some();
    let known: Vec<_> = answer.resources.iter().filter(|one| is_known(one)).map(|one| one.resource).collect();
    assert_eq!(known, [ResourceKind::Server, ResourceKind::Loop]);
    let silent: Vec<_> = answer.what_if.iter().map(|one| one.silent.as_deref()).collect();
    assert_eq!(silent, [Some("no_queue_seen"), None, Some("no_queue_seen")], "{:?}", answer.what_if);
}

/// The second is of a configuration before.
#[test]
fn a_server_that_gets_nothing_is_not_the_worst_to_lose() {
    let system = LiveSystem::of(["a", "before"].map(str::to_owned));
    let changes = vec![HeadroomChange::ServerLost(None)];
    let seen = OneServer::for_a_minute(|_| 400.0).run(3);
    let answer = with_effects(&seen, &system, &HeadroomQuestion { target: None, changes, seed: 1 });
    assert_eq!(answer.what_if[0].silent.as_deref(), Some("only_one_server"));
}

/// The fourth is of a configuration before.
#[test]
fn a_server_that_gets_nothing_gives_nothing_and_takes_no_copy() {
    let seen = writes_and_reads(|now| 700.0 + 150.0 * (now / 8.0).sin(), 3, 3);
    let changes = vec![HeadroomChange::ServerMore, HeadroomChange::Replicas(CopyChange::More)];
    let question = HeadroomQuestion { target: None, changes, seed: 1 };
    let told = |names: &[&str]| {
        let system = LiveSystem::of(names.iter().map(|&name| name.to_owned()));
        let answer = with_effects(&seen, &system, &question);
        let [more, copied] = &answer.what_if[..] else { panic!("{:?}", answer.what_if) };
        assert_eq!(copied.silent.as_deref(), Some("no_server_for_a_copy"), "{names:?}");
        more.capacity_per_s.unwrap().mean
    };
    let (of_three, with_fourth) = (told(&["a", "b", "c"]), told(&["a", "b", "c", "before"]));
    assert!((with_fourth / of_three - 1.0).abs() < 0.01, "{of_three} and {with_fourth}");
}

/// For the last ten of sixty seconds a tenth of the requests come. Each takes 100 us of the loop,
/// 200 us of the machine, and one of ten clients waits for 2 ms.
#[test]
fn what_is_busy_now_is_so_with_the_traffic_of_now() {
    let states = |rate: fn(f64) -> f64| {
        let mut seen = OneServer::for_a_minute(rate).run(5);
        for window in &mut seen.windows {
            window.waited = krarup_units::Nanos(2_000_000 * window.requests);
            window.used.clients = 10;
            window.used.processor = krarup_units::Nanos(100_000 * window.requests);
            window.used.machine_time = krarup_units::Nanos::from_secs(1);
            window.used.machine_busy = krarup_units::Nanos(200_000 * window.requests);
        }
        let answer = judge(&seen, &one(), &HeadroomQuestion { target: None, ..asked(1.0) });
        [ResourceKind::Loop, ResourceKind::Processors, ResourceKind::Clients].map(|kind| {
            let state = answer.resources.iter().find(|one| one.resource == kind).unwrap();
            (state.full_at_per_s.unwrap(), state.busy_now.unwrap())
        })
    };
    let steady = states(|_| 500.0);
    let fallen = states(|now| if now < 50.0 { 500.0 } else { 50.0 });
    for ((full, busy), (full_then, busy_then)) in steady.into_iter().zip(fallen) {
        assert!((full_then / full - 1.0).abs() < 0.1, "{steady:?} {fallen:?}");
        assert!(busy_then < 0.5 * busy, "{steady:?} {fallen:?}");
    }
}

#[test]
fn one_more_copy_costs_as_many_writes_again() {
    let system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    let changes = [CopyChange::More, CopyChange::Fewer].map(HeadroomChange::Replicas).to_vec();
    let question = HeadroomQuestion { target: None, changes: changes.clone(), seed: 1 };
    let seen = writes_and_reads(|now| 1_300.0 + 300.0 * (now / 8.0).sin(), 1, 3);
    let answer = with_effects(&seen, &system, &question);
    let [more, fewer] = &answer.what_if[..] else { panic!("{:?}", answer.what_if) };
    let ratio = more.capacity_per_s.unwrap().mean / answer.saturation_per_s.unwrap();
    assert!((ratio * 1.5 - 1.0).abs() < 0.03, "half of the requests take two servers: {ratio}");
    assert_eq!((more.change.as_str(), fewer.silent.as_deref()), ("replicas +1", Some("only_one_copy")));
    // In the replay, too: at the same target the queues of three halves as many parts.
    let target = ResponseTarget { quantile: 0.99, seconds: 15e-3 };
    let with_target = HeadroomQuestion { target: Some(target), ..question };
    let answer = with_effects(&seen, &system, &with_target);
    let ratio = answer.what_if[0].capacity_per_s.unwrap().mean / answer.capacity_per_s.unwrap().mean;
    assert!((0.5..0.75).contains(&ratio), "a write waits for the longer of two: {ratio}");
}

/// Half of the requests are writes, which all servers have; reads are shared. So of a request each
/// of three has two thirds, each of four five eighths, and each of two three quarters.
#[test]
fn servers_that_all_have_every_write_give_none_of_it_away() {
    let mut system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    let changes = vec![HeadroomChange::ServerMore, HeadroomChange::ServerLost(Some(0))];
    let question = HeadroomQuestion { target: None, changes, seed: 1 };
    let seen = writes_and_reads(|now| 700.0 + 150.0 * (now / 8.0).sin(), 3, 3);
    let only = |server: usize| -> Vec<f64> { (0..4).map(|to| f64::from(u8::from(to == server))).collect() };
    let more = |server: usize| -> Vec<f64> {
        (0..4).map(|to| 0.75 * only(server)[to] + 0.25 * only(3)[to]).collect()
    };
    let last = vec![0.0, 0.0, 1.0, 1.0];
    let reads = ServerMoves {
        lost: vec![vec![0.0, 0.5, 0.5], vec![0.5, 0.0, 0.5], vec![0.5, 0.5, 0.0]],
        fails: vec![0.0; 3],
        more: (0..3).map(more).collect(),
    };
    let (lost, fails) = (vec![vec![0.0; 3]; 3], vec![1.0; 3]);
    let writes = ServerMoves { lost, fails, more: vec![only(0), only(1), last] };
    for moves in [None, Some(PartMoves { reads, writes })] {
        let is_known = moves.is_some();
        system.moves = moves;
        let answer = with_effects(&seen, &system, &question);
        let [more, lost] = &answer.what_if[..] else { panic!("{:?}", answer.what_if) };
        let saturation = answer.saturation_per_s.unwrap();
        let times = |effect: &ChangeEffect| effect.capacity_per_s.unwrap().mean / saturation;
        let (share, with_fourth, without_first) = (1.0 / 6.0 + 0.5, 1.0 / 8.0 + 0.5, 1.0 / 4.0 + 0.5);
        assert!((times(more) * with_fourth / share - 1.0).abs() < 0.05, "{}", times(more));
        assert!((times(lost) * without_first / share - 1.0).abs() < 0.05, "{}", times(lost));
        // By the rows it is not known whether writes are done without one of their holders.
        assert_eq!(lost.fails.is_some(), is_known);
        assert!(lost.fails.is_none_or(|share| (share - 0.5).abs() < 0.02), "{lost:?}");
    }
}

/// Of three servers one is lost, and nothing stands in for it: the others are M/M/1 of a third of
/// the requests each. Or a gutter does, of which nothing is known.
#[test]
fn what_fails_is_told_and_is_no_quick_reply() {
    let mut system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    let seen = writes_and_reads(|now| 900.0 + 200.0 * (now / 8.0).sin(), 1, 3);
    let changes = vec![HeadroomChange::ServerLost(Some(0))];
    let cases = [(1.0, 0.5, Some(true)), (1.0, 0.99, Some(false)), (0.0, 0.5, Some(true))];
    for (fails, quantile, holds) in cases {
        let (nowhere, stays) = (vec![vec![0.0; 3]; 3], vec![vec![0.0; 4]; 3]);
        let kind = ServerMoves { lost: nowhere, fails: vec![fails; 3], more: stays };
        system.moves = Some(PartMoves { reads: kind.clone(), writes: kind });
        let target = Some(ResponseTarget { quantile, seconds: 20e-3 });
        let answer =
            with_effects(&seen, &system, &HeadroomQuestion { target, changes: changes.clone(), seed: 1 });
        let lost = &answer.what_if[0];
        assert!((lost.fails.unwrap_or(0.0) * 3.0 - fails).abs() < 0.05, "{lost:?}");
        assert_eq!(lost.holds, holds, "{lost:?}");
        let each = answer.traffic.now_per_s / 3.0;
        let expected = (1.0 / (1.0 - quantile)).ln() / (1_000.0 - each);
        let seconds = lost.quantile_s.unwrap();
        assert!((seconds / expected - 1.0).abs() < 0.25, "{seconds} for {expected}");
    }
}

/// What a redline has seen missed bounds changes, too, by as much as it does the system as it is.
#[test]
fn changes_know_that_a_rate_has_missed_the_target() {
    let seen = OneServer::for_a_minute(|_| 400.0).run(3);
    let target = asked(20e-3).target.unwrap();
    let mut system = one();
    let changes = vec![HeadroomChange::ServerSlow(0, 1.0), HeadroomChange::Traffic(1.5)];
    let question = HeadroomQuestion { changes, ..asked(20e-3) };
    let capacity = with_effects(&seen, &system, &question).capacity_per_s.unwrap();
    assert!(capacity.mean > 600.0, "{capacity:?}");
    let missed = 500.0;
    system.servers[0].proven = Some(ProvenServer {
        target,
        server_per_s: 0.0,
        usual_parts: None,
        traffic_per_s: 0.0,
        missed_per_s: Some(missed),
        slower_per_s: None,
    });
    let answer = with_effects(&seen, &system, &question);
    assert_eq!(answer.capacity_per_s.unwrap().mean, missed);
    let [same, more] = &answer.what_if[..] else { panic!("{:?}", answer.what_if) };
    let told = same.capacity_per_s.unwrap();
    assert!((told.mean / missed - 1.0).abs() < 1e-6, "{told:?}");
    assert!(told.low / told.mean < capacity.low / capacity.mean, "no narrower than before: {told:?}");
    assert_eq!((more.quantile_s, more.holds), (None, Some(false)), "{more:?}");
}

#[test]
fn more_traffic_holds_up_to_the_low_end_and_breaks_from_the_high_one() {
    let seen = OneServer::for_a_minute(|_| 400.0).run(3);
    let as_it_is = with_effects(&seen, &one(), &asked(20e-3));
    let (capacity, now) = (as_it_is.capacity_per_s.unwrap(), as_it_is.traffic.now_per_s);
    let rates = [0.9 * capacity.low, 0.5 * (capacity.low + capacity.mean), 1.2 * capacity.high];
    let changes = rates.map(|rate| HeadroomChange::Traffic(rate / now)).to_vec();
    let found = with_effects(&seen, &one(), &HeadroomQuestion { changes, ..asked(20e-3) }).what_if;
    let holds: Vec<_> = found.iter().map(|one| one.holds).collect();
    assert_eq!(holds, [Some(true), None, Some(false)], "{found:?} of {capacity:?}");
}

/// Nor is anything told of a change while it is not told of the system as it is.
#[test]
fn changes_are_as_silent_as_the_answer() {
    let mut seen = OneServer::for_a_minute(|_| 300.0).run(3);
    seen.windows.iter_mut().for_each(|one| one.used.run_queue = krarup_units::Nanos(500_000_000));
    let changes = vec![HeadroomChange::Traffic(1.5), HeadroomChange::ServerSlow(0, 2.0)];
    let question = HeadroomQuestion { changes, ..asked(20e-3) };
    for seen in [seen, LiveSnapshot::default()] {
        let answer = judge(&seen, &one(), &question);
        assert_eq!(answer.verdict, HeadroomVerdict::Silent);
        let words: Vec<&str> = answer.what_if.iter().map(|one| one.change.as_str()).collect();
        assert_eq!(words, ["traffic x1.5", "server a x2 slower"]);
        for effect in &answer.what_if {
            assert_eq!(effect.silent.as_deref(), Some(answer.silent[0].name()));
            assert_eq!((effect.capacity_per_s, effect.quantile_s, effect.holds), (None, None, None));
        }
    }
}

/// With one copy each server is an M/M/1 of a third of the requests: P(R > t) = exp(−(μ − λ) t).
#[test]
fn one_copy_fewer_of_two_leaves_each_write_to_one_server() {
    let system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    let changes = vec![HeadroomChange::Replicas(CopyChange::Fewer)];
    let question = HeadroomQuestion { target: None, changes, seed: 1 };
    let seen = writes_and_reads(|_| 900.0, 2, 3);
    let answer = with_effects(&seen, &system, &question);
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation / 2_000.0 - 1.0).abs() < 0.05, "a request takes one server and a half: {saturation}");
    let [fewer] = &answer.what_if[..] else { panic!("{:?}", answer.what_if) };
    assert_eq!(fewer.change, "replicas -1");
    let full_at = fewer.capacity_per_s.unwrap().mean;
    assert!((full_at / 3_000.0 - 1.0).abs() < 0.05, "{full_at}");
    let target = ResponseTarget { quantile: 0.99, seconds: 15e-3 };
    let answer = with_effects(&seen, &system, &HeadroomQuestion { target: Some(target), ..question });
    let capacity = answer.what_if[0].capacity_per_s.unwrap();
    let truth = 3.0 * (1_000.0 - 100.0_f64.ln() / target.seconds);
    assert!((capacity.mean / truth - 1.0).abs() < 0.1, "{truth}: {capacity:?}");
    assert!(capacity.low < truth && truth < capacity.high, "{truth}: {capacity:?}");
    assert!(answer.capacity_per_s.unwrap().mean < capacity.mean / 1.3, "{answer:?}");
}

/// One server: a read takes 0.4 ms, a write three times as long, and the share of writes goes with
/// the time.
struct ReadsAndWrites {
    share: fn(f64) -> f64,
}

impl ReadsAndWrites {
    /// When each request came, when it was answered, and whether it is a write.
    fn run(&self, rate: impl Fn(f64) -> f64, seconds: f64, seed: u64) -> Vec<(f64, f64, bool)> {
        let mut random = RandomStream::named(seed, 0, &["reads and writes"]);
        let (mut now, mut free, mut out) = (1.0, 0.0_f64, Vec::new());
        while now < seconds {
            now += random.draw(&rand_distr::Exp1) / rate(now);
            let is_write = random.fraction() < (self.share)(now);
            let times = if is_write { 3.0 } else { 1.0 };
            free = free.max(now + 1e-4) + times * 4e-4 * random.draw(&rand_distr::Exp1);
            out.push((now, free + 1e-4, is_write));
        }
        out
    }

    fn snapshot(&self, seed: u64) -> LiveSnapshot {
        let mut books = LiveBooks::default();
        let mut second = 1.0_f64;
        for (came, answered, is_write) in self.run(|now| 700.0 + 200.0 * (now / 9.0).sin(), 61.0, seed) {
            while second < answered {
                books.loop_use(moment(second), LoopUse::default());
                second += 1.0;
            }
            let operation = if is_write { Operation::Set } else { Operation::Get };
            let mut visit = Visit::at(moment(came), operation);
            visit.replied = moment(answered);
            books.finish(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)]);
        }
        books.snapshot(moment(61.0))
    }

    fn p99_at(&self, rate: f64) -> f64 {
        let run = self.run(|_| rate, 241.0, 99);
        let mut times: Vec<f64> = run.iter().map(|(came, answered, _)| answered - came).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() * 99 / 100]
    }
}

/// What is said of the first over what is true of the second, which is full at `full` and is asked
/// at which rate the p99 of `breaks_at` is met: of saturation, and of that rate.
fn off(seen: &ReadsAndWrites, truth: &ReadsAndWrites, full: f64, breaks_at: f64, seed: u64) -> (f64, f64) {
    let answer = judge(&seen.snapshot(seed), &one(), &asked(truth.p99_at(breaks_at)));
    assert_ne!(answer.verdict, HeadroomVerdict::Silent, "{:?}", answer.silent);
    (answer.saturation_per_s.unwrap() / full, answer.capacity_per_s.unwrap().mean / breaks_at)
}

/// At times a third of the requests are writes, and then the server is as good as full.
#[test]
fn a_mix_that_turns_is_full_at_the_mean_work_and_breaks_where_its_writes_come() {
    let share = |now: f64| 0.2 - 0.15 * (now / 20.0 * std::f64::consts::TAU).cos();
    let turning = ReadsAndWrites { share };
    for seed in 1..4 {
        let (saturation, breaks) = off(&turning, &turning, 1.0 / 5.6e-4, 1_300.0, seed);
        assert!((saturation - 1.0).abs() < 0.04, "{seed}: {saturation}");
        assert!((breaks - 1.0).abs() < 0.08, "{seed}: {breaks}");
    }
}

/// Within a minute from a seventh to two fifths of writes: what comes next is like the last.
#[test]
fn of_a_mix_that_drifts_the_end_counts() {
    let drifting = ReadsAndWrites { share: |now| 0.15 + 0.25 * (now - 1.0) / 60.0 };
    let end = ReadsAndWrites { share: |_| 0.4 };
    for seed in 1..4 {
        let (saturation, breaks) = off(&drifting, &end, 1.0 / 7.2e-4, 1_100.0, seed);
        assert!((saturation - 1.0).abs() < 0.06, "{seed}: {saturation}");
        assert!((breaks - 1.0).abs() < 0.1, "{seed}: {breaks}");
    }
}

/// A server whose every service takes 0.5 ms, and which another proxy asks so many times a second.
fn beside_others(others_rate: f64, rate: impl Fn(f64) -> f64, seconds: f64, seed: u64) -> Vec<(f64, f64)> {
    let mut random = RandomStream::named(seed, 0, &["others"]);
    let (mut ours, mut others, mut free, mut out) = (1.0, 1.0, 0.0_f64, Vec::new());
    while ours < seconds {
        ours += random.draw(&rand_distr::Exp1) / rate(ours);
        while others < ours {
            free = free.max(others) + 5e-4;
            others += random.draw(&rand_distr::Exp1) / others_rate;
        }
        free = free.max(ours + 1e-4) + 5e-4;
        out.push((ours, free + 1e-4));
    }
    out
}

/// A minute of it, of 300 to 600 requests a second.
fn seen_beside_others(others_rate: f64) -> LiveSnapshot {
    let mut books = LiveBooks::default();
    let mut second = 1.0_f64;
    for (came, answered) in beside_others(others_rate, |now| 450.0 + 150.0 * (now / 9.0).sin(), 61.0, 3) {
        while second < answered {
            books.loop_use(moment(second), LoopUse::default());
            second += 1.0;
        }
        let mut visit = Visit::at(moment(came), Operation::Get);
        visit.replied = moment(answered);
        books.finish(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)]);
    }
    books.snapshot(moment(61.0))
}

/// It can do 2000 a second, of which 1400 are left. The mean time of those that waited tells it too
/// high: few of the others' requests fit into the short gap after which one of constant services
/// still finds the server busy.
#[test]
fn what_others_ask_of_a_server_is_told_from_its_own_service_time() {
    let run = beside_others(600.0, |_| 1_100.0, 241.0, 99);
    let mut times: Vec<f64> = run.iter().map(|(came, answered)| answered - came).collect();
    times.sort_by(f64::total_cmp);
    let answer = judge(&seen_beside_others(600.0), &one(), &asked(times[times.len() * 99 / 100]));
    assert_ne!(answer.verdict, HeadroomVerdict::Silent, "{:?}", answer.silent);
    let saturation = answer.saturation_per_s.unwrap();
    assert!((saturation / 1_400.0 - 1.0).abs() < 0.03, "{saturation}");
    let capacity = answer.capacity_per_s.unwrap();
    assert!((capacity.mean / 1_100.0 - 1.0).abs() < 0.1, "{capacity:?}");
}

/// Or monitoring takes more traffic of the others for a slower server, or one figure for another.
#[test]
fn the_service_time_that_is_given_is_the_servers_own_however_much_others_ask() {
    let metric = HEADROOM_METRICS.iter().find(|one| one.name == "krarup_server_service_seconds").unwrap();
    let labels = |answer: &Headroom| (metric.values)(answer)[0].labels.clone();
    let of_server = |others: &str| vec![("server", "a".to_owned()), ("others", others.to_owned())];
    let system = one();
    for others_rate in [600.0, 1_000.0] {
        let seen = seen_beside_others(others_rate);
        let answer = judge(&seen, &system, &asked(0.1));
        let server = answer.resources.iter().find(|state| state.resource == ResourceKind::Server).unwrap();
        let service = server.service_us.unwrap();
        assert!((service / 500.0 - 1.0).abs() < 0.05, "{others_rate}: {service}");
        assert!(server.others.is_some_and(|share| share > 0.0), "{server:?}");
        assert_eq!(labels(&answer), of_server("apart"));
        // What is taken out is not known to the last digit either.
        let kept = kept::kept(&seen, &system, Stamp(0), seen.at);
        let traffic = traffic::SeenTraffic::of(&kept).unwrap();
        let fitted = fitted::Fitted::of(kept, traffic, &system, &[], 1);
        let error = fitted.servers[0].fit.as_ref().unwrap().error;
        assert!(server.standard_error.unwrap() > error, "{server:?}: {error}");
    }
    let alone = judge(&OneServer::for_a_minute(|_| 500.0).run(7), &system, &asked(0.1));
    assert_eq!(labels(&alone), of_server("within"));
}

#[test]
fn what_has_no_upper_bound_is_read_back_as_it_was_written() {
    let estimate = CapacityEstimate { low: 0.0, mean: 210_528.8, high: f64::INFINITY };
    let check = ModelCheck { mean: f64::INFINITY, p95: 0.5, blocks: 2 };
    let text = serde_json::to_string(&(estimate, check)).unwrap();
    assert!(text.contains(r#""high":null"#), "{text}");
    let read: (CapacityEstimate, ModelCheck) = serde_json::from_str(&text).unwrap();
    assert_eq!(read, (estimate, check));
}

/// Writes of a thousand bytes to as many of three servers as there are copies; clients wait for the
/// first.
fn copied_behind(rate: fn(f64) -> f64, copies: usize, seed: u64) -> LiveSnapshot {
    let mut random = RandomStream::named(seed, 0, &["copied behind"]);
    let (mut now, mut free, mut answers) = (1.0, [0.0_f64; 3], Vec::new());
    while now < 61.0 {
        now += random.draw(&rand_distr::Exp1) / rate(now);
        let first = random.below(3);
        for copy in 0..copies {
            let server = (first + copy) % 3;
            free[server] = free[server].max(now) + 1e-3 * random.draw(&rand_distr::Exp1);
            answers.push((free[server], now, server as u16, copy > 0));
        }
    }
    answers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut books = LiveBooks::default();
    let mut second = 1.0_f64;
    for (end, sent, server, is_behind) in answers {
        while second < end {
            books.loop_use(moment(second), LoopUse::default());
            second += 1.0;
        }
        let part = ServerVisit::ok(server, moment(sent), moment(end));
        let mut visit = Visit::at(moment(sent), Operation::Set);
        (visit.replied, visit.bytes_in) = (moment(end), 1_000);
        if is_behind {
            books.late(&part);
        } else {
            books.finish(&visit, &[part]);
        }
    }
    books.snapshot(moment(61.0))
}

/// A request has one part and a half, or two of which no client waits for one; each of the three
/// links carries 900 a second.
#[test]
fn the_link_of_each_server_with_a_copy_carries_the_whole_value() {
    let mut system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    system.servers.iter_mut().for_each(|server| server.link = Some(9e5));
    let seen = [(writes_and_reads(|_| 800.0, 2, 3), 1.5), (copied_behind(|_| 600.0, 2, 3), 2.0)];
    for (seen, parts) in seen {
        let answer = judge(&seen, &system, &HeadroomQuestion { target: None, ..asked(1.0) });
        let links = answer.resources.iter().filter(|one| one.resource == ResourceKind::Link);
        let full_at: Vec<f64> = links.map(|one| one.full_at_per_s.unwrap()).collect();
        assert_eq!(full_at.len(), 3, "{:?}", answer.resources);
        assert!(full_at.iter().all(|full| (full * parts / 2_700.0 - 1.0).abs() < 0.05), "{full_at:?}");
    }
}

#[test]
fn copies_that_no_client_waits_for_are_counted() {
    let system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    let changes = [CopyChange::More, CopyChange::Fewer].map(HeadroomChange::Replicas).to_vec();
    let target = ResponseTarget { quantile: 0.99, seconds: 15e-3 };
    let seen = copied_behind(|_| 600.0, 2, 3);
    // Clients wait for one M/M/1, whose load goes with the copies.
    for target in [None, Some(target)] {
        let question = HeadroomQuestion { target, changes: changes.clone(), seed: 1 };
        let answer = with_effects(&seen, &system, &question);
        let now = answer.capacity_per_s.unwrap().mean;
        let [more, fewer] = &answer.what_if[..] else { panic!("{:?}", answer.what_if) };
        let times = [more, fewer].map(|one| one.capacity_per_s.unwrap().mean / now);
        assert!((times[0] * 1.5 - 1.0).abs() < 0.1, "three copies for two: {times:?}");
        assert!((times[1] * 0.5 - 1.0).abs() < 0.1, "one copy for two: {times:?}");
    }
    let question = HeadroomQuestion { target: None, changes, seed: 1 };
    let answer = with_effects(&copied_behind(|_| 600.0, 3, 3), &system, &question);
    let [more, fewer] = &answer.what_if[..] else { panic!("{:?}", answer.what_if) };
    assert_eq!(more.silent.as_deref(), Some("no_server_for_a_copy"));
    let times = fewer.capacity_per_s.unwrap().mean / answer.capacity_per_s.unwrap().mean;
    assert!((times / 1.5 - 1.0).abs() < 0.05, "{times}");
}
