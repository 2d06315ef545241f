//! Meta commands on their way to the holders of their key: [`crate::meta`] says to whom.

use krarup_memcache::request::LONGEST_NAME;
use krarup_memcache::{Class, Meta, MetaCommand, Parsed, Reply, Request, request};
use krarup_units::Stamp;

use super::Core;
use crate::exchange::Copies;
use crate::meta::{self, Role, Rule};
use crate::server::Health;
use crate::topology::Route;

/// Keys that servers see otherwise than clients must not come back as servers see them.
const NOT_WITH_A_ROUTE: &[u8] =
    b"CLIENT_ERROR the route of this key changes it, which base64, the flag k and me do not allow\r\n";

impl Core {
    /// A worker has taken a meta command.
    pub(super) fn meta(&mut self, number: u32, request: &Meta<'_>, raw: &[u8], now: Stamp) {
        let mut buffer = [0; LONGEST_NAME];
        let key = request.name(&mut buffer);
        let route = self.routes.find(key);
        let shows = request.base64 || request.has_any(b"k") || request.command == MetaCommand::Debug;
        if route.is_some_and(Route::rewrites) && shows {
            return self.exchanges[number].merge.local(Class::ClientError, NOT_WITH_A_ROUTE);
        }
        let rule = meta::rule(request);
        if matches!(rule, Rule::Everyone | Rule::FirstDecides) {
            return self.write_key(number, key, request.expect(), raw, now, &mut |out, sent, lifetimes| {
                let sent = if request.base64 { request.key } else { sent };
                meta::write(out, request, sent, Role::Answers, lifetimes);
            });
        }
        let place = self.locate(self.exchanges[number].entry, key, now);
        let sent = place.key(key);
        if !self.admit(number, place.home, sent, now) {
            return self.put_back(place);
        }
        let written = if request.base64 { request.key } else { sent };
        let first = place.holders[0];
        let server = match rule {
            Rule::Anybody => self.choose(place.pool, &place.holders, 1, now),
            _ => Some(first),
        };
        let Some(server) = server else {
            self.nobody_is_up(number, 0, &place.holders);
            return self.put_back(place);
        };
        if server != first {
            let exchange = &mut self.exchanges[number];
            exchange.copies = Copies::Winner;
            exchange.others.clear();
            exchange.others.push(first);
            if exchange.request.is_empty() {
                exchange.request.extend_from_slice(raw);
            }
        }
        let asked = |role| move |out: &mut Vec<u8>| meta::write(out, request, written, role, place.lifetimes);
        self.ask(server, number, 0, false, request.expect(), &mut asked(Role::Answers));
        if rule == Rule::FirstAndTold {
            for (part, &other) in place.holders.iter().enumerate().skip(1) {
                self.ask(other, number, part as u16, true, request.expect(), &mut asked(Role::Told));
            }
        }
        self.put_back(place);
    }

    /// A holder that is not the first has answered a read. If it says that the client has won, the first one is asked, who
    /// gives that out once; whether it is.
    pub(super) fn asks_the_first(&mut self, number: u32, reply: &Reply<'_>, now: Stamp) -> bool {
        let first = self.exchanges[number].others[0];
        let won = reply.meta_flags().any(|(letter, _)| letter == b'W');
        if !won || self.servers[first].health != Health::Up {
            return false;
        }
        let raw = std::mem::take(&mut self.exchanges[number].request);
        if let Parsed::Complete { message: Request::Meta(asked), .. } =
            request::parse(&raw, &self.settings.limits)
        {
            let mut buffer = [0; LONGEST_NAME];
            let place = self.locate(self.exchanges[number].entry, asked.name(&mut buffer), now);
            let sent = if asked.base64 { asked.key } else { place.key(asked.key) };
            self.ask(first, number, 0, false, asked.expect(), &mut |out| {
                meta::write(out, &asked, sent, Role::Answers, place.lifetimes);
            });
            self.put_back(place);
        }
        self.exchanges[number].request = raw;
        true
    }
}
