//! Queues divided into shards: this broker serves its part of them, and all clients.
//!
//! ```text
//! clients ──▶ front ──▶ owners of the shards, here or in other brokers
//!                          ▲
//! every 100 ms: who is there, who owns what ──▶ take a shard, or hand one over
//! ```

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use krarup_broker::engine::{self, Ended, Ending, Notice, Part, Protocol, Store};
use krarup_broker::front::{self, Front};
use krarup_broker::postgres::members::{Member, Step};
use krarup_broker::postgres::{Owned, Place, Problem};
use krarup_broker::shards::{Owners, Shard};
use krarup_broker::{Broker, broker};
use krarup_net::mio::{Events, Poll, Token};
use krarup_net::signal::Signals;
use krarup_net::{Address, Clock};
use krarup_record::{Recorder, recorder};
use krarup_units::Nanos;

use super::{BrokerArgs, Mode, about, ending, load, place, secret, tell, wrong};
use crate::failure::Failure;

const STOP: Token = Token(1);
const RELOAD: Token = Token(2);
/// How often it is looked who is there.
const LOOK: Duration = Duration::from_millis(100);
/// How soon a shard that could not be served is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// A shard that this broker serves, or is about to.
struct Serving {
    shard: u32,
    ending: Arc<Ending>,
    thread: JoinHandle<Result<Option<Box<Ended>>, String>>,
}

/// What every shard's engine is made from.
struct Plan {
    args: Arc<BrokerArgs>,
    place: Place,
    member: i64,
    clock: Clock,
    largest: u32,
    secret: Option<String>,
}

pub(super) fn run(args: &BrokerArgs, url: Option<&str>, clock: &Clock, largest: u32) -> Result<(), Failure> {
    let Some(url) = url.filter(|_| args.mode == Mode::Owned) else {
        return Err(Failure::usage("--shards divides queues that are owned, over a database")
            .hint("add --store postgres://…, and leave --mode out"));
    };
    let not_yet = [
        ("--tls-certificate", args.tls_certificate.is_some()),
        ("--rows", args.rows.is_some()),
        ("--stats-dir", args.stats_dir.is_some()),
        ("a unix socket", args.listen.file().is_some()),
    ];
    if let Some((what, _)) = not_yet.iter().find(|(_, there)| *there) {
        return Err(Failure::usage(format!("--shards does not go with {what}"))
            .hint("leave it out, or serve all queues by one broker"));
    }
    let place = place(url)?;
    let waits = || eprintln!("waiting: the queues are not divided into {} shards yet", args.shards);
    let mut member = Member::begin(place.clone(), args.shards, waits).map_err(|problem| wrong(&problem))?;
    let owners = Arc::new(Owners::unknown(args.shards));
    let secret = args.secret.as_deref().map(secret).transpose()?;
    let settings =
        front::Settings { largest, secret: secret.clone(), connections: args.connections as usize };
    let mut fronts = Vec::new();
    let doors =
        [(Some(&args.listen), Protocol::Beanstalkd), (args.memcached_listen.as_ref(), Protocol::Memcached)];
    for (address, protocol) in doors {
        let Some(address) = address else { continue };
        let front = Front::begin(address, protocol, settings.clone(), Arc::clone(&owners))
            .map_err(|why| Failure::usage(why).hint("choose another address"))?;
        fronts.push((front, protocol));
    }
    let (mut poll, mut signals) = hear().map_err(|why| Failure::run(why.to_string()))?;
    for (front, protocol) in &fronts {
        let address = front.address.to_string().parse().map_err(Failure::run)?;
        let open = Notice::Open(Address::clone(&address));
        if !address.is_local() {
            tell(open, secret.is_some());
        }
        tell(Notice::Listening(address, *protocol), false);
    }
    let number = member.number();
    let plan = Plan { args: Arc::new(args.clone()), place, member: number, clock: *clock, largest, secret };
    let mut serving: Vec<Serving> = Vec::new();
    let ended = share(&mut member, &plan, &owners, &mut serving, || {
        let mut events = Events::with_capacity(16);
        // Interrupted, at worst: then it is looked a little earlier.
        let _ = poll.poll(&mut events, Some(LOOK));
        signals.stops() > 0
    });
    tell(Notice::Stopping, false);
    let patience = Duration::from_secs_f64(args.patience);
    let unfinished: usize = fronts.into_iter().map(|(front, _)| front.end(patience)).sum();
    if unfinished > 0 {
        eprintln!("warning: {unfinished} clients did not have their answers within the limit");
    }
    serving.iter().for_each(|one| one.ending.ask());
    for one in serving {
        report(one.shard, one.thread);
    }
    ended
}

fn hear() -> std::io::Result<(Poll, Signals)> {
    let poll = Poll::new()?;
    let signals = Signals::register(poll.registry(), STOP, RELOAD)?;
    Ok((poll, signals))
}

