//! The rows of one program, in one file or in many: of several times of the day, or of one start
//! after the other.
//!
//! Stamps count from when a program began. Files of a later start are moved, by the wall clock at
//! their stamps zero, onto the clock of the first, so that all of them are one run. What is kept in
//! memory is what the files say of themselves, and one batch; in the order of replies the row
//! groups that overlap in time.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use krarup_units::{Nanos, Stamp};

use super::{KeySample, RowFile};
use crate::file::{FileError, FileProblem, RunMetadata};
use crate::{ServerVisit, Visit};

/// The rows of several files as those of one run.
#[derive(Clone, Debug)]
pub struct RowRun {
    files: Vec<RowsOfFile>,
    epoch: Nanos,
}

/// What a file says of itself.
#[derive(Clone, Debug)]
struct RowsOfFile {
    path: PathBuf,
    epoch: Nanos,
    span: Option<(Stamp, Stamp)>,
    /// For each row group, before which instant no reply of it left.
    earliest: Vec<Stamp>,
    rows: u64,
    lost: u64,
    apart: u64,
    instance: String,
    of_clients: bool,
    sample: Option<String>,
}

/// Some of the parts of one file of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPiece {
    /// The file.
    pub path: PathBuf,
    /// The wall clock at its stamp zero.
    pub epoch: Nanos,
    /// How many parts it has.
    pub groups: usize,
    /// Which of them.
    pub read: Range<usize>,
    /// Rows that its writer had to drop.
    pub lost: u64,
}

