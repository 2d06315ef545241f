//! What a trace asks, as a document: how fast, of which keys, how much memory for which hit ratio.

use krarup_analysis::trace::{ITEM_HEADER, KeyUse, TraceEstimates};
use krarup_record::quantities;
use krarup_units::{Bytes, Unit, text};

use crate::document::{Block, Column, Document, Fact, Finding, Section, Table, TableValue};

/// The whole page. `title` says whose trace it is, `footer` names the program and its version.
pub fn document(trace: &TraceEstimates, title: &str, footer: &str) -> Document {
    let sections = [
        ("What is asked", vec![Some(operations(trace)), clients(trace), values(trace), lifetimes(trace)]),
        ("Of which keys", vec![keys(trace)]),
        ("How much memory", vec![memory(trace)]),
    ];
    Document {
        title: title.to_owned(),
        subtitle: span(trace),
        summary: summary(trace).map(|words| Finding::words("a cache for it", words)).into_iter().collect(),
        facts: facts(trace),
        sections: sections
            .into_iter()
            .map(|(title, tables)| Section {
                title: title.into(),
                blocks: tables.into_iter().flatten().map(Block::Table).collect(),
            })
            .filter(|section| !section.blocks.is_empty())
            .collect(),
        footer: footer.to_owned(),
        ..Document::default()
    }
}

/// `1,000,000 requests in 1.00 h`.
pub fn span(trace: &TraceEstimates) -> String {
    format!("{} requests in {}", text::count(trace.requests as f64), text::duration(trace.length))
}

/// What to buy, in a sentence; none where no key is read twice.
pub fn summary(trace: &TraceEstimates) -> Option<String> {
    let memory = trace.memory.as_ref()?;
    let [.., nearly, all] = &memory.sizes[..] else { return None };
    let bytes = |size: Option<u64>| size.map_or(String::new(), |bytes| format!(", {}", Bytes(bytes)));
    Some(format!(
        "At most {} of the reads find their key. 99 % of those do with room for {} keys{}, all of them with room for {}{}.",
        Unit::Share.show(memory.most_hits),
        text::count(nearly.keys as f64),
        bytes(nearly.bytes),
        text::count(all.keys as f64),
        bytes(all.bytes),
    ))
}

fn facts(trace: &TraceEstimates) -> Vec<Fact> {
    let fact = |label: &str, value, detail| Fact { label: label.into(), value, detail };
    let rate = trace.rate.map(|rate| {
        let busiest = format!("the busiest second {}", text::count(trace.busiest_second as f64));
        fact("requests per second", text::count(rate), busiest)
    });
    let keys = trace.keys.as_ref().map(|keys| {
        let once = format!("{} asked for once", text::count(keys.once as f64));
        fact("keys", text::count(keys.distinct as f64), once)
    });
    rate.into_iter().chain(keys).collect()
}

/// One row for each command.
pub fn operations(trace: &TraceEstimates) -> Table {
    let rows = trace.operations.iter().map(|one| {
        vec![
            TableValue::from(one.name.as_str()),
            TableValue::from(one.count as f64),
            TableValue::from(one.share),
        ]
    });
    Table {
        name: "operations".into(),
        title: "Requests by command".into(),
        caption: match trace.dispersion {
            Some(dispersion) => format!(
                "The variance of the requests in a second is {} times their mean: 1 as of independent users, more where they come in bursts or the rate changes.",
                text::three_digits(dispersion)
            ),
            None => String::new(),
        },
        columns: vec![
            Column::new("command", Unit::Text),
            Column::new("requests", Unit::Count),
            Column::new("share", Unit::Share),
        ],
        rows: rows.collect(),
    }
}

/// How large values are that are stored.
pub fn values(trace: &TraceEstimates) -> Option<Table> {
    let sizes = trace.values.as_ref()?;
    let row = [sizes.mean, sizes.p50 as f64, sizes.p99 as f64, sizes.max as f64];
    Some(Table {
        name: "values".into(),
        title: "Bytes of a value that is stored".into(),
        caption: String::new(),
        columns: ["mean", "p50", "p99", "largest"].map(|name| Column::new(name, Unit::Count)).to_vec(),
        rows: vec![row.map(TableValue::from).to_vec()],
    })
}

/// For how long what is stored is to live.
pub fn lifetimes(trace: &TraceEstimates) -> Option<Table> {
    let lifetimes = trace.lifetimes.as_ref()?;
    let row = [lifetimes.p50, lifetimes.p90, lifetimes.max].map(f64::from);
    Some(Table {
        name: "lifetimes".into(),
        title: "Time to live of what is stored".into(),
        caption: format!("Of the {} of what is stored that expires.", Unit::Share.show(lifetimes.expiring)),
        columns: ["p50", "p90", "longest"].map(|name| Column::new(name, Unit::Seconds)).to_vec(),
        rows: vec![row.map(TableValue::from).to_vec()],
    })
}

