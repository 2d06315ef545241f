//! Requests to queues that this process owns: each is decided in memory, at once.

use std::collections::BTreeSet;

use krarup_beanstalk::{ReplyWord, Request, write};
use krarup_units::{Nanos, Stamp};

use crate::job::{ClientId, Id};
use crate::queues::{
    After, MOST_AT_ONCE, PutRefused, Queues, Released, Reserve, ReserveResult, TakeMode, TakenMessage,
};
use crate::statistics;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerOutcome {
    /// Its answer has been written; it leaves after that batch.
    Answered(After),
    /// Its answer comes later.
    Waits,
    /// The request is not about messages.
    NotMine,
}

/// Carries out a request about messages; its answer goes to `out`.
#[expect(clippy::too_many_lines, reason = "a table: one arm for each verb")]
pub(crate) fn carry_out(
    queues: &mut Queues,
    client: ClientId,
    request: &Request<'_>,
    now: Stamp,
    out: &mut Vec<u8>,
) -> OwnerOutcome {
    const NOT_FOUND: ReplyWord = ReplyWord::NotFound;
    let seconds = |seconds: u32| Nanos::from_secs(seconds.into());
    let after = match *request {
        Request::Put(put) => match queues.put(client, &put, now) {
            Ok((id, after)) => {
                write::numbered(out, ReplyWord::Inserted, id);
                after
            }
            Err(PutRefused::Duplicate(id, after)) => {
                write::numbered(out, ReplyWord::Exists, id);
                after
            }
            Err(refused) => {
                let word = match refused {
                    PutRefused::UnknownTube => ReplyWord::UnknownTube,
                    PutRefused::UnknownClient => ReplyWord::UnknownClient,
                    PutRefused::NotLoggedIn => ReplyWord::NotLoggedIn,
                    PutRefused::OutOfMemory | PutRefused::Duplicate(..) => ReplyWord::OutOfMemory,
                };
                write::line(out, word);
                None
            }
        },
        Request::Use(name) => {
            queues.use_tube(client, name);
            write::using(out, name);
            None
        }
        Request::Watch(name) => {
            write::numbered(out, ReplyWord::Watching, queues.watch(client, name) as u64);
            None
        }
        Request::Ignore(name) => {
            match queues.ignore(client, name) {
                Some(left) => write::numbered(out, ReplyWord::Watching, left as u64),
                None => write::line(out, ReplyWord::NotIgnored),
            }
            None
        }
        Request::Reserve => {
            let query = Reserve { how: TakeMode::Lease, most: 1, timeout: None };
            return wait_for(queues, client, query, now, out, ReplyWord::Reserved);
        }
        Request::ReserveWithTimeout { timeout } => {
            let query = Reserve { how: TakeMode::Lease, most: 1, timeout: Some(timeout) };
            return wait_for(queues, client, query, now, out, ReplyWord::Reserved);
        }
        Request::ReserveBatch { most, timeout } => {
            let query =
                Reserve { how: TakeMode::Lease, most: most.min(MOST_AT_ONCE), timeout: Some(timeout) };
            return wait_for(queues, client, query, now, out, ReplyWord::ReservedBatch);
        }
        Request::Pop { timeout } => {
            let query = Reserve { how: TakeMode::Pop, most: 1, timeout: Some(timeout) };
            return wait_for(queues, client, query, now, out, ReplyWord::Popped);
        }
        Request::Await { timeout } => {
            let query = Reserve { how: TakeMode::Look, most: 1, timeout: Some(timeout) };
            return wait_for(queues, client, query, now, out, ReplyWord::Ready);
        }
        Request::ReserveJob(id) => match queues.reserve_job(client, id, now) {
            Some(taken) => write_taken(out, ReplyWord::Reserved, &[taken]),
            None => say(out, NOT_FOUND),
        },
        Request::Delete(id) => match queues.delete(client, id, now) {
            Some(after) => {
                write::line(out, ReplyWord::Deleted);
                after
            }
            None => say(out, NOT_FOUND),
        },
        Request::DeleteBatch(ids) => {
            let mut last = None;
            let deleted = ids
                .iter()
                .filter_map(|id| queues.delete(client, id, now))
                .map(|after| last = last.max(after))
                .count();
            write::numbered(out, ReplyWord::Deleted, deleted as u64);
            last
        }
        Request::Release { id, priority, delay } => {
            match queues.release(client, id, priority, seconds(delay), now) {
                Some((limit, after)) => {
                    write::line(
                        out,
                        if limit == Released::Reached { ReplyWord::Buried } else { ReplyWord::Released },
                    );
                    after
                }
                None => say(out, NOT_FOUND),
            }
        }
        Request::Bury { id, priority } => match queues.bury(client, id, priority, now) {
            Some(after) => {
                write::line(out, ReplyWord::Buried);
                after
            }
            None => say(out, NOT_FOUND),
        },
        Request::Touch(id) => {
            say(out, if queues.touch(client, id, now) { ReplyWord::Touched } else { NOT_FOUND })
        }
        Request::TouchBatch(ids) => {
            // One that is named twice counts once, as where the database counts.
            let ids: BTreeSet<Id> = ids.iter().collect();
            let touched = ids.into_iter().filter(|id| queues.touch(client, *id, now)).count();
            write::numbered(out, ReplyWord::Touched, touched as u64);
            None
        }
        Request::Peek(id) => write_found(out, queues.peek(id).map(|body| (id, body)), NOT_FOUND),
        Request::PeekReady => match queues.peek_ready_flagged(client) {
            Some((id, flags, body)) => {
                write::message(out, ReplyWord::Found, id, flags, &body);
                None
            }
            None => say(out, NOT_FOUND),
        },
        Request::PeekDelayed => write_found(out, queues.peek_delayed(client), NOT_FOUND),
        Request::PeekBuried => write_found(out, queues.peek_buried(client), NOT_FOUND),
        Request::Kick(bound) => {
            let (kicked, after) = queues.kick(client, bound, now);
            write::numbered(out, ReplyWord::Kicked, kicked.into());
            after
        }
        Request::KickJob(id) => match queues.kick_job(id, now) {
            Some(after) => {
                write::line(out, ReplyWord::Kicked);
                after
            }
            None => say(out, NOT_FOUND),
        },
        Request::StatsJob(id) => match queues.view_job(id, now) {
            Some(view) => {
                write::data(out, statistics::job(&view).as_bytes());
                None
            }
            None => say(out, NOT_FOUND),
        },
        Request::StatsTube(name) => match queues.view_tube(name, now) {
            Some(view) => {
                let report = queues.report(name, now);
                write::data(
                    out,
                    statistics::tube(&view, report.as_ref(), queues.waiting_target()).as_bytes(),
                );
                None
            }
            None => say(out, NOT_FOUND),
        },
        Request::ListTubes => {
            write::list(out, queues.tube_names().iter().map(|name| &**name));
            None
        }
        Request::ListTubeUsed => {
            write::using(out, queues.used(client));
            None
        }
        Request::ListTubesWatched => {
            write::list(out, queues.watched(client).iter().map(|name| &**name));
            None
        }
        Request::PauseTube { tube, seconds: length } => say(
            out,
            if queues.pause_tube(tube, seconds(length), now) { ReplyWord::Paused } else { NOT_FOUND },
        ),
        Request::Login { client: name, .. } => {
            say(out, if queues.login(client, name) { ReplyWord::LoggedIn } else { ReplyWord::UnknownClient })
        }
        Request::Register(name) => {
            let (new, after) = queues.register(name);
            write::line(out, if new { ReplyWord::Registered } else { ReplyWord::Exists });
            after
        }
        Request::Unregister(name) => {
            let (was, after) = queues.unregister(name);
            write::line(out, if was { ReplyWord::Unregistered } else { ReplyWord::UnknownClient });
            after
        }
        Request::CreateTube(name) => {
            let (new, after) = queues.create_tube(name);
            write::line(out, if new { ReplyWord::Created } else { ReplyWord::Exists });
            after
        }
        Request::DeleteTube(name) => match queues.delete_tube(name) {
            Some(after) => {
                write::line(out, ReplyWord::Deleted);
                after
            }
            None => say(out, ReplyWord::UnknownTube),
        },
        Request::LimitTube { tube, most, dead } => {
            let after = queues.limit_tube(tube, most, dead);
            write::line(out, ReplyWord::Limited);
            after
        }
        Request::ExpireTube { tube, seconds } => {
            let after = queues.expire_tube(tube, seconds, now);
            write::line(out, ReplyWord::Expiring);
            after
        }
        Request::ArchiveTube { tube, seconds } => match queues.archive_tube(tube, seconds) {
            Some(after) => {
                write::line(out, ReplyWord::Archiving);
                after
            }
            None => say(out, ReplyWord::NoArchive),
        },
        Request::PopTube(name) => match queues.pop_tube(client, name, now) {
            Ok(taken) => write_taken(out, ReplyWord::Popped, &[taken]),
            Err(nothing) => say(out, nothing.word()),
        },
        Request::PopSender(name) => match queues.pop_sender(client, name, now) {
            Ok(taken) => write_taken(out, ReplyWord::Popped, &[taken]),
            Err(nothing) => say(out, nothing.word()),
        },
        Request::PeekTube(name) => match queues.peek_tube(client, name) {
            Ok(found) => write_found(out, Some(found), NOT_FOUND),
            Err(nothing) => say(out, nothing.word()),
        },
        Request::PeekSender(name) => match queues.peek_sender(client, name) {
            Ok(found) => write_found(out, Some(found), NOT_FOUND),
            Err(nothing) => say(out, nothing.word()),
        },
        Request::ListTubesForMe => match queues.tubes_for(client) {
            Some(names) => {
                write::list(out, names.iter().map(|name| &**name));
                None
            }
            None => say(out, ReplyWord::NotLoggedIn),
        },
        Request::Stats | Request::StatsReset | Request::Quit | Request::Ping => {
            return OwnerOutcome::NotMine;
        }
        Request::PutBatch(_) => unreachable!("each of its messages is a request of its own"),
    };
    OwnerOutcome::Answered(after)
}

