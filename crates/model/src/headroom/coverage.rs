//! The times of which is known what every loop did.
//!
//! Each loop keeps stretches of its own, the shorter the more requests it has, each around the same
//! moment of a second ([`krarup_record::live`]). Of what is kept beside them of other loops the
//! share of the traffic, what was outstanding at a server and which of its connections were busy
//! would be wrong; within the times that all cover a request of one loop stands for as many as one
//! of another.

use krarup_record::LiveSnapshot;
use krarup_record::live::VisitStretch;
use krarup_units::Stamp;

/// From when to when, end excluded.
type Interval = (u64, u64);

const SECOND: u64 = 1_000_000_000;

/// What these stretches cover together with what all other loops did meanwhile, in the order of
/// time; those that join are one. Stretches that are not among these tell nothing.
pub(super) fn of_all_loops(snapshot: &LiveSnapshot, stretches: &[&VisitStretch]) -> Vec<(Stamp, Stamp)> {
    let loops = snapshot.stretches.iter().map(|one| one.in_loop + 1).max().unwrap_or(0).max(snapshot.loops);
    let mut loops = vec![LoopTimes::default(); usize::from(loops)];
    for one in &snapshot.stretches {
        loops[usize::from(one.in_loop)].kept.push(interval(one));
    }
    for one in stretches {
        loops[usize::from(one.in_loop)].chosen.push(interval(one));
    }
    for one in &snapshot.windows {
        let Some(times) = loops.get_mut(usize::from(one.in_loop)) else { continue };
        if one.requests == 0 {
            times.idle.push((one.from.0, one.to.0));
        } else {
            times.is_asked = true;
        }
    }
    let covered = joined(stretches.iter().map(|one| interval(one)).collect());
    let known = loops.into_iter().fold(covered, |known, one| both(&known, &one.known(snapshot.at)));
    known.into_iter().map(|(from, to)| (Stamp(from), Stamp(to))).collect()
}

fn interval(one: &VisitStretch) -> Interval {
    (one.from.0, one.to.0)
}

/// What is known of one loop.
#[derive(Clone, Debug, Default)]
struct LoopTimes {
    /// Its stretches.
    kept: Vec<Interval>,
    /// Those of them that count.
    chosen: Vec<Interval>,
    /// Its windows without a request.
    idle: Vec<Interval>,
    /// Whether any window had one.
    is_asked: bool,
}

impl LoopTimes {
    /// Times of which all is known that it did: its stretches that count, and where it did nothing.
    fn known(self, now: Stamp) -> Vec<Interval> {
        let kept = joined(self.kept);
        let Some(&(begin, _)) = kept.first() else {
            return if self.is_asked { joined(self.idle) } else { vec![(0, u64::MAX)] };
        };
        // A loop that had a request in a second has a stretch of it, from its first one on; of the
        // second that goes on it may be still to come.
        let ends = kept.iter().map(|one| one.1.next_multiple_of(SECOND));
        let begins = kept[1..].iter().map(|one| one.0).chain([now.0]).map(|at| at / SECOND * SECOND);
        let before = self.idle.into_iter().map(|(from, to)| (from, to.min(begin)));
        let rests = ends.zip(begins).chain(before).filter(|(from, to)| from < to);
        joined(self.chosen.into_iter().chain(rests).collect())
    }
}

/// In the order of time, those that touch as one.
fn joined(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    intervals.dedup_by(|next, last| {
        let joins = next.0 <= last.1;
        if joins {
            last.1 = last.1.max(next.1);
        }
        joins
    });
    intervals
}

/// What two cover, each in the order of time.
fn both(ones: &[Interval], others: &[Interval]) -> Vec<Interval> {
    let (mut one, mut other) = (0, 0);
    let mut overlaps = Vec::new();
    while let (Some(a), Some(b)) = (ones.get(one), others.get(other)) {
        let overlap = (a.0.max(b.0), a.1.min(b.1));
        overlaps.extend(Some(overlap).filter(|(from, to)| from < to));
        if a.1 < b.1 { one += 1 } else { other += 1 }
    }
    overlaps
}

#[cfg(test)]
mod tests {
    use krarup_record::LoopWindow;

    use super::*;

    const TENTH: u64 = SECOND / 10;

    /// Stretches of loops in tenths of a second.
    fn snapshot(stretches: &[(u16, u64, u64)]) -> LiveSnapshot {
        let at = |tenths: u64| Stamp(tenths * SECOND / 10);
        let stretch = |&(in_loop, from, to): &(u16, u64, u64)| VisitStretch {
            in_loop,
            first: 0,
            count: 0,
            from: at(from),
            to: at(to),
        };
        LiveSnapshot { stretches: stretches.iter().map(stretch).collect(), ..LiveSnapshot::default() }
    }

    fn known_beside(snapshot: &LiveSnapshot, chosen: &[&VisitStretch]) -> Vec<(u64, u64)> {
        let tenths = |stamp: Stamp| stamp.0 / TENTH;
        of_all_loops(snapshot, chosen).into_iter().map(|(from, to)| (tenths(from), tenths(to))).collect()
    }

    fn known(snapshot: &LiveSnapshot) -> Vec<(u64, u64)> {
        let all: Vec<&VisitStretch> = snapshot.stretches.iter().collect();
        known_beside(snapshot, &all)
    }

    #[test]
    fn of_one_loop_it_is_what_it_kept() {
        assert_eq!(known(&snapshot(&[(0, 10, 20), (0, 20, 30), (0, 43, 45)])), [(10, 30), (43, 45)]);
        assert_eq!(known(&snapshot(&[])), []);
    }

    #[test]
    fn of_several_it_is_what_all_kept() {
        let kept = snapshot(&[(0, 10, 20), (0, 20, 30), (0, 30, 40), (1, 12, 13), (1, 24, 25), (1, 30, 40)]);
        assert_eq!(known(&kept), [(12, 13), (24, 25), (30, 40)]);
    }

    #[test]
    fn beside_a_stretch_that_is_left_out_nothing_is_known() {
        let kept = snapshot(&[(0, 10, 20), (0, 20, 30), (1, 17, 18), (1, 24, 25)]);
        // What lies after 1.6: the first loop's stretch around that of the second begins before.
        let chosen = kept.stretches.iter().filter(|one| one.from.0 > 16 * TENTH);
        assert_eq!(known_beside(&kept, &chosen.collect::<Vec<_>>()), [(24, 25)]);
    }

    #[test]
    fn a_loop_that_rests_hides_nothing_of_another() {
        let mut kept = snapshot(&[(0, 10, 40), (0, 40, 65), (1, 21, 25), (1, 40, 41)]);
        // The second had nothing in the seconds after 3.0 and 5.0; of that after 6.0 not all is
        // known.
        kept.at = Stamp(65 * SECOND / 10);
        assert_eq!(known(&kept), [(21, 25), (30, 41), (50, 60)], "before its first stretch nothing is known");
        let from = |tenths: u64| Stamp(tenths * SECOND / 10);
        kept.windows.push(LoopWindow { in_loop: 1, from: from(5), to: from(18), ..LoopWindow::default() });
        let all = [(10, 18), (21, 25), (30, 41), (50, 60)];
        assert_eq!(known(&kept), all, "but that it had no request");
        kept.loops = 3;
        assert_eq!(known(&kept), all, "a third one never had any");
    }
}
