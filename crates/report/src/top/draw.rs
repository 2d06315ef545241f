//! The page in a buffer of any size: lines above, the table, the keys below.

use krarup_analysis::top::{ServiceKind, TopFigures, TopInstance, TopPoint, TopQueue, TopState, TopStore};
use krarup_model::headroom::{Headroom, HeadroomVerdict};
use krarup_units::text::{count, three_digits};
use krarup_units::{Seconds, Unit, lines};
use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Sparkline, Table, Tabs, Widget, Wrap};

use super::grid::{FittedColumn, GAP, RowTone, cut};
use super::page::TopPage;
use super::pages::{self, PageBody};
use super::view::TopView;
use crate::{headroom, text};

/// Where the text behind a keyword begins.
const INDENT: u16 = 11;
/// The widest sparkline: one point a second.
const POINTS: usize = 60;
/// The figure before a sparkline takes so many letters, and the one behind it.
const NOW_WIDTH: u16 = 11;
const HIGHEST_WIDTH: u16 = 25;
/// A buffer for text is so wide: every column fits.
const TEXT_WIDTH: u16 = 256;
/// Lines of text that are made at most.
const TEXT_HEIGHT: u16 = 2_000;

/// What a piece of text means, and so its style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Plain,
    Good,
    Warning,
    Bad,
    Strong,
    Faint,
}

impl Tone {
    /// Colours of the terminal's own sixteen that stand out on light and on dark ground; without
    /// colours the weight alone.
    fn style(self, color: bool) -> Style {
        let colored = |color_of: Color, style: Style| if color { style.fg(color_of) } else { style };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match self {
            Self::Plain => Style::new(),
            Self::Good => colored(Color::Green, Style::new()),
            Self::Warning => colored(Color::Magenta, bold),
            Self::Bad => colored(Color::Red, bold),
            Self::Strong => bold,
            Self::Faint => Style::new().add_modifier(Modifier::DIM),
        }
    }
}

/// A line above the table: its keyword, the text, and what it means.
pub(super) struct HeadLine {
    keyword: &'static str,
    pub(super) text: String,
    tone: Tone,
}

/// A row of figures with its course.
struct CourseLine {
    keyword: &'static str,
    now: String,
    highest: String,
    points: Vec<Option<u64>>,
}

/// Lines that are still free, from the top.
struct Lines {
    left: Rect,
}

impl Lines {
    /// The next one; none: there is no room.
    fn next(&mut self) -> Option<Rect> {
        let line = Rect { height: self.left.height.min(1), ..self.left };
        self.left =
            Rect { y: self.left.y + line.height, height: self.left.height - line.height, ..self.left };
        (line.height > 0).then_some(line)
    }
}

/// Draws what is known at `now` into `area`; nothing is written outside of it. How far the view is
/// scrolled is brought to what there is.
pub fn draw(area: Rect, buffer: &mut Buffer, state: &TopState, now: Seconds, view: &mut TopView) {
    let area = area.intersection(buffer.area);
    if area.is_empty() {
        return;
    }
    // One that a name stands for no more cannot be shown alone.
    view.instance = view.instance.take().filter(|only| state.instances().any(|name| name == only));
    let mut figures = state.figures(now, view.instance.as_deref());
    let page = view.shown(&figures.services);
    let mut lines = Lines { left: area };
    let high = area.height;
    let title = lines.next();
    title.into_iter().for_each(|line| draw_title(line, buffer, &figures, view));
    leave_out_others(&mut figures, view);
    for said in head(&figures, high) {
        lines.next().into_iter().for_each(|line| draw_head_line(line, buffer, &said, view.color));
    }
    if high >= 12 {
        for course in courses(state, now, &figures, (view.instance.as_deref(), area.width)) {
            lines.next().into_iter().for_each(|line| draw_course(line, buffer, &course));
        }
    }
    if high >= 5 {
        lines.next().into_iter().for_each(|line| draw_tabs(line, buffer, &figures, page));
    }
    let mut rest = lines.left;
    let foot = (high >= 8).then(|| {
        rest.height -= 1;
        Rect { y: rest.bottom(), height: 1, ..rest }
    });
    let mut body = pages::body(&figures, page, view.by_connection);
    if let Some(order) = view.order(page) {
        body.grid.sort(order.column, order.reversed);
    }
    let left_out = draw_body(rest, buffer, &body, page, view);
    if let Some(foot) = foot {
        draw_keys(foot, buffer, left_out.len());
    }
    if view.help {
        draw_help(area, buffer, (page, &figures.services), &left_out);
    }
}

