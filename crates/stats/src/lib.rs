//! Estimators: every estimate carries n and an interval.
//!
//! Nothing here touches a file, a clock or global random state; what is random takes a seed. The quantiles and tails
//! of t, F, χ², beta and normal are `statrs`'. Every formula names its source; Jain 1991 is *The Art of Computer
//! Systems Performance Analysis*. Inputs that allow no estimate (empty, a single value, NaN, a constant where a spread is needed) give a
//! [`StatsError`] that names the thing.

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
pub mod nonlinear;
pub mod qq;
pub mod quantile;
mod random;
pub mod regression;
pub mod steady;
pub mod summary;
mod tails;
pub mod transform;
pub mod usl;

pub use bootstrap::Bootstrap;
pub use error::StatsError;
pub use interval::{Estimate, Interval, USUAL_LEVEL};
pub use quantile::Ordered;
pub use regression::{Column, Intercept, Regression};
pub use summary::Summary;
