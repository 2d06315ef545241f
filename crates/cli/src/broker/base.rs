//! What all event loops of a broker's process have in common: the clock, the database, what the
//! operator is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use krarup_broker::Queues;
use krarup_broker::statistics::ProcessFacts;
use krarup_net::tls::Acceptor;
use krarup_net::{Clock, Listener};
use krarup_serve::AdminAddress;
use krarup_serve::broker::engine::{BrokerNotice, Protocol};
use krarup_store::postgres::{Database, Owned, ProcessEnvironment, StoreError};
use krarup_units::{Address, Nanos, text};

use super::args::{BrokerArgs, Mode};
use super::signals::ProcessSignals;
use crate::failure::Failure;
use crate::input;
use crate::limits::tell_memory;

/// What all event loops of this process have in common.
pub(super) struct Base {
    pub(super) clock: Clock,
    pub(super) largest: u32,
    pub(super) secret: Option<String>,
    pub(super) tls: Option<Acceptor>,
    /// Listening sockets that this process was given: another handle of each goes to whichever
    /// serves or waits.
    pub(super) inherited: Vec<Listener>,
    /// Where monitoring asks, also while this process waits for its turn; with shards each has its
    /// own.
    pub(super) admin: Option<AdminAddress>,
    pub(super) signals: ProcessSignals,
}

/// Why nothing is served yet: it is not known whose turn it is.
pub(super) const ASKS: &str = "the database is asked whose turn it is";

/// Why nothing is served yet, once it is this broker's turn.
pub(super) const LOADS: &str = "the queues are being loaded";

/// What keeps a broker from its turn, and what is said when it does no longer.
pub(super) type Obstacle = [&'static str; 2];

/// The database does not answer.
pub(super) const LOST: Obstacle = ["the database is out of reach", "the database is there again"];

/// It answers, and refuses what a broker begins with.
pub(super) const REFUSES: Obstacle =
    ["the database refuses to let this broker begin", "the database refuses no longer"];

/// Why nothing is served while another broker owns the queues.
pub(super) fn waits_for(owner: &str) -> String {
    format!("it waits for its turn: the broker at {owner} owns the queues")
}

/// Answers monitoring from now on, where that is asked for, and reads `certificate` again.
pub(super) fn monitored(
    address: Option<&Address>,
    waits_for: &str,
    certificate: Option<&Acceptor>,
) -> Result<Option<AdminAddress>, Failure> {
    let Some(address) = address else { return Ok(None) };
    let admin = AdminAddress::listen(address, "--admin", waits_for, certificate).map_err(|why| {
        Failure::usage(why).or_hint("an address in numbers, such as 127.0.0.1:9152, needs no name service")
    })?;
    tell_admin(&admin);
    Ok(Some(admin))
}

/// Tells the operator where monitoring asks.
pub(super) fn tell_admin(admin: &AdminAddress) {
    eprintln!("metrics on http://{}/metrics", admin.address);
}

/// Warns of an owner that brokers on other machines cannot send clients on to, since its address
/// means another machine there, or a file.
pub(super) fn warn_of_address(args: &BrokerArgs, given: Option<&Listener>) {
    let listens = || given.and_then(|given| given.address().ok()).unwrap_or_else(|| args.listen.clone());
    let address = args.advertise.clone().unwrap_or_else(listens);
    if args.mode == Mode::Owned && (address.is_unspecified() || address.is_local()) {
        eprintln!(
            "warning: brokers on other machines cannot reach this one at {address}; --advertise HOST:PORT says where they can"
        );
    }
}

impl Base {
    /// What tells those that ask at the admin address why nothing is served.
    pub(super) fn tells(&self) -> impl Fn(&str) + Send + 'static {
        let admin = self.admin.clone();
        move |why| {
            if let Some(admin) = &admin {
                admin.waits_for(why);
            }
        }
    }

    pub(super) fn inherited(&self) -> Result<Vec<Listener>, Failure> {
        let handles = self.inherited.iter().map(Listener::try_clone).collect::<Result<_, _>>();
        handles.map_err(|error| {
            Failure::run(format!("the listening sockets that were given cannot be used: {error}"))
        })
    }
}

