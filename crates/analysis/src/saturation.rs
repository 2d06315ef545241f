//! How far a workload goes, and what stops it.

use krarup_record::watch::Watch;
use krarup_units::Seconds;

use crate::blocks;
use crate::cell::{Cell, MiddlewareCell, ProcessLoad};
use crate::change::{Conclusion, Measure, MeasureChange, change};
use crate::predict::Prediction;
use crate::quantity::{IntervalBasis, Quantity};
use crate::trial::HostLink;
use crate::verdict::{
    Bottleneck, LimitReason, MoreWorkers, NEAR, ResponsePart, Saturation, Split, Unsure, Usable, Verdict,
};

/// From this share of its processors on, a machine is full.
const FULL: f64 = 0.9;

/// A response time of more than so many times the shortest is mostly waiting.
const LONG: f64 = 2.0;

/// The last cell before the first in which requests wait more than they are served; none where that
/// is the first of all. The cells of one workload that are known well, clients rising, with their
/// response times; the first has the fewest clients of all.
fn usable(cells: &[&Cell], responses: &[Seconds]) -> Option<Usable> {
    let least = *responses.first()?;
    let wrong = |cell: &Cell, response: Seconds| {
        let clients = cell.levels.clients;
        let middleware = cell.middleware.as_ref();
        let queue =
            middleware.and_then(|m| Some((m.queue_length?.value, m.workers.filter(|workers| *workers > 0)?)));
        let times = response / least;
        match queue {
            Some((length, workers)) if length > f64::from(workers) => {
                Some(LimitReason::Queue { clients, length, workers })
            }
            _ if times > LONG && times.is_finite() => Some(LimitReason::Response { clients, times }),
            _ => None,
        }
    };
    let is_first = |cell: &&&Cell| cell.throughput.value > 0.0 && wrong(cell, least).is_none();
    let mut last = *cells.first().filter(is_first)?;
    let mut reason = LimitReason::NotReached;
    for (cell, response) in cells.iter().zip(responses).skip(1) {
        if let Some(found) = wrong(cell, *response) {
            reason = found;
            break;
        }
        last = cell;
    }
    let (throughput, response) = (last.throughput.value, last.response.mean.value);
    Some(Usable { at: last.levels.clone(), throughput, response, reason })
}

/// The mean times of a cell by part, from the inside out; none where the middleware was not asked.
pub fn parts(cell: &Cell) -> Option<[(ResponsePart, Quantity); 4]> {
    let middleware = cell.middleware.as_ref()?;
    Some([
        (ResponsePart::Queue, middleware.queue.mean),
        (ResponsePart::Server, middleware.server.mean),
        (ResponsePart::Own, middleware.own.mean),
        (ResponsePart::Outside, middleware.outside),
    ])
}

/// The verdict over the cells of one workload, clients rising. None where there is no cell.
///
/// `think` is the think time Z of the clients, `cores` the processors all processes share (0:
/// unknown). Throughputs and response times are compared over the repetitions that the cells have
/// in common. Nothing is concluded from a cell that is not known well; of full workers
/// [`judge_workers`] says whether they are the limit. Nothing is concluded at all where a cell that
/// is not known well carries more for certain than those that are.
pub fn verdict(cells: &[&Cell], think: Seconds, cores: u32) -> Option<Verdict> {
    let known: Vec<&Cell> = cells.iter().copied().filter(|cell| is_known(cell)).collect();
    let unsure = cells.iter().filter(|cell| !is_known(cell)).map(|cell| unsure(cell)).collect();
    let rates = blocks::means(&known, |run| run.throughput);
    let responses = blocks::means(&known, |run| run.response);
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let given = cells.iter().all(|cell| cell.open);
    let Some(last) = known.last().filter(|_| !is_outdone(highest, cells.iter().copied())) else {
        let by_rate = |one: &&&Cell, other: &&&Cell| one.throughput.value.total_cmp(&other.throughput.value);
        return cells.iter().max_by(by_rate).map(|at| Verdict {
            saturation: if given { Saturation::Given } else { Saturation::Unknown },
            bottleneck: Bottleneck::NotKnown,
            parts: Vec::new(),
            usable: None,
            unsure,
            ..of_cell(at)
        });
    };
    let place = rates.iter().position(|rate| *rate >= NEAR * highest)?;
    let at = known[place];
    let fewest = cells.first().filter(|cell| is_known(cell));
    let saturation = if given {
        Saturation::Given
    } else if at.levels != last.levels {
        let longer = responses.last()? / responses[place];
        let knee = fewest.map(|_| (responses[0] + think) * highest);
        let most = change(Measure::Throughput, at, last).ratio_interval;
        let most = most.map(|interval| interval.high - 1.0);
        Saturation::Reached { knee, tried: last.levels.clients, longer, most }.if_finite(longer)
    } else if let [.., before, _] = &known[..] {
        let growth = rates[place] / rates[place - 1] - 1.0;
        let shown = match change(Measure::Throughput, before, at).verdict {
            Conclusion::Better => true,
            // One run is not enough for a test, and repetitions of which none is common are none.
            Conclusion::TooFewRuns => before.repetitions.len().min(at.repetitions.len()) < 2,
            _ => false,
        };
        Saturation::NotReached { growth, shown }.if_finite(growth)
    } else {
        Saturation::Unknown
    };
    let shares = shares(at);
    let bottleneck = bottleneck(at, cores, &shares);
    Some(Verdict {
        saturation,
        also_full: also_full(at, &bottleneck),
        bottleneck,
        parts: shares,
        usable: fewest.filter(|_| !given).and_then(|_| usable(&known, &responses)),
        unsure,
        ..of_cell(at)
    })
}

