use krarup_record::{LiveBooks, LoopUse, Operation, Outcome, ServerVisit, Visit};

use super::*;
use crate::headroom::{CapacityEstimate, HeadroomQuestion, HeadroomVerdict, ResourceKind, Silence, judge};
use crate::simulate::random::RandomStream;

const ROUND_TRIP: f64 = 200e-6;

/// Three servers that hold the same keys, of which the first is pushed.
struct Pushed {
    random: RandomStream,
    books: LiveBooks,
    system: LiveSystem,
    now: f64,
    /// Until when each is busy.
    free: [f64; 3],
    rate: f64,
    /// Mean service time of a server where so many seconds of work wait.
    service: fn(usize, f64) -> f64,
    fails_from: f64,
    /// A read that the first server has not answered until then is answered by another.
    hedged_after: f64,
    /// The share of requests that are writes, which go to all and take three times as long.
    writes: f64,
    /// Whether there is another loop, without any traffic.
    quiet_loop: bool,
    /// How many servers beside the first are read.
    others: usize,
}

fn stamp(seconds: f64) -> Stamp {
    Stamp((seconds * 1e9).round() as u64)
}

impl Pushed {
    fn new(rate: f64, service: fn(usize, f64) -> f64) -> Self {
        let names = ["a", "b", "c"].map(str::to_owned);
        Self {
            random: RandomStream::named(7, 0, &["redline"]),
            books: LiveBooks::default(),
            system: LiveSystem::of(names),
            now: 1.0,
            free: [0.0; 3],
            rate,
            service,
            fails_from: f64::INFINITY,
            hedged_after: f64::INFINITY,
            writes: 0.0,
            quiet_loop: false,
            others: 2,
        }
    }

    /// The part of a request that comes now at a server and takes so many times as long as others.
    fn part(&mut self, server: usize, times: f64) -> ServerVisit {
        let arrives = self.now + 0.5 * ROUND_TRIP;
        let begins = arrives.max(self.free[server]);
        let mean = times * (self.service)(server, begins - arrives);
        self.free[server] = begins + mean * self.random.draw(&rand_distr::Exp1);
        ServerVisit::ok(server as u16, stamp(self.now), stamp(self.free[server] + 0.5 * ROUND_TRIP))
    }

    /// A request that comes now, of whose reads the first server gets this share.
    fn request(&mut self, share: f64) {
        let mut visit = Visit::at(stamp(self.now), Operation::Get);
        if self.now >= self.fails_from {
            visit.outcome = Outcome::ServerError;
        }
        if self.writes > 0.0 && self.random.fraction() < self.writes {
            visit.operation = Operation::Set;
            let parts = [0, 1, 2].map(|server| self.part(server, 3.0));
            visit.replied = parts.iter().map(|part| part.answered).fold(visit.received, Stamp::max);
            return self.books.finish(&visit, &parts);
        }
        let server = if self.random.fraction() < share { 0 } else { 1 + self.random.below(self.others) };
        let part = self.part(server, 1.0);
        visit.replied = part.answered;
        let hedged = stamp(self.now + self.hedged_after);
        if server > 0 || part.answered <= hedged {
            return self.books.finish(&visit, &[part]);
        }
        visit.replied = stamp(self.now + self.hedged_after + ROUND_TRIP);
        self.books.finish(&visit, &[ServerVisit::ok(1, hedged, visit.replied)]);
        self.books.late(&part);
    }

    /// One more second, in which the first server gets this share of the reads.
    fn second(&mut self, share: f64) -> LiveSnapshot {
        let end = self.now.floor() + 1.0;
        loop {
            self.now += self.random.draw(&rand_distr::Exp1) / self.rate;
            if self.now >= end {
                break;
            }
            self.request(share);
        }
        self.now = end;
        self.books.loop_use(stamp(end), LoopUse::default());
        let seen = self.books.snapshot(stamp(end));
        if !self.quiet_loop {
            return seen;
        }
        let mut all = LiveBooks::default().snapshot(stamp(end));
        all.merge(&seen);
        all
    }

