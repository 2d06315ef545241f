//! The terminal: its keys, its size, and that it is as it was when the program ends, in whichever
//! way it does.
//!
//! ```text
//! keys, signals, answers, names ─▶ one channel ─▶ this thread draws
//!     a thread each                              ◀─ and says what is asked for
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use krarup_analysis::top::TopState;
use krarup_net::mio::{Events, Poll, Token};
use krarup_net::signal::SignalStream;
use krarup_report::top::{TopKey, TopPage, TopView, draw};
use krarup_units::{Address, Seconds};
use ratatui::DefaultTerminal;

use super::asking::{self, Elapsed, TopQuestion, TopReply};
use crate::failure::Failure;

/// How often an instance is asked for its headroom: its answers are that old at most.
const HEADROOM: Duration = Duration::from_secs(10);
/// Rows that Page Up and Page Down move.
const PAGE: isize = 10;

const STOP: Token = Token(0);

/// What happens.
#[derive(Debug)]
enum TopEvent {
    /// Something was typed, or the size has changed.
    Terminal(Event),
    Answer(TopReply),
    /// The instances that names stand for now.
    Instances(Vec<Address>),
    /// A signal, or a thread that cannot go on.
    End,
    /// The terminal cannot be read.
    Unreadable(io::Error),
}

/// What the pages that are shown need beside metrics; all threads that ask share it.
#[derive(Debug, Default)]
struct Wanted {
    hot_keys: AtomicBool,
    clients: AtomicBool,
}

impl Wanted {
    fn set(&self, page: TopPage) {
        self.hot_keys.store(page == TopPage::HotKeys, Ordering::Relaxed);
        self.clients.store(page == TopPage::Clients, Ordering::Relaxed);
    }

    fn asked(&self) -> impl Iterator<Item = TopQuestion> {
        let hot_keys = self.hot_keys.load(Ordering::Relaxed).then_some(TopQuestion::HotKeys);
        let clients = self.clients.load(Ordering::Relaxed).then_some(TopQuestion::Clients);
        hot_keys.into_iter().chain(clients)
    }
}

/// A terminal that is drawn on; when this is dropped it is as it was.
struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal. A panic of any thread restores it before its message is written.
    fn take() -> io::Result<Self> {
        ratatui::try_init().map(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Ends the program where its thread panics: what it does is missing from then on.
struct EndOnPanic(Sender<TopEvent>);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(TopEvent::End);
        }
    }
}

/// Watches on the terminal until a key or a signal ends it.
pub(super) fn run(
    addresses: &[Address],
    instances: Vec<Address>,
    every: Seconds,
    state: TopState,
    view: TopView,
    elapsed: Elapsed,
) -> Result<(), Failure> {
    let (send, received) = mpsc::channel();
    end_on_signals(send.clone()).map_err(|error| Failure::run(format!("signals are refused: {error}")))?;
    let (end, names) = (EndOnPanic(send.clone()), send.clone());
    asking::follow_names(addresses.to_vec(), instances.clone(), move |found| {
        let _end = &end;
        names.send(TopEvent::Instances(found)).is_ok()
    });
    let refused = |error: io::Error| Failure::run(format!("the terminal cannot be used: {error}"));
    let mut screen = Screen::take().map_err(refused)?;
    read_keys(send.clone());
    let mut watch = Watch {
        state,
        view,
        elapsed,
        every: Duration::from_secs_f64(every),
        frozen: None,
        wanted: Arc::default(),
        asking: BTreeMap::new(),
        send,
    };
    let services = watch.state.figures(elapsed.seconds(), None).services;
    watch.wanted.set(watch.view.shown(&services));
    watch.follow(instances);
    watch.watch(&mut screen.0, &received).map_err(refused)
}

/// What is watched, and by which threads.
struct Watch {
    state: TopState,
    view: TopView,
    elapsed: Elapsed,
    every: Duration,
    /// The moment that is shown while the view is paused.
    frozen: Option<(TopState, Seconds)>,
    wanted: Arc<Wanted>,
    /// The threads that ask, by instance; each ends when its sender is dropped.
    asking: BTreeMap<String, Sender<()>>,
    send: Sender<TopEvent>,
}

