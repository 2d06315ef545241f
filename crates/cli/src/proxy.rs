//! `krarup proxy`: a memcached middleware that stamps everything.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::{StringValueParser, TypedValueParser};
use clap::{ArgAction, Args};
use krarup_net::Clock;
use krarup_proxy::config::{KeySpread, PoolConfig, ServerConfig};
use krarup_proxy::engine::Engine;
use krarup_proxy::import::Imported;
use krarup_proxy::topology::PoolSpec;
use krarup_proxy::{Config, Core, Edge, MultiGet, ProxySummary, RowSink, Topology};
use krarup_record::file::rows::{Lane, RowPlan, RowWriter};
use krarup_record::file::{self, FileError, FileProblem};
use krarup_record::{Recorder, ServerVisit, Visit, recorder};
use krarup_serve::MemoryNotice;
use krarup_serve::proxy::configuration::ConfigurationSource;
use krarup_serve::proxy::credentials::check_files;
use krarup_serve::proxy::events::{self, ProxyEnd, ProxyNotice};
use krarup_serve::proxy::threads;
use krarup_units::mistake::system_words;
use krarup_units::{Address, Mistake, Nanos};
use serde::Serialize;

use crate::failure::Failure;
use crate::flags::{Flags, WithWords, address};
use crate::last_steps::LastSteps;
use crate::rows::{self, RowFileArgs, RowKeyArgs, listener};
use crate::{headroom_page, input, limits, output, recorded_headroom};

mod ending;

const UNDERSTOOD: &str = "twemproxy's nutcracker.yml and mcrouter's JSON are understood";
const EVERY_KEY: &str = "krarup proxy --print-config shows every key with its meaning";

/// Stand between memcached clients and servers, and measure where each request spends its time.
///
/// --distribution ketama places each key on one of the servers, with --replicas 2 on two. Without
/// it every server holds a copy of everything: writes go to all, reads to the one that was given
/// the least work. Ends on SIGINT or SIGTERM: finishes what is in flight and prints its statistics.
#[derive(Args, Clone)]
#[command(after_help = "Examples:\n  \
    krarup proxy --servers 10.0.0.1:11211,10.0.0.2:11211,10.0.0.3:11211 --distribution ketama\n  \
    krarup proxy --print-config > krarup.toml && krarup proxy --config krarup.toml\n\n\
    The flags of the classic course middleware work as they are:\n  \
    krarup proxy -l 127.0.0.1 -p 11211 -t 64 -s true -m 127.0.0.1:11212 127.0.0.1:11213")]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    proxy: Flags<Config>,
    #[command(flatten)]
    pool: Flags<PoolConfig>,
    #[command(flatten)]
    edge: Flags<Edge>,
    /// The address to listen on, without its port
    #[arg(short = 'l', value_name = "ADDRESS", conflicts_with = "listen")]
    address: Option<String>,
    /// The port to listen on
    #[arg(short = 'p', value_name = "PORT", conflicts_with = "listen")]
    port: Option<u16>,
    /// Whether a get of several keys is shared out evenly over all servers [default: false]
    #[arg(long, short = 's', value_name = "BOOL", action = ArgAction::Set, value_parser = yes_or_no())]
    sharded: Option<bool>,
    /// A configuration file; flags take precedence over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the configuration that would be used, as a commented file, and end
    #[arg(long)]
    print_config: bool,
    /// Print what another program's configuration is in ours, and end: twemproxy's nutcracker.yml,
    /// or mcrouter's JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "print_config", "check", "stats_dir", "json"])]
    import: Option<PathBuf>,
    /// Check the configuration and end
    #[arg(long, conflicts_with = "print_config")]
    check: bool,
    /// Write windows.csv, histograms and hold times into this directory at the end
    #[arg(long, value_name = "DIR")]
    stats_dir: Option<PathBuf>,
    /// Also write every request's row into rows.parquet there
    #[arg(long, requires = "stats_dir")]
    rows: bool,
    #[command(flatten)]
    row_files: RowFileArgs,
    #[command(flatten)]
    row_keys: RowKeyArgs,
    /// Print the statistics at the end as JSON
    #[arg(long)]
    json: bool,
}

