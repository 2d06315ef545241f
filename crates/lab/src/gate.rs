//! What a trial must keep to count, and when a cell was run often enough: sentences that can be
//! wrong.

use krarup_units::Mistake;
use std::fmt;
use std::str::FromStr;

/// What a gate looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// How far X·(R + Z) is from N, as a share of N.
    InteractiveLaw,
    /// Requests that failed.
    Errors,
    /// Keys that were not found.
    Misses,
    /// The largest share of its time that a thread of the load generator was running.
    GeneratorCpu,
    /// The share of a machine's processors that programs took which belong to no station; of
    /// several machines the largest.
    ForeignCpu,
    /// The share of a machine's processors that its host took away, likewise.
    Steal,
}

impl Watched {
    const ALL: [(&'static str, Self); 6] = [
        ("interactive_law", Self::InteractiveLaw),
        ("errors", Self::Errors),
        ("misses", Self::Misses),
        ("generator_cpu", Self::GeneratorCpu),
        ("foreign_cpu", Self::ForeignCpu),
        ("steal", Self::Steal),
    ];

    /// Its name in a spec.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, watched)| *watched == self).expect("all are listed").0
    }

    /// Whether it is a share; else it is a count.
    pub(crate) fn is_share(self) -> bool {
        !matches!(self, Self::Errors | Self::Misses)
    }
}

/// A condition on a trial: `errors == 0`, `interactive_law within 5 %`, `generator_cpu < 80 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// What it looks at.
    pub watched: Watched,
    /// How it compares.
    pub relation: Relation,
    /// With what; shares from 0 to 1.
    pub limit: f64,
}

/// How a value is compared with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=` and `within`
    AtMost,
    /// `==`
    Equal,
}

impl Relation {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Equal => value == limit,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Equal => "==",
        })
    }
}

impl Gate {
    /// Whether a value passes. One that is no number does not.
    pub fn passes(&self, value: f64) -> bool {
        self.relation.holds(value, self.limit)
    }

    /// What is said of a trial that did not pass.
    pub fn refusal(&self, value: f64) -> String {
        let share = self.watched.is_share();
        let shown = |value: f64| if share { format!("{:.1} %", 100.0 * value) } else { value.to_string() };
        format!(
            "{} is {}, and must be {} {}",
            self.watched.name(),
            shown(value),
            self.relation,
            shown(self.limit)
        )
    }
}

impl FromStr for Gate {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let names: Vec<&str> = Watched::ALL.iter().map(|(name, _)| *name).collect();
        let wrong = || {
            Mistake::new(
                format!("`{text}` is no condition"),
                format!(
                    "write NAME < LIMIT, NAME <= LIMIT, NAME == LIMIT or NAME within LIMIT, with a NAME of {}",
                    names.join(", ")
                ),
            )
        };
        let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(end);
        let watched = Watched::ALL.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?.1;
        let limit = Limit::read(rest).ok_or_else(wrong)?;
        let relation = limit.relation;
        if watched.is_share() {
            return Ok(Self { watched, relation, limit: limit.share() });
        }
        if limit.percent {
            let what = format!("`{text}`: {name} are counted");
            return Err(Mistake::new(what, format!("write a number without %, as in {name} == 0")));
        }
        Ok(Self { watched, relation, limit: limit.number })
    }
}

/// When a cell was run often enough: `cov(throughput) <= 4 %`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// Of what the coefficient of variation over the repetitions is taken.
    pub of: Varying,
    /// How it compares.
    pub relation: Relation,
    /// With what share.
    pub limit: f64,
}

/// What varies from repetition to repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Varying {
    /// X.
    Throughput,
    /// R at the clients.
    Response,
}

impl StopRule {
    /// Whether the repetitions so far suffice.
    pub fn holds(&self, values: &[f64]) -> bool {
        let variation = krarup_stats::Summary::of(values).ok().and_then(|summary| summary.cov().ok());
        variation.is_some_and(|variation| self.relation.holds(variation, self.limit))
    }
}