    /// Pushes until it ends; twenty seconds come before, in which it has an even share.
    fn push(&mut self, settings: RedlineSettings) -> (Redline, RedlineEnd) {
        self.push_from(1.0 / 3.0, settings)
    }

    /// The same where it has this share by itself.
    fn push_from(&mut self, usual: f64, settings: RedlineSettings) -> (Redline, RedlineEnd) {
        (0..20).for_each(|_| drop(self.second(usual)));
        self.push_now(Stamp::default(), settings)
    }

    /// The same at once; servers have had their usual shares since then.
    fn push_now(&mut self, usual_since: Stamp, settings: RedlineSettings) -> (Redline, RedlineEnd) {
        let mut redline = Redline::new(settings, 0, vec![0, 1, 2], usual_since, stamp(self.now));
        let mut share = redline.share();
        for _ in 0..600 {
            let snapshot = self.second(share);
            match redline.look(&snapshot, &self.system) {
                RedlineOrder::Hold => {}
                RedlineOrder::Share(next) => {
                    assert!(next > share);
                    share = next;
                }
                RedlineOrder::End(end) => return (redline, end),
            }
        }
        panic!("it does not end: {redline:?}");
    }
}

fn settings(milliseconds: f64) -> RedlineSettings {
    let target = ResponseTarget { quantile: 0.99, seconds: milliseconds * 1e-3 };
    RedlineSettings { target, most_weight: 4.0, most_seconds: 400.0 }
}

/// M/M/1 breaks p99 at mu - ln 100 / (target - round trip) = 1667 - 470 requests a second.
#[test]
fn it_ends_where_the_target_breaks_and_proves_what_came_before() {
    let mut system = Pushed::new(2_400.0, |server, _| if server == 0 { 600e-6 } else { 450e-6 });
    let (redline, end) = system.push(settings(10.0));
    assert_eq!(end, RedlineEnd::Target);
    let proven = redline.proven().unwrap();
    assert!((900.0..1_260.0).contains(&proven.server_per_s), "{proven:?}");
    assert!((proven.traffic_per_s / (3.0 * proven.server_per_s) - 1.0).abs() < 0.05, "{proven:?}");
    let service = redline.steps().last().and_then(|step| step.service_us).unwrap();
    assert!((service / 600.0 - 1.0).abs() < 0.05, "{service}");
    // What is proven is said of all traffic, when the usual shares are back for a minute.
    (0..70).for_each(|_| drop(system.second(1.0 / 3.0)));
    let snapshot = system.second(1.0 / 3.0);
    let question = HeadroomQuestion { target: Some(settings(10.0).target), changes: Vec::new(), seed: 1 };
    let mut told = system.system.clone();
    told.servers[0].proven = Some(proven);
    let answer = judge(&snapshot, &told, &question);
    let capacity = answer.capacity_per_s.unwrap();
    assert!(capacity.low >= proven.traffic_per_s && answer.verdict == HeadroomVerdict::Stated, "{answer:?}");
    // Of what missed the target no more is told, whatever the model says; and of a looser target no
    // more is stated.
    let missed = proven.missed_per_s.unwrap();
    assert!((proven.traffic_per_s..1.5 * proven.traffic_per_s).contains(&missed), "{proven:?}");
    assert_eq!(proven.slower_per_s, None);
    assert!(capacity.high <= missed, "{capacity:?} of {missed}");
    let looser = ResponseTarget { quantile: 0.98, ..settings(10.0).target };
    let mut ends_at = |missed: Option<f64>, slower: Option<f64>, target: ResponseTarget| {
        let ended = ProvenServer { missed_per_s: missed, slower_per_s: slower, ..proven };
        told.servers[0].proven = Some(ended);
        let answer = judge(&snapshot, &told, &HeadroomQuestion { target: Some(target), ..question.clone() });
        (answer.verdict, answer.capacity_per_s.unwrap())
    };
    let early = Some(1.02 * proven.traffic_per_s);
    let (verdict, unbroken) = ends_at(None, None, looser);
    assert!(
        verdict == HeadroomVerdict::Stated && unbroken.mean > 1.05 * proven.traffic_per_s,
        "{unbroken:?}"
    );
    assert_eq!(ends_at(early, None, looser), (HeadroomVerdict::Projected, unbroken));
    assert_eq!(ends_at(None, early, looser), (HeadroomVerdict::Projected, unbroken));
    let (verdict, kept) = ends_at(early, None, settings(10.0).target);
    assert!(verdict == HeadroomVerdict::Stated && Some(kept.high) == early, "{kept:?}");
    // Nor is a proof told that is beyond all that the traffic of now shows.
    let beyond = ProvenServer { traffic_per_s: 10.0 * proven.traffic_per_s, missed_per_s: None, ..proven };
    told.servers[0].proven = Some(beyond);
    let answer = judge(&snapshot, &told, &HeadroomQuestion { target: None, ..question });
    assert!(answer.capacity_per_s.unwrap().high < beyond.traffic_per_s, "{answer:?}");
}

