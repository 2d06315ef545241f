//! What stands on each page: a table, and what is said under it.

use std::collections::BTreeMap;

use krarup_analysis::top::{
    SaidBy, ServiceKind, TopFigures, TopInstance, TopOperation, TopPool, TopServer, TopTube,
};
use krarup_model::headroom::{Headroom, HeadroomVerdict};
use krarup_model::hot_keys::{HotKey, HotKeys};
use krarup_record::{ClientLoad, ClientsReport};

use super::grid::{
    CORES, COUNT, GridColumn, GridRow, GridUnit, KIBIBYTES, MILLISECONDS, PER_SECOND, PERCENT, RowTone,
    SECONDS, TEXT, TIMES, TopGrid,
};
use super::page::TopPage;
use crate::document::{EstimateCell, TableValue};
use crate::headroom;

/// A page without what stands above it.
#[derive(Debug, Default)]
pub(super) struct PageBody {
    pub(super) grid: TopGrid,
    /// Keywords, and what is said under them.
    pub(super) notes: Vec<(String, String)>,
}

const fn column(heading: &'static str, unit: GridUnit, rank: u8) -> GridColumn {
    GridColumn { heading, unit, rank }
}

const SERVERS: &[GridColumn] = &[
    column("server", TEXT, 0),
    column("state", TEXT, 1),
    column("share", PERCENT, 5),
    column("rate", PER_SECOND, 1),
    column("outstanding", COUNT, 2),
    column("p50", MILLISECONDS, 5),
    column("p99", MILLISECONDS, 2),
    column("errors", PER_SECOND, 3),
    column("losses", COUNT, 4),
];

const POOLS: &[GridColumn] = &[
    column("pool", TEXT, 0),
    column("up", COUNT, 1),
    column("rate", PER_SECOND, 1),
    column("in progress", COUNT, 2),
    column("retries", PER_SECOND, 3),
    column("after miss", PER_SECOND, 4),
    column("refills", PER_SECOND, 6),
    column("hedges", PER_SECOND, 5),
    column("coalesced", PER_SECOND, 5),
    column("limited", PER_SECOND, 3),
    column("dropped", PER_SECOND, 3),
    column("gutter", PER_SECOND, 6),
];

/// The columns of operations; `behind` is where requests go.
const fn operation_columns(behind: &'static str) -> [GridColumn; 10] {
    [
        column("operation", TEXT, 0),
        column("rate", PER_SECOND, 1),
        column("errors", PER_SECOND, 2),
        column("hits", PERCENT, 5),
        column("queue", MILLISECONDS, 3),
        column(behind, MILLISECONDS, 3),
        column("own", MILLISECONDS, 4),
        column("response", MILLISECONDS, 4),
        column("p50", MILLISECONDS, 3),
        column("p99", MILLISECONDS, 2),
    ]
}

const OPERATIONS: &[GridColumn] = &operation_columns("servers");
const OF_BROKERS: &[GridColumn] = &operation_columns("store");
const OF_BOTH: &[GridColumn] = &operation_columns("servers, store");

const CLIENTS: &[GridColumn] = &[
    column("client", TEXT, 0),
    column("share", PERCENT, 2),
    column("rate", PER_SECOND, 1),
    column("connections", COUNT, 3),
    column("in progress", COUNT, 2),
    column("received", KIBIBYTES, 4),
    column("sent", KIBIBYTES, 4),
];

const HOT_KEYS: &[GridColumn] = &[
    column("key", TEXT, 0),
    column("pool", TEXT, 5),
    column("time", PERCENT, 1),
    column("bytes", PERCENT, 2),
    column("rate", PER_SECOND, 1),
    column("reads", PERCENT, 4),
    column("of server", PERCENT, 2),
    column("if shared", PERCENT, 3),
    column("if copied", PERCENT, 3),
    column("server", TEXT, 6),
    column("instance", TEXT, 6),
];

const HEADROOM: &[GridColumn] = &[
    column("resource", TEXT, 0),
    column("full at", PER_SECOND, 1),
    column("busy now", PERCENT, 2),
    column("service", MILLISECONDS, 3),
    column("outside", MILLISECONDS, 5),
    column("waits", COUNT, 5),
    column("stalled", PERCENT, 4),
    column("instance", TEXT, 6),
];

