//! What a value is: its form in a file, how it is written, and its bounds.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::str::FromStr;

use krarup_units::{Address, Nanos, Seconds, text};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Mistake;
use crate::table::{FileItem, KeyTable, SettingsTable, commented, differing, key_tables, read_table};

/// How values of `T` are read, written and bounded.
pub trait Kind<T> {
    /// Reads one, or says what is wrong; `name` is how messages call the setting.
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<T>;

    /// Writes it as a file has it; none: it is not set, or is only read.
    fn write(&self, _value: &T) -> Option<String> {
        None
    }

    /// Whether it is within its bounds.
    ///
    /// # Errors
    /// Names the setting and its bounds.
    fn check(&self, _name: &str, _value: &T) -> Result<(), Mistake> {
        Ok(())
    }

    /// Its bounds, in words; empty where it has none.
    fn bounds(&self) -> String {
        String::new()
    }

    /// The words that it may be, where they are few: a shell completes them.
    fn words(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Adds the tables of keys within it, of which `name` is the first.
    fn key_tables(&self, _name: &str, _tables: &mut Vec<KeyTable>) {}
}

/// Reads a value that is within its bounds.
pub fn read<T>(
    kind: &impl Kind<T>,
    name: &str,
    item: &FileItem<'_>,
    mistakes: &mut Vec<Mistake>,
) -> Option<T> {
    let value = kind.read(name, item, mistakes)?;
    match kind.check(name, &value) {
        Ok(()) => Some(value),
        Err(mistake) => {
            mistakes.push(mistake.at(item.span().start));
            None
        }
    }
}

/// A value that is no table and no list, as text.
///
/// # Errors
/// Names the setting.
pub fn scalar(name: &str, item: &FileItem<'_>) -> Result<String, Mistake> {
    match item.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(Mistake::plain(format!("`{name}` is a number that is too large"))),
        },
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(is) => Ok(is.to_string()),
        other => {
            let kind = other.type_str();
            let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
            Err(Mistake::new(format!("`{name}` is {article} {kind}"), "write one value"))
        }
    }
}

/// A value that is no table, as text; the parts of a list have commas between.
///
/// # Errors
/// Names the setting.
pub fn joined(name: &str, item: &FileItem<'_>) -> Result<String, Mistake> {
    match item.get_ref().as_array() {
        Some(parts) => {
            let parts: Result<Vec<_>, _> = parts.iter().map(|part| joined(name, part)).collect();
            Ok(parts?.join(","))
        }
        None => scalar(name, item),
    }
}

/// Reads a value from its text.
fn from_text<T>(
    name: &str,
    item: &FileItem<'_>,
    mistakes: &mut Vec<Mistake>,
    read: impl FnOnce(&str) -> Result<T, Mistake>,
) -> Option<T> {
    let value = scalar(name, item).and_then(|text| read(&text));
    value.map_err(|mistake| mistakes.push(mistake.at(item.span().start))).ok()
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A whole number between two, both included.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    least: u64,
    most: u64,
    is_size: bool,
}

/// A count.
pub struct Count;
/// A size in bytes.
pub struct Size;

impl Count {
    /// This many or more.
    pub const fn from(least: u64) -> Whole {
        Self::between(least, u64::MAX)
    }

    /// Between two, both included.
    pub const fn between(least: u64, most: u64) -> Whole {
        Whole { least, most, is_size: false }
    }
}

impl Size {
    /// This many bytes or more.
    pub const fn from(least: u64) -> Whole {
        Self::between(least, u64::MAX)
    }

    /// Between two, both included.
    pub const fn between(least: u64, most: u64) -> Whole {
        Whole { least, most, is_size: true }
    }
}

impl Whole {
    fn shown(self, value: u64) -> String {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        let unit = units.iter().find(|(shift, _)| value > 0 && value.trailing_zeros() >= *shift);
        match unit {
            Some((shift, unit)) if self.is_size => format!("{}{unit}", value >> shift),
            _ => value.to_string(),
        }
    }

    fn range(self) -> String {
        match (self.least, self.most) {
            (0, u64::MAX) => String::new(),
            (least, u64::MAX) => format!("at least {}", self.shown(least)),
            (0, most) => format!("at most {}", self.shown(most)),
            (least, most) => format!("from {} to {}", self.shown(least), self.shown(most)),
        }
    }
}

