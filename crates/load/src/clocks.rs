//! Whether the clocks of several generators agree, told by a server that all of them asked.
//!
//! memcached answers `stats` with its `time`, in whole seconds. A second begins at one instant for
//! all that ask the same server, so each generator can say what its own clock showed then:
//!
//! ```text
//! server      time 41 ───────────────┐ time 42 ───────────
//! generator      asked → 41     asked → 41    asked → 42
//!                                 ├───────────────────┤ the second 42 began here: to half of it
//! ```
//! The phase of a server's seconds is its own, and may be seconds from the true time: it is the
//! same for all that asked that server, and only differences between generators are looked at.

use std::str;

use krarup_memcache::response::statistics;
use krarup_settings::Mistake;
use krarup_units::text::duration;
use krarup_units::{Nanos, Seconds};
use serde::{Deserialize, Serialize};

/// Clocks that certainly differ by more than this are refused: seconds are laid over each other to
/// the whole second, and generators did not begin together.
const MOST: Seconds = 0.5;

/// By how much each second of a server may be longer than one: memcached sets the alarm of the next
/// when one begins, so that its seconds come later and later, some by 3 ms.
const SLIP: Seconds = 0.005;

/// One run of one server program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedServer {
    /// Its address, as it was asked for. Behind one address there may be several servers.
    pub address: String,
    /// Its process.
    pub pid: u64,
    /// When it started, in seconds since 1970 by its own clock. In containers all have one `pid`.
    pub started: i64,
    /// What only this run of the server has, where it says so, as Krarup's proxy does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// When a second of a server began, by a generator's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerSecond {
    /// The server that was asked.
    pub server: AskedServer,
    /// The second, as the server counts: since 1970.
    pub second: u64,
    /// When it began, by the generator's clock, in seconds since 1970 (UTC).
    pub began: Seconds,
    /// By how much that may be wrong, in seconds: half of what lies between the last question that
    /// was answered with the second before and the first answer with this one.
    pub within: Seconds,
}

impl ServerSecond {
    /// What the generator's clock shows more than the server's, in seconds.
    fn offset(&self) -> Seconds {
        self.began - self.second as f64
    }
}

/// How far the clocks of generators whose results were merged agree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClocksCompared {
    /// How far apart the clocks of two generators that asked the same server are at most, in
    /// seconds. `None` where no two asked the same.
    pub within: Option<Seconds>,
    /// How many generators asked each of the servers. Clocks of those that asked different ones are
    /// not compared.
    pub asked: Vec<u32>,
    /// How many generators saw no second begin.
    pub unknown: u32,
}

/// Waits for a server's second to begin, in answers to `stats`.
#[derive(Debug, Default)]
pub(crate) struct SecondSearch {
    /// The server, its second, and when the last question was asked that was answered with it.
    last: Option<(AskedServer, u64, Nanos)>,
}

impl SecondSearch {
    /// Takes the answer to a question: the second that began since the one before, if one did.
    /// `asked` and `answered` are on the generator's clock of the wall. An answer without what is
    /// needed begins the search anew.
    pub(crate) fn see(
        &mut self,
        address: &str,
        asked: Nanos,
        answered: Nanos,
        text: &[u8],
    ) -> Option<ServerSecond> {
        let (server, second) = str::from_utf8(text).ok().and_then(|text| said(address, text))?;
        let last = self.last.replace((server.clone(), second, asked));
        let (_, _, from) = last.filter(|(other, before, _)| *other == server && *before < second)?;
        // A clock that was set back meanwhile tells nothing.
        let width = answered.0.checked_sub(from.0)?;
        let began = Nanos(from.0 + width / 2).as_seconds();
        Some(ServerSecond { server, second, began, within: Nanos(width).as_seconds() / 2.0 })
    }
}

/// What a server says of itself and its time; none where it does not.
fn said(address: &str, text: &str) -> Option<(AskedServer, u64)> {
    let (mut pid, mut uptime, mut time, mut id) = (None, None, None, None);
    for (name, value) in statistics(text) {
        match name {
            "pid" => pid = value.parse::<u64>().ok(),
            "uptime" => uptime = value.parse::<i64>().ok(),
            "time" => time = value.parse::<u64>().ok(),
            "id" => id = Some(value.to_owned()),
            _ => {}
        }
    }
    let time = time?;
    let started = i64::try_from(time).ok()?.checked_sub(uptime?)?;
    Some((AskedServer { address: address.to_owned(), pid: pid?, started, id }, time))
}

