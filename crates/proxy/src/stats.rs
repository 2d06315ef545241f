//! What `stats` answers, in memcached's form: the same names where they mean the same, our own
//! where it has none.

use krarup_memcache::{ReplyClass, write};
use krarup_model::hot_keys::{HotKey, PoolHotKeys};
use krarup_record::Operation;
use krarup_service::Service as _;
use krarup_units::{Nanos, Stamp};

use crate::core::Core;
use crate::dispatch::Workers;
use crate::edge::Dangerous;
use crate::ids::ServerId;
use crate::live::KeyState;

/// The answer to `stats argument`.
pub fn answer(core: &Core, argument: &[u8], now: Stamp) -> (ReplyClass, Vec<u8>) {
    let mut out = Vec::with_capacity(4_096);
    match argument {
        b"" => general(core, now, &mut out),
        b"servers" => servers(core, &mut out),
        b"pools" => pools(core, &mut out),
        b"routes" => routes(core, &mut out),
        b"slow" => slow(core, &mut out),
        b"hotkeys" => hot_keys(core, now, &mut out),
        b"settings" => settings(core, &mut out),
        // What a proxy has none of; who collects statistics asks for it all the same.
        b"items" | b"slabs" | b"sizes" | b"conns" => {}
        _ => return (ReplyClass::Error, krarup_memcache::request::ERROR.to_vec()),
    }
    out.extend_from_slice(b"END\r\n");
    (ReplyClass::Stats, out)
}

fn general(core: &Core, now: Stamp, out: &mut Vec<u8>) {
    let mut stat = |name: &str, value: &dyn ToString| write::stat(out, name, &value.to_string());
    let recorder = core.recorder();
    let events = core.events();
    let all = recorder.overall();
    let sum = |operations: &[Operation], part: fn(&krarup_record::VisitTally) -> u64| {
        operations.iter().map(|&operation| part(&recorder.total(operation))).sum::<u64>()
    };
    let stores = [
        Operation::Set,
        Operation::Add,
        Operation::Replace,
        Operation::Append,
        Operation::Prepend,
        Operation::Cas,
    ];
    let uptime = (now - core.started()).0 / 1_000_000_000;
    stat("pid", &std::process::id());
    // Behind one address may be several proxies, which containers all give the same pid.
    stat("id", &format_args!("{:016x}", core.settings().run_id));
    stat("uptime", &uptime);
    // As memcached's: seconds since the start, so that it never goes back.
    stat("time", &(core.settings().unix + uptime));
    stat("version", &core.version_text().unwrap_or_else(|| "unknown".to_owned()));
    stat("pointer_size", &usize::BITS);
    stat("curr_connections", &core.clients());
    stat("total_connections", &events.clients_accepted);
    stat("rejected_connections", &events.clients_refused);
    stat("cmd_get", &sum(&[Operation::Get, Operation::MultiGet, Operation::Gat], |tally| tally.keys));
    stat("cmd_set", &sum(&stores, |tally| tally.count));
    stat("cmd_flush", &sum(&[Operation::Flush], |tally| tally.count));
    stat("cmd_touch", &sum(&[Operation::Touch, Operation::Gat], |tally| tally.keys));
    stat("get_hits", &all.hits);
    stat("get_misses", &all.misses);
    stat("bytes_read", &all.bytes_in);
    stat("bytes_written", &all.bytes_out);
    stat("threads", &core.loops());
    stat("requests", &events.requests);
    stat("requests_in_progress", &core.in_progress());
    stat("request_errors", &all.errors);
    stat("disagreements", &events.disagreements);
    match core.settings().workers {
        Workers::Unlimited => stat("workers", &"unlimited"),
        Workers::Limited(workers) => stat("workers", &workers),
    }
    stat("workers_busy", &core.dispatch().busy());
    stat("queue_length", &core.dispatch().waiting());
    stat("queue_length_max", &core.dispatch().longest());
    for (name, time) in [
        ("queue_time_us_mean", all.queue_time),
        ("server_time_us_mean", all.server_time),
        ("own_time_us_mean", all.own_time),
        ("response_time_us_mean", all.response_time),
    ] {
        stat(name, &mean_micros(time, all.count));
    }
    let servers = || core.upstreams().servers().iter().filter(|server| !server.is_retired());
    stat("servers", &servers().count());
    stat("servers_up", &servers().filter(|server| server.is_up()).count());
    stat("server_losses", &events.server_losses);
    stat("desynchronised", &events.desynchronised);
    stat("timeouts", &events.timeouts);
    if !core.dispatch().is_of_threads() {
        stat("held_back", &events.held_back);
    }
    stat("ejections", &events.ejections);
    stat("disordered_stamps", &recorder.disordered());
}