macro_rules! whole {
    ($($type:ty),*) => {$(
        impl Kind<$type> for Whole {
            fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<$type> {
                from_text(name, item, mistakes, |text| {
                    let wrong = || Mistake::plain(format!("`{name}` is `{text}`, and must be a whole number"));
                    let value = if self.is_size {
                        text::parse_size(text)?
                    } else {
                        text::parse_count(text).map_err(|_| wrong())?
                    };
                    <$type>::try_from(value).map_err(|_| wrong())
                })
            }

            fn write(&self, value: &$type) -> Option<String> {
                let text = self.shown(*value as u64);
                Some(if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { quoted(&text) })
            }

            fn check(&self, name: &str, value: &$type) -> Result<(), Mistake> {
                if (self.least..=self.most).contains(&(*value as u64)) {
                    return Ok(());
                }
                Err(Mistake::plain(format!("`{name}` is {value}, and must be {}", self.range())))
            }

            fn bounds(&self) -> String {
                self.range()
            }
        }
    )*};
}

whole!(u16, u32, u64, usize);

/// A day.
pub const DAY: Nanos = Nanos::from_secs(86_400);

/// 30 days: the bound of what has no reason to be shorter.
pub const MONTH: Nanos = Nanos::from_secs(30 * 86_400);

/// A length of time between two, both included.
#[derive(Clone, Copy, Debug)]
pub struct Duration {
    least: Nanos,
    most: Nanos,
    zero: bool,
}

impl Duration {
    /// Between two, both included.
    pub const fn between(least: Nanos, most: Nanos) -> Self {
        Self { least, most, zero: false }
    }

    /// At most this.
    pub const fn up_to(most: Nanos) -> Self {
        Self::between(Nanos::ZERO, most)
    }

    /// Or zero.
    pub const fn or_zero(self) -> Self {
        Self { zero: true, ..self }
    }
}

/// A length of time without loss, in the largest unit in which it is whole.
fn length(value: Nanos) -> String {
    let units = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
    ];
    match units.iter().find(|(unit, _)| value.0 > 0 && value.0.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", value.0 / unit),
        None if value == Nanos::ZERO => "0s".to_owned(),
        None => format!("{}ns", value.0),
    }
}

impl Kind<Nanos> for Duration {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<Nanos> {
        from_text(name, item, mistakes, |text| text::parse_duration(text).map(Nanos::from_seconds))
    }

    fn write(&self, value: &Nanos) -> Option<String> {
        Some(quoted(&length(*value)))
    }

    fn check(&self, name: &str, value: &Nanos) -> Result<(), Mistake> {
        if (self.least..=self.most).contains(value) || (self.zero && *value == Nanos::ZERO) {
            return Ok(());
        }
        Err(Mistake::plain(format!(
            "`{name}` is {}, and must be {}",
            length(*value),
            Kind::<Nanos>::bounds(self)
        )))
    }

    fn bounds(&self) -> String {
        let zero = if self.zero { "0 or " } else { "" };
        match self.least {
            Nanos::ZERO => format!("at most {}", length(self.most)),
            least => format!("{zero}from {} to {}", length(least), length(self.most)),
        }
    }
}

impl Kind<Seconds> for Duration {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<Seconds> {
        from_text(name, item, mistakes, text::parse_duration)
    }

    fn write(&self, value: &Seconds) -> Option<String> {
        Some(quoted(&length(Nanos::from_seconds(*value))))
    }

    fn check(&self, name: &str, value: &Seconds) -> Result<(), Mistake> {
        let within = self.least.as_seconds()..=self.most.as_seconds();
        if within.contains(value) || (self.zero && *value == 0.0) {
            return Ok(());
        }
        let bounds = Kind::<Nanos>::bounds(self);
        Err(Mistake::plain(format!("`{name}` is {value} s, and must be {bounds}")))
    }

    fn bounds(&self) -> String {
        Kind::<Nanos>::bounds(self)
    }
}

/// A number between two.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    least: f64,
    most: f64,
    /// Whether the two are excluded.
    open: bool,
}

