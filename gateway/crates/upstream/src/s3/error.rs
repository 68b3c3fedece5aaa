//! What a failed S3 request means.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::UpstreamError;

/// What a request was about: decides what a 404 without further words means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Bucket,
    Object,
    Upload,
}

/// Names what happened.
pub(super) fn mapped<E>(error: &SdkError<E, HttpResponse>, subject: Subject) -> UpstreamError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    let Some(response) = error.raw_response() else {
        return match error {
            SdkError::ConstructionFailure(_) => UpstreamError::InvalidRequest(chain(error)),
            SdkError::TimeoutError(_) => UpstreamError::Unavailable("no answer in time".to_owned()),
            other => UpstreamError::Unavailable(chain(other)),
        };
    };
    let metadata = error.as_service_error().map(ProvideErrorMetadata::meta);
    let answer = Answer {
        status: response.status().as_u16(),
        code: metadata.and_then(|meta| meta.code()).unwrap_or_default(),
        message: metadata.and_then(|meta| meta.message()).unwrap_or_default(),
        etag: response.headers().get("etag"),
        content_range: response.headers().get("content-range"),
    };
    if (200..300).contains(&answer.status) {
        // An answer that does not parse, or one that was cut.
        return UpstreamError::Unavailable(format!("the answer is broken: {}", chain(error)));
    }
    answer.meaning(subject)
}

/// An error and its causes, each in its own words, none twice.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let mut told: Vec<String> = Vec::new();
    for text in causes.map(ToString::to_string) {
        if !told.iter().any(|earlier| earlier.contains(&text)) {
            told.push(text);
        }
    }
    told.join(": ")
}

/// What is read of an error response.
#[derive(Clone, Copy, Debug, Default)]
struct Answer<'a> {
    status: u16,
    code: &'a str,
    message: &'a str,
    etag: Option<&'a str>,
    content_range: Option<&'a str>,
}

impl Answer<'_> {
    /// The code decides where it is known, else the status: a HEAD has no body to hold a code.
    fn meaning(&self, subject: Subject) -> UpstreamError {
        self.by_code(subject).unwrap_or_else(|| self.by_status(subject))
    }

    fn by_code(&self, subject: Subject) -> Option<UpstreamError> {
        Some(match self.code {
            "NoSuchKey" if subject == Subject::Upload => UpstreamError::NoSuchUpload,
            "NoSuchKey" | "NoSuchTagSet" => UpstreamError::NoSuchKey,
            "NoSuchBucket" => UpstreamError::NoSuchBucket,
            "NoSuchUpload" => UpstreamError::NoSuchUpload,
            "BucketAlreadyOwnedByYou" | "BucketAlreadyExists" => UpstreamError::BucketExists,
            "BucketNotEmpty" => UpstreamError::BucketNotEmpty,
            "PreconditionFailed" => UpstreamError::PreconditionFailed,
            "NotModified" => self.not_modified(),
            "ConditionalRequestConflict" | "OperationAborted" => UpstreamError::Conflict,
            "InvalidRange" => self.invalid_range(),
            "InvalidPart" => UpstreamError::InvalidPart { number: 0 },
            "InvalidPartOrder" => UpstreamError::InvalidPartOrder,
            "EntityTooSmall" => UpstreamError::EntityTooSmall,
            "EntityTooLarge" => UpstreamError::EntityTooLarge,
            "InvalidBucketName" => UpstreamError::InvalidBucketName(self.message.to_owned()),
            "NotImplemented" | "MethodNotAllowed" => UpstreamError::NotSupported("this operation"),
            "SlowDown" | "ServiceUnavailable" | "TooManyRequests" | "Throttling" | "RequestLimitExceeded" => {
                UpstreamError::SlowDown
            }
            "QuotaExceeded" | "XMinioStorageFull" | "InsufficientCapacity" => UpstreamError::Full,
            // The bytes, the clock or the connection between here and the store is at fault, not the client.
            "BadDigest"
            | "XAmzContentSHA256Mismatch"
            | "IncompleteBody"
            | "RequestTimeout"
            | "RequestTimeTooSkewed" => UpstreamError::Unavailable(self.words()),
            _ => return None,
        })
    }

    fn by_status(&self, subject: Subject) -> UpstreamError {
        match (self.status, subject) {
            (304, _) => self.not_modified(),
            (403 | 401, _) => UpstreamError::AccessDenied(self.words()),
            (404, Subject::Bucket) => UpstreamError::NoSuchBucket,
            (404, Subject::Object) => UpstreamError::NoSuchKey,
            (404, Subject::Upload) => UpstreamError::NoSuchUpload,
            (405 | 501, _) => UpstreamError::NotSupported("this operation"),
            (409, _) => UpstreamError::Conflict,
            (412, _) => UpstreamError::PreconditionFailed,
            (416, _) => self.invalid_range(),
            (429 | 503, _) => UpstreamError::SlowDown,
            (507, _) => UpstreamError::Full,
            (408 | 500.., _) => UpstreamError::Unavailable(self.words()),
            _ => UpstreamError::InvalidRequest(self.words()),
        }
    }

    fn not_modified(&self) -> UpstreamError {
        UpstreamError::NotModified { etag: self.etag.map(unquoted) }
    }

    /// The size is 0 where the store does not say it.
    fn invalid_range(&self) -> UpstreamError {
        let size = self.content_range.and_then(|text| text.rsplit_once('/')).and_then(|(_, size)| size.parse().ok());
        UpstreamError::InvalidRange { size_bytes: size.unwrap_or(0) }
    }

    fn words(&self) -> String {
        match (self.code, self.message) {
            ("", _) => format!("status {}", self.status),
            (code, "") => code.to_owned(),
            (code, message) => format!("{code}: {message}"),
        }
    }
}

