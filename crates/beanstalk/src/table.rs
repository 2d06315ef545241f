//! Every verb, once: what it asks, its word and arguments, how its line begins, what may be
//! answered, and what it is about.
//!
//! ```text
//! Delete(id: Id)  "delete"  Spaced   Delete  [Counted]  [Deleted NotFound]  Message(id)
//! │      │         │        │        │       │          │                   └ what it is about: RequestSubject
//! │      │         │        │        │       │          └ the words of its replies, errors of any request left out
//! │      │         │        │        │       └ Counted: beanstalkd's `stats` has it; Repeatable: may be carried out twice;
//! │      │         │        │        │         Waits: for a message; Open: anything may follow
//! │      │         │        │        └ what it is measured with: Group
//! │      │         │        └ what its line may look like: Begins
//! │      │         └ its word
//! │      └ its arguments, each with its kind
//! └ the variant of Request and of Verb
//! ```
//!
//! The order is that of beanstalkd's `stats`, verbs that it does not know between.

use krarup_units::Nanos;

use crate::argument::{
    Argument, ArgumentCount, ArgumentWords, Id, Low, MaybeName, MaybeSeconds, MessageIds, Name, NameOrHyphen,
    Positive, Seconds, Small, Timeout,
};
use crate::message::{DEFAULT_TTR, Ids, Put, PutBatch};
use crate::refusal::LineError;
use crate::verb::{LineStart, VerbGroup};
use crate::word::ReplyWord;

/// What a line says.
pub(crate) enum ParsedLine<'a> {
    Whole(Request<'a>),
    /// A body of this size follows; something may stand behind the size that should not.
    Body {
        put: Put<'a>,
        size: u32,
        garbage: bool,
    },
    /// Several bodies of these sizes follow.
    Bodies {
        put: Put<'a>,
        sizes: Ids<'a>,
    },
}

