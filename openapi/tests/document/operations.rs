//! Paths, parameters, headers, and how requests are refused.

use blockgate_api::{BASE_PATH, BYTES_HEADER, ErrorCode, FRAMES_MEDIA_TYPE, MATCHED_HEADER, limits};
use serde::Serialize;

use crate::examples;
use crate::node::{Node, map};

const JSON: &str = "application/json";
/// Every status that a request to an operation may be refused with.
const REFUSALS: [u16; 12] = [400, 403, 404, 405, 408, 411, 413, 415, 500, 501, 503, 507];
/// Those of a request without a body.
const REFUSALS_BODILESS: [u16; 7] = [400, 403, 404, 405, 500, 501, 503];

fn reference(kind: &str, name: &str) -> Node {
    map! { "$ref" => format!("#/components/{kind}/{name}") }
}

fn json(schema: &str, examples: Vec<(&str, Node)>) -> Node {
    let examples = examples.into_iter().map(|(name, value)| (name.to_owned(), map! { "value" => value })).collect();
    map! { JSON => map! { "schema" => reference("schemas", schema), "examples" => Node::Map(examples) } }
}

fn one(example: &impl Serialize) -> Vec<(&'static str, Node)> {
    vec![("example", Node::of(example))]
}

fn body(content: Node) -> Node {
    map! { "required" => true, "content" => content }
}

fn frames() -> Node {
    map! { FRAMES_MEDIA_TYPE => map! { "schema" => reference("schemas", "Frames") } }
}

fn ok(description: &str, headers: &[&str], content: Node) -> Node {
    let headers = ["x-amz-request-id"].iter().chain(headers);
    let headers = headers.map(|name| ((*name).to_owned(), reference("headers", name))).collect();
    map! { "description" => description, "headers" => Node::Map(headers), "content" => content }
}

fn operation(name: &str, tag: &str, summary: &str, request: Option<Node>, response: Node) -> Node {
    let refusals: &[u16] = if request.is_some() { &REFUSALS } else { &REFUSALS_BODILESS };
    let refusals =
        refusals.iter().map(|status| (status.to_string(), reference("responses", &format!("Error{status}"))));
    let responses = std::iter::once(("200".to_owned(), response)).chain(refusals).collect();
    let operation = map! { "operationId" => name, "tags" => vec![tag], "summary" => summary };
    let operation = match request {
        Some(request) => operation.with(map! { "requestBody" => request }),
        None => operation,
    };
    operation.with(map! { "responses" => Node::Map(responses) })
}

