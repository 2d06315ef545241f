//! `krarup cache`: a small memcached-compatible store.

use clap::Args;
use krarup_cache::{Bounds, statistics};
use krarup_serve::cache::{CacheServer, CacheSettings};
use krarup_units::{Address, Bytes, Mistake, text};

use crate::failure::Failure;
use crate::flags::{self, Flags, whole};
use crate::last_steps::LastSteps;
use crate::limits::{self, CacheEdge, limits, tell_memory};
use crate::output;
use crate::tls::{self, TlsArgs};

/// Store values as memcached does: text protocol, expiry, the least recently used leaving when
/// memory is full.
///
/// Says `listening on ADDRESS` on stderr when clients may connect. On SIGINT or SIGTERM it answers
/// what has arrived, prints its counts on stdout under memcached's names, and ends. On SIGHUP it
/// reads its certificate again.
#[derive(Args)]
#[command(after_help = "Example:\n  krarup cache --listen 127.0.0.1:11212 --memory 256MiB")]
pub(crate) struct CacheArgs {
    /// Where to listen; port 0 asks the system for a free one
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["host", "port"])]
    listen: Option<Address>,
    /// Where to listen, as memcached's flag
    #[arg(short = 'l', value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// The port, as memcached's flag
    #[arg(short = 'p', value_name = "PORT", default_value_t = 11_211)]
    port: u16,
    /// Memory for all items: keys, values and 160 bytes each; a bare number is MiB, as memcached's
    /// flag
    #[arg(short, long, value_name = "SIZE", default_value = "64MiB", value_parser = memory)]
    memory: Bytes,
    /// The largest item: key, value and 59 to 63 bytes more, counted as memcached counts it
    #[arg(short = 'I', long, value_name = "SIZE", default_value = "1MiB", value_parser = item)]
    max_item_size: Bytes,
    /// How many clients may be connected at once
    #[arg(short, long, value_name = "COUNT", default_value_t = 1_024, value_parser = whole::<u32>(1, u64::MAX))]
    connections: u32,
    /// How long a stop waits for clients to take the answers they are owed
    #[arg(long, alias = "patience", value_name = "TIME", default_value = "5s", value_parser = text::parse_duration)]
    shutdown_limit: f64,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    edge: Flags<CacheEdge>,
}

fn memory(text: &str) -> Result<Bytes, Mistake> {
    let whole = text.bytes().all(|byte| byte.is_ascii_digit());
    if whole { format!("{text}MiB").parse() } else { text.parse() }
}

/// What clients may count on, by memcached's numbers, and our own behind a blank. 1.4.39 is older
/// than the meta commands; where the first number is 0, as ours is, libmemcached calls the server
/// broken.
const VERSION: &str = concat!("1.4.39 krarup-", env!("CARGO_PKG_VERSION"));

/// The least that memcached takes: an item of less hardly holds a key.
const SMALLEST_ITEM: u64 = 1 << 10;

fn item(text: &str) -> Result<Bytes, Mistake> {
    let size: Bytes = text.parse()?;
    if size.0 < SMALLEST_ITEM {
        let what = format!("{size} is less than {}", Bytes(SMALLEST_ITEM));
        return Err(Mistake::new(what, "a bare number is bytes: write it with its unit, as 2MiB"));
    }
    Ok(size)
}

pub(crate) fn run(args: &CacheArgs) -> Result<(), Failure> {
    let &CacheArgs {
        ref listen,
        ref host,
        port,
        memory,
        max_item_size,
        connections,
        shutdown_limit,
        ref tls,
        ref edge,
    } = args;
    let smallest = max_item_size.0 + krarup_cache::store::ITEM_OVERHEAD;
    if memory.0 < smallest {
        return Err(Failure::usage(format!("--memory {memory} cannot hold one item of {max_item_size}"))
            .hint(format!("allow {} or more, or smaller items with --max-item-size", Bytes(smallest))));
    }
    let shutdown_limit = limits::shutdown_limit(shutdown_limit)?;
    let listen = listen.clone().map_or_else(|| flags::address(host, port), Ok)?;
    let acceptor = tls.acceptor()?;
    let settings = CacheSettings {
        listen,
        tls: acceptor.clone(),
        bounds: Bounds { memory: memory.0, item: max_item_size.0 },
        connections: connections as usize,
        clients: limits(&edge.settings()),
        shutdown_limit,
        version: VERSION.to_owned(),
    };
    output::begin_service();
    krarup_net::files::allow_many();
    let mut server = CacheServer::bind(settings).map_err(Failure::beginning)?;
    let reload = move || tls::reload(acceptor.as_ref());
    server.obey_signals(reload).map_err(|error| Failure::run(format!("signals cannot be heard: {error}")))?;
    server.tell_refusals(|why| eprintln!("warning: cannot accept clients: {why}"));
    server.tell_memory(tell_memory);
    eprintln!("listening on {}", server.address());
    let outcome =
        server.run().map_err(|error| Failure::run(format!("readiness cannot be waited for: {error}")))?;
    let _until_said = LastSteps::begin();
    for (name, value) in
        statistics::traffic(&outcome.traffic).into_iter().chain(statistics::counts(&outcome.counts))
    {
        println!("{name} {value}");
    }
    Ok(())
}
