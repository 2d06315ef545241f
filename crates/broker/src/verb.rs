//! The verbs by name: what is counted of each, and under which operation its requests are recorded.

use krarup_record::Operation;

use crate::request::Request;

macro_rules! verbs {
    ($($variant:ident = $name:literal => $operation:ident,)+) => {
        /// What a request is called.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each has its name beside it")]
        pub enum Verb { $($variant,)+ }

        impl Verb {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word of the protocol.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What its rows are called.
            pub const fn operation(self) -> Operation {
                match self { $(Self::$variant => Operation::$operation,)+ }
            }
        }
    };
}

verbs! {
    Put = "put" => Put,
    Peek = "peek" => Peek,
    PeekReady = "peek-ready" => Peek,
    PeekDelayed = "peek-delayed" => Peek,
    PeekBuried = "peek-buried" => Peek,
    Reserve = "reserve" => Reserve,
    ReserveWithTimeout = "reserve-with-timeout" => Reserve,
    ReserveJob = "reserve-job" => Reserve,
    ReserveBatch = "reserve-batch" => Reserve,
    Delete = "delete" => Delete,
    DeleteBatch = "delete-batch" => Delete,
    Release = "release" => Release,
    Use = "use" => Other,
    Watch = "watch" => Other,
    Ignore = "ignore" => Other,
    Bury = "bury" => Bury,
    Kick = "kick" => Kick,
    KickJob = "kick-job" => Kick,
    Touch = "touch" => Touch,
    Stats = "stats" => Other,
    StatsJob = "stats-job" => Other,
    StatsTube = "stats-tube" => Other,
    ListTubes = "list-tubes" => List,
    ListTubeUsed = "list-tube-used" => List,
    ListTubesWatched = "list-tubes-watched" => List,
    PauseTube = "pause-tube" => Other,
    Quit = "quit" => Other,
    Login = "login" => Other,
    Register = "register" => Other,
    Unregister = "unregister" => Other,
    CreateTube = "create-tube" => Other,
    DeleteTube = "delete-tube" => Other,
    LimitTube = "limit-tube" => Other,
    ExpireTube = "expire-tube" => Other,
    ArchiveTube = "archive-tube" => Other,
    Pop = "pop" => Pop,
    PopTube = "pop-tube" => Pop,
    PopSender = "pop-sender" => Pop,
    PeekTube = "peek-tube" => Peek,
    PeekSender = "peek-sender" => Peek,
    ListTubesForMe = "list-tubes-for-me" => List,
    Await = "await" => Other,
    Ping = "ping" => Other,
}

impl Request<'_> {
    /// What it is called.
    pub const fn verb(&self) -> Verb {
        match self {
            Self::Put(_) => Verb::Put,
            Self::Peek(_) => Verb::Peek,
            Self::PeekReady => Verb::PeekReady,
            Self::PeekDelayed => Verb::PeekDelayed,
            Self::PeekBuried => Verb::PeekBuried,
            Self::Reserve { timeout: None } => Verb::Reserve,
            Self::Reserve { timeout: Some(_) } => Verb::ReserveWithTimeout,
            Self::ReserveJob(_) => Verb::ReserveJob,
            Self::ReserveBatch { .. } => Verb::ReserveBatch,
            Self::Delete(_) => Verb::Delete,
            Self::DeleteBatch(_) => Verb::DeleteBatch,
            Self::Release { .. } => Verb::Release,
            Self::Use(_) => Verb::Use,
            Self::Watch(_) => Verb::Watch,
            Self::Ignore(_) => Verb::Ignore,
            Self::Bury { .. } => Verb::Bury,
            Self::Kick(_) => Verb::Kick,
            Self::KickJob(_) => Verb::KickJob,
            Self::Touch(_) => Verb::Touch,
            Self::Stats => Verb::Stats,
            Self::StatsJob(_) => Verb::StatsJob,
            Self::StatsTube(_) => Verb::StatsTube,
            Self::ListTubes => Verb::ListTubes,
            Self::ListTubeUsed => Verb::ListTubeUsed,
            Self::ListTubesWatched => Verb::ListTubesWatched,
            Self::PauseTube { .. } => Verb::PauseTube,
            Self::Quit => Verb::Quit,
            Self::Login { .. } => Verb::Login,
            Self::Register(_) => Verb::Register,
            Self::Unregister(_) => Verb::Unregister,
            Self::CreateTube(_) => Verb::CreateTube,
            Self::DeleteTube(_) => Verb::DeleteTube,
            Self::LimitTube { .. } => Verb::LimitTube,
            Self::ExpireTube { .. } => Verb::ExpireTube,
            Self::ArchiveTube { .. } => Verb::ArchiveTube,
            Self::Pop { .. } => Verb::Pop,
            Self::PopTube(_) => Verb::PopTube,
            Self::PopSender(_) => Verb::PopSender,
            Self::PeekTube(_) => Verb::PeekTube,
            Self::PeekSender(_) => Verb::PeekSender,
            Self::ListTubesForMe => Verb::ListTubesForMe,
            Self::Await { .. } => Verb::Await,
            Self::Ping => Verb::Ping,
        }
    }
}

/// How often each verb was asked for.
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