/// The figures of a cell, with nothing concluded.
fn of_cell(at: &Cell) -> Verdict {
    Verdict {
        at: at.levels.clone(),
        throughput: at.throughput,
        response: at.response.mean.value,
        p99: at.response.p99.value,
        saturation: Saturation::Unknown,
        bottleneck: Bottleneck::Unseen,
        also_full: Vec::new(),
        parts: Vec::new(),
        usable: None,
        unsure: Vec::new(),
        missing: Vec::new(),
    }
}

/// Whether a cell is known well enough to conclude something from it.
pub(crate) fn is_known(cell: &Cell) -> bool {
    cell.throughput.is_certain() && cell.response.mean.is_certain()
}

/// Whether a cell that is not known well carries more than `highest`, all of its interval: then
/// that is not the most throughput.
pub(crate) fn is_outdone<'a>(highest: f64, mut cells: impl Iterator<Item = &'a Cell>) -> bool {
    let low = |cell: &Cell| cell.throughput.interval.map(|interval| interval.low);
    cells.any(|cell| !is_known(cell) && low(cell).is_some_and(|low| low > highest))
}

/// How wide the wider of its intervals is.
pub(crate) fn unsure(cell: &Cell) -> Unsure {
    let [throughput, response] =
        [&cell.throughput, &cell.response.mean].map(|one| one.half_share().unwrap_or(0.0));
    Unsure {
        clients: cell.levels.clients,
        half: throughput.max(response),
        of_response: response > throughput,
    }
}

/// Which part of the response time is what share of it, largest first.
fn shares(cell: &Cell) -> Vec<(ResponsePart, f64)> {
    let all: Vec<(ResponsePart, Quantity)> = parts(cell).into_iter().flatten().collect();
    // Where the middleware measured longer times than the clients, its parts are more than the
    // whole; a warning tells.
    let whole = all.iter().map(|(_, time)| time.value).sum::<f64>().max(cell.response.mean.value);
    let mut shares: Vec<(ResponsePart, f64)> =
        all.into_iter().map(|(part, time)| (part, time.value / whole)).collect();
    shares.retain(|(_, share)| share.is_finite());
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    shares
}

/// From this utilization on a link is full: the rest is gaps between windows of TCP.
const FULL_LINK: f64 = 0.95;

/// A full link is a limit in itself. A full process explains a full machine and full workers, a
/// full machine explains full workers: in this order.
fn bottleneck(cell: &Cell, cores: u32, shares: &[(ResponsePart, f64)]) -> Bottleneck {
    let by_link = |one: &&HostLink, other: &&HostLink| one.utilization().total_cmp(&other.utilization());
    if let Some(link) = cell.links.iter().max_by(by_link)
        && link.utilization() >= FULL_LINK
    {
        return Bottleneck::Link(link.clone());
    }
    let by_use = |one: &&ProcessLoad, other: &&ProcessLoad| one.utilization().total_cmp(&other.utilization());
    if let Some(process) = cell.load.iter().max_by(by_use)
        && process.utilization() >= FULL
    {
        return Bottleneck::Process(process.clone());
    }
    if let Some(machine) = full_machine(cell, cores) {
        return machine;
    }
    if let Some(middleware) = &cell.middleware
        && let (Some(workers), Some(busy)) = (middleware.workers, middleware.workers_busy)
        && busy >= FULL
    {
        let most = shares.iter().find(|(part, _)| *part != ResponsePart::Queue).copied();
        return Bottleneck::Held { workers, busy, more: None, most };
    }
    shares.first().map_or(Bottleneck::Unseen, |(part, share)| Bottleneck::MostTime(*part, *share))
}

/// The other processes that are full where one is named, the fullest first: which is the fullest,
/// chance may decide.
fn also_full(cell: &Cell, bottleneck: &Bottleneck) -> Vec<ProcessLoad> {
    let Bottleneck::Process(process) = bottleneck else { return Vec::new() };
    let is_full = |other: &&ProcessLoad| *other != process && other.utilization() >= FULL;
    let mut full: Vec<ProcessLoad> = cell.load.iter().filter(is_full).cloned().collect();
    full.sort_by(|one, other| other.utilization().total_cmp(&one.utilization()));
    full
}