fn say(out: &mut Vec<u8>, word: ReplyWord) -> After {
    write::line(out, word);
    None
}

fn wait_for(
    queues: &mut Queues,
    client: ClientId,
    query: Reserve,
    now: Stamp,
    out: &mut Vec<u8>,
    word: ReplyWord,
) -> OwnerOutcome {
    match queues.reserve(client, query, now) {
        Some(answer) => OwnerOutcome::Answered(write_answer(out, word, &answer)),
        None => OwnerOutcome::Waits,
    }
}

/// Writes the outcome of a request for messages, and returns the batch after which it leaves.
pub(crate) fn write_answer(out: &mut Vec<u8>, word: ReplyWord, answer: &ReserveResult) -> After {
    match answer {
        ReserveResult::Taken(taken) => write_taken(out, word, taken),
        ReserveResult::TimedOut => say(out, ReplyWord::TimedOut),
        ReserveResult::DeadlineSoon => say(out, ReplyWord::DeadlineSoon),
        ReserveResult::Ready(priority, id) => {
            write::ready(out, *priority, *id);
            None
        }
    }
}

pub(crate) fn write_taken(out: &mut Vec<u8>, word: ReplyWord, taken: &[TakenMessage]) -> After {
    let each = if word == ReplyWord::ReservedBatch {
        write::numbered(out, word, taken.len() as u64);
        ReplyWord::Reserved
    } else {
        word
    };
    for one in taken {
        write::message(out, each, one.id, one.flags, &one.body);
    }
    taken.iter().filter_map(|one| one.after).max()
}

fn write_found(out: &mut Vec<u8>, found: Option<(u64, std::sync::Arc<[u8]>)>, otherwise: ReplyWord) -> After {
    match found {
        Some((id, body)) => write::message(out, ReplyWord::Found, id, None, &body),
        None => write::line(out, otherwise),
    }
    None
}
