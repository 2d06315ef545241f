//! What people write: one table of keys, which are flags on the command line and keys of a TOML
//! file, with texts as values.
//!
//! A file holds the keys of the run and, at its top level, those of all classes of clients;
//! `[classes.NAME]` says what is different in one class. Flags go over the file's top level. Every
//! mistake is named with its file and line, or its flag.

use std::collections::BTreeMap;
use std::path::PathBuf;

use krarup_settings::kind::{
    Count, FILE, Grammar, Number, Optional, OrWords, Size, Switch, TEXT, Verbatim, Word, joined,
};
use krarup_settings::table::FileItem;
use krarup_settings::{Flag, Mistake, Mistakes, Setting, SettingsTable, document, said, settings, template};
use krarup_units::mistake::place;
use krarup_units::{Address, PerSecond, Seconds};
use toml::Spanned;
use toml::de::DeString;

use crate::config::{
    CONNECTIONS, ClientClass, Extent, Habits, LENGTH, Load, LoginSettings, PIPELINE, REQUESTS, ServerChoice,
    THREADS, TlsSettings,
};
use crate::keys::{KeyLaw, KeyRange, KeySize};
use crate::schedule::{ArrivalProcess, Arrivals, Leg, Open, Think};
use crate::sizes::SizeLaw;
use crate::text;
use crate::trace::{Replay, Speed};
use crate::workload::{KEYS, MULTI_GET, Mix, NAMES, OnMiss, Sequence, TUBES, Workload};

const SERVERS: Grammar<Vec<Address>> = Grammar(text::servers);
const THINK: Grammar<Think> = Grammar(text::think);
const PROCESS: Grammar<ArrivalProcess> = Grammar(text::process);
/// How the text of each begins.
const PROCESSES: &[&str] = &["paced", "poisson", "bursty:"];
const SPEED: Grammar<Speed> = Grammar(text::speed);
const RATIO: Grammar<Mix> = Grammar(text::ratio);
const VALUE_SIZE: Grammar<SizeLaw> = Grammar(text::size_law);
const KEY_SIZE: Grammar<KeySize> = Grammar(text::key_size);
const KEY_LAW: OrWords<Grammar<KeyLaw>> = OrWords(Grammar(text::key_law), &text::KEY_LAWS);
const MIX: OrWords<Grammar<Mix>> = OrWords(Grammar(text::mix), MIXES);
/// How the text of each begins; others follow after a comma.
const MIXES: &[&str] = &[
    "get=", "mget=", "gat=", "set=", "add=", "replace=", "cas=", "delete=", "incr=", "touch=", "mg=", "ms=",
    "put=", "reserve=", "pop=", "send=",
];
const EXPIRY: Grammar<(i32, i32)> = Grammar(text::expiry);