/// The fullest machine, if all its processors are busy: with programs of ours, with others, with
/// the kernel, or for the machine's host. Where no machine was watched, what the processes took is
/// all that is known.
pub(crate) fn full_machine(cell: &Cell, cores: u32) -> Option<Bottleneck> {
    let by_time = |one: &&ProcessLoad, other: &&ProcessLoad| one.busy.total_cmp(&other.busy);
    let most = cell.load.iter().max_by(by_time).cloned();
    let apart = cell.machines.iter().map(|(name, watch)| (Some(name), watch));
    let together = cell.machine.iter().map(|watch| (None, watch)).filter(|_| cell.machines.is_empty());
    let share = |(_, watch): &(Option<&String>, &Watch)| watch.busy() / f64::from(watch.cores.max(1));
    let watched = apart.chain(together).filter(|(_, watch)| watch.cores > 0);
    if let Some((name, watch)) = watched.max_by(|one, other| share(one).total_cmp(&share(other))) {
        let split = Split { own: watch.own, kernel: watch.kernel, others: watch.foreign, host: watch.steal };
        return (watch.busy() >= FULL * f64::from(watch.cores)).then(|| Bottleneck::Machine {
            name: name.cloned(),
            busy: watch.busy(),
            cores: watch.cores,
            // Which machine a process ran on is not known where there are several.
            most: most.filter(|_| name.is_none()),
            split: Some(split),
        });
    }
    let busy: f64 = cell.load.iter().map(|process| process.busy).sum();
    (cores > 0 && busy >= FULL * f64::from(cores)).then_some(Bottleneck::Machine {
        name: None,
        busy: busy.min(f64::from(cores)),
        cores,
        most,
        split: None,
    })
}

/// Says of each verdict in which all workers are held whether they are the limit: only if cells
/// with more workers, or the model where no such cell was measured, bring more.
pub fn judge_workers(verdicts: &mut [Verdict], cells: &[Cell], predictions: &[Prediction]) {
    let judged = |verdict: &Verdict| {
        let (workers, busy) = match verdict.bottleneck {
            Bottleneck::Held { workers, busy, .. } | Bottleneck::Workers { workers, busy, .. } => {
                (workers, busy)
            }
            _ => return None,
        };
        let cell = cells.iter().find(|cell| cell.levels == verdict.at)?;
        let more = measured_with_more(cells, cell, workers)
            .or_else(|| predicted_with_more(predictions, cell, workers));
        Some(if more.is_some_and(|more| more.confirms()) {
            Bottleneck::Workers { workers, busy, more }
        } else {
            let most = verdict.parts.iter().find(|(part, _)| *part != ResponsePart::Queue).copied();
            Bottleneck::Held { workers, busy, more, most }
        })
    };
    let judged: Vec<Option<Bottleneck>> = verdicts.iter().map(judged).collect();
    for (verdict, judged) in verdicts.iter_mut().zip(judged) {
        if let Some(bottleneck) = judged {
            verdict.bottleneck = bottleneck;
        }
    }
}

/// The best of the cells that have more workers, and are otherwise the same.
fn measured_with_more(cells: &[Cell], cell: &Cell, workers: u32) -> Option<MoreWorkers> {
    let middlewares = cell.middleware.as_ref()?.middlewares;
    let has_more = |other: &Cell| {
        let side = other.middleware.as_ref();
        let differ = cell.factors.iter().filter(|level| !other.factors.contains(level)).count();
        // Another middleware brings more than its workers: a process, perhaps a host and a link.
        let has_workers = |side: &MiddlewareCell| {
            side.middlewares == middlewares && side.workers.is_none_or(|theirs| theirs > workers)
        };
        side.is_some_and(has_workers)
            && other.levels.clients == cell.levels.clients
            && differ == 1
            && is_known(other)
    };
    let others = cells.iter().filter(|other| has_more(other));
    let changes = others.filter_map(|other| {
        let change = change(Measure::Throughput, cell, other);
        Some((other, change.ratio?, change))
    });
    let (best, ratio, change) = changes.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let by_runs = change.ratio_interval.map(|interval| interval.high);
    // A single run has the interval of its windows.
    let halves = cell.throughput.half_share().zip(best.throughput.half_share());
    let by_windows = halves.map(|(one, other)| ratio * (1.0 + one.hypot(other)));
    Some(MoreWorkers {
        workers: best.middleware.as_ref().and_then(|side| side.workers),
        change: ratio - 1.0,
        most: by_runs.or(by_windows).map(|most| most - 1.0),
        apart: is_higher(&change),
        measured: true,
    })
}