/// Compares the clocks of generators, of which each has a name.
///
/// # Errors
/// Which two differ, where seconds would be laid over each other wrongly.
pub(crate) fn compare(parts: &[(&str, Option<&ServerSecond>)]) -> Result<ClocksCompared, Mistake> {
    let mut groups: Vec<Vec<(&str, &ServerSecond)>> = Vec::new();
    let mut unknown = 0;
    for &(name, seen) in parts {
        let Some(seen) = seen else {
            unknown += 1;
            continue;
        };
        match groups.iter_mut().find(|group| group[0].1.server == seen.server) {
            Some(group) => group.push((name, seen)),
            None => groups.push(vec![(name, seen)]),
        }
    }
    let mut within: Option<Seconds> = None;
    for group in groups.iter().filter(|group| group.len() > 1) {
        let apart = apart(group)?;
        within = Some(within.map_or(apart, |widest| widest.max(apart)));
    }
    Ok(ClocksCompared { within, asked: groups.iter().map(|group| group.len() as u32).collect(), unknown })
}

/// How far apart clocks are at most, that were held to one server.
fn apart(group: &[(&str, &ServerSecond)]) -> Result<Seconds, Mistake> {
    let first = group.iter().map(|one| one.1.second).min().expect("no group is empty");
    let known = |one: &ServerSecond| one.within + SLIP * (one.second - first) as f64;
    let least = |one: &(&str, &ServerSecond)| one.1.offset() - known(one.1);
    let most = |one: &(&str, &ServerSecond)| one.1.offset() + known(one.1);
    let all = || group.iter();
    let ahead = all().max_by(|one, other| least(one).total_cmp(&least(other))).expect("no group is empty");
    let behind = all().min_by(|one, other| most(one).total_cmp(&most(other))).expect("no group is empty");
    // The two that certainly differ most.
    if least(ahead) - most(behind) > MOST {
        return Err(Mistake::new(
            format!(
                "the clock of {} is {} ahead of that of {} (known to ± {}), as both saw the same server's seconds begin: the generators did not begin together, and their seconds would be laid over each other wrongly",
                ahead.0,
                duration(ahead.1.offset() - behind.1.offset()),
                behind.0,
                duration(known(ahead.1) + known(behind.1))
            ),
            "set the clocks of their machines, for instance by chrony or systemd-timesyncd, and run all of them again",
        ));
    }
    let highest = all().map(most).fold(f64::NEG_INFINITY, f64::max);
    let lowest = all().map(least).fold(f64::INFINITY, f64::min);
    Ok(highest - lowest)
}

