//! Lengths of time, sizes and numbers as a configuration file has them.

use krarup_units::{Nanos, text};
use serde::{Deserialize, Deserializer};

/// A number or a word.
pub(super) fn number_or_word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(i64),
        Word(String),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Number(number) => number.to_string(),
        Written::Word(word) => word,
    })
}

/// A length as `"1.5s"` or a number of seconds.
pub(crate) fn length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Seconds(f64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Seconds(seconds) => seconds.to_string(),
        Written::Text(text) => text,
    };
    text::parse_duration(&text).map(Nanos::from_seconds).map_err(serde::de::Error::custom)
}

/// The same, of a key that need not be there.
pub(super) fn optional_length<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    length(deserializer).map(Some)
}

/// A size as `"1MiB"` or a number of bytes.
pub(crate) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Bytes(u64),
        Text(String),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Bytes(bytes) => bytes.to_string(),
        Written::Text(text) => text,
    };
    text::parse_size(&text).map(|bytes| bytes as usize).map_err(serde::de::Error::custom)
}
