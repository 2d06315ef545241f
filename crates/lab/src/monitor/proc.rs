//! What Linux tells in `/proc`, as texts in and numbers out. What a kernel does not tell is left
//! out; no text makes a reader fail.

/// What a processor spent its time on since the machine began, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Programs, those of other priority and guests' included.
    pub user: u64,
    /// The kernel, on behalf of programs.
    pub system: u64,
    /// Interrupts and what they leave to be done: packets that came.
    pub interrupts: u64,
    /// Nothing, and nothing but waiting for disks.
    pub idle: u64,
    /// Wanted, and taken by the machine's host.
    pub steal: u64,
}

impl Ticks {
    /// All together.
    pub fn sum(self) -> u64 {
        [self.user, self.system, self.interrupts, self.idle, self.steal]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// What was added since `before`; 0 where a counter went back.
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
        }
    }
}

/// The whole machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCounters {
    /// Each processor, in the kernel's order.
    pub cores: Vec<Ticks>,
    /// Changes from one thread to another so far.
    pub switches: u64,
    /// Threads that run or wait for a processor at this moment.
    pub running: u64,
}

/// `/proc/stat`.
pub fn stat(text: &str) -> MachineCounters {
    let mut machine = MachineCounters::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let mut numbers = words.map_while(|word| word.parse::<u64>().ok());
        match name {
            "ctxt" => machine.switches = numbers.next().unwrap_or(0),
            "procs_running" => machine.running = numbers.next().unwrap_or(0),
            _ if name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok()) => {
                let mut next = || numbers.next().unwrap_or(0);
                // user nice system idle iowait irq softirq steal; guests are counted as users
                // already.
                let [user, nice, system, idle, waiting, interrupts, soft, steal] =
                    std::array::from_fn(|_| next());
                machine.cores.push(Ticks {
                    user: user.saturating_add(nice),
                    system,
                    interrupts: interrupts.saturating_add(soft),
                    idle: idle.saturating_add(waiting),
                    steal,
                });
            }
            _ => {}
        }
    }
    machine
}

/// A process and what it, and those of its children that have ended, had of the processors so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessTimes {
    /// Whose child it is.
    pub parent: u32,
    /// Whether it is a part of the kernel.
    pub kernel: bool,
    /// Ticks, user and system.
    pub ticks: u64,
    /// Of these, what children had that have ended.
    pub of_children: u64,
}

/// Set in the flags of the kernel's own threads.
const OF_KERNEL: u64 = 0x0020_0000;

/// `/proc/PID/stat`.
pub fn process(text: &str) -> Option<ProcessTimes> {
    // The name stands in brackets and may have anything in it.
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |place: usize| words.get(place)?.parse::<u64>().ok();
    let of_children = [13, 14].into_iter().map(number).try_fold(0_u64, |sum, one| sum.checked_add(one?))?;
    let ticks = [11, 12, 13, 14].into_iter().map(number).try_fold(0_u64, |sum, one| sum.checked_add(one?))?;
    Some(ProcessTimes {
        parent: u32::try_from(number(1)?).ok()?,
        kernel: number(6)? & OF_KERNEL != 0,
        ticks,
        of_children,
    })
}

/// What a thread has had of the processors so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// On one, in nanoseconds.
    pub ran: u64,
    /// Ready to run without getting one, in nanoseconds.
    pub waited: u64,
}

/// `/proc/PID/task/TID/schedstat`.
pub fn schedstat(text: &str) -> Option<ThreadTimes> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some(ThreadTimes { ran: numbers.next()??, waited: numbers.next()?? })
}

/// How often a thread left its processor so far, by itself or not: `/proc/PID/task/TID/status`.
pub fn switches(text: &str) -> Option<u64> {
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(of("voluntary_ctxt_switches:")?.saturating_add(of("nonvoluntary_ctxt_switches:")?))
}

/// The name of a thread: `/proc/PID/task/TID/comm`.
pub fn comm(text: &str) -> &str {
    text.trim_end_matches('\n')
}

/// Memory that programs could still have, in bytes: `/proc/meminfo`.
pub fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// Memory that a process has in use, in bytes: `/proc/PID/status`.
pub fn resident(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

/// What went through a network link so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Its name.
    pub name: String,
    /// Bytes that came.
    pub received: u64,
    /// Of what came, packets thrown away or broken.
    pub received_lost: u64,
    /// Bytes that left.
    pub sent: u64,
    /// Of what was to leave, packets thrown away or broken.
    pub sent_lost: u64,
}

