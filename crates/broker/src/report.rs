//! What is known of a tube's waits: how many workers it needs, how busy those are that it has, how
//! long its messages wait. A pure function of what was kept.

use krarup_model::headroom::{
    JobService, JobTraffic, NeedSilence, ResponseTarget, WorkersNeeded, workers_needed,
};
use krarup_record::JobSnapshot;
use krarup_record::exposition::{TimeBuckets, WAITING_BOUNDS};
use krarup_stats::Ordered;
use krarup_units::{Nanos, Seconds};
use serde::Serialize;

/// Consumers that are busier than all but this share of their time drain nothing: that is closer
/// than the rates are known.
const LEAST_SPARE: f64 = 0.01;

/// One tube of one moment, as plain data.
#[derive(Clone, Debug, Default)]
pub struct TubeState {
    /// Its name.
    pub name: String,
    /// Messages that wait; none: the database has not told.
    pub ready: Option<u64>,
    /// Whether no other broker hands out its messages.
    pub alone: bool,
    /// Messages that are with a consumer.
    pub busy: u64,
    /// Consumers that wait for a message; one that waits for several tubes is counted in each.
    pub waiting: u64,
    /// Whether none of them may take what waits: the tube is paused, or it is all for others.
    pub blocked: bool,
    /// Time since the put of the oldest message that waits; none: there is none, or
    /// the database has not told.
    pub oldest: Option<Nanos>,
    /// What was kept of it; none: it may share its books with others.
    pub jobs: Option<JobSnapshot>,
}

/// All tubes of one moment.
#[derive(Clone, Debug, Default)]
pub struct TubesState {
    /// Those with the most messages that wait, the fullest first.
    pub first: Vec<TubeState>,
    /// How many others there are, and what they hold.
    pub others: OtherTubes,
}

/// What the tubes together hold that are not listed one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OtherTubes {
    /// How many they are.
    pub tubes: u64,
    /// Messages that wait; none: the database has not told.
    pub ready: Option<u64>,
    /// Messages that are with a consumer.
    pub busy_consumers: u64,
    /// Consumers that wait for a message.
    pub waiting_consumers: u64,
    /// Messages that became ready per second; none: not seen for a second yet.
    pub arrivals_per_s: Option<f64>,
    /// Age of the oldest message that waits; none: there is none, or the database has not told.
    pub oldest_s: Option<Seconds>,
}

/// The latest times of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatestTimes {
    /// How many they are: 1,024 at most.
    pub count: usize,
    /// Their mean.
    pub mean: Seconds,
    /// The time that half of them do not exceed.
    pub p50: Seconds,
    /// That 95 % do not exceed.
    pub p95: Seconds,
    /// That 99 % do not exceed.
    pub p99: Seconds,
}

impl LatestTimes {
    fn of(times: impl Iterator<Item = Seconds>) -> Option<Self> {
        let ordered = Ordered::new(times.collect()).ok()?;
        let values = ordered.values();
        let at = |share: f64| ordered.quantile(share).expect("a share between 0 and 1");
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        Some(Self { count: values.len(), mean, p50: at(0.5), p95: at(0.95), p99: at(0.99) })
    }
}

/// How many times were at most so long: a histogram of all times since the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimesUpTo {
    /// The bound; none: all times.
    pub seconds: Option<Seconds>,
    /// Times up to it.
    pub count: u64,
}

impl TimesUpTo {
    /// The bounds at which the count grows; all times at the end where some are longer than any.
    fn of(times: &TimeBuckets) -> Vec<Self> {
        let bounds = WAITING_BOUNDS.iter().map(|&bound| Some(Nanos(bound).as_seconds()));
        let mut before = 0;
        bounds
            .zip(times.up_to.iter().copied())
            .chain([(None, times.count)])
            .filter(|&(_, count)| std::mem::replace(&mut before, count) < count)
            .map(|(seconds, count)| Self { seconds, count })
            .collect()
    }
}

/// When no message waits any more if it goes on so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainTime {
    /// After so many seconds.
    Seconds(Seconds),
    /// As many messages arrive as the consumers can take, within a hundredth, or more.
    Never,
    /// There is no consumer, or no service was seen, or those who wait may not take what waits.
    Unknown,
}

/// How many workers are needed, or why nothing is concluded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkersAnswer {
    /// So many.
    Needed(WorkersNeeded),
    /// No conclusion, for this reason.
    Silent(NeedSilence),
}

