//! `krarup broker`: durable message queues.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use krarup_broker::queues::Resident;
use krarup_broker::shards::Shard;
use krarup_broker::statistics::ProcessFacts;
use krarup_broker::{Broker, Queues, broker, queues, shared};
use krarup_net::tls::Acceptor;
use krarup_net::{Clock, Listener, listen};
use krarup_serve::broker::engine::{self, Ending, Notice, Protocol, Store};
use krarup_serve::broker::relay::Relay;
use krarup_store::pool;
use krarup_store::postgres::{Owned, Place, Problem, Sharing};
use krarup_units::Address;
use krarup_units::{Bytes, Nanos, text};

use self::records::Records;
use self::signals::{Follows, Signals};
use self::waiting::Reached;
use crate::failure::Failure;
use crate::flags::Flags;
use crate::limits::{BrokerEdge, limits};
use crate::tls::TlsArgs;

mod embedded;
mod ending;
mod records;
mod shards;
mod signals;
mod waiting;

/// Keep messages in queues and hand them out, by beanstalkd's protocol: any beanstalkd client works unchanged.
///
/// Says `listening on ADDRESS` on stderr when clients may connect. On SIGUSR1 it accepts no more messages; on SIGINT or SIGTERM
/// it answers what has arrived, prints its statistics and ends.
#[derive(Args, Clone)]
pub(crate) struct BrokerArgs {
    /// Where clients connect: HOST:PORT or unix:/PATH; port 0 asks the system for a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11300")]
    listen: Address,
    /// Where brokers that wait for their turn reach this one, to which they send their clients on [default: where it listens]
    #[arg(long, value_name = "ADDRESS")]
    advertise: Option<Address>,
    /// Where clients of memcached's protocol connect, which then names queues where it names keys (`get jobs/open`) [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    memcached_listen: Option<Address>,
    /// Where messages are kept: `memory`, from which nothing survives an end, or postgres://USER@HOST/DATABASE, where every answer
    /// means that the message is on disk [default: memory]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Keep messages in a PostgreSQL of our own in this directory, made, started and stopped with the broker
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    postgres_embedded: Option<PathBuf>,
    /// The same in a directory of its own, which is gone with the broker: for experiments
    #[arg(long, conflicts_with_all = ["store", "postgres_embedded"])]
    postgres_temporary: bool,
    /// Who decides over messages in a database: one broker that owns the queues, or the database, asked by any number of brokers
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::Owned)]
    mode: Mode,
    /// Divide the queues into so many shards, in the mode `owned`: each has an owner, and all brokers of this database that are told the same number share
    /// them evenly and serve all clients
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(krarup_broker::shards::MOST)))]
    shards: u32,
    /// Database connections in the mode `direct`, each with one request at a time
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pool: u32,
    /// Memory for all messages, each with 320 bytes beside its body; beyond it a put is answered with OUT_OF_MEMORY
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Bytes,
    /// Memory for messages that wait, in the mode `owned` over a database; beyond it the next of each queue are in memory and the others only in
    /// the database
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    heads: Bytes,
    /// How many messages of a queue are in memory even beyond --heads, and are read from the database at a time
    #[arg(long, value_name = "COUNT", default_value_t = 2_048, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    read_ahead: u32,
    /// The largest message
    #[arg(long, short = 'z', value_name = "SIZE", default_value = "65535")]
    max_message_size: Bytes,
    /// Where monitoring asks over HTTP: /metrics for Prometheus, /health, /ready [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<Address>,
    /// How many clients may be connected at once
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    connections: u32,
    /// How long the key of a put-unique is remembered
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = text::parse_duration)]
    remember_keys: f64,
    /// A file whose first line clients must say with `login NAME SECRET` before anything else
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    edge: Flags<BrokerEdge>,
    /// How long a stop waits for clients to take the answers they are owed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = text::parse_duration)]
    patience: f64,
    /// Write a row for every request into this Parquet file, its stamps with it: what a model is calibrated from
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Write windows.csv, histograms and hold times into this directory at the end
    #[arg(long, value_name = "DIR")]
    stats_dir: Option<PathBuf>,
}

/// Who decides over messages in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// One broker, in its memory; what it has decided is written in batches. The fastest; others wait to take over
    Owned,
    /// The database: waiting requests share a statement and a commit. Any number of brokers
    Batch,
    /// The database: one statement for each request, over a pool of connections. Any number of brokers
    Direct,
}

impl Mode {
    const fn name(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::Batch => "batch",
            Self::Direct => "direct",
        }
    }
}

