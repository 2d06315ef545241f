//! The flags: one table, read as getopt_long reads them.

use std::path::PathBuf;

use krarup_settings::{Mistake, Mistakes};
use krarup_units::PerSecond;

use crate::config::{Load, LoginSettings};
use crate::keys::MOST_DEVIATION;
use crate::settings::LoadConfig;

/// A command line that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Memtier {
    /// What is to be run.
    pub load: Load,
    /// The same as it would be said to `krarup load`.
    pub settings: LoadConfig,
    /// `SETS:GETS`, as it was given.
    pub ratio: String,
    /// How often.
    pub runs: u32,
    /// Whether every one of several runs is shown, beside the best, the worst and the average.
    pub print_all_runs: bool,
    /// Threads, connections per thread, requests per client (where not timed), as the output shows
    /// them.
    pub clients_per_thread: u32,
    /// See above.
    pub requests_per_client: Option<u64>,
    /// Where the table goes; stdout where not given.
    pub out_file: Option<PathBuf>,
    /// Where the JSON goes.
    pub json_out_file: Option<PathBuf>,
    /// Leave the histograms out of the table.
    pub hide_histogram: bool,
    /// Which percentiles the table shows.
    pub percentiles: Vec<f64>,
    /// The seed shall be another in each run: the caller has to choose it.
    pub randomize: bool,
    /// What is understood otherwise than memtier_benchmark would, in words.
    pub notes: Vec<String>,
    /// `--help` or `--version` was asked for, and nothing is to be run.
    pub help: bool,
}

/// Whether a flag takes a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Value,
}

/// Every flag that is understood: long name, short names, whether it takes a value.
const FLAGS: &[(&str, &str, Takes)] = &[
    ("server", "s", Takes::Value),
    ("host", "h", Takes::Value),
    ("port", "p", Takes::Value),
    ("protocol", "P", Takes::Value),
    ("clients", "c", Takes::Value),
    ("threads", "t", Takes::Value),
    ("test-time", "", Takes::Value),
    ("requests", "n", Takes::Value),
    ("ratio", "", Takes::Value),
    ("pipeline", "", Takes::Value),
    ("rate-limiting", "", Takes::Value),
    ("data-size", "d", Takes::Value),
    ("data-size-range", "", Takes::Value),
    ("data-size-list", "", Takes::Value),
    ("random-data", "R", Takes::Nothing),
    ("expiry-range", "", Takes::Value),
    ("key-prefix", "", Takes::Value),
    ("key-minimum", "", Takes::Value),
    ("key-maximum", "", Takes::Value),
    ("key-pattern", "", Takes::Value),
    ("key-stddev", "", Takes::Value),
    ("key-median", "", Takes::Value),
    ("key-zipf-exp", "", Takes::Value),
    ("multi-key-get", "", Takes::Value),
    ("distinct-client-seed", "", Takes::Nothing),
    ("randomize", "", Takes::Nothing),
    ("run-count", "x", Takes::Value),
    ("out-file", "o", Takes::Value),
    ("json-out-file", "", Takes::Value),
    ("hide-histogram", "", Takes::Nothing),
    ("print-percentiles", "", Takes::Value),
    ("print-all-runs", "", Takes::Nothing),
    ("connection-timeout", "", Takes::Value),
    ("reconnect-on-error", "", Takes::Nothing),
    ("ipv4", "4", Takes::Nothing),
    ("ipv6", "6", Takes::Nothing),
    ("unix-socket", "S", Takes::Value),
    ("authenticate", "a", Takes::Value),
    ("tls", "", Takes::Nothing),
    ("cert", "", Takes::Value),
    ("key", "", Takes::Value),
    ("cacert", "", Takes::Value),
    ("sni", "", Takes::Value),
    ("reconnect-interval", "", Takes::Value),
    ("debug", "D", Takes::Nothing),
    ("show-config", "", Takes::Nothing),
    ("help", "", Takes::Nothing),
    ("version", "v", Takes::Nothing),
];

