//! Operational laws that every run must keep: a run that breaks them has measured something else
//! than it thinks.

use krarup_stats::Summary;

use crate::cell::Cell;
use crate::saturation;
use crate::trial::{SystemPart, Trial};
use crate::verdict::Bottleneck;
use crate::warning::Warning;

/// How far X (R + Z) may be from N.
const INTERACTIVE: f64 = 0.05;
/// How far two counts of the same requests may differ, beside the requests in flight at both ends.
const COUNTS: f64 = 0.01;
/// How far a queue's length may be from X · queue time; bursts make honest queues differ.
const QUEUE: f64 = 0.25;
/// From this utilization on, a load generator measures itself.
const GENERATOR: f64 = 0.8;
/// Above this coefficient of variation of the windows, a run is not steady.
const STEADY: f64 = 0.15;
/// The level of the interval of the windows' standard deviation: its lower end is beyond the true
/// one in one run of a hundred.
const SPREAD: f64 = 0.98;
/// How much more than the least the most loaded of equal servers may get.
const EVEN: f64 = 0.1;

/// What does not add up in one run.
pub fn check(trial: &Trial) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let client = &trial.client;
    let throughput = client.completed as f64 / trial.length;
    let clients = trial.levels.clients;

    // N = X (R + Z): each client is always waiting for a reply or thinking (Denning and Buzen
    // 1978). Where the rate was given they wait for neither.
    let cycle = client.response.mean + trial.think;
    let by_law = throughput * cycle;
    // Z is the mean that was asked for. The mean of few think times differs from it by chance: of n
    // exponential ones by Z/√n (standard deviation). Three of these are no fault.
    let by_chance = 3.0 * trial.think / cycle / (client.completed as f64).sqrt();
    let off = (by_law / f64::from(clients) - 1.0).abs();
    let closed = clients > 0 && !client.open;
    if closed && client.completed > 0 && off > INTERACTIVE.max(by_chance) {
        warnings.push(Warning::InteractiveLaw { clients, by_law });
    }
    if client.errors > 0 {
        let completed = client.completed + client.unmeasured;
        warnings.push(Warning::Errors { errors: client.errors, completed });
    }
    if client.misses > 0 {
        warnings.push(Warning::Misses { misses: client.misses, keys: client.hits + client.misses });
    }
    warnings.extend(client.warned.iter().cloned().map(Warning::GeneratorWarned));
    if let Some(middleware) = &trial.middleware {
        // All of both, where that is known: a part of what one counted is a share of the windows.
        let (seen, counted) = match (client.answered, middleware.replied) {
            (0, _) | (_, 0) => (client.completed, middleware.requests),
            all => all,
        };
        if seen.abs_diff(counted) as f64 > seen as f64 * COUNTS + 2.0 * f64::from(clients) {
            warnings.push(Warning::CountsDiffer { clients: seen, middleware: counted });
        }
        if middleware.response.mean > client.response.mean {
            let (middleware, clients) = (middleware.response.mean, client.response.mean);
            warnings.push(Warning::PartBeyondWhole { middleware, clients });
        }
        // L = X W at the queue. What is seen at a moment of change differs by about one from the
        // average over time.
        let by_law = middleware.requests as f64 / trial.length * middleware.queue.mean;
        if let Some(seen) = middleware.queue_length
            && (seen - by_law).abs() > (by_law * QUEUE).max(1.5)
        {
            warnings.push(Warning::QueueLength { seen, by_law });
        }
    }
    warnings.extend(workers_beyond(trial));
    warnings.extend(machine(trial));
    warnings.extend(uneven(trial));
    warnings.extend(unsteady(trial));
    warnings
}

/// What the load of processes and machines says about a cell.
pub fn check_load(cell: &Cell, cores: u32) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = cell
        .load
        .iter()
        .filter(|process| process.station == SystemPart::Clients && process.utilization() > GENERATOR)
        .map(|process| Warning::GeneratorBusy {
            name: process.name.clone(),
            utilization: process.utilization(),
        })
        .collect();
    if let Some(Bottleneck::Machine { busy, cores, .. }) = saturation::full_machine(cell, cores) {
        let middleware = cell.middleware.is_some()
            || cell.load.iter().any(|process| process.station == SystemPart::Middleware);
        warnings.push(Warning::MachineFull { middleware, busy, cores });
    }
    warnings
}

/// L = X W at the worker slots: no more can be held than there are.
fn workers_beyond(trial: &Trial) -> Option<Warning> {
    let middleware = trial.middleware.as_ref()?;
    let workers = middleware.workers.filter(|workers| *workers > 0)?;
    let held = middleware.requests as f64 / trial.length * middleware.hold();
    (held > f64::from(workers) * (1.0 + INTERACTIVE)).then_some(Warning::WorkersBeyond { held, workers })
}

/// What the machine did meanwhile that was not the experiment.
fn machine(trial: &Trial) -> Vec<Warning> {
    let disturbed = trial.disturbed.iter().map(|why| Warning::Disturbed { why: why.clone() });
    let lost = trial.machine.iter().flat_map(|machine| &machine.lost);
    let lost = lost.map(|(link, packets)| Warning::PacketsLost { link: link.clone(), packets: *packets });
    disturbed.chain(lost).collect()
}

