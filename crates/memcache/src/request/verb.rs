//! The words that requests begin with, by what they are about.

/// The four commands that fetch values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Retrieval {
    /// Values.
    #[default]
    Get,
    /// Values with their cas unique.
    Gets,
    /// Values, and their expiry time is set anew.
    Gat,
    /// Values with their cas unique, and their expiry time is set anew.
    Gats,
}

/// The six commands that bring a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Store whatever is there.
    Set,
    /// Store only where nothing is.
    Add,
    /// Store only where something is.
    Replace,
    /// Add to the end of what is there.
    Append,
    /// Add to the front of what is there.
    Prepend,
    /// Store only if no client has since the value was fetched with `gets`.
    Cas,
}

/// The two commands that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arithmetic {
    /// Add.
    Incr,
    /// Take away.
    Decr,
}

/// The meta commands that reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaCommand {
    /// `mg`: fetch, touch, or only look.
    Get,
    /// `ms`: store in one of five modes.
    Set,
    /// `md`: delete, or mark as stale.
    Delete,
    /// `ma`: count up or down.
    Arithmetic,
    /// `me`: what the server knows of an item.
    Debug,
}

impl Retrieval {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Gets => "gets",
            Self::Gat => "gat",
            Self::Gats => "gats",
        }
    }

    /// Whether the answer carries cas uniques.
    pub const fn with_unique(self) -> bool {
        matches!(self, Self::Gets | Self::Gats)
    }

    /// Whether the expiry time is set anew.
    pub const fn touches(self) -> bool {
        matches!(self, Self::Gat | Self::Gats)
    }
}

impl Storage {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Cas => "cas",
        }
    }
}

impl Arithmetic {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Incr => "incr",
            Self::Decr => "decr",
        }
    }
}

impl MetaCommand {
    /// The word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "mg",
            Self::Set => "ms",
            Self::Delete => "md",
            Self::Arithmetic => "ma",
            Self::Debug => "me",
        }
    }
}
