//! Queues divided into shards: this broker serves its part of them, and all clients.
//!
//! ```text
//! clients ──▶ front ──▶ owners of the shards, here or in other brokers
//!                          ▲
//! every 100 ms: who is there, who owns what ──▶ take a shard, or hand one over
//! ```

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use krarup_beanstalk::ReplyWord;
use krarup_broker::shards::Shard;
use krarup_broker::{Broker, broker};
use krarup_net::tls::Acceptor;
use krarup_net::{Clock, listen};
use krarup_record::file::rows::Lane;
use krarup_serve::broker::MessageStore;
use krarup_serve::broker::engine::{self, BrokerEnd, BrokerNotice, Ending, Protocol, ServedShard};
use krarup_serve::broker::front::{self, Front};
use krarup_serve::{AdminAddress, ClientLimits};
use krarup_store::backoff::Backoff;
use krarup_store::owners::Owners;
use krarup_store::postgres::members::{MemberStep, MembersView, ShardMember};
use krarup_store::postgres::{Database, Owned, StoreError};
use krarup_units::Nanos;
use krarup_units::{Address, Mistake};

use super::args::{BrokerArgs, Mode};
use super::base::{Base, about, load, tell, tell_admin};
use super::ending;
use super::records::{BrokerRecords, recorder};
use super::signals::{Follows, ProcessSignals};
use super::waiting::{self, Reached};
use crate::failure::Failure;
use crate::limits::limits;

/// How often it is looked who is there.
const LOOK: Duration = Duration::from_millis(100);
/// Looks without an answer, one after the other, after which the database is silent: for each it is
/// waited twice as long, in the look and before the next.
const MOST_MISSED: u32 = 50;
/// How often it is looked whether everything has ended.
const GLANCE: Duration = Duration::from_millis(5);
/// How long the end of what is to end at once is waited for.
const LAST: Duration = Duration::from_secs(1);
/// How soon a shard that could not be served is tried again, at first and at most; the time doubles
/// in between.
const AGAIN: Duration = Duration::from_millis(200);
const AGAIN_AT_MOST: Duration = Duration::from_secs(5);

/// How a shard ended here; none: another broker owned it from the beginning.
type ShardEnd = Result<Option<Box<BrokerEnd>>, Mistake>;
/// What a shard's thread does.
type ShardBody = Box<dyn FnOnce() -> ShardEnd + Send>;
/// Begins a thread of that name.
type Spawn = fn(String, ShardBody) -> io::Result<JoinHandle<ShardEnd>>;

/// A shard that this broker serves, or is about to.
struct Serving {
    shard: u32,
    ending: Arc<Ending>,
    thread: JoinHandle<ShardEnd>,
}

/// When a shard may be taken again.
struct Retry {
    not_before: Instant,
    pauses: Backoff,
    /// Why it could not be served, as was told; none: it could since.
    reported: Option<Mistake>,
}

impl Retry {
    /// After this time, and without a failure before.
    fn after(pause: Duration) -> Self {
        Self {
            not_before: Instant::now() + pause,
            pauses: Backoff::new(AGAIN, AGAIN_AT_MOST),
            reported: None,
        }
    }

    /// It could not be served: each time it waits longer.
    fn failed(&mut self) {
        self.not_before = Instant::now() + self.pauses.pause();
    }
}

/// What every shard's engine is made from.
struct Plan {
    args: BrokerArgs,
    place: Database,
    member: i64,
    clock: Clock,
    largest: u32,
    secret: Option<String>,
    /// Greets the clients of the fronts.
    tls: Option<Acceptor>,
    admins: Arc<[OnceLock<AdminAddress>]>,
    spawn: Spawn,
}