/// The same as lines of text, with every column and row; only letters of ASCII where `ascii` asks
/// for that.
pub fn text(state: &TopState, now: Seconds, view: &mut TopView, ascii: bool) -> String {
    let mut figures = state.figures(now, view.instance.as_deref());
    let page = view.shown(&figures.services);
    let mut area = Rect::new(0, 0, TEXT_WIDTH, TEXT_HEIGHT);
    let mut buffer = Buffer::empty(area);
    let mut lines = Lines { left: area };
    lines.next().into_iter().for_each(|line| draw_title(line, &mut buffer, &figures, view));
    leave_out_others(&mut figures, view);
    let mut body = pages::body(&figures, page, view.by_connection);
    if let Some(order) = view.order(page) {
        body.grid.sort(order.column, order.reversed);
    }
    let said = head(&figures, u16::MAX).into_iter().chain(rates(&figures));
    for said in said.filter(|said| !(page == TopPage::Headroom && said.keyword == "headroom")) {
        lines.next().into_iter().for_each(|line| draw_head_line(line, &mut buffer, &said, false));
    }
    lines.next();
    area = lines.left;
    draw_body(area, &mut buffer, &body, page, view);
    let mut out: Vec<String> = buffer
        .content
        .chunks(usize::from(TEXT_WIDTH))
        .map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned())
        .collect();
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    let out = out.join("\n") + "\n";
    if ascii { text::ascii(&out) } else { out }
}

/// Where one instance is shown alone, the title alone speaks of the others.
fn leave_out_others(figures: &mut TopFigures, view: &TopView) {
    if let Some(only) = &view.instance {
        figures.instances.retain(|one| one.instance == *only);
    }
}

// ---- above the table --------------------------------------------------------------------------

fn draw_title(area: Rect, buffer: &mut Buffer, figures: &TopFigures, view: &TopView) {
    let answering: Vec<_> = figures.instances.iter().filter(|one| one.lost.is_none()).collect();
    let names: Vec<_> = figures.services.iter().map(|kind| kind.name()).collect();
    let program = if names.is_empty() { "krarup".into() } else { format!("krarup {}", names.join(" and ")) };
    let title = match (&view.instance, figures.instances.as_slice()) {
        (None, [one]) => match (&one.lost, one.uptime_s) {
            (None, Some(up)) => format!("{program} at {}, up {}", one.instance, age(up)),
            _ => format!("{program} at {}", one.instance),
        },
        (None, all) => {
            format!("{program}: {} of {} instances answer", answering.len(), all.len())
        }
        (Some(only), all) => format!("{only}, one of {} instances", all.len()),
    };
    let used = figures.totals.map(|totals| {
        format!(": {} clients, {} processors", count(totals.clients), three_digits(totals.processors))
    });
    const PAUSED: &str = " paused ";
    let taken = title.chars().count() + if view.paused { PAUSED.len() + 2 } else { 0 };
    let room = usize::from(area.width).saturating_sub(taken);
    let mut spans = vec![Span::styled(title, Tone::Strong.style(view.color))];
    spans.extend(used.filter(|used| used.len() <= room).map(Span::raw));
    if view.paused {
        spans.push(Span::raw("  "));
        spans.push(Span::styled(PAUSED, Style::new().add_modifier(Modifier::REVERSED)));
    }
    Line::from(spans).render(area, buffer);
}

