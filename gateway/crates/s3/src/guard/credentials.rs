//! Who signs, once and whole. That the signature is right is s3s' check; here it is made sure that there is one, of the
//! only accepted kind, for this service, and that it covers the host.

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method};
use s3s::{S3Error, S3Result, s3_error};

use super::query::{PRESIGNED, Query};

/// The only signing algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The only service.
const SERVICE: &str = "s3";
/// Longest life of a presigned URL: 7 days.
const EXPIRES_S_MAX: u64 = 7 * 24 * 60 * 60;
/// Query parameters of presigned URLs before version 4.
const SIGV2: [&str; 2] = ["AWSAccessKeyId", "Signature"];

/// Where the signature is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credentials {
    /// In the `Authorization` header.
    Header,
    /// In the query.
    Presigned,
    /// In the fields of a form, which the body holds.
    Form,
    /// There is none.
    Anonymous,
}

/// Finds the one place where the request is signed, and checks what is there.
pub(crate) fn check(parts: &Parts, query: &Query<'_>, anonymous_read: bool) -> S3Result<Credentials> {
    let header = parts.headers.get(AUTHORIZATION);
    let presigned = query.names().any(|name| PRESIGNED.contains(&name));
    let old = query.names().any(|name| SIGV2.contains(&name));
    let form = is_form(parts);
    let places = usize::from(header.is_some()) + usize::from(presigned || old) + usize::from(form);
    if places > 1 || (presigned && old) {
        return Err(s3_error!(
            InvalidArgument,
            "Only one of the Authorization header, a presigned query or a form may sign."
        ));
    }
    if old {
        return Err(unsupported());
    }
    if let Some(header) = header {
        let header =
            header.to_str().map_err(|_| s3_error!(InvalidRequest, "The Authorization header is not ASCII."))?;
        check_header(header)?;
        return Ok(Credentials::Header);
    }
    if presigned {
        check_presigned(query)?;
        return Ok(Credentials::Presigned);
    }
    if form {
        check_form(query)?;
        return Ok(Credentials::Form);
    }
    check_anonymous(parts, query, anonymous_read)?;
    Ok(Credentials::Anonymous)
}

fn unsupported() -> S3Error {
    s3_error!(
        InvalidRequest,
        "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256 \
         (boto3: Config(signature_version=\"s3v4\"); aws: aws configure set default.s3.signature_version s3v4)."
    )
}

/// Whether s3s would take the body for a form.
fn is_form(parts: &Parts) -> bool {
    const FORM: &[u8] = b"multipart/form-data";
    let kind = parts.headers.get(CONTENT_TYPE).map(|value| value.as_bytes().trim_ascii_start());
    parts.method == Method::POST
        && kind.is_some_and(|kind| kind.len() >= FORM.len() && kind[..FORM.len()].eq_ignore_ascii_case(FORM))
}

fn check_header(header: &str) -> S3Result<()> {
    let malformed = |what| s3_error!(AuthorizationHeaderMalformed, "The authorization header is malformed; {what}.");
    let Some((algorithm, fields)) = header.split_once(' ') else { return Err(unsupported()) };
    if algorithm != ALGORITHM {
        return Err(unsupported());
    }
    let (mut credential, mut signed, mut signature) = (None, None, None);
    for field in fields.split(',') {
        let (name, value) = field.trim().split_once('=').ok_or_else(|| malformed("a field has no value"))?;
        let slot = match name {
            "Credential" => &mut credential,
            "SignedHeaders" => &mut signed,
            "Signature" => &mut signature,
            _ => return Err(malformed("a field is unknown")),
        };
        if slot.replace(value).is_some() {
            return Err(malformed("a field is given twice"));
        }
    }
    let (Some(credential), Some(signed), Some(_)) = (credential, signed, signature) else {
        return Err(malformed("a field is missing"));
    };
    check_scope(credential).map_err(malformed)?;
    check_signed_headers(signed).map_err(malformed)
}

fn check_presigned(query: &Query<'_>) -> S3Result<()> {
    let malformed = |what| s3_error!(AuthorizationQueryParametersError, "The presigned query is malformed; {what}.");
    let [algorithm, credential, _, expires, _, signed] = PRESIGNED.map(|name| query.get(name));
    let (Some(algorithm), Some(credential), Some(expires), Some(signed)) = (algorithm, credential, expires, signed)
    else {
        return Err(malformed("a parameter is missing"));
    };
    if algorithm != ALGORITHM {
        return Err(malformed("the only X-Amz-Algorithm is AWS4-HMAC-SHA256"));
    }
    let expires = super::framing::decimal(expires.as_bytes());
    if !expires.is_some_and(|seconds| (1..=EXPIRES_S_MAX).contains(&seconds)) {
        return Err(malformed("X-Amz-Expires must be between 1 and 604800 seconds"));
    }
    check_scope(credential).map_err(malformed)?;
    check_signed_headers(signed).map_err(malformed)
}

