//! Dashboards, alerts and recording rules ask for metrics that there are, and a Prometheus that
//! watches a proxy and a broker under load has an answer to each expression.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use krarup_model::headroom::{HEADROOM_METRICS, Headroom, HeadroomMetric};
use serde_json::Value;

use crate::broker::{monitored, say};
use crate::support::peer::{Peer, asked};
use crate::support::process::{Port, Program, skipped};
use crate::support::{fresh, until};

const DASHBOARDS: [&str; 3] = ["grafana.json", "grafana-broker.json", "grafana-fleet.json"];

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

fn read(dashboard: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(packaging(dashboard)).unwrap()).unwrap()
}

/// The expressions of a dashboard, each with the title of its panel.
fn expressions(dashboard: &str) -> Vec<(String, String)> {
    let panels = read(dashboard)["panels"].as_array().unwrap().clone();
    let of_panel = |panel: Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets
            .into_iter()
            .map(move |target| (title.clone(), target["expr"].as_str().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    panels.into_iter().flat_map(of_panel).collect()
}

/// What stands behind `key` in the lines of a file of rules.
fn of_rules(file: &str, key: &str) -> Vec<String> {
    let text = fs::read_to_string(packaging(file)).unwrap();
    let line = |line: &str| line.trim_start().trim_start_matches("- ").strip_prefix(key).map(str::to_owned);
    text.lines().filter_map(line).collect()
}

/// The names of series in an expression: of ours, of processes, and of recording rules.
fn names(expression: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    // What is in quotes is the value of a label.
    let outside: String = expression.split('"').step_by(2).collect();
    let words = outside.split(|letter| !is_part(letter)).map(str::to_owned);
    let is_name = |word: &String| {
        word.contains("krarup_") || word.starts_with("process_") || word.trim_matches(':').contains(':')
    };
    words.filter(is_name).collect()
}

/// The references of a proxy's metrics and of a broker's.
const REFERENCES: [&str; 2] = [
    include_str!("../../../../docs/reference/metrics.md"),
    include_str!("../../../../docs/reference/broker-metrics.md"),
];

/// The series that proxy and broker tell.
fn told() -> BTreeSet<String> {
    REFERENCES.into_iter().flat_map(told_by).collect()
}

/// The series that a service tells, by the tables of its reference.
fn told_by(reference: &str) -> BTreeSet<String> {
    let of_line = |line: &str| {
        let (name, kind) = line.strip_prefix("| `")?.split_once("` | ")?;
        let endings: &[&str] = match kind.split(' ').next()? {
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["", "_sum", "_count"],
            _ => &[""],
        };
        Some(endings.iter().map(|ending| format!("{name}{ending}")).collect::<Vec<_>>())
    };
    reference.lines().filter_map(of_line).flatten().collect()
}

/// How many series an expression names; each is one of those that are `known`.
fn asks_for_known(expression: &str, known: &BTreeSet<String>) -> usize {
    let names = names(expression);
    for name in &names {
        assert!(known.contains(name), "there is no {name}, which `{expression}` asks for");
    }
    names.len()
}

#[test]
fn each_metric_that_is_asked_for_is_one_that_is_told() {
    let mut known = told();
    assert!(known.len() > 100, "{known:?}");
    known.extend(of_rules("recording-rules.yml", "record: "));
    let mut count = 0;
    for dashboard in DASHBOARDS {
        let mut queries = Vec::new();
        for key in ["expr", "query"] {
            texts(&read(dashboard), key, &mut queries);
        }
        assert!(queries.len() >= 12, "{dashboard} has queries: {}", queries.len());
        let naming = queries.iter().filter(|query| asks_for_known(query, &known) > 0).count();
        assert!(naming + 1 >= queries.len(), "each query but that of the data source asks for a metric");
        count += naming;
    }
    for alert in of_rules("alerts.yml", "expr: ") {
        // That a target is there at all is Prometheus' own to say.
        assert!(asks_for_known(&alert, &known) > 0 || alert.starts_with("up{"), "{alert}");
        assert_eq!(alert.matches('(').count(), alert.matches(')').count(), "{alert}");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

/// Every text under a key, at any depth.
fn texts(value: &Value, key: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let (true, Some(text)) = (name == key, value.as_str()) {
                    into.push(text.to_owned());
                }
                texts(value, key, into);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, key, into)),
        _ => {}
    }
}

/// A worker that is stopped while it waits for a message has no answer, and a percentile of a wide
/// bucket may be far from the times in it.
#[test]
fn what_figures_are_not_stands_beside_them() {
    let counters = ["requests_total", "request_errors_total", "errors_total"];
    let counted = |line: &&str| {
        let prefixes = ["| `krarup_", "| `krarup_broker_"];
        let starts = |prefix: &str| counters.iter().any(|name| line.starts_with(&format!("{prefix}{name}`")));
        prefixes.into_iter().any(starts)
    };
    let lines: Vec<&str> = REFERENCES.iter().flat_map(|page| page.lines()).filter(counted).collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines.iter().all(|line| line.contains("client left before the reply")), "{lines:#?}");
    for dashboard in DASHBOARDS {
        for panel in read(dashboard)["panels"].as_array().unwrap() {
            let said = match panel["title"].as_str().unwrap() {
                "Errors" => "left before the reply",
                "Response time" => "as if times lay evenly",
                _ => continue,
            };
            let description = panel["description"].as_str().unwrap();
            assert!(description.contains(said), "{dashboard}: {description}");
        }
    }
}

