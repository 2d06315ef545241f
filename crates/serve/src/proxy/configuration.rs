//! The configuration as it changes: its file is read again when a reload is asked for, and names of
//! servers are resolved again at intervals. Both happen on a thread of their own, because files and
//! name services may block.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use krarup_units::Nanos;
use krarup_units::{Address, Mistake};

use krarup_proxy::config::{Config, Replicas, ServerConfig};
use krarup_proxy::engine::Engine;

/// The numbers behind addresses.
pub type Numbers = HashMap<Address, Vec<SocketAddr>>;

/// Asks for the numbers behind an address.
pub type Resolve<'a> = &'a mut dyn FnMut(&Address) -> Result<Vec<SocketAddr>, Mistake>;

/// A configuration whose names have been looked up, those that stand for many servers replaced by
/// these.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What holds.
    pub config: Config,
    /// The numbers of every server that has any.
    pub numbers: Numbers,
}

impl Resolved {
    /// The same, where some names need not be known: these stand for one server each, which has no
    /// number.
    ///
    /// # Errors
    /// No name is known.
    fn of_known_names(
        as_written: &Config,
        resolve: Resolve<'_>,
        missing: &mut dyn FnMut(&Mistake),
    ) -> Result<Self, Mistake> {
        let mut last = None;
        let found = Self::of(as_written, &mut |address| {
            Ok(resolve(address).unwrap_or_else(|why| {
                missing(&why);
                last = Some(why);
                Vec::new()
            }))
        })?;
        let none = found
            .config
            .addresses()
            .iter()
            .all(|address| found.numbers.get(address).is_some_and(Vec::is_empty));
        match last {
            Some(why) if none => Err(why),
            _ => Ok(found),
        }
    }

    /// Looks up every name of a configuration `as_written`.
    ///
    /// # Errors
    /// Names the first that has no address.
    pub fn of(as_written: &Config, resolve: Resolve<'_>) -> Result<Self, Mistake> {
        let mut config = as_written.clone();
        let mut numbers = Numbers::new();
        for pool in std::iter::once(&mut config.main).chain(config.pools.values_mut()) {
            let (mut servers, mut grows) = (Vec::new(), false);
            for server in std::mem::take(&mut pool.servers) {
                if server.address.file().is_some() {
                    servers.push(server);
                    continue;
                }
                grows |= server.every_address;
                let mut found = match numbers.get(&server.address) {
                    Some(known) => known.clone(),
                    None => resolve(&server.address)?,
                };
                if !server.every_address || found.is_empty() {
                    numbers.insert(server.address.clone(), found);
                    servers.push(ServerConfig { every_address: false, ..server });
                    continue;
                }
                // In one order whatever the name service says first: placement may depend on it.
                found.sort_unstable();
                found.dedup();
                for number in found {
                    let address = Address::from(number);
                    if servers.iter().any(|other: &ServerConfig| other.address == address) {
                        continue;
                    }
                    numbers.insert(address.clone(), vec![number]);
                    servers.push(ServerConfig { address, name: None, every_address: false, ..server });
                }
            }
            if let Replicas::Count(count) = pool.replicas
                && grows
            {
                // There may be fewer for a while.
                pool.replicas = Replicas::Count(count.min(servers.len()));
            }
            pool.servers = servers;
        }
        Ok(Self { config, numbers })
    }
}

/// Where a configuration comes from.
pub struct ConfigurationSource {
    /// As it was written.
    pub written: Config,
    /// As it holds from the start.
    pub resolved: Resolved,
    /// Reads and checks it again.
    pub reread: Box<dyn FnMut() -> Result<Config, Mistake> + Send>,
}

impl ConfigurationSource {
    /// Looks up the names of a configuration that was checked. Where names are looked up again, one
    /// that is not known yet is told to `missing`: its server is down until it is known. Name
    /// services may be slow when a machine starts, and the other servers need not wait.
    ///
    /// # Errors
    /// As [`Resolved::of`], where a name would never be looked up again, or none at all is known.
    pub fn new(
        written: Config,
        reread: impl FnMut() -> Result<Config, Mistake> + Send + 'static,
        missing: impl FnMut(&Mistake),
    ) -> Result<Self, Mistake> {
        let mut resolve = krarup_net::resolve;
        let resolved = match Resolved::of(&written, &mut resolve) {
            Err(_) if written.engine == Engine::Events && written.resolve_every > Nanos::ZERO => {
                let mut unknown = Vec::new();
                let found = Resolved::of_known_names(&written, &mut resolve, &mut |why| {
                    unknown.push(why.clone());
                })?;
                unknown.iter().for_each(missing);
                found
            }
            all => all?,
        };
        Ok(Self { written, resolved, reread: Box::new(reread) })
    }
}

/// Where the outcome of a reload is sent.
pub(crate) type ReloadReply = mpsc::Sender<Result<(), Mistake>>;