/// Flags of memtier_benchmark that are not understood here, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("command", "only memcached's own commands are sent; see `krarup load --mix`"),
    ("command-ratio", "see `krarup load --mix`"),
    ("command-key-pattern", "see `krarup load --mix`"),
    ("cluster-mode", "it is for Redis"),
    ("select-db", "it is for Redis"),
    ("wait-ratio", "it is for Redis"),
    ("num-slaves", "it is for Redis"),
    ("wait-timeout", "it is for Redis"),
    ("uri", "write --server and --port"),
    ("tls-skip-verify", "who is at the other end of an encrypted connection is always checked, by --cacert"),
    ("tls-protocols", "TLS 1.2 and 1.3 are spoken, as the server likes"),
    ("data-import", "values are made from their keys, so that they can be verified"),
    ("data-verify", "see `krarup load --verify`"),
    ("verify-only", "see `krarup load --verify`"),
    ("data-offset", "it is for Redis"),
    ("client-stats", "see `krarup load --csv`"),
    ("hdr-file-prefix", "see `krarup load --hlog`"),
    ("generate-keys", "keys are a prefix and a number"),
    ("no-expiry", "there is no imported data"),
    ("data-size-pattern", "sizes are drawn at random"),
];

/// Reads a command line, without the program's name.
///
/// # Errors
/// In one line: the flag that is wrong, and the nearest that is known.
pub fn parse(args: &[String]) -> Result<Memtier, Mistakes> {
    let mut given = Given::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if let Some(long) = arg.strip_prefix("--") {
            let (name, attached) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let (name, takes) = long_flag(name)?;
            let value = value(name, takes, attached, &mut args)?;
            given.set(name, value.as_deref())?;
        } else if let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            short_flags(letters, &mut args, &mut given)?;
        } else {
            return Err(Mistakes::from(format!("`{arg}` is no flag")));
        }
    }
    given.finish()
}

/// Letters after one dash: flags without a value may stand together, the rest after one with a
/// value is its value.
fn short_flags<'a>(
    letters: &str,
    args: &mut impl Iterator<Item = &'a String>,
    given: &mut Given,
) -> Result<(), Mistake> {
    for (place, letter) in letters.char_indices() {
        let found = FLAGS.iter().find(|(_, short, _)| short.contains(letter));
        let &(name, _, takes) = found.ok_or_else(|| Mistake::plain(format!("unknown flag -{letter}")))?;
        if takes == Takes::Value {
            let rest = &letters[place + letter.len_utf8()..];
            let attached = (!rest.is_empty()).then(|| rest.to_owned());
            let value = value(name, takes, attached, args)?;
            return given.set(name, value.as_deref());
        }
        given.set(name, None)?;
    }
    Ok(())
}

fn value<'a>(
    name: &str,
    takes: Takes,
    attached: Option<String>,
    args: &mut impl Iterator<Item = &'a String>,
) -> Result<Option<String>, Mistake> {
    match (takes, attached) {
        (Takes::Nothing, Some(value)) => {
            Err(Mistake::plain(format!("--{name} takes no value, but was given `{value}`")))
        }
        (Takes::Nothing, None) => Ok(None),
        (Takes::Value, Some(value)) => Ok(Some(value)),
        (Takes::Value, None) => {
            args.next().cloned().map(Some).ok_or_else(|| Mistake::plain(format!("--{name} needs a value")))
        }
    }
}

/// The flag of this name, or the only one that begins so.
fn long_flag(name: &str) -> Result<(&'static str, Takes), Mistake> {
    if let Some(&(known, _, takes)) = FLAGS.iter().find(|(known, ..)| *known == name) {
        return Ok((known, takes));
    }
    if let Some((_, why)) = REFUSED.iter().find(|(known, _)| *known == name) {
        return Err(Mistake::plain(format!("--{name} is not supported: {why}")));
    }
    let begun: Vec<_> =
        FLAGS.iter().filter(|(known, ..)| !name.is_empty() && known.starts_with(name)).collect();
    match begun.as_slice() {
        &[&(known, _, takes)] => Ok((known, takes)),
        [] => {
            let nearest =
                FLAGS.iter().min_by_key(|(known, ..)| distance(known, name)).map_or("help", |flag| flag.0);
            let hint = format!("the nearest known is --{nearest}");
            Err(Mistake::new(format!("unknown flag --{name}"), &hint))
        }
        several => {
            let names: Vec<_> = several.iter().map(|(known, ..)| format!("--{known}")).collect();
            Err(Mistake::plain(format!("--{name} could be {}", names.join(" or "))))
        }
    }
}

