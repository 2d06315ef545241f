//! What a proxy costs that understands nothing: many clients, one connection to one server, and
//! nothing measured.
//!
//! It knows where a `get` or a `set` and their answers end, and no more: no other command, no
//! errors, no second server, no queue, no clock. What it takes of the processor is the price of the
//! system calls that a proxy with a shared connection cannot do without; `bench/proxies.py --floor`
//! sets `krarup proxy` beside it.
//!
//! ```text
//! cargo run --release -p krarup-serve --example multiplexer -- LISTEN SERVER
//! ```

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use krarup_net::mio::{Events, Poll, Token};
use krarup_net::{Conn, Listener, Moved, listen};
use krarup_units::{Address, Inbox, Mistake};

const LISTENER: Token = Token(0);
const SERVER: Token = Token(1);
const CLIENTS: usize = 2;
/// What one read brings at most: of a client, which may send a value, and of the server.
const FROM_CLIENT: usize = 8 << 10;
const FROM_SERVER: usize = 128 << 10;

struct Client {
    conn: Conn,
    inbox: Inbox,
    replies: Vec<u8>,
}

/// Where the first line of `bytes` ends, and the number that its word at `place` is.
fn line(bytes: &[u8], place: usize) -> Option<(usize, usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')? + 1;
    let word = bytes[..end].split(|&byte| byte == b' ').nth(place).unwrap_or_default();
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit());
    Some((end, digits.fold(0, |number, digit| 10 * number + usize::from(digit - b'0'))))
}

/// The length of the first request: one line, and the value that a `set` carries.
fn request(bytes: &[u8]) -> Option<usize> {
    let (line, value) = line(bytes, 4)?;
    let whole = if bytes[0] == b's' { line + value + 2 } else { line };
    (whole <= bytes.len()).then_some(whole)
}

/// Gives each whole answer to the client that is owed it.
fn hand_out(
    inbox: &mut Inbox,
    owed: &mut VecDeque<usize>,
    clients: &mut [Option<Client>],
    answered: &mut Vec<usize>,
) {
    while let Some(length) = answer(inbox.unread()) {
        let client = owed.pop_front().expect("an answer to something");
        if let Some(Some(client)) = clients.get_mut(client) {
            client.replies.extend_from_slice(&inbox.unread()[..length]);
        }
        answered.push(client);
        inbox.consume(length);
    }
}

/// The length of the first answer: one line, or values and the line after them.
fn answer(bytes: &[u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        let rest = bytes.get(length..)?;
        let (line, value) = line(rest, 3)?;
        length += line;
        if rest[0] != b'V' {
            return Some(length);
        }
        length += value + 2;
    }
}

impl Client {
    /// Reads what has come; false where the client is gone.
    fn read(&mut self) -> bool {
        loop {
            let room = self.inbox.room(FROM_CLIENT);
            let length = room.len();
            match self.conn.read(room) {
                Moved::Some(count) => {
                    self.inbox.filled(count);
                    // Less than there was room for: the socket is empty.
                    if count < length {
                        return true;
                    }
                }
                Moved::None => return true,
                Moved::Closed | Moved::Failed(_) => return false,
            }
        }
    }
}

fn main() -> Result<(), Mistake> {
    let mut arguments = std::env::args().skip(1);
    let (Some(at), Some(server)) = (arguments.next(), arguments.next()) else {
        return Err("usage: multiplexer LISTEN SERVER".into());
    };
    let listener = listen::listen_with(&at.parse::<Address>()?, listen::Options::default())?;
    let server = server.parse().map_err(|_| format!("{server} is no IP address with a port"))?;
    relay(listener, server).map_err(|error| error.to_string().into())
}

fn relay(mut listener: Listener, server: std::net::SocketAddr) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1_024);
    listener.register(poll.registry(), LISTENER)?;
    let mut server = Conn::connect(server, poll.registry(), SERVER)?;
    let (mut inbox, mut asked) = (Inbox::default(), Vec::new());
    let mut clients: Vec<Option<Client>> = Vec::new();
    let mut owed: VecDeque<usize> = VecDeque::new();
    let mut answered: Vec<usize> = Vec::new();
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }
        for event in &events {
            match event.token() {
                LISTENER => {
                    while let Ok(stream) = listener.accept() {
                        let token = Token(CLIENTS + clients.len());
                        let conn = Conn::accepted(stream, poll.registry(), token)?;
                        clients.push(Some(Client { conn, inbox: Inbox::default(), replies: Vec::new() }));
                    }
                }
                SERVER if event.is_readable() => loop {
                    let room = inbox.room(FROM_SERVER);
                    let length = room.len();
                    match server.read(room) {
                        Moved::Some(count) => {
                            inbox.filled(count);
                            hand_out(&mut inbox, &mut owed, &mut clients, &mut answered);
                            if count < length {
                                break;
                            }
                        }
                        Moved::None => break,
                        Moved::Closed | Moved::Failed(_) => {
                            return Err(io::Error::other("the server has closed the connection"));
                        }
                    }
                },
                SERVER => {}
                Token(token) if event.is_readable() => {
                    let place = token - CLIENTS;
                    let Some(Some(client)) = clients.get_mut(place) else { continue };
                    if !client.read() {
                        clients[place] = None;
                        continue;
                    }
                    while let Some(length) = request(client.inbox.unread()) {
                        asked.extend_from_slice(&client.inbox.unread()[..length]);
                        owed.push_back(place);
                        client.inbox.consume(length);
                    }
                }
                _ => {}
            }
        }
        // What a full socket leaves behind leaves in the next pass: with the loads this is for
        // there is one soon.
        if !asked.is_empty()
            && let Moved::Some(count) = server.write(&asked)
        {
            asked.drain(..count);
        }
        answered.sort_unstable();
        answered.dedup();
        answered.retain(|&place| {
            let Some(Some(client)) = clients.get_mut(place) else { return false };
            if let Moved::Some(count) = client.conn.write(&client.replies) {
                client.replies.drain(..count);
            }
            !client.replies.is_empty()
        });
    }
}
