//! An experiment as its file has it: a row for each key.

use std::collections::BTreeMap;

use krarup_model::sheet::SheetQuestion;
use krarup_settings::kind::{
    Count, DAY, Duration, FreeTable, FromText, Inline, Kind, List, Located, Number, Optional, TEXT, Word,
    table,
};
use krarup_settings::table::FileItem;
use krarup_settings::{Mistake, SettingsTable, settings};
use krarup_units::{Nanos, Seconds};
use toml::Spanned;

use super::factor::{Factor, LEVEL, LevelName, LevelNameForm, WORDS};
use super::fault::Fault;
use super::machine::Ssh;
use super::pod::{Kubernetes, PodSettings};
use super::scale::TestbedScale;
use super::sheet::SheetRow;
use super::station::{StationCount, StationSpec, Stations, Testbed};
use crate::gate::{Gate, StopRule, Varying};

settings! {
    /// An experiment.
    #[derive(Clone, Debug)]
    pub struct Spec {
        /// What is examined: the title of the report.
        title: String = String::new(), TEXT, required = true, example = "\"Reads and writes\"";
        /// Decides the order of the trials, and what clients send in each: keys, arrivals and think
        /// times. Each trial draws anew, and so does its warm-up; the same spec draws the same
        /// again.
        seed: u64 = 1, Count::from(0);
        /// What is varied: one `[[factor]]` each. The cells are all combinations of their levels.
        /// `$name` in the words of a station becomes the words of the cell's level.
        factors: Vec<Factor> = Vec::new(), List(Inline), key = "factor", example = "[[factor]]";
        /// Factors that move together: their first levels meet, their second, and so on.
        zip: Vec<Spanned<Vec<String>>> = Vec::new(), List(Located(List(TEXT))),
            example = "[[\"workers\", \"threads\"]]";
        /// Combinations that are left out: factor = level, for some of the factors.
        except: Vec<Spanned<BTreeMap<String, LevelName>>> = Vec::new(), List(LEVELS),
            example = "[{ workload = \"write\", clients = 64 }]";
        /// The factor that sets the number of clients: the x axis of the report. Where two of its
        /// levels give the same number, `plan` and `run` refuse the spec.
        population: String = "clients".into(), TEXT;
        /// How often each cell is run. Each repetition is a block: every cell once, in an order
        /// drawn from the seed.
        repetitions: Repetitions = Repetitions::default(), Inline, example = "{ min = 3, max = 6 }";
        /// How long each trial is. Times are written as `"10s"`, `"600ms"`, or in seconds.
        phases: Phases = Phases::default(), Inline, example = "{ measure = \"10s\" }";
        /// Where it runs. `local`: processes on this machine; `netns`: each in a network namespace
        /// of its own, behind a link of its own (Linux, root); `ssh`: on other machines;
        /// `kubernetes`: each in a pod of its own. With this key or `--testbed` given, tables of the
        /// other testbeds may stay in the spec.
        testbed: Testbed = Testbed::Local, Word(&Testbed::NAMES);
        /// Everything is so many times slower than on the machines that `cpu`, `link` and `delay`
        /// of the stations speak of, so that these fit into the processors at hand: each station
        /// has a share of a processor and a link that are so many times less, and a delay that is
        /// as many times more; rates and think times of the load are scaled, too. Times in flags
        /// and `config` of middleware and servers are by the clock, and stay. What is shown is
        /// scaled back. Without, all is as it is written.
        scale: Option<TestbedScale> = None, Optional(Inline), example = "{ by = \"auto\" }";
        /// What is done to stations while a trial is measured: one `[[fault]]` each. The servers
        /// are made anew for the next trial.
        faults: Vec<Spanned<Fault>> = Vec::new(), List(Located(Inline)), key = "fault", example = "[[fault]]";
        /// What a trial must keep, or it has failed; see below.
        gates: Vec<Spanned<Gate>> = Vec::new(), List(Located(FromText)), example = "[\"errors == 0\"]";
        /// How often a trial that failed is tried again. With 0 a disturbed trial is not run again
        /// either.
        retries: u32 = 2, Count::from(0);
        /// Words for `krarup load` whenever it runs: what keys and values there are.
        data: Vec<Spanned<String>> = Vec::new(), WORDS, example = "[\"--keys\", \"10000\"]";
        /// How the keys are stored, and verified, before anything is measured; without, they are
        /// not.
        populate: Option<Populate> = None, Optional(Inline), example = "{}";
        /// What runs: servers, perhaps a middleware, clients.
        stations: Stations = Stations::default(), Inline, required = true, example = "[stations.servers]";
        /// A cell that is run at the beginning and at the end of each repetition, and between: what
        /// it says at one time and another tells whether the machine stayed the same. The report
        /// tells drift, and repetitions that disagree are not pooled. Without, none is.
        anchor: Option<Spanned<Anchor>> = None, Optional(Located(Inline)),
            example = "{ levels = { workload = \"read\", clients = 64 }, every = 10 }";
        /// Levels of some factors: the report compares each cell with the one that has these and is
        /// otherwise the same. Without, nothing is compared.
        base: Option<Spanned<BTreeMap<String, LevelName>>> = None, Optional(LEVELS),
            example = "{ servers = 3, replication = \"none\" }";
        /// Factors whose levels are studied for themselves: where the cells with one level of each
        /// are a 2^k·r design, the report has the effects of the other factors there. Without, all
        /// cells are studied together.
        effects_by: Vec<Spanned<String>> = Vec::new(), List(Located(TEXT)), example = "[\"operation\"]";
        /// A model of the middleware is calibrated on some of the cells and predicts the others;
        /// the report shows its errors there, and what would be if. The cells to calibrate on are
        /// chosen by their place in the plan: low load, the smallest and the largest number of
        /// workers with the most clients, and between.
        predictions: Option<Predictions> = None, Optional(Inline), example = "{ workers = \"workers\" }";
        /// What a reader guesses before anything is measured, with `--sheet`: one `[[sheet]]` for
        /// each question. The report shows guess, model and measurement side by side.
        sheet: Vec<Spanned<SheetRow>> = Vec::new(), List(Located(Inline)), example = "[[sheet]]";
        /// How other machines are reached, in `ssh`. What an inventory, a host or the user's own
        /// configuration of ssh says goes before this.
        ssh: Option<Ssh> = None, Optional(Inline), example = "{ inventory = \"hosts.ini\" }";
        /// In which cluster pods are made, in `kubernetes`.
        kubernetes: Option<Kubernetes> = None, Optional(Inline), example = "{ image = \"registry.example/krarup:0.1.0\" }";
        /// What is different with `--quick`: the same keys, and `levels` with other levels by the
        /// name of a factor.
        quick: () = (), QuickForm,
            example = "{ repetitions = { min = 1, max = 1 }, levels = { clients = [2, 64] } }";
    }
}