/// A yes or no, of which a shell completes both.
fn yes_or_no() -> WithWords<impl TypedValueParser<Value = bool>> {
    WithWords {
        parser: StringValueParser::new().try_map(|text| parse_bool(&text)),
        words: vec!["true", "false"],
    }
}

/// As the course's own launcher reads it: `true` in any case is true, everything else is false;
/// only that here the rest must be `false`.
fn parse_bool(text: &str) -> Result<bool, Mistake> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Mistake::new(format!("`{text}` is neither"), "write true or false")),
    }
}

impl ProxyArgs {
    /// The file's configuration with the flags over it.
    fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => {
                let name = path.display().to_string();
                let text = input::text(path)
                    .map_err(|why| why.or_hint(format!("krarup proxy --print-config > {name} makes one")))?;
                Config::parse(&text, &name).map_err(|mistakes| Failure::from(mistakes).or_hint(EVERY_KEY))?
            }
            None => Config::default(),
        };
        self.proxy.over(&mut config)?;
        self.pool.over(&mut config.main)?;
        self.places_keys(&config)?;
        let allowed = std::mem::take(&mut config.edge.allow);
        self.edge.over(&mut config.edge)?;
        // Flags allow more than the file does, not less.
        for command in allowed {
            if config.edge.refuses(command) {
                config.edge.allow.push(command);
            }
        }
        if self.address.is_some() || self.port.is_some() {
            config.listen = self.over_listener(config.listen)?;
        }
        if let Some(sharded) = self.sharded {
            config.main.multi_get = if sharded { MultiGet::Sharded } else { MultiGet::Whole };
        }
        Ok(config)
    }

    /// The address to listen on where -l or -p is given, over the one that is configured.
    fn over_listener(&self, configured: Address) -> Result<Address, Mistake> {
        // A unix socket has neither an address nor a port.
        let base = if configured.file().is_some() { Config::default().listen } else { configured };
        let port = self.port.unwrap_or(base.port);
        match &self.address {
            Some(host) => address(host, port),
            None => Ok(Address { port, ..base }),
        }
    }
}

impl ProxyArgs {
    /// What the rows, or the folder of rows, are called in the directory of statistics.
    fn rows_name(&self) -> &'static str {
        if self.row_files.are_several() { rows::ROWS_FOLDER } else { rows::ROWS }
    }

    fn row_plan(&self, folder: &Path, config: &Config) -> RowPlan {
        let plan = self.row_files.plan(folder.join(self.rows_name()), || listener(&config.listen));
        self.row_keys.over(plan)
    }

    /// Begins to write the rows of all `cores`, if there are to be any.
    fn begin_rows(
        &self,
        config: &Config,
        run: file::RunMetadata,
        clock: Clock,
        cores: &mut [Core],
    ) -> Result<Option<RowWriter>, Failure> {
        let Some(folder) = self.stats_dir.as_deref().filter(|_| self.rows) else { return Ok(None) };
        let plan = self.row_plan(folder, config);
        let (now, epoch) = (move || clock.now(), move || clock.wall_epoch_now());
        let begun = RowWriter::begin(&plan, (run, false), now, epoch).map_err(|error| {
            Failure::usage(error.to_string()).hint("choose another directory with --stats-dir")
        })?;
        let of = cores.len() as u16;
        for (place, core) in cores.iter_mut().enumerate() {
            core.keep_rows(Box::new(Rows(begun.lane())), place as u16, of);
        }
        Ok(Some(begun))
    }

    /// A flag that sets something, if there is one.
    fn setting(&self) -> Option<String> {
        let of_proxy = self.proxy.said().map(|(row, _)| row.flag_name());
        let of_pool = self.pool.said().map(|(row, _)| row.flag_name());
        let of_edge = self.edge.said().map(|(row, _)| row.flag_name());
        let mut named = of_proxy.chain(of_pool).chain(of_edge);
        let others = [
            ("-l", self.address.is_some()),
            ("-p", self.port.is_some()),
            ("--sharded", self.sharded.is_some()),
        ];
        let other = others.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned());
        named.next().map(|name| format!("--{name}")).or(other)
    }

    /// Whether a flag gives the main pool's `key`.
    fn says(&self, key: &str) -> bool {
        self.pool.said().any(|(row, _)| row.key == key)
    }

    /// Flags for keys that are placed are of no use where every server holds all of them.
    fn places_keys(&self, config: &Config) -> Result<(), Failure> {
        match ["replicas", "hash"].into_iter().find(|key| self.says(key)) {
            Some(key) if config.main.distribution == KeySpread::All => {
                let what = format!("--{key} places keys, and every server holds a copy of everything");
                Err(Failure::usage(what).hint("--distribution says by what they are placed, as ketama"))
            }
            _ => Ok(()),
        }
    }

    /// Where keys lie, line by line.
    fn places(&self, config: &Config, topology: &Topology) -> Vec<String> {
        let mut lines = Vec::new();
        for pool in counted_pools(config, topology) {
            let of = if topology.pools.len() > 1 { format!("pool {}: ", pool.name) } else { String::new() };
            lines.push(format!("{of}{}", pool.in_words()));
            // Not what several caches are usually for, and not what was asked for either.
            let by_default = self.config.is_none() && !self.says("distribution");
            if by_default && pool.placement.is_none() && pool.servers.len() > 1 {
                lines.push(
                    "  hint: --distribution ketama places each key on one server, --replicas 2 beside it on two"
                        .to_owned(),
                );
            }
        }
        lines
    }
}