/// What stands above the table in words, as far as a page of so many lines has room for it.
fn head(figures: &TopFigures, high: u16) -> Vec<HeadLine> {
    let lost = figures.instances.iter().find(|one| one.lost.is_some()).map(|one| HeadLine {
        keyword: "no answer",
        text: format!(
            "{} for {}: {}; it is asked again until it answers",
            one.instance,
            age(one.lost_s.unwrap_or(0.0)),
            one.lost.as_deref().unwrap_or_default(),
        ),
        tone: Tone::Bad,
    });
    let mut lines: Vec<HeadLine> = lost.into_iter().collect();
    let answers = |kind: ServiceKind| {
        figures.instances.iter().any(|one| one.service == Some(kind) && one.lost.is_none())
    };
    if high >= 4 && figures.instances.iter().any(|one| one.service.is_some() && one.lost.is_none()) {
        lines.push(headroom_line(figures));
    }
    if high >= 4 && answers(ServiceKind::Broker) {
        lines.push(workers_line(figures));
    }
    if high >= 14 {
        let counting = |kind: ServiceKind| {
            let of_kind = figures.instances.iter().filter(|one| one.service == Some(kind));
            of_kind.filter(|one| one.totals.is_some()).count()
        };
        lines.extend(figures.queue.as_ref().map(|queue| queue_line(queue, counting(ServiceKind::Proxy))));
        let store = |store: &TopStore| store_lines(store, counting(ServiceKind::Broker));
        lines.extend(figures.store.as_ref().into_iter().flat_map(store));
    } else if (6..12).contains(&high) {
        lines.extend(rates(figures));
    }
    lines
}

fn headroom_line(figures: &TopFigures) -> HeadLine {
    let keyword = "headroom";
    let ratio = |says: &Headroom| says.headroom_ratio.map_or(f64::INFINITY, |ratio| ratio.mean);
    let concluded =
        |says: &&Headroom| says.verdict != HeadroomVerdict::Silent || says.broken_now == Some(true);
    let all = || figures.headroom.iter().map(|said| &said.says);
    // What is broken now comes first, whatever else is concluded of it.
    let holds = |says: &Headroom| says.broken_now != Some(true);
    // Without traffic there is no ratio, and the lowest capacity comes first.
    let capacity = |says: &Headroom| says.capacity_per_s.map_or(f64::INFINITY, |capacity| capacity.mean);
    let least = all().filter(concluded).min_by(|a, b| {
        let by_ratio = ratio(a).total_cmp(&ratio(b));
        holds(a).cmp(&holds(b)).then(by_ratio).then(capacity(a).total_cmp(&capacity(b)))
    });
    let Some(says) = least else {
        let why = all().next().map(|says| says.silent.first().map_or("", |reason| reason.text()));
        let text = match why {
            Some(why) => format!("no conclusion: {}", why.replacen(": ", "; ", 1)),
            None => "no answer yet".to_owned(),
        };
        return HeadLine { keyword, text, tone: Tone::Plain };
    };
    let answers = |one: &&TopInstance| one.service.is_some() && one.lost.is_none();
    let (known, asked) = (all().filter(concluded).count(), figures.instances.iter().filter(answers).count());
    let compared = known > 1 && says.headroom_ratio.is_some();
    let is_least = compared && all().filter(concluded).all(|other| ratio(says) <= ratio(other));
    let of = if is_least { format!(", the least of {known}") } else { String::new() };
    let unknown = asked.saturating_sub(known);
    let unknown = (unknown > 0).then(|| format!("no conclusion from {unknown} of {asked} instances"));
    let broken = says.broken_now == Some(true);
    let target = says.target.map_or("the first resource is full".to_owned(), |target| target.to_string());
    // Without traffic there is no such ratio.
    let times = says.headroom_ratio.map(|ratio| format!("{} × now, ", three_digits(ratio.mean)));
    let times = times.unwrap_or_default();
    let capacity = says.capacity_per_s.filter(|_| says.verdict != HeadroomVerdict::Silent).map(|capacity| {
        format!(
            "{} ({}), {times}{}{of}: {target} {}",
            headroom::rate(capacity.mean),
            headroom::range(capacity),
            headroom::word(says.verdict),
            if says.target.is_some() { "holds up to there" } else { "there" },
        )
    });
    let first = says.bottleneck.as_ref().map(|first| format!("first full: {}", headroom::of_limit(first)));
    let broken_text = broken.then(|| format!("{target} is broken now"));
    let parts: Vec<_> = broken_text.into_iter().chain(capacity).chain(first).chain(unknown).collect();
    let tone = match (broken, says.verdict) {
        (true, _) => Tone::Bad,
        (false, HeadroomVerdict::Proven | HeadroomVerdict::Stated) => Tone::Good,
        (false, HeadroomVerdict::Projected) => Tone::Warning,
        (false, HeadroomVerdict::Silent) => Tone::Plain,
    };
    HeadLine { keyword, text: parts.join("; "), tone }
}

