//! The command line of `krarup broker`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use krarup_broker::queues::{self, Resident};
use krarup_broker::settings::TubeSettings;
use krarup_broker::shards::Shard;
use krarup_model::headroom::ResponseTarget;
use krarup_net::Clock;
use krarup_serve::HeadroomPage;
use krarup_serve::broker::BrokerHeadroom;
use krarup_store::postgres::QueueSchema;
use krarup_units::{Address, Bytes, Nanos, text};

use crate::flags::{Flags, whole};
use crate::headroom_page;
use crate::limits::BrokerEdge;
use crate::rows::RowFileArgs;
use crate::tls::TlsArgs;

/// Keep messages in queues and hand them out, by beanstalkd's protocol: any beanstalkd client works
/// unchanged.
///
/// Says `listening on ADDRESS` on stderr when clients may connect. On SIGUSR1 it accepts no more
/// messages; on SIGHUP it reads its certificate again; on SIGINT or SIGTERM it answers what has
/// arrived, prints its statistics and ends.
#[derive(Args, Clone)]
#[command(after_help = "Example:\n  krarup broker --postgres-embedded queues --admin 127.0.0.1:9152")]
pub(crate) struct BrokerArgs {
    /// Where clients connect: HOST:PORT or unix:/PATH; port 0 asks the system for a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:11300")]
    pub(super) listen: Address,
    /// The address at which waiting brokers reach this one and send their clients to it [default:
    /// where it listens]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) advertise: Option<Address>,
    /// Where clients of memcached's protocol connect, which then names queues where it names keys
    /// (`get jobs/open`) [default: nowhere]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) memcached_listen: Option<Address>,
    /// Where messages are kept: `memory`, from which nothing survives an end, or
    /// postgres://USER@HOST1,HOST2/DATABASE?PARAMETER=VALUE, where every answer means that the
    /// message is on disk. Of several hosts the one is used that takes writes. What is not said
    /// comes from the environment and from files as for every program of PostgreSQL: PGHOST,
    /// PGUSER, PGPASSWORD, PGPASSFILE, PGSERVICE, PGSSLMODE and so on [default: memory]
    #[arg(long, value_name = "STORE")]
    pub(super) store: Option<String>,
    /// The same, out of the first line of a file that only the broker may read
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub(super) store_file: Option<PathBuf>,
    /// The schema of the database that the tables are in; it is made if it is not there. Brokers of
    /// two schemas know nothing of each other
    #[arg(long, value_name = "NAME", default_value = "krarup")]
    pub(super) schema: QueueSchema,
    /// Keep messages in a PostgreSQL of our own in this directory, made, started and stopped with
    /// the broker
    #[arg(long, value_name = "DIR", conflicts_with_all = ["store", "store_file"])]
    pub(super) postgres_embedded: Option<PathBuf>,
    /// The same in a directory of its own, which is gone with the broker: for experiments
    #[arg(long, conflicts_with_all = ["store", "store_file", "postgres_embedded"])]
    pub(super) postgres_temporary: bool,
    /// Who decides over messages in a database: one broker that owns the queues, or the database,
    /// asked by any number of brokers
    #[arg(long, value_enum, value_name = "MODE", default_value_t = Mode::Owned)]
    pub(super) mode: Mode,
    /// Divide the queues into so many shards, 64 at most, in the mode `owned`: each has an owner,
    /// and all brokers of this database that are told the same number share them evenly and serve
    /// all clients
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = whole::<u32>(1, u64::from(krarup_broker::shards::MOST)))]
    pub(super) shards: u32,
    /// Database connections in the mode `direct`, each with one request at a time
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = whole::<u32>(1, 1_000))]
    pub(super) pool: u32,
    /// Memory for all messages, each with 320 bytes beside its body, and the keys of put-unique,
    /// each with 200 bytes beside its names, in at most half of it; beyond it a put is answered
    /// with OUT_OF_MEMORY. A bare number is bytes
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub(super) memory: Bytes,
    /// Memory for messages that wait, in the mode `owned` over a database, and at most half of
    /// --memory; beyond it the next of each queue are in memory and the others only in the database
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    pub(super) heads: Bytes,
    /// How many messages of a queue are in memory even beyond --heads, fewer where --memory is
    /// short, and are read from the database at a time
    #[arg(long, value_name = "COUNT", default_value_t = 2_048, value_parser = whole::<u32>(1, 100_000))]
    pub(super) read_ahead: u32,
    /// The largest message
    #[arg(long, short = 'z', value_name = "SIZE", default_value = "65535")]
    pub(super) max_message_size: Bytes,
    /// Where monitoring asks over HTTP: /metrics for Prometheus, /health, /ready, /headroom,
    /// /tubes [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) admin: Option<Address>,
    /// The response time that is to hold, for /headroom: `p99 < 20ms`; the wait for a message is
    /// not a part of it [default: only saturation counts]
    #[arg(long, value_name = "TARGET")]
    pub(super) headroom_target: Option<ResponseTarget>,
    #[command(flatten)]
    pub(super) tubes: Flags<TubeSettings>,
    /// How many clients may be connected at once
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = whole::<u32>(1, u64::MAX))]
    pub(super) connections: u32,
    /// How long the key of a put-unique is remembered
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = text::parse_duration)]
    pub(super) remember_keys: f64,
    /// A file whose first line clients must say with `login NAME SECRET` before anything else
    #[arg(long, value_name = "FILE")]
    pub(super) secret: Option<PathBuf>,
    #[command(flatten)]
    pub(super) tls: TlsArgs,
    #[command(flatten)]
    pub(super) edge: Flags<BrokerEdge>,
    /// How long a stop waits for clients to take the answers they are owed
    #[arg(long, alias = "patience", value_name = "TIME", default_value = "5s", value_parser = text::parse_duration)]
    pub(super) shutdown_limit: f64,
    /// Write a row for every request into this Parquet file, its stamps with it: what a model is
    /// calibrated from
    #[arg(long, value_name = "FILE")]
    pub(super) rows: Option<PathBuf>,
    #[command(flatten)]
    pub(super) row_files: RowFileArgs,
    /// Write summary.json, windows.csv, histograms and hold times into this directory at the end;
    /// `stats-reset` lets them begin anew
    #[arg(long, value_name = "DIR")]
    pub(super) stats_dir: Option<PathBuf>,
}

