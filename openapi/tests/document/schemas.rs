//! What requests and responses hold, as JSON Schema.

use blockgate_api::{ErrorCode, MissReason, limits};

use crate::node::{Node, map};

fn integer(minimum: u64, maximum: Option<u64>, description: &str) -> Node {
    let schema = map! { "type" => "integer", "minimum" => minimum };
    let schema = maximum.into_iter().fold(schema, |schema, maximum| schema.with(map! { "maximum" => maximum }));
    schema.with(map! { "description" => description })
}

fn count(description: &str) -> Node {
    integer(0, None, description)
}

fn text(max: usize, description: &str) -> Node {
    map! { "type" => "string", "maxLength" => max as u64, "description" => description }
}

fn plain(kind: &str, description: &str) -> Node {
    map! { "type" => kind, "description" => description }
}

fn reference(name: &str) -> Node {
    map! { "$ref" => format!("#/components/schemas/{name}") }
}

fn or_null(schema: Node) -> Node {
    map! { "oneOf" => vec![schema, map! { "type" => "null" }] }
}

/// The same type, or null: for schemas that name one type.
fn nullable(schema: Node) -> Node {
    let Node::Map(mut entries) = schema else { return schema };
    for (key, value) in &mut entries {
        if key == "type" {
            *value = Node::List(vec![value.clone(), "null".into()]);
        }
    }
    Node::Map(entries)
}

fn list(items: Node, min: usize, max: Option<usize>, description: &str) -> Node {
    let schema = map! { "type" => "array", "items" => items, "minItems" => min as u64 };
    let schema = max.into_iter().fold(schema, |schema, max| schema.with(map! { "maxItems" => max as u64 }));
    schema.with(map! { "description" => description })
}

fn object(description: &str, required: &[&str], properties: Node) -> Node {
    map! {
        "type" => "object",
        "description" => description,
        "required" => required.to_vec(),
        "properties" => properties,
        "additionalProperties" => false,
    }
}

/// An object all of whose fields are always there.
fn response(description: &str, properties: Node) -> Node {
    let Node::Map(entries) = &properties else { return properties };
    let names: Vec<String> = entries.iter().map(|(name, _)| name.clone()).collect();
    let required: Vec<&str> = names.iter().map(String::as_str).collect();
    object(description, &required, properties.clone())
}

fn with_default(schema: Node, default: impl Into<Node>) -> Node {
    schema.with(Node::Map(vec![("default".to_owned(), default.into())]))
}

fn keys() -> Node {
    let key = map! { "type" => "string", "maxLength" => limits::KEY_BYTES_MAX as u64 };
    map! {
        "keys" => list(key, 0, Some(limits::KEYS_MAX), "In order of the chain."),
        "key_prefix" => with_default(text(limits::KEY_BYTES_MAX, "Stands before every key."), ""),
        "key_suffix" => with_default(text(limits::KEY_BYTES_MAX, "Stands after every key."), ""),
    }
}

fn fingerprint() -> Node {
    let description = "The fingerprint that blocks must have been stored for; any when null.";
    nullable(text(limits::FINGERPRINT_BYTES_MAX, description))
}

fn deadline(description: &str) -> Node {
    nullable(integer(1, Some(limits::DEADLINE_MS_MAX), description))
}

fn ttl() -> Node {
    integer(1, Some(limits::TTL_S_MAX), "Seconds to live, from now.")
}

pub(crate) fn all() -> Node {
    questions().with(transfers()).with(changes()).with(operators()).with(outcomes())
}

