//! What a run is asked to be: plain data that reads from and writes to JSON, and is checked before
//! anything begins.
//!
//! A run has one class of clients, whose figures stand in [`Load`] itself, or several with a name
//! each ([`Load::classes`]): closed ones with a population and a think time, open ones with a rate,
//! each with a workload of its own, side by side on the same servers.

use std::fmt;
use std::path::PathBuf;

use krarup_settings::Mistake;
use krarup_settings::kind::{Count, Duration, Kind, Whole};
use krarup_units::{Address, Nanos, Seconds};
use serde::{Deserialize, Serialize};

use crate::keys::KeyFamily;
use crate::schedule::Arrivals;
use crate::sizes::SizeLaw;
use crate::workload::{Mix, OnMiss, Sequence, Workload};

/// One run of the generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// The servers.
    pub targets: Vec<Address>,
    /// Which of them a client asks.
    pub spread: ServerChoice,
    /// How connections are encrypted. None: not at all.
    pub tls: Option<TlsSettings>,
    /// What is said to a server before anything is asked of it. It never stands in a result.
    #[serde(skip)]
    pub login: Option<LoginSettings>,
    /// Clients in all; each has one connection, or one to every server ([`ServerChoice::Every`]).
    pub connections: u32,
    /// Threads, each with an event loop and its share of the connections.
    pub threads: u32,
    /// How many requests a connection may have under way at once.
    pub pipeline: u32,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Which requests are sent.
    pub workload: Workload,
    /// How clients treat their connections.
    pub habits: Habits,
    /// Classes of clients with names. Where there are any, they alone are sent, and the pipeline
    /// depth, arrivals, workload and habits of their own count instead of those above;
    /// `connections` is the sum of theirs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClientClass>,
    /// Which share of all this is sent here, where several generators send it together. None: all
    /// of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<LoadShare>,
    /// When the run is over.
    pub extent: Extent,
    /// What happens in this many seconds at the start is counted but not measured.
    pub warm_up: Seconds,
    /// What happens in this many seconds before the end is counted but not measured.
    pub cool_down: Seconds,
    /// Decides every key, size, think time and arrival.
    pub seed: u64,
    /// Values that come are compared with what must have been stored.
    pub verify: bool,
    /// For how long connections are tried before the run begins, in seconds.
    pub connect_timeout: Seconds,
    /// After this many seconds without an answer a connection is given up. 0: never.
    pub request_timeout: Seconds,
    /// How long last answers are waited for when the run is over, in seconds.
    pub drain: Seconds,
    /// Where no connection has stood for this many seconds, the run ends; where requests are
    /// counted, a client gives up its share when its connection does not stand for so long.
    pub give_up: Seconds,
}

/// Clients of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientClass {
    /// Its name in results: letters, digits, `-` and `_`.
    pub name: String,
    /// Its clients.
    pub connections: u32,
    /// How many requests each connection may have under way at once.
    pub pipeline: u32,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Which requests are sent.
    pub workload: Workload,
    /// How its clients treat their connections.
    pub habits: Habits,
}

impl Default for ClientClass {
    fn default() -> Self {
        let Load { connections, pipeline, arrivals, workload, habits, .. } = Load::default();
        Self { name: String::new(), connections, pipeline, arrivals, workload, habits }
    }
}

impl ClientClass {
    /// Whether its clients can draw their keys as they are to.
    fn check_sequence(&self) -> Result<(), Mistake> {
        if self.workload.sequence == Sequence::Own || self.arrivals.is_closed() {
            return Ok(());
        }
        let what = "`key_sequence` is `same` beside a `rate` or `replay`, whose keys are not drawn by \
                    clients: whichever connection is free sends the next request";
        Err(Mistake::new(what, "leave out `key_sequence`, or send a closed load"))
    }
}

/// One generator's share of a load that several generators send together.
///
/// Of generators with `threads` threads each, all shares together send what one generator with
/// `of` times as many threads sends, request by request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadShare {
    /// Which one, from 1.
    pub number: u32,
    /// How many there are.
    pub of: u32,
    /// When all of them begin, in nanoseconds since 1970 (UTC); tells runs apart. None: as soon as
    /// they are connected.
    pub start_at: Option<u64>,
}

/// Which server a client asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerChoice {
    /// Always the same one: clients are shared out over the servers in turn.
    #[default]
    One,
    /// Every server in turn, over a connection to each.
    Every,
}