#[test]
fn a_target_that_is_broken_by_less_traffic_refutes_a_proof() {
    let mut system = Pushed::new(2_400.0, |server, _| if server == 0 { 600e-6 } else { 450e-6 });
    let proven = system.push(settings(10.0)).0.proven().unwrap();
    system.service = |_, _| 1.2e-3;
    (0..100).for_each(|_| drop(system.second(1.0 / 3.0)));
    let snapshot = system.second(1.0 / 3.0);
    system.system.servers[0].proven = Some(proven);
    let question = HeadroomQuestion { target: Some(proven.target), changes: Vec::new(), seed: 1 };
    let answer = judge(&snapshot, &system.system, &question);
    assert_eq!(answer.broken_now, Some(true));
    assert_ne!(answer.verdict, HeadroomVerdict::Proven);
    assert!(answer.capacity_per_s.is_none_or(|told| told.mean < proven.traffic_per_s), "{answer:?}");
}

#[test]
fn a_server_that_misses_the_target_at_once_has_shown_nothing() {
    let mut system = Pushed::new(2_400.0, |_, _| 450e-6);
    let (redline, end) = system.push(settings(1.0));
    assert_eq!((end, redline.proven()), (RedlineEnd::Target, None));
    assert_eq!(redline.shown(RedlineEnd::Stopped), None, "what was proven before counts");
    let nothing = redline.shown(end).unwrap();
    assert_eq!((nothing.traffic_per_s, nothing.missed_per_s), (0.0, None));
    let snapshot = system.second(1.0 / 3.0);
    let question = HeadroomQuestion { target: None, changes: Vec::new(), seed: 1 };
    let without = judge(&snapshot, &system.system, &question);
    system.system.servers[0].proven = Some(nothing);
    assert_eq!(judge(&snapshot, &system.system, &question), without);
}