pub(crate) fn run(args: &BrokerArgs) -> Result<(), Failure> {
    let signals = Signals::listen()?;
    let largest = u32::try_from(args.max_message_size.0)
        .ok()
        .filter(|largest| *largest <= 1 << 30)
        .ok_or_else(|| Failure::usage("--max-message-size is at most 1GiB"))?;
    if let Some(folder) = &args.stats_dir {
        // Now, and not after a long run.
        fs::create_dir_all(folder).map_err(|error| {
            Failure::usage(format!("{} cannot be made: {error}", folder.display()))
                .hint("choose another directory with --stats-dir")
        })?;
    }
    krarup_net::files::allow_many();
    let clock = Clock::start();
    let embedded = match &args.postgres_embedded {
        Some(folder) => Some(embedded::Cluster::start(folder)?),
        None if args.postgres_temporary => Some(embedded::Cluster::temporary()?),
        None => None,
    };
    let url = match (&embedded, args.store.as_deref()) {
        (Some(cluster), _) => Some(cluster.url()),
        (None, None | Some("memory")) => None,
        (None, Some(url)) => Some(url.to_owned()),
    };
    let base = Base {
        clock,
        largest,
        secret: args.secret.as_deref().map(secret).transpose()?,
        tls: args.tls.acceptor()?,
        inherited: listen::inherited(),
        signals,
    };
    if args.shards > 1 {
        return shards::run(args, url.as_deref(), &base);
    }
    if url.is_none() {
        if args.mode != Mode::Owned {
            return Err(Failure::usage(format!("--mode {} needs a database", args.mode.name()))
                .hint("add --store postgres://… or --postgres-embedded DIR"));
        }
        eprintln!("messages are kept in memory: none of them survives the end of this process");
    }
    let place = url.as_deref().map(|url| place(url, largest)).transpose()?;
    let mut records = Records::begin(args, &clock)?;
    // What the system has chosen stays: who waits again and serves again does so where its clients know it.
    let mut args = args.clone();
    let mut reached = Reached::Never;
    while let Some((queues, store, sharing)) = begin(&mut args, place.as_ref(), &base, reached)? {
        reached = Reached::Before;
        let mut ended = serve(&mut args, (queues, store, sharing), &base, &records)?;
        records.add(&mut ended);
        print!("{}", ending::statistics(&ended));
        if !ended.deposed || base.signals.stops() > 0 {
            break;
        }
    }
    records.end(true)
}

/// What all event loops of this process have in common.
struct Base {
    clock: Clock,
    largest: u32,
    secret: Option<String>,
    tls: Option<Acceptor>,
    /// Listening sockets that this process was given: another handle of each goes to whichever serves or waits.
    inherited: Vec<Listener>,
    signals: Signals,
}

impl Base {
    fn inherited(&self) -> Result<Vec<Listener>, Failure> {
        let handles = self.inherited.iter().map(Listener::try_clone).collect::<Result<_, _>>();
        handles.map_err(|error| {
            Failure::run(format!("the listening sockets that were given cannot be used: {error}"))
        })
    }
}

/// What an event loop begins with.
type Begun = (Queues, Option<Store>, Option<shared::SharedSettings>);

/// What there is to serve, as soon as it is this broker's turn; none: a stop was asked for first.
fn begin(
    args: &mut BrokerArgs,
    place: Option<&Place>,
    base: &Base,
    reached: Reached,
) -> Result<Option<Begun>, Failure> {
    let clock = &base.clock;
    let Some(place) = place else {
        return Ok(Some((Queues::new(args.queues(clock, false, Shard::WHOLE)), None, None)));
    };
    if args.mode == Mode::Owned {
        let Some((queues, owned, listen)) = owned(args, place, base, reached)? else { return Ok(None) };
        args.listen = listen;
        return Ok(Some((queues, Some(Store::Owned(owned)), None)));
    }
    let Some(sharing) = share(place, base, reached)? else { return Ok(None) };
    let gathers = args.mode == Mode::Batch;
    let settings = shared::SharedSettings { gathers, number: sharing.number(), memory: args.memory.0 };
    let pool = pool::Settings {
        gathers,
        connections: args.pool,
        remember_keys: Duration::from_secs_f64(args.remember_keys),
    };
    let queues = Queues::new(args.queues(clock, false, Shard::WHOLE));
    Ok(Some((queues, Some(Store::Shared(sharing, pool)), Some(settings))))
}