const TUBES: &[GridColumn] = &[
    column("tube", TEXT, 0),
    column("waiting", COUNT, 1),
    column("reserved", COUNT, 1),
    column("idle", COUNT, 4),
    column("arrivals", PER_SECOND, 2),
    column("oldest", SECONDS, 3),
    column("service p95", MILLISECONDS, 5),
    column("waited p95", MILLISECONDS, 4),
    column("busy", PERCENT, 3),
    column("workers needed", TEXT, 1),
    column("drained in", SECONDS, 6),
];

/// The place of the workers needed among [`TUBES`]: words, sorted by their first number.
const WORKERS_NEEDED: usize = 9;

const INSTANCES: &[GridColumn] = &[
    column("instance", TEXT, 0),
    column("state", TEXT, 1),
    column("up", SECONDS, 5),
    column("rate", PER_SECOND, 1),
    column("errors", PER_SECOND, 3),
    column("p50", MILLISECONDS, 4),
    column("p99", MILLISECONDS, 2),
    column("clients", COUNT, 4),
    column("used", CORES, 3),
    column("headroom", TIMES, 2),
];

/// The columns of a page.
pub(super) const fn columns(page: TopPage) -> &'static [GridColumn] {
    match page {
        TopPage::Servers => SERVERS,
        TopPage::Pools => POOLS,
        TopPage::Tubes => TUBES,
        TopPage::Operations => OPERATIONS,
        TopPage::Clients => CLIENTS,
        TopPage::HotKeys => HOT_KEYS,
        TopPage::Headroom => HEADROOM,
        TopPage::Instances => INSTANCES,
    }
}

/// Those that are shown of what is known about these kinds of service; of one instance `alone` none
/// says which it is.
pub(super) fn shown_columns(page: TopPage, services: &[ServiceKind], alone: bool) -> &'static [GridColumn] {
    let all = columns(page);
    match (page, services) {
        (TopPage::Headroom | TopPage::HotKeys, _) if alone => &all[..all.len() - 1],
        (TopPage::Operations, [ServiceKind::Broker]) => OF_BROKERS,
        (TopPage::Operations, [_, _]) => OF_BOTH,
        _ => all,
    }
}

/// What the columns of a page are, where a heading does not say it.
pub(super) const fn legend(page: TopPage) -> &'static str {
    match page {
        TopPage::Servers => {
            "outstanding: answers that a server owes; p50, p99: from the first byte sent to the last of the answer, as if times lay evenly within buckets (1, 2.5, 5, 10 ms …): up to 2.5 times too long or short; 10 s where it is longer; losses: of connections, since the start"
        }
        TopPage::Pools => {
            "up: servers; retries: reads tried at another holder after an error, or after a miss; dropped: copies, refills and shadows not sent, and copies that failed"
        }
        TopPage::Tubes => {
            "idle: consumers that wait; service: from hand-out to delete, of the broker where it takes longest; waited: from ready to hand-out, a day where it is longer; busy: share of the consumers' time; workers needed: within the target, with their interval"
        }
        TopPage::Operations => {
            "queue, servers or store, own and response are means; p50, p99 of the response time, as if times lay evenly within buckets (1, 2.5, 5, 10 ms …): up to 2.5 times too long or short; 10 s where it is longer; the p99 above leaves out reserve and pop, which wait for a message"
        }
        TopPage::Clients => {
            "g: each connection, or all of a host together; in progress: requests that are not answered yet"
        }
        TopPage::HotKeys => {
            "time, bytes: the key's share of its pool; of server: its share of its server's busy time, and how that changes if gets shared one answer (coalesce), or one more server held the key"
        }
        TopPage::Headroom => {
            "full at: rate of all requests at which a resource is full; service: without waiting; outside: round trip without queue; waits: requests that found it busy"
        }
        TopPage::Instances => {
            "p50, p99 of the response time, as if times lay evenly within buckets (1, 2.5, 5, 10 ms …): up to 2.5 times too long or short; 10 s where it is longer; used: processors; headroom: capacity over the traffic now, – without a conclusion"
        }
    }
}

