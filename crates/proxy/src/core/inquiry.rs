//! A question that only several loops together can answer.

/// A client wants statistics, which are those of all loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// The request.
    pub number: u32,
    /// What follows `stats`.
    pub argument: Vec<u8>,
}
