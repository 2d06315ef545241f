//! The TLS handshake and authentication of clients, under one limit of time, and a limit of how
//! many may be at that.

use krarup_service::{ClientId, Disconnect, Service};
use krarup_units::{Nanos, Stamp};

use super::authentication::Login;
use super::clients::Driver;
use super::connection::AdmissionProgress;

/// A wrong password is answered so late.
const WRONG_PASSWORD: Nanos = Nanos::from_secs(1);
/// After so many of them the connection ends.
const TRIES: u32 = 3;

/// So many that are complete, or gone, may stand among those that are not.
const COMPLETE: usize = 64;

/// What a client hears that takes too long over its login.
const LATE: &[u8] = b"CLIENT_ERROR the login took too long\r\n";

impl Driver {
    /// A client has come that is not known. Where there are too many of these, the oldest goes: who
    /// means to log in does it soon.
    pub(super) fn await_login(&mut self, service: &mut impl Service, id: ClientId, now: Stamp) {
        let most = self.settings.unauthenticated.max(1);
        if self.logins.count >= most
            && let Some((oldest, _)) = self.oldest_incomplete()
        {
            service.disconnected(Disconnect::Unauthenticated);
            self.drop_client(service, oldest);
        }
        // Where none is ever late, the first may stay for ever, and behind it all that came since.
        if self.logins.order.len() > COMPLETE + 2 * self.logins.count {
            let mut order = std::mem::take(&mut self.logins.order);
            order.retain(|&(id, since)| self.is_incomplete(id, since));
            self.logins.order = order;
        }
        self.logins.count += 1;
        self.logins.order.push_back((id, now));
    }

    /// The one that has been unknown for longest, and since when.
    fn oldest_incomplete(&mut self) -> Option<(ClientId, Stamp)> {
        while let Some(&(id, since)) = self.logins.order.front() {
            if self.is_incomplete(id, since) {
                return Some((id, since));
            }
            self.logins.order.pop_front();
        }
        None
    }

    /// Whether the client that connected so is there, and is not known yet.
    fn is_incomplete(&mut self, id: ClientId, since: Stamp) -> bool {
        self.login_of(id, since).is_some_and(|login| !login.complete)
    }

    /// How far the client `id` is, if it is still the one that connected at `since`.
    fn login_of(&mut self, id: ClientId, since: Stamp) -> Option<&mut AdmissionProgress> {
        let link = self.clients.get_mut(id as usize)?.as_mut()?;
        Some(&mut link.login).filter(|login| login.since == since)
    }

    /// Something was read from a client, or it was admitted: it may be known from now on.
    pub(super) fn complete_login(&mut self, id: ClientId) {
        let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
        if !link.login.complete && link.admitted && link.conn.is_greeted() {
            link.login.complete = true;
            self.logins.count -= 1;
        }
    }

    /// A client has gone.
    pub(super) fn forget_login(&mut self, login: AdmissionProgress) {
        self.logins.count -= usize::from(!login.complete);
    }

    /// When a client is to be told something, or has taken too long.
    pub(super) fn logins_due(&mut self) -> Option<Stamp> {
        let limit = self.settings.login;
        let late = self.oldest_incomplete().filter(|_| limit > Nanos::ZERO).map(|(_, since)| since + limit);
        self.logins.refused.front().map(|&(due, ..)| due).into_iter().chain(late).min()
    }

    /// Tells those that said a wrong password, and disconnects those that have taken too long.
    pub(super) fn tick_logins(&mut self, service: &mut impl Service, now: Stamp) {
        let asks = self.settings.users.is_some();
        while let Some(&(due, id, since)) = self.logins.refused.front()
            && due <= now
        {
            self.logins.refused.pop_front();
            let Some(login) = self.login_of(id, since) else { continue };
            login.answer_due = false;
            let last = asks && login.failures >= TRIES;
            service.respond(id, Login::FAILURE, 0, now, now);
            if last {
                service.disconnected(Disconnect::Unauthenticated);
                self.end_of_requests(service, id, b"");
            } else {
                self.offer(service, id);
            }
        }
        let limit = self.settings.login;
        while limit > Nanos::ZERO
            && let Some((id, since)) = self.oldest_incomplete()
            && since + limit <= now
        {
            self.logins.order.pop_front();
            service.disconnected(Disconnect::Unauthenticated);
            let Some(Some(link)) = self.clients.get(id as usize) else { continue };
            // Who has not greeted cannot be told anything.
            if link.conn.is_greeted() {
                self.end_of_requests(service, id, LATE);
            } else {
                self.drop_client(service, id);
            }
        }
    }

