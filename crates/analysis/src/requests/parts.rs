//! The rows of one run, read in parts by several machines, and what all parts say together.
//!
//! ```text
//! parts 1–3 of 12 of the files ─▶ RequestPart ─┐
//! parts 4–6                    ─▶ RequestPart ─┼─▶ merge_parts ─▶ RequestEstimates, as of one reading
//! …                            ─▶ RequestPart ─┘
//! ```
//! All parts count within the same [`Cut`]. A part names every file of its run and what it read of
//! it, so that rows that are missing, or were read twice, are noticed.

use std::collections::BTreeMap;

use krarup_units::{Nanos, Stamp};
use serde::{Deserialize, Serialize};

use super::cut::Cut;
use super::estimates::RequestEstimates;
use super::reading::RowReader;
use super::sums::RowSums;

/// The version of [`RequestPart`].
const VERSION: u32 = 1;

/// What one machine has read: of one run, or of several.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestPart {
    version: u32,
    runs: Vec<PartOfRun>,
}

/// What was read of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartOfRun {
    /// What the run is called.
    pub name: String,
    /// The wall clock at its stamp zero.
    pub epoch: Nanos,
    /// What of it counts.
    pub cut: Cut,
    /// Whether a load generator wrote the rows.
    pub of_clients: bool,
    /// Of which keys there are rows; none where of all.
    pub sample: Option<String>,
    /// All files of the run, those too of which nothing was read.
    pub files: Vec<PartOfFile>,
    /// What was counted.
    pub sums: RowSums,
}

/// What was read of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartOfFile {
    /// Its path.
    pub path: String,
    /// The wall clock at its stamp zero.
    pub epoch: Nanos,
    /// In how many parts it can be read.
    pub groups: usize,
    /// The first of those that were read.
    pub from: usize,
    /// The first behind them.
    pub to: usize,
    /// Rows that its writer could not keep.
    pub lost: u64,
}

/// Why parts are not one reading of all rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// There are none.
    #[error("there are no parts")]
    None,
    /// Of another program.
    #[error("a part is of version {found}, and this program reads version {VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// They do not count the same.
    #[error("the parts of {run} do not measure the same span, or in other windows")]
    Span {
        /// Of which run.
        run: String,
    },
    /// Rows were read twice.
    #[error("{path} was read twice, from its part {part} on")]
    Twice {
        /// The file.
        path: String,
        /// From one.
        part: usize,
    },
    /// Rows were not read.
    #[error("{parts} parts of files were read by none, the first of them part {part} of {path}")]
    Missing {
        /// How many.
        parts: usize,
        /// The first file.
        path: String,
        /// The first part of it, from one.
        part: usize,
    },
    /// A part holds what it cannot.
    #[error("the sums of {run} do not fit its span: the file is damaged")]
    Damaged {
        /// Of which run.
        run: String,
    },
}

impl PartError {
    /// What would do.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::None => "name the files of all parts",
            Self::Version { .. } => "use the program that wrote them",
            Self::Span { .. } => {
                "give all the same --between, --warm-up, --cool-down and --window, or the same files and a --share each"
            }
            Self::Twice { .. } => "name each part once",
            Self::Missing { .. } => "read these as well: the figures of the others would be other ones",
            Self::Damaged { .. } => "make this part again",
        }
    }
}

impl RequestPart {
    /// A part to be written.
    pub fn new(runs: Vec<PartOfRun>) -> Self {
        Self { version: VERSION, runs }
    }

    /// How many rows it is of.
    pub fn rows(&self) -> u64 {
        self.runs.iter().map(|run| run.sums.rows()).fold(0, u64::saturating_add)
    }
}

impl PartOfRun {
    /// The measured span and the windows on the wall clock: the same for all parts of a run.
    fn span(&self) -> ([u128; 4], Nanos) {
        let wall = |stamp: Stamp| u128::from(stamp.0) + u128::from(self.epoch.0);
        let Cut { begun, ended, from, to, window } = self.cut;
        ([begun, ended, from, to].map(wall), window)
    }

    fn measures_as(&self, other: &Self) -> bool {
        self.span() == other.span() && self.of_clients == other.of_clients && self.sample == other.sample
    }
}

/// What all parts say together of each run, by its name: the same as one reading of all rows.
///
/// # Errors
/// Rows that are missing or were read twice, parts that do not measure the same.
pub fn merge_parts(parts: Vec<RequestPart>) -> Result<Vec<(String, RequestEstimates)>, PartError> {
    if let Some(other) = parts.iter().find(|part| part.version != VERSION) {
        return Err(PartError::Version { found: other.version });
    }
    let mut runs: Vec<Vec<PartOfRun>> = Vec::new();
    for part in parts.into_iter().flat_map(|part| part.runs) {
        match runs.iter_mut().find(|run| run[0].name == part.name) {
            Some(run) => run.push(part),
            None => runs.push(vec![part]),
        }
    }
    if runs.is_empty() {
        return Err(PartError::None);
    }
    runs.iter().map(|parts| merge_run(parts)).collect()
}