impl RowRun {
    /// The files of rows below a folder, by their paths: those whose names begin with `rows` and
    /// end in `.parquet`. One that is being written is none.
    ///
    /// # Errors
    /// As the operating system says.
    pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                found.extend(Self::files(&path)?);
            } else if name.starts_with("rows") && name.ends_with(".parquet") {
                found.push(path);
            }
        }
        found.sort();
        Ok(found)
    }

    /// Opens files as one run, in the order in which the last reply of each left.
    ///
    /// # Errors
    /// As [`RowFile::open`], for the first file that is none of rows.
    pub fn open(paths: &[PathBuf]) -> Result<Self, FileError> {
        let mut run = Self { files: Vec::new(), epoch: Nanos(u64::MAX) };
        for path in paths {
            let file = RowFile::open(path)?;
            run.epoch = run.epoch.min(file.run().epoch_unix);
            run.files.push(RowsOfFile {
                path: path.clone(),
                epoch: file.run().epoch_unix,
                span: file.span(),
                earliest: file.earliest_replies(),
                rows: file.rows(),
                lost: file.lost(),
                apart: file.apart(),
                instance: file.instance().to_owned(),
                of_clients: file.of_clients(),
                sample: file.sample().map(str::to_owned),
            });
        }
        // By their names the second file of an interval would come before the first.
        run.files.sort_by_key(|file| later(file.span.map_or(Stamp(0), |(_, ended)| ended), file.epoch));
        Ok(run)
    }

    /// The same rows by the programs that wrote them: one run for each instance, by name.
    pub fn by_instance(self) -> Vec<(String, Self)> {
        let mut names: Vec<String> = self.files.iter().map(|file| file.instance.clone()).collect();
        names.sort();
        names.dedup();
        let of = |name: String| {
            let files: Vec<_> = self.files.iter().filter(|file| file.instance == name).cloned().collect();
            let epoch = files.iter().map(|file| file.epoch).min().unwrap_or_default();
            (name, Self { files, epoch })
        };
        names.into_iter().map(of).collect()
    }

    /// The wall clock at the stamp zero of this run.
    pub fn run(&self) -> RunMetadata {
        RunMetadata { epoch_unix: self.epoch }
    }

    /// Whether a load generator wrote the rows.
    pub fn of_clients(&self) -> bool {
        self.files.iter().any(|file| file.of_clients)
    }

    /// Whether a load generator wrote some of the files, and what it asked wrote others: a request
    /// has a row on each side then.
    pub fn has_both_sides(&self) -> bool {
        self.of_clients() && self.files.iter().any(|file| !file.of_clients)
    }

    /// Of which keys there are rows, as `1/16`, the fewest where files differ; `None` where of all.
    pub fn sample(&self) -> Option<&str> {
        let samples = self.files.iter().filter_map(|file| file.sample.as_deref());
        samples.max_by_key(|sample| sample.parse::<KeySample>().map_or(0, |sample| sample.of()))
    }

    /// How many rows the writer had to drop.
    pub fn lost(&self) -> u64 {
        self.files.iter().map(|file| file.lost).sum()
    }

    /// How many visits of servers belong to no row: no client waited for them.
    pub fn apart(&self) -> u64 {
        self.files.iter().map(|file| file.apart).sum()
    }

    /// How many rows each file has.
    pub fn lengths(&self) -> Vec<u64> {
        self.files.iter().map(|file| file.rows).collect()
    }

    /// How many parts there are that can be read apart.
    pub fn groups(&self) -> usize {
        self.files.iter().map(|file| file.earliest.len()).sum()
    }

    /// When the first request was received and the last reply left. `None` without rows, or where
    /// files do not say.
    pub fn span(&self) -> Option<(Stamp, Stamp)> {
        let with_rows = self.files.iter().filter(|file| file.rows > 0);
        let spans = with_rows.map(|file| {
            let (begun, ended) = file.span?;
            let moved = self.moved(file.epoch);
            Some((later(begun, moved), later(ended, moved)))
        });
        let spans: Vec<(Stamp, Stamp)> = spans.collect::<Option<_>>()?;
        let begun = spans.iter().map(|span| span.0).min()?;
        Some((begun, spans.iter().map(|span| span.1).max()?))
    }

    /// The same run on a clock whose stamp zero is at this instant, or before.
    #[must_use]
    pub fn since(mut self, wall: Nanos) -> Self {
        self.epoch = self.epoch.min(wall);
        self
    }

    /// From one instant of the wall clock to another, on the clock of this run.
    pub fn span_between(&self, from: Nanos, to: Nanos) -> (Stamp, Stamp) {
        (Stamp(from.saturating_sub(self.epoch).0), Stamp(to.saturating_sub(self.epoch).0))
    }

    /// Every file, and which parts of it are among these of the run.
    pub fn pieces(&self, groups: Range<usize>) -> impl Iterator<Item = RowPiece> {
        let mut first = 0;
        self.files.iter().map(move |file| {
            let of_file = first..first + file.earliest.len();
            first = of_file.end;
            let from = groups.start.clamp(of_file.start, of_file.end);
            let to = groups.end.clamp(from, of_file.end);
            RowPiece {
                path: file.path.clone(),
                epoch: file.epoch,
                groups: file.earliest.len(),
                read: from - of_file.start..to - of_file.start,
                lost: file.lost,
            }
        })
    }

    /// Hands every row to `see`.
    ///
    /// # Errors
    /// As [`RowFile::next_batch`], with the file; the rows before the damage have been seen then.
    pub fn for_each(&self, see: impl FnMut(&Visit, &[ServerVisit])) -> Result<(), FileError> {
        self.for_each_of(0..self.groups(), see)
    }

    /// The same for some of the parts.
    ///
    /// # Errors
    /// As [`RowRun::for_each`].
    pub fn for_each_of(
        &self,
        groups: Range<usize>,
        mut see: impl FnMut(&Visit, &[ServerVisit]),
    ) -> Result<(), FileError> {
        for piece in self.pieces(groups).filter(|piece| !piece.read.is_empty()) {
            let mut rows = RowFile::open(&piece.path)?.only(piece.read);
            let read = for_each_moved(&mut rows, self.moved(piece.epoch), &mut see);
            read.map_err(|problem| FileError { path: piece.path, problem })?;
        }
        Ok(())
    }

    /// Hands every row to `see` in the order of the replies; those of one instant in the order of
    /// the files. Rows of several loops lie in a file in batches, and those of a loop with little
    /// to do perhaps in a file of their own.
    ///
    /// # Errors
    /// As [`RowFile::next_batch`], with the file.
    pub fn for_each_by_reply(&self, see: impl FnMut(&Visit, &[ServerVisit])) -> Result<(), FileError> {
        self.by_reply(see)?;
        Ok(())
    }

    /// The same, and how many rows were in memory at most.
    fn by_reply(&self, mut see: impl FnMut(&Visit, &[ServerVisit])) -> Result<usize, FileError> {
        let mut groups: Vec<(Stamp, usize, usize)> = Vec::new();
        for (place, file) in self.files.iter().enumerate() {
            let moved = self.moved(file.epoch);
            let of_file = file.earliest.iter().enumerate();
            groups.extend(of_file.map(|(group, &earliest)| (later(earliest, moved), place, group)));
        }
        groups.sort_unstable();
        // Of each file how many groups are to be read yet; it is open from the first to the last.
        let mut files: Vec<(usize, Option<RowFile>)> =
            self.files.iter().map(|file| (file.earliest.len(), None)).collect();
        let mut waiting: Vec<WaitingRow> = Vec::new();
        let mut most = 0;
        for (number, &(_, place, group)) in groups.iter().enumerate() {
            let RowsOfFile { path, epoch, .. } = &self.files[place];
            let (left, open) = &mut files[place];
            let rows = match open.take() {
                Some(rows) => rows,
                None => RowFile::open(path)?,
            };
            let mut rows = rows.only(group..group + 1);
            let keep = |visit: &Visit, servers: &[ServerVisit]| {
                waiting.push(((visit.replied, place, group), *visit, servers.to_vec()));
            };
            for_each_moved(&mut rows, self.moved(*epoch), keep)
                .map_err(|problem| FileError { path: path.clone(), problem })?;
            *left -= 1;
            *open = (*left > 0).then_some(rows);
            most = most.max(waiting.len());
            waiting.sort_by_key(|(at, ..)| *at);
            let ready = groups.get(number + 1).map_or(waiting.len(), |(next, ..)| {
                waiting.partition_point(|((replied, ..), ..)| replied < next)
            });
            waiting.drain(..ready).for_each(|(_, visit, servers)| see(&visit, &servers));
        }
        Ok(most)
    }

    /// By how much stamps of a file with this wall clock at its stamp zero are moved.
    fn moved(&self, epoch: Nanos) -> Nanos {
        epoch.saturating_sub(self.epoch)
    }
}

