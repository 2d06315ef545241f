//! Laws, mixes and rates as people write them in flags: `zipf:0.99`, `100-200`, `get=9,set=1`,
//! `1000-5000x30s`.

use krarup_settings::Mistake;
use krarup_units::text::{parse_duration, parse_rate, parse_size};
use krarup_units::{Address, PerSecond, Seconds};

use crate::command::Command;
use crate::keys::{KeyLaw, KeySize, KeySizeLaw};
use crate::schedule::{ArrivalProcess, Leg, Think};
use crate::sizes::SizeLaw;
use crate::trace::Speed;
use crate::workload::{LARGEST_VALUE, Mix, check_expiry};

/// `host:port` or `unix:/path`, with commas between.
///
/// # Errors
/// Names the address.
pub fn servers(text: &str) -> Result<Vec<Address>, Mistake> {
    text.split(',').map(|one| one.trim().parse()).collect()
}

/// The names of the laws for keys.
pub(crate) const KEY_LAWS: [&str; 6] = ["uniform", "sequential", "parted", "zipf", "gaussian", "hot"];

/// A mistake in a text whose first word is nearly one of `names`; how all of them are written is
/// said too.
fn near(what: String, text: &str, names: &[&str], forms: &str) -> Mistake {
    let word = text.split(':').next().unwrap_or_default();
    let near = Mistake::unknown(what, word, names.iter().copied().filter(|name| *name != word));
    let hint = if near.hint.is_empty() { forms.to_owned() } else { format!("{} {forms}", near.hint) };
    Mistake { hint, ..near }
}

/// `uniform`, `sequential`, `parted`, `zipf:EXPONENT`, `gaussian:MEAN:DEVIATION`, `hot:KEYS:DRAWS`.
///
/// # Errors
/// Names the text and how it should look.
pub fn key_law(text: &str) -> Result<KeyLaw, Mistake> {
    let wrong = || {
        let forms = "write uniform, sequential, parted, zipf:0.99, gaussian:0.5:0.1 or hot:0.1:0.9";
        near(format!("`{text}` is no law for keys"), text, &KEY_LAWS, forms)
    };
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let figures: Vec<f64> = parts.map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let law = match (name, figures.as_slice()) {
        ("uniform", []) => KeyLaw::Uniform,
        ("sequential", []) => KeyLaw::Sequential,
        ("parted", []) => KeyLaw::Parted,
        ("zipf", []) => KeyLaw::Zipf { exponent: 1.0 },
        ("zipf", &[exponent]) => KeyLaw::Zipf { exponent },
        ("gaussian", []) => KeyLaw::Gaussian { mean: 0.5, deviation: 1.0 / 6.0 },
        ("gaussian", &[mean, deviation]) => KeyLaw::Gaussian { mean, deviation },
        ("hot", &[keys, draws]) => KeyLaw::Hot { keys, draws },
        _ => return Err(wrong()),
    };
    law.check()?;
    Ok(law)
}

/// `4096`, `4KiB`, a range `100-200`, a list `32:9,4096:1`, `exp:500`, `etc`.
///
/// # Errors
/// Names the text and how it should look.
pub fn size_law(text: &str) -> Result<SizeLaw, Mistake> {
    let wrong = || {
        let hint = "write 4096, 4KiB, a range 100-200, a list 32:9,4096:1, exp:500 or etc";
        Mistake::new(format!("`{text}` is no size"), hint)
    };
    let law = if text == "etc" {
        SizeLaw::Etc
    } else if let Some(mean) = text.strip_prefix("exp:") {
        SizeLaw::Exponential { mean: parse_size(mean).map_err(|_| wrong())? as f64, most: 1_000_000 }
    } else if text.contains(':') {
        let pair = |one: &str| {
            let (size, weight) = one.split_once(':')?;
            Some((parse_size(size).ok()?, weight.parse().ok()?))
        };
        SizeLaw::Listed(text.split(',').map(pair).collect::<Option<_>>().ok_or_else(wrong)?)
    } else if let Some((from, to)) = text.split_once('-') {
        let size = |text: &str| parse_size(text).map_err(|_| wrong());
        SizeLaw::Uniform { from: size(from)?, to: size(to)? }
    } else {
        SizeLaw::Fixed(parse_size(text).map_err(|_| wrong())?)
    };
    law.check()?;
    debug_assert!(law.most() <= LARGEST_VALUE, "checked");
    Ok(law)
}