/// The tube that lacks most workers, or has fewest more than it needs.
fn workers_line(figures: &TopFigures) -> HeadLine {
    let keyword = "workers";
    let known = figures.tubes.iter().filter_map(|tube| Some((tube, tube.workers.as_ref()?)));
    let more =
        known.map(|(tube, needed)| (tube.reserved + tube.consumers_waiting - needed.mean, tube, needed));
    let Some((_, tube, needed)) = more.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        let why = figures.tubes.iter().find_map(|tube| tube.silent.as_deref()).unwrap_or("no messages yet");
        let text = format!("no conclusion about any tube: {}", why.replace('_', " "));
        return HeadLine { keyword, text, tone: Tone::Plain };
    };
    let consumers = tube.reserved + tube.consumers_waiting;
    let text = format!(
        "tube {} has {} and needs {} ({} – {}) for {}",
        tube.tube,
        count(consumers),
        count(needed.mean),
        count(needed.low),
        count(needed.high),
        needed.target,
    );
    let tone = if consumers < needed.low { Tone::Bad } else { Tone::Good };
    HeadLine { keyword, text, tone }
}

/// What so many proxies count; a server of several of them counts once for each.
pub(super) fn queue_line(queue: &TopQueue, instances: usize) -> HeadLine {
    let parts = [
        format!("{} wait", count(queue.waiting)),
        match queue.workers {
            Some(workers) => format!("{} of {} workers busy", count(queue.busy_workers), count(workers)),
            None => format!("{} under way, no limit", count(queue.busy_workers)),
        },
        format!(
            "{} of {} servers up{}",
            count(queue.servers_up),
            count(queue.servers),
            if instances > 1 { format!(", seen from {instances} instances") } else { String::new() }
        ),
    ];
    let tone = if queue.servers_up < queue.servers { Tone::Warning } else { Tone::Plain };
    HeadLine { keyword: "queue", text: parts.join("; "), tone }
}

/// What so many brokers count.
fn store_lines(store: &TopStore, instances: usize) -> [HeadLine; 2] {
    let TopStore { ready, reserved, delayed, buried, .. } = *store;
    let states = [(ready, "ready"), (reserved, "reserved"), (delayed, "delayed"), (buried, "buried")];
    let known = states.iter().filter_map(|(of, state)| Some(format!("{} {state}", count((*of)?))));
    let known: Vec<_> = known.collect();
    let messages = format!(
        "{} in {} tubes; {} clients wait for one",
        if known.is_empty() { "not told by the database,".to_owned() } else { known.join(", ") },
        count(store.tubes),
        count(store.clients_waiting),
    );
    let each = store.requests_per_commit.map(|each| format!(", {} requests each", three_digits(each)));
    let is_out = store.at_fault > 0.0;
    let out = is_out.then(|| {
        let of = match instances {
            0 | 1 => String::new(),
            all => format!(" for {} of {all} brokers", count(store.at_fault)),
        };
        format!(
            "is at fault{of}: it cannot be reached, does not answer, or refuses a write, a read or a sweep; "
        )
    });
    let with_store = format!(
        "{}{} wait, {} are with it over {} connections; {} commits/s{}",
        out.unwrap_or_default(),
        count(store.queue_length),
        count(store.requests),
        count(store.connections_busy),
        count(store.commits_per_s),
        each.unwrap_or_default(),
    );
    let tone = if is_out { Tone::Bad } else { Tone::Plain };
    [
        HeadLine { keyword: "messages", text: messages, tone: Tone::Plain },
        HeadLine { keyword: "store", text: with_store, tone },
    ]
}

