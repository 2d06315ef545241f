//! How long a request waits for its shard to have an owner, and what becomes of one whose owner is
//! lost.

use std::thread;
use std::time::{Duration, Instant};

use super::behind::NoReply;
use super::serving::{End, Inner};

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

/// What has been heard of a request.
pub(super) enum Heard<T> {
    Answered(T),
    /// Ask again: there may be an owner by now.
    Ask,
    /// Nobody owned the shard for too long.
    GiveUp,
}

/// How long a request has waited for an owner.
pub(super) struct Patience {
    end: Instant,
}

impl Patience {
    pub(super) fn begin() -> Self {
        Self { end: Instant::now() + PATIENCE }
    }

    /// Asks once, and says what follows from it; a moment later where it is to be asked again. When
    /// this broker ends nobody is waited for.
    pub(super) fn ask<T>(
        &mut self,
        front: &Inner,
        ask: impl FnOnce() -> Result<Tried<T>, End>,
    ) -> Result<Heard<T>, End> {
        let begun = Instant::now();
        match ask()? {
            Tried::Answered(answer) => return Ok(Heard::Answered(answer)),
            Tried::Nobody if front.is_over() => return Err(End),
            _ if front.is_abandoned() => return Err(End),
            Tried::Nobody | Tried::Again => {}
        }
        if begun.elapsed() > LONG {
            // He waited for a message until now, and for an owner only from now on.
            self.end = Instant::now() + PATIENCE;
        }
        if Instant::now() >= self.end {
            return Ok(Heard::GiveUp);
        }
        thread::sleep(AGAIN);
        Ok(Heard::Ask)
    }
}

/// What a lost owner means for a client: he goes on, unless he holds something there, which is his
/// no more, or nobody knows whether what must not be carried out twice was.
pub(super) fn lose<T>(lost: NoReply, holds: bool, again: bool) -> Result<Tried<T>, End> {
    match lost {
        _ if holds => Err(End),
        NoReply::Unknown if !again => Err(End),
        NoReply::Moved | NoReply::Unknown => Ok(Tried::Again),
    }
}

/// Asks until there is an answer; none: nobody owned the shard for too long.
pub(super) fn until_answered<T>(
    front: &Inner,
    mut ask: impl FnMut() -> Result<Tried<T>, End>,
) -> Result<Option<T>, End> {
    let mut patience = Patience::begin();
    loop {
        match patience.ask(front, &mut ask)? {
            Heard::Answered(answer) => return Ok(Some(answer)),
            Heard::GiveUp => return Ok(None),
            Heard::Ask => {}
        }
    }
}
