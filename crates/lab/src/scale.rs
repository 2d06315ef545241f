//! How many times slower a testbed must be to fit into the processors at hand, and which share of a
//! processor makes a station as fast as what was published of it: arithmetic alone.

use krarup_record::scaled::{ReachedBaseline, ScaledStation, ScaledTestbed};
use krarup_stats::interval::USUAL_LEVEL;
use krarup_stats::summary::Summary;
use krarup_units::{Mistake, Seconds};

use crate::plan::trial_time;
use crate::spec::{Baseline, ScaleBy, Spec, StationCount, StationSpec};
use crate::testbed::cap::LEAST;

/// Of the processors at hand stations get this much. The rest is for what no quota is charged with:
/// the kernel's work on packets, delay lines, and looking at the machine.
pub const FOR_STATIONS: f64 = 0.7;
/// Most runs that look for the share of one station.
pub const MOST_RUNS: usize = 12;
/// A run that gives less than this part of what was published is below it, whatever runs differ by.
const BELOW: f64 = 0.75;
/// While none is below, the next share is at most this part of the least that was tried, after the
/// first run and after later ones: what limits may be something else.
const DOWN: [f64; 2] = [0.6, 0.4];
/// Where a larger share is known to give enough, the next is at most so many times the last.
const UP: f64 = 2.0;
/// Runs whose shares differ by less than this, as a natural logarithm, are about one share: what a
/// station gives is in proportion to it there.
const CLOSE: f64 = 0.25;
/// So many runs about one share are enough, where they agree.
const ENOUGH: usize = 4;
/// They agree where half of the share's 95 % interval is at most this part of it.
const AGREE: f64 = 0.05;

impl Spec {
    /// Processors of all machines that stations stand for, with the most of each kind.
    pub fn processors(&self) -> f64 {
        self.stations().map(|(name, station)| f64::from(self.most(name, station)) * processors(station)).sum()
    }

    /// The most of a kind of station that any cell has.
    fn most(&self, name: &str, station: &StationSpec) -> u32 {
        let usual = if name == "servers" { station.usual_servers() } else { 1 };
        self.counts(station, usual).into_iter().max().unwrap_or(usual)
    }

    /// Whether its stations stand for as many processors as those of this testbed: then the scale
    /// that was chosen for one is that of the other.
    pub fn stands_for_those_of(&self, testbed: &ScaledTestbed) -> bool {
        let stations = testbed.stations.iter();
        self.processors() == stations.map(|one| f64::from(one.count) * one.processors).sum::<f64>()
    }

    /// Where the scale is to be chosen: that of the testbed that is `kept`, or, where none is, the
    /// least whole one with which the stations fit into so many processors.
    pub fn choose_scale(&mut self, kept: Option<&ScaledTestbed>, cores: u32) {
        let least = (self.processors() / (f64::from(cores.max(1)) * FOR_STATIONS)).ceil().max(1.0);
        if let Some(scale) = &mut self.scale
            && scale.by == ScaleBy::Auto
        {
            scale.by = ScaleBy::Times(kept.map_or(least, |kept| kept.by));
        }
    }