settings! {
    /// Every setting of a run, in the order of the reference. Those that are `of_class` may stand
    /// in `[classes.NAME]` too.
    #[derive(Clone, Debug)]
    pub struct Options {
        /// The servers, with commas between: host:port, or unix:/path for a unix socket.
        servers: Verbatim<Vec<Address>> = SERVERS.value("127.0.0.1:11211"), SERVERS,
            flag = Some(Flag::of_key("HOST:PORT").short('s').alias("server").many());
        /// Which servers a client asks: always `one` (clients are shared out in turn), or `every`
        /// one in turn, over a connection to each.
        spread: ServerChoice = ServerChoice::One, Word(&[(ServerChoice::One, "one"), (ServerChoice::Every, "every")]),
            flag = Some(Flag::of_key("HOW"));
        /// Encrypt connections: servers show a certificate of an authority in this file.
        tls_authorities: Option<PathBuf> = None, Optional(FILE), example = "\"authorities.pem\"",
            flag = Some(Flag::of_key("FILE"));
        /// The generator's own certificate, for servers that want to see one.
        tls_certificate: Option<PathBuf> = None, Optional(FILE), example = "\"client.pem\"",
            flag = Some(Flag::of_key("FILE"));
        /// The key of that certificate.
        tls_key: Option<PathBuf> = None, Optional(FILE), example = "\"client.key\"",
            flag = Some(Flag::of_key("FILE"));
        /// The name that servers' certificates are made out to, where it is not the host's.
        tls_name: Option<String> = None, Optional(TEXT), example = "\"memcached.example\"",
            flag = Some(Flag::of_key("NAME"));
        /// Sign in at servers as the `user:password` in this file.
        login: Option<PathBuf> = None, Optional(FILE), example = "\"login\"",
            flag = Some(Flag::of_key("FILE"));
        /// Threads that drive the connections.
        threads: u32 = 1, THREADS, flag = Some(Flag::of_key("N").short('t'));
        /// Clients in all; each has one connection.
        connections: u32 = 50, CONNECTIONS, of_class = true, flag = Some(Flag::of_key("N").short('c'));
        /// Of a class: its share of the connections and of the rate, as a weight beside those of
        /// other classes.
        share: f64 = 1.0, Number::POSITIVE, of_class = true;
        /// Requests a connection may have under way at once.
        pipeline: u32 = 1, PIPELINE, of_class = true, flag = Some(Flag::of_key("N"));
        /// How long a client thinks between an answer and its next request: 10ms, or exp:10ms for
        /// exponential times.
        think: Verbatim<Think> = THINK.value("0"), THINK, of_class = true,
            excludes = &["rate", "replay", "arrivals"], flag = Some(Flag::of_key("TIME"));
        /// Open load: requests per second; steps and ramps as 1000x10s,1000-5000x30s.
        rate: Option<Verbatim<Vec<Leg>>> = None, Optional(Grammar(text::rate)), of_class = true,
            example = "1000", excludes = &["think", "replay"], flag = Some(Flag::of_key("RATE"));
        /// How an open load's requests are spread: paced, poisson, or bursty:FACTOR:SHARE:LENGTH.
        arrivals: Verbatim<ArrivalProcess> = PROCESS.value("poisson"), OrWords(PROCESS, PROCESSES), of_class = true,
            flag = Some(Flag::of_key("PROCESS"));
        /// Send a recorded trace again: rows.parquet, or a folder of such files, CSV with
        /// time,op,key,size, or a cache trace of Twitter's.
        replay: Option<PathBuf> = None, Optional(FILE), of_class = true, example = "\"rows.parquet\"",
            excludes = &["think", "rate", "arrivals"], flag = Some(Flag::of_key("FILE"));
        /// How many times as fast as it was recorded; `max`: each client goes on as soon as it has
        /// its answer.
        replay_speed: Verbatim<Speed> = SPEED.value("1"), SPEED, of_class = true,
            flag = Some(Flag::of_key("SPEED"));
        /// SETs to GETs: each client in a cycle, first the SETs, then the GETs.
        ratio: Verbatim<Mix> = RATIO.value("1:10"), RATIO, of_class = true, excludes = &["mix"],
            flag = Some(Flag::of_key("SETS:GETS"));
        /// Commands by weight, as get=9,set=1; also mget gets gat gats add replace append prepend
        /// cas delete incr decr touch mg ms md ma me mn flush_all stats version verbosity; to a
        /// message queue put reserve release bury kick peek list; to krarup's broker alone pop
        /// send send-to pop-tube pop-sender peek-tube peek-sender list-tubes-for-me login.
        mix: Option<Verbatim<Mix>> = None, Optional(MIX), of_class = true,
            example = "\"get=9,set=1\"", excludes = &["ratio"], flag = Some(Flag::of_key("WEIGHTS"));
        /// Keys in one multi-get; 1 makes single gets.
        multi_get: u32 = 1, MULTI_GET, of_class = true, flag = Some(Flag::of_key("KEYS"));
        /// Size of values: 32, 4KiB, a range 100-200, a list with weights 32:9,4096:1, exp:MEAN (up
        /// to 200000), or etc (Facebook's).
        data_size: Verbatim<SizeLaw> = VALUE_SIZE.value("32"), VALUE_SIZE, of_class = true,
            flag = Some(Flag::of_key("SIZE").short('d'));
        /// How many keys there are.
        keys: u64 = 10_000, KEYS, of_class = true, flag = Some(Flag::of_key("N"));
        /// The number of the first key.
        key_minimum: u64 = 0, Count::from(0), of_class = true, flag = Some(Flag::of_key("N"));
        /// What keys begin with.
        key_prefix: String = "key-".to_owned(), TEXT, of_class = true, flag = Some(Flag::of_key("TEXT"));
        /// Keys have at least this many bytes, filled up with zeros: 16, a range 16-40, a list with
        /// weights 16:9,40:1, or etc (Facebook's).
        key_size: Verbatim<KeySize> = KEY_SIZE.value("0"), KEY_SIZE, of_class = true,
            flag = Some(Flag::of_key("BYTES"));
        /// How keys are drawn: uniform, sequential, parted, zipf:EXPONENT, gaussian:MEAN:DEVIATION,
        /// hot:KEYS:DRAWS.
        key_law: Verbatim<KeyLaw> = KEY_LAW.0.value("uniform"), KEY_LAW, of_class = true,
            flag = Some(Flag::of_key("LAW"));
        /// How commands that write draw their keys, where that is different.
        write_key_law: Option<Verbatim<KeyLaw>> = None, Optional(KEY_LAW), of_class = true,
            example = "\"sequential\"", flag = Some(Flag::of_key("LAW"));
        /// Whether each client draws keys of its `own`, or all draw the `same` in the same order.
        key_sequence: Sequence = Sequence::Own, Word(&[(Sequence::Own, "own"), (Sequence::Same, "same")]),
            of_class = true, flag = Some(Flag::of_key("WHOSE"));
        /// Expiry time of what is stored, in seconds: 60, or a range 60-120; 0 never expires. Not
        /// said: a trace's own, else 0.
        expiry: Option<Verbatim<(i32, i32)>> = None, Optional(EXPIRY), of_class = true,
            example = "60", flag = Some(Flag::of_key("SECONDS"));
        /// When a get misses: only `count` it, or `set` the key at once.
        on_miss: OnMiss = OnMiss::Count, Word(&[(OnMiss::Count, "count"), (OnMiss::Set, "set")]),
            of_class = true, flag = Some(Flag::of_key("WHAT"));
        /// How many queues of a message broker are used: each client its own of them, `send` and
        /// the like one drawn anew.
        tubes: u32 = 1, TUBES, of_class = true, flag = Some(Flag::of_key("N"));
        /// Under how many names the clients log in at krarup's broker for `send` and the like; 0:
        /// each under its own.
        names: u32 = 0, NAMES, of_class = true, flag = Some(Flag::of_key("N"));
        /// Close each connection after so many requests and make it anew; 0: never.
        reconnect_after: u64 = 0, Count::from(0), of_class = true, flag = Some(Flag::of_key("N"));
        /// Slow readers: each connection reads at most so many bytes per second; 0: no limit.
        read_rate: u64 = 0, Size::from(0), of_class = true, flag = Some(Flag::of_key("BYTES"));
        /// How long the run is, warm-up and cool-down included.
        seconds: Seconds = 10.0, LENGTH, excludes = &["requests"], flag = Some(Flag::of_key("TIME"));
        /// End after this many requests in all, instead of after a time.
        requests: Option<u64> = None, Optional(REQUESTS), example = "100000", excludes = &["seconds"],
            flag = Some(Flag::of_key("N").short('n'));
        /// What happens in this time at the start is not measured.
        warm_up: Seconds = 0.0, LENGTH, flag = Some(Flag::of_key("TIME"));
        /// What happens in this time before the end is not measured.
        cool_down: Seconds = 0.0, LENGTH, flag = Some(Flag::of_key("TIME"));
        /// Compare every value that comes with what must have been stored; a wrong one makes the
        /// exit code 1.
        verify: bool = false, Switch, flag = Some(Flag::of_key(""));
        /// Decides every key, size, think time and arrival.
        seed: u64 = 1, Count::from(0), flag = Some(Flag::of_key("N"));
        /// How long connections are tried at the start.
        connect_timeout: Seconds = 1.0, LENGTH, flag = Some(Flag::of_key("TIME"));
        /// After this time without an answer a connection is given up; 0: never.
        timeout: Seconds = 10.0, LENGTH, flag = Some(Flag::of_key("TIME"));
        /// How long last answers are waited for at the end.
        drain: Seconds = 2.0, LENGTH, flag = Some(Flag::of_key("TIME"));
        /// End when no connection has stood for this time.
        give_up: Seconds = 10.0, LENGTH, flag = Some(Flag::of_key("TIME"));
        /// Everything is so many times slower, for systems that are: rates and speeds are divided
        /// by it, think times, lengths of bursts, what is waited for and expiry times are
        /// multiplied by it. How long the run is, and each leg of a rate, stays.
        slower: f64 = 1.0, Number::between(1.0, 1_000.0), flag = Some(Flag::of_key("TIMES"));
    }
}

