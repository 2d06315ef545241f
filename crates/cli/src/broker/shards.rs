//! Queues divided into shards: this broker serves its part of them, and all clients.
//!
//! ```text
//! clients ──▶ front ──▶ owners of the shards, here or in other brokers
//!                          ▲
//! every 100 ms: who is there, who owns what ──▶ take a shard, or hand one over
//! ```

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use krarup_broker::engine::{self, Ended, Ending, Notice, Part, Protocol, Store};
use krarup_broker::front::{self, Front};
use krarup_broker::postgres::members::{Member, Seen, Step};
use krarup_broker::postgres::{Owned, Place, Problem};
use krarup_broker::shards::{Owners, Shard};
use krarup_broker::{Broker, broker};
use krarup_net::mio::{Events, Poll, Token};
use krarup_net::signal::Signals;
use krarup_net::{Address, Clock, listen};
use krarup_record::file::rows::{Lane, RowWriter};
use krarup_record::{Recorder, file, recorder};
use krarup_units::Nanos;

use super::{BrokerArgs, Mode, about, ending, load, place, secret, tell, wrong};
use crate::failure::Failure;

const STOP: Token = Token(1);
const RELOAD: Token = Token(2);
/// How often it is looked who is there.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is looked whether everything has ended.
const GLANCE: Duration = Duration::from_millis(5);
/// How long the end of what is to end at once is waited for.
const LAST: Duration = Duration::from_secs(1);
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
    args: BrokerArgs,
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
    let run = file::Run { epoch_unix: clock.wall_epoch() };
    let rows = args.rows.as_ref().map(|path| RowWriter::create(path, run)).transpose();
    let rows =
        rows.map_err(|error| Failure::usage(error.to_string()).hint("choose another file with --rows"))?;
    let place = place(url)?;
    let waits = || eprintln!("waiting: the queues are not divided into {} shards yet", args.shards);
    let member = Member::begin(place.clone(), args.shards, waits).map_err(|problem| wrong(&problem))?;
    let owners = Arc::new(Owners::unknown(args.shards));
    let secret = args.secret.as_deref().map(secret).transpose()?;
    let settings = front::Settings {
        largest,
        secret: secret.clone(),
        connections: args.connections as usize,
        tls: args.acceptor()?,
    };
    let mut fronts = Vec::new();
    let mut inherited = listen::inherited().into_iter();
    let options = listen::Options { mode: args.socket_mode, share: false };
    let doors =
        [(Some(&args.listen), Protocol::Beanstalkd), (args.memcached_listen.as_ref(), Protocol::Memcached)];
    for (address, protocol) in doors {
        let Some(address) = address else { continue };
        let listener = match inherited.next() {
            Some(listener) => Ok(listener),
            None => listen::listen_with(address, options),
        };
        let front = listener
            .and_then(|door| Front::begin(door, protocol, settings.clone(), Arc::clone(&owners)))
            .map_err(|why| Failure::usage(why).hint("choose another address"))?;
        fronts.push((front, protocol));
    }
    let (mut poll, mut signals) = hear().map_err(|why| Failure::run(why.to_string()))?;
    let asks = args.secret.is_some() || args.tls_client_authorities.is_some();
    for (front, protocol) in &fronts {
        if !front.address.is_local() {
            tell(Notice::Open(front.address.clone()), asks);
        }
        tell(Notice::Listening(front.address.clone(), *protocol), false);
    }
    let number = member.number();
    let plan = Plan { args: args.clone(), place, member: number, clock: *clock, largest, secret };
    let plan = Arc::new(plan);
    if args.tls_certificate.is_some() && !among(args).is_local() {
        eprintln!(
            "warning: brokers speak to each other in plain text at {}, and ask there for the secret alone: keep those ports in a network of your own",
            among(args).host
        );
    }
    let all = Recorder::new(recorder::Settings::default()).expect("the default settings are valid");
    let mut records = Records { rows, all };
    let mut serving: Vec<Serving> = Vec::new();
    let mut lookout = Lookout::begin(member).map_err(Failure::run)?;
    let ended = share(&mut lookout, &plan, &owners, (&mut serving, &mut records), || {
        let mut events = Events::with_capacity(16);
        // Interrupted, at worst: then it is looked a little earlier.
        let _ = poll.poll(&mut events, Some(LOOK));
        signals.stops() > 0
    });
    tell(Notice::Stopping, false);
    let patience = Duration::from_secs_f64(args.patience);
    let mut stop = Stop { poll, signals, hurried: false };
    fronts.iter_mut().for_each(|(front, _)| front.close());
    let unfinished = || fronts.iter().map(|(front, _)| front.clients()).sum::<usize>();
    if !stop.waits_for(patience, || unfinished() == 0) {
        eprintln!("warning: {} clients did not have their answers within the limit", unfinished());
    }
    drop(fronts);
    serving.iter().for_each(|one| one.ending.ask());
    let have_ended = || serving.iter().all(|one| one.thread.is_finished());
    if !stop.waits_for(patience, have_ended) {
        serving.iter().for_each(|one| one.ending.hurry());
        stop.hurried = false;
        stop.waits_for(LAST, have_ended);
    }
    let mut complete = true;
    for one in serving {
        if one.thread.is_finished() {
            report(one.shard, one.thread, &mut records);
        } else {
            complete = false;
            eprintln!("warning: shard {} was given up: the database does not answer", one.shard);
        }
    }
    records.end(args, run, complete)?;
    ended
}

