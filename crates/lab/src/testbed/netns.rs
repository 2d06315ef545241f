//! Hosts on one machine: a network namespace each, joined by a bridge, with an upload rate of its
//! own. Linux only; root, or a user namespace in which one is root of one's own ([`rootless`]).
//!
//! ```text
//!   c1 ──tbf 201 Mbit/s──┐         ┌──tbf 101 Mbit/s── s1
//!   c2 ──tbf 201 Mbit/s──┤  bridge ├──tbf 101 Mbit/s── s2
//!   m1 ──tbf 802 Mbit/s──┘         └── …
//! ```
//! The rate bounds what a host sends, headers included, as the uplink of a rented machine does;
//! what it is sent is bounded by the senders. Where a host has a delay, a [delay
//! line](crate::delay) stands in the place of its pair of devices, behind the shaper.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use krarup_units::Nanos;
use serde::Deserialize;

use super::error::StationError;
use super::host::{Host, HostGroup, Location};
use super::namespace::{ip, remove, run};
use super::process::{ChildProcess, PATIENCE};
use crate::delay::tally::{LineTally, STANDS};
use crate::ledger::Ledger;
use crate::stop::Stop;

/// Set for a program that runs in namespaces that [`rootless`] has made.
const INSIDE: &str = "KRARUP_ROOTLESS";

/// The command that runs this program again, with the same words, where it may make namespaces: in
/// a user namespace of its own. None where that is not needed, because we are root, or have been
/// here before.
///
/// # Errors
/// Where users may not have namespaces, with what to do.
pub fn rootless(
    krarup: &Path,
    words: impl IntoIterator<Item = OsString>,
) -> Result<Option<Command>, StationError> {
    if crate::platform::is_root() || std::env::var_os(INSIDE).is_some() {
        return Ok(None);
    }
    const ROOT_OF_MINE: &str = "-Urnm";
    let wrong = |why: String, said: &[u8]| StationError {
        name: "network".into(),
        why: format!("users may not make network namespaces here: `unshare {ROOT_OF_MINE} true` {why}"),
        hint:
            "run as root, or let the kernel allow it (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu \
               kernel.apparmor_restrict_unprivileged_userns=0), or use testbed = \"local\""
                .into(),
        said: String::from_utf8_lossy(said).lines().map(str::to_owned).collect(),
        certain: false,
    };
    let tried = Command::new("unshare").args([ROOT_OF_MINE, "true"]).stdin(Stdio::null()).output();
    let tried = tried.map_err(|error| wrong(format!("cannot be run: {error}"), &[]))?;
    if !tried.status.success() {
        return Err(wrong(format!("failed ({})", tried.status), &tried.stderr));
    }
    // Names of namespaces are files there, and the machine's own folder is root's.
    let script = "mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args([ROOT_OF_MINE, "sh", "-c", script]).arg(krarup).args(words).env(INSIDE, "1");
    Ok(Some(command))
}

/// What `tc` says of what stands before a link.
#[derive(Debug, Deserialize)]
struct Shaper {
    kind: String,
    #[serde(default)]
    bytes: u64,
    /// Packets that would have waited for too long. No device counts them.
    #[serde(default)]
    drops: u64,
}

/// What a host's shaper has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTally {
    /// Bytes that were sent, with the headers of every packet.
    pub bytes: u64,
    /// Packets that were thrown away.
    pub lost: u64,
}

impl LinkTally {
    /// From what `tc -s -j qdisc` says of a device.
    fn read(said: &str) -> serde_json::Result<Self> {
        let all: Vec<Shaper> = serde_json::from_str(said)?;
        let shapers = || all.iter().filter(|one| one.kind == "tbf");
        Ok(Self { bytes: shapers().map(|one| one.bytes).sum(), lost: shapers().map(|one| one.drops).sum() })
    }
}

/// Namespaces that are there as long as this value.
#[derive(Debug)]
pub struct Namespaces {
    hosts: Vec<Host>,
    /// The namespaces made so far, the bridge's first.
    spaces: Vec<String>,
    /// The delay lines: they go before their namespaces.
    lines: Mutex<Vec<ChildProcess>>,
}

