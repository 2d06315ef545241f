//! Clients that put, reserve and delete as fast as they can and write down what they were answered;
//! then what was answered must be true.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::support::peer::Peer;
use crate::support::{Progress, TOO_LONG};

/// What one client was answered, and what it does not know.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Bodies whose put was answered.
    put: Vec<String>,
    /// Bodies whose put was sent and not answered.
    perhaps_put: Vec<String>,
    /// Bodies whose message was deleted.
    done: Vec<String>,
    /// Bodies whose delete was sent and not answered.
    perhaps_done: Vec<String>,
    /// Clients whose connection ended.
    pub(crate) lost_connections: usize,
}

pub(crate) struct Storm {
    clients: Vec<JoinHandle<History>>,
    answered: Arc<Progress>,
    over: Arc<AtomicBool>,
}

impl Storm {
    pub(crate) fn begin(address: SocketAddr, clients: usize) -> Self {
        Self::in_tubes(address, clients, 0)
    }

    /// In so many tubes: each client puts into one of them, and takes from all. None: all in
    /// `default`.
    pub(crate) fn in_tubes(address: SocketAddr, clients: usize, tubes: usize) -> Self {
        // No two clients of the whole test put the same.
        static CLIENTS: AtomicUsize = AtomicUsize::new(0);
        let first = CLIENTS.fetch_add(clients, Ordering::Relaxed);
        let (answered, over) = (Arc::<Progress>::default(), Arc::new(AtomicBool::new(false)));
        let clients = (first..first + clients).map(|number| {
            let (answered, over) = (Arc::clone(&answered), Arc::clone(&over));
            thread::spawn(move || client(address, number, tubes, &answered, &over))
        });
        Self { clients: clients.collect(), answered, over }
    }

    /// Goes on until so many requests have been answered.
    pub(crate) fn wait_for(&self, requests: usize) {
        assert!(self.answered.reaches(requests));
    }

    pub(crate) fn end(self) -> History {
        self.over.store(true, Ordering::Relaxed);
        let mut all = History::default();
        for client in self.clients {
            all.add(client.join().unwrap());
        }
        all
    }
}

/// It watches so many tubes; whether its connection stands.
fn watch(peer: &mut Peer, tubes: usize) -> Result<(), String> {
    for tube in 0..tubes {
        peer.send(format!("watch s{tube}\r\n").as_bytes())?;
        peer.line()?;
    }
    Ok(())
}

fn client(
    address: SocketAddr,
    number: usize,
    tubes: usize,
    answered: &Progress,
    over: &AtomicBool,
) -> History {
    let mut history = History::default();
    let mut peer = Peer::connect(address);
    if tubes > 0 {
        let used = format!("use s{}\r\n", number % tubes);
        let begun =
            peer.send(used.as_bytes()).and_then(|()| peer.line()).and_then(|_| watch(&mut peer, tubes));
        assert!(begun.is_ok());
    }
    for turn in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        if one_turn(&mut peer, &format!("{number}-{turn}"), turn, &mut history).is_err() {
            history.lost_connections = 1;
            break;
        }
        answered.add(1);
    }
    history
}

/// A put; every other time also a reserve and a delete, so that some messages stay.
fn one_turn(peer: &mut Peer, body: &str, turn: usize, history: &mut History) -> Result<(), String> {
    history.perhaps_put.push(body.to_owned());
    peer.send(format!("put 1 0 60 {}\r\n{body}\r\n", body.len()).as_bytes())?;
    let line = peer.line()?;
    assert!(line.starts_with(b"INSERTED "), "{}", String::from_utf8_lossy(&line));
    history.perhaps_put.pop();
    history.put.push(body.to_owned());
    if turn.is_multiple_of(2) {
        return Ok(());
    }
    peer.send(b"reserve-with-timeout 0\r\n")?;
    let line = String::from_utf8(peer.line()?).unwrap();
    let Some(rest) = line.strip_prefix("RESERVED ") else { return Ok(()) };
    let id = rest.split(' ').next().unwrap().to_owned();
    let body = String::from_utf8(peer.line()?).unwrap().trim_end().to_owned();
    history.perhaps_done.push(body.clone());
    peer.send(format!("delete {id}\r\n").as_bytes())?;
    let line = peer.line()?;
    assert_eq!(line, b"DELETED\r\n", "it was reserved for a minute");
    history.perhaps_done.pop();
    history.done.push(body);
    Ok(())
}

impl History {
    /// What others were answered.
    pub(crate) fn add(&mut self, other: Self) {
        self.put.extend(other.put);
        self.perhaps_put.extend(other.perhaps_put);
        self.done.extend(other.done);
        self.perhaps_done.extend(other.perhaps_done);
        self.lost_connections += other.lost_connections;
    }

    /// How many puts were answered.
    pub(crate) fn answered(&self) -> usize {
        self.put.len()
    }

    /// Another client was answered that this is there.
    pub(crate) fn was_put(&mut self, body: &str) {
        self.put.push(body.to_owned());
    }

    /// Takes everything that is left at `address` and compares: each message that was put has been
    /// deleted or is there, those that were deleted are not, nothing is there twice or came from
    /// nowhere, and what is left comes in the order of its ids. For what is held by a broker that
    /// is no more it waits so many seconds.
    pub(crate) fn check(&self, address: SocketAddr, patience: u32) {
        self.check_tubes(address, patience, 0);
    }

    /// The same in so many tubes, between which there is no order.
    pub(crate) fn check_tubes(&self, address: SocketAddr, patience: u32, tubes: usize) {
        let mut peer = Peer::connect(address);
        watch(&mut peer, tubes).unwrap();
        let begun = Instant::now();
        let mut left = Vec::new();
        let mut last = 0;
        loop {
            peer.send(format!("pop {patience}\r\n").as_bytes()).unwrap();
            let line = String::from_utf8(peer.line().unwrap()).unwrap();
            let Some(rest) = line.strip_prefix("POPPED ") else {
                assert_eq!(line, "TIMED_OUT\r\n");
                // On a machine with much to do it may come back later.
                if patience == 0 || self.lost(&left).is_empty() || begun.elapsed() > TOO_LONG {
                    break;
                }
                continue;
            };
            let id: u64 = rest.split(' ').next().unwrap().parse().unwrap();
            assert!(id > last || patience > 0 || tubes > 0, "{id} after {last}");
            last = id;
            left.push(String::from_utf8(peer.line().unwrap()).unwrap().trim_end().to_owned());
        }
        let set = |list: &[String]| list.iter().cloned().collect::<HashSet<String>>();
        let (done, there) = (set(&self.done), set(&left));
        assert_eq!(done.len(), self.done.len(), "a message was deleted twice");
        assert_eq!(there.len(), left.len(), "a message is there twice");
        assert!(done.is_disjoint(&there), "a deleted message is there again");
        let known = &set(&self.put) | &set(&self.perhaps_put);
        assert!(there.is_subset(&known) && done.is_subset(&known), "a message came from nowhere");
        let lost = self.lost(&left);
        assert!(lost.is_empty(), "{} of {} answered messages are lost: {lost:?}", lost.len(), self.put.len());
        assert!(self.put.len() > 100 && !done.is_empty(), "something happened");
    }

    /// What was put, is not deleted and not among what is left.
    fn lost(&self, left: &[String]) -> Vec<&String> {
        let accounted: HashSet<&String> = self.done.iter().chain(left).chain(&self.perhaps_done).collect();
        self.put.iter().filter(|body| !accounted.contains(body)).collect()
    }
}
