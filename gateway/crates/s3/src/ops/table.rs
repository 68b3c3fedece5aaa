//! Which operation is answered where.

use async_trait::async_trait;
use s3s::dto::*;
use s3s::{S3, S3Error, S3Request, S3Response, S3Result, s3_error};

use super::{Ops, acl, attributes, bucket, copy, delete, list, multipart, read, tagging, uploads, write};
use crate::convert::refused;

/// Implements [`S3`] by a table of operations.
///
/// `store`: answered from the store, by the function named. `upstream`: settings of buckets that the store knows nothing
/// of; an `s3` upstream answers them itself, on others the answer is the one given (what a bucket without the setting
/// answers), or 501.
macro_rules! operations {
    (
        store { $($op:ident($Input:ident) -> $Output:ident = $handler:path;)* }
        upstream { $($setting:ident($SInput:ident) -> $SOutput:ident = $without:expr;)* }
    ) => {
        #[async_trait]
        impl S3 for Ops {
            $(
                async fn $op(&self, request: S3Request<$Input>) -> S3Result<S3Response<$Output>> {
                    refused::check(&request.headers)?;
                    $handler(self, request).await
                }
            )*
            $(
                async fn $setting(&self, request: S3Request<$SInput>) -> S3Result<S3Response<$SOutput>> {
                    match &self.upstream {
                        Some(upstream) => upstream.$setting(request).await.map_err(of_upstream),
                        None => {
                            self.require_bucket(&request.input.bucket).await?;
                            let without: S3Result<$SOutput> = $without;
                            without.map(S3Response::new)
                        }
                    }
                }
            )*
        }
    };
}

