//! `krarup top`: what proxies and brokers do now, on a terminal or as lines of text.

mod asking;
mod screen;

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use krarup_analysis::top::TopState;
use krarup_report::top::{self as shown, TopPage, TopView};
use krarup_units::text::parse_duration;
use krarup_units::{Address, Seconds};

use crate::failure::Failure;
use crate::flags::whole;
use crate::output;
use asking::{Elapsed, TopQuestion};

/// Watch proxies and brokers: rates, queues and times of the last second, servers, tubes, clients,
/// hot keys and headroom.
///
/// Asks the addresses that were given to them with --admin. Several instances, of several addresses
/// or of a name that has several, are summed, with one row for each on the page `instances`. On a
/// terminal `?` shows the keys and `q` ends; an instance that does not answer is asked again until
/// it does.
///
/// Where stdout is no terminal, or with --once, --looks or --json, each look is printed behind the
/// one before: as text with every row, or as one line of JSON.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup top 127.0.0.1:9151\n  \
    krarup top proxies.example:9151\n  \
    krarup top 10.0.0.1:9151 10.0.0.2:9151 --page instances\n  \
    krarup top 127.0.0.1:9151 --once --page servers\n  \
    krarup top 127.0.0.1:9150 --json --looks 60 >a-minute.jsonl")]
pub(crate) struct TopArgs {
    /// Admin addresses of proxies and brokers; a name stands for all its addresses
    #[arg(value_name = "HOST:PORT", required = true)]
    addresses: Vec<Address>,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    every: Seconds,
    /// The page to begin with, or to print [default: servers or tubes on a terminal, else
    /// operations]
    #[arg(long, value_name = "PAGE")]
    page: Option<NamedPage>,
    /// Print one look: what happened within one --every
    #[arg(long, conflicts_with = "looks")]
    once: bool,
    /// Print so many looks [default: until Ctrl-C]
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>(1, u64::MAX))]
    looks: Option<u32>,
    /// Print each look as one line of JSON, with everything that any page shows
    #[arg(long)]
    json: bool,
    /// When to use colours [default: auto: on a terminal, unless NO_COLOR is set]
    #[arg(long, value_name = "WHEN")]
    color: Option<ColorChoice>,
}

/// A page by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NamedPage {
    /// Servers of proxies: state, share of requests, answers owed, times, errors, losses
    Servers,
    /// Pools of proxies: requests, retries, hedges, what was limited or dropped
    Pools,
    /// Tubes of brokers: messages, consumers, times, workers needed
    Tubes,
    /// What is asked for: rates, and where the response time is spent
    #[value(alias = "now")]
    Operations,
    /// Who asks for how much
    Clients,
    /// The keys that take most of the servers' time and of the bytes
    Hotkeys,
    /// Which resource of a proxy is full first, and at which rate
    Headroom,
    /// One row for each instance
    Instances,
}

impl NamedPage {
    const fn page(self) -> TopPage {
        match self {
            Self::Servers => TopPage::Servers,
            Self::Pools => TopPage::Pools,
            Self::Tubes => TopPage::Tubes,
            Self::Operations => TopPage::Operations,
            Self::Clients => TopPage::Clients,
            Self::Hotkeys => TopPage::HotKeys,
            Self::Headroom => TopPage::Headroom,
            Self::Instances => TopPage::Instances,
        }
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// On any terminal
    Always,
    /// Nowhere
    Never,
}

impl ColorChoice {
    fn is_color(self) -> bool {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        match self {
            Self::Auto => !refused,
            Self::Always => true,
            Self::Never => false,
        }
    }
}

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    if !(0.05..=3_600.0).contains(&args.every) {
        return Err(Failure::usage("--every is from 50ms to an hour").hint("write it like 250ms or 1s"));
    }
    let elapsed = Elapsed::begin();
    let instances = asking::instances(&args.addresses, &[])?;
    let mut state = TopState::default();
    state.set_instances(instances.iter().map(ToString::to_string));
    // A wrong address is told at once: only what has answered is waited for.
    let first = asking::look(&instances, &[], elapsed);
    if let Some(why) = asking::why_none_answers(&first) {
        return Err(why);
    }
    first.into_iter().for_each(|reply| reply.enter(&mut state));
    state.advance(elapsed.seconds());
    let prints = args.once || args.json || args.looks.is_some() || !is_screen();
    if prints {
        return args.print_looks(state, instances, elapsed);
    }
    let color = args.color.unwrap_or(ColorChoice::Auto).is_color();
    let view = TopView::of(args.page.map_or(TopPage::Servers, NamedPage::page), color);
    screen::run(&args.addresses, instances, args.every, state, view, elapsed)
}

/// Whether stdout is a terminal that can be drawn on.
fn is_screen() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    stdout().is_terminal() && !dumb
}

#[expect(clippy::disallowed_methods, reason = "whether it is a terminal, and that a closed pipe ends it")]
fn stdout() -> io::Stdout {
    io::stdout()
}

impl TopArgs {
    /// Prints looks, one behind the other.
    fn print_looks(
        &self,
        mut state: TopState,
        mut instances: Vec<Address>,
        elapsed: Elapsed,
    ) -> Result<(), Failure> {
        let page = self.page.unwrap_or(NamedPage::Operations);
        let mut view = TopView::of(page.page(), false);
        let asked: &[TopQuestion] = match page {
            _ if self.json => &[TopQuestion::Headroom, TopQuestion::HotKeys, TopQuestion::Clients],
            NamedPage::Hotkeys => &[TopQuestion::HotKeys, TopQuestion::Headroom],
            NamedPage::Clients => &[TopQuestion::Clients, TopQuestion::Headroom],
            _ => &[TopQuestion::Headroom],
        };
        let (tell, names) = mpsc::channel();
        asking::follow_names(self.addresses.clone(), instances.clone(), move |found| {
            tell.send(found).is_ok()
        });
        let looks = if self.once { Some(1) } else { self.looks };
        let mut looked = 0;
        while looks.is_none_or(|looks| looked < looks) {
            thread::sleep(Duration::from_secs_f64(self.every));
            if let Some(found) = names.try_iter().last() {
                state.set_instances(found.iter().map(ToString::to_string));
                instances = found;
            }
            let replies = asking::look(&instances, asked, elapsed);
            let why = asking::why_none_answers(&replies);
            replies.into_iter().for_each(|reply| reply.enter(&mut state));
            let now = elapsed.seconds();
            state.advance(now);
            if let Some(why) = why.filter(|_| looks.is_some()) {
                return Err(why);
            }
            let text = if self.json {
                let figures = state.figures(now, None);
                serde_json::to_string(&figures).expect("figures are plain data") + "\n"
            } else {
                shown::text(&state, now, &mut view, !stdout().is_terminal()) + "\n"
            };
            let mut out = stdout().lock();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Ok(()) => looked += 1,
                // The reader of the output is gone.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
                Err(error) => return Err(output::unwritten(&error)),
            }
        }
        Ok(())
    }
}
