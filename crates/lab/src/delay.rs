//! A delay line: what a host sends is kept for a while, in order, and passed on. It does in a
//! program what netem does in kernels that have it, so that all kernels are one code path.
//!
//! ```text
//!   the host's namespace                                   the switch's
//!   eth0 (TAP) ──frame──▶ kept for the delay, in order ──▶ c1 (TAP) ── bridge
//!              ◀──────────────── at once ────────────────
//! ```
//! Both devices are TAPs of one process, and go with it. Frames are taken as the kernel has them,
//! up to 64 KiB and without their checksums: it cuts and sums them where they leave the machine,
//! which they never do here.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::time::Instant;

use krarup_units::{Nanos, Stamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio, read, write};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::delay::tally::{LineTally, PASSED, STANDS};
use crate::testbed::namespace::inside;

pub mod tally;

/// What is kept at most, in bytes: what more is sent waits in the kernel, and is thrown away there
/// when it is too much, as at any link.
const MOST: usize = 64 << 20;
/// Frames that are taken before the others have their turn.
const TURN: usize = 64;
/// Room for the longest frame and what the kernel writes before it.
const LONGEST: usize = (64 << 10) + 256;
/// Places of frames that have gone and are used again.
const SPARE: usize = 1_024;
/// How often.
const TELLING: Nanos = Nanos::from_secs(1);

/// Frames under way, the oldest first.
#[derive(Debug)]
pub struct DelayLine {
    delay: Nanos,
    waiting: VecDeque<(Stamp, Vec<u8>)>,
    bytes: usize,
    free: Vec<Vec<u8>>,
}

impl DelayLine {
    /// A line on which nothing is under way yet.
    pub fn new(delay: Nanos) -> Self {
        Self { delay, waiting: VecDeque::new(), bytes: 0, free: Vec::new() }
    }

    /// Whether it takes no more for now.
    pub fn is_full(&self) -> bool {
        self.bytes >= MOST
    }

    /// Takes a frame that has come.
    pub fn take(&mut self, frame: &[u8], now: Stamp) {
        let mut kept = self.free.pop().unwrap_or_default();
        kept.extend_from_slice(frame);
        self.bytes += kept.len();
        self.waiting.push_back((now + self.delay, kept));
    }

    /// Passes on every frame that is due, in the order in which they came; `onward` is told how
    /// late each is, too.
    pub fn pass(&mut self, now: Stamp, mut onward: impl FnMut(&[u8], Nanos)) {
        while self.waiting.front().is_some_and(|(due, _)| *due <= now) {
            let Some((due, mut frame)) = self.waiting.pop_front() else { return };
            onward(&frame, now - due);
            self.bytes -= frame.len();
            frame.clear();
            if self.free.len() < SPARE {
                self.free.push(frame);
            }
        }
    }

    /// How long until the next one is due; none where none is under way.
    pub fn wait(&self, now: Stamp) -> Option<Nanos> {
        self.waiting.front().map(|(due, _)| Nanos(due.0.saturating_sub(now.0)))
    }
}

/// A TAP in a namespace. It is there as long as this value.
fn tap(space: &str, name: &str) -> io::Result<SyncDevice> {
    let name = name.to_owned();
    let device = inside(space, move || {
        let device = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).offload(true);
        device.build_sync()
    })?;
    ioctl_fionbio(&device, true)?;
    Ok(device)
}

/// The next frame that has come; none where there is none now.
fn next<'a>(device: &SyncDevice, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    match read(device, &mut *buffer) {
        Ok(count) => Ok(Some(&buffer[..count])),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends a frame. One that cannot be sent, as where the other side is not up yet, is lost, as on
/// any link.
fn send(device: &SyncDevice, frame: &[u8]) {
    let _ = write(device, frame);
}