/// A row, with its reply and the places of its file and group, which order it.
type WaitingRow = ((Stamp, usize, usize), Visit, Vec<ServerVisit>);

/// Hands the rows of a file that are left to `see`, on a clock that began so much earlier.
fn for_each_moved(
    rows: &mut RowFile,
    moved: Nanos,
    mut see: impl FnMut(&Visit, &[ServerVisit]),
) -> Result<(), FileProblem> {
    let mut servers: Vec<ServerVisit> = Vec::new();
    rows.for_each(|visit, parts| {
        if moved == Nanos::ZERO {
            return see(visit, parts);
        }
        servers.clear();
        servers.extend(parts.iter().map(|part| ServerVisit {
            sent: later(part.sent, moved),
            answered: later(part.answered, moved),
            ..*part
        }));
        see(&moved_visit(visit, moved), &servers);
    })
}

fn moved_visit(visit: &Visit, by: Nanos) -> Visit {
    Visit {
        received: later(visit.received, by),
        queued: later(visit.queued, by),
        taken: later(visit.taken, by),
        replied: later(visit.replied, by),
        ..*visit
    }
}

fn later(stamp: Stamp, by: Nanos) -> Stamp {
    Stamp(stamp.0.saturating_add(by.0))
}

#[cfg(test)]
mod tests {
    use super::super::{RowBatch, RowFileWriter, RowSettings};
    use super::*;
    use crate::{LiveRows, Operation};