impl Namespaces {
    /// Makes the hosts. Each is noted in the ledger before it is made, so that the next runner can
    /// take it away.
    ///
    /// # Errors
    /// Where `ip` or `tc` is not installed, or refuses: it needs root; where a delay line does not
    /// come to stand.
    pub fn new(
        kinds: &[HostGroup],
        krarup: &Path,
        ledger: &Ledger,
        stop: &Stop,
    ) -> Result<Self, StationError> {
        let mut network = Self { hosts: Vec::new(), spaces: Vec::new(), lines: Mutex::default() };
        let prefix = format!("krarup-{}", std::process::id());
        let switch = network.space(format!("{prefix}-switch"), ledger)?;
        ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &switch, "link", "set", "br0", "up"])?;
        for (place, kind) in kinds.iter().enumerate() {
            for number in 1..=kind.count {
                let name = format!("{}{number}", kind.letter);
                let address = format!("10.77.{place}.{number}");
                let space = network.space(format!("{prefix}-{name}"), ledger)?;
                ip(&["-n", &space, "link", "set", "lo", "up"])?;
                let host = Host {
                    name,
                    address,
                    location: Location::Namespace(space),
                    link: kind.link,
                    waits: kind.waits,
                    delay: kind.delay,
                    cpu: None,
                    quota: None,
                };
                network.lines.get_mut().expect(UNBROKEN).extend(join(
                    &host,
                    &switch,
                    (krarup, ledger, stop),
                )?);
                network.hosts.push(host);
            }
        }
        Ok(network)
    }

    fn space(&mut self, name: String, ledger: &Ledger) -> Result<String, StationError> {
        ledger.note_space(&name);
        ip(&["netns", "add", &name])?;
        self.spaces.push(name.clone());
        Ok(name)
    }

    /// What each host that has a link has sent over it so far, and what its shaper has thrown away.
    ///
    /// # Errors
    /// Where `tc` refuses.
    pub fn sent(&self) -> Result<Vec<(&Host, f64, LinkTally)>, StationError> {
        let space = |host: &Host| match &host.location {
            Location::Namespace(space) => Some(space.clone()),
            Location::Local | Location::Remote(_) => None,
        };
        let shaped = self.hosts.iter().filter_map(|host| Some((host, host.link?, space(host)?)));
        shaped
            .map(|(host, link, space)| {
                let words = ["netns", "exec", &space, "tc", "-s", "-j", "qdisc", "show", "dev", "eth0"];
                let said = run("ip", &words)?;
                let tally = LinkTally::read(&said).map_err(|error| StationError {
                    name: format!("host {}", host.name),
                    why: format!("`tc -s -j qdisc` said what cannot be read: {error}"),
                    hint: String::new(),
                    said: said.lines().map(str::to_owned).collect(),
                    certain: false,
                })?;
                Ok((host, link, tally))
            })
            .collect()
    }

    /// Lets every host that has a link send so many times its rate, until it is said otherwise:
    /// what is not measured need not take as long as what is.
    ///
    /// # Errors
    /// Where `tc` refuses.
    pub fn quicken(&self, times: f64) -> Result<(), StationError> {
        self.hosts.iter().try_for_each(|host| shape(host, "change", times))
    }

    /// The delay lines, by the names of their hosts: their process numbers.
    pub fn lines(&self) -> Vec<(String, u32)> {
        let lines = self.lines.lock().expect(UNBROKEN);
        lines.iter().map(|line| (line.name().to_owned(), line.id())).collect()
    }

    /// What has passed each delay line so far, by its host.
    pub fn passed(&self) -> Vec<(&Host, LineTally)> {
        let mut lines = self.lines.lock().expect(UNBROKEN);
        let hosts = self.hosts.iter().filter(|host| host.delay > Nanos::ZERO);
        hosts.zip(lines.iter_mut()).map(|(host, line)| (host, line.passed().unwrap_or_default())).collect()
    }

    /// Makes sure that all delay lines still stand.
    ///
    /// # Errors
    /// Where one has ended: its host is cut off.
    pub fn stands(&self) -> Result<(), StationError> {
        let mut lines = self.lines.lock().expect(UNBROKEN);
        match lines.iter_mut().find_map(|line| line.has_ended().then_some(line)) {
            Some(line) => Err(line.error("has ended, and its host was cut off")),
            None => Ok(()),
        }
    }

    /// Joins hosts whose delay lines have ended to the others again, as at the beginning.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn mend(&self, krarup: &Path, ledger: &Ledger, stop: &Stop) -> Result<(), StationError> {
        let mut lines = self.lines.lock().expect(UNBROKEN);
        let hosts = self.hosts.iter().filter(|host| host.delay > Nanos::ZERO);
        for (host, line) in hosts.zip(lines.iter_mut()) {
            if line.has_ended()
                && let Some(anew) = join(host, &self.spaces[0], (krarup, ledger, stop))?
            {
                *line = anew;
                // Others would send to the card that it had before.
                for space in &self.spaces {
                    ip(&["-n", space, "neigh", "flush", "all"])?;
                }
            }
        }
        Ok(())
    }

    /// The host of this kind and number, from 1.
    pub fn host(&self, letter: char, number: u32) -> Option<&Host> {
        let name = format!("{letter}{number}");
        self.hosts.iter().find(|host| host.name == name)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        if let Ok(lines) = self.lines.get_mut() {
            lines.clear();
        }
        for space in &self.spaces {
            remove(space);
        }
    }
}