/// What a request is about: it decides which of several brokers is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSubject<'a> {
    /// The connection alone.
    Connection,
    /// The tubes that the connection watches.
    WatchedTubes,
    /// The tube that the connection uses.
    UsedTube,
    /// This tube.
    Tube(&'a str),
    /// This message.
    Message(u64),
    /// These messages; the answer is how many of them it concerned.
    Messages(Ids<'a>),
    /// This client.
    Client(&'a str),
    /// All tubes.
    Server,
}

/// What else is to be known of a verb.
enum VerbNote {
    Counted,
    Repeatable,
    Waits,
    Open,
}

/// The type as which an argument of this kind is read. It is named, not computed: so a request may
/// be taken for one of a shorter life.
macro_rules! value {
    ($life:lifetime Id) => { u64 };
    ($life:lifetime Small) => { u32 };
    ($life:lifetime Low) => { u32 };
    ($life:lifetime Positive) => { u32 };
    ($life:lifetime Seconds) => { Nanos };
    ($life:lifetime Timeout) => { Nanos };
    ($life:lifetime MaybeSeconds) => { Nanos };
    ($life:lifetime Name) => { &$life str };
    ($life:lifetime MaybeName) => { Option<&$life str> };
    ($life:lifetime MessageIds) => { Ids<$life> };
}

macro_rules! verbs {
    (
        messages { $(
            $(#[doc = $body_help:literal])+
            $body:ident { $($field:tt)* } ($($body_name:ident: $body_kind:ident),*) $body_word:literal
                $body_begins:ident $body_group:ident [$($body_note:ident)*] [$($body_reply:ident)*];
        )+ }
        batch {
            $(#[doc = $batch_help:literal])+
            $batch:ident ($($batch_name:ident: $batch_kind:ident),*) $batch_word:literal
                $batch_begins:ident $batch_group:ident [$($batch_note:ident)*] [$($batch_reply:ident)*];
        }
        others { $(
            $(#[doc = $help:literal])+
            $verb:ident $(($($name:ident: $kind:ident),*))? $({$($part:ident: $part_kind:ident),*})? $word:literal
                $begins:ident $group:ident [$($note:ident)*] [$($reply:ident)*] $subject:ident $(($about:ident))?;
        )+ }
    ) => {
        /// The word that a request begins with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Verb {
            $($(#[doc = $body_help])+ $body,)+
            $(#[doc = $batch_help])+
            $batch,
            $($(#[doc = $help])+ $verb,)+
        }

        /// What a client asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "fields carry the names of the protocol's document")]
        pub enum Request<'a> {
            /// A message is put, by whichever verb brings one.
            Put(Put<'a>),
            $(#[doc = $batch_help])+
            $batch(PutBatch<'a>),
            $(
                $(#[doc = $help])+
                $verb $(($(value!('a $kind)),*))? $({$($part: value!('a $part_kind)),*})?,
            )+
        }

        impl Verb {
            /// All of them.
            pub const ALL: &[Self] =
                &[$(Self::$body,)+ Self::$batch, $(Self::$verb,)+];

            /// The word of the protocol.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$body => $body_word,)+
                    Self::$batch => $batch_word,
                    $(Self::$verb => $word,)+
                }
            }

            /// How its line begins.
            pub const fn begins(self) -> LineStart {
                match self {
                    $(Self::$body => LineStart::$body_begins,)+
                    Self::$batch => LineStart::$batch_begins,
                    $(Self::$verb => LineStart::$begins,)+
                }
            }

            /// What it is measured with.
            pub const fn group(self) -> VerbGroup {
                match self {
                    $(Self::$body => VerbGroup::$body_group,)+
                    Self::$batch => VerbGroup::$batch_group,
                    $(Self::$verb => VerbGroup::$group,)+
                }
            }

            /// The words of its replies; what may be answered to any request is left out.
            pub const fn replies(self) -> &'static [ReplyWord] {
                match self {
                    $(Self::$body => &[$(ReplyWord::$body_reply),*],)+
                    Self::$batch => &[$(ReplyWord::$batch_reply),*],
                    $(Self::$verb => &[$(ReplyWord::$reply),*],)+
                }
            }

            /// What it asks, in a sentence.
            pub const fn help(self) -> &'static str {
                match self {
                    $(Self::$body => concat!($($body_help),+),)+
                    Self::$batch => concat!($($batch_help),+),
                    $(Self::$verb => concat!($($help),+),)+
                }
            }

            /// Whether a message, or several, stand behind its line.
            pub const fn has_body(self) -> bool {
                matches!(self, $(Self::$body |)+ Self::$batch)
            }

            const fn notes(self) -> &'static [VerbNote] {
                match self {
                    $(Self::$body => &[$(VerbNote::$body_note),*],)+
                    Self::$batch => &[$(VerbNote::$batch_note),*],
                    $(Self::$verb => &[$(VerbNote::$note),*],)+
                }
            }

            /// Its arguments by name, each with how often it stands there.
            pub(crate) const fn arguments(self) -> &'static [(&'static str, ArgumentCount)] {
                match self {
                    $(Self::$body => &[$((stringify!($body_name), <$body_kind as Argument>::SHAPE),)* ("bytes", ArgumentCount::One)],)+
                    Self::$batch => &[$((stringify!($batch_name), <$batch_kind as Argument>::SHAPE),)* ("bytes", ArgumentCount::Several)],
                    $(Self::$verb => &[
                        $($((stringify!($name), <$kind as Argument>::SHAPE)),*)?
                        $($((stringify!($part), <$part_kind as Argument>::SHAPE)),*)?
                    ],)+
                }
            }

            /// The verb of this word.
            #[allow(non_upper_case_globals, reason = "the constants have the names of the variants")]
            pub fn of(word: &[u8]) -> Option<Self> {
                $(const $body: &[u8] = $body_word.as_bytes();)+
                const $batch: &[u8] = $batch_word.as_bytes();
                $(const $verb: &[u8] = $word.as_bytes();)+
                Some(match word {
                    $($body => Self::$body,)+
                    $batch => Self::$batch,
                    $($verb => Self::$verb,)+
                    _ => return None,
                })
            }

            /// Reads what stands behind it in a line.
            pub(crate) fn read<'a>(self, words: &mut ArgumentWords<'a>) -> Result<ParsedLine<'a>, LineError> {
                let request = match self {
                    $(Self::$body => {
                        $(let $body_name = $body_kind::read(words)?;)*
                        let size = words.small()?;
                        let put = Put { $($field)* ..Put::default() };
                        return Ok(ParsedLine::Body { put, size, garbage: !words.is_empty() });
                    })+
                    Self::$batch => {
                        $(let $batch_name = $batch_kind::read(words)?;)*
                        let put = Put { $($batch_name,)* ..Put::default() };
                        return Ok(ParsedLine::Bodies { put, sizes: MessageIds::read(words)? });
                    }
                    $(Self::$verb => {
                        $($(let $name = $kind::read(words)?;)*)?
                        $($(let $part = $part_kind::read(words)?;)*)?
                        Request::$verb $(($($name),*))? $({$($part),*})?
                    })+
                };
                if !self.is_open() {
                    words.end()?;
                }
                Ok(ParsedLine::Whole(request))
            }
        }

        impl<'a> Request<'a> {
            /// Its verb; of a message that is put [`Verb::Put`], by whichever verb it arrived.
            pub const fn verb(&self) -> Verb {
                match self {
                    Self::Put(_) => Verb::Put,
                    Self::$batch(_) => Verb::$batch,
                    $(Self::$verb { .. } => Verb::$verb,)+
                }
            }

            /// What it is about.
            #[allow(unused_variables, reason = "a request is about one of its arguments, or none")]
            pub fn subject(&self) -> RequestSubject<'a> {
                match *self {
                    Self::Put(put) => put.tube.map_or(RequestSubject::UsedTube, RequestSubject::Tube),
                    Self::$batch(_) => RequestSubject::UsedTube,
                    $(Self::$verb $(($($name),*))? $({$($part),*})? => RequestSubject::$subject $(($about))?,)+
                }
            }

            /// Appends its line, without the sizes of bodies, and without its end.
            pub(crate) fn write_line(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::Put(Put { $($field)* .. }) => {
                        out.extend_from_slice($body_word.as_bytes());
                        $($body_kind::write(out, $body_name);)*
                    })+
                    Self::$batch(batch) => {
                        let Put { $($batch_name,)* .. } = batch.common();
                        out.extend_from_slice($batch_word.as_bytes());
                        $($batch_kind::write(out, $batch_name);)*
                    }
                    $(Self::$verb $(($($name),*))? $({$($part),*})? => {
                        out.extend_from_slice($word.as_bytes());
                        $($($kind::write(out, $name);)*)?
                        $($($part_kind::write(out, $part);)*)?
                    })+
                }
            }
        }
    };
}