pub(super) fn run(args: &BrokerArgs, place: Option<&Database>, base: &Base) -> Result<(), Failure> {
    if args.edge.said().any(|(row, _)| row.key == "memory") {
        return Err(Failure::usage("--buffer-memory is not held with --shards: each client has a thread")
            .hint("leave it out; --connections says how many clients may be connected at once"));
    }
    let doors = [Some(&args.listen), args.memcached_listen.as_ref()].into_iter().flatten();
    if let Some(asked) = passed_by(args, doors.clone()) {
        return Err(Failure::usage(format!(
            "with --shards, brokers ask each other for --secret alone: without it {asked} can be passed by"
        ))
        .hint("add --secret FILE"));
    }
    let Some(place) = place.filter(|_| args.mode == Mode::Owned) else {
        return Err(Failure::usage("--shards divides queues that are owned, over a database")
            .hint("add --store postgres://…, and leave --mode out"));
    };
    let mut records = BrokerRecords::begin(args, Some(place), &base.clock)?;
    let admins: Arc<[OnceLock<AdminAddress>]> = (0..args.shards).map(|_| OnceLock::new()).collect();
    let clients: Vec<u16> = doors.map(|door| door.port).collect();
    for shard in 0..args.shards {
        let door = args.admin.as_ref().map(|address| behind(address, shard));
        // One whose port is taken is tried again, and told of, when it is served here.
        if door.is_some_and(|door| door.is_ok_and(|door| door.port == 0 || !clients.contains(&door.port))) {
            let _ = admin_of(args, &admins, shard, base.tls.as_ref());
        }
    }
    let outcome = take_turns(args, place, (base, &admins), &mut records);
    // Also where it was asked to stop while it waited for another turn.
    base.signals.last_steps();
    records.end(outcome)
}

/// Serves whenever the queues are divided into so many shards, until a stop is asked for.
fn take_turns(
    args: &BrokerArgs,
    place: &Database,
    (base, admins): (&Base, &Arc<[OnceLock<AdminAddress>]>),
    records: &mut BrokerRecords,
) -> Result<(), Failure> {
    let (mut args, mut reached) = (args.clone(), Reached::Never);
    while let Some(member) = begin_to_share(&args, place, base, reached)? {
        reached = Reached::Before;
        if turn(&mut args, place, member, (base, admins), records)? {
            break;
        }
    }
    Ok(())
}

/// What clients are asked for at these addresses and not at the ports between brokers; none:
/// nothing.
fn passed_by<'a>(args: &BrokerArgs, mut doors: impl Iterator<Item = &'a Address>) -> Option<&'static str> {
    if args.secret.is_some() {
        return None;
    }
    if args.tls.asks() {
        return Some("the certificates of clients");
    }
    let has_mode = args.edge.settings().socket_mode.is_some();
    (has_mode && doors.any(|door| door.file().is_some())).then_some("the permissions of the socket")
}

/// A part in the shards, as soon as the queues are divided into so many; none: a stop was asked for
/// first.
fn begin_to_share(
    args: &BrokerArgs,
    place: &Database,
    base: &Base,
    reached: Reached,
) -> Result<Option<ShardMember>, Failure> {
    let (shards, mut waiting) = (args.shards, false);
    waiting::turn(&base.signals, place, reached, base.tells(), move |place, there| {
        let waits = || {
            let why = format!("the queues are not divided into {shards} shards yet");
            there(&why);
            if !std::mem::replace(&mut waiting, true) {
                eprintln!("waiting: {why}");
            }
        };
        ShardMember::begin(place.clone(), shards, waits)
    })
}