/// What is known of a tube's waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TubeReport {
    /// Its name.
    pub tube: String,
    /// Messages that wait; none: the database has not told.
    pub ready: Option<u64>,
    /// Messages that became ready per second, in the last ten minutes, or the last minute where
    /// they are fifty a second or more; none: not seen for a second yet.
    pub arrivals_per_s: Option<f64>,
    /// Messages that became ready, ever; none: that is not known of this tube alone.
    pub arrivals: Option<u64>,
    /// From hand-out to the end, of those done.
    pub service_s: Option<LatestTimes>,
    /// From ready to hand-out.
    pub waiting_s: Option<LatestTimes>,
    /// The same since the start, as a histogram.
    pub waiting_up_to: Vec<TimesUpTo>,
    /// Messages that were handed out once more; none: that is not known.
    pub redeliveries: Option<u64>,
    /// Leases that ended with the message not done; none: that is not known.
    pub given_up: Option<u64>,
    /// Age of the oldest message that waits.
    pub oldest_s: Option<Seconds>,
    /// Messages that are with a consumer: one that holds several is as many.
    pub busy_consumers: u64,
    /// Consumers that wait for a message.
    pub waiting_consumers: u64,
    /// The share of their time that the consumers of now work if it goes on so: arrivals per second
    /// times service time over consumers. Above 1 the queue grows. A consumer between its delete
    /// and its next reserve is not counted: where services are as short as that, it is too high.
    /// None: no consumer, no service was seen, or other brokers hand out its messages too.
    pub utilization: Option<f64>,
    /// How many workers keep the target; none: what the tube does is not known.
    pub workers: Option<WorkersAnswer>,
    /// When no message waits any more.
    pub drained_in: DrainTime,
}

impl TubeReport {
    /// What `state` says, for this target of the waiting time.
    pub fn of(state: &TubeState, target: ResponseTarget) -> Self {
        let jobs = state.jobs.as_ref();
        let traffic = jobs.map(traffic);
        let services = || traffic.iter().flat_map(|traffic| &traffic.services);
        let arrivals_per_s = jobs.and_then(|jobs| jobs.arrivals().rate());
        let consumers = (state.busy + state.waiting) as f64;
        // Of all leases, those given up too: they keep a consumer as busy.
        let held = LatestTimes::of(services().map(|one| one.time));
        let load = arrivals_per_s.zip(held).map(|(rate, held)| rate * held.mean);
        let capacity = held.map_or(0.0, |held| consumers / held.mean.max(1e-9));
        let spare = capacity - arrivals_per_s.unwrap_or(0.0);
        let drained_in = match state.ready {
            Some(0) => DrainTime::Seconds(0.0),
            // The consumers at other brokers are not known here, nor is when those come that may
            // take what is kept from these.
            Some(_) if !state.alone || state.blocked => DrainTime::Unknown,
            Some(ready) if spare > LEAST_SPARE * capacity => DrainTime::Seconds(ready as f64 / spare),
            Some(_) if capacity > 0.0 => DrainTime::Never,
            _ => DrainTime::Unknown,
        };
        Self {
            tube: state.name.clone(),
            ready: state.ready,
            arrivals_per_s,
            arrivals: jobs.map(|jobs| jobs.arrived),
            service_s: LatestTimes::of(services().filter(|one| one.done).map(|one| one.time)),
            waiting_s: jobs.and_then(|jobs| LatestTimes::of(jobs.waits.iter().map(|&wait| f64::from(wait)))),
            waiting_up_to: jobs.map(|jobs| TimesUpTo::of(&jobs.waiting)).unwrap_or_default(),
            redeliveries: jobs.map(|jobs| jobs.redelivered),
            given_up: jobs.map(|jobs| jobs.given_up),
            oldest_s: state.oldest.map(Nanos::as_seconds),
            busy_consumers: state.busy,
            waiting_consumers: state.waiting,
            utilization: load.filter(|_| state.alone && consumers > 0.0).map(|load| load / consumers),
            workers: traffic.as_ref().map(|traffic| match workers_needed(traffic, target) {
                Ok(needed) => WorkersAnswer::Needed(needed),
                Err(silence) => WorkersAnswer::Silent(silence),
            }),
            drained_in,
        }
    }
}

