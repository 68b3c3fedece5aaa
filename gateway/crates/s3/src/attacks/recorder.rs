//! Operations that do nothing but write down what they would have done.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use http::HeaderMap;
use parking_lot::Mutex;
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, TrailingHeaders};

use crate::body;

/// What was done since it was last asked, shared with the test.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    fn done(&self, what: String) {
        self.0.lock().push(what);
    }

    /// Stores the payload as a store does: only when its stream has ended well.
    async fn store(
        &self,
        what: String,
        blob: Option<StreamingBlob>,
        length: Option<i64>,
        headers: &HeaderMap,
        trailers: Option<TrailingHeaders>,
    ) -> S3Result<()> {
        let mut stream = body::payload(blob, length, headers, trailers).await?.into_stream();
        let mut text = Vec::new();
        while let Some(chunk) = stream.next().await {
            text.extend_from_slice(&chunk.map_err(|error| crate::error::of_body(&error))?);
        }
        let shown = String::from_utf8_lossy(&text[..text.len().min(20)]).into_owned();
        self.done(format!("{what} = {shown}"));
        Ok(())
    }
}

#[async_trait]
impl S3 for Recorder {
    async fn put_object(&self, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = req.input;
        let what = format!("put {}/{}", input.bucket, input.key);
        self.store(what, input.body, input.content_length, &req.headers, req.trailing_headers).await?;
        Ok(S3Response::new(PutObjectOutput::default()))
    }

    async fn upload_part(&self, req: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let input = req.input;
        let what = format!("part {} of {}/{}", input.part_number, input.bucket, input.key);
        self.store(what, input.body, input.content_length, &req.headers, req.trailing_headers).await?;
        Ok(S3Response::new(UploadPartOutput::default()))
    }

    async fn post_object(&self, req: S3Request<PostObjectInput>) -> S3Result<S3Response<PostObjectOutput>> {
        let promises = body::form_promises(&req.input);
        let input = req.input;
        let what = format!("post {}/{}", input.bucket, input.key);
        self.store(what, input.body, input.content_length, &promises, None).await?;
        Ok(S3Response::new(PostObjectOutput::default()))
    }

    async fn get_object(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        self.done(format!("get {}/{}", req.input.bucket, req.input.key));
        Ok(S3Response::new(GetObjectOutput::default()))
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        self.done(format!("head {}/{}", req.input.bucket, req.input.key));
        Ok(S3Response::new(HeadObjectOutput::default()))
    }

    async fn list_objects_v2(&self, req: S3Request<ListObjectsV2Input>) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.done(format!("list {} {}", req.input.bucket, req.input.prefix.unwrap_or_default()));
        Ok(S3Response::new(ListObjectsV2Output::default()))
    }

    async fn list_buckets(&self, _req: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
        self.done("buckets".to_owned());
        Ok(S3Response::new(ListBucketsOutput::default()))
    }

    async fn copy_object(&self, req: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        self.done(format!("copy to {}/{}", req.input.bucket, req.input.key));
        Ok(S3Response::new(CopyObjectOutput::default()))
    }

    async fn delete_object(&self, req: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.done(format!("delete {}/{}", req.input.bucket, req.input.key));
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }

    async fn delete_objects(&self, req: S3Request<DeleteObjectsInput>) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let keys: Vec<String> = req.input.delete.objects.into_iter().map(|object| object.key).collect();
        self.done(format!("delete {}/{}", req.input.bucket, keys.join(" ")));
        Ok(S3Response::new(DeleteObjectsOutput::default()))
    }

    async fn create_bucket(&self, req: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
        self.done(format!("create {}", req.input.bucket));
        Ok(S3Response::new(CreateBucketOutput::default()))
    }

    async fn delete_bucket(&self, req: S3Request<DeleteBucketInput>) -> S3Result<S3Response<DeleteBucketOutput>> {
        self.done(format!("delete bucket {}", req.input.bucket));
        Ok(S3Response::new(DeleteBucketOutput::default()))
    }

    async fn complete_multipart_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let parts = req.input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        self.done(format!("complete {}/{} of {}", req.input.bucket, req.input.key, parts.len()));
        Ok(S3Response::new(CompleteMultipartUploadOutput::default()))
    }

    async fn put_object_tagging(
        &self,
        req: S3Request<PutObjectTaggingInput>,
    ) -> S3Result<S3Response<PutObjectTaggingOutput>> {
        self.done(format!("tag {}/{} {}", req.input.bucket, req.input.key, req.input.tagging.tag_set.len()));
        Ok(S3Response::new(PutObjectTaggingOutput::default()))
    }

    async fn put_bucket_policy(
        &self,
        req: S3Request<PutBucketPolicyInput>,
    ) -> S3Result<S3Response<PutBucketPolicyOutput>> {
        self.done(format!("policy {}", req.input.bucket));
        Ok(S3Response::new(PutBucketPolicyOutput::default()))
    }
}
