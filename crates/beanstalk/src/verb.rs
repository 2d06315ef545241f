//! What is said of verbs in their table.

/// How a line begins whose verb it is, as beanstalkd's program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStart {
    /// With the word and a blank; numbers may have more blanks before them.
    Spaced,
    /// With the word and one blank; a name stands at once behind it.
    Tight,
    /// With the word, and nothing may stand behind it.
    Alone,
    /// With these bytes, whatever stands behind them.
    Loose,
    /// With the word: a verb that beanstalkd does not know.
    Extra,
}

/// What a verb is about: those that are measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerbGroup {
    /// Bringing messages.
    Put,
    /// Leasing messages.
    Reserve,
    /// Ending them.
    Delete,
    /// Giving them back.
    Release,
    /// Setting them aside.
    Bury,
    /// Making them ready again.
    Kick,
    /// Extending leases.
    Touch,
    /// Taking messages for good.
    Pop,
    /// Looking at messages.
    Peek,
    /// Names of tubes.
    List,
    /// Anything else.
    Other,
}
