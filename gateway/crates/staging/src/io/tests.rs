//! One suite, run on every engine that this machine has.

use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use blockgate_block::Arena;
use tempfile::TempDir;

use super::buffer::PAGE_BYTES;
use super::*;

const PAGE: u64 = PAGE_BYTES as u64;

/// Long enough for anything that is to happen at all.
const PATIENCE: Duration = Duration::from_secs(20);

fn engines() -> Vec<Io> {
    let start = |engine| match Io::start(engine) {
        Ok(io) => Some(io),
        Err(error) if engine == Engine::IoUring => {
            eprintln!("NOT TESTED: io_uring can't be had here: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    [Engine::IoUring, Engine::Threads].into_iter().filter_map(start).collect()
}

/// A new file, past the page cache where that can be.
fn file(dir: &TempDir, name: &str) -> Arc<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    Arc::new(open_direct(&options, &dir.path().join(name)).unwrap().0)
}

/// Pages in which no two look alike.
fn pattern(pages: usize, seed: u64) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(pages * PAGE_BYTES);
    let words = buffer.chunks_exact_mut(8).zip(0u64..);
    words.for_each(|(word, at)| word.copy_from_slice(&(seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes()));
    buffer
}

fn source(buffer: &AlignedBuf) -> Source {
    Source::Pages(Arc::new(buffer.clone()))
}

fn pages(pages: usize) -> Target {
    Target::Pages(AlignedBuf::zeroed(pages * PAGE_BYTES))
}

fn slot(arena: &Arena, len_bytes: u64) -> Target {
    Target::Slot(arena.allocate(len_bytes).unwrap().into_target().unwrap())
}

fn bytes(filled: &Filled) -> &[u8] {
    match filled {
        Filled::Pages(pages) => pages,
        Filled::Block(block) => block.as_slice(),
    }
}

async fn read_pages(io: &Io, file: &Arc<File>, offset: u64, count: usize) -> io::Result<Vec<u8>> {
    let filled = io.read(file, offset, vec![pages(count)]).await?;
    Ok(bytes(&filled[0]).to_vec())
}

async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what}");
}

