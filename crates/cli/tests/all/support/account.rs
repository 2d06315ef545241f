//! The accounts of `krarup load` and of `krarup proxy` about the same requests, which must agree to
//! the unit.

use serde_json::Value;

use super::process::{Ended, Program};

/// Keys and values small enough for every server to keep them all.
pub(crate) const KEYS: [&str; 4] = ["--keys", "2000", "--data-size", "10-2000"];

/// `krarup load` against one address with [`KEYS`].
pub(crate) fn load<'a>(address: &'a str, flags: &[&'a str]) -> Program {
    Program::begin(&[&["load", "--servers", address][..], &KEYS, flags].concat())
}

/// The number at this place, 0 where there is nothing.
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value
        .pointer(pointer)
        .map_or(0, |number| number.as_u64().unwrap_or_else(|| panic!("{pointer}: {number}")))
}

/// The sum of the numbers in an object.
pub(crate) fn sum(value: &Value) -> u64 {
    value.as_object().map_or(0, |object| object.values().map(|number| number.as_u64().unwrap()).sum())
}

/// What the proxy says of one operation.
pub(crate) fn operation<'a>(proxy: &'a Value, name: &str) -> &'a Value {
    let operations = proxy["operations"].as_array().unwrap();
    operations.iter().find(|line| line["operation"] == name).unwrap_or(&Value::Null)
}

/// What the load generator and the proxy say of the same requests.
pub(crate) fn assert_load_and_proxy_agree(load: &Value, proxy: &Value) {
    let account = &load["account"];
    assert_eq!(number(account, "/sent"), number(account, "/answered") + sum(&account["lost"]));
    let mut answered = 0;
    for (name, answers) in account["answers"].as_object().unwrap() {
        let line = operation(proxy, name);
        assert_eq!(number(line, "/count"), sum(answers), "{name}: {answers} and {line}");
        assert_eq!(number(line, "/errors"), number(answers, "/server_error"), "{name}: {answers} and {line}");
        answered += sum(answers);
    }
    assert_eq!(answered, number(account, "/answered"));
    assert_eq!(number(account, "/hits"), number(proxy, "/all/hits"));
    assert_eq!(number(account, "/misses"), number(proxy, "/all/misses"));
    let others = operation(proxy, "other");
    let beside = |name: &str| number(proxy, &format!("/all/{name}")) - number(others, &format!("/{name}"));
    assert_eq!(answered, beside("count"));
    assert_eq!(number(account, "/bytes_received"), beside("bytes_out"));
    if sum(&account["lost"]) == 0 {
        assert_eq!(number(account, "/bytes_sent"), beside("bytes_in"));
    }
    assert!(number(load, "/verified/checked") > 0, "it is a load with --verify: {}", load["verified"]);
    assert_eq!(number(load, "/verified/mismatched"), 0, "{}", load["verified"]);
    assert_eq!(number(proxy, "/disordered"), 0);
}

/// The accounts of a load that has ended and of the proxy, which ends now. They agree, and every
/// request was answered.
pub(crate) fn accounts_of(ended: &Ended, proxy: Program) -> (Value, Value) {
    assert!(ended.success, "{ended:?}");
    let load = ended.json();
    let ended = proxy.stop();
    assert!(ended.success, "{ended:?}");
    let proxy = ended.json();
    assert_eq!(load["account"]["lost"], serde_json::json!({}), "every request is answered");
    assert_eq!(number(&load, "/account/connections_lost"), 0);
    assert_load_and_proxy_agree(&load, &proxy);
    (load, proxy)
}

/// The statistics of a server or of the proxy begin anew.
pub(crate) fn reset(program: &Program) {
    let mut peer = program.connect();
    peer.send(b"stats reset\r\n").unwrap();
    peer.expect(b"RESET\r\n").unwrap();
}
