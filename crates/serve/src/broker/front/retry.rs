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
#[derive(Debug)]
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

    /// Asks once, and says what follows from it; a moment later where it is to be asked again.
    pub(super) fn ask<T>(
        &mut self,
        front: &Inner,
        ask: impl FnOnce() -> Result<Tried<T>, End>,
    ) -> Result<Attempt<T>, End> {
        let attempt = self.ask_now(front, ask)?;
        if matches!(attempt, Attempt::Retry) {
            thread::sleep(RETRY_AFTER);
        }
        Ok(attempt)
    }

    /// Asks once, and says at once what follows from it. When this broker ends no owner is waited
    /// for.
    pub(super) fn ask_now<T>(
        &mut self,
        front: &Inner,
        ask: impl FnOnce() -> Result<Tried<T>, End>,
    ) -> Result<Attempt<T>, End> {
        let begun = Instant::now();
        let tried = ask()?;
        let goes_on = self.goes_on(&tried, begun.elapsed());
        match tried {
            Tried::Answered(answer) => Ok(Attempt::Answered(answer)),
            Tried::NoOwner if front.is_over() => Err(End),
            _ if front.is_abandoned() => Err(End),
            _ if goes_on => Ok(Attempt::Retry),
            _ => Ok(Attempt::GiveUp),
        }
    }

    /// Whether it may be asked once more, after this came of asking for so long.
    fn goes_on<T>(&mut self, tried: &Tried<T>, took: Duration) -> bool {
        let owned = match tried {
            Tried::Answered(_) => true,
            Tried::Moved => took > LONG,
            Tried::NoOwner => false,
        };
        if owned {
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
        for (tried, took, goes_on) in [
            // To connect to it has taken its whole time.
            (Tried::NoOwner::<()>, 2 * LONG, false),
            (Tried::NoOwner, Duration::ZERO, false),
            (Tried::Moved, Duration::ZERO, false),
            (Tried::Moved, 2 * LONG, true),
        ] {
            let mut retry = Retry { end: Instant::now() };
            assert_eq!(retry.goes_on(&tried, took), goes_on, "{tried:?} after {took:?}");
        }
        assert!(Retry::begin().goes_on(&Tried::NoOwner::<()>, 2 * LONG));
    }

    /// An owner that hands its shard over ends the wait, and says with the next request that it
    /// has moved.
    #[test]
    fn an_owner_that_has_answered_is_waited_for_from_then_on() {
        let mut retry = Retry { end: Instant::now() };
        retry.goes_on(&Tried::Answered(()), 2 * LONG);
        assert!(retry.goes_on(&Tried::Moved::<()>, Duration::ZERO));
    }
}
