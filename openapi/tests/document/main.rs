//! `openapi.yaml` is written from the crate: its types serialize the examples, its limits and codes stand in the schemas.

#![allow(clippy::unwrap_used)]

mod examples;
mod node;
mod operations;
mod schemas;

use std::path::Path;

use node::{Node, map};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.yaml");
const MEND: &str = "UPDATE=1 cargo test --package blockgate-api --test document";

const DESCRIPTION: &str = "What a KV cache needs and S3 has not: lookups, batches and streams of blocks. Same listener, credentials and \
    policies as S3. A key in full is key_prefix + key + key_suffix. Lengths of keys and fingerprints are limited in bytes; the \
    lengths here, which count characters, are their upper bounds. Unknown fields are refused. How frames lie in a body and how \
    requests are signed: docs/protocol.md.";

const SIGV4: &str = "AWS Signature Version 4 in the Authorization header, service s3, the gateway's region: \
    AWS4-HMAC-SHA256 Credential=<access key>/<date>/<region>/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
    Signature=<hex>. The headers x-amz-date and x-amz-content-sha256 (SHA-256 of the body, or UNSIGNED-PAYLOAD) are needed.";

fn document() -> Node {
    map! {
        "openapi" => "3.1.0",
        "info" => map! {
            "title" => "blockgate KV extension",
            "version" => "1",
            "description" => DESCRIPTION,
            "license" => map! { "name" => "Apache-2.0", "identifier" => "Apache-2.0" },
        },
        "servers" => vec![map! { "url" => "http://127.0.0.1:9800", "description" => "blockgate serve, without a configuration" }],
        "security" => vec![map! { "sigv4" => Vec::<Node>::new() }],
        "tags" => vec![
            map! { "name" => "blocks", "description" => "What engines ask" },
            map! { "name" => "operators", "description" => "What operators ask" },
        ],
        "paths" => operations::paths(),
        "components" => map! {
            "securitySchemes" => map! {
                "sigv4" => map! { "type" => "http", "scheme" => "AWS4-HMAC-SHA256", "description" => SIGV4 },
            },
            "parameters" => operations::parameters(),
            "headers" => operations::headers(),
            "responses" => operations::error_responses(),
            "schemas" => schemas::all(),
        },
    }
}

#[test]
fn openapi_yaml_is_what_the_crate_says() {
    let text = format!("# Generated from the crate blockgate-api: {MEND}\n{}", document().to_yaml());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PATH, &text).unwrap();
    }
    let committed = std::fs::read_to_string(Path::new(PATH)).unwrap_or_default();
    assert!(committed == text, "openapi.yaml is not what the crate says; mend it with: {MEND}");
}

/// A schema has the fields that the type has, no more and no less.
#[test]
fn schemas_have_the_types_fields() {
    let Node::Map(schemas) = schemas::all() else { panic!("not a map") };
    for (name, instance) in examples::full() {
        let schema = schemas.iter().find(|(schema, _)| schema == name).map(|(_, schema)| schema).unwrap();
        let (Some(Node::Map(properties)), Node::Map(fields)) = (schema.get("properties"), &instance) else {
            panic!("{name} is no object")
        };
        let names = |map: &[(String, Node)]| map.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(properties), names(fields), "{name}");
    }
}