/// How long a request to reload waits for its outcome.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// What has changed.
#[derive(Debug)]
pub(crate) enum ConfigurationChange {
    /// The configuration was read again, or names that stand for many servers stand for others.
    Configuration(Box<Result<Resolved, Mistake>>, Option<ReloadReply>),
    /// Servers have other numbers.
    Numbers(Numbers),
}

/// The thread that reads and resolves; it ends when this is dropped.
pub(crate) struct ConfigurationWatcher {
    requests: mpsc::Sender<Option<ReloadReply>>,
    changes: mpsc::Receiver<ConfigurationChange>,
}

impl ConfigurationWatcher {
    /// Starts the thread; `wake` is called when there is a change.
    pub(crate) fn begin(source: ConfigurationSource, wake: impl Fn() + Send + 'static) -> Self {
        let (requests, requested) = mpsc::channel();
        let (tell, changes) = mpsc::channel();
        std::thread::spawn(move || watch(source, &requested, &tell, &wake));
        Self { requests, changes }
    }

    /// The configuration shall be read again.
    pub(crate) fn reread(&self) {
        // A thread that has ended has nothing more to read.
        let _ = self.requests.send(None);
    }

    /// Has the configuration read again when it is called, and waits for the outcome.
    pub(crate) fn reload(&self) -> impl Fn() -> Result<(), Mistake> + Send + Sync + use<> {
        let requests = self.requests.clone();
        move || {
            let (reply, result) = mpsc::channel();
            requests.send(Some(reply)).map_err(|_| "the proxy is stopping".to_owned())?;
            match result.recv_timeout(RELOAD_TIMEOUT) {
                Ok(result) => result,
                Err(RecvTimeoutError::Timeout) => Err("it has not been taken over within a minute".into()),
                Err(RecvTimeoutError::Disconnected) => {
                    Err("another one came before it was taken over".into())
                }
            }
        }
    }

    /// The next change, if there is any.
    pub(crate) fn next(&self) -> Option<ConfigurationChange> {
        self.changes.try_recv().ok()
    }
}