/// How clients treat their connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Habits {
    /// After so many requests a connection is closed and made anew, which is part of the response
    /// time of the request that waits for it. 0: never.
    pub reconnect_after: u64,
    /// How many bytes each connection reads per second at most, with little room in the kernel: a
    /// client that is slow to take its answers. 0: no limit.
    pub read_rate: u64,
}

/// Encrypted connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// The file of the authorities that servers' certificates must be of.
    pub authorities: PathBuf,
    /// The file of our own certificate and that of its key, for servers that want one.
    #[serde(default)]
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The name that servers' certificates must be made out to. None: the host they are reached by.
    #[serde(default)]
    pub name: Option<String>,
}

/// A user and a password, said as memcached's text protocol has it.
#[derive(Clone, PartialEq, Eq)]
pub struct LoginSettings {
    user: String,
    password: String,
}

impl LoginSettings {
    /// Reads `user:password`.
    ///
    /// # Errors
    /// In words that do not repeat it.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        match text.trim_end().split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                if text.trim_end().contains(char::is_whitespace) {
                    return Err("a user or a password with a blank cannot be said".into());
                }
                Ok(Self { user: user.to_owned(), password: password.to_owned() })
            }
            _ => Err("who signs in is written user:password, in one line".into()),
        }
    }

    /// The password.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The bytes that are said to memcached. One that asks for no login takes them for a value,
    /// which has expired already: nothing keeps the password.
    pub fn said(&self) -> Vec<u8> {
        let (user, password) = (&self.user, &self.password);
        format!("set krarup 0 -1 {}\r\n{user} {password}\r\n", user.len() + 1 + password.len()).into_bytes()
    }
}

impl fmt::Debug for LoginSettings {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// After this time.
    Seconds(Seconds),
    /// When all clients together have sent this many requests; those that follow from an answer are
    /// not counted in.
    Requests(u64),
    /// At the end of the trace.
    Trace,
}

/// Connections of a run or a class.
pub(crate) const CONNECTIONS: Whole = Count::between(1, 100_000);
/// Threads.
pub(crate) const THREADS: Whole = Count::between(1, 1_024);
/// About how many bytes of values are under way in one pass over all keys, as far as 32 to 128
/// requests have as many: the path to a server may have long delays.
const ONE_PASS_BYTES: u64 = 512 << 10;
/// Requests under way on one connection.
pub(crate) const PIPELINE: Whole = Count::between(1, 10_000);
/// Requests of a run that counts them.
pub(crate) const REQUESTS: Whole = Count::from(1);
/// Lengths of time: a year at most.
pub(crate) const LENGTH: Duration = Duration::up_to(Nanos::from_secs(366 * 86_400));

impl Load {
    /// Makes everything so many times slower, but for the length of the run and of each leg of a
    /// rate; `times` is at least 1.
    pub(crate) fn slow_down(&mut self, times: f64) {
        let slow = |arrivals: &mut Arrivals, workload: &mut Workload, habits: &mut Habits| {
            arrivals.slow_down(times);
            workload.slow_down(times);
            habits.read_rate = (habits.read_rate as f64 / times).ceil() as u64;
        };
        slow(&mut self.arrivals, &mut self.workload, &mut self.habits);
        let classes = self.classes.iter_mut();
        classes.for_each(|class| slow(&mut class.arrivals, &mut class.workload, &mut class.habits));
        let Self { connect_timeout, request_timeout, drain, give_up, .. } = self;
        for time in [connect_timeout, request_timeout, drain, give_up] {
            *time *= times;
        }
    }

    /// Whether it makes sense.
    ///
    /// # Errors
    /// The first thing that does not.
    pub fn check(&self) -> Result<(), Mistake> {
        if self.targets.is_empty() {
            return Err("there is no server to send requests to".into());
        }
        if self.spread == ServerChoice::One && self.targets.len() > self.connections as usize {
            return Err(Mistake::new(
                format!(
                    "{} servers need at least as many connections, not {}",
                    self.targets.len(),
                    self.connections
                ),
                "",
            ));
        }
        if self.tls.as_ref().is_some_and(|tls| tls.name.is_none())
            && let Some(target) = self.targets.iter().find(|target| target.file().is_some())
        {
            let what = format!("{target} has no name that its certificate could be made out to");
            return Err(Mistake::new(what, "give tls_name (--tls-name NAME)"));
        }
        if let Some(target) = self.targets.iter().find(|target| target.service().is_some()) {
            let what = format!("{target} is a service, whose hosts are not looked up here");
            return Err(Mistake::new(what, "write each server as host:port, with commas between"));
        }
        CONNECTIONS.check("connections", &self.connections)?;
        THREADS.check("threads", &self.threads)?;
        self.check_threads()?;
        for (key, value) in [
            ("warm_up", self.warm_up),
            ("cool_down", self.cool_down),
            ("connect_timeout", self.connect_timeout),
            ("timeout", self.request_timeout),
            ("drain", self.drain),
            ("give_up", self.give_up),
        ] {
            LENGTH.check(key, &value)?;
        }
        self.check_extent()?;
        self.check_classes()
    }

