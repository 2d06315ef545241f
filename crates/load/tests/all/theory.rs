//! Due times, clients and accounts together, against queueing theory: under a clock turned by hand,
//! with no socket.

use krarup_load::account::{Account, MeasuredSpan, Segment};
use krarup_load::client::{Client, ThreadContext};
use krarup_load::keys::KeyLaw;
use krarup_load::random;
use krarup_load::schedule::{ArrivalProcess, Leg, Open, Schedule};
use krarup_load::workload::{Mix, PreparedWorkload, Scratch, Workload};
use krarup_record::{MeasuredDistribution, Operation, Quantity};
use krarup_units::{PerSecond, Stamp};
use rand_distr::{Distribution as _, Exp1};

/// Sends `requests` open arrivals over one connection to a server that serves them one after the
/// other, each for a time that `service` decides, in seconds.
fn served(process: ArrivalProcess, rate: f64, requests: usize, mut service: impl FnMut() -> f64) -> Segment {
    let legs = vec![Leg { from: PerSecond(rate), to: PerSecond(rate), seconds: 0.0 }];
    let schedule = Schedule::new(&Open { process, legs }, 5);
    let workload =
        Workload { mix: Mix::Ratio { sets: 0, gets: 1 }, get_law: KeyLaw::Sequential, ..Workload::default() };
    let plan = PreparedWorkload::new(workload, 5, 1);
    let mut stream = plan.stream(0);
    let mut client = Client::new(5, 0, requests as u32, None, 0, 0);
    let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(u64::MAX) }, 1);
    let mut scratch = Scratch::default();
    let mut idle_from = 0.0;
    // Each answer comes when the server is done; answers are handed over before the next request is
    // due.
    let mut answers = std::collections::VecDeque::new();
    for due in schedule.take(requests) {
        let mut shared =
            ThreadContext { plan: &plan, account: &mut account, scratch: &mut scratch, verify: false };
        while answers.front().is_some_and(|&at: &Stamp| at <= due) {
            client.receive(b"END\r\n", answers.pop_front().unwrap(), &mut shared).unwrap();
        }
        client.issue(Some(due), due, &mut stream, &mut shared);
        let begins = f64::max(idle_from, due.0 as f64 / 1e9);
        idle_from = begins + service();
        answers.push_back(Stamp((idle_from * 1e9) as u64));
    }
    let mut shared =
        ThreadContext { plan: &plan, account: &mut account, scratch: &mut scratch, verify: false };
    for at in answers {
        client.receive(b"END\r\n", at, &mut shared).unwrap();
    }
    account.close(Stamp((idle_from * 1e9) as u64 + 1));
    let mut segments = account.over.into_iter();
    let first = segments.next().unwrap();
    segments.fold(first, |mut sum, one| {
        sum.merge(&one);
        sum
    })
}

fn response(segment: &Segment) -> &MeasuredDistribution {
    segment.classes[0].histograms.get(Operation::Get, Quantity::Response).unwrap()
}

/// M/M/1: the response time is exponential with mean 1/(μ − λ) (Jain 1991, box 31.1), so its
/// quantile q is −ln(1 − q)/(μ − λ).
#[test]
fn poisson_arrivals_at_an_exponential_server_have_the_percentiles_of_mm1() {
    let (rate, capacity) = (500.0, 1_000.0);
    let mut random = random::stream(9, "service", 0);
    let segment = served(ArrivalProcess::Poisson, rate, 200_000, || {
        let unit: f64 = Exp1.sample(&mut random);
        unit / capacity
    });
    let response = response(&segment);
    assert_eq!(response.count(), 200_000);
    let expected = 1.0 / (capacity - rate);
    // Successive response times depend on each other, so the slack is some five times that of
    // independent ones.
    assert!((response.mean().unwrap() / expected - 1.0).abs() < 0.04, "{:?}", response.mean());
    for (quantile, slack) in [(0.5_f64, 0.04), (0.9, 0.05), (0.99, 0.09)] {
        let found = response.quantile(quantile).unwrap().as_seconds();
        let theory = -(1.0 - quantile).ln() * expected;
        assert!((found / theory - 1.0).abs() < slack, "quantile {quantile}: {found} not {theory}");
    }
}

/// D/D/1 below saturation: no request waits, each takes exactly the service time.
#[test]
fn a_paced_load_below_saturation_never_waits() {
    let segment = served(ArrivalProcess::Paced, 500.0, 10_000, || 0.001);
    let exact = response(&segment).exact();
    assert!(exact.least.0.abs_diff(1_000_000) <= 1 && exact.greatest.0.abs_diff(1_000_000) <= 1, "{exact:?}");
}

/// D/D/1 above saturation: the k-th request waits k (s − 1/λ), without end. A generator that counts
/// from the sending would not see it.
#[test]
fn beyond_saturation_the_wait_grows_with_every_request() {
    let requests = 1_000;
    let segment = served(ArrivalProcess::Paced, 2_000.0, requests, || 0.001);
    let last = response(&segment).exact().greatest.as_seconds();
    let expected = 0.001 + (requests - 1) as f64 * (0.001 - 1.0 / 2_000.0);
    assert!((last - expected).abs() < 1e-6, "{last} not {expected}");
}
