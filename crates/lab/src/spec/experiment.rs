//! An experiment as its file has it, key by key.

use std::collections::BTreeMap;

use krarup_units::Seconds;
use serde::Deserialize;
use toml::Spanned;

use super::factor::{Factor, LevelName};
use super::fault::Fault;
use super::machine::Ssh;
use super::quantity::time;
use super::station::{StationCount, StationSpec, Stations, Testbed};
use crate::gate::{Gate, StopRule};

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// What is examined: the title of the report.
    pub title: String,
    /// Decides the order of the trials, and keys and values of each.
    #[serde(default = "one")]
    pub seed: u64,
    /// What is varied; the cells are all combinations of their levels.
    #[serde(default, rename = "factor")]
    pub factors: Vec<Factor>,
    /// Factors that move together: their first levels meet, their second, and so on.
    #[serde(default)]
    pub zip: Vec<Spanned<Vec<String>>>,
    /// Combinations that are left out: factor = level, for some of the factors.
    #[serde(default)]
    pub except: Vec<Spanned<BTreeMap<String, LevelName>>>,
    /// The factor that sets the number of clients: the x axis of the report.
    #[serde(default = "clients")]
    pub population: String,
    /// How often each cell is run.
    #[serde(default)]
    pub repetitions: Repetitions,
    /// How long each trial is.
    #[serde(default)]
    pub phases: Phases,
    /// Where it runs.
    #[serde(default)]
    pub testbed: Testbed,
    /// What is done to stations while a trial is measured.
    #[serde(default, rename = "fault")]
    pub faults: Vec<Spanned<Fault>>,
    /// What a trial must keep, or it has failed.
    #[serde(default)]
    pub gates: Vec<Spanned<Gate>>,
    /// How often a trial that failed is tried again.
    #[serde(default = "two")]
    pub retries: u32,
    /// Words for the load generator whenever it runs: what keys and values there are.
    #[serde(default)]
    pub data: Vec<Spanned<String>>,
    /// How the keys are stored before anything is measured; without, they are not.
    pub populate: Option<Populate>,
    /// What runs.
    pub stations: Stations,
    /// A cell that is repeated through the run; without, none is.
    #[serde(default)]
    pub anchor: Option<Spanned<Anchor>>,
    /// Levels of some factors, with which the others are compared; without, nothing is.
    #[serde(default)]
    pub base: Option<Spanned<BTreeMap<String, LevelName>>>,
    /// What a model is to predict; without, nothing.
    #[serde(default)]
    pub predictions: Option<Predictions>,
    /// How other machines are reached: in `ssh`.
    #[serde(default)]
    pub ssh: Option<Ssh>,
    /// What is different with `--quick`; see [`crate::change::Changes::quick`].
    #[serde(default)]
    pub quick: Option<toml::Table>,
}

fn one() -> u64 {
    1
}

fn two() -> u32 {
    2
}

fn clients() -> String {
    "clients".into()
}

/// How often each cell is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repetitions {
    /// At least so often.
    #[serde(default = "three")]
    pub min: u32,
    /// At most so often; without, as `min`.
    pub max: Option<u32>,
    /// Cells that do not keep this are run again, up to `max` times.
    pub until: Option<StopRule>,
}

fn three() -> u32 {
    3
}

impl Default for Repetitions {
    fn default() -> Self {
        Self { min: three(), max: None, until: None }
    }
}

impl Repetitions {
    /// The most runs of a cell.
    pub fn most(&self) -> u32 {
        self.max.unwrap_or(self.min)
    }
}

/// How long each trial is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// Load that nobody looks at, before.
    #[serde(default = "warm_up", deserialize_with = "time")]
    pub warm_up: Seconds,
    /// What is measured.
    #[serde(default = "measure", deserialize_with = "time")]
    pub measure: Seconds,
    /// Load that goes on afterwards and counts no more, so that no client is measured while others
    /// have ended already. Several clients begin at one instant, and so end together but for what
    /// the machine makes them wait.
    #[serde(default, deserialize_with = "time")]
    pub cool_down: Seconds,
}

fn warm_up() -> Seconds {
    2.0
}

fn measure() -> Seconds {
    10.0
}

impl Default for Phases {
    fn default() -> Self {
        Self { warm_up: warm_up(), measure: measure(), cool_down: 0.0 }
    }
}

impl Phases {
    /// All of them together.
    pub fn total(&self) -> Seconds {
        self.warm_up + self.measure + self.cool_down
    }
}

/// A cell that is run at the beginning and at the end of each repetition, and between: what it says
/// at one time and another tells whether the machine stayed the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// Which cell: the level of each factor that has several.
    pub levels: BTreeMap<String, LevelName>,
    /// After so many other trials it is run again, too; without, only at both ends.
    pub every: Option<u32>,
    /// By which share its throughput may differ from one repetition to another; those that differ
    /// more are not pooled.
    #[serde(default = "a_tenth")]
    pub within: f64,
}

fn a_tenth() -> f64 {
    0.1
}

/// A model of the middleware, calibrated on some of the cells, predicts the others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Predictions {
    /// The factor that sets the workers: cells that differ in it and in their clients alone have
    /// one model.
    #[serde(default = "workers")]
    pub workers: Spanned<String>,
    /// On how many cells it is calibrated at most.
    #[serde(default = "five")]
    pub cells: u32,
}

fn workers() -> Spanned<String> {
    Spanned::new(0..0, "workers".into())
}

fn five() -> u32 {
    5
}

/// How the keys are stored.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Populate {
    /// Words for `krarup load --populate-only`, beside those of `data`.
    #[serde(default)]
    pub flags: Vec<Spanned<String>>,
}

impl Spec {
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
        words.chain(self.populate.iter().flat_map(|populate| &populate.flags)).chain(&self.data)
    }
}
