//! Dashboards, alerts and recording rules ask for metrics that there are, and a Prometheus that
//! watches a proxy and a broker under load has an answer to each expression.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::broker::monitored;
use crate::support::peer::Peer;
use crate::support::process::{Port, Program, skipped};
use crate::support::{fresh, until};

const DASHBOARDS: [&str; 3] = ["grafana.json", "grafana-broker.json", "grafana-fleet.json"];

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// The expressions of a dashboard, each with the title of its panel.
fn expressions(dashboard: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(packaging(dashboard)).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().clone();
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

/// The series that proxy and broker tell, by the tables of their references.
fn told() -> BTreeSet<String> {
    let pages = [
        include_str!("../../../../docs/reference/metrics.md"),
        include_str!("../../../../docs/reference/broker-metrics.md"),
    ];
    let of_line = |line: &str| {
        let (name, kind) = line.strip_prefix("| `")?.split_once("` | ")?;
        let endings: &[&str] = match kind.split(' ').next()? {
            "histogram" => &["_bucket", "_sum", "_count"],
            "summary" => &["", "_sum", "_count"],
            _ => &[""],
        };
        Some(endings.iter().map(|ending| format!("{name}{ending}")).collect::<Vec<_>>())
    };
    pages.iter().flat_map(|page| page.lines()).filter_map(of_line).flatten().collect()
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
        let text = fs::read_to_string(packaging(dashboard)).unwrap();
        let mut queries = Vec::new();
        for key in ["expr", "query"] {
            texts(&serde_json::from_str(&text).unwrap(), key, &mut queries);
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
    let tests = ["tests/recording-rules.yml", "tests/alerts.yml"];
    for (words, files) in [(["check", "rules"], files), (["test", "rules"], tests)] {
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

/// A Prometheus that asks these four times a second.
fn prometheus(proxy: SocketAddr, broker: SocketAddr) -> Option<(Program, Port)> {
    let folder = fresh("dashboards-prometheus");
    fs::create_dir_all(&folder).unwrap();
    let configuration = folder.join("prometheus.yml");
    let rules = packaging("");
    let text = format!(
        "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\n\
         rule_files: ['{0}/recording-rules.yml', '{0}/alerts.yml']\n\
         scrape_configs:\n\
         - {{job_name: krarup, static_configs: [{{targets: ['{proxy}']}}]}}\n\
         - {{job_name: krarup-broker, static_configs: [{{targets: ['{broker}']}}]}}\n",
        rules.display()
    );
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

/// How many series Prometheus answers with.
fn series(prometheus: SocketAddr, expression: &str) -> usize {
    let encoded: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let mut peer = Peer::connect(prometheus);
    peer.send(format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: test\r\n\r\n").as_bytes())
        .unwrap();
    let answer = String::from_utf8(peer.rest()).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let answer: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(answer["status"], "success", "{expression}: {answer}");
    let result = answer["data"]["result"].as_array().unwrap();
    result.iter().filter(|one| one["value"][1] != "NaN").count()
}

/// These are not there while nothing can be said (of a few seconds nothing can), or where the
/// number of workers is not limited.
const MAY_BE_ABSENT: [&str; 9] = [
    "krarup_headroom_ratio",
    "krarup_capacity_requests_per_second",
    "krarup_proven_requests_per_second",
    "krarup_bottleneck",
    "krarup_workers{",
    "krarup_broker_workers_needed",
    "krarup_broker_tube_utilization_ratio",
    "krarup_broker_tube_waiting_time_seconds",
    "krarup_broker_tube_oldest_age_seconds",
];

#[test]
fn a_prometheus_that_watches_them_under_load_has_an_answer_to_every_expression() {
    let server = Program::krarup(&["cache", "--listen", "127.0.0.1:0"]);
    let name = server.address().to_string();
    let words = ["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--servers", &name];
    let mut proxy = Program::begin(&words);
    let proxys: SocketAddr = proxy
        .says(|line| line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok());
    let proxy = proxy.listening();
    if crate::durable::cluster::programs().is_none() {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    }
    let (broker, brokers) = monitored(&["--postgres-temporary"]);
    let Some((_prometheus, port)) = prometheus(proxys, brokers) else {
        return skipped("Prometheus is not installed: apt-get install prometheus");
    };
    let load = |to: &Program, flags: &[&str]| {
        let to = to.address().to_string();
        let words = ["load", "-s", &to, "--seconds", "600", "-c", "2", "--rate", "200", "--progress", "none"];
        Program::begin(&[&words[..], flags].concat())
    };
    let _gets = load(&proxy, &["--ratio", "1:3"]);
    let _many = load(&proxy, &["--ratio", "0:1", "--multi-get", "4"]);
    let _jobs = load(&broker, &["--mix", "put=1,reserve=1", "--tubes", "2"]);
    for (panel, expression) in DASHBOARDS.iter().flat_map(|dashboard| expressions(dashboard)) {
        let asked =
            expression.replace("$__rate_interval", "5s").replace("$instance", ".*").replace("$job", ".*");
        let found = || series(port.address(), &asked);
        if MAY_BE_ABSENT.iter().any(|name| expression.contains(name)) {
            found();
        } else {
            until(&format!("{panel} shows {expression}"), || found() > 0);
        }
    }
    // Its PostgreSQL ends with it.
    assert!(broker.stop().success);
}
