//! What Prometheus would read, read by us: values by name, and what was counted between two looks.

use std::collections::BTreeMap;

use krarup_units::Seconds;

/// The values of one look, each under its name with its labels as they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(BTreeMap<String, f64>);

/// Times that were counted in buckets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BucketedTimes {
    /// Upper bounds, in seconds, and how many times were up to each.
    up_to: Vec<(Seconds, f64)>,
    count: f64,
    sum: Seconds,
}

impl Samples {
    /// Reads a text. Lines that are none of its form are passed over.
    pub fn read(text: &str) -> Self {
        let values = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        });
        Self(values.collect())
    }

    /// The value of a metric that has one alone.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// One of the values of a metric.
    pub fn of(&self, name: &str, label: &str, of: &str) -> Option<f64> {
        self.value(&format!("{name}{{{label}=\"{of}\"}}"))
    }

    /// What tells the values of a metric apart, in the order of the text's letters.
    pub fn labels<'a>(&'a self, name: &str, label: &str) -> Vec<&'a str> {
        let front = format!("{name}{{{label}=\"");
        let found = self.0.range(front.clone()..).take_while(|(key, _)| key.starts_with(&front));
        found.filter_map(|(key, _)| key[front.len()..].strip_suffix("\"}")).collect()
    }

    /// All values of a metric, each with its labels in their order: names, and texts as they are
    /// written.
    pub fn labelled<'a>(&'a self, name: &str) -> impl Iterator<Item = (Vec<(&'a str, &'a str)>, f64)> {
        let front = format!("{name}{{");
        let found = self.0.range(front.clone()..).map(move |(key, value)| (key.strip_prefix(&front), *value));
        found.map_while(|(key, value)| Some((key?, value))).map(|(key, value)| (labels_of(key), value))
    }

    /// A histogram of times that is told apart from others by a label, or is alone.
    pub fn buckets(&self, name: &str, label: Option<(&str, &str)>) -> BucketedTimes {
        let (labels, comma) =
            label.map_or((String::new(), ""), |(label, of)| (format!("{label}=\"{of}\""), ","));
        let front = format!("{name}_bucket{{{labels}{comma}le=\"");
        let found = self.0.range(front.clone()..).take_while(|(key, _)| key.starts_with(&front));
        let mut up_to: Vec<_> = found
            .filter_map(|(key, count)| Some((key[front.len()..].strip_suffix("\"}")?.parse().ok()?, *count)))
            .filter(|(bound, _): &(f64, f64)| bound.is_finite())
            .collect();
        up_to.sort_by(|a, b| a.0.total_cmp(&b.0));
        let braced = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        let whole = |what: &str| self.value(&format!("{name}_{what}{braced}")).unwrap_or(0.0);
        BucketedTimes { up_to, count: whole("count"), sum: whole("sum") }
    }
}

/// The labels of a value, from behind the opening brace.
fn labels_of(mut text: &str) -> Vec<(&str, &str)> {
    let mut labels = Vec::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let mut escaped = false;
        let end = rest.find(|letter| match letter {
            '"' if !escaped => true,
            _ => {
                escaped = letter == '\\' && !escaped;
                false
            }
        });
        let Some(end) = end else { break };
        labels.push((name.trim_start_matches(','), &rest[..end]));
        text = &rest[end + 1..];
    }
    labels
}

impl BucketedTimes {
    /// The times of two, as if they had been counted together. Only bounds that both have are kept:
    /// without any there are no quantiles.
    pub fn and(mut self, other: &Self) -> Self {
        if self.count == 0.0 {
            return other.clone();
        }
        if other.count > 0.0 {
            let of_other = |bound: Seconds| other.up_to.iter().find(|(one, _)| *one == bound);
            self.up_to.retain_mut(|(bound, up_to)| match of_other(*bound) {
                Some((_, more)) => {
                    *up_to += more;
                    true
                }
                None => false,
            });
            self.count += other.count;
            self.sum += other.sum;
        }
        self
    }

    /// What was counted since an earlier look. Where the process began anew meanwhile, that is all
    /// there is.
    pub fn since(&self, before: &Self) -> Self {
        if self.count < before.count || self.up_to.len() != before.up_to.len() {
            return self.clone();
        }
        let pairs = self.up_to.iter().zip(&before.up_to);
        Self {
            up_to: pairs.map(|((bound, now), (_, then))| (*bound, now - then)).collect(),
            count: self.count - before.count,
            sum: self.sum - before.sum,
        }
    }

