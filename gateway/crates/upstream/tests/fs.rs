//! The fs upstream: the suite that all upstreams pass, alone, behind the fault decorator, and as two gateways.

use std::sync::Arc;

use blockgate_upstream::{FaultUpstream, FsUpstream, conformance};

#[tokio::test(flavor = "multi_thread")]
async fn conforms() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Arc::new(FsUpstream::open(dir.path()).await.unwrap());
    conformance::run(fs, "conform", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fault_decorator_is_transparent() {
    let dir = tempfile::tempdir().unwrap();
    let fs = Arc::new(FsUpstream::open(dir.path()).await.unwrap());
    conformance::run(Arc::new(FaultUpstream::new(fs)), "faults", &[]).await;
}
