//! What a delay line tells of itself, and how it is read.

use krarup_units::{Nanos, Seconds};

/// What a line says when it stands.
pub const STANDS: &str = "krarup delay line: stands";
/// What it says once a second while frames pass: how many so far, and how many seconds late they
/// were, all together.
pub const PASSED: &str = "krarup delay line: passed ";

/// What has passed a line so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LineTally {
    /// Frames.
    pub frames: u64,
    /// How late they were, all together, in seconds.
    pub late: Seconds,
}

impl LineTally {
    /// One more frame, so much later than it was due.
    pub fn count(&mut self, late: Nanos) {
        self.frames += 1;
        self.late += late.as_seconds();
    }

    /// As [`PASSED`] tells it.
    pub fn text(self) -> String {
        format!("{} {:.6}", self.frames, self.late)
    }

    /// The same, read; none where it is something else.
    pub fn read(text: &str) -> Option<Self> {
        let (frames, late) = text.trim().split_once(' ')?;
        Some(Self { frames: frames.parse().ok()?, late: late.parse().ok()? })
    }
}
