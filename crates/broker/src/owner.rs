//! Requests to queues that this process owns: each is decided in memory, at once.

use krarup_units::{Nanos, Stamp};

use crate::job::ClientId;
use crate::queues::{After, Answer, How, Limit, Queues, Refused, Reserve, Taken};
use crate::reply;
use crate::request::Request;
use crate::statistics;

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its answer has been written; it leaves after that batch.
    Answered(After),
    /// Its answer comes later.
    Waits,
    /// The request is not about messages.
    NotMine,
}

/// Carries out a request about messages; its answer goes to `out`.
pub(crate) fn carry_out(
    queues: &mut Queues,
    client: ClientId,
    request: &Request<'_>,
    now: Stamp,
    out: &mut Vec<u8>,
) -> Outcome {
    const NOT_FOUND: &str = "NOT_FOUND";
    let seconds = |seconds: u32| Nanos::from_secs(seconds.into());
    let after = match *request {
        Request::Put(put) => match queues.put(client, &put, now) {
            Ok((id, after)) => {
                reply::numbered(out, "INSERTED", id);
                after
            }
            Err(Refused::Duplicate(id, after)) => {
                reply::numbered(out, "EXISTS", id);
                after
            }
            Err(refused) => {
                let word = match refused {
                    Refused::UnknownTube => "UNKNOWN_TUBE",
                    Refused::UnknownClient => "UNKNOWN_CLIENT",
                    Refused::NotLoggedIn => "NOT_LOGGED_IN",
                    Refused::OutOfMemory | Refused::Duplicate(..) => "OUT_OF_MEMORY",
                };
                reply::line(out, word);
                None
            }
        },
        Request::Use(name) => {
            queues.use_tube(client, name);
            reply::line(out, &format!("USING {name}"));
            None
        }
        Request::Watch(name) => {
            reply::numbered(out, "WATCHING", queues.watch(client, name) as u64);
            None
        }
        Request::Ignore(name) => {
            match queues.ignore(client, name) {
                Some(left) => reply::numbered(out, "WATCHING", left as u64),
                None => reply::line(out, "NOT_IGNORED"),
            }
            None
        }
        Request::Reserve { timeout } => {
            let wish = Reserve { how: How::Lease, most: 1, timeout };
            return wait_for(queues, client, wish, now, out, Shape::One("RESERVED"));
        }
        Request::ReserveBatch { most, timeout } => {
            let wish = Reserve { how: How::Lease, most: most.min(MOST_AT_ONCE), timeout: Some(timeout) };
            return wait_for(queues, client, wish, now, out, Shape::Many);
        }
        Request::Pop { timeout } => {
            let wish = Reserve { how: How::Pop, most: 1, timeout: Some(timeout) };
            return wait_for(queues, client, wish, now, out, Shape::One("POPPED"));
        }
        Request::Await { timeout } => {
            let wish = Reserve { how: How::Look, most: 1, timeout: Some(timeout) };
            return wait_for(queues, client, wish, now, out, Shape::One("READY"));
        }
        Request::ReserveJob(id) => match queues.reserve_job(client, id, now) {
            Some(taken) => write_taken(out, &Shape::One("RESERVED"), &[taken]),
            None => say(out, NOT_FOUND),
        },
        Request::Delete(id) => match queues.delete(client, id) {
            Some(after) => {
                reply::line(out, "DELETED");
                after
            }
            None => say(out, NOT_FOUND),
        },
        Request::DeleteBatch(ids) => {
            let mut last = None;
            let deleted = ids
                .iter()
                .filter_map(|id| queues.delete(client, id))
                .map(|after| last = last.max(after))
                .count();
            reply::numbered(out, "DELETED", deleted as u64);
            last
        }
        Request::Release { id, priority, delay } => {
            match queues.release(client, id, priority, seconds(delay), now) {
                Some((limit, after)) => {
                    reply::line(out, if limit == Limit::Reached { "BURIED" } else { "RELEASED" });
                    after
                }
                None => say(out, NOT_FOUND),
            }
        }
        Request::Bury { id, priority } => match queues.bury(client, id, priority) {
            Some(after) => {
                reply::line(out, "BURIED");
                after
            }
            None => say(out, NOT_FOUND),
        },
        Request::Touch(id) => say(out, if queues.touch(client, id, now) { "TOUCHED" } else { NOT_FOUND }),
        Request::Peek(id) => write_found(out, queues.peek(id).map(|body| (id, body)), NOT_FOUND),
        Request::PeekReady => match queues.peek_ready_flagged(client) {
            Some((id, flags, body)) => {
                reply::message(out, "FOUND", id, flags, &body);
                None
            }
            None => say(out, NOT_FOUND),
        },
        Request::PeekDelayed => write_found(out, queues.peek_delayed(client), NOT_FOUND),
        Request::PeekBuried => write_found(out, queues.peek_buried(client), NOT_FOUND),
        Request::Kick(bound) => {
            let (kicked, after) = queues.kick(client, bound, now);
            reply::numbered(out, "KICKED", kicked.into());
            after
        }
        Request::KickJob(id) => match queues.kick_job(id, now) {
            Some(after) => {
                reply::line(out, "KICKED");
                after
            }
            None => say(out, NOT_FOUND),
        },
        Request::StatsJob(id) => match queues.view_job(id, now) {
            Some(view) => {
                reply::data(out, &statistics::job(&view));
                None
            }
            None => say(out, NOT_FOUND),
        },
        Request::StatsTube(name) => match queues.view_tube(name, now) {
            Some(view) => {
                reply::data(out, &statistics::tube(&view));
                None
            }
            None => say(out, NOT_FOUND),
        },
        Request::ListTubes => {
            reply::list(out, &queues.tube_names());
            None
        }
        Request::ListTubeUsed => say(out, &format!("USING {}", queues.used(client))),
        Request::ListTubesWatched => {
            reply::list(out, &queues.watched(client));
            None
        }
        Request::PauseTube { tube, seconds: length } => {
            say(out, if queues.pause_tube(tube, seconds(length), now) { "PAUSED" } else { NOT_FOUND })
        }
        Request::Login { client: name, .. } => {
            say(out, if queues.login(client, name) { "LOGGED_IN" } else { "UNKNOWN_CLIENT" })
        }
        Request::Register(name) => {
            let (new, after) = queues.register(name);
            reply::line(out, if new { "REGISTERED" } else { "EXISTS" });
            after
        }
        Request::Unregister(name) => {
            let (was, after) = queues.unregister(name);
            reply::line(out, if was { "UNREGISTERED" } else { "UNKNOWN_CLIENT" });
            after
        }
        Request::CreateTube(name) => {
            let (new, after) = queues.create_tube(name);
            reply::line(out, if new { "CREATED" } else { "EXISTS" });
            after
        }
        Request::DeleteTube(name) => match queues.delete_tube(name) {
            Some(after) => {
                reply::line(out, "DELETED");
                after
            }
            None => say(out, "UNKNOWN_TUBE"),
        },
        Request::LimitTube { tube, most, dead } => {
            let after = queues.limit_tube(tube, most, dead);
            reply::line(out, "LIMITED");
            after
        }
        Request::ExpireTube { tube, seconds } => {
            let after = queues.expire_tube(tube, seconds, now);
            reply::line(out, "EXPIRING");
            after
        }
        Request::ArchiveTube { tube, seconds } => match queues.archive_tube(tube, seconds) {
            Some(after) => {
                reply::line(out, "ARCHIVING");
                after
            }
            None => say(out, "NO_ARCHIVE"),
        },
        Request::PopTube(name) => match queues.pop_tube(client, name, now) {
            Ok(taken) => write_taken(out, &Shape::One("POPPED"), &[taken]),
            Err(nothing) => say(out, nothing.word()),
        },
        Request::PopSender(name) => match queues.pop_sender(client, name, now) {
            Ok(taken) => write_taken(out, &Shape::One("POPPED"), &[taken]),
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
                reply::list(out, &names);
                None
            }
            None => say(out, "NOT_LOGGED_IN"),
        },
        Request::Stats | Request::Quit | Request::Ping => return Outcome::NotMine,
    };
    Outcome::Answered(after)
}