impl Number {
    /// From 0 to 1.
    pub const SHARE: Self = Self::between(0.0, 1.0);
    /// Above 0, and below 1.
    pub const FRACTION: Self = Self { open: true, ..Self::SHARE };
    /// Above 0, and finite.
    pub const POSITIVE: Self = Self { least: 0.0, most: f64::INFINITY, open: true };
    /// Above 1, and finite: so many times as much.
    pub const MULTIPLE: Self = Self { least: 1.0, ..Self::POSITIVE };

    /// Between two, both included.
    pub const fn between(least: f64, most: f64) -> Self {
        Self { least, most, open: false }
    }
}

impl Kind<f64> for Number {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<f64> {
        from_text(name, item, mistakes, |text| {
            let read = text.parse().ok().or_else(|| text::parse_rate(text).ok());
            read.ok_or_else(|| Mistake::plain(format!("`{name}` is `{text}`, and must be a number")))
        })
    }

    fn write(&self, value: &f64) -> Option<String> {
        Some(format!("{value:?}"))
    }

    fn check(&self, name: &str, value: &f64) -> Result<(), Mistake> {
        let Self { least, most, open } = self;
        if (least..=most).contains(&value) && !(*open && (value == least || value == most)) {
            return Ok(());
        }
        Err(Mistake::plain(format!("`{name}` is {value}, and must be {}", Kind::bounds(self))))
    }

    fn bounds(&self) -> String {
        match *self {
            Self { least, most, open: false } => format!("from {least} to {most}"),
            Self { least, most: f64::INFINITY, .. } => format!("above {least}"),
            Self { least, most, .. } => format!("above {least} and below {most}"),
        }
    }
}

/// Whether something is so.
#[derive(Clone, Copy, Debug)]
pub struct Switch;

impl Kind<bool> for Switch {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<bool> {
        from_text(name, item, mistakes, |text| {
            text.parse().map_err(|_| Mistake::new(format!("`{name}` is `{text}`"), "write true or false"))
        })
    }

    fn write(&self, value: &bool) -> Option<String> {
        Some(value.to_string())
    }
}

/// One of some words; the first of a value is the one that is written.
#[derive(Debug)]
pub struct Word<T: 'static>(pub &'static [(T, &'static str)]);

impl<T: Copy> Word<T> {
    /// The value of a word.
    ///
    /// # Errors
    /// Names all words.
    pub fn of(&self, name: &str, text: &str) -> Result<T, Mistake> {
        let found = self.0.iter().find(|(_, word)| *word == text);
        found.map(|(value, _)| *value).ok_or_else(|| {
            // The last word of `pools.users.multi_get`.
            let name = name.rsplit('.').next().unwrap_or(name).replace('_', " ");
            Mistake::none_of(format!("`{text}` is no {name}"), text, self.0.iter().map(|(_, word)| *word))
        })
    }
}

impl<T: Copy + PartialEq> Word<T> {
    /// The word of a value.
    pub fn word(&self, value: T) -> Option<&'static str> {
        self.0.iter().find(|(one, _)| *one == value).map(|(_, word)| *word)
    }
}

impl<T: Copy + PartialEq> Kind<T> for Word<T> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<T> {
        from_text(name, item, mistakes, |text| self.of(name, text))
    }

    fn write(&self, value: &T) -> Option<String> {
        self.word(*value).map(quoted)
    }

    fn words(&self) -> Vec<&'static str> {
        self.0.iter().map(|(_, word)| *word).collect()
    }
}

/// What is written as one text or number, by functions of its own.
pub struct CustomText<T> {
    /// Reads it.
    pub read: fn(&str) -> Result<T, Mistake>,
    /// Writes it, without quotes.
    pub write: fn(&T) -> String,
}

impl<T> Kind<T> for CustomText<T> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<T> {
        from_text(name, item, mistakes, self.read)
    }

    fn write(&self, value: &T) -> Option<String> {
        let text = (self.write)(value);
        // A number is written as one, but not where it is more than that: a name may begin with a
        // zero.
        let number = text.parse::<u64>().is_ok_and(|number| number.to_string() == text);
        Some(if number { text } else { quoted(&text) })
    }
}

/// What its type reads from a text.
#[derive(Debug)]
pub struct FromText;

impl<T: FromStr<Err: Into<Mistake>>> Kind<T> for FromText {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<T> {
        from_text(name, item, mistakes, |text| text.parse().map_err(Into::into))
    }
}

