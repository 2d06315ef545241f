//! Whether what a spec starts can be started at all: programs that are there, words that they take.
//! It is cheaper to find out before the first trial than in each of them.

use std::collections::{BTreeMap, BTreeSet};

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use krarup_lab::plan::{Plan, PlannedCell};
use krarup_lab::spec::{Program, Spec, StationSpec};
use krarup_lab::testbed::builds::executable;
use krarup_lab::testbed::probe::{memcached, nutcracker, postgres_programs};
use krarup_lab::testbed::twemproxy;
use krarup_store::postgres::Database;
use krarup_units::Address;

use crate::failure::Failure;
use crate::{broker, cache, load, proxy};

/// The programs of ours that a spec may start.
#[derive(Subcommand)]
pub(crate) enum StationJob {
    Proxy(proxy::ProxyArgs),
    Broker(Box<broker::BrokerArgs>),
    Cache(cache::CacheArgs),
    Load(Box<load::LoadArgs>),
}

/// The line that starts one of them.
#[derive(Parser)]
#[command(name = "krarup")]
struct Line {
    #[command(subcommand)]
    job: StationJob,
}

/// Every program must be there. Other machines have programs of their own.
pub(crate) fn programs(spec: &Spec, plan: &Plan) -> Result<(), Failure> {
    if spec.testbed.is_elsewhere() {
        return Ok(());
    }
    each(spec, plan, |_, cell, station| match station.program {
        None => command(cell, station),
        Some(Program::Postgres) if postgres_programs().is_none() => {
            Err(Failure::usage("PostgreSQL is not installed").hint("apt-get install postgresql"))
        }
        Some(Program::Memcached) if memcached().is_none() => {
            Err(Failure::usage("memcached is not installed")
                .hint("install Debian's package memcached, or use the program `cache`"))
        }
        Some(Program::Twemproxy) if nutcracker().is_none() => {
            Err(Failure::usage("twemproxy is not installed")
                .hint("install Debian's package nutcracker, and see that its folder, /usr/sbin, is in PATH"))
        }
        Some(_) => Ok(()),
    })
}

/// Shares must be such as can be given, and programs of ours must take their words, in every cell.
pub(crate) fn words(spec: &Spec, plan: &Plan) -> Result<(), Failure> {
    spec.check_shares()?;
    let mut seen = BTreeSet::new();
    each(spec, plan, |name, cell, station| match station.program {
        // Their words are their own.
        None | Some(Program::Auto | Program::Memcached | Program::Postgres) => Ok(()),
        Some(Program::Twemproxy) => {
            let keys = cell.text(&station.config).unwrap_or_default();
            let nowhere = Address { host: "127.0.0.1".into(), port: 1 };
            twemproxy::check_flags(&cell.render(&station.flags))
                .and_then(|()| twemproxy::configuration(&keys, &nowhere, &[]))
                .map(drop)
                .map_err(Failure::usage)
        }
        Some(Program::Proxy) => taken("proxy", cell.render(&station.flags), &mut seen),
        Some(Program::Broker) if name == "middleware" => {
            let store = ["--store".to_owned(), "postgres://127.0.0.1:1/messages".to_owned()];
            let flags = [&store[..], &cell.render(&station.flags)].concat();
            match parsed("broker", flags)? {
                Some(StationJob::Broker(args)) if cell.count(station, 1) > 1 && !args.shares_queues() => {
                    Err(Failure::usage("of several brokers one owns all queues, and the others wait")
                        .hint("write \"--mode\", \"direct\" in its flags, or \"batch\", or give it --shards"))
                }
                _ => Ok(()),
            }
        }
        Some(Program::Broker) => taken("broker", cell.render(&station.flags), &mut seen),
        Some(Program::Cache) => taken("cache", cell.render(&station.flags), &mut seen),
        Some(Program::Load) => taken("load", load_flags(spec, cell), &mut seen),
    })?;
    distinct_cells(spec, plan)?;
    warn_of_password(spec, plan);
    let Some(populate) = &spec.populate else { return Ok(()) };
    plan.cells.iter().try_for_each(|cell| {
        let flags = [cell.render(&spec.data), cell.render(&populate.flags)].concat();
        taken("load", flags, &mut seen).map_err(|failure| failure.at(&format!("populate, {}", cell.name())))
    })
}