/// What stands on a page.
pub(super) fn body(figures: &TopFigures, page: TopPage, by_connection: bool) -> PageBody {
    let mut notes = Vec::new();
    let rows = match page {
        TopPage::Servers => by_rate(&figures.servers, server),
        TopPage::Pools => by_rate(&figures.pools, pool),
        TopPage::Operations => operations(figures),
        TopPage::Tubes => tubes(&figures.tubes),
        TopPage::Clients => clients(&figures.clients, by_connection),
        TopPage::HotKeys => hot_keys(&figures.hot_keys, &mut notes),
        TopPage::Headroom => resources(&figures.headroom, &mut notes),
        TopPage::Instances => figures.instances.iter().map(|one| instance(figures, one)).collect(),
    };
    if rows.is_empty() {
        let lost = figures.instances.iter().all(|one| one.lost.is_some());
        let why = match page {
            _ if lost => "figures come two looks after an instance answers again",
            TopPage::HotKeys => no_hot_key(&figures.hot_keys),
            _ => nothing(page),
        };
        notes.push((String::new(), why.to_owned()));
    }
    let columns = shown_columns(page, &figures.services, figures.instances.len() < 2);
    PageBody { grid: TopGrid { columns, rows }, notes }
}

/// Why a page is empty.
const fn nothing(page: TopPage) -> &'static str {
    match page {
        TopPage::Operations => "nothing was asked yet",
        TopPage::Clients => {
            "no client is connected, or it is not known yet; proxies before this version do not say"
        }
        TopPage::Headroom => "no answer yet: it is computed every ten seconds",
        _ => "there are none, or they were not looked at twice yet",
    }
}

/// Why no key is listed.
fn no_hot_key(all: &[SaidBy<HotKeys>]) -> &'static str {
    if all.is_empty() {
        "no answer yet; brokers, and proxies before this version, do not say"
    } else if all.iter().any(|one| one.says.pools.iter().any(|pool| pool.samples > 0)) {
        "no key stands out: none was sampled often enough to tell its share"
    } else if all.iter().all(|one| one.says.keys == "off") {
        "hot_keys = \"off\": nothing is kept"
    } else {
        "no request was sampled in the last seconds, or hot_keys = \"off\""
    }
}

fn row(cells: Vec<TableValue>) -> GridRow {
    GridRow { cells, ..GridRow::default() }
}

fn by_rate<T>(all: &[T], of: fn(&T) -> GridRow) -> Vec<GridRow> {
    all.iter().map(of).collect()
}

fn server(one: &TopServer) -> GridRow {
    let (state, tone) = match (one.up, one.ejected, one.proxies) {
        (0, 0, _) => ("down".to_owned(), RowTone::Bad),
        (0, ..) => ("ejected".to_owned(), RowTone::Bad),
        (up, _, proxies) if up < proxies => (format!("up for {up} of {proxies}"), RowTone::Warning),
        _ => ("up".to_owned(), RowTone::Plain),
    };
    let cells = vec![
        one.server.as_str().into(),
        TableValue::Text(state),
        one.share.into(),
        one.requests_per_s.into(),
        one.outstanding.into(),
        one.p50_s.into(),
        one.p99_s.into(),
        one.errors_per_s.into(),
        one.losses.into(),
    ];
    GridRow { cells, tone, ..GridRow::default() }
}

fn pool(one: &TopPool) -> GridRow {
    let tone = if one.servers_up == 0.0 { RowTone::Bad } else { RowTone::Plain };
    let cells = vec![
        one.pool.as_str().into(),
        one.servers_up.into(),
        one.requests_per_s.into(),
        one.in_progress.into(),
        one.retries_per_s.into(),
        one.miss_retries_per_s.into(),
        one.refills_per_s.into(),
        one.hedges_per_s.into(),
        one.coalesced_per_s.into(),
        one.limited_per_s.into(),
        one.dropped_per_s.into(),
        one.guttered_per_s.into(),
    ];
    GridRow { cells, tone, ..GridRow::default() }
}

