//! What a set of trials amounts to, as written to `results.json`.

use krarup_record::scaled::ScaledTestbed;
use serde::{Deserialize, Serialize};

use crate::anchor::AnchorRuns;
use crate::cell::Cell;
use crate::configurations::Configuration;
use crate::demands::MeasuredDemand;
use crate::design::Study;
use crate::distribution::ResponseShape;
use crate::graded::GradedSheet;
use crate::headroom::TrialHeadroom;
use crate::history::History;
use crate::predict::Prediction;
use crate::relative::Relative;
use crate::trial::{CellLevels, RoundTrip};
use crate::verdict::{Bottleneck, Verdict};
use crate::warning::{Concern, Warning};

/// Everything a report is made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What was examined.
    pub title: String,
    /// Where and with what.
    pub environment: Environment,
    /// What all trials were scaled by, and how: every other figure here is scaled back, but how
    /// long a warm-up should be. None where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled: Option<ScaledTestbed>,
    /// Processors that a middleware can use, as models are told; 0 where that is not known.
    #[serde(default)]
    pub middleware_cores: u32,
    /// Workloads in the order of their first trial, clients rising.
    pub cells: Vec<Cell>,
    /// Whether cells were run less often than others because their runs agreed.
    #[serde(default)]
    pub ended_early: bool,
    /// One for each workload, in the same order.
    pub verdicts: Vec<Verdict>,
    /// What does not add up.
    pub concerns: Vec<Concern>,
    /// For each mix the highest throughput, and the least that comes near to it.
    #[serde(default)]
    pub configurations: Vec<Configuration>,
    /// Which law the response times look like at each workload's limit, where they are known in
    /// full.
    #[serde(default)]
    pub shapes: Vec<ResponseShape>,
    /// Which factors matter, where the experiment is a 2^k·r design.
    #[serde(default)]
    pub studies: Vec<Study>,
    /// One cell repeated through the run, where one was.
    #[serde(default)]
    pub anchor: Option<AnchorRuns>,
    /// What a model calibrated on some cells says of the others; empty where none was asked for.
    #[serde(default)]
    pub predictions: Vec<Prediction>,
    /// Cells beside the base that the spec names; empty where it names none.
    #[serde(default)]
    pub relative: Vec<Relative>,
    /// What one request demands of each resource, and how far each would go.
    #[serde(default)]
    pub demands: Vec<MeasuredDemand>,
    /// How long packets are under way between hosts that talk: over all trials the least, and the
    /// mean of the middle ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub round_trips: Vec<RoundTrip>,
    /// What is said about headroom from the rows of each trial; empty where no trial has rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headroom: Vec<TrialHeadroom>,
    /// Beside older results, where some were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// What was guessed before, beside model and measurement; none where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<GradedSheet>,
}

/// What follows a program among versions where its build is told.
pub const BUILD: &str = " build";
/// What the address of a machine follows there.
pub const AT: &str = ", at ";
/// What the node of a pod follows there.
pub const NODE: &str = ", on node ";

/// Where the trials ran and with what. Words as they were found; empty where nothing was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Processor model.
    pub cpu: String,
    /// Processors of the machine all processes share; 0 where they run on several machines or none
    /// was read.
    pub cores: u32,
    /// Memory.
    pub memory: String,
    /// Operating system and kernel.
    pub kernel: String,
    /// Program and version, for each program taking part.
    pub versions: Vec<(String, String)>,
    /// The command that carried out the trials.
    pub command_line: String,
    /// When they began, as the caller writes it. Never read from a clock here.
    pub started: String,
    /// What goes through between hosts; empty where all is on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ways: Vec<Way>,
    /// What limits of processor time give; empty where nothing is limited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ProcessorLimit>,
}

/// What a limit of processor time gives on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessorLimit {
    /// The machine; `here` where there is one.
    pub machine: String,
    /// Processors that were asked for.
    pub asked: f64,
    /// What a busy loop got by a quota for so many; none where it could not be told.
    pub plain: Option<f64>,
    /// The processors for which the quota is written.
    pub written: f64,
    /// What a busy loop got by that; none where it could not be told.
    pub got: Option<f64>,
}

/// What goes through from one host to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Who sends.
    pub from: String,
    /// Who is sent to.
    pub to: String,
    /// Bits per second of what is sent, headers left out, with no other program at work; none where
    /// it could not be told.
    pub bits_per_second: Option<f64>,
}

impl Results {
    /// Notes what all trials were scaled by. How long a warm-up should be is said in the time of
    /// the testbed, as a spec says it.
    pub fn scaled_by(&mut self, testbed: ScaledTestbed) {
        for verdict in &mut self.verdicts {
            // Its processors are those of the machine that it stands for, and not of this one.
            if let Bottleneck::Machine { most, .. } = &mut verdict.bottleneck {
                *most = None;
            }
        }
        for concern in &mut self.concerns {
            if let Warning::WarmUpLeft { seconds, of } = &mut concern.warning {
                *seconds *= testbed.by;
                *of *= testbed.by;
            }
        }
        self.scaled = Some(testbed);
    }

    /// How many concerns find fault with the figures.
    pub fn faults(&self) -> u64 {
        self.concerns.iter().filter(|concern| !concern.warning.is_hint()).count() as u64
    }

    /// The cells of one workload, clients rising.
    pub fn workload<'a>(&'a self, workload: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.levels.workload == workload)
    }

    /// The cell with these levels.
    pub fn cell(&self, levels: &CellLevels) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.levels == *levels)
    }
}
