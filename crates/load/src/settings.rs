//! What people write: one table of keys, which are flags on the command line and keys of a TOML
//! file, with texts as values.
//!
//! A file holds the keys of the run and, at its top level, those of all classes of clients;
//! `[classes.NAME]` says what is different in one class. Flags go over the file's top level. Every
//! mistake is named with its file and line, or its flag.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use krarup_settings::kind::scalar;
use krarup_settings::mistake::place;
use krarup_settings::table::FileItem;
use krarup_settings::{Mistake, Mistakes, document};
use krarup_units::Address;
use krarup_units::text::{parse_duration, parse_size};
use krarup_units::{PerSecond, Seconds};
use toml::Spanned;
use toml::de::DeString;

use crate::config::{ClientClass, Extent, Habits, Load, LoginSettings, ServerChoice, TlsSettings};
use crate::keys::KeyRange;
use crate::schedule::{ArrivalProcess, Arrivals, Open};
use crate::text;
use crate::trace::Replay;
use crate::workload::{Mix, OnMiss, Sequence, Workload};

/// One thing that can be said.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// Its name in a file; on the command line with dashes.
    pub name: &'static str,
    /// Its letter on the command line.
    pub short: Option<char>,
    /// What stands for its value in help; empty for what is said without one.
    pub value: &'static str,
    /// What holds where nothing is said; empty where nothing does.
    pub default: &'static str,
    /// What it means, in a line.
    pub about: &'static str,
    /// Whether a class of clients may say it.
    pub of_class: bool,
    /// Keys that say something else about the same.
    pub excludes: &'static [&'static str],
}

const fn key(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    about: &'static str,
) -> SettingKey {
    SettingKey { name, short: None, value, default, about, of_class: false, excludes: &[] }
}

impl SettingKey {
    const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    const fn of_class(mut self) -> Self {
        self.of_class = true;
        self
    }

    const fn not_with(mut self, others: &'static [&'static str]) -> Self {
        self.excludes = others;
        self
    }

    /// The flag on the command line, without its dashes.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }
}

