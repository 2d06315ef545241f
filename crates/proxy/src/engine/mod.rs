//! What moves the bytes between the sockets and the [core](crate::core).

pub mod events;
pub mod outlook;
