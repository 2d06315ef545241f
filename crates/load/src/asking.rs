//! Asks a server for `stats` until its second begins.

use std::io::{self, ErrorKind};

use krarup_memcache::response::parse;
use krarup_memcache::{Expect, Parsed};
use krarup_net::clock::wall;
use krarup_net::mio::{Events, Poll, Token};
use krarup_net::{Conn, Moved};
use krarup_units::Nanos;

use crate::clocks::{SecondSearch, ServerSecond};
use crate::target::Target;

/// How long nothing is asked after an answer: a second is known to about half of it.
const PAUSE: Nanos = Nanos::from_millis(5);
/// More bytes than this are no answer to `stats`.
const MOST_BYTES: usize = 64 << 10;

const SERVER: Token = Token(0);

/// When a second of the server at this address begins, by our clock of the wall; none where it does
/// not say until the wall shows `until`.
pub(crate) fn second(target: &Target, address: &str, until: Nanos) -> Option<ServerSecond> {
    let mut asking = Asking { poll: Poll::new().ok()?, events: Events::with_capacity(4), until };
    asking.second(target, address).ok()
}

struct Asking {
    poll: Poll,
    events: Events,
    until: Nanos,
}

impl Asking {
    fn second(&mut self, target: &Target, address: &str) -> io::Result<ServerSecond> {
        let mut greeting = target.knock(self.poll.registry(), SERVER, None, false)?;
        while !greeting.advance()? {
            self.wait(self.until)?;
        }
        let mut conn = greeting.into_conn();
        let mut search = SecondSearch::default();
        loop {
            let asked = wall();
            self.say(&mut conn, b"stats\r\n")?;
            let answer = self.answer(&mut conn)?;
            let answered = wall();
            if let Some(second) = search.see(address, asked, answered, &answer) {
                return Ok(second);
            }
            while wall() < answered + PAUSE {
                self.wait(answered + PAUSE)?;
            }
        }
    }

    fn say(&mut self, conn: &mut Conn, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match conn.write(bytes) {
                Moved::Some(count) => bytes = &bytes[count..],
                Moved::None => self.wait(self.until)?,
                Moved::Closed => return Err(ErrorKind::UnexpectedEof.into()),
                Moved::Failed(error) => return Err(error),
            }
        }
        while !conn.flush()? {
            self.wait(self.until)?;
        }
        Ok(())
    }

    fn answer(&mut self, conn: &mut Conn) -> io::Result<Vec<u8>> {
        let (mut answer, mut room) = (Vec::new(), [0; 4_096]);
        loop {
            match parse(&answer, Expect::Stats) {
                Parsed::Complete { .. } => return Ok(answer),
                Parsed::Incomplete { .. } if answer.len() < MOST_BYTES => {}
                _ => return Err(ErrorKind::InvalidData.into()),
            }
            match conn.read(&mut room) {
                Moved::Some(count) => answer.extend_from_slice(&room[..count]),
                Moved::None => self.wait(self.until)?,
                Moved::Closed => return Err(ErrorKind::UnexpectedEof.into()),
                Moved::Failed(error) => return Err(error),
            }
        }
    }

    /// Waits for the server, up to an instant.
    fn wait(&mut self, at: Nanos) -> io::Result<()> {
        let now = wall();
        if now >= self.until {
            return Err(ErrorKind::TimedOut.into());
        }
        let left = at.min(self.until).saturating_sub(now).as_duration();
        match self.poll.poll(&mut self.events, Some(left)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }
}