verbs! {
    // The first that fits writes a message.
    messages {
        /// Puts a message into a tube that was created, for one client or, with a hyphen, for any
        /// client; the sender must be logged in.
        Send { tube: Some(tube), receiver, strict: true, ttr: DEFAULT_TTR, } (tube: Name, receiver: NameOrHyphen) "send"
            Extra Put [] [Inserted Draining NotLoggedIn UnknownTube UnknownClient];
        /// Puts a message, unless the tube had one of this key a while ago.
        PutUnique { key: Some(key), priority, delay, ttr, } (key: Name, priority: Small, delay: Small, ttr: Small) "put-unique"
            Extra Put [] [Inserted Exists Draining];
        /// Puts a message that only this client can take.
        PutTo { receiver: Some(receiver), priority, delay, ttr, } (receiver: Name, priority: Small, delay: Small, ttr: Small) "put-to"
            Extra Put [] [Inserted Draining UnknownClient];
        /// Puts a message into this tube.
        PutInTube { tube: Some(tube), priority, delay, ttr, } (tube: Name, priority: Small, delay: Small, ttr: Small) "put-in-tube"
            Extra Put [] [Inserted Draining];
        /// Puts a message into the tube in use.
        Put { priority, delay, ttr, } (priority: Small, delay: Small, ttr: Small) "put"
            Spaced Put [Counted] [Inserted Draining];
    }
    batch {
        /// Puts messages into the tube in use, each answered by itself.
        PutBatch (priority: Small, delay: Small, ttr: Small) "put-batch"
            Extra Put [] [InsertedBatch];
    }
    others {
        /// Shows a message, which stays.
        Peek(id: Id) "peek" Spaced Peek [Counted Repeatable] [Found NotFound] Message(id);
        /// Shows the message of the tube in use that is taken next.
        PeekReady "peek-ready" Alone Peek [Counted Repeatable] [Found NotFound] UsedTube;
        /// Shows the message of the tube in use whose delay ends first.
        PeekDelayed "peek-delayed" Alone Peek [Counted Repeatable] [Found NotFound] UsedTube;
        /// Shows the message of the tube in use that was buried first.
        PeekBuried "peek-buried" Alone Peek [Counted Repeatable] [Found NotFound] UsedTube;
        /// Leases a message of the tubes that are watched, waiting for one.
        Reserve "reserve" Alone Reserve [Counted Waits] [Reserved DeadlineSoon TimedOut] WatchedTubes;
        /// The same, waiting so many seconds at most.
        ReserveWithTimeout { timeout: Timeout } "reserve-with-timeout"
            Spaced Reserve [Counted Waits Open] [Reserved DeadlineSoon TimedOut] WatchedTubes;
        /// Leases this message, wherever it stands.
        ReserveJob(id: Id) "reserve-job" Spaced Reserve [Repeatable] [Reserved NotFound] Message(id);
        /// Leases up to so many messages of the tubes that are watched, waiting so many seconds for
        /// the first.
        ReserveBatch { most: Positive, timeout: Seconds } "reserve-batch" Extra Reserve [Waits] [ReservedBatch DeadlineSoon TimedOut] WatchedTubes;
        /// Ends a message that the client has leased, or that no client has.
        Delete(id: Id) "delete" Spaced Delete [Counted] [Deleted NotFound] Message(id);
        /// Ends several.
        DeleteBatch(id: MessageIds) "delete-batch" Extra Delete [] [Deleted] Messages(id);
        /// Gives a leased message back.
        Release { id: Id, priority: Small, delay: Small } "release" Spaced Release [Counted] [Released Buried NotFound] Message(id);
        /// Says into which tube messages are put.
        Use(tube: Name) "use" Tight Other [Counted] [Using] Connection;
        /// Watches a tube.
        Watch(tube: Name) "watch" Tight Other [Counted] [Watching] Connection;
        /// Watches it no longer.
        Ignore(tube: Name) "ignore" Tight Other [Counted] [Watching NotIgnored] Connection;
        /// Sets a leased message aside until it is kicked.
        Bury { id: Id, priority: Small } "bury" Spaced Bury [Counted] [Buried NotFound] Message(id);
        /// Makes so many messages ready that were buried in the tube in use, or else that are
        /// delayed.
        Kick(bound: Low) "kick" Spaced Kick [Counted Open] [Kicked] UsedTube;
        /// Makes this message ready.
        KickJob(id: Id) "kick-job" Spaced Kick [] [Kicked NotFound] Message(id);
        /// Begins the lease of a message anew.
        Touch(id: Id) "touch" Spaced Touch [Counted] [Touched NotFound] Message(id);
        /// Begins the leases of several anew; the answer is how many of them the client has leased.
        TouchBatch(id: MessageIds) "touch-batch" Extra Touch [] [Touched] Messages(id);
        /// Statistics of the server.
        Stats "stats" Alone Other [Counted] [Ok] Server;
        /// Begins the records of requests anew, as after a warm-up; statistics count on.
        StatsReset "stats-reset" Extra Other [Repeatable] [Reset] Server;
        /// Statistics of a message.
        StatsJob(id: Id) "stats-job" Spaced Other [Counted Repeatable] [Ok NotFound] Message(id);
        /// Statistics of a tube.
        StatsTube(tube: Name) "stats-tube" Tight Other [Counted Repeatable] [Ok NotFound] Tube(tube);
        /// The names of all tubes.
        ListTubes "list-tubes" Alone List [Counted] [Ok] Server;
        /// The tube in use.
        ListTubeUsed "list-tube-used" Alone List [Counted] [Using] Connection;
        /// The tubes that are watched.
        ListTubesWatched "list-tubes-watched" Alone List [Counted] [Ok] Connection;
        /// Lets no message of a tube be taken for so many seconds.
        PauseTube { tube: Name, seconds: Small } "pause-tube" Loose Other [Counted Repeatable] [Paused NotFound] Tube(tube);
        /// Ends the connection.
        Quit "quit" Loose Other [Open] [] Connection;
        /// Says which client this is and, where the server wants one, the secret.
        Login { client: Name, secret: MaybeName } "login" Extra Other [] [LoggedIn UnknownClient NotLoggedIn] Connection;
        /// Makes the name of a client known.
        Register(client: Name) "register" Extra Other [] [Registered Exists] Client(client);
        /// Makes it unknown.
        Unregister(client: Name) "unregister" Extra Other [] [Unregistered UnknownClient] Client(client);
        /// Makes a tube that stays when it is empty.
        CreateTube(tube: Name) "create-tube" Extra Other [Repeatable] [Created Exists] Tube(tube);
        /// Ends a tube and all its messages.
        DeleteTube(tube: Name) "delete-tube" Extra Other [] [Deleted UnknownTube] Tube(tube);
        /// A message that was reserved so often goes to the tube of the dead instead of back, or is
        /// buried; 0 takes the limit away.
        LimitTube { tube: Name, most: Small, dead: MaybeName } "limit-tube" Extra Other [Repeatable] [Limited OtherShard] Tube(tube);
        /// A message that still waits so many seconds after its put is gone; 0: never.
        ExpireTube { tube: Name, seconds: Small } "expire-tube" Extra Other [Repeatable] [Expiring] Tube(tube);
        /// Messages of the tube that are gone are kept for so many seconds; 0: not at all.
        ArchiveTube { tube: Name, seconds: Small } "archive-tube" Extra Other [Repeatable] [Archiving NoArchive] Tube(tube);
        /// Takes a message of the tubes that are watched for good, waiting so many seconds.
        Pop { timeout: MaybeSeconds } "pop" Extra Pop [Waits] [Popped DeadlineSoon TimedOut] WatchedTubes;
        /// Takes the message of a created tube that is the client's or any client's and has the
        /// smallest priority, among equals the oldest.
        PopTube(tube: Name) "pop-tube" Extra Pop [] [Popped Empty UnknownTube] Tube(tube);
        /// Takes the oldest message of one sender, in any tube, that is the client's or any
        /// client's.
        PopSender(client: Name) "pop-sender" Extra Pop [] [Popped Empty UnknownClient] Client(client);
        /// Shows what `pop-tube` would take.
        PeekTube(tube: Name) "peek-tube" Extra Peek [Repeatable] [Found Empty UnknownTube] Tube(tube);
        /// Shows what `pop-sender` would take.
        PeekSender(client: Name) "peek-sender" Extra Peek [] [Found Empty UnknownClient] Client(client);
        /// The tubes that hold a message for this client or for any client.
        ListTubesForMe "list-tubes-for-me" Extra List [] [Ok NotLoggedIn] Server;
        /// Waits so many seconds until `reserve` would give a message, which stays.
        Await { timeout: Seconds } "await" Extra Reserve [Waits] [Ready DeadlineSoon TimedOut] WatchedTubes;
        /// Is answered at once.
        Ping "ping" Extra Other [] [Pong] Connection;
    }
}

