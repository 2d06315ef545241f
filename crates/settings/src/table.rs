//! A row for each setting, and what is read, written and checked by it.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Mistake, Mistakes};

/// A value as it stands in a file, with its place.
pub type FileItem<'a> = Spanned<DeValue<'a>>;

/// A flag on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes at its beginning; empty: that of the key.
    pub name: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// Its letter.
    pub short: Option<char>,
    /// What stands for its value in help; empty where it has none and switches something on.
    pub value: &'static str,
    /// Whether it takes several values, with commas or blanks between.
    pub many: bool,
}

impl Flag {
    /// A flag with this name and one value.
    pub const fn new(name: &'static str, value: &'static str) -> Self {
        Self { name, alias: None, short: None, value, many: false }
    }

    /// A flag with the name of the key, dashes in place of its underscores.
    pub const fn of_key(value: &'static str) -> Self {
        Self::new("", value)
    }

    /// The same with another name beside its own.
    pub const fn alias(self, name: &'static str) -> Self {
        Self { alias: Some(name), ..self }
    }

    /// The same with a letter.
    pub const fn short(self, letter: char) -> Self {
        Self { short: Some(letter), ..self }
    }

    /// The same with several values.
    pub const fn many(self) -> Self {
        Self { many: true, ..self }
    }
}

/// One setting of `C`. [`settings!`](crate::settings) makes it.
#[derive(Debug)]
pub struct Setting<C: 'static> {
    /// Its key in a file; empty where a file has none.
    pub key: &'static str,
    /// What it means, in lines.
    pub help: &'static [&'static str],
    /// What stands behind `key = ` in the template where nothing is set; of a section, all of it.
    pub example: &'static str,
    /// Its flag.
    pub flag: Option<Flag>,
    /// The key with dashes in place of its underscores.
    pub dashed: &'static str,
    /// Keys of settings that contradict it: what is set later takes their place.
    pub excludes: &'static [&'static str],
    /// Whether a class within these settings may have a value of its own.
    pub of_class: bool,
    /// Whether another value takes a restart.
    pub restart: bool,
    /// Whether it must be set.
    pub required: bool,
    /// Whether it is a table with a head of its own, which comes last in a file.
    pub section: bool,
    /// Its bounds, in words; empty where it has none.
    pub bounds: fn() -> String,
    /// The words that it may be, where they are few.
    pub words: fn() -> Vec<&'static str>,
    /// Reads it; the text is how messages call it.
    pub read: fn(&mut C, &str, &FileItem<'_>, &mut Vec<Mistake>),
    /// Writes it as a file has it; none: it is not set.
    pub write: fn(&C) -> Option<String>,
    /// Whether it is within its bounds.
    pub check: fn(&C, &str) -> Result<(), Mistake>,
    /// Adds the tables of keys within it, of which the text names the first.
    pub key_tables: fn(&str, &mut Vec<KeyTable>),
}

impl<C> Setting<C> {
    /// The name of its flag.
    pub fn flag_name(&self) -> &'static str {
        self.flag.map(|flag| flag.name).filter(|name| !name.is_empty()).unwrap_or(self.dashed)
    }
}

/// A key with dashes in place of its underscores.
pub const fn dashes<const LENGTH: usize>(key: &str) -> [u8; LENGTH] {
    let mut dashed = [b'-'; LENGTH];
    let mut place = 0;
    while place < LENGTH {
        if key.as_bytes()[place] != b'_' {
            dashed[place] = key.as_bytes()[place];
        }
        place += 1;
    }
    dashed
}

/// Something that is set by a table of settings.
pub trait SettingsTable: Default + 'static {
    /// A row for each setting.
    const ROWS: &'static [Setting<Self>];

    /// Further rows whose keys stand beside these: another table's.
    fn beside() -> Vec<&'static str> {
        Vec::new()
    }

    /// Reads a key that is one of [`SettingsTable::beside`].
    fn read_beside(&mut self, _key: &str, _item: &FileItem<'_>, _mistakes: &mut Vec<Mistake>) {}

    /// The keys of a file.
    fn keys() -> impl Iterator<Item = &'static str> {
        Self::ROWS.iter().map(|row| row.key).filter(|key| !key.is_empty())
    }
}