/// Serves clients until a stop is asked for, or another broker has taken the queues over.
fn serve(
    args: &mut BrokerArgs,
    (queues, store, sharing): Begun,
    base: &Base,
    records: &Records,
) -> Result<engine::Ended, Failure> {
    let settings = broker::BrokerSettings {
        about: about(&base.clock, base.largest, if store.is_some() { args.mode.name() } else { "memory" }),
        largest: base.largest,
        secret: base.secret.clone(),
        processor: krarup_net::cpu::process,
        final_reply: None,
    };
    let mut broker = match sharing {
        None => Broker::new(settings, queues, records::recorder()),
        Some(shared) => Broker::sharing(settings, queues, records::recorder(), shared),
    };
    if let Some(lane) = records.lane() {
        broker.keep_rows(lane);
    }
    let ending = Arc::new(Ending::default());
    base.signals.follow(&ending, Follows::All);
    let settings = engine::Settings {
        listen: args.listen.clone(),
        advertise: args.advertise.clone(),
        memcached: args.memcached_listen.clone(),
        tls: base.tls.clone(),
        socket_mode: args.edge.settings().socket_mode,
        admin: args.admin.clone(),
        connections: args.connections as usize,
        clients: limits(&args.edge.settings()),
        patience: Nanos::from_seconds(args.patience),
        inherited: base.inherited()?,
        ending,
        part: None,
    };
    let asks = args.asks();
    let notice = |notice| {
        match &notice {
            Notice::Listening(address, Protocol::Beanstalkd) => args.listen = address.clone(),
            Notice::Listening(address, Protocol::Memcached) => args.memcached_listen = Some(address.clone()),
            Notice::Admin(address) => args.admin = Some(address.clone()),
            _ => {}
        }
        tell(notice, asks);
    };
    engine::run(settings, broker, store, base.clock, notice).map_err(|why| {
        Failure::usage(why).or_hint("an address in numbers, such as 127.0.0.1:11300, needs no name service")
    })
}

impl BrokerArgs {
    /// Whether clients must say or show who they are.
    fn asks(&self) -> bool {
        self.secret.is_some() || self.tls.asks()
    }

    /// Each shard has its part of the memory.
    fn resident(&self) -> Resident {
        let bytes = self.heads.0.min(self.memory.0 / 2) / u64::from(self.shards);
        Resident { bytes, heads: self.read_ahead as usize }
    }

    fn queues(&self, clock: &Clock, durable: bool, shard: Shard) -> queues::QueueSettings {
        queues::QueueSettings {
            shard,
            memory: self.memory.0 / u64::from(self.shards),
            durable,
            wall: clock.wall_epoch(),
            remember_keys: Nanos::from_seconds(self.remember_keys),
            // Beyond half of the memory there must be room for what comes.
            resident: durable.then_some(self.resident()),
        }
    }
}

/// The queues as they are in the database, once nobody else owns them,
/// and where clients are to find it: where they have been sent on from, if they have. None: a stop was asked for first.
fn owned(
    args: &BrokerArgs,
    place: &Place,
    base: &Base,
    reached: Reached,
) -> Result<Option<(Queues, Owned, Address)>, Failure> {
    let (args, clock) = (args.clone(), base.clock);
    let address = args.listen.to_string();
    let mut given = base.inherited()?.into_iter().next();
    let (mut waiting, mut relay) = (false, None);
    waiting::turn(&base.signals, place, reached, move |place, there| {
        let waits = |owner: &str| {
            there();
            if !std::mem::replace(&mut waiting, true) {
                eprintln!("waiting: the broker at {owner} owns the queues");
                relay = send_on(&args.listen, given.take());
            }
            if let Some(relay) = &relay {
                // One that shares them, or has not said where it is, cannot be asked.
                relay.send_to(owner.parse().ok());
            }
        };
        let mut owned = Owned::take(place.clone(), &address, waits)?;
        let queues = load(&args, &mut owned, &clock)?;
        let listen = relay.take().map(|relay: Relay| relay.address.clone());
        Ok((queues, owned, listen.unwrap_or_else(|| args.listen.clone())))
    })
}

/// What an owner finds, and says that it has.
fn load(args: &BrokerArgs, owned: &mut Owned, clock: &Clock) -> Result<Queues, Problem> {
    let shard = owned.shard();
    let settings = args.queues(clock, true, shard);
    let mut queues = Queues::new(settings);
    let begun = clock.now();
    let mut messages = 0;
    let contents = owned.load(args.resident(), settings.wall + Nanos(begun.0), |row| {
        queues.load(row, begun);
        messages += 1;
    })?;
    for (name, row) in contents.tubes {
        queues.load_tube(&name, row);
    }
    for name in contents.clients {
        queues.load_client(&name);
    }
    for (tube, key, row) in contents.keys {
        queues.load_key(&tube, &key, row);
    }
    queues.ids_from(contents.next_id);
    let mut how = "read";
    if let Some(counts) = contents.counts {
        how = "counted";
        messages = counts.messages;
        queues.set_aside_from(counts.aside_from);
        for (line, count, urgent) in counts.lines {
            queues.load_line(line, count, urgent);
        }
    }
    let took = text::duration((clock.now() - begun).as_seconds());
    let its = if shard.is_whole() { String::new() } else { format!("shard {}: ", shard.number) };
    eprintln!("{its}{messages} messages were there, {how} in {took}; this is owner number {}", owned.epoch());
    Ok(queues)
}

