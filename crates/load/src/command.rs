//! The commands there are: what may stand in a mix, by its name on the wire.

use krarup_beanstalk::Verb;
use krarup_memcache::{Expect, MetaCommand, Retrieval, Storage};
use krarup_record::Operation;

use crate::keys::KeyFamily;

/// Declares the commands with their names; a name is also what files hold.
macro_rules! commands {
    ($($(#[$about:meta])* $command:ident = $name:literal,)+) => {
        /// A command by its name on the wire; `mget` is a `get` with several keys.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum Command { $($(#[$about])* #[serde(rename = $name)] $command,)+ }

        impl Command {
            /// Every command.
            pub const ALL: &[Self] = &[$(Self::$command,)+];

            /// Its name in flags and files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$command => $name,)+ }
            }

            /// The command of this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$command),)+ _ => None }
            }
        }
    };
}

commands! {
    /// One key.
    Get = "get",
    /// Several keys.
    Mget = "mget",
    /// One key, with its unique.
    Gets = "gets",
    /// One key, whose expiry time is set anew.
    Gat = "gat",
    /// The same, with its unique.
    Gats = "gats",
    /// Stores.
    Set = "set",
    /// Stores what was not there.
    Add = "add",
    /// Stores what was there.
    Replace = "replace",
    /// Adds behind.
    Append = "append",
    /// Adds before.
    Prepend = "prepend",
    /// A `gets` first; then, if it hit, a `cas` with the unique it brought.
    Cas = "cas",
    /// Removes.
    Delete = "delete",
    /// Adds 1.
    Incr = "incr",
    /// Takes 1 away.
    Decr = "decr",
    /// Sets the expiry time anew.
    Touch = "touch",
    /// Meta get, with the value.
    MetaGet = "mg",
    /// Meta set.
    MetaSet = "ms",
    /// Meta delete.
    MetaDelete = "md",
    /// Meta arithmetic: adds 1.
    MetaArithmetic = "ma",
    /// Meta debug: what the server knows of an item.
    MetaDebug = "me",
    /// Meta no-op.
    MetaNoOp = "mn",
    /// Removes everything.
    FlushAll = "flush_all",
    /// Asks for the server's statistics.
    Stats = "stats",
    /// Asks for the server's version.
    Version = "version",
    /// Sets how much the server writes to its log: nothing.
    Verbosity = "verbosity",
    /// Of a queue, as all that follow: adds a message.
    Put = "put",
    /// Takes a message, if there is one; then deletes it.
    Reserve = "reserve",
    /// Takes a message, if there is one; then gives it back.
    Release = "release",
    /// Takes a message, if there is one; then sets it aside.
    Bury = "bury",
    /// Makes one message ready that was set aside.
    Kick = "kick",
    /// Takes a message and deletes it, in one request.
    Pop = "pop",
    /// Looks at the next message.
    Peek = "peek",
    /// Asks for the names of all queues.
    List = "list",
    /// Of krarup's broker alone, as all that follow: a message for any receiver, to a queue drawn
    /// from all.
    Send = "send",
    /// The same for one receiver, drawn from all names.
    SendTo = "send-to",
    /// Takes the oldest message of a queue, drawn from all, that is for this client or for any
    /// receiver.
    PopTube = "pop-tube",
    /// Takes the oldest from one sender, drawn from all names, in any queue.
    PopSender = "pop-sender",
    /// Looks at what `pop-tube` would take.
    PeekTube = "peek-tube",
    /// Looks at what `pop-sender` would take.
    PeekSender = "peek-sender",
    /// Asks for the names of the queues that hold a message for me.
    ListForMe = "list-tubes-for-me",
    /// Logs in anew, under a name drawn from all.
    Login = "login",
}

/// What a request to a cache is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestTemplate {
    /// Keys that are fetched.
    Fetch(Retrieval),
    /// A key and a value.
    Store(Storage),
    /// One key alone, or with something that the command decides.
    Key,
    /// The command alone.
    Bare,
}

impl Command {
    /// What is asked of a queue; nothing for commands to a cache.
    pub const fn verb(self) -> Option<Verb> {
        Some(match self {
            Self::Put => Verb::Put,
            Self::Reserve | Self::Release | Self::Bury => Verb::ReserveWithTimeout,
            Self::Kick => Verb::Kick,
            Self::Pop => Verb::Pop,
            Self::Peek => Verb::PeekReady,
            Self::List => Verb::ListTubes,
            Self::Send | Self::SendTo => Verb::Send,
            Self::PopTube => Verb::PopTube,
            Self::PopSender => Verb::PopSender,
            Self::PeekTube => Verb::PeekTube,
            Self::PeekSender => Verb::PeekSender,
            Self::ListForMe => Verb::ListTubesForMe,
            Self::Login => Verb::Login,
            _ => return None,
        })
    }

    /// Whether it is asked of a message queue, and not of a cache.
    pub const fn is_of_queue(self) -> bool {
        self.verb().is_some()
    }

