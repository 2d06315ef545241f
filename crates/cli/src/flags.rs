//! The flags of settings, from their table: name, help, default and bounds.

use std::ffi::OsStr;
use std::net::Ipv6Addr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use krarup_settings::{Flag, Mistake, Mistakes, Setting, SettingsTable, said};
use krarup_units::Address;

/// Which settings of a table are flags of a subcommand: those that have a flag.
pub(crate) trait Chosen: Clone + 'static {
    /// The table.
    type Of: SettingsTable + Clone;
    /// The keys, where they are not all.
    const KEYS: &'static [&'static str] = &[];
}

impl<C: SettingsTable + Clone> Chosen for C {
    type Of = C;
}

/// What was said of them.
#[derive(Clone, Debug)]
pub(crate) struct Flags<S: Chosen>(Vec<(&'static Setting<S::Of>, Vec<String>)>);

impl<S: Chosen> Flags<S> {
    /// Puts what was said over `settings`.
    pub(crate) fn over(&self, settings: &mut S::Of) -> Result<(), Mistakes> {
        self.0.iter().try_for_each(|(row, texts)| said(settings, row, texts))
    }

    /// The settings that were said, each with its texts.
    pub(crate) fn said(&self) -> impl Iterator<Item = (&'static Setting<S::Of>, &[String])> {
        self.0.iter().map(|(row, texts)| (*row, texts.as_slice()))
    }

    /// What was said, over the defaults.
    pub(crate) fn settings(&self) -> S::Of {
        let mut settings = S::Of::default();
        self.over(&mut settings).expect("each value was read when the command line was");
        settings
    }
}

fn rows<S: Chosen>() -> impl Iterator<Item = (&'static Setting<S::Of>, Flag)> {
    let chosen = |row: &Setting<S::Of>| S::KEYS.is_empty() || S::KEYS.contains(&row.key);
    S::Of::ROWS.iter().filter(move |row| chosen(row)).filter_map(|row| Some((row, row.flag?)))
}

fn arg<C: SettingsTable>((row, flag): (&'static Setting<C>, Flag)) -> Arg {
    let default = (row.write)(&C::default()).filter(|text| !["[]", "\"\""].contains(&text.as_str()));
    let default = default.map(|text| format!("default: {}", text.trim_matches('"')));
    let bounds = Some((row.bounds)()).filter(|bounds| !bounds.is_empty());
    let notes = [bounds, default].into_iter().flatten().map(|note| format!(" [{note}]"));
    let help = row.help.concat() + &notes.collect::<String>();
    let arg = Arg::new(row.flag_name()).long(row.flag_name());
    let arg = flag.short.map_or(arg.clone(), |letter| arg.short(letter));
    let arg = flag.alias.map_or(arg.clone(), |alias| arg.visible_alias(alias));
    if flag.value.is_empty() {
        return arg.help(row.help.concat().trim().to_owned()).action(ArgAction::SetTrue);
    }
    let parser = move |text: &str| said(&mut C::default(), row, &[text.to_owned()]).map(|()| text.to_owned());
    let parser = WithWords { parser, words: (row.words)() };
    let arg = arg.help(help.trim().to_owned()).value_name(flag.value).value_parser(parser);
    // Help has them in its text; a reader says itself what is wrong with a negative number.
    let arg = arg.hide_possible_values(true).allow_negative_numbers(true);
    if flag.many { arg.value_delimiter(',').num_args(1..).action(ArgAction::Append) } else { arg }
}

/// A count from `least` to `most`, as it may be written everywhere: `20k`, `1M`.
pub(crate) fn whole<T: TryFrom<u64> + Clone + Send + Sync + 'static>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, Mistake> + Clone {
    move |text| {
        let value = krarup_units::text::parse_count(text)?;
        let why = match value {
            _ if most < u64::from(u32::MAX) => format!("{value} is not from {least} to {most}"),
            small if small < least => format!("{value} is less than {least}"),
            _ => format!("{value} is too many"),
        };
        let fitting = Some(value).filter(|value| (least..=most).contains(value));
        let fitting = fitting.and_then(|value| T::try_from(value).ok());
        fitting.ok_or_else(|| Mistake::plain(why))
    }
}

/// The address that memcached's two flags give: `host` behind -l, and behind -p its port.
///
/// # Errors
/// Behind -l stands something else than a host.
pub(crate) fn address(host: &str, port: u16) -> Result<Address, Mistake> {
    let number = host.split('%').next().unwrap_or_default();
    let is_bare = number.parse::<Ipv6Addr>().is_ok();
    if host.contains('/')
        || (host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) && !is_bare)
    {
        return Err(Mistake::new(
            format!("-l: `{host}` is no address alone"),
            "write it like 127.0.0.1 or ::1, and the port with -p; --listen takes both, or unix:/path",
        ));
    }
    let text = if is_bare { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    text.parse::<Address>().map_err(|why| why.of("-l"))
}

/// Any count that fits.
pub(crate) fn count<T: TryFrom<u64> + Clone + Send + Sync + 'static>(text: &str) -> Result<T, Mistake> {
    whole(0, u64::MAX)(text)
}

/// A parser of values some of which a shell completes; others may be understood too.
#[derive(Clone)]
pub(crate) struct WithWords<P> {
    pub(crate) parser: P,
    pub(crate) words: Vec<&'static str>,
}

impl<P: TypedValueParser> TypedValueParser for WithWords<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, clap::Error> {
        self.parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = self.words.iter().map(|word| PossibleValue::new(*word));
        if self.words.is_empty() { None } else { Some(Box::new(words)) }
    }
}

