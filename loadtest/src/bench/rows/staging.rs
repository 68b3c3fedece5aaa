//! The staging tier against fio on the same disk.

use std::path::Path;

use super::*;
use crate::bench::compare::{Latency, alternate};
use crate::bench::fio::{Fio, Measured};

/// Requests under way at once, on both sides.
const DEPTH: usize = 8;
/// What is read in turn: more than any cache in between keeps, and four times what memory holds.
const READ_BYTES: usize = 256 * MIB;
const READ_MEMORY: &str = "64MiB";
/// Objects of one burst of PUTs, of 4 MiB each.
const BURST: usize = 128;
const PUT_BYTES: usize = 4 * MIB;
/// What one burst may have waiting for its upload is half of it.
const PUT_CAPACITY: &str = "1536MiB";
/// Bursts until every segment has been written once.
const WARM_BURSTS: usize = 3;
/// Where an upstream takes nothing from the disk that is measured.
const MEMORY_FILE_SYSTEM: &str = "/dev/shm";

const GIB: f64 = (1 << 30) as f64;

const GET_ROWS: [(&str, usize); 2] =
    [("staging GET 256 KiB, QD 8, memory cold", 256 * KIB), ("staging GET 4 MiB, QD 8, memory cold", 4 * MIB)];
const PUT_ROW: &str = "staging PUT 4 MiB × 8, group commit";

