//! The numbers of one moment, and how Prometheus reads them: one table of metrics, text made from
//! it.

mod exposition;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;

pub use exposition::exposition;
pub use snapshot::ProxySnapshot;
pub use table::{ProxyMetric, TABLE, page};