    /// Clients need not authenticate, or not any more: who was at it is admitted, once it has been
    /// told of its wrong password.
    pub(super) fn admit_without_login(&mut self, id: ClientId) {
        let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
        if !link.admitted && !link.login.answer_due && !link.concluded {
            link.admitted = true;
            self.complete_login(id);
        }
    }

    /// A client that must authenticate is read only until it has.
    pub(super) fn authenticate(&mut self, service: &mut impl Service, id: ClientId) {
        let Some(users) = &self.settings.users else { return self.admit_without_login(id) };
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        while !link.admitted && !link.login.answer_due && !link.inbox.is_empty() {
            let now = self.clock.now();
            link.begun.get_or_insert(now);
            match users.judge(link.inbox.unread()) {
                Login::Incomplete => return,
                Login::Answered { reply, used, admitted } => {
                    link.inbox.consume(used);
                    link.admitted = admitted;
                    link.begun = None;
                    if reply == Login::FAILURE {
                        service.authentication_failed();
                        link.login.failures += 1;
                        link.login.answer_due = true;
                        self.logins.refused.push_back((now + WRONG_PASSWORD, id, link.login.since));
                        self.changed = true;
                        return;
                    }
                    service.respond(id, reply, used, link.received, now);
                }
                Login::Close => {
                    link.inbox.clear();
                    link.readable = false;
                    link.concluded = true;
                    return service.ended(id, now);
                }
            }
        }
        self.complete_login(id);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use krarup_cache::Cache;
    use krarup_net::mio::net::UnixStream;

    use super::super::authentication::Users;
    use super::super::clients::{ClientLimits, DriverSettings};
    use super::super::testing::{self, answer};
    use super::*;

    /// A driver whose clients must authenticate, and two clients of it.
    fn asking() -> (Driver, Cache, [UnixStream; 2]) {
        let users = Some(Arc::new(Users::parse("anna:secret").unwrap()));
        let settings = DriverSettings { users, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let clients = [(); 2].map(|()| testing::connect(&mut driver, &mut cache));
        (driver, cache, clients)
    }

    #[test]
    fn a_client_at_its_login_is_served_when_none_is_needed_any_more() {
        let (mut driver, mut cache, [mut halfway, mut silent]) = asking();
        let heard = answer(&mut driver, &mut cache, &mut halfway, 0, "set x 0 0 11\r\nanna");
        assert_eq!((heard.as_str(), driver.logins.count), ("", 2));
        driver.configure(ClientLimits::default().into());
        assert_eq!((driver.logins.count, driver.logins_due()), (0, None));
        let heard = answer(&mut driver, &mut cache, &mut halfway, 0, " secret\r\n");
        assert_eq!(heard, "STORED\r\n");
        let heard = answer(&mut driver, &mut cache, &mut silent, 1, "get x\r\n");
        assert_eq!(heard, "VALUE x 0 11\r\nanna secret\r\nEND\r\n");
    }

    /// Only the first was ever looked at.
    #[test]
    fn logins_that_are_complete_are_forgotten_behind_one_that_never_is() {
        let users = Some(Arc::new(Users::parse("anna:secret").unwrap()));
        let settings = DriverSettings { users, login: Nanos::ZERO, ..ClientLimits::default().into() };
        let (mut driver, mut cache) = (testing::driver(settings), testing::cache());
        let _silent = testing::connect(&mut driver, &mut cache);
        for _ in 0..500 {
            let mut client = testing::connect(&mut driver, &mut cache);
            let heard = answer(&mut driver, &mut cache, &mut client, 1, "set x 0 0 11\r\nanna secret\r\n");
            assert_eq!(heard, "STORED\r\n");
            driver.drop_client(&mut cache, 1);
        }
        assert_eq!((driver.logins.count, driver.oldest_incomplete().map(|(id, _)| id)), (1, Some(0)));
        assert!(driver.logins.order.len() <= COMPLETE + 3, "{}", driver.logins.order.len());
    }

    #[test]
    fn the_last_wrong_password_disconnects_only_where_passwords_are_asked_for() {
        for asks in [true, false] {
            let (mut driver, mut cache, [mut client, _other]) = asking();
            driver.clients[0].as_mut().unwrap().login.failures = TRIES - 1;
            answer(&mut driver, &mut cache, &mut client, 0, "set x 0 0 10\r\nanna wrong\r\nget x\r\n");
            if !asks {
                driver.configure(ClientLimits::default().into());
            }
            let later = driver.clock.now() + WRONG_PASSWORD;
            driver.tick_logins(&mut cache, later);
            let heard = answer(&mut driver, &mut cache, &mut client, 0, "");
            let served = heard.strip_prefix("CLIENT_ERROR authentication failure\r\n");
            assert_eq!(served, Some(if asks { "" } else { "END\r\n" }));
            assert_eq!(driver.clients[0].is_none(), asks);
        }
    }
}
