//! The configuration as it changes: its file is read again when a reload is asked for, or when it
//! is seen to have changed, and names of servers are resolved again at intervals. All this happens
//! on a thread of its own, because files and name services may block.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use krarup_net::{Clock, services};
use krarup_units::{Address, Mistake, Nanos, Stamp};

use krarup_proxy::config::{Config, Replicas, ServerConfig};
use krarup_proxy::engine::Engine;

/// The numbers behind addresses.
pub type Numbers = HashMap<Address, Vec<SocketAddr>>;

/// The servers of services, as they were found last.
pub type Services = HashMap<Address, Vec<Address>>;

/// Asks for the servers of a service.
pub type FindServers<'a> = &'a mut dyn FnMut(&Address) -> Result<Vec<Address>, Mistake>;

/// A configuration with its services replaced by their servers, each under its own name. One that
/// cannot be looked up, of which `missing` is told, keeps those that it had; before any are known
/// it is one server without a number.
fn with_servers(
    as_written: &Config,
    known: &mut Services,
    find: FindServers<'_>,
    missing: &mut dyn FnMut(&Mistake),
) -> Config {
    let mut config = as_written.clone();
    for pool in std::iter::once(&mut config.main).chain(config.pools.values_mut()) {
        let mut servers: Vec<ServerConfig> = Vec::new();
        for server in std::mem::take(&mut pool.servers) {
            if server.address.service().is_none() {
                // What a service before it has is not there twice.
                if !servers.iter().any(|other| other.address == server.address) {
                    servers.push(server);
                }
                continue;
            }
            match find(&server.address) {
                Ok(found) => drop(known.insert(server.address.clone(), found)),
                Err(why) => missing(&why),
            }
            let Some(found) = known.get(&server.address) else {
                servers.push(server);
                continue;
            };
            for address in found {
                if !servers.iter().any(|other| other.address == *address) {
                    servers.push(ServerConfig { address: address.clone(), ..server.clone() });
                }
            }
            if let Replicas::Count(count) = pool.replicas {
                // There may be fewer for a while.
                pool.replicas = Replicas::Count(count.min(servers.len()));
            }
        }
        pool.servers = servers;
    }
    config
}

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
    /// The servers that its services have at the start.
    pub services: Services,
    /// Reads and checks it again.
    pub reread: Box<dyn FnMut() -> Result<Config, Mistake> + Send>,
    /// The file that it was read from, if any: see `reload_every`.
    pub file: Option<PathBuf>,
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
        mut missing: impl FnMut(&Mistake),
    ) -> Result<Self, Mistake> {
        let mut resolve = krarup_net::resolve;
        let mut services = Services::new();
        let found = with_servers(&written, &mut services, &mut services::servers_of, &mut missing);
        let resolved = match Resolved::of(&found, &mut resolve) {
            Err(_) if written.engine == Engine::Events && written.resolve_every > Nanos::ZERO => {
                let mut unknown = Vec::new();
                let found = Resolved::of_known_names(&found, &mut resolve, &mut |why| {
                    unknown.push(why.clone());
                })?;
                unknown.iter().for_each(missing);
                found
            }
            all => all?,
        };
        Ok(Self { written, resolved, services, reread: Box::new(reread), file: None })
    }

    /// The same, with the file that it was read from.
    #[must_use]
    pub fn of_file(self, file: Option<PathBuf>) -> Self {
        Self { file, ..self }
    }
}

/// What a reload is answered that comes too late.
pub(crate) const STOPPING: &str = "the proxy is stopping";

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
            requests.send(Some(reply)).map_err(|_| STOPPING.to_owned())?;
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

/// When names are looked up again, and files looked at: never is a day from now, or later.
struct DueChecks {
    clock: Clock,
    names: Stamp,
    files: Stamp,
}

impl DueChecks {
    fn after(clock: Clock, written: &Config) -> Self {
        let mut checks = Self { clock, names: Stamp(0), files: Stamp(0) };
        checks.after_names(written);
        checks.after_files(written);
        checks
    }

    fn after_names(&mut self, written: &Config) {
        self.names =
            self.clock.now() + if has_names(written) { or_a_day(written.resolve_every) } else { DAY };
    }

    fn after_files(&mut self, written: &Config) {
        self.files = self.clock.now() + or_a_day(written.reload_every);
    }

    /// How long nothing is due.
    fn wait(&self) -> Duration {
        Nanos(self.names.min(self.files).0.saturating_sub(self.clock.now().0)).as_duration()
    }
}

const DAY: Nanos = Nanos::from_secs(86_400);

fn or_a_day(interval: Nanos) -> Nanos {
    if interval > Nanos::ZERO { interval } else { DAY }
}

/// A digest of what the files hold that a configuration is read from: its own, and those that it
/// names. Files in folders that Kubernetes mounts are links, which lead to other files when
/// something has changed, so that what they hold is compared, and not when they were written.
fn digest(file: Option<&Path>, written: &Config) -> u64 {
    let mut digest = DefaultHasher::new();
    for path in file.into_iter().chain(written.edge.files()) {
        std::fs::read(path).ok().hash(&mut digest);
    }
    digest.finish()
}

