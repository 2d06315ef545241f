//! The universal scalability law: how throughput grows, levels off and falls with the number of
//! workers.
//!
//! ```text
//! X(n) = λ·n / (1 + σ·(n − 1) + κ·n·(n − 1))      σ contention, κ coherence (Gunther 2007)
//! ```
//!
//! With κ = 0 it is a machine-repair bound (a queue for one shared part); with κ > 0 it has a top,
//! behind which more workers do less. It describes; what it is fitted to decides what it means.
//! Fitted over the number of *busy workers* it is a hold time T(n) = n/X(n), which
//! [`crate::layered`] can use; fitted over clients it mixes workers, queue and think time.

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

/// The law with its three parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scalability {
    /// λ: throughput of one worker, per second; > 0.
    pub single: f64,
    /// σ: share of the work that is serial; 0 to 1.
    pub contention: f64,
    /// κ: cost of agreement between each pair; ≥ 0.
    pub coherence: f64,
}

impl Scalability {
    /// X(n), per second.
    pub fn throughput(&self, workers: f64) -> f64 {
        let others = workers - 1.0;
        self.single * workers / (1.0 + self.contention * others + self.coherence * workers * others)
    }

    /// T(n) = n / X(n): how long each of n busy workers takes for a request.
    pub fn hold(&self, workers: f64) -> Seconds {
        workers / self.throughput(workers)
    }

    /// The number of workers with the largest throughput, √((1 − σ)/κ); infinite with κ = 0.
    pub fn best(&self) -> f64 {
        ((1.0 - self.contention) / self.coherence).sqrt()
    }

    /// The throughput that no number of workers exceeds: at the top, or λ/σ with κ = 0.
    pub fn limit(&self) -> f64 {
        if self.coherence > 0.0 {
            self.throughput(self.best().max(1.0))
        } else {
            self.single / self.contention
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_is_where_the_law_says() {
        let law = Scalability { single: 100.0, contention: 0.05, coherence: 0.001 };
        assert!((law.best() - (0.95_f64 / 0.001).sqrt()).abs() < 1e-9);
        assert!(law.limit() >= law.throughput(30.0) && law.limit() >= law.throughput(32.0));
        assert!((law.hold(8.0) * law.throughput(8.0) - 8.0).abs() < 1e-12);
    }

    #[test]
    fn without_coherence_the_limit_is_that_of_a_shared_part() {
        let law = Scalability { single: 100.0, contention: 0.05, coherence: 0.0 };
        assert!((law.limit() - 2_000.0).abs() < 1e-9);
        assert!((law.throughput(1e9) / 2_000.0 - 1.0).abs() < 1e-6);
    }
}