    /// Every thread has a client, of all generators.
    fn check_threads(&self) -> Result<(), Mistake> {
        let (threads, connections) = (self.threads, self.connections);
        let (number, of) = self.share.map_or((1, 1), |share| (share.number, share.of));
        if !(1..=of).contains(&number) {
            return Err(Mistake::new(format!("there is no share {number} of {of}"), "they count from 1"));
        }
        if u64::from(threads) * u64::from(of) <= u64::from(connections) {
            return Ok(());
        }
        let of = if of > 1 { format!(" of each of {of} generators") } else { String::new() };
        let what = format!("{threads} threads{of} need at least as many connections, not {connections}");
        Err(Mistake::plain(what))
    }

    fn check_extent(&self) -> Result<(), Mistake> {
        match self.extent {
            Extent::Seconds(seconds) => {
                LENGTH.check("seconds", &seconds)?;
                if self.warm_up + self.cool_down < seconds {
                    return Ok(());
                }
                let (warm_up, cool_down) = (self.warm_up, self.cool_down);
                let what = format!(
                    "a run of {seconds} s has nothing left to measure after {warm_up} s of warm-up and {cool_down} s of cool-down"
                );
                Err(Mistake::plain(what))
            }
            Extent::Trace
                if self.parts().iter().any(|class| !matches!(class.arrivals, Arrivals::Replay(_))) =>
            {
                Err(Mistake::new("only a trace has an end of its own", "say how long the run is"))
            }
            Extent::Requests(_) | Extent::Trace if self.cool_down > 0.0 => Err(
                "a run of so many requests has an end that is not known beforehand, so no cool-down can be cut off"
                    .into(),
            ),
            Extent::Requests(requests) => REQUESTS.check("requests", &requests),
            Extent::Trace => Ok(()),
        }
    }

    fn check_classes(&self) -> Result<(), Mistake> {
        let sum = self.classes.iter().map(|class| u64::from(class.connections)).sum::<u64>();
        if !self.classes.is_empty() && sum != u64::from(self.connections) {
            let what = format!("the classes have {sum} connections together, not {}", self.connections);
            return Err(Mistake::plain(what));
        }
        for (place, class) in self.parts().iter().enumerate() {
            let checked = CONNECTIONS
                .check("connections", &class.connections)
                .and_then(|()| PIPELINE.check("pipeline", &class.pipeline))
                .and_then(|()| class.arrivals.check())
                .and_then(|()| class.workload.check())
                .and_then(|()| class.check_sequence());
            if self.classes.is_empty() {
                return checked;
            }
            checked.map_err(|mistake| mistake.within(&format!("class {}", class.name)))?;
            name_is_good(&class.name)?;
            if self.classes[..place].iter().any(|other| other.name == class.name) {
                return Err(Mistake::plain(format!("two classes have the name {}", class.name)));
            }
        }
        Ok(())
    }

    /// The classes of clients: those with names, or the one without.
    pub fn parts(&self) -> Vec<ClientClass> {
        if !self.classes.is_empty() {
            return self.classes.clone();
        }
        vec![ClientClass {
            name: String::new(),
            connections: self.connections,
            pipeline: self.pipeline,
            arrivals: self.arrivals.clone(),
            workload: self.workload.clone(),
            habits: self.habits,
        }]
    }

    /// Whether any requests come at their own pace.
    pub fn is_open(&self) -> bool {
        self.parts().iter().any(|class| !class.arrivals.is_closed())
    }

    /// Whether any requests are those of a recorded trace.
    pub fn replays(&self) -> bool {
        self.parts().iter().any(|class| matches!(class.arrivals, Arrivals::Replay(_)))
    }

    /// Whether keys that are stored may be gone after a while; of a trace it is not known.
    pub fn loses_keys(&self) -> bool {
        self.replays() || self.parts().iter().any(|class| class.workload.loses_keys())
    }

    /// Whether keys that are stored expire, as far as that was said.
    pub fn expires(&self) -> bool {
        self.parts().iter().any(|class| class.workload.expires())
    }