fn watch(
    source: ConfigurationSource,
    requested: &mpsc::Receiver<Option<ReloadReply>>,
    tell: &mpsc::Sender<ConfigurationChange>,
    wake: &(impl Fn() + Send + 'static),
) {
    let ConfigurationSource { mut written, mut resolved, mut services, mut reread, file } = source;
    let mut seen = digest(file.as_deref(), &written);
    let mut due = DueChecks::after(Clock::start(), &written);
    loop {
        let reload = match requested.recv_timeout(due.wait()) {
            Ok(reply) => Some(reply),
            Err(RecvTimeoutError::Timeout) if due.files <= due.names => {
                due.after_files(&written);
                // What is not read well is told once, and read again when it has changed again.
                (written.reload_every > Nanos::ZERO && digest(file.as_deref(), &written) != seen)
                    .then_some(None)
            }
            Err(RecvTimeoutError::Timeout) => {
                due.after_names(&written);
                let now = with_servers(&written, &mut services, &mut services::servers_of, &mut |_| {});
                let Some(changes) = change(&now, &mut resolved, &mut krarup_net::resolve) else { continue };
                if tell.send(changes).is_err() {
                    return;
                }
                wake();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let Some(reply) = reload else { continue };
        // Before they are read: what changes meanwhile is seen the next time.
        let before = digest(file.as_deref(), &written);
        let read = reread().and_then(|config| Ok((with_known_names(&config, &mut services)?, config)));
        seen = before;
        let read = read.map(|(found, config)| {
            if config.edge.files() != written.edge.files() {
                seen = digest(file.as_deref(), &config);
            }
            written = config;
            resolved = found.clone();
            found
        });
        due = DueChecks::after(due.clock, &written);
        if tell.send(ConfigurationChange::Configuration(Box::new(read), reply)).is_err() {
            return;
        }
        wake();
    }
}

/// The names of a configuration that was read again, looked up: none may be unknown.
fn with_known_names(config: &Config, services: &mut Services) -> Result<Resolved, Mistake> {
    let mut unknown = None;
    let mut missing = |why: &Mistake| _ = unknown.get_or_insert_with(|| why.clone());
    let found = with_servers(config, services, &mut services::servers_of, &mut missing);
    match unknown {
        Some(why) if found.addresses().iter().any(|one| one.service().is_some()) => Err(why),
        _ => Resolved::of(&found, &mut krarup_net::resolve),
    }
}

/// Whether any server has a name that must be looked up.
fn has_names(written: &Config) -> bool {
    let named =
        |address: &Address| address.file().is_none() && address.host.parse::<std::net::IpAddr>().is_err();
    let mut pools = std::iter::once(&written.main).chain(written.pools.values());
    pools.any(|pool| pool.servers.iter().any(|server| named(&server.address)))
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
    fn a_service_is_its_servers_by_their_names_and_keeps_those_it_had() {
        let written = config(
            "servers = [{ address = \"srv:_m._tcp.a\", weight = 2 }, \"one:2\"]\ndistribution = \"ketama\"\nreplicas = 2",
        );
        assert_eq!(written.check(), Ok(()));
        let mut services = Services::new();
        let mut told = Vec::new();
        let mut now = |found: Result<&[&str], &str>| {
            let mut find = |_: &Address| match found {
                Ok(found) => Ok(found.iter().map(|text| text.parse().unwrap()).collect()),
                Err(why) => Err(Mistake::plain(why)),
            };
            let config =
                with_servers(&written, &mut services, &mut find, &mut |why| told.push(why.to_string()));
            assert_eq!(config.check(), Ok(()));
            assert!(config.topology().is_ok());
            let names: Vec<_> = config.addresses().iter().map(ToString::to_string).collect();
            (names.join(" "), config.main.servers[0].weight)
        };
        assert_eq!(now(Err("no name server")), ("srv:_m._tcp.a one:2".into(), 2));
        assert_eq!(now(Ok(&["m-0.a:1", "m-1.a:1"])), ("m-0.a:1 m-1.a:1 one:2".into(), 2));
        assert_eq!(now(Err("no name server")), ("m-0.a:1 m-1.a:1 one:2".into(), 2));
        assert_eq!(now(Ok(&["m-1.a:1", "one:2"])), ("m-1.a:1 one:2".into(), 2));
        assert_eq!(told, ["no name server", "no name server"]);
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
    fn what_is_looked_at_again_is_due_only_where_there_is_any() {
        let least = |text: &str| {
            let due = DueChecks::after(Clock::start(), &config(text));
            (due.names.min(due.files), due.clock.now())
        };
        let never =
            ["servers = [\"10.0.0.1:1\", \"unix:/run/m\"]", "servers = [\"many:1\"]\nresolve_every = 0"];
        for (text, is_soon) in never.map(|text| (text, false)).into_iter().chain([
            ("servers = [\"many:1\"]\nresolve_every = \"5s\"", true),
            ("servers = [\"10.0.0.1:1\"]\nreload_every = \"5s\"", true),
        ]) {
            let (due, now) = least(text);
            assert_eq!(due < now + Nanos::from_secs(3_600), is_soon, "{text}");
        }
    }
}
