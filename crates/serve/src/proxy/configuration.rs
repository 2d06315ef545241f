//! The configuration as it changes: its file is read again when a reload is asked for, or when it
//! is seen to have changed, and names of servers are resolved again at intervals. All this happens
//! on a thread of its own, because files and name services may block.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use krarup_net::resolver::MOST_ADDRESSES;
use krarup_net::snapshots::lock;
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

/// Asks for the numbers behind an address.
pub type Resolve<'a> = &'a mut dyn FnMut(&Address) -> Result<Vec<SocketAddr>, Mistake>;

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
        let (mut servers, mut grows): (Vec<ServerConfig>, bool) = (Vec::new(), false);
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
            grows = true;
        }
        if let Replicas::Count(count) = pool.replicas
            && grows
            && !servers.iter().any(ServerConfig::is_many)
        {
            // There may be fewer for a while.
            pool.replicas = Replicas::Count(count.min(servers.len()));
        }
        pool.servers = servers;
    }
    config
}

/// A configuration whose names have been looked up, those that stand for many servers replaced by
/// these.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What holds.
    pub config: Config,
    /// The numbers of every server that has any.
    pub numbers: Numbers,
    /// The numbers behind every name that stands for many servers.
    pub many: Numbers,
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
    /// Names the first that has no address, or stands for more servers than can be found.
    pub fn of(as_written: &Config, resolve: Resolve<'_>) -> Result<Self, Mistake> {
        Self::of_at_most(MOST_ADDRESSES, as_written, resolve)
    }

    /// The same, where `most` addresses of a name may not be all.
    fn of_at_most(most: usize, as_written: &Config, resolve: Resolve<'_>) -> Result<Self, Mistake> {
        let mut config = as_written.clone();
        let (mut numbers, mut many) = (Numbers::new(), Numbers::new());
        for pool in std::iter::once(&mut config.main).chain(config.pools.values_mut()) {
            let (mut servers, mut grows) = (Vec::new(), false);
            for server in std::mem::take(&mut pool.servers) {
                if server.address.file().is_some() {
                    servers.push(server);
                    continue;
                }
                grows |= server.every_address;
                let known = numbers.get(&server.address).or_else(|| many.get(&server.address));
                let mut found = match known {
                    Some(known) => known.clone(),
                    None => resolve(&server.address)?,
                };
                if !server.every_address || found.is_empty() {
                    numbers.insert(server.address.clone(), found);
                    // What a name before it stands for is not there twice: what is said of it by
                    // itself holds.
                    let server = ServerConfig { every_address: false, ..server };
                    match servers.iter_mut().find(|other| other.address == server.address) {
                        Some(there) => *there = server,
                        None => servers.push(server),
                    }
                    continue;
                }
                if found.len() >= most {
                    let name = &server.address.host;
                    let what = format!("`{name}` has {most} addresses or more: the C library tells no more");
                    return Err(Mistake::new(what, "write srv:_SERVICE._tcp.NAME, which finds all"));
                }
                many.insert(server.address.clone(), found.clone());
                // In one order whatever the name service says first: placement may depend on it.
                found.sort_unstable();
                found.dedup();
                for number in found {
                    let address = Address::from(number);
                    if servers.iter().any(|other| other.address == address) {
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
        Ok(Self { config, numbers, many })
    }

    /// The numbers that an address has, which it keeps where it cannot be looked up.
    fn known(&self, address: &Address) -> Option<Vec<SocketAddr>> {
        self.many.get(address).or_else(|| self.numbers.get(address)).cloned()
    }

    /// What has changed when all names of the configuration `as_written` are looked up again: the
    /// numbers of servers that have others, which are taken over here, and the whole where it has
    /// other servers, or why these cannot be had. A name that is not found now stays what it was.
    fn refresh(
        &mut self,
        as_written: &Config,
        resolve: Resolve<'_>,
    ) -> (Numbers, Option<Result<Self, Mistake>>) {
        let mut look_up = |address: &Address| resolve(address).or_else(|why| self.known(address).ok_or(why));
        let found = Self::of(as_written, &mut look_up);
        // A server of a service that was not there before, and whose name is not known yet: those
        // that were are followed all the same.
        let missing = found.as_ref().err().cloned();
        let Ok(found) = found.or_else(|_| Self::of(&self.config, &mut look_up)) else {
            return (Numbers::new(), missing.map(Err));
        };
        let sorted = |numbers: &[SocketAddr]| {
            let mut all = numbers.to_vec();
            all.sort_unstable();
            all
        };
        let moved: Numbers = found
            .numbers
            .iter()
            .filter(|(address, now)| {
                self.numbers.get(address).is_some_and(|before| sorted(before) != sorted(now))
            })
            .map(|(address, now)| (address.clone(), now.clone()))
            .collect();
        self.numbers.extend(moved.clone());
        let is_other = !servers_of_pools(&found.config).eq(servers_of_pools(&self.config));
        (moved, missing.map(Err).or_else(|| is_other.then_some(Ok(found))))
    }
}

/// The servers of each pool, in one order.
fn servers_of_pools(config: &Config) -> impl Iterator<Item = &[ServerConfig]> {
    std::iter::once(&config.main).chain(config.pools.values()).map(|pool| pool.servers.as_slice())
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
    /// What the files held before names were looked up, where they are looked at again.
    seen: u64,
    name_service: NameService,
}

/// Asks for all that stands behind a name.
type NameLookup<T> = Box<dyn Fn(&Address) -> Result<Vec<T>, Mistake> + Send + Sync>;

/// How many names are looked up at once.
const LOOKUPS: usize = 16;

/// What is asked for names.
struct NameService {
    servers_of: NameLookup<Address>,
    resolve: NameLookup<SocketAddr>,
}

impl NameService {
    /// The system's.
    fn of_system() -> Self {
        Self { servers_of: Box::new(services::servers_of), resolve: Box::new(krarup_net::resolve) }
    }

    /// Looks up the names of all servers, side by side: each takes many seconds where the name
    /// service is silent. What it returns says what was found.
    fn look_up(&self, config: &Config) -> impl Fn(&Address) -> Result<Vec<SocketAddr>, Mistake> {
        let mut names = config.addresses();
        names.retain(|address| address.is_name() && address.service().is_none());
        let threads = names.len().min(LOOKUPS);
        let (names, found) = (Mutex::new(names), Mutex::new(HashMap::new()));
        let next = || lock(&names).pop();
        let look_up = || {
            while let Some(name) = next() {
                let numbers = (self.resolve)(&name);
                lock(&found).insert(name, numbers);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                // Those for which no thread can be had are looked up by the others.
                let _ = thread::Builder::new().spawn_scoped(scope, look_up);
            }
            look_up();
        });
        let found = std::mem::take(&mut *lock(&found));
        move |address: &Address| match found.get(address) {
            Some(numbers) => numbers.clone(),
            None => (self.resolve)(address),
        }
    }
}

impl ConfigurationSource {
    /// Looks up the names of a configuration that was checked and was read from a `file`, if from
    /// any. Where names are looked up again, one that is not known yet is told to `missing`: its
    /// server is down until it is known. Name services may be slow when a machine starts, and the
    /// other servers need not wait.
    ///
    /// # Errors
    /// As [`Resolved::of`], where a name would never be looked up again, or none at all is known.
    pub fn new(
        written: Config,
        file: Option<PathBuf>,
        reread: impl FnMut() -> Result<Config, Mistake> + Send + 'static,
        missing: impl FnMut(&Mistake),
    ) -> Result<Self, Mistake> {
        Self::with_name_service(NameService::of_system(), written, file, reread, missing)
    }

    /// The same; `name_service` is asked.
    fn with_name_service(
        name_service: NameService,
        written: Config,
        file: Option<PathBuf>,
        reread: impl FnMut() -> Result<Config, Mistake> + Send + 'static,
        missing: impl FnMut(&Mistake),
    ) -> Result<Self, Mistake> {
        // Look-ups may take long: what changes meanwhile is seen when the files are looked at next.
        let looks = written.reload_every > Nanos::ZERO;
        let seen = if looks { digest(&files_of(file.as_ref(), &written)) } else { 0 };
        let mut services = Services::new();
        let mut unknown_services: HashMap<Address, Mistake> = HashMap::new();
        let mut find = |service: &Address| {
            let note = |why: &Mistake| _ = unknown_services.insert(service.clone(), why.clone());
            (name_service.servers_of)(service).inspect_err(note)
        };
        let found = with_servers(&written, &mut services, &mut find, &mut |_| {});
        let resolved = {
            let resolve = name_service.look_up(&found);
            // A service is no host: why it has no servers is known already.
            let mut look_up = |address: &Address| match unknown_services.get(address) {
                Some(why) => Err(why.clone()),
                None => resolve(address),
            };
            match Resolved::of(&found, &mut look_up) {
                Err(_) if written.engine == Engine::Events && written.resolve_every > Nanos::ZERO => {
                    let mut unknown: Vec<Mistake> = Vec::new();
                    let mut note = |why: &Mistake| unknown.push(why.clone());
                    let found = Resolved::of_known_names(&found, &mut look_up, &mut note)?;
                    unknown.iter().for_each(missing);
                    found
                }
                all => all?,
            }
        };
        Ok(Self { written, resolved, services, reread: Box::new(reread), file, seen, name_service })
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
    Configuration(Box<NewConfiguration>),
    /// Servers have other numbers.
    Numbers(Numbers),
}

/// A configuration that the engine takes over, unless it refuses it.
#[derive(Debug)]
pub(crate) struct NewConfiguration {
    /// As it was read and looked up.
    pub(crate) read: Result<Resolved, Mistake>,
    /// Where the outcome of a reload is sent.
    pub(crate) reply: Option<ReloadReply>,
    /// Where it is sent, before servers are connected to, whether it is refused: the thread that
    /// has read it waits for that, and goes by it only where it is not.
    pub(crate) verdict: ReloadReply,
    /// Why the change before was refused, of which this is another try: the operator knows.
    pub(crate) refused_before: Option<Mistake>,
    /// Whether it is the one that runs, for the files that it names, and what was read is refused.
    pub(crate) renews: bool,
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
        thread::spawn(move || watch(source, &requested, tell, wake));
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
                Err(RecvTimeoutError::Timeout) => {
                    Err("it has not been taken over within a minute, and may be yet".into())
                }
                Err(RecvTimeoutError::Disconnected) => Err(STOPPING.into()),
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
fn digest(files: &[PathBuf]) -> u64 {
    let mut digest = DefaultHasher::new();
    for path in files {
        std::fs::read(path).ok().hash(&mut digest);
    }
    digest.finish()
}

/// The files of [`digest`].
fn files_of(file: Option<&PathBuf>, config: &Config) -> Vec<PathBuf> {
    file.into_iter().cloned().chain(config.edge.files().into_iter().map(Path::to_owned)).collect()
}

fn watch(
    source: ConfigurationSource,
    requested: &mpsc::Receiver<Option<ReloadReply>>,
    tell: mpsc::Sender<ConfigurationChange>,
    wake: impl Fn(),
) {
    let files = files_of(source.file.as_ref(), &source.written);
    let (seen, held) = (source.seen, digest(&files_of(None, &source.written)));
    let due = DueChecks::after(Clock::start(), &source.written);
    let (refused, unknown) = (None, None);
    let mut thread = ConfigurationThread { source, files, seen, held, due, refused, unknown, tell, wake };
    // It ends with the engine.
    while thread.pass(requested).is_some() {}
}

/// What the thread knows. What the source says of the configuration is what the engine goes by: a
/// change that it refuses is none.
struct ConfigurationThread<W> {
    source: ConfigurationSource,
    /// The files of the configuration that was read last, whether it was refused or not,
    files: Vec<PathBuf>,
    /// and what they held then.
    seen: u64,
    /// What those that the one that runs names held when they were looked at last.
    held: u64,
    due: DueChecks,
    /// Why what names stand for was refused the last time that it was looked up.
    refused: Option<Mistake>,
    /// Why the configuration that was read last was refused, where it has a name that is not known:
    /// that may be known before the files change.
    unknown: Option<Mistake>,
    tell: mpsc::Sender<ConfigurationChange>,
    wake: W,
}

impl<W: Fn()> ConfigurationThread<W> {
    /// Does what is asked for or due next; none: the engine is gone.
    fn pass(&mut self, requested: &mpsc::Receiver<Option<ReloadReply>>) -> Option<()> {
        match requested.recv_timeout(self.due.wait()) {
            Ok(reply) => self.reread(reply, None),
            Err(RecvTimeoutError::Timeout) if self.due.files <= self.due.names => {
                self.due.after_files(&self.source.written);
                // What is not read well is told once, and read again when it has changed again, or
                // where a name was not known that may be known now.
                let written = &self.source.written;
                let reads = written.reload_every > Nanos::ZERO;
                let changed = reads
                    && (digest(&self.files) != self.seen || digest(&files_of(None, written)) != self.held);
                let refused_before = self.unknown.take().filter(|_| reads && !changed);
                if changed || refused_before.is_some() { self.reread(None, refused_before) } else { Some(()) }
            }
            Err(RecvTimeoutError::Timeout) => {
                let written = &self.source.written;
                self.due.after_names(written);
                let follows = has_names(written) && written.resolve_every > Nanos::ZERO;
                if follows { self.follow_names() } else { Some(()) }
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Reads the configuration again. Where it is refused, the one that runs is taken over with
    /// what the files hold that it names, if that has changed: a certificate must not expire
    /// meanwhile.
    fn reread(&mut self, reply: Option<ReloadReply>, refused_before: Option<Mistake>) -> Option<()> {
        let ConfigurationSource { written, reread, resolved, services, name_service, file, .. } =
            &mut self.source;
        // Before they are read: what changes meanwhile is seen the next time.
        self.seen = digest(&self.files);
        let held = digest(&files_of(None, written));
        let changed = std::mem::replace(&mut self.held, held) != held;
        self.unknown = None;
        let read = reread().and_then(|config| {
            let files = files_of(file.as_ref(), &config);
            if files != self.files {
                self.seen = digest(&files);
                self.files = files;
            }
            let held = digest(&files_of(None, &config));
            let known = with_known_names(&config, resolved, services, name_service);
            self.unknown = known.as_ref().err().cloned();
            Ok((known?, config, held))
        });
        let found = read.as_ref().map(|(found, ..)| found.clone()).map_err(Mistake::clone);
        match (self.offer(found, reply, refused_before, false)?, read) {
            (Ok(()), Ok((resolved, written, held))) => {
                (self.source.resolved, self.source.written, self.held) = (resolved, written, held);
                self.refused = None;
                self.due.after_names(&self.source.written);
            }
            (Err(why), _) if changed => {
                // Where it is refused as well, the engine tells another reason only.
                let _ = self.offer(Ok(self.source.resolved.clone()), None, Some(why), true)?;
            }
            _ => {}
        }
        // Names of the one that runs are due as before where another was refused, however often.
        self.due.after_files(&self.source.written);
        Some(())
    }

    /// Looks up all names again.
    fn follow_names(&mut self) -> Option<()> {
        let ConfigurationSource { written, resolved, services, name_service, .. } = &mut self.source;
        let now = with_servers(written, services, &mut name_service.servers_of, &mut |_| {});
        let (moved, other) = resolved.refresh(&now, &mut name_service.look_up(&now));
        if !moved.is_empty() {
            self.send(ConfigurationChange::Numbers(moved))?;
        }
        let refused_before = self.refused.take();
        let Some(other) = other else { return Some(()) };
        match (self.offer(other.clone(), None, refused_before, false)?, other) {
            (Ok(()), Ok(other)) => self.source.resolved = other,
            // It is tried again when names are looked up the next time.
            (Err(why), _) | (_, Err(why)) => self.refused = Some(why),
        }
        Some(())
    }

    /// Gives the engine a configuration to take over, and waits until it has refused it or not.
    fn offer(
        &self,
        read: Result<Resolved, Mistake>,
        reply: Option<ReloadReply>,
        refused_before: Option<Mistake>,
        renews: bool,
    ) -> Option<Result<(), Mistake>> {
        let (verdict, decided) = mpsc::channel();
        let new = NewConfiguration { read, reply, verdict, refused_before, renews };
        self.send(ConfigurationChange::Configuration(Box::new(new)))?;
        decided.recv().ok()
    }

    fn send(&self, change: ConfigurationChange) -> Option<()> {
        self.tell.send(change).ok()?;
        (self.wake)();
        Some(())
    }
}

/// The names of a configuration that was read again, looked up: none may be unknown that is new.
/// The others keep what they have in the one that `runs`.
fn with_known_names(
    config: &Config,
    runs: &Resolved,
    services: &mut Services,
    name_service: &mut NameService,
) -> Result<Resolved, Mistake> {
    let mut unknown = None;
    let mut missing = |why: &Mistake| _ = unknown.get_or_insert_with(|| why.clone());
    let found = with_servers(config, services, &mut name_service.servers_of, &mut missing);
    let is_new = |address: &Address| address.service().is_some() && runs.known(address).is_none();
    match unknown {
        Some(why) if found.addresses().iter().any(is_new) => Err(why),
        _ => {
            let resolve = name_service.look_up(&found);
            Resolved::of(&found, &mut |address| {
                resolve(address).or_else(|why| runs.known(address).ok_or(why))
            })
        }
    }
}

/// Whether any server has a name that must be looked up.
fn has_names(written: &Config) -> bool {
    let mut pools = std::iter::once(&written.main).chain(written.pools.values());
    pools.any(|pool| pool.servers.iter().any(|server| server.address.is_name()))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Condvar};

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
        let mut again = |many: &[SocketAddr], one: &[SocketAddr]| {
            let (moved, other) = resolved.refresh(&written, &mut |address| answer(many, one, address));
            (moved, other.map(|found| names(&found.unwrap())))
        };
        let nothing = (Numbers::new(), None);
        // The same in another order is the same.
        many.reverse();
        assert_eq!(again(&many, &one), nothing);
        one = numbers(&["10.0.9.8:2"]);
        assert_eq!(again(&many, &one), ([("one:2".parse().unwrap(), one.clone())].into(), None));
        assert_eq!(again(&many, &one), nothing);
        // What is not found now stays what it was.
        assert_eq!(again(&many, &[]), nothing);
        many.push("10.0.0.3:1".parse().unwrap());
        let other = Some("10.0.0.1:1 10.0.0.2:1 10.0.0.3:1 one:2".to_owned());
        assert_eq!(again(&many, &one), (Numbers::new(), other.clone()));
        // Until it is taken over it is tried again; numbers need not wait for that.
        one = numbers(&["10.0.9.7:2"]);
        assert_eq!(again(&many, &one), ([("one:2".parse().unwrap(), one.clone())].into(), other.clone()));
        assert_eq!(again(&many, &one), (Numbers::new(), other));
    }

    /// Others would be left out each time, and their keys move.
    #[test]
    fn a_name_with_more_addresses_than_the_c_library_tells_is_refused_where_all_are_wanted() {
        let found = numbers(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]);
        let mut resolve = |_: &Address| Ok(found.clone());
        let one = config("servers = [\"many:1\"]");
        assert!(Resolved::of_at_most(3, &one, &mut resolve).is_ok());
        let all = config("servers = [{ address = \"many:1\", every_address = true }]");
        let known = Resolved::of_at_most(4, &all, &mut resolve).unwrap();
        assert_eq!(known.config.addresses().len(), 3);
        let refused = Resolved::of_at_most(3, &all, &mut resolve).unwrap_err();
        assert!(refused.what.contains("`many` has 3 addresses or more"), "{refused}");
        assert!(refused.hint.contains("srv:"), "{refused}");
    }

    #[test]
    fn a_server_that_is_also_behind_a_name_is_there_once() {
        let named = "{ address = \"many:1\", every_address = true }";
        let alone = "{ address = \"10.0.0.1:1\", weight = 2 }";
        for servers in [format!("{named}, {alone}"), format!("{alone}, {named}")] {
            let written = config(&format!("servers = [{servers}]"));
            let mut resolve = |address: &Address| match &*address.host {
                "many" => Ok(numbers(&["10.0.0.1:1", "10.0.0.2:1"])),
                _ => Ok(numbers(&["10.0.0.1:1"])),
            };
            let found = Resolved::of(&written, &mut resolve).unwrap();
            let weights: Vec<_> = found
                .config
                .main
                .servers
                .iter()
                .map(|server| (server.address.to_string(), server.weight))
                .collect();
            let expected = [("10.0.0.1:1".to_owned(), 2), ("10.0.0.2:1".to_owned(), 1)];
            assert_eq!(weights, expected, "{servers}");
            assert!(found.config.topology().is_ok(), "{servers}");
        }
    }

    #[test]
    fn names_are_followed_although_one_that_stands_for_many_servers_is_not_found() {
        let written = config(
            "[pools.a]\nservers = [{ address = \"a:1\", every_address = true }]\n\
             [pools.b]\nservers = [{ address = \"b:1\", every_address = true }]\n",
        );
        let servers = |a: &[&str], b: &[&str]| {
            let (a, b) = (numbers(a), numbers(b));
            move |address: &Address| match if address.host == "a" { &a } else { &b } {
                none if none.is_empty() => Err(Mistake::plain("no pod is ready")),
                found => Ok(found.clone()),
            }
        };
        let mut resolved =
            Resolved::of(&written, &mut servers(&["10.0.0.1:1"], &["10.0.0.2:1", "10.0.0.3:1"])).unwrap();
        let names = |found: &Resolved| {
            let names: Vec<_> = found.config.addresses().iter().map(ToString::to_string).collect();
            names.join(" ")
        };
        // A pool with no pod keeps the servers it had.
        let (_, other) = resolved.refresh(&written, &mut servers(&["10.0.0.9:1"], &[]));
        resolved = other.unwrap().unwrap();
        assert_eq!(names(&resolved), "10.0.0.9:1 10.0.0.2:1 10.0.0.3:1");
        let (_, other) = resolved.refresh(&written, &mut servers(&["10.0.0.8:1"], &[]));
        assert_eq!(names(&other.unwrap().unwrap()), "10.0.0.8:1 10.0.0.2:1 10.0.0.3:1");
        // A server that goes from one pool to the other is a change, too.
        let (_, other) =
            resolved.refresh(&written, &mut servers(&["10.0.0.9:1", "10.0.0.2:1"], &["10.0.0.3:1"]));
        assert_eq!(other.unwrap().unwrap().config.pools["a"].servers.len(), 2);
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
            // One server of the service beside another is room enough for two copies.
            assert_eq!(config.main.replicas, Replicas::Count(2));
            let names: Vec<_> = config.addresses().iter().map(ToString::to_string).collect();
            (names.join(" "), config.main.servers[0].weight)
        };
        assert_eq!(now(Err("no name server")), ("srv:_m._tcp.a one:2".into(), 2));
        assert_eq!(now(Ok(&["m-0.a:1", "m-1.a:1"])), ("m-0.a:1 m-1.a:1 one:2".into(), 2));
        assert_eq!(now(Err("no name server")), ("m-0.a:1 m-1.a:1 one:2".into(), 2));
        assert_eq!(now(Ok(&["m-1.a:1", "one:2"])), ("m-1.a:1 one:2".into(), 2));
        assert_eq!(now(Ok(&["m-0.a:1"])), ("m-0.a:1 one:2".into(), 2));
        assert_eq!(told, ["no name server", "no name server"]);
    }

    #[test]
    fn servers_are_followed_although_a_new_one_has_no_address() {
        let written = config("servers = [\"one:2\"]");
        let mut resolved = Resolved::of(&written, &mut |_| Ok(numbers(&["10.0.9.9:2"]))).unwrap();
        let one = numbers(&["10.0.9.8:2"]);
        let mut resolve = |address: &Address| match &*address.host {
            "new" => Err(Mistake::plain("`new` is not known")),
            _ => Ok(one.clone()),
        };
        let now = config("servers = [\"new:1\", \"one:2\"]");
        let (moved, other) = resolved.refresh(&now, &mut resolve);
        assert_eq!(moved, Numbers::from([("one:2".parse().unwrap(), one.clone())]));
        assert_eq!(other.unwrap().unwrap_err().to_string(), "`new` is not known");
        let (moved, other) = resolved.refresh(&now, &mut resolve);
        assert!(moved.is_empty() && other.is_some_and(|found| found.is_err()));
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
        let (moved, other) = resolved.refresh(&written, &mut found(&[], &["10.0.0.9:2"]));
        assert!(moved.is_empty() && other.is_none());
        let mut known = found(&["10.0.0.1:1", "10.0.0.2:1"], &["10.0.0.9:2"]);
        let (moved, other) = resolved.refresh(&written, &mut known);
        assert_eq!((moved.len(), other.unwrap().unwrap().config.addresses().len()), (0, 3));
        // With no server known there is nothing to do.
        let none = Resolved::of_known_names(&written, &mut found(&[], &[]), &mut |_| {});
        assert!(none.unwrap_err().what.contains("is not known"));
    }

    #[test]
    fn an_unknown_service_is_told_by_its_own_reason_and_only_where_the_start_goes_on() {
        let start = |text: &str| {
            let servers_of = |_: &Address| Err(Mistake::plain("no name server"));
            let resolve = |address: &Address| match &*address.host {
                "one" => Ok(numbers(&["10.0.0.9:2"])),
                _ => Err(Mistake::plain("not known")),
            };
            let name_service = NameService { servers_of: Box::new(servers_of), resolve: Box::new(resolve) };
            let reread = || Err(Mistake::plain("there is no file"));
            let mut told = Vec::new();
            let missing = |why: &Mistake| told.push(why.to_string());
            let source =
                ConfigurationSource::with_name_service(name_service, config(text), None, reread, missing);
            let servers = source.map(|source| source.resolved.config.addresses().len());
            (servers.map_err(|why| why.to_string()), told)
        };
        let refused: (Result<usize, String>, Vec<String>) = (Err("no name server".to_owned()), Vec::new());
        let both = "servers = [\"srv:_m._tcp.a\", \"one:2\"]";
        assert_eq!(start(both), (Ok(2), vec!["no name server".to_owned()]));
        assert_eq!(start(&format!("{both}\nresolve_every = 0")), refused);
        assert_eq!(start("servers = [\"srv:_m._tcp.a\"]"), refused);
    }

    #[test]
    fn names_are_looked_up_side_by_side_and_each_once() {
        let begun = Arc::new((Mutex::new(0), Condvar::new()));
        let lookups = Arc::clone(&begun);
        // Each waits until all have begun.
        let resolve = move |address: &Address| {
            let (count, changed) = &*lookups;
            let mut count = lock(count);
            *count += 1;
            changed.notify_all();
            let waited = changed.wait_timeout_while(count, RELOAD_TIMEOUT, |count| *count < 3).unwrap().1;
            match &*address.host {
                "three" => Err(Mistake::plain("not known")),
                _ if waited.timed_out() => Err(Mistake::plain("the others were not asked")),
                _ => Ok(numbers(&["10.0.0.1:1"])),
            }
        };
        let servers_of = |_: &Address| Err(Mistake::plain("there is no service"));
        let name_service = NameService { servers_of: Box::new(servers_of), resolve: Box::new(resolve) };
        let reread = || Err(Mistake::plain("there is no file"));
        let written = config("servers = [\"one:1\", \"two:2\", \"three:3\"]");
        let mut told = Vec::new();
        let missing = |why: &Mistake| told.push(why.to_string());
        let source = ConfigurationSource::with_name_service(name_service, written, None, reread, missing);
        let found = source.unwrap().resolved.numbers;
        assert_eq!(found[&"two:2".parse().unwrap()], numbers(&["10.0.0.1:1"]));
        assert_eq!((told, *lock(&begun.0)), (vec!["not known".to_owned()], 3));
    }

    #[test]
    fn a_file_with_a_new_name_is_read_until_that_is_known_and_other_names_keep_what_they_have() {
        let written = config("reload_every = \"1h\"\nservers = [\"one:1\"]");
        let one = numbers(&["10.0.0.1:1"]);
        let resolved = Resolved::of(&written, &mut |_| Ok(one.clone())).unwrap();
        let known = Arc::new(AtomicBool::new(false));
        let is_known = Arc::clone(&known);
        let resolve = move |address: &Address| match &*address.host {
            "new" if is_known.load(Ordering::Relaxed) => Ok(numbers(&["10.0.0.4:4"])),
            name => Err(Mistake::plain(format!("`{name}` is not known"))),
        };
        let servers_of = |_: &Address| Err(Mistake::plain("there is no service"));
        let due = DueChecks::after(Clock::start(), &written);
        let source = ConfigurationSource {
            written,
            resolved,
            services: Services::new(),
            reread: Box::new(|| Ok(config("reload_every = \"1h\"\nservers = [\"one:1\", \"new:4\"]"))),
            file: None,
            seen: 0,
            name_service: NameService { servers_of: Box::new(servers_of), resolve: Box::new(resolve) },
        };
        let (tell, changes) = mpsc::channel();
        let offered = RefCell::new(Vec::new());
        // The engine: it takes over what could be read.
        let wake = || {
            let Ok(ConfigurationChange::Configuration(new)) = changes.try_recv() else {
                panic!("it was read")
            };
            let NewConfiguration { read, verdict, refused_before, .. } = *new;
            verdict.send(read.as_ref().map(|_| ()).map_err(Mistake::clone)).unwrap();
            let found = read.map(|resolved| resolved.numbers).map_err(|why| why.to_string());
            offered.borrow_mut().push((found, refused_before.is_some()));
        };
        let (files, held, refused, unknown) = (Vec::new(), digest(&[]), None, None);
        let mut thread =
            ConfigurationThread { source, files, seen: 0, held, due, refused, unknown, tell, wake };
        let (_requests, requested) = mpsc::channel();
        let mut look = || {
            let names = thread.due.names;
            thread.due.files = Stamp(0);
            assert_eq!(thread.pass(&requested), Some(()));
            (offered.take(), thread.due.names == names)
        };
        let refused: Result<Numbers, String> = Err("`new` is not known".to_owned());
        // Names of the configuration that runs are followed when they were due.
        assert_eq!(look(), (vec![(refused.clone(), false)], true));
        assert_eq!(look(), (vec![(refused, true)], true));
        known.store(true, Ordering::Relaxed);
        let both = [("one:1", one), ("new:4", numbers(&["10.0.0.4:4"]))];
        let both = both.map(|(address, found)| (address.parse::<Address>().unwrap(), found));
        assert_eq!(look().0, [(Ok(Numbers::from(both)), true)]);
        assert!(look().0.is_empty());
    }

    #[test]
    fn a_change_of_the_file_during_the_start_is_seen() {
        let path = std::env::temp_dir().join(format!("krarup-configuration-{}", std::process::id()));
        let text = "servers = [\"10.0.0.1:1\"]\nreload_every = \"1ms\"\n";
        std::fs::write(&path, text).unwrap();
        let own = path.clone();
        let reread = move || Ok(config(&std::fs::read_to_string(&own).unwrap()));
        let source = ConfigurationSource::new(config(text), Some(path.clone()), reread, |_| {}).unwrap();
        std::fs::write(&path, format!("threads = 4\n{text}")).unwrap();
        let (wake, woken) = mpsc::channel();
        let watcher = ConfigurationWatcher::begin(source, move || _ = wake.send(()));
        woken.recv_timeout(RELOAD_TIMEOUT).expect("a change comes");
        let Some(ConfigurationChange::Configuration(new)) = watcher.next() else { panic!("it was read") };
        assert_eq!(new.read.unwrap().config.threads, 4);
        std::fs::remove_file(path).unwrap();
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

    /// A watcher whose file and name service the test plays, as it plays the engine.
    struct Scene {
        file: Arc<Mutex<Config>>,
        /// The servers behind `many:1`.
        servers: Arc<Mutex<Vec<SocketAddr>>>,
        watcher: ConfigurationWatcher,
        woken: mpsc::Receiver<()>,
    }

    impl Scene {
        fn of(text: &str) -> Self {
            let written = config(text);
            let file = Arc::new(Mutex::new(written.clone()));
            let servers = Arc::new(Mutex::new(numbers(&["10.0.0.1:1"])));
            let behind = Arc::clone(&servers);
            let mut resolve = move |_: &Address| Ok(behind.lock().unwrap().clone());
            let resolved = Resolved::of(&written, &mut resolve).unwrap();
            let servers_of = |_: &Address| Err(Mistake::plain("there is no service"));
            let name_service = NameService { servers_of: Box::new(servers_of), resolve: Box::new(resolve) };
            let read = Arc::clone(&file);
            let source = ConfigurationSource {
                written,
                resolved,
                services: Services::new(),
                reread: Box::new(move || Ok(read.lock().unwrap().clone())),
                file: None,
                seen: 0,
                name_service,
            };
            let (wake, woken) = mpsc::channel();
            let watcher = ConfigurationWatcher::begin(source, move || _ = wake.send(()));
            Self { file, servers, watcher, woken }
        }

        /// The next configuration that the engine is given: its servers, the threads that it wants,
        /// and why it was refused before.
        fn next(&self) -> (ReloadReply, usize, usize, Option<String>) {
            loop {
                self.woken.recv_timeout(RELOAD_TIMEOUT).expect("a change comes");
                if let Some(ConfigurationChange::Configuration(new)) = self.watcher.next() {
                    let Resolved { config, .. } = new.read.unwrap();
                    let before = new.refused_before.map(|why| why.to_string());
                    return (new.verdict, config.addresses().len(), config.threads, before);
                }
            }
        }

        /// There are so many servers behind the name from now on.
        fn scale(&self, servers: u8) {
            *self.servers.lock().unwrap() = (1..=servers).map(|last| ([10, 0, 0, last], 1).into()).collect();
        }
    }

    const FOLLOWED: &str =
        "resolve_every = \"1ms\"\nservers = [{ address = \"many:1\", every_address = true }]\n";

    /// What names stand for afterwards would else be a change of the file that was refused.
    #[test]
    fn names_are_those_of_the_configuration_that_runs_where_another_was_refused() {
        let scene = Scene::of(FOLLOWED);
        *scene.file.lock().unwrap() = config(&format!("threads = 4\n{FOLLOWED}"));
        scene.watcher.reread();
        let (verdict, _, threads, _) = scene.next();
        assert_eq!(threads, 4);
        verdict.send(Err("that takes a restart".into())).unwrap();
        scene.scale(2);
        let (verdict, servers, threads, _) = scene.next();
        assert_eq!((servers, threads), (2, 1));
        verdict.send(Ok(())).unwrap();
        // One that is taken over is followed in turn.
        scene.watcher.reread();
        scene.next().0.send(Ok(())).unwrap();
        scene.scale(3);
        let (_, servers, threads, _) = scene.next();
        assert_eq!((servers, threads), (3, 4));
    }

    #[test]
    fn a_change_of_names_that_is_refused_is_tried_again_until_it_is_taken_over() {
        let scene = Scene::of(FOLLOWED);
        scene.scale(2);
        for before in [None, Some("no certificate"), Some("no certificate")] {
            let (verdict, servers, _, refused_before) = scene.next();
            assert_eq!((servers, refused_before.as_deref()), (2, before));
            verdict.send(Err("no certificate".into())).unwrap();
        }
        scene.next().0.send(Ok(())).unwrap();
        scene.scale(3);
        let (_, servers, _, refused_before) = scene.next();
        assert_eq!((servers, refused_before), (3, None));
    }

    #[test]
    fn names_are_never_looked_up_again_where_the_interval_is_zero() {
        let written = config("servers = [\"many:1\"]\nresolve_every = 0");
        let resolved = Resolved::of(&written, &mut |_| Ok(numbers(&["10.0.0.1:1"]))).unwrap();
        let servers_of = |_: &Address| Err(Mistake::plain("there is no service"));
        let resolve = |_: &Address| -> Result<Vec<SocketAddr>, Mistake> { panic!("no name is looked up") };
        let due = DueChecks { names: Stamp(0), ..DueChecks::after(Clock::start(), &written) };
        let source = ConfigurationSource {
            written,
            resolved,
            services: Services::new(),
            reread: Box::new(|| Err(Mistake::plain("there is no file"))),
            file: None,
            seen: 0,
            name_service: NameService { servers_of: Box::new(servers_of), resolve: Box::new(resolve) },
        };
        let (tell, changes) = mpsc::channel();
        let (_requests, requested) = mpsc::channel();
        let (files, held, refused, unknown, wake) = (Vec::new(), digest(&[]), None, None, || {});
        let mut thread =
            ConfigurationThread { source, files, seen: 0, held, due, refused, unknown, tell, wake };
        assert_eq!(thread.pass(&requested), Some(()));
        assert!(changes.try_recv().is_err());
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