fn check_form(query: &Query<'_>) -> S3Result<()> {
    if query.is_empty() {
        return Ok(());
    }
    Err(s3_error!(InvalidArgument, "A form is posted to the bucket, without a query."))
}

fn check_anonymous(parts: &Parts, query: &Query<'_>, anonymous_read: bool) -> S3Result<()> {
    if !anonymous_read || ![Method::GET, Method::HEAD].contains(&parts.method) {
        return Err(s3_error!(AccessDenied, "The request is not signed."));
    }
    if query.names().any(|name| name.starts_with("response-")) {
        return Err(s3_error!(InvalidRequest, "Only a signed request may choose response headers."));
    }
    Ok(())
}

/// `<access key>/<date>/<region>/s3/aws4_request`. Date and region are compared by s3s.
pub(super) fn check_scope(credential: &str) -> Result<(), &'static str> {
    let mut fields = credential.split('/');
    let [Some(key), Some(date), Some(region), Some(service), Some(end), None] = [(); 6].map(|()| fields.next()) else {
        return Err("the credential must have five fields");
    };
    if key.is_empty() || region.is_empty() || date.len() != 8 || !date.bytes().all(|b| b.is_ascii_digit()) {
        return Err("the credential's fields are malformed");
    }
    if service != SERVICE {
        return Err("the credential's service must be 's3'");
    }
    if end != "aws4_request" {
        return Err("the credential must end in 'aws4_request'");
    }
    Ok(())
}

/// Lower case, in order, each once, `host` among them. (That `x-amz-*` are among them is s3s' check.)
fn check_signed_headers(list: &str) -> Result<(), &'static str> {
    let mut earlier = "";
    let mut host = false;
    for name in list.split(';') {
        let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.!#$%&'*+^`|~".contains(&b);
        if name.is_empty() || !name.bytes().all(token) {
            return Err("a signed header's name is malformed");
        }
        if name <= earlier {
            return Err("the signed headers must be in order, each once");
        }
        host |= name == "host";
        earlier = name;
    }
    if host { Ok(()) } else { Err("the host header must be signed") }
}