type Row = Setting<Options>;

/// The row of this key, or why there is none.
fn known(key: &str) -> Result<&'static Row, Mistake> {
    let unknown = || Mistake::unknown(format!("there is no key `{key}`"), key, Options::keys());
    Options::ROWS.iter().find(|row| row.key == key).ok_or_else(unknown)
}

/// A text and where it stands.
#[derive(Clone, Debug, PartialEq)]
struct Said {
    text: String,
    /// File and line, or the flag.
    place: String,
}

impl Said {
    fn wrong(&self, why: String) -> Mistake {
        Mistake::plain(why).of(&self.place)
    }
}

/// What is said at the top level of a file, in one class, or by flags: texts by key, each of which
/// its row has read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Layer(BTreeMap<&'static str, Said>);

impl Layer {
    fn says(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Adds a value.
    ///
    /// # Errors
    /// Its row cannot read it.
    fn add(&mut self, row: &'static Row, text: String, place: String) -> Result<(), Mistakes> {
        said(&mut Options::default(), row, std::slice::from_ref(&text))?;
        self.0.insert(row.key, Said { text, place });
        Ok(())
    }

    /// This with `upper` over it: what that says, without what it excludes.
    fn under(&self, upper: &Self) -> Self {
        let mut both = self.clone();
        for (key, said) in &upper.0 {
            for row in Options::ROWS.iter().filter(|row| row.key == *key) {
                row.excludes.iter().for_each(|other| drop(both.0.remove(other)));
            }
            both.0.insert(key, said.clone());
        }
        both
    }

    /// The defaults with what is said over them.
    fn options(&self) -> Options {
        let mut options = Options::default();
        for row in Options::ROWS {
            if let Some(Said { text, .. }) = self.0.get(row.key) {
                said(&mut options, row, std::slice::from_ref(text)).expect("its row has read it");
            }
        }
        options
    }

    /// The rows of which `which` holds, commented; the value is a comment where it is the default.
    fn commented(&self, which: impl Fn(&Row) -> bool) -> String {
        template(&self.options(), which, |row| self.says(row.key))
    }

    /// Whether no two keys exclude each other.
    ///
    /// # Errors
    /// Names both.
    fn agrees_with_itself(&self) -> Result<(), Mistake> {
        for row in Options::ROWS {
            let other = row.excludes.iter().find_map(|other| self.0.get(other));
            if let (Some(said), Some(other)) = (self.0.get(row.key), other) {
                let same = said.place.split(", line").next() == other.place.split(", line").next();
                let also =
                    if same { other.place.rsplit(", ").next().unwrap_or(&other.place) } else { &other.place };
                return Err(said.wrong(format!("`{}` and what {also} says exclude each other", row.key)));
            }
        }
        Ok(())
    }
}

/// Everything that was said of one run: a file, its classes, and flags over its top level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadConfig {
    top: Layer,
    classes: Vec<(String, Layer)>,
}

