//! Less of a processor than there is: a control group with a quota for each station that asks for
//! one. Linux only.
//!
//! A station that has used up its quota stands still until the next period begins, and a request
//! that waits for it waits as long. So the [period](quota_period) is as short as it may be: 10 ms,
//! and for less than a tenth of a processor longer. Both versions of control groups are understood;
//! on a machine that has both, whichever has the controller `cpu`.

use krarup_record::scaled::quota_period;
use krarup_units::{Mistake, Seconds};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::error::StationError;
use crate::ledger::Ledger;
use crate::waiting;

/// The least share of a processor that the kernel takes, with its longest period.
pub const LEAST: f64 = 0.01;

/// A control group that is there as long as this value, and the processes that it holds.
#[derive(Debug)]
pub struct Cap {
    folder: PathBuf,
    controller: Controller,
    /// Why the controller could not be switched on, where it was not on already.
    not_on: String,
    /// How much of a processor there is.
    cpu: f64,
}

/// Which version of control groups has the controller `cpu`, and under which folder groups can be
/// made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Controller {
    First(PathBuf),
    Second(PathBuf),
}

/// Period and quota for so much of a processor, in microseconds.
fn quota(cpu: f64) -> (u64, u64) {
    let period = quota_period(cpu).0 / 1_000;
    (period, (period as f64 * cpu).round() as u64)
}

/// The controller, from what the system says is mounted.
fn controller(mounts: &str, has_cpu: impl Fn(&Path) -> bool) -> Option<Controller> {
    let lines = || mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let first = lines().find_map(|words| match words[..] {
        [_, place, "cgroup", options, ..] if options.split(',').any(|option| option == "cpu") => {
            Some(Controller::First(PathBuf::from(place)))
        }
        _ => None,
    });
    first.or_else(|| {
        lines().find_map(|words| match words[..] {
            [_, place, "cgroup2", ..] if has_cpu(Path::new(place)) => {
                Some(Controller::Second(PathBuf::from(place)))
            }
            _ => None,
        })
    })
}

fn refused(why: &str) -> StationError {
    StationError::new(
        "cpu",
        Mistake::new(
            why,
            "limits of processor time need a control group with the controller `cpu` that can be written: run as root (in a container: a \
             privileged one, and with `--cgroupns=host`, or its processes moved into a group of their own below /sys/fs/cgroup), or take \
             `cpu` out of the spec",
        ),
    )
}

fn unwritten(file: &Path, error: &io::Error) -> String {
    format!("{}: {error}", file.display())
}

/// In how many periods a quota was used up, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttled {
    /// Periods in which a thread wanted to run.
    pub periods: u64,
    /// Those in which nothing was left of the quota.
    pub used_up: u64,
    /// How long those that wanted to run were held until the next period, on each processor, in
    /// all.
    pub held: Seconds,
}

impl Throttled {
    /// From a group's own account.
    fn read(stat: &str) -> Self {
        let of = |name: &str| -> u64 {
            let value = stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            value.unwrap_or(0)
        };
        // The versions differ in the name and in the unit of this one.
        let held = of("throttled_time ") as f64 / 1e9 + of("throttled_usec ") as f64 / 1e6;
        Self { periods: of("nr_periods "), used_up: of("nr_throttled "), held }
    }

    /// What was added since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            used_up: self.used_up.saturating_sub(before.used_up),
            held: self.held - before.held,
        }
    }

    /// The share of the periods between two looks in which the quota was used up; 0 where there was
    /// none.
    pub fn share(before: Self, after: Self) -> f64 {
        let Self { periods, used_up, held: _ } = after.since(before);
        if periods == 0 { 0.0 } else { used_up as f64 / periods as f64 }
    }
}