/// Whether the other is higher for certain. A single run has the interval of its windows: then the
/// two intervals say it.
fn is_higher(change: &MeasureChange) -> bool {
    let sides = [&change.base, &change.other];
    if sides.iter().all(|side| side.basis == IntervalBasis::Repetitions) {
        return change.verdict == Conclusion::Better;
    }
    let [base, other] = sides.map(|side| side.interval);
    base.zip(other).is_some_and(|(base, other)| other.low > base.high)
}

/// What a model says of twice the workers, if it knows this cell.
fn predicted_with_more(predictions: &[Prediction], cell: &Cell, workers: u32) -> Option<MoreWorkers> {
    let known = predictions.iter().filter(|one| one.median_error.is_some()).flat_map(|one| &one.cells);
    let mut known = known.filter(|one| {
        (one.clients, one.workers) == (cell.levels.clients, workers)
            && one.throughput == cell.throughput.value
    });
    let one = known.next()?;
    let (now, more) = (one.predicted.0, one.more_workers?);
    Some(MoreWorkers {
        workers: Some(2 * workers),
        change: more.value / now.value - 1.0,
        most: Some(more.high / now.value - 1.0),
        apart: more.low > now.value,
        measured: false,
    })
}

#[cfg(test)]
mod tests {
    use krarup_record::scaled::ScaledTestbed;

    use super::*;
    use crate::results::{Environment, Results};
    use crate::sweep::summarise;
    use crate::sweep::tests::steady_trial;
    use crate::trial::{ProcessCpu, SystemPart, Trial};

    fn sweep(rates: &[(u32, f64)]) -> Results {
        let trials: Vec<_> =
            rates.iter().map(|(clients, rate)| steady_trial("read-only", *clients, *rate)).collect();
        summarise("test", Environment { cores: 4, ..Environment::default() }, &trials).unwrap()
    }

    #[test]
    fn a_rate_that_stops_growing_is_saturated_at_the_fewest_clients_that_reach_it() {
        let results = sweep(&[(1, 5_000.0), (8, 19_500.0), (16, 20_000.0), (32, 20_100.0)]);
        let verdict = &results.verdicts[0];
        assert_eq!(verdict.at.clients, 8);
        // R(1) = 1/5000 s; N* = 20100 / 5000.
        assert!(
            matches!(verdict.saturation, Saturation::Reached { knee: Some(knee), tried: 32, .. } if (knee - 4.02).abs() < 0.01)
        );
    }

    #[test]
    fn a_rate_that_still_grows_is_not_called_a_limit() {
        let results = sweep(&[(1, 5_000.0), (2, 9_000.0)]);
        let verdict = &results.verdicts[0];
        let Saturation::NotReached { growth, shown: true } = verdict.saturation else {
            panic!("{verdict:?}")
        };
        assert!((growth - 0.8).abs() < 1e-3, "{growth}");
        assert!(verdict.to_string().contains("still grew by 80 %"), "{verdict}");
    }

    #[test]
    fn growth_that_the_runs_do_not_tell_from_none_is_called_so() {
        let runs = |clients, rate: f64, half: f64| {
            // Three runs with this t interval.
            let apart = half * 3.0_f64.sqrt() / 4.303;
            let runs = [rate - apart, rate, rate + apart].into_iter().zip(0..);
            runs.map(move |(rate, repetition)| Trial {
                repetition,
                ..steady_trial("read-only", clients, rate)
            })
        };
        let trials: Vec<Trial> = runs(64, 1_000.0, 90.0).chain(runs(128, 1_060.0, 95.0)).collect();
        let verdict = &judged(&trials).verdicts[0];
        assert!(matches!(verdict.saturation, Saturation::NotReached { shown: false, .. }), "{verdict:?}");
        let said = verdict.to_string();
        assert!(said.contains("higher by 6 %") && said.contains("do not tell from none"), "{said}");
        assert!(!said.contains("lies beyond"), "{said}");
        assert_eq!(verdict.word(), "limit not known");
        assert!(!verdict.next_step().starts_with("Try more clients"), "{}", verdict.next_step());
    }

    /// Twice the clients bring 4 % more, and both rates are known to ± half.
    #[test]
    fn a_limit_is_not_called_reached_where_the_runs_leave_room_for_much_more() {
        let verdict = |half: f64| {
            let runs = |clients, rate: f64| {
                // Three runs with this t interval.
                let apart = rate * half * 3.0_f64.sqrt() / 4.303;
                let runs = [rate - apart, rate, rate + apart].into_iter().zip(0..);
                runs.map(move |(rate, repetition)| Trial {
                    repetition,
                    ..steady_trial("read-only", clients, rate)
                })
            };
            let trials: Vec<Trial> = runs(64, 10_000.0).chain(runs(128, 10_400.0)).collect();
            judged(&trials).verdicts.remove(0)
        };
        for (half, word, words) in [
            (0.005, "limit reached", "More clients bring less than 5 % more: 128 clients wait"),
            (
                0.03,
                "limit reached",
                "More clients brought less than 5 % more, and by the 95 % interval up to 7 %: 128 clients wait",
            ),
            (
                0.09,
                "limit not known",
                "and by the 95 % interval up to 13 %: whether the limit is reached is not known. 128 clients wait",
            ),
        ] {
            let verdict = verdict(half);
            assert!(matches!(verdict.saturation, Saturation::Reached { tried: 128, .. }), "{verdict:?}");
            assert_eq!((verdict.at.clients, verdict.word()), (64, word), "{half}");
            assert!(verdict.to_string().contains(words), "{verdict}");
            let is_asked = verdict.next_step().starts_with("Measure longer or repeat more often");
            assert_eq!(is_asked, word == "limit not known", "{}", verdict.next_step());
        }
        // Of one run each nothing says how far the other may be above.
        let verdict = &sweep(&[(64, 10_000.0), (128, 10_400.0)]).verdicts[0];
        assert!(matches!(verdict.saturation, Saturation::Reached { most: None, .. }), "{verdict:?}");
        assert_eq!(verdict.word(), "limit reached");
    }

