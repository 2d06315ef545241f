//! Another configuration, while the one before goes on: announced, connected to, taken over.
//!
//! From its announcement on, every new connection to a server is made as it says, with its
//! `server_tls` and `server_login`: also one to a server of the configuration before, where that is
//! lost in the `connect_timeout` until the other holds. Where old servers and new ones differ in
//! these, a restart is safe.

use std::sync::Arc;

use krarup_net::{http, listen};
use krarup_service::{LANES, Upstreams as _};
use krarup_units::{Address, Mistake, Stamp};

use super::event_loops::Message;
use super::{Engine, NextConfiguration, ProxyNotice, client_settings, listen_at, server_settings};
use crate::driver::{ConnectionState, HoldPolicy, ServerConnection};
use crate::proxy::configuration::{ConfigurationChange, NewConfiguration, Numbers, Resolved, STOPPING};
use crate::proxy::credentials::{Credentials, credentials};
use krarup_proxy::config::Config;
use krarup_proxy::core::Core;
use krarup_proxy::topology::Topology;

impl<N: FnMut(ProxyNotice)> Engine<N> {
    pub(super) fn apply(&mut self, change: ConfigurationChange) {
        match change {
            ConfigurationChange::Numbers(numbers) => {
                self.update_addresses(&numbers);
                if let Some(member) = &self.group {
                    member.tell(|| Message::Numbers(numbers.clone()));
                }
            }
            // Where it is no good, nothing has changed.
            ConfigurationChange::Configuration(new) => {
                let NewConfiguration { read, reply, verdict, refused_before, renews } = *new;
                // Where one waits that is new, it is that one, and more than read again.
                let renews = renews && self.next.as_ref().is_none_or(|next| next.renews);
                let read = if self.is_stopping() { Err(STOPPING.into()) } else { read };
                let prepared = read.and_then(|resolved| self.prepare(resolved));
                // What has sent it waits for that, unless it has ended.
                let _ = verdict.send(prepared.as_ref().map(|_| ()).map_err(Mistake::clone));
                match prepared {
                    Ok(mut next) => {
                        next.replies.extend(reply);
                        next.renews = renews;
                        self.next = Some(next);
                    }
                    Err(why) => {
                        if let Some(reply) = reply {
                            // It may have given up waiting.
                            let _ = reply.send(Err(why.clone()));
                        }
                        if refused_before.as_ref() != Some(&why) {
                            (self.notice)(ProxyNotice::NotReloaded(why.to_string()));
                        }
                    }
                }
            }
        }
    }

    pub(super) fn update_addresses(&mut self, numbers: &Numbers) {
        self.settled_until = Stamp(0);
        for link in self.servers.links.first.iter_mut().chain(&mut self.servers.links.lanes) {
            if let Some(found) = numbers.get(&link.address) {
                link.addresses.clone_from(found);
            }
        }
    }