    /// Whether each station can have its share.
    ///
    /// # Errors
    /// One whose share would be less than a quota can be: it would have more than the scale says.
    pub fn check_shares(&self) -> Result<(), Mistake> {
        let by = self.slower();
        let of_station = |(name, station): (&'static str, &StationSpec)| Some((name, station.cpu? / by));
        match self.stations().filter_map(of_station).find(|(_, share)| *share < LEAST) {
            None => Ok(()),
            Some((name, share)) => Err(Mistake::new(
                format!(
                    "scale: {by} times slower each of stations.{name} would have {share:.4} of a processor, \
                     and {LEAST} is the least that can be given"
                ),
                "write a smaller scale, or run it where there are more processors",
            )),
        }
    }

    /// How many times slower everything is; 1 where the spec has no scale, or none was chosen yet.
    pub fn slower(&self) -> f64 {
        match self.scale.as_ref().map(|scale| scale.by) {
            Some(ScaleBy::Times(times)) => times,
            Some(ScaleBy::Auto) | None => 1.0,
        }
    }

    /// Processors that each station of a kind may use before any calibration; none: all there are.
    pub fn share(&self, station: &StationSpec) -> Option<f64> {
        station.cpu.map(|cpu| (cpu / self.slower()).max(LEAST))
    }

    /// What the testbed is scaled to, with the shares that baselines have given; none where the
    /// spec has no scale.
    pub fn scaled_testbed(&self, baselines: Vec<ReachedBaseline>) -> Option<ScaledTestbed> {
        self.scale.as_ref()?;
        let station = |(name, station): (&'static str, &StationSpec)| {
            let found = baselines.iter().find(|reached| reached.station == name);
            ScaledStation {
                station: name.to_owned(),
                count: self.most(name, station),
                processors: processors(station),
                share: found.map(|reached| reached.share).or(self.share(station)).unwrap_or(0.0),
                link: station.link,
                delay: station.delay,
            }
        };
        Some(ScaledTestbed { by: self.slower(), stations: self.stations().map(station).collect(), baselines })
    }

    /// About how long the search for shares takes at most, where no run is made once more.
    pub fn calibration_time(&self) -> Seconds {
        let baselines = self.scale.iter().flat_map(|scale| &scale.baselines);
        baselines.map(|baseline| MOST_RUNS as f64 * trial_time(&self.alone(baseline.get_ref()))).sum()
    }

    /// The experiment with a single station of the baseline's kind, as long as one run of a
    /// calibration. Servers and clients are alone without a middleware.
    pub fn alone(&self, baseline: &Baseline) -> Self {
        use crate::spec::StationRole::{Clients, Middleware, Servers};
        let mut alone = self.clone();
        let one = Some(StationCount::Number(1));
        let stations = &mut alone.stations;
        match baseline.station {
            Clients => (stations.clients.count, stations.middleware) = (one, None),
            Servers => (stations.servers.count, stations.middleware) = (one, None),
            Middleware => stations.middleware.iter_mut().for_each(|station| station.count.clone_from(&one)),
        }
        if let Some(clients) = baseline.clients {
            alone.stations.clients.count = Some(StationCount::Number(clients));
        }
        alone.gates.clear();
        alone.phases.cool_down = 0.0;
        if let Some(scale) = &mut alone.scale {
            // What was published of other stations changes nothing.
            scale.baselines.retain(|one| one.get_ref().station == baseline.station);
            alone.phases.warm_up = alone.phases.warm_up.min(scale.measure / 2.0);
            alone.phases.measure = scale.measure;
        }
        alone
    }
}

/// Processors of the machine that a station stands for; checked to be said where there is a scale.
fn processors(station: &StationSpec) -> f64 {
    station.cpu.unwrap_or(0.0)
}

/// Looks for the share with which a station gives what was published, by runs that it names.
///
/// More of a processor is never taken to give less, and something else may bound what a run gives:
/// so the search first goes down to a share that gives clearly less. From there on each run is made
/// with the share by which all runs about it agree, what they give being in proportion: the mean of
/// share · published / given, as logarithms. It ends when enough of them say so closely enough, or
/// when the most runs are made. A bound within some 5 % of the rate cannot be told from the
/// station.
#[derive(Clone, Debug)]
pub struct ShareSearch {
    target: f64,
    first: f64,
    most: f64,
    runs: Vec<(f64, f64)>,
}

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundShare {
    /// Processors.
    pub share: f64,
    /// Requests per second: what the latest runs about this share gave, in proportion to it.
    pub gives: f64,
    /// Half of the 95 % interval of the share, as a part of it; none where one run alone says it.
    pub within: Option<f64>,
    /// How many runs say it: those about this share.
    pub runs: usize,
}

impl ShareSearch {
    /// A search for `target` requests per second that begins with the share `first` and goes no
    /// higher than `most`.
    pub fn new(target: f64, first: f64, most: f64) -> Self {
        Self { target, first: first.clamp(LEAST, most.max(LEAST)), most: most.max(LEAST), runs: Vec::new() }
    }

    /// The share to try next; none where the search has come to its end.
    pub fn next(&self) -> Option<f64> {
        let Some(&(last, gave)) = self.runs.last() else { return Some(self.first) };
        if self.runs.len() >= MOST_RUNS {
            return None;
        }
        let share = match self.agreed() {
            Some(found) if found.runs >= ENOUGH && found.within.is_some_and(|within| within <= AGREE) => {
                return None;
            }
            // Where little is done with little, what is in proportion is too much: it might be
            // bounded again.
            Some(found) if self.runs.iter().any(|run| run.0 > last && run.1 >= self.target) => {
                found.share.min(UP * last)
            }
            Some(found) => found.share,
            None => self.further_down(),
        };
        // At an end of what can be given another run says no more, where this one is far off.
        let at_end = share == last && (share == LEAST || share == self.most);
        let is_far = gave < BELOW * self.target || gave > self.target / BELOW;
        (!(at_end && is_far)).then_some(share)
    }