/// Takes shards and hands them over, until a stop is asked for.
fn share(
    member: &mut Member,
    plan: &Plan,
    owners: &Arc<Owners>,
    serving: &mut Vec<Serving>,
    mut stops: impl FnMut() -> bool,
) -> Result<(), Failure> {
    let mut lost = false;
    let mut not_before = vec![Instant::now(); plan.args.shards as usize];
    loop {
        for place in (0..serving.len()).rev() {
            if serving[place].thread.is_finished() {
                let one = serving.swap_remove(place);
                not_before[one.shard as usize] = Instant::now() + AGAIN;
                if report(one.shard, one.thread) {
                    not_before[one.shard as usize] = Instant::now();
                }
            }
        }
        match member.look() {
            Ok(seen) => {
                if std::mem::take(&mut lost) {
                    tell(Notice::Back, false);
                }
                seen.shards.iter().for_each(|one| owners.set(one.shard, one.owner.clone()));
                loop {
                    let mine: Vec<u32> =
                        serving.iter().filter(|one| !one.ending.is_asked()).map(|one| one.shard).collect();
                    let ends = serving.iter().any(|one| one.ending.is_asked());
                    match seen.step(plan.member, &mine) {
                        Some(Step::Take(shard))
                            if not_before[shard as usize] <= Instant::now()
                                && !serving.iter().any(|one| one.shard == shard) =>
                        {
                            serving.push(begin(plan, shard).map_err(Failure::run)?);
                        }
                        Some(Step::Give(shard)) if !ends => {
                            eprintln!("shard {shard}: handed over");
                            serving.iter().filter(|one| one.shard == shard).for_each(|one| one.ending.ask());
                            break;
                        }
                        _ => break,
                    }
                }
            }
            Err(Problem::Deposed) => {
                return Err(Failure::run("the queues have been divided otherwise")
                    .hint("start all brokers of this database with the same --shards"));
            }
            Err(problem) if !std::mem::replace(&mut lost, true) => {
                tell(Notice::Lost(problem.to_string()), false);
            }
            Err(_) => {}
        }
        if stops() {
            return Ok(());
        }
    }
}

fn begin(plan: &Plan, shard: u32) -> Result<Serving, String> {
    let ending = Arc::new(Ending::default());
    let (args, place, secret) = (Arc::clone(&plan.args), plan.place.clone(), plan.secret.clone());
    let (member, clock, largest, its) = (plan.member, plan.clock, plan.largest, Arc::clone(&ending));
    let thread = thread::Builder::new()
        .name(format!("shard {shard}"))
        .spawn(move || {
            serve(
                &args,
                place,
                Shard { number: shard, of: args.shards },
                member,
                clock,
                (largest, secret),
                its,
            )
        })
        .map_err(|error| format!("no thread can be had: {error}"))?;
    Ok(Serving { shard, ending, thread })
}

/// Serves a shard until it is told to end, or somebody else owns it; none: somebody else did from the beginning.
fn serve(
    args: &BrokerArgs,
    place: Place,
    shard: Shard,
    member: i64,
    clock: Clock,
    (largest, secret): (u32, Option<String>),
    ending: Arc<Ending>,
) -> Result<Option<Box<Ended>>, String> {
    let told = |problem: Problem| problem.to_string();
    let Some(mut owned) = Owned::take_shard(place, shard, member).map_err(told)? else { return Ok(None) };
    let queues = load(args, &mut owned, &clock).map_err(told)?;
    let recorder = Recorder::new(recorder::Settings::default()).expect("the default settings are valid");
    let settings = broker::Settings {
        about: about(&clock, largest, Mode::Owned.name()),
        largest,
        secret,
        processor: krarup_net::cpu::process,
    };
    let broker = Broker::new(settings, queues, recorder);
    let host =
        args.advertise.as_ref().and_then(|address| Some(address.to_string().rsplit_once(':')?.0.to_owned()));
    let settings = engine::Settings {
        listen: beside(&args.listen, 0)?,
        advertise: None,
        memcached: args.memcached_listen.as_ref().map(|address| beside(address, 0)).transpose()?,
        tls: None,
        socket_mode: None,
        admin: args.admin.as_ref().map(|address| behind(address, shard.number)).transpose()?,
        connections: usize::MAX,
        patience: Nanos::from_seconds(args.patience),
        part: Some(Part { host, ending }),
    };
    let number = shard.number;
    let notice = |notice| match notice {
        // Clients connect elsewhere.
        Notice::Listening(..) | Notice::Open(_) | Notice::Stopping => {}
        Notice::Deposed => eprintln!("shard {number}: another broker has taken it over"),
        notice => tell(notice, true),
    };
    engine::run(settings, broker, Some(Store::Owned(owned)), clock, notice).map(|ended| Some(Box::new(ended)))
}

/// The same address with another port.
fn beside(address: &Address, port: u32) -> Result<Address, String> {
    let text = address.to_string();
    let host = text.rsplit_once(':').map_or(text.as_str(), |(host, _)| host);
    format!("{host}:{port}").parse()
}

/// The address whose port is as many higher as the shard's number says; where the system is to choose one, it does.
fn behind(address: &Address, shard: u32) -> Result<Address, String> {
    let text = address.to_string();
    let port: u32 = text.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(0);
    beside(address, if port == 0 { 0 } else { port + shard })
}

/// Tells how a shard ended here; whether it was served at all.
fn report(shard: u32, thread: JoinHandle<Result<Option<Box<Ended>>, String>>) -> bool {
    match thread.join() {
        Ok(Ok(Some(ended))) => {
            print!("shard {shard}: {}", ending::statistics(&ended));
            return true;
        }
        Ok(Ok(None)) => {}
        Ok(Err(why)) => eprintln!("warning: shard {shard} is not served here: {why}"),
        Err(_) => eprintln!("warning: shard {shard} is not served here: its thread has ended"),
    }
    false
}