    /// From the fourth repetition on the machine is slower by a fifth, and only the cell with fewer
    /// clients was run then.
    #[test]
    fn a_machine_that_got_slower_is_no_growth() {
        let runs = |clients, rates: &[f64]| -> Vec<Trial> {
            let trial = |(rate, repetition): (&f64, u32)| Trial {
                repetition,
                ..steady_trial("read-only", clients, *rate)
            };
            rates.iter().zip(0..).map(trial).collect()
        };
        let slower =
            [9_600.0, 10_400.0, 10_100.0, 8_000.0, 8_100.0, 7_900.0, 8_000.0, 8_200.0, 7_800.0, 8_000.0];
        let results = judged(&[runs(8, &slower), runs(16, &[10_000.0, 10_100.0, 9_900.0])].concat());
        let verdict = &results.verdicts[0];
        assert_eq!(verdict.unsure, []);
        assert!(matches!(verdict.saturation, Saturation::Reached { tried: 16, .. }), "{verdict:?}");
        assert_eq!((verdict.at.clients, results.configurations[0].least.clients), (8, 8));
    }

    #[test]
    fn a_full_process_is_named_before_the_machine_and_the_workers() {
        let mut trial = steady_trial("read-only", 16, 20_000.0);
        let process = |station, busy: f64| ProcessCpu { station, name: "proxy".into(), busy, cores: 1.0 };
        trial.cpu = vec![process(SystemPart::Middleware, 0.97 * trial.length)];
        let results = summarise("test", Environment::default(), &[trial.clone()]).unwrap();
        let verdict = &results.verdicts[0];
        assert!(
            verdict.to_string().contains(
                "The bottleneck is the middleware (proxy): it uses 0.97 of the 1 processor it can."
            ),
            "{verdict}"
        );
        trial.cpu = vec![
            process(SystemPart::Middleware, 0.8 * trial.length),
            process(SystemPart::Clients, 0.7 * trial.length),
            process(SystemPart::Server, 0.45 * trial.length),
        ];
        let environment = Environment { cores: 2, ..Environment::default() };
        let mut results = summarise("test", environment, &[trial]).unwrap();
        assert_eq!(results.verdicts[0].bottleneck.short(), "all 2 processors");
        let most = |results: &Results| match &results.verdicts[0].bottleneck {
            Bottleneck::Machine { most, .. } => most.is_some(),
            other => panic!("{other:?}"),
        };
        assert!(most(&results));
        // What a station takes of a machine that it stands for is no part of this one.
        results.scaled_by(ScaledTestbed { by: 4.0, stations: Vec::new(), baselines: Vec::new() });
        assert!(!most(&results));
    }

    /// Which of them is a hundredth fuller says nothing of which is the limit.
    #[test]
    fn of_several_processes_that_are_full_none_is_called_the_bottleneck() {
        let mut trial = steady_trial("read-only", 16, 20_000.0);
        let length = trial.length;
        let process = |station, name: &str, busy: f64| ProcessCpu {
            station,
            name: name.into(),
            busy: busy * length,
            cores: 1.0,
        };
        let judged = |trial: &Trial| judged(std::slice::from_ref(trial)).verdicts.remove(0);
        trial.cpu = vec![
            process(SystemPart::Clients, "load", 0.97),
            process(SystemPart::Middleware, "proxy", 0.96),
            process(SystemPart::Server, "s1", 0.5),
        ];
        let verdict = judged(&trial);
        let said = verdict.to_string();
        assert!(
            said.contains(
                "Several processes are full, and which of them is the bottleneck is not known: the load generator (load) uses 0.97 of the 1 \
                 processor it can and the middleware (proxy) uses 0.96 of the 1 processor it can."
            ) && !said.contains("The bottleneck is"),
            "{said}"
        );
        assert_eq!(verdict.cause(), "load generator or middleware");
        assert!(!verdict.next_step().contains("the system can do more"), "{}", verdict.next_step());
        // The generator alone is full.
        trial.cpu[1].busy = 0.5 * length;
        let verdict = judged(&trial);
        assert_eq!((verdict.also_full.len(), verdict.cause().as_str()), (0, "load generator"));
        assert!(verdict.next_step().contains("the system can do more"), "{}", verdict.next_step());
        // Servers that are alike.
        trial.cpu = vec![
            process(SystemPart::Server, "s1", 0.95),
            process(SystemPart::Server, "s2", 0.96),
            process(SystemPart::Middleware, "proxy", 0.5),
        ];
        assert_eq!(judged(&trial).cause(), "server s2 or server s1");
        // Each is named once, whatever is between the two generators.
        trial.cpu = vec![
            process(SystemPart::Clients, "load 1", 0.97),
            process(SystemPart::Middleware, "proxy", 0.96),
            process(SystemPart::Clients, "load 2", 0.95),
        ];
        assert_eq!(judged(&trial).cause(), "load generator or middleware");
    }