fn operations(figures: &TopFigures) -> Vec<GridRow> {
    let several = figures.services.len() > 1;
    let row = |one: &TopOperation| {
        let name =
            if several { format!("{} {}", one.service.name(), one.operation) } else { one.operation.clone() };
        row(vec![
            TableValue::Text(name),
            one.throughput_per_s.into(),
            one.errors_per_s.into(),
            one.hit_ratio.into(),
            one.queue_s.into(),
            one.behind_s.into(),
            one.own_s.into(),
            one.response_s.into(),
            one.p50_s.into(),
            one.p99_s.into(),
        ])
    };
    figures.operations.iter().map(row).collect()
}

/// The fullest tube first, those that are not listed last.
fn tubes(all: &[TopTube]) -> Vec<GridRow> {
    let mut ordered: Vec<&TopTube> = all.iter().collect();
    let is_others = |one: &TopTube| one.tube == "*";
    let ready = |one: &TopTube| one.ready.unwrap_or(0.0);
    ordered.sort_by(|a, b| is_others(a).cmp(&is_others(b)).then_with(|| ready(b).total_cmp(&ready(a))));
    let row = |one: &TopTube| {
        let is_others = is_others(one);
        let needed = match (&one.workers, &one.silent) {
            (Some(needed), _) => {
                TableValue::Text(format!("{} ({} – {})", needed.mean, needed.low, needed.high))
            }
            (None, Some(why)) => TableValue::Text(why.replace('_', " ")),
            (None, None) => TableValue::Text("–".to_owned()),
        };
        let consumers = one.reserved + one.consumers_waiting;
        let short = one.workers.as_ref().is_some_and(|needed| consumers < needed.low);
        let cells = vec![
            if is_others { "others".into() } else { one.tube.as_str().into() },
            one.ready.into(),
            one.reserved.into(),
            one.consumers_waiting.into(),
            one.arrivals_per_s.into(),
            one.oldest_s.into(),
            one.service_p95_s.into(),
            one.waiting_p95_s.into(),
            one.utilization.into(),
            needed,
            one.drain_s.into(),
        ];
        GridRow {
            cells,
            tone: if short { RowTone::Warning } else { RowTone::Plain },
            last: is_others,
            sorts_as: one.workers.as_ref().map(|needed| (WORKERS_NEEDED, needed.mean)),
        }
    };
    ordered.into_iter().map(row).collect()
}

/// Clients of all proxies, those with the most requests first.
fn clients(all: &[SaidBy<ClientsReport>], by_connection: bool) -> Vec<GridRow> {
    let mut summed = BTreeMap::<&str, ClientLoad>::new();
    let mut others = ClientLoad::default();
    for said in all {
        let report = &said.says;
        let (listed, rest) = match by_connection {
            true => (&report.clients, &report.other_clients),
            false => (&report.hosts, &report.other_hosts),
        };
        for load in listed {
            summed.entry(&load.client).or_default().add(load);
        }
        rest.iter().for_each(|load| others.add(load));
    }
    let whole: f64 = summed.values().chain([&others]).map(|load| load.requests_per_s).sum();
    let row = |name: &str, load: &ClientLoad, last: bool| {
        let cells = vec![
            name.into(),
            (whole > 0.0).then(|| load.requests_per_s / whole).into(),
            load.requests_per_s.into(),
            (load.connections as f64).into(),
            (load.in_progress as f64).into(),
            load.received_per_s.into(),
            load.sent_per_s.into(),
        ];
        GridRow { cells, last, ..GridRow::default() }
    };
    let mut ordered: Vec<_> = summed.into_iter().collect();
    ordered.sort_by(|(_, a), (_, b)| b.requests_per_s.total_cmp(&a.requests_per_s));
    let others = (others.connections > 0).then(|| row("others", &others, true));
    ordered.iter().map(|(name, load)| row(name, load, false)).chain(others).collect()
}

