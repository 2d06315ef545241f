//! How busy the machine's links are: the bytes that they carried, beside the rate that the kernel
//! says they have.
//!
//! ```text
//! /sys/class/net/NAME/speed     10⁶ bits a second; −1, or no such file, where it is not known
//! /sys/class/net/NAME/device    is there for links of hardware: what another one says of its rate
//!                               is no limit
//! /proc/thread-self/net/dev     bytes received and sent since the link was there (proc(5))
//! ```
//!
//! Where the kernel does not know a rate the configuration may. A container has no link of
//! hardware: there its rate is that of each link but the loopback.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use krarup_units::Nanos;

/// More interfaces than this are not looked at; a line of the table has at most some 140 letters.
const TABLE: usize = 8 << 10;

/// The links of known rate.
#[derive(Debug, Default)]
pub(super) struct Links {
    each: Vec<Link>,
    /// The kernel's table of bytes, kept open; none where no rate is known.
    table: Option<File>,
}

#[derive(Debug, PartialEq)]
struct Link {
    name: String,
    bytes_per_second: f64,
    carried: Carried,
}

/// Bytes since the link was there, in either direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Carried {
    received: u64,
    sent: u64,
}

impl Links {
    /// Those of this machine, with what they have carried until now. Those whose rates the kernel
    /// does not know carry `otherwise` bits a second.
    pub(super) fn of_machine(otherwise: Option<f64>) -> Self {
        let each = with_rates(Path::new("/sys/class/net"), otherwise);
        if each.is_empty() {
            return Self::default();
        }
        let mut links = Self { each, table: File::open("/proc/thread-self/net/dev").ok() };
        links.busiest(Nanos::ZERO);
        links
    }

    /// How long the busiest of them, in its busier direction, had to carry what came since the last
    /// call, which is `elapsed` ago; none where that is not known.
    pub(super) fn busiest(&mut self, elapsed: Nanos) -> Option<Nanos> {
        let table = self.table.as_ref()?;
        let mut text = [0; TABLE];
        let read = table.read_at(&mut text, 0).ok()?;
        let text = String::from_utf8_lossy(&text[..read]);
        let times = self.each.iter_mut().filter_map(|link| link.busy(carried(&text, &link.name)?));
        times.reduce(f64::max).map(|seconds| Nanos((seconds * 1e9) as u64).min(elapsed))
    }
}

impl Link {
    /// Seconds that it took to carry what came since `carried` was last told; none where the
    /// counters began anew.
    fn busy(&mut self, carried: Carried) -> Option<f64> {
        let last = std::mem::replace(&mut self.carried, carried);
        let received = carried.received.checked_sub(last.received)?;
        let sent = carried.sent.checked_sub(last.sent)?;
        Some(received.max(sent) as f64 / self.bytes_per_second)
    }
}

/// The links of hardware in the `folder` of the kernel whose rates are known, or `otherwise` given
/// in bits a second; where there are none of hardware, those that there are.
fn with_rates(folder: &Path, otherwise: Option<f64>) -> Vec<Link> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let (hardware, others): (Vec<_>, Vec<_>) =
        names.partition(|name| folder.join(name).join("device").exists());
    let link = |name, bits: f64| Link { name, bytes_per_second: bits / 8.0, carried: Carried::default() };
    if hardware.is_empty() {
        let others = others.into_iter().filter(|name| name != "lo");
        return others.filter_map(|name| Some(link(name, otherwise?))).collect();
    }
    let speed = |name: &str| -> Option<f64> {
        let megabits: f64 = fs::read_to_string(folder.join(name).join("speed")).ok()?.trim().parse().ok()?;
        (megabits > 0.0).then_some(megabits * 1e6)
    };
    hardware.into_iter().filter_map(|name| speed(&name).or(otherwise).map(|bits| link(name, bits))).collect()
}

/// What the table says of the link `name`: after its name eight numbers of what was received, bytes
/// first, and as many of what was sent.
fn carried(table: &str, name: &str) -> Option<Carried> {
    let numbers = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut numbers = numbers.split_ascii_whitespace().map(str::parse);
    Some(Carried { received: numbers.next()?.ok()?, sent: numbers.nth(7)?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE_OF_TWO: &str = "Inter-|   Receive                    |  Transmit\n face |bytes    packets errs\n\
        \u{20}   lo: 5000 7 0 0 0 0 0 0 5000 7 0 0 0 0 0 0\n  eth0:1250000 9 0 0 0 0 0 0 2500000 8 0 0 0 0 0 0\n";

    #[test]
    fn bytes_are_found_by_the_name_of_the_link() {
        let eth0 = Some(Carried { received: 1_250_000, sent: 2_500_000 });
        assert_eq!(carried(TABLE_OF_TWO, "eth0"), eth0);
        assert_eq!(carried(TABLE_OF_TWO, "lo"), Some(Carried { received: 5_000, sent: 5_000 }));
        assert_eq!((carried(TABLE_OF_TWO, "eth"), carried("eth0: x", "eth0")), (None, None));
    }

    #[test]
    fn the_busier_direction_counts_and_counters_that_begin_anew_do_not() {
        let mut link = Link { name: "eth0".into(), bytes_per_second: 125e6, carried: Carried::default() };
        assert_eq!(link.busy(Carried { received: 1_250_000, sent: 2_500_000 }), Some(0.02));
        assert_eq!(link.busy(Carried { received: 1_250_000, sent: 2_500_000 }), Some(0.0));
        assert_eq!(link.busy(Carried { received: 5, sent: 7 }), None);
    }

    #[test]
    fn only_links_of_hardware_that_say_their_rate_count() {
        let folder = std::env::temp_dir().join(format!("krarup-links-{}", std::process::id()));
        let link = |name: &str, speed: &str, hardware: bool| {
            let place = folder.join(name);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("speed"), speed).unwrap();
            if hardware {
                fs::write(place.join("device"), "").unwrap();
            }
        };
        link("eth0", "1000\n", true);
        link("eth1", "-1\n", true);
        link("veth7", "10000\n", false);
        fs::create_dir_all(folder.join("lo")).unwrap();
        let rates = |otherwise| {
            let mut known: Vec<_> = with_rates(&folder, otherwise)
                .into_iter()
                .map(|link| (link.name, link.bytes_per_second))
                .collect();
            known.sort_by(|a, b| a.0.cmp(&b.0));
            known
        };
        let (eth0, eth1) = (("eth0".to_owned(), 125e6), ("eth1".to_owned(), 1_250e6));
        assert_eq!(rates(None), std::slice::from_ref(&eth0));
        assert_eq!(rates(Some(10e9)), [eth0, eth1], "the configuration knows what the kernel does not");
        // In a container.
        for name in ["eth0", "eth1"] {
            fs::remove_dir_all(folder.join(name)).unwrap();
        }
        assert_eq!(rates(None), []);
        assert_eq!(rates(Some(8e6)), [("veth7".to_owned(), 1e6)], "and not the loopback");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(rates(Some(8e6)), []);
    }
}
