//! What the conformance suite does not see.

use bytes::Bytes;
use futures::StreamExt;

use super::*;

async fn bytes_of(reply: GetReply) -> Vec<u8> {
    let mut body = reply.body;
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    bytes
}

#[tokio::test]
async fn an_object_is_a_file_that_begins_with_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let fs = FsUpstream::open(dir.path()).await.unwrap();
    fs.create_bucket("bucket").await.unwrap();
    let payload = Bytes::from_static(b"some block");
    fs.put("bucket", "model/x@1", PutRequest::default(), Payload::Bytes(payload.clone())).await.unwrap();
    let file = std::fs::read(dir.path().join("bucket/model.d/x@1")).unwrap();
    assert!(file.starts_with(&payload) && file.ends_with(b"BLKGATE\n"));
    let reply = fs.get("bucket", "model/x@1", None, &Conditions::default()).await.unwrap();
    assert_eq!(bytes_of(reply).await, payload);
}