impl LoadConfig {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Every key and value that is wrong, with the file's `name` and the line.
    pub fn parse(text: &str, name: &str) -> Result<Self, Mistakes> {
        let file = (name, text);
        let config = document(text, name, |table, mistakes| {
            let mut config = Self::default();
            let mut begun = Vec::new();
            for (key, item) in table {
                if key.get_ref() == "classes" {
                    match item.get_ref().as_table() {
                        Some(classes) => begun.extend(classes),
                        None => mistakes.push(no_table(item)),
                    }
                } else {
                    mistakes.extend(read_key(&mut config.top, key, item, false, file).err());
                }
            }
            // In the order of the file.
            begun.sort_by_key(|(class, _)| class.span().start);
            for (class, item) in begun {
                let mut layer = Layer::default();
                match item.get_ref().as_table() {
                    Some(own) => mistakes.extend(
                        own.iter()
                            .filter_map(|(key, item)| read_key(&mut layer, key, item, true, file).err()),
                    ),
                    None => mistakes.push(no_table(item)),
                }
                config.classes.push((class.get_ref().to_string(), layer));
            }
            config
        })?;
        let classes = config.classes.iter().map(|(_, layer)| layer);
        std::iter::once(&config.top).chain(classes).try_for_each(Layer::agrees_with_itself)?;
        Ok(config)
    }

    /// What flags say, over what a file says.
    ///
    /// # Errors
    /// A value that is wrong, two flags that exclude each other, or a name that is no key.
    pub fn with_flags<'a>(
        mut self,
        flags: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Result<Self, Mistakes> {
        let mut layer = Layer::default();
        for (key, text) in flags {
            let row = known(key)?;
            let place = format!("--{}", row.flag_name());
            layer.add(row, text, place.clone()).map_err(|mistakes| mistakes.of(&place))?;
        }
        layer.agrees_with_itself()?;
        self.top = self.top.under(&layer);
        Ok(self)
    }

    /// Whether a key was said at the top level.
    pub fn says(&self, key: &str) -> bool {
        self.top.says(key)
    }