    /// How many times there are.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Their mean; none without any.
    pub fn mean(&self) -> Option<Seconds> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// The time that this share (0 to 1) of all does not exceed, as if the times within a bucket
    /// lay evenly; the last bound where it is longer. None without any, or without bounds.
    pub fn quantile(&self, share: f64) -> Option<Seconds> {
        let wanted = share * self.count;
        let (mut from, mut below) = (0.0, 0.0);
        for &(bound, up_to) in &self.up_to {
            if self.count > 0.0 && up_to >= wanted && up_to > below {
                return Some(from + (bound - from) * ((wanted - below) / (up_to - below)).max(0.0));
            }
            (from, below) = (bound, up_to);
        }
        (self.count > 0.0 && !self.up_to.is_empty()).then_some(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{ExpositionText, TimeBuckets};
    use super::*;
    use crate::MeasuredDistribution;
    use krarup_units::Nanos;

    fn exposed(times: &[u64]) -> Samples {
        let mut distribution = MeasuredDistribution::new();
        times.iter().for_each(|time| distribution.record(Nanos(*time)));
        let mut text = ExpositionText::default();
        text.head("t_seconds", "histogram", "Times.");
        text.histogram("t_seconds", Some(("operation", "put")), &TimeBuckets::of(&distribution, true));
        text.histogram("all_seconds", None, &TimeBuckets::of(&distribution, true));
        text.one("n_total", "operation", "put", times.len());
        text.one("n_total", "operation", "get", 0);
        text.value("up", 1);
        Samples::read(&text.0)
    }

    #[test]
    fn what_was_reported_is_read() {
        let samples = exposed(&[30_000, 30_000, 2_000_000]);
        assert_eq!((samples.value("up"), samples.value("down")), (Some(1.0), None));
        assert_eq!(samples.of("n_total", "operation", "put"), Some(3.0));
        assert_eq!(samples.labels("n_total", "operation"), ["get", "put"]);
        for buckets in
            [samples.buckets("t_seconds", Some(("operation", "put"))), samples.buckets("all_seconds", None)]
        {
            assert_eq!(buckets.count(), 3.0);
            assert!((buckets.mean().unwrap() - 0.002_06 / 3.0).abs() < 1e-9);
            assert_eq!(buckets.quantile(0.5), Some(0.000_025 + 0.000_025 * 0.75));
        }
        assert_eq!(samples.buckets("nothing", None).quantile(0.5), None);
    }

    #[test]
    fn labels_are_read_in_their_order() {
        let mut text = ExpositionText::default();
        let labels = [("tube", "a\"b,c=\"".to_owned()), ("bound", "low".to_owned())];
        text.labelled("needed", &labels, 4);
        text.one("needed_more", "tube", "x", 1);
        text.value("needed", 2);
        let samples = Samples::read(&text.0);
        let found: Vec<_> = samples.labelled("needed").collect();
        assert_eq!(found, [(vec![("tube", "a\\\"b,c=\\\""), ("bound", "low")], 4.0)]);
    }

    #[test]
    fn times_of_two_are_counted_together() {
        let buckets = |times: &[u64]| exposed(times).buckets("all_seconds", None);
        let (one, other) = (buckets(&[30_000]), buckets(&[30_000, 2_000_000]));
        assert_eq!(one.and(&other).quantile(0.5), buckets(&[30_000, 30_000, 2_000_000]).quantile(0.5));
        assert_eq!(BucketedTimes::default().and(&other), other);
        // One that has no buckets leaves none: a quantile of a part is that of nothing.
        let bare = BucketedTimes { up_to: Vec::new(), count: 2.0, sum: 1.0 };
        let both = other.and(&bare);
        assert_eq!((both.count(), both.quantile(0.5)), (4.0, None));
    }

    #[test]
    fn what_was_counted_between_two_looks_is_their_difference() {
        let buckets = |times: &[u64]| exposed(times).buckets("all_seconds", None);
        let between = buckets(&[30_000, 30_000, 2_000_000]).since(&buckets(&[30_000]));
        assert_eq!(between, buckets(&[30_000, 2_000_000]));
        assert_eq!(buckets(&[30_000]).since(&buckets(&[1, 2, 3])), buckets(&[30_000]));
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "[a-z_{}=\", .0-9\n#]{0,200}") {
            let samples = Samples::read(&text);
            let _ = (samples.labels("a", "b"), samples.buckets("a", None).quantile(0.5));
            let _ = samples.labelled("a").count();
        }

        #[test]
        fn a_quantile_lies_in_its_bucket_and_rises_with_its_share(
            times in prop::collection::vec(1_u64..9_000_000_000, 1..50),
            shares in (0.0..1.0_f64, 0.0..1.0_f64),
        ) {
            let buckets = exposed(&times).buckets("all_seconds", None);
            let (low, high) = (shares.0.min(shares.1), shares.0.max(shares.1));
            prop_assert!(buckets.quantile(low).unwrap() <= buckets.quantile(high).unwrap() + 1e-12);
            prop_assert!(buckets.quantile(1.0).unwrap() <= 10.0);
        }
    }
}
