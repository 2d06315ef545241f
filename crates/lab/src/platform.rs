//! What machine it is, and what processes take of it. Linux tells both in `/proc`.

use std::fs;

use krarup_units::{Bytes, Nanos, Seconds};

use crate::monitor::proc;

/// The machine an experiment ran on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The processor's own name.
    pub cpu: String,
    /// Processors that can be used.
    pub cores: u32,
    /// The kernel's version.
    pub kernel: String,
    /// Memory in all.
    pub memory: Bytes,
}

impl Platform {
    /// This machine, as far as it tells; what it does not tell is `unknown` or zero.
    pub fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            kernel: if kernel.is_empty() { "unknown".into() } else { format!("Linux {}", kernel.trim()) },
            memory: Bytes(memory(&meminfo)),
        }
    }
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn memory(meminfo: &str) -> u64 {
    let kilobytes = field(meminfo, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The name of this machine; `unknown` where it does not tell.
pub fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "unknown".to_owned() } else { name.trim().to_owned() }
}

/// Whether we are root, as which some servers refuse to run.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether there is no user here but ourselves: in a user namespace in which we are root, and no
/// other user is known.
pub fn is_alone() -> bool {
    alone(&fs::read_to_string("/proc/self/uid_map").unwrap_or_default())
}

fn alone(map: &str) -> bool {
    let users = map.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
    users.sum::<u64>() == 1
}

/// Processor time a process has taken so far, all its threads, user and system; none if it is gone.
///
/// From the scheduler's own account in nanoseconds: the usual one counts in hundredths of a second.
pub fn cpu_time(process: u32) -> Option<Nanos> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let times = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok().map(Nanos)
    });
    Some(times.sum())
}

/// Processor time of all children that have ended and were waited for, in seconds.
pub fn children_cpu() -> Seconds {
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    proc::process(&stat).map_or(0.0, |process| process.of_children as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_tells_is_read() {
        assert_eq!(field("a\t: x\nmodel name\t: Xeon(R) 2\n", "model name"), Some("Xeon(R) 2"));
        assert!(alone("         0      65534          1\n") && !alone("0 0 4294967295\n") && !alone(""));
        assert_eq!(memory("MemTotal:       24689508 kB\nMemFree: 1 kB\n"), 24_689_508 * 1024);
        assert!(Platform::this().cores >= 1);
    }

    #[test]
    fn processor_time_grows_and_that_of_no_process_is_unknown() {
        let before = cpu_time(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while cpu_time(std::process::id()).unwrap() == before {
            sum = (0..10_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        assert_eq!(cpu_time(u32::MAX), None);
    }
}