/// `16`, a range `16-40`, a list `16:9,40:1`, `etc`.
///
/// # Errors
/// Names the text and how it should look.
pub fn key_size(text: &str) -> Result<KeySize, Mistake> {
    let wrong = || {
        let hint = "write 16, a range 16-40, a list 16:9,40:1 or etc, up to 250 bytes";
        Mistake::new(format!("`{text}` is no size of keys"), hint)
    };
    let size = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
    let law = if text == "etc" {
        KeySize::Law(KeySizeLaw::Etc)
    } else if text.contains(':') {
        let pair = |one: &str| {
            let (size, weight) = one.split_once(':')?;
            Some((size.trim().parse().ok()?, weight.trim().parse().ok()?))
        };
        KeySize::Law(KeySizeLaw::Listed(text.split(',').map(pair).collect::<Option<_>>().ok_or_else(wrong)?))
    } else if let Some((from, to)) = text.split_once('-') {
        KeySize::Law(KeySizeLaw::Uniform { from: size(from)?, to: size(to)? })
    } else {
        KeySize::Fixed(size(text)?)
    };
    law.check()?;
    Ok(law)
}

/// How fast a trace is sent: `1`, `2.5`, `max`.
///
/// # Errors
/// Names the text.
pub fn speed(text: &str) -> Result<Speed, Mistake> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(Speed::Fastest),
        Ok(times) if times > 0.0 && times.is_finite() => Ok(Speed::Times(times)),
        _ => Err(Mistake::new(
            format!("`{text}` is no speed"),
            "write how many times as fast, like 2.5, or max",
        )),
    }
}

/// `SETS:GETS`, as `1:10`.
///
/// # Errors
/// Names the text and how it should look.
pub fn ratio(text: &str) -> Result<Mix, Mistake> {
    let parsed = text.split_once(':').and_then(|(sets, gets)| Some((sets.parse().ok()?, gets.parse().ok()?)));
    match parsed {
        Some((0, 0)) => Err("a ratio of 0:0 sends nothing".into()),
        Some((sets, gets)) if sets <= 1_000_000 && gets <= 1_000_000 => Ok(Mix::Ratio { sets, gets }),
        _ => Err(Mistake::new(format!("`{text}` is no ratio of SETs to GETs"), "write it like 1:10")),
    }
}

/// `get=9,set=1`: commands and their weights.
///
/// # Errors
/// Names the part that is wrong.
pub fn mix(text: &str) -> Result<Mix, Mistake> {
    let mut weights: Vec<(Command, f64)> = Vec::new();
    for part in text.split(',') {
        let (name, weight) = part
            .split_once('=')
            .ok_or_else(|| Mistake::new(format!("`{part}` is no weight"), "write it like get=9,set=1"))?;
        let command = Command::from_name(name).ok_or_else(|| {
            let known = Command::ALL.iter().map(|command| command.name());
            Mistake::none_of(format!("`{name}` is no command"), name, known)
        })?;
        let weight: f64 =
            weight.parse().map_err(|_| Mistake::plain(format!("`{weight}` is no weight for {name}")))?;
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(Mistake::plain(format!("the weight of {name} is {weight}, not 0 or more")));
        }
        if weights.iter().any(|(other, _)| *other == command) {
            return Err(Mistake::plain(format!("{name} has two weights")));
        }
        weights.push((command, weight));
    }
    Ok(Mix::Weights(weights))
}

/// `10ms`, or `exp:10ms` for an exponential think time of this mean.
///
/// # Errors
/// Names the text.
pub fn think(text: &str) -> Result<Think, Mistake> {
    Ok(match text.strip_prefix("exp:") {
        Some(mean) => Think::Exponential(parse_duration(mean)?),
        None => match parse_duration(text)? {
            0.0 => Think::None,
            seconds => Think::Fixed(seconds),
        },
    })
}

/// `A` or `A-B`, in seconds, 30 days at most: between which expiry times are drawn.
///
/// # Errors
/// Names the text, or what is wrong with the times.
pub fn expiry(text: &str) -> Result<(i32, i32), Mistake> {
    let wrong = || {
        Mistake::new(format!("`{text}` is no expiry time"), "write seconds like 60, or a range like 60-120")
    };
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let from: i32 = from.parse().map_err(|_| wrong())?;
    let to: i32 = to.parse().map_err(|_| wrong())?;
    check_expiry((from, to))?;
    Ok((from, to))
}

/// `1000`, or legs one after the other: `1000x10s` holds a rate, `1000-5000x30s` is a ramp; parted
/// by commas. The last alone may have no length: it goes on.
///
/// # Errors
/// Names the part that is wrong.
pub fn rate(text: &str) -> Result<Vec<Leg>, Mistake> {
    let legs = text.split(',').map(leg).collect::<Result<Vec<_>, _>>()?;
    if let Some((before, _)) = text.rsplit_once(',')
        && let Some(part) = before.split(',').find(|part| !part.contains('x'))
    {
        let what = format!("`{part}` in the rate `{text}` does not say for how long");
        let hint = format!("only the last part goes on: write {part}x10s; a number has no comma in it");
        return Err(Mistake::new(what, hint));
    }
    Ok(legs)
}

