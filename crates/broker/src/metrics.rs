//! The numbers of one moment, and how Prometheus reads them: one table of metrics, text made from
//! it.

mod snapshot;
mod table;

pub use snapshot::BrokerSnapshot;
pub use table::{BrokerMetric, TABLE, exposition, page, waiting};