operations! {
    store {
        list_buckets(ListBucketsInput) -> ListBucketsOutput = bucket::list;
        create_bucket(CreateBucketInput) -> CreateBucketOutput = bucket::create;
        delete_bucket(DeleteBucketInput) -> DeleteBucketOutput = bucket::delete;
        head_bucket(HeadBucketInput) -> HeadBucketOutput = bucket::head;
        get_bucket_location(GetBucketLocationInput) -> GetBucketLocationOutput = bucket::location;

        list_objects(ListObjectsInput) -> ListObjectsOutput = list::objects;
        list_objects_v2(ListObjectsV2Input) -> ListObjectsV2Output = list::objects_v2;
        list_object_versions(ListObjectVersionsInput) -> ListObjectVersionsOutput = list::versions;

        get_object(GetObjectInput) -> GetObjectOutput = read::get;
        head_object(HeadObjectInput) -> HeadObjectOutput = read::head;
        get_object_attributes(GetObjectAttributesInput) -> GetObjectAttributesOutput = attributes::get;
        put_object(PutObjectInput) -> PutObjectOutput = write::put;
        post_object(PostObjectInput) -> PostObjectOutput = write::post;
        copy_object(CopyObjectInput) -> CopyObjectOutput = copy::object;
        delete_object(DeleteObjectInput) -> DeleteObjectOutput = delete::one;
        delete_objects(DeleteObjectsInput) -> DeleteObjectsOutput = delete::many;

        create_multipart_upload(CreateMultipartUploadInput) -> CreateMultipartUploadOutput = multipart::create;
        upload_part(UploadPartInput) -> UploadPartOutput = multipart::upload_part;
        upload_part_copy(UploadPartCopyInput) -> UploadPartCopyOutput = copy::part;
        complete_multipart_upload(CompleteMultipartUploadInput) -> CompleteMultipartUploadOutput = multipart::complete;
        abort_multipart_upload(AbortMultipartUploadInput) -> AbortMultipartUploadOutput = multipart::abort;
        list_parts(ListPartsInput) -> ListPartsOutput = uploads::parts;
        list_multipart_uploads(ListMultipartUploadsInput) -> ListMultipartUploadsOutput = uploads::list;

        get_object_tagging(GetObjectTaggingInput) -> GetObjectTaggingOutput = tagging::get;
        put_object_tagging(PutObjectTaggingInput) -> PutObjectTaggingOutput = tagging::put;
        delete_object_tagging(DeleteObjectTaggingInput) -> DeleteObjectTaggingOutput = tagging::delete;

        get_bucket_acl(GetBucketAclInput) -> GetBucketAclOutput = acl::get_bucket;
        put_bucket_acl(PutBucketAclInput) -> PutBucketAclOutput = acl::put_bucket;
        get_object_acl(GetObjectAclInput) -> GetObjectAclOutput = acl::get_object;
        put_object_acl(PutObjectAclInput) -> PutObjectAclOutput = acl::put_object;
    }
    upstream {
        get_bucket_accelerate_configuration(GetBucketAccelerateConfigurationInput)
            -> GetBucketAccelerateConfigurationOutput = Ok(Default::default());
        put_bucket_accelerate_configuration(PutBucketAccelerateConfigurationInput)
            -> PutBucketAccelerateConfigurationOutput = Err(not_implemented());
        get_bucket_cors(GetBucketCorsInput) -> GetBucketCorsOutput = Err(s3_error!(NoSuchCORSConfiguration));
        put_bucket_cors(PutBucketCorsInput) -> PutBucketCorsOutput = Err(not_implemented());
        delete_bucket_cors(DeleteBucketCorsInput) -> DeleteBucketCorsOutput = Err(not_implemented());
        get_bucket_encryption(GetBucketEncryptionInput) -> GetBucketEncryptionOutput
            = Err(absent("ServerSideEncryptionConfigurationNotFoundError"));
        put_bucket_encryption(PutBucketEncryptionInput) -> PutBucketEncryptionOutput = Err(not_implemented());
        delete_bucket_encryption(DeleteBucketEncryptionInput) -> DeleteBucketEncryptionOutput = Err(not_implemented());
        get_bucket_lifecycle_configuration(GetBucketLifecycleConfigurationInput)
            -> GetBucketLifecycleConfigurationOutput = Err(s3_error!(NoSuchLifecycleConfiguration));
        put_bucket_lifecycle_configuration(PutBucketLifecycleConfigurationInput)
            -> PutBucketLifecycleConfigurationOutput = Err(not_implemented());
        delete_bucket_lifecycle(DeleteBucketLifecycleInput) -> DeleteBucketLifecycleOutput = Err(not_implemented());
        get_bucket_logging(GetBucketLoggingInput) -> GetBucketLoggingOutput = Ok(Default::default());
        put_bucket_logging(PutBucketLoggingInput) -> PutBucketLoggingOutput = Err(not_implemented());
        get_bucket_notification_configuration(GetBucketNotificationConfigurationInput)
            -> GetBucketNotificationConfigurationOutput = Ok(Default::default());
        put_bucket_notification_configuration(PutBucketNotificationConfigurationInput)
            -> PutBucketNotificationConfigurationOutput = Err(not_implemented());
        get_bucket_ownership_controls(GetBucketOwnershipControlsInput) -> GetBucketOwnershipControlsOutput
            = Err(absent("OwnershipControlsNotFoundError"));
        put_bucket_ownership_controls(PutBucketOwnershipControlsInput) -> PutBucketOwnershipControlsOutput
            = Err(not_implemented());
        delete_bucket_ownership_controls(DeleteBucketOwnershipControlsInput) -> DeleteBucketOwnershipControlsOutput
            = Err(not_implemented());
        get_bucket_policy(GetBucketPolicyInput) -> GetBucketPolicyOutput = Err(s3_error!(NoSuchBucketPolicy));
        get_bucket_policy_status(GetBucketPolicyStatusInput) -> GetBucketPolicyStatusOutput
            = Err(s3_error!(NoSuchBucketPolicy));
        put_bucket_policy(PutBucketPolicyInput) -> PutBucketPolicyOutput = Err(not_implemented());
        delete_bucket_policy(DeleteBucketPolicyInput) -> DeleteBucketPolicyOutput = Err(not_implemented());
        get_bucket_replication(GetBucketReplicationInput) -> GetBucketReplicationOutput
            = Err(absent("ReplicationConfigurationNotFoundError"));
        put_bucket_replication(PutBucketReplicationInput) -> PutBucketReplicationOutput = Err(not_implemented());
        delete_bucket_replication(DeleteBucketReplicationInput) -> DeleteBucketReplicationOutput
            = Err(not_implemented());
        get_bucket_request_payment(GetBucketRequestPaymentInput) -> GetBucketRequestPaymentOutput
            = Ok(GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) });
        put_bucket_request_payment(PutBucketRequestPaymentInput) -> PutBucketRequestPaymentOutput
            = Err(not_implemented());
        get_bucket_tagging(GetBucketTaggingInput) -> GetBucketTaggingOutput = Err(s3_error!(NoSuchTagSet));
        put_bucket_tagging(PutBucketTaggingInput) -> PutBucketTaggingOutput = Err(not_implemented());
        delete_bucket_tagging(DeleteBucketTaggingInput) -> DeleteBucketTaggingOutput = Err(not_implemented());
        get_bucket_versioning(GetBucketVersioningInput) -> GetBucketVersioningOutput = Ok(Default::default());
        put_bucket_versioning(PutBucketVersioningInput) -> PutBucketVersioningOutput = Err(not_implemented());
        get_bucket_website(GetBucketWebsiteInput) -> GetBucketWebsiteOutput
            = Err(s3_error!(NoSuchWebsiteConfiguration));
        put_bucket_website(PutBucketWebsiteInput) -> PutBucketWebsiteOutput = Err(not_implemented());
        delete_bucket_website(DeleteBucketWebsiteInput) -> DeleteBucketWebsiteOutput = Err(not_implemented());
        get_object_lock_configuration(GetObjectLockConfigurationInput) -> GetObjectLockConfigurationOutput
            = Err(s3_error!(ObjectLockConfigurationNotFoundError));
        put_object_lock_configuration(PutObjectLockConfigurationInput) -> PutObjectLockConfigurationOutput
            = Err(not_implemented());
        get_public_access_block(GetPublicAccessBlockInput) -> GetPublicAccessBlockOutput
            = Err(absent("NoSuchPublicAccessBlockConfiguration"));
        put_public_access_block(PutPublicAccessBlockInput) -> PutPublicAccessBlockOutput = Err(not_implemented());
        delete_public_access_block(DeletePublicAccessBlockInput) -> DeletePublicAccessBlockOutput
            = Err(not_implemented());
    }
}

fn not_implemented() -> S3Error {
    s3_error!(NotImplemented, "This store has no such setting of buckets.")
}

/// A setting that the bucket doesn't have, where AWS has a code that s3s doesn't know, or knows with another status.
fn absent(code: &'static str) -> S3Error {
    let mut error = crate::refusal::refusal(code, "The bucket has no such configuration.");
    error.set_status_code(http::StatusCode::NOT_FOUND);
    error
}

/// The SDK says `InternalError` whenever there is no answer of the upstream to pass on.
fn of_upstream(error: S3Error) -> S3Error {
    match error.code() {
        s3s::S3ErrorCode::InternalError => {
            tracing::warn!(%error, "the upstream did not answer an operation that was passed on");
            s3_error!(ServiceUnavailable, "The upstream store does not answer.")
        }
        _ => error,
    }
}
