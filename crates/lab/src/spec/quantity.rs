//! Times and bandwidths as people write them.

use krarup_units::Seconds;
use krarup_units::text::parse_duration;
use serde::{Deserialize, Deserializer};

/// A time as `10s`, `600ms`, or a number of seconds.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Seconds, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a time is a text as \"10s\" or \"600ms\", or a number of seconds")]
    enum Time {
        Number(f64),
        Text(String),
    }
    let seconds = match Time::deserialize(deserializer)? {
        Time::Number(seconds) => seconds,
        Time::Text(text) => parse_duration(&text).map_err(serde::de::Error::custom)?,
    };
    if (0.0..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(serde::de::Error::custom(format!("{seconds} s is not from 0 to a day")))
    }
}

/// A bandwidth as `101Mbit/s`.
pub(super) fn bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bits = krarup_model::form::parse_bandwidth(&text).map_err(serde::de::Error::custom)?;
    if bits >= 1e4 {
        Ok(Some(bits))
    } else {
        Err(serde::de::Error::custom(format!("{text} is below 10 kbit/s")))
    }
}