/// Everything that can be said, in the order of the reference.
pub const KEYS: &[SettingKey] = &[
    key("servers", "HOST:PORT", "127.0.0.1:11211", "The servers, with commas between: host:port, or unix:/path for a unix socket").short('s'),
    key("spread", "HOW", "one", "Which servers a client asks: always `one` (clients are shared out in turn), or `every` one in turn, over a connection to each"),
    key("tls_authorities", "FILE", "", "Encrypt connections: servers show a certificate of an authority in this file"),
    key("tls_certificate", "FILE", "", "Our own certificate, for servers that want to see one"),
    key("tls_key", "FILE", "", "The key of that certificate"),
    key("tls_name", "NAME", "", "The name that servers' certificates are made out to, where it is not the host's"),
    key("login", "FILE", "", "Sign in at servers as the `user:password` in this file"),
    key("threads", "N", "1", "Threads that drive the connections").short('t'),
    key("connections", "N", "50", "Clients in all; each has one connection").short('c').of_class(),
    key("share", "WEIGHT", "1", "Of a class: its share of the connections and of the rate, as a weight beside those of other classes").of_class(),
    key("pipeline", "N", "1", "Requests a connection may have under way at once").of_class(),
    key("think", "TIME", "0", "How long a client thinks between an answer and its next request: 10ms, or exp:10ms for exponential times").of_class().not_with(&["rate", "replay", "arrivals"]),
    key("rate", "RATE", "", "Open load: requests per second; steps and ramps as 1000x10s,1000-5000x30s").of_class().not_with(&["think", "replay"]),
    key("arrivals", "PROCESS", "poisson", "How an open load's requests are spread: paced, poisson, or bursty:FACTOR:SHARE:LENGTH").of_class(),
    key("replay", "FILE", "", "Send a recorded trace again: rows.parquet, or CSV with time,op,key,size").of_class().not_with(&["think", "rate", "arrivals"]),
    key("replay_speed", "SPEED", "1", "How many times as fast as it was recorded; `max`: each client goes on as soon as it has its answer").of_class(),
    key("ratio", "SETS:GETS", "1:10", "SETs to GETs: each client in a cycle, first the SETs, then the GETs").of_class().not_with(&["mix"]),
    key("mix", "WEIGHTS", "", "Commands by weight, as get=9,set=1; also mget gets gat gats add replace append prepend cas delete incr decr touch mg ms md ma me mn flush_all stats version verbosity; to a message queue put reserve release bury kick pop peek list; to krarup's broker alone send send-to pop-tube pop-sender peek-tube peek-sender list-tubes-for-me login").of_class().not_with(&["ratio"]),
    key("multi_get", "KEYS", "1", "Keys in one multi-get; 1 makes single gets").of_class(),
    key("data_size", "SIZE", "32", "Size of values: 32, 4KiB, a range 100-200, a list with weights 32:9,4096:1, exp:MEAN, or etc (Facebook's)").short('d').of_class(),
    key("keys", "N", "10000", "How many keys there are").of_class(),
    key("key_minimum", "N", "0", "The number of the first key").of_class(),
    key("key_prefix", "TEXT", "key-", "What keys begin with").of_class(),
    key("key_size", "BYTES", "0", "Keys have at least this many bytes, filled up with zeros: 16, a range 16-40, a list with weights 16:9,40:1, or etc (Facebook's)").of_class(),
    key("key_law", "LAW", "uniform", "How keys are drawn: uniform, sequential, parted, zipf:EXPONENT, gaussian:MEAN:DEVIATION, hot:KEYS:DRAWS").of_class(),
    key("write_key_law", "LAW", "", "How commands that write draw their keys, where that is different").of_class(),
    key("key_sequence", "WHOSE", "own", "Whether each client draws keys of its `own`, or all draw the `same` in the same order").of_class(),
    key("expiry", "SECONDS", "0", "Expiry time of what is stored, in seconds: 60, or a range 60-120; 0 never expires").of_class(),
    key("on_miss", "WHAT", "count", "When a get misses: only `count` it, or `set` the key at once").of_class(),
    key("tubes", "N", "1", "How many queues of a message broker are used: each client its own of them, `send` and the like one drawn anew").of_class(),
    key("names", "N", "0", "Under how many names the clients log in at krarup's broker for `send` and the like; 0: each under its own").of_class(),
    key("reconnect_after", "N", "0", "Close each connection after so many requests and make it anew; 0: never").of_class(),
    key("read_rate", "BYTES", "0", "Slow readers: each connection reads at most so many bytes per second; 0: no limit").of_class(),
    key("seconds", "TIME", "10", "How long the run is, warm-up and cool-down included").not_with(&["requests"]),
    key("requests", "N", "", "End after this many requests in all, instead of after a time").short('n').not_with(&["seconds"]),
    key("warm_up", "TIME", "0", "What happens in this time at the start is not measured"),
    key("cool_down", "TIME", "0", "What happens in this time before the end is not measured"),
    key("verify", "", "", "Compare every value that comes with what must have been stored; a wrong one makes the exit code 1"),
    key("seed", "N", "1", "Decides every key, size, think time and arrival"),
    key("connect_timeout", "TIME", "1s", "How long connections are tried at the start"),
    key("timeout", "TIME", "10s", "After this time without an answer a connection is given up; 0: never"),
    key("drain", "TIME", "2s", "How long last answers are waited for at the end"),
    key("give_up", "TIME", "10s", "End when no connection has stood for this time"),
];

/// The key of this name, or why there is none.
fn known(name: &str) -> Result<&'static SettingKey, Mistake> {
    let unknown = || {
        let keys = KEYS.iter().map(|key| key.name);
        Mistake::unknown(format!("there is no key `{name}`"), name, keys)
    };
    KEYS.iter().find(|key| key.name == name).ok_or_else(unknown)
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
        let mut mistake = Mistake::from(why);
        mistake.place.clone_from(&self.place);
        mistake
    }
}

/// Texts by key.
type Layer = BTreeMap<&'static str, Said>;

/// Everything that was said of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadSettings {
    top: Layer,
    classes: Vec<(String, Layer)>,
}

/// Puts `upper` over `lower`: what it says, and what that excludes.
fn over(lower: &Layer, upper: &Layer) -> Layer {
    let mut both = lower.clone();
    for (name, said) in upper {
        put(&mut both, name, said.clone());
    }
    both
}

fn put(layer: &mut Layer, name: &'static str, said: Said) {
    for other in KEYS.iter().filter(|key| key.name == name).flat_map(|key| key.excludes) {
        layer.remove(other);
    }
    layer.insert(name, said);
}