fn watch(
    source: ConfigurationSource,
    requested: &mpsc::Receiver<Option<ReloadReply>>,
    tell: &mpsc::Sender<ConfigurationChange>,
    wake: &(impl Fn() + Send + 'static),
) {
    let ConfigurationSource { mut written, mut resolved, mut reread } = source;
    loop {
        let changes = match requested.recv_timeout(pause(&written)) {
            Ok(reply) => {
                let read = reread()
                    .and_then(|config| Ok((Resolved::of(&config, &mut krarup_net::resolve)?, config)));
                let read = read.map(|(found, config)| {
                    written = config;
                    resolved = found.clone();
                    found
                });
                ConfigurationChange::Configuration(Box::new(read), reply)
            }
            Err(RecvTimeoutError::Timeout) => match change(&written, &mut resolved, &mut krarup_net::resolve)
            {
                Some(changes) => changes,
                None => continue,
            },
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if tell.send(changes).is_err() {
            return;
        }
        wake();
    }
}

/// How long to wait before names are looked up again.
fn pause(written: &Config) -> Duration {
    let named =
        |address: &Address| address.file().is_none() && address.host.parse::<std::net::IpAddr>().is_err();
    let mut pools = std::iter::once(&written.main).chain(written.pools.values());
    let any = pools.any(|pool| pool.servers.iter().any(|server| named(&server.address)));
    if any && written.resolve_every > Nanos::ZERO {
        written.resolve_every.as_duration()
    } else {
        Duration::from_secs(86_400)
    }
}

/// What is different from `resolved` when all names are looked up again. A name that is not found
/// now stays what it was.
fn change(written: &Config, resolved: &mut Resolved, resolve: Resolve<'_>) -> Option<ConfigurationChange> {
    let before = resolved.clone();
    let found = Resolved::of(written, &mut |address| {
        resolve(address).or_else(|why| before.numbers.get(address).cloned().ok_or(why))
    });
    // A name for many servers that is not found at all changes nothing.
    let found = found.ok()?;
    *resolved = found.clone();
    if found.config.addresses() != before.config.addresses() {
        return Some(ConfigurationChange::Configuration(Box::new(Ok(found)), None));
    }
    let sorted = |numbers: &Numbers| {
        let mut all: Vec<_> = numbers
            .iter()
            .map(|(address, found)| {
                let mut found = found.clone();
                found.sort_unstable();
                (address.to_string(), found)
            })
            .collect();
        all.sort_unstable();
        all
    };
    (sorted(&found.numbers) != sorted(&before.numbers)).then_some(ConfigurationChange::Numbers(found.numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse(text, "f.toml").unwrap()
    }

    fn numbers(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_name_for_many_servers_becomes_these_and_follows_them() {
        let written =
            config("servers = [{ address = \"many:1\", every_address = true, weight = 2 }, \"one:2\"]");
        let mut many = numbers(&["10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:1"]);
        let mut one = numbers(&["10.0.9.9:2"]);
        let answer = |many: &[SocketAddr], one: &[SocketAddr], address: &Address| match &*address.host {
            "many" => Ok(many.to_vec()),
            "one" if one.is_empty() => Err(Mistake::plain("`one` is not known")),
            _ => Ok(one.to_vec()),
        };
        let mut resolved = Resolved::of(&written, &mut |address| answer(&many, &one, address)).unwrap();
        let names = |resolved: &Resolved| {
            resolved.config.addresses().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&resolved), "10.0.0.1:1 10.0.0.2:1 one:2");
        assert_eq!(resolved.config.main.servers[1].weight, 2);
        assert_eq!(resolved.config.check(), Ok(()));
        // The same in another order is the same.
        many.reverse();
        assert!(change(&written, &mut resolved, &mut |address| answer(&many, &one, address)).is_none());
        one = numbers(&["10.0.9.8:2"]);
        let changes = change(&written, &mut resolved, &mut |address| answer(&many, &one, address));
        let Some(ConfigurationChange::Numbers(found)) = changes else { panic!("{changes:?}") };
        assert_eq!(found[&"one:2".parse().unwrap()], one);
        // What is not found now stays what it was.
        assert!(change(&written, &mut resolved, &mut |address| answer(&many, &[], address)).is_none());
        many.push("10.0.0.3:1".parse().unwrap());
        let changes = change(&written, &mut resolved, &mut |address| answer(&many, &one, address));
        let Some(ConfigurationChange::Configuration(found, None)) = changes else { panic!("{changes:?}") };
        assert_eq!(names(&found.unwrap()), "10.0.0.1:1 10.0.0.2:1 10.0.0.3:1 one:2");
    }

    #[test]
    fn a_name_that_is_not_known_yet_is_one_server_without_a_number() {
        let written = config(
            "servers = [{ address = \"many:1\", every_address = true }, \"one:2\"]\ndistribution = \"ketama\"\nreplicas = 2",
        );
        let found = |many: &[&str], one: &[&str]| {
            let (many, one) = (numbers(many), numbers(one));
            move |address: &Address| {
                let found = if address.host == "many" { &many } else { &one };
                if found.is_empty() {
                    Err(Mistake::plain(format!("`{}` is not known", address.host)))
                } else {
                    Ok(found.clone())
                }
            }
        };
        let mut missing = Vec::new();
        let mut tell = |why: &Mistake| missing.push(why.to_string());
        let mut resolved =
            Resolved::of_known_names(&written, &mut found(&[], &["10.0.0.9:2"]), &mut tell).unwrap();
        assert_eq!(
            (missing.as_slice(), resolved.config.addresses().len()),
            (&["`many` is not known".to_owned()][..], 2)
        );
        assert_eq!(resolved.numbers[&"many:1".parse().unwrap()], []);
        // Still unknown is no change; found, it becomes its servers.
        assert!(change(&written, &mut resolved, &mut found(&[], &["10.0.0.9:2"])).is_none());
        let changes =
            change(&written, &mut resolved, &mut found(&["10.0.0.1:1", "10.0.0.2:1"], &["10.0.0.9:2"]));
        let Some(ConfigurationChange::Configuration(taken, None)) = changes else { panic!("{changes:?}") };
        assert_eq!(taken.unwrap().config.addresses().len(), 3);
        // With no server known there is nothing to do.
        let none = Resolved::of_known_names(&written, &mut found(&[], &[]), &mut |_| {});
        assert!(none.unwrap_err().what.contains("is not known"));
    }

    #[test]
    fn two_copies_among_servers_behind_a_name_are_one_while_there_is_one() {
        let written = config(
            "servers = [{ address = \"many:1\", every_address = true }]\ndistribution = \"ketama\"\nreplicas = 2",
        );
        assert_eq!(written.check(), Ok(()));
        for (many, copies) in [(&["10.0.0.1:1"][..], 1), (&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"], 2)] {
            let resolved = Resolved::of(&written, &mut |_| Ok(numbers(many))).unwrap();
            assert_eq!(resolved.config.topology().unwrap().pools[0].copies, copies);
        }
    }

    #[test]
    fn names_are_looked_up_again_only_where_there_are_any() {
        let day = Duration::from_secs(86_400);
        assert_eq!(pause(&config("servers = [\"10.0.0.1:1\", \"unix:/run/m\"]")), day);
        assert_eq!(pause(&config("servers = [\"many:1\"]\nresolve_every = 0")), day);
        assert_eq!(pause(&config("servers = [\"many:1\"]\nresolve_every = \"5s\"")), Duration::from_secs(5));
    }
}
