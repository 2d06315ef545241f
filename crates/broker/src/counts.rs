//! How often each verb was asked for, and what its requests are recorded as.

use krarup_beanstalk::{Group, Verb};
use krarup_record::Operation;

/// What the rows of requests of this verb are called.
pub const fn operation(verb: Verb) -> Operation {
    match verb.group() {
        Group::Put => Operation::Put,
        Group::Reserve => Operation::Reserve,
        Group::Delete => Operation::Delete,
        Group::Release => Operation::Release,
        Group::Bury => Operation::Bury,
        Group::Kick => Operation::Kick,
        Group::Touch => Operation::Touch,
        Group::Pop => Operation::Pop,
        Group::Peek => Operation::Peek,
        Group::List => Operation::List,
        Group::Other => Operation::Other,
    }
}

/// How often each verb was asked for; what brings a message is counted as `put`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts([u64; Verb::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self([0; Verb::ALL.len()])
    }
}

impl Counts {
    /// One more.
    pub fn count(&mut self, verb: Verb) {
        self.0[verb as usize] += 1;
    }

    /// How often.
    pub fn get(&self, verb: Verb) -> u64 {
        self.0[verb as usize]
    }
}