/// Serves clients and shards until a stop is asked for or the queues are divided otherwise: whether
/// it is the first.
fn turn(
    args: &mut BrokerArgs,
    place: &Database,
    member: ShardMember,
    (base, admins): (&Base, &Arc<[OnceLock<AdminAddress>]>),
    records: &mut BrokerRecords,
) -> Result<bool, Failure> {
    let owners = Arc::new(Owners::unknown(args.shards));
    let mut fronts = open(args, base, &owners)?;
    let plan = Arc::new(Plan {
        args: args.clone(),
        place: place.clone(),
        member: member.number(),
        clock: base.clock,
        largest: base.largest,
        secret: base.secret.clone(),
        tls: base.tls.clone(),
        admins: Arc::clone(admins),
        spawn: |name, body| thread::Builder::new().name(name).spawn(body),
    });
    warn_of_plain_text(args);
    let mut serving: Vec<Serving> = Vec::new();
    let mut lookout = Lookout::begin(member).map_err(Failure::run)?;
    let ended = share(&mut lookout, &plan, &owners, (&mut serving, records), &base.signals);
    takes_clients(admins, false);
    match ended {
        Ok(End::Otherwise) => eprintln!(
            "warning: the queues have been divided otherwise; this broker waits until they are divided into {} shards again",
            args.shards
        ),
        _ => tell(BrokerNotice::Stopping, false),
    }
    let end = Instant::now() + Duration::from_secs_f64(args.shutdown_limit);
    // One request to stop began it, or hurries nothing.
    let mut stop = Stop { signals: &base.signals, asked: 1, hurried: false };
    serving.iter().for_each(|one| one.ending.announce());
    fronts.iter_mut().for_each(|(front, _)| front.close());
    let unfinished = || fronts.iter().map(|(front, _)| front.clients()).sum::<usize>();
    if !stop.waits_for(end, || unfinished() == 0) {
        eprintln!("warning: {} clients did not have their answers within the limit", unfinished());
    }
    drop(fronts);
    serving.iter().for_each(|one| one.ending.ask());
    let have_ended = || serving.iter().all(|one| one.thread.is_finished());
    if !stop.waits_for(end, have_ended) {
        serving.iter().for_each(|one| one.ending.hurry());
        stop.hurried = false;
        stop.waits_for(Instant::now() + LAST, have_ended);
    }
    base.signals.last_steps();
    for one in serving {
        if one.thread.is_finished() {
            report(one.shard, one.thread, records, &mut Retry::after(Duration::ZERO));
        } else {
            records.give_up();
            eprintln!("warning: shard {} was given up: the database does not answer", one.shard);
        }
    }
    Ok(matches!(ended?, End::Stopped) || base.signals.stops() > 0)
}

/// Listens for clients, and says where.
fn open(args: &mut BrokerArgs, base: &Base, owners: &Arc<Owners>) -> Result<Vec<(Front, Protocol)>, Failure> {
    let ClientLimits { idle, handshake, listening: options, .. } = limits(&args.edge.settings());
    let settings = front::FrontSettings {
        largest: base.largest,
        secret: base.secret.clone(),
        connections: args.connections as usize,
        connected: Arc::default(),
        tls: base.tls.clone(),
        idle,
        handshake,
    };
    let mut fronts = Vec::new();
    let mut inherited = base.inherited()?.into_iter();
    let addresses =
        [(Some(&args.listen), Protocol::Beanstalkd), (args.memcached_listen.as_ref(), Protocol::Memcached)];
    for (address, protocol) in addresses {
        let Some(address) = address else { continue };
        let listener = match inherited.next() {
            Some(listener) => Ok(listener),
            None => listen::listen_with(address, options),
        };
        let front = listener
            .and_then(|listener| {
                let (clock, owners) = (base.clock, Arc::clone(owners));
                let refused = |why| tell(BrokerNotice::NotAccepting(why), false);
                Front::begin(listener, protocol, settings.clone(), owners, move || clock.now(), refused)
            })
            .map_err(Failure::beginning)?;
        fronts.push((front, protocol));
    }
    for (front, protocol) in &fronts {
        // What the system has chosen stays, where this broker waits and serves again.
        match protocol {
            Protocol::Beanstalkd => args.listen = front.address.clone(),
            Protocol::Memcached => args.memcached_listen = Some(front.address.clone()),
        }
        if !front.address.is_local() {
            tell(BrokerNotice::Open(front.address.clone()), args.asks());
        }
        tell(BrokerNotice::Listening(front.address.clone(), *protocol), false);
    }
    Ok(fronts)
}

fn warn_of_plain_text(args: &BrokerArgs) {
    if args.tls.is_on() && !among(args).is_local() {
        let ask = match args.secret {
            Some(_) => "ask there for the secret alone",
            None => "do not ask there who connects",
        };
        eprintln!(
            "warning: brokers speak to each other in plain text at {}, and {ask}: keep those ports in a network of your own",
            among(args).host
        );
    }
}

/// Why shards are no longer shared.
enum End {
    /// A stop was asked for.
    Stopped,
    /// The queues are divided into another number of shards, or are not divided any more.
    Otherwise,
}