/// Makes `eth0` in the namespace `host` and `name` in the namespace `switch`, says so, and is the
/// line between them until it is ended.
///
/// # Errors
/// Where a device cannot be made, or goes away.
pub fn run(delay: Nanos, host: &str, switch: &str, name: &str) -> io::Result<()> {
    let (near, far) = (tap(host, "eth0")?, tap(switch, name)?);
    // A link does not wait for a processor. Only root may say so.
    let _ = rustix::process::setpriority_process(None, -20);
    // Half of the usual 50 microseconds would be late on average.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let _ = writeln!(io::stderr(), "{STANDS}");
    let begun = Instant::now();
    let now = || Stamp(begun.elapsed().as_nanos() as u64);
    let (mut line, mut buffer) = (DelayLine::new(delay), vec![0; LONGEST]);
    let (mut tally, mut told, mut told_at) = (LineTally::default(), LineTally::default(), now());
    loop {
        for _ in 0..TURN {
            if line.is_full() {
                break;
            }
            match next(&near, &mut buffer)? {
                Some(frame) => line.take(frame, now()),
                None => break,
            }
        }
        let mut onward = |frame: &[u8], late: Nanos| {
            send(&far, frame);
            tally.count(late);
        };
        line.pass(now(), &mut onward);
        for _ in 0..TURN {
            match next(&far, &mut buffer)? {
                Some(frame) => send(&near, frame),
                None => break,
            }
        }
        line.pass(now(), &mut onward);
        let at = now();
        if tally != told && at - told_at >= TELLING {
            // Where it is not received, it goes on all the same: what runs next ends it.
            let _ = io::stderr().write_all(format!("{PASSED}{}\n", tally.text()).as_bytes());
            (told, told_at) = (tally, at);
        }
        let telling = (tally != told).then_some(TELLING);
        let wait = line.wait(at).into_iter().chain(telling).min().map(|wait| Timespec {
            tv_sec: (wait.0 / 1_000_000_000) as i64,
            tv_nsec: (wait.0 % 1_000_000_000) as i64,
        });
        let near_asked = if line.is_full() { PollFlags::empty() } else { PollFlags::IN };
        let mut both = [
            PollFd::from_borrowed_fd(near.as_fd(), near_asked),
            PollFd::from_borrowed_fd(far.as_fd(), PollFlags::IN),
        ];
        match poll(&mut both, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DELAY: Nanos = Nanos::from_micros(500);

    fn passed(line: &mut DelayLine, now: u64) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        line.pass(Stamp(now), |frame, late| {
            assert!(late < Nanos::from_secs(1));
            all.push(frame.to_vec());
        });
        all
    }

    #[test]
    fn a_frame_is_kept_for_the_delay_and_no_longer() {
        let mut line = DelayLine::new(DELAY);
        assert_eq!(line.wait(Stamp(0)), None);
        line.take(b"one", Stamp(1_000));
        line.take(b"two", Stamp(3_000));
        assert_eq!(line.wait(Stamp(1_000)), Some(DELAY));
        assert!(passed(&mut line, 500_999).is_empty());
        assert_eq!(line.wait(Stamp(500_999)), Some(Nanos(1)));
        assert_eq!(passed(&mut line, 501_000), [b"one"]);
        assert_eq!(line.wait(Stamp(503_700)), Some(Nanos::ZERO), "it is late by 700 ns");
        assert_eq!(passed(&mut line, 503_700), [b"two"]);
        assert_eq!((line.bytes, line.wait(Stamp(503_700))), (0, None));
    }

    #[test]
    fn what_has_passed_is_counted_with_how_late_it_was() {
        let (mut line, mut tally) = (DelayLine::new(DELAY), LineTally::default());
        line.take(b"one", Stamp(0));
        line.take(b"two", Stamp(250_000));
        line.pass(Stamp(750_000), |_, late| tally.count(late));
        assert_eq!(tally, LineTally { frames: 2, late: 0.00025 });
        assert_eq!(LineTally::read(&tally.text()), Some(tally));
        assert_eq!((LineTally::read("many"), LineTally::read("2 late")), (None, None));
    }

    #[test]
    fn a_full_line_takes_no_more_until_something_has_gone() {
        let mut line = DelayLine::new(DELAY);
        let frame = vec![7; 1 << 20];
        for number in 0..(MOST >> 20) as u64 {
            assert!(!line.is_full());
            line.take(&frame, Stamp(number));
        }
        assert!(line.is_full());
        assert_eq!(passed(&mut line, DELAY.0).len(), 1);
        assert!(!line.is_full());
    }

    proptest! {
        /// Whatever comes, and whenever it is looked: each frame goes once, whole, in order, and at
        /// the first look that is not before it is due.
        #[test]
        fn every_frame_goes_once_in_order_and_never_early(
            steps in proptest::collection::vec((0_u64..400_000, proptest::collection::vec(any::<u8>(), 0..40), any::<bool>()), 1..60),
        ) {
            let (mut line, mut now) = (DelayLine::new(DELAY), 0);
            let (mut taken, mut gone) = (Vec::new(), Vec::new());
            for (later, frame, look) in steps {
                now += later;
                line.take(&frame, Stamp(now));
                taken.push((now, frame));
                if look {
                    gone.extend(passed(&mut line, now));
                    let due = taken.iter().filter(|(at, _)| at + DELAY.0 <= now).count();
                    prop_assert_eq!(gone.len(), due);
                }
            }
            gone.extend(passed(&mut line, now + DELAY.0));
            let frames: Vec<Vec<u8>> = taken.into_iter().map(|(_, frame)| frame).collect();
            prop_assert_eq!(gone, frames);
            prop_assert_eq!(line.bytes, 0);
        }
    }
}