/// What an owner finds, and says that it has.
pub(super) fn load(args: &BrokerArgs, owned: &mut Owned, clock: &Clock) -> Result<Queues, StoreError> {
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

/// The database that this broker's messages are in; none: they are in memory.
pub(super) fn database(
    args: &BrokerArgs,
    embedded: Option<String>,
    largest: u32,
) -> Result<Option<Database>, Failure> {
    let (address, environment) = match (embedded, &args.store, &args.store_file) {
        // Its own address says everything.
        (Some(address), ..) => (address, ProcessEnvironment::default()),
        (None, Some(address), _) if address == "memory" => return Ok(None),
        (None, Some(address), _) => {
            if Database::tells_password(address) {
                eprintln!(
                    "warning: every user of this machine can read the password in --store from the list of processes; \
                     ~/.pgpass, PGPASSFILE and --store-file FILE keep it to this one"
                );
            }
            (address.clone(), ProcessEnvironment::own())
        }
        (None, None, Some(file)) => (store_file(file)?, ProcessEnvironment::own()),
        (None, None, None) => return Ok(None),
    };
    let place = Database::parse(&address, &environment)
        .map(|place| place.in_schema(args.schema.clone()).limited(largest));
    place.map(Some).map_err(|problem| {
        Failure::usage(problem.to_string())
            .hint(problem.hint())
            .or_hint("write it like postgres://user@127.0.0.1:5432/database, or memory")
    })
}

/// The address of a database, out of a file that no other user may read.
fn store_file(file: &Path) -> Result<String, Failure> {
    const HINT: &str = "its first line is an address such as postgres://user:password@db.example/queues";
    let name = file.display();
    let text = input::text(file).map_err(|why| why.or_hint(HINT))?;
    let address = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let address =
        address.ok_or_else(|| Failure::usage(format!("{name} has no address of a database")).hint(HINT))?;
    let others = fs::metadata(file).is_ok_and(|found| found.permissions().mode() & 0o007 != 0);
    if others && Database::tells_password(address) {
        eprintln!(
            "warning: every user of this machine can read the password in {name}: chmod 600 keeps it to this one"
        );
    }
    Ok(address.to_owned())
}

/// What `stats` tells of this process and its machine.
pub(super) fn about(clock: &Clock, largest: u32, store: &str) -> ProcessFacts {
    let kernel = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}"))
            .map_or_else(|_| String::new(), |text| text.trim().to_owned())
    };
    ProcessFacts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        id: format!("{:016x}", clock.run_id()),
        host: kernel("hostname"),
        os: kernel("version"),
        platform: std::env::consts::ARCH.to_owned(),
        store: store.to_owned(),
        largest,
    }
}

/// Tells the operator, on stderr.
pub(super) fn tell(notice: BrokerNotice, asks: bool) {
    match notice {
        BrokerNotice::Listening(address, Protocol::Beanstalkd) => eprintln!("listening on {address}"),
        BrokerNotice::Listening(address, Protocol::Memcached) => {
            eprintln!("memcached's protocol on {address}");
        }
        BrokerNotice::Open(address) if !asks => {
            eprintln!(
                "warning: every client that reaches {address} can take every message; --secret FILE or --tls-client-authorities FILE asks who connects"
            );
        }
        BrokerNotice::Open(_) => {}
        BrokerNotice::Stopping => eprintln!("stopping: finishing what is in flight"),
        BrokerNotice::Unfinished(requests) => {
            eprintln!("warning: {requests} requests were not finished within the limit");
        }
        BrokerNotice::Draining => eprintln!("draining: no more messages are accepted"),
        BrokerNotice::Refused(why) => {
            eprintln!(
                "warning: the database refuses what is to be written: {why}; puts that it refuses are answered with OUT_OF_MEMORY"
            );
        }
        BrokerNotice::Takes => eprintln!("the database takes messages again"),
        BrokerNotice::Unread(why) => {
            eprintln!("warning: the database refuses to read messages: {why}; requests that need them wait");
        }
        BrokerNotice::Unswept(why) => {
            eprintln!(
                "warning: the database refuses a sweep: {why}; until it takes one, messages in krarup.incoming may wait, and old keys and rows of the archive stay"
            );
        }
        BrokerNotice::Swept => eprintln!("the database takes sweeps again"),
        BrokerNotice::Lost(why) => {
            eprintln!("warning: the database is out of reach: {why}; requests that change something wait");
        }
        BrokerNotice::Back => eprintln!("the database is there again"),
        BrokerNotice::Silent(time) => {
            eprintln!(
                "warning: the database has not answered for {}; requests that change something wait",
                text::duration(time.as_seconds())
            );
        }
        BrokerNotice::Answers => eprintln!("the database answers again"),
        BrokerNotice::Deposed => {
            eprintln!("warning: another broker has taken the queues over; this one waits for its turn");
        }
        BrokerNotice::NotAccepting(why) => eprintln!("warning: cannot accept clients: {why}"),
        BrokerNotice::Memory(notice) => tell_memory(notice),
    }
}
