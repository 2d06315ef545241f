//! Numbers of one moment, published by a loop for another thread that asks: the loop never waits.
//!
//! ```text
//!   a thread ──wants──▶ [slot] ──wakes──▶ event loop
//!            ◀──────── [slot] ◀─numbers──┘
//! ```
//!
//! While no thread asks, nothing is done. A loop that does not publish its numbers in time is
//! stuck. However many threads ask, the loops are asked one question at a time: a thread that asks
//! meanwhile gets the answer to the next question, or that a loop is stuck.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mio::Waker;

/// How long the loop may take to publish its numbers before it counts as stuck.
const STUCK: Duration = Duration::from_secs(1);

/// Where a loop lays down its numbers when it is asked to.
pub struct SnapshotSlot<T> {
    wanted: AtomicBool,
    published: Mutex<Option<T>>,
    there: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
    limit: Duration,
}

/// Locks what is whole at any time, also where a thread has panicked while it held it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> SnapshotSlot<T> {
    /// A slot that wakes the loop by `waker`.
    pub fn new(waker: Arc<Waker>) -> Arc<Self> {
        // A loop that cannot be woken will be found stuck.
        Self::waking(STUCK, move || _ = waker.wake())
    }

    /// A slot that wakes the loop by `wake`, and waits so long for its numbers.
    pub fn waking(limit: Duration, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            wanted: AtomicBool::new(false),
            published: Mutex::new(None),
            there: Condvar::new(),
            wake: Box::new(wake),
            limit,
        })
    }

    /// Publishes numbers if a thread has asked for them. The loop calls this once in each pass.
    #[inline]
    pub fn publish(&self, numbers: impl FnOnce() -> T) {
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Acquire) {
            *lock(&self.published) = Some(numbers());
            self.there.notify_all();
        }
    }

    fn want(&self) {
        *lock(&self.published) = None;
        self.wanted.store(true, Ordering::Release);
        (self.wake)();
    }

    fn wait(&self) -> Option<T> {
        let nothing = |published: &mut Option<T>| published.is_none();
        let waited = self.there.wait_timeout_while(lock(&self.published), self.limit, nothing);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// The slots of loops that are asked together.
pub struct SnapshotSlots<T> {
    slots: Vec<Arc<SnapshotSlot<T>>>,
    /// Numbers of two loops as those of one.
    sum: fn(T, T) -> T,
    asking: Mutex<Asking<T>>,
    answered: Condvar,
}

struct Asking<T> {
    /// Whether the loops are being asked.
    under_way: bool,
    /// The answer for threads that asked since then: what the loops publish now may be from before.
    next: Option<Arc<Outcome<T>>>,
}

/// What one question brings; none if a loop is stuck.
type Outcome<T> = OnceLock<Option<Arc<T>>>;

impl<T> SnapshotSlots<T> {
    /// The slots of several loops, whose numbers `sum` adds up.
    pub fn new(slots: Vec<Arc<SnapshotSlot<T>>>, sum: fn(T, T) -> T) -> Self {
        let asking = Mutex::new(Asking { under_way: false, next: None });
        Self { slots, sum, asking, answered: Condvar::new() }
    }

    /// The slot of the only loop.
    pub fn of(slot: Arc<SnapshotSlot<T>>) -> Self {
        Self::new(vec![slot], |one, _| one)
    }

    /// Numbers of a moment since this was called; none if one of the loops does not publish them in
    /// time.
    pub fn ask(&self) -> Option<Arc<T>> {
        self.outcome(&self.enqueue())
    }

    /// Takes part in the next question: what it brings will stand there.
    fn enqueue(&self) -> Arc<Outcome<T>> {
        Arc::clone(lock(&self.asking).next.get_or_insert_default())
    }

    /// Waits for what `mine` brings, and asks the question where no other thread does.
    fn outcome(&self, mine: &Outcome<T>) -> Option<Arc<T>> {
        let waits = |asking: &mut Asking<T>| asking.under_way && mine.get().is_none();
        let mut asking =
            self.answered.wait_while(lock(&self.asking), waits).unwrap_or_else(PoisonError::into_inner);
        if let Some(answered) = mine.get() {
            return answered.clone();
        }
        asking.under_way = true;
        let all = asking.next.take().unwrap_or_default();
        drop(asking);
        let found = self.question().map(Arc::new);
        let mut asking = lock(&self.asking);
        asking.under_way = false;
        // They have waited for a loop that is stuck, and need not find out again.
        let also = asking.next.take_if(|_| found.is_none());
        for answered in [Some(all), also].into_iter().flatten() {
            answered.get_or_init(|| found.clone());
        }
        self.answered.notify_all();
        found
    }

    fn question(&self) -> Option<T> {
        self.slots.iter().for_each(|slot| slot.want());
        let all: Option<Vec<T>> = self.slots.iter().map(|slot| slot.wait()).collect();
        all?.into_iter().reduce(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;

    /// A loop whose waking the test lets through one by one, and counts; each question waits for it
    /// up to a limit.
    struct Loop {
        slots: Arc<SnapshotSlots<u32>>,
        slot: Arc<SnapshotSlot<u32>>,
        woken: Receiver<()>,
        go_on: Sender<()>,
        questions: Arc<AtomicU32>,
    }

    fn one_loop(limit: Duration) -> Loop {
        let ((say, woken), (go_on, may)) = (channel(), channel());
        let (say, may) = (Mutex::new(say), Mutex::new(may));
        let questions = Arc::<AtomicU32>::default();
        let count = Arc::clone(&questions);
        let slot = SnapshotSlot::waking(limit, move || {
            count.fetch_add(1, Ordering::Relaxed);
            lock(&say).send(()).unwrap();
            lock(&may).recv().unwrap();
        });
        Loop { slots: Arc::new(SnapshotSlots::of(Arc::clone(&slot))), slot, woken, go_on, questions }
    }

    /// One asks, and while the loop is being woken so many others do.
    fn ask_together(stage: &Loop, others: usize) -> Vec<thread::JoinHandle<Option<Arc<u32>>>> {
        let asker = || {
            let (slots, mine) = (Arc::clone(&stage.slots), stage.slots.enqueue());
            thread::spawn(move || slots.outcome(&mine))
        };
        let mut askers = vec![asker()];
        stage.woken.recv().unwrap();
        askers.extend((0..others).map(|_| asker()));
        askers
    }

    /// Each waited a second in turn, so that the last of many heard much too late that the loop is
    /// stuck.
    #[test]
    fn one_question_finds_a_stuck_loop_for_all_callers_that_ask_meanwhile() {
        let stage = one_loop(Duration::ZERO);
        let askers = ask_together(&stage, 50);
        stage.go_on.send(()).unwrap();
        assert!(askers.into_iter().all(|asker| asker.join().unwrap().is_none()));
        assert_eq!(stage.questions.load(Ordering::Relaxed), 1);
        // Who comes later asks anew.
        let again = ask_together(&stage, 0);
        stage.slot.publish(|| 7);
        stage.go_on.send(()).unwrap();
        assert_eq!(
            again.into_iter().map(|asker| asker.join().unwrap().as_deref().copied()).last(),
            Some(Some(7))
        );
    }

    #[test]
    fn a_caller_that_asks_while_another_does_gets_what_is_stored_after_that() {
        let stage = one_loop(Duration::from_secs(60));
        let askers = ask_together(&stage, 50);
        for numbers in [1, 2] {
            stage.slot.publish(|| numbers);
            stage.go_on.send(()).unwrap();
            if numbers == 1 {
                stage.woken.recv().unwrap();
            }
        }
        let answered: Vec<_> = askers.into_iter().map(|asker| *asker.join().unwrap().unwrap()).collect();
        assert_eq!((answered[0], &answered[1..]), (1, &[2; 50][..]));
        assert_eq!(stage.questions.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn several_loops_are_asked_at_once_and_one_that_is_stuck_is_enough() {
        let published = Arc::<Mutex<Vec<Arc<SnapshotSlot<u32>>>>>::default();
        for stuck in [false, true] {
            let slots: Vec<_> = (0..3)
                .map(|_| {
                    let all = Arc::clone(&published);
                    // All want something before any is waited for.
                    SnapshotSlot::waking(Duration::ZERO, move || {
                        for slot in lock(&all).iter().skip(usize::from(stuck)) {
                            slot.publish(|| 1);
                        }
                    })
                })
                .collect();
            lock(&published).clone_from(&slots);
            assert_eq!(
                SnapshotSlots::new(slots, |one, other| one + other).ask().as_deref(),
                (!stuck).then_some(&3)
            );
        }
    }
}
