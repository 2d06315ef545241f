//! Stations whose speed depends on their queue, joined to the rest of a network one after the
//! other.
//!
//! Nothing is ever subtracted. Two parts A and B of a product-form network behave towards each
//! other as two stations with the rates X_A(n) and X_B(n) that each has when it is alone (Norton's
//! theorem for queues; Chandy, Herzog & Woo 1975), so with n customers in both together
//!
//! ```text
//! p(j) / p(j−1) = X_A(n − j + 1) / X_B(j)        j of the n customers in B
//! X(n) = Σ p(j)·X_B(j)
//! ```
//!
//! a birth–death chain of positive terms, summed outward from its largest. Each queue-dependent
//! station is joined in turn; to learn its own queue, it is joined last.

/// Something known for each number of customers inside a station, to be averaged over the long run:
/// entry j with j customers there; the last entry goes on.
pub type Reward = Vec<f64>;

/// What is known of one station after it has been joined last.
#[derive(Debug, Default)]
pub(super) struct JoinedStation {
    pub(super) queue: Vec<f64>,
    pub(super) idle: Vec<f64>,
    pub(super) rewards: Vec<Vec<f64>>,
}

pub(super) struct Joined {
    pub(super) throughput: Vec<f64>,
    pub(super) parts: Vec<JoinedStation>,
}

/// Joins stations whose speed depends on their queue to the rest, each of them last once: their
/// `rates` with 1, 2, … customers, and what is to be averaged of each. `base` has the rates of the
/// rest, if there is one.
pub(super) fn join_all(rates: &[Vec<f64>], rewards: &[&[Reward]], base: Option<Vec<f64>>) -> Joined {
    let last = rates.len() - 1;
    // after[i]: the stations i.. joined; before: the base and the stations below i.
    let mut after: Vec<Option<Vec<f64>>> = vec![None; rates.len() + 1];
    for i in (1..rates.len()).rev() {
        after[i] = join_optional(Some(rates[i].clone()), after[i + 1].as_deref());
    }
    let mut before = base;
    let mut joined = Joined { throughput: Vec::new(), parts: Vec::new() };
    for (i, own) in rates.iter().enumerate() {
        let others = join_optional(before.clone(), after[i + 1].as_deref());
        let wanted = rewards[i];
        let (throughput, part) = match &others {
            Some(others) => join(others, own, Some(wanted)),
            None => alone(own, wanted),
        };
        joined.parts.push(part);
        if i == last {
            joined.throughput = throughput;
        } else {
            before = join_optional(before, Some(own));
        }
    }
    joined
}

/// Whether a rate is never below the one with a customer less.
pub(super) fn rising(rates: &[f64]) -> bool {
    rates.windows(2).all(|pair| pair[1] >= pair[0] * (1.0 - 1e-9))
}

fn join_optional(a: Option<Vec<f64>>, b: Option<&[f64]>) -> Option<Vec<f64>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(&a, b, None).0),
        (Some(a), None) => Some(a),
        (None, b) => b.map(<[f64]>::to_vec),
    }
}

/// A station that is the whole network: all n customers are always there.
fn alone(own: &[f64], rewards: &[Reward]) -> (Vec<f64>, JoinedStation) {
    let part = JoinedStation {
        queue: (1..=own.len()).map(|n| n as f64).collect(),
        idle: vec![0.0; own.len()],
        rewards: rewards.iter().map(|r| (1..=own.len()).map(|n| reward_at(r, n)).collect()).collect(),
    };
    (own.to_vec(), part)
}

fn reward_at(reward: &Reward, jobs: usize) -> f64 {
    reward.get(jobs).or(reward.last()).copied().unwrap_or(0.0)
}

/// The throughput of two parts together, `others` and `own` being their rates with 1, 2, …
/// customers, and, if `rewards` are given, what the second part holds.
fn join(others: &[f64], own: &[f64], rewards: Option<&[Reward]>) -> (Vec<f64>, JoinedStation) {
    let population = own.len();
    let mut chain = Chain::new(others, own);
    let mut throughput = Vec::with_capacity(population);
    let mut part = JoinedStation {
        rewards: vec![Vec::new(); rewards.map_or(0, <[Reward]>::len)],
        ..JoinedStation::default()
    };
    for n in 1..=population {
        let (low, weights) = chain.weights(n);
        let mut total = 0.0;
        let mut flow = 0.0;
        for (j, w) in (low..).zip(weights) {
            total += w;
            if j > 0 {
                flow += w * own[j - 1];
            }
        }
        throughput.push(flow / total);
        if let Some(rewards) = rewards {
            let number: f64 = (low..).zip(weights).map(|(j, w)| w * j as f64).sum();
            part.queue.push(number / total);
            part.idle.push(if low == 0 { weights[0] / total } else { 0.0 });
            for (reward, mean) in rewards.iter().zip(&mut part.rewards) {
                let sum: f64 = (low..).zip(weights).map(|(j, w)| w * reward_at(reward, j)).sum();
                mean.push(sum / total);
            }
        }
    }
    (throughput, part)
}

/// The shares p(0..=n) of customers between two parts, up to a factor, for growing n.
struct Chain<'a> {
    others: &'a [f64],
    own: &'a [f64],
    inverse_others: Vec<f64>,
    inverse_own: Vec<f64>,
    /// Rates that never fall with more customers make p(j) rise and then fall: it can be followed
    /// from its top.
    one_top: bool,
    top: usize,
    weights: Vec<f64>,
}

/// Weights below this share of the largest cannot change a digit of the sums.
const NEGLIGIBLE: f64 = 1e-25;

impl<'a> Chain<'a> {
    fn new(others: &'a [f64], own: &'a [f64]) -> Self {
        let inverse = |rates: &[f64]| rates.iter().map(|r| 1.0 / r).collect::<Vec<_>>();
        Self {
            others,
            own,
            inverse_others: inverse(others),
            inverse_own: inverse(own),
            one_top: rising(others) && rising(own),
            top: 0,
            weights: vec![0.0; own.len() + 1],
        }
    }

    /// The first j and the weights from there on; all others are negligible.
    fn weights(&mut self, n: usize) -> (usize, &[f64]) {
        if !self.one_top {
            return self.weights_in_logarithms(n);
        }
        let ratio = |j: usize| self.others[n - j] * self.inverse_own[j - 1];
        let mut top = self.top.min(n);
        while top < n && ratio(top + 1) >= 1.0 {
            top += 1;
        }
        while top > 0 && ratio(top) < 1.0 {
            top -= 1;
        }
        self.top = top;
        self.weights[top] = 1.0;
        let mut high = top;
        let mut weight = 1.0;
        while high < n && weight > NEGLIGIBLE {
            high += 1;
            weight *= ratio(high);
            self.weights[high] = weight;
        }
        let mut low = top;
        weight = 1.0;
        while low > 0 && weight > NEGLIGIBLE {
            weight *= self.own[low - 1] * self.inverse_others[n - low];
            low -= 1;
            self.weights[low] = weight;
        }
        (low, &self.weights[low..=high])
    }

    fn weights_in_logarithms(&mut self, n: usize) -> (usize, &[f64]) {
        let mut logarithm = 0.0;
        let mut most: f64 = 0.0;
        self.weights[0] = 0.0;
        for j in 1..=n {
            logarithm += (self.others[n - j] * self.inverse_own[j - 1]).ln();
            most = most.max(logarithm);
            self.weights[j] = logarithm;
        }
        self.weights[..=n].iter_mut().for_each(|w| *w = (*w - most).exp());
        (0, &self.weights[..=n])
    }
}
