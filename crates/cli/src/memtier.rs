//! `krarup memtier`: memtier_benchmark's command line and outputs over krarup's own generator.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::StringValueParser;
use krarup_load::memtier::{self, output};
use krarup_load::{Conductor, LoadError, LoadResult};
use krarup_net::clock::wall;
use krarup_units::mistake::system_words;

use crate::failure::Failure;
use crate::flags::WithWords;
use crate::{load, pages, written};

/// Run a command line written for memtier_benchmark, unchanged.
///
/// Understands the flags for memcached's text protocol, in all of getopt's forms, and writes
/// memtier_benchmark's table and JSON. A link to krarup with the name memtier_benchmark does the
/// same. Response times count from when a request was due.
#[derive(Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct MemtierArgs {
    /// memtier_benchmark's flags, as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS", value_parser = flag(), hide_possible_values = true)]
    flags: Vec<String>,
}

/// Command lines that run.
const EXAMPLES: &str = "Examples:\n  \
    krarup memtier -s 127.0.0.1 -p 11211 -P memcache_text -c 10 -t 2 --test-time 30\n  \
    krarup memtier -p 11211 -P memcache_text --ratio 1:9 --rate-limiting 100 --json-out-file m.json\n  \
    ln -s $(command -v krarup) memtier_benchmark && ./memtier_benchmark --help";

/// The flags by what they decide.
const HELP: &str = "\
Run a command line written for memtier_benchmark, unchanged: its flags for memcached's text
protocol, and its table and JSON.

Usage: krarup memtier -s HOST -p PORT -P memcache_text [flags of memtier_benchmark]

Requests and values:
  -P --protocol=memcache_text  --ratio=SETS:GETS  --multi-key-get
  -d --data-size  --data-size-range  --data-size-list  --expiry-range
  --key-prefix  --key-minimum  --key-maximum  --key-pattern (R G Z S P)
  --key-stddev  --key-median  --key-zipf-exp  --randomize  --distinct-client-seed

When:
  -n --requests (per client, or allkeys)  --test-time  --rate-limiting  -x --run-count

Connections:
  -s --server  -p --port  -S --unix-socket  -c --clients (per thread)  -t --threads  --pipeline
  -a --authenticate=USER:PASSWORD  --reconnect-interval  --tls --cacert --cert --key --sni

Output:
  -o --out-file  --json-out-file  --hide-histogram  --print-percentiles  --print-all-runs
";

/// Any word, of which a shell completes the flags that help names.
fn flag() -> WithWords<StringValueParser> {
    let flags = HELP.split_whitespace().filter(|word| word.starts_with("--"));
    let name = |flag: &'static str| {
        let end = flag.find(|letter: char| !(letter.is_ascii_lowercase() || letter == '-'));
        &flag[..end.unwrap_or(flag.len())]
    };
    WithWords { parser: StringValueParser::new(), words: flags.map(name).collect() }
}

/// Runs the subcommand.
pub(crate) fn run(args: &MemtierArgs) -> Result<(), Failure> {
    run_line(&args.flags)
}

/// The flags, if the program was started by memtier_benchmark's name, as through a link.
pub(crate) fn called_by_its_name() -> Option<Vec<String>> {
    let mut args = std::env::args_os();
    let name = args.next()?;
    (Path::new(&name).file_name()? == "memtier_benchmark")
        .then(|| args.map(|arg| arg.to_string_lossy().into_owned()).collect())
}

/// Runs a command line, without the program's name.
pub(crate) fn run_line(flags: &[String]) -> Result<(), Failure> {
    let mut memtier = memtier::parse(flags).map_err(|error| {
        Failure::from(error).or_hint("krarup memtier --help lists the flags that are understood")
    })?;
    if memtier.help {
        println!("{HELP}\n{}", pages::after_help("memtier", EXAMPLES));
        return Ok(());
    }
    for note in &memtier.notes {
        eprintln!("note: {note}");
    }
    let table_file = written::opened(memtier.out_file.clone())?;
    let json_file = written::opened(memtier.json_out_file.clone())?;
    krarup_net::files::allow_many();
    let mut conductor = Conductor::new(true).map_err(|error| Failure::run(error.to_string()))?;
    let mut results: Vec<LoadResult> = Vec::new();
    for number in 1..=memtier.runs {
        if memtier.randomize {
            memtier.load.seed = wall().0;
            eprintln!("note: the seed of run {number} is {}", memtier.load.seed);
        }
        let result = match conductor.run(&memtier.load, &mut |_| {}) {
            Ok(result) => result,
            // What came before is told.
            Err(LoadError::Interrupted(_)) if !results.is_empty() => break,
            Err(LoadError::Interrupted(why)) => return Err(Failure::stopped(why)),
            Err(error @ LoadError::Config(_)) => return Err(Failure::usage(error.to_string())),
            Err(error) => {
                return Err(Failure::run(error.to_string()).hint("is a memcached listening there?"));
            }
        };
        for warning in &result.warnings {
            eprintln!("warning: {warning}");
        }
        let interrupted = result.interrupted;
        results.push(result);
        if interrupted {
            break;
        }
    }
    let table = output::table(&memtier, &results);
    let told = match table_file {
        Some(opened) => put(opened, &table),
        None => {
            print!("{table}");
            Ok(())
        }
    };
    let json = || format!("{:#}\n", output::json(&memtier, &results));
    let kept = json_file.map_or(Ok(()), |opened| put(opened, &json()));
    Failure::of_both(told, kept)?;
    results.iter().try_for_each(load::verdict)
}

/// Writes to a file that was opened before the run, in the place of what stood there.
fn put((path, mut file): (PathBuf, File), text: &str) -> Result<(), Failure> {
    // A pipe or a device has no length.
    let _ = file.set_len(0);
    file.write_all(text.as_bytes()).map_err(|error| written::unwritten(&path, &system_words(&error)))
}