    /// The fewest bytes of a value that any of its clients stores; a trace says its own sizes.
    pub(crate) fn least_value(&self) -> u64 {
        let least = |class: &ClientClass| match class.arrivals {
            Arrivals::Replay(_) => 0,
            _ => class.workload.value_size.least(),
        };
        self.parts().iter().map(least).min().unwrap_or(0)
    }

    /// What no think time of any of its clients exceeds.
    pub(crate) fn longest_think(&self) -> Seconds {
        let longest = |class: &ClientClass| match class.arrivals {
            Arrivals::Closed(think) => think.longest(),
            Arrivals::Open(_) | Arrivals::Replay(_) => 0.0,
        };
        self.parts().iter().map(longest).fold(0.0, f64::max)
    }

    /// How many requests may be under way at once: the clients of a closed load.
    pub fn clients(&self) -> u32 {
        self.parts().iter().map(|class| class.connections * class.pipeline).sum()
    }

    /// The run that stores every key of the workload at one target, in order and exactly once.
    ///
    /// One connection, so that they arrive in order; pipelined, so that it does not take long.
    pub fn populating(&self, target: &Address, workload: &Workload, family: KeyFamily) -> Self {
        let workload = Workload {
            mix: Mix::Ratio { sets: 1, gets: 0 },
            set_law: crate::keys::KeyLaw::Sequential,
            on_miss: OnMiss::Count,
            populated: Some(family),
            ..workload.clone()
        };
        self.one_pass(target, workload)
    }

    /// The run that fetches every key of the workload from one target and verifies it.
    pub fn checking(&self, target: &Address, workload: &Workload) -> Self {
        let workload = Workload {
            mix: Mix::Ratio { sets: 0, gets: 1 },
            get_law: crate::keys::KeyLaw::Sequential,
            multi_get: 1,
            on_miss: OnMiss::Count,
            // Classes may share keys: the values may be those of any.
            value_size: SizeLaw::Uniform { from: self.least_value(), to: workload.value_size.most() },
            ..workload.clone()
        };
        Self { verify: true, ..self.one_pass(target, workload) }
    }

    fn one_pass(&self, target: &Address, workload: Workload) -> Self {
        let under_way = ONE_PASS_BYTES / workload.value_size.most().max(1);
        Self {
            targets: vec![target.clone()],
            spread: ServerChoice::One,
            classes: Vec::new(),
            share: None,
            habits: Habits::default(),
            connections: 1,
            threads: 1,
            pipeline: under_way.clamp(32, 128) as u32,
            arrivals: Arrivals::default(),
            extent: Extent::Requests(workload.keys.count),
            warm_up: 0.0,
            cool_down: 0.0,
            verify: false,
            workload,
            ..self.clone()
        }
    }
}

