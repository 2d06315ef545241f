//! `krarup broker`: durable message queues.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use krarup_broker::shards::Shard;
use krarup_broker::{Broker, Queues, broker, shared};
use krarup_lab::testbed::probe::free_port;
use krarup_net::{Clock, Listener, listen};
use krarup_serve::broker::MessageStore;
use krarup_serve::broker::engine::{self, BrokerNotice, Ending, Protocol};
use krarup_serve::broker::relay::Relay;
use krarup_store::pool;
use krarup_store::postgres::{Database, Owned, Sharing};
use krarup_units::{Address, Mistake, Nanos};

use self::args::Mode;
use self::base::{ASKS, Base, LOADS, about, database, load, monitored, tell, waits_for, warn_of_address};
use self::records::BrokerRecords;
use self::signals::{Follows, ProcessSignals};
use self::waiting::Reached;
use crate::failure::Failure;
use crate::limits::{LONGEST, limits, shutdown_limit};
use crate::{input, output};

pub(crate) use self::args::BrokerArgs;

mod args;
mod base;
mod embedded;
mod ending;
mod records;
mod shards;
mod signals;
mod waiting;

pub(crate) fn run(args: &BrokerArgs) -> Result<(), Failure> {
    // First: a program that is started before would have them, too.
    let inherited = listen::inherited();
    output::begin_service();
    let signals = ProcessSignals::listen()?;
    listen::all_used(inherited.len(), 1 + usize::from(args.memcached_listen.is_some()))?;
    let largest = u32::try_from(args.max_message_size.0)
        .ok()
        .filter(|largest| *largest <= 1 << 30)
        .ok_or_else(|| {
            Failure::usage("--max-message-size is at most 1GiB")
                .hint("keep what is larger elsewhere, and put its name")
        })?;
    check(args)?;
    if inherited.is_empty() {
        check_addresses(args)?;
    }
    let acceptor = args.tls.acceptor()?;
    if let Some(acceptor) = &acceptor {
        signals.reloads(acceptor);
    }
    let secret = args.secret.as_deref().map(secret).transpose()?;
    if let Some(folder) = &args.stats_dir {
        // Now, and not after a long run.
        fs::create_dir_all(folder).map_err(|error| {
            Failure::usage(format!("{} cannot be made: {error}", folder.display()))
                .hint("choose another directory with --stats-dir")
        })?;
    }
    krarup_net::files::allow_many();
    let clock = Clock::start();
    let connections = embedded::connections(args);
    let embedded = match &args.postgres_embedded {
        Some(folder) => Some(embedded::EmbeddedPostgres::start(folder, connections)?),
        None if args.postgres_temporary => Some(embedded::EmbeddedPostgres::temporary(connections)?),
        None => None,
    };
    let place = database(args, embedded.as_ref().map(embedded::EmbeddedPostgres::url), largest)?;
    let base = Base {
        clock,
        largest,
        secret,
        inherited,
        admin: match args.shards {
            0 | 1 => {
                let why = if place.is_some() { ASKS } else { LOADS };
                monitored(args.admin.as_ref(), why, acceptor.as_ref())?
            }
            _ => None,
        },
        tls: acceptor,
        signals,
    };
    if place.is_some() && embedded.is_none() {
        warn_of_address(args, base.inherited.first());
    }
    if args.shards > 1 {
        return shards::run(args, place.as_ref(), &base);
    }
    if place.is_none() {
        if args.mode != Mode::Owned {
            return Err(Failure::usage(format!("--mode {} needs a database", args.mode.name()))
                .hint("add --store postgres://… or --postgres-embedded DIR"));
        }
        eprintln!("messages are kept in memory: none of them survives the end of this process");
    }
    let mut records = BrokerRecords::begin(args, place.as_ref(), &clock)?;
    let outcome = take_turns(args, place.as_ref(), &base, &mut records);
    // Also where it was asked to stop while it waited for another turn.
    base.signals.last_steps();
    records.end(outcome)
}

