//! What a queue is, in a few lines, and random requests of several clients whose answers must be
//! the model's.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::peer::Peer;

const CLIENTS: usize = 3;
const TUBES: usize = 2;

/// One request of one client; a message is meant by its place among all that were put.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put { tube: usize, priority: u32 },
    Reserve,
    Pop,
    Delete(usize),
    Release(usize, u32),
    Bury(usize, u32),
    Touch(usize),
    TouchSome(usize),
    Kick(usize, u32),
    KickJob(usize),
    ReserveJob(usize),
    Peek(usize),
    PeekReady(usize),
    PeekBuried(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    Reserved(usize),
    Buried(u64),
}

#[derive(Clone, Copy, Debug)]
struct Message {
    tube: usize,
    priority: u32,
    state: State,
}

/// The queues: messages by their numbers. Client 0 watches both tubes, client n only tube n - 1.
#[derive(Default)]
struct Model {
    messages: BTreeMap<u64, Message>,
    put: Vec<u64>,
    buried: u64,
}

impl Model {
    fn first(&self, matching: impl Fn(&Message) -> bool) -> Option<u64> {
        let ready =
            self.messages.iter().filter(|(_, message)| message.state == State::Ready && matching(message));
        ready.min_by_key(|(id, message)| (message.priority, **id)).map(|(id, _)| *id)
    }

    fn watched(client: usize, tube: usize) -> bool {
        client == 0 || client == tube + 1
    }

    fn nth(&self, place: usize) -> u64 {
        if self.put.is_empty() { 1 << 40 } else { self.put[place % self.put.len()] }
    }

    fn held(&mut self, client: usize, id: u64) -> Option<&mut Message> {
        self.messages.get_mut(&id).filter(|message| message.state == State::Reserved(client))
    }

    fn next_buried(&mut self) -> State {
        self.buried += 1;
        State::Buried(self.buried)
    }