    /// The load that was asked for, checked.
    ///
    /// # Errors
    /// The first thing that makes no sense, with its place.
    pub fn load(&self) -> Result<Load, Mistake> {
        let options = self.top.options();
        let ClientClass { connections, pipeline, arrivals, workload, habits, .. } =
            class(&self.top, &options, "")?;
        let classes = self.several(connections)?;
        let replays = |arrivals: &Arrivals| matches!(arrivals, Arrivals::Replay(_));
        let is_trace = if classes.is_empty() {
            replays(&arrivals)
        } else {
            classes.iter().all(|class| replays(&class.arrivals))
        };
        let extent = match options.requests {
            Some(requests) => Extent::Requests(requests),
            None if is_trace && !self.says("seconds") => Extent::Trace,
            None => Extent::Seconds(options.seconds),
        };
        let mut load = Load {
            tls: tls(&options)?,
            login: login(&options)?,
            targets: options.servers.value,
            spread: options.spread,
            connections: if classes.is_empty() {
                connections
            } else {
                classes.iter().map(|class| class.connections).sum()
            },
            threads: options.threads,
            pipeline,
            arrivals,
            workload,
            habits,
            classes,
            share: None,
            extent,
            warm_up: options.warm_up,
            cool_down: options.cool_down,
            seed: options.seed,
            verify: options.verify,
            connect_timeout: options.connect_timeout,
            request_timeout: options.timeout,
            drain: options.drain,
            give_up: options.give_up,
        };
        load.slow_down(options.slower);
        load.check()?;
        Ok(load)
    }

    /// The classes with names. Those that do not say how many connections they have share
    /// `connections`; those that take over the rate share it.
    fn several(&self, connections: u32) -> Result<Vec<ClientClass>, Mistake> {
        let mut made = Vec::new();
        for (name, own) in &self.classes {
            let layer = self.top.under(own);
            let options = layer.options();
            made.push((class(&layer, &options, name)?, own, options.share));
        }
        let takes_rate = |class: &ClientClass, own: &Layer| {
            matches!(class.arrivals, Arrivals::Open(_)) && !own.says("rate")
        };
        let takes_connections = |own: &Layer| !own.says("connections");
        let sum = |takes: &dyn Fn(&ClientClass, &Layer) -> bool| -> f64 {
            made.iter().filter(|(class, own, _)| takes(class, own)).map(|(.., share)| share).sum()
        };
        let (of_connections, of_rate) = (sum(&|_, own| takes_connections(own)), sum(&takes_rate));
        let (mut before, mut given) = (0.0, 0);
        let share_out = |(mut class, own, share): (ClientClass, &Layer, f64)| {
            let takes_rate = takes_rate(&class, own);
            if takes_connections(own) {
                // Cut at rounded sums: the parts add up to the whole.
                before += share;
                let until = (f64::from(connections) * before / of_connections).round() as u32;
                class.connections = until.saturating_sub(given);
                given = until;
            }
            if let Arrivals::Open(open) = &mut class.arrivals
                && takes_rate
            {
                let part = |rate: PerSecond| PerSecond(rate.0 * share / of_rate);
                open.legs.iter_mut().for_each(|leg| (leg.from, leg.to) = (part(leg.from), part(leg.to)));
            }
            class
        };
        Ok(made.into_iter().map(share_out).collect())
    }

    /// The flags that say the same as the top level, as a shell reads them.
    pub fn flags(&self) -> String {
        let said = Options::ROWS.iter().filter_map(|row| Some((row, row.flag?, self.top.0.get(row.key)?)));
        let flag = |(row, flag, said): (&Row, Flag, &Said)| match flag.value {
            "" => format!("--{}", row.flag_name()),
            _ => format!("--{} {}", row.flag_name(), for_a_shell(&said.text)),
        };
        said.map(flag).collect::<Vec<_>>().join(" ")
    }

    /// All keys with their meaning, as a file that says the same.
    pub fn commented(&self) -> String {
        let mut out = String::from(
            "# krarup load: what is sent, by how many clients, to which servers. Each key is a flag too: key_law is --key-law.\n\
             # A line that is commented out shows what holds without it, or an example.\n\n",
        );
        out += &self.top.commented(|row| row.flag.is_some());
        out += "# Classes of clients, side by side on the same servers: each has all keys from `connections` to `read_rate` as above,\n\
                # but for what it says itself. Without connections of their own, classes share those above by weight; the same holds for the rate.\n";
        if self.classes.is_empty() {
            out += "# [classes.readers]\n# share = 9\n# ratio = \"0:1\"\n# think = \"10ms\"\n#\n\
                    # [classes.writers]\n# share = 1\n# ratio = \"1:0\"\n# data_size = \"4KiB\"\n";
        }
        for (name, layer) in &self.classes {
            let said = layer.commented(|row| layer.says(row.key));
            let lines = said.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            out +=
                &format!("[classes.{name}]\n{}", lines.map(|line| format!("{line}\n")).collect::<String>());
        }
        out
    }
}

