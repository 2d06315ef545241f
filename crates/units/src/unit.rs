//! The unit of a column or an axis, and how its numbers are shown: three digits, and one scale for
//! all of them.

use serde::{Deserialize, Serialize};

use crate::text;

/// What a number counts, and so how it is written. Numbers themselves are always in the base unit
/// named here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// No number: words.
    Text,
    /// A number of things, or a ratio: clients, requests, a queue's length.
    Count,
    /// Events per second.
    PerSecond,
    /// Seconds; shown in the unit that suits.
    Seconds,
    /// A part of a whole, or a relative change: 1 is all of it; shown in percent.
    Share,
    /// Processor cores kept busy.
    Cores,
}

/// So many percent as a share, the nearest to what is written: divided by 100, 99.9 would be a
/// neighbour of 0.999.
pub fn share_of_percent(percent: f64) -> f64 {
    format!("{percent}e-2").parse().unwrap_or(percent / 100.0)
}

/// How a column or an axis shows its numbers: multiplied by `factor`, in `symbol`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// What a number in the base unit is multiplied by.
    pub factor: f64,
    /// The unit as written in a heading; empty for a count.
    pub symbol: &'static str,
}

impl Unit {
    /// A number alone, its unit beside it: `1.50 ms`, `24,100/s`, `99.2 %`.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => text::duration(value),
            Self::PerSecond => format!("{}/s", text::count(value)),
            Self::Share => format!("{} %", text::three_digits(value * 100.0)),
            Self::Cores => format!("{} cores", text::three_digits(value)),
            Self::Count | Self::Text => text::count(value),
        }
    }

    /// The scale in which a number like `typical` has three readable digits.
    pub fn scale(self, typical: f64) -> Scale {
        let (factor, symbol) = match self {
            Self::Seconds if typical >= 1.0 => (1.0, "s"),
            Self::Seconds if typical >= 0.1e-3 || typical <= 0.0 => (1e3, "ms"),
            Self::Seconds if typical >= 0.1e-6 => (1e6, "µs"),
            Self::Seconds => (1e9, "ns"),
            Self::PerSecond => (1.0, "/s"),
            Self::Share => (100.0, "%"),
            Self::Cores => (1.0, "cores"),
            Self::Count | Self::Text => (1.0, ""),
        };
        Scale { factor, symbol }
    }

    /// The base unit in which numbers stand, as a definition says it.
    pub const fn base(self) -> &'static str {
        match self {
            Self::Text | Self::Count => "",
            Self::PerSecond => "1/s",
            Self::Seconds => "s",
            Self::Share => "0 to 1",
            Self::Cores => "cores",
        }
    }

    /// What a CSV heading adds to the name, so that a program knows the base unit: a count has
    /// none, its name says what is counted.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Seconds => "_s",
            Self::PerSecond => "_per_s",
            Self::Share => "_ratio",
            Self::Cores => "_cores",
            Self::Text | Self::Count => "",
        }
    }
}

impl Scale {
    /// A number in this scale, without its symbol: three digits, at most four decimals. Whole
    /// counts stay whole.
    pub fn show(self, value: f64) -> String {
        let scaled = value * self.factor;
        let size = scaled.abs();
        if !scaled.is_finite()
            || size >= 999.5
            || size == 0.0
            || (self.symbol.is_empty() && scaled.fract() == 0.0)
        {
            return text::count(scaled);
        }
        if size >= 0.999_5 {
            text::three_digits(scaled)
        } else if size >= 0.099_95 {
            format!("{scaled:.3}")
        } else if size >= 0.000_05 {
            format!("{scaled:.4}")
        } else {
            "≈ 0".into()
        }
    }

    /// The half width of an interval, with as many decimals as the value it stands beside: `0.02`,
    /// or `<0.01` where that would read as none at all.
    pub fn show_beside(self, half_width: f64, value: f64) -> String {
        let shown = self.show(value);
        let decimals = shown.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let half = half_width * self.factor;
        let smallest = 0.1_f64.powi(decimals as i32);
        if half > 0.0 && half < smallest / 2.0 {
            format!("<{smallest:.decimals$}")
        } else if decimals > 0 {
            format!("{half:.decimals$}")
        } else {
            text::count(half.round())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_the_share_that_is_written() {
        assert_eq!([0.1, 50.0, 99.9, 99.99].map(share_of_percent), [0.001, 0.5, 0.999, 0.9999]);
    }

    #[test]
    fn a_number_alone_has_its_unit_beside_it() {
        for (unit, value, shown) in [
            (Unit::Seconds, 1.5e-3, "1.50 ms"),
            (Unit::PerSecond, 24_100.4, "24,100/s"),
            (Unit::Share, 0.992, "99.2 %"),
            (Unit::Share, 1.0, "100 %"),
            (Unit::Count, 12.0, "12"),
            (Unit::Cores, 0.98, "0.98 cores"),
        ] {
            assert_eq!(unit.show(value), shown);
        }
    }

    #[test]
    fn a_column_keeps_one_unit_whatever_stands_in_it() {
        let scale = Unit::Seconds.scale(2e-3);
        assert_eq!(scale.symbol, "ms");
        assert_eq!(scale.show(0.000_12), "0.120");
        assert_eq!(scale.show(0.000_001_24), "0.0012");
        assert_eq!(scale.show(0.0), "0");
        assert_eq!(scale.show(-1e-9), "≈ 0");
        assert_eq!(scale.show(0.0981), "98.1");
        assert_eq!(scale.show(3.2), "3,200");
    }

    #[test]
    fn an_interval_has_the_decimals_of_its_value() {
        let scale = Unit::Seconds.scale(2e-3);
        assert_eq!(scale.show_beside(0.000_031_4, 0.001_52), "0.03");
        assert_eq!(scale.show_beside(0.000_000_1, 0.001_52), "<0.01");
        assert_eq!(scale.show_beside(0.0, 0.001_52), "0.00");
        assert_eq!(Unit::PerSecond.scale(24_100.0).show_beside(312.4, 24_100.0), "312");
    }
}
