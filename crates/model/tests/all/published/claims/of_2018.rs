//! The 2018 report and its draft.

use krarup_model::laws;
use krarup_model::single;
use krarup_model::station;
use krarup_stats::effects::means_from_effects;

use super::super::tables::{Csv, Line, net_of_2018, network_of_2018};
use super::{Figures, cell, mean, median, off, percent};

/// Sections 1 to 3.
pub(super) fn baselines_of_2018() -> Figures {
    let mut found = Figures("2018", Vec::new());
    let limits = Csv::read(include_str!("../../../data/000_t01_network_limits.csv"));
    let bytes = [("set_request", 4131.0), ("set_reply", 8.0), ("get_request", 19.0), ("get_reply", 4132.0)];
    let mut ratios = Vec::new();
    for line in limits.rows() {
        for (column, size) in bytes {
            let wrong = matches!(
                (line.text("machine"), column),
                ("client", "set_request") | ("middleware", "set_reply")
            );
            if !wrong && !line.text(column).is_empty() {
                ratios.push(line.value(column) / (line.value("upload_mbit") * 1e6 / 8.0 / size));
            }
        }
    }
    assert_eq!(ratios.len(), 6);
    found.span("table 1, the six other cells, printed over bandwidth / size", 3, ratios);
    found.one("2.1: R of 6 clients at 3055.42/s, ms", 2, laws::response(6.0, 3_055.42, 0.0) * 1e3);
    found.one("2.1: 16,334.11 of 18,233 writes, %", 1, 100.0 * 16_334.11 / 18_233.0);
    let mm1 = Csv::read(include_str!("../../../data/000_t12_mm1.csv"));
    // Below a millisecond the two printed digits of the wait are not enough.
    let waits = mm1.rows().filter(|line| line.value("w_act") >= 1.0);
    let little =
        waits.map(|l| l.value("nq_act") / laws::little(l.value("lambda") / 2.0, l.value("w_act") / 1e3));
    found.span("1.1: printed queue length over X·W, waits of 1 ms and more", 3, little);
    let table = Csv::read(include_str!("../../../data/000_t05_mw_max.csv"));
    let of = |experiment: &str, kind: &str, at: &str, column: &str| {
        cell(&table, &[("experiment", experiment), ("type", kind), ("measured_at", at)], column)
    };
    let pairs = [("3.1", "GET"), ("3.1", "SET"), ("3.2", "GET"), ("3.2", "SET")];
    let both = |(e, k): (&str, &str)| of(e, k, "client", "throughput") / of(e, k, "middleware", "throughput");
    found.span("3: X at the clients over X at the middlewares", 4, pairs.map(both));
    let outside = |e: &str, k: &str| {
        laws::response(192.0, of(e, k, "middleware", "throughput"), 0.0) * 1e3
            / of(e, k, "middleware", "response_ms")
    };
    found.one("3.1, writes: N/X over R at the middleware", 2, outside("3.1", "SET"));
    found.one("3.1, reads: N/X over R at the middleware", 3, outside("3.1", "GET"));
    let writes = |e: &str| of(e, "SET", "middleware", "throughput");
    found.one("3.1: writes over those without a middleware", 3, writes("3.1") / 16_334.11);
    found.one("3.2: writes over those without a middleware", 3, writes("3.2") / 16_334.11);
    found.one("3.2 over 3.1, writes", 3, writes("3.2") / writes("3.1"));
    found
}

