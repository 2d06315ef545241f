//! `krarup broker`: durable message queues.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use krarup_broker::engine::{self, Notice};
use krarup_broker::postgres::{Owned, Place, Problem};
use krarup_broker::statistics::About;
use krarup_broker::{Broker, Queues, broker, queues};
use krarup_net::{Address, Clock};
use krarup_record::{Recorder, file, recorder};
use krarup_units::{Bytes, Nanos, text};

use crate::failure::Failure;

mod embedded;
mod ending;

/// Keep messages in queues and hand them out, by beanstalkd's protocol: any beanstalkd client works unchanged.
///
/// Says `listening on ADDRESS` on stderr when clients may connect. On SIGUSR1 it accepts no more messages; on SIGINT or SIGTERM
/// it answers what has arrived, prints its statistics and ends.
#[derive(Args)]
pub(crate) struct BrokerArgs {
    /// Where clients connect: HOST:PORT or unix:/PATH; port 0 asks the system for a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11300")]
    listen: Address,
    /// Where messages are kept: `memory`, from which nothing survives an end, or postgres://USER@HOST/DATABASE, where every answer
    /// means that the message is on disk [default: memory]
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Keep messages in a PostgreSQL of our own in this directory, made, started and stopped with the broker
    #[arg(long, value_name = "DIR", conflicts_with = "store")]
    postgres_embedded: Option<PathBuf>,
    /// Memory for all messages, each with 320 bytes beside its body; beyond it a put is answered with OUT_OF_MEMORY
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    memory: Bytes,
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
    /// How long a stop waits for clients to take the answers they are owed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = text::parse_duration)]
    patience: f64,
    /// Write windows.csv, histograms and hold times into this directory at the end
    #[arg(long, value_name = "DIR")]
    stats_dir: Option<PathBuf>,
}

pub(crate) fn run(args: &BrokerArgs) -> Result<(), Failure> {
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
    let embedded = args.postgres_embedded.as_deref().map(embedded::Cluster::start).transpose()?;
    let url = match (&embedded, args.store.as_deref()) {
        (Some(cluster), _) => Some(cluster.url()),
        (None, None | Some("memory")) => None,
        (None, Some(url)) => Some(url.to_owned()),
    };
    let (queues, store) = match &url {
        None => {
            eprintln!("messages are kept in memory: none of them survives the end of this process");
            (Queues::new(args.queues(&clock, false)), None)
        }
        Some(url) => {
            let (queues, owned) = owned(args, url, &clock)?;
            (queues, Some(owned))
        }
    };
    let recorder = Recorder::new(recorder::Settings::default()).expect("the default settings are valid");
    let settings = broker::Settings {
        about: about(&clock, largest, store.is_some()),
        largest,
        secret: args.secret.as_deref().map(secret).transpose()?,
        processor: krarup_net::cpu::process,
    };
    let broker = Broker::new(settings, queues, recorder);
    let settings = engine::Settings {
        listen: args.listen.clone(),
        socket_mode: None,
        admin: args.admin.clone(),
        connections: args.connections as usize,
        patience: Nanos::from_seconds(args.patience),
    };
    let asks = args.secret.is_some();
    let ended = engine::run(settings, broker, store, clock, |notice| tell(notice, asks)).map_err(|why| {
        Failure::usage(why).or_hint("an address in numbers, such as 127.0.0.1:11300, needs no name service")
    })?;
    print!("{}", ending::statistics(&ended));
    if let Some(folder) = &args.stats_dir {
        let run = file::Run { epoch_unix: clock.wall_epoch() };
        file::save_all(folder, ended.broker.recorder(), run)
            .map_err(|error| Failure::run(format!("the statistics cannot be written: {error}")))?;
        eprintln!("statistics in {}", folder.display());
    }
    if ended.deposed {
        return Err(Failure::run("another broker has taken the queues over")
            .hint("start this one again: it then waits for its turn"));
    }
    Ok(())
}

impl BrokerArgs {
    fn queues(&self, clock: &Clock, durable: bool) -> queues::Settings {
        queues::Settings {
            memory: self.memory.0,
            durable,
            wall: clock.wall_epoch(),
            remember_keys: Nanos::from_seconds(self.remember_keys),
        }
    }
}

/// The queues as they are in the database, once nobody else owns them.
fn owned(args: &BrokerArgs, url: &str, clock: &Clock) -> Result<(Queues, Owned), Failure> {
    let wrong = |problem: Problem| {
        let hint = match problem {
            Problem::Address(_) => "write it like postgres://user:password@127.0.0.1:5432/database",
            Problem::Database(_) => {
                "is the server running, and may this user make a schema in this database?"
            }
            Problem::Deposed => "start this one again: it then waits for its turn",
        };
        Failure::run(problem.to_string()).hint(hint)
    };
    let place = Place::parse(url).map_err(|problem| {
        Failure::usage(problem.to_string())
            .hint("write it like postgres://user:password@127.0.0.1:5432/database, or memory")
    })?;
    let address = args.listen.to_string();
    let waits = |owner: &str| eprintln!("waiting: the broker at {owner} owns the queues");
    let mut owned = Owned::take(place, &address, waits).map_err(wrong)?;
    let mut queues = Queues::new(args.queues(clock, true));
    let begun = clock.now();
    let mut messages = 0;
    let contents = owned
        .load(|row| {
            queues.load(row, begun);
            messages += 1;
        })
        .map_err(wrong)?;
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
    let took = text::duration((clock.now() - begun).as_seconds());
    eprintln!("{messages} messages were there, read in {took}; this is owner number {}", owned.epoch());
    Ok((queues, owned))
}

fn secret(path: &std::path::Path) -> Result<String, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    let line = text.lines().next().unwrap_or_default().trim();
    if krarup_broker::names::name(line.as_bytes()).is_none() {
        return Err(Failure::usage(format!("the first line of {name} is no secret"))
            .hint("1 to 200 letters, digits or -+/;.$_(), a hyphen not first"));
    }
    Ok(line.to_owned())
}

/// What `stats` tells of this process and its machine.
fn about(clock: &Clock, largest: u32, lasts: bool) -> About {
    let kernel = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .map_or_else(|_| String::new(), |text| text.trim().to_owned())
    };
    About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        id: format!("{:016x}", clock.wall_epoch().0 ^ u64::from(std::process::id()).rotate_right(16)),
        host: kernel("hostname"),
        os: kernel("version"),
        platform: std::env::consts::ARCH.to_owned(),
        store: if lasts { "owned" } else { "memory" }.to_owned(),
        largest,
    }
}

/// Tells the operator, on stderr.
fn tell(notice: Notice, asks: bool) {
    match notice {
        Notice::Listening(address) => eprintln!("listening on {address}"),
        Notice::Open(address) if !asks => {
            eprintln!(
                "warning: anybody who reaches {address} can take every message; --secret FILE asks who connects"
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
        Notice::Lost(why) => {
            eprintln!("warning: the database is out of reach: {why}; requests that change something wait");
        }
        Notice::Back => eprintln!("the database is there again"),
        Notice::Deposed => eprintln!("warning: another broker has taken the queues over; this one ends"),
        Notice::NotAccepting(why) => eprintln!("warning: cannot accept clients: {why}"),
    }
}