impl Default for Load {
    fn default() -> Self {
        LoadConfig::default().load().expect("the defaults make sense")
    }
}

/// A word as a shell reads it: in quotes where it would read more into it.
fn for_a_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn no_table(item: &FileItem<'_>) -> Mistake {
    Mistake::plain("classes are tables, like [classes.readers]").at(item.span().start)
}

/// Adds what a file says of a key to a layer, which is a class's or not.
fn read_key(
    layer: &mut Layer,
    key: &Spanned<DeString<'_>>,
    item: &FileItem<'_>,
    of_class: bool,
    (name, text): (&str, &str),
) -> Result<(), Mistake> {
    let at = key.span().start;
    let mut read = || {
        let row = known(key.get_ref())?;
        if of_class && !row.of_class {
            return Err(Mistake::plain(format!("`{}` is of the whole run, not of a class", row.key)));
        }
        let wrong = |mut mistakes: Mistakes| mistakes.0.remove(0);
        layer.add(row, joined(row.key, item)?, place(name, text, at)).map_err(wrong)
    };
    read().map_err(|mistake| mistake.at(at))
}

/// A file's name, unless it is empty.
fn file(path: &Option<PathBuf>) -> Option<PathBuf> {
    path.clone().filter(|path| !path.as_os_str().is_empty())
}

fn tls(options: &Options) -> Result<Option<TlsSettings>, Mistake> {
    let identity = match (file(&options.tls_certificate), file(&options.tls_key)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            let what = "a certificate needs its key, and a key its certificate";
            return Err(Mistake::new(what, "give tls_certificate and tls_key"));
        }
    };
    let name = options.tls_name.clone().filter(|name| !name.is_empty());
    match file(&options.tls_authorities) {
        Some(authorities) => Ok(Some(TlsSettings { authorities, identity, name })),
        None if identity.is_some() || name.is_some() => {
            let what =
                "connections are not encrypted without tls_authorities, the file of the authorities to trust";
            Err(Mistake::plain(what))
        }
        None => Ok(None),
    }
}

fn login(options: &Options) -> Result<Option<LoginSettings>, Mistake> {
    let Some(path) = file(&options.login) else { return Ok(None) };
    let place = path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Mistake::plain(error.to_string()))
        .and_then(|text| LoginSettings::parse(&text));
    text.map(Some).map_err(|mistake| mistake.of(&place))
}

/// The class that a layer describes, whose values are `options`.
fn class(layer: &Layer, options: &Options, name: &str) -> Result<ClientClass, Mistake> {
    let get_law = options.key_law.value;
    let mix = options.mix.as_ref().unwrap_or(&options.ratio);
    Ok(ClientClass {
        name: name.to_owned(),
        connections: options.connections,
        pipeline: options.pipeline,
        arrivals: arrivals(layer, options)?,
        workload: Workload {
            mix: mix.value.clone(),
            keys: KeyRange {
                prefix: options.key_prefix.clone(),
                minimum: options.key_minimum,
                count: options.keys,
                size: options.key_size.value.clone(),
            },
            get_law,
            set_law: options.write_key_law.as_ref().map_or(get_law, |law| law.value),
            sequence: options.key_sequence,
            multi_get: options.multi_get,
            value_size: options.data_size.value.clone(),
            expiry: options.expiry.as_ref().map(|expiry| expiry.value),
            on_miss: options.on_miss,
            tubes: options.tubes,
            names: options.names,
            ..Workload::default()
        },
        habits: Habits { reconnect_after: options.reconnect_after, read_rate: options.read_rate },
    })
}