/// Section 4.
pub(super) fn writes_of_2018() -> Figures {
    let mut found = Figures("2018", Vec::new());
    let most = Csv::read(include_str!("../../../data/000_t07_exp4_max.csv"));
    let at = |workers: &str, column: &str| cell(&most, &[("wt", workers)], column);
    let table5 = Csv::read(include_str!("../../../data/000_t05_mw_max.csv"));
    let two = [("experiment", "3.2"), ("type", "SET"), ("measured_at", "client")];
    found.one(
        "4: writes to three servers over those to one (3.2)",
        3,
        at("64", "x_client") / cell(&table5, &two, "throughput"),
    );
    let step = |from: &str, to: &str| at(to, "x_mw") - at(from, "x_mw");
    found.span(
        "4: X with twice the workers less X before, /s",
        0,
        [step("8", "16"), step("16", "32"), step("32", "64")],
    );
    found.one("4: the last such step over the first", 2, step("32", "64") / step("8", "16"));
    let over = |column: &'static str| {
        most.rows().map(move |l: Line<'_>| l.value(column) / l.value("x_mw")).collect::<Vec<_>>()
    };
    found.span("4: X at the clients over X at the middlewares", 4, over("x_client"));
    found.span("4: X of the interactive law over X measured", 3, over("x_il"));
    let queue = |workers: &str, m: f64| at(workers, "queue_size") / m;
    found.span(
        "4: queue over workers at the maxima, 8 to 32 workers",
        2,
        [queue("8", 8.0), queue("16", 16.0), queue("32", 32.0)],
    );
    found.one("4: queue over workers at the maximum, 64 workers", 2, queue("64", 64.0));
    found.one(
        "4: memcached's time with 64 workers over that with 8",
        2,
        at("64", "memcached_ms") / at("8", "memcached_ms"),
    );

    let rows = Csv::read(include_str!("../../../data/000_t12_mm1.csv"));
    let of = |clients: &str, workers: &str, column: &str| {
        cell(&rows, &[("clients", clients), ("wt", workers)], column)
    };
    let x = |clients: &str, workers: &str| of(clients, workers, "lambda");
    found.span(
        "4: X with 96, 192, 288 and 288 clients over X with 48, 96, 192 and 192, 8 to 64 workers",
        3,
        [
            x("96", "8") / x("48", "8"),
            x("192", "16") / x("96", "16"),
            x("288", "32") / x("192", "32"),
            x("288", "64") / x("192", "64"),
        ],
    );
    let most_of = |w: &str| ["24", "48", "96", "192", "288"].map(|n| x(n, w)).into_iter().fold(0.0, f64::max);
    let threefold = [("24", "8"), ("48", "16"), ("96", "32"), ("192", "64")];
    found.span(
        "4: X with three clients for each worker over the most, 8 to 64 workers",
        3,
        threefold.map(|(n, w)| x(n, w) / most_of(w)),
    );
    let best = |clients: &str| ["8", "16", "32", "64"].map(|w| x(clients, w)).into_iter().fold(0.0, f64::max);
    let few = ["6", "12", "24", "48", "96"];
    found.span("4: X of 64 workers over the best, 6 to 96 clients", 3, few.map(|n| x(n, "64") / best(n)));
    let hold = |n: &str, w: &str| of(n, w, "r_act") - of(n, w, "w_act");
    let flat = [("96", "8"), ("192", "8"), ("288", "8")].map(|(n, w)| hold(n, w) / hold("48", w));
    let also = [("192", "16"), ("288", "16")].map(|(n, w)| hold(n, w) / hold("96", w));
    found.span(
        "4: time with a worker beyond saturation over that at it, 8 to 32 workers",
        3,
        flat.into_iter().chain(also).chain([hold("288", "32") / hold("192", "32")]),
    );
    found.one("4: the same, 64 workers (288 over 192 clients)", 3, hold("288", "64") / hold("192", "64"));
    found
}

