//! `krarup man` and `krarup completions`: pages and completions from the same table as the flags
//! themselves.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Failure;

/// Write the man pages, one for each subcommand, into a directory.
#[derive(Args)]
pub(crate) struct ManArgs {
    /// The directory; made if it does not exist
    #[arg(value_name = "DIR", default_value = "man")]
    directory: PathBuf,
}

/// Print the completions for a shell.
#[derive(Args)]
#[command(after_help = "For bash: krarup completions bash > /etc/bash_completion.d/krarup")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Writes the man pages.
pub(crate) fn man(args: &ManArgs, krarup: Command) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::run(format!("{}: {error}", args.directory.display()));
    fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(krarup, &args.directory).map_err(failed)?;
    eprintln!(
        "man pages in {}; read one with: man -l {}/krarup-proxy.1",
        args.directory.display(),
        args.directory.display()
    );
    Ok(())
}

/// Prints the completions.
pub(crate) fn completions(args: &CompletionsArgs, krarup: &mut Command) {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, krarup, "krarup", &mut text);
    print!("{}", String::from_utf8_lossy(&text));
}