fn uneven(trial: &Trial) -> Option<Warning> {
    let total: u64 = trial.servers.iter().map(|server| server.requests).sum();
    let most = trial.servers.iter().max_by_key(|server| server.requests)?;
    let least = trial.servers.iter().min_by_key(|server| server.requests)?;
    let share = |requests: u64| requests as f64 / total as f64;
    // A handful of requests cannot be even.
    (total >= 1_000 && most.requests as f64 > least.requests as f64 * (1.0 + EVEN)).then(|| {
        Warning::UnevenServers {
            most: (most.name.clone(), share(most.requests)),
            least: (least.name.clone(), share(least.requests)),
        }
    })
}

/// Few requests that come by chance (Poisson) differ in number from window to window in a steady
/// run, too: the standard deviation of that number is the root of its mean.
fn unsteady(trial: &Trial) -> Option<Warning> {
    let windows = &trial.client.windows;
    let rates: Vec<f64> = windows.iter().map(|window| window.completed as f64 / window.length).collect();
    let summary = Summary::of(&rates).ok()?;
    let variation = summary.cov().ok()?;
    let length = windows.iter().map(|window| window.length).sum::<f64>() / windows.len() as f64;
    let by_chance = (summary.mean / length).sqrt();
    let is_beyond = summary.sd_estimate(SPREAD).is_ok_and(|sd| sd.interval.low > by_chance);
    (variation > STEADY && is_beyond).then_some(Warning::Unsteady { variation })
}

#[cfg(test)]
mod tests {
    use krarup_record::watch::Watch;

    use super::*;
    use crate::results::Environment;
    use crate::sweep::{summarise, tests::steady_trial};
    use crate::trial::{GeneratorWarning, ProcessCpu, ServerSide};

    #[test]
    fn a_run_that_adds_up_has_no_warning() {
        assert_eq!(check(&steady_trial("read", 16, 20_000.0)), []);
    }

