//! How many processors this process may use, those that it may run on and the quota of its control
//! group, and how much memory; of groups of either version, the groups around it included.
//!
//! ```text
//! /proc/self/cgroup       in which group the process is       0::/system.slice/krarup.service
//! /proc/self/mountinfo    where groups of either kind stand    … / /sys/fs/cgroup … - cgroup2 …
//! cpu.max                 version 2: quota and period, or `max`
//! cpu.cfs_quota_us        version 1: quota or −1, and cpu.cfs_period_us
//! memory.max              version 2: bytes, or `max`
//! memory.limit_in_bytes   version 1: bytes, or a number beyond all memory
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

/// Processors that this process may use, above zero and with a fraction under a quota. What the
/// system does not say counts as no limit; at least one processor is there.
pub fn usable() -> f64 {
    let runs_on = runs_on(rustix::thread::sched_getaffinity(None).map(|cpus| cpus.count()));
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let quota = quota(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"), |path| {
        fs::read_to_string(path).ok()
    });
    quota.map_or(f64::from(runs_on), |quota| quota.min(f64::from(runs_on)))
}

/// The processors that the system says the process may run on. On a machine with more than its
/// answer has room for it says nothing of that.
fn runs_on(said: rustix::io::Result<u32>) -> u32 {
    let counted = || thread::available_parallelism().map_or(1, |count| count.get() as u32);
    said.map_or_else(|_| counted(), |count| count.max(1))
}

/// Bytes of memory that this process may hold by its control groups; none: there is no limit.
pub fn memory() -> Option<f64> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let read = |path: &Path| fs::read_to_string(path).ok();
    memory_limit(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"), read)
}

/// The least quota of the groups that the process is in, in processors; none: there is no quota.
fn quota(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    least("cpu", groups, mounts, |folder, second| {
        if second { second_quota(folder, &read) } else { first_quota(folder, &read) }
    })
}

fn memory_limit(groups: &str, mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    least("memory", groups, mounts, |folder, second| {
        let file = if second { "memory.max" } else { "memory.limit_in_bytes" };
        let bytes: u64 = read(&folder.join(file))?.trim().parse().ok()?;
        (bytes < BEYOND_ALL_MEMORY).then_some(bytes as f64)
    })
}

/// What version 1 says where there is no limit is a number like this.
const BEYOND_ALL_MEMORY: u64 = 1 << 60;

/// The least that a controller's groups allow which the process is in; `of` reads it in a folder of
/// the second version or the first.
fn least(
    controller: &str,
    groups: &str,
    mounts: &str,
    of: impl Fn(&Path, bool) -> Option<f64>,
) -> Option<f64> {
    let of_group = |line: &str| -> Option<f64> {
        // The number of the hierarchy, its controllers (of version 2 none), and the group.
        let mut words = line.splitn(3, ':');
        let (_, controllers, group) = (words.next()?, words.next()?, words.next()?);
        let second = controllers.is_empty();
        if !second && controllers.split(',').all(|one| one != controller) {
            return None;
        }
        let (top, place) = place(mounts, second, controller, group)?;
        let around = place.ancestors().take_while(|folder| folder.starts_with(&top));
        around.filter_map(|folder| of(folder, second)).reduce(f64::min)
    };
    groups.lines().filter_map(of_group).reduce(f64::min)
}

/// Where the groups of a kind are mounted, and where in it this group is.
fn place(mounts: &str, second: bool, controller: &str, group: &str) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (filesystem, _, options) = (kind.next()?, kind.next()?, kind.next()?);
        let ours = match second {
            true => filesystem == "cgroup2",
            false => filesystem == "cgroup" && options.split(',').any(|option| option == controller),
        };
        if !ours {
            return None;
        }
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, PathBuf::from(mount.next()?));
        // A container may see its own group as the top.
        let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
        Some((point.clone(), point.join(below)))
    })
}

fn second_quota(folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    let text = read(&folder.join("cpu.max"))?;
    let mut words = text.split_whitespace();
    share(words.next()?, words.next()?)
}