/// Tells notices, and where keys lie before the first address at which clients can connect: a proxy
/// that cannot begin has nothing to say but why. From then on it `listens`.
fn telling_places(mut places: Vec<String>, listens: Arc<AtomicBool>) -> impl FnMut(ProxyNotice) {
    move |notice| {
        if matches!(notice, ProxyNotice::Listening(_)) {
            listens.store(true, Ordering::Relaxed);
            places.drain(..).for_each(|line| eprintln!("{line}"));
        }
        tell(notice);
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: &ProxyArgs) -> Result<(), Failure> {
    if let Some(path) = &args.import {
        return import(args, path);
    }
    // A name service may be slow: a reload that is asked for meanwhile is done later.
    krarup_net::signal::keep_reloads()
        .map_err(|error| Failure::run(format!("signals cannot be heard: {error}")))?;
    let config = args.config()?;
    if args.print_config {
        print!("{}", config.commented());
        return Ok(());
    }
    config.check().map_err(|mistakes| Failure::from(mistakes).or_hint(EVERY_KEY))?;
    config.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    if args.check {
        return tell_about(args, &config);
    }
    check_files(&config.edge).map_err(|why| Failure::usage(why).or_hint(EVERY_KEY))?;
    if let Some(folder) = &args.stats_dir {
        // Now, and not after a long run.
        fs::create_dir_all(folder).map_err(|error| {
            Failure::usage(format!("{} cannot be made: {}", folder.display(), system_words(&error)))
                .hint("choose another directory with --stats-dir")
        })?;
    }
    output::begin_service();
    krarup_net::files::allow_many();
    let own = args.clone();
    let again = move || {
        let config = own.config().map_err(|failure| failure.messages())?;
        config.check()?;
        Ok(config)
    };
    let missing =
        |why: &Mistake| eprintln!("warning: {why}; it is looked up again every {}", config.resolve_every);
    let source = ConfigurationSource::new(config.clone(), args.config.clone(), again, missing);
    let source = source.map_err(|why| {
        Failure::usage(why).or_hint("an address in numbers, such as 127.0.0.1:11211, needs no name service")
    })?;
    let config = &source.resolved.config;
    let clock = Clock::start();
    let topology = config.topology().map_err(Failure::usage)?;
    let listens = Arc::<AtomicBool>::default();
    let tell = telling_places(args.places(config, &topology), Arc::clone(&listens));
    let mut settings = config.settings();
    settings.unix = clock.wall_epoch().0 / 1_000_000_000;
    settings.run_id = clock.run_id();
    let core = || {
        let recorder =
            Recorder::new(recorder::RecorderSettings::default()).expect("the default settings are valid");
        Core::new(settings.clone(), topology.clone(), recorder, clock.now())
    };
    let mut cores: Vec<Core> = std::iter::repeat_with(core).take(config.threads).collect();
    let run = file::RunMetadata { epoch_unix: clock.wall_epoch() };
    let writer = args.begin_rows(config, run, clock, &mut cores)?;
    let ended = match config.engine {
        Engine::Events => {
            events::run(source, cores, clock, |answer| headroom_page::page(answer, "this proxy"), tell)
        }
        Engine::Threads => threads::run(config, cores.pop().expect("there is one"), clock, tell),
    };
    let keep = || writer.map_or(Ok(()), |writer| rows::finish(writer, args.rows_name()));
    let mut ended = match ended {
        Ok(ended) => ended,
        Err(why) if listens.load(Ordering::Relaxed) => {
            return Failure::of_both(Err(Failure::run(why)), keep());
        }
        // What an earlier run has written stays.
        Err(why) => return Err(Failure::beginning(why)),
    };
    let _until_written = LastSteps::begin();
    ended.core.end_rows();
    let mut summary = ProxySummary::of(&ended.core, ended.stopped);
    summary.run.cpu_seconds = krarup_lab::platform::cpu_time(std::process::id()).map(Nanos::as_seconds);
    summary.run.cores = Some(krarup_lab::platform::Platform::this().cores);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&summary).expect("a summary is plain data"));
    } else {
        print!("{}", ending::statistics(&summary));
    }
    let folder = args.stats_dir.as_deref();
    let saved = folder.map_or(Ok(()), |folder| save_statistics(folder, ended, &summary, run));
    Failure::of_both(saved, keep())
}

