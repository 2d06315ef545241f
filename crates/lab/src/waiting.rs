//! Waiting for what this process is not told of otherwise: the end of a process, and what has no
//! notification at all.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How long it is until what has no notification is looked at again.
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// The number of a process as calls of the kernel take it; none: no process has it.
pub(crate) fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

/// Waits until a process has ended, its own child or not, and no longer than `within`; whether it
/// has.
pub(crate) fn for_end(process: u32, within: Duration) -> bool {
    let Some(pid) = pid(process) else { return true };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return true,
        // The system cannot tell (Linux before 5.3, no more descriptors): the caller looks again.
        Err(_) => {
            blindly(within.min(LOOK));
            return false;
        }
    };
    let within = Timespec::try_from(within).ok();
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], within.as_ref());
    ended.is_ok_and(|count| count > 0)
}

/// Lets a time pass, and nothing ends it earlier. The only place of this crate that sleeps: for a
/// port at which another program is to listen, a lock that another process has on a file, a group
/// whose last process the kernel is still taking out, pods that are on their way, a runner that
/// looks into a pod, and a span that is measured. Of all but the last the system sends no notice.
pub(crate) fn blindly(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_process_ends_the_wait() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(!for_end(child.id(), Duration::ZERO));
        // It ends with its input; it is not waited for, and is seen to have ended.
        drop(child.stdin.take());
        assert!(for_end(child.id(), Duration::from_secs(60)));
        assert!(child.wait().unwrap().success());
        assert!(for_end(child.id(), Duration::ZERO), "there is no such process any more");
    }
}
