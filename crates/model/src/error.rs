//! What can be wrong with a model: each error names the thing and carries a hint.

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A description that does not read: the place, what is wrong, what to write instead.
    #[error("{}{what}", line.map_or_else(String::new, |line| format!("line {line}: ")))]
    Form {
        /// Line in the file, from 1, where it is known.
        line: Option<usize>,
        /// What is wrong, naming the thing.
        what: String,
        /// What to write instead.
        hint: String,
    },
    /// A parameter outside its range.
    #[error("{thing}: {why}")]
    Invalid {
        /// The parameter, by name.
        thing: String,
        /// What is wrong with it.
        why: String,
        /// What to do about it.
        hint: String,
    },
    /// A feature of the network that this solver does not treat.
    #[error("{solver} does not treat {feature}")]
    Refused {
        /// The solver, by name.
        solver: String,
        /// The feature and where it stands.
        feature: String,
        /// Which solver does treat it.
        hint: String,
    },
    /// More work arrives than the station can do.
    #[error("{station} cannot keep up: utilization {utilization:.4}, not below 1")]
    Unstable {
        /// The station or class, by name.
        station: String,
        /// Offered load divided by capacity; at least 1, but for rounding.
        utilization: f64,
    },
    /// The interval of the utilization covers 1: whether the queue settles at all is not known, so
    /// nothing can be concluded about its length.
    #[error(
        "no conclusion holds for {station}: the interval of its utilization, {low:.4} to {high:.4}, covers 1"
    )]
    Undecided {
        /// The station, by name.
        station: String,
        /// Low end of the interval of ρ.
        low: f64,
        /// High end of the interval of ρ.
        high: f64,
    },
    /// The answer broke a law, so it is not an answer. Names where and which law.
    #[error("the answer for {station} breaks a law: {law}")]
    Violated {
        /// The station, class or network, by name.
        station: String,
        /// The law, with both sides.
        law: String,
    },
    /// An exact solution would need more memory or time than is reasonable.
    #[error("{what}")]
    TooLarge {
        /// What grew, with its size and the limit.
        what: String,
        /// What to use instead.
        hint: String,
    },
    /// The caller asked to stop, and what was done by then is no answer.
    #[error("stopped before its end")]
    Stopped,
    /// An iteration did not settle.
    #[error("{solver} did not converge: {what}")]
    NotConverged {
        /// The solver, by name.
        solver: String,
        /// How many rounds were made, and how far apart the last two were.
        what: String,
    },
    /// Measurements that contradict themselves or each other.
    #[error("{what}")]
    Measurements {
        /// Which rows and how.
        what: String,
        /// What to do about it.
        hint: String,
    },
}

impl Error {
    /// A parameter outside its range.
    pub(crate) fn invalid(thing: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { thing: thing.into(), why: why.into(), hint: hint.into() }
    }

    /// Of a closed network in which a client comes back at once.
    pub(crate) fn takes_no_time() -> Self {
        Self::invalid("network", "takes no time at all", "give a station a demand, or a think time")
    }

    /// The hint, where there is one: what to write or do instead.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Form { hint, .. }
            | Self::Invalid { hint, .. }
            | Self::Refused { hint, .. }
            | Self::TooLarge { hint, .. }
            | Self::Measurements { hint, .. }
                if !hint.is_empty() =>
            {
                Some(hint)
            }
            Self::Unstable { .. } => Some("lower the arrival rate, shorten the service, or add servers"),
            Self::Undecided { .. } => Some(
                "measure at a lower load, or longer: near saturation the third digit of μ decides the queue",
            ),
            Self::Violated { .. } => {
                Some("this is a fault of the solver or of an extreme input: please report the network")
            }
            Self::NotConverged { .. } => Some("use an exact solver, or simulate"),
            _ => None,
        }
    }
}
