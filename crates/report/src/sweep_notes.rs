//! Warnings of the analysis, each at the figure it concerns.

use krarup_analysis::Warning;
use krarup_analysis::results::Results;
use krarup_analysis::warning::Concern;
use krarup_record::scaled::{ReachedBaseline, ScaledTestbed};
use krarup_units::{Seconds, text};

use crate::document::{Note, NoteLevel};
use crate::workloads::clients;

/// What a warning is about, and so where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Beside the summary: it concerns all figures.
    Whole,
    /// At throughput and response time.
    Throughput,
    /// At the parts of the response time.
    Breakdown,
    /// At the distribution.
    Histogram,
    /// At the run over time.
    Run,
}

impl Topic {
    /// All, in the order of the page.
    pub(crate) const ALL: [Self; 5] =
        [Self::Whole, Self::Throughput, Self::Breakdown, Self::Histogram, Self::Run];
}

fn topic(warning: &Warning) -> Topic {
    match warning {
        Warning::Errors { .. }
        | Warning::MachineFull { .. }
        | Warning::Disturbed { .. }
        | Warning::Sampled { .. }
        | Warning::RowsLost { .. }
        | Warning::Unread { .. }
        | Warning::RunsMissing { .. }
        | Warning::RunsRefused { .. }
        | Warning::Disordered { .. }
        | Warning::OneRepetition
        | Warning::NotPooled { .. }
        | Warning::AnchorMissing { .. }
        | Warning::AnchorScatters { .. }
        | Warning::Drift { .. } => Topic::Whole,
        Warning::InteractiveLaw { .. }
        | Warning::GeneratorBusy { .. }
        | Warning::GeneratorWarned { .. }
        | Warning::Misses { .. } => Topic::Throughput,
        Warning::CountsDiffer { .. }
        | Warning::PartBeyondWhole { .. }
        | Warning::QueueLength { .. }
        | Warning::WorkersBeyond { .. }
        | Warning::Little { .. }
        | Warning::FlowBalance { .. }
        | Warning::UnevenServers { .. } => Topic::Breakdown,
        Warning::DifferentBuckets | Warning::PacketsLost { .. } => Topic::Histogram,
        Warning::Unsteady { .. } | Warning::WarmUpLeft { .. } | Warning::Drifts { .. } => Topic::Run,
    }
}

fn level(warning: &Warning) -> NoteLevel {
    if warning.is_hint() { NoteLevel::Hint } else { NoteLevel::Warning }
}

/// The notes of one topic: one for each kind of warning, with the cell in which it is worst, the
/// first of equals, and the number of other cells.
pub(crate) fn notes(results: &Results, at: Topic) -> Vec<Note> {
    let mut kinds: Vec<Vec<&Concern>> = Vec::new();
    for concern in results.concerns.iter().filter(|concern| topic(&concern.warning) == at) {
        match kinds.iter_mut().find(|seen| seen[0].warning.is_alike(&concern.warning)) {
            // A cell counts once, with its worst.
            Some(seen) => {
                let of_cell = |one: &&mut &Concern| one.levels.is_some() && one.levels == concern.levels;
                match seen.iter_mut().find(of_cell) {
                    Some(known) if concern.warning.extent() > known.warning.extent() => *known = concern,
                    Some(_) => {}
                    None => seen.push(concern),
                }
            }
            None => kinds.push(vec![concern]),
        }
    }
    let notes = kinds.iter().filter_map(|seen| Some(note(worst(seen)?, seen.len() - 1)));
    let scaled = results.scaled.as_ref().filter(|_| at == Topic::Whole).map(|testbed| {
        let responses: Vec<Seconds> = results.cells.iter().map(|cell| cell.response.mean.value).collect();
        [scaled(testbed), stops(testbed, &responses).into_iter().collect()].concat()
    });
    scaled.into_iter().flatten().chain(notes).collect()
}

/// The worst of those that are alike; of equals the first.
fn worst<'a>(seen: &[&'a Concern]) -> Option<&'a Concern> {
    let by_extent =
        |one: &&&Concern, other: &&&Concern| one.warning.extent().total_cmp(&other.warning.extent());
    seen.iter().rev().max_by(by_extent).copied()
}

