//! `--share 3/16`: one share of a work that several machines do.

use std::ops::Range;
use std::str::FromStr;

use krarup_units::Mistake;

/// One share of several, numbered from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkShare {
    pub(crate) number: usize,
    pub(crate) of: usize,
}

/// More shares than this are a mistake.
const MOST: usize = 1_000_000;

impl FromStr for WorkShare {
    type Err = Mistake;

    /// `3/16`, or `2+1/16` from what numbers its tasks from 0.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let parsed = || {
            let (number, of) = text.split_once('/')?;
            let of = of.parse().ok().filter(|of| *of <= MOST)?;
            let number: usize = match number.split_once('+') {
                Some((from_zero, "1")) => from_zero.parse::<usize>().ok()?.checked_add(1)?,
                Some(_) => return None,
                None => number.parse().ok()?,
            };
            (1..=of).contains(&number).then_some(Self { number, of })
        };
        parsed().ok_or_else(|| {
            let hint = "3/16 is the third of sixteen shares, and so is 2+1/16";
            Mistake::new(format!("`{text}` is no share"), hint)
        })
    }
}

impl WorkShare {
    /// All there is.
    pub(crate) const ALL: Self = Self { number: 1, of: 1 };

    /// The places of this share in a list of so many.
    pub(crate) fn among(self, many: usize) -> Range<usize> {
        let end = |number: usize| (many as u128 * number as u128 / self.of as u128) as usize;
        end(self.number - 1)..end(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_all_of_it_and_none_twice() {
        for (many, of) in [(0, 1), (7, 3), (3, 7), (100, 16)] {
            let shares = (1..=of).flat_map(|number| WorkShare { number, of }.among(many));
            assert_eq!(shares.collect::<Vec<_>>(), (0..many).collect::<Vec<_>>());
        }
        for third in ["3/16", "2+1/16"] {
            assert_eq!(third.parse(), Ok(WorkShare { number: 3, of: 16 }));
        }
        for wrong in ["", "3", "0/4", "5/4", "4+1/4", "a/b", "1/0", "1+2/4", "+1/4", "-1+1/4"] {
            assert!(wrong.parse::<WorkShare>().is_err(), "{wrong}");
        }
    }
}
