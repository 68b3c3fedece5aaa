use std::os::unix::fs::FileExt;
use std::time::Instant;

use blockgate_block::Crc64;

use super::*;
use crate::format::header::Header;
use crate::format::state::{self, State};
use crate::format::{PAGE_BYTES, footer};
use crate::life::offset;

const BLOCKS: u64 = 1_000_000;

/// A sealed segment with as many of the smallest blocks as it holds, of which only that is written which a start reads.
/// How many.
fn write_segment(directory: &Path, geometry: Geometry, number: u32, first: u64) -> u64 {
    let header = Header { geometry, number, sequence: u64::from(number) + 1, nonce: [number as u8; 16], log: [1; 16] };
    let mut entries = Vec::new();
    let mut page = geometry.first_record_page();
    while geometry.fits(page, 2, entries.len() as u64 + 1) {
        let key = blockgate_block::BlockKey::new("bucket", &format!("{}", first + entries.len() as u64)).unwrap();
        entries.push(Entry {
            digest: key.digest(),
            page,
            header_pages: 1,
            len_bytes: 100,
            crc64: Crc64::of(b""),
            fingerprint: 0,
            expires_at_ms: 0,
            pending: false,
        });
        page += 2;
    }
    let file = File::create_new(directory::segment_path(directory, number)).unwrap();
    file.set_len(geometry.segment_bytes()).unwrap();
    let mut begin = vec![0; geometry.first_record_page() as usize * PAGE_BYTES];
    header.encode(&mut begin);
    let state = State::new(geometry, header.nonce);
    for copy in 0..state::COPIES {
        for page in 0..geometry.state_pages() {
            let at = (geometry.state_page(copy) + page) as usize * PAGE_BYTES;
            state.encode_page(page, &mut begin[at..at + PAGE_BYTES]);
        }
    }
    file.write_all_at(&begin, 0).unwrap();
    let (page, bytes) = footer::encode(geometry, header.nonce, &entries);
    file.write_all_at(&bytes, offset(page)).unwrap();
    entries.len() as u64
}

/// Prints how long it takes: a start must be ready within a second, in an optimised build.
#[test]
#[ignore = "a million blocks: run by itself"]
fn a_million_blocks_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let geometry = Geometry::new(64 << 20).unwrap();
    let (mut written, mut number) = (0, 0);
    while written < BLOCKS {
        written += write_segment(dir.path(), geometry, number, written);
        number += 1;
    }
    let blocks = Blocks::new(Arc::new(|_, _| ()));
    let mut found = 0;
    let start = Instant::now();
    let recovered = recover(dir.path(), geometry, &blocks, &mut |_, _| found += 1).unwrap();
    let took = start.elapsed();
    assert_eq!((found, recovered.damaged), (written, 0));
    let bytes = blocks.heap_bytes();
    println!("{found} blocks in {number} segments: found in {took:?}, {:.1} bytes each", bytes as f64 / found as f64);
    assert!(bytes <= 80 * found, "{bytes}");
}
