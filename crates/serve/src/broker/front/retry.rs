//! How long a request waits for its shard to have an owner, and what becomes of one whose owner is
//! lost.

use std::thread;
use std::time::{Duration, Instant};

use super::owner_connection::NoReply;
use super::serving::{End, Inner};

/// How long a request waits for its shard to have an owner.
const OWNER_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon to look again for an owner.
const RETRY_AFTER: Duration = Duration::from_millis(10);
/// An answer that takes longer than this was waited for.
const LONG: Duration = Duration::from_secs(1);

/// What came of asking once.
pub(super) enum Tried<T> {
    Answered(T),
    /// There is no owner that could be asked.
    NoOwner,
    /// There was one, and it may be asked of the next.
    Moved,
}

/// What has been heard of a request.
pub(super) enum Attempt<T> {
    Answered(T),
    /// Ask again: there may be an owner by now.
    Retry,
    /// The shard had no owner for too long.
    GiveUp,
}

/// How long a request has waited for an owner.
pub(super) struct Retry {
    end: Instant,
}

impl Retry {
    pub(super) fn begin() -> Self {
        Self { end: Instant::now() + OWNER_TIMEOUT }
    }

    /// Asks once, and says what follows from it; a moment later where it is to be asked again. When
    /// this broker ends no owner is waited for.
    pub(super) fn ask<T>(
        &mut self,
        front: &Inner,
        ask: impl FnOnce() -> Result<Tried<T>, End>,
    ) -> Result<Attempt<T>, End> {
        let begun = Instant::now();
        match ask()? {
            Tried::Answered(answer) => return Ok(Attempt::Answered(answer)),
            Tried::NoOwner if front.is_over() => return Err(End),
            _ if front.is_abandoned() => return Err(End),
            Tried::NoOwner | Tried::Moved => {}
        }
        if begun.elapsed() > LONG {
            // It waited for a message until now, and for an owner only from now on.
            self.end = Instant::now() + OWNER_TIMEOUT;
        }
        if Instant::now() >= self.end {
            return Ok(Attempt::GiveUp);
        }
        thread::sleep(RETRY_AFTER);
        Ok(Attempt::Retry)
    }
}

/// What a lost owner means for a client: it goes on, unless it holds something there, which is its
/// no more, or it is not known whether what must not be carried out twice was.
pub(super) fn lose<T>(lost: NoReply, holds: bool, repeatable: bool) -> Result<Tried<T>, End> {
    match lost {
        _ if holds => Err(End),
        NoReply::Unknown if !repeatable => Err(End),
        NoReply::Moved | NoReply::Unknown => Ok(Tried::Moved),
    }
}

/// Asks until there is an answer; none: the shard had no owner for too long.
pub(super) fn until_answered<T>(
    front: &Inner,
    mut ask: impl FnMut() -> Result<Tried<T>, End>,
) -> Result<Option<T>, End> {
    let mut retry = Retry::begin();
    loop {
        match retry.ask(front, &mut ask)? {
            Attempt::Answered(answer) => return Ok(Some(answer)),
            Attempt::GiveUp => return Ok(None),
            Attempt::Retry => {}
        }
    }
}