impl<S: Chosen> Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        command.args(rows::<S>().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Chosen> FromArgMatches for Flags<S> {
    /// # Errors
    /// Some were said, and one that they need was not.
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let texts = |name: &str, flag: Flag| {
            if flag.value.is_empty() {
                return matches.get_flag(name).then(|| vec!["true".to_owned()]);
            }
            Some(matches.get_many::<String>(name)?.cloned().collect())
        };
        let said = |(row, flag): (&'static Setting<S::Of>, Flag)| Some((row, texts(row.flag_name(), flag)?));
        let said: Vec<_> = rows::<S>().filter_map(said).collect();
        match rows::<S>().find(|(row, _)| row.required && !matches.contains_id(row.flag_name())) {
            Some((row, _)) if !said.is_empty() => {
                let what = format!("--{} is needed beside what was given", row.flag_name());
                Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, what))
            }
            _ => Ok(Self(said)),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address_may_be_a_number_of_either_kind_and_nothing_else() {
        for host in ["::1", "[::1]"] {
            assert_eq!(address(host, 9), Ok(Address { host: "::1".into(), port: 9 }));
        }
        assert_eq!(address("cache.example", 9).unwrap().to_string(), "cache.example:9");
        for host in ["127.0.0.1:8", "[::1]:8", "[::1", "/run/k.sock", "unix:/run/k.sock", ""] {
            assert!(address(host, 9).unwrap_err().to_string().starts_with("-l: "), "{host}");
        }
    }

    #[test]
    fn a_count_may_have_a_prefix_and_keeps_its_bounds() {
        let read = whole::<u32>(1, 100_000);
        assert_eq!(["20k", "1_000", "7"].map(|text| read(text).unwrap()), [20_000, 1_000, 7]);
        for (text, why) in [("0", "0 is not from 1 to 100000"), ("1M", "1000000 is not from 1 to 100000")] {
            assert_eq!(read(text).unwrap_err().what, why);
        }
        assert_eq!(count::<u64>("1M"), Ok(1_000_000));
        assert_eq!(count::<u32>("5G").unwrap_err().what, "5000000000 is too many");
        assert!(read("many").is_err() && read("1.5").is_err());
    }
}