/// Messages that one request may take at most.
pub(crate) const MOST_AT_ONCE: u32 = 1_000;

/// How taken messages are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One, behind this word.
    One(&'static str),
    /// Their number, then each.
    Many,
}

fn say(out: &mut Vec<u8>, word: &str) -> After {
    reply::line(out, word);
    None
}

fn wait_for(
    queues: &mut Queues,
    client: ClientId,
    wish: Reserve,
    now: Stamp,
    out: &mut Vec<u8>,
    shape: Shape,
) -> Outcome {
    match queues.reserve(client, wish, now) {
        Some(answer) => Outcome::Answered(write_answer(out, shape, &answer)),
        None => Outcome::Waits,
    }
}

/// Writes what a wish for messages came to, and says after which batch it leaves.
pub(crate) fn write_answer(out: &mut Vec<u8>, shape: Shape, answer: &Answer) -> After {
    match answer {
        Answer::Taken(taken) => write_taken(out, &shape, taken),
        Answer::TimedOut => say(out, "TIMED_OUT"),
        Answer::DeadlineSoon => say(out, "DEADLINE_SOON"),
        Answer::Ready(priority, id) => say(out, &format!("READY {priority} {id}")),
    }
}

pub(crate) fn write_taken(out: &mut Vec<u8>, shape: &Shape, taken: &[Taken]) -> After {
    let word = match shape {
        Shape::One(word) => word,
        Shape::Many => {
            reply::numbered(out, "RESERVED_BATCH", taken.len() as u64);
            "RESERVED"
        }
    };
    for one in taken {
        reply::message(out, word, one.id, one.flags, &one.body);
    }
    taken.iter().filter_map(|one| one.after).max()
}

fn write_found(out: &mut Vec<u8>, found: Option<(u64, std::sync::Arc<[u8]>)>, otherwise: &str) -> After {
    match found {
        Some((id, body)) => reply::message(out, "FOUND", id, None, &body),
        None => reply::line(out, otherwise),
    }
    None
}

impl crate::queues::Nothing {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Empty => "EMPTY",
            Self::UnknownTube => "UNKNOWN_TUBE",
            Self::UnknownClient => "UNKNOWN_CLIENT",
        }
    }
}
