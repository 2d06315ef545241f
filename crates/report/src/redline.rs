//! What a redline has shown, in words and as a table.

use krarup_model::headroom::{RedlineEnd, RedlineReport};
use krarup_units::Unit;
use krarup_units::text::{count, duration};

use crate::document::{Table, TableValue};

/// Its steps; of a plan only their weights and shares.
pub fn table(report: &RedlineReport) -> Table {
    let columns = [
        ("weight", Unit::Count),
        ("share of reads", Unit::Share),
        ("server", Unit::PerSecond),
        ("all traffic", Unit::PerSecond),
        ("outstanding", Unit::Count),
        ("service time", Unit::Seconds),
        ("response", Unit::Seconds),
        ("of the others", Unit::Seconds),
    ];
    let rows = report.steps.iter().map(|step| {
        // A plan has no measurements.
        let measured = |value: f64| TableValue::from((step.seconds > 0.0).then_some(value));
        vec![
            TableValue::from(step.weight),
            TableValue::from(step.share),
            measured(step.server_per_s),
            measured(step.traffic_per_s),
            measured(step.outstanding),
            TableValue::from(step.service_us.map(|service| service * 1e-6)),
            measured(step.response_s),
            measured(step.others_s),
        ]
    });
    Table::untitled("redline", &columns, rows.collect())
}

/// Why it ended.
pub fn reason(end: RedlineEnd) -> &'static str {
    match end {
        RedlineEnd::Target => "the server's reads missed the target in two of three looks",
        RedlineEnd::Errors => "a request failed, or a server of the pool is down",
        RedlineEnd::Contention => "the service time rose by more than 15 %: contention begins",
        RedlineEnd::Others => "the other servers became slower by a fifth",
        RedlineEnd::LeftOut => "the proxy left the server out because it was slow (`eject_slower`)",
        RedlineEnd::MostWeight => "the server has had the most that it may get, and kept to the target",
        RedlineEnd::FewReads => {
            "there are too few reads to tell: 50 a second, and in 20 s 200 for p99, 2,000 for p99.9"
        }
        RedlineEnd::TimeOver => "the time is over",
        RedlineEnd::Stopped => "it was told to end, or the configuration has changed",
        RedlineEnd::Stuck => "an event loop did not answer",
    }
}

/// Why it ended and what it proves, in a few lines.
pub fn sentences(report: &RedlineReport) -> String {
    let mut out = match report.ended {
        Some(end) => format!("ended: {}; the usual shares are back\n", reason(end)),
        None if report.steps.iter().all(|step| step.seconds == 0.0) && !report.steps.is_empty() => {
            "planned: nothing was moved\n".to_owned()
        }
        None => "under way\n".to_owned(),
    };
    out.push_str(&match report.proven {
        Some(proven) => format!(
            "proven: {} answers {} requests/s within {} ({}); with its usual share that is {} requests/s of all traffic\n",
            report.server,
            count(proven.server_per_s),
            duration(proven.target.seconds),
            proven.target.percentile(),
            count(proven.traffic_per_s),
        ),
        None if report.ended.is_none() => String::new(),
        None if report.steps.is_empty() => {
            "proven: nothing; it ended before a step was complete\n".to_owned()
        }
        None => "proven: nothing; no complete step kept to the target\n".to_owned(),
    });
    out
}

#[cfg(test)]
mod tests {
    use krarup_model::headroom::{ProvenServer, RedlineStep, ResponseTarget};

    use super::*;

    #[test]
    fn the_percentile_is_told_as_it_was_written() {
        let proven = ProvenServer {
            target: ResponseTarget { quantile: 0.57, seconds: 0.002 },
            server_per_s: 1_000.0,
            usual_parts: None,
            traffic_per_s: 3_000.0,
            missed_per_s: None,
            slower_per_s: None,
        };
        let said = sentences(&ended(RedlineEnd::Target, Vec::new(), Some(proven)));
        assert!(said.contains(" (p57); "), "{said}");
    }

    fn ended(end: RedlineEnd, steps: Vec<RedlineStep>, proven: Option<ProvenServer>) -> RedlineReport {
        let (pool, server) = ("main".into(), "one".into());
        RedlineReport { schema: 1, pool, server, ended: Some(end), steps, proven }
    }

    #[test]
    fn a_step_that_was_not_made_has_missed_no_target() {
        for (steps, why) in [
            (Vec::new(), "it ended before a step was complete"),
            (vec![RedlineStep::default()], "no complete step kept to the target"),
        ] {
            let said = sentences(&ended(RedlineEnd::FewReads, steps, None));
            assert!(said.ends_with(&format!("proven: nothing; {why}\n")), "{said}");
        }
    }
}
