//! A proxy before a real server that passes on what is sent, and at times does what a faulty server
//! would do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use socket2::SockRef;

/// What a bad server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends in the middle of an answer.
    HalfAnswer,
    /// The connection is reset.
    Reset,
    /// No answer comes any more, and the connection stays.
    Stall,
    /// The connection ends, and the next one is made but never heard.
    Deaf,
    /// Something that is no answer comes between two answers.
    Garbage,
    /// Some answers come twice.
    Twice,
}

/// After so many bytes of answers on a connection something goes wrong on it.
const AFTER: usize = 100_000;

/// The one.
pub(crate) struct Saboteur {
    address: SocketAddr,
    plan: Arc<Plan>,
}

struct Plan {
    fault: Fault,
    times: usize,
    begun: AtomicBool,
    committed: AtomicUsize,
}

impl Plan {
    /// Takes one of the faults that are left, once it has begun.
    fn commits(&self) -> bool {
        let more = |committed| (committed < self.times).then_some(committed + 1);
        self.begun.load(SeqCst) && self.committed.fetch_update(SeqCst, SeqCst, more).is_ok()
    }
}

impl Saboteur {
    /// Stands before this server and will do this wrong so many times, once it is told to begin.
    pub(crate) fn before(server: SocketAddr, fault: Fault, times: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let plan =
            Arc::new(Plan { fault, times, begun: AtomicBool::new(false), committed: AtomicUsize::new(0) });
        let shared = Arc::clone(&plan);
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let plan = Arc::clone(&shared);
                if serve(client, server, &plan) && plan.fault == Fault::Deaf {
                    let Ok((client, _)) = listener.accept() else { return };
                    ignore(&client);
                }
            }
        });
        Self { address, plan }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on things go wrong.
    pub(crate) fn begin(&self) {
        self.plan.begun.store(true, SeqCst);
    }

    /// How many things went wrong so far.
    pub(crate) fn committed(&self) -> usize {
        self.plan.committed.load(SeqCst)
    }
}

/// Passes on what the two say until one of them goes or something is done wrong; returns which it
/// was.
fn serve(mut client: TcpStream, server: SocketAddr, plan: &Plan) -> bool {
    // A server that is gone is a connection that ends.
    let Ok(mut server) = TcpStream::connect(server) else { return false };
    let mut buffer = vec![0; 1 << 16];
    let mut answers = 0;
    loop {
        let [from_client, from_server] = readable(&client, &server);
        if from_client {
            match client.read(&mut buffer) {
                Ok(count @ 1..) if server.write_all(&buffer[..count]).is_ok() => {}
                _ => return false,
            }
        }
        if from_server {
            let Ok(count @ 1..) = server.read(&mut buffer) else { return false };
            answers += count;
            if answers > AFTER && plan.commits() {
                commit(plan.fault, &mut client, &buffer[..count]);
                return true;
            }
            if client.write_all(&buffer[..count]).is_err() {
                return false;
            }
        }
    }
}

/// Which of the two has said something, or has gone.
fn readable(client: &TcpStream, server: &TcpStream) -> [bool; 2] {
    let mut both = [client, server].map(|stream| PollFd::new(stream, PollFlags::IN));
    poll(&mut both, None).unwrap();
    both.map(|one| !one.revents().is_empty())
}

/// Does wrong with what the server has just answered.
fn commit(fault: Fault, client: &mut TcpStream, answer: &[u8]) {
    match fault {
        Fault::HalfAnswer => {
            // Never a whole number of lines.
            let _ = client.write_all(&answer[..answer.len() - 1]);
        }
        Fault::Reset => SockRef::from(&*client).set_linger(Some(Duration::ZERO)).unwrap(),
        Fault::Stall => ignore(client),
        Fault::Deaf => {}
        Fault::Garbage => {
            let _ = client.write_all(b"what did you say?\r\n");
            ignore(client);
        }
        Fault::Twice => {
            let _ = client.write_all(answer).and_then(|()| client.write_all(answer));
            ignore(client);
        }
    }
}

/// Hears without listening, until the other one goes.
fn ignore(mut client: &TcpStream) {
    let mut buffer = [0; 4096];
    while matches!(client.read(&mut buffer), Ok(1..)) {}
}