/// A stop under way. To ask for it again is to hurry it.
struct Stop<'a> {
    signals: &'a ProcessSignals,
    /// How often it has been asked for without hurry.
    asked: usize,
    hurried: bool,
}

impl Stop<'_> {
    /// Whether it is so by then.
    fn waits_for(&mut self, end: Instant, mut is_so: impl FnMut() -> bool) -> bool {
        loop {
            if is_so() {
                return true;
            }
            let stops = self.signals.stops();
            self.hurried |= stops > self.asked;
            self.asked = self.asked.max(stops);
            if self.hurried || Instant::now() >= end {
                return false;
            }
            self.signals.wait(GLANCE, self.asked);
        }
    }
}

/// Looks who is there on a thread of its own: a database that does not answer does not keep the
/// broker from stopping.
struct Lookout {
    ask: Sender<()>,
    seen: Receiver<Result<MembersView, StoreError>>,
    /// Whether an answer is to come, and how often it did not come in time.
    asked: bool,
    missed: u32,
}

impl Lookout {
    fn begin(mut member: ShardMember) -> Result<Self, Mistake> {
        let (ask, asked) = mpsc::channel();
        let (tell, seen) = mpsc::channel();
        let look = move || while asked.recv().is_ok() && tell.send(member.look()).is_ok() {};
        let spawned = thread::Builder::new().name("members".into()).spawn(look);
        spawned.map_err(|error| format!("no thread can be had: {error}"))?;
        Ok(Self { ask, seen, asked: false, missed: 0 })
    }

    /// Who is there now; none: the database does not answer in time, and what it says is heard
    /// next.
    fn look(&mut self) -> Option<Result<MembersView, StoreError>> {
        if !std::mem::replace(&mut self.asked, true) {
            self.ask.send(()).ok()?;
        }
        let Ok(seen) = self.seen.recv_timeout(LOOK) else {
            self.missed = self.missed.saturating_add(1);
            return None;
        };
        (self.asked, self.missed) = (false, 0);
        Some(seen)
    }

    /// Whether the database hangs, with its session open. Looks are counted and no time, so that a
    /// broker that stood still itself does not take it for that.
    fn is_silent(&self) -> bool {
        self.missed >= MOST_MISSED
    }
}

/// Takes shards and hands them over, until a stop is asked for or they are no longer the same.
fn share(
    lookout: &mut Lookout,
    plan: &Arc<Plan>,
    owners: &Arc<Owners>,
    (serving, records): (&mut Vec<Serving>, &mut BrokerRecords),
    signals: &ProcessSignals,
) -> Result<End, Failure> {
    let mut lost = false;
    // Why no thread could be had, as was told; none: one could since.
    let mut told = None;
    let mut retries: Vec<Retry> = (0..plan.args.shards).map(|_| Retry::after(Duration::ZERO)).collect();
    loop {
        for place in (0..serving.len()).rev() {
            if serving[place].thread.is_finished() {
                let one = serving.swap_remove(place);
                report(one.shard, one.thread, records, &mut retries[one.shard as usize]);
            }
        }
        let was_silent = lookout.is_silent();
        match lookout.look() {
            None if !lost && !was_silent && lookout.is_silent() => {
                tell(BrokerNotice::Silent((2 * LOOK * MOST_MISSED).into()), false);
            }
            None => {}
            Some(Ok(seen)) => {
                if std::mem::take(&mut lost) {
                    tell(BrokerNotice::Back, false);
                } else if was_silent {
                    tell(BrokerNotice::Answers, false);
                }
                seen.shards.iter().for_each(|one| owners.set(one.shard, one.owner.clone()));
                forget_failures(&mut retries, &seen, plan.member);
                loop {
                    let mine: Vec<u32> =
                        serving.iter().filter(|one| !one.ending.is_asked()).map(|one| one.shard).collect();
                    let ends = serving.iter().any(|one| one.ending.is_asked());
                    match seen.step(plan.member, &mine) {
                        Some(MemberStep::Take(shard))
                            if retries[shard as usize].not_before <= Instant::now()
                                && !serving.iter().any(|one| one.shard == shard) =>
                        {
                            match begin(plan, shard, records.lane(), signals) {
                                Ok(one) => {
                                    told = None;
                                    serving.push(one);
                                }
                                Err(why) => {
                                    is_news(&mut told, &why).then(|| not_served(shard, &why));
                                    retries[shard as usize].failed();
                                    break;
                                }
                            }
                        }
                        Some(MemberStep::Give(shard)) if !ends => {
                            eprintln!("shard {shard}: handed over");
                            serving.iter().filter(|one| one.shard == shard).for_each(|one| one.ending.ask());
                            break;
                        }
                        _ => break,
                    }
                }
            }
            Some(Err(StoreError::Deposed)) => return Ok(End::Otherwise),
            Some(Err(problem)) if !std::mem::replace(&mut lost, true) => {
                tell(BrokerNotice::Lost(problem.to_string()), false);
            }
            Some(Err(_)) => {}
        }
        takes_clients(&plan.admins, !lost && !lookout.is_silent());
        if signals.wait(LOOK, 0) {
            return Ok(End::Stopped);
        }
    }
}