/// What a dashboard offers to choose from is of its own kind of service alone.
#[test]
fn the_choices_of_a_dashboard_come_from_metrics_that_only_its_service_tells() {
    let [proxy, broker] = REFERENCES.map(told_by);
    for (dashboard, own, other) in [
        ("grafana.json", &proxy, &broker),
        ("grafana-broker.json", &broker, &proxy),
        ("grafana-fleet.json", &proxy, &broker),
    ] {
        let mut queries = Vec::new();
        texts(&read(dashboard), "query", &mut queries);
        let metric = |query: &String| {
            let (metric, _) = query.strip_prefix("label_values(")?.split_once([',', '{'])?;
            Some(metric.to_owned())
        };
        let metrics: Vec<String> = queries.iter().filter_map(metric).collect();
        assert!(!metrics.is_empty(), "{dashboard}: {queries:?}");
        for metric in metrics {
            assert!(own.contains(&metric) && !other.contains(&metric), "{dashboard} asks for {metric}");
        }
    }
}

#[test]
fn recording_rules_are_about_metrics_that_there_are_and_each_comes_after_what_it_uses() {
    let (names, expressions) =
        (of_rules("recording-rules.yml", "record: "), of_rules("recording-rules.yml", "expr: "));
    assert!(names.len() >= 10 && names.len() == expressions.len(), "{names:?}");
    let mut known = told();
    known.extend(names.iter().cloned());
    for (number, (name, expression)) in names.iter().zip(&expressions).enumerate() {
        // level:metric:operation, as Prometheus' own guide has it.
        assert_eq!(name.split(':').count(), 3, "{name}");
        assert!(asks_for_known(expression, &known) > 0, "{expression}");
        assert_eq!(expression.matches('(').count(), expression.matches(')').count(), "{expression}");
        let later = names[number..].iter().find(|later| expression.contains(*later));
        assert_eq!(later, None, "{name} uses what is recorded after it");
    }
}

#[test]
fn each_alert_says_what_happened_and_what_to_do() {
    let alerts = of_rules("alerts.yml", "alert: ").len();
    assert!(alerts > 15, "{alerts}");
    for key in ["severity: ", "summary: ", "description: "] {
        let texts = of_rules("alerts.yml", key);
        assert!(texts.len() == alerts && texts.iter().all(|text| text.len() > 3), "{key} of {texts:#?}");
    }
}

/// The rules are read by Prometheus' own tool, and give what their tests say.
#[test]
fn prometheus_accepts_the_rules_and_they_give_the_figures_of_their_tests() {
    let files = ["recording-rules.yml", "alerts.yml"];
    let tests = ["tests/recording-rules.yml", "tests/alerts.yml", "tests/queries.yml"];
    for (words, files) in [(["check", "rules"], &files[..]), (["test", "rules"], &tests[..])] {
        match Command::new("promtool").current_dir(packaging("")).args(words).args(files).output() {
            Ok(output) => assert!(output.status.success(), "promtool {words:?}: {output:?}"),
            Err(error) => {
                return skipped(&format!("promtool cannot be run ({error}); Debian's package is prometheus"));
            }
        }
    }
    let tested = of_rules("tests/alerts.yml", "alertname: ");
    let tested: BTreeSet<_> = tested.into_iter().chain(of_rules(tests[0], "alertname: ")).collect();
    let alerts: BTreeSet<_> = of_rules("alerts.yml", "alert: ").into_iter().collect();
    assert_eq!(tested, alerts, "each alert has a test");
}