/// Section 6: response times from throughputs, by N/X.
pub(super) fn factors_of_2018() -> Figures {
    let mut found = Figures("2018", Vec::new());
    let table = Csv::read(include_str!("../../../../../stats/tests/data/2018-report-table-11.csv"));
    let mut by_law = |kind: &str, mean_of: &'static str, servers: &'static str| {
        let effects: Vec<f64> = table
            .rows()
            .filter(|l| l.text("type") == kind && l.text("term") != "error")
            .map(|l| l.value("effect_x"))
            .collect();
        let cells = means_from_effects(&effects).expect("eight effects");
        let times: Vec<f64> = cells.iter().map(|&x| laws::response(192.0, x, 0.0) * 1e3).collect();
        // The first factor, servers, is the lowest digit of a cell's number.
        let high: Vec<f64> = times.iter().skip(1).step_by(2).copied().collect();
        found.one(mean_of, 1, mean(&times));
        found.one(servers, 1, mean(&high) - mean(&times));
    };
    by_law("GET", "6: mean R of reads by N/X, ms", "6: effect of servers on R of reads by N/X, ms");
    by_law("SET", "6: mean R of writes by N/X, ms", "6: effect of servers on R of writes by N/X, ms");
    found
}

/// Sections 7.1 and 7.2.
pub(super) fn single_stations_of_2018() -> Figures {
    let mut found = Figures("2018", Vec::new());
    let mm1 = Csv::read(include_str!("../../../data/000_t12_mm1.csv"));
    let mmm = Csv::read(include_str!("../../../data/000_t13_mmm.csv"));
    let rows: Vec<Line<'_>> = mm1.rows().collect();
    let many: Vec<Line<'_>> = mmm.rows().collect();
    let error = |line: &Line<'_>| off(line.value("r_est"), line.value("r_act"));
    let rho = |line: &Line<'_>| line.value("lambda") / line.value("mu");
    found.one("7: the largest ρ of table 12", 3, rows.iter().map(rho).fold(0.0, f64::max));
    let errors = |lines: &[Line<'_>]| lines.iter().map(error).collect::<Vec<f64>>();
    found.one("7.1: M/M/1 misses R by, %, mean", 1, mean(&errors(&rows)));
    found.one("7.1: M/M/1 misses R by, %, median", 1, median(&errors(&rows)));
    found.span("7.1: ρ where M/M/1 has R within 10 %", 3, rows.iter().filter(|l| error(l) <= 10.0).map(rho));
    let moves: Vec<bool> = rows
        .windows(2)
        .filter(|pair| pair[0].text("clients") == pair[1].text("clients"))
        .map(|pair| ["r_est", "r_act"].map(|c| pair[1].value(c) > pair[0].value(c)))
        .map(|[estimated, measured]| estimated == measured)
        .collect();
    found.one(
        "7.1: steps to twice the workers in which M/M/1 and measured R move alike, %",
        0,
        percent(&moves, |m| *m),
    );
    let longer = |queues: f64| percent(&rows, |l| l.value("nq_est") > queues * l.value("nq_act"));
    found.one("7.1: rows where M/M/1 has the longer queue than one middleware, %", 0, longer(1.0));
    found.one("7.1: rows where M/M/1 has the longer queue than both, %", 0, longer(2.0));
    let of = |lines: &[Line<'_>], n: &str, w: &str, column: &str| {
        lines.iter().find(|l| l.text("clients") == n && l.text("wt") == w).expect("a row").value(column)
    };
    let queue = |n: &str, w: &str| of(&rows, n, w, "nq_est");
    found.span(
        "7.1: queue of M/M/1 with 32 workers over that with 8 and 16, 192 and 288 clients",
        2,
        [("192", "8"), ("192", "16"), ("288", "8"), ("288", "16")].map(|(n, w)| queue(n, "32") / queue(n, w)),
    );
    found.one(
        "7.1: jobs of M/M/1 less its queue, at most",
        3,
        rows.iter().map(|l| l.value("n_est") - l.value("nq_est")).fold(0.0, f64::max),
    );

    found.one("7.2: M/M/m misses R by, %, mean", 1, mean(&errors(&many)));
    found.one("7.2: M/M/m misses R by, %, median", 1, median(&errors(&many)));
    let (full, others): (Vec<_>, Vec<_>) = many.iter().copied().partition(|l| l.value("U") >= 0.95);
    found.one("7.2: M/M/m misses R by, %, mean where U is 0.95 and more", 1, mean(&errors(&full)));
    found.one("7.2: M/M/m misses R by, %, mean where U is less", 1, mean(&errors(&others)));
    found.one(
        "7.2: M/M/m, 6 clients: R with 64 workers over R with 8",
        2,
        of(&many, "6", "64", "r_est") / of(&many, "6", "8", "r_est"),
    );
    found.one(
        "7.2: M/M/m, 288 clients: R with 64 workers over R with 8",
        2,
        of(&many, "288", "64", "r_est") / of(&many, "288", "8", "r_est"),
    );
    let light: Vec<f64> = many
        .iter()
        .filter(|l| l.value("U") < 0.75)
        .map(|l| 100.0 * (l.value("w_est") - l.value("w_act")).abs() / l.value("r_act"))
        .collect();
    found.one("7.2: M/M/m misses the wait by, % of R, mean where U is below 0.75", 1, mean(&light));
    found.one(
        "7.2: rows where M/M/m has the queue of both within 10 %, %",
        0,
        percent(&many, |l| off(l.value("nq_est"), 2.0 * l.value("nq_act")) <= 10.0),
    );
    let empty = rows.iter().map(|l| {
        let servers = 2 * l.value("wt") as u32;
        station::mmm(l.value("lambda"), f64::from(servers) / l.value("mu"), servers).expect("stable").empty
    });
    found.one("7.2: the largest probability that M/M/m is empty", 4, empty.fold(0.0, f64::max));
    found.one(
        "7.2: jobs of M/M/m over clients, at most",
        2,
        many.iter().map(|l| l.value("n_est") / l.value("clients")).fold(0.0, f64::max),
    );
    found
}

/// Section 7.3.
pub(super) fn networks_of_2018() -> Figures {
    let mut found = Figures("2018", Vec::new());
    let throughputs = Csv::read(include_str!("../../../data/000_t14_mva_x.csv"));
    let table = Csv::read(include_str!("../../../data/000_t14_mva.csv"));
    let x = |mw: &str, kind: &str, column: &str| {
        cell(&throughputs, &[("mw", mw), ("type", kind), ("clients", "24")], column)
    };
    let over = |mw: &str, kind: &str| x(mw, kind, "mva_x") / x(mw, kind, "measured_x");
    found.span(
        "7.3: X of the network over X measured, reads of 24 clients",
        4,
        [over("1", "GET"), over("2", "GET")],
    );
    found.one("7.3.1: X of the network over X measured, writes of 24 clients", 2, over("1", "SET"));
    found.one("7.3.2: X of the network over X measured, writes of 24 clients", 2, over("2", "SET"));
    let of = |mw: &str, kind: &str, parameter: &str, n: &str, station: &str, column: &str| {
        let wanted =
            [("mw", mw), ("type", kind), ("parameter", parameter), ("clients", n), ("station", station)];
        cell(&table, &wanted, column)
    };
    let memcached = |mw: &str, kind: &str, n: &str| {
        of(mw, kind, "R", n, "memcached", "mva") / of(mw, kind, "R", n, "memcached", "actual")
    };
    found.one(
        "7.3.1: memcached's time in the network over measured, reads of 192 clients",
        2,
        memcached("1", "GET", "192"),
    );
    found.span(
        "7.3.1: memcached's time in the network over measured, writes",
        2,
        ["6", "24", "192"].map(|n| memcached("1", "SET", n)),
    );
    found.span(
        "7.3.2: memcached's time in the network over measured, reads of 6 and 24 clients",
        2,
        ["6", "24"].map(|n| memcached("2", "GET", n)),
    );
    found.one(
        "7.3.2: memcached's time in the network over measured, reads of 192 clients",
        2,
        memcached("2", "GET", "192"),
    );
    let twice = |kind: &str| {
        of("2", kind, "R", "192", "memcached", "actual") / of("1", kind, "R", "192", "memcached", "actual")
    };
    found.one("3.2: memcached's time with two middlewares over that with one, reads", 2, twice("GET"));
    found.one("3.2: memcached's time with two middlewares over that with one, writes", 2, twice("SET"));
    let queue = |kind: &str| {
        of("1", kind, "Q", "192", "worker", "mva") / of("1", kind, "Q", "192", "worker", "actual")
    };
    found.span(
        "7.3.1: queue for the workers in the network over measured, 192 clients",
        3,
        [queue("GET"), queue("SET")],
    );
    found.one(
        "7.3.2 over 7.3.1: queue at the net thread, writes of 192 clients",
        2,
        of("2", "SET", "Q", "192", "netthread", "mva") / of("1", "SET", "Q", "192", "netthread", "mva"),
    );

    found
}

/// Section 7.3: at which stations time is spent.
pub(super) fn workers_of_2018() -> Figures {
    let mut found = Figures("2018", Vec::new());
    let table = Csv::read(include_str!("../../../data/000_t14_mva.csv"));
    let time = |mw: &str, kind: &str, station: &str| {
        let wanted =
            [("mw", mw), ("type", kind), ("parameter", "R"), ("clients", "192"), ("station", station)];
        cell(&table, &wanted, "mva")
    };
    let most = Csv::read(include_str!("../../../data/000_t05_mw_max.csv"));
    let measured = |experiment: &str, kind: &str, at: &str, column: &str| {
        cell(&most, &[("experiment", experiment), ("type", kind), ("measured_at", at)], column)
    };
    let client = |experiment: &str, kind: &str| measured(experiment, kind, "client", "response_ms");
    found.span(
        "7.3.3: memcached's time in the network over R at the clients, reads",
        3,
        [("1", "3.1"), ("2", "3.2")].map(|(mw, e)| time(mw, "GET", "memcached") / client(e, "GET")),
    );
    found.span(
        "7.3.3: the net thread's time in the network over R at the clients, writes",
        3,
        [("1", "3.1"), ("2", "3.2")].map(|(mw, e)| time(mw, "SET", "netthread") / client(e, "SET")),
    );
    let busy = |experiment: &str, kind: &str| {
        measured(experiment, kind, "middleware", "response_ms")
            - measured(experiment, kind, "middleware", "queue_ms")
    };
    let held = laws::little(measured("3.1", "GET", "middleware", "throughput"), busy("3.1", "GET") / 1e3);
    found.one("7.3.1: measured share of the workers that are busy, reads of 192 clients", 2, held / 64.0);
    let workers = |middlewares: u32| {
        let network = network_of_2018(middlewares, false, net_of_2018(middlewares));
        let sweep = single::solve(&network, 0.0, 192).expect("solvable");
        let worker =
            sweep.resources.iter().position(|r| r.name == "worker").expect("there is a worker station");
        sweep.utilization(worker, 192)
    };
    found.one("7.3.1: the same in the network", 3, workers(1));
    found.one("7.3.2: the same in the network", 3, workers(2));
    found
}

/// The earlier text of section 3.
pub(super) fn draft_of_2018() -> Figures {
    let mut found = Figures("2018 draft", Vec::new());
    found.one("3.3: R of 12 clients over R of 6, reads", 2, 4.08 / 2.06);
    found.one("3.3: wait of writes with two middlewares over that with one", 2, 3.03 / 3.80);
    found.one(
        "3.3: R at the clients less R at the middleware, writes, one over two middlewares",
        1,
        (16.73 - 8.07) / (12.55 - 11.38),
    );
    let law = laws::response(192.0, 11_548.63, 0.0) * 1e3;
    found.one("3.3: N/X over R at the clients, writes, one middleware", 3, law / 16.73);
    found.one("3.3: N/X over R at the middleware, writes, one middleware", 2, law / 8.07);
    found.span(
        "3.3: standard deviation of X, %",
        2,
        [3.57 / 2939.02, 134.28 / 11_545.56, 13.34 / 2928.91, 245.75 / 15_309.86].map(|share| 100.0 * share),
    );
    found
}