fn questions() -> Node {
    let lookup_request = keys().with(map! {
        "fingerprint" => fingerprint(),
        "lease_ms" => with_default(
            integer(0, Some(limits::LEASE_MS_MAX), "How long the match must stay where it is; 0 asks for no lease."), 0),
        "prefetch" => with_default(plain("boolean", "Whether to begin bringing the match to memory."), false),
        "deadline_ms" => deadline("Time by which the match must be delivered: matched is what can be."),
    });
    let exists_request = keys().with(map! {
        "fingerprint" => fingerprint(),
        "deadline_ms" => deadline("Time that the answer may take."),
    });
    map! {
        "LookupRequest" => object("How much of a chain is reusable.", &[], lookup_request),
        "LookupResponse" => response("The longest usable prefix of a chain.", map! {
            "matched" => count("How many blocks, from the first."),
            "bytes" => count("Their bytes together. Blocks whose length is not known yet are counted like the nearest known one."),
            "tiers" => reference("TierCounts"),
            "miss" => or_null(reference("Miss")),
            "estimate_ms" => plain("number", "What delivering the match would take, by measured latency and bandwidth."),
            "lease_expires_at" => nullable(count("Milliseconds since 1970, until when what is in memory of the match stays there; null without a lease, and where not all of it could be leased (a quarter of memory at most is).")),
        }),
        "TierCounts" => response("Blocks by tier.", map! {
            "memory" => count("In the gateway's memory."),
            "staging" => count("On its NVMe."),
            "upstream" => count("In the shared store."),
        }),
        "Miss" => response("A block that can't be served now.", map! {
            "index" => count("Its position in keys."),
            "reason" => reference("MissReason"),
        }),
        "ExistsRequest" => object("Which blocks are there.", &[], exists_request),
        "ExistsResponse" => response("Which keys are there.", map! {
            "present" => map! {
                "type" => "string",
                "contentEncoding" => "base64",
                "description" => "One bit a key: bit i is bit i % 8 of byte i / 8, least significant first.",
            },
        }),
    }
}

fn transfers() -> Node {
    let get_request = keys().with(map! {
        "mode" => with_default(
            map! { "enum" => vec!["prefix", "all"], "description" => "Up to the first miss, or all that are there." }, "prefix"),
        "order" => with_default(
            map! { "enum" => vec!["request", "ready"], "description" => "As asked, or as blocks become ready." }, "request"),
        "stripes" => with_default(
            integer(1, Some(limits::STRIPES_MAX.into()), "Into how many stripes each block is cut; stripe 0 of all blocks comes first."), 1),
        "ranges" => nullable(list(reference("ByteRange"), 1, Some(limits::RANGES_MAX),
            "Only these bytes of every block, one frame each. Not together with stripes.")),
        "deadline_ms" => deadline("Time to the last byte."),
        "fingerprint" => fingerprint(),
    });
    let put_header = map! {
        "key" => text(limits::KEY_BYTES_MAX, "The key, in full."),
        "ttl_s" => nullable(ttl()),
        "fingerprint" => nullable(text(limits::FINGERPRINT_BYTES_MAX, "What must be equal for the block to be reusable.")),
    };
    map! {
        "GetRequest" => object("Lookup and stream fused.", &[], get_request),
        "ByteRange" => object("Bytes that lie within every block.", &["offset", "length"], map! {
            "offset" => count("First byte."),
            "length" => integer(1, None, "How many."),
        }),
        "Frames" => map! {
            "type" => "string",
            "format" => "binary",
            "description" => "Frames, see docs/protocol.md. Each is a little-endian header of 32 bytes (magic KVB1, u32 index, \
                u16 status, u16 flags, u32 stripe, u64 length, u64 crc64nvme of the payload) and its payload.",
        },
        "PutHeader" => object("JSON payload of the frame that announces a block of a put.", &["key"], put_header),
        "MissBody" => response("JSON payload of a miss frame.", map! { "reason" => reference("MissReason") }),
        "StreamEnd" => response("JSON payload of the last frame.", map! {
            "blocks" => count("Blocks delivered whole."),
            "bytes" => count("Payload bytes of data frames."),
        }),
        "PutResponse" => response("Outcomes, in order of the blocks' indices.", map! {
            "results" => list(reference("PutResult"), 0, Some(limits::PUT_BLOCKS_MAX), "One a block."),
        }),
        "PutResult" => object("Outcome of one block.", &["status"], map! {
            "status" => integer(200, Some(599), "200, or the status of code."),
            "etag" => plain("string", "The block's ETag without quotes, where it was stored."),
            "code" => reference("ErrorCode"),
            "message" => plain("string", "Why it was not stored, for people."),
        }),
    }
}