/// Clients that come while another owns the queues are sent on to it.
fn send_on(listen: &Address, given: Option<Listener>) -> Option<Relay> {
    let listener = match given {
        Some(given @ Listener::Tcp(_)) => Ok(given),
        None if listen.file().is_none() => listen::listen(listen).map(Listener::Tcp),
        _ => return None,
    };
    match listener.and_then(Relay::begin) {
        Ok(relay) => {
            eprintln!("clients at {} are sent on to it", relay.address);
            Some(relay)
        }
        Err(why) => {
            eprintln!("warning: clients are not sent on: {why}");
            None
        }
    }
}

/// A share in the queues of a database, once nobody owns them; none: a stop was asked for first.
fn share(place: &Place, base: &Base, reached: Reached) -> Result<Option<Sharing>, Failure> {
    let mut waiting = false;
    let sharing = waiting::turn(&base.signals, place, reached, move |place, there| {
        let waits = |owner: &str| {
            there();
            if !std::mem::replace(&mut waiting, true) {
                eprintln!("waiting: the broker at {owner} owns the queues");
            }
        };
        Sharing::begin(place.clone(), waits)
    })?;
    if let Some(sharing) = &sharing {
        eprintln!("this is number {} of the brokers that have shared the queues", sharing.number());
    }
    Ok(sharing)
}

fn place(url: &str, largest: u32) -> Result<Place, Failure> {
    let place = Place::parse(url).map(|place| place.limited(largest));
    place.map_err(|problem| {
        Failure::usage(problem.to_string())
            .hint("write it like postgres://user:password@127.0.0.1:5432/database, or memory")
    })
}

fn wrong(problem: &Problem) -> Failure {
    let hint = match problem {
        Problem::Address(_) => "write it like postgres://user:password@127.0.0.1:5432/database",
        Problem::Database(_) => "is the server running, and may this user make a schema in this database?",
        Problem::Pooled => {
            "connect to PostgreSQL itself, or set pool_mode = session for this database in pgbouncer"
        }
        Problem::Deposed => "start all brokers of this database in the same mode, with the same --shards",
    };
    Failure::run(problem.to_string()).hint(hint)
}

/// The secret that clients must say.
fn secret(path: &std::path::Path) -> Result<String, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    let line = text.lines().next().unwrap_or_default().trim();
    if krarup_beanstalk::name::name(line.as_bytes()).is_none() {
        return Err(Failure::usage(format!("the first line of {name} is no secret"))
            .hint("1 to 200 letters, digits or -+/;.$_(), a hyphen not first"));
    }
    Ok(line.to_owned())
}

/// What `stats` tells of this process and its machine.
fn about(clock: &Clock, largest: u32, store: &str) -> ProcessFacts {
    let kernel = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .map_or_else(|_| String::new(), |text| text.trim().to_owned())
    };
    ProcessFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        id: format!("{:016x}", clock.wall_epoch().0 ^ u64::from(std::process::id()).rotate_right(16)),
        host: kernel("hostname"),
        os: kernel("version"),
        platform: std::env::consts::ARCH.to_owned(),
        store: store.to_owned(),
        largest,
    }
}

/// Tells the operator, on stderr.
fn tell(notice: Notice, asks: bool) {
    match notice {
        Notice::Listening(address, Protocol::Beanstalkd) => eprintln!("listening on {address}"),
        Notice::Listening(address, Protocol::Memcached) => {
            eprintln!("memcached's protocol on {address}");
        }
        Notice::Open(address) if !asks => {
            eprintln!(
                "warning: anybody who reaches {address} can take every message; --secret FILE or --tls-client-authorities FILE asks who connects"
            );
        }
        Notice::Open(_) => {}
        Notice::Admin(address) => eprintln!("metrics on http://{address}/metrics"),
        Notice::Stopping => eprintln!("stopping: finishing what is in flight"),
        Notice::Unfinished(requests) => {
            eprintln!("warning: {requests} requests were not finished within the limit");
        }
        Notice::Draining => eprintln!("draining: no more messages are accepted"),
        Notice::Refused(why) => {
            eprintln!(
                "warning: the database refuses what is to be written: {why}; puts are answered with OUT_OF_MEMORY"
            );
        }
        Notice::Takes => eprintln!("the database takes messages again"),
        Notice::Lost(why) => {
            eprintln!("warning: the database is out of reach: {why}; requests that change something wait");
        }
        Notice::Back => eprintln!("the database is there again"),
        Notice::Deposed => {
            eprintln!("warning: another broker has taken the queues over; this one waits for its turn");
        }
        Notice::NotAccepting(why) => eprintln!("warning: cannot accept clients: {why}"),
    }
}