/// At night, when traffic tells nothing, what was proven is told, and no more.
#[test]
fn what_was_proven_is_told_where_traffic_is_too_low_to_tell() {
    let mut system = Pushed::new(2_400.0, |server, _| if server == 0 { 600e-6 } else { 450e-6 });
    let (redline, _) = system.push(settings(10.0));
    let proven = redline.proven().unwrap();
    // A server that is full first; the event loop, behind servers at which nothing waits; nothing.
    let (by_server, by_loop, by_nothing) = ((250.0, 200, 0), (30.0, 700, 100_000), (2.5, 700, 0));
    for (rate, seconds, processor) in [by_server, by_loop, by_nothing] {
        system.rate = rate;
        (0..seconds).for_each(|_| drop(system.second(1.0 / 3.0)));
        let mut snapshot = system.second(1.0 / 3.0);
        for window in &mut snapshot.windows {
            window.used.processor = Nanos(processor * window.requests);
        }
        let mut told = system.system.clone();
        let mut asked = |proven: Option<ProvenServer>, milliseconds: f64| {
            told.servers[0].proven = proven;
            let target = Some(settings(milliseconds).target);
            judge(&snapshot, &told, &HeadroomQuestion { target, changes: Vec::new(), seed: 1 })
        };
        let silent = asked(None, 10.0);
        // What varies at a server at which nothing waits is not modelled.
        let few = |why: &Silence| why.wants_more_traffic() || processor > 0 && *why == Silence::CheckFailed;
        assert!(silent.silent.iter().all(few), "{:?}", silent.silent);
        assert_eq!(silent.verdict, HeadroomVerdict::Silent);
        let answer = asked(Some(proven), 10.0);
        assert_eq!((answer.verdict, answer.silent.len()), (HeadroomVerdict::Proven, 0), "{answer:?}");
        assert_eq!(answer.bottleneck.as_ref().map(|one| one.name.as_str()), Some("a"));
        let rate = proven.traffic_per_s;
        assert_eq!(answer.capacity_per_s, Some(CapacityEstimate { low: rate, mean: rate, high: rate }));
        assert!(answer.headroom_ratio.is_some_and(|ratio| ratio.mean > 4.0), "{answer:?}");
        let stricter = asked(Some(proven), 9.0).verdict;
        assert_eq!(stricter, HeadroomVerdict::Silent, "a stricter target was not shown");
    }
}

/// With one server of three down the first gets a half of the reads, and so at two thirds of the
/// rate as much as it has shown.
#[test]
fn what_was_proven_is_told_of_the_share_that_the_server_has_now() {
    let mut system = Pushed::new(2_400.0, |server, _| if server == 0 { 600e-6 } else { 450e-6 });
    let proven = system.push(settings(10.0)).0.proven().unwrap();
    (system.rate, system.others) = (2.5, 1);
    (0..700).for_each(|_| drop(system.second(0.5)));
    let snapshot = system.second(0.5);
    system.system.servers[0].proven = Some(proven);
    let question = HeadroomQuestion { target: Some(proven.target), changes: Vec::new(), seed: 1 };
    let answer = judge(&snapshot, &system.system, &question);
    assert_eq!(answer.verdict, HeadroomVerdict::Proven, "{answer:?}");
    let times = answer.capacity_per_s.unwrap().high / proven.server_per_s;
    assert!((1.8..2.2).contains(&times), "{times} times what it has shown, not 3");
}

/// The loop is full between what the server's service time says and what it has shown.
#[test]
fn what_a_server_has_shown_is_not_told_beyond_what_the_loop_can_do() {
    let mut system = Pushed::new(250.0, |server, _| if server == 0 { 600e-6 } else { 450e-6 });
    (0..200).for_each(|_| drop(system.second(1.0 / 3.0)));
    let mut snapshot = system.second(1.0 / 3.0);
    for window in &mut snapshot.windows {
        window.used.processor = Nanos(150_000 * window.requests);
    }
    let target = settings(10.0).target;
    system.system.servers[0].proven = Some(ProvenServer {
        target,
        server_per_s: 10_000.0 / 3.0,
        usual_parts: Some(1.0 / 3.0),
        traffic_per_s: 10_000.0,
        missed_per_s: None,
        slower_per_s: None,
    });
    let question = HeadroomQuestion { target: Some(target), changes: Vec::new(), seed: 1 };
    let answer = judge(&snapshot, &system.system, &question);
    assert_eq!(answer.bottleneck.as_ref().map(|one| one.resource), Some(ResourceKind::Server), "{answer:?}");
    let of_loop = answer.resources.iter().find(|one| one.resource == ResourceKind::Loop);
    let full_at = of_loop.and_then(|one| one.full_at_per_s).unwrap();
    assert!((full_at / 6_667.0 - 1.0).abs() < 0.01, "{full_at}");
    let told = answer.capacity_per_s.unwrap();
    assert!(told.mean <= full_at, "{told:?} beyond {full_at}");
}