/// Throughput and times of now, where there is no room for their courses.
fn rates(figures: &TopFigures) -> Option<HeadLine> {
    let totals = figures.totals?;
    let time = |time: Option<Seconds>| time.map_or("–".to_owned(), milliseconds);
    let text = format!(
        "{}, {} errors; p50 {}, p99 {}",
        Unit::PerSecond.show(totals.throughput_per_s),
        Unit::PerSecond.show(totals.errors_per_s),
        time(totals.p50_s),
        time(totals.p99_s),
    );
    Some(HeadLine { keyword: "now", text, tone: Tone::Plain })
}

/// Always the same unit.
fn milliseconds(seconds: Seconds) -> String {
    format!("{} ms", Unit::Seconds.scale(1e-3).show(seconds))
}

fn draw_head_line(area: Rect, buffer: &mut Buffer, said: &HeadLine, color: bool) {
    let (keyword, behind) = divided(area);
    Line::styled(said.keyword, Tone::Faint.style(color)).render(keyword, buffer);
    let shown = shortened(&said.text, usize::from(behind.width));
    Line::styled(shown, said.tone.style(color)).render(behind, buffer);
}

/// The text in so many letters: its first clauses where they fill half of them, else its beginning.
fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let clauses = text.match_indices("; ").map(|(end, _)| &text[..end]);
    let fitting = clauses.filter(|first| (letters / 2..=letters).contains(&first.chars().count())).last();
    fitting.map_or_else(|| cut(text, letters), str::to_owned)
}

/// A line with its keyword, and what stands behind it.
fn divided(area: Rect) -> (Rect, Rect) {
    let indent = INDENT.min(area.width);
    let behind = Rect { x: area.x + indent, width: area.width - indent, ..area };
    (Rect { width: indent.saturating_sub(1), ..area }, behind)
}

/// Throughput and p99 with their last minute, of all instances or of `only` one.
fn courses(
    state: &TopState,
    now: Seconds,
    figures: &TopFigures,
    (only, width): (Option<&str>, u16),
) -> [CourseLine; 2] {
    let points = usize::from(width.saturating_sub(INDENT + NOW_WIDTH + 1 + HIGHEST_WIDTH)).min(POINTS);
    let course = state.course(now, points, only);
    // Bars may be means of several seconds; the highest is that of a second.
    let seconds = state.course(now, POINTS, only);
    let totals = figures.totals;
    let rate = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| Unit::PerSecond.show(rate));
    let time = |time: Option<Seconds>| time.map_or("–".to_owned(), milliseconds);
    let line = |keyword,
                now: Option<f64>,
                of: fn(&TopPoint) -> Option<f64>,
                show: &dyn Fn(Option<f64>) -> String| {
        let highest = course.iter().filter_map(of).reduce(f64::max);
        CourseLine {
            keyword,
            now: show(now),
            highest: format!("60 s, highest {}", show(seconds.iter().filter_map(of).reduce(f64::max))),
            // A sparkline takes whole numbers; what is not zero has the lowest bar at least.
            points: course.iter().map(of).map(|value| Some((bar(value?, highest) * 1e6) as u64)).collect(),
        }
    };
    [
        line("throughput", totals.map(|now| now.throughput_per_s), |point| point.throughput_per_s, &rate),
        line("p99", totals.and_then(|now| now.p99_s), |point| point.p99_s, &time),
    ]
}