fn merge_run(parts: &[PartOfRun]) -> Result<(String, RequestEstimates), PartError> {
    let PartOfRun { name, cut, of_clients, sample, .. } = &parts[0];
    let run = || name.clone();
    if !parts.iter().all(|part| part.cut.is_sound() && part.sums.fits(&part.cut)) {
        return Err(PartError::Damaged { run: run() });
    }
    if !parts.iter().all(|part| part.measures_as(&parts[0])) {
        return Err(PartError::Span { run: run() });
    }
    let lost = whole_files(parts)?;
    let mut sums = RowSums::new(cut);
    parts.iter().for_each(|part| sums.merge(&part.sums));
    let found = RowReader::with(*cut, sums).of_clients(*of_clients).of_sample(sample.clone()).end(lost);
    Ok((run(), found))
}

/// That every part of every file was read once; how many rows their writers could not keep.
fn whole_files(parts: &[PartOfRun]) -> Result<u64, PartError> {
    let mut files: BTreeMap<(&str, Nanos), Vec<&PartOfFile>> = BTreeMap::new();
    for file in parts.iter().flat_map(|part| &part.files) {
        files.entry((&file.path, file.epoch)).or_default().push(file);
    }
    let mut lost = 0_u64;
    let mut missing = 0_usize;
    let mut first_missing = None;
    for ((path, _), mut pieces) in files {
        lost = lost.saturating_add(pieces[0].lost);
        let groups = pieces.iter().map(|piece| piece.groups).max().unwrap_or(0);
        pieces.retain(|piece| piece.from < piece.to);
        pieces.sort_by_key(|piece| piece.from);
        let mut read = 0;
        let mut lacks = |from: usize, to: usize| {
            missing = missing.saturating_add(to - from);
            first_missing.get_or_insert((path.to_owned(), from + 1));
        };
        for piece in pieces {
            if piece.from < read {
                return Err(PartError::Twice { path: path.to_owned(), part: piece.from + 1 });
            }
            if piece.from > read {
                lacks(read, piece.from);
            }
            read = piece.to;
        }
        if read < groups {
            lacks(read, groups);
        }
    }
    match first_missing {
        Some((path, part)) => Err(PartError::Missing { parts: missing, path, part }),
        None => Ok(lost),
    }
}

#[cfg(test)]
mod tests {
    use krarup_record::{Operation, Outcome, ServerVisit, Visit};
    use proptest::prelude::*;

    use super::*;

    const GROUPS: usize = 12;

    /// Rows of two stations and several operations, with the parts of up to two servers.
    fn rows() -> impl Strategy<Value = Vec<(Visit, Vec<ServerVisit>)>> {
        let row = (0_u64..40_000, 0_u64..900, 0_u64..3_000, 0_u16..2, 0_usize..3, 0_usize..3);
        prop::collection::vec(row, GROUPS..60).prop_map(|rows| {
            let row =
                |(begin, queue, rest, station, operation, servers): (u64, u64, u64, u16, usize, usize)| {
                    let stamp = |micros: u64| Stamp(micros * 1_000);
                    let operation = [Operation::Get, Operation::Set, Operation::MultiGet][operation];
                    let mut visit = Visit::at(stamp(begin), operation);
                    (visit.station, visit.hits, visit.busy_workers) = (station, 1, servers as u32);
                    (visit.taken, visit.replied) = (stamp(begin + queue), stamp(begin + queue + rest));
                    if rest % 7 == 0 {
                        visit.outcome = Outcome::Timeout;
                    }
                    let server = |number| ServerVisit::ok(number, visit.taken, visit.replied);
                    (visit, (0..servers as u16).map(server).collect())
                };
            rows.into_iter().map(row).collect()
        })
    }

    fn cut_of(rows: &[(Visit, Vec<ServerVisit>)]) -> Cut {
        let begun = rows.iter().map(|(visit, _)| visit.received).min().unwrap();
        let ended = rows.iter().map(|(visit, _)| visit.replied).max().unwrap();
        Cut::of((begun, Stamp(ended.0 + 1)), Nanos(1_000), Nanos(0), None).unwrap()
    }

    /// The rows as groups of one file, of which `from` to `to` are read.
    fn part(rows: &[(Visit, Vec<ServerVisit>)], from: usize, to: usize) -> RequestPart {
        let cut = cut_of(rows);
        let mut reader = RowReader::new(cut);
        let of = |group: usize| group * rows.len() / GROUPS;
        for (visit, servers) in &rows[of(from)..of(to)] {
            reader.see(visit, servers);
        }
        let path = "rows.parquet".to_owned();
        let file = PartOfFile { path, epoch: Nanos(7), groups: GROUPS, from, to, lost: 2 };
        RequestPart::new(vec![PartOfRun {
            name: "run".to_owned(),
            epoch: Nanos(7),
            cut,
            of_clients: false,
            sample: None,
            files: vec![file],
            sums: reader.sums(),
        }])
    }