/// Tells groups of one program apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Cap {
    /// A group whose processes may use so much of a processor together: 0.32 is a third of one, 2
    /// are two. It is noted in the ledger before it is made.
    ///
    /// # Errors
    /// Where control groups are not there or not ours to make, with what to do.
    pub fn new(cpu: f64, ledger: &Ledger) -> Result<Self, StationError> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let has_cpu = |place: &Path| {
            let known = fs::read_to_string(place.join("cgroup.controllers")).unwrap_or_default();
            known.split_whitespace().any(|name| name == "cpu")
        };
        let Some(controller) = controller(&mounts, has_cpu) else {
            return Err(refused("no control group with the controller `cpu` is mounted"));
        };
        Self::within(&controller, cpu, ledger)
    }

    fn within(controller: &Controller, cpu: f64, ledger: &Ledger) -> Result<Self, StationError> {
        let name = format!("krarup-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (Controller::First(place) | Controller::Second(place)) = controller;
        let mut not_on = String::new();
        if matches!(controller, Controller::Second(_)) {
            // It may be on already; whether it is shows when the quota is written.
            let switch = place.join("cgroup.subtree_control");
            let error = fs::write(&switch, "+cpu").err();
            not_on = error.map(|error| format!("; {}", unwritten(&switch, &error))).unwrap_or_default();
        }
        let cap = Self { folder: place.join(name), controller: controller.clone(), not_on, cpu };
        ledger.note_group(&cap.folder);
        fs::create_dir(&cap.folder).map_err(|error| refused(&unwritten(&cap.folder, &error)))?;
        cap.quicken(1.0)?;
        Ok(cap)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), StationError> {
        let file = self.folder.join(name);
        fs::write(&file, text)
            .map_err(|error| refused(&format!("{}{}", unwritten(&file, &error), self.not_on)))
    }

    /// Lets its processes have so many times as much, until it is said otherwise.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn quicken(&self, times: f64) -> Result<(), StationError> {
        let (period, quota) = quota(self.cpu * times);
        match &self.controller {
            Controller::First(_) => {
                self.write("cpu.cfs_period_us", &period.to_string())?;
                self.write("cpu.cfs_quota_us", &quota.to_string())
            }
            Controller::Second(_) => self.write("cpu.max", &format!("{quota} {period}")),
        }
    }

    /// Lets its processes have all there is.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn release(&self) -> Result<(), StationError> {
        match &self.controller {
            Controller::First(_) => self.write("cpu.cfs_quota_us", "-1"),
            Controller::Second(_) => self.write("cpu.max", "max"),
        }
    }

    /// In how many periods the quota was used up so far.
    pub fn throttled(&self) -> Throttled {
        Throttled::read(&fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default())
    }

    /// Takes a process in, with all its threads and whatever it starts from now on.
    ///
    /// # Errors
    /// Where the system refuses.
    pub fn hold(&self, process: u32) -> Result<(), StationError> {
        self.write("cgroup.procs", &process.to_string())
    }
}