fn changes() -> Node {
    let delete_request = keys().with(map! {
        "prefix" => map! {
            "type" => "string", "minLength" => 1, "maxLength" => limits::KEY_BYTES_MAX as u64,
            "description" => "All keys that begin so.",
        },
        "fingerprint" => text(limits::FINGERPRINT_BYTES_MAX, "All blocks that were stored for this fingerprint."),
    });
    let one_of = ["keys", "prefix", "fingerprint"].map(|field| map! { "required" => vec![field] });
    map! {
        "DeleteRequest" => object("Which blocks to delete: exactly one of keys, prefix and fingerprint.", &[], delete_request)
            .with(map! { "oneOf" => one_of.to_vec() }),
        "DeleteResponse" => response("What was deleted.", map! {
            "deleted" => count("How many. Of keys, those that are gone now, whether they were there or not."),
            "effective_at" => count("Milliseconds since 1970, since when this gateway does not serve them. Another may, from its memory, until it evicts them."),
        }),
        "TouchRequest" => object("Renews times to live.", &["keys", "ttl_s"], keys().with(map! { "ttl_s" => ttl() })),
        "TouchResponse" => response("What was renewed.", map! { "touched" => count("How many blocks: those that are there.") }),
    }
}

fn operators() -> Node {
    map! {
        "StatsResponse" => response("What operators look at, of one bucket on one gateway.", map! {
            "bucket" => plain("string", "The bucket."),
            "leases" => reference("LeaseStats"),
            "tiers" => reference("TierStats"),
            "memory" => reference("MemoryStats"),
            "staging" => or_null(reference("StagingStats")),
            "index_entries" => count("Blocks that the gateway's index knows, of all buckets."),
            "pending_upload_bytes" => count("Bytes acknowledged and not yet in the shared store, of all buckets."),
        }),
        "MemoryStats" => response("Memory of a gateway, of all buckets.", map! {
            "capacity_bytes" => count("All of it."),
            "used_bytes" => count("In use, blocks on their way in or out included."),
            "blocks" => count("Blocks that it holds."),
            "evictions" => count("Blocks evicted to make room, since the start."),
        }),
        "StagingStats" => response("NVMe of a gateway, of all buckets.", map! {
            "is_on" => plain("boolean", "Whether blocks are taken in: not while the disk fails or is full."),
            "capacity_bytes" => count("Most that it may take of the disk."),
            "used_bytes" => count("What it takes now."),
            "blocks" => count("Blocks that it holds."),
            "pending_blocks" => count("Of them, those that are not yet in the shared store."),
            "pending_bytes" => count("Their bytes."),
        }),
        "UpstreamInfo" => response("The shared store, as a gateway sees it.", map! {
            "kind" => plain("string", "fs or s3."),
            "state" => map! { "enum" => vec!["up", "down"], "description" => "Whether it answers." },
        }),
        "LeaseStats" => response("Leases of a gateway, of all buckets.", map! {
            "blocks" => count("Blocks under a lease."),
            "bytes" => count("What they take of memory."),
        }),
        "TierStats" => response("What tiers were measured to be.", map! {
            "memory" => reference("TierSpeed"),
            "staging" => or_null(reference("TierSpeed")),
            "upstream" => reference("TierSpeed"),
        }),
        "TierSpeed" => response("Speed of a tier.", map! {
            "latency_ms" => plain("number", "Time to the first byte."),
            "bytes_per_second" => count("What one stream delivers after it."),
        }),
        "FleetResponse" => response("The gateways that are known.", map! {
            "gateways" => list(reference("GatewayInfo"), 1, None, "The one that answers is always among them."),
        }),
        "GatewayInfo" => response("A gateway.", map! {
            "id" => plain("string", "Names its run."),
            "version" => plain("string", "Version of blockgate."),
            "started_at" => count("Milliseconds since 1970."),
            "memory" => reference("MemoryStats"),
            "staging" => or_null(reference("StagingStats")),
            "upstream" => reference("UpstreamInfo"),
        }),
    }
}

fn outcomes() -> Node {
    let reasons = MissReason::ALL.map(MissReason::as_str).to_vec();
    let codes = ErrorCode::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>();
    map! {
        "MissReason" => map! { "enum" => reasons, "description" => "Why a block can't be served now." },
        "ErrorCode" => map! { "enum" => codes, "description" => "What went wrong, for programs." },
        "ErrorBody" => response("The body of every error.", map! {
            "error" => response("What went wrong.", map! {
                "code" => reference("ErrorCode"),
                "message" => plain("string", "For people: what was wrong, where, and what is accepted."),
                "request_id" => plain("string", "Names the request in the gateway's logs."),
            }),
        }),
    }
}
