//! Numbers of one moment, laid down by a loop for another thread that asks: the loop never waits.
//!
//! ```text
//!   who asks ──wants──▶ [board] ──wakes──▶ event loop
//!            ◀──────── [board] ◀─numbers──┘
//! ```
//!
//! Nobody asks, nothing is done. A loop that does not lay down its numbers in time is stuck. However many ask, the loops are asked one
//! question at a time: whoever comes meanwhile is told what the next one brings, and where a loop is found stuck, that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use mio::Waker;

/// How long the loop may take to lay down its numbers before it counts as stuck.
const STUCK: Duration = Duration::from_secs(1);

/// Where a loop lays down its numbers when it is asked to.
pub struct Board<T> {
    wanted: AtomicBool,
    laid: Mutex<Option<T>>,
    there: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
    patience: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Board<T> {
    /// A board that wakes the loop by `waker`.
    pub fn new(waker: Arc<Waker>) -> Arc<Self> {
        // A loop that cannot be woken will be found stuck.
        Self::waking(STUCK, move || _ = waker.wake())
    }

    /// A board that wakes the loop by `wake`, and waits so long for its numbers.
    pub fn waking(patience: Duration, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            wanted: AtomicBool::new(false),
            laid: Mutex::new(None),
            there: Condvar::new(),
            wake: Box::new(wake),
            patience,
        })
    }

    /// Lays down numbers if somebody wants them. The loop calls this once in each pass.
    #[inline]
    pub fn lay(&self, numbers: impl FnOnce() -> T) {
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Acquire) {
            *lock(&self.laid) = Some(numbers());
            self.there.notify_all();
        }
    }

    fn want(&self) {
        *lock(&self.laid) = None;
        self.wanted.store(true, Ordering::Release);
        (self.wake)();
    }

    fn wait(&self) -> Option<T> {
        let nothing = |laid: &mut Option<T>| laid.is_none();
        let waited = self.there.wait_timeout_while(lock(&self.laid), self.patience, nothing);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// The boards of loops that are asked together, and by nobody else.
pub struct Boards<T> {
    boards: Vec<Arc<Board<T>>>,
    /// Numbers of two loops as those of one.
    sum: fn(T, T) -> T,
    asking: Mutex<Asking<T>>,
    told: Condvar,
}

struct Asking<T> {
    /// Whether the loops are being asked.
    under_way: bool,
    /// What those will be told who came since then: what the loops lay down now may be from before.
    next: Option<Arc<Told<T>>>,
}

/// What one question brings; none if a loop is stuck.
type Told<T> = OnceLock<Option<Arc<T>>>;

impl<T> Boards<T> {
    /// The boards of several loops, whose numbers `sum` adds up.
    pub fn new(boards: Vec<Arc<Board<T>>>, sum: fn(T, T) -> T) -> Self {
        let asking = Mutex::new(Asking { under_way: false, next: None });
        Self { boards, sum, asking, told: Condvar::new() }
    }

    /// The board of the only loop.
    pub fn of(board: Arc<Board<T>>) -> Self {
        Self::new(vec![board], |one, _| one)
    }

    /// Numbers of a moment since this was called; none if one of the loops does not lay them down in time.
    pub fn ask(&self) -> Option<Arc<T>> {
        let mut mine: Option<Arc<Told<T>>> = None;
        let mut asking = lock(&self.asking);
        while asking.under_way {
            mine = mine.or_else(|| Some(Arc::clone(asking.next.get_or_insert_default())));
            asking = self.told.wait(asking).unwrap_or_else(PoisonError::into_inner);
            if let Some(told) = mine.as_ref().and_then(|mine| mine.get()) {
                return told.clone();
            }
        }
        asking.under_way = true;
        let all = asking.next.take().unwrap_or_default();
        drop(asking);
        let found = self.question().map(Arc::new);
        let mut asking = lock(&self.asking);
        asking.under_way = false;
        // They have waited for a loop that is stuck, and need not find out again.
        let also = asking.next.take_if(|_| found.is_none());
        for told in [Some(all), also].into_iter().flatten() {
            told.get_or_init(|| found.clone());
        }
        self.told.notify_all();
        found
    }

    fn question(&self) -> Option<T> {
        self.boards.iter().for_each(|board| board.want());
        let all: Option<Vec<T>> = self.boards.iter().map(|board| board.wait()).collect();
        all?.into_iter().reduce(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use super::*;

    /// A loop whose waking the test lets through one by one, and counts; the first question is told so much patience.
    struct Loop {
        boards: Arc<Boards<u32>>,
        board: Arc<Board<u32>>,
        woken: Receiver<()>,
        go_on: Sender<()>,
        questions: Arc<AtomicU32>,
    }

    fn one_loop(patience: Duration) -> Loop {
        let ((say, woken), (go_on, may)) = (channel(), channel());
        let (say, may) = (Mutex::new(say), Mutex::new(may));
        let questions = Arc::<AtomicU32>::default();
        let count = Arc::clone(&questions);
        let board = Board::waking(patience, move || {
            count.fetch_add(1, Ordering::Relaxed);
            lock(&say).send(()).unwrap();
            lock(&may).recv().unwrap();
        });
        Loop { boards: Arc::new(Boards::of(Arc::clone(&board))), board, woken, go_on, questions }
    }

    /// One asks, and while the loop is being woken so many others do.
    fn ask_together(stage: &Loop, others: usize) -> Vec<thread::JoinHandle<Option<Arc<u32>>>> {
        let asker = || {
            let boards = Arc::clone(&stage.boards);
            thread::spawn(move || boards.ask())
        };
        let mut askers = vec![asker()];
        stage.woken.recv().unwrap();
        askers.extend((0..others).map(|_| asker()));
        let waiting = || lock(&stage.boards.asking).next.as_ref().map_or(0, Arc::strong_count);
        while waiting().saturating_sub(1) < others {
            thread::yield_now();
        }
        askers
    }

    /// Each waited a second in turn, so that the last of many heard much too late that the loop is stuck.
    #[test]
    fn one_question_finds_a_stuck_loop_for_all_who_ask_meanwhile() {
        let stage = one_loop(Duration::ZERO);
        let askers = ask_together(&stage, 50);
        stage.go_on.send(()).unwrap();
        assert!(askers.into_iter().all(|asker| asker.join().unwrap().is_none()));
        assert_eq!(stage.questions.load(Ordering::Relaxed), 1);
        // Who comes later asks anew.
        let again = ask_together(&stage, 0);
        stage.board.lay(|| 7);
        stage.go_on.send(()).unwrap();
        assert_eq!(
            again.into_iter().map(|asker| asker.join().unwrap().as_deref().copied()).last(),
            Some(Some(7))
        );
    }

    #[test]
    fn who_asks_while_another_does_is_told_what_is_laid_down_after_that() {
        let stage = one_loop(Duration::from_secs(60));
        let askers = ask_together(&stage, 50);
        for numbers in [1, 2] {
            stage.board.lay(|| numbers);
            stage.go_on.send(()).unwrap();
            if numbers == 1 {
                stage.woken.recv().unwrap();
            }
        }
        let told: Vec<_> = askers.into_iter().map(|asker| *asker.join().unwrap().unwrap()).collect();
        assert_eq!((told[0], &told[1..]), (1, &[2; 50][..]));
        assert_eq!(stage.questions.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn several_loops_are_asked_at_once_and_one_that_is_stuck_is_enough() {
        let laid = Arc::<Mutex<Vec<Arc<Board<u32>>>>>::default();
        for stuck in [false, true] {
            let boards: Vec<_> = (0..3)
                .map(|_| {
                    let all = Arc::clone(&laid);
                    // All want something before any is waited for.
                    Board::waking(Duration::ZERO, move || {
                        for board in lock(&all).iter().skip(usize::from(stuck)) {
                            board.lay(|| 1);
                        }
                    })
                })
                .collect();
            lock(&laid).clone_from(&boards);
            assert_eq!(
                Boards::new(boards, |one, other| one + other).ask().as_deref(),
                (!stuck).then_some(&3)
            );
        }
    }
}