/// Shards that others serve are not put off here.
fn forget_failures(retries: &mut [Retry], seen: &MembersView, me: i64) {
    for one in seen.shards.iter().filter(|one| one.member.is_some_and(|member| member != me)) {
        retries[one.shard as usize] = Retry::after(Duration::ZERO);
    }
}

fn begin(
    plan: &Arc<Plan>,
    shard: u32,
    rows: Option<Lane>,
    signals: &ProcessSignals,
) -> Result<Serving, Mistake> {
    let ending = Arc::new(Ending::default());
    let (its_plan, its) = (Arc::clone(plan), Arc::clone(&ending));
    let body = move || serve(&its_plan, Shard { number: shard, of: its_plan.args.shards }, rows, its);
    let thread = (plan.spawn)(format!("shard {shard}"), Box::new(body))
        .map_err(|error| format!("no thread can be had: {error}"))?;
    // What was asked for before is told now.
    signals.follow(&ending, Follows::Draining);
    Ok(Serving { shard, ending, thread })
}

/// Serves a shard until it is told to end, or another broker owns it; none: another broker did from
/// the beginning.
fn serve(plan: &Plan, shard: Shard, rows: Option<Lane>, ending: Arc<Ending>) -> ShardEnd {
    let Plan { args, place, member, clock, largest, secret, tls, admins, .. } = plan;
    let told = |problem: StoreError| problem.to_string();
    let Some(mut owned) = Owned::take_shard(place.clone(), shard, *member).map_err(told)? else {
        return Ok(None);
    };
    let queues = load(args, &mut owned, clock).map_err(told)?;
    let settings = broker::BrokerSettings {
        about: about(clock, *largest, Mode::Owned.name()),
        largest: *largest,
        secret: secret.clone(),
        processor: krarup_net::cpu::process,
        final_reply: Some(ReplyWord::Moved),
    };
    let mut broker = Broker::new(settings, queues, recorder());
    if let Some(rows) = rows {
        broker.keep_rows(rows);
    }
    let host =
        args.advertise.as_ref().and_then(|address| Some(address.to_string().rsplit_once(':')?.0.to_owned()));
    let admin = admin_of(args, admins, shard.number, tls.as_ref()).unwrap_or_else(|why| {
        eprintln!("warning: shard {} has no admin address: {why}", shard.number);
        None
    });
    admin.iter().for_each(tell_admin);
    let settings = engine::BrokerEngineSettings {
        listen: among(args),
        advertise: None,
        // Others may have clients of that protocol where this broker has none.
        memcached: Some(among(args)),
        tls: None,
        admin,
        connections: usize::MAX,
        // Those are fronts, here and in other brokers, which look after their own clients.
        clients: ClientLimits { idle: Nanos::ZERO, ..limits(&args.edge.settings()) },
        shutdown_limit: Nanos::from_seconds(args.shutdown_limit),
        inherited: Vec::new(),
        ending,
        part: Some(ServedShard { host }),
        headroom: args.headroom(),
    };
    let number = shard.number;
    let notice = |notice| match notice {
        // Clients connect elsewhere.
        BrokerNotice::Listening(..) | BrokerNotice::Open(_) | BrokerNotice::Stopping => {}
        BrokerNotice::Deposed => eprintln!("shard {number}: another broker has taken it over"),
        notice => tell(notice, true),
    };
    engine::run(settings, broker, Some(MessageStore::Owned(owned)), *clock, notice)
        .map(|ended| Some(Box::new(ended)))
}

