//! `[[bucket]]`.

use std::time::Duration;

use blockgate_store::{BucketPolicies, BucketPolicy, Mode, OnUpstreamError, WriteMode};

use super::kinds::{Kind, Size, words};
use super::reader::Section;
use super::sections::BucketPattern;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

words!(Mode, "\"kv\" or \"passthrough\"", "kv" => Mode::Kv, "passthrough" => Mode::Passthrough);
words!(
    WriteMode, "\"through\", \"back\" or \"async\"",
    "through" => WriteMode::Through, "back" => WriteMode::Back, "async" => WriteMode::Async,
);
words!(OnUpstreamError, "\"miss\" or \"error\"", "miss" => OnUpstreamError::Miss, "error" => OnUpstreamError::Error);

/// Reads the sections. Where staging is configured, blocks are acknowledged once they are there, unless a bucket says otherwise.
pub(super) fn buckets(sections: Vec<Section<'_>>, has_staging: bool) -> BucketPolicies {
    let write = if has_staging { WriteMode::Back } else { WriteMode::Through };
    let default = BucketPolicy { write, ..BucketPolicy::default() };
    let mut rules: Vec<(String, BucketPolicy)> = Vec::new();
    for mut section in sections {
        let origin = section.origin_of("name");
        let name = section.required("name", BucketPattern::ACCEPTED, BucketPattern(String::new())).0;
        if let Some((earlier, _)) = rules.iter().find(|(earlier, _)| *earlier == name || earlier == "*") {
            section.refuse("name", &origin, &format!("{name:?} never applies: {earlier:?} comes first"));
        }
        rules.push((name, bucket(section, &default, has_staging)));
    }
    BucketPolicies::new(rules, default)
}

fn bucket(mut section: Section<'_>, default: &BucketPolicy, has_staging: bool) -> BucketPolicy {
    const KV_ONLY: [&str; 6] =
        ["write", "ttl", "require_fingerprint", "deadline_ms", "on_upstream_error", "max_block_bytes"];
    let mode = section.get("mode", default.mode);
    if mode == Mode::Passthrough {
        section.forbid(&KV_ONLY, "mode = \"passthrough\" has no use for it");
        section.end();
        return BucketPolicy { mode, ..default.clone() };
    }
    let write_origin = section.origin_of("write");
    let policy = BucketPolicy {
        mode,
        write: section.get("write", default.write),
        ttl: section.optional_within("ttl", SECOND..=3_660 * DAY),
        require_fingerprint: section.get("require_fingerprint", default.require_fingerprint),
        deadline: section.optional_within("deadline_ms", 1..=3_600_000).map(Duration::from_millis),
        on_upstream_error: section.get("on_upstream_error", default.on_upstream_error),
        max_block_bytes: section.within("max_block_bytes", Size(default.max_block_bytes), Size(1)..=Size(5 << 30)).0,
    };
    if policy.write == WriteMode::Back && !has_staging {
        section.refuse("write", &write_origin, "\"back\" needs [staging]; accepted: \"through\" or \"async\"");
    }
    section.end();
    policy
}