/// Whether the signature covers the header `name` (in lower case).
pub(crate) fn is_signed(headers: &HeaderMap, query: Option<&str>, name: &str) -> bool {
    let listed = |list: &str| list.split(';').any(|signed| signed == name);
    let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(header) = header {
        return header.split(',').filter_map(|field| field.trim().strip_prefix("SignedHeaders=")).any(listed);
    }
    Query::parse(query).is_ok_and(|query| query.get("X-Amz-SignedHeaders").is_some_and(listed))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const SCOPE: &str = "AK/20260101/us-east-1/s3/aws4_request";

    fn admitted(
        method: Method,
        target: &str,
        headers: &[(&str, &str)],
        anonymous: bool,
    ) -> Result<Credentials, String> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        let query = Query::parse(parts.uri.query()).unwrap();
        check(&parts, &query, anonymous).map_err(|e| e.code().as_str().to_owned())
    }

    fn signed(header: &str) -> Result<Credentials, String> {
        admitted(Method::GET, "/b/k", &[("authorization", header)], false)
    }

    fn presigned(scope: &str, signed: &str, expires: &str) -> Result<Credentials, String> {
        let target = format!(
            "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={scope}&X-Amz-Date=20260101T000000Z\
             &X-Amz-Expires={expires}&X-Amz-SignedHeaders={signed}&X-Amz-Signature=00"
        );
        admitted(Method::GET, &target, &[], false)
    }

    #[test]
    fn a_whole_authorization_header() {
        let whole = format!("AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=host;x-amz-date, Signature=00");
        assert_eq!(signed(&whole), Ok(Credentials::Header));
        assert_eq!(signed(&whole.replace(", ", ",")), Ok(Credentials::Header));
        for (from, to) in [
            ("host;x-amz-date", "x-amz-date"),
            ("host;x-amz-date", "x-amz-date;host"),
            ("host;x-amz-date", "host;host;x-amz-date"),
            ("host;x-amz-date", "Host;x-amz-date"),
            ("host;x-amz-date", "host;;x-amz-date"),
            ("host;x-amz-date", ""),
            ("/s3/", "/sts/"),
            ("/s3/", "/s3express/"),
            ("aws4_request", "aws4_requests"),
            ("aws4_request", "aws4_request/x"),
            ("/us-east-1/", "//"),
            ("20260101", "2026010"),
            ("AK/", "/"),
            (", Signature=00", ""),
            (", Signature=00", ", Signature=00, Signature=01"),
            (", Signature=00", ", Signature=00, X=1"),
        ] {
            let broken = whole.replacen(from, to, 1);
            assert_eq!(signed(&broken), Err("AuthorizationHeaderMalformed".to_owned()), "{broken}");
        }
        for other in ["AWS AK:c2ln", "AWS4-ECDSA-P256-SHA256 Credential=x", "Basic abc", "Bearer x", "AWS4-HMAC-SHA256"]
        {
            assert_eq!(signed(other), Err("InvalidRequest".to_owned()), "{other}");
        }
    }

    #[test]
    fn a_whole_presigned_query() {
        assert_eq!(presigned(SCOPE, "host", "604800"), Ok(Credentials::Presigned));
        for (scope, list, expires) in [
            (SCOPE, "host", "604801"),
            (SCOPE, "host", "0"),
            (SCOPE, "host", "-1"),
            (SCOPE, "host", "%2B60"),
            (SCOPE, "host", ""),
            (SCOPE, "range", "60"),
            ("AK/20260101/us-east-1/sts/aws4_request", "host", "60"),
            ("AK/20260101/us-east-1/s3", "host", "60"),
        ] {
            let refused = Err("AuthorizationQueryParametersError".to_owned());
            assert_eq!(presigned(scope, list, expires), refused, "{scope} {list} {expires}");
        }
        let lonely = admitted(Method::GET, "/b/k?X-Amz-Signature=00", &[], true);
        assert_eq!(lonely, Err("AuthorizationQueryParametersError".to_owned()));
    }

    #[test]
    fn one_place_to_sign() {
        let header = ("authorization", "AWS4-HMAC-SHA256 Credential=x");
        let form = ("content-type", "multipart/form-data; boundary=x");
        let both = Err("InvalidArgument".to_owned());
        assert_eq!(admitted(Method::GET, "/b/k?X-Amz-Signature=00", &[header], false), both);
        assert_eq!(admitted(Method::GET, "/b/k?X-Amz-Expires=1", &[header], false), both);
        assert_eq!(admitted(Method::GET, "/b/k?Signature=00", &[header], false), both);
        assert_eq!(admitted(Method::POST, "/b", &[header, form], false), both);
        assert_eq!(admitted(Method::POST, "/b?X-Amz-Signature=00", &[form], false), both);
        assert_eq!(admitted(Method::POST, "/b?delete", &[form], false), both);
        assert_eq!(admitted(Method::POST, "/b", &[form], false), Ok(Credentials::Form));
        let old = admitted(Method::GET, "/b/k?AWSAccessKeyId=AK&Signature=x&Expires=1", &[], true);
        assert_eq!(old, Err("InvalidRequest".to_owned()));
    }

    #[test]
    fn anonymous_reads_only_where_allowed() {
        assert_eq!(admitted(Method::GET, "/b/k", &[], false).unwrap_err(), "AccessDenied");
        assert_eq!(admitted(Method::GET, "/b/k", &[], true), Ok(Credentials::Anonymous));
        assert_eq!(admitted(Method::PUT, "/b/k", &[], true).unwrap_err(), "AccessDenied");
        assert_eq!(admitted(Method::DELETE, "/b/k", &[], true).unwrap_err(), "AccessDenied");
        let chosen = admitted(Method::GET, "/b/k?response-content-type=text%2Fhtml", &[], true);
        assert_eq!(chosen.unwrap_err(), "InvalidRequest");
    }

    #[test]
    fn signed_headers_are_found_in_both_places() {
        let mut headers = HeaderMap::new();
        assert!(is_signed(&headers, Some("X-Amz-SignedHeaders=content-md5%3Bhost"), "content-md5"));
        assert!(!is_signed(&headers, Some("X-Amz-SignedHeaders=host"), "content-md5"));
        let header = format!("AWS4-HMAC-SHA256 Credential={SCOPE}, SignedHeaders=content-md5;host, Signature=00");
        headers.insert(AUTHORIZATION, header.parse().unwrap());
        assert!(is_signed(&headers, None, "content-md5"));
        assert!(!is_signed(&headers, None, "content-type"));
    }
}
