//! How many connections a process may have: each takes a file descriptor.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard one. Many systems keep the soft one at 1024 for
/// the sake of old programs that cannot handle more; a program that holds a connection per client
/// needs what there is.
pub fn allow_many() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Who may not have more goes on with what there is, and tells when it is used up.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_allowed_as_the_system_gives() {
        allow_many();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
