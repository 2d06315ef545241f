//! A question about headroom as it is written: a target such as `p99 < 8ms`, and a change such as
//! `server b lost`.

use std::fmt;
use std::str::FromStr;

use krarup_units::text::{duration, parse_duration};
use krarup_units::{Mistake, Seconds, share_of_percent};

use super::answer::{CopyChange, HeadroomChange, LiveSystem, ResponseTarget};

/// A factor beyond this says nothing of the system that was seen.
const LARGEST_FACTOR: f64 = 1_000.0;

/// Every form of a change, for hints and pages.
pub const CHANGE_FORMS: &str = "traffic x1.5, values x2, workers x2, server +1, server lost, server NAME lost, server NAME x2, \
     replicas +1, replicas -1";

impl FromStr for ResponseTarget {
    type Err = Mistake;

    /// Reads `p99 < 8ms`: a percentile above 0 and below 100, with decimals or not, and a time
    /// above 0. Spaces do not matter.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let wrong = |what: String| Mistake::new(what, "write it like 'p99 < 8ms' or 'p99.9 < 0.5s'");
        let (percentile, time) =
            text.split_once('<').ok_or_else(|| wrong(format!("`{text}` is no target: it has no `<`")))?;
        let number = percentile.trim().strip_prefix(['p', 'P']).map(str::trim);
        let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
        let percent: f64 = number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| wrong(format!("`{}` is no percentile", percentile.trim())))?;
        if !(percent > 0.0 && percent < 100.0) {
            return Err(wrong(format!("the percentile is {percent}, and must be above 0 and below 100")));
        }
        let seconds = parse_duration(time.trim()).map_err(|mistake| wrong(mistake.what))?;
        if seconds <= 0.0 {
            return Err(wrong("the time of a target must be above 0".to_owned()));
        }
        Ok(Self { quantile: share_of_percent(percent), seconds })
    }
}

impl fmt::Display for ResponseTarget {
    /// `p99 < 8.00 ms`, which reads back as the same percentile and as the time to three digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} < {}", self.percentile(), short(self.seconds))
    }
}

impl ResponseTarget {
    /// Which percentile, as it is written: `p99.9` of 0.999.
    pub fn percentile(&self) -> String {
        let digits = format!("{:.6}", self.quantile * 100.0);
        format!("p{}", digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The time as [`duration`] writes it, without zeros that say nothing: `8 ms`, `1.25 s`.
fn short(seconds: Seconds) -> String {
    let text = duration(seconds);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

/// A target as it is written: of a percentile, or of the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeadroomTarget {
    /// `p99 < 8ms`: a share of the requests is answered within a time.
    Percentile(ResponseTarget),
    /// `mean < 8ms`: the mean response time, in seconds, above 0.
    Mean(Seconds),
}

impl FromStr for HeadroomTarget {
    type Err = Mistake;

    /// Reads `mean < 8ms`, or a [`ResponseTarget`].
    fn from_str(text: &str) -> Result<Self, Mistake> {
        let mean = text.split_once('<').filter(|(what, _)| what.trim() == "mean");
        let Some((_, time)) = mean else { return text.parse().map(Self::Percentile) };
        let wrong = |what: String| Mistake::new(what, "write it like 'mean < 8ms'");
        let seconds = parse_duration(time.trim()).map_err(|mistake| wrong(mistake.what))?;
        if seconds > 0.0 {
            Ok(Self::Mean(seconds))
        } else {
            Err(wrong("the time of a target must be above 0".to_owned()))
        }
    }
}

/// A change as it is written: servers by their names.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedChange {
    /// `traffic x1.5`: the rate of all traffic.
    Traffic(f64),
    /// `workers x2`: the number of workers.
    Workers(f64),
    /// `values x2`: the bytes of all values.
    Values(f64),
    /// `server +1`: one more server.
    ServerMore,
    /// `server lost`, the worst one, or `server b lost`.
    ServerLost(Option<String>),
    /// `server b x2`: its service time.
    ServerSlow(String, f64),
    /// `replicas +1`, `replicas -1`: copies of each value.
    Replicas(CopyChange),
}

impl FromStr for NamedChange {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["traffic", times] => Ok(Self::Traffic(factor(times)?)),
            ["workers", times] => Ok(Self::Workers(factor(times)?)),
            ["values", times] => Ok(Self::Values(factor(times)?)),
            ["server", "+1"] => Ok(Self::ServerMore),
            ["replicas", "+1"] => Ok(Self::Replicas(CopyChange::More)),
            ["replicas", "-1" | "−1"] => Ok(Self::Replicas(CopyChange::Fewer)),
            ["server", "lost"] => Ok(Self::ServerLost(None)),
            ["server", name, "lost"] => Ok(Self::ServerLost(Some(name.to_owned()))),
            ["server", name, times] => Ok(Self::ServerSlow(name.to_owned(), factor(times)?)),
            _ => Err(Mistake::new(format!("`{text}` is no change"), format!("write one of: {CHANGE_FORMS}"))),
        }
    }
}