    #[test]
    fn a_full_link_is_named_before_a_client_that_waits_for_it() {
        let mut trial = steady_trial("read-only", 16, 2_918.0);
        let link =
            |name: &str, station, sent| HostLink { station, name: name.into(), bandwidth: 101e6, sent };
        let process = |busy: f64| ProcessCpu {
            station: SystemPart::Middleware,
            name: "proxy".into(),
            busy: busy * trial.length,
            cores: 1.0,
        };
        trial.cpu = vec![process(0.97)];
        trial.links = vec![
            link("c1", SystemPart::Clients, 3e6),
            link("s1", SystemPart::Server, 100.6e6),
            link("s2", SystemPart::Server, 5e6),
        ];
        let results = summarise("test", Environment::default(), &[trial.clone()]).unwrap();
        let verdict = &results.verdicts[0];
        assert_eq!(verdict.bottleneck.short(), "link of s1");
        assert!(
            verdict.to_string().contains("the link of the server on s1: it sends 101 of the 101 Mbit/s"),
            "{verdict}"
        );
        // Half full, it waits for others.
        trial.links[1].sent = 50e6;
        let results = summarise("test", Environment::default(), &[trial]).unwrap();
        assert!(matches!(results.verdicts[0].bottleneck, Bottleneck::Process(_)));
    }

    /// 64 clients: most of 3.2 ms in the queue, 0.8 ms held by one of the workers; Little's law
    /// makes a few more of them than there are.
    fn held(workers: u32, rate: f64) -> Trial {
        let mut trial = steady_trial(&format!("read-only, workers {workers}"), 64, rate);
        trial.factors = vec![
            ("ratio".into(), "0:1".into()),
            ("workers".into(), workers.to_string()),
            ("clients".into(), "64".into()),
        ];
        let response = trial.client.response.mean;
        let middleware = trial.middleware.as_mut().unwrap();
        middleware.workers = Some(workers);
        let hold = 1.01 * f64::from(workers) / rate;
        middleware.response.mean = response * 0.95;
        (middleware.queue.mean, middleware.server.mean, middleware.own.mean) =
            (middleware.response.mean - hold, hold - 1e-4, 1e-4);
        middleware.queue_length = Some(rate * middleware.queue.mean);
        trial
    }

    fn judged(trials: &[Trial]) -> Results {
        summarise("test", Environment { cores: 2, ..Environment::default() }, trials).unwrap()
    }

    #[test]
    fn full_workers_are_the_limit_only_where_more_of_them_bring_more() {
        let alone = judged(&[held(16, 20_000.0)]);
        let verdict = &alone.verdicts[0];
        assert!(
            matches!(verdict.bottleneck, Bottleneck::Held { workers: 16, busy, more: None, .. } if busy == 1.0),
            "{verdict:?}"
        );
        assert!(
            verdict.to_string().contains(
                "100 % of the 16 workers are held on average, and whether that is the limit is not known"
            ),
            "{verdict}"
        );
        assert_eq!(verdict.parts[0].0, ResponsePart::Queue);

        let more = judged(&[held(16, 20_000.0), held(32, 29_000.0)]);
        let verdict = &more.verdicts[0];
        assert!(matches!(verdict.bottleneck, Bottleneck::Workers { workers: 16, .. }), "{verdict:?}");
        assert!(
            verdict.to_string().contains("The bottleneck is the 16 workers: 100 % of them are held on average, and the others wait in the queue; with 32 workers 45 % more requests were answered."),
            "{verdict}"
        );

        let same = judged(&[held(16, 20_000.0), held(32, 20_100.0)]);
        let verdict = &same.verdicts[0];
        assert!(matches!(verdict.bottleneck, Bottleneck::Held { more: Some(_), .. }), "{verdict:?}");
        assert!(
            verdict.to_string().contains("but they are not the limit: with 32 workers 0 % more"),
            "{verdict}"
        );

        // Alike, and known too little to say so.
        let runs = |workers, rate: f64| {
            let runs = [0.97, 1.0, 1.03].into_iter().zip(0..);
            runs.map(move |(times, repetition)| Trial { repetition, ..held(workers, rate * times) })
        };
        let wide = judged(&runs(16, 10_000.0).chain(runs(32, 10_300.0)).collect::<Vec<_>>());
        let said = wide.verdicts[0].to_string();
        assert!(
            said.contains("is not known: with 32 workers 3 % more requests were answered, which the intervals do not tell from 5 % more."),
            "{said}"
        );
        let mut short = [held(16, 10_000.0), held(32, 10_300.0)];
        short.iter_mut().for_each(|trial| trial.client.windows.truncate(1));
        let said = judged(&short).verdicts[0].to_string();
        assert!(said.contains("is not known: ") && said.contains("one of the two has no interval"), "{said}");

        // A cell that differs in something else, too, is no evidence about workers.
        let mut other = held(32, 29_000.0);
        other.factors[0].1 = "1:0".into();
        let verdict = &judged(&[held(16, 20_000.0), other]).verdicts[0];
        assert!(matches!(verdict.bottleneck, Bottleneck::Held { more: None, .. }), "{verdict:?}");
    }

