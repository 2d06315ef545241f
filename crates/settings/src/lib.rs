//! Settings as tables: one row per setting, from which the reader of files, the commented template,
//! flags and the check of bounds come.
//!
//! | file | its one idea |
//! |---|---|
//! | [`table`] | a row, and what is read, written and checked by it |
//! | [`kind`] | what a value is: its form in a file, its bounds |
//!
//! ```
//! use krarup_settings::{SettingsTable, kind::Count, read, settings};
//!
//! settings! {
//!     /// A server.
//!     #[derive(Debug)]
//!     pub struct Server {
//!         /// How many clients may be connected.
//!         connections: usize = 1_024, Count::from(1);
//!     }
//! }
//!
//! assert_eq!(read::<Server>("connections = 5", "server.toml").unwrap().connections, 5);
//! let mistakes = read::<Server>("conections = 5", "server.toml").unwrap_err();
//! assert_eq!(mistakes.to_string(), "server.toml, line 1: there is no key `conections`; did you mean connections?");
//! ```

#![forbid(unsafe_code)]

pub mod kind;
pub mod table;

pub use krarup_units::{Mistake, Mistakes};
pub use table::{
    Flag, KeyTable, Setting, SettingsTable, check, commented, differing, document, key_tables, read,
    read_checked, said, template,
};
