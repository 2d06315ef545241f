//! The keys of a network's form, as serde reads and writes them.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::Distribution;
use crate::network::ForkWait;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkForm {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, rename = "station")]
    pub(super) stations: Vec<StationForm>,
    #[serde(default, rename = "pool", skip_serializing_if = "Vec::is_empty")]
    pub(super) pools: Vec<PoolForm>,
    #[serde(default, rename = "class")]
    pub(super) classes: Vec<ClassForm>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StationForm {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) servers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rates: Option<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bandwidth: Option<Bandwidth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) overhead: Option<SizeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) discipline: Option<DisciplineForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) full: Option<FullForm>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolForm {
    pub(super) name: String,
    pub(super) size: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) full: Option<FullForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) discipline: Option<DisciplineForm>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassForm {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) population: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) think: Option<TimeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gap: Option<TimeForm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) profile: Vec<ChangeForm>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) priority: u32,
    pub(super) path: Vec<StepForm>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeForm {
    pub(super) at: TimeValue,
    pub(super) factor: f64,
}

/// One step: exactly one of `at`, `hold`, `fork`, `one_of` says which kind.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepForm {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hold: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fork: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) one_of: Option<Vec<BranchForm>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) visits: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<TimeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) demand: Option<TimeForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) choose: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) wait: Option<WaitForm>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<Vec<StepForm>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BranchForm {
    pub(super) share: f64,
    #[serde(default)]
    pub(super) path: Vec<StepForm>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum DisciplineForm {
    Fcfs,
    Ps,
    Lifo,
    LifoPreemptive,
    Priority,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FullForm {
    Lose,
    Block,
}

pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A length of time: seconds as a number, or text with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeValue(pub(super) Seconds);

/// A size: bytes as a number, or text with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SizeValue(pub(super) u64);

/// A bandwidth: bits per second as a number, or text: `101 Mbit/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bandwidth(pub(super) f64);

/// How many answers: `"all"`, `"any"`, or a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WaitForm(pub(super) ForkWait);

/// A time: a length, which is the mean of an exponential, or a table that names the distribution.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TimeForm(pub(super) Distribution);

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) constant: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exponential: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) erlang: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hyperexponential: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uniform: Option<[TimeValue; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gamma: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lognormal: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weibull: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pareto: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) empirical: Option<Vec<TimeValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moments: Option<TimeValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stages: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scv: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<f64>,
}