impl LoadSettings {
    /// Reads a file's text.
    ///
    /// # Errors
    /// Every key and form that is wrong, with the file's `name` and the line.
    pub fn parse(text: &str, name: &str) -> Result<Self, Mistakes> {
        let settings = document(text, name, |table, mistakes| {
            let mut settings = Self::default();
            let mut begun = Vec::new();
            for (key, item) in table {
                if key.get_ref() == "classes" {
                    match item.get_ref().as_table() {
                        Some(classes) => begun.extend(classes),
                        None => mistakes.push(no_table(item)),
                    }
                } else {
                    add(&mut settings.top, key, item, false, (name, text))
                        .unwrap_or_else(|why| mistakes.push(why));
                }
            }
            // In the order of the file.
            begun.sort_by_key(|(class, _)| class.span().start);
            for (class, item) in begun {
                let mut layer = Layer::new();
                match item.get_ref().as_table() {
                    Some(own) => own.iter().for_each(|(key, item)| {
                        add(&mut layer, key, item, true, (name, text))
                            .unwrap_or_else(|why| mistakes.push(why));
                    }),
                    None => mistakes.push(no_table(item)),
                }
                settings.classes.push((class.get_ref().to_string(), layer));
            }
            settings
        })?;
        let classes = settings.classes.iter().map(|(_, layer)| layer);
        std::iter::once(&settings.top).chain(classes).try_for_each(agrees_with_itself)?;
        Ok(settings)
    }

    /// What flags say, over what a file says.
    ///
    /// # Errors
    /// Two flags that exclude each other, or a name that is no key.
    pub fn with_flags<'a>(
        mut self,
        flags: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Result<Self, Mistake> {
        let mut layer = Layer::new();
        for (name, text) in flags {
            let key = known(name)?;
            layer.insert(key.name, Said { text, place: format!("--{}", key.flag()) });
        }
        agrees_with_itself(&layer)?;
        self.top = over(&self.top, &layer);
        Ok(self)
    }

    /// Whether a key was said at the top level.
    pub fn says(&self, name: &str) -> bool {
        self.top.contains_key(name)
    }

