//! What a machine did while something was measured on it, and whether other programs were at work
//! there.
//!
//! The experiment's **own** programs are told from **foreign** ones by the same clock's ticks, so
//! that what these miss they miss alike. **Steal** is what the machine's own host took away.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

/// Spans shorter than this are a few ticks: nothing is said of them.
const LEAST: Seconds = 0.9;
/// A machine on which others take more than this share of all processors is disturbed.
pub const FOREIGN: f64 = 0.1;
/// A machine whose host takes more than this share of all processors is disturbed.
pub const STOLEN: f64 = 0.02;

/// What was seen of one machine in a span of time, or of several as one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)] // what earlier builds have written knew less
pub struct Watch {
    /// How long it was.
    pub seconds: Seconds,
    /// Processors of the machine.
    pub cores: u32,
    /// Processors kept busy by the experiment's own programs.
    pub own: f64,
    /// Processors kept busy by other programs.
    pub foreign: f64,
    /// Processors kept busy by the kernel's own threads and by interrupts.
    pub kernel: f64,
    /// Processors taken away by the machine's host.
    pub steal: f64,
    /// Threads that ran or were ready to, the mean over the looks.
    pub run_queue: f64,
    /// Changes of threads per second.
    pub switches: f64,
    /// The least memory that programs could still have had, in bytes.
    pub memory_left: u64,
    /// Packets that links threw away, with the link's name, for those that did.
    pub lost: Vec<(String, u64)>,
}

impl Watch {
    /// One machine as it was seen from several containers of it, each of which sees all its
    /// processors and only its own programs: what is another's own is no foreign program.
    pub fn of_shared(watches: &[(String, Self)]) -> Self {
        let [(_, only)] = watches else {
            let mean = |of: fn(&Self) -> f64| {
                watches.iter().map(|(_, watch)| of(watch)).sum::<f64>() / watches.len().max(1) as f64
            };
            let all = Self::of_all(watches);
            return Self {
                cores: watches.iter().map(|(_, watch)| watch.cores).max().unwrap_or(0),
                foreign: (mean(|watch| watch.own + watch.foreign) - all.own).max(0.0),
                kernel: mean(|watch| watch.kernel),
                steal: mean(|watch| watch.steal),
                run_queue: mean(|watch| watch.run_queue),
                switches: mean(|watch| watch.switches),
                ..all
            };
        };
        only.clone()
    }

    /// Several machines as one: processors and what kept them busy are added up, links are named by
    /// their machines.
    pub fn of_all(watches: &[(String, Self)]) -> Self {
        let sum = |of: fn(&Self) -> f64| watches.iter().map(|(_, watch)| of(watch)).sum();
        let lost = |(machine, watch): &(String, Self)| {
            let name = |(link, count): &(String, u64)| (format!("{machine} {link}"), *count);
            watch.lost.iter().map(name).collect::<Vec<_>>()
        };
        Self {
            seconds: watches.iter().map(|(_, watch)| watch.seconds).fold(0.0, f64::max),
            cores: watches.iter().map(|(_, watch)| watch.cores).sum(),
            own: sum(|watch| watch.own),
            foreign: sum(|watch| watch.foreign),
            kernel: sum(|watch| watch.kernel),
            steal: sum(|watch| watch.steal),
            run_queue: sum(|watch| watch.run_queue),
            switches: sum(|watch| watch.switches),
            memory_left: watches.iter().map(|(_, watch)| watch.memory_left).min().unwrap_or(0),
            lost: watches.iter().flat_map(lost).collect(),
        }
    }

    /// The mean of several spans of one machine, such as the runs of a cell; none where there are
    /// none.
    pub fn mean(watches: &[&Self]) -> Option<Self> {
        let mean =
            |of: fn(&Self) -> f64| watches.iter().map(|one| of(one)).sum::<f64>() / watches.len() as f64;
        Some(Self {
            seconds: mean(|one| one.seconds),
            cores: watches.first()?.cores,
            own: mean(|one| one.own),
            foreign: mean(|one| one.foreign),
            kernel: mean(|one| one.kernel),
            steal: mean(|one| one.steal),
            run_queue: mean(|one| one.run_queue),
            switches: mean(|one| one.switches),
            memory_left: watches.iter().map(|one| one.memory_left).min()?,
            lost: watches.iter().flat_map(|one| one.lost.clone()).collect(),
        })
    }

    /// Processors that are not free for more work: those kept busy, and those taken away.
    pub fn busy(&self) -> f64 {
        self.own + self.foreign + self.kernel + self.steal
    }

    /// Why this span says little about our own programs; nothing where it was too short to tell.
    pub fn disturbed(&self) -> Option<String> {
        let share = |of: f64| of / f64::from(self.cores.max(1));
        if self.seconds < LEAST {
            return None;
        }
        let (foreign, steal) = (share(self.foreign), share(self.steal));
        let mut why = Vec::new();
        if foreign > FOREIGN {
            why.push(format!("other programs took {:.0} % of the processors", foreign * 100.0));
        }
        if steal > STOLEN {
            why.push(format!("the machine's host took {:.1} % of them away", steal * 100.0));
        }
        (!why.is_empty()).then(|| format!("the machine was disturbed: {}", why.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_own_in_another_container_is_not_foreign() {
        let seen = |name: &str, own: f64| {
            // All of the machine's programs take 1.5 processors.
            let watch =
                Watch { seconds: 2.0, cores: 4, own, foreign: 1.5 - own, steal: 0.1, ..Watch::default() };
            (name.to_owned(), watch)
        };
        let shared = Watch::of_shared(&[seen("s1", 0.5), seen("c1", 0.75)]);
        assert_eq!((shared.cores, shared.own, shared.foreign, shared.steal), (4, 1.25, 0.25, 0.1));
        assert_eq!(
            shared.disturbed().unwrap(),
            "the machine was disturbed: the machine's host took 2.5 % of them away"
        );
        let alone = [seen("s1", 0.5)];
        assert_eq!(Watch::of_shared(&alone), alone[0].1);
    }

    #[test]
    fn runs_are_averaged_but_for_what_was_least_and_what_was_lost() {
        let run = |own, memory_left| Watch {
            seconds: 2.0,
            cores: 4,
            own,
            memory_left,
            lost: vec![("here lo".into(), memory_left)],
            ..Watch::default()
        };
        let mean = Watch::mean(&[&run(1.0, 9), &run(2.0, 5)]).unwrap();
        assert_eq!((mean.seconds, mean.cores, mean.own, mean.memory_left), (2.0, 4, 1.5, 5));
        assert_eq!(mean.lost, [("here lo".to_owned(), 9), ("here lo".to_owned(), 5)]);
        assert_eq!(Watch::mean(&[]), None);
    }
}