    #[test]
    fn a_second_middleware_is_not_taken_for_more_workers() {
        let of = |middlewares: u32, each: u32, rate| {
            let mut trial = held(middlewares * each, rate);
            trial.levels.workload = format!("middlewares {middlewares}, workers {each}");
            trial.factors[0] = ("middlewares".into(), middlewares.to_string());
            trial.factors[1].1 = each.to_string();
            trial.middleware.as_mut().unwrap().middlewares = middlewares;
            trial
        };
        let results = judged(&[of(1, 8, 7_000.0), of(1, 32, 7_150.0), of(2, 8, 12_000.0)]);
        let said = results.verdicts[0].to_string();
        assert!(said.contains("but they are not the limit: with 32 workers 2 % more"), "{said}");
    }

    #[test]
    fn a_full_machine_comes_before_workers_whatever_keeps_it_busy() {
        let mut trial = held(16, 20_000.0);
        let process =
            |station, busy: f64| ProcessCpu { station, name: "it".into(), busy: 10.0 * busy, cores: 1.0 };
        trial.cpu = vec![process(SystemPart::Middleware, 0.6), process(SystemPart::Clients, 0.4)];
        trial.machine = Some(Watch {
            seconds: 10.0,
            cores: 2,
            own: 1.0,
            foreign: 0.4,
            kernel: 0.59,
            steal: 0.01,
            ..Watch::default()
        });
        let verdict = &judged(&[trial.clone(), held(32, 29_000.0)]).verdicts[0];
        assert_eq!(verdict.bottleneck.short(), "all 2 processors");
        assert!(
            verdict.to_string().contains(
                "The bottleneck is the machine: 2.00 of its 2 processors are busy, 1.00 with the experiment's own programs, 0.59 with the kernel, \
                 0.40 with other programs and 0.01 with the machine's host, which takes them away; of the stations most of all with the middleware (it) (0.60). \
                 What the system does with the machine to itself is not known: run it again with nothing else at work."
            ),
            "{verdict}"
        );
        // Half of it idle, it limits nothing.
        trial.machine = Some(Watch { seconds: 10.0, cores: 2, own: 1.0, ..Watch::default() });
        assert!(matches!(judged(&[trial.clone()]).verdicts[0].bottleneck, Bottleneck::Held { .. }));
        // One of several machines is full: their sum does not show it.
        let watch = |own| Watch { seconds: 10.0, cores: 2, own, ..Watch::default() };
        trial.machines = vec![("alpha".into(), watch(0.1)), ("beta".into(), watch(1.9))];
        let verdict = &judged(&[trial]).verdicts[0];
        assert_eq!(verdict.bottleneck.short(), "all 2 processors of beta");
    }

    /// Windows that differ so much that the rate is known to ± 60 % or so.
    fn wild(mut trial: Trial) -> Trial {
        for (number, window) in trial.client.windows.iter_mut().enumerate() {
            window.completed = if number % 2 == 0 { 100 } else { 40_000 };
        }
        trial
    }

