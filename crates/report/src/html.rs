//! A document as one page that needs nothing else: style, script, data and downloads are inside.
//!
//! The same document gives the same bytes. Every text is escaped; a policy in the page forbids it
//! the network. The body is also well-formed XML, so that a strict parser can check it. Without a
//! script the page reads the same, and each figure is its table of data.

use std::fmt::Write;

use krarup_record::quantities::QuantityDefinition;
use krarup_units::Unit;

use crate::chart::Chart;
use crate::csv;
use crate::document::{
    Block, Column, Document, Finding, Note, NoteLevel, Section, Table, TableValue, VerdictLine,
};
use crate::figures::{Figure, Plot};

const UPLOT_SCRIPT: &str = include_str!("../assets/vendor/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/vendor/uplot/uPlot.min.css");
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPTS: [&str; 4] = [
    include_str!("../assets/numbers.js"),
    include_str!("../assets/marks.js"),
    include_str!("../assets/charts.js"),
    include_str!("../assets/page.js"),
];

/// Sharp lines on paper and on any screen: the charts draw at least two dots for each pixel of the
/// page.
const SHARPER: &str = "(() => {\n\
    const dots = Object.getOwnPropertyDescriptor(window, 'devicePixelRatio')?.get;\n\
    if (dots) Object.defineProperty(window, 'devicePixelRatio', { get: () => Math.max(2, dots.call(window)) });\n\
    })();\n";

/// The whole page.
pub fn page(document: &Document) -> String {
    let mut out = String::with_capacity(256 * 1024);
    out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
    // Nothing may be fetched from anywhere: the page is the whole report.
    out.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\"/>\n",
    );
    out.push_str("<meta name=\"color-scheme\" content=\"light dark\"/>\n");
    element(&mut out, "title", &document.title);
    let _ = write!(out, "<style>{UPLOT_STYLE}\n{STYLE}</style>\n</head>\n");
    out.push_str(&body(document));
    out.push_str("<script>");
    out.push_str(SHARPER);
    out.push_str("</script>\n<script>");
    out.push_str(UPLOT_SCRIPT);
    out.push_str("</script>\n<script>\n\"use strict\";\n");
    for script in SCRIPTS {
        out.push_str(script);
    }
    out.push_str("</script>\n</html>\n");
    out
}

/// The page's body, without style and script: what the document itself says.
pub fn body(document: &Document) -> String {
    let mut out = String::from("<body>\n<header class=\"top\">\n");
    out.push_str(MARK);
    element(&mut out, "h1", &document.title);
    let _ = writeln!(out, "<p class=\"subtitle\">{}</p>", escape(&document.subtitle));
    out.push_str("<button type=\"button\" id=\"scheme\" hidden=\"hidden\">Dark</button>\n</header>\n");
    out.push_str("<div class=\"columns\">\n");
    contents(&mut out, document);
    out.push_str("<main>\n");
    summary(&mut out, document);
    let few = document.sections.len() <= FEW;
    for (number, part) in document.sections.iter().enumerate() {
        section(&mut out, number + 1, part, few || number < OPEN);
    }
    glossary(&mut out, &document.glossary());
    let _ = write!(out, "</main>\n</div>\n<footer>{}</footer>\n</body>\n", escape(&document.footer));
    out
}

/// With no more sections than this, all of them are open.
const FEW: usize = 3;
/// So many sections are open where there are more; the others unfold at a click, in print, and
/// where a link leads into them.
const OPEN: usize = 2;

/// The sections and what stands in them: beside the page where there is room.
fn contents(out: &mut String, document: &Document) {
    if document.sections.len() < 2 {
        return;
    }
    out.push_str("<nav aria-label=\"Contents\">\n<ul>\n");
    for (number, section) in document.sections.iter().enumerate() {
        let _ = write!(out, "<li><a href=\"#section-{}\">{}</a>", number + 1, escape(&section.title));
        let parts: Vec<String> = section.blocks.iter().filter_map(entry).collect();
        if !parts.is_empty() {
            let _ = write!(out, "\n<ul>{}</ul>", parts.concat());
        }
        out.push_str("</li>\n");
    }
    if !document.glossary().is_empty() {
        out.push_str("<li><a href=\"#definitions\">Definitions</a></li>\n");
    }
    out.push_str("</ul>\n</nav>\n");
}

/// A table or a figure in the contents.
fn entry(block: &Block) -> Option<String> {
    let (kind, name, title) = match block {
        Block::Table(table) | Block::InWords(table, _) | Block::Sliders(table, _) => {
            ("table", &table.name, &table.title)
        }
        Block::Figure(figure) => ("figure", &figure.name, &figure.title),
        _ => return None,
    };
    Some(format!("<li><a href=\"#{kind}-{}\">{}</a></li>", escape(name), escape(title)))
}

