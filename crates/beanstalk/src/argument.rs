//! The kinds of arguments that stand behind a verb: how each is read from its line, and written.

use krarup_units::Nanos;

use crate::message::Ids;
use crate::name::{is_name_byte, name};
use crate::number::{digits, number, without_blanks};
use crate::refusal::LineError;

/// One kind of argument.
pub(crate) trait Argument {
    /// What it is once it is read.
    type Value<'a>;
    /// Whether it may be left out, or come several times: how the reference page writes it.
    const SHAPE: ArgumentCount = ArgumentCount::One;
    /// Reads it from what is left of a line.
    fn read<'a>(words: &mut ArgumentWords<'a>) -> Result<Self::Value<'a>, LineError>;
    /// Appends it to a line, the blank before it included.
    fn write(out: &mut Vec<u8>, value: &Self::Value<'_>);
}

/// How often an argument stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentCount {
    One,
    Optional,
    Several,
}

/// Declares kinds of numbers: the type each is read as, and how.
macro_rules! numbers {
    ($($(#[$doc:meta])* $kind:ident: $value:ty = $read:expr, $write:expr;)+) => { $(
        $(#[$doc])*
        pub(crate) struct $kind;

        impl Argument for $kind {
            type Value<'a> = $value;

            #[inline]
            fn read<'a>(words: &mut ArgumentWords<'a>) -> Result<$value, LineError> {
                let read: fn(&mut ArgumentWords<'a>) -> Result<$value, LineError> = $read;
                read(words)
            }

            fn write(out: &mut Vec<u8>, value: &$value) {
                let number: fn(&$value) -> u64 = $write;
                out.push(b' ');
                digits(out, number(value));
            }
        }
    )+ };
}

numbers! {
    /// The number of a message.
    Id: u64 = |words| words.number(u64::MAX), |id| *id;
    /// A number of 32 bits.
    Small: u32 = |words| words.small(), |number| u64::from(*number);
    /// A number of 64 bits of which beanstalkd looks at 32.
    Low: u32 = |words| words.number(u64::MAX).map(|number| number as u32), |number| u64::from(*number);
    /// A number of 32 bits that is not zero.
    Positive: u32 = |words| words.small().and_then(|number| if number == 0 { Err(LineError::BadFormat) } else { Ok(number) }),
        |number| u64::from(*number);
    /// Whole seconds.
    Seconds: Nanos = |words| words.small().map(|seconds| Nanos::from_secs(seconds.into())), |time| whole_seconds(*time);
    /// Whole seconds of which beanstalkd's C library takes 31 bits.
    Timeout: Nanos = |words| words.number(i32::MAX as u64).map(Nanos::from_secs), |time| whole_seconds(*time);
}

/// Never less than it is.
const fn whole_seconds(time: Nanos) -> u64 {
    time.0.div_ceil(1_000_000_000)
}

/// Whole seconds; none if they are not there.
pub(crate) struct MaybeSeconds;

impl Argument for MaybeSeconds {
    type Value<'a> = Nanos;
    const SHAPE: ArgumentCount = ArgumentCount::Optional;

    fn read<'a>(words: &mut ArgumentWords<'a>) -> Result<Nanos, LineError> {
        if words.is_empty() { Ok(Nanos::ZERO) } else { Seconds::read(words) }
    }

    fn write(out: &mut Vec<u8>, value: &Nanos) {
        Seconds::write(out, value);
    }
}

/// A name.
pub(crate) struct Name;

impl Argument for Name {
    type Value<'a> = &'a str;

    #[inline]
    fn read<'a>(words: &mut ArgumentWords<'a>) -> Result<&'a str, LineError> {
        name(words.spelled()?).ok_or(LineError::BadFormat)
    }

    fn write(out: &mut Vec<u8>, value: &&str) {
        out.push(b' ');
        out.extend_from_slice(value.as_bytes());
    }
}

/// A name, or a hyphen for none.
pub(crate) struct NameOrHyphen;

impl Argument for NameOrHyphen {
    type Value<'a> = Option<&'a str>;

    fn read<'a>(words: &mut ArgumentWords<'a>) -> Result<Option<&'a str>, LineError> {
        match words.spelled()? {
            b"-" => Ok(None),
            word => name(word).map(Some).ok_or(LineError::BadFormat),
        }
    }

    fn write(out: &mut Vec<u8>, value: &Option<&str>) {
        Name::write(out, &value.unwrap_or("-"));
    }
}

/// A name if there is another word.
pub(crate) struct MaybeName;

impl Argument for MaybeName {
    type Value<'a> = Option<&'a str>;
    const SHAPE: ArgumentCount = ArgumentCount::Optional;

    fn read<'a>(words: &mut ArgumentWords<'a>) -> Result<Option<&'a str>, LineError> {
        if words.is_empty() { Ok(None) } else { Name::read(words).map(Some) }
    }

    fn write(out: &mut Vec<u8>, value: &Option<&str>) {
        if let Some(name) = value {
            Name::write(out, name);
        }
    }
}

/// Nothing but numbers up to the end of the line, one at least.
pub(crate) struct MessageIds;

impl Argument for MessageIds {
    type Value<'a> = Ids<'a>;
    const SHAPE: ArgumentCount = ArgumentCount::Several;

    fn read<'a>(words: &mut ArgumentWords<'a>) -> Result<Ids<'a>, LineError> {
        let all = words.0;
        while !words.is_empty() {
            words.number(u64::MAX)?;
        }
        if all.is_empty() { Err(LineError::BadFormat) } else { Ok(Ids::checked(all)) }
    }

    fn write(out: &mut Vec<u8>, value: &Ids<'_>) {
        value.iter().for_each(|id| Id::write(out, &id));
    }
}

/// What is left of a line.
pub(crate) struct ArgumentWords<'a>(pub(crate) &'a [u8]);

impl<'a> ArgumentWords<'a> {
    #[inline]
    fn number(&mut self, most: u64) -> Result<u64, LineError> {
        let (value, rest) = number(self.0, most).ok_or(LineError::BadFormat)?;
        self.0 = rest;
        Ok(value)
    }

    #[inline]
    pub(crate) fn small(&mut self) -> Result<u32, LineError> {
        self.number(u32::MAX.into()).map(|number| number as u32)
    }

    /// Bytes that may stand in a name, as many as there are.
    #[inline]
    fn spelled(&mut self) -> Result<&'a [u8], LineError> {
        let text = without_blanks(self.0);
        let length = text.iter().take_while(|byte| is_name_byte(**byte)).count();
        let (word, rest) = text.split_at(length);
        self.0 = rest;
        if word.is_empty() { Err(LineError::BadFormat) } else { Ok(word) }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn end(&self) -> Result<(), LineError> {
        if self.is_empty() { Ok(()) } else { Err(LineError::BadFormat) }
    }
}