    /// Whether only clients with a name may ask it, of queues that were created: krarup's broker's
    /// own verbs.
    pub const fn needs_name(self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::SendTo
                | Self::PopTube
                | Self::PopSender
                | Self::PeekTube
                | Self::PeekSender
                | Self::ListForMe
                | Self::Login
        )
    }

    /// Whether keys are gone after it.
    pub const fn removes(self) -> bool {
        matches!(self, Self::Delete | Self::MetaDelete | Self::FlushAll)
    }

    /// Which keys it works on.
    pub const fn family(self) -> KeyFamily {
        match self {
            Self::Incr | Self::Decr | Self::MetaArithmetic => KeyFamily::Counter,
            Self::Append | Self::Prepend => KeyFamily::Text,
            _ => KeyFamily::Plain,
        }
    }

    /// What its request to a cache is made of.
    pub const fn form(self) -> RequestTemplate {
        match self {
            Self::Get | Self::Mget => RequestTemplate::Fetch(Retrieval::Get),
            Self::Gets | Self::Cas => RequestTemplate::Fetch(Retrieval::Gets),
            Self::Gat => RequestTemplate::Fetch(Retrieval::Gat),
            Self::Gats => RequestTemplate::Fetch(Retrieval::Gats),
            Self::Set | Self::MetaSet => RequestTemplate::Store(Storage::Set),
            Self::Add => RequestTemplate::Store(Storage::Add),
            Self::Replace => RequestTemplate::Store(Storage::Replace),
            Self::Append => RequestTemplate::Store(Storage::Append),
            Self::Prepend => RequestTemplate::Store(Storage::Prepend),
            Self::Delete
            | Self::Incr
            | Self::Decr
            | Self::Touch
            | Self::MetaGet
            | Self::MetaDelete
            | Self::MetaArithmetic
            | Self::MetaDebug => RequestTemplate::Key,
            _ => RequestTemplate::Bare,
        }
    }

    /// As what it is recorded, asking for so many keys. A `cas` is a `get` until its unique has
    /// come.
    pub const fn operation(self, keys: u32) -> Operation {
        match self {
            Self::Get | Self::Mget if keys > 1 => Operation::MultiGet,
            Self::Get | Self::Mget | Self::Gets | Self::Cas | Self::MetaGet => Operation::Get,
            Self::Gat | Self::Gats => Operation::Gat,
            Self::Set | Self::MetaSet => Operation::Set,
            Self::Add => Operation::Add,
            Self::Replace => Operation::Replace,
            Self::Append => Operation::Append,
            Self::Prepend => Operation::Prepend,
            Self::Delete | Self::MetaDelete => Operation::Delete,
            Self::Incr | Self::MetaArithmetic => Operation::Incr,
            Self::Decr => Operation::Decr,
            Self::Touch => Operation::Touch,
            Self::FlushAll => Operation::Flush,
            Self::Put | Self::Send | Self::SendTo => Operation::Put,
            Self::Reserve | Self::Release | Self::Bury => Operation::Reserve,
            Self::Kick => Operation::Kick,
            Self::Pop | Self::PopTube | Self::PopSender => Operation::Pop,
            Self::Peek | Self::PeekTube | Self::PeekSender => Operation::Peek,
            Self::List | Self::ListForMe => Operation::List,
            Self::MetaDebug
            | Self::MetaNoOp
            | Self::Stats
            | Self::Version
            | Self::Verbosity
            | Self::Login => Operation::Other,
        }
    }

    /// What a cache answers it with, asked for so many keys.
    pub fn expect(self, keys: u32) -> Expect {
        let meta = |command, value| Expect::Meta { command, value };
        match self {
            Self::Get | Self::Mget | Self::Gat => Expect::Values { keys, unique: false },
            Self::Gets | Self::Gats | Self::Cas => Expect::Values { keys, unique: true },
            Self::Delete => Expect::Deleted,
            Self::Incr | Self::Decr => Expect::Number,
            Self::Touch => Expect::Touched,
            Self::MetaGet => meta(MetaCommand::Get, true),
            Self::MetaSet => meta(MetaCommand::Set, false),
            Self::MetaDelete => meta(MetaCommand::Delete, false),
            Self::MetaArithmetic => meta(MetaCommand::Arithmetic, false),
            Self::MetaDebug => meta(MetaCommand::Debug, false),
            Self::MetaNoOp => Expect::NoOp,
            Self::Stats => Expect::Stats,
            Self::Version => Expect::Version,
            Self::FlushAll | Self::Verbosity => Expect::Ok,
            _ => Expect::Stored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_of_a_cache_or_of_a_queue_and_is_recorded_as_such() {
        for &command in Command::ALL {
            assert_eq!(Command::from_name(command.name()), Some(command));
            let operation = command.operation(1);
            assert!(
                operation == Operation::Other || operation.is_of_queue() == command.is_of_queue(),
                "{command:?}"
            );
            assert!(!command.needs_name() || command.is_of_queue(), "{command:?}");
        }
    }

    #[test]
    fn files_hold_the_names_of_commands() {
        assert_eq!(serde_json::to_string(&Command::FlushAll).unwrap(), "\"flush_all\"");
        assert_eq!(serde_json::from_str::<Command>("\"mg\"").unwrap(), Command::MetaGet);
    }
}