/// A level for each of some factors.
const LEVELS: Located<FreeTable<LevelNameForm>> = Located(FreeTable(LEVEL));

/// A spec's quick form, of which [`crate::change::Changes::quick`] makes use: only its keys are
/// looked at.
struct QuickForm;

impl Kind<()> for QuickForm {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<()> {
        for (key, _) in table(name, item, mistakes)? {
            let word = key.get_ref().as_ref();
            if !Spec::keys().any(|known| known == word) && word != "levels" {
                let what = format!("there is no key `{word}`");
                let known = Spec::keys().chain(["levels"]);
                mistakes.push(Mistake::unknown(what, word, known).at(key.span().start));
            }
        }
        Some(())
    }
}

settings! {
    /// How often each cell is run.
    #[derive(Clone, Debug)]
    pub struct Repetitions {
        /// At least so often.
        min: u32 = 3, Count::from(1);
        /// At most so often; without, as `min`.
        max: Option<u32> = None, Optional(Count::from(1)), example = "6";
        /// Cells that do not keep this are run again, up to `max` times, which must be given: of
        /// the throughput, or of the `response` time. Runs end when their spread is small, be it by
        /// luck: the intervals of cells that end before `max` are somewhat too narrow.
        until: Option<StopRule> = None, Optional(FromText), example = "\"cov(throughput) <= 4 %\"";
    }
}

impl Repetitions {
    /// The most runs of a cell.
    pub fn most(&self) -> u32 {
        self.max.unwrap_or(self.min)
    }

    /// Whether the runs of a cell, X and R of each, agree; without a condition they always do.
    pub fn agree(&self, runs: &[(f64, Seconds)]) -> bool {
        self.until.is_none_or(|until| {
            let values = runs.iter().map(|(throughput, response)| match until.of {
                Varying::Throughput => *throughput,
                Varying::Response => *response,
            });
            until.holds(&values.collect::<Vec<_>>())
        })
    }
}