impl ClocksCompared {
    /// The same in words.
    pub(crate) fn words(&self) -> String {
        let all = self.asked.iter().sum::<u32>() + self.unknown;
        let Some(within) = self.within else {
            let why = match (self.asked.len(), self.unknown) {
                (0, _) => "no generator saw a server's second begin".to_owned(),
                (1, unknown) => format!("{unknown} of {all} generators saw no server's second begin"),
                (servers, 0) => format!("{all} generators asked {servers} different servers"),
                (servers, unknown) => {
                    format!(
                        "generators asked {servers} different servers, {unknown} of {all} saw no second begin"
                    )
                }
            };
            return format!("clocks were not compared: {why}");
        };
        let mut words = format!("clocks agree within {}", duration(within));
        if let [count] = self.asked[..] {
            if self.unknown > 0 {
                words += &format!(
                    ", those of {count} of {all} generators: the others saw no server's second begin"
                );
            }
            return words;
        }
        words += &format!(
            " among generators that asked the same server: {all} generators asked {} servers, and clocks of those that asked different ones were not compared",
            self.asked.len()
        );
        if self.unknown > 0 {
            words += &format!("; {} saw no second begin", self.unknown);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(pid: u64, time: u64) -> String {
        format!("STAT pid {pid}\r\nSTAT uptime {}\r\nSTAT time {time}\r\nEND\r\n", time - 1_000)
    }

    fn server(address: &str, pid: u64) -> AskedServer {
        AskedServer { address: address.to_owned(), pid, started: 1_000, id: None }
    }

    fn seen(pid: u64, second: u64, began: Seconds, within: Seconds) -> ServerSecond {
        ServerSecond { server: server("a:1", pid), second, began, within }
    }

    #[test]
    fn a_second_begins_between_the_last_old_answer_and_the_first_new_one() {
        let mut search = SecondSearch::default();
        let millis = Nanos::from_millis;
        assert_eq!(search.see("a:1", millis(100), millis(104), text(7, 5_000).as_bytes()), None);
        assert_eq!(search.see("a:1", millis(200), millis(204), text(7, 5_000).as_bytes()), None);
        let found = search.see("a:1", millis(300), millis(304), text(7, 5_001).as_bytes()).unwrap();
        assert_eq!(found, ServerSecond { began: 0.252, within: 0.052, ..seen(7, 5_001, 0.0, 0.0) });
        // Another server behind the address, or one that was started again, begins the search anew.
        assert_eq!(search.see("a:1", millis(400), millis(404), text(8, 5_002).as_bytes()), None);
        assert!(search.see("a:1", millis(500), millis(504), text(8, 5_003).as_bytes()).is_some());
    }

    #[test]
    fn a_server_that_does_not_tell_its_time_tells_no_clock() {
        assert_eq!(said("a:1", "STAT pid 7\r\nSTAT uptime 5\r\nEND\r\n"), None);
        assert_eq!(said("a:1", "STAT time 5000\r\nEND\r\n"), None);
        assert_eq!(said("a:1", "ERROR\r\n"), None);
        let of_proxy = text(1, 2_000).replace("END", "STAT id 00ff\r\nEND");
        assert_eq!(said("a:1", &of_proxy).unwrap().0.id.as_deref(), Some("00ff"));
    }

    #[test]
    fn clocks_are_compared_by_the_seconds_of_one_server() {
        // The second saw the next second of the server begin: that is no difference of clocks.
        let (one, two) = (seen(7, 50, 49.300, 0.004), seen(7, 51, 50.304, 0.002));
        let found = compare(&[("1", Some(&one)), ("2", Some(&two))]).unwrap();
        assert!((found.within.unwrap() - 0.015).abs() < 1e-9, "{found:?}");
        assert_eq!((&found.asked[..], found.unknown), (&[2][..], 0));
        assert_eq!(found.words(), "clocks agree within 15.0 ms");
    }

    #[test]
    fn clocks_that_certainly_differ_are_refused_by_name() {
        let (one, two, three) =
            (seen(7, 50, 50.0, 0.004), seen(7, 50, 53.2, 0.002), seen(7, 50, 50.1, 0.001));
        let refused = compare(&[("a.json", Some(&one)), ("b.json", Some(&two)), ("c.json", Some(&three))]);
        let refused = refused.unwrap_err();
        assert!(
            refused
                .what
                .starts_with("the clock of b.json is 3.20 s ahead of that of a.json (known to ± 6.00 ms)"),
            "{refused}"
        );
        assert!(refused.hint.contains("chrony"));
        // Half a second, and what they are known to, is let pass.
        let vague = seen(7, 50, 50.6, 0.11);
        let found = compare(&[("a", Some(&one)), ("b", Some(&vague))]).unwrap();
        assert!((found.within.unwrap() - 0.714).abs() < 1e-9);
    }

    #[test]
    fn what_was_not_compared_is_said() {
        let (one, other, alike) =
            (seen(7, 50, 50.0, 0.001), seen(8, 50, 90.0, 0.001), seen(7, 50, 50.0, 0.001));
        let words = |parts: &[Option<&ServerSecond>]| {
            let named: Vec<_> = parts.iter().map(|&part| ("x", part)).collect();
            compare(&named).unwrap().words()
        };
        assert_eq!(
            words(&[None, None]),
            "clocks were not compared: no generator saw a server's second begin"
        );
        assert_eq!(
            words(&[Some(&one), None]),
            "clocks were not compared: 1 of 2 generators saw no server's second begin"
        );
        assert_eq!(
            words(&[Some(&one), Some(&other)]),
            "clocks were not compared: 2 generators asked 2 different servers"
        );
        assert_eq!(
            words(&[Some(&one), Some(&alike), None]),
            "clocks agree within 2.00 ms, those of 2 of 3 generators: the others saw no server's second begin"
        );
        assert!(words(&[Some(&one), Some(&other), Some(&alike)]).contains("3 generators asked 2 servers"));
    }

    proptest! {
        /// Whatever generators ask and when: the true difference of their clocks is within what is
        /// said of it.
        #[test]
        fn the_truth_is_within_the_bound(
            ahead in -400_i64..400,
            phase in 0_u64..1_000,
            ways in prop::collection::vec((1_u64..9, 0_u64..9, 0_u64..9), 400..401),
        ) {
            let find = |ahead: i64| {
                let (mut search, mut true_time) = (SecondSearch::default(), 1_000_000_u64);
                for &(pause, there, back) in &ways {
                    let asked = true_time;
                    let told = (asked + there + phase) / 1_000;
                    true_time = asked + there + back + pause;
                    let shows = |at: u64| Nanos::from_millis((at as i64 + ahead) as u64);
                    let found =
                        search.see("a:1", shows(asked), shows(asked + there + back), text(7, told + 1_000).as_bytes());
                    if found.is_some() {
                        return found;
                    }
                }
                None
            };
            let (Some(one), Some(two)) = (find(0), find(ahead)) else { return Ok(()) };
            let found = compare(&[("1", Some(&one)), ("2", Some(&two))]).unwrap();
            prop_assert!(found.within.unwrap() + 1e-6 >= (ahead as f64 / 1e3).abs(), "{:?}", found);
        }
    }
}