/// The queries that are tested are those that KEDA and the dashboards ask.
#[test]
fn what_is_tested_of_several_instances_is_what_is_asked() {
    let in_one_line = |file: &str| {
        let text = fs::read_to_string(packaging(file)).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (tested, keda) = (in_one_line("tests/queries.yml"), in_one_line("keda-workers.yaml"));
    let (_, query) = keda.split_once("query: >- ").unwrap();
    let (query, _) = query.split_once(" #").unwrap();
    assert!(tested.contains(query), "{query}");
    let of_brokers = ["krarup_broker_messages{", "krarup_broker_tube_ready", "workers_needed", "utilization"];
    let of_proxies = ["krarup_workers{", "krarup_queue_length_max"];
    for (dashboard, names) in [("grafana-broker.json", &of_brokers[..]), ("grafana.json", &of_proxies[..])] {
        for (panel, expression) in expressions(dashboard) {
            if names.iter().any(|name| expression.contains(name)) {
                let expression = expression.replace("$instance", ".*").replace("$__rate_interval", "5m");
                assert!(tested.contains(&expression), "{panel}: {expression}");
            }
        }
    }
}

/// A Prometheus that asks these four times a second, each group under the name of its job.
fn prometheus(jobs: &[(&str, &[SocketAddr])]) -> Option<(Program, Port)> {
    let folder = fresh("dashboards-prometheus");
    fs::create_dir_all(&folder).unwrap();
    let configuration = folder.join("prometheus.yml");
    let rules = packaging("");
    let mut text = format!(
        "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\n\
         rule_files: ['{0}/recording-rules.yml', '{0}/alerts.yml']\nscrape_configs:\n",
        rules.display()
    );
    for (job, addresses) in jobs {
        let targets: Vec<String> = addresses.iter().map(|address| format!("'{address}'")).collect();
        let targets = targets.join(", ");
        text += &format!("- {{job_name: {job}, static_configs: [{{targets: [{targets}]}}]}}\n");
    }
    fs::write(&configuration, text).unwrap();
    Command::new("prometheus").arg("--version").output().ok()?;
    let port = Port::new();
    let mut command = Command::new("prometheus");
    command
        .arg(format!("--config.file={}", configuration.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={}", port.address()));
    let mut program = Program::spawn(command);
    program.says_text("Server is ready");
    Some((program, port))
}

/// The values with which Prometheus answers, one for each series.
fn values(prometheus: SocketAddr, expression: &str) -> Vec<f64> {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut peer = Peer::connect(prometheus);
    peer.send(format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: test\r\n\r\n").as_bytes())
        .unwrap();
    let answer = String::from_utf8(peer.rest()).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    let result = answer["data"]["result"].as_array().unwrap();
    let values = result.iter().map(|one| one["value"][1].as_str().unwrap().parse::<f64>().unwrap());
    values.filter(|value| !value.is_nan()).collect()
}

/// The lines of metrics that say of the headroom what this answer says.
fn lines_of(headroom: &Headroom) -> String {
    let mut lines = String::new();
    for metric in HEADROOM_METRICS {
        for one in (metric.values)(headroom) {
            let labels: Vec<String> =
                one.labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
            lines += &format!("{}{{{}}} {}\n", metric.name, labels.join(","), one.value);
        }
    }
    lines
}

/// Gives on what a program tells monitoring, but for its headroom, which is that of an answer: of
/// traffic that lasts some seconds, and on a machine that others use, a program states none.
fn with_headroom(program: SocketAddr, headroom: &Headroom) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stated = lines_of(headroom);
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| give_on(stream, program, &stated)));
    address
}

fn give_on(mut stream: TcpStream, program: SocketAddr, stated: &str) {
    let (mut request, mut room) = (Vec::new(), [0; 512]);
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut room) {
            Ok(count @ 1..) => request.extend_from_slice(&room[..count]),
            _ => return,
        }
    }
    let metrics = asked(program, "GET", "/metrics");
    let Some((head, body)) = metrics.split_once("\r\n\r\n") else { return };
    let is_other = |line: &&str| {
        let of = |metric: &HeadroomMetric| line.trim_start_matches("# TYPE ").starts_with(metric.name);
        !HEADROOM_METRICS.iter().any(of)
    };
    let kept: String = body.lines().filter(is_other).map(|line| format!("{line}\n")).collect();
    let body = kept + stated;
    let status = head.lines().next().unwrap_or_default();
    let head = format!("{status}\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n");
    let length = format!("Content-Length: {}\r\n\r\n", body.len());
    // Prometheus may have given up.
    let _ = stream.write_all((head + &length + &body).as_bytes());
}

