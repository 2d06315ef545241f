//! When a file of rows ends and the next begins, and in which folder each lies.
//!
//! ```text
//! FOLDER/date=2026-11-25/hour=04/rows-20261125T043000Z-INSTANCE.parquet     04:30 to 04:40
//!                                rows-20261125T044000Z-INSTANCE.parquet     04:40 to 04:50
//!                               .rows-20261125T045000Z-INSTANCE.parquet.partial
//! ```
//! Engines take the folders' names as columns and open only the files that a question needs. No
//! interval goes over the end of its folder's hour, or of its day where it is longer than an hour:
//! what the names say is true of every row. The file that is being written has a name that engines
//! pass over.
//!
//! A wall clock may be set, and goes on while the machine is suspended: what is replied to from
//! then on lies where the wall says now.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use krarup_units::text::timestamp;
use krarup_units::{Nanos, Stamp};

use crate::file::RunMetadata;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// How the time of one run is cut into files. Clones go by one wall clock.
#[derive(Clone, Debug)]
pub struct RowIntervals {
    every: Nanos,
    /// The wall clock at stamp zero, by what it shows now.
    epoch: Arc<AtomicU64>,
}

/// From when to when the rows of a file were replied to, on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowInterval {
    /// The first instant of it, since 1970.
    pub from: Nanos,
    /// The first instant after it.
    pub to: Nanos,
    /// The wall clock at stamp zero that it goes by.
    pub epoch: Nanos,
    by_hour: bool,
}

/// How long each file is, and what tells the time to the thread that writes them.
pub struct RowRotation {
    /// A second to a day.
    pub every: Nanos,
    /// The clock of the run.
    pub clock: Box<dyn Fn() -> Stamp + Send>,
    /// The wall clock at stamp zero, by what it shows now.
    pub epoch: Box<dyn Fn() -> Nanos + Send>,
}

impl fmt::Debug for RowRotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowRotation").field("every", &self.every).finish_non_exhaustive()
    }
}

impl RowIntervals {
    /// The shortest interval: a file for each second is many already.
    pub const SHORTEST: Nanos = Nanos(SECOND);
    /// The longest.
    pub const LONGEST: Nanos = Nanos(DAY);

    /// Files of this length, brought into [`Self::SHORTEST`] to [`Self::LONGEST`].
    pub fn new(every: Nanos, run: RunMetadata) -> Self {
        let epoch = Arc::new(AtomicU64::new(run.epoch_unix.0));
        Self { every: every.clamp(Self::SHORTEST, Self::LONGEST), epoch }
    }

    /// The wall clock at stamp zero.
    pub(super) fn epoch(&self) -> Nanos {
        Nanos(self.epoch.load(Ordering::Relaxed))
    }

    /// That is this from now on, for all clones.
    pub(super) fn set_epoch(&self, epoch: Nanos) {
        self.epoch.store(epoch.0, Ordering::Relaxed);
    }

    /// The interval in which a reply left. Intervals are counted from the hour's beginning, those
    /// longer than an hour from midnight UTC; the last of an hour, or day, may be shorter.
    pub fn at(&self, replied: Stamp) -> RowInterval {
        self.by(self.epoch(), replied)
    }

    /// The same by this wall clock at stamp zero.
    pub(super) fn by(&self, epoch: Nanos, replied: Stamp) -> RowInterval {
        let wall = epoch.0.saturating_add(replied.0);
        let by_hour = self.every.0 <= HOUR;
        let unit = if by_hour { HOUR } else { DAY };
        let begun = wall - wall % unit;
        let from = begun + (wall - begun) / self.every.0 * self.every.0;
        let to = from.saturating_add(self.every.0).min(begun.saturating_add(unit));
        RowInterval { from: Nanos(from), to: Nanos(to), epoch, by_hour }
    }
}

impl RowInterval {
    /// The same on the clock of the run; from zero where it began before that.
    pub fn stamps(&self) -> Range<Stamp> {
        let stamp = |wall: Nanos| Stamp(wall.saturating_sub(self.epoch).0);
        stamp(self.from)..stamp(self.to)
    }

    /// The folder of its files, below that of all.
    pub fn folder(&self) -> PathBuf {
        let text = timestamp(self.from.0 / SECOND);
        let day = PathBuf::from(format!("date={}", &text[..10]));
        if self.by_hour { day.join(format!("hour={}", &text[11..13])) } else { day }
    }

    /// The name of its file number `number`, from one, that this instance writes.
    pub fn file(&self, instance: &str, number: u32) -> String {
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        let text = timestamp(self.from.0 / SECOND);
        let (day, time) = (digits(&text[..10]), digits(&text[11..19]));
        let kept =
            |letter: char| if letter.is_ascii_alphanumeric() || "._".contains(letter) { letter } else { '-' };
        let instance: String = instance.chars().map(kept).take(100).collect();
        let again = if number > 1 { format!("-{number}") } else { String::new() };
        let of = if instance.is_empty() { String::new() } else { format!("-{instance}") };
        format!("rows-{day}T{time}Z{of}{again}.parquet")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: u64 = 60 * SECOND;
    /// 2026-11-25 04:30:17 UTC.
    const RUN: RunMetadata = RunMetadata { epoch_unix: Nanos(1_795_581_017 * SECOND) };

    #[test]
    fn files_begin_at_round_times_and_lie_in_the_folder_of_their_hour() {
        let intervals = RowIntervals::new(Nanos(10 * MINUTE), RUN);
        let first = intervals.at(Stamp(0));
        assert_eq!(first.folder(), PathBuf::from("date=2026-11-25/hour=04"));
        assert_eq!(first.file("10.0.0.1:11211", 1), "rows-20261125T043000Z-10.0.0.1-11211.parquet");
        assert_eq!(first.file("", 2), "rows-20261125T043000Z-2.parquet");
        assert_eq!(first.stamps(), Stamp(0)..Stamp((9 * 60 + 43) * SECOND));
        let next = intervals.at(first.stamps().end);
        assert_eq!(
            (next.from, next.file("a/b", 1)),
            (first.to, "rows-20261125T044000Z-a-b.parquet".to_owned())
        );
        let whole_days = RowIntervals::new(Nanos(6 * HOUR), RUN).at(Stamp(0));
        assert_eq!(whole_days.folder(), PathBuf::from("date=2026-11-25"));
        assert_eq!(whole_days.file("x", 1), "rows-20261125T000000Z-x.parquet");
    }

    proptest! {
        #[test]
        fn every_instant_lies_in_one_interval_that_keeps_to_its_folder(
            every in SECOND..=DAY,
            at in 0..400 * DAY,
        ) {
            let intervals = RowIntervals::new(Nanos(every), RUN);
            let interval = intervals.at(Stamp(at));
            let wall = RUN.epoch_unix.0 + at;
            prop_assert!(interval.from.0 <= wall && wall < interval.to.0);
            prop_assert!(interval.to.0 - interval.from.0 <= every);
            let unit = if every <= HOUR { HOUR } else { DAY };
            prop_assert_eq!(interval.from.0 / unit, (interval.to.0 - 1) / unit);
            let last = intervals.at(Stamp(interval.to.0 - 1 - RUN.epoch_unix.0));
            prop_assert_eq!(last, interval);
            prop_assert_eq!(intervals.at(interval.stamps().end).from, interval.to);
        }
    }
}
