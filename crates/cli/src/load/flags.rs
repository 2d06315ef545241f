//! The flags of `krarup load` that are keys of its file too: made from the one table of both.

use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use krarup_load::settings::{KEYS, SettingKey};

/// What flags said, by the names of their keys.
#[derive(Clone, Debug)]
pub(super) struct LoadFlags(Vec<(&'static str, String)>);

impl LoadFlags {
    /// Key and text of each flag that was given.
    pub(super) fn said(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.0.iter().cloned()
    }
}

/// Keys that make sense on the command line: a share is one class's.
fn keys() -> impl Iterator<Item = &'static SettingKey> {
    KEYS.iter().filter(|key| key.name != "share")
}

/// The names of all flags, in the order of the keys: clap wants them for ever.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| keys().map(SettingKey::flag).collect());

fn arg((key, name): (&'static SettingKey, &'static String)) -> Arg {
    let shown = if key.default.is_empty() { String::new() } else { format!(" [default: {}]", key.default) };
    let arg = Arg::new(key.name).long(name.as_str()).help(format!("{}{shown}", key.about));
    let arg = key.short.map_or(arg.clone(), |letter| arg.short(letter));
    match key.name {
        _ if key.value.is_empty() => arg.action(ArgAction::SetTrue),
        "servers" => arg.visible_alias("server").value_name(key.value).action(ArgAction::Append),
        _ => arg.value_name(key.value),
    }
}

impl Args for LoadFlags {
    fn augment_args(command: Command) -> Command {
        command.args(keys().zip(NAMES.iter()).map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LoadFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let said = |key: &'static SettingKey| {
            let text = if key.value.is_empty() {
                matches.get_flag(key.name).then(|| "true".to_owned())
            } else {
                let texts = matches.get_many::<String>(key.name);
                texts.map(|texts| texts.map(String::as_str).collect::<Vec<_>>().join(","))
            };
            Some((key.name, text?))
        };
        Ok(Self(keys().filter_map(said).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
