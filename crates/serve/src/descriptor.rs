//! The file descriptor of a connection to a server, kept while there is no connection.

use std::fs::File;

/// Stands in for a connection that was lost: clients that wait to be accepted would take what it
/// gives back, and as long as they stay it could not be made again.
#[derive(Debug, Default)]
pub(crate) struct HeldDescriptor(Option<File>);

impl HeldDescriptor {
    /// Holds one, unless it does or there is none.
    pub(crate) fn hold(&mut self) {
        if self.0.is_none() {
            self.0 = File::open("/dev/null").ok();
        }
    }

    /// Gives it back, to the connection that is made next.
    pub(crate) fn release(&mut self) {
        self.0 = None;
    }

    #[cfg(test)]
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_some()
    }
}