    fn kept(part: &RequestPart) -> RequestPart {
        serde_json::from_str(&serde_json::to_string(part).unwrap()).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Any cut of the rows, written to files and put together in any order, says the same
        /// bytes.
        #[test]
        fn parts_of_any_cut_are_one_reading_of_all(
            rows in rows(),
            mut bounds in prop::collection::vec(0..=GROUPS, 0..5),
            turn in 0_usize..6,
        ) {
            let mut whole = RowReader::new(cut_of(&rows));
            rows.iter().for_each(|(visit, servers)| whole.see(visit, servers));
            let whole = serde_json::to_string(&whole.end(2)).unwrap();
            bounds.extend([0, GROUPS]);
            bounds.sort_unstable();
            let mut parts: Vec<RequestPart> =
                bounds.windows(2).map(|ends| kept(&part(&rows, ends[0], ends[1]))).collect();
            let turn = turn % parts.len();
            parts.rotate_left(turn);
            let merged = merge_parts(parts).unwrap();
            prop_assert_eq!(merged.len(), 1);
            prop_assert_eq!(serde_json::to_string(&merged[0].1).unwrap(), whole);
        }
    }

    fn few() -> Vec<(Visit, Vec<ServerVisit>)> {
        (0..24).map(|number| (Visit::at(Stamp(number * 1_000_000), Operation::Get), vec![])).collect()
    }

    #[test]
    fn what_is_missing_or_there_twice_is_named() {
        let rows = few();
        let error = |bounds: &[(usize, usize)]| {
            merge_parts(bounds.iter().map(|&(from, to)| part(&rows, from, to)).collect()).unwrap_err()
        };
        let twice = error(&[(0, 6), (5, 12)]);
        assert_eq!(twice, PartError::Twice { path: "rows.parquet".to_owned(), part: 6 });
        let missing = |parts, part| PartError::Missing { parts, path: "rows.parquet".to_owned(), part };
        assert_eq!(error(&[(6, 12), (0, 3)]), missing(3, 4));
        assert_eq!(error(&[(0, 11)]), missing(1, 12));
        assert_eq!(error(&[(3, 3)]), missing(12, 1));
        assert_eq!(error(&[]), PartError::None);
        assert!(twice.hint().contains("once"));
    }

    #[test]
    fn parts_that_do_not_measure_the_same_are_refused() {
        let rows = few();
        let mut other = part(&rows, 6, 12);
        other.runs[0].cut.to = Stamp(other.runs[0].cut.to.0 - 1);
        let parts = vec![part(&rows, 0, 6), other];
        assert_eq!(merge_parts(parts).unwrap_err(), PartError::Span { run: "run".to_owned() });
        let mut other = part(&rows, 0, 12);
        other.version = 9;
        assert_eq!(merge_parts(vec![other]).unwrap_err(), PartError::Version { found: 9 });
        let mut other = part(&rows, 0, 12);
        (other.runs[0].cut.from, other.runs[0].cut.to) = (Stamp(9), Stamp(3));
        assert_eq!(merge_parts(vec![other]).unwrap_err(), PartError::Damaged { run: "run".to_owned() });
    }

    /// A machine that has only its own files, of a later start, counts from another instant: the
    /// span on the wall clock is what must be the same.
    #[test]
    fn parts_may_count_from_different_instants() {
        let rows = few();
        let first = part(&rows, 0, 6);
        let mut second = part(&rows, 6, 12);
        let run = &mut second.runs[0];
        run.epoch = Nanos(run.epoch.0 - 5);
        let Cut { begun, ended, from, to, window } = run.cut;
        let [begun, ended, from, to] = [begun, ended, from, to].map(|stamp| Stamp(stamp.0 + 5));
        run.cut = Cut { begun, ended, from, to, window };
        let merged = merge_parts(vec![first, second]).unwrap();
        assert_eq!(merged[0].1, merge_parts(vec![part(&rows, 0, 12)]).unwrap()[0].1);
    }

    proptest! {
        #[test]
        fn no_text_makes_a_part_panic(
            damage in prop::collection::vec((any::<prop::sample::Index>(), b'0'..=b'9'), 1..6),
        ) {
            let mut text = serde_json::to_string(&part(&few(), 0, 12)).unwrap().into_bytes();
            for (place, byte) in damage {
                let place = place.index(text.len());
                if text[place].is_ascii_digit() {
                    text[place] = byte;
                }
            }
            if let Ok(part) = serde_json::from_slice::<RequestPart>(&text) {
                let _ = merge_parts(vec![part]);
            }
        }
    }
}
