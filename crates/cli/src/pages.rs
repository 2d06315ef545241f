//! What all commands have in their help, and `krarup man` and `krarup completions`, from the same
//! table as the flags themselves.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use krarup_units::Mistake;

use crate::failure::Failure;
use crate::manual;

/// Write the man pages, one for each subcommand, into a directory.
#[derive(Args)]
#[command(after_help = "Example:\n  krarup man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The directory; made if it does not exist
    #[arg(value_name = "DIR", default_value = "man")]
    directory: PathBuf,
}

/// Print the completions for a shell.
#[derive(Args)]
#[command(after_help = "Example:\n  krarup completions bash > /etc/bash_completion.d/krarup")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Under which heading a flag stands in help where a command has many; the others say what is done
/// and stand first, without one.
const HEADINGS: &[(&str, &[&str])] = &[
    (
        "When",
        &[
            "rate",
            "read-rate",
            "arrivals",
            "think",
            "seconds",
            "requests",
            "warm-up",
            "cool-down",
            "start-at",
            "no-clock-check",
            "drain",
            "give-up",
            "timeout",
            "find-max",
            "repetitions",
            "replay",
            "replay-speed",
            "over",
            "step",
            "from",
            "to",
            "shutdown-limit",
            "until-stated",
            "every",
            "looks",
            "once",
        ],
    ),
    (
        "Connections",
        &[
            "listen",
            "address",
            "host",
            "port",
            "servers",
            "memcached-listen",
            "advertise",
            "admin",
            "connections",
            "pipeline",
            "threads",
            "spread",
            "connect-timeout",
            "reconnect-after",
            "login",
            "secret",
            "tls-authorities",
            "tls-certificate",
            "tls-key",
            "tls-name",
            "tls-client-authorities",
            "socket-mode",
            "backlog",
            "idle-timeout",
            "handshake-timeout",
            "buffer-memory",
            "allow",
        ],
    ),
    (
        "Output",
        &[
            "json",
            "csv",
            "hlog",
            "rows",
            "html",
            "markdown",
            "latex",
            "export",
            "stats-dir",
            "progress",
            "print-config",
            "out",
            "serve",
            "page",
            "color",
        ],
    ),
];

/// A command with more flags than this has headings.
const MANY: usize = 5;

/// The documents that say more about a command.
const DOCUMENTS: &[(&str, &str)] = &[
    ("proxy", "docs/guide/proxy.md, docs/reference/proxy.toml"),
    ("load", "docs/guide/load.md, docs/reference/load.toml"),
    ("memtier", "docs/guide/load.md"),
    ("cache", "docs/guide/cache.md"),
    ("broker", "docs/guide/broker.md, docs/guide/broker-operations.md"),
    ("model", "docs/concepts/queueing.md, docs/prediction.md"),
    ("top", "docs/guide/top.md"),
    ("headroom", "docs/guide/headroom.md, docs/concepts/headroom.md"),
    ("redline", "docs/guide/headroom.md"),
    ("health", "docs/guide/production.md"),
    ("demo", "docs/guide/first-study.md"),
    ("plan", "docs/guide/experiment.md, docs/reference/spec.md"),
    ("run", "docs/guide/experiment.md, docs/reference/spec.md"),
    ("analyze", "docs/reference/records.md, docs/concepts/statistics.md"),
    ("report", "docs/reference/report.md"),
    ("compare", "docs/concepts/statistics.md"),
    ("at", "docs/guide/machines.md"),
    ("man", "docs/guide/install.md, docs/reference/commands.md"),
    ("completions", "docs/guide/install.md"),
];

/// What a reader tries first.
const FIRST: &str = "Examples:\n  krarup demo --quick\n  \
    krarup proxy --servers 127.0.0.1:11212,127.0.0.1:11213 --distribution ketama\n  \
    krarup load --servers 127.0.0.1:11211 --seconds 10";

/// What a command's exit code says. Those of some commands are in their own help.
const EXIT_CODES: &str = "Exit codes: 0 it was done; 1 it could not be carried out; 2 a mistake on the command line or \
    in a file; 130 an experiment was stopped by Ctrl-C, and can go on, or a load before it began. Services (proxy, broker, cache) and load end \
    with 0 on Ctrl-C; headroom, redline and compare --fail-if have 3 for no \
    conclusion, and compare --fail-if 1 for worse.";

/// Adds to help what all commands have: headings, where the documents are, what exit codes say.
pub(crate) fn complete(krarup: Command) -> Command {
    let krarup = krarup.mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        completed(command, &name)
    });
    krarup.after_help(format!("{FIRST}\n\n{EXIT_CODES}\n\nDocuments: README.md, docs/guide, docs/reference"))
}

