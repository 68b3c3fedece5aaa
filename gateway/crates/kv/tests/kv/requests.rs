//! What may be asked, by whom, and how it is refused.

use axum::body::Body;
use blockgate_api::types::{ExistsResponse, FleetResponse, LookupResponse, StatsResponse, UpstreamState};
use blockgate_upstream::{Fault, Op, UpstreamError};
use http::Request;

use crate::support::*;

#[tokio::test]
async fn a_chain_is_found_up_to_its_end() {
    let disk = Disk::new().await;
    let gateway = disk.gateway();
    gateway.put(&[("m/0/x", b"zero"), ("m/1/x", b"one"), ("m/3/x", b"three")]).await;
    let asked = r#"{"keys":["0","1","2","3"],"key_prefix":"m/","key_suffix":"/x"}"#;
    let ends = r#"{"keys":["0","1","2"],"key_prefix":"m/","key_suffix":"/x"}"#;
    for gateway in [&gateway, &disk.gateway()] {
        let found: LookupResponse = gateway.ask("lookup", ends).await;
        assert_eq!((found.matched, found.miss.map(|miss| miss.index)), (2, Some(2)));
        let present: ExistsResponse = gateway.ask("exists", asked).await;
        let bits: Vec<bool> = (0..4).map(|index| present.present.get(index)).collect();
        assert_eq!(bits, [true, true, false, true]);
    }
    let found: LookupResponse = gateway.ask("lookup", r#"{"keys":[]}"#).await;
    assert_eq!((found.matched, found.miss), (0, None));
}

#[tokio::test]
async fn paths_and_methods() {
    let gateway = Disk::new().await.gateway();
    let send = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        gateway.send(request, ADMIN, false).await
    };
    for path in ["/_kv/v1/kv-bucket/nope", "/_kv/v1/kv-bucket", "/_kv/v2/fleet", "/_kv/v1/kv-bucket/get/"] {
        assert_eq!(refused(send("POST", path).await).await, (404, "NotFound".to_owned()), "{path}");
    }
    for (method, path, allow) in [
        ("GET", "/_kv/v1/kv-bucket/lookup", "POST"),
        ("PUT", "/_kv/v1/kv-bucket/put", "POST"),
        ("POST", "/_kv/v1/kv-bucket/stats", "GET,HEAD"),
        ("DELETE", "/_kv/v1/fleet", "GET,HEAD"),
    ] {
        let response = send(method, path).await;
        assert_eq!(response.headers()["allow"], allow, "{method} {path}");
        assert_eq!(refused(response).await, (405, "MethodNotAllowed".to_owned()));
    }
    let response = send("HEAD", "/_kv/v1/fleet").await;
    assert_eq!(whole(response).await, (200, Default::default()));
}

