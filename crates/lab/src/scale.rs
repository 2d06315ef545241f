//! How many times slower a testbed must be to fit into the processors at hand, and which share of a
//! processor makes a station as fast as what was published of it: arithmetic alone.

use krarup_record::scaled::{ReachedBaseline, ScaledStation, ScaledTestbed};
use krarup_units::{Mistake, Seconds};

use crate::plan::trial_time;
use crate::spec::{Baseline, ScaleBy, Spec, StationCount, StationSpec};
use crate::testbed::cap::LEAST;

/// Of the processors at hand stations get this much. The rest is for what no quota is charged with:
/// the kernel's work on packets, delay lines, and looking at the machine.
pub const FOR_STATIONS: f64 = 0.7;
/// Most runs that look for the share of one station.
pub const MOST_RUNS: usize = 8;
/// A share that gives what was published to this is taken.
const NEAR: f64 = 0.02;
/// Where nothing slower is known yet, the next share is at most this part of the last, after the
/// first run and after later ones: what limits may be something else.
const DOWN: [f64; 2] = [0.6, 0.4];
/// Where nothing faster is known yet, so much more is tried than would be in proportion.
const UP: f64 = 1.1;

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

/// Looks for the share with which a station gives what was published, by runs that it names. More
/// of a processor is never taken to give less; what a run gives may be bounded by something else.
#[derive(Clone, Debug)]
pub struct ShareSearch {
    target: f64,
    first: f64,
    most: f64,
    runs: Vec<(f64, f64)>,
}

impl ShareSearch {
    /// A search for `target` requests per second that begins with the share `first` and goes no
    /// higher than `most`.
    pub fn new(target: f64, first: f64, most: f64) -> Self {
        Self { target, first: first.clamp(LEAST, most.max(LEAST)), most: most.max(LEAST), runs: Vec::new() }
    }

    /// The share to try next; none where the search has come to its end.
    pub fn next(&self) -> Option<f64> {
        if self.runs.is_empty() {
            return Some(self.first);
        }
        let found = self.best().is_some_and(|(_, gave)| (gave / self.target - 1.0).abs() <= NEAR);
        if found || self.runs.len() >= MOST_RUNS {
            return None;
        }
        let by_share = |one: &&(f64, f64), other: &&(f64, f64)| one.0.total_cmp(&other.0);
        let below = self.runs.iter().filter(|run| run.1 < self.target).max_by(by_share);
        let above = self.runs.iter().filter(|run| run.1 >= self.target).min_by(by_share);
        let share = match (below, above) {
            (None, Some(high)) => high.0 * (self.target / high.1).min(DOWN[usize::from(self.runs.len() > 1)]),
            (Some(low), None) => low.0 * (self.target / low.1.max(self.target / 100.0)) * UP,
            (Some(low), Some(high)) if low.0 < high.0 => {
                // What a station gives grows less and less with its share: the line through both
                // says too much, the one through the lower and nothing too little.
                let secant = low.0 + (self.target - low.1) * (high.0 - low.0) / (high.1 - low.1);
                let proportional = (low.0 * self.target / low.1).clamp(low.0, high.0);
                (secant + proportional) / 2.0
            }
            // Runs that disagree: between them.
            (Some(one), Some(other)) => (one.0 + other.0) / 2.0,
            (None, None) => return None,
        };
        let share = share.clamp(LEAST, self.most);
        // What was tried says no more.
        self.runs.iter().all(|run| (run.0 / share - 1.0).abs() > 1e-3).then_some(share)
    }

    /// What a run with this share gave, in requests per second.
    pub fn tell(&mut self, share: f64, gave: f64) {
        self.runs.push((share, gave));
    }

    /// The run that is nearest to what was published.
    pub fn best(&self) -> Option<(f64, f64)> {
        let off = |run: &(f64, f64)| (run.1 / self.target - 1.0).abs();
        self.runs.iter().copied().min_by(|one, other| off(one).total_cmp(&off(other)))
    }

    /// All runs, in their order.
    pub fn into_runs(self) -> Vec<(f64, f64)> {
        self.runs
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
    fn searched(target: f64, first: f64, gives: impl Fn(f64) -> f64) -> ShareSearch {
        let mut search = ShareSearch::new(target, first, 1.4);
        while let Some(share) = search.next() {
            search.tell(share, gives(share));
        }
        search
    }

    #[test]
    fn a_share_is_found_also_where_something_else_bounds_the_first_runs() {
        // A link bounds at 18,200 per second; 60,000 per processor until then.
        let link = |share: f64| (250_000.0 * share).min(18_200.0);
        let found = searched(16_334.0, 0.2, link);
        let (share, gave) = found.best().unwrap();
        assert!((gave / 16_334.0 - 1.0).abs() <= NEAR, "{share} gave {gave}: {found:?}");
        // Slower here than it was published: the share grows, as far as it may.
        let (share, _) = searched(10_000.0, 0.1, |share| 20_000.0 * share).best().unwrap();
        assert!((share - 0.5).abs() < 0.02, "{share}");
        let far = searched(100_000.0, 0.1, |share| 20_000.0 * share);
        assert_eq!(far.best().unwrap().0, 1.4, "{far:?}");
    }

    #[test]
    fn runs_that_disagree_end_the_search_as_well() {
        let mut answers = [9_000.0, 20_000.0].into_iter().cycle().take(MOST_RUNS);
        let mut search = ShareSearch::new(10_000.0, 0.2, 1.0);
        while let Some(share) = search.next() {
            search.tell(share, answers.next().unwrap());
        }
        assert!(search.best().is_some_and(|(_, gave)| gave == 9_000.0));
    }

    proptest! {
        /// Whatever a station gives, as long as more of a processor gives more until something else
        /// bounds it: a few runs come near.
        #[test]
        fn a_share_is_found_in_few_runs(per_processor in 2e4_f64..2e5, bound in 1.12_f64..4.0, overhead in 0.0_f64..0.002) {
            let target = 10_000.0;
            let gives = |share: f64| (per_processor * (share - overhead).max(0.0)).min(bound * target);
            let found = searched(target, 0.3, gives);
            let runs = found.clone().into_runs();
            prop_assert!(runs.len() <= MOST_RUNS);
            let (_, gave) = found.best().unwrap();
            prop_assert!((gave / target - 1.0).abs() <= NEAR, "{:?}", runs);
        }
    }
}