/// What holds now, under memcached's names where it has them.
fn settings(core: &Core, out: &mut Vec<u8>) {
    let mut stat = |name: &str, value: &dyn ToString| write::stat(out, name, &value.to_string());
    let settings = core.settings();
    let micros = |length: Nanos| length.0 / 1_000;
    stat("item_size_max", &settings.limits.value);
    stat("num_threads", &core.loops());
    stat("flush_enabled", &if settings.refused.contains(&Dangerous::FlushAll) { "no" } else { "yes" });
    match settings.workers {
        Workers::Unlimited => stat("workers", &"unlimited"),
        Workers::Limited(workers) => stat("workers", &workers),
    }
    stat("queue", &settings.queue);
    stat("pipeline", &settings.pipeline);
    stat("reply_buffer", &settings.reply_buffer);
    stat("timeout_us", &micros(settings.timeout));
    stat("reconnect_after_us", &micros(settings.reconnect_after));
    stat("reconnect_at_most_us", &micros(settings.reconnect_at_most));
    stat("eject_after", &settings.eject_after.map_or("never".to_owned(), |failures| failures.to_string()));
    stat("eject_for_us", &micros(settings.eject_for));
    stat("return_over_us", &micros(settings.return_over));
    stat("slow_requests", &settings.slow_requests);
    stat("server_connections", &settings.server_connections);
    stat("dedicated", &if settings.dedicated { "yes" } else { "no" });
}

fn servers(core: &Core, out: &mut Vec<u8>) {
    // What threads have under way at which server, their own cores alone know.
    let of_threads = core.dispatch().is_of_threads();
    for (number, server) in
        core.upstreams().servers().iter().enumerate().filter(|(_, server)| !server.is_retired())
    {
        let mut stat = |name: &str, value: &dyn ToString| {
            write::stat(out, &format!("{number}:{name}"), &value.to_string());
        };
        let totals = core.recorder().server(number);
        stat("name", &server.name());
        stat("up", &u8::from(server.is_up()));
        stat("version", &server.version().unwrap_or("unknown"));
        stat("requests", &totals.map_or(0, |totals| totals.requests));
        stat("errors", &totals.map_or(0, |totals| totals.errors));
        if !of_threads {
            stat("outstanding", &core.upstreams().outstanding(ServerId::new(number)));
            stat("answered_since_up", &server.answered_since_up());
        }
        stat("losses", &server.losses());
        let mean = totals.and_then(|totals| totals.time.mean()).map_or(0.0, |mean| mean * 1e6);
        stat("time_us_mean", &format!("{mean:.1}"));
        let p99 = totals.and_then(|totals| totals.time.quantile(0.99)).unwrap_or(Nanos::ZERO);
        stat("time_us_p99", &(p99.0 / 1_000));
        let of_pool = |pool| core.dispatch().readers().of(pool, ServerId::new(number));
        let living = core.routing().ids().filter(|&pool| !core.routing()[pool].is_retired());
        // It may be in several pools.
        let of_all =
            living.filter_map(of_pool).reduce(|all, one| (all.0 + one.0, all.1 + one.1, all.2.max(one.2)));
        if let Some((busy, waiting, longest)) = of_all.filter(|_| !of_threads) {
            stat("readers_busy", &busy);
            stat("read_queue_length", &waiting);
            stat("read_queue_length_max", &longest);
        }
    }
}