#[tokio::test]
async fn only_who_may() {
    let gateway = Disk::new().await.gateway();
    let by = async |access_key: &str, path: &str| {
        let request = match path.ends_with("stats") || path.ends_with("fleet") {
            true => Request::get(format!("/_kv/v1/{path}")).body(Body::empty()).unwrap(),
            false => post_request(path, "application/json", r#"{"keys":["a"],"ttl_s":1}"#),
        };
        gateway.send(request, access_key, false).await.status().as_u16()
    };
    for operation in ["put", "delete", "touch"] {
        assert_eq!(by(READER, &format!("{BUCKET}/{operation}")).await, 403, "{operation}");
        assert_ne!(by(ADMIN, &format!("{BUCKET}/{operation}")).await, 403, "{operation}");
    }
    assert_eq!(by(READER, "kv-bucket/stats").await, 200);
    assert_eq!(by(READER, "other/stats").await, 403);
    assert_eq!(by(READER, "fleet").await, 200);
    assert_eq!(by("NOBODY", "kv-bucket/stats").await, 403);
    let lookup = post_request("other/lookup", "application/json", r#"{"keys":["a"]}"#);
    assert_eq!(refused(gateway.send(lookup, READER, false).await).await.0, 403);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said() {
    let gateway = Disk::new().await.gateway();
    for (operation, json, code) in [
        ("lookup", "", "InvalidJson"),
        ("lookup", r#"{"keys":["a"],"deadlin_ms":5}"#, "InvalidJson"),
        ("lookup", r#"{"keys":["a"],"lease_ms":600001}"#, "LimitExceeded"),
        ("lookup", r#"{"keys":["a"],"deadline_ms":0}"#, "InvalidArgument"),
        ("lookup", r#"{"keys":[".blockgate/x"]}"#, "InvalidArgument"),
        ("exists", r#"{"keys":[""]}"#, "InvalidArgument"),
        ("get", r#"{"keys":["a"],"stripes":0}"#, "InvalidArgument"),
        ("get", r#"{"keys":["a"],"mode":"some"}"#, "InvalidJson"),
        ("get", r#"{"keys":["a"],"fingerprint":" x"}"#, "InvalidArgument"),
        ("delete", "{}", "InvalidArgument"),
        ("delete", r#"{"keys":[],"prefix":"a"}"#, "InvalidArgument"),
        ("delete", r#"{"prefix":""}"#, "InvalidArgument"),
        ("touch", r#"{"keys":["a"]}"#, "InvalidJson"),
        ("touch", r#"{"keys":["a"],"ttl_s":0}"#, "InvalidArgument"),
        ("lookup?trace=1", "{}", "InvalidArgument"),
    ] {
        assert_eq!(refused(gateway.post(operation, json).await).await, (400, code.to_owned()), "{operation} {json}");
    }
    let wrong_kind = post_request("kv-bucket/lookup", "text/plain", "{}");
    assert_eq!(refused(gateway.send(wrong_kind, ADMIN, false).await).await.0, 415);
    let long = format!("{{{}}}", " ".repeat(blockgate_api::limits::JSON_BYTES_MAX));
    assert_eq!(refused(gateway.post("lookup", long).await).await.0, 413);
    let passthrough = post_request("pass-bucket/lookup", "application/json", "{}");
    assert_eq!(refused(gateway.send(passthrough, ADMIN, false).await).await.0, 501);
    for bucket in ["not-there", "..", "_x"] {
        let request = Request::get(format!("/_kv/v1/{bucket}/stats")).body(Body::empty()).unwrap();
        let answer = refused(gateway.send(request, ADMIN, false).await).await;
        assert_eq!(answer, (404, "NoSuchBucket".to_owned()), "{bucket}");
    }
}

#[tokio::test]
async fn operators_see_the_gateway_also_while_the_upstream_is_out() {
    let disk = Disk::new().await;
    let gateway = disk.gateway();
    gateway.put(&[("a", b"bytes")]).await;
    let get = async |path: &str| {
        let request = Request::get(format!("/_kv/v1/{path}")).body(Body::empty()).unwrap();
        let (status, bytes) = whole(gateway.send(request, READER, false).await).await;
        assert_eq!(status, 200);
        bytes
    };
    for (fault, state) in
        [(None, UpstreamState::Up), (Some(UpstreamError::Unavailable("gone".into())), UpstreamState::Down)]
    {
        if let Some(error) = fault {
            for op in [Op::Ping, Op::HeadBucket] {
                disk.faults.always(op, Fault::Fail(error.clone()));
            }
        }
        let stats: StatsResponse = serde_json::from_slice(&get("kv-bucket/stats").await).unwrap();
        assert_eq!((stats.bucket.as_str(), stats.memory.blocks), (BUCKET, 1));
        let fleet: FleetResponse = serde_json::from_slice(&get("fleet").await).unwrap();
        let [one] = &fleet.gateways[..] else { panic!("{fleet:?}") };
        assert_eq!((one.id.as_str(), one.started_at), ("g1", 1_000));
        assert_eq!((one.upstream.kind.as_str(), one.upstream.state), (disk_name(&gateway), state));
    }
}

fn disk_name(gateway: &Gateway) -> &str {
    gateway.store.upstream().name()
}
