//! What a viewer has chosen: the page, how it is sorted, how far it is scrolled.

use std::collections::BTreeMap;

use krarup_analysis::top::{ServiceKind, TopFigures};

use super::page::TopPage;
use super::pages;

/// A key, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopKey {
    /// `q`: end.
    Quit,
    /// `?`: the list of keys, or away with it.
    Help,
    /// Escape: away with the list of keys.
    Close,
    /// `s`: sort by the next column.
    Sort,
    /// `r`: sort the other way round.
    Reverse,
    /// Space: stay at this moment, or go on.
    Pause,
    /// `i`: the next instance alone, and then all.
    Instance,
    /// `g`: clients by host, or each connection.
    Group,
    /// `c`: the columns for which there was no room.
    Columns,
    /// Tab or →.
    NextPage,
    /// Shift-Tab or ←.
    PreviousPage,
    /// A digit: the page of that number, from 1.
    Page(usize),
    /// ↑ and ↓: so many lines down, or up where negative.
    Scroll(isize),
    /// Home.
    First,
    /// End.
    Last,
}

/// How a page is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SortOrder {
    pub(super) column: usize,
    pub(super) reversed: bool,
}

/// What is shown of what is known.
#[derive(Clone, Debug)]
pub struct TopView {
    /// The page; another one where there is none about the kinds of service that are looked at.
    pub page: TopPage,
    /// Whether colours may be used.
    pub color: bool,
    /// Whether the moment stays.
    pub paused: bool,
    /// Whether the list of keys is shown.
    pub help: bool,
    /// The only instance that is shown; none: all of them.
    pub instance: Option<String>,
    /// Whether clients are shown by connection rather than by host.
    pub by_connection: bool,
    /// Which part of the columns is shown, where not all fit.
    pub(super) part: usize,
    /// The first line that is shown, of rows and what is said under them, where not all fit.
    pub(super) scroll: usize,
    sorted: BTreeMap<TopPage, SortOrder>,
}

impl TopView {
    /// A view of `page`, in the order that suits it.
    pub fn of(page: TopPage, color: bool) -> Self {
        Self {
            page,
            color,
            paused: false,
            help: false,
            instance: None,
            by_connection: false,
            part: 0,
            scroll: 0,
            sorted: BTreeMap::new(),
        }
    }

    /// The page that is shown.
    pub fn shown(&self, services: &[ServiceKind]) -> TopPage {
        let pages = TopPage::about(services);
        if pages.contains(&self.page) { self.page } else { pages[0] }
    }

    /// How the page is sorted; none: in the order that suits it.
    pub(super) fn order(&self, page: TopPage) -> Option<SortOrder> {
        self.sorted.get(&page).copied()
    }

    /// A key was pressed while these figures, with so many columns on their page, were shown.
    /// Whether to go on.
    pub fn press(&mut self, key: TopKey, figures: &TopFigures) -> bool {
        match key {
            TopKey::Quit => return false,
            TopKey::Help => self.help = !self.help,
            TopKey::Close => self.help = false,
            TopKey::Pause => self.paused = !self.paused,
            TopKey::Group => self.by_connection = !self.by_connection,
            // Drawing knows how many parts there are.
            TopKey::Columns => self.part += 1,
            TopKey::Sort => self.sort_by_next(figures),
            TopKey::Reverse => self.reverse(figures),
            TopKey::Instance => self.choose_next(figures),
            TopKey::NextPage => self.turn(1, figures),
            TopKey::PreviousPage => self.turn(-1, figures),
            TopKey::Page(number) => {
                let pages = TopPage::about(&figures.services);
                if let Some(page) = number.checked_sub(1).and_then(|place| pages.get(place)) {
                    self.open(*page);
                }
            }
            TopKey::Scroll(rows) => self.scroll = self.scroll.saturating_add_signed(rows),
            TopKey::First => self.scroll = 0,
            // Drawing finds the last line that can be the first.
            TopKey::Last => self.scroll = usize::MAX,
        }
        true
    }

    fn open(&mut self, page: TopPage) {
        if page != self.page {
            (self.page, self.scroll, self.part) = (page, 0, 0);
        }
    }

    /// So many pages on; behind the last one comes the first.
    fn turn(&mut self, by: isize, figures: &TopFigures) {
        let pages = TopPage::about(&figures.services);
        let shown = self.shown(&figures.services);
        let place = pages.iter().position(|page| *page == shown).unwrap_or(0) as isize;
        self.open(pages[(place + by).rem_euclid(pages.len() as isize) as usize]);
    }

    /// The next column, and behind the last one the order that suits the page.
    fn sort_by_next(&mut self, figures: &TopFigures) {
        let page = self.shown(&figures.services);
        let alone = self.instance.is_some() || figures.instances.len() < 2;
        let columns = pages::shown_columns(page, &figures.services, alone).len();
        let next = self.order(page).map_or(0, |order| order.column + 1);
        if next < columns {
            self.sorted.insert(page, SortOrder { column: next, reversed: false });
        } else {
            self.sorted.remove(&page);
        }
    }

    fn reverse(&mut self, figures: &TopFigures) {
        let page = self.shown(&figures.services);
        let order = self.sorted.entry(page).or_insert(SortOrder { column: 0, reversed: false });
        order.reversed = !order.reversed;
    }

    fn choose_next(&mut self, figures: &TopFigures) {
        let names: Vec<_> = figures.instances.iter().map(|one| &one.instance).collect();
        let next = match &self.instance {
            None => 0,
            Some(chosen) => names.iter().position(|name| *name == chosen).map_or(0, |place| place + 1),
        };
        self.instance = names.get(next).filter(|_| names.len() > 1).map(|name| (*name).clone());
        self.scroll = 0;
    }
}