/// What is kept of the requests that the shards of this broker have carried out.
struct Records {
    rows: Option<RowWriter>,
    all: Recorder,
}

impl Records {
    fn end(self, args: &BrokerArgs, run: file::Run, complete: bool) -> Result<(), Failure> {
        if let (Some(writer), Some(path)) = (self.rows, &args.rows) {
            // A shard that was given up would be waited for.
            if complete {
                crate::rows::finish(writer, &path.display().to_string())?;
            } else {
                eprintln!("warning: the rows in {} are not complete", path.display());
            }
        }
        if let Some(folder) = &args.stats_dir {
            file::save_all(folder, &self.all, run)
                .map_err(|error| Failure::run(format!("the statistics cannot be written: {error}")))?;
            eprintln!("statistics in {}", folder.display());
        }
        Ok(())
    }
}

/// A stop under way. Who asks for it again does not want to wait.
struct Stop {
    poll: Poll,
    signals: Signals,
    hurried: bool,
}

impl Stop {
    /// Whether it is so within the time.
    fn waits_for(&mut self, most: Duration, mut is_so: impl FnMut() -> bool) -> bool {
        let end = Instant::now() + most;
        loop {
            if is_so() {
                return true;
            }
            self.hurried |= self.signals.stops() > 0;
            if self.hurried || Instant::now() >= end {
                return false;
            }
            // Interrupted, at worst: then it is looked a little earlier.
            let _ = self.poll.poll(&mut Events::with_capacity(16), Some(GLANCE));
        }
    }
}

fn hear() -> std::io::Result<(Poll, Signals)> {
    let poll = Poll::new()?;
    let signals = Signals::register(poll.registry(), STOP, RELOAD)?;
    Ok((poll, signals))
}

/// Looks who is there on a thread of its own: a database that does not answer keeps nobody from stopping.
struct Lookout {
    ask: Sender<()>,
    seen: Receiver<Result<Seen, Problem>>,
    /// Whether an answer is to come.
    asked: bool,
}

impl Lookout {
    fn begin(mut member: Member) -> Result<Self, String> {
        let (ask, asked) = mpsc::channel();
        let (tell, seen) = mpsc::channel();
        let look = move || while asked.recv().is_ok() && tell.send(member.look()).is_ok() {};
        let spawned = thread::Builder::new().name("members".into()).spawn(look);
        spawned.map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { ask, seen, asked: false })
    }

    /// Who is there now; none: the database does not answer in time, and what it says is heard next.
    fn look(&mut self) -> Option<Result<Seen, Problem>> {
        if !std::mem::replace(&mut self.asked, true) {
            self.ask.send(()).ok()?;
        }
        let seen = self.seen.recv_timeout(LOOK).ok()?;
        self.asked = false;
        Some(seen)
    }
}

