//! Where a station runs: this machine, a network namespace of it, or another machine. The code that
//! starts, asks or measures does not need to know.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use krarup_units::Address;
use krarup_units::{Nanos, Seconds};

use super::namespace::inside;
use super::probe::{ask, free_port, memcached, round_trips};
use super::remote::Remote;

/// Where a host is.
#[derive(Clone, Debug)]
pub enum Location {
    /// This machine as it is.
    Local,
    /// A network namespace of this machine.
    Namespace(String),
    /// Another machine, through ssh.
    Remote(Arc<Remote>),
}

/// One host.
#[derive(Clone, Debug)]
pub struct Host {
    /// `c1`, `m1`, `s1`: its kind and number; `here` for this machine.
    pub name: String,
    /// Where it is reached by the other hosts.
    pub address: String,
    /// Where it is.
    pub location: Location,
    /// Bits per second that it may send; none: as fast as it can.
    pub link: Option<f64>,
    /// How long what it sends may wait before its link; what would wait longer is thrown away.
    pub waits: Nanos,
    /// How long what it sends is under way at least.
    pub delay: Nanos,
    /// Processors that what runs on it may use; none: all there are.
    pub cpu: Option<f64>,
    /// Processors for which the quota of a control group is written, so that it gives
    /// [`cpu`](Self::cpu).
    pub quota: Option<f64>,
}

impl Host {
    /// This machine.
    pub fn here() -> Self {
        Self {
            name: "here".into(),
            address: "127.0.0.1".into(),
            location: Location::Local,
            link: None,
            waits: Nanos::ZERO,
            delay: Nanos::ZERO,
            cpu: None,
            quota: None,
        }
    }

    /// The words that start a program there, as one would type them here; on another machine, what
    /// is typed there.
    pub fn words(&self, words: &[String]) -> Vec<String> {
        let before: &[&str] = match &self.location {
            Location::Namespace(space) => &["ip", "netns", "exec", space],
            Location::Local | Location::Remote(_) => &[],
        };
        before.iter().map(|word| (*word).to_owned()).chain(words.iter().cloned()).collect()
    }

    /// The command that starts a program on a host of this machine.
    pub fn command(&self, words: &[String]) -> Command {
        let mut words = self.words(words).into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// The other machine, where it is one.
    pub fn remote(&self) -> Option<&Arc<Remote>> {
        match &self.location {
            Location::Remote(remote) => Some(remote),
            Location::Local | Location::Namespace(_) => None,
        }
    }

    /// The name of its machine: all hosts that share a process table and a clock have one.
    pub fn machine(&self) -> String {
        self.remote().map_or_else(|| "here".to_owned(), |remote| remote.name.clone())
    }

    /// The path there of what has this path here: stations write on their own machine, and what
    /// they wrote is brought here later.
    pub fn path(&self, here: &Path) -> String {
        match &self.location {
            Location::Remote(remote) => remote.path(here),
            Location::Local | Location::Namespace(_) => here.to_string_lossy().into_owned(),
        }
    }

    /// Whether programs run as root there, as which some servers refuse to run.
    pub fn is_root(&self) -> bool {
        match &self.location {
            Location::Remote(remote) => remote.facts().root,
            Location::Local | Location::Namespace(_) => crate::platform::is_root(),
        }
    }

    /// Whether no other user is known there.
    pub fn is_alone(&self) -> bool {
        match &self.location {
            Location::Remote(remote) => remote.facts().alone,
            Location::Local | Location::Namespace(_) => crate::platform::is_alone(),
        }
    }

    /// What the memcached that is installed there says it is; none where there is none.
    pub fn memcached(&self) -> Option<String> {
        match &self.location {
            Location::Remote(remote) => remote.facts().memcached.clone(),
            Location::Local | Location::Namespace(_) => memcached(),
        }
    }

    /// A port that was free there a moment ago, for programs that cannot be told to choose one
    /// themselves.
    ///
    /// # Errors
    /// From the system; where the machine does not have the address.
    pub fn free_port(&self) -> io::Result<u16> {
        match &self.location {
            Location::Remote(remote) => remote.free_port(&self.address).map_err(io::Error::other),
            Location::Local | Location::Namespace(_) => free_port("127.0.0.1"),
        }
    }

    /// Does something with sockets in the host's own network. Never called for another machine.
    fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        match &self.location {
            Location::Namespace(space) => inside(space, work),
            Location::Local | Location::Remote(_) => work(),
        }
    }

    /// Connects to an address from a host of this machine.
    ///
    /// # Errors
    /// From the system; on another machine, always: the program that runs there connects.
    pub fn connect(&self, to: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        if self.remote().is_some() {
            return Err(io::Error::other("this is done by the machine itself"));
        }
        self.inside(move || TcpStream::connect_timeout(&to, within))
    }

    /// Says something to a station from there, and listens to the end.
    ///
    /// # Errors
    /// From the system.
    pub fn ask(&self, address: &Address, words: &str) -> io::Result<String> {
        let (to, said) = (address.clone(), words.to_owned());
        match &self.location {
            Location::Remote(remote) => remote.ask(address, words).map_err(io::Error::other),
            Location::Local | Location::Namespace(_) => self.inside(move || ask(&to, &said)),
        }
    }

    /// How long connections to a station take, one after the other: the packet that asks and the
    /// one that answers, without any program's doing.
    ///
    /// # Errors
    /// From the system.
    pub fn round_trips(&self, to: &Address, count: u32) -> io::Result<Vec<Seconds>> {
        let address = to.clone();
        match &self.location {
            Location::Remote(remote) => remote.round_trips(to, count).map_err(io::Error::other),
            Location::Local | Location::Namespace(_) => self.inside(move || round_trips(&address, count)),
        }
    }
}

/// How many hosts of one kind there are, and how fast each may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostGroup {
    /// `c`, `m` or `s`.
    pub letter: char,
    /// How many.
    pub count: u32,
    /// Bits per second that each may send; none: as fast as it can.
    pub link: Option<f64>,
    /// How long what each sends may wait before its link.
    pub waits: Nanos,
    /// How long what each sends is under way at least.
    pub delay: Nanos,
}
