//! What is kept of a program's requests as rows, and what its files say of it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use krarup_units::{Mistake, Nanos};

use crate::KeyDigest;
use crate::file::{FileError, RunMetadata};

/// What the files of rows say of the program that writes them, and which rows they have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowSettings {
    /// When the rows are measured.
    pub run: RunMetadata,
    /// What the column `instance` says.
    pub instance: String,
    /// Whether a load generator writes them: `received` is when a request was due, `taken` when it
    /// was sent.
    pub of_clients: bool,
    /// Whether the column `key` is filled.
    pub keys: bool,
    /// Which rows there are.
    pub sample: KeySample,
}

impl From<RunMetadata> for RowSettings {
    /// Every row of a program without a name, and no keys.
    fn from(run: RunMetadata) -> Self {
        Self { run, instance: String::new(), of_clients: false, keys: false, sample: KeySample::ALL }
    }
}

/// What is done when rows cannot be written, once until a file is complete again: these rows are
/// dropped.
pub type RowTrouble = Box<dyn FnMut(&FileError) + Send>;

/// Where a program writes its rows, before it has begun.
#[derive(Clone, Debug)]
pub struct RowPlan {
    /// The file; the folder of files where there are several.
    pub path: PathBuf,
    /// For how long each file is, where the next is to follow.
    pub every: Option<Nanos>,
    /// What the column `instance` says.
    pub instance: String,
    /// Whether the column `key` is filled.
    pub keys: bool,
    /// Which rows there are.
    pub sample: KeySample,
    /// What is done when they cannot be written, as [`RowTrouble`] says.
    pub on_trouble: fn(&FileError),
}

impl RowPlan {
    /// One file with every row, of a program of this name that says nothing of trouble until its
    /// end.
    pub fn of(path: PathBuf, instance: String) -> Self {
        Self { path, every: None, instance, keys: false, sample: KeySample::ALL, on_trouble: |_| {} }
    }

    /// What the files say, once the program begins.
    pub fn settings(&self, run: RunMetadata, of_clients: bool) -> RowSettings {
        let Self { instance, keys, sample, .. } = self;
        RowSettings { run, instance: instance.clone(), of_clients, keys: *keys, sample: *sample }
    }
}

/// Which requests leave a row: all of one key in so many, and all that name no key.
///
/// A key is in the sample by its digest alone. So all of its requests are, in every program, and
/// the keys of a small sample are part of a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySample {
    of: u32,
    /// The greatest digest in the sample.
    greatest: KeyDigest,
}

impl KeySample {
    /// Every key.
    pub const ALL: Self = Self { of: 1, greatest: KeyDigest(u64::MAX) };

    /// One key in `of`, which is at least 1.
    pub const fn one_of(of: u32) -> Self {
        let of = if of == 0 { 1 } else { of };
        Self { of, greatest: KeyDigest(u64::MAX / of as u64) }
    }

    /// One key in how many.
    pub const fn of(&self) -> u32 {
        self.of
    }

    /// Whether the requests of this key leave a row.
    #[inline]
    pub fn has(&self, key: KeyDigest) -> bool {
        key <= self.greatest
    }
}

impl FromStr for KeySample {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let of = text.trim().strip_prefix("1/").and_then(|of| of.parse().ok()).filter(|&of| of > 0);
        let hint = "write it like 1/16: the requests of one key in sixteen";
        of.map(Self::one_of).ok_or_else(|| Mistake::new(format!("`{text}` is no share of the keys"), hint))
    }
}

impl fmt::Display for KeySample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_share_of_keys_and_those_of_every_smaller_one() {
        let keys: Vec<KeyDigest> =
            (0..64_000).map(|number| KeyDigest::of(format!("key-{number}").as_bytes())).collect();
        let few = KeySample::one_of(16);
        let more = KeySample::one_of(4);
        let count = |sample: KeySample| keys.iter().filter(|&&key| sample.has(key)).count();
        assert!(count(few).abs_diff(4_000) < 250, "{}", count(few));
        assert!(count(more).abs_diff(16_000) < 500, "{}", count(more));
        assert_eq!(count(KeySample::ALL), keys.len());
        assert!(keys.iter().all(|&key| !few.has(key) || more.has(key)));
        assert!(few.has(KeyDigest::NONE), "what names no key belongs to every sample");
    }

    #[test]
    fn a_sample_is_written_as_a_fraction() {
        assert_eq!("1/16".parse::<KeySample>().unwrap(), KeySample::one_of(16));
        assert_eq!(KeySample::one_of(16).to_string(), "1/16");
        for wrong in ["", "16", "1/0", "1/x", "2/3", "0.1", "1/-4", "1/99999999999"] {
            let why = wrong.parse::<KeySample>().unwrap_err().to_string();
            assert!(why.contains(&format!("`{wrong}`")), "{why}");
        }
    }
}