/// A value that can be written in several ways, with the text that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbatim<T> {
    /// The text.
    pub text: String,
    /// What it means.
    pub value: T,
}

/// What a function reads from a text, or from the parts of a list with commas between.
#[derive(Debug)]
pub struct Grammar<T>(pub fn(&str) -> Result<T, Mistake>);

impl<T> Grammar<T> {
    /// A default.
    pub fn value(&self, text: &str) -> Verbatim<T> {
        let value = self.0(text).unwrap_or_else(|mistake| panic!("a default: {mistake}"));
        Verbatim { text: text.to_owned(), value }
    }
}

impl<T> Kind<Verbatim<T>> for Grammar<T> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<Verbatim<T>> {
        let read = |text: String| Ok(Verbatim { value: self.0(&text)?, text });
        let value = joined(name, item).and_then(read);
        value.map_err(|mistake| mistakes.push(mistake.at(item.span().start))).ok()
    }

    fn write(&self, value: &Verbatim<T>) -> Option<String> {
        TEXT.write(&value.text)
    }
}

/// A text as it is.
pub const TEXT: CustomText<String> = CustomText { read: |text| Ok(text.to_owned()), write: Clone::clone };

/// A file.
pub const FILE: CustomText<PathBuf> =
    CustomText { read: |text| Ok(text.into()), write: |path| path.display().to_string() };

/// Permissions of a file, written like `"0660"`; a number of TOML stands for its digits, `0o660` as
/// well as `660`.
#[derive(Debug)]
pub struct FilePermissions;

impl Kind<u32> for FilePermissions {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<u32> {
        from_text(name, item, mistakes, |text| {
            let digits = match item.get_ref().as_integer() {
                None => text,
                Some(number) if [8, 10].contains(&number.radix()) => number.as_str(),
                // Digits of another base are no permissions.
                Some(_) => "",
            };
            match u32::from_str_radix(digits, 8) {
                Ok(mode) if mode <= 0o777 => Ok(mode),
                _ => Err(Mistake::new(format!("`{text}` are no permissions"), "write them like \"0660\"")),
            }
        })
    }

    fn write(&self, value: &u32) -> Option<String> {
        Some(quoted(&format!("{value:04o}")))
    }
}

/// Bits per second, at least 10,000, written like `101Mbit/s`.
pub const BANDWIDTH: CustomText<f64> = CustomText {
    read: |bandwidth| match text::parse_bandwidth(bandwidth) {
        Ok(bits) if bits >= 1e4 => Ok(bits),
        Ok(_) => Err(Mistake::plain(format!("{bandwidth} is below 10 kbit/s"))),
        Err(wrong) => Err(wrong),
    },
    write: |bits| format!("{bits}bit/s"),
};

/// `host:port`, or `unix:/path`.
pub const ADDRESS: CustomText<Address> = CustomText { read: |text| text.parse(), write: Address::to_string };

/// What may be one of some words among other values: a shell completes the words.
#[derive(Debug)]
pub struct OrWords<K>(pub K, pub &'static [&'static str]);

impl<T, K: Kind<T>> Kind<T> for OrWords<K> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<T> {
        self.0.read(name, item, mistakes)
    }

    fn write(&self, value: &T) -> Option<String> {
        self.0.write(value)
    }

    fn check(&self, name: &str, value: &T) -> Result<(), Mistake> {
        self.0.check(name, value)
    }

    fn words(&self) -> Vec<&'static str> {
        self.1.to_vec()
    }

    fn bounds(&self) -> String {
        self.0.bounds()
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        self.0.key_tables(name, tables);
    }
}

/// What need not be set.
#[derive(Debug)]
pub struct Optional<K>(pub K);

impl<T, K: Kind<T>> Kind<Option<T>> for Optional<K> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<Option<T>> {
        self.0.read(name, item, mistakes).map(Some)
    }

    fn write(&self, value: &Option<T>) -> Option<String> {
        value.as_ref().and_then(|value| self.0.write(value))
    }

    fn check(&self, name: &str, value: &Option<T>) -> Result<(), Mistake> {
        value.as_ref().map_or(Ok(()), |value| self.0.check(name, value))
    }

    fn words(&self) -> Vec<&'static str> {
        self.0.words()
    }

    fn bounds(&self) -> String {
        self.0.bounds()
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        self.0.key_tables(name, tables);
    }
}