impl Verb {
    /// Whether it may wait for a message.
    pub const fn waits(self) -> bool {
        matches!(self.notes(), [.., VerbNote::Waits] | [.., VerbNote::Waits, VerbNote::Open])
    }

    /// Whether beanstalkd's `stats` counts it.
    pub const fn is_counted(self) -> bool {
        matches!(self.notes(), [VerbNote::Counted, ..])
    }

    /// Whether it may be carried out twice, where it is not known whether it was.
    pub const fn is_repeatable(self) -> bool {
        matches!(self.notes(), [VerbNote::Repeatable, ..] | [VerbNote::Counted, VerbNote::Repeatable, ..])
    }

    /// Whether whatever stands behind its arguments is not looked at.
    pub(crate) const fn is_open(self) -> bool {
        matches!(self.notes(), [.., VerbNote::Open])
    }

    /// Whether beanstalkd does not know it.
    pub const fn is_extra(self) -> bool {
        matches!(self.begins(), LineStart::Extra)
    }

    /// The verb of a line, and what stands behind its word.
    pub(crate) fn of_line(line: &[u8]) -> Option<(Self, &[u8])> {
        let end = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (word, rest) = line.split_at(end);
        match Self::of(word).map(|verb| (verb, verb.begins())) {
            Some((verb, LineStart::Extra | LineStart::Alone | LineStart::Loose)) => Some((verb, rest)),
            Some((verb, LineStart::Spaced | LineStart::Tight)) if !rest.is_empty() => {
                Some((verb, &rest[1..]))
            }
            _ => Self::of_beginning(line),
        }
    }

    /// The verb with the longest word that a line begins with, where a blank behind it is not asked
    /// for.
    #[cold]
    fn of_beginning(line: &[u8]) -> Option<(Self, &[u8])> {
        let loose = |verb: &&Self| matches!(verb.begins(), LineStart::Alone | LineStart::Loose);
        let begins = |verb: &&Self| line.starts_with(verb.name().as_bytes());
        let longest = Self::ALL.iter().filter(loose).filter(begins).max_by_key(|verb| verb.name().len());
        longest.map(|verb| (*verb, &line[verb.name().len()..]))
    }
}
