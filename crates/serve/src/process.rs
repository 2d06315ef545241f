//! What this process uses of the machine, and what it may use.

use krarup_model::headroom::{Allowance, ResourceKind};
use krarup_net::{cpu, processors};
use krarup_record::exposition::ProcessMetrics;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit, setpriority_process};
use rustix::thread::gettid;

/// The lowest priority of a thread.
const LOWEST: i32 = 19;

/// The calling thread lets all others go first; one that may not goes on as it is.
pub(crate) fn yield_to_others() {
    let _ = setpriority_process(Some(gettid()), LOWEST);
}

/// What it holds and has open beside what it may, where both are known.
pub(crate) fn allowances() -> Vec<Allowance> {
    let ProcessMetrics { resident, open_files, most_files, .. } = process();
    let of = |resource, used: Option<u64>, most: Option<f64>| {
        let (used, most) = (used? as f64, most.filter(|most| *most > 0.0)?);
        Some(Allowance { resource, server: None, used, most, seen: Vec::new() })
    };
    let memory = of(ResourceKind::Memory, resident, processors::memory());
    let files = of(ResourceKind::Files, open_files, most_files.map(|most| most as f64));
    [memory, files].into_iter().flatten().collect()
}

/// What the system says of this process.
pub(crate) fn process() -> ProcessMetrics {
    let most_files = getrlimit(Resource::Nofile).current;
    ProcessMetrics {
        processor_time: cpu::process(),
        resident: resident_memory(),
        open_files: open_files(most_files),
        most_files,
    }
}

/// Files that this process has open, of the most that it may; none where the kernel does not say.
fn open_files(most: Option<u64>) -> Option<u64> {
    match std::fs::read_dir("/proc/self/fd") {
        // The directory that is being read is open as well, and closed when this is known.
        Ok(listed) => (listed.count() as u64).checked_sub(1),
        // All that it may are open: there is none to read the directory by.
        Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => most,
        Err(_) => None,
    }
}

/// Bytes of this process that are not paged out; none where the kernel does not say.
fn resident_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}
