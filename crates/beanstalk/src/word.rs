//! The words that replies begin with, and what stands behind each.

/// What stands behind the first word of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// Nothing, or a number.
    Line,
    /// The name of a tube.
    Tube,
    /// A priority and the number of a message.
    Ready,
    /// The number of a message, its length and perhaps its flags, and its body in the next line.
    Message,
    /// A length, and data in the next lines.
    Data,
    /// How many replies follow.
    Batch,
}

/// Declares the words with their forms.
macro_rules! words {
    ($($(#[$doc:meta])* $variant:ident = $name:literal $form:ident;)+) => {
        /// The first word of a reply.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ReplyWord { $($(#[$doc])* $variant,)+ }

        impl ReplyWord {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// As it is written.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The same with the end of its line: a reply that is this word alone.
            pub const fn line(self) -> &'static [u8] {
                match self { $(Self::$variant => concat!($name, "\r\n").as_bytes(),)+ }
            }

            /// What stands behind it.
            pub const fn form(self) -> ReplyForm {
                match self { $(Self::$variant => ReplyForm::$form,)+ }
            }

            /// The word that is written so.
            #[allow(non_upper_case_globals, reason = "the constants have the names of the variants")]
            pub fn of(name: &[u8]) -> Option<Self> {
                $(const $variant: &[u8] = $name.as_bytes();)+
                Some(match name { $($variant => Self::$variant,)+ _ => return None })
            }
        }
    };
}

words! {
    /// A message was put: its number.
    Inserted = "INSERTED" Line;
    /// A message was leased.
    Reserved = "RESERVED" Message;
    /// It is gone; with a number, so many are.
    Deleted = "DELETED" Line;
    /// A message was taken for good.
    Popped = "POPPED" Message;
    /// A message that stays.
    Found = "FOUND" Message;
    /// It was given back.
    Released = "RELEASED" Line;
    /// It was buried.
    Buried = "BURIED" Line;
    /// Its lease begins anew.
    Touched = "TOUCHED" Line;
    /// It is ready again; with a number, so many are.
    Kicked = "KICKED" Line;
    /// So many tubes are watched.
    Watching = "WATCHING" Line;
    /// The tube in use.
    Using = "USING" Tube;
    /// Data: names or statistics.
    Ok = "OK" Data;
    /// Nothing arrived in time.
    TimedOut = "TIMED_OUT" Line;
    /// A lease of the client ends within a second.
    DeadlineSoon = "DEADLINE_SOON" Line;
    /// There is no such message or tube, or it is another client's.
    NotFound = "NOT_FOUND" Line;
    /// No message is there.
    Empty = "EMPTY" Line;
    /// There is a message that could be reserved.
    Ready = "READY" Ready;
    /// Messages were leased, each in a reply of its own.
    ReservedBatch = "RESERVED_BATCH" Batch;
    /// Messages were put, each answered by itself.
    InsertedBatch = "INSERTED_BATCH" Batch;
    /// It was there before; with a number, the message that had its key.
    Exists = "EXISTS" Line;
    /// The only tube that is watched is not ignored.
    NotIgnored = "NOT_IGNORED" Line;
    /// The tube is paused.
    Paused = "PAUSED" Line;
    /// The client has said which name it has.
    LoggedIn = "LOGGED_IN" Line;
    /// The name is known from now on.
    Registered = "REGISTERED" Line;
    /// The name is no longer known.
    Unregistered = "UNREGISTERED" Line;
    /// The tube stays when it is empty.
    Created = "CREATED" Line;
    /// The limit of the tube is set.
    Limited = "LIMITED" Line;
    /// Messages of the tube expire.
    Expiring = "EXPIRING" Line;
    /// Messages of the tube that are gone are kept.
    Archiving = "ARCHIVING" Line;
    /// What is recorded of requests begins anew.
    Reset = "RESET" Line;
    /// The answer to `ping`.
    Pong = "PONG" Line;
    /// There is nowhere to keep messages that are gone.
    NoArchive = "NO_ARCHIVE" Line;
    /// The two tubes are owned by different shards.
    OtherShard = "OTHER_SHARD" Line;
    /// The shard has another owner; the request was not carried out.
    Moved = "MOVED" Line;
    /// No tube of this name was created.
    UnknownTube = "UNKNOWN_TUBE" Line;
    /// No client of this name is registered.
    UnknownClient = "UNKNOWN_CLIENT" Line;
    /// The client must log in first.
    NotLoggedIn = "NOT_LOGGED_IN" Line;
    /// The line is not as its verb wants it.
    BadFormat = "BAD_FORMAT" Line;
    /// There is no such verb.
    UnknownCommand = "UNKNOWN_COMMAND" Line;
    /// A body without an end of line behind it.
    ExpectedCrlf = "EXPECTED_CRLF" Line;
    /// A body beyond the limit.
    JobTooBig = "JOB_TOO_BIG" Line;
    /// There is no room for a message.
    OutOfMemory = "OUT_OF_MEMORY" Line;
    /// No more messages are accepted.
    Draining = "DRAINING" Line;
    /// The server could not do it.
    InternalError = "INTERNAL_ERROR" Line;
}

impl ReplyWord {
    /// Whether the request was wrong, or not allowed.
    pub const fn is_client_error(self) -> bool {
        matches!(
            self,
            Self::BadFormat
                | Self::UnknownCommand
                | Self::ExpectedCrlf
                | Self::JobTooBig
                | Self::UnknownTube
                | Self::UnknownClient
                | Self::NotLoggedIn
        )
    }

    /// Whether there is no room, or messages are not accepted any more.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::OutOfMemory | Self::Draining)
    }
}