#[test]
fn a_loop_without_traffic_makes_no_rate_higher() {
    let proven = |quiet_loop: bool| {
        let mut system = Pushed { quiet_loop, ..Pushed::new(1_500.0, |_, _| 200e-6) };
        let settings = RedlineSettings { most_weight: 1.5, ..settings(10.0) };
        system.push(settings).0.proven().unwrap()
    };
    let (with, without) = (proven(true), proven(false));
    assert!((with.server_per_s / without.server_per_s - 1.0).abs() < 0.05, "{with:?} {without:?}");
    assert!((with.traffic_per_s / without.traffic_per_s - 1.0).abs() < 0.05, "{with:?} {without:?}");
    assert!((without.server_per_s / 750.0 - 1.0).abs() < 0.1, "{without:?}");
}

/// The slowest reads of the pushed server are answered by another: they miss the target all the
/// same.
#[test]
fn what_others_answer_in_its_place_ends_it() {
    let mut system = Pushed { hedged_after: 5e-3, ..Pushed::new(9_600.0, |_, _| 200e-6) };
    let (redline, end) = system.push(settings(5.0));
    assert_eq!(end, RedlineEnd::Target, "{:#?}", redline.steps());
    let proven = redline.proven().unwrap();
    assert!(proven.missed_per_s.is_some(), "{proven:?}");
}

/// By usual a request is half a write of three services, and a sixth of a read: 1.67 services of
/// 200 µs, so that 3,000 a second fill the server. With all reads it has 2 of them.
#[test]
fn reads_prove_nothing_of_the_writes_that_come_with_more_traffic() {
    let mut system = Pushed { writes: 0.5, ..Pushed::new(2_200.0, |_, _| 200e-6) };
    let (redline, end) = system.push(settings(100.0));
    assert_eq!(end, RedlineEnd::MostWeight, "{:#?}", redline.steps());
    let proven = redline.proven().unwrap();
    assert!((2_300.0..2_950.0).contains(&proven.traffic_per_s), "{proven:?}");
    assert!((proven.server_per_s / 2_200.0 - 1.0).abs() < 0.1, "{proven:?}");
    // Where no cost of writes is known, no more is proven than with the dearest and the cheapest.
    let asked = |reads: f64, writes: f64| AskedOfServer {
        parts: RequestSum { reads, writes, ..RequestSum::default() },
        requests: 100.0,
    };
    let times = |here: AskedOfServer| here.times(&asked(40.0, 10.0), &ServiceByRequest::ALIKE);
    assert_eq!(times(asked(80.0, 10.0)), (180.0 / 140.0, 2.0));
    assert_eq!(times(asked(80.0, 30.0)), (2.0, 380.0 / 140.0));
    // One that comes now and then undoes nothing.
    let rare = asked(80.0, 0.0).times(&asked(40.0, 0.04), &ServiceByRequest::ALIKE);
    assert!(rare.0 > 1.97 && rare.1 == 2.0, "{rare:?}");
}

#[test]
fn a_server_that_can_do_more_gets_the_most_and_no_more() {
    let mut system = Pushed::new(1_500.0, |_, _| 200e-6);
    let (redline, end) = system.push(RedlineSettings { most_weight: 2.0, ..settings(10.0) });
    assert_eq!(end, RedlineEnd::MostWeight);
    let shares: Vec<f64> = redline.steps().iter().map(|step| step.share).collect();
    let planned: Vec<f64> = redline.planned().iter().map(|step| step.1).collect();
    assert_eq!((shares.first(), shares.last()), (Some(&(1.0 / 3.0)), Some(&(2.0 / 3.0))));
    assert_eq!(planned.last(), Some(&(2.0 / 3.0)));
    let proven = redline.proven().unwrap();
    assert!((proven.server_per_s / 1_000.0 - 1.0).abs() < 0.1, "{proven:?}");
}