/// Takes shards and hands them over, until a stop is asked for.
fn share(
    lookout: &mut Lookout,
    plan: &Arc<Plan>,
    owners: &Arc<Owners>,
    (serving, records): (&mut Vec<Serving>, &mut Records),
    mut stops: impl FnMut() -> bool,
) -> Result<(), Failure> {
    let mut lost = false;
    let mut not_before = vec![Instant::now(); plan.args.shards as usize];
    loop {
        for place in (0..serving.len()).rev() {
            if serving[place].thread.is_finished() {
                let one = serving.swap_remove(place);
                not_before[one.shard as usize] = Instant::now() + AGAIN;
                if report(one.shard, one.thread, records) {
                    not_before[one.shard as usize] = Instant::now();
                }
            }
        }
        match lookout.look() {
            None => {}
            Some(Ok(seen)) => {
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
                            let rows = records.rows.as_ref().map(RowWriter::lane);
                            serving.push(begin(plan, shard, rows).map_err(Failure::run)?);
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
            Some(Err(Problem::Deposed)) => {
                return Err(Failure::run("the queues have been divided otherwise")
                    .hint("start all brokers of this database with the same --shards"));
            }
            Some(Err(problem)) if !std::mem::replace(&mut lost, true) => {
                tell(Notice::Lost(problem.to_string()), false);
            }
            Some(Err(_)) => {}
        }
        if stops() {
            return Ok(());
        }
    }
}

fn begin(plan: &Arc<Plan>, shard: u32, rows: Option<Lane>) -> Result<Serving, String> {
    let ending = Arc::new(Ending::default());
    let (its_plan, its) = (Arc::clone(plan), Arc::clone(&ending));
    let thread = thread::Builder::new()
        .name(format!("shard {shard}"))
        .spawn(move || serve(&its_plan, Shard { number: shard, of: its_plan.args.shards }, rows, its))
        .map_err(|error| format!("no thread can be had: {error}"))?;
    Ok(Serving { shard, ending, thread })
}

/// Serves a shard until it is told to end, or somebody else owns it; none: somebody else did from the beginning.
fn serve(
    plan: &Plan,
    shard: Shard,
    rows: Option<Lane>,
    ending: Arc<Ending>,
) -> Result<Option<Box<Ended>>, String> {
    let Plan { args, place, member, clock, largest, secret } = plan;
    let told = |problem: Problem| problem.to_string();
    let Some(mut owned) = Owned::take_shard(place.clone(), shard, *member).map_err(told)? else {
        return Ok(None);
    };
    let queues = load(args, &mut owned, clock).map_err(told)?;
    let recorder = Recorder::new(recorder::Settings::default()).expect("the default settings are valid");
    let settings = broker::Settings {
        about: about(clock, *largest, Mode::Owned.name()),
        largest: *largest,
        secret: secret.clone(),
        processor: krarup_net::cpu::process,
    };
    let mut broker = Broker::new(settings, queues, recorder);
    if let Some(rows) = rows {
        broker.keep_rows(rows);
    }
    let host =
        args.advertise.as_ref().and_then(|address| Some(address.to_string().rsplit_once(':')?.0.to_owned()));
    let settings = engine::Settings {
        listen: among(args),
        advertise: None,
        // Others may have clients of that protocol where this broker has none.
        memcached: Some(among(args)),
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
    engine::run(settings, broker, Some(Store::Owned(owned)), *clock, notice)
        .map(|ended| Some(Box::new(ended)))
}

/// Where other brokers reach the shards of this one, at ports that the system chooses: at the address of `--listen`; where that is a file, at
/// the one that others are told, or on this machine alone.
fn among(args: &BrokerArgs) -> Address {
    let told = args.advertise.iter().filter(|address| address.file().is_none());
    let named = Some(&args.listen).filter(|address| address.file().is_none()).into_iter().chain(told).next();
    let host = named.map_or_else(|| "127.0.0.1".to_owned(), |address| address.host.clone());
    Address { host, port: 0 }
}

/// The address whose port is as many higher as the shard's number says; where the system is to choose one, it does.
fn behind(address: &Address, shard: u32) -> Result<Address, String> {
    let port = if address.port == 0 { Some(0) } else { address.port.checked_add(shard as u16) };
    let port = port.ok_or_else(|| format!("there is no port {shard} above that of {address}"))?;
    Ok(Address { host: address.host.clone(), port })
}

/// Tells how a shard ended here; whether it was served at all.
fn report(shard: u32, thread: JoinHandle<Result<Option<Box<Ended>>, String>>, records: &mut Records) -> bool {
    match thread.join() {
        Ok(Ok(Some(mut ended))) => {
            ended.broker.end_rows();
            records.all.merge(ended.broker.recorder()).expect("all record alike");
            print!("shard {shard}: {}", ending::statistics(&ended));
            return true;
        }
        Ok(Ok(None)) => {}
        Ok(Err(why)) => eprintln!("warning: shard {shard} is not served here: {why}"),
        Err(_) => eprintln!("warning: shard {shard} is not served here: its thread has ended"),
    }
    false
}
