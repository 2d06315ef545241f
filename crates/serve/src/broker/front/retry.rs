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
        let moved = match ask()? {
            Tried::Answered(answer) => return Ok(Attempt::Answered(answer)),
            Tried::NoOwner if front.is_over() => return Err(End),
            _ if front.is_abandoned() => return Err(End),
            Tried::NoOwner => false,
            Tried::Moved => true,
        };
        if !self.goes_on(moved, begun.elapsed()) {
            return Ok(Attempt::GiveUp);
        }
        thread::sleep(RETRY_AFTER);
        Ok(Attempt::Retry)
    }

    /// Whether it is to be asked again, after it was asked for so long.
    fn goes_on(&mut self, moved: bool, took: Duration) -> bool {
        if moved && took > LONG {
            // It waited for a message until now, and for an owner only from now on.
            self.end = Instant::now() + OWNER_TIMEOUT;
        }
        Instant::now() < self.end
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_cannot_be_reached_is_not_waited_for_anew() {
        for (moved, took, goes_on) in [
            // To connect to it has taken its whole time.
            (false, 2 * LONG, false),
            (false, Duration::ZERO, false),
            (true, Duration::ZERO, false),
            (true, 2 * LONG, true),
        ] {
            let mut retry = Retry { end: Instant::now() };
            assert_eq!(retry.goes_on(moved, took), goes_on, "{moved} after {took:?}");
        }
        assert!(Retry::begin().goes_on(false, 2 * LONG));
    }
}