/// What the model of workers is given.
fn traffic(jobs: &JobSnapshot) -> JobTraffic {
    let arrivals = jobs.arrivals();
    JobTraffic {
        arrivals: arrivals.counts,
        width: arrivals.width.as_seconds(),
        gap_variation: arrivals.gap_variation,
        services: jobs
            .services
            .iter()
            .map(|one| JobService { time: one.time.as_seconds(), done: one.done })
            .collect(),
    }
}

/// The name of a reason for silence, as it is written everywhere.
pub fn reason(silence: NeedSilence) -> &'static str {
    match silence {
        NeedSilence::NoArrivals => "no_arrivals",
        NeedSilence::FewServices => "few_services",
        NeedSilence::ManyGivenUp => "many_given_up",
        NeedSilence::Bursts => "bursts",
        NeedSilence::TooMany => "too_many",
    }
}

/// The answer to `GET /tubes`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TubesReport {
    /// The version of this form.
    pub schema: u32,
    /// The target of the waiting time.
    pub target: ResponseTarget,
    /// The tubes with the most messages that wait, the fullest first.
    pub tubes: Vec<TubeReport>,
    /// What the others hold.
    pub others: OtherTubes,
}

impl TubesReport {
    /// What `state` says, for this target of the waiting time.
    pub fn of(state: &TubesState, target: ResponseTarget) -> Self {
        Self {
            schema: 1,
            target,
            tubes: state.first.iter().map(|tube| TubeReport::of(tube, target)).collect(),
            others: state.others,
        }
    }
}

#[cfg(test)]
mod tests {
    use krarup_record::JobBooks;
    use krarup_units::Stamp;

    use super::*;

    const TARGET: ResponseTarget = ResponseTarget { quantile: 0.95, seconds: 1.0 };

    /// A tube with ten arrivals a second for 100 s, each served for 0.4 s.
    fn tube(ready: u64, busy: u64, waiting: u64) -> TubeState {
        let mut books = JobBooks::new();
        for number in 0..1_000 {
            books.arrived(Stamp(Nanos::from_millis(number * 100).0));
            books.handed_out(Some(Nanos::from_millis(number % 100)), false);
            books.ended(Nanos::from_millis(400), true);
        }
        let jobs = Some(books.snapshot(Stamp(Nanos::from_secs(100).0)));
        let (name, ready) = ("jobs".into(), Some(ready));
        TubeState { name, ready, alone: true, busy, waiting, jobs, ..TubeState::default() }
    }

    #[test]
    fn utilization_is_arrivals_times_service_time_over_consumers() {
        let report = TubeReport::of(&tube(0, 3, 5), TARGET);
        assert_eq!(report.arrivals_per_s, Some(10.0));
        assert!((report.utilization.unwrap() - 0.5).abs() < 1e-12);
        // Which consumers other brokers have is not known here.
        let shared = TubeState { alone: false, ..tube(0, 3, 5) };
        assert_eq!(TubeReport::of(&shared, TARGET).utilization, None);
        let service = report.service_s.unwrap();
        assert_eq!((service.count, service.p50, service.p99), (1_000, 0.4, 0.4));
        let waiting = report.waiting_s.unwrap();
        assert!((waiting.p95 - 0.094).abs() < 0.001, "{waiting:?}");
        // Ten each of 0 to 99 ms: bounds that hold no more than those before are left out.
        let up_to = [2.5e-5, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1].map(Some);
        let counts = [10, 20, 30, 60, 110, 260, 510, 1_000];
        let expected = up_to.into_iter().zip(counts).map(|(seconds, count)| TimesUpTo { seconds, count });
        assert_eq!(report.waiting_up_to, expected.collect::<Vec<_>>());
        assert_eq!(report.drained_in, DrainTime::Seconds(0.0));
    }

    #[test]
    fn a_queue_drains_by_what_its_consumers_can_take_beyond_arrivals() {
        let drained = |busy| TubeReport::of(&tube(100, busy, 0), TARGET).drained_in;
        // Eight consumers take twenty a second, and ten arrive.
        let DrainTime::Seconds(eight) = drained(8) else { panic!("it drains") };
        assert!((eight - 10.0).abs() < 1e-9, "{eight}");
        assert_eq!((drained(4), drained(0)), (DrainTime::Never, DrainTime::Unknown));
        let blocked = |ready| TubeReport::of(&TubeState { blocked: true, ..tube(ready, 0, 8) }, TARGET);
        assert_eq!(blocked(100).drained_in, DrainTime::Unknown);
        assert_eq!(blocked(0).drained_in, DrainTime::Seconds(0.0));
    }