    /// What a run with this share gave, in requests per second.
    pub fn tell(&mut self, share: f64, gave: f64) {
        self.runs.push((share, gave));
    }

    /// What the runs say; none where there was none.
    pub fn found(&self) -> Option<FoundShare> {
        self.agreed().or_else(|| {
            let off = |run: &(f64, f64)| (run.1 / self.target - 1.0).abs();
            let nearest = self.runs.iter().copied().min_by(|one, other| off(one).total_cmp(&off(other)));
            nearest.map(|(share, gives)| FoundShare { share, gives, within: None, runs: 1 })
        })
    }

    /// All runs, in their order.
    pub fn into_runs(self) -> Vec<(f64, f64)> {
        self.runs
    }

    /// Whether a run with this share is among those that what was found rests on: those about it,
    /// and those below, from which the search went up.
    pub fn rests_on(&self, share: f64) -> bool {
        self.runs.last().is_some_and(|&(last, _)| share <= last || Self::is_about(share, last))
    }

    fn is_about(share: f64, other: f64) -> bool {
        (share / other).ln().abs() < CLOSE
    }

    /// The share by which the runs about the last one agree; none while no run gave clearly less
    /// than was published, or had the least that can be given.
    fn agreed(&self) -> Option<FoundShare> {
        let &(last, _) = self.runs.last()?;
        self.runs.iter().find(|run| run.1 < BELOW * self.target || run.0 == LEAST)?;
        let about = self.runs.iter().filter(|run| Self::is_about(run.0, last));
        // A run that gave next to nothing must not ask for all there is.
        let log = |&(share, gave): &(f64, f64)| (share * self.target / gave.max(self.target / 100.0)).ln();
        let logs: Vec<f64> = about.clone().map(log).collect();
        let summary = Summary::of(&logs).ok()?;
        let share = summary.mean.exp().clamp(LEAST, self.most);
        let latest: Vec<f64> = about.rev().map(|run| run.1 * share / run.0).take(ENOUGH).collect();
        let interval = summary.mean_estimate(USUAL_LEVEL).ok();
        Some(FoundShare {
            share,
            gives: latest.iter().sum::<f64>() / latest.len() as f64,
            within: interval.map(|estimate| estimate.interval.half_width()),
            runs: logs.len(),
        })
    }