impl Drop for Cap {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Takes a group away; whether there was one. Its processes have been ended; until the system has
/// noticed it is asked again.
pub fn remove(folder: &Path) -> bool {
    for _ in 0..50 {
        match fs::remove_dir(folder) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                waiting::blindly(Duration::from_millis(10));
            }
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::platform::cpu_time;

    #[test]
    fn quotas_keep_to_what_the_kernel_takes() {
        assert_eq!(quota(0.32), (10_000, 3_200));
        assert_eq!(quota(2.0), (10_000, 20_000));
        assert_eq!(quota(0.05), (20_000, 1_000));
        assert_eq!(quota(LEAST), (100_000, 1_000));
    }

    #[test]
    fn either_version_of_groups_is_found_where_it_has_the_controller() {
        let first = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let place = |text: &str| PathBuf::from(text);
        assert_eq!(
            controller(first, |_| false),
            Some(Controller::First(place("/sys/fs/cgroup/cpu,cpuacct")))
        );
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        assert_eq!(controller(second, |_| true), Some(Controller::Second(place("/sys/fs/cgroup"))));
        assert_eq!(controller(second, |_| false), None);
        assert_eq!(controller("cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0", |_| true), None);
    }

    /// Both versions, in folders that are none of the kernel's.
    #[test]
    fn a_group_of_either_version_is_written_as_its_kernel_reads_it() {
        let root = std::env::temp_dir().join(format!("krarup-groups-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let ledger = Ledger::at(&root.join("ledger"));
        let place = |version: &str| {
            let place = root.join(version);
            fs::create_dir_all(&place).unwrap();
            place
        };
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        let (first, second) = (place("first"), place("second"));

        let cap = Cap::within(&Controller::First(first.clone()), 0.32, &ledger).unwrap();
        cap.hold(17).unwrap();
        assert_eq!(read(cap.folder.join("cpu.cfs_period_us")), "10000");
        assert_eq!(read(cap.folder.join("cpu.cfs_quota_us")), "3200");
        assert_eq!(read(cap.folder.join("cgroup.procs")), "17");
        assert!(!first.join("cgroup.subtree_control").exists());
        fs::write(cap.folder.join("cpu.stat"), "nr_periods 100\nnr_throttled 97\nthrottled_time 5\n")
            .unwrap();
        assert_eq!(cap.throttled(), Throttled { periods: 100, used_up: 97, held: 5e-9 });
        cap.release().unwrap();
        assert_eq!(read(cap.folder.join("cpu.cfs_quota_us")), "-1");

        let cap = Cap::within(&Controller::Second(second.clone()), 0.05, &ledger).unwrap();
        cap.hold(18).unwrap();
        assert_eq!(read(cap.folder.join("cpu.max")), "1000 20000");
        cap.quicken(10.0).unwrap();
        assert_eq!(read(cap.folder.join("cpu.max")), "5000 10000");
        cap.release().unwrap();
        assert_eq!(read(cap.folder.join("cpu.max")), "max");
        cap.quicken(1.0).unwrap();
        assert_eq!(read(cap.folder.join("cpu.max")), "1000 20000");
        assert_eq!(read(cap.folder.join("cgroup.procs")), "18");
        assert_eq!(read(second.join("cgroup.subtree_control")), "+cpu");
        let before = Throttled { periods: 50, used_up: 10, held: 0.0 };
        fs::write(
            cap.folder.join("cpu.stat"),
            "usage_usec 9\nuser_usec 8\nsystem_usec 1\nnr_periods 90\nnr_throttled 40\nthrottled_usec 2\n",
        )
        .unwrap();
        assert_eq!(cap.throttled().held, 2e-6);
        assert_eq!(Throttled::share(before, cap.throttled()), 0.75);
        assert_eq!(Throttled::share(before, before), 0.0);
        // As in a container: its own processes keep the controller from groups below its root.
        fs::remove_file(second.join("cgroup.subtree_control")).unwrap();
        fs::create_dir(second.join("cgroup.subtree_control")).unwrap();
        let kept_out = Cap::within(&Controller::Second(second), 0.05, &ledger).unwrap();
        fs::create_dir(kept_out.folder.join("cgroup.procs")).unwrap();
        let why = kept_out.hold(19).unwrap_err().to_string();
        assert!(why.contains("cgroup.procs: ") && why.contains("cgroup.subtree_control: "), "{why}");
        assert!(why.contains("--cgroupns=host"), "{why}");
        let noted = read(root.join("ledger"));
        assert!(noted.contains(&format!("group {}", cap.folder.display())), "{noted}");
        drop(cap);
        fs::remove_dir_all(root).unwrap();
    }

    /// A process that spins gets its quota and no more, and nothing is left of it afterwards.
    #[test]
    fn a_process_gets_its_quota_and_no_more() {
        let path = std::env::temp_dir().join(format!("krarup-cap-{}", std::process::id()));
        let ledger = Ledger::at(&path);
        let cap = match Cap::new(0.2, &ledger) {
            Ok(cap) => cap,
            Err(error) => {
                assert!(error.to_string().contains("run as root"), "{error}");
                let _ = writeln!(io::stderr(), "skipped: {error}");
                return;
            }
        };
        // It ends by itself where the test does not come to its end.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -t 10; while :; do :; done"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        cap.hold(child.id()).unwrap();
        let used = || cpu_time(child.id()).unwrap().as_seconds();
        let (begun, before) = (std::time::Instant::now(), used());
        // As long as it takes to use a fifth of a second.
        while used() - before < 0.2 {
            waiting::blindly(waiting::LOOK);
        }
        let elapsed = begun.elapsed().as_secs_f64();
        assert!(elapsed >= 0.9, "0.2 s of processor time in {elapsed} s");
        child.kill().unwrap();
        child.wait().unwrap();
        let folder = cap.folder.clone();
        drop(cap);
        assert!(!folder.exists());
        assert_eq!(ledger.settle(), 0, "nothing is left to take away");
    }
}