/// Keys by their share of the time; those that are listed by bytes alone follow.
fn hot_keys(all: &[SaidBy<HotKeys>], notes: &mut Vec<(String, String)>) -> Vec<GridRow> {
    let mut rows = Vec::new();
    for SaidBy { instance, says } in all {
        for pool in &says.pools {
            let only_by_bytes = |key: &&HotKey| pool.by_time.iter().all(|other| other.key != key.key);
            let by_bytes = pool.by_bytes.iter().filter(only_by_bytes);
            rows.extend(pool.by_time.iter().map(|key| hot_key(key, &pool.pool, instance, true)));
            rows.extend(by_bytes.map(|key| hot_key(key, &pool.pool, instance, false)));
            let of = if all.len() > 1 { format!(" of {instance}") } else { String::new() };
            let unseen = krarup_units::Unit::Share.show(pool.unseen_time);
            // Where no key is listed, too few were sampled to say what one has at most.
            let most = match pool.by_time.is_empty() {
                true => String::new(),
                false => format!("; a key that is not listed has at most {unseen} of the time"),
            };
            let text = format!(
                "pool {}{of}: {} requests sampled in {}, one of {}{most}",
                pool.pool,
                krarup_units::text::count(pool.samples as f64),
                krarup_units::text::duration(says.covers_s),
                krarup_units::text::three_digits(pool.one_of),
            );
            notes.push(("sampled".to_owned(), text));
        }
    }
    rows
}

fn hot_key(key: &HotKey, pool: &str, instance: &str, by_time: bool) -> GridRow {
    let share = TableValue::Measured(EstimateCell {
        value: key.share.mean,
        interval: Some((key.share.low, key.share.high)),
        n: key.samples,
    });
    let less = |saves: Option<f64>| TableValue::from(saves.map(|saves| -saves));
    let (time, bytes) = if by_time { (share, key.bytes.into()) } else { (key.time.into(), share) };
    row(vec![
        key.name.as_ref().unwrap_or(&key.key).as_str().into(),
        pool.into(),
        time,
        bytes,
        key.requests_per_s.into(),
        key.reads.into(),
        key.of_server.into(),
        less(key.coalescing_saves),
        less(key.copy_saves),
        key.server.as_deref().unwrap_or("–").into(),
        instance.into(),
    ])
}

/// Resources of all proxies, first to be full first, and under them what is said.
fn resources(all: &[SaidBy<Headroom>], notes: &mut Vec<(String, String)>) -> Vec<GridRow> {
    let mut rows = Vec::new();
    for SaidBy { instance, says } in all {
        for mut cells in headroom::resources(says).rows {
            cells.push(instance.as_str().into());
            rows.push(row(cells));
        }
        if all.len() > 1 {
            notes.push((String::new(), format!("{instance}:")));
        }
        let said = headroom::said_first(says).into_iter().chain(headroom::said_last(says));
        notes.extend(said.map(|(keyword, text)| (keyword.to_owned(), text)));
    }
    rows
}

fn instance(figures: &TopFigures, one: &TopInstance) -> GridRow {
    let (state, tone) = match (&one.lost, one.service) {
        (Some(_), _) => ("no answer".to_owned(), RowTone::Bad),
        (None, Some(service)) => (service.name().to_owned(), RowTone::Plain),
        (None, None) => ("not asked yet".to_owned(), RowTone::Plain),
    };
    let of = |value: fn(&krarup_analysis::top::TopTotals) -> Option<f64>| {
        TableValue::from(one.totals.as_ref().and_then(value))
    };
    let said = figures.headroom.iter().find(|said| said.instance == one.instance).map(|said| &said.says);
    let ratio = said.filter(|says| says.verdict != HeadroomVerdict::Silent);
    let cells = vec![
        one.instance.as_str().into(),
        TableValue::Text(state),
        one.uptime_s.filter(|_| one.lost.is_none()).map(f64::round).into(),
        of(|totals| Some(totals.throughput_per_s)),
        of(|totals| Some(totals.errors_per_s)),
        of(|totals| totals.p50_s),
        of(|totals| totals.p99_s),
        of(|totals| Some(totals.clients)),
        of(|totals| Some(totals.processors)),
        ratio.and_then(|says| says.headroom_ratio).map(|ratio| ratio.mean).into(),
    ];
    GridRow { cells, tone, ..GridRow::default() }
}