    const EPOCH: Nanos = Nanos::from_secs(1_795_000_000);

    fn write(path: &Path, instance: &str, began: Nanos, replies: &[u64]) {
        write_groups(path, instance, began, &[replies]);
    }

    /// The station of a row is the number of its group.
    fn write_groups(path: &Path, instance: &str, began: Nanos, groups: &[&[u64]]) {
        let run = RunMetadata { epoch_unix: Nanos(EPOCH.0 + began.0) };
        let settings = RowSettings { instance: instance.to_owned(), ..RowSettings::from(run) };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut sink = RowFileWriter::new(fs::File::create(path).unwrap(), settings).unwrap();
        for (replies, station) in groups.iter().zip(0..) {
            let mut batch = RowBatch::new(replies.len());
            for at in replies.iter().copied().map(Stamp) {
                let visit = Visit { station, ..Visit::at(at, Operation::Get) };
                assert!(batch.push(&visit, &[ServerVisit::ok(0, at, at)]));
            }
            sink.write(&batch).unwrap();
        }
        sink.lost(1);
        sink.finish().unwrap();
    }

    fn empty_folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("krarup-record-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn replies(run: &RowRun, groups: Range<usize>) -> Vec<u64> {
        let mut replies = Vec::new();
        run.for_each_of(groups, |visit, servers| {
            assert_eq!((visit.received, visit.replied), (servers[0].sent, servers[0].answered));
            replies.push(visit.replied.0);
        })
        .unwrap();
        replies
    }

    /// A proxy that was started twice, and another beside it.
    #[test]
    fn files_of_one_program_are_one_run_on_one_clock() {
        let folder = empty_folder("run");
        write(&folder.join("date=1/rows-1.parquet"), "a", Nanos(0), &[10, 20]);
        write(&folder.join("date=1/rows-2.parquet"), "a", Nanos(0), &[30]);
        write(&folder.join("date=2/rows-1.parquet"), "a", Nanos(1_000), &[5, 6]);
        write(&folder.join("date=2/rows-2.parquet"), "b", Nanos(700), &[7]);
        fs::write(folder.join("date=2/.rows-3.parquet.partial"), "PAR1").unwrap();
        fs::write(folder.join("date=2/other.parquet"), "no rows").unwrap();
        let files = RowRun::files(&folder).unwrap();
        assert_eq!(files.len(), 4);
        let runs = RowRun::open(&files).unwrap().by_instance();
        let [(a, first), (b, second)] = &runs[..] else { panic!("{runs:?}") };
        assert_eq!((a.as_str(), b.as_str()), ("a", "b"));
        assert_eq!(replies(first, 0..9), [10, 20, 30, 1_005, 1_006]);
        assert_eq!(replies(first, 1..2), [30]);
        assert_eq!((first.groups(), first.lengths(), first.lost()), (3, vec![2, 1, 2], 3));
        assert_eq!(first.span(), Some((Stamp(10), Stamp(1_006))));
        assert_eq!((replies(second, 0..1), second.run().epoch_unix), (vec![7], Nanos(EPOCH.0 + 700)));
        fs::remove_dir_all(&folder).unwrap();
        let gone = first.for_each(|_, _| {}).unwrap_err().to_string();
        assert!(gone.contains("rows-1.parquet: there is no such file"), "{gone}");
    }

