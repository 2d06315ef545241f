//! All machines of an experiment, and which station runs on which.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use krarup_units::{Mistake, Nanos};

use super::super::error::StationError;
use super::super::host::{Host, HostGroup, Location};
use super::super::remote::{Remote, RemoteRun, plain, run_number};
use super::destination::{Destination, Sockets};
use super::inventory::Inventory;
use super::reach::{Binary, reach};
use crate::ledger::Ledger;
use crate::spec::{Machine, Spec};
use crate::stop::Stop;

/// All machines. What was started on them ends with this value.
#[derive(Debug)]
pub struct Fleet {
    hosts: Vec<Host>,
    machines: Vec<Arc<Remote>>,
    /// Goes last: connections end through it.
    _sockets: Sockets,
}

fn wrong(name: &str, why: impl Into<Mistake>) -> StationError {
    StationError::new(name, why)
}

/// The machines of a station: those it names, or else the inventory's group of its name.
fn machines(
    station: &str,
    named: &[Machine],
    inventory: Option<&Inventory>,
) -> Result<Vec<(String, Machine)>, StationError> {
    let fail = |why: Mistake| wrong(&format!("stations.{station}"), why);
    let mut all = Vec::new();
    let group = [Machine { host: station.to_owned(), ..Machine::default() }];
    for machine in if named.is_empty() { &group } else { named } {
        let known =
            inventory.map_or(Ok(None), |inventory| inventory.machines(&machine.host)).map_err(fail)?;
        match known {
            Some(known) if known.len() > 1 && machine.address.is_some() => {
                let what =
                    format!("`{}` is {} machines, and one address is given", machine.host, known.len());
                return Err(fail(Mistake::new(what, "write krarup_address in the inventory, for each")));
            }
            Some(known) => all.extend(known.into_iter().map(|(name, known)| (name, over(machine, known)))),
            None if named.is_empty() => {
                let groups = inventory.map_or(String::new(), |inventory| {
                    format!(", or name a group of the inventory so, it has: {}", inventory.names().join(", "))
                });
                return Err(fail(Mistake::new("has no hosts", format!("write hosts = [\"…\"]{groups}"))));
            }
            None => all.push((machine.host.clone(), machine.clone())),
        }
    }
    if all.is_empty() {
        return Err(fail(Mistake::plain("has no hosts: its group in the inventory is empty")));
    }
    Ok(all)
}

/// What the spec says of a machine goes before what the inventory does.
fn over(said: &Machine, known: Machine) -> Machine {
    let Machine { address, user, port, identity, .. } = said.clone();
    Machine {
        address: address.or(known.address),
        user: user.or(known.user),
        port: port.or(known.port),
        identity: identity.or(known.identity),
        ..known
    }
}

impl Fleet {
    /// Goes to all machines that the stations of a spec need. Paths in the spec are relative to
    /// `base`; `folder` is where a trial's records are written.
    ///
    /// # Errors
    /// Where the inventory cannot be read, a station has no machine, or one cannot be reached or
    /// used.
    pub fn reach_all(
        spec: &Spec,
        kinds: &[HostGroup],
        (base, folder): (&Path, &Path),
        krarup: &Path,
        ledger: &Ledger,
        stop: &Stop,
    ) -> Result<Self, StationError> {
        let ssh = spec.ssh.clone().unwrap_or_default();
        let inventory = ssh.inventory.as_ref().map(|file| {
            let path = base.join(file);
            Inventory::read(&path)
                .map_err(|why| wrong(&format!("inventory {}", path.display()), why.to_string()))
        });
        let inventory = inventory.transpose()?;
        let sockets =
            Sockets::new().map_err(|error| wrong("ssh", format!("no folder for its sockets: {error}")))?;
        ledger.note_folder(sockets.folder());
        let binary = Binary::read(krarup)
            .map_err(|error| wrong("krarup", format!("{}: {error}", krarup.display())))?;
        let number = run_number();
        let run = RemoteRun { number: &number, folder, ledger, stop };
        let mut fleet = Self { hosts: Vec::new(), machines: Vec::new(), _sockets: sockets };
        let mut known: BTreeMap<(String, Option<String>, Option<u16>), Arc<Remote>> = BTreeMap::new();
        for ((station, said), kind) in
            spec.stations().filter(|(_, station)| station.addresses.is_empty()).map(|(name, station)| {
                let letter = name.chars().next().unwrap_or('s');
                ((name, station), kinds.iter().find(|kind| kind.letter == letter))
            })
        {
            let machines = machines(station, &said.hosts, inventory.as_ref())?;
            let count = kind.map_or(1, |kind| kind.count);
            for (place, (name, machine)) in (1..=count).zip(machines.iter().cycle()) {
                let key = (machine.host.clone(), machine.user.clone(), machine.port);
                let remote = match known.get(&key) {
                    Some(remote) => Arc::clone(remote),
                    None => {
                        let mut folder = plain(name);
                        if fleet.machines.iter().any(|other| other.name == folder) {
                            folder = format!("{folder}-{}", fleet.machines.len() + 1);
                        }
                        let socket = fleet._sockets.folder().join(fleet.machines.len().to_string());
                        let destination = Destination::new(name, machine, &ssh, base, socket);
                        let remote =
                            reach(&folder, destination, machine.address.as_deref(), (&ssh, &binary), run)?;
                        let remote = Arc::new(remote);
                        fleet.machines.push(Arc::clone(&remote));
                        known.insert(key, Arc::clone(&remote));
                        remote
                    }
                };
                let letter = station.chars().next().unwrap_or('s');
                fleet.hosts.push(Host {
                    name: format!("{letter}{place}"),
                    address: machine.address.clone().unwrap_or_else(|| remote.address.clone()),
                    location: Location::Remote(remote),
                    link: None,
                    waits: Nanos::ZERO,
                    delay: Nanos::ZERO,
                    cpu: None,
                    quota: None,
                });
            }
        }
        Ok(fleet)
    }