/// The pools, what they were told to be and what they have done.
fn pools(core: &Core, out: &mut Vec<u8>) {
    for pool in core.pools().iter().filter(|pool| !pool.is_retired()) {
        let spec = pool.spec();
        let mut stat = |name: &str, value: &dyn ToString| {
            write::stat(out, &format!("{}:{name}", spec.name), &value.to_string());
        };
        let up = pool.servers().iter().filter(|&&server| core.upstreams().is_up(server)).count();
        stat("servers", &spec.servers.len());
        stat("servers_up", &up);
        stat("replicas", &spec.copies);
        if !core.dispatch().is_of_threads() {
            stat("requests_in_progress", &pool.busy());
        }
        for (name, count) in pool.counts().named() {
            stat(name, &count);
        }
    }
}

/// The slowest requests of the last seconds in which there were any, named by the second since the
/// start and their rank.
fn slow(core: &Core, out: &mut Vec<u8>) {
    for (start, window) in core.slowest().windows() {
        let second = (start.0.saturating_sub(core.started().0)) / 1_000_000_000;
        for (rank, slow) in window.iter().enumerate() {
            let line = slow.line(&core.pools()[slow.pool].spec().name, |server| {
                core.upstreams().servers()[server].name().to_owned()
            });
            write::stat(out, &format!("{second}:{}", rank + 1), &line);
        }
    }
}

/// The keys that take most of each pool, by server time and by bytes, named by the list and their
/// rank in it.
fn hot_keys(core: &Core, now: Stamp, out: &mut Vec<u8>) {
    let answer = KeyState::of(core, now).hottest();
    write::stat(out, "hot_keys", &answer.keys);
    write::stat(out, "covers_s", &format!("{:.1}", answer.covers_s));
    for PoolHotKeys { pool, requests_per_s, samples, one_of, by_time, by_bytes, .. } in &answer.pools {
        let mut stat = |name: &str, value: &str| write::stat(out, &format!("{pool}:{name}"), value);
        stat("requests_per_s", &format!("{requests_per_s:.1}"));
        stat("samples", &samples.to_string());
        stat("one_of", &format!("{one_of:.1}"));
        for (list, keys) in [("time", by_time), ("bytes", by_bytes)] {
            for (rank, key) in keys.iter().enumerate() {
                stat(&format!("{list}:{}", rank + 1), &hot_key_line(key));
            }
        }
    }
}

/// One line: shares as numbers from 0 to 1; what is not known is left out.
fn hot_key_line(key: &HotKey) -> String {
    let share = &key.share;
    let mut line = format!(
        "key={} share={:.4} low={:.4} high={:.4} requests_per_s={:.1} reads={:.3} time={:.4} bytes={:.4}",
        key.key, share.mean, share.low, share.high, key.requests_per_s, key.reads, key.time, key.bytes,
    );
    if let Some(server) = &key.server {
        line += &format!(" server={server}");
    }
    let shares = [
        ("of_server", key.of_server),
        ("coalescing_saves", key.coalescing_saves),
        ("copy_saves", key.copy_saves),
    ];
    for (name, share) in shares.into_iter().filter_map(|(name, share)| Some((name, share?))) {
        line += &format!(" {name}={share:.4}");
    }
    if let Some(name) = &key.name {
        line += &format!(" name=\"{name}\"");
    }
    line
}

/// Which keys belong to which pool; what matches no prefix belongs to the pool of the address its
/// client connected to.
fn routes(core: &Core, out: &mut Vec<u8>) {
    for route in core.routes().iter() {
        let pool = &core.pools()[route.pool].spec().name;
        let key = if route.strip { "" } else { &*String::from_utf8_lossy(&route.prefix) };
        let sent = format!("{pool} as {}{key}...", String::from_utf8_lossy(&route.add));
        write::stat(out, &String::from_utf8_lossy(&route.prefix), &sent);
    }
}

fn mean_micros(sum: Nanos, count: u64) -> String {
    format!("{:.1}", sum.0 as f64 / 1e3 / count.max(1) as f64)
}