/// Who decides over messages in a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// One broker, in its memory; what it has decided is written in batches. The fastest; others
    /// wait to take over
    Owned,
    /// The database: waiting requests share a statement and a commit. Any number of brokers
    Batch,
    /// The database: one statement for each request, over a pool of connections. Any number of
    /// brokers
    Direct,
}

impl Mode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::Batch => "batch",
            Self::Direct => "direct",
        }
    }
}

impl BrokerArgs {
    /// What monitoring is answered about the headroom.
    pub(super) fn headroom(&self) -> BrokerHeadroom {
        let page: HeadroomPage = |answer| headroom_page::page(answer, "this broker");
        BrokerHeadroom { target: self.headroom_target, page }
    }

    /// Whether clients must say or show who they are.
    pub(super) fn asks(&self) -> bool {
        self.secret.is_some() || self.tls.asks()
    }

    /// What is to be said where a message that may be put fits into no memory, however empty.
    pub(super) fn memory_warning(&self) -> Option<String> {
        let memory = self.memory_of_shard();
        let of = if self.shards > 1 { " of each shard" } else { "" };
        (memory < self.max_message_size.0.saturating_add(queues::OVERHEAD)).then(|| {
            format!(
                "a message of {}, which --max-message-size allows, never fits into the memory{of}, {}; \
                 --memory takes a size with its unit, as 1GiB",
                self.max_message_size,
                Bytes(memory)
            )
        })
    }

    /// Each shard has its part of the memory.
    fn memory_of_shard(&self) -> u64 {
        self.memory.0 / u64::from(self.shards)
    }

    pub(super) fn resident(&self) -> Resident {
        let bytes = self.heads.0.min(self.memory.0 / 2) / u64::from(self.shards);
        Resident { bytes, heads: self.read_ahead as usize }
    }

    /// Whether several brokers of these words serve clients at the same time.
    pub(crate) fn shares_queues(&self) -> bool {
        self.mode != Mode::Owned || self.shards > 1
    }

    /// How many requests may be with the database at once; none: all that wait go together.
    pub(super) fn workers(&self) -> Option<u32> {
        (self.mode == Mode::Direct).then_some(self.pool)
    }

    pub(super) fn queues(&self, clock: &Clock, durable: bool, shard: Shard) -> queues::QueueSettings {
        queues::QueueSettings {
            shard,
            memory: self.memory_of_shard(),
            durable,
            wall: clock.wall_epoch_now(),
            remember_keys: Nanos::from_seconds(self.remember_keys),
            // Beyond half of the memory there must be room for what comes.
            resident: durable.then_some(self.resident()),
            tubes: self.tubes.settings(),
        }
    }
}

#[cfg(test)]
impl BrokerArgs {
    /// What these flags say, and the defaults for all others.
    pub(super) fn of(flags: &str) -> Self {
        use clap::{Args, FromArgMatches};
        let words = ["broker"].into_iter().chain(flags.split_whitespace());
        let matches = Self::augment_args(clap::Command::new("broker")).try_get_matches_from(words);
        Self::from_arg_matches(&matches.unwrap()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_into_which_the_largest_message_never_fits_is_warned_of() {
        let warning = |flags: &str| BrokerArgs::of(flags).memory_warning();
        for flags in ["", "--memory 512 --max-message-size 192", "--shards 64 --max-message-size 8MiB"] {
            assert_eq!(warning(flags), None, "{flags}");
        }
        for (flags, said) in [
            ("--memory 512 --max-message-size 193", "a message of 193 B, "),
            ("--memory 512 --max-message-size 193", "fits into the memory, 512 B; "),
            ("--shards 64 --max-message-size 32MiB", "fits into the memory of each shard, 16 MiB; "),
        ] {
            assert!(warning(flags).unwrap().contains(said), "{flags}");
        }
    }
}