    /// Everything that can fail, and the connections to servers that are new.
    pub(super) fn prepare(&mut self, resolved: Resolved) -> Result<NextConfiguration, Mistake> {
        let config = &resolved.config;
        self.config.takes_over(config)?;
        let (topology, entrances) = (config.topology()?, config.listeners()?);
        let stays =
            |file: &Address| file.file().is_some() && entrances.iter().any(|(address, _)| address == file);
        let has_mode = |config: &Config| config.edge.socket_mode.is_some();
        let open = self.driver.entrances().iter().map(|entrance| &entrance.address);
        let opened = self.next.iter().filter(|next| has_mode(&next.config)).flat_map(|next| &next.opened);
        let mut with_mode = open.filter(|_| has_mode(&self.config)).chain(opened.map(|(address, _)| address));
        if !has_mode(config) && with_mode.any(stays) {
            // What the process's mask would leave is seen only when a socket is made.
            return Err(Mistake::new("`edge.socket_mode` is not given any more", "that takes a restart"));
        }
        has_room_for(&self.core, &topology)?;
        let credentials = Arc::new(credentials(&config.edge)?);
        // What the configuration before has opened, where that still waits for its servers, is
        // taken over from it.
        let waits = |address: &Address| {
            let opened = self.next.iter().flat_map(|next| &next.opened);
            opened.filter(|(opened, _)| opened == address).count()
        };
        let mut opened = Vec::new();
        for (place, (address, _)) in entrances.iter().enumerate() {
            // Port 0 may stand at more than one pool, and is a port of its own at each.
            let before = entrances[..place].iter().filter(|(other, _)| other == address).count();
            let listens = self.driver.entrances().iter().filter(|entrance| entrance.address == *address);
            if listens.count() + waits(address) <= before {
                let listener = listen_at(config, address).map_err(|why| self.own(address, why))?;
                opened.push((address.clone(), listener));
            }
        }
        let answers = |admin: &Option<(Address, http::HttpServer)>| {
            admin.as_ref().map(|(address, _)| address) == config.admin.as_ref()
        };
        let waiting = self.next.as_ref().is_some_and(|next| answers(&next.admin));
        let mut admin = match &config.admin {
            Some(address) if !answers(&self.admin) && !waiting => {
                let server = self.monitor(address).map_err(|why| self.own(address, why))?;
                Some((address.clone(), server))
            }
            _ => None,
        };
        // From here on nothing can fail.
        let mut replies = Vec::new();
        if let Some(before) = self.next.take() {
            replies = before.replies;
            let wanted = |opened: &Address| entrances.iter().any(|(address, _)| address == opened);
            opened.extend(before.opened.into_iter().filter(|(address, _)| wanted(address)));
            if waiting {
                admin = before.admin;
            }
        }
        if let Some(member) = &mut self.group {
            member.generation += 1;
            member.tell(|| {
                Message::Announce(Box::new(resolved.clone()), Arc::clone(&credentials), member.generation)
            });
        }
        let next = self.announce(resolved, topology, credentials);
        Ok(NextConfiguration { entrances, opened, admin, replies, ..next })
    }

    /// Sockets that stay get the permissions that hold from now on, where these are others, and so
    /// do those that were `opened`: maybe by another configuration, which never held.
    fn set_socket_mode(&mut self, mode: Option<u32>, opened: &[Address]) {
        let Some(mode) = mode else { return };
        let is_other = self.config.edge.socket_mode != Some(mode);
        let is_meant = |address: &Address| is_other || opened.contains(address);
        for entrance in self.driver.entrances().iter().filter(|entrance| is_meant(&entrance.address)) {
            if let Err(error) = entrance.listener.set_mode(mode) {
                let warning = format!("the permissions of {} cannot be set: {error}", entrance.address);
                (self.notice)(ProxyNotice::Warning(warning));
            }
        }
    }

    /// Why it cannot listen at an address, where it may itself be what listens at that port.
    fn own(&self, address: &Address, why: Mistake) -> Mistake {
        let entrances = self.driver.entrances().iter().map(|entrance| entrance.listener.address());
        let admin = self.admin.iter().map(|(_, server)| server.address.clone());
        let its_own = entrances.flatten().chain(admin).find(|own| own.port == address.port);
        match its_own.filter(|_| address.file().is_none() && why.what.ends_with(listen::TAKEN)) {
            None => why,
            Some(own) => {
                let what = format!("cannot listen on {address}: this proxy itself has the port, at {own}");
                Mistake::new(what, "another address of the same port takes a restart")
            }
        }
    }

    /// Connects to the servers of a configuration that is good.
    pub(super) fn announce(
        &mut self,
        resolved: Resolved,
        topology: Topology,
        credentials: Arc<Credentials>,
    ) -> NextConfiguration {
        let Resolved { config, numbers, .. } = resolved;
        // Names were looked up: those of servers that are connected to already as well.
        self.update_addresses(&numbers);
        // Its servers are tried as they will be connected to.
        self.core.sign_in_with(credentials.login.clone());
        self.servers.settings = server_settings(&config, &credentials);
        let now = self.clock.now();
        for address in config.addresses() {
            if !self.servers.links.first.iter().any(|link| link.address == address) {
                self.servers.links.first.push(ServerConnection::to(
                    address.clone(),
                    numbers.get(&address).cloned().unwrap_or_default(),
                    now,
                ));
            }
        }
        let servers = self.core.announce(topology.servers.clone());
        for &server in &servers {
            let link = &mut self.servers.links[server];
            link.tried = link.state == ConnectionState::Connected;
        }
        let until = now + config.connect_timeout;
        NextConfiguration {
            config,
            topology,
            entrances: Vec::new(),
            opened: Vec::new(),
            admin: None,
            credentials,
            servers,
            replies: Vec::new(),
            renews: false,
            until,
        }
    }

