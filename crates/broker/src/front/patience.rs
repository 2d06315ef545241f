//! How long a request waits for its shard to have an owner, and what becomes of one whose owner is lost.

use std::thread;
use std::time::{Duration, Instant};

use super::Inner;
use super::behind::Lost;
use super::session::End;

/// How long a request waits for its shard to have an owner.
const PATIENCE: Duration = Duration::from_secs(30);
/// How soon to look again for an owner.
const AGAIN: Duration = Duration::from_millis(10);
/// An answer that takes longer than this was waited for.
const LONG: Duration = Duration::from_secs(1);

/// What came of asking once.
pub(super) enum Tried<T> {
    Answered(T),
    /// There is no owner who could be asked.
    Nobody,
    /// There was one, and it may be asked of the next.
    Again,
}

impl<T> Tried<T> {
    /// For a request that has a time: where its owner is lost it is asked again by whoever knows how much of that is left.
    pub(super) fn once(self) -> Tried<Option<T>> {
        match self {
            Self::Answered(answer) => Tried::Answered(Some(answer)),
            Self::Nobody => Tried::Nobody,
            Self::Again => {
                thread::sleep(AGAIN);
                Tried::Answered(None)
            }
        }
    }
}

/// What a lost owner means for a client: he goes on, unless he holds something there, which is his no more, or nobody knows whether what must not be carried out
/// twice was.
pub(super) fn lose<T>(lost: Lost, holds: bool, again: bool) -> Result<Tried<T>, End> {
    match lost {
        _ if holds => Err(End),
        Lost::Unknown if !again => Err(End),
        Lost::Moved | Lost::Unknown => Ok(Tried::Again),
    }
}

/// Asks until there is an answer; none: nobody owned the shard for too long. When this broker ends nobody is waited for.
pub(super) fn until_answered<T>(
    front: &Inner,
    mut ask: impl FnMut() -> Result<Tried<T>, End>,
) -> Result<Option<T>, End> {
    let mut end = Instant::now() + PATIENCE;
    loop {
        let begun = Instant::now();
        match ask()? {
            Tried::Answered(answer) => return Ok(Some(answer)),
            Tried::Nobody if front.is_over() => return Err(End),
            _ if front.is_abandoned() => return Err(End),
            Tried::Nobody | Tried::Again => {}
        }
        if begun.elapsed() > LONG {
            // He waited for a message until now, and for an owner only from now on.
            end = Instant::now() + PATIENCE;
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        thread::sleep(AGAIN);
    }
}