/// How high a bar is: a value, and an eighth of the highest one where it is less and not zero.
fn bar(value: f64, highest: Option<f64>) -> f64 {
    let least = highest.unwrap_or(0.0) / 8.0 + 1e-6;
    if value > 0.0 { value.max(least) } else { 0.0 }
}

fn draw_course(area: Rect, buffer: &mut Buffer, course: &CourseLine) {
    let (keyword, behind) = divided(area);
    Line::styled(course.keyword, Tone::Faint.style(false)).render(keyword, buffer);
    let width = course.points.len() as u16;
    let now = if width == 0 { format!("{}, {}", course.now, course.highest) } else { course.now.clone() };
    let now_width = if width == 0 { behind.width } else { NOW_WIDTH.min(behind.width) };
    Line::styled(cut(&now, usize::from(now_width)), Tone::Strong.style(false))
        .render(Rect { width: now_width, ..behind }, buffer);
    if width == 0 {
        return;
    }
    let bars = Rect { x: behind.x + now_width + 1, width, ..behind }.intersection(behind);
    Sparkline::default().data(course.points.iter().copied()).absent_value_symbol("·").render(bars, buffer);
    let right =
        Rect { x: bars.right() + 1, width: behind.right().saturating_sub(bars.right() + 1), ..behind };
    Line::styled(cut(&course.highest, usize::from(right.width)), Tone::Faint.style(false))
        .render(right.intersection(behind), buffer);
}

fn draw_tabs(area: Rect, buffer: &mut Buffer, figures: &TopFigures, page: TopPage) {
    let pages = TopPage::about(&figures.services);
    let chosen = pages.iter().position(|one| *one == page).unwrap_or(0);
    // Where there is no room for all titles, the others are numbers: help says of which pages.
    let titles = |all: bool| -> Vec<String> {
        let title = |(place, page): (usize, &TopPage)| match (page.title(), place + 1) {
            (title, number) if place == chosen => format!(" {number} {title} "),
            (title, number) if all => format!(" {number} {title}"),
            (_, number) => format!(" {number}"),
        };
        pages.iter().enumerate().map(title).collect()
    };
    let letters = |titles: &[String]| titles.iter().map(String::len).sum::<usize>();
    let shown = Some(titles(true)).filter(|titles| letters(titles) <= usize::from(area.width));
    let shown = shown.unwrap_or_else(|| titles(false));
    Tabs::new(shown)
        .select(chosen)
        .style(Style::new())
        .highlight_style(Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD))
        .padding("", "")
        .divider("")
        .render(area, buffer);
}

// ---- the table --------------------------------------------------------------------------------

/// Draws it; the headings for which there was no room.
fn draw_body(
    area: Rect,
    buffer: &mut Buffer,
    body: &PageBody,
    page: TopPage,
    view: &mut TopView,
) -> Vec<&'static str> {
    if area.is_empty() {
        return Vec::new();
    }
    let sorted = view.order(page).map(|order| (order.column, order.reversed));
    let mut parts = body.grid.parts(usize::from(area.width), sorted);
    view.part %= parts.len();
    let columns = parts.swap_remove(view.part);
    let rows = body.grid.rows.len();
    let heading = match area.height {
        0..4 => 0,
        4..7 => 1,
        _ => 2,
    };
    let heading = if rows == 0 { 0 } else { heading };
    let room = usize::from(area.height - heading);
    let notes = note_lines(&body.notes, rows > 0, area.width);
    let last = (rows + notes.len()).saturating_sub(room);
    view.scroll = view.scroll.min(last);
    let shown = rows.saturating_sub(view.scroll).min(room) as u16;
    if heading + shown > 0 {
        let table = Rect { height: heading + shown, ..area };
        draw_table(table, buffer, body, &columns, (view.scroll, heading), view.color);
    }
    let used = heading + shown;
    let rest = Rect { y: area.y + used, height: area.height - used, ..area };
    draw_notes(rest, buffer, &notes[view.scroll.saturating_sub(rows)..]);
    if view.scroll < last && area.height >= 7 {
        // The last line says that there is more.
        let line = Rect { y: area.bottom() - 1, height: 1, ..area };
        Clear.render(line, buffer);
        let more = last - view.scroll + 1;
        Line::styled(format!("↓ {more} more"), Tone::Faint.style(view.color)).render(line, buffer);
    }
    let shows = |index: usize| columns.iter().any(|column| column.index == index);
    let left_out = body.grid.columns.iter().enumerate().filter(|(index, _)| rows > 0 && !shows(*index));
    left_out.map(|(_, column)| column.heading).collect()
}