/// Serves whenever it is this broker's turn, until a stop is asked for.
fn take_turns(
    args: &BrokerArgs,
    place: Option<&Database>,
    base: &Base,
    records: &mut BrokerRecords,
) -> Result<(), Failure> {
    // What the system has chosen stays: who waits again and serves again does so where its clients
    // know it.
    let mut args = args.clone();
    let mut reached = Reached::Never;
    while let Some((queues, store, sharing)) = begin(&mut args, place, base, reached)? {
        reached = Reached::Before;
        let mut ended = serve(&mut args, (queues, store, sharing), base, records)?;
        base.tells()("it is stopping");
        base.signals.last_steps();
        records.add(&mut ended);
        print!("{}", ending::statistics(&ended));
        if !ended.deposed || base.signals.stops() > 0 {
            break;
        }
    }
    Ok(())
}

/// Refuses what each flag's own reader cannot, and warns of what will do no good.
fn check(args: &BrokerArgs) -> Result<(), Failure> {
    if args.remember_keys > LONGEST {
        return Err(Failure::usage("--remember-keys is at most 36500d")
            .hint("a duplicate comes within hours: --remember-keys 1d"));
    }
    shutdown_limit(args.shutdown_limit)?;
    let is_no_host = |address: &&Address| address.file().is_some() || address.service().is_some();
    if let Some(address) = args.advertise.as_ref().filter(is_no_host) {
        return Err(Failure::usage(format!("--advertise: {address} is no host and port")).hint(
            "`--advertise` is HOST:PORT: the name or the number by which other brokers reach this one",
        ));
    }
    args.memory_warning().iter().for_each(|warning| eprintln!("warning: {warning}"));
    Ok(())
}

/// Refuses one address for two purposes: where it is listened on for the second, another process
/// would seem to have it.
fn check_addresses(args: &BrokerArgs) -> Result<(), Failure> {
    let flags = [
        ("--listen", Some(&args.listen)),
        ("--memcached-listen", args.memcached_listen.as_ref()),
        ("--admin", args.admin.as_ref()),
    ];
    let given = flags.into_iter().filter_map(|(flag, address)| Some((flag, address?)));
    let fixed: Vec<_> = given.filter(|(_, address)| address.port != 0 || address.file().is_some()).collect();
    for (place, (flag, address)) in fixed.iter().enumerate() {
        if let Some((other, _)) = fixed[..place].iter().find(|(_, before)| before == address) {
            return Err(
                Failure::usage(format!("{other} and {flag} are both {address}")).hint("give each its own")
            );
        }
    }
    Ok(())
}

/// How often it is looked whether the database of an experiment has ended by itself.
const GLANCE: Duration = Duration::from_secs(1);

/// The database of an experiment as a station of its own, until a stop is asked for: brokers of
/// other hosts reach it at `listen`, whose port may be 0.
pub(crate) fn postgres_station(listen: SocketAddr, settings: &[String]) -> Result<(), Failure> {
    let signals = ProcessSignals::listen()?;
    let port = match listen.port() {
        0 => free_port(&listen.ip().to_string())
            .map_err(|error| Failure::run(format!("no free port: {error}")))?,
        port => port,
    };
    let listen = SocketAddr::new(listen.ip(), port);
    let mut cluster = embedded::EmbeddedPostgres::station(listen, settings)?;
    eprintln!("listening on {listen}");
    if cluster.outlast(|| signals.wait(GLANCE, 0)) {
        return Err(Failure::run("PostgreSQL has ended by itself"));
    }
    Ok(())
}

/// What an event loop begins with.
type Begun = (Queues, Option<MessageStore>, Option<shared::SharedSettings>);

/// What there is to serve, as soon as it is this broker's turn; none: a stop was asked for first.
fn begin(
    args: &mut BrokerArgs,
    place: Option<&Database>,
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
        return Ok(Some((queues, Some(MessageStore::Owned(owned)), None)));
    }
    let Some(sharing) = share(place, base, reached)? else { return Ok(None) };
    let gathers = args.mode == Mode::Batch;
    let settings = shared::SharedSettings { gathers, number: sharing.number(), memory: args.memory.0 };
    let pool = pool::ConnectionPoolSettings {
        gathers,
        connections: args.pool,
        remember_keys: Duration::from_secs_f64(args.remember_keys),
    };
    let queues = Queues::new(args.queues(clock, false, Shard::WHOLE));
    Ok(Some((queues, Some(MessageStore::Shared(sharing, pool)), Some(settings))))
}