fn arrivals(layer: &Layer, options: &Options) -> Result<Arrivals, Mistake> {
    if let Some(legs) = &options.rate {
        return Ok(Arrivals::Open(Open { process: options.arrivals.value, legs: legs.value.clone() }));
    }
    if let Some(said) = layer.0.get("arrivals") {
        return Err(
            said.wrong("arrivals says how requests of a rate are spread, and there is no rate".to_owned())
        );
    }
    if let Some(trace) = file(&options.replay) {
        return Ok(Arrivals::Replay(Replay { trace, speed: options.replay_speed.value }));
    }
    Ok(Arrivals::Closed(options.think.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Load, Mistakes> {
        Ok(LoadConfig::parse(text, "load.toml")?.load()?)
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(load(""), Ok(Load::default()));
        let commented = LoadConfig::default().commented();
        assert_eq!(load(&commented), Ok(Load::default()));
        for key in Options::keys() {
            assert!(commented.contains(&format!("# {key} = ")), "{key}");
        }
    }

    #[test]
    fn every_default_that_is_shown_may_be_written() {
        let default = |row: &Row| (row.write)(&Options::default()).filter(|_| row.key != "arrivals");
        let line = |row: &Row| default(row).map(|value| format!("{} = {value}\n", row.key));
        let text: String = Options::ROWS.iter().filter_map(line).collect();
        assert_eq!(load(&text), Ok(Load::default()), "{text}");
    }

    #[test]
    fn classes_share_connections_and_rate_by_weight_and_keep_what_they_say() {
        let text = "connections = 10\nrate = 1000\ndata_size = \"1KiB\"\n\
                    [classes.readers]\nshare = 3\nratio = \"0:1\"\n\
                    [classes.writers]\nratio = \"1:0\"\ndata_size = 5\n\
                    [classes.few]\nconnections = 2\nthink = \"1s\"\n";
        let load = load(text).unwrap();
        let seen: Vec<_> =
            load.classes.iter().map(|class| (class.name.as_str(), class.connections)).collect();
        assert_eq!(seen, [("readers", 8), ("writers", 2), ("few", 2)]);
        assert_eq!(load.connections, 12);
        let rate = |class: usize| match &load.classes[class].arrivals {
            Arrivals::Open(open) => open.legs[0].to.0,
            other => panic!("{other:?}"),
        };
        assert_eq!((rate(0), rate(1)), (750.0, 250.0));
        assert_eq!(load.classes[2].arrivals, Arrivals::Closed(Think::Fixed(1.0)));
        assert_eq!(load.classes[1].workload.value_size, SizeLaw::Fixed(5));
        assert_eq!(load.classes[2].workload.value_size, SizeLaw::Fixed(1_024));
    }

    #[test]
    fn flags_go_over_the_file_and_take_away_what_they_exclude() {
        let file = LoadConfig::parse("seconds = 5\nrate = 100\nkeys = 7\n", "load.toml").unwrap();
        let flags = [("requests", "9".to_owned()), ("think", "1ms".to_owned())];
        let load = file.clone().with_flags(flags).unwrap().load().unwrap();
        assert_eq!(load.extent, Extent::Requests(9));
        assert_eq!(load.arrivals, Arrivals::Closed(Think::Fixed(0.001)));
        assert_eq!(load.workload.keys.count, 7);
        let both = [("requests", "9".to_owned()), ("seconds", "1".to_owned())];
        assert!(file.with_flags(both).unwrap_err().to_string().contains("--requests"));
    }

    #[test]
    fn a_load_that_is_slower_is_so_in_all_but_its_length() {
        let text = "slower = 10\nseconds = 20\nread_rate = 4095\nthink = \"exp:2ms\"\nexpiry = \"60-120\"\n\
                    [classes.paced]\nrate = \"1000-2000x5s\"\narrivals = \"bursty:2:0.5:100ms\"\nexpiry = 0\n\
                    [classes.traced]\nreplay = \"trace.csv\"\nreplay_speed = 5\n";
        let load = load(text).unwrap();
        assert_eq!(load.extent, Extent::Seconds(20.0));
        assert_eq!(
            (load.connect_timeout, load.request_timeout, load.drain, load.give_up),
            (10.0, 100.0, 20.0, 100.0)
        );
        assert_eq!((load.arrivals, load.habits.read_rate), (Arrivals::Closed(Think::Exponential(0.02)), 410));
        assert_eq!(load.workload.expiry, Some((600, 1_200)));
        assert_eq!(load.classes[0].workload.expiry, Some((0, 0)));
        let leg = Leg { from: PerSecond(100.0), to: PerSecond(200.0), seconds: 5.0 };
        let process = ArrivalProcess::Bursty { factor: 2.0, share: 0.5, length: 1.0 };
        assert_eq!(load.classes[0].arrivals, Arrivals::Open(Open { process, legs: vec![leg] }));
        let speed = Speed::Times(0.5);
        assert_eq!(load.classes[1].arrivals, Arrivals::Replay(Replay { trace: "trace.csv".into(), speed }));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, words) in [
            (
                "\nconections = 5\n",
                "load.toml, line 2: there is no key `conections`; did you mean connections",
            ),
            ("keys = 5\nkey_law = \"zpif\"\n", "load.toml, line 2: `zpif`"),
            ("think = 1\nrate = 5\n", "exclude each other"),
            ("[classes.a]\nthreads = 2\n", "line 2: `threads` is of the whole run"),
            ("[classes.a]\nkeys = \"x\"\n", "load.toml, line 2: `keys` is `x`"),
            ("classes = 5\n", "line 1: classes are tables"),
            ("keys = { a = 1 }\n", "line 1: `keys` is a table"),
            ("keys = \n", "load.toml, line 1"),
            ("[classes.\"a b\"]\n", "`a b`"),
            ("arrivals = \"paced\"\n", "there is no rate"),
            ("tls_name = \"a\"\n", "tls_authorities"),
            ("tls_key = \"a\"\n", "tls_certificate"),
            ("login = \"no/such/file\"\n", "no/such/file"),
            ("[classes.a]\nshare = 0\n", "line 2: `share` is 0"),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn every_key_that_is_wrong_is_named() {
        let text = "conections = 5\n[classes.a]\nthink_ = 1\nthreads = 2\n";
        let mistakes = LoadConfig::parse(text, "load.toml").unwrap_err().0;
        let places: Vec<_> = mistakes.iter().map(|mistake| mistake.place.as_str()).collect();
        assert_eq!(places, ["load.toml, line 1", "load.toml, line 3", "load.toml, line 4"]);
        assert_eq!(mistakes[0].what, "there is no key `conections`");
        assert!(mistakes[1].hint.starts_with("did you mean think"), "{}", mistakes[1]);
    }

    #[test]
    fn every_value_that_is_wrong_is_named_with_its_line_and_its_bounds() {
        let text = "threads = 0\nkeys = 1_000\ntimeout = \"400d\"\n[classes.a]\npipeline = 10_001\nmix = [\"get=1\", \"got=2\"]\n";
        let mistakes = LoadConfig::parse(text, "load.toml").unwrap_err().to_string();
        let lines: Vec<_> = mistakes.lines().collect();
        assert_eq!(lines[0], "load.toml, line 1: `threads` is 0, and must be from 1 to 1024");
        assert_eq!(lines[1], "load.toml, line 3: `timeout` is 34560000 s, and must be at most 8784h");
        assert_eq!(lines[2], "load.toml, line 5: `pipeline` is 10001, and must be from 1 to 10000");
        assert!(lines[3].starts_with("load.toml, line 6: `got` is no command; there are "), "{mistakes}");
    }

    #[test]
    fn what_excludes_each_other_does_so_both_ways() {
        let excludes = |row: &Row, key| row.excludes.contains(&key);
        for row in Options::ROWS {
            for key in row.excludes {
                let other = known(key).unwrap();
                // What excludes a rate takes away its arrival process too, which excludes nothing.
                assert!(excludes(other, row.key) || other.key == "arrivals", "{} and {key}", row.key);
            }
        }
    }

    #[test]
    fn clients_of_an_open_load_have_no_sequence_of_keys_to_share() {
        for text in [
            "rate = 100\nkey_sequence = \"same\"\n",
            "key_sequence = \"same\"\n[classes.a]\n[classes.b]\nrate = 100\n",
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains("`key_sequence`") && error.contains("`rate`"), "{error}");
        }
        assert!(load("key_sequence = \"same\"\n").is_ok());
        assert!(load("rate = 100\nkey_sequence = \"own\"\n").is_ok());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*", key in "(keys|think|rate|classes|mix|expiry)", value in "[0-9a-z:,\"=\\[\\]{}.-]{0,12}") {
            for text in [text, format!("{key} = {value}\n")] {
                let _ = load(&text);
            }
        }
    }

    #[test]
    fn what_was_said_is_written_as_a_file_that_says_the_same() {
        let text = "servers = [\"a:1\", \"unix:/b\"]\nverify = true\nkey_prefix = \"a\\\"b\"\nkey_size = \"etc\"\n\
                    [classes.x]\nthink = \"exp:3ms\"\n[classes.b]\nread_rate = \"1KiB\"\nreconnect_after = 100\n";
        let said = LoadConfig::parse(text, "load.toml").unwrap();
        assert_eq!(load(&said.commented()).unwrap(), said.load().unwrap());
    }
}
