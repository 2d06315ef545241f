//! The flags of settings, from their table: name, help, default and bounds.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use krarup_settings::{Flag, Mistakes, Setting, Table, said};

/// What was said of the settings of a table that have flags.
#[derive(Clone, Debug)]
pub(crate) struct Flags<C: 'static>(Vec<(&'static Setting<C>, Vec<String>)>);

impl<C: Table> Flags<C> {
    /// Puts what was said over `settings`.
    pub(crate) fn over(&self, settings: &mut C) -> Result<(), Mistakes> {
        self.0.iter().try_for_each(|(row, texts)| said(settings, row, texts))
    }
}

fn rows<C: Table>() -> impl Iterator<Item = (&'static Setting<C>, Flag)> {
    C::ROWS.iter().filter_map(|row| Some((row, row.flag?)))
}

fn arg<C: Table>((row, flag): (&'static Setting<C>, Flag)) -> Arg {
    let default = (row.write)(&C::default()).filter(|text| text != "[]");
    let notes = [
        Some((row.bounds)()).filter(|bounds| !bounds.is_empty()),
        default.map(|text| format!("default: {}", text.trim_matches('"'))),
    ];
    let notes: Vec<_> = notes.into_iter().flatten().map(|note| format!("[{note}]")).collect();
    let help: String = row.help.concat() + if notes.is_empty() { "" } else { " " } + &notes.join(" ");
    let parser = move |text: &str| said(&mut C::default(), row, &[text.to_owned()]).map(|()| text.to_owned());
    let arg = Arg::new(row.key)
        .long(flag.name)
        .help(help.trim().to_owned())
        .value_name(flag.value)
        .value_parser(parser);
    let arg = flag.short.map_or(arg.clone(), |letter| arg.short(letter));
    if flag.many { arg.value_delimiter(',').num_args(1..).action(ArgAction::Append) } else { arg }
}

impl<C: Table + Clone> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        command.args(rows::<C>().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Table + Clone> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let said = |(row, _): (&'static Setting<C>, Flag)| {
            Some((row, matches.get_many::<String>(row.key)?.cloned().collect()))
        };
        Ok(Self(rows().filter_map(said).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