/// How many letters have to be put in, taken out or changed (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (place, &counterpart) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != counterpart);
            diagonal = row[place + 1];
            row[place + 1] = changed.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// What was given so far, with memtier_benchmark's own defaults.
struct Given {
    host: String,
    /// `ipv4` or `ipv6`, which addresses the host's name was to stand for.
    family: Option<String>,
    port: u16,
    port_given: bool,
    unix: Option<String>,
    login: Option<LoginSettings>,
    tls: bool,
    files: [Option<String>; 3],
    sni: Option<String>,
    reconnect: u64,
    clients: u32,
    threads: u32,
    test_time: Option<u64>,
    requests: Option<Requests>,
    ratio: (u32, u32),
    pipeline: u32,
    rate: u64,
    size: String,
    expiry: (i32, i32),
    prefix: String,
    minimum: u64,
    maximum: u64,
    patterns: (char, char),
    deviation: f64,
    median: f64,
    zipf: f64,
    multi_get: u32,
    randomize: bool,
    runs: u32,
    print_all_runs: bool,
    out_file: Option<PathBuf>,
    json_out_file: Option<PathBuf>,
    hide_histogram: bool,
    percentiles: Vec<f64>,
    connection_timeout: f64,
    help: bool,
}

#[derive(Clone, Copy)]
enum Requests {
    Count(u64),
    AllKeys,
}

impl Default for Given {
    fn default() -> Self {
        Self {
            host: "localhost".to_owned(),
            family: None,
            port: 11_211,
            port_given: false,
            unix: None,
            login: None,
            tls: false,
            files: [None, None, None],
            sni: None,
            reconnect: 0,
            clients: 50,
            threads: 4,
            test_time: None,
            requests: None,
            ratio: (1, 10),
            pipeline: 1,
            rate: 0,
            size: "32".to_owned(),
            expiry: (0, 0),
            prefix: "memtier-".to_owned(),
            minimum: 0,
            maximum: 10_000_000,
            patterns: ('R', 'R'),
            deviation: 0.0,
            median: 0.0,
            zipf: 1.0,
            multi_get: 0,
            randomize: false,
            runs: 1,
            print_all_runs: false,
            out_file: None,
            json_out_file: None,
            hide_histogram: false,
            percentiles: vec![50.0, 99.0, 99.9],
            connection_timeout: 1.0,
            help: false,
        }
    }
}