fn leg(text: &str) -> Result<Leg, Mistake> {
    let wrong = || {
        let hint = "write requests per second like 1000 or 20k, a step 1000x10s or a ramp 1000-5000x30s";
        Mistake::new(format!("`{text}` is no rate"), hint)
    };
    let number = |text: &str| parse_rate(&text.replace(' ', "")).map(PerSecond).map_err(|_| wrong());
    let (rates, seconds): (&str, Seconds) = match text.split_once('x') {
        Some((rates, length)) => (rates, parse_duration(length).map_err(|_| wrong())?),
        None => (text, 0.0),
    };
    let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
    let leg = Leg { from: number(from)?, to: number(to)?, seconds };
    if leg.from != leg.to && leg.seconds == 0.0 { Err(wrong()) } else { Ok(leg) }
}

/// `paced`, `poisson`, `bursty:FACTOR:SHARE:LENGTH`.
///
/// # Errors
/// Names the text.
pub fn process(text: &str) -> Result<ArrivalProcess, Mistake> {
    let wrong = || {
        let forms = "write paced, poisson or bursty:5:0.1:200ms";
        near(format!("`{text}` is no arrival process"), text, &["paced", "poisson", "bursty"], forms)
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        ["paced"] => Ok(ArrivalProcess::Paced),
        ["poisson"] => Ok(ArrivalProcess::Poisson),
        ["bursty", factor, share, length] => Ok(ArrivalProcess::Bursty {
            factor: factor.parse().map_err(|_| wrong())?,
            share: share.parse().map_err(|_| wrong())?,
            length: parse_duration(length).map_err(|_| wrong())?,
        }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn laws_read_as_people_write_them() {
        assert_eq!(key_law("zipf:0.99"), Ok(KeyLaw::Zipf { exponent: 0.99 }));
        assert_eq!(key_law("hot:0.1:0.9"), Ok(KeyLaw::Hot { keys: 0.1, draws: 0.9 }));
        assert_eq!(size_law("4KiB"), Ok(SizeLaw::Fixed(4_096)));
        assert_eq!(size_law("100-200"), Ok(SizeLaw::Uniform { from: 100, to: 200 }));
        assert_eq!(size_law("32:9,1k:1"), Ok(SizeLaw::Listed(vec![(32, 9.0), (1_024, 1.0)])));
        assert_eq!(size_law("exp:500"), Ok(SizeLaw::Exponential { mean: 500.0, most: 1_000_000 }));
        assert_eq!(ratio("1:10"), Ok(Mix::Ratio { sets: 1, gets: 10 }));
        assert_eq!(mix("get=9,set=1"), Ok(Mix::Weights(vec![(Command::Get, 9.0), (Command::Set, 1.0)])));
        assert_eq!(think("exp:10ms"), Ok(Think::Exponential(0.01)));
        assert_eq!(think("0"), Ok(Think::None));
        assert_eq!(expiry("60-120"), Ok((60, 120)));
        assert_eq!(
            process("bursty:5:0.1:200ms"),
            Ok(ArrivalProcess::Bursty { factor: 5.0, share: 0.1, length: 0.2 })
        );
        let legs = rate("1000x10s,1000-5000x1m").unwrap();
        assert_eq!(legs[1], Leg { from: PerSecond(1_000.0), to: PerSecond(5_000.0), seconds: 60.0 });
        assert_eq!(rate("2500").unwrap()[0].to, PerSecond(2_500.0));
        assert_eq!(rate("1000x10s,5000").unwrap()[1].to, PerSecond(5_000.0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(key_law("zpif:1").unwrap_err().what.contains("`zpif:1`"));
        assert!(size_law("big").unwrap_err().what.contains("`big`"));
        assert!(size_law("9-3").unwrap_err().what.contains("9-3"));
        assert!(ratio("1").unwrap_err().what.contains("`1`"));
        assert!(ratio("0:0").is_err());
        assert!(mix("got=1").unwrap_err().what.contains("`got`"));
        assert!(mix("get=1,get=2").unwrap_err().what.contains("two weights"));
        assert!(rate("1-2").unwrap_err().what.contains("`1-2`"));
        assert!(rate("fast").is_err());
        for (text, endless) in [("20,500", "`20`"), ("1,000,000", "`1`"), ("1000,5000x10s", "`1000`")] {
            assert!(rate(text).unwrap_err().what.starts_with(endless), "{text}");
        }
        assert!(size_law("exp:1MiB").unwrap_err().what.contains("cut at 1000000"));
        assert!(process("poison").unwrap_err().what.contains("`poison`"));
        assert!(expiry("9-1").is_err());
        assert_eq!(expiry("0-2592000"), Ok((0, 2_592_000)));
        for point in ["2592001", "2500000-2700000", "2147483647"] {
            assert!(expiry(point).unwrap_err().what.contains("point in time"), "{point}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_readers_panic(text in "[a-z0-9:.,=x-]{0,24}") {
            let _ = (key_law(&text), size_law(&text), ratio(&text), mix(&text), think(&text));
            let _ = (expiry(&text), rate(&text), process(&text));
        }
    }
}