    #[test]
    fn clients_that_are_not_all_there_break_the_interactive_law() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.levels.clients = 20;
        let warnings = check(&trial);
        assert!(
            matches!(warnings[..], [Warning::InteractiveLaw { clients: 20, by_law }] if (by_law - 16.0).abs() < 0.1)
        );
        assert_eq!(
            warnings[0].to_string(),
            "Throughput and response time account for 16.0 of 20 clients (-20.0 %) by the interactive law N = X (R + Z)."
        );
    }

    /// 104 clients that think for five times as long as they wait; they account for 96.
    #[test]
    fn few_think_times_break_no_interactive_law() {
        let thinking = |rate: f64| {
            let mut trial = steady_trial("read", 16, rate);
            (trial.levels.clients, trial.think) = (104, 5.0 * trial.client.response.mean);
            check(&trial)
        };
        // 160 of them, whose mean may be off by a fifth, and 160,000.
        assert_eq!(thinking(16.0), []);
        assert!(matches!(thinking(16_000.0)[..], [Warning::InteractiveLaw { clients: 104, .. }]));
    }

    #[test]
    fn of_each_kind_of_what_a_generator_warned_of_the_worst_is_said_for_a_cell() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        let warning = |kind: &str, extent: f64, what: &str| GeneratorWarning {
            kind: kind.to_owned(),
            extent,
            what: what.to_owned(),
        };
        let backlog = warning("answered_late", 1.2, "a backlog stood");
        trial.client.warned = vec![warning("unsent", 3.0 / 9.0, "3 of 9"), backlog];
        let mut second = Trial { repetition: 1, ..trial.clone() };
        second.client.warned = vec![warning("unsent", 4.0 / 9.0, "4 of 9")];
        let results = summarise("t", Environment::default(), &[trial, second]).unwrap();
        let found: Vec<String> = results.concerns.iter().map(|one| one.warning.to_string()).collect();
        assert_eq!(
            found,
            ["The load generator warned: 4 of 9.", "The load generator warned: a backlog stood."]
        );
        assert_eq!(results.faults(), 2);
    }

    #[test]
    fn what_chance_makes_of_few_requests_is_steady() {
        let varied = |times: u64| {
            let mut trial = steady_trial("read", 16, 20_000.0);
            let counts = [17, 24, 20, 15, 26, 19, 22, 14, 23, 20];
            for (window, count) in trial.client.windows.iter_mut().zip(counts) {
                window.completed = count * times;
            }
            check(&trial)
        };
        assert_eq!(varied(1), []);
        assert!(
            matches!(varied(100)[..], [Warning::Unsteady { variation }] if (variation - 0.194).abs() < 1e-3)
        );
    }

    #[test]
    fn a_part_longer_than_its_whole_is_reported() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.middleware.as_mut().unwrap().response.mean = 1.0;
        assert!(matches!(check(&trial)[..], [Warning::PartBeyondWhole { .. }]));
    }

    #[test]
    fn more_workers_than_there_are_cannot_be_held() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        // X (R − queue time) at the middleware: 20,000/s for three quarters of 0.8 ms.
        trial.middleware.as_mut().unwrap().workers = Some(12);
        assert_eq!(check(&trial), []);
        trial.middleware.as_mut().unwrap().workers = Some(8);
        assert!(
            matches!(check(&trial)[..], [Warning::WorkersBeyond { workers: 8, held }] if (held - 12.0).abs() < 0.01)
        );
    }

    /// A broker goes on with a request when its connection to the database is another's.
    #[test]
    fn a_worker_that_is_free_when_the_servers_have_answered_is_held_no_longer() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        let side = trial.middleware.as_mut().unwrap();
        (side.workers, side.server.mean) = (Some(8), 0.39e-3);
        assert!(matches!(check(&trial)[..], [Warning::WorkersBeyond { workers: 8, .. }]));
        trial.middleware.as_mut().unwrap().free_when_answered = true;
        assert_eq!(check(&trial), []);
    }

    #[test]
    fn what_others_did_to_the_machine_is_reported() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.disturbed =
            Some("the machine was disturbed: other programs took 30 % of the processors".into());
        trial.machine = Some(Watch { lost: vec![("here eth0".into(), 1_200)], ..Watch::default() });
        let said: Vec<String> = check(&trial).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "The machine was disturbed: other programs took 30 % of the processors.",
                "The link here eth0 threw 1,200 packets away."
            ]
        );
    }

    #[test]
    fn requests_that_one_side_did_not_see_are_reported() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.client.completed += 5_000;
        trial.client.response.mean = 16.0 / (trial.client.completed as f64 / trial.length);
        let warnings = check(&trial);
        assert!(
            warnings.iter().any(|warning| matches!(warning, Warning::CountsDiffer { .. })),
            "{warnings:?}"
        );
    }

    #[test]
    fn counts_of_all_that_was_answered_are_compared_where_they_are_known() {
        let mut trial = steady_trial("read", 16, 20_000.0);
        let differ = |trial: &Trial| {
            check(trial).iter().any(|warning| matches!(warning, Warning::CountsDiffer { .. }))
        };
        let middleware = trial.middleware.as_mut().unwrap();
        // Three seconds of which the windows of two were kept, which were quicker.
        middleware.requests = middleware.requests * 103 / 100;
        assert!(differ(&trial));
        let all = trial.client.completed * 7 / 6;
        (trial.client.answered, trial.middleware.as_mut().unwrap().replied) = (all, all);
        assert!(!differ(&trial));
        trial.client.answered = all * 104 / 100;
        assert!(differ(&trial));
    }

    #[test]
    fn equal_servers_get_equal_shares() {
        let server = |name: &str, requests| ServerSide { name: name.into(), requests, errors: 0 };
        let mut trial = steady_trial("read", 16, 20_000.0);
        trial.servers = vec![server("a", 70_000), server("b", 30_000)];
        let warnings = check(&trial);
        assert_eq!(warnings[0].to_string(), "a got 70.0 % of the requests, b only 30.0 %.");
        trial.servers = vec![server("a", 51_000), server("b", 49_000)];
        assert_eq!(check(&trial), []);
    }

    #[test]
    fn a_full_machine_and_a_busy_generator_are_reported() {
        let process =
            |station, busy: f64| ProcessCpu { station, name: "it".into(), busy: 10.0 * busy, cores: 1.0 };
        let said = |cpu: Vec<ProcessCpu>, machine: Option<Watch>, cores: u32| -> Vec<String> {
            let trial = Trial { cpu, machine, ..steady_trial("read", 16, 20_000.0) };
            let environment = Environment { cores, ..Environment::default() };
            let results = summarise("t", environment, &[trial]).unwrap();
            let concerns = results.concerns.iter().map(|concern| &concern.warning);
            concerns.filter(|warning| **warning != Warning::OneRepetition).map(ToString::to_string).collect()
        };
        let all = || vec![process(SystemPart::Clients, 0.9), process(SystemPart::Middleware, 0.99)];
        assert_eq!(said(all(), None, 2).len(), 2);
        let full = |middleware| Warning::MachineFull { middleware, busy: 2.0, cores: 2 }.to_string();
        assert!(full(false).contains("busy: clients and servers take them"), "{}", full(false));
        assert!(full(true).contains("clients, middleware and servers take them"), "{}", full(true));
        assert_eq!(said(all()[1..].to_vec(), None, 2), Vec::<String>::new());
        assert_eq!(said(all()[1..].to_vec(), None, 0), Vec::<String>::new());
        // What the kernel and other programs take is gone as well.
        let watch = |kernel| Some(Watch { cores: 2, own: 1.1, foreign: 0.2, kernel, ..Watch::default() });
        assert_eq!(said(all()[1..].to_vec(), watch(0.3), 2), Vec::<String>::new());
        assert_eq!(
            said(all()[1..].to_vec(), watch(0.7), 2),
            [
                "2.00 of the machine's 2 processors were busy: clients, middleware and servers take them from each other."
            ]
        );
    }
}