/// No thread panics while it holds the list of delay lines.
const UNBROKEN: &str = "the list of delay lines is whole";

/// Joins a host to the switch, with its address and what stands before its link; the answer is its
/// delay line, where it has one.
fn join(
    host: &Host,
    switch: &str,
    (krarup, ledger, stop): (&Path, &Ledger, &Stop),
) -> Result<Option<ChildProcess>, StationError> {
    let Host { name, address, location: Location::Namespace(space), .. } = host else { return Ok(None) };
    let line = if host.delay > Nanos::ZERO {
        Some(line(host.delay, [space, switch, name], (krarup, ledger, stop))?)
    } else {
        let words = ["link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", name];
        ip(&[&words[..], &["netns", switch]].concat())?;
        None
    };
    ip(&["-n", space, "addr", "add", &format!("{address}/16"), "dev", "eth0"])?;
    ip(&["-n", space, "link", "set", "eth0", "up"])?;
    ip(&["-n", switch, "link", "set", name, "master", "br0", "up"])?;
    shape(host, "add", 1.0)?;
    Ok(line)
}

/// Lets a host that has a link send so many times its rate, by a shaper that is added or changed.
fn shape(host: &Host, how: &str, times: f64) -> Result<(), StationError> {
    let (Some(link), Location::Namespace(space)) = (host.link, &host.location) else { return Ok(()) };
    let (rate, waits) = (format!("{}bit", (link * times).round()), format!("{}us", host.waits.0 / 1_000));
    let words =
        ["qdisc", how, "dev", "eth0", "root", "tbf", "rate", &rate, "burst", "16kb", "latency", &waits];
    run("ip", &[&["netns", "exec", space, "tc"][..], &words].concat()).map(drop)
}

/// A delay line between two namespaces, which stands. It is noted in the ledger.
fn line(
    delay: Nanos,
    [host, switch, name]: [&str; 3],
    (krarup, ledger, stop): (&Path, &Ledger, &Stop),
) -> Result<ChildProcess, StationError> {
    let mut command = Command::new(krarup);
    command.args(["agent", "delay", &delay.0.to_string(), host, switch, name]);
    ledger.mark(&mut command);
    let mut line = ChildProcess::start(&format!("delay line of {name}"), &mut command)?;
    ledger.note(line.id());
    line.ready(STANDS, PATIENCE, stop)?;
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_throws_away_is_read_of_its_shaper() {
        let said = r#"[{"kind":"tbf","handle":"8001:","root":true,"options":{"rate":1250000},
            "bytes":5000,"packets":9,"drops":7,"overlimits":3,"requeues":0,"backlog":0,"qlen":0},
            {"kind":"noqueue","bytes":1,"drops":1}]"#;
        assert_eq!(LinkTally::read(said).unwrap(), LinkTally { bytes: 5_000, lost: 7 });
        let early = LinkTally::read(r#"[{"kind":"tbf","bytes":5}]"#).unwrap();
        assert_eq!(early, LinkTally { bytes: 5, lost: 0 });
        assert!(LinkTally::read("tbf").is_err());
    }
}
