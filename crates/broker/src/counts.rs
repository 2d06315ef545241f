//! How often each verb was asked for, and what its requests are recorded as.

use krarup_beanstalk::{Verb, VerbGroup};
use krarup_record::Operation;

/// What the rows of requests of this verb are called.
pub const fn operation(verb: Verb) -> Operation {
    match verb.group() {
        VerbGroup::Put => Operation::Put,
        VerbGroup::Reserve => Operation::Reserve,
        VerbGroup::Delete => Operation::Delete,
        VerbGroup::Release => Operation::Release,
        VerbGroup::Bury => Operation::Bury,
        VerbGroup::Kick => Operation::Kick,
        VerbGroup::Touch => Operation::Touch,
        VerbGroup::Pop => Operation::Pop,
        VerbGroup::Peek => Operation::Peek,
        VerbGroup::List => Operation::List,
        VerbGroup::Other => Operation::Other,
    }
}

/// How often each verb was asked for; what brings a message is counted as `put`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbCounts([u64; Verb::ALL.len()]);

impl Default for VerbCounts {
    fn default() -> Self {
        Self([0; Verb::ALL.len()])
    }
}

impl VerbCounts {
    /// One more.
    pub fn count(&mut self, verb: Verb) {
        self.0[verb as usize] += 1;
    }

    /// How often.
    pub fn get(&self, verb: Verb) -> u64 {
        self.0[verb as usize]
    }
}
