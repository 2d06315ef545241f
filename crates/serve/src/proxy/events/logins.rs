//! From accept until it is known who a client is: the TLS handshake and the login, under one limit of time, and a limit of how many there may be.

use std::collections::VecDeque;

use krarup_units::{Nanos, Stamp};

use super::{Engine, Notice};
use crate::proxy::gate::Knock;

/// A wrong password is answered so late.
const WRONG_PASSWORD: Nanos = Nanos::from_secs(1);
/// After so many of them the connection ends.
const TRIES: u32 = 3;

/// What a client hears that takes too long over its login.
const LATE: &[u8] = b"CLIENT_ERROR the login took too long\r\n";

/// Clients of which it is not known yet who they are. Numbers of clients are used again; with the instant of its accept each is itself.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// In the order in which they came. Some may be known or gone by now.
    order: VecDeque<(u32, Stamp)>,
    count: usize,
    /// Those that said a wrong password, and when they are told, in that order.
    refused: VecDeque<(Stamp, u32, Stamp)>,
}

/// How far a client is with that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Login {
    /// When it connected.
    pub(super) since: Stamp,
    /// Whether all is known that is asked for.
    pub(super) known: bool,
    /// Wrong passwords it has said.
    failures: u32,
    /// Whether it has not been told yet of the last one: until then it is not read.
    pub(super) answer_due: bool,
}

impl Login {
    pub(super) fn begun(since: Stamp, known: bool) -> Self {
        Self { since, known, failures: 0, answer_due: false }
    }
}

impl<N: FnMut(Notice)> Engine<N> {
    /// A client has come that is not known. Where there are too many of these, the oldest goes: who means to log in does it soon.
    pub(super) fn await_login(&mut self, id: u32, now: Stamp) {
        let most = (self.config.edge.max_unauthenticated / self.config.threads).max(1);
        if self.logins.count >= most
            && let Some((oldest, _)) = self.oldest_unknown()
        {
            self.core.client_unknown();
            self.drop_client(oldest);
        }
        self.logins.count += 1;
        self.logins.order.push_back((id, now));
    }

    /// The one that has been unknown for longest, and since when.
    fn oldest_unknown(&mut self) -> Option<(u32, Stamp)> {
        while let Some(&(id, since)) = self.logins.order.front() {
            if self.login_of(id, since).is_some_and(|login| !login.known) {
                return Some((id, since));
            }
            self.logins.order.pop_front();
        }
        None
    }

    /// How far the client `id` is, if it is still the one that connected at `since`.
    fn login_of(&mut self, id: u32, since: Stamp) -> Option<&mut Login> {
        let link = self.clients.get_mut(id as usize)?.as_mut()?;
        Some(&mut link.login).filter(|login| login.since == since)
    }

    /// Something was read from a client, or it was admitted: it may be known from now on.
    pub(super) fn recognise(&mut self, id: u32) {
        let Some(Some(link)) = self.clients.get_mut(id as usize) else { return };
        if !link.login.known && link.admitted && link.conn.is_greeted() {
            link.login.known = true;
            self.logins.count -= 1;
        }
    }

    /// A client has gone.
    pub(super) fn forget_login(&mut self, login: Login) {
        self.logins.count -= usize::from(!login.known);
    }

    /// When a client is to be told something, or has taken too long.
    pub(super) fn logins_due(&mut self) -> Option<Stamp> {
        let limit = self.config.edge.login_timeout;
        let late = self.oldest_unknown().filter(|_| limit > Nanos::ZERO).map(|(_, since)| since + limit);
        self.logins.refused.front().map(|&(due, ..)| due).into_iter().chain(late).min()
    }

    /// Tells those that said a wrong password, and disconnects those that have taken too long.
    pub(super) fn tick_logins(&mut self, now: Stamp) {
        while let Some(&(due, id, since)) = self.logins.refused.front()
            && due <= now
        {
            self.logins.refused.pop_front();
            let Some(login) = self.login_of(id, since) else { continue };
            login.answer_due = false;
            let last = login.failures >= TRIES;
            self.core.client_told(id, Knock::FAILURE, 0, now, now);
            if last {
                self.core.client_unknown();
                self.end_of_requests(id, b"");
            } else {
                self.offer(id);
            }
        }
        let limit = self.config.edge.login_timeout;
        while limit > Nanos::ZERO
            && let Some((id, since)) = self.oldest_unknown()
            && since + limit <= now
        {
            self.logins.order.pop_front();
            self.core.client_unknown();
            let Some(Some(link)) = self.clients.get(id as usize) else { continue };
            // Who has not greeted cannot be told anything.
            if link.conn.is_greeted() {
                self.end_of_requests(id, LATE);
            } else {
                self.drop_client(id);
            }
        }
    }

    /// Whoever must say who he is before anything else is heard until he has.
    pub(super) fn knock(&mut self, id: u32) {
        let Some(users) = &self.credentials.users else { return };
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        while !link.admitted && !link.login.answer_due && !link.inbox.is_empty() {
            let now = self.clock.now();
            link.begun.get_or_insert(now);
            match users.judge(link.inbox.unread()) {
                Knock::Incomplete => return,
                Knock::Answered { reply, used, admitted } => {
                    link.inbox.consume(used);
                    link.admitted = admitted;
                    link.begun = None;
                    if reply == Knock::FAILURE {
                        self.core.login_failed();
                        link.login.failures += 1;
                        link.login.answer_due = true;
                        self.logins.refused.push_back((now + WRONG_PASSWORD, id, link.login.since));
                        self.settled_until = Stamp(0);
                        return;
                    }
                    self.core.client_told(id, reply, used, link.received, now);
                }
                Knock::Close => {
                    link.inbox.clear();
                    link.readable = false;
                    return self.core.client_ended(id);
                }
            }
        }
        self.recognise(id);
    }
}