fn wrong(name: &str, what: String) -> Mistake {
    Mistake::plain(what).of(&format!("--{name}"))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Mistake> {
    value.parse().map_err(|_| wrong(name, format!("`{value}` is no number that fits")))
}

fn pair<T: std::str::FromStr>(name: &str, value: &str, between: char) -> Result<(T, T), Mistake> {
    let parts =
        value.split_once(between).and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
    parts.ok_or_else(|| wrong(name, format!("`{value}` is not two numbers with `{between}` between them")))
}

impl Given {
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Mistake> {
        let text = value.unwrap_or_default();
        match name {
            "server" | "host" => self.host = text.to_owned(),
            "ipv4" | "ipv6" => self.family = Some(name.to_owned()),
            "port" => (self.port, self.port_given) = (number(name, text)?, true),
            "protocol" => match text {
                "memcache_text" => {}
                other => {
                    let what = format!("--protocol={other} is not supported");
                    return Err(Mistake::new(what, "memcache_text is"));
                }
            },
            "unix-socket" => self.unix = Some(text.to_owned()),
            "authenticate" => {
                self.login =
                    Some(LoginSettings::parse(text).map_err(|mistake| mistake.of(&format!("--{name}")))?);
            }
            "tls" => self.tls = true,
            "cacert" => self.files[0] = Some(text.to_owned()),
            "cert" => self.files[1] = Some(text.to_owned()),
            "key" => self.files[2] = Some(text.to_owned()),
            "sni" => self.sni = Some(text.to_owned()),
            "reconnect-interval" => self.reconnect = number(name, text)?,
            "clients" => self.clients = number(name, text)?,
            "threads" => self.threads = number(name, text)?,
            "test-time" => self.test_time = Some(number(name, text)?),
            "requests" if text == "allkeys" => self.requests = Some(Requests::AllKeys),
            "requests" => self.requests = Some(Requests::Count(number(name, text)?)),
            "ratio" => self.ratio = pair(name, text, ':')?,
            "pipeline" => self.pipeline = number(name, text)?,
            "rate-limiting" => self.rate = number(name, text)?,
            "data-size" => self.size = number::<u64>(name, text)?.to_string(),
            "data-size-range" => {
                let (from, to) = pair::<u64>(name, text, '-')?;
                self.size = format!("{from}-{to}");
            }
            "data-size-list" => {
                for one in text.split(',') {
                    pair::<u32>(name, one, ':')?;
                }
                self.size = text.to_owned();
            }
            "expiry-range" => self.expiry = pair(name, text, '-')?,
            "key-prefix" => self.prefix = text.to_owned(),
            "key-minimum" => self.minimum = number(name, text)?,
            "key-maximum" => self.maximum = number(name, text)?,
            "key-pattern" => self.patterns = pair(name, text, ':')?,
            "key-stddev" => self.deviation = number(name, text)?,
            "key-median" => self.median = number(name, text)?,
            "key-zipf-exp" => self.zipf = number(name, text)?,
            "multi-key-get" => self.multi_get = number(name, text)?,
            "randomize" => self.randomize = true,
            "run-count" => self.runs = number(name, text)?,
            "print-all-runs" => self.print_all_runs = true,
            "out-file" => self.out_file = Some(text.into()),
            "json-out-file" => self.json_out_file = Some(text.into()),
            "hide-histogram" => self.hide_histogram = true,
            "print-percentiles" => {
                self.percentiles = text.split(',').map(|one| number(name, one)).collect::<Result<_, _>>()?;
                if self.percentiles.iter().any(|one| !(0.0..=100.0).contains(one)) {
                    return Err(wrong(name, format!("`{text}` is not percentiles between 0 and 100")));
                }
            }
            "connection-timeout" => self.connection_timeout = number(name, text)?,
            "help" | "version" => self.help = true,
            // Those that change nothing here: values are always noise, seeds always distinct,
            // connections always made anew.
            _ => {}
        }
        Ok(())
    }

    /// How many keys there are.
    fn keys(&self) -> u64 {
        self.maximum.saturating_sub(self.minimum).saturating_add(1)
    }

    /// The law that a letter stands for, as `krarup load` has it.
    fn law(&self, letter: char) -> Result<String, Mistake> {
        let count = self.keys() as f64;
        Ok(match letter {
            'R' => "uniform".to_owned(),
            'S' => "sequential".to_owned(),
            'P' => "parted".to_owned(),
            'Z' => format!("zipf:{}", self.zipf),
            'G' => {
                let mean = if self.median > 0.0 { (self.median - self.minimum as f64) / count } else { 0.5 };
                // memtier_benchmark's own default: the range is six standard deviations wide. With
                // the most that a law takes all keys are as likely, to a thousandth.
                let share = self.deviation / count;
                let deviation = if share > 0.0 { share.min(MOST_DEVIATION) } else { 1.0 / 6.0 };
                format!("gaussian:{mean}:{deviation}")
            }
            other => return Err(wrong("key-pattern", format!("`{other}` is none of R, G, Z, S, P"))),
        })
    }

    /// How many requests each client sends; none where the run is timed.
    fn per_client(&self, connections: u32) -> Option<u64> {
        let count = self.keys();
        match (self.test_time, self.requests) {
            (Some(_), _) => None,
            (None, None) => Some(10_000),
            (None, Some(Requests::Count(requests))) => Some(requests),
            (None, Some(Requests::AllKeys)) if self.patterns.0 == 'P' => {
                Some(count.div_ceil(u64::from(connections.max(1))))
            }
            (None, Some(Requests::AllKeys)) => Some(count),
        }
    }

    /// What is understood otherwise than memtier_benchmark would, but for a rate.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.port_given && self.unix.is_none() {
            notes.push("no --port was given: 11211 is taken, memcached's own, where memtier_benchmark takes Redis' 6379".to_owned());
        }
        if let Some(family) = &self.family {
            notes.push(format!(
                "--{family} is not followed: of a name's addresses the first that answers is taken; \
                 give --server an address where it matters"
            ));
        }
        if self.minimum > 1 && [self.patterns.0, self.patterns.1].contains(&'Z') {
            notes.push(format!(
                "--key-pattern Z counts ranks from --key-minimum here: the first key is the hottest; \
                 memtier_benchmark takes a key's own number for its rank, which is nearly uniform from {} on",
                self.minimum
            ));
        }
        notes
    }

    fn finish(self) -> Result<Memtier, Mistakes> {
        if self.maximum < self.minimum {
            let what = format!("--key-maximum={} is below --key-minimum={}", self.maximum, self.minimum);
            return Err(what.into());
        }
        if self.requests.is_some() && self.test_time.is_some() {
            return Err("--requests and --test-time exclude each other".into());
        }
        if self.runs == 0 {
            return Err("--run-count is 0: nothing would be run".into());
        }
        if self.tls && self.files[0].is_none() {
            return Err("--tls needs --cacert, the file of the authorities to trust".into());
        }
        let connections =
            self.clients.checked_mul(self.threads).ok_or_else(|| Mistake::plain("too many clients"))?;
        let per_client = self.per_client(connections);
        let mut notes = self.notes();
        let mut said = vec![
            (
                "servers",
                self.unix.as_ref().map_or_else(|| at(&self.host, self.port), |path| format!("unix:{path}")),
            ),
            ("connections", connections.to_string()),
            ("threads", self.threads.to_string()),
            ("pipeline", self.pipeline.to_string()),
            ("ratio", format!("{}:{}", self.ratio.0, self.ratio.1)),
            ("multi_get", self.multi_get.max(1).to_string()),
            ("data_size", self.size.clone()),
            ("keys", self.keys().to_string()),
            ("key_minimum", self.minimum.to_string()),
            ("key_prefix", self.prefix.clone()),
            ("key_law", self.law(self.patterns.1)?),
            ("write_key_law", self.law(self.patterns.0)?),
            ("expiry", format!("{}-{}", self.expiry.0, self.expiry.1)),
            ("reconnect_after", self.reconnect.to_string()),
            match per_client {
                Some(requests) => ("requests", requests.saturating_mul(u64::from(connections)).to_string()),
                None => ("seconds", self.test_time.unwrap_or(0).to_string()),
            },
        ];
        if self.connection_timeout > 0.0 {
            said.push(("connect_timeout", self.connection_timeout.to_string()));
        }
        if self.rate > 0 {
            let rate = PerSecond(self.rate as f64 * f64::from(connections));
            notes.push(format!("--rate-limiting is an open load here: {rate} over all connections, timed from when each request was due"));
            said.push(("rate", rate.0.to_string()));
            said.push(("arrivals", "paced".to_owned()));
        }
        if self.tls {
            let names = ["tls_authorities", "tls_certificate", "tls_key"].into_iter();
            said.extend(names.zip(&self.files).filter_map(|(name, file)| Some((name, file.clone()?))));
            said.extend(self.sni.clone().map(|name| ("tls_name", name)));
        }
        let settings = LoadConfig::default().with_flags(said)?;
        let mut load = if self.help { Load::default() } else { settings.load()? };
        load.login = self.login;
        Ok(Memtier {
            load,
            settings,
            ratio: format!("{}:{}", self.ratio.0, self.ratio.1),
            runs: self.runs,
            print_all_runs: self.print_all_runs,
            clients_per_thread: self.clients,
            requests_per_client: per_client,
            out_file: self.out_file,
            json_out_file: self.json_out_file,
            hide_histogram: self.hide_histogram,
            percentiles: self.percentiles,
            randomize: self.randomize,
            notes,
            help: self.help,
        })
    }
}

