//! The servers of a demo: started here, or running already.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use krarup_lab::stop::Stop;
use krarup_lab::testbed::local::{Process, StationError, free_port};
use krarup_net::Address;

/// How many servers are started.
const SERVERS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(15);

/// Which servers.
#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// memcached where it is installed, else the embedded ones.
    Auto,
    /// Installed memcached.
    Memcached,
    /// `krarup cache`.
    Embedded,
    /// Running somewhere.
    Running(Vec<Address>),
}

impl Choice {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "memcached" => Ok(Self::Memcached),
            "embedded" => Ok(Self::Embedded),
            _ => text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self::Running),
        }
    }
}

/// Servers that can be asked. Those started here end with this value.
pub(super) struct Servers {
    addresses: Vec<Address>,
    processes: Vec<Process>,
    kind: String,
}

impl Servers {
    pub(super) fn start(choice: &Choice, stop: &Stop) -> Result<Self, StationError> {
        let installed = version();
        let memcached = match choice {
            Choice::Running(addresses) => {
                let mut versions = addresses.iter().map(tell_version).collect::<Result<Vec<_>, _>>()?;
                versions.dedup();
                return Ok(Self {
                    addresses: addresses.clone(),
                    processes: Vec::new(),
                    kind: format!("running {}", versions.join(", ")),
                });
            }
            Choice::Embedded => false,
            Choice::Memcached if installed.is_none() => {
                return Err(StationError {
                    name: "memcached".into(),
                    why: "is not installed; install Debian's package memcached, or use --servers embedded"
                        .into(),
                    said: Vec::new(),
                });
            }
            Choice::Memcached | Choice::Auto => installed.is_some(),
        };
        let kind = match installed {
            Some(version) if memcached => version,
            _ => format!("krarup cache {}", env!("CARGO_PKG_VERSION")),
        };
        let mut servers = Self { addresses: Vec::new(), processes: Vec::new(), kind };
        for number in 1..=SERVERS {
            let name = format!("server {number}");
            let (process, address) =
                if memcached { start_memcached(&name, stop)? } else { start_cache(&name, stop)? };
            servers.processes.push(process);
            servers.addresses.push(address);
        }
        Ok(servers)
    }

    pub(super) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The processes started here, with their addresses.
    pub(super) fn processes(&self) -> impl Iterator<Item = (&Process, &Address)> {
        self.processes.iter().zip(&self.addresses)
    }

    /// What they are.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn describe(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        format!("{} × {} at {}", addresses.len(), self.kind, addresses.join(", "))
    }

    /// Ends those that were started here.
    pub(super) fn stop(&mut self) -> Result<(), StationError> {
        self.processes.iter_mut().try_for_each(|process| process.stop(PATIENCE).map(drop))
    }
}

/// What a running server says its version is.
fn tell_version(address: &Address) -> Result<String, StationError> {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(b"version\r\nquit\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let wrong = |why: String| StationError { name: format!("server {address}"), why, said: Vec::new() };
    let answer =
        ask().map_err(|error| wrong(format!("does not answer: {error}; is a memcached running there?")))?;
    match answer.trim_end().strip_prefix("VERSION ") {
        Some(version) => Ok(version.to_owned()),
        None => Err(wrong(format!("is no memcached: it answers `{}` to `version`", answer.escape_debug()))),
    }
}

/// The installed memcached's words for its version.
fn version() -> Option<String> {
    let output = Command::new("memcached").arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn start_memcached(name: &str, stop: &Stop) -> Result<(Process, Address), StationError> {
    let port = free_port().map_err(|error| StationError {
        name: name.to_owned(),
        why: format!("no free port: {error}"),
        said: Vec::new(),
    })?;
    let mut command = Command::new("memcached");
    command.args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-m", "128", "-p", &port.to_string()]);
    if krarup_lab::host::is_root() {
        // It refuses to run as root unless told as whom.
        command.args(["-u", "nobody"]);
    }
    let mut process = Process::start(name, &mut command)?;
    process.accepts(([127, 0, 0, 1], port).into(), PATIENCE, stop)?;
    Ok((process, Address { host: "127.0.0.1".into(), port }))
}

fn start_cache(name: &str, stop: &Stop) -> Result<(Process, Address), StationError> {
    let mut command = super::krarup();
    command.args(["cache", "--listen", "127.0.0.1:0", "--memory", "128MiB"]);
    let mut process = Process::start(name, &mut command)?;
    let address = process.ready("listening on ", PATIENCE, stop)?;
    let address = address.parse().map_err(|why| process.error(why))?;
    Ok((process, address))
}
