//! A server: how it is and what it did, whichever connection leads to it.

use krarup_units::{Nanos, Stamp};

use crate::ids::ConnectionId;

/// The numbers that a version begins with: `1.4.39 krarup-0.1.0` has three.
pub(super) fn numbers(version: &str) -> impl Iterator<Item = u32> {
    version.split(['.', '-', ' ']).map_while(|part| part.parse().ok())
}

/// A server, as one event loop sees it.
#[derive(Debug)]
pub(crate) struct Server {
    /// `host:port`, as configured.
    pub(super) name: String,
    /// Whether it takes requests: its first connection stands, and it has told its version there.
    pub(super) up: bool,
    /// Whether one of the loops that are summed up here has it up.
    pub(super) up_elsewhere: bool,
    /// Where threads have connections to it: how many stand.
    pub(super) standing: usize,
    /// The server's own words for its version, once it has told.
    pub(super) version: Option<String>,
    /// Whether it takes meta commands, as far as its version tells: memcached does from 1.6 on.
    pub(super) knows_meta: bool,
    /// How often a connection was lost or could not be made.
    pub(super) losses: u64,
    /// Why, the last time.
    pub(super) last_loss: Option<String>,
    /// Requests answered since its first connection was made.
    pub(super) answered_since_up: u64,
    /// Whether there were so many losses in a row that it is left alone for a while.
    pub(super) ejected: bool,
    /// Whether no pool has it any more, or yet.
    pub(super) retired: bool,
    /// Whether a pool will have it soon, so that it is connected to already.
    pub(super) announced: bool,
    /// Answers it owes by its lanes, or to other loops that are summed up here.
    pub(super) owed_elsewhere: usize,
    /// Lanes that clients share.
    pub(super) lanes: Vec<ConnectionId>,
    /// When a long value last went this way, and how long they were of late.
    had_long: Option<(Stamp, usize)>,
}

impl Server {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            up: false,
            up_elsewhere: false,
            standing: 0,
            version: None,
            knows_meta: true,
            losses: 0,
            last_loss: None,
            answered_since_up: 0,
            ejected: false,
            retired: false,
            announced: false,
            owed_elsewhere: 0,
            lanes: Vec::new(),
            had_long: None,
        }
    }

    /// A long value of so many bytes went this way.
    pub(super) fn had_long(&mut self, bytes: usize, now: Stamp) {
        let before = self.had_long.map_or(0, |(_, before)| before - before / 8);
        self.had_long = Some((now, before.max(bytes)));
    }

    /// How long values were that went this way within `of_late`, where any was long.
    pub(super) fn long_of_late(&self, of_late: Nanos, now: Stamp) -> Option<usize> {
        self.had_long.filter(|(had, _)| now.0.saturating_sub(had.0) < of_late.0).map(|(_, bytes)| bytes)
    }

    /// It has told its version.
    pub(super) fn set_version(&mut self, version: &str) {
        let mut numbers = numbers(version);
        // What does not number its versions may know them.
        self.knows_meta = match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => (major, minor) >= (1, 6),
            _ => true,
        };
        self.version = Some(version.to_owned());
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    pub(crate) fn last_loss(&self) -> Option<&str> {
        self.last_loss.as_deref()
    }

    pub(crate) fn answered_since_up(&self) -> u64 {
        self.answered_since_up
    }

    /// Whether it is left alone. One that is up again keeps the mark until it has answered.
    pub(crate) fn is_ejected(&self) -> bool {
        self.ejected && !self.up
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    /// How it is and what it did, for the sum of all loops; it owes so many answers.
    pub(super) fn copy(&self, outstanding: usize) -> Self {
        Self {
            up: self.up,
            up_elsewhere: self.up_elsewhere,
            version: self.version.clone(),
            losses: self.losses,
            last_loss: self.last_loss.clone(),
            answered_since_up: self.answered_since_up,
            ejected: self.is_ejected(),
            retired: self.retired,
            owed_elsewhere: outstanding,
            ..Self::new(self.name.clone())
        }
    }

    /// Adds how another loop has it, to which it owes so many answers. It is up where every loop
    /// has it up, and in no pool any more where one loop has it in none: that one's books may be
    /// without its times.
    pub(super) fn absorb(&mut self, other: &Self, outstanding: usize) {
        self.up_elsewhere |= self.up || other.up || other.up_elsewhere;
        self.up &= other.up;
        self.version = self.version.take().or_else(|| other.version.clone());
        self.losses += other.losses;
        self.last_loss = self.last_loss.take().or_else(|| other.last_loss.clone());
        self.answered_since_up += other.answered_since_up;
        self.ejected |= other.ejected;
        self.retired |= other.retired;
        self.owed_elsewhere += outstanding;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_tells_whether_meta_commands_are_known() {
        for (version, knows) in [
            ("1.6.18", true),
            ("1.5.22", false),
            ("1.4.15-9", false),
            ("0.1.0 (krarup)", false),
            ("1.4.39 krarup-0.1.0", false),
            ("2.0", true),
            ("mine", true),
        ] {
            let mut server = Server::new("a:1".into());
            server.set_version(version);
            assert_eq!((server.knows_meta, server.version.as_deref()), (knows, Some(version)));
        }
    }
}