/// A value with its place in the file.
#[derive(Debug)]
pub struct Located<K>(pub K);

impl<T, K: Kind<T>> Kind<Spanned<T>> for Located<K> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<Spanned<T>> {
        Some(Spanned::new(item.span(), read(&self.0, name, item, mistakes)?))
    }

    fn write(&self, value: &Spanned<T>) -> Option<String> {
        self.0.write(value.get_ref())
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        self.0.key_tables(name, tables);
    }
}

/// Several.
#[derive(Debug)]
pub struct List<K>(pub K);

impl<T, K: Kind<T>> Kind<Vec<T>> for List<K> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<Vec<T>> {
        let Some(items) = item.get_ref().as_array() else {
            mistakes.push(Mistake::new(format!("`{name}` is no list"), "write [ … ]").at(item.span().start));
            return None;
        };
        let read: Vec<_> = items.iter().map(|item| read(&self.0, name, item, mistakes)).collect();
        read.into_iter().collect()
    }

    fn write(&self, value: &Vec<T>) -> Option<String> {
        let items: Vec<_> = value.iter().filter_map(|item| self.0.write(item)).collect();
        Some(format!("[{}]", items.join(", ")))
    }

    fn words(&self) -> Vec<&'static str> {
        self.0.words()
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        self.0.key_tables(name, tables);
    }
}

/// A table whose keys are free.
#[derive(Debug)]
pub struct FreeTable<K>(pub K);

impl<T, K: Kind<T>> Kind<BTreeMap<String, T>> for FreeTable<K> {
    fn read(
        &self,
        name: &str,
        item: &FileItem<'_>,
        mistakes: &mut Vec<Mistake>,
    ) -> Option<BTreeMap<String, T>> {
        let named = table(name, item, mistakes)?.iter().map(|(key, item)| {
            let key = key.get_ref().to_string();
            let value = read(&self.0, &format!("{name}.{key}"), item, mistakes)?;
            Some((key, value))
        });
        let all: Vec<_> = named.collect();
        all.into_iter().collect()
    }
}

/// A table of settings within the line: `{ key = value, … }`.
#[derive(Debug)]
pub struct Inline;

/// A table, or the mistake that it is none.
pub fn table<'a>(name: &str, item: &'a FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<&'a DeTable<'a>> {
    let table = item.get_ref().as_table();
    if table.is_none() {
        mistakes.push(
            Mistake::new(format!("`{name}` is no table"), "write { key = value }").at(item.span().start),
        );
    }
    table
}