/// What brokers are told is kept, a password too.
fn warn_of_password(spec: &Spec, plan: &Plan) {
    let tells = |cell: &PlannedCell| {
        let brokers = spec.stations().filter(|(_, station)| station.program == Some(Program::Broker));
        let mut words = brokers.flat_map(|(_, station)| cell.render(&station.flags));
        words.any(|word| Database::tells_password(word.strip_prefix("--store=").unwrap_or(&word)))
    };
    if plan.cells.iter().any(tells) {
        Failure::usage("a broker is told a password by --store")
            .hint("--store-file FILE keeps it in a file on the broker's machine")
            .warn("it is kept with every trial, and `krarup report --export` writes it");
    }
}

/// What a load generator of ours is told in a cell.
fn load_flags(spec: &Spec, cell: &PlannedCell) -> Vec<String> {
    [cell.render(&spec.data), cell.render(&spec.stations.clients.flags)].concat()
}

/// Results tell cells apart by their number of clients and by all factors but the population's: a
/// population that sets something else would make two cells one.
fn distinct_cells(spec: &Spec, plan: &Plan) -> Result<(), Failure> {
    let station = &spec.stations.clients;
    let mut known: BTreeMap<(String, u32), &PlannedCell> = BTreeMap::new();
    for cell in &plan.cells {
        let each = match station.program {
            Some(Program::Load) => match parsed("load", load_flags(spec, cell))? {
                Some(StationJob::Load(args)) => load::asked(&args)?.clients(),
                _ => continue,
            },
            _ => cell.each_has(spec),
        };
        let clients = each * cell.count(station, 1);
        let Some(other) = known.insert((plan.label(cell), clients), cell) else { continue };
        let (population, other, cell) = (&spec.population, other.name(), cell.name());
        let what = format!(
            "`{population}` does not set the number of clients: the cells `{other}` and `{cell}` have {clients} of them each"
        );
        return Err(Failure::usage(what).hint(
            "the factor that `population` names is told by that number alone: let it be that of --connections, or give it another name",
        ));
    }
    Ok(())
}

/// The first failure of a station in a cell, with both.
fn each(
    spec: &Spec,
    plan: &Plan,
    mut check: impl FnMut(&str, &PlannedCell, &StationSpec) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for cell in &plan.cells {
        for (name, station) in spec.stations() {
            check(name, cell, station)
                .map_err(|failure| failure.at(&format!("stations.{name}, {}", cell.name())))?;
        }
    }
    Ok(())
}

/// A program that is not ours must be there. One that runs already is none.
fn command(cell: &PlannedCell, station: &StationSpec) -> Result<(), Failure> {
    let words = cell.render(&station.command);
    // A word in braces is filled in later.
    let Some(program) = words.first().filter(|word| !word.contains('{')) else { return Ok(()) };
    if executable(program).is_some() {
        Ok(())
    } else {
        Err(Failure::usage(format!("there is no program `{program}` that can be run"))
            .hint("install it, or write its path; relative ones begin where krarup is run"))
    }
}

/// A subcommand of ours must take its words. Each list of words is looked at once.
fn taken(job: &str, words: Vec<String>, seen: &mut BTreeSet<Vec<String>>) -> Result<(), Failure> {
    if !seen.insert([&[job.to_owned()], &words[..]].concat()) {
        return Ok(());
    }
    match parsed(job, words)? {
        Some(StationJob::Load(args)) => load::asked(&args).map(drop),
        _ => Ok(()),
    }
}

/// What a subcommand of ours makes of its words; none where it lacks some that a trial adds.
fn parsed(job: &str, words: Vec<String>) -> Result<Option<StationJob>, Failure> {
    let mut line = vec!["krarup".to_owned(), job.to_owned()];
    if job == "load" {
        // A trial says which servers it asks.
        line.extend(["--servers".to_owned(), "127.0.0.1:1".to_owned()]);
    }
    line.extend(words);
    match Line::try_parse_from(line) {
        Ok(Line { job }) => Ok(Some(job)),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => Ok(None),
        Err(error) => Err(Failure::command_line(&error, Some(job))),
    }
}
