//! The flags of a server that say what its clients may take.

use clap::Args;
use krarup_serve::ClientLimits;
use krarup_units::{Bytes, Nanos, text};

#[derive(Args, Clone, Copy)]
pub(crate) struct LimitArgs {
    /// How long a client may be idle before it is disconnected; 0s: for ever
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = text::parse_duration)]
    idle_timeout: f64,
    /// How long a TLS handshake may take; 0s: for ever
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = text::parse_duration)]
    handshake_timeout: f64,
    /// How much the buffers of all connections may hold: who does not read its replies is disconnected then
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    buffer_memory: Bytes,
}

impl From<LimitArgs> for ClientLimits {
    fn from(args: LimitArgs) -> Self {
        Self {
            idle: Nanos::from_seconds(args.idle_timeout),
            handshake: Nanos::from_seconds(args.handshake_timeout),
            memory: args.buffer_memory.0 as usize,
        }
    }
}
