//! `[staging]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use blockgate_staging::{Engine, Settings};

use super::Upstream;
use super::kinds::{Kind, Size, words};
use super::reader::Section;

/// Segments of a log: fewer can't be reclaimed one at a time without giving up most of what they hold.
const SEGMENTS_MIN: u64 = 4;
/// What a segment is where nothing is said and the capacity holds enough of them.
const SEGMENT: Size = Size(256 << 20);
const SEGMENT_MIN: Size = Size(1 << 20);
const SEGMENT_MAX: Size = Size(16 << 30);
const CAPACITY_MAX: Size = Size(1 << 50);
/// What disks and O_DIRECT are aligned to.
const PAGE_BYTES: u64 = 4 << 10;
/// How often a disk that failed is tried again.
const PROBE_EVERY: Duration = Duration::from_secs(5);

words!(
    Engine, "\"auto\", \"io_uring\" or \"threads\"",
    "auto" => Engine::Auto, "io_uring" => Engine::IoUring, "threads" => Engine::Threads,
);

/// Reads the section, which was given.
pub(super) fn staging(mut section: Section<'_>, upstream: &Upstream) -> Settings {
    let path_origin = section.origin_of("path");
    let path = section.required("path", "[staging] needs a directory on a local disk", PathBuf::new());
    if let (Upstream::Fs { path: blocks }, false) = (upstream, path.as_os_str().is_empty())
        && (lies_within(&path, blocks) || lies_within(blocks, &path))
    {
        section.refuse("path", &path_origin, "it and [upstream] path must not hold one another");
    }
    let why = "[staging] needs to know how much of the disk it may take";
    let capacity_origin = section.origin_of("capacity");
    // A capacity that is missing or out of range is the one mistake to tell, not also what follows from it.
    let capacity = section.required("capacity", why, SEGMENT);
    let smallest = Size(SEGMENTS_MIN * SEGMENT_MIN.0);
    let is_sound = (smallest..=CAPACITY_MAX).contains(&capacity);
    if !is_sound {
        let (low, high) = (smallest.show(), CAPACITY_MAX.show());
        let what = format!("{} is out of range; accepted: {low} to {high}", capacity.show());
        section.refuse("capacity", &capacity_origin, &what);
    }
    let capacity = if is_sound { capacity } else { smallest };
    let settings = Settings {
        path,
        capacity_bytes: capacity.0,
        segment_bytes: segment(&mut section, capacity),
        engine: section.get("engine", Engine::Auto),
        daily_write_bytes: section
            .optional_within("daily_write_budget", Size(1 << 20)..=CAPACITY_MAX)
            .map(|size| size.0),
        pending_bytes_max: section.within("max_pending", Size(capacity.0 / 2), Size(1)..=Size(capacity.0 / 4 * 3)).0,
        probe_every: PROBE_EVERY,
    };
    section.end();
    settings
}

/// Bytes of a segment.
fn segment(section: &mut Section<'_>, capacity: Size) -> u64 {
    let largest = capacity.0 / SEGMENTS_MIN;
    let origin = section.origin_of("segment");
    let default = Size(SEGMENT.0.min(largest / SEGMENT_MIN.0 * SEGMENT_MIN.0));
    let segment = section.within("segment", default, SEGMENT_MIN..=SEGMENT_MAX).0;
    if segment > largest && segment <= SEGMENT_MAX.0 {
        let what = format!("larger than a quarter of capacity; accepted: at most {}", Size(largest).show());
        section.refuse("segment", &origin, &what);
    }
    if !segment.is_multiple_of(PAGE_BYTES) {
        section.refuse("segment", &origin, "not a multiple of 4KiB");
    }
    segment
}

/// Whether one path is the other or below it, by their names alone.
fn lies_within(inner: &Path, outer: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    absolute(inner).starts_with(absolute(outer))
}
