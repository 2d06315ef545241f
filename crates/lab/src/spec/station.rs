//! What runs, how it is started, how many there are, and where.

use std::str::FromStr;

use krarup_settings::kind::{
    ADDRESS, BANDWIDTH, Duration, FromText, Inline, List, Located, Number, Optional, TEXT, Word,
};
use krarup_settings::{Mistake, settings};
use krarup_units::{Address, Nanos, Seconds};
use toml::Spanned;

use super::factor::{WORDS, names_in};
use super::machine::{MACHINE, Machine};
use super::pod::PodSettings;
use crate::testbed::cap::LEAST;

/// The longest way of a packet: connections give up where they wait longer.
const LONGEST_DELAY: Nanos = Nanos::from_secs(5);
/// Most of one station.
pub(super) const MOST: u32 = 200;

settings! {
    /// What runs.
    #[derive(Clone, Debug)]
    pub struct Stations {
        /// memcached, or what speaks its protocol.
        servers: StationSpec = StationSpec::default(), Inline, required = true, example = "[stations.servers]";
        /// What stands between; without, the clients ask the servers themselves.
        middleware: Option<StationSpec> = None, Optional(Inline), example = "[stations.middleware]";
        /// The load.
        clients: StationSpec = StationSpec::default(), Inline, required = true, example = "[stations.clients]";
    }
}

/// Where stations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Testbed {
    /// As processes on this machine.
    Local,
    /// The same, each in a network namespace of its own, behind a link of its own.
    Netns,
    /// On other machines, through ssh.
    Ssh,
    /// Each in a pod of its own.
    Kubernetes,
}

impl Testbed {
    /// Each with its name in a spec.
    pub const NAMES: [(Self, &str); 4] = [
        (Self::Local, "local"),
        (Self::Netns, "netns"),
        (Self::Ssh, "ssh"),
        (Self::Kubernetes, "kubernetes"),
    ];

    /// Whether its stations run on other machines, which have programs of their own.
    pub fn is_elsewhere(self) -> bool {
        matches!(self, Self::Ssh | Self::Kubernetes)
    }
}