/// What is asked of each dashboard: its expressions for these instances, of the job `krarup`.
fn asked_of(dashboard: &str, instances: &[SocketAddr]) -> Vec<(String, String)> {
    let instances: Vec<String> = instances.iter().map(ToString::to_string).collect();
    let instances = instances.join("|");
    let of = |(panel, expression): (String, String)| {
        let expression = expression.replace("$__rate_interval", "5s").replace("$instance", &instances);
        (panel, expression.replace("$job", "krarup"))
    };
    expressions(dashboard).into_iter().map(of).collect()
}

/// A proxy before these servers, and where monitoring asks it.
fn proxy_before(servers: &[Program]) -> (Program, SocketAddr) {
    let names: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let names = names.join(",");
    let words = ["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "8"];
    let mut proxy = Program::begin(&[&words[..], &["--servers", &names]].concat());
    let admin = proxy
        .says(|line| line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok());
    (proxy.listening(), admin)
}

/// Load of some kind, until it is dropped.
fn load(to: &Program, flags: &[&str]) -> Program {
    let to = to.address().to_string();
    let words = ["load", "-s", &to, "--seconds", "600", "-c", "2", "--rate", "200", "--progress", "none"];
    Program::begin(&[&words[..], flags].concat())
}

/// No expression is left out: two proxies before the same servers, a broker whose tubes have
/// messages that wait and workers, and a headroom that is stated.
#[test]
fn a_prometheus_that_watches_them_under_load_has_an_answer_to_every_expression() {
    if crate::durable::cluster::programs().is_none() {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    }
    let servers = [(); 2].map(|()| Program::krarup(&["cache", "--listen", "127.0.0.1:0"]));
    let [(first, first_admin), (second, second_admin)] = [(); 2].map(|()| proxy_before(&servers));
    let (broker, broker_admin) = monitored(&["--postgres-temporary"]);
    let stated = crate::headroom::of_known_rows("dashboards-rows");
    let [first_stated, second_stated, broker_stated] =
        [first_admin, second_admin, broker_admin].map(|admin| with_headroom(admin, &stated));
    let jobs: [(&str, &[SocketAddr]); 3] = [
        ("krarup", &[first_stated, second_stated]),
        ("krarup-broker", &[broker_stated]),
        ("themselves", &[first_admin, second_admin, broker_admin]),
    ];
    let Some((prometheus, port)) = prometheus(&jobs) else {
        return skipped("Prometheus is not installed: apt-get install prometheus");
    };
    let mut peer = broker.connect();
    say(&mut peer, "use left\r\nput 1 0 60 1\r\nx\r\n", "USING left\r\nINSERTED 1\r\n");
    let loads = [
        load(&first, &["--ratio", "1:3"]),
        load(&second, &["--ratio", "1:3"]),
        load(&first, &["--ratio", "0:1", "--multi-get", "4"]),
        load(&broker, &["--mix", "put=1,reserve=1", "--tubes", "2"]),
    ];
    let answers = |expression: &str| values(port.address(), expression);
    let dashboards: [(&str, &[SocketAddr]); 3] = [
        ("grafana.json", &[first_stated, second_stated]),
        ("grafana-broker.json", &[broker_stated]),
        ("grafana-fleet.json", &[]),
    ];
    for (dashboard, instances) in dashboards {
        for (panel, expression) in asked_of(dashboard, instances) {
            let what = format!("{panel} of {dashboard} shows {expression}");
            until(&what, || !answers(&expression).is_empty());
        }
    }
    // What each is, and all of them together.
    for (expression, expected) in [
        ("instance:krarup_requests_accepted:rate5m{job=\"krarup\"} > 0", 2),
        ("job_server:krarup_server_requests:rate5m{job=\"krarup\"} > 0", 2),
        ("job_verdict:krarup_headroom_verdict:sum{job=\"krarup\"} == 2", 1),
        ("job_bound:krarup_capacity_requests_per_second:shared{job=\"krarup\"}", 3),
        // Of themselves they know what they served, and say how much is known.
        ("krarup_proven_requests_per_second{job=\"themselves\"} > 0", 3),
        ("krarup_headroom_verdict{job=\"themselves\"} == 1", 3),
    ] {
        until(&format!("{expression} has {expected} series"), || answers(expression).len() == expected);
    }
    drop((loads, prometheus));
    // Its PostgreSQL ends with it.
    assert!(broker.stop().success);
}