#[tokio::test]
async fn what_was_written_is_read_whatever_the_pieces() {
    let dir = TempDir::new().unwrap();
    let arena = Arena::new(16 << 20).unwrap();
    for io in engines() {
        let file = file(&dir, "pieces");
        for (offset, head, len) in [(0, 1, 1), (PAGE, 1, 4096), (3 * PAGE, 2, 4097), (1 << 20, 1, (5 << 20) + 17)] {
            let (head_bytes, body_bytes) =
                (pattern(head, offset), pattern((len as usize).div_ceil(PAGE_BYTES), !offset));
            let mut writer = arena.allocate(len).unwrap();
            writer.append(&body_bytes[..len as usize]).unwrap();
            let block = writer.finish().unwrap();
            io.write(&file, offset, vec![source(&head_bytes), Source::Block(block)]).await.unwrap();
            io.sync(&file).await.unwrap();

            let filled = io.read(&file, offset, vec![pages(head), slot(&arena, len)]).await.unwrap();
            assert_eq!(bytes(&filled[0]), &head_bytes[..], "{len} {:?}", io.kind());
            assert!(bytes(&filled[1]) == &body_bytes[..len as usize], "{len} {:?}", io.kind());
            let tail = offset + (head * PAGE_BYTES) as u64 + (len - 1) / PAGE * PAGE;
            let last = read_pages(&io, &file, tail, 1).await.unwrap();
            let rest = (len - 1) % PAGE + 1;
            assert!(last[rest as usize..].iter().all(|&byte| byte == 0), "padding is zeros");
        }
        assert_eq!(arena.stats().used_bytes, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_each_get_their_own() {
    let dir = TempDir::new().unwrap();
    for io in engines() {
        let file = file(&dir, "many");
        // More than may be under way: the rest waits its turn.
        let tasks: Vec<_> = (0..DEPTH_MAX as u64 * 2)
            .map(|number| {
                let (io, file) = (io.clone(), Arc::clone(&file));
                tokio::spawn(async move {
                    let (offset, wanted) = (number * 4 * PAGE, pattern(4, number));
                    io.write(&file, offset, vec![source(&wanted)]).await.unwrap();
                    if number % 16 == 0 {
                        io.sync(&file).await.unwrap();
                    }
                    read_pages(&io, &file, offset, 4).await.unwrap() == wanted[..]
                })
            })
            .collect();
        for task in tasks {
            assert!(task.await.unwrap());
        }
        assert_eq!(io.room.available_permits(), DEPTH_MAX, "{:?}", io.kind());
    }
}

#[tokio::test]
async fn the_end_of_a_file_is_an_error_not_a_short_read() {
    let dir = TempDir::new().unwrap();
    let arena = Arena::new(1 << 20).unwrap();
    for io in engines() {
        let file = file(&dir, "end");
        io.write(&file, 0, vec![source(&pattern(3, 1))]).await.unwrap();
        file.set_len(2 * PAGE + 100).unwrap();
        assert!(read_pages(&io, &file, PAGE, 1).await.is_ok());
        for (offset, count) in [(0, 3), (2 * PAGE, 1), (3 * PAGE, 1), (1 << 30, 2)] {
            let error = read_pages(&io, &file, offset, count).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{offset} {count} {:?} {error}", io.kind());
        }
        let error = io.read(&file, PAGE, vec![pages(1), slot(&arena, 2 * PAGE)]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(arena.stats().used_bytes, 0, "a slot that was not filled is free again");
    }
}

#[tokio::test]
async fn what_the_kernel_refuses_is_an_error_and_the_engine_goes_on() {
    let dir = TempDir::new().unwrap();
    for io in engines() {
        let path = dir.path().join("refused");
        std::fs::write(&path, [7; 8192]).unwrap();
        let read_only = Arc::new(File::open(&path).unwrap());
        let error = io.write(&read_only, 0, vec![source(&pattern(1, 1))]).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::BADF.raw_os_error()));
        assert!(io.allocate(&read_only, PAGE).await.is_err());
        let folder = Arc::new(File::open(dir.path()).unwrap());
        let error = read_pages(&io, &folder, 0, 1).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::ISDIR.raw_os_error()));
        for buffers in [0, BUFFERS_MAX + 1] {
            let sources = vec![source(&pattern(1, 1)); buffers];
            let error = io.write(&read_only, 0, sources).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(read_pages(&io, &read_only, PAGE, 1).await.unwrap(), [7; 4096]);
    }
}

#[tokio::test]
async fn a_file_grows_to_what_was_allocated() {
    let dir = TempDir::new().unwrap();
    for io in engines() {
        let file = file(&dir, "room");
        io.allocate(&file, 1 << 20).await.unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        assert_eq!(read_pages(&io, &file, (1 << 20) - PAGE, 1).await.unwrap(), [0; 4096]);
    }
}

/// Lets an operation begin, which it may end before this goes away.
fn begin(operation: impl Future) {
    let mut operation = std::pin::pin!(tokio::task::unconstrained(operation));
    let _ = operation.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

#[tokio::test]
async fn buffers_outlive_those_who_go_away() {
    let dir = TempDir::new().unwrap();
    let arena = Arena::new(32 << 20).unwrap();
    for io in engines() {
        let file = file(&dir, "gone");
        for number in 0..64 {
            let wanted = pattern(64, number);
            begin(io.write(&file, number * 64 * PAGE, vec![source(&wanted)]));
            begin(io.read(&file, 0, vec![slot(&arena, 64 * PAGE)]));
            // Would be seen in the file if it took the place of what is still being written.
            drop(vec![0xff; 64 * PAGE_BYTES]);
        }
        eventually("all permits come back", || io.room.available_permits() == DEPTH_MAX).await;
        eventually("all slots come back", || arena.stats().used_bytes == 0).await;
        for number in 0..64 {
            assert!(read_pages(&io, &file, number * 64 * PAGE, 64).await.unwrap() == pattern(64, number)[..]);
        }
    }
}

#[tokio::test]
async fn threads_end_with_the_last_handle_and_finish_what_they_have() {
    let dir = TempDir::new().unwrap();
    for io in engines() {
        let (alive, kind) = (Arc::clone(&io.alive), io.kind());
        let file = file(&dir, "last");
        let other = io.clone();
        drop(io);
        assert!(Arc::weak_count(&alive) > 0, "{kind:?}");
        begin(other.write(&file, 0, vec![source(&pattern(256, 1))]));
        drop(other);
        eventually("the threads end", || Arc::weak_count(&alive) == 0).await;
        assert!(std::fs::read(dir.path().join("last")).unwrap() == pattern(256, 1)[..]);
    }
}

#[tokio::test]
async fn auto_takes_the_ring_where_there_is_one() {
    let has_ring = Io::start(Engine::IoUring).is_ok();
    let wanted = if has_ring { Engine::IoUring } else { Engine::Threads };
    assert_eq!(Io::start(Engine::Auto).unwrap().kind(), wanted);
}

#[tokio::test]
async fn faults_come_when_they_were_ordered() {
    const EIO: i32 = 5;
    const ENOSPC: i32 = 28;
    let dir = TempDir::new().unwrap();
    for io in engines() {
        let faults = Arc::new(Faults::default());
        let io = io.with_faults(Arc::clone(&faults));
        let file = file(&dir, "faults");
        let write =
            async |seed| io.write(&file, 0, vec![source(&pattern(1, seed))]).await.map_err(|e| e.raw_os_error());
        faults.fail(Operation::Write, 1, 2, EIO);
        let came: Vec<_> = [write(1).await, write(2).await, write(3).await, write(4).await].into();
        assert_eq!(came, [Ok(()), Err(Some(EIO)), Err(Some(EIO)), Ok(())]);
        assert_eq!(faults.seen(Operation::Write), 4);

        faults.fail(Operation::Sync, 0, u64::MAX, EIO);
        faults.fail(Operation::Allocate, 0, 1, ENOSPC);
        assert!(io.sync(&file).await.is_err() && io.sync(&file).await.is_err());
        assert_eq!(io.allocate(&file, PAGE).await.unwrap_err().kind(), ErrorKind::StorageFull);
        faults.heal();
        io.sync(&file).await.unwrap();

        let right = pattern(1, 4);
        faults.flip(1, 1, PAGE * 8 * 3 + 11);
        assert_eq!(read_pages(&io, &file, 0, 1).await.unwrap(), right[..]);
        let wrong = read_pages(&io, &file, 0, 1).await.unwrap();
        assert_eq!((wrong[1], wrong[2..] == right[2..]), (right[1] ^ 8, true), "bit 3 of byte 1, and no other");
        assert_eq!(read_pages(&io, &file, 0, 1).await.unwrap(), right[..]);
    }
}

#[tokio::test]
async fn held_operations_wait_and_have_not_happened() {
    let dir = TempDir::new().unwrap();
    for io in engines() {
        let faults = Arc::new(Faults::default());
        let io = io.with_faults(Arc::clone(&faults));
        let file = file(&dir, "held");
        faults.hold(Operation::Write);
        let write = {
            let (io, file) = (io.clone(), Arc::clone(&file));
            tokio::spawn(async move { io.write(&file, 0, vec![source(&pattern(1, 1))]).await })
        };
        eventually("it was asked for", || faults.seen(Operation::Write) == 1).await;
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert!(!write.is_finished());
        faults.release();
        write.await.unwrap().unwrap();
        assert_eq!(file.metadata().unwrap().len(), PAGE);
    }
}

mod jobs {
    use proptest::prelude::*;
    use rustix::io::Errno;

    use super::super::job::Call;
    use super::*;

    fn job(action: Action) -> Job {
        let file = Arc::new(File::open("/dev/null").unwrap());
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Job::new(file, 7 * PAGE, action, None, permit).0
    }

    /// Addresses that are left, byte by byte at a coarse step.
    fn left(job: &Job) -> Vec<(usize, usize)> {
        match job.call() {
            Call::Read(spans) | Call::Write(spans) => {
                spans.iter().map(|span| (span.start as usize, span.len)).collect()
            }
            Call::Sync | Call::Allocate { .. } => Vec::new(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_transfer_in_any_steps_goes_on_where_it_stopped(lens in prop::collection::vec(1usize..4, 1..4), steps in prop::collection::vec(1usize..9000, 1..40)) {
            let mut job = job(Action::Read(lens.iter().map(|&len| pages(len)).collect()));
            let all: Vec<usize> = left(&job).into_iter().flat_map(|(start, len)| start..start + len).collect();
            let mut moved = 0;
            for step in steps {
                let step = step.min(all.len() - moved);
                moved += step;
                let came_to = job.note(Ok(step));
                prop_assert_eq!(came_to.is_some(), moved == all.len());
                prop_assert_eq!(job.offset, 7 * PAGE + moved as u64);
                let rest: Vec<usize> = left(&job).into_iter().flat_map(|(start, len)| start..start + len).collect();
                prop_assert!(rest == all[moved..]);
                if moved == all.len() {
                    return Ok(());
                }
            }
        }
    }

    #[test]
    fn interruptions_are_tried_again_but_not_for_ever() {
        let mut job = job(Action::Sync);
        let interrupted = || Err(Errno::INTR.into());
        let tries = (0..).take_while(|_| job.note(interrupted()).is_none()).count();
        assert_eq!(tries, 16);
    }
}