    /// What arrivals of a rate would be spread like.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn process(&self) -> Result<ArrivalProcess, Mistake> {
        get(&self.top, "arrivals", text::process)
    }

    /// The load that was asked for, checked.
    ///
    /// # Errors
    /// The first thing that makes no sense, with its place.
    pub fn load(&self) -> Result<Load, Mistake> {
        let top = &self.top;
        let ClientClass { connections, pipeline, arrivals, workload, habits, .. } = class(top, "")?;
        let classes = self.several(connections)?;
        let replays = |arrivals: &Arrivals| matches!(arrivals, Arrivals::Replay(_));
        let is_trace = if classes.is_empty() {
            replays(&arrivals)
        } else {
            classes.iter().all(|class| replays(&class.arrivals))
        };
        let extent = if top.contains_key("requests") {
            Extent::Requests(get(top, "requests", number)?)
        } else if is_trace && !top.contains_key("seconds") {
            Extent::Trace
        } else {
            Extent::Seconds(time(top, "seconds")?)
        };
        let load = Load {
            targets: get(top, "servers", |text| {
                text.split(',').map(|one| one.trim().parse::<Address>()).collect()
            })?,
            spread: get(top, "spread", |text| match text {
                "one" => Ok(ServerChoice::One),
                "every" => Ok(ServerChoice::Every),
                _ => Err(format!("`{text}` is not `one` or `every`")),
            })?,
            tls: tls(top)?,
            login: login(top)?,
            connections: if classes.is_empty() {
                connections
            } else {
                classes.iter().map(|class| class.connections).sum()
            },
            threads: get(top, "threads", number)?,
            pipeline,
            arrivals,
            workload,
            habits,
            classes,
            extent,
            warm_up: time(top, "warm_up")?,
            cool_down: time(top, "cool_down")?,
            seed: get(top, "seed", number)?,
            verify: top.get("verify").is_some_and(|said| said.text == "true"),
            connect_timeout: time(top, "connect_timeout")?,
            request_timeout: time(top, "timeout")?,
            drain: time(top, "drain")?,
            give_up: time(top, "give_up")?,
        };
        load.check()?;
        Ok(load)
    }

    /// The classes with names. Those that do not say how many connections they have share
    /// `connections`; those that take over the rate share it.
    fn several(&self, connections: u32) -> Result<Vec<ClientClass>, Mistake> {
        let mut made = Vec::new();
        for (name, own) in &self.classes {
            let layer = over(&self.top, own);
            let share: f64 = get(&layer, "share", number)?;
            if !(share > 0.0 && share.is_finite()) {
                return Err(format!("class {name}: a share of {share} is not above 0").into());
            }
            made.push((class(&layer, name)?, own, share));
        }
        let takes_rate = |class: &ClientClass, own: &Layer| {
            matches!(class.arrivals, Arrivals::Open(_)) && !own.contains_key("rate")
        };
        let takes_connections = |own: &Layer| !own.contains_key("connections");
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
        let said = KEYS.iter().filter_map(|key| Some((key, self.top.get(key.name)?)));
        let flag = |(key, said): (&SettingKey, &Said)| match key.value {
            "" => format!("--{}", key.flag()),
            _ => format!("--{} {}", key.flag(), for_a_shell(&said.text)),
        };
        said.map(flag).collect::<Vec<_>>().join(" ")
    }

    /// All keys with their meaning, as a file that says the same.
    pub fn commented(&self) -> String {
        let mut out = String::from(
            "# krarup load: what is sent, by how many clients, to which servers. Each key is a flag too: key_law is --key-law.\n\
             # A line that is commented out shows what holds without it.\n",
        );
        for key in KEYS.iter().filter(|key| key.name != "share") {
            write!(out, "\n{}", commented(key.about)).expect(TAKES);
            write!(out, "{}", line(key, self.top.get(key.name))).expect(TAKES);
        }
        out.push_str(
            "\n# Classes of clients, side by side on the same servers: each has all keys from `connections` to `read_rate` as above,\n\
             # but for what it says itself. Without connections of their own, classes share those above by weight; the same holds for the rate.\n",
        );
        if self.classes.is_empty() {
            out.push_str(
                "# [classes.readers]\n# share = 9\n# ratio = \"0:1\"\n# think = \"10ms\"\n#\n\
                 # [classes.writers]\n# share = 1\n# ratio = \"1:0\"\n# data_size = \"4KiB\"\n",
            );
        }
        for (name, layer) in &self.classes {
            writeln!(out, "[classes.{name}]").expect(TAKES);
            for key in KEYS.iter().filter(|key| layer.contains_key(key.name)) {
                write!(out, "{}", line(key, layer.get(key.name))).expect(TAKES);
            }
        }
        out
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

const TAKES: &str = "a string takes everything";

/// A text as comment lines of 120 letters at most.
fn commented(text: &str) -> String {
    let mut out = String::new();
    let mut left = 0;
    for word in text.split(' ') {
        if left < word.chars().count() + 1 {
            out.push_str(if out.is_empty() { "#" } else { "\n#" });
            left = 118;
        }
        out.push(' ');
        out.push_str(word);
        left -= word.chars().count().min(left) + usize::from(left > word.chars().count());
    }
    out.push_str(".\n");
    out
}

/// A key's line: as said, or the default as a comment.
fn line(key: &SettingKey, said: Option<&Said>) -> String {
    let quoted = |text: &str| {
        let is_plain = text == "true" || text == "false" || text.parse::<i64>().is_ok();
        if is_plain { text.to_owned() } else { toml::Value::String(text.to_owned()).to_string() }
    };
    match said {
        Some(said) => format!("{} = {}\n", key.name, quoted(&said.text)),
        None if key.value.is_empty() => format!("# {} = false\n", key.name),
        None => format!("# {} = {}\n", key.name, quoted(key.default)),
    }
}

/// No two keys that say something else about the same.
fn agrees_with_itself(layer: &Layer) -> Result<(), Mistake> {
    for (name, said) in layer {
        let other = KEYS.iter().filter(|key| key.name == *name).flat_map(|key| key.excludes);
        if let Some(other) = other.filter_map(|other| layer.get(other)).next() {
            let same = said.place.split(", line").next() == other.place.split(", line").next();
            let also =
                if same { other.place.rsplit(", ").next().unwrap_or(&other.place) } else { &other.place };
            return Err(said.wrong(format!("`{name}` and what {also} says exclude each other")));
        }
    }
    Ok(())
}

fn no_table(item: &FileItem<'_>) -> Mistake {
    Mistake::from("classes are tables, like [classes.readers]").at(item.span().start)
}

/// Adds what a file says of a key to a layer, which is a class's or not.
fn add(
    layer: &mut Layer,
    key: &Spanned<DeString<'_>>,
    item: &FileItem<'_>,
    of_class: bool,
    (name, text): (&str, &str),
) -> Result<(), Mistake> {
    let at = key.span().start;
    let known = known(key.get_ref()).map_err(|mistake| mistake.at(at))?;
    if of_class && !known.of_class {
        return Err(Mistake::from(format!("`{}` is of the whole run, not of a class", known.name)).at(at));
    }
    let said = text_of(known.name, item)
        .ok_or_else(|| Mistake::from("a text, a number, true, false or a list belongs here").at(at))?;
    layer.insert(known.name, Said { text: said, place: place(name, text, at) });
    Ok(())
}

/// A value of a file as the text that a flag would have.
fn text_of(name: &str, item: &FileItem<'_>) -> Option<String> {
    match item.get_ref().as_array() {
        Some(several) => {
            let texts: Option<Vec<_>> = several.iter().map(|item| text_of(name, item)).collect();
            Some(texts?.join(","))
        }
        None => scalar(name, item).ok(),
    }
}

/// A key's value: what was said, or its default.
fn get<T>(layer: &Layer, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Mistake> {
    match layer.get(name) {
        Some(said) => read(&said.text).map_err(|why| said.wrong(why)),
        None => Ok(read(known(name)?.default)?),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.replace('_', "").parse().map_err(|_| format!("`{text}` is no number that fits"))
}

fn time(layer: &Layer, name: &str) -> Result<Seconds, Mistake> {
    get(layer, name, parse_duration)
}

fn file(layer: &Layer, name: &str) -> Option<PathBuf> {
    layer.get(name).filter(|said| !said.text.is_empty()).map(|said| said.text.clone().into())
}

fn tls(top: &Layer) -> Result<Option<TlsSettings>, Mistake> {
    let identity =
        match (file(top, "tls_certificate"), file(top, "tls_key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(
                "a certificate needs its key, and a key its certificate; give tls_certificate and tls_key"
                    .into(),
            ),
        };
    let name = top.get("tls_name").map(|said| said.text.clone()).filter(|name| !name.is_empty());
    match file(top, "tls_authorities") {
        Some(authorities) => Ok(Some(TlsSettings { authorities, identity, name })),
        None if identity.is_some() || name.is_some() => {
            Err("connections are not encrypted without tls_authorities, the file that says whom to trust"
                .into())
        }
        None => Ok(None),
    }
}

fn login(top: &Layer) -> Result<Option<LoginSettings>, Mistake> {
    let Some(path) = file(top, "login") else { return Ok(None) };
    let wrong = |why: String| Mistake::from(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
    LoginSettings::parse(&text).map(Some).map_err(wrong)
}

/// The class that a layer describes.
fn class(layer: &Layer, name: &str) -> Result<ClientClass, Mistake> {
    let get_law = get(layer, "key_law", text::key_law)?;
    let mix = if layer.contains_key("mix") {
        get(layer, "mix", text::mix)?
    } else {
        get::<Mix>(layer, "ratio", text::ratio)?
    };
    Ok(ClientClass {
        name: name.to_owned(),
        connections: get(layer, "connections", number)?,
        pipeline: get(layer, "pipeline", number)?,
        arrivals: arrivals(layer)?,
        workload: Workload {
            mix,
            keys: KeyRange {
                prefix: get(layer, "key_prefix", |text| Ok(text.to_owned()))?,
                minimum: get(layer, "key_minimum", number)?,
                count: get(layer, "keys", number)?,
                size: get(layer, "key_size", text::key_size)?,
            },
            get_law,
            set_law: if layer.contains_key("write_key_law") {
                get(layer, "write_key_law", text::key_law)?
            } else {
                get_law
            },
            sequence: get(layer, "key_sequence", |text| match text {
                "own" => Ok(Sequence::Own),
                "same" => Ok(Sequence::Same),
                _ => Err(format!("`{text}` is not `own` or `same`")),
            })?,
            multi_get: get(layer, "multi_get", number)?,
            value_size: get(layer, "data_size", text::size_law)?,
            expiry: get(layer, "expiry", text::expiry)?,
            on_miss: get(layer, "on_miss", |text| match text {
                "count" => Ok(OnMiss::Count),
                "set" => Ok(OnMiss::Set),
                _ => Err(format!("`{text}` is not `count` or `set`")),
            })?,
            tubes: get(layer, "tubes", number)?,
            names: get(layer, "names", number)?,
            ..Workload::default()
        },
        habits: Habits {
            reconnect_after: get(layer, "reconnect_after", number)?,
            read_rate: get(layer, "read_rate", parse_size)?,
        },
    })
}

fn arrivals(layer: &Layer) -> Result<Arrivals, Mistake> {
    if layer.contains_key("rate") {
        let legs = get(layer, "rate", text::rate)?;
        return Ok(Arrivals::Open(Open { process: get(layer, "arrivals", text::process)?, legs }));
    }
    if let Some(said) = layer.get("arrivals") {
        return Err(
            said.wrong("arrivals says how requests of a rate are spread, and there is no rate".to_owned())
        );
    }
    if let Some(trace) = file(layer, "replay") {
        return Ok(Arrivals::Replay(Replay { trace, speed: get(layer, "replay_speed", text::speed)? }));
    }
    Ok(Arrivals::Closed(get(layer, "think", text::think)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Think;
    use crate::sizes::SizeLaw;

    fn load(text: &str) -> Result<Load, String> {
        Ok(LoadSettings::parse(text, "load.toml")?.load()?)
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(load(""), Ok(Load::default()));
        let commented = LoadSettings::default().commented();
        assert_eq!(load(&commented), Ok(Load::default()));
        for key in KEYS {
            assert!(commented.contains(&format!("# {} = ", key.name)), "{}", key.name);
        }
    }

    #[test]
    fn every_default_that_is_shown_may_be_written() {
        let may = |key: &&SettingKey| !key.default.is_empty() && key.name != "arrivals";
        let text: String =
            KEYS.iter().filter(may).map(|key| format!("{} = {:?}\n", key.name, key.default)).collect();
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
        let file = LoadSettings::parse("seconds = 5\nrate = 100\nkeys = 7\n", "load.toml").unwrap();
        let flags = [("requests", "9".to_owned()), ("think", "1ms".to_owned())];
        let load = file.clone().with_flags(flags).unwrap().load().unwrap();
        assert_eq!(load.extent, Extent::Requests(9));
        assert_eq!(load.arrivals, Arrivals::Closed(Think::Fixed(0.001)));
        assert_eq!(load.workload.keys.count, 7);
        let both = [("requests", "9".to_owned()), ("seconds", "1".to_owned())];
        assert!(file.with_flags(both).unwrap_err().place.contains("--requests"));
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
            ("[classes.a]\nkeys = \"x\"\n", "load.toml, line 2: `x`"),
            ("classes = 5\n", "line 1: classes are tables"),
            ("keys = { a = 1 }\n", "line 1: a text"),
            ("keys = \n", "load.toml, line 1"),
            ("[classes.\"a b\"]\n", "`a b`"),
            ("arrivals = \"paced\"\n", "there is no rate"),
            ("tls_name = \"a\"\n", "tls_authorities"),
            ("tls_key = \"a\"\n", "tls_certificate"),
            ("login = \"no/such/file\"\n", "no/such/file"),
            ("[classes.a]\nshare = 0\n", "share of 0"),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn every_key_that_is_wrong_is_named() {
        let text = "conections = 5\n[classes.a]\nthink_ = 1\nthreads = 2\n";
        let mistakes = LoadSettings::parse(text, "load.toml").unwrap_err().0;
        let places: Vec<_> = mistakes.iter().map(|mistake| mistake.place.as_str()).collect();
        assert_eq!(places, ["load.toml, line 1", "load.toml, line 3", "load.toml, line 4"]);
        assert_eq!(mistakes[0].what, "there is no key `conections`");
        assert!(mistakes[1].hint.starts_with("did you mean think"), "{}", mistakes[1]);
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
        let said = LoadSettings::parse(text, "load.toml").unwrap();
        assert_eq!(load(&said.commented()).unwrap(), said.load().unwrap());
    }
}
