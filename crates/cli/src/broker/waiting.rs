//! A broker that waits for its turn: a database that goes away and comes back does not end the
//! wait, a signal does.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use krarup_store::backoff::Backoff;
use krarup_store::postgres::{Database, StoreError};
use krarup_units::Mistake;

use super::base::{ASKS, LOST, Obstacle, REFUSES};
use super::signals::ProcessSignals;
use crate::failure::Failure;

/// How soon a database that is out of reach is tried again at first, and how long at most; the time
/// doubles in between.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);
/// How often it is looked whether a stop was asked for.
const LOOK: Duration = Duration::from_millis(20);

/// Whether this broker has reached its database before. If not, one that cannot be reached is most
/// likely a mistake, and an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Never,
    Before,
}

/// What `attempt` comes to, as often as it takes; none: a stop was asked for first. `attempt` calls
/// what it is given when the database answers and it is not its turn, with the reason; `waits_for`
/// hears why nothing is served meanwhile. It runs on a thread of its own: a database that does not
/// answer keeps no signal from being heard.
pub(super) fn turn<T: Send + 'static>(
    signals: &ProcessSignals,
    place: &Database,
    reached: Reached,
    waits_for: impl Fn(&str) + Send + 'static,
    mut attempt: impl FnMut(&Database, &mut dyn FnMut(&str)) -> Result<T, StoreError> + Send + 'static,
) -> Result<Option<T>, Failure> {
    let (tell, told) = mpsc::channel();
    let place = place.clone();
    let tries = move || {
        if reached == Reached::Never {
            match place.reach() {
                Ok(warnings) => {
                    for warning in warnings {
                        eprintln!("warning: {warning}");
                    }
                }
                Err(problem) => {
                    let _ = tell.send(Err(problem));
                    return;
                }
            }
        }
        let first = Backoff::new(FIRST, LONGEST);
        let (mut pauses, mut obstacle): (Backoff, Option<(Obstacle, String)>) = (first.clone(), None);
        loop {
            let begun = Instant::now();
            if obstacle.is_none() {
                waits_for(ASKS);
            }
            let came = attempt(&place, &mut |why| {
                waits_for(why);
                // What it refuses is known when it is this broker's turn.
                if let Some(([_, ends], _)) = obstacle.take_if(|(now, _)| *now == LOST) {
                    eprintln!("{ends}");
                }
            });
            match came {
                Err(StoreError::Database(why)) => go_on_waiting(LOST, &mut obstacle, &why, &waits_for),
                Err(StoreError::Refused(why)) => go_on_waiting(REFUSES, &mut obstacle, &why, &waits_for),
                // It is there, and it is the turn of another: it is waited for anew.
                Err(StoreError::Deposed) => {}
                came => {
                    if let (Some(([_, ends], _)), Ok(_)) = (&obstacle, &came) {
                        eprintln!("{ends}");
                    }
                    let _ = tell.send(came);
                    return;
                }
            }
            if begun.elapsed() > LONGEST {
                pauses = first.clone();
            }
            thread::sleep(pauses.pause());
        }
    };
    let spawned = thread::Builder::new().name("waiting".into()).spawn(tries);
    spawned.map_err(|error| Failure::run(format!("no thread can be had: {error}")))?;
    while signals.stops() == 0 {
        match told.recv_timeout(LOOK) {
            Ok(came) => return came.map(Some).map_err(|problem| wrong(&problem)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::run("the wait for the queues failed"));
            }
        }
    }
    eprintln!("stopping: this broker was waiting");
    Ok(None)
}

/// Says that the wait goes on, and what is in the way, once for as long as it is that. A refusal
/// for another reason is another; why a database is out of reach may change with each attempt.
fn go_on_waiting(
    now: Obstacle,
    obstacle: &mut Option<(Obstacle, String)>,
    why: &Mistake,
    waits_for: &impl Fn(&str),
) {
    let ([begins, _], why) = (now, &why.what);
    waits_for(&format!("it waits for its turn: {begins}: {why}"));
    let last = obstacle.replace((now, why.clone()));
    if last.is_none_or(|(before, words)| before != now || (now == REFUSES && words != *why)) {
        eprintln!("warning: {begins}: {why}; this broker goes on waiting for its turn");
    }
}

fn wrong(problem: &StoreError) -> Failure {
    let what = match problem {
        StoreError::Database(why) | StoreError::Refused(why) => {
            format!("the database cannot be used: {}", why.what)
        }
        other => other.to_string(),
    };
    Failure::run(what)
        .hint(problem.hint())
        .or_hint("is the server running, and does the broker's user own its schema in this database?")
}