/// Where other brokers reach the shards of this one, at ports that the system chooses: at the
/// address of `--listen`; where that is a file, at the one that others are told, or on this machine
/// alone.
fn among(args: &BrokerArgs) -> Address {
    let told = args.advertise.iter().filter(|address| address.file().is_none());
    let named = Some(&args.listen).filter(|address| address.file().is_none()).into_iter().chain(told).next();
    let host = named.map_or_else(|| "127.0.0.1".to_owned(), |address| address.host.clone());
    Address { host, port: 0 }
}

/// Where monitoring asks about a shard, from now on and whether it is served here or not; none:
/// nowhere. At each the `certificate` of the fronts may be read again.
fn admin_of(
    args: &BrokerArgs,
    admins: &[OnceLock<AdminAddress>],
    shard: u32,
    certificate: Option<&Acceptor>,
) -> Result<Option<AdminAddress>, Mistake> {
    let Some(address) = &args.admin else { return Ok(None) };
    let kept = &admins[shard as usize];
    if kept.get().is_none() {
        let waits_for = format!("shard {shard} is not served here: another broker owns it, or none yet");
        let address = behind(address, shard)?;
        let _ = kept.set(AdminAddress::listen(&address, "--admin", &waits_for, certificate)?);
    }
    Ok(kept.get().cloned())
}

/// Whether clients should be sent to this broker, whichever shards it owns, as is asked at the
/// ports of the others.
fn takes_clients(admins: &[OnceLock<AdminAddress>], takes: bool) {
    admins.iter().filter_map(OnceLock::get).for_each(|admin| admin.takes_clients(takes));
}

/// The address whose port is as many higher as the shard's number says; where the system is to
/// choose one, it does.
fn behind(address: &Address, shard: u32) -> Result<Address, Mistake> {
    let port = if address.port == 0 { Some(0) } else { address.port.checked_add(shard as u16) };
    let port = port.ok_or_else(|| format!("there is no port {shard} above that of {address}"))?;
    Ok(Address { host: address.host.clone(), port })
}

/// Tells how a shard ended here, and sets when it may be taken again.
fn report(shard: u32, thread: JoinHandle<ShardEnd>, records: &mut BrokerRecords, retry: &mut Retry) {
    let why = match thread.join() {
        Ok(Ok(Some(mut ended))) => {
            records.add(&mut ended);
            print!("shard {shard}: {}", ending::statistics(&ended));
            *retry = Retry::after(Duration::ZERO);
            return;
        }
        Ok(Ok(None)) => {
            *retry = Retry::after(AGAIN);
            return;
        }
        Ok(Err(why)) => why,
        Err(_) => Mistake::plain("its thread has ended"),
    };
    is_news(&mut retry.reported, &why).then(|| not_served(shard, &why));
    retry.failed();
}

fn not_served(shard: u32, why: &Mistake) {
    eprintln!("warning: shard {shard} is not served here: {why}");
}

/// Whether this is not what was told last; from now on it is.
fn is_news(told: &mut Option<Mistake>, why: &Mistake) -> bool {
    told.replace(why.clone()).as_ref() != Some(why)
}

#[cfg(test)]
mod tests {
    use krarup_net::http;
    use krarup_store::postgres::ProcessEnvironment;
    use krarup_store::postgres::members::Standing;

    use super::*;