    /// A share that may give less than all that were tried.
    fn further_down(&self) -> f64 {
        let least = self.runs.iter().min_by(|one, other| one.0.total_cmp(&other.0));
        let &(share, gave) = least.expect("a run was made");
        (share * (self.target / gave).min(DOWN[usize::from(self.runs.len() > 1)])).max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPEC: &str = r#"
title = "t"
testbed = "netns"
[scale]
by = "auto"
[[scale.baseline]]
station = "servers"
levels = { workload = "write", clients = 64 }
throughput = 16334
[[factor]]
name = "workload"
levels = [{ name = "read", words = ["--ratio", "0:1"] }, { name = "write", words = ["--ratio", "1:0"] }]
[[factor]]
name = "clients"
levels = [2, 64]
[stations.servers]
program = "memcached"
count = 3
cpu = 1
link = "101Mbit/s"
[stations.middleware]
program = "proxy"
count = 2
cpu = 8
[stations.clients]
program = "load"
count = 3
cpu = 2
delay = "0.3ms"
flags = ["$workload", "--connections", "$clients"]
"#;

    fn spec() -> Spec {
        Spec::parse(SPEC, "spec.toml").unwrap()
    }

    #[test]
    fn the_scale_is_the_least_with_which_all_stations_fit_into_the_processors_at_hand() {
        let on = |cores| {
            let mut spec = spec();
            spec.choose_scale(None, cores);
            spec.slower()
        };
        assert_eq!(spec().processors(), 25.0);
        // 25 / (2 · 0.7) = 17.9
        assert_eq!([on(2), on(4), on(16), on(36), on(128)], [18.0, 9.0, 3.0, 1.0, 1.0]);
        let mut given = Spec::parse(&SPEC.replace("\"auto\"", "20"), "spec.toml").unwrap();
        given.choose_scale(None, 2);
        assert_eq!(given.slower(), 20.0, "what is given is kept");
    }

    #[test]
    fn a_scale_that_was_chosen_is_kept_while_the_stations_stand_for_as_many_processors() {
        let mut first = spec();
        first.choose_scale(None, 2);
        let kept = first.scaled_testbed(Vec::new()).unwrap();
        let then = |text: &str, cores| {
            let mut spec = Spec::parse(text, "spec.toml").unwrap();
            let kept = Some(&kept).filter(|kept| spec.stands_for_those_of(kept));
            spec.choose_scale(kept, cores);
            spec.slower()
        };
        assert_eq!(then(SPEC, 4), 18.0, "trials that are there were run with it");
        let twice = SPEC.replace("count = 3", "count = 6").replace("count = 2", "count = 4");
        // 50 / (2 · 0.7) = 35.7
        assert_eq!(then(&twice, 2), 36.0);
    }

    #[test]
    fn a_scale_that_leaves_a_station_less_than_can_be_given_is_refused() {
        let with = |by: &str| Spec::parse(&SPEC.replace("\"auto\"", by), "spec.toml").unwrap();
        assert_eq!(with("100").check_shares(), Ok(()));
        let refused = with("200").check_shares().unwrap_err().to_string();
        assert!(refused.contains("stations.servers would have 0.0050 of a processor"), "{refused}");
    }

    #[test]
    fn shares_are_those_of_the_scale_unless_a_baseline_says_otherwise() {
        let mut spec = spec();
        spec.choose_scale(None, 2);
        let reached = ReachedBaseline {
            station: "servers".into(),
            levels: Vec::new(),
            published: 16_334.0,
            reached: 16_300.0,
            share: 0.02,
            within: None,
            runs: Vec::new(),
            disturbed: None,
        };
        let testbed = spec.scaled_testbed(vec![reached]).unwrap();
        let shares: Vec<(&str, u32, f64)> =
            testbed.stations.iter().map(|one| (one.station.as_str(), one.count, one.share)).collect();
        assert_eq!(shares, [("servers", 3, 0.02), ("middleware", 2, 8.0 / 18.0), ("clients", 3, 2.0 / 18.0)]);
        let whole: f64 = spec
            .stations()
            .filter_map(|(name, one)| Some(f64::from(spec.most(name, one)) * spec.share(one)?))
            .sum();
        assert!(whole <= 2.0 * FOR_STATIONS, "{whole}");
    }

    #[test]
    fn a_baseline_is_of_one_station_alone() {
        let spec = spec();
        let baseline = spec.scale.as_ref().unwrap().baselines[0].get_ref();
        let alone = spec.alone(baseline);
        assert!(alone.stations.middleware.is_none());
        assert_eq!(alone.counts(&alone.stations.servers, 3), [1]);
        assert_eq!(alone.counts(&alone.stations.clients, 1), [3]);
        assert_eq!((alone.phases.warm_up, alone.phases.measure), (2.0, 5.0));
        let asked = Baseline { clients: Some(5), ..baseline.clone() };
        assert_eq!(spec.alone(&asked).stations.clients.count, Some(StationCount::Number(5)));
        let middleware = Baseline { station: crate::spec::StationRole::Middleware, ..baseline.clone() };
        let alone = spec.alone(&middleware);
        assert_eq!(alone.counts(alone.stations.middleware.as_ref().unwrap(), 1), [1]);
        assert_eq!(alone.counts(&alone.stations.servers, 3), [3]);
    }

    /// Runs of a station that gives so much for a share.
    fn searched(target: f64, first: f64, mut gives: impl FnMut(f64) -> f64) -> ShareSearch {
        let mut search = ShareSearch::new(target, first, 1.4);
        while let Some(share) = search.next() {
            search.tell(share, gives(share));
        }
        search
    }

    #[test]
    fn a_share_is_found_also_where_something_else_bounds_the_first_runs() {
        // A link bounds at 18,200 per second; 250,000 per processor until then.
        let link = |share: f64| (250_000.0 * share).min(18_200.0);
        let found = searched(16_334.0, 0.2, link).found().unwrap();
        assert!((found.share * 250_000.0 / 16_334.0 - 1.0).abs() < 1e-6, "{found:?}");
        assert!(found.runs >= ENOUGH && found.within.is_some_and(|within| within < 1e-6), "{found:?}");
        assert!((found.gives / 16_334.0 - 1.0).abs() < 1e-6, "{found:?}");
        // Slower here than it was published: the share grows, as far as it may.
        let slower = searched(10_000.0, 0.1, |share| 20_000.0 * share).found().unwrap();
        assert!((slower.share - 0.5).abs() < 1e-6, "{slower:?}");
        let far = searched(100_000.0, 0.1, |share| 20_000.0 * share);
        let found = far.found().unwrap();
        assert!(found.share == 1.4 && (found.gives - 28_000.0).abs() < 1e-6, "{found:?}");
        assert_eq!(far.into_runs().len(), 2, "the most that can be given is tried once");
        // The least that can be given gives 4 % less, and a link bounds at 6 % more.
        let knee = |share: f64| 17_390.0 * (1.0 + (0.0103 / share).powi(8)).powf(-1.0 / 8.0);
        let found = searched(16_334.0, 0.0588, knee).found().unwrap();
        assert!((knee(found.share) / 16_334.0 - 1.0).abs() < 0.03, "{found:?}");
        // Faster than that with the least that can be given.
        let fast = searched(10_000.0, 0.1, |_| 50_000.0);
        let found = fast.found().unwrap();
        assert_eq!((found.gives, found.within), (50_000.0, None), "{fast:?}");
        assert_eq!(fast.into_runs().last(), Some(&(LEAST, 50_000.0)));
    }

    #[test]
    fn runs_are_made_until_enough_of_them_agree() {
        // More and less by turns.
        let with = |noise: f64| {
            let mut turns = [1.0 + noise, 1.0 - noise].into_iter().cycle();
            let search = searched(10_000.0, 0.02, |share| 2e5 * share * turns.next().unwrap());
            let found = search.found().unwrap();
            (search.into_runs().len(), found)
        };
        let (runs, found) = with(0.01);
        assert!((5..=6).contains(&runs) && found.within.is_some_and(|within| within <= AGREE), "{found:?}");
        let (runs, found) = with(0.1);
        assert!(runs > 8 && (found.share / 0.05).ln().abs() < 0.05, "{runs} {found:?}");
    }

    #[test]
    fn at_the_least_share_that_can_be_given_runs_are_repeated() {
        let mut turns = [1.1, 0.9].into_iter().cycle();
        let search = searched(10_000.0, 0.05, |share| 1e6 * share * turns.next().unwrap());
        let found = search.found().unwrap();
        assert!(found.runs >= ENOUGH && (found.share / 0.01).ln().abs() < 0.05, "{search:?}");
    }

    #[test]
    fn a_station_that_answers_nothing_ends_the_search_as_well() {
        let silent = searched(10_000.0, 0.2, |_| 0.0);
        assert_eq!(silent.found().unwrap().share, 1.4, "{silent:?}");
        assert!(silent.into_runs().len() <= MOST_RUNS);
    }

    proptest! {
        /// Whatever a station gives, as long as more of a processor gives more until something else
        /// bounds it: a few runs come near, also where a part of the share does nothing.
        #[test]
        fn a_share_is_found_in_few_runs(share in 0.02_f64..0.4, bound in 1.12_f64..4.0, idle in 0.0_f64..0.2) {
            let target = 10_000.0;
            let per_processor = target / share / (1.0 - idle);
            let gives = |given: f64| (per_processor * (given - idle * share).max(0.0)).min(bound * target);
            let search = searched(target, 0.3, gives);
            let found = search.found().unwrap();
            prop_assert!((found.share / share).ln().abs() < 0.05, "{:?} {:?}", found, search);
            prop_assert!(search.into_runs().len() <= MOST_RUNS);
        }

        /// Where runs differ, the share is off by no more than they are, also where a bound is
        /// near.
        #[test]
        fn a_share_is_off_by_no_more_than_runs_are(
            noise in prop::collection::vec(-0.17_f64..0.17, MOST_RUNS),
            bound in 1.12_f64..4.0,
        ) {
            let target = 10_000.0;
            let mut noise = noise.into_iter();
            let mut gives = |share: f64| (2e5 * share).min(bound * target) * noise.next().unwrap().exp();
            let search = searched(target, 0.3, &mut gives);
            let found = search.found().unwrap();
            prop_assert!((found.share / 0.05).ln().abs() < 0.18, "{:?} {:?}", found, search);
        }
    }
}