/// Declares a struct and its table: each field is a setting, with its type, default and
/// [kind](crate::kind). Its doc comment is its help. What follows the kind are fields of
/// [`Setting`]. `beside` names the field whose own keys stand beside these in a file.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $help:literal])+
                $key:ident: $type:ty = $default:expr, $kind:expr $(, $attribute:ident = $value:expr)*;
            )*
        }
        $( beside $beside:ident: $other:ty; )?
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $( $(#[doc = $help])+ pub $key: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $key: $default, )* }
            }
        }

        impl $crate::SettingsTable for $name {
            const ROWS: &'static [$crate::Setting<Self>] = &[$(
                $crate::Setting {
                    $( $attribute: $value, )*
                    ..$crate::Setting {
                        key: stringify!($key),
                        help: &[$( $help ),+],
                        example: "",
                        flag: None,
                        dashed: {
                            const DASHED: [u8; stringify!($key).len()] =
                                $crate::table::dashes(stringify!($key));
                            match ::std::str::from_utf8(&DASHED) {
                                Ok(dashed) => dashed,
                                Err(_) => panic!("a key is a Rust name"),
                            }
                        },
                        excludes: &[],
                        of_class: false,
                        restart: false,
                        required: false,
                        section: false,
                        bounds: || $crate::kind::Kind::<$type>::bounds(&$kind),
                        words: || $crate::kind::Kind::<$type>::words(&$kind),
                        read: |into, name, item, mistakes| {
                            if let Some(value) = $crate::kind::read(&$kind, name, item, mistakes) {
                                into.$key = value;
                            }
                        },
                        write: |from| $crate::kind::Kind::write(&$kind, &from.$key),
                        check: |from, name| $crate::kind::Kind::check(&$kind, name, &from.$key),
                        key_tables: |name, tables| $crate::kind::Kind::<$type>::key_tables(&$kind, name, tables),
                    }
                },
            )*];

            $(
                fn beside() -> Vec<&'static str> {
                    <$other as $crate::SettingsTable>::keys().collect()
                }

                fn read_beside(
                    &mut self,
                    key: &str,
                    item: &$crate::table::FileItem<'_>,
                    mistakes: &mut Vec<$crate::Mistake>,
                ) {
                    let rows = <$other as $crate::SettingsTable>::ROWS.iter();
                    rows.filter(|row| row.key == key).for_each(|row| (row.read)(&mut self.$beside, key, item, mistakes));
                }
            )?
        }
    };
}

/// Reads a file's text; `name` is the file's.
///
/// # Errors
/// Every mistake with its line.
pub fn read<C: SettingsTable>(text: &str, name: &str) -> Result<C, Mistakes> {
    read_checked(text, name, |_, _| Vec::new())
}

/// The same; `check` is given what no key alone is wrong in.
///
/// # Errors
/// Every mistake with its line.
pub fn read_checked<C: SettingsTable>(
    text: &str,
    name: &str,
    check: impl FnOnce(&C, &DeTable<'_>) -> Vec<Mistake>,
) -> Result<C, Mistakes> {
    document(text, name, |table, mistakes| {
        let mut settings = C::default();
        read_table(&mut settings, "", table, 0, mistakes);
        if mistakes.is_empty() {
            *mistakes = check(&settings, table);
        }
        settings
    })
}

/// Where a key stands, by its path as `phases.measure`; where it does not, the innermost table that
/// would hold it.
pub fn offset(table: &DeTable<'_>, path: &str) -> usize {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    match table.get(key) {
        None => 0,
        Some(item) => match item.get_ref().as_table() {
            Some(inner) => offset(inner, rest).max(item.span().start),
            None => item.span().start,
        },
    }
}