/// Reads `x1.5` or `×1.5`: a factor above 0.
fn factor(text: &str) -> Result<f64, Mistake> {
    let number = text.strip_prefix(['x', 'X', '×']).and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(number) if number > 0.0 && number <= LARGEST_FACTOR => Ok(number),
        Some(number) => Err(Mistake::new(
            format!("the factor is {number}, and must be above 0 and at most {LARGEST_FACTOR}"),
            "write it like x1.5",
        )),
        None => Err(Mistake::new(format!("`{text}` is no factor"), "write it like x1.5")),
    }
}

impl fmt::Display for NamedChange {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Traffic(times) => write!(f, "traffic x{times}"),
            Self::Workers(times) => write!(f, "workers x{times}"),
            Self::Values(times) => write!(f, "values x{times}"),
            Self::ServerMore => f.write_str("server +1"),
            Self::ServerLost(None) => f.write_str("server lost"),
            Self::ServerLost(Some(name)) => write!(f, "server {name} lost"),
            Self::ServerSlow(name, times) => write!(f, "server {name} x{times}"),
            Self::Replicas(change) => f.write_str(change.words()),
        }
    }
}

impl NamedChange {
    /// The change of this system.
    ///
    /// # Errors
    /// Where no server has the name; those that have nearly the same are the hint, or else all.
    pub fn of(&self, system: &LiveSystem) -> Result<HeadroomChange, Mistake> {
        let number = |name: &str| {
            let names = || system.servers.iter().map(|server| server.name.as_str());
            names().position(|one| one == name).ok_or_else(|| {
                let mistake = Mistake::unknown(format!("there is no server `{name}`"), name, names());
                if mistake.hint.is_empty() {
                    Mistake {
                        hint: format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
                        ..mistake
                    }
                } else {
                    mistake
                }
            })
        };
        Ok(match self {
            Self::Traffic(times) => HeadroomChange::Traffic(*times),
            Self::Workers(times) => HeadroomChange::Workers(*times),
            Self::Values(times) => HeadroomChange::Values(*times),
            Self::ServerMore => HeadroomChange::ServerMore,
            Self::ServerLost(None) => HeadroomChange::ServerLost(None),
            Self::ServerLost(Some(name)) => HeadroomChange::ServerLost(Some(number(name)?)),
            Self::ServerSlow(name, times) => HeadroomChange::ServerSlow(number(name)?, *times),
            Self::Replicas(change) => HeadroomChange::Replicas(*change),
        })
    }

