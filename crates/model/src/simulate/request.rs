//! A request that moves through the network.

/// No request, no station.
pub(super) const NONE: u32 = u32::MAX;

/// A request, or one copy of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimulatedRequest {
    /// When it began.
    pub(super) started: f64,
    /// When it came to its station or line.
    pub(super) entered: f64,
    /// When its service began.
    pub(super) taken: f64,
    /// Service time; what is left of it, for one that was preempted.
    pub(super) work: f64,
    pub(super) class: u32,
    pub(super) op: u32,
    /// Visits still to be made in this instruction.
    pub(super) repeats: u32,
    /// The station it is at.
    pub(super) at: u32,
    /// Where it goes, while it waits for room there.
    pub(super) target: u32,
    /// The fork it is a copy of.
    pub(super) gather: u32,
    /// Its service is done, and it finds no room where it goes next.
    pub(super) stuck: bool,
}