#[test]
fn what_is_proven_of_all_traffic_goes_by_the_share_of_before() {
    for usual in [0.2, 0.6] {
        let mut system = Pushed::new(1_500.0, |_, _| 200e-6);
        let settings = RedlineSettings { most_weight: 1.5, ..settings(10.0) };
        let proven = system.push_from(usual, settings).0.proven().unwrap();
        let share = proven.server_per_s / proven.traffic_per_s;
        assert!((share / usual - 1.0).abs() < 0.05, "{share} of {usual}");
    }
}

/// What a push gave the server in the minute before is not its usual share.
#[test]
fn what_is_proven_soon_after_another_push_goes_by_usual_seconds_alone() {
    for (seconds, usual) in [(0, 1.0 / 3.0), (20, 0.2)] {
        let mut system = Pushed::new(1_500.0, |_, _| 200e-6);
        (0..60).for_each(|_| drop(system.second(0.8)));
        let usual_since = stamp(system.now);
        (0..seconds).for_each(|_| drop(system.second(usual)));
        let settings = RedlineSettings { most_weight: 1.1, ..settings(10.0) };
        let proven = system.push_now(usual_since, settings).0.proven().unwrap();
        let share = proven.server_per_s / proven.traffic_per_s;
        assert!((share / usual - 1.0).abs() < 0.1, "{share} of {usual}");
        assert!((proven.usual_parts.unwrap() / share - 1.0).abs() < 0.01, "{proven:?}");
    }
}

/// Of 4,000 requests a second 768 parts are kept, and so about 32 of the server's 400 reads.
#[test]
fn reads_of_which_few_are_kept_are_not_too_few() {
    let mut system = Pushed { writes: 0.7, ..Pushed::new(4_000.0, |_, _| 20e-6) };
    let (redline, end) = system.push(RedlineSettings { most_weight: 1.1, ..settings(100.0) });
    assert_eq!(end, RedlineEnd::MostWeight, "{:#?}", redline.steps());
    assert!(redline.steps().iter().all(|step| step.kept_target), "{:#?}", redline.steps());
}

/// A second in which each of two servers answers 250 reads, the first one so many of them slowly.
fn even_second(books: &mut LiveBooks, second: u64, slow: u64) -> LiveSnapshot {
    for number in 0..250 {
        let sent = Stamp(second * 1_000_000_000 + number * 4_000_000);
        for server in [0, 1] {
            let is_slow = server == 0 && number < slow;
            let takes = if is_slow { 20_000_000 } else { 1_000_000 + number * 37 % 101 * 1_000 };
            let mut visit = Visit::at(sent, Operation::Get);
            visit.replied = Stamp(sent.0 + takes);
            let part = ServerVisit::ok(server, sent, visit.replied);
            books.finish(&visit, &[ServerVisit { lane: u16::from(is_slow), ..part }]);
        }
    }
    let end = Stamp((second + 1) * 1_000_000_000);
    books.loop_use(end, LoopUse::default());
    books.snapshot(end)
}

/// One of a thousand reads may be slower: one each in two seconds of three are no two too many.
#[test]
fn a_high_percentile_is_judged_by_enough_reads_and_at_once_where_many_are_slow() {
    let target = ResponseTarget { quantile: 0.999, seconds: 10e-3 };
    let settings = RedlineSettings { target, ..settings(10.0) };
    let system = LiveSystem::of(["a", "b"].map(str::to_owned));
    let mut books = LiveBooks::default();
    drop(even_second(&mut books, 1, 0));
    let mut redline = Redline::new(settings, 0, vec![0, 1], Stamp::default(), stamp(2.0));
    let mut ended = None;
    for second in 2..40 {
        let slow = match second {
            2 | 4 => 1,
            30.. => 10,
            _ => 0,
        };
        let order = redline.look(&even_second(&mut books, second, slow), &system);
        if let RedlineOrder::End(end) = order {
            ended = Some((second, end));
            break;
        }
    }
    assert_eq!(ended, Some((31, RedlineEnd::Target)), "{:#?}", redline.steps());
    assert!(redline.steps().iter().all(|step| step.kept_target), "{:#?}", redline.steps());
    assert!(!redline.steps().is_empty());
}