fn first_quota(folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<f64> {
    share(&read(&folder.join("cpu.cfs_quota_us"))?, &read(&folder.join("cpu.cfs_period_us"))?)
}

/// `max` and −1 are no quota.
fn share(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: &str = "24 30 0:22 / /proc rw - proc proc rw\n\
                          31 30 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
    const FIRST: &str = "32 31 0:28 /docker/f00 /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n\
                         33 31 0:29 /docker/f00 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n";
    /// A quarter of a processor, at the top of what is mounted of version one.
    const QUARTER: [(&str, &str); 2] = [
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "25000\n"),
        ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
    ];

    fn quota_of(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<f64> {
        quota(groups, mounts, |path| {
            files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn of_version_two_the_least_quota_from_the_group_up_holds() {
        let groups = "0::/apps.slice/krarup.service\n";
        let own = ("/sys/fs/cgroup/apps.slice/krarup.service/cpu.max", "150000 100000\n");
        let around = ("/sys/fs/cgroup/apps.slice/cpu.max", "20000 50000\n");
        assert_eq!(quota_of(groups, SECOND, &[own]), Some(1.5));
        assert_eq!(quota_of(groups, SECOND, &[own, around]), Some(0.4));
        let free = ("/sys/fs/cgroup/apps.slice/cpu.max", "max 100000\n");
        assert_eq!(quota_of(groups, SECOND, &[own, free]), Some(1.5));
        assert_eq!(quota_of(groups, SECOND, &[free]), None);
        let container = ("/sys/fs/cgroup/cpu.max", "50000 100000\n");
        assert_eq!(quota_of("0::/\n", SECOND, &[container]), Some(0.5));
    }

    #[test]
    fn of_version_one_the_group_stands_below_the_root_that_is_mounted() {
        let groups = "5:cpu,cpuacct:/docker/f00/inner\n4:cpuset:/docker/f00\n1:name=systemd:/x\n";
        let files = [
            ("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "80000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ];
        assert_eq!(quota_of(groups, FIRST, &files), Some(0.8));
        assert_eq!(quota_of(groups, FIRST, &files[2..]), None);
        // The group is not below the root: what is mounted is its own.
        assert_eq!(quota_of("5:cpu:/elsewhere\n", FIRST, &files[2..]), None);
        assert_eq!(quota_of("5:cpu:/elsewhere\n", FIRST, &QUARTER), Some(0.25));
    }

    #[test]
    fn the_least_limit_of_memory_holds_and_a_number_beyond_all_memory_is_none() {
        let of = |groups: &str, mounts: &str, files: &[(&str, &str)]| {
            memory_limit(groups, mounts, |path| {
                files.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| (*text).to_owned())
            })
        };
        let own = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        let around = ("/sys/fs/cgroup/a/memory.max", "536870912\n");
        assert_eq!(of("0::/a/b\n", SECOND, &[own, around]), Some(536_870_912.0));
        assert_eq!(of("0::/a/b\n", SECOND, &[own]), None);
        let mounts = "34 31 0:30 /docker/f00 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let first = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        let groups = "6:memory:/docker/f00\n";
        assert_eq!(of(groups, mounts, &[(first, "1048576\n")]), Some(1_048_576.0));
        assert_eq!(of(groups, mounts, &[(first, "9223372036854771712\n")]), None);
    }

    #[test]
    fn where_both_versions_are_there_each_is_asked() {
        let groups = "5:cpu,cpuacct:/docker/f00\n0::/unified\n";
        assert_eq!(quota_of(groups, &format!("{SECOND}{FIRST}"), &QUARTER), Some(0.25));
    }

    #[test]
    fn what_the_system_does_not_say_or_says_wrongly_is_no_quota() {
        assert_eq!(quota_of("", "", &[]), None);
        assert_eq!(quota_of("0::/a\nnonsense\n", "nonsense - \n", &[]), None);
        assert_eq!(quota_of("0::/\n", SECOND, &[("/sys/fs/cgroup/cpu.max", "0 0\n")]), None);
        assert_eq!(quota_of("0::/\n", SECOND, &[("/sys/fs/cgroup/cpu.max", "5\n")]), None);
        assert!(usable() > 0.0);
    }

    #[test]
    fn where_the_system_does_not_say_on_what_the_process_runs_its_processors_are_counted() {
        let counted = thread::available_parallelism().unwrap().get() as u32;
        assert_eq!(runs_on(Err(rustix::io::Errno::INVAL)), counted);
        assert_eq!((runs_on(Ok(3)), runs_on(Ok(0))), (3, 1));
    }
}