    /// What comes is there once its servers have been tried, by all loops.
    pub(super) fn take_over_when_ready(&mut self, now: Stamp) {
        let Some(next) = &self.next else { return };
        let late = next.until <= now;
        if !late && !next.servers.iter().all(|&server| self.servers.links[server].tried) {
            return;
        }
        if let Some(member) = &self.group {
            member.has_tried();
            // The first loop says when.
            if !member.is_first() {
                if late && let Some(next) = &mut self.next {
                    next.until = now + self.config.connect_timeout;
                }
                return;
            }
            if !late && !member.others_have_tried() {
                return;
            }
            member.tell(|| Message::TakeOver);
        }
        if let Some(next) = self.next.take() {
            self.take_over(next, now);
        }
    }

    /// The servers of the configuration that comes have been tried: from here on it holds.
    pub(super) fn take_over(&mut self, next: NextConfiguration, now: Stamp) {
        self.settled_until = Stamp(0);
        let NextConfiguration { config, mut topology, entrances, opened, admin, credentials, .. } = next;
        // The listeners of both have been found good.
        let _ = config.name_successors(&self.config, &mut topology.pools);
        let told = self.core.reconfigure(config.settings(), topology, now);
        self.limit_waits(now);
        self.driver.configure(client_settings(&config, &credentials));
        let entrances = entrances.into_iter().map(|(address, pool)| (address, told.pools[pool]));
        let opened_at: Vec<Address> = opened.iter().map(|(address, _)| address.clone()).collect();
        self.driver.listen_only(entrances, opened);
        self.set_socket_mode(config.edge.socket_mode, &opened_at);
        self.tell();
        let (before, warnings) = (self.config.warnings(), config.warnings());
        let new = warnings.iter().filter(|warning| !before.contains(warning));
        for warning in credentials.warnings.iter().chain(new) {
            (self.notice)(ProxyNotice::Warning(warning.clone()));
        }
        let (tls, users) = (&config.edge.tls, &credentials.users);
        let asks_anew = tls.is_some() && *tls != self.config.edge.tls
            || users.is_some() && *users != self.credentials.users;
        let clients = self.driver.clients_of_all(&self.core);
        if asks_anew && clients > 0 {
            (self.notice)(ProxyNotice::Warning(format!("{clients} {STAY}")));
        }
        self.credentials = credentials;
        self.hold = HoldPolicy::new(config.hold);
        if admin.is_some() || config.admin.is_none() {
            // No program listens any more where it was before.
            self.admin = admin;
            self.tell_admin();
        }
        self.config = config;
        self.steer_workers();
        let renewed = ProxyNotice::Warning(RENEWED.into());
        (self.notice)(if next.renews { renewed } else { ProxyNotice::Reloaded });
        for reply in next.replies {
            let _ = reply.send(Ok(()));
        }
    }

    /// No server is left alone for longer than the configuration says that holds from now on.
    fn limit_waits(&mut self, now: Stamp) {
        let links = &mut self.servers.links;
        for server in (0..links.first.len()).chain(links.lanes()) {
            if let ConnectionState::Waiting(until) = &mut links[server].state {
                *until = (*until).min(now + self.core.reconnect_delay(server));
            }
        }
    }
}

/// What is told where the file is refused, and what the one that runs names was read.
const RENEWED: &str = "certificates, keys and users of the configuration that runs were read again and hold \
                       from now on; the one in the file does not";

/// What is told where clients are asked for another login or certificate: these are not.
const STAY: &str = "clients that are connected stay as they came: `users` and `tls` hold for those that connect \
                    from now on, and a restart asks all";

