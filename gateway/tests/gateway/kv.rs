//! The KV extension, mounted in the real binary.

use serde_json::{Value, json};

use crate::http::{Connection, ask, get};
use crate::process::Gateway;

fn post(gateway: &Gateway, path: &str, body: &Value) -> (u16, Value) {
    let mut connection = Connection::open(gateway.s3[0]);
    let body = body.to_string();
    connection.send_head_with("POST", path, &[("content-type", "application/json")], body.len());
    connection.send(body.as_bytes());
    let head = connection.read_head();
    assert!(head.header("x-amz-request-id").is_some());
    let body = connection.read_body(&head);
    (head.status, serde_json::from_slice(&body).unwrap())
}

#[test]
fn both_faces_on_one_listener() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&directory, &[]);
    let server = gateway.s3[0];
    assert_eq!(ask(server, "PUT", "/kvcache", b"").0, 200);
    assert_eq!(ask(server, "PUT", "/kvcache/m/0", b"block").0, 200);

    let asked = json!({ "keys": ["0", "1"], "key_prefix": "m/" });
    let (status, found) = post(&gateway, "/_kv/v1/kvcache/lookup", &asked);
    assert_eq!((status, &found["matched"], &found["bytes"]), (200, &json!(1), &json!(5)));
    assert_eq!(found["miss"], json!({ "index": 1, "reason": "absent" }));

    let (status, refused) = post(&gateway, "/_kv/v1/kvcache/lookup", &json!({ "deadlin_ms": 5 }));
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("InvalidJson")));
    let (status, text) = get(server, "/_kv/v1/fleet");
    let unsigned: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &unsigned["error"]["code"]), (403, &json!("AccessDenied")));

    let (status, fleet) = ask(server, "GET", "/_kv/v1/fleet", b"");
    let fleet: Value = serde_json::from_slice(&fleet).unwrap();
    assert_eq!((status, &fleet["gateways"][0]["upstream"]), (200, &json!({ "kind": "fs", "state": "up" })));
    let (_, metrics) = get(gateway.ops, "/metrics");
    assert!(metrics.contains(r#"blockgate_requests_total{operation="KvLookup",status="200"} 1"#), "{metrics}");
}

#[test]
fn a_listener_for_one_bucket_has_keys_under_that_path() {
    let directory = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(&directory, &[("SERVER__DEFAULT_BUCKET", "kvcache")]);
    let server = gateway.s3[0];
    assert_eq!(ask(server, "PUT", "/_kv/v1/fleet", b"a block").0, 200);
    assert_eq!(ask(server, "GET", "/_kv/v1/fleet", b""), (200, b"a block".to_vec()));
}