pub(crate) fn paths() -> Node {
    let (lookup, found) = examples::lookup();
    let (exists, present) = examples::exists();
    let (touch, touched) = examples::touch();
    let ([by_keys, by_prefix, by_fingerprint], deleted) = examples::delete();
    let deletes = vec![
        ("keys", Node::of(&by_keys)),
        ("prefix", Node::of(&by_prefix)),
        ("fingerprint", Node::of(&by_fingerprint)),
    ];
    let gets = vec![("stripes", Node::of(&examples::get())), ("ranges", Node::of(&examples::get_ranges()))];
    let post = |name: &str, summary: &str, request: Node, response: Node| {
        map! { "post" => operation(name, "blocks", summary, Some(body(request)), response) }
    };
    let bucket = |name: &str, item: Node| {
        let shared = map! { "parameters" => vec![reference("parameters", "bucket")] };
        (format!("{BASE_PATH}/{{bucket}}/{name}"), shared.with(item))
    };
    let put = operation(
        "put",
        "blocks",
        "Stores blocks, each with an outcome of its own.",
        Some(body(frames())),
        ok("What became of each block.", &[], json("PutResponse", one(&examples::put()))),
    );
    let put = map! { "post" => map! { "parameters" => vec![reference("parameters", "group")] }.with(put) };
    let stats = operation(
        "stats",
        "operators",
        "What operators look at, of one bucket.",
        None,
        ok("Figures of the gateway that answers.", &[], json("StatsResponse", one(&examples::stats()))),
    );
    let fleet = operation(
        "fleet",
        "operators",
        "The gateways that are known.",
        None,
        ok("The gateways.", &[], json("FleetResponse", one(&examples::fleet()))),
    );
    Node::Map(vec![
        bucket(
            "lookup",
            post(
                "lookup",
                "The longest usable prefix of a chain.",
                json("LookupRequest", one(&lookup)),
                ok("What matches.", &[], json("LookupResponse", one(&found))),
            ),
        ),
        bucket(
            "exists",
            post(
                "exists",
                "Which keys are there, no prefix assumed.",
                json("ExistsRequest", one(&exists)),
                ok("One bit a key.", &[], json("ExistsResponse", one(&present))),
            ),
        ),
        bucket(
            "get",
            post(
                "get",
                "Lookup and stream fused.",
                json("GetRequest", gets),
                ok("Frames; a body without a last frame was cut.", &[MATCHED_HEADER, BYTES_HEADER], frames()),
            ),
        ),
        bucket("put", put),
        bucket(
            "delete",
            post(
                "delete",
                "Deletes blocks; answered when this gateway and the store have them no more.",
                json("DeleteRequest", deletes),
                ok("What was deleted.", &[], json("DeleteResponse", one(&deleted))),
            ),
        ),
        bucket(
            "touch",
            post(
                "touch",
                "Renews times to live; no block bytes move.",
                json("TouchRequest", one(&touch)),
                ok("What was renewed.", &[], json("TouchResponse", one(&touched))),
            ),
        ),
        bucket("stats", map! { "get" => stats }),
        (format!("{BASE_PATH}/fleet"), map! { "get" => fleet }),
    ])
}

pub(crate) fn parameters() -> Node {
    map! {
        "bucket" => map! {
            "name" => "bucket", "in" => "path", "required" => true,
            "schema" => map! { "type" => "string", "pattern" => "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$" },
            "example" => "kvcache",
        },
        "group" => map! {
            "name" => "group", "in" => "query",
            "description" => format!(
                "Whether all blocks become visible together or none; at most {} then, and {} else.",
                limits::GROUP_BLOCKS_MAX, limits::PUT_BLOCKS_MAX),
            "schema" => map! { "type" => "boolean", "default" => false },
        },
    }
}

pub(crate) fn headers() -> Node {
    let number = || map! { "type" => "integer", "minimum" => 0 };
    map! {
        "x-amz-request-id" => map! {
            "description" => "Names the request in the gateway's logs.", "required" => true, "schema" => map! { "type" => "string" },
        },
        MATCHED_HEADER => map! {
            "description" => "With mode prefix: how many blocks will be delivered.", "required" => false, "schema" => number(),
        },
        BYTES_HEADER => map! {
            "description" => "With mode prefix: their payload bytes together; blocks whose length is not known yet are counted like the nearest known one.",
            "required" => false, "schema" => number(),
        },
    }
}

/// One for each status, with the codes that go with it.
pub(crate) fn error_responses() -> Node {
    let mut statuses: Vec<u16> = ErrorCode::ALL.iter().map(|code| code.status().as_u16()).collect();
    statuses.sort_unstable();
    statuses.dedup();
    let response = |status: u16| {
        let codes: Vec<ErrorCode> =
            ErrorCode::ALL.iter().copied().filter(|code| code.status().as_u16() == status).collect();
        let meanings: Vec<String> = codes.iter().map(|code| format!("{code}: {}", code.meaning())).collect();
        let examples = codes.iter().map(|code| (code.as_str(), Node::of(&examples::error(*code)))).collect();
        let content = json("ErrorBody", examples);
        (format!("Error{status}"), ok(&meanings.join(" "), &[], content))
    };
    Node::Map(statuses.into_iter().map(response).collect())
}
