//! Looking at a log that no gateway has open.

use std::path::Path;

use blockgate_staging::{Damage, Inspection, Records, SegmentReport, SegmentState, Tally, Verification};

use super::progress::Progress;
use super::table::{bytes, counted, table};

/// Shows the segments.
///
/// # Errors
/// Where there is no log to be seen.
pub(super) fn inspect(path: &Path) -> Result<(), String> {
    let found = blockgate_staging::inspect(path).map_err(|error| error.to_string())?;
    print!("{}", shown(&found));
    Ok(())
}

/// Reads all of the log.
///
/// # Errors
/// Where there is no log to be seen, or something in it is damaged.
pub(super) fn verify(path: &Path) -> Result<(), String> {
    let mut progress = Progress::new("verifying");
    let seen = blockgate_staging::verify(path, &mut |done, total| progress.at(done, total));
    drop(progress);
    let seen = seen.map_err(|error| error.to_string())?;
    print!("{}", verdict(&seen));
    match (seen.damaged, seen.unreadable.len() as u64) {
        (0, 0) => Ok(()),
        (0, segments) => Err(format!("{} can't be read", counted(segments, "segment"))),
        (1, _) => Err("1 record is damaged".to_owned()),
        (records, _) => Err(format!("{records} records are damaged")),
    }
}

fn shown(found: &Inspection) -> String {
    let rows: Vec<_> = found.segments.iter().map(row).collect();
    let heads = ["segment", "state", "life", "size", "blocks", "bytes", "to upload", "removed"];
    let mut text = if rows.is_empty() { String::new() } else { table(heads, &rows) + "\n" };
    for segment in &found.segments {
        let number = segment.number;
        if let SegmentState::Unreadable(why) = &segment.state {
            text += &format!("segment {number:08x} can't be read: {why}\n");
        }
        if segment.unknown > 0 {
            text +=
                &format!("segment {number:08x}: part of its state is damaged, {} in doubt\n", blocks(segment.unknown));
        }
        if !segment.torn.is_empty() {
            text +=
                &format!("segment {number:08x}: {} torn or damaged\n", counted(segment.torn.len() as u64, "record"));
        }
    }
    text + &summary(&found.records)
}

fn row(segment: &SegmentReport) -> [String; 8] {
    let state = match segment.state {
        SegmentState::Empty => "empty",
        SegmentState::Sealed => "sealed",
        SegmentState::Unsealed => "open",
        SegmentState::Unreadable(_) => "unreadable",
    };
    let Records { live, pending, dead } = segment.records;
    [
        format!("{:08x}", segment.number),
        state.to_owned(),
        segment.sequence.to_string(),
        bytes(segment.file_bytes),
        live.records.to_string(),
        bytes(live.bytes),
        pending.records.to_string(),
        dead.records.to_string(),
    ]
}

fn summary(records: &Records) -> String {
    let waiting = match records.pending {
        Tally { records: 0, .. } => "none waits to be uploaded".to_owned(),
        Tally { records, bytes: size } => format!("{records} of them, {}, to be uploaded", bytes(size)),
    };
    format!("{}, {} on disk; {waiting}\n", blocks(records.live.records), bytes(records.live.bytes))
}

fn verdict(seen: &Verification) -> String {
    let mut text = String::new();
    for (path, why) in &seen.unreadable {
        text += &format!("{} can't be read: {why}\n", path.display());
    }
    seen.damages.iter().for_each(|damage| text += &line(damage));
    match seen.damaged - seen.damages.len() as u64 {
        0 => {}
        more => text += &format!("and {more} more\n"),
    }
    text + &format!("{}, {}, read\n", counted(seen.read.records, "record"), bytes(seen.read.bytes))
}

fn line(damage: &Damage) -> String {
    let Damage { segment, page, key, pending, what } = damage;
    let key = key.as_ref().map_or_else(|| "a record".to_owned(), ToString::to_string);
    let lost = if *pending { " (it was not uploaded yet: it is lost)" } else { "" };
    format!("segment {segment:08x}, page {page}: {key}: {what}{lost}\n")
}

fn blocks(number: u64) -> String {
    counted(number, "block")
}