#[test]
fn a_server_of_the_pool_that_is_down_ends_it() {
    let mut system = Pushed::new(1_500.0, |_, _| 200e-6);
    system.system.servers[2].away = true;
    let (redline, end) = system.push(settings(10.0));
    assert_eq!((end, redline.steps().len()), (RedlineEnd::Errors, 0));
}

#[test]
fn without_a_request_there_is_nothing_to_do_yet() {
    let mut redline = Redline::new(settings(10.0), 0, vec![0, 1, 2], Stamp::default(), stamp(1.0));
    let nothing = LiveSnapshot { at: stamp(2.0), ..LiveSnapshot::default() };
    let system = LiveSystem::of(["a", "b", "c"].map(str::to_owned));
    assert_eq!(redline.look(&nothing, &system), RedlineOrder::Hold);
}

#[test]
fn contention_ends_it_before_the_target_breaks() {
    // Where more than three milliseconds wait, the server is slower by half, and so more waits.
    let mut system = Pushed::new(2_400.0, |_, waits| if waits > 3e-3 { 675e-6 } else { 450e-6 });
    let (redline, end) = system.push(settings(200.0));
    assert_eq!(end, RedlineEnd::Contention, "{:#?}", redline.steps());
    let proven = redline.proven().unwrap();
    let last = redline.steps().last().map(|step| step.server_per_s / proven.server_per_s);
    assert!(redline.steps().last().is_some_and(|step| step.kept_target), "{:#?}", redline.steps());
    assert_ne!(last, Some(1.0), "where contention began nothing is proven");
    assert_eq!((proven.missed_per_s, proven.slower_per_s.is_some()), (None, true));
    assert!((proven.slower_per_s.unwrap() / proven.traffic_per_s - last.unwrap().max(1.0)).abs() < 1e-9);
}

#[test]
fn an_error_and_slower_neighbours_end_it_at_once() {
    let mut system = Pushed::new(1_000.0, |_, _| 200e-6);
    system.fails_from = 30.5;
    let (redline, end) = system.push(settings(10.0));
    assert_eq!(end, RedlineEnd::Errors);
    assert!(system.now <= 32.0 && redline.steps().len() <= 2, "{}", system.now);
    // The others depend on the first: they are slow where it has work.
    let mut system = Pushed::new(1_500.0, |_, _| 200e-6);
    let mut slower = Pushed::new(1_500.0, |server, _| if server == 0 { 200e-6 } else { 500e-6 });
    slower.random = RandomStream::named(9, 0, &["redline"]);
    (0..20).for_each(|_| drop(system.second(1.0 / 3.0)));
    let mut redline = Redline::new(settings(10.0), 0, vec![0, 1, 2], Stamp::default(), stamp(system.now));
    let mut end = None;
    for second in 0..60 {
        if second == 25 {
            system.service = slower.service;
        }
        if let RedlineOrder::End(found) = redline.look(&system.second(redline.share()), &system.system) {
            end = Some((second, found));
            break;
        }
    }
    assert_eq!(end.map(|(_, found)| found), Some(RedlineEnd::Others));
    assert!(end.is_some_and(|(second, _)| second <= 28), "{end:?}");
}

#[test]
fn too_little_traffic_and_too_little_time_end_it() {
    let (_, end) = Pushed::new(30.0, |_, _| 200e-6).push(settings(10.0));
    assert_eq!(end, RedlineEnd::FewReads);
    let short = RedlineSettings { most_seconds: 12.0, ..settings(10.0) };
    let (redline, end) = Pushed::new(1_500.0, |_, _| 200e-6).push(short);
    assert_eq!(end, RedlineEnd::TimeOver);
    assert!(redline.proven().is_none() || redline.steps().len() <= 2);
}