settings! {
    /// One kind of program and how it is started: by one of `program`, `command` and `addresses`.
    #[derive(Clone, Debug)]
    pub struct StationSpec {
        /// A program we know how to start. Servers: `memcached`, `cache` (`krarup cache`), `auto`
        /// (memcached where it is installed), `broker` (`krarup broker`) or `postgres` (one
        /// PostgreSQL, for a middleware of brokers); middleware: `proxy`, `twemproxy` (the
        /// installed `nutcracker`), or `broker` before `postgres`; clients: `load`. A station has
        /// one of `program`, `command` and `addresses`.
        program: Option<Program> = None, Optional(Word(&Program::NAMES)), example = "\"memcached\"";
        /// Any other program: its words, with `{host}` and `{port}` where it is told where to
        /// listen, and `{servers}` where it is told which addresses to ask (`{server1}`,
        /// `{server2}` … are one of them, `{server1.host}` and `{server1.port}` its parts).
        command: Vec<Spanned<String>> = Vec::new(), WORDS, example = "[\"memcached\", \"-p\", \"{port}\"]";
        /// Those that run already, as `HOST:PORT`. They are told nothing: no `count`, no `flags`.
        addresses: Vec<Address> = Vec::new(), List(ADDRESS), example = "[\"10.0.0.4:11211\"]";
        /// The machines they run on, in turn; without, those of the inventory's group of the
        /// station's name: `"user@host:port"`, a host or a group of the inventory, or a table. Only
        /// in `ssh`.
        hosts: Vec<Machine> = Vec::new(), List(MACHINE),
            example = "[\"user@host:22\", { host = \"a.example\", address = \"10.0.0.4\" }]";
        /// The pod that each of them runs in, in `kubernetes`; without, one of krarup's image.
        pod: Option<PodSettings> = None, Optional(Inline),
            example = "{ image = \"memcached:1.6\", limits = { cpu = \"$cpu\" } }";
        /// How many are started, always or as the level of a factor says; without, 3 servers (1
        /// where that is `postgres`), 1 middleware, 1 client. Each of several clients is a load
        /// generator of its own, with all of `flags`.
        count: Option<StationCount> = None, Optional(FromText), example = "\"$servers\"";
        /// Bits per second that the host of each may send, headers included; without, as fast as it
        /// goes. Only where it has one, in `netns`.
        link: Option<f64> = None, Optional(BANDWIDTH), example = "\"101Mbit/s\"";
        /// How long what the host of each sends is under way at least, one way: 0.3ms in one data
        /// centre, 40ms over an ocean. Only where it has one, in `netns`.
        delay: Seconds = 0.0, Duration::up_to(LONGEST_DELAY);
        /// Processors that each of them may use, by a control group with a quota: 0.32 is a third
        /// of one. It needs root, and is refused where control groups cannot be written, and in
        /// `kubernetes`, where a pod has limits. Without, all there are. With a `scale`, processors
        /// of the machine that each stands for.
        cpu: Option<f64> = None, Optional(Number::between(LEAST, 1_024.0)), example = "0.32";
        /// Further words, after those that we give. In those of `proxy` and `broker` as middleware
        /// `{records}` stands for the folder of what it records in a trial.
        flags: Vec<Spanned<String>> = Vec::new(), WORDS, example = "[\"--workers\", \"$workers\"]";
        /// A configuration file of the middleware, as it is to be written for each trial: `$factor`
        /// stands for the words of a level, `{host}` and `{servers}` for what the words of a
        /// command mean by them; so does `{port}` in that of a command. `krarup proxy` gets it with
        /// `--config`; a command is told the file's path in place of `{config}`. Of `twemproxy` it
        /// is keys of its pool, a line each; `listen` and `servers` are written by the trial.
        config: Option<Spanned<String>> = None, Optional(Located(TEXT)), example = "\"replicas = $replicas\"";
    }
}

impl StationSpec {
    /// How many of these servers are started, where the spec does not say.
    pub fn usual_servers(&self) -> u32 {
        if self.program == Some(Program::Postgres) { 1 } else { 3 }
    }
}

/// How many of a station there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StationCount {
    /// Always so many.
    Number(u32),
    /// As many as the level of this factor says.
    Factor(String),
}

impl FromStr for StationCount {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        match (text.parse(), &names_in(text)[..]) {
            (Ok(number), _) if (1..=MOST).contains(&number) => Ok(Self::Number(number)),
            (_, [name]) if text == format!("${name}") || text == format!("${{{name}}}") => {
                Ok(Self::Factor((*name).to_owned()))
            }
            _ => {
                let what = format!("`{text}` is no count of stations");
                Err(Mistake::new(what, format!("write a number from 1 to {MOST}, or a factor as \"$name\"")))
            }
        }
    }
}

impl StationCount {
    /// The factor that says how many.
    pub fn factor(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::Factor(name) => Some(name),
        }
    }
}

/// A program we know how to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// memcached where it is installed, else `krarup cache`.
    Auto,
    /// The installed memcached, one thread.
    Memcached,
    /// `krarup cache`.
    Cache,
    /// `krarup broker`, for the load that asks of message queues.
    Broker,
    /// The installed PostgreSQL, for brokers between it and the clients.
    Postgres,
    /// `krarup proxy`.
    Proxy,
    /// The installed twemproxy, `nutcracker`.
    Twemproxy,
    /// `krarup load`.
    Load,
}

impl Program {
    /// Each with its name in a spec.
    pub const NAMES: [(Self, &str); 8] = [
        (Self::Auto, "auto"),
        (Self::Memcached, "memcached"),
        (Self::Cache, "cache"),
        (Self::Broker, "broker"),
        (Self::Postgres, "postgres"),
        (Self::Proxy, "proxy"),
        (Self::Twemproxy, "twemproxy"),
        (Self::Load, "load"),
    ];
}
