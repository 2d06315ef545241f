//! What runs, how it is started, how many there are, and where.

use krarup_units::Seconds;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::factor::names_in;
use super::machine::Machine;
use super::quantity::{bandwidth, time};

/// What runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stations {
    /// memcached, or what speaks its protocol.
    pub servers: StationSpec,
    /// What stands between; without, the clients ask the servers themselves.
    pub middleware: Option<StationSpec>,
    /// The load.
    pub clients: StationSpec,
}

/// Where stations run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Testbed {
    /// As processes on this machine.
    #[default]
    Local,
    /// The same, each in a network namespace of its own, behind a link of its own.
    Netns,
    /// On other machines, through ssh.
    Ssh,
}

/// One kind of program and how it is started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StationSpec {
    /// A program we know how to start.
    pub program: Option<Program>,
    /// Any other: its words, with `{port}` where it is told where to listen and `{servers}` where
    /// it is told whom to ask.
    #[serde(default)]
    pub command: Vec<Spanned<String>>,
    /// Those that run already, as HOST:PORT.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// The machines they run on, in turn: only in `ssh`.
    #[serde(default)]
    pub hosts: Vec<Machine>,
    /// How many are started.
    pub count: Option<StationCount>,
    /// Bits per second that the host of each may send: only where it has one, in `netns`.
    #[serde(default, deserialize_with = "bandwidth")]
    pub link: Option<f64>,
    /// How long what the host of each sends is under way at least, one way: only where it has one,
    /// in `netns`.
    #[serde(default, deserialize_with = "time")]
    pub delay: Seconds,
    /// Processors that each of them may use: 0.32 is a third of one.
    pub cpu: Option<f64>,
    /// Further words, after those that we give.
    #[serde(default)]
    pub flags: Vec<Spanned<String>>,
    /// A configuration file of the middleware, as it is to be written for each trial: `$factor`
    /// stands for the words of a level, `{host}`, `{port}` and `{servers}` for what the words of a
    /// command mean by them. A command is told the file's path in place of `{config}`.
    pub config: Option<Spanned<String>>,
}

/// How many of a station there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StationCount {
    /// Always so many.
    Number(u32),
    /// As many as the level of this factor says.
    Factor(String),
}

impl<'de> Deserialize<'de> for StationCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a count is a number, or a factor as \"$servers\"")]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self::Number(number)),
            Written::Text(text) => match names_in(&text)[..] {
                [name] if text == format!("${name}") || text == format!("${{{name}}}") => {
                    Ok(Self::Factor(name.to_owned()))
                }
                _ => Err(serde::de::Error::custom(format!(
                    "`{text}` is neither a number nor a factor as $name"
                ))),
            },
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// memcached where it is installed, else `krarup cache`.
    Auto,
    /// The installed memcached, one thread.
    Memcached,
    /// `krarup cache`.
    Cache,
    /// `krarup broker`, for the load that asks of message queues.
    Broker,
    /// `krarup proxy`.
    Proxy,
    /// `krarup load`.
    Load,
}