    /// The changes that are looked at where none is asked for: those that make sense of this
    /// system, with this target or none.
    pub fn usual(system: &LiveSystem, target: Option<ResponseTarget>) -> Vec<Self> {
        let mut usual = Vec::new();
        if target.is_some() {
            usual.push(Self::Traffic(1.5));
        }
        // What a store holds is not shared out, and what its messages' sizes do is not known.
        if system.servers.iter().any(|server| server.queue.is_common()) {
            return usual;
        }
        if system.servers.len() > 1 {
            usual.push(Self::ServerLost(None));
        }
        usual.push(Self::ServerMore);
        if system.workers.is_some() {
            usual.push(Self::Workers(2.0));
        }
        usual.push(Self::Values(2.0));
        usual
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::headroom::Silence;

    fn target(text: &str) -> Result<ResponseTarget, Mistake> {
        text.parse()
    }

    #[test]
    fn a_target_is_a_percentile_and_a_time() {
        for (text, quantile, seconds) in [
            ("p99 < 8ms", 0.99, 0.008),
            ("p99.9<500us", 0.999, 0.0005),
            (" p 50 < 2 ", 0.5, 2.0),
            ("P95 < 1.5 s", 0.95, 1.5),
        ] {
            let read = target(text).unwrap();
            assert!(
                (read.quantile - quantile).abs() < 1e-12 && (read.seconds - seconds).abs() < 1e-12,
                "{text}"
            );
        }
        assert_eq!(target("p99.9 < 1ms").unwrap().quantile, 0.999);
    }

    #[test]
    fn what_is_no_target_says_what_would_do() {
        for (text, part) in [
            ("p99", "no `<`"),
            ("99 < 8ms", "`99` is no percentile"),
            ("pinf < 8ms", "is no percentile"),
            ("p < 8ms", "is no percentile"),
            ("p0 < 8ms", "above 0"),
            ("p100 < 8ms", "below 100"),
            ("p99 < 8 parsecs", "length of time"),
            ("p99 < 0ms", "above 0"),
            ("p99 < -8ms", "length of time"),
        ] {
            let mistake = target(text).unwrap_err();
            assert!(mistake.what.contains(part), "{text}: {mistake}");
            assert!(mistake.hint.contains("p99 < 8ms"), "{mistake}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_named_with_what_is_meant() {
        let system = LiveSystem::of(["cache-1", "cache-2"].map(str::to_owned));
        let of = |text: &str| text.parse::<NamedChange>().unwrap().of(&system);
        assert_eq!(of("server cache-2 lost"), Ok(HeadroomChange::ServerLost(Some(1))));
        assert_eq!(of("server cache-1 ×3"), Ok(HeadroomChange::ServerSlow(0, 3.0)));
        assert_eq!(of("server lost"), Ok(HeadroomChange::ServerLost(None)));
        let mistake = of("server cache-3 lost").unwrap_err();
        assert_eq!(mistake.to_string(), "there is no server `cache-3`; did you mean cache-1 or cache-2?");
        assert_eq!(of("server x lost").unwrap_err().hint, "there are: cache-1, cache-2");
    }

    #[test]
    fn what_is_no_change_lists_those_that_are() {
        for text in ["", "more", "server", "server +2", "traffic", "traffic 1.5", "server a b c"] {
            let mistake = text.parse::<NamedChange>().unwrap_err();
            assert!(!mistake.hint.is_empty(), "{text}: {mistake}");
        }
        for text in ["traffic x0", "traffic x-1", "traffic xnan", "traffic xinf", "workers x1001"] {
            let mistake = text.parse::<NamedChange>().unwrap_err();
            assert!(mistake.what.contains("above 0"), "{text}: {mistake}");
        }
    }

    #[test]
    fn what_is_looked_at_unasked_can_be_carried_out() {
        let mut system = LiveSystem::of(["a".to_owned()]);
        let words = |system: &LiveSystem, target| {
            let usual = NamedChange::usual(system, target);
            assert!(usual.iter().all(|change| change.of(system).is_ok()));
            usual.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(words(&system, None), "server +1, values x2");
        system.workers = Some(8);
        system.servers.push(system.servers[0].clone());
        let asked = target("p99 < 1ms").ok();
        assert_eq!(words(&system, asked), "traffic x1.5, server lost, server +1, workers x2, values x2");
    }

    #[test]
    fn a_target_may_be_of_the_mean() {
        assert_eq!("mean<8ms".parse(), Ok(HeadroomTarget::Mean(0.008)));
        let percentile = HeadroomTarget::Percentile(target("p99 < 8ms").unwrap());
        assert_eq!(" p99 < 8ms".parse(), Ok(percentile));
        for wrong in ["mean < 0s", "mean < 8 parsecs", "mean 8ms", "men < 8ms"] {
            let mistake = wrong.parse::<HeadroomTarget>().unwrap_err();
            assert!(mistake.hint.contains("< 8ms'"), "{mistake}");
        }
    }

    #[test]
    fn reasons_have_the_names_that_stand_in_json() {
        for reason in Silence::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.name());
        }
    }

    fn change() -> impl Strategy<Value = NamedChange> {
        let times = || (1_u32..100_000).prop_map(|hundredths| f64::from(hundredths) / 100.0);
        let name = || "[a-z0-9.:_-]{1,12}".prop_filter("a word of the grammar", |name| name != "lost");
        prop_oneof![
            times().prop_map(NamedChange::Traffic),
            times().prop_map(NamedChange::Workers),
            times().prop_map(NamedChange::Values),
            Just(NamedChange::ServerMore),
            Just(NamedChange::ServerLost(None)),
            name().prop_map(|name| NamedChange::ServerLost(Some(name))),
            (name(), times()).prop_map(|(name, times)| NamedChange::ServerSlow(name, times)),
        ]
    }

    proptest! {
        #[test]
        fn a_change_reads_back_as_it_is_written(change in change()) {
            prop_assert_eq!(change.to_string().parse::<NamedChange>(), Ok(change));
        }

        #[test]
        fn a_target_reads_back_as_it_is_written(tenths in 1_u32..1_000, micros in 1_u32..1_000) {
            let asked = ResponseTarget { quantile: f64::from(tenths) / 1_000.0, seconds: f64::from(micros) / 1e6 };
            let read = target(&asked.to_string()).unwrap();
            prop_assert!((read.quantile - asked.quantile).abs() < 1e-12, "{asked}");
            prop_assert!((read.seconds / asked.seconds - 1.0).abs() < 1e-9, "{asked}");
        }

        #[test]
        fn any_text_is_read_or_refused_with_a_hint(text in "\\PC{0,24}") {
            if let Err(mistake) = target(&text) {
                prop_assert!(!mistake.hint.is_empty());
            }
            if let Err(mistake) = text.parse::<NamedChange>() {
                prop_assert!(!mistake.hint.is_empty());
            }
        }
    }
}