/// How many clients ask, and how unevenly.
pub fn clients(trace: &TraceEstimates) -> Option<Table> {
    let clients = trace.clients.as_ref()?;
    let [first, hundredth, tenth] = clients.top_shares;
    Some(Table {
        name: "clients".into(),
        title: "Clients, and which share of all requests the busiest of them have".into(),
        caption: String::new(),
        columns: vec![
            Column::new("clients", Unit::Count),
            Column::new("the first", Unit::Share),
            Column::new("the first 1 %", Unit::Share),
            Column::new("the first 10 %", Unit::Share),
        ],
        rows: vec![[clients.count as f64, first, hundredth, tenth].map(TableValue::from).to_vec()],
    })
}

/// By which law a load would use the keys so.
fn key_law(keys: &KeyUse) -> String {
    let (words, law) = match (keys.zipf, keys.zipf_range) {
        (Some(zipf), Some([low, high])) => (
            format!("Zipf's law explains the uses with the exponent {zipf:.2} ({low:.2} to {high:.2})"),
            format!("zipf:{zipf:.2}"),
        ),
        _ if keys.distinct > 1 => ("Keys are used alike, as far as can be seen".into(), "uniform".into()),
        _ => return String::new(),
    };
    format!("{words}: `krarup load --key-law {law} --keys {}`.", keys.distinct)
}

/// How often which keys are asked for.
pub fn keys(trace: &TraceEstimates) -> Option<Table> {
    let keys = trace.keys.as_ref()?;
    let [first, hundredth, tenth] = keys.top_shares;
    Some(Table {
        name: "keys".into(),
        title: "Keys, and which share of all uses the most used of them have".into(),
        caption: key_law(keys),
        columns: vec![
            Column::new("keys", Unit::Count),
            Column::new("used once", Unit::Count),
            Column::new("the first", Unit::Share),
            Column::new("the first 1 %", Unit::Share),
            Column::new("the first 10 %", Unit::Share),
        ],
        rows: vec![vec![
            TableValue::from(keys.distinct as f64),
            TableValue::from(keys.once as f64),
            TableValue::from(first),
            TableValue::from(hundredth),
            TableValue::from(tenth),
        ]],
    })
}

/// One row for each hit ratio.
pub fn memory(trace: &TraceEstimates) -> Option<Table> {
    let memory = trace.memory.as_ref()?;
    let expiring = match &trace.lifetimes {
        None => "nothing expires".to_owned(),
        Some(_) => format!(
            "for as long as before; {} reads come after their key's time to live, and what is over takes no room: the highest hit ratio is exact, the others are nearly so",
            text::count(memory.expired as f64)
        ),
    };
    let rows = memory.sizes.iter().map(|size| {
        vec![
            TableValue::from(size.hit_ratio),
            TableValue::from(size.keys as f64),
            TableValue::from(size.bytes.map(|bytes| bytes as f64)),
        ]
    });
    Some(Table {
        name: "memory".into(),
        title: "Room that a cache needs for a hit ratio".into(),
        caption: format!(
            "Of {} reads, begun with an empty cache that throws out the least recently used (stack distances, Mattson 1970): what was missed is stored, {expiring}. Bytes are those of keys and values and {ITEM_HEADER} for each \
             item, as memcached has it; what its slabs leave unused comes on top.",
            text::count(memory.reads as f64)
        ),
        columns: vec![
            Column::of(quantities::HIT_RATIO),
            Column::new("keys", Unit::Count),
            Column::new("bytes", Unit::Count),
        ],
        rows: rows.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_used_alike_are_to_be_loaded_alike() {
        let alike = KeyUse {
            distinct: 2_000,
            once: 326,
            top_shares: [0.01, 0.02, 0.2],
            zipf: None,
            zipf_range: None,
        };
        assert_eq!(
            key_law(&alike),
            "Keys are used alike, as far as can be seen: `krarup load --key-law uniform --keys 2000`."
        );
        let hot = KeyUse { zipf: Some(0.7), zipf_range: Some([0.6, 0.8]), ..alike };
        let said = key_law(&hot);
        assert!(
            said.ends_with(" 0.70 (0.60 to 0.80): `krarup load --key-law zipf:0.70 --keys 2000`."),
            "{said}"
        );
        assert_eq!(key_law(&KeyUse { distinct: 1, zipf: None, ..hot }), "");
    }
}