/// Serves clients until a stop is asked for, or another broker has taken the queues over.
fn serve(
    args: &mut BrokerArgs,
    (queues, store, sharing): Begun,
    base: &Base,
    records: &BrokerRecords,
) -> Result<engine::BrokerEnd, Failure> {
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
    let settings = engine::BrokerEngineSettings {
        listen: args.listen.clone(),
        advertise: args.advertise.clone(),
        memcached: args.memcached_listen.clone(),
        tls: base.tls.clone(),
        admin: base.admin.clone(),
        connections: args.connections as usize,
        clients: limits(&args.edge.settings()),
        shutdown_limit: Nanos::from_seconds(args.shutdown_limit),
        inherited: base.inherited()?,
        ending,
        part: None,
        headroom: args.headroom(),
    };
    let asks = args.asks();
    let notice = |notice| {
        match &notice {
            BrokerNotice::Listening(address, Protocol::Beanstalkd) => args.listen = address.clone(),
            BrokerNotice::Listening(address, Protocol::Memcached) => {
                args.memcached_listen = Some(address.clone());
            }
            _ => {}
        }
        tell(notice, asks);
    };
    engine::run(settings, broker, store, base.clock, notice).map_err(Failure::beginning)
}

/// The queues as they are in the database, once no other broker owns them, and where clients are to
/// find it: where they have been sent on from, if they have. None: a stop was asked for first.
fn owned(
    args: &BrokerArgs,
    place: &Database,
    base: &Base,
    reached: Reached,
) -> Result<Option<(Queues, Owned, Address)>, Failure> {
    let (args, clock) = (args.clone(), base.clock);
    let address = args.advertise.as_ref().unwrap_or(&args.listen).to_string();
    let mut given = base.inherited()?.into_iter().next();
    let tells = base.tells();
    let (mut waiting, mut relay) = (false, None);
    waiting::turn(&base.signals, place, reached, base.tells(), move |place, there| {
        let waits = |owner: &str| {
            there(&waits_for(owner));
            if !std::mem::replace(&mut waiting, true) {
                eprintln!("waiting: the broker at {owner} owns the queues");
                relay = send_on(&args.listen, given.take(), clock);
            }
            if let Some(relay) = &relay {
                // One that shares them, or has not said where it is, cannot be asked.
                relay.send_to(owner.parse().ok());
            }
        };
        let mut owned = Owned::take(place.clone(), &address, waits)?;
        tells(LOADS);
        let queues = load(&args, &mut owned, &clock)?;
        let listen = relay.take().map(|relay: Relay| relay.address.clone());
        Ok((queues, owned, listen.unwrap_or_else(|| args.listen.clone())))
    })
}

/// Clients that come while another owns the queues are sent on to it.
fn send_on(listen: &Address, given: Option<Listener>, clock: Clock) -> Option<Relay> {
    let listener = match given {
        Some(given @ Listener::Tcp(_)) => Ok(given),
        None if listen.file().is_none() => listen::listen(listen).map(Listener::Tcp),
        _ => Err(Mistake::plain("the address to listen at is a unix socket")),
    };
    let refused = |why| tell(BrokerNotice::NotAccepting(why), false);
    match listener.and_then(|listener| Relay::begin(listener, move || clock.now(), refused)) {
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

/// A share in the queues of a database, once no broker owns them; none: a stop was asked for first.
fn share(place: &Database, base: &Base, reached: Reached) -> Result<Option<Sharing>, Failure> {
    let mut waiting = false;
    let sharing = waiting::turn(&base.signals, place, reached, base.tells(), move |place, there| {
        let waits = |owner: &str| {
            there(&waits_for(owner));
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

/// The secret that clients must say.
fn secret(path: &std::path::Path) -> Result<String, Failure> {
    const HINT: &str = "its first line has 1 to 200 letters, digits or -+/;.$_(), a hyphen not first";
    let name = path.display();
    let text = input::text(path).map_err(|why| why.or_hint(HINT))?;
    let line = text.lines().next().unwrap_or_default().trim();
    if krarup_beanstalk::name::name(line.as_bytes()).is_none() {
        return Err(Failure::usage(format!("the first line of {name} is no secret")).hint(HINT));
    }
    Ok(line.to_owned())
}