/// Servers and pools keep their numbers for ever, of which there are so many.
fn has_room_for(core: &Core, topology: &Topology) -> Result<(), Mistake> {
    for (count, kind, most) in [
        (core.servers_with(&topology.servers), "servers", LANES),
        (core.pools_with(&topology.pools), "pools", Core::MOST_POOLS),
    ] {
        if count > most {
            let what = format!("there would be {count} {kind} since the start, and {most} are the most");
            return Err(Mistake::new(what, "one that is new takes a restart"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use krarup_net::Clock;
    use krarup_net::mio::Poll;
    use krarup_net::snapshots::SnapshotSlot;
    use krarup_proxy::topology::PoolSpec;
    use krarup_record::recorder::{Recorder, RecorderSettings};
    use krarup_service::ConnectionLoss;
    use krarup_units::Nanos;

    use super::super::LoopPlace;
    use super::*;

    fn resolved(more: &str) -> Resolved {
        let config = Config::parse(&format!("servers = [\"127.0.0.1:1\"]\n{more}"), "test").unwrap();
        Resolved { config, numbers: Numbers::default(), many: Numbers::default() }
    }

    /// The only loop, which listens nowhere.
    fn engine(before: &Resolved) -> Engine<fn(ProxyNotice)> {
        let recorder = Recorder::new(RecorderSettings::default()).unwrap();
        let (settings, topology) = (before.config.settings(), before.config.topology().unwrap());
        let core = Core::new(settings, topology, recorder, Stamp(0));
        let live = SnapshotSlot::waking(Duration::ZERO, || {});
        let clients = SnapshotSlot::waking(Duration::ZERO, || {});
        let place = LoopPlace { group: None, live, clients, orders: Arc::default() };
        let (poll, clock) = (Poll::new().unwrap(), Clock::start());
        let unheard: fn(ProxyNotice) = |_| {};
        Engine::before(before, core, clock, unheard, poll, Arc::default(), place).unwrap()
    }

    #[test]
    fn pools_beyond_the_most_since_the_start_are_refused() {
        let before = resolved("");
        let recorder = Recorder::new(RecorderSettings::default()).unwrap();
        let (settings, topology) = (before.config.settings(), before.config.topology().unwrap());
        let core = Core::new(settings, topology.clone(), recorder, Stamp(0));
        let new = |count: usize| {
            let pools = (0..count).map(|number| PoolSpec::of(&format!("tenant-{number}"), vec![0]));
            Topology { pools: pools.collect(), ..topology.clone() }
        };
        has_room_for(&core, &new(65_534)).unwrap();
        let refused = has_room_for(&core, &new(65_535)).unwrap_err();
        assert_eq!(refused.what, "there would be 65536 pools since the start, and 65535 are the most");
    }

    #[test]
    fn servers_are_connected_to_as_before_where_a_stop_refuses_another_configuration() {
        let mut engine = engine(&resolved(""));
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/certificates/authority.pem");
        let tls = format!("server_tls = {{ authorities = \"{file}\", name = \"localhost\" }}");
        let next = resolved(&format!("[edge]\n{tls}\n"));
        let (topology, found) = (next.config.topology().unwrap(), credentials(&next.config.edge).unwrap());
        engine.next = Some(engine.announce(next, topology, Arc::new(found)));
        assert!(engine.servers.settings.tls.is_some());
        engine.refuse_next();
        assert!(engine.next.is_none() && engine.servers.settings.tls.is_none());
    }

    #[test]
    fn a_server_that_is_out_is_tried_as_the_next_configuration_says() {
        let ejecting = |eject_for: &str| format!("eject_after = 1\neject_for = \"{eject_for}\"");
        for (next, most) in [(String::new(), 1), (ejecting("5s"), 5), (ejecting("2h"), 3_600)] {
            let mut engine = engine(&resolved(&ejecting("1h")));
            engine.servers.lose(&mut engine.core, 0, "gone", ConnectionLoss::Broken);
            let next = resolved(&next);
            let (topology, now) = (next.config.topology().unwrap(), engine.clock.now());
            let next = engine.announce(next, topology, Arc::default());
            engine.take_over(next, now);
            let ConnectionState::Waiting(until) = engine.servers.links[0].state else { panic!("it waits") };
            let waits = until - now;
            assert!(Nanos::from_secs(most / 2) < waits && waits <= Nanos::from_secs(most), "{waits}");
        }
    }
}