    /// What is said, and what is to be heard; of a put the number is not known before.
    #[expect(clippy::too_many_lines, reason = "a table: one arm for each step")]
    fn step(&mut self, client: usize, step: Step) -> (String, String) {
        let body = |id: u64| format!("{id} 4\r\nbody");
        let not_found = || "NOT_FOUND".to_owned();
        let found = |id: Option<u64>| id.map_or_else(not_found, |id| format!("FOUND {}", body(id)));
        match step {
            Step::Put { tube, priority } => {
                (format!("put-in-tube t{tube} {priority} 0 600 4\r\nbody"), String::new())
            }
            Step::Reserve | Step::Pop => {
                let id = self.first(|message| Self::watched(client, message.tube));
                let (said, word) = if matches!(step, Step::Pop) {
                    ("pop", "POPPED")
                } else {
                    ("reserve-with-timeout 0", "RESERVED")
                };
                let Some(id) = id else { return (said.into(), "TIMED_OUT".into()) };
                if matches!(step, Step::Pop) {
                    self.messages.remove(&id);
                } else {
                    self.messages.get_mut(&id).unwrap().state = State::Reserved(client);
                }
                (said.into(), format!("{word} {}", body(id)))
            }
            Step::Delete(place) => {
                let id = self.nth(place);
                let may = self
                    .messages
                    .get(&id)
                    .is_some_and(|message| !matches!(message.state, State::Reserved(by) if by != client));
                if may {
                    self.messages.remove(&id);
                }
                (format!("delete {id}"), if may { "DELETED".into() } else { not_found() })
            }
            Step::Release(place, priority) => {
                let id = self.nth(place);
                let done = self.held(client, id).map(|message| {
                    message.state = State::Ready;
                    message.priority = priority;
                });
                (format!("release {id} {priority} 0"), done.map_or_else(not_found, |()| "RELEASED".into()))
            }
            Step::Bury(place, priority) => {
                let (id, aside) = (self.nth(place), self.next_buried());
                let done = self.held(client, id).map(|message| {
                    message.state = aside;
                    message.priority = priority;
                });
                (format!("bury {id} {priority}"), done.map_or_else(not_found, |()| "BURIED".into()))
            }
            Step::Touch(place) => {
                let id = self.nth(place);
                let held = self.held(client, id).is_some();
                (format!("touch {id}"), if held { "TOUCHED".into() } else { not_found() })
            }
            Step::TouchSome(place) => {
                let named = [self.nth(place), self.nth(place + 1), self.nth(place)];
                let held = named[..2].iter().filter(|id| self.held(client, **id).is_some()).count();
                let held = if named[0] == named[1] { held.min(1) } else { held };
                (format!("touch-batch {} {} {}", named[0], named[1], named[2]), format!("TOUCHED {held}"))
            }
            Step::Kick(tube, bound) => {
                let mut aside: Vec<(u64, u64)> = self
                    .messages
                    .iter()
                    .filter_map(|(id, message)| match message.state {
                        State::Buried(order) if message.tube == tube => Some((order, *id)),
                        _ => None,
                    })
                    .collect();
                aside.sort_unstable();
                aside.truncate(bound as usize);
                for (_, id) in &aside {
                    self.messages.get_mut(id).unwrap().state = State::Ready;
                }
                (format!("use t{tube}\r\nkick {bound}"), format!("USING t{tube}\r\nKICKED {}", aside.len()))
            }
            Step::KickJob(place) => {
                let id = self.nth(place);
                let aside =
                    self.messages.get_mut(&id).filter(|message| matches!(message.state, State::Buried(_)));
                let done = aside.map(|message| message.state = State::Ready);
                (format!("kick-job {id}"), done.map_or_else(not_found, |()| "KICKED".into()))
            }
            Step::ReserveJob(place) => {
                let id = self.nth(place);
                let free =
                    self.messages.get_mut(&id).filter(|message| !matches!(message.state, State::Reserved(_)));
                let done = free.map(|message| message.state = State::Reserved(client));
                (
                    format!("reserve-job {id}"),
                    done.map_or_else(not_found, |()| format!("RESERVED {}", body(id))),
                )
            }
            Step::Peek(place) => {
                let id = self.nth(place);
                (format!("peek {id}"), found(self.messages.contains_key(&id).then_some(id)))
            }
            Step::PeekReady(tube) => {
                let id = self.first(|message| message.tube == tube);
                (format!("use t{tube}\r\npeek-ready"), format!("USING t{tube}\r\n{}", found(id)))
            }
            Step::PeekBuried(tube) => {
                let aside = self.messages.iter().filter_map(|(id, message)| match message.state {
                    State::Buried(order) if message.tube == tube => Some((order, *id)),
                    _ => None,
                });
                let id = aside.min().map(|(_, id)| id);
                (format!("use t{tube}\r\npeek-buried"), format!("USING t{tube}\r\n{}", found(id)))
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let place = 0..12_usize;
    let step = prop_oneof![
        6 => (0..TUBES, 0..3_u32).prop_map(|(tube, priority)| Step::Put { tube, priority }),
        5 => Just(Step::Reserve),
        2 => Just(Step::Pop),
        2 => place.clone().prop_map(Step::Delete),
        2 => (place.clone(), 0..3_u32).prop_map(|(place, priority)| Step::Release(place, priority)),
        2 => (place.clone(), 0..3_u32).prop_map(|(place, priority)| Step::Bury(place, priority)),
        1 => place.clone().prop_map(Step::Touch),
        1 => place.clone().prop_map(Step::TouchSome),
        2 => (0..TUBES, 0..3_u32).prop_map(|(tube, bound)| Step::Kick(tube, bound)),
        1 => place.clone().prop_map(Step::KickJob),
        1 => place.clone().prop_map(Step::ReserveJob),
        1 => place.prop_map(Step::Peek),
        1 => (0..TUBES).prop_map(Step::PeekReady),
        1 => (0..TUBES).prop_map(Step::PeekBuried),
    ];
    proptest::collection::vec((0..CLIENTS, step), 1..60)
}

/// Whatever clients ask, the answers are the model's; at the end nothing is left but what the model
/// has.
pub(crate) fn compare(address: SocketAddr, cases: u32) {
    let mut clients: Vec<Peer> = (0..CLIENTS).map(|_| Peer::connect(address)).collect();
    for (client, peer) in clients.iter_mut().enumerate() {
        for tube in (0..TUBES).filter(|tube| Model::watched(client, *tube)) {
            peer.send(format!("watch t{tube}\r\n").as_bytes()).unwrap();
            peer.line().unwrap();
        }
        peer.send(b"ignore default\r\n").unwrap();
        peer.line().unwrap();
    }
    let clients = std::cell::RefCell::new(clients);
    let config = Config {
        cases,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(7),
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&steps(), |steps| {
        let mut clients = clients.borrow_mut();
        let mut model = Model::default();
        let mut well = Ok(());
        for (client, step) in steps {
            let (said, expected) = model.step(client, step);
            let peer = &mut clients[client];
            peer.send(format!("{said}\r\n").as_bytes()).unwrap();
            if let Step::Put { tube, priority } = step {
                let line = String::from_utf8(peer.line().unwrap()).unwrap();
                let id: u64 =
                    line.trim_end().strip_prefix("INSERTED ").and_then(|id| id.parse().ok()).unwrap();
                // Each tube has its own order; where they are divided, each shard gives numbers of
                // its own.
                let mut before = model.messages.iter().filter(|(_, message)| message.tube == tube);
                prop_assert!(before.all(|(last, _)| *last < id), "{id} after {:?}", model.put);
                model.put.push(id);
                model.messages.insert(id, Message { tube, priority, state: State::Ready });
                continue;
            }
            well =
                peer.expect(format!("{expected}\r\n").as_bytes()).map_err(|why| format!("{step:?}: {why}"));
            if well.is_err() {
                break;
            }
        }
        // The client that holds a message deletes it, so that the next case finds nothing.
        for (id, message) in &model.messages {
            let peer = &mut clients[if let State::Reserved(by) = message.state { by } else { 0 }];
            peer.send(format!("delete {id}\r\n").as_bytes()).unwrap();
            let line = peer.line().unwrap();
            if well.is_ok() {
                prop_assert_eq!(line, b"DELETED\r\n".to_vec());
            }
        }
        prop_assert!(well.is_ok(), "{}", well.unwrap_err());
        Ok(())
    });
    result.unwrap_or_else(|why| panic!("{why}"));
}