fn draw_table(
    area: Rect,
    buffer: &mut Buffer,
    body: &PageBody,
    columns: &[FittedColumn],
    (first, heading): (usize, u16),
    color: bool,
) {
    let aligned = |column: &FittedColumn| if column.is_text { Alignment::Left } else { Alignment::Right };
    let head = columns.iter().map(|column| {
        let lines = [column.heading.as_str(), column.symbol].map(str::to_owned).map(Line::from);
        Cell::from(Text::from(lines.to_vec()).alignment(aligned(column)))
    });
    let row = |number: usize| {
        let cells = columns.iter().map(|column| {
            let text = column.cells.get(number).map_or("", String::as_str);
            Cell::from(Text::from(text.to_owned()).alignment(aligned(column)))
        });
        let tone = match body.grid.rows[number].tone {
            RowTone::Plain => Tone::Plain,
            RowTone::Warning => Tone::Warning,
            RowTone::Bad => Tone::Bad,
        };
        Row::new(cells).style(tone.style(color))
    };
    let widths = columns.iter().map(|column| Constraint::Length(column.width as u16));
    let mut table = Table::new((first..body.grid.rows.len()).map(row), widths).column_spacing(GAP as u16);
    if heading > 0 {
        table = table.header(Row::new(head).height(heading).style(Tone::Strong.style(color)));
    }
    Widget::render(table, area, buffer);
}

/// What is said under the table in lines so wide, after a blank one where there are rows: what
/// stands in the place of the keyword, none where the text has that place too, and the text.
fn note_lines(notes: &[(String, String)], under_rows: bool, width: u16) -> Vec<(Option<&str>, String)> {
    let blank = (under_rows && !notes.is_empty()).then(|| (None, String::new()));
    let mut lines: Vec<(Option<&str>, String)> = blank.into_iter().collect();
    for (keyword, said) in notes {
        let indent = if keyword.is_empty() { 0 } else { INDENT };
        let text = wrapped_lines(said, usize::from(width.saturating_sub(indent)));
        let keyword_of = |line: usize| (indent > 0).then_some(if line == 0 { keyword.as_str() } else { "" });
        lines.extend(text.into_iter().enumerate().map(|(line, text)| (keyword_of(line), text)));
    }
    lines
}

fn draw_notes(area: Rect, buffer: &mut Buffer, notes: &[(Option<&str>, String)]) {
    let mut left = Lines { left: area };
    for (keyword, said) in notes {
        let Some(line) = left.next() else { return };
        let (place, behind) = if keyword.is_some() { divided(line) } else { (Rect::ZERO, line) };
        let keyword = keyword.unwrap_or_default();
        Line::styled(keyword, Tone::Faint.style(false)).render(place, buffer);
        Line::from(said.as_str()).render(behind, buffer);
    }
}

/// The text in lines of at most so many letters; a longer word is cut.
fn wrapped_lines(text: &str, width: usize) -> Vec<String> {
    lines::wrapped(text, ("", ""), width).split('\n').map(|line| cut(line, width)).collect()
}

// ---- keys -------------------------------------------------------------------------------------

/// The key of the columns that are left out.
const COLUMNS: &str = "c";