fn settings<C: SettingsTable>(name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<C> {
    let before = mistakes.len();
    let mut settings = C::default();
    read_table(&mut settings, &format!("{name}."), table(name, item, mistakes)?, item.span().start, mistakes);
    (mistakes.len() == before).then_some(settings)
}

impl<C: SettingsTable> Kind<C> for Inline {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<C> {
        settings(name, item, mistakes)
    }

    fn write(&self, value: &C) -> Option<String> {
        let parts: Vec<_> = differing(value).map(|(key, value)| format!("{key} = {value}")).collect();
        Some(if parts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", parts.join(", ")) })
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        key_tables::<C>(name, tables);
    }
}

/// A table of settings, or one value of another kind that stands for it.
#[derive(Debug)]
pub struct TableOr<K, T, C> {
    /// The kind of the one value.
    pub short: K,
    /// What it stands for.
    pub read: fn(T) -> Result<C, Mistake>,
    /// What stands for the settings, where something does.
    pub write: fn(&C) -> Option<T>,
}

impl<T, C: SettingsTable, K: Kind<T>> Kind<C> for TableOr<K, T, C> {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<C> {
        if item.get_ref().is_table() {
            return settings(name, item, mistakes);
        }
        let value = (self.read)(self.short.read(name, item, mistakes)?);
        value.map_err(|mistake| mistakes.push(mistake.at(item.span().start))).ok()
    }

    fn write(&self, value: &C) -> Option<String> {
        (self.write)(value).map_or_else(|| Inline.write(value), |short| self.short.write(&short))
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        key_tables::<C>(name, tables);
    }
}

/// A commented table of settings with a head of this name.
#[derive(Debug)]
pub struct SettingsSection(pub &'static str);

impl<C: SettingsTable> Kind<C> for SettingsSection {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<C> {
        settings(name, item, mistakes)
    }

    fn write(&self, value: &C) -> Option<String> {
        Some(format!("[{}]\n\n{}", self.0, commented(value, |_| true).trim_end()) + "\n")
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        key_tables::<C>(name, tables);
    }
}

/// Tables of settings under `[HEAD.NAME]` each, or, without names, `[[HEAD]]`.
#[derive(Debug)]
pub struct Sections(pub &'static str);

fn block<C: SettingsTable>(head: &str, value: &C) -> String {
    let mut text = format!("{head}\n");
    for (key, value) in differing(value) {
        writeln!(text, "{key} = {value}").expect("text takes everything");
    }
    text
}

impl<C: SettingsTable> Kind<BTreeMap<String, C>> for Sections {
    fn read(
        &self,
        name: &str,
        item: &FileItem<'_>,
        mistakes: &mut Vec<Mistake>,
    ) -> Option<BTreeMap<String, C>> {
        FreeTable(Inline).read(name, item, mistakes)
    }

    fn write(&self, value: &BTreeMap<String, C>) -> Option<String> {
        // A name of other letters than a bare key's is quoted.
        let key = |name: &str| {
            let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if !name.is_empty() && name.bytes().all(bare) { name.to_owned() } else { quoted(name) }
        };
        let blocks: Vec<_> =
            value.iter().map(|(name, value)| block(&format!("[{}.{}]", self.0, key(name)), value)).collect();
        (!blocks.is_empty()).then(|| blocks.join("\n"))
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        key_tables::<C>(&format!("{name}.NAME"), tables);
    }
}

impl<C: SettingsTable> Kind<Vec<C>> for Sections {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<Vec<C>> {
        List(Inline).read(name, item, mistakes)
    }

    fn write(&self, value: &Vec<C>) -> Option<String> {
        let blocks: Vec<_> = value.iter().map(|value| block(&format!("[[{}]]", self.0), value)).collect();
        (!blocks.is_empty()).then(|| blocks.join("\n"))
    }

    fn key_tables(&self, name: &str, tables: &mut Vec<KeyTable>) {
        key_tables::<C>(name, tables);
    }
}

/// What no file has.
#[derive(Debug)]
pub struct Unwritten;

impl<T> Kind<T> for Unwritten {
    fn read(&self, _: &str, _: &FileItem<'_>, _: &mut Vec<Mistake>) -> Option<T> {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use toml::Spanned;

    use super::*;

    /// Reads back what was written.
    fn again<T>(kind: &impl Kind<T>, value: &T) -> T {
        let text = kind.write(value).unwrap();
        let written = DeValue::parse(&text).unwrap().into_inner();
        kind.read("key", &Spanned::new(0..0, written), &mut Vec::new()).unwrap()
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(count in 0_u64..1 << 40, micros in 0..MONTH.0 / 1_000, share in 0.0..=1.0) {
            prop_assert_eq!(again(&Count::from(0), &count), count);
            prop_assert_eq!(again(&Size::from(0), &(count << (count % 20))), count << (count % 20));
            let length = Nanos::from_micros(micros);
            prop_assert_eq!(again(&Duration::up_to(MONTH), &length), length);
            prop_assert_eq!(again(&Number::SHARE, &share), share);
        }
    }

    #[test]
    fn bounds_are_told_as_people_write_them() {
        let length = Duration::between(Nanos::from_millis(1), MONTH);
        assert_eq!(Kind::<Nanos>::bounds(&length.or_zero()), "0 or from 1ms to 720h");
        assert!(
            length.check("key", &Nanos::ZERO).is_err() && length.or_zero().check("key", &Nanos::ZERO).is_ok()
        );
        assert_eq!(Kind::<usize>::bounds(&Size::between(1, 1 << 30)), "from 1 to 1GiB");
        let wrong = Kind::<u32>::check(&Count::between(1, 64), "threads", &65).unwrap_err();
        assert_eq!(wrong.to_string(), "`threads` is 65, and must be from 1 to 64");
        assert!(Number::POSITIVE.check("rate", &f64::NAN).is_err());
    }
}