    #[test]
    fn the_workers_are_those_of_the_model_of_the_same_numbers_or_the_reason_of_silence() {
        // The last of a thousand arrivals is in the hundredth second, and so all seconds count.
        let seen = JobTraffic {
            arrivals: vec![10.0; 100],
            width: 1.0,
            gap_variation: 0.0,
            services: vec![JobService { time: 0.4, done: true }; 1_000],
        };
        let needed = workers_needed(&seen, TARGET).expect("a thousand services were seen");
        let Some(WorkersAnswer::Needed(reported)) = TubeReport::of(&tube(0, 4, 4), TARGET).workers else {
            panic!("the model has an answer")
        };
        assert_eq!((reported.low, reported.mean, reported.high), (needed.low, needed.mean, needed.high));
        assert_eq!((reported.arrivals_per_s, reported.rate_variation), (10.0, needed.rate_variation));
        assert!((reported.service_s - needed.service_s).abs() < 1e-9);
        // Regular arrivals and services: one or two above the four that are always busy.
        assert!((4..=6).contains(&needed.mean) && needed.low <= needed.mean, "{needed:?}");
        // A tighter target needs no fewer.
        let soon = ResponseTarget { quantile: 0.99, seconds: 0.01 };
        let Some(WorkersAnswer::Needed(more)) = TubeReport::of(&tube(0, 4, 4), soon).workers else {
            panic!("the model has an answer")
        };
        assert!(more.mean >= reported.mean);
        let mut unknown = tube(0, 4, 4);
        unknown.jobs.as_mut().unwrap().services.truncate(100);
        let report = TubeReport::of(&unknown, TARGET);
        assert_eq!(report.workers, Some(WorkersAnswer::Silent(NeedSilence::FewServices)));
        let nothing = TubeState { jobs: Some(JobSnapshot::default()), ..TubeState::default() };
        let nothing = TubeReport::of(&nothing, TARGET);
        assert_eq!(nothing.workers, Some(WorkersAnswer::Silent(NeedSilence::NoArrivals)));
        assert_eq!((nothing.service_s, nothing.utilization, nothing.arrivals_per_s), (None, None, None));
    }

    #[test]
    fn leases_that_were_given_up_are_censored_and_many_of_them_silence() {
        let given_up = |every: usize| {
            let mut state = tube(0, 4, 4);
            for one in state.jobs.as_mut().unwrap().services.iter_mut().step_by(every) {
                (one.time, one.done) = (Nanos::from_millis(100), false);
            }
            TubeReport::of(&state, TARGET)
        };
        // They were served for 0.1 s at least: that does not shorten the mean of 0.4 s.
        let few = given_up(20);
        let Some(WorkersAnswer::Needed(needed)) = few.workers else { panic!("a twentieth is not many") };
        assert!((needed.service_s - 0.4).abs() < 1e-9, "{needed:?}");
        assert_eq!(few.service_s.map(|times| (times.count, times.p50)), Some((950, 0.4)));
        assert_eq!(given_up(5).workers, Some(WorkersAnswer::Silent(NeedSilence::ManyGivenUp)));
    }

    #[test]
    fn ten_minutes_without_arrivals_need_no_workers() {
        let mut books = JobBooks::new();
        for second in 0..300 {
            books.arrived(Stamp(Nanos::from_secs(second).0));
            books.ended(Nanos::from_millis(400), true);
        }
        let at = |second| {
            let jobs = Some(books.snapshot(Stamp(Nanos::from_secs(second).0)));
            TubeReport::of(&TubeState { jobs, ..TubeState::default() }, TARGET)
        };
        assert!(matches!(at(301).workers, Some(WorkersAnswer::Needed(_))));
        let later = at(1_000);
        assert_eq!(later.workers, Some(WorkersAnswer::Silent(NeedSilence::NoArrivals)));
        assert_eq!((later.arrivals_per_s, later.arrivals), (Some(0.0), Some(300)));
    }

    #[test]
    fn reasons_are_written_as_the_model_writes_them() {
        use NeedSilence::{Bursts, FewServices, ManyGivenUp, NoArrivals, TooMany};
        for silence in [NoArrivals, FewServices, ManyGivenUp, Bursts, TooMany] {
            assert_eq!(serde_json::to_value(silence).unwrap(), reason(silence));
        }
    }
}