    /// Shares until it has seen this: one free shard, whose thread cannot be had, then what
    /// follows, and that the queues are divided otherwise.
    fn shares(admins: Arc<[OnceLock<AdminAddress>]>, follows: Option<StoreError>) {
        let args = BrokerArgs::of("");
        let clock = Clock::start();
        let mut records = BrokerRecords::begin(&args, None, &clock).unwrap();
        let plan = Arc::new(Plan {
            args,
            place: Database::parse("postgres://krarup@127.0.0.1/queues", &ProcessEnvironment::default())
                .unwrap(),
            member: 1,
            clock,
            largest: 0,
            secret: None,
            tls: None,
            admins,
            spawn: |_, _| Err(io::ErrorKind::WouldBlock.into()),
        });
        let free = Standing { shard: 0, member: None, owner: None };
        let (ask, _asked) = mpsc::channel();
        let (tell, seen) = mpsc::channel();
        tell.send(Ok(MembersView { members: vec![1], shards: vec![free] })).unwrap();
        follows.into_iter().chain([StoreError::Deposed]).for_each(|problem| tell.send(Err(problem)).unwrap());
        let mut lookout = Lookout { ask, seen, asked: false, missed: 0 };
        let (owners, mut serving) = (Arc::new(Owners::unknown(1)), Vec::new());
        let signals = ProcessSignals::default();
        let ended = share(&mut lookout, &plan, &owners, (&mut serving, &mut records), &signals);
        assert!(matches!(ended, Ok(End::Otherwise)), "it looks again who is there");
        assert!(serving.is_empty());
    }

    #[test]
    fn a_shard_whose_thread_cannot_be_had_is_tried_again_and_ends_nothing() {
        shares(Arc::new([]), None);
    }

    #[test]
    fn a_broker_takes_clients_whatever_it_owns_unless_the_database_is_out_of_reach() {
        let address = "127.0.0.1:0".parse().unwrap();
        let admin = AdminAddress::listen(&address, "--admin", "it waits", None).unwrap();
        let is_ready = || http::get(&admin.address, "/ready").is_ok();
        assert!(!is_ready());
        shares(Arc::new([OnceLock::from(admin.clone())]), None);
        assert!(is_ready());
        shares(Arc::new([OnceLock::from(admin.clone())]), Some(StoreError::Database("no route".into())));
        assert!(!is_ready());
    }

    #[test]
    fn a_database_that_lets_many_looks_pass_is_silent_until_it_answers() {
        let (ask, _asked) = mpsc::channel();
        let (tell, seen) = mpsc::channel();
        let mut lookout = Lookout { ask, seen, asked: false, missed: MOST_MISSED - 1 };
        assert!(!lookout.is_silent());
        assert!(lookout.look().is_none() && lookout.is_silent());
        tell.send(Ok(MembersView::default())).unwrap();
        assert!(lookout.look().is_some() && !lookout.is_silent());
    }

    #[test]
    fn a_shard_that_cannot_be_served_is_tried_ever_later_until_it_can_be() {
        let mut records = BrokerRecords::begin(&BrokerArgs::of(""), None, &Clock::start()).unwrap();
        let mut retry = Retry::after(Duration::ZERO);
        let mut ends = |end: ShardEnd| {
            report(0, thread::spawn(|| end), &mut records, &mut retry);
            (retry.pauses.clone().pause().as_millis(), retry.reported.is_some())
        };
        let failures = [(); 6].map(|()| ends(Err(Mistake::plain("no slot"))));
        assert_eq!(failures, [400, 800, 1_600, 3_200, 5_000, 5_000].map(|pause| (pause, true)));
        assert_eq!(ends(Ok(None)), (200, false), "the database answers: another broker owns it");
    }

    #[test]
    fn a_shard_that_another_broker_serves_is_not_put_off_any_more() {
        let mut retries = [(); 3].map(|()| Retry::after(Duration::ZERO));
        retries.iter_mut().for_each(Retry::failed);
        let standing = |(shard, member)| Standing { shard, member, owner: None };
        let shards = [(0, None), (1, Some(1)), (2, Some(2))].map(standing);
        forget_failures(&mut retries, &MembersView { members: vec![1, 2], shards: shards.into() }, 1);
        let next = retries.map(|mut retry| retry.pauses.pause());
        assert_eq!(next, [2 * AGAIN, 2 * AGAIN, AGAIN]);
    }

    #[test]
    fn why_no_thread_can_be_had_is_told_once_until_it_is_another_reason() {
        let [memory, limit] = ["no memory", "a limit"].map(Mistake::plain);
        let mut told = None;
        let news = [&memory, &memory, &limit, &limit, &memory].map(|why| is_news(&mut told, why));
        assert_eq!(news, [true, false, true, false, true]);
    }
}