const KEYS: [(&str, &str, &str); 10] = [
    ("q", "quit", "end; Ctrl-C too"),
    ("?", "help", "this list, and away with it"),
    ("←→", "page", "the page before, or the next; Tab too, or its number"),
    ("↑↓", "scroll", "a line; Page Up and Page Down, Home and End"),
    ("s", "sort", "by the next column: numbers from the largest; after the last column as at first"),
    ("r", "reverse", "the other way round"),
    ("space", "pause", "this moment stays, until space once more"),
    (COLUMNS, "columns", "those that are left out here; then these again"),
    ("i", "instance", "each instance alone, then all together"),
    ("g", "group", "clients by host, or each connection"),
];

/// The keys, and first of all how many columns are left out.
fn draw_keys(area: Rect, buffer: &mut Buffer, left_out: usize) {
    let mut spans = Vec::new();
    let mut width = 0;
    let others = KEYS.iter().filter(|(key, _, _)| *key != COLUMNS);
    let keys = others.map(|(key, word, _)| (*key, (*word).to_owned()));
    let more = match left_out {
        0 => None,
        1 => Some((COLUMNS, "1 column more".to_owned())),
        _ => Some((COLUMNS, format!("{left_out} columns more"))),
    };
    for (key, word) in more.into_iter().chain(keys) {
        width += key.chars().count() + word.len() + 3;
        if width > usize::from(area.width) + 2 {
            break;
        }
        spans.push(Span::styled(key, Tone::Strong.style(false)));
        spans.push(Span::styled(format!(" {word}  "), Tone::Faint.style(false)));
    }
    Line::from(spans).render(area, buffer);
}

fn draw_help(
    area: Rect,
    buffer: &mut Buffer,
    (page, services): (TopPage, &[ServiceKind]),
    left_out: &[&str],
) {
    let inner_width = area.width.saturating_sub(4).min(86);
    let behind = usize::from(inner_width.saturating_sub(8));
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (key, _, what) in &KEYS {
        for (number, line) in wrapped_lines(what, behind).into_iter().enumerate() {
            let key = if number == 0 { *key } else { "" };
            lines.push(Line::from(vec![
                Span::styled(format!("{key:<8}"), Tone::Strong.style(false)),
                Span::raw(line),
            ]));
        }
    }
    lines.push(Line::default());
    let pages = TopPage::about(services).into_iter().enumerate();
    let pages: Vec<_> = pages.map(|(place, page)| format!("{} {}", place + 1, page.title())).collect();
    let mut paragraphs = vec![format!("pages: {}", pages.join(", ")), pages::legend(page).to_owned()];
    if !left_out.is_empty() {
        let columns = left_out.join(", ");
        paragraphs.push(format!("not shown here: {columns}; {COLUMNS} shows them, or a wider terminal"));
    }
    let paragraphs = paragraphs.iter().flat_map(|said| wrapped_lines(said, usize::from(inner_width)));
    lines.extend(paragraphs.map(Line::from));
    let height = (lines.len() as u16 + 2).min(area.height);
    let width = (inner_width + 4).min(area.width);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(place, buffer);
    let block = Block::bordered().title(format!(" keys, and the columns of {} ", page.title()));
    let inside = block.inner(place);
    block.render(place, buffer);
    let inside = Rect { x: inside.x + inside.width.min(1), width: inside.width.saturating_sub(2), ..inside };
    Paragraph::new(lines).wrap(Wrap { trim: false }).render(inside, buffer);
}

/// How long something lasts, in its two largest units.
fn age(seconds: Seconds) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let whole = seconds.max(0.0) as u64;
    if whole < 60 {
        return format!("{whole} s");
    }
    let first = UNITS.iter().position(|(length, _)| whole >= *length).unwrap_or(3);
    let (length, unit) = UNITS[first];
    let (smaller, small_unit) = UNITS[(first + 1).min(3)];
    format!("{} {unit} {} {small_unit}", whole / length, whole % length / smaller)
}