impl Bench<'_> {
    pub(super) async fn staging(&self, rows: &mut Vec<Row>) -> Result<()> {
        for (name, size_bytes) in GET_ROWS {
            if self.options.wants(name) {
                rows.extend(self.staged_reads(name, size_bytes).await?);
            }
        }
        if self.options.wants(PUT_ROW) {
            rows.extend(self.staged_writes().await?);
        }
        Ok(())
    }

    async fn staged_reads(&self, name: &str, size_bytes: usize) -> Result<Option<Row>> {
        let Some(fio) = self.fio(name, READ_BYTES).await? else { return Ok(None) };
        let objects = READ_BYTES / size_bytes;
        let upstream = self.folder(&format!("staged-{size_bytes}-upstream"))?;
        let gateway =
            self.gateway_with_staging(&format!("staged-{size_bytes}"), &upstream, READ_MEMORY, "1GiB").await?;
        let bucket = format!("bench-staged-{size_bytes}");
        self.create_bucket(gateway.address, &self.signer, &bucket).await?;
        run(&self.staged_load(&gateway, &bucket, &Method::PUT, "", objects, size_bytes)?, Until::Once).await?;
        UploadsDone { gateway: &gateway }.before().await?;
        let mut reads = self.staged_load(&gateway, &bucket, &Method::GET, "", objects, size_bytes)?;
        run(&reads, Until::Once).await?;

        let upstream_reads = async || gateway.metric("blockgate_upstream_requests_total", &["operation=\"get\""]).await;
        let staged_reads = async || gateway.metric("blockgate_reads_total", &["tier=\"staging\""]).await;
        let (before, staged_before, cpu_before) = (upstream_reads().await?, staged_reads().await?, gateway.cpu_s()?);
        let (mut ours, mut theirs, mut read) = (Vec::new(), Vec::new(), 0.0);
        let (block, runtime) = (format!("--bs={size_bytes}"), format!("--runtime={}ms", self.rhythm.each.as_millis()));
        let pattern = ["--rw=randread", &block, &format!("--iodepth={DEPTH}"), "--time_based", &runtime];
        let (mut subject, baseline) = alternate(
            self.rhythm.pairs,
            ("blockgate", async || {
                let done = run(&reads, Until::Elapsed(self.rhythm.each)).await?;
                ours.push(Latency::of(done.latencies));
                read += done.requests as f64;
                // The next measurement goes on where this one stopped: memory has what was read last.
                Arc::make_mut(&mut reads.requests).rotate_left(done.requests as usize % objects);
                Ok(done.bytes as f64 / GIB / done.elapsed.as_secs_f64())
            }),
            (&fio.name(), async || measure(&fio, &pattern, &mut theirs).await),
        )
        .await?;
        subject.cpu_s = Some((gateway.cpu_s()? - cpu_before) / (read * size_bytes as f64 / GIB));
        let asked = upstream_reads().await? - before;
        let staged = staged_reads().await? - staged_before;
        if asked > 0.0 || staged < 0.95 * read {
            let what = format!("{name}: of {read} reads, {staged} were from staging and {asked} from the upstream");
            return Err(what.into());
        }
        Ok(Some(self.staged_row(name, 0.8, (subject, ours), (baseline, theirs))))
    }

    async fn staged_writes(&self) -> Result<Option<Row>> {
        const BUCKET: &str = "bench-staged-back";
        let size_bytes = BURST * PUT_BYTES;
        let Some(fio) = self.fio(PUT_ROW, size_bytes).await? else { return Ok(None) };
        // Uploads go on beside; on the same disk they would be measured too.
        let in_memory = tempfile::tempdir_in(MEMORY_FILE_SYSTEM);
        let upstream = match &in_memory {
            Ok(folder) => folder.path().to_owned(),
            Err(error) => {
                eprintln!("{PUT_ROW}: {MEMORY_FILE_SYSTEM}: {error}: uploads take their part of the disk");
                self.folder("staged-put-upstream")?
            }
        };
        let gateway = self.gateway_with_staging("staged-put", &upstream, "1GiB", PUT_CAPACITY).await?;
        self.create_bucket(gateway.address, &self.signer, BUCKET).await?;
        let (mut round, mut cpu_s) = (0, 0.0);
        let mut ours = Vec::new();
        let mut burst = async || {
            round += 1;
            let prefix = format!("{round}-");
            let writes = self.staged_load(&gateway, BUCKET, &Method::PUT, &prefix, BURST, PUT_BYTES)?;
            let deletes = self.staged_load(&gateway, BUCKET, &Method::DELETE, &prefix, BURST, 0)?;
            let cpu_before = gateway.cpu_s()?;
            let done = run(&writes, Until::Once).await?;
            UploadsDone { gateway: &gateway }.before().await?;
            // With the uploads: they are part of what a block costs.
            cpu_s = gateway.cpu_s()? - cpu_before;
            run(&deletes, Until::Once).await?;
            ours.push(Latency::of(done.latencies));
            Ok::<f64, Box<dyn std::error::Error + Send + Sync>>(done.bytes as f64 / GIB / done.elapsed.as_secs_f64())
        };
        for _ in 0..WARM_BURSTS {
            burst().await?;
        }
        let written = gateway.metric("blockgate_staging_written_bytes_total", &[]).await?;
        let commits = gateway.metric("blockgate_staging_commits_total", &[]).await?;
        // As the gateway flushes: after so many writes of a block.
        let rhythm = (written / commits.max(1.0) / PUT_BYTES as f64).round().max(1.0);
        let (block, size) = (format!("--bs={PUT_BYTES}"), format!("--size={size_bytes}"));
        let depth = format!("--iodepth={DEPTH}");
        let pattern = ["--rw=write", "--overwrite=1", &block, &size, &depth, &format!("--fdatasync={rhythm}")];
        let mut theirs = Vec::new();
        let (mut subject, baseline) = alternate(
            self.rhythm.pairs,
            ("blockgate", &mut burst),
            (&format!("{}, fdatasync every {rhythm} writes", fio.name()), async || {
                measure(&fio, &pattern, &mut theirs).await
            }),
        )
        .await?;
        subject.cpu_s = Some(cpu_s / (size_bytes as f64 / GIB));
        let ours = ours.split_off(WARM_BURSTS);
        Ok(Some(self.staged_row(PUT_ROW, 0.7, (subject, ours), (baseline, theirs))))
    }

    fn staged_row(
        &self,
        name: &str,
        bar: f64,
        (mut subject, ours): (SideResult, Vec<Latency>),
        (mut baseline, theirs): (SideResult, Vec<Latency>),
    ) -> Row {
        (subject.latency, baseline.latency) = (Latency::median(&ours), Latency::median(&theirs));
        Row { bar: Some(Bar::AtLeast(bar)), ..self.done(name, Unit::Gib, (subject, baseline)) }
    }

    /// fio on a file of its own beside the log; none, and said so, where it is not installed.
    async fn fio(&self, row: &str, size_bytes: usize) -> Result<Option<Fio>> {
        let file = self.folder("fio")?.join(format!("{size_bytes}"));
        let fio = Fio::on_new_file(file, size_bytes as u64).await?;
        if fio.is_none() {
            eprintln!("left out: {row}: fio is not installed");
        }
        Ok(fio)
    }

    async fn gateway_with_staging(
        &self,
        folder: &str,
        upstream: &Path,
        memory: &str,
        capacity: &str,
    ) -> Result<Server> {
        let (log, upstream) = (self.folder(folder)?.display().to_string(), upstream.display().to_string());
        self.gateway(&[
            ("MEMORY__CAPACITY", memory),
            ("UPSTREAM__PATH", &upstream),
            ("STAGING__PATH", &log),
            ("STAGING__CAPACITY", capacity),
            ("STAGING__SEGMENT", "64MiB"),
        ])
        .await
    }

    /// One request for each object, in an order that is no order on the disk.
    fn staged_load(
        &self,
        server: &Server,
        bucket: &str,
        method: &Method,
        prefix: &str,
        count: usize,
        size_bytes: usize,
    ) -> Result<Load> {
        let host = server.address.to_string();
        let bodies = if *method == Method::PUT { objects(count, size_bytes) } else { vec![Bytes::new(); count] };
        let answer_bytes = if *method == Method::GET { size_bytes as u64 } else { 0 };
        let mut requests = Vec::with_capacity(count);
        for (number, body) in bodies.into_iter().enumerate() {
            let path = format!("/{bucket}/{prefix}{number}");
            requests.push(self.signer.prepare(method.clone(), &path, &host, body, answer_bytes)?);
        }
        if *method == Method::GET {
            shuffle(&mut requests);
        }
        Ok(Load { server: server.address, connections: DEPTH, requests: Arc::new(requests) })
    }
}

/// One measurement of fio's, in GiB/s.
async fn measure(fio: &Fio, pattern: &[&str], latencies: &mut Vec<Latency>) -> Result<f64> {
    let gone = || format!("fio is gone while it measures {}", fio.file().display());
    let Measured { bytes_per_second, latency } = fio.run(pattern).await?.ok_or_else(gone)?;
    latencies.push(latency);
    Ok(bytes_per_second / GIB)
}

/// Another order, the same on every call.
fn shuffle<T>(items: &mut [T]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for end in (1..items.len()).rev() {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        items.swap(end, ((state >> 33) % (end as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_is_the_same_in_another_order() {
        let mut items: Vec<u32> = (0..100).collect();
        shuffle(&mut items);
        assert!(items.iter().zip(&items[1..]).filter(|(a, b)| **a + 1 == **b).count() < 10);
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