/// Reads a file's text by a function that is given the table at its top.
///
/// # Errors
/// Every mistake with its line.
pub fn document<T>(
    text: &str,
    name: &str,
    read: impl FnOnce(&DeTable<'_>, &mut Vec<Mistake>) -> T,
) -> Result<T, Mistakes> {
    let mut mistakes = Vec::new();
    let read = match DeTable::parse(text) {
        Ok(table) => Some(read(table.get_ref(), &mut mistakes)),
        Err(error) => {
            let mistake = Mistake::of_reader(&error.message().trim_end().replace('\n', " "));
            mistakes.push(mistake.at(error.span().map_or(0, |span| span.start)));
            None
        }
    };
    read.filter(|_| mistakes.is_empty()).ok_or_else(|| Mistakes::of_file(mistakes, name, text))
}

/// Reads a table's keys into `into`; `within` stands before them in messages.
pub(crate) fn read_table<C: SettingsTable>(
    into: &mut C,
    within: &str,
    table: &DeTable<'_>,
    offset: usize,
    mistakes: &mut Vec<Mistake>,
) {
    for (key, item) in table {
        let word = key.get_ref().as_ref();
        let name = format!("{within}{word}");
        if let Some(row) = C::ROWS.iter().find(|row| row.key == word && !word.is_empty()) {
            (row.read)(into, &name, item, mistakes);
        } else if C::beside().contains(&word) {
            into.read_beside(word, item, mistakes);
        } else {
            let known = C::keys().chain(C::beside());
            let mut unknown = Mistake::unknown(format!("there is no key `{word}`"), word, known);
            if unknown.hint.is_empty()
                && let Some(table) = table_of::<C>(word)
            {
                unknown.hint = format!("it is a key of `{within}{table}`");
            }
            mistakes.push(unknown.at(key.span().start));
        }
    }
    for row in C::ROWS.iter().filter(|row| row.required && !table.contains_key(row.key)) {
        mistakes.push(Mistake::plain(format!("`{within}{}` is missing", row.key)).at(offset));
    }
}

/// The table within these settings that has a key of that name.
fn table_of<C: SettingsTable>(key: &str) -> Option<String> {
    let mut tables = Vec::new();
    key_tables::<C>("", &mut tables);
    let within = tables.into_iter().skip(1).find(|table| table.keys.contains(&key));
    within.and_then(|table| table.names.into_iter().next())
}

/// Sets what a flag said.
///
/// # Errors
/// Names the value.
pub fn said<C: SettingsTable>(into: &mut C, row: &Setting<C>, texts: &[String]) -> Result<(), Mistakes> {
    let item = |text: &String| Spanned::new(0..0, DeValue::String(text.clone().into()));
    let item = match texts {
        [text] if !row.flag.is_some_and(|flag| flag.many) => item(text),
        _ => {
            let mut all = toml::de::DeArray::new();
            texts.iter().for_each(|text| all.push(item(text)));
            Spanned::new(0..0, DeValue::Array(all))
        }
    };
    let mut mistakes = Vec::new();
    (row.read)(into, row.key, &item, &mut mistakes);
    if mistakes.is_empty() { Ok(()) } else { Err(Mistakes(mistakes)) }
}

/// Whether every setting is within its bounds; `within` stands before the keys in messages.
///
/// # Errors
/// Names each that is not.
pub fn check<C: SettingsTable>(settings: &C, within: &str) -> Result<(), Mistakes> {
    let check = |row: &Setting<C>| (row.check)(settings, &format!("{within}{}", row.key)).err();
    let mistakes: Vec<_> = C::ROWS.iter().filter_map(check).collect();
    if mistakes.is_empty() { Ok(()) } else { Err(Mistakes(mistakes)) }
}

/// The settings as a commented part of a file, which reads back as the same: those rows of which
/// `which` holds.
pub fn commented<C: SettingsTable>(settings: &C, which: impl Fn(&Setting<C>) -> bool) -> String {
    template(settings, which, |_| true)
}

/// The same; the values of rows of which `is_set` does not hold are comments too.
pub fn template<C: SettingsTable>(
    settings: &C,
    which: impl Fn(&Setting<C>) -> bool,
    is_set: impl Fn(&Setting<C>) -> bool,
) -> String {
    let mut text = String::new();
    for row in C::ROWS.iter().filter(|row| !row.key.is_empty() && which(row)) {
        row.help.iter().for_each(|line| text += &format!("#{line}\n"));
        let bounds = [(row.bounds)(), if row.restart { "takes a restart".into() } else { String::new() }];
        let bounds: Vec<_> = bounds.into_iter().filter(|part| !part.is_empty()).collect();
        if !bounds.is_empty() {
            text += &format!("# ({})\n", bounds.join("; "));
        }
        match (row.section, (row.write)(settings)) {
            (true, Some(section)) => text += &section,
            (true, None) => row.example.lines().for_each(|line| text += &format!("# {line}\n")),
            (false, Some(value)) if is_set(row) => text += &format!("{} = {value}\n", row.key),
            (false, Some(value)) => text += &format!("# {} = {value}\n", row.key),
            (false, None) => text += &format!("# {} = {}\n", row.key, row.example),
        }
        text.push('\n');
    }
    text
}

/// What differs from the defaults: key and value.
pub fn differing<C: SettingsTable>(settings: &C) -> impl Iterator<Item = (&'static str, String)> {
    let usual = C::default();
    let rows = C::ROWS.iter().filter(|row| !row.key.is_empty());
    rows.filter_map(move |row| {
        let value = (row.write)(settings)?;
        (row.required || (row.write)(&usual).as_ref() != Some(&value)).then_some((row.key, value))
    })
}

/// A table of keys on a reference page.
#[derive(Debug)]
pub struct KeyTable {
    /// Where it stands in a file; several places have the same keys.
    pub names: Vec<String>,
    /// Its keys.
    pub keys: Vec<&'static str>,
    /// In Markdown.
    pub markdown: String,
}

/// Adds the table of the keys of `C`, called `name`, and those of the tables within it.
pub fn key_tables<C: SettingsTable>(name: &str, tables: &mut Vec<KeyTable>) {
    let usual = C::default();
    let mut markdown = "| key | where not given | example | meaning |\n|---|---|---|---|\n".to_owned();
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let rows = || C::ROWS.iter().filter(|row| !row.key.is_empty());
    for row in rows() {
        let default = match (row.required, (row.write)(&usual)) {
            (true, _) => "required".to_owned(),
            (false, default) => code(&default.unwrap_or_default()),
        };
        let help: Vec<_> = row.help.iter().map(|line| line.trim()).collect();
        let bounds = Some((row.bounds)()).filter(|bounds| !bounds.is_empty());
        let bounds = bounds.map_or(String::new(), |bounds| format!(" ({bounds})"));
        let (key, example, help) = (row.key, code(row.example), help.join(" "));
        markdown += &format!("| `{key}` | {default} | {example} | {help}{bounds} |\n");
    }
    if let Some(same) = tables.iter_mut().find(|table| table.markdown == markdown) {
        same.names.push(name.to_owned());
        return;
    }
    let keys = rows().map(|row| row.key).collect();
    tables.push(KeyTable { names: vec![name.to_owned()], keys, markdown });
    let within = if name.is_empty() { String::new() } else { format!("{name}.") };
    rows().for_each(|row| (row.key_tables)(&format!("{within}{}", row.key), tables));
}