/// What one server did, for the statistics at the end.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct ServerStatistics {
    /// `host:port`, as configured.
    pub name: String,
    /// Its own words for its version; none if it was never up.
    pub version: Option<String>,
    /// Requests, or parts of them, sent to it.
    pub requests: u64,
    /// Those that it did not answer as its protocol says.
    pub errors: u64,
    /// Those it answered on the connection that stands now.
    pub answered_since_up: u64,
    /// Connections lost and attempts failed.
    pub losses: u64,
    /// Why, the last time.
    pub last_loss: Option<String>,
    /// Mean time from sent to answered, in seconds.
    pub mean: Option<f64>,
    /// The 99th percentile of the same, in seconds.
    pub p99: Option<f64>,
}

/// What the servers did.
pub fn of_servers(core: &Core) -> Vec<ServerStatistics> {
    let statistics = |(number, server): (usize, &crate::upstreams::Server)| {
        let totals = core.recorder().server(number);
        ServerStatistics {
            name: server.name().to_owned(),
            version: server.version().map(str::to_owned),
            requests: totals.map_or(0, |totals| totals.requests),
            errors: totals.map_or(0, |totals| totals.errors),
            answered_since_up: server.answered_since_up(),
            losses: server.losses(),
            last_loss: server.last_loss().map(str::to_owned),
            mean: totals.and_then(|totals| totals.time.mean()),
            p99: totals.and_then(|totals| totals.time.quantile(0.99)).map(Nanos::as_seconds),
        }
    };
    core.upstreams().servers().iter().enumerate().map(statistics).collect()
}

#[cfg(test)]
mod tests {
    use krarup_record::{Recorder, RecorderSettings as RecordSettings};

    use super::*;
    use crate::config::Config;

    fn asked(config: &str, argument: &str) -> (ReplyClass, String) {
        let config = Config::parse(config, "f.toml").unwrap();
        let recorder = Recorder::new(RecordSettings::default()).unwrap();
        let core = Core::new(config.settings(), config.topology().unwrap(), recorder, Stamp(0));
        let (class, bytes) = answer(&core, argument.as_bytes(), Stamp(0));
        (class, String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn settings_are_those_of_the_configuration() {
        let (class, text) =
            asked("servers = [\"a:1\"]\nworkers = 7\ntimeout = \"2ms\"\nmax_value = 5000", "settings");
        assert_eq!(class, ReplyClass::Stats);
        for line in
            ["workers 7", "timeout_us 2000", "item_size_max 5000", "flush_enabled no", "eject_after never"]
        {
            assert!(text.contains(&format!("STAT {line}\r\n")), "{line}: {text}");
        }
        assert!(text.ends_with("END\r\n"));
    }

    /// Generators find out by it which clocks differ.
    #[test]
    fn the_time_is_that_of_the_start_and_what_has_passed() {
        let mut settings = Config::parse("servers = [\"a:1\"]", "f.toml").unwrap().settings();
        (settings.unix, settings.run_id) = (1_700_000_000, 0xab);
        let topology = Config::parse("servers = [\"a:1\"]", "f.toml").unwrap().topology().unwrap();
        let core = Core::new(settings, topology, Recorder::new(RecordSettings::default()).unwrap(), Stamp(5));
        let told = |now| String::from_utf8(answer(&core, b"", Stamp(now)).1).unwrap();
        let (before, after) = (told(7_000_000_004), told(7_000_000_005));
        assert!(before.contains("STAT uptime 6\r\nSTAT time 1700000006\r\n"), "{before}");
        assert!(
            after.contains("STAT id 00000000000000ab\r\nSTAT uptime 7\r\nSTAT time 1700000007\r\n"),
            "{after}"
        );
    }

    #[test]
    fn what_a_proxy_has_none_of_is_empty_and_what_is_not_known_is_an_error() {
        for argument in ["items", "slabs", "sizes", "conns"] {
            assert_eq!(asked("servers = [\"a:1\"]", argument), (ReplyClass::Stats, "END\r\n".to_owned()));
        }
        assert_eq!(asked("servers = [\"a:1\"]", "weather").0, ReplyClass::Error);
    }
}