    #[test]
    fn nothing_is_concluded_from_cells_that_are_not_known_well() {
        let cell = |clients, rate| steady_trial("read-only", clients, rate);
        // The last cell seems to have a higher rate.
        let results =
            judged(&[cell(1, 5_000.0), cell(8, 19_500.0), cell(16, 20_000.0), wild(cell(32, 24_000.0))]);
        let verdict = &results.verdicts[0];
        assert_eq!((verdict.at.clients, verdict.unsure[0].clients), (8, 32));
        assert!(matches!(verdict.saturation, Saturation::Reached { tried: 16, .. }), "{verdict:?}");
        assert!(verdict.to_string().contains("Nothing is concluded from the cells with 32 clients: their intervals are wider than a fifth of their values"), "{verdict}");
        assert!(verdict.to_string().contains("Measure longer or repeat more often"), "{verdict}");
        assert_eq!(results.configurations[0].best.clients, 16);
        // Without the fewest clients there is neither a knee nor a shortest response time.
        let results = judged(&[wild(cell(1, 5_000.0)), cell(8, 19_500.0), cell(16, 20_000.0)]);
        let verdict = &results.verdicts[0];
        assert!(
            matches!(verdict.saturation, Saturation::Reached { knee: None, tried: 16, .. }),
            "{verdict:?}"
        );
        assert_eq!(verdict.usable, None);
        assert!(!verdict.to_string().contains("knee"), "{verdict}");
        // One cell after the other that is not known: no growth either.
        let results = judged(&[wild(cell(1, 5_000.0)), wild(cell(8, 19_500.0))]);
        let verdict = &results.verdicts[0];
        assert_eq!((&verdict.bottleneck, verdict.saturation), (&Bottleneck::NotKnown, Saturation::Unknown));
        let said = verdict.to_string();
        assert!(
            said.starts_with("No conclusion: ") && !said.contains("grew") && said.contains("Measure longer"),
            "{said}"
        );
        assert!(results.configurations.is_empty());
        // The last cell is not known well, but carries more for certain.
        let results = judged(&[cell(1, 5_000.0), cell(2, 5_100.0), wild(cell(32, 40_000.0))]);
        let verdict = &results.verdicts[0];
        assert_eq!((&verdict.bottleneck, verdict.at.clients), (&Bottleneck::NotKnown, 32));
        assert!(results.configurations.is_empty(), "{:?}", results.configurations);
        assert_eq!(
            verdict.next_step(),
            "Measure longer or repeat more often, with nothing else at work on the machine."
        );
        // A run too short for windows has no interval at all, and the verdict says so.
        let mut short = cell(4, 5_000.0);
        short.client.windows.truncate(1);
        let verdict = &judged(&[short]).verdicts[0];
        assert!(
            verdict
                .to_string()
                .contains("One short run has no interval: nothing says how far these figures may be off."),
            "{verdict}"
        );
    }

    /// Overload is what scatters: nothing is known of it, and it was tried all the same.
    #[test]
    fn no_limit_lies_beyond_cells_that_are_not_known_well() {
        let cell = |clients, rate| steady_trial("read-only", clients, rate);
        let verdict = &judged(&[cell(1, 5_000.0), cell(8, 24_000.0), wild(cell(64, 8_000.0))]).verdicts[0];
        assert!(matches!(verdict.saturation, Saturation::NotReached { shown: true, .. }), "{verdict:?}");
        assert_eq!((verdict.at.clients, verdict.word()), (8, "limit not known"));
        let said = verdict.to_string();
        for why in [
            "grew by 380 % at the last step that is known. Whether it does beyond is not: no cell with 64 clients is known well enough.",
            "responsive up to 8 clients (24,000 requests per second): whether it does with 64 is not known.",
        ] {
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn where_more_wait_than_are_served_already_with_the_fewest_clients_none_are_few_enough() {
        let trial = |clients, length| {
            let mut trial = steady_trial("read-only", clients, 20_000.0);
            let middleware = trial.middleware.as_mut().unwrap();
            (middleware.workers, middleware.queue_length) = (Some(8), Some(length));
            trial
        };
        for (length, usable) in [(5.0, Some(64)), (55.0, None)] {
            let verdict = &judged(&[trial(64, length), trial(128, 119.0)]).verdicts[0];
            assert_eq!(verdict.usable.as_ref().map(|usable| usable.at.clients), usable, "{verdict}");
        }
    }

    #[test]
    fn no_share_is_more_than_all_of_it() {
        let mut trial = held(16, 20_000.0);
        trial.cpu = vec![ProcessCpu {
            station: SystemPart::Middleware,
            name: "proxy".into(),
            busy: 10.3,
            cores: 1.0,
        }];
        let mut results = judged(&[trial.clone()]);
        assert!(
            results.verdicts[0].to_string().contains("it uses 1.00 of the 1 processor it can"),
            "{}",
            results.verdicts[0]
        );
        assert_eq!(results.cells[0].load[0].utilization(), 1.0);
        assert_eq!(results.cells[0].middleware.as_ref().unwrap().workers_busy, Some(1.0));
        trial.links =
            vec![HostLink { station: SystemPart::Server, name: "s1".into(), bandwidth: 1e8, sent: 1.02e8 }];
        trial.middleware.as_mut().unwrap().server.mean *= 9.0;
        results = judged(&[trial]);
        assert_eq!(results.cells[0].links[0].utilization(), 1.0);
        let whole: f64 = results.verdicts[0].parts.iter().map(|(_, share)| share).sum();
        assert!((whole - 1.0).abs() < 1e-9, "{:?}", results.verdicts[0].parts);
    }
}
