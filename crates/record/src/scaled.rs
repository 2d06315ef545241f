//! A testbed on which all is so many times slower than on the machines it stands for, so that these
//! fit into the processors at hand.
//!
//! With a scale of k each station has a share of a processor, a link and a delay that are 1/k, 1/k
//! and k times those of its machine. Ratios of times stay as they were. What is shown is scaled
//! back: times are divided by k, and so rates are multiplied by it.

use std::fmt;

use krarup_units::{Nanos, Seconds, text};
use serde::{Deserialize, Serialize};

/// The usual period of a quota, in microseconds.
const PERIOD: f64 = 10_000.0;
/// The kernel takes no quota below this, in microseconds.
const LEAST_QUOTA: f64 = 1_000.0;

/// The period of a quota for so much of a processor: who has used it up stands still to its end.
pub fn quota_period(share: f64) -> Nanos {
    Nanos::from_micros(PERIOD.max(LEAST_QUOTA / share).ceil() as u64)
}

/// What was scaled, and how its shares were found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaledTestbed {
    /// k: how many times slower everything is; at least 1.
    pub by: f64,
    /// Each kind of station.
    pub stations: Vec<ScaledStation>,
    /// Single stations held against what was published of them.
    pub baselines: Vec<ReachedBaseline>,
}

/// One kind of station, as its machine was and as it is here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaledStation {
    /// `clients`, `middleware` or `servers`.
    pub station: String,
    /// How many there are at most.
    pub count: u32,
    /// Processors of the machine it stands for.
    pub processors: f64,
    /// Processors that each may use here.
    pub share: f64,
    /// Bits per second that its machine could send; none: as fast as it went.
    pub link: Option<f64>,
    /// How long what its machine sent was under way, one way.
    pub delay: Seconds,
}

/// A single station whose share was found by what was published of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReachedBaseline {
    /// `clients`, `middleware` or `servers`.
    pub station: String,
    /// The level of each factor.
    pub levels: Vec<(String, String)>,
    /// Requests per second that were published.
    pub published: f64,
    /// Requests per second that it gives with this share, scaled back: what the latest runs about
    /// it gave, in proportion.
    pub reached: f64,
    /// Processors that it may use.
    pub share: f64,
    /// Half of the 95 % interval of the share, as a part of it; none where one run alone says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// Every run: processors, and requests per second scaled back.
    pub runs: Vec<(f64, f64)>,
    /// Why runs may say little of the station; none where none was disturbed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
}

impl ScaledStation {
    /// How long it stands still when one thread has used up its quota, as time of the machine that
    /// it stands for, where everything is so many times slower.
    pub fn stop(&self, by: f64) -> Seconds {
        if self.share <= 0.0 {
            return 0.0;
        }
        quota_period(self.share).as_seconds() * (1.0 - self.share).max(0.0) / by
    }
}

impl ReachedBaseline {
    /// How far it is from what was published, as a share of that.
    pub fn off(&self) -> f64 {
        self.reached / self.published - 1.0
    }
}

impl ScaledTestbed {
    /// What was scaled, for a reader who sees the figures only.
    pub fn in_words(&self) -> String {
        let by = text::count(self.by);
        format!(
            "scaled by k = {by}: each station has a share of a processor, a link and a delay that make it {by} times slower than the machine \
             it stands for. All figures are scaled back: throughput × {by}, times ÷ {by}; \
             processors are those of that machine."
        )
    }
}

impl fmt::Display for ScaledStation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { station: _, count, processors, share, link, delay } = self;
        let noun = if *processors == 1.0 { "processor" } else { "processors" };
        write!(f, "{count} × {share:.4} of a processor for {} {noun}", text::count(*processors))?;
        if let Some(link) = link {
            write!(f, ", a link for {} Mbit/s", text::count(link / 1e6))?;
        }
        if *delay > 0.0 {
            write!(f, ", a delay for {}", text::duration(*delay))?;
        }
        Ok(())
    }
}

impl fmt::Display for ReachedBaseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { station, levels, published, reached, share, within, runs, disturbed } = self;
        let within = within.map(|within| format!(" ± {:.4}", share * within)).unwrap_or_default();
        let levels: Vec<String> = levels.iter().map(|(name, level)| format!("{name} {level}")).collect();
        write!(
            f,
            "one of the {station} alone ({}) with {share:.4}{within} of a processor: {}/s, published {}/s ({:+.1} %), after {} run{}",
            levels.join(", "),
            text::count(reached.round()),
            text::count(*published),
            100.0 * self.off(),
            runs.len(),
            if runs.len() == 1 { "" } else { "s" },
        )?;
        disturbed.iter().try_for_each(|why| write!(f, "; {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_scaled_is_said_in_words() {
        let station = ScaledStation {
            station: "servers".into(),
            count: 1,
            processors: 1.0,
            share: 0.06,
            link: Some(101e6),
            delay: 0.0003,
        };
        let baseline = ReachedBaseline {
            station: "servers".into(),
            levels: vec![("operation".into(), "write-only".into())],
            published: 16_334.0,
            reached: 16_007.3,
            share: 0.06,
            within: Some(0.031),
            runs: vec![(0.2, 40_000.0), (0.06, 16_007.3)],
            disturbed: None,
        };
        assert_eq!(
            station.to_string(),
            "1 × 0.0600 of a processor for 1 processor, a link for 101 Mbit/s, a delay for 300 µs"
        );
        assert_eq!(
            baseline.to_string(),
            "one of the servers alone (operation write-only) with 0.0600 ± 0.0019 of a processor: 16,007/s, published 16,334/s (-2.0 %), after 2 runs"
        );
        assert!((station.stop(5.0) - 0.94 / 0.06 / 5.0 / 1e3).abs() < 1e-6, "{}", station.stop(5.0));
        let stop = |share| ScaledStation { share, ..station.clone() }.stop(5.0);
        assert_eq!((stop(0.0), stop(0.5), stop(2.0)), (0.0, 0.001, 0.0));
        let all = ScaledTestbed { by: 5.0, stations: vec![station], baselines: vec![baseline] };
        assert!(all.in_words().starts_with("scaled by k = 5: "), "{}", all.in_words());
    }
}