/// `/proc/PID/net/dev`, of the network that the process lives in.
pub fn links(text: &str) -> Vec<LinkCounters> {
    let link = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let numbers: Vec<u64> = rest.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        // bytes packets errs drop fifo frame compressed multicast, and again for what was sent.
        let [received, _, errors, dropped, _, _, _, _, sent, _, sent_errors, sent_dropped, ..] = numbers[..]
        else {
            return None;
        };
        Some(LinkCounters {
            name: name.trim().to_owned(),
            received,
            received_lost: errors.saturating_add(dropped),
            sent,
            sent_lost: sent_errors.saturating_add(sent_dropped),
        })
    };
    text.lines().filter_map(link).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STAT: &str = "cpu  30 3 12 80 4 1 2 5 0 0\ncpu0 10 1 4 40 2 1 1 2 0 0\ncpu1 20 2 8 40 2 0 1 3 0 0\n\
                        intr 5 0 0\nctxt 12345\nbtime 1\nprocesses 77\nprocs_running 3\nprocs_blocked 0\n";

    #[test]
    fn a_machine_is_its_cores_without_their_sum() {
        let machine = stat(STAT);
        let core = |user, system, interrupts, idle, steal| Ticks { user, system, interrupts, idle, steal };
        assert_eq!(machine.cores, [core(11, 4, 2, 42, 2), core(22, 8, 1, 42, 3)]);
        assert_eq!((machine.switches, machine.running), (12_345, 3));
        assert_eq!(machine.cores[0].sum(), 61);
    }

    #[test]
    fn what_a_thread_had_is_read() {
        assert_eq!(schedstat("1210132 716987 3\n"), Some(ThreadTimes { ran: 1_210_132, waited: 716_987 }));
        assert_eq!(schedstat(""), None);
        let status =
            "Name:\tx\nVmRSS:\t    1024 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((switches(status), resident(status)), (Some(10), Some(1_048_576)));
        assert_eq!(available("MemTotal:  5 kB\nMemAvailable:   2 kB\n"), Some(2_048));
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let text = "71 (a) b (c) S 5 71 71 0 -1 4194304 1 2 3 4 100 20 3 1 20 0 1 0 9 9 9";
        assert_eq!(
            process(text),
            Some(ProcessTimes { parent: 5, kernel: false, ticks: 124, of_children: 4 })
        );
        let kernel = text.replace("4194304", "2129984");
        assert!(process(&kernel).unwrap().kernel);
        assert_eq!(process("71 (a) S 5"), None);
        assert_eq!(process("71 (a) S 5 0 0 0 0 x 1 2 3 4 18446744073709551615 x 1 1"), None);
    }

    #[test]
    fn links_are_read_with_what_they_lost() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes    packets errs drop|bytes\n\
                    \x20   lo: 100 5 1 2 0 0 0 0 300 6 3 4 0 0 0 0\n  eth0:7 1 0 0 0 0 0 0 8 1 0 0 0 0 0 0\n";
        let lo = LinkCounters { name: "lo".into(), received: 100, received_lost: 3, sent: 300, sent_lost: 7 };
        let eth0 = LinkCounters { name: "eth0".into(), received: 7, sent: 8, ..LinkCounters::default() };
        assert_eq!(links(text), [lo, eth0]);
    }

    #[test]
    fn this_machine_is_read() {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let machine = stat(&read("/proc/stat"));
        assert!(!machine.cores.is_empty() && machine.switches > 0 && machine.running > 0);
        assert!(available(&read("/proc/meminfo")).is_some_and(|bytes| bytes > 0));
        assert!(links(&read("/proc/self/net/dev")).iter().any(|link| link.name == "lo"));
        assert!(switches(&read("/proc/self/status")).is_some());
    }

    proptest! {
        /// Whatever numbers the kernel writes are read back.
        #[test]
        fn numbers_that_are_written_are_read(
            cores in proptest::collection::vec(proptest::array::uniform8(0_u64..1 << 60), 1..9),
            switches: u64,
            running in 0_u64..10_000,
        ) {
            let mut text = String::from("cpu  1 2 3 4 5 6 7 8 0 0\n");
            for (number, ticks) in cores.iter().enumerate() {
                let words: Vec<String> = ticks.iter().map(u64::to_string).collect();
                text.push_str(&format!("cpu{number} {} 0 0\n", words.join(" ")));
            }
            text.push_str(&format!("ctxt {switches}\nprocs_running {running}\n"));
            let machine = stat(&text);
            prop_assert_eq!(machine.cores.len(), cores.len());
            prop_assert_eq!((machine.switches, machine.running), (switches, running));
            for (read, ticks) in machine.cores.iter().zip(&cores) {
                prop_assert_eq!(read.sum(), ticks.iter().sum::<u64>());
                prop_assert_eq!(read.steal, ticks[7]);
                prop_assert_eq!(read.since(*read), Ticks::default());
            }
        }

        #[test]
        fn no_text_makes_a_reader_fail(text: String, lines in proptest::collection::vec("(cpu[0-9]{0,3}|ctxt|lo:|VmRSS:|MemAvailable:)( ?[0-9]{0,22}| kB){0,12}", 0..6)) {
            for text in [text, lines.join("\n")] {
                let machine = stat(&text);
                prop_assert!(machine.cores.iter().all(|core| core.sum() >= core.user));
                let _ = (schedstat(&text), switches(&text), available(&text), resident(&text), links(&text), process(&text));
            }
        }
    }
}