/// An ETag without its quotes.
pub(super) fn unquoted(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(status: u16, code: &str, subject: Subject) -> String {
        Answer { status, code, ..Answer::default() }.meaning(subject).to_string()
    }

    #[test]
    fn the_code_comes_before_the_status() {
        for (status, code, meant) in [
            (404, "NoSuchBucket", UpstreamError::NoSuchBucket),
            (404, "", UpstreamError::NoSuchKey),
            (403, "QuotaExceeded", UpstreamError::Full),
            (403, "AccessDenied", UpstreamError::AccessDenied("AccessDenied".to_owned())),
            (409, "BucketNotEmpty", UpstreamError::BucketNotEmpty),
            (409, "ConditionalRequestConflict", UpstreamError::Conflict),
            (412, "", UpstreamError::PreconditionFailed),
            (503, "SlowDown", UpstreamError::SlowDown),
            (429, "", UpstreamError::SlowDown),
            (507, "", UpstreamError::Full),
            (500, "InternalError", UpstreamError::Unavailable("InternalError".to_owned())),
            (400, "RequestTimeout", UpstreamError::Unavailable("RequestTimeout".to_owned())),
            (400, "InvalidArgument", UpstreamError::InvalidRequest("InvalidArgument".to_owned())),
            (501, "", UpstreamError::NotSupported("this operation")),
        ] {
            assert_eq!(meaning(status, code, Subject::Object), meant.to_string(), "{status} {code}");
        }
    }

    #[test]
    fn a_bare_404_means_what_was_asked_for() {
        assert_eq!(meaning(404, "NotFound", Subject::Bucket), UpstreamError::NoSuchBucket.to_string());
        assert_eq!(meaning(404, "NoSuchKey", Subject::Upload), UpstreamError::NoSuchUpload.to_string());
    }

    #[test]
    fn what_the_headers_say_is_kept() {
        let answer = Answer { status: 416, content_range: Some("bytes */17"), ..Answer::default() };
        assert!(matches!(answer.meaning(Subject::Object), UpstreamError::InvalidRange { size_bytes: 17 }));
        let answer = Answer { status: 304, etag: Some("\"abc\""), ..Answer::default() };
        assert!(matches!(answer.meaning(Subject::Object), UpstreamError::NotModified { etag: Some(e) } if e == "abc"));
    }
}