/// A single station that is further from what was published than this is in doubt.
const REACHED: f64 = 0.05;
/// So is one whose share is known no better than to this part of it.
const WITHIN: f64 = 0.1;

/// Stops of a station that last more than this part of the response time show in its percentiles.
const NOTABLE: f64 = 0.1;

/// That stations stand still when they have used up their quota, where that is long beside the mean
/// response times of cells.
fn stops(testbed: &ScaledTestbed, responses: &[Seconds]) -> Option<Note> {
    let stops = testbed.stations.iter().map(|one| (one, one.stop(testbed.by)));
    let (station, stop) = stops.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let cells = responses.iter().filter(|response| stop > NOTABLE * **response).count();
    (cells > 0).then(|| Note {
        level: NoteLevel::Warning,
        text: format!(
            "Of the {} one that has used up its share of {:.4} of a processor stands still for up to {} of the time that is shown \
             (longer, where several threads use it up at once), more than a tenth of the mean response time of {cells} of \
             the {} cells. Times about as short may be the quota's there; an answer that waits until the middleware goes on counts as server time.",
            station.station,
            station.share,
            text::duration(stop),
            responses.len()
        ),
        next_step: "Look into `shares.json` of a trial: in how many `periods` a quota was `used_up`. With more processors, and so a smaller `scale.by`, shares are larger and stops shorter.".into(),
    })
}

/// What was scaled, before all else that is said of the figures; and which shares are in doubt.
fn scaled(testbed: &ScaledTestbed) -> Vec<Note> {
    let said = Note { level: NoteLevel::Hint, text: testbed.in_words(), next_step: String::new() };
    let doubtful = |reached: &&ReachedBaseline| {
        let within = reached.within.unwrap_or(0.0);
        reached.off().abs() > REACHED + within || within > WITHIN || reached.disturbed.is_some()
    };
    let far = testbed.baselines.iter().filter(doubtful).map(|reached| Note {
        level: NoteLevel::Warning,
        text: format!("A share is in doubt: {reached}."),
        next_step: "Run it again, in a new directory, with nothing else at work on the machine, and with a longer `scale.measure`.".into(),
    });
    std::iter::once(said).chain(far).collect()
}

fn note(concern: &Concern, others: usize) -> Note {
    let mut text = String::new();
    if let Some(levels) = &concern.levels {
        text.push_str(&format!("{}, {}: ", levels.workload, clients(levels.clients)));
    }
    text.push_str(&concern.warning.to_string());
    match (others, concern.levels.is_some()) {
        (0, _) => {}
        (1, true) => text.push_str(" The same holds for one other cell."),
        (1, false) => text.push_str(" The same holds for one other."),
        (others, true) => text.push_str(&format!(" The same holds for {others} other cells.")),
        (others, false) => text.push_str(&format!(" The same holds for {others} others.")),
    }
    Note { level: level(&concern.warning), text, next_step: concern.warning.next_step().to_owned() }
}

#[cfg(test)]
mod tests {
    use krarup_record::scaled::ScaledStation;

    use super::*;

    #[test]
    fn a_quota_whose_stops_are_long_beside_response_times_is_told() {
        let testbed = |share| {
            let station = ScaledStation {
                station: "middleware".into(),
                count: 1,
                processors: 8.0,
                share,
                link: None,
                delay: 0.0,
            };
            ScaledTestbed { by: 4.0, stations: vec![station], baselines: Vec::new() }
        };
        // 1 ms in each 28.6 ms: it stands still for 6.9 ms of the time that is shown.
        let note = stops(&testbed(0.035), &[0.01, 0.5]).unwrap();
        assert_eq!(note.level, NoteLevel::Warning);
        assert!(note.text.contains("0.0350 of a processor stands still for up to 6.89 ms"), "{}", note.text);
        assert!(note.text.contains("of 1 of the 2 cells"), "{}", note.text);
        assert!(stops(&testbed(0.5), &[0.5]).is_none());
        assert!(stops(&testbed(2.0), &[1e-6]).is_none(), "one thread cannot use it up");
    }
}
