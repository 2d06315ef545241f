//! Estimators: every estimate carries n and an interval.
//!
//! | question | module |
//! |---|---|
//! | what is the mean, how large the spread | [`summary`]; of one correlated run [`batch`], [`autocorrelation`] |
//! | how far does it reach when values are skew | [`skew`] |
//! | where does the steady state begin, does it drift | [`steady`] |
//! | where is the 99th percentile | [`quantile`] |
//! | is B better than A | [`compare`]; of many such tests [`multiple`] |
//! | which share fails | [`interval`] |
//! | any other statistic | [`bootstrap`] |
//! | which factor matters | [`factorial`], [`effects`], [`transform`], [`fractional`]; more levels [`anova`], [`full_factorial`] |
//! | what is the line, the curve | [`regression`], [`nonlinear`]; scaling [`usl`] |
//! | which law do times follow | [`fit`], [`law`], [`kolmogorov`], [`qq`] |
//!
//! Nothing here touches a file, a clock or global random state; what is random takes a seed. The
//! quantiles and tails of t, F, χ², beta and normal are `statrs`'. Every formula names its source;
//! Jain 1991 is *The Art of Computer Systems Performance Analysis*. Inputs that allow no estimate
//! (empty, a single value, NaN, a constant where a spread is needed) give a [`StatsError`] that
//! names the thing.
//!
//! ```
//! use krarup_stats::{Summary, compare::{Direction, welch}};
//!
//! let (before, after) = ([11.2, 11.9, 11.5, 11.4], [10.1, 10.4, 9.9, 10.2]);
//! let mean = Summary::of(&after)?.mean_estimate(0.95)?;
//! assert_eq!(format!("{mean}"), "10.15 [9.82, 10.48] at 95 %, n = 4");
//! assert_eq!(welch(&before, &after, 0.95)?.verdict, Direction::Lower);
//! # Ok::<(), krarup_stats::StatsError>(())
//! ```

#![forbid(unsafe_code)]

pub mod anova;
pub mod autocorrelation;
pub mod batch;
pub mod bootstrap;
pub mod compare;
pub mod effects;
mod error;
pub mod factorial;
pub mod fit;
pub mod fractional;
pub mod full_factorial;
pub mod interval;
pub mod kolmogorov;
pub mod law;
mod least_squares;
pub mod multiple;
pub mod nonlinear;
pub mod qq;
pub mod quantile;
mod random;
pub mod regression;
pub mod skew;
pub mod steady;
pub mod summary;
mod tails;
pub mod transform;
pub mod usl;

pub use bootstrap::Bootstrap;
pub use error::StatsError;
pub use interval::{Estimate, Interval, USUAL_LEVEL};
pub use quantile::Ordered;
pub use regression::{Intercept, Predictor, Regression};
pub use summary::Summary;
pub use tails::t_two_sided;