/// Writes what was recorded, its summary, and what is said of the headroom at the end, into a
/// folder.
fn save_statistics(
    folder: &Path,
    ended: ProxyEnd,
    summary: &ProxySummary,
    run: file::RunMetadata,
) -> Result<(), Failure> {
    let ProxyEnd { core, traffic, system, .. } = ended;
    let headroom = recorded_headroom::at_end(traffic, &system);
    file::save_all(folder, core.recorder(), run)
        .and_then(|()| save_json(&folder.join("summary.json"), summary))
        .and_then(|()| save_json(&folder.join(recorded_headroom::AT_END), &headroom))
        .map_err(|error| Failure::run(format!("the statistics cannot be written: {error}")))?;
    eprintln!("statistics in {}", folder.display());
    Ok(())
}

pub(crate) fn save_json(file: &Path, what: &impl Serialize) -> Result<(), FileError> {
    file::save(file, |out| {
        serde_json::to_writer_pretty(out, what).map_err(|error| FileProblem::Io(error.into()))
    })
}

/// Says what a configuration that is good will do, and warns.
fn tell_about(args: &ProxyArgs, config: &Config) -> Result<(), Failure> {
    let files = config.edge.files().into_iter().chain(config.redline_lock.as_deref());
    for file in files.filter(|file| file.is_relative()) {
        eprintln!(
            "warning: {} is another file where the proxy is started elsewhere; write its whole path",
            file.display()
        );
    }
    for warning in check_files(&config.edge).map_err(Failure::usage)? {
        eprintln!("warning: {warning}");
    }
    eprintln!("the configuration is good: {}, clients on {}", servers_in_words(config), config.listen);
    let topology = config.topology().expect("the configuration was checked");
    args.places(config, &topology).iter().for_each(|line| eprintln!("{line}"));
    tell_shares(config, &topology);
    Ok(())
}

/// How many servers there are, as far as that is known before names are looked up.
fn servers_in_words(config: &Config) -> String {
    let pools = config.all_pools();
    let servers = pools.iter().flat_map(|(_, pool)| &pool.servers);
    let many: Vec<&Address> = servers.filter(|one| one.is_many()).map(|one| &one.address).collect();
    let (many, counted): (Vec<Address>, Vec<Address>) =
        config.addresses().into_iter().partition(|address| many.contains(&address));
    let count = match counted.len() {
        0 => None,
        1 => Some("1 server".to_owned()),
        count => Some(format!("{count} servers")),
    };
    let many = many.iter().map(|name| format!("as many servers as {name} stands for when it is looked up"));
    count.into_iter().chain(many).collect::<Vec<_>>().join(" and ")
}

/// The pools that have as many servers as they name. How the others share out keys is not known
/// before names are looked up.
fn counted_pools<'a>(config: &Config, topology: &'a Topology) -> Vec<&'a PoolSpec> {
    let pools = topology.pools.iter().zip(config.all_pools());
    let counted = pools.filter(|(_, (_, pool))| !pool.servers.iter().any(ServerConfig::is_many));
    counted.map(|(spec, _)| spec).collect()
}