impl Watch {
    fn watch(&mut self, terminal: &mut DefaultTerminal, received: &Receiver<TopEvent>) -> io::Result<()> {
        let mut due = self.elapsed.seconds();
        loop {
            let now = self.elapsed.seconds();
            if now >= due {
                self.state.advance(now);
                due = now + self.every.as_secs_f64();
            }
            terminal.draw(|frame| {
                let (area, buffer) = (frame.area(), frame.buffer_mut());
                let (state, now) = match &self.frozen {
                    Some((state, then)) => (state, *then),
                    None => (&self.state, now),
                };
                draw(area, buffer, state, now, &mut self.view);
            })?;
            let mut next = received.recv_timeout(Duration::from_secs_f64((due - now).max(0.0)));
            // What has come meanwhile is drawn together.
            while let Ok(event) = next {
                if let TopEvent::Unreadable(error) = event {
                    return Err(error);
                }
                if !self.take(event) {
                    return Ok(());
                }
                next = received.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            if next.is_err_and(|error| error == RecvTimeoutError::Disconnected) {
                return Ok(());
            }
        }
    }

    /// Whether to go on.
    fn take(&mut self, event: TopEvent) -> bool {
        match event {
            TopEvent::End | TopEvent::Unreadable(_) => return false,
            TopEvent::Answer(reply) => reply.enter(&mut self.state),
            TopEvent::Instances(instances) => self.follow(instances),
            TopEvent::Terminal(Event::Key(key)) => return key_of(key).is_none_or(|key| self.press(key)),
            TopEvent::Terminal(_) => {}
        }
        true
    }

    fn press(&mut self, key: TopKey) -> bool {
        let now = self.elapsed.seconds();
        let figures = self.state.figures(now, None);
        let goes_on = self.view.press(key, &figures);
        self.frozen = match self.frozen.take() {
            _ if !self.view.paused => None,
            Some(frozen) => Some(frozen),
            None => Some((self.state.clone(), now)),
        };
        let before: Vec<_> = self.wanted.asked().collect();
        self.wanted.set(self.view.shown(&figures.services));
        if self.wanted.asked().any(|asked| !before.contains(&asked)) {
            // The page need not wait for the next look.
            self.asking.values().for_each(|thread| _ = thread.send(()));
        }
        goes_on
    }

    /// These instances are looked at from now on.
    fn follow(&mut self, instances: Vec<Address>) {
        self.state.set_instances(instances.iter().map(ToString::to_string));
        let mut before = std::mem::take(&mut self.asking);
        for instance in instances {
            let name = instance.to_string();
            let thread = before.remove(&name).unwrap_or_else(|| {
                let (keep, ended) = mpsc::channel();
                ask(instance, self.every, self.elapsed, Arc::clone(&self.wanted), self.send.clone(), ended);
                keep
            });
            self.asking.insert(name, thread);
        }
    }
}

/// Asks an instance again and again, on a thread of its own, until the other end of `more` is
/// dropped; what comes from there is that more than metrics is wanted at once.
fn ask(
    instance: Address,
    every: Duration,
    elapsed: Elapsed,
    wanted: Arc<Wanted>,
    send: Sender<TopEvent>,
    more: Receiver<()>,
) {
    thread::spawn(move || {
        let _end = EndOnPanic(send.clone());
        let (mut kind, mut headroom) = (None, None);
        let mut due = elapsed.seconds() + every.as_secs_f64();
        loop {
            let left = Duration::from_secs_f64((due - elapsed.seconds()).max(0.0));
            let looks = match more.recv_timeout(left) {
                Ok(()) => false,
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if looks {
                let reply = asking::metrics(&instance, elapsed);
                // Looks keep their distance however long an answer takes.
                let (next, now) = (due + every.as_secs_f64(), elapsed.seconds());
                due = if next > now { next } else { now + every.as_secs_f64() };
                kind = reply.kind();
                if send.send(TopEvent::Answer(reply)).is_err() {
                    return;
                }
                headroom = kind
                    .and(headroom)
                    .or_else(|| kind.map(|_| ask_headroom(instance.clone(), elapsed, send.clone())));
            }
            let asked = wanted.asked().filter(|question| kind.is_some_and(|kind| question.suits(kind)));
            for reply in asked.map(|question| asking::more(&instance, question, elapsed)) {
                let _ = send.send(TopEvent::Answer(reply));
            }
        }
    });
}

/// Asks an instance for its headroom until what is returned is dropped. It takes long to answer,
/// and no look waits for it.
fn ask_headroom(instance: Address, elapsed: Elapsed, send: Sender<TopEvent>) -> Sender<()> {
    let (keep, ended) = mpsc::channel();
    thread::spawn(move || {
        let _end = EndOnPanic(send.clone());
        loop {
            let reply = asking::more(&instance, TopQuestion::Headroom, elapsed);
            // Another may ask meanwhile, and what it was told stands.
            if ended.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
            if send.send(TopEvent::Answer(reply)).is_err() {
                return;
            }
            if ended.recv_timeout(HEADROOM) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    keep
}

/// The signals that end a work end the program in order.
fn end_on_signals(send: Sender<TopEvent>) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let signals = SignalStream::ending(poll.registry(), STOP)?;
    thread::spawn(move || {
        let _kept = signals;
        let mut events = Events::with_capacity(4);
        loop {
            match poll.poll(&mut events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let _ = send.send(TopEvent::End);
    });
    Ok(())
}

/// What is typed, and changes of the size.
fn read_keys(send: Sender<TopEvent>) {
    thread::spawn(move || {
        let _end = EndOnPanic(send.clone());
        loop {
            let event = event::read().map_or_else(TopEvent::Unreadable, TopEvent::Terminal);
            let over = matches!(event, TopEvent::Unreadable(_));
            if send.send(event).is_err() || over {
                return;
            }
        }
    });
}

/// What a key does; none: nothing.
fn key_of(key: KeyEvent) -> Option<TopKey> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if control => TopKey::Quit,
        KeyCode::Char(_) if control => return None,
        KeyCode::Char('q') => TopKey::Quit,
        KeyCode::Char('?' | 'h') => TopKey::Help,
        KeyCode::Esc => TopKey::Close,
        KeyCode::Char('s') => TopKey::Sort,
        KeyCode::Char('r') => TopKey::Reverse,
        KeyCode::Char(' ') => TopKey::Pause,
        KeyCode::Char('i') => TopKey::Instance,
        KeyCode::Char('g') => TopKey::Group,
        KeyCode::Char('c') => TopKey::Columns,
        KeyCode::Char(digit) => TopKey::Page(digit.to_digit(10)? as usize),
        KeyCode::Tab | KeyCode::Right => TopKey::NextPage,
        KeyCode::BackTab | KeyCode::Left => TopKey::PreviousPage,
        KeyCode::Up => TopKey::Scroll(-1),
        KeyCode::Down => TopKey::Scroll(1),
        KeyCode::PageUp => TopKey::Scroll(-PAGE),
        KeyCode::PageDown => TopKey::Scroll(PAGE),
        KeyCode::Home => TopKey::First,
        KeyCode::End => TopKey::Last,
        _ => return None,
    })
}