impl FromStr for StopRule {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = || {
            Mistake::new(
                format!("`{text}` is no end"),
                "write cov(throughput) <= 4 % or cov(response) <= 4 %",
            )
        };
        let (of, rest) = if let Some(rest) = text.strip_prefix("cov(throughput)") {
            (Varying::Throughput, rest)
        } else {
            (Varying::Response, text.strip_prefix("cov(response)").ok_or_else(wrong)?)
        };
        let limit = Limit::read(rest).ok_or_else(wrong)?;
        Ok(Self { of, relation: limit.relation, limit: limit.share() })
    }
}

/// `<= 5 %` and its like, as written.
struct Limit {
    relation: Relation,
    number: f64,
    percent: bool,
}

impl Limit {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let relations = [
            ("<=", Relation::AtMost),
            ("<", Relation::Below),
            ("==", Relation::Equal),
            ("within", Relation::AtMost),
        ];
        let (relation, rest) =
            relations.iter().find_map(|(sign, relation)| Some((*relation, text.strip_prefix(sign)?)))?;
        let (number, percent) = match rest.trim().strip_suffix('%') {
            Some(number) => (number.trim(), true),
            None => (rest.trim(), false),
        };
        let number: f64 = number.parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(Self { relation, number, percent })
    }

    /// Of what is a share: from 0 to 1, unless a percent sign is missing.
    fn share(&self) -> f64 {
        if self.percent { self.number * 0.01 } else { self.number }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_and_kept() {
        let gate: Gate = "interactive_law within 5 %".parse().unwrap();
        assert!(gate.passes(0.05) && !gate.passes(0.051) && !gate.passes(f64::NAN));
        let gate: Gate = "errors == 0".parse().unwrap();
        assert_eq!(gate.refusal(3.0), "errors is 3, and must be == 0");
        let gate: Gate = "generator_cpu<80%".parse().unwrap();
        assert!(gate.passes(0.79) && !gate.passes(0.8));
        assert_eq!(gate.refusal(0.913), "generator_cpu is 91.3 %, and must be < 80.0 %");
        let gate: Gate = "foreign_cpu < 10 %".parse().unwrap();
        assert_eq!(gate.refusal(0.25), "foreign_cpu is 25.0 %, and must be < 10.0 %");
    }

    #[test]
    fn what_is_no_condition_is_told_what_one_is() {
        for text in
            ["", "errors", "errors > 0", "latency < 5", "errors == many", "errors == -1", "misses < nan"]
        {
            let error = text.parse::<Gate>().unwrap_err();
            assert!(error.to_string().contains("generator_cpu"), "{error}");
        }
        assert!("cov(misses) < 5 %".parse::<StopRule>().unwrap_err().to_string().contains("cov(throughput)"));
    }

    #[test]
    fn a_share_may_have_a_percent_sign_and_a_count_has_none() {
        for (text, hint) in [
            ("errors <= 1 %", "write a number without %, as in errors == 0"),
            ("misses == 0 %", "write a number without %, as in misses == 0"),
        ] {
            let mistake = text.parse::<Gate>().unwrap_err();
            assert!(mistake.what.contains(text) && mistake.hint == hint, "{mistake}");
        }
        for (text, limit) in [("steal <= 100 %", 1.0), ("steal < 0.05", 0.05), ("errors < 9", 9.0)] {
            assert_eq!(text.parse::<Gate>().unwrap().limit, limit);
        }
    }

    #[test]
    fn a_cell_is_run_until_its_runs_agree() {
        let until: StopRule = "cov(throughput) <= 5 %".parse().unwrap();
        assert!(until.holds(&[100.0, 101.0, 99.0]) && !until.holds(&[100.0, 120.0, 99.0]));
        assert!(!until.holds(&[100.0]) && !until.holds(&[]), "one run says nothing");
    }
}