/// Tells how the keys of each pool are shared out, on stderr.
fn tell_shares(config: &Config, topology: &Topology) {
    for pool in counted_pools(config, topology) {
        let Some(placement) = &pool.placement else { continue };
        let shares = placement.shares();
        let names = pool.servers.iter().map(|&server| &topology.servers[server]);
        let told = names.clone().zip(&shares).map(|(name, share)| format!("{name} {:.1} %", share * 100.0));
        eprintln!("pool {}: {}", pool.name, told.collect::<Vec<_>>().join(", "));
        for (name, _) in names.zip(&shares).filter(|(_, share)| **share == 0.0) {
            eprintln!(
                "warning: {name} gets no keys: its weight is too small beside the others', or the hash function has too few bits for a ring (crc32 has 15)"
            );
        }
    }
}

/// Prints the configuration that another program's is in ours; what works otherwise is also said.
fn import(args: &ProxyArgs, path: &Path) -> Result<(), Failure> {
    let name = path.display();
    if let Some(flag) = args.setting() {
        let what = format!("--import prints what {name} says, and {flag} would not be in it");
        return Err(Failure::usage(what).hint(format!("leave out {flag}, and set it in what is printed")));
    }
    let text = input::text(path).map_err(|why| why.or_hint(UNDERSTOOD))?;
    let imported =
        Imported::read(&text).map_err(|why| Failure::usage(why.of(&name.to_string())).or_hint(UNDERSTOOD))?;
    print!("{}", imported.toml());
    for note in &imported.notes {
        eprintln!("note: {note}");
    }
    Ok(())
}

/// Rows on their way to the file.
struct Rows(Lane);

impl RowSink for Rows {
    fn row(&mut self, visit: &Visit, servers: &[ServerVisit], _: usize) {
        self.0.push(visit, servers);
    }

    fn late(&mut self, _: &ServerVisit) {
        self.0.apart();
    }

    fn detached(&mut self, _: &ServerVisit) {
        self.0.apart();
    }
}

/// Tells the operator, on stderr.
fn tell(notice: ProxyNotice) {
    match notice {
        ProxyNotice::Listening(address) => eprintln!("listening on {address}"),
        ProxyNotice::Admin(address) => {
            eprintln!("metrics on http://{address}/metrics");
            if !address.is_local() {
                eprintln!(
                    "warning: every client that reaches {address} can read them; the admin address knows no password"
                );
            }
        }
        ProxyNotice::ServerUp(name) => eprintln!("server {name} is up"),
        ProxyNotice::ServerDown(name, why) => {
            eprintln!("warning: server {name} is down: {why}; requests to it are answered with SERVER_ERROR");
        }
        ProxyNotice::AnswerRefused(name, why) => eprintln!(
            "warning: a connection to server {name} was closed for its answer: {why}; what was asked on it is answered with SERVER_ERROR"
        ),
        ProxyNotice::Draining => {
            eprintln!("draining: clients that are connected are served until they leave");
        }
        ProxyNotice::Stopping => eprintln!("stopping: finishing what is in flight"),
        ProxyNotice::Unfinished(requests) => {
            eprintln!("warning: {requests} requests were not finished within the limit");
        }
        ProxyNotice::Open(address) => eprintln!(
            "warning: every client that reaches {address} can read and change everything; `users` or `tls` under [edge] in the configuration \
             ask who connects"
        ),
        ProxyNotice::Cut(client, bytes) => limits::tell_memory(MemoryNotice::Cut(client, bytes)),
        ProxyNotice::MemoryShort(memory) => eprintln!(
            "warning: clients wait for memory: long requests do not fit into their half of an event loop's share of `memory` under [edge] \
             ({memory} bytes for all loops), or its buffers are full; small requests pass, /ready answers 503"
        ),
        ProxyNotice::MemoryEnough(cut) => limits::tell_memory(MemoryNotice::Enough(cut)),
        ProxyNotice::Warning(what) => eprintln!("warning: {what}"),
        ProxyNotice::Reloaded => eprintln!("the configuration was read again and holds from now on"),
        ProxyNotice::NotReloaded(why) => {
            eprintln!("warning: another configuration is not taken over: {why}; the one before goes on");
        }
        ProxyNotice::NotAccepting(why) => eprintln!("warning: cannot accept clients: {why}"),
    }
}
