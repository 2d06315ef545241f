//! Other machines, through the system's OpenSSH client: its configuration, its keys and its known
//! hosts are the user's, and are respected.
//!
//! ```text
//! spec, inventory ─▶ settings ─▶ fleet ─▶ reach × machines ─▶ ssh ─▶ agent
//! ```
//! One connection to each machine carries all that is done there (`ControlMaster`, its sockets in a
//! folder that only we can enter).

pub mod destination;
pub mod fleet;
pub mod inventory;
pub mod reach;