fn name_is_good(name: &str) -> Result<(), Mistake> {
    let good = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if !name.is_empty() && name.len() <= 40 && name.chars().all(good) {
        Ok(())
    } else {
        let what = format!("`{name}` is no name for a class");
        Err(Mistake::new(what, "take up to 40 letters, digits, - and _"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |change: fn(&mut Load)| {
            let mut load = Load::default();
            change(&mut load);
            load.check().unwrap_err().to_string()
        };
        assert_eq!(Load::default().check(), Ok(()));
        assert!(check(|load| load.targets.clear()).contains("server"));
        assert!(check(|load| load.connections = 0).contains("1 servers need"));
        assert!(check(|load| load.threads = 51).contains("51 threads"));
        let service = |load: &mut Load| load.targets[0] = "srv:_memcache._tcp.a.example".parse().unwrap();
        assert!(check(service).contains("srv:_memcache._tcp.a.example is a service"));
        let share = |number, of| Some(LoadShare { number, of, start_at: None });
        let of = share(1, 50);
        assert_eq!(Load { share: of, ..Load::default() }.check(), Ok(()));
        for wrong in [share(0, 2), share(3, 2), share(1, 51)] {
            assert!(Load { share: wrong, ..Load::default() }.check().is_err(), "{wrong:?}");
        }
        assert!(check(|load| load.pipeline = 0).contains("pipeline"));
        assert!(check(|load| load.warm_up = 10.0).contains("nothing left"));
        assert!(check(|load| load.drain = f64::NAN).contains("NaN"));
        assert!(check(|load| load.extent = Extent::Requests(0)).contains("`requests` is 0"));
        assert!(check(|load| load.extent = Extent::Seconds(-1.0)).contains("-1"));
        assert!(
            check(|load| (load.extent, load.cool_down) = (Extent::Requests(5), 1.0)).contains("cool-down")
        );
    }

    #[test]
    fn classes_are_checked_by_name() {
        let class =
            |name: &str| ClientClass { name: name.to_owned(), connections: 25, ..ClientClass::default() };
        let check = |classes: Vec<ClientClass>| Load { classes, ..Load::default() }.check();
        assert_eq!(check(vec![class("a"), class("b")]), Ok(()));
        assert!(check(vec![class("a")]).unwrap_err().to_string().contains("25 connections"));
        assert!(check(vec![class("a"), class("a")]).unwrap_err().to_string().contains("two classes"));
        assert!(check(vec![class("a"), class("b c")]).unwrap_err().to_string().contains("`b c`"));
        let wrong = ClientClass { pipeline: 0, ..class("b") };
        assert!(check(vec![class("a"), wrong]).unwrap_err().what.starts_with("class b: `pipeline`"));
    }

    #[test]
    fn keys_are_lost_by_commands_that_remove_them_by_expiry_and_perhaps_by_a_trace() {
        let loses = |workload: Workload| {
            let class = ClientClass { workload, ..ClientClass::default() };
            Load { classes: vec![ClientClass::default(), class], ..Load::default() }.loses_keys()
        };
        let of_mix = |weights: &[(Command, f64)]| Workload {
            mix: Mix::Weights(weights.to_vec()),
            ..Workload::default()
        };
        let of_expiry = |expiry| Workload { expiry, ..Workload::default() };
        assert!(!loses(Workload::default()));
        assert!(!loses(of_mix(&[(Command::Get, 9.0), (Command::Delete, 0.0), (Command::Touch, 1.0)])));
        for command in [Command::Delete, Command::MetaDelete, Command::FlushAll] {
            assert!(loses(of_mix(&[(Command::Get, 9.0), (command, 1.0)])), "{command:?}");
        }
        assert!(!loses(of_expiry(Some((0, 0)))));
        assert!(loses(of_expiry(Some((0, 60)))) && loses(of_expiry(Some((-1, -1)))));
        let trace =
            serde_json::from_str(r#"{"replay": {"trace": "trace.csv", "speed": "fastest"}}"#).unwrap();
        assert!(Load { arrivals: trace, ..Load::default() }.loses_keys());
    }

    #[test]
    fn one_pass_has_more_requests_under_way_where_values_are_small() {
        let pipeline = |size| {
            let workload = Workload { value_size: SizeLaw::Fixed(size), ..Workload::default() };
            let load = Load { workload, ..Load::default() };
            load.populating(&load.targets[0], &load.workload, KeyFamily::Plain).pipeline
        };
        assert_eq!([0, 32, 8 << 10, 1_000_000].map(pipeline), [128, 128, 64, 32]);
    }

    #[test]
    fn a_value_may_be_as_small_as_that_of_any_class() {
        let class = |value_size| ClientClass {
            workload: Workload { value_size, ..Workload::default() },
            ..ClientClass::default()
        };
        let large = class(SizeLaw::Fixed(100));
        let two = vec![large.clone(), class(SizeLaw::Uniform { from: 0, to: 9 })];
        let load = Load { classes: two, ..Load::default() };
        let check = load.checking(&load.targets[0], &large.workload);
        assert_eq!((load.least_value(), check.least_value()), (0, 0));
        assert_eq!(check.workload.value_size.most(), 100);
        assert_eq!(Load { classes: vec![large], ..Load::default() }.least_value(), 100);
    }

    #[test]
    fn a_password_is_said_and_not_shown() {
        let login = LoginSettings::parse("anna:secret\n").unwrap();
        assert_eq!(login.said(), b"set krarup 0 -1 11\r\nanna secret\r\n");
        assert!(!format!("{login:?}").contains("secret"));
        for wrong in ["", "anna", ":x", "anna:", "anna:a b"] {
            assert!(LoginSettings::parse(wrong).is_err(), "{wrong}");
        }
        let load = Load { login: Some(login), ..Load::default() };
        assert!(!serde_json::to_string(&load).unwrap().contains("secret"));
    }

    #[test]
    fn a_load_is_written_and_read_back() {
        let load = Load { extent: Extent::Requests(7), ..Load::default() };
        let text = serde_json::to_string(&load).unwrap();
        assert_eq!(serde_json::from_str::<Load>(&text).unwrap(), load);
        assert_eq!(serde_json::from_str::<Load>("{}").unwrap(), Load::default());
        assert!(
            serde_json::from_str::<Load>(r#"{"conections": 3}"#)
                .unwrap_err()
                .to_string()
                .contains("conections")
        );
    }
}