/// The same for a command and those within it, which have the documents of `document`.
fn completed(command: Command, document: &str) -> Command {
    let command = with_headings(command).mut_subcommands(|command| completed(command, document));
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    command.after_help(after_help(document, &examples))
}

/// What stands below the flags of a command: its examples, in lines that a narrow terminal has room
/// for, and the documents that say more about `command`.
pub(crate) fn after_help(command: &str, examples: &str) -> String {
    let examples: Vec<_> = examples.lines().map(example_in_lines).collect();
    let pages = DOCUMENTS.iter().find(|(name, _)| *name == command);
    let pages = pages.map(|(_, pages)| format!("Documents: {pages}"));
    let blocks = [Some(examples.join("\n")), pages].into_iter().flatten();
    blocks.filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// An example as a shell goes on with a line.
fn example_in_lines(line: &str) -> String {
    const WIDTH: usize = 78;
    if line.chars().count() <= WIDTH || !line.starts_with("  krarup ") {
        return line.to_owned();
    }
    let marked = line.replace(" --", "\n --").replace(" && ", " &&\n ");
    let mut lines = vec![String::new()];
    for part in marked.split('\n') {
        let last = lines.last_mut().expect("there is one");
        let fits = last.chars().count() + part.chars().count() <= WIDTH && !last.ends_with("&&");
        if last.is_empty() || fits {
            last.push_str(part);
        } else {
            if !last.ends_with("&&") {
                last.push_str(" \\");
            }
            lines.push(format!("     {part}"));
        }
    }
    lines.join("\n")
}

/// The flags of a command under their headings, and their negative numbers for their readers.
fn with_headings(command: Command) -> Command {
    let many = command.get_arguments().filter(|arg| arg.get_long().is_some()).count() > MANY;
    command.mut_args(|arg| {
        let name = arg.get_id().as_str().replace('_', "-");
        let heading = HEADINGS.iter().find(|(_, names)| names.contains(&name.as_str()));
        let takes = arg.get_action().takes_values() && !arg.is_positional();
        let arg =
            if takes && !arg.is_allow_hyphen_values_set() { arg.allow_negative_numbers(true) } else { arg };
        match heading {
            Some((heading, _)) if many && !arg.is_positional() => arg.help_heading(*heading),
            _ => arg,
        }
    })
}

/// Writes the man pages.
pub(crate) fn man(args: &ManArgs, krarup: Command) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::run(Mistake::system(&error).of(&args.directory.display().to_string()))
            .hint("give a directory that can be made or written to")
    };
    fs::create_dir_all(&args.directory).map_err(failed)?;
    for (name, page) in manual::pages(krarup) {
        fs::write(args.directory.join(name), page).map_err(failed)?;
    }
    eprintln!(
        "man pages in {}; read one with: man -l {}/krarup-proxy.1",
        args.directory.display(),
        args.directory.display()
    );
    Ok(())
}

/// Prints the completions. A command that help does not list is not among them.
pub(crate) fn completions(args: &CompletionsArgs, krarup: &Command) {
    let listed = krarup.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut listed = Command::new("krarup").version(env!("CARGO_PKG_VERSION")).subcommands(listed);
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut listed, "krarup", &mut text);
    print!("{}", String::from_utf8_lossy(&text));
    if args.shell == Shell::Fish {
        print!("{}", words_for_fish(&listed));
    }
}

/// The words of arguments without a flag, which are left out of the completions for fish.
fn words_for_fish(krarup: &Command) -> String {
    let of_command = |command: &Command| {
        let values = command.get_positionals().flat_map(clap::Arg::get_possible_values);
        let words: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        let name = command.get_name();
        let line = format!(
            "complete -c krarup -n \"__fish_krarup_using_subcommand {name}\" -a \"{}\"\n",
            words.join(" ")
        );
        if words.is_empty() { String::new() } else { line }
    };
    krarup.get_subcommands().map(of_command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_example_goes_on_in_a_further_line_that_a_shell_understands() {
        let short = "  krarup demo --quick";
        assert_eq!(example_in_lines(short), short);
        let long =
            "  krarup proxy --servers 10.0.0.1:11211,10.0.0.2:11211,10.0.0.3:11211 --distribution ketama";
        let servers = "  krarup proxy --servers 10.0.0.1:11211,10.0.0.2:11211,10.0.0.3:11211 \\";
        assert_eq!(example_in_lines(long), format!("{servers}\n      --distribution ketama"));
        let both = format!("  krarup load {} && krarup report results", "x".repeat(60));
        assert_eq!(
            example_in_lines(&both),
            format!("  krarup load {} &&\n      krarup report results", "x".repeat(60))
        );
        let prose = format!("  {}", "word ".repeat(30));
        assert_eq!(example_in_lines(&prose), prose);
    }
}
