//! A run from its rows: every request with its stamps, so that nothing is believed that can be
//! counted.
//!
//! ```text
//! Cut ─▶ Reading ◀─ see(row), see(row), …        one pass, memory by length of the run and not by requests
//!            └─ end() ─▶ Requests                 estimates of the measured span, laws, the run window by window
//! ```
//! What is counted are whole numbers, so that rows may be read in parts, on many machines
//! ([`parts`]): the sums of all, put together, say the same to the last bit.
//!
//! **Batch means.** Response times of neighbours resemble each other, so a million of them are no
//! million observations. The measured span is cut into [`BATCHES`] of equal length; each has its
//! own rate, means and percentiles, and the spread between batches gives the intervals: none of a
//! percentile with fewer than two requests for each batch beyond it. Ten are too few to see whether
//! they repeat each other.
//!
//! **Laws.** Little's L = X·W is checked with sides that were counted apart: X and W from what
//! *ended* in the span, L from how long requests *were* there in the span, whenever they arrived
//! and left.

pub mod cut;
pub mod estimates;
pub mod parts;
pub mod reading;
pub mod sums;

pub use cut::{BATCHES, Cut, CutError};
pub use estimates::{
    EstimateWindow, Occupancy, OperationEstimates, RequestEstimates, SHARES, ServerEstimates, Settled,
    StationEstimates, TimeSpread,
};
pub use parts::{PartError, PartOfFile, PartOfRun, RequestPart, merge_parts};
pub use reading::RowReader;
pub use sums::RowSums;