    /// The machines, each once.
    pub fn machines(&self) -> &[Arc<Remote>] {
        &self.machines
    }

    /// The host of this kind and number, from 1.
    pub fn host(&self, letter: char, number: u32) -> Option<&Host> {
        let name = format!("{letter}{number}");
        self.hosts.iter().find(|host| host.name == name)
    }

    /// Connects again to those whose connection broke.
    ///
    /// # Errors
    /// Where one is out of reach.
    pub fn reach(&self, stop: &Stop) -> Result<(), StationError> {
        self.machines.iter().try_for_each(|machine| machine.reconnect(stop))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// These machines, with no station on them.
    pub(crate) fn fleet(machines: Vec<Arc<Remote>>) -> Fleet {
        Fleet { hosts: Vec::new(), machines, _sockets: Sockets::new().unwrap() }
    }

    #[test]
    fn stations_find_their_machines_in_the_spec_or_the_inventory() {
        let inventory = br#"{"_meta": {"hostvars": {"a": {"ansible_user": "x"}, "c": {"ansible_port": 7}}},
            "servers": {"hosts": ["a", "b"]}, "other": {"hosts": ["c"]}}"#;
        let inventory = Inventory::parse(inventory).unwrap();
        let named = |host: &str| Machine { host: host.into(), user: Some("me".into()), ..Machine::default() };
        let names = |station: &str, named: &[Machine], inventory: Option<&Inventory>| {
            machines(station, named, inventory)
                .map(|all| all.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names("servers", &[], Some(&inventory)).unwrap(), ["a", "b"]);
        assert_eq!(names("clients", &[named("other"), named("z")], Some(&inventory)).unwrap(), ["c", "z"]);
        let of = machines("clients", &[named("other")], Some(&inventory)).unwrap();
        assert_eq!(
            (of[0].1.user.as_deref(), of[0].1.port),
            (Some("me"), Some(7)),
            "the spec goes before the inventory"
        );
        let at = |host: &str| Machine { address: Some("10.0.0.4".into()), ..named(host) };
        let of = machines("clients", &[at("a")], Some(&inventory)).unwrap();
        assert_eq!((of.len(), of[0].1.address.as_deref()), (1, Some("10.0.0.4")));
        let error = names("clients", &[at("servers")], Some(&inventory)).unwrap_err().to_string();
        assert!(error.contains("`servers` is 2 machines, and one address is given"), "{error}");
        let error = names("middleware", &[], Some(&inventory)).unwrap_err().to_string();
        assert!(
            error.contains("stations.middleware: has no hosts")
                && error.contains("it has: other, servers, a, b, c"),
            "{error}"
        );
        assert!(names("middleware", &[], None).unwrap_err().to_string().contains("write hosts"));
    }
}