/// Three waiting lines of different length before their servers.
const MARK: &str = "<svg class=\"mark\" viewBox=\"0 0 32 32\" aria-hidden=\"true\">\
    <path d=\"M2 8h9M2 16h15M2 24h5\"/><circle cx=\"26\" cy=\"8\" r=\"4\"/><circle cx=\"26\" cy=\"16\" r=\"4\"/>\
    <circle cx=\"26\" cy=\"24\" r=\"4\"/></svg>\n";

/// Text as it may stand in an element or in a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            // No control character is allowed in a page; what a server sent may hold some.
            control if control.is_control() => out.push('\u{FFFD}'),
            '\u{FFFE}' | '\u{FFFF}' => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    out
}

/// Running text: a percent sign stays on the line of its number.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{A0}%")
}

fn element(out: &mut String, tag: &str, text: &str) {
    let _ = writeln!(out, "<{tag}>{}</{tag}>", escape(text));
}

fn summary(out: &mut String, document: &Document) {
    out.push_str("<section class=\"summary\" aria-label=\"Summary\">\n");
    notes(out, &document.notes);
    verdicts(out, &document.summary);
    if !document.facts.is_empty() {
        out.push_str("<ul class=\"facts\">\n");
        for fact in &document.facts {
            let _ = writeln!(
                out,
                "<li><span class=\"label\">{}</span> <strong>{}</strong> <span class=\"detail\">{}</span></li>",
                escape(&fact.label),
                escape(&fact.value),
                escape(&fact.detail)
            );
        }
        out.push_str("</ul>\n");
    }
    let (lines, words): (Vec<&Finding>, Vec<&Finding>) =
        document.summary.iter().partition(|finding| finding.line.is_some());
    findings(out, &words);
    if !lines.is_empty() {
        out.push_str("<details class=\"evidence\"><summary>The evidence, in words</summary>\n");
        findings(out, &lines);
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

/// So many verdicts stand open; the others fold.
const OPEN_VERDICTS: usize = 12;

/// One line for each verdict.
fn verdicts(out: &mut String, findings: &[Finding]) {
    let lines: Vec<(&String, &VerdictLine)> =
        findings.iter().filter_map(|one| Some((&one.about, one.line.as_ref()?))).collect();
    let (open, folded) = lines.split_at(lines.len().min(OPEN_VERDICTS));
    if !open.is_empty() {
        verdict_table(out, open);
    }
    if !folded.is_empty() {
        let _ =
            writeln!(out, "<details class=\"evidence\"><summary>{} more workloads</summary>", folded.len());
        verdict_table(out, folded);
        out.push_str("</details>\n");
    }
}

fn verdict_table(out: &mut String, lines: &[(&String, &VerdictLine)]) {
    out.push_str(
        "<div class=\"scroll\"><table class=\"verdicts\">\n<thead><tr><th scope=\"col\">workload</th>\
         <th scope=\"col\">most throughput</th><th scope=\"col\">limit</th><th scope=\"col\">what to do next</th></tr></thead>\n<tbody>\n",
    );
    for &(about, line) in lines {
        let (about, figure, load) = (escape(about), prose(&line.figure), prose(&line.load));
        let (verdict, cause, next) = (escape(&line.verdict), prose(&line.cause), prose(&line.next));
        let _ = writeln!(
            out,
            "<tr><td>{about}</td><td><b class=\"figure\">{figure}</b> <small>{load}</small></td>\
             <td><strong>{verdict}</strong> <small>{cause}</small></td><td>{next}</td></tr>"
        );
    }
    out.push_str("</tbody></table></div>\n");
}

/// Findings in sentences.
fn findings(out: &mut String, findings: &[&Finding]) {
    if findings.is_empty() {
        return;
    }
    out.push_str("<div class=\"findings\">\n");
    for finding in findings {
        let (about, text) = (escape(&finding.about), prose(&finding.text));
        let _ = writeln!(out, "<p><strong>{about}</strong> {text}</p>");
    }
    out.push_str("</div>\n");
}

fn section(out: &mut String, number: usize, section: &Section, open: bool) {
    let open = if open { " open=\"open\"" } else { "" };
    let title = escape(&section.title);
    let _ = writeln!(
        out,
        "<section id=\"section-{number}\">\n<details class=\"section\"{open}><summary><h2>{title}</h2></summary>"
    );
    for block in &section.blocks {
        match block {
            Block::Paragraph(text) => {
                let _ = writeln!(out, "<p>{}</p>", prose(text));
            }
            Block::List(points) => {
                out.push_str("<ul>\n");
                points.iter().for_each(|point| element(out, "li", point));
                out.push_str("</ul>\n");
            }
            Block::Table(table) => captioned_table(out, table, table),
            Block::InWords(table, numbers) => captioned_table(out, table, numbers),
            Block::Sliders(table, chosen) => sliders(out, table, *chosen),
            Block::Figure(figure) => self::figure(out, figure),
            Block::Note(note) => notes(out, std::slice::from_ref(note)),
            Block::Properties(pairs) => properties(out, pairs),
            Block::Data(table) => {
                let (title, link) = (prose(&table.title), download(table));
                let _ = writeln!(out, "{DATA}{link} {title}. {}</p>", prose(&table.caption));
            }
            Block::Code(text) => {
                let _ = writeln!(out, "<pre><code>{}</code></pre>", escape(text));
            }
        }
    }
    out.push_str("</details>\n</section>\n");
}

fn notes(out: &mut String, notes: &[Note]) {
    for note in notes {
        let (class, word) = match note.level {
            NoteLevel::Hint => ("hint", "Note"),
            NoteLevel::Warning => ("warning", "Warning"),
        };
        let _ = write!(
            out,
            "<p class=\"note {class}\" role=\"note\"><strong>{word}:</strong> {}",
            prose(&note.text)
        );
        if !note.next_step.is_empty() {
            let _ = write!(out, " <em>{}</em>", prose(&note.next_step));
        }
        out.push_str("</p>\n");
    }
}

/// Every quantity of the page, defined once.
fn glossary(out: &mut String, quantities: &[QuantityDefinition]) {
    if quantities.is_empty() {
        return;
    }
    out.push_str("<section id=\"definitions\">\n<details class=\"section\"><summary><h2>Definitions</h2></summary>\n<div class=\"card\"><dl class=\"definitions\">\n");
    for quantity in quantities {
        let _ = write!(out, "<div id=\"{}\"><dt>{}", anchor(quantity), escape(&quantity.title()));
        if !quantity.unit.base().is_empty() {
            let _ = write!(out, " <span class=\"unit\">{}</span>", escape(quantity.unit.base()));
        }
        out.push_str("</dt> <dd>");
        if !quantity.formula().is_empty() {
            let _ = write!(out, "<var>{}</var>: ", escape(quantity.formula()));
        }
        let _ = writeln!(out, "{}</dd></div>", escape(quantity.text));
    }
    out.push_str("</dl></div>\n</details>\n</section>\n");
}

/// Where the page defines it.
fn anchor(quantity: &QuantityDefinition) -> String {
    let letters =
        quantity.name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { ' ' });
    let words = letters.collect::<String>();
    let words: Vec<&str> = words.split_whitespace().collect();
    format!("quantity-{}", words.join("-").to_lowercase())
}

/// A name that leads to the definition of what it names, and tells it where the pointer rests.
fn defined(text: &str, quantity: &QuantityDefinition) -> String {
    let definition = escape(&quantity.meaning());
    format!(
        "<a class=\"quantity\" href=\"#{}\" title=\"{definition}\">{}</a>",
        anchor(quantity),
        escape(text)
    )
}

/// The heading of a column, without its unit.
fn heading(column: &Column) -> String {
    match &column.quantity {
        Some(quantity) => defined(&column.heading, quantity),
        None => escape(&column.heading),
    }
}

fn properties(out: &mut String, pairs: &[(String, String)]) {
    out.push_str("<dl class=\"properties\">\n");
    for (name, value) in pairs {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
    }
    out.push_str("</dl>\n");
}

fn caption(out: &mut String, table: &Table) {
    let words = table.full_caption();
    if !words.is_empty() {
        let _ = writeln!(out, "<p class=\"caption\">{}</p>", prose(&words));
    }
}

/// `numbers` is what its CSV holds.
fn captioned_table(out: &mut String, table: &Table, numbers: &Table) {
    let _ = writeln!(out, "<div class=\"card\" id=\"table-{}\">", escape(&table.name));
    element(out, "h3", &table.title);
    self::table(out, table);
    caption(out, table);
    let _ = writeln!(out, "<p class=\"tools\">{}</p>\n</div>", download(numbers));
}

/// Sliders over the first `chosen` columns, and what the rest of the row says; without a script the
/// table is all there is.
fn sliders(out: &mut String, table: &Table, chosen: usize) {
    let _ = writeln!(out, "<div class=\"card\" id=\"table-{}\">", escape(&table.name));
    element(out, "h3", &table.title);
    let _ = writeln!(out, "<div class=\"sliders\" data-chosen=\"{chosen}\"></div>");
    caption(out, table);
    let _ = writeln!(out, "<div class=\"tools\">{}", download(table));
    out.push_str("<details><summary>All of it as a table</summary>\n");
    self::table(out, table);
    out.push_str("</details></div>\n</div>\n");
}

/// The table itself, in a frame that scrolls sideways on a narrow screen.
pub(crate) fn table(out: &mut String, table: &Table) {
    out.push_str("<div class=\"scroll\"><table>\n<thead><tr>");
    let scales: Vec<_> = (0..table.columns.len()).map(|index| table.scale(index)).collect();
    for (column, scale) in table.columns.iter().zip(&scales) {
        let class = if column.unit == Unit::Text { "" } else { " class=\"number\"" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}", heading(column));
        if !scale.symbol.is_empty() {
            let _ = write!(out, " <span class=\"unit\">{}</span>", escape(scale.symbol));
        }
        out.push_str("</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for (row, starts_group) in table.rows.iter().zip(table.group_starts()) {
        out.push_str(if starts_group { "<tr class=\"group\">" } else { "<tr>" });
        for ((value, column), scale) in row.iter().zip(&table.columns).zip(&scales) {
            let (shown, interval) = value.with_interval(*scale);
            let class = match value {
                TableValue::Missing => " class=\"number missing\"",
                _ if column.unit == Unit::Text => "",
                _ => " class=\"number\"",
            };
            let _ = write!(out, "<td{class}>{}", escape(&shown));
            if let Some(interval) = interval {
                let _ = write!(out, " <span class=\"half\">{}</span>", escape(&interval));
            }
            out.push_str("</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// How such a link begins.
const DOWNLOAD: &str = "<a download=\"";
/// What stands before that of a table for programs.
const DATA: &str = "<p class=\"data\">";

/// A link that holds the CSV itself.
fn download(table: &Table) -> String {
    let mut data = String::new();
    for byte in csv::table(table).bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b',' | b'~' => {
                data.push(byte as char);
            }
            other => {
                let _ = write!(data, "%{other:02X}");
            }
        }
    }
    let name = escape(&table.name);
    format!("{DOWNLOAD}{name}.csv\" href=\"data:text/csv;charset=utf-8,{data}\">{name}.csv</a>")
}

/// The names of the files that a page holds for download, and whether each is a table for programs.
pub fn downloads(page: &str) -> impl Iterator<Item = (&str, bool)> {
    page.match_indices(DOWNLOAD).filter_map(move |(at, link)| {
        let name = page[at + link.len()..].split('"').next()?;
        Some((name, page[..at].ends_with(DATA)))
    })
}

fn figure(out: &mut String, figure: &Figure) {
    let data = figure.data();
    let name = escape(&figure.name);
    let layout = if matches!(figure.plot, Plot::TimeSeries(_)) { "stack" } else { "grid" };
    let _ = writeln!(out, "<figure class=\"card\" id=\"figure-{name}\">");
    element(out, "h3", &figure.title);
    let _ = writeln!(out, "<div class=\"chart {layout}\"></div>");
    notes(out, &figure.notes);
    out.push_str("<figcaption>\n");
    out.push_str("<p>");
    if !figure.quantities.is_empty() {
        let shown: Vec<String> =
            figure.quantities.iter().map(|quantity| defined(&quantity.title(), quantity)).collect();
        let _ = write!(out, "Shown: {}. ", shown.join(", "));
    }
    let _ = writeln!(out, "{}</p>", prose(&figure.caption));
    out.push_str("</figcaption>\n<div class=\"tools\">");
    out.push_str(&download(&data));
    out.push_str("\n<details><summary>Data as a table</summary>\n");
    table(out, &figure.in_words(data));
    out.push_str("</details></div>\n");
    let _ = writeln!(out, "<script type=\"application/json\">{}</script>", Chart::of(figure).embedded());
    out.push_str("</figure>\n");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a server or a user named things, the page stays a page.
        #[test]
        fn any_text_stays_text(text in any::<String>()) {
            let document = Document {
                title: text.clone(),
                subtitle: text.clone(),
                sections: vec![Section { title: text.clone(), blocks: vec![Block::Code(text.clone())] }],
                ..Document::default()
            };
            let body = body(&document);
            let parsed = roxmltree::Document::parse(&body).unwrap();
            let title = parsed.descendants().find(|node| node.has_tag_name("h1")).unwrap();
            let plain = !text.contains(|c: char| c.is_control() || c == '\u{FFFE}' || c == '\u{FFFF}');
            if plain {
                prop_assert_eq!(title.text().unwrap_or(""), text);
            }
        }
    }

    #[test]
    fn no_vendored_or_own_script_ends_its_element_early() {
        for script in SCRIPTS.iter().chain([&UPLOT_SCRIPT]) {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
    }

    #[test]
    fn no_own_script_gives_all_counts_of_a_run_to_one_call() {
        assert!(SCRIPTS.iter().all(|script| !script.contains("Math.max(1, ...")));
    }
}
