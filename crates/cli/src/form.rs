//! How results are told: as text, or in one of the forms that other programs read; and as a page
//! beside it.

use std::path::PathBuf;

use clap::Args;

/// At most one of the first three.
#[derive(Args)]
pub(crate) struct OutputForm {
    /// Print JSON with full precision
    #[arg(long, group = "form")]
    pub(crate) json: bool,
    /// Print CSV with full precision
    #[arg(long, group = "form")]
    pub(crate) csv: bool,
    /// Print Markdown
    #[arg(long, group = "form")]
    pub(crate) markdown: bool,
    /// Also write a page with figures into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) html: Option<PathBuf>,
}

impl OutputForm {
    /// Whether anything but plain text is asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.json || self.csv || self.markdown || self.html.is_some()
    }
}
