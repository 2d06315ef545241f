//! Sizes in bytes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Mistake;

/// A size in bytes; read and written with binary units (`64KiB`), because memory comes in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = Mistake;
    fn from_str(text: &str) -> Result<Self, Mistake> {
        crate::text::parse_size(text).map(Self)
    }
}

impl fmt::Display for Bytes {
    /// Whole units stay whole: `64 KiB`; the rest has three digits: `1.50 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut unit = "B";
        for larger in ["KiB", "MiB", "GiB", "TiB"] {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = larger;
        }
        let digits = if value.fract() == 0.0 { format!("{value}") } else { crate::text::three_digits(value) };
        f.pad(&format!("{digits} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in [("0", 0), ("250", 250), ("1k", 1024), ("64KiB", 65_536), ("1.5 MiB", 1_572_864)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        assert!("12 parsecs".parse::<Bytes>().unwrap_err().what.contains("12 parsecs"));
        assert!("-1".parse::<Bytes>().is_err());
    }

    #[test]
    fn sizes_print_with_a_unit() {
        assert_eq!(Bytes(4_096).to_string(), "4 KiB");
        assert_eq!(Bytes(1_000).to_string(), "1000 B");
        assert_eq!(Bytes(1_600_000).to_string(), "1.53 MiB");
    }
}