/// A host and a port, with brackets around an address of IPv6.
fn at(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::Extent;
    use crate::keys::KeyLaw;
    use crate::sizes::SizeLaw;
    use crate::workload::Mix;

    fn read(line: &str) -> Result<Memtier, Mistakes> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_students_line_means_what_it_always_meant() {
        let line = "-s 10.0.0.5 -p 11211 -P memcache_text -c 32 -t 2 --test-time=80 --ratio=1:6 --data-size=4096 \
                    --key-maximum=10000 --expiry-range=9999-10000 --multi-key-get=6 --json-out-file=out.json";
        let memtier = read(line).unwrap();
        let load = &memtier.load;
        assert_eq!(load.targets[0].to_string(), "10.0.0.5:11211");
        assert_eq!((load.connections, load.threads, load.extent), (64, 2, Extent::Seconds(80.0)));
        assert_eq!(load.workload.mix, Mix::Ratio { sets: 1, gets: 6 });
        assert_eq!((load.workload.multi_get, load.workload.expiry), (6, Some((9_999, 10_000))));
        assert_eq!((load.workload.keys.minimum, load.workload.keys.count), (0, 10_001));
        assert_eq!(load.workload.value_size, SizeLaw::Fixed(4_096));
        assert_eq!(memtier.json_out_file, Some("out.json".into()));
        assert!(memtier.notes.is_empty());
    }

    #[test]
    fn the_population_line_goes_through_the_range_in_order() {
        let line = "-slocalhost -p11211 --clients=1 --threads=2 --requests=10001 --ratio=1:0 --key-pattern=S:S --key-max 10000";
        let memtier = read(line).unwrap();
        assert_eq!(memtier.load.workload.set_law, KeyLaw::Sequential);
        assert_eq!(memtier.load.extent, Extent::Requests(20_002));
        assert_eq!(memtier.requests_per_client, Some(10_001));
    }

    #[test]
    fn the_widest_range_of_keys_is_read() {
        let line = format!("--key-maximum={} --key-pattern=G:G --requests=allkeys", u64::MAX);
        assert_eq!(read(&line).unwrap().load.workload.keys.count, u64::MAX);
    }

    #[test]
    fn defaults_are_memtiers_but_for_the_port() {
        let memtier = read("").unwrap();
        assert_eq!((memtier.load.connections, memtier.load.threads), (200, 4));
        assert_eq!(memtier.load.extent, Extent::Requests(2_000_000));
        assert_eq!(memtier.load.workload.mix, Mix::Ratio { sets: 1, gets: 10 });
        assert_eq!(memtier.load.workload.keys.prefix, "memtier-");
        assert!(memtier.notes[0].contains("11211"));
    }

    #[test]
    fn what_is_not_understood_is_named_with_the_nearest() {
        for (line, words) in [
            ("--test-tme=3", "--test-time"),
            ("--cluster-mode", "Redis"),
            ("--key-m=3", "--key-minimum or --key-maximum or --key-median"),
            ("-q", "-q"),
            ("--ratio=one", "`one`"),
            ("--ratio", "needs a value"),
            ("--hide-histogram=yes", "takes no value"),
            ("-P redis", "memcache_text"),
            ("--key-pattern=X:R", "`X`"),
            ("--key-maximum=3 --key-minimum=5", "below"),
            ("-n 5 --test-time=3", "exclude"),
            ("-c 0", "connections"),
            ("benchmark", "`benchmark`"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    #[test]
    fn what_is_done_otherwise_is_noted() {
        for (line, words) in [
            ("-4 -p 1", "--ipv4 is not followed"),
            ("--ipv6 -p 1", "--ipv6 is not followed"),
            ("-p 1 --key-pattern=R:Z --key-minimum=1000000 --key-maximum=2000000", "from --key-minimum"),
            ("-p 1 --key-pattern=Z:R --key-minimum=2", "from --key-minimum"),
        ] {
            let notes = read(line).unwrap().notes;
            assert!(matches!(&notes[..], [note] if note.contains(words)), "{line}: {notes:?}");
        }
        for line in ["-p 1 --key-pattern=Z:Z --key-minimum=1", "-p 1 --key-pattern=R:R --key-minimum=9"] {
            assert!(read(line).unwrap().notes.is_empty(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_the_reader_panic(line in "(-{0,2}[a-z-]{0,12}[= ]?[0-9:RSx-]{0,6} ?){0,4}") {
            let _ = read(&line);
        }

        #[test]
        fn a_letter_changed_is_one_step_away(name in "[a-z]{1,12}", place: prop::sample::Index) {
            let mut other: Vec<u8> = name.clone().into_bytes();
            let place = place.index(other.len());
            other[place] = b'-';
            prop_assert_eq!(distance(&name, std::str::from_utf8(&other).unwrap()), 1);
            prop_assert_eq!(distance(&name, &name), 0);
        }
    }
}