    /// A proxy whose second start kept fewer keys, and clients beside it that kept all.
    #[test]
    fn what_files_say_of_one_program_is_true_of_no_other() {
        let folder = empty_folder("writers");
        fs::create_dir_all(&folder).unwrap();
        let plain = RowSettings::from(RunMetadata { epoch_unix: EPOCH });
        for (name, instance, of_clients, sample) in [
            ("rows-1.parquet", "proxy", false, KeySample::one_of(4)),
            ("rows-2.parquet", "proxy", false, KeySample::one_of(16)),
            ("rows-3.parquet", "clients", true, KeySample::ALL),
        ] {
            let settings = RowSettings { instance: instance.to_owned(), of_clients, sample, ..plain };
            let file = fs::File::create(folder.join(name)).unwrap();
            RowFileWriter::new(file, settings).unwrap().finish().unwrap();
        }
        let all = RowRun::open(&RowRun::files(&folder).unwrap()).unwrap();
        assert_eq!((all.of_clients(), all.has_both_sides(), all.sample()), (true, true, Some("1/16")));
        let runs = all.by_instance();
        let said: Vec<_> = runs
            .iter()
            .map(|(name, run)| (name.as_str(), run.of_clients(), run.has_both_sides(), run.sample()))
            .collect();
        assert_eq!(said, [("clients", true, false, None), ("proxy", false, false, Some("1/16"))]);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// Its names are not in the order of time: a program that was started again in one interval.
    #[test]
    fn rows_of_a_later_start_come_after_those_before_it() {
        let folder = empty_folder("starts");
        write(&folder.join("rows-1-a.parquet"), "a", Nanos(0), &[10, 20]);
        write(&folder.join("rows-1-a-2.parquet"), "a", Nanos(1_000), &[5]);
        write(&folder.join("rows-1-a-10.parquet"), "a", Nanos(2_000), &[5]);
        let run = RowRun::open(&RowRun::files(&folder).unwrap()).unwrap();
        assert_eq!(replies(&run, 0..9), [10, 20, 1_005, 2_005]);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A loop with little to do handed its rows over late: they are in a file of their own, which
    /// ends before that of the others.
    #[test]
    fn rows_of_files_that_overlap_come_in_the_order_of_their_replies() {
        let folder = empty_folder("overlap");
        let at = |second: u64| second * 1_000_000_000 + 250_000_000;
        let busy: Vec<u64> = (0..100).map(at).collect();
        let quiet: Vec<u64> = (0..20).map(|second| at(second) + 1).collect();
        write(&folder.join("rows-1-a.parquet"), "a", Nanos(0), &busy);
        write(&folder.join("rows-1-a-2.parquet"), "a", Nanos::from_secs(40), &quiet);
        let run = RowRun::open(&RowRun::files(&folder).unwrap()).unwrap();
        let (mut replies, mut live) = (Vec::new(), LiveRows::new(1 << 10));
        run.for_each_by_reply(|visit, servers| {
            assert_eq!(servers[0].answered, visit.replied);
            replies.push(visit.replied);
            live.see(visit, servers);
        })
        .unwrap();
        assert_eq!(replies.len(), 120);
        assert!(replies.is_sorted());
        let kept = live.snapshot().unwrap();
        assert_eq!((kept.stretches.len(), kept.visits.len()), (100, 120), "a stretch of each second");
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The last group of the file is of a loop that filled one batch in all the time.
    #[test]
    fn groups_wait_only_for_those_that_overlap_them() {
        let folder = empty_folder("waiting");
        let lane: Vec<Vec<u64>> = (0..100).map(|group| (10 * group..10 * group + 10).collect()).collect();
        let quiet: Vec<u64> = (0..10).map(|number| 100 * number).collect();
        let groups: Vec<&[u64]> = lane.iter().chain([&quiet]).map(Vec::as_slice).collect();
        write_groups(&folder.join("rows.parquet"), "a", Nanos(0), &groups);
        let run = RowRun::open(&RowRun::files(&folder).unwrap()).unwrap();
        let mut seen = Vec::new();
        let most = run.by_reply(|visit, _| seen.push((visit.replied, visit.station))).unwrap();
        assert_eq!((seen.len(), run.groups()), (1_010, 101));
        assert!(seen.is_sorted(), "those of one instant in the order of the file");
        assert!(most <= 3 * 10, "{most} rows in memory");
        fs::remove_dir_all(&folder).unwrap();
    }
}