settings! {
    /// How long each trial is.
    #[derive(Clone, Debug)]
    pub struct Phases {
        /// Load that is not measured; then everything counted so far is forgotten.
        warm_up: Seconds = 2.0, Duration::up_to(DAY);
        /// What is measured. Several clients begin at one instant, their connections made before.
        measure: Seconds = 10.0, Duration::between(Nanos::from_millis(100), DAY);
        /// Load that goes on afterwards and counts no more, so that no client is measured while
        /// others have ended already. Several clients begin at one instant, and so end together but
        /// for what the machine makes them wait.
        cool_down: Seconds = 0.0, Duration::up_to(DAY);
    }
}

impl Phases {
    /// All of them together.
    pub fn total(&self) -> Seconds {
        self.warm_up + self.measure + self.cool_down
    }
}

settings! {
    /// A cell that is run again and again.
    #[derive(Clone, Debug)]
    pub struct Anchor {
        /// Which cell: the level of each factor that has several.
        levels: BTreeMap<String, LevelName> = BTreeMap::new(), FreeTable(LEVEL), required = true,
            example = "{ workload = \"read\", clients = 64 }";
        /// After so many other trials it is run again, too; without, only at both ends.
        every: Option<u32> = None, Optional(Count::from(1)), example = "10";
        /// By which share its throughput may differ from one repetition to another; those that
        /// differ more from most are left out of all figures.
        within: f64 = 0.1, Number::FRACTION;
    }
}

settings! {
    /// A model of the middleware, calibrated on some of the cells, predicts the others.
    #[derive(Clone, Debug)]
    pub struct Predictions {
        /// The factor that sets the workers: cells that differ in it and in their clients alone
        /// have one model.
        workers: String = "workers".into(), TEXT;
        /// On how many cells it is calibrated at most; two at least are held out.
        cells: u32 = 5, Count::from(3);
    }
}

settings! {
    /// How the keys are stored.
    #[derive(Clone, Debug)]
    pub struct Populate {
        /// Words for `krarup load --populate-only`, beside those of `data`.
        flags: Vec<Spanned<String>> = Vec::new(), WORDS, example = "[\"--connections\", \"8\"]";
    }
}

impl Spec {
    /// The questions of its sheet; empty where it has none.
    pub fn questions(&self) -> Vec<SheetQuestion> {
        self.checked_questions().unwrap_or_default()
    }

    /// The same, or the first mistake with its place.
    pub(super) fn checked_questions(&self) -> Result<Vec<SheetQuestion>, Mistake> {
        let mut questions = Vec::new();
        for row in &self.sheet {
            let question = row.get_ref().question(&questions);
            questions.push(question.map_err(|mistake| mistake.at(row.span().start))?);
        }
        Ok(questions)
    }

    /// The factor of this name.
    pub fn factor(&self, name: &str) -> Option<&Factor> {
        self.factors.iter().find(|factor| factor.name.get_ref() == name)
    }

    /// The stations there are, with their names.
    pub fn stations(&self) -> impl Iterator<Item = (&'static str, &StationSpec)> {
        let Stations { servers, middleware, clients } = &self.stations;
        let all =
            [("servers", Some(servers)), ("middleware", middleware.as_ref()), ("clients", Some(clients))];
        all.into_iter().filter_map(|(name, station)| Some((name, station?)))
    }

    /// How many of a station there are, over all levels; `usual` where it does not say.
    pub fn counts(&self, station: &StationSpec, usual: u32) -> Vec<u32> {
        match &station.count {
            None => vec![usual],
            Some(StationCount::Number(number)) => vec![*number],
            Some(StationCount::Factor(name)) => {
                let levels = self.factor(name).into_iter().flat_map(|factor| &factor.levels);
                levels.filter_map(|level| level.name.0.parse().ok()).collect()
            }
        }
    }

    /// Every word that may hold a `$factor`.
    pub(super) fn words(&self) -> impl Iterator<Item = &Spanned<String>> {
        let words = self
            .stations()
            .flat_map(|(_, station)| station.command.iter().chain(&station.flags).chain(&station.config));
        let pods =
            self.stations().filter_map(|(_, station)| station.pod.as_ref()).flat_map(PodSettings::words);
        let words = words.chain(pods);
        words.chain(self.populate.iter().flat_map(|populate| &populate.flags)).chain(&self.data)
    }
}
