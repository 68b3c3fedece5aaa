//! Uploads by form: what the policy does not say is not done.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use s3s_sigv4::AmzDate;

use super::client::{Reply, amz_date, exchange};
use super::server::{OWNER, READER, REGION, secret};
use super::{Server, assert_done, assert_refused};

/// A form and its policy. What is not changed is right.
struct Form {
    bucket: &'static str,
    access_key: &'static str,
    at: SystemTime,
    expires_in: Duration,
    conditions: Vec<String>,
    fields: Vec<(String, String)>,
    file: &'static str,
}

impl Form {
    fn new() -> Self {
        let condition = |text: &str| text.to_owned();
        Self {
            bucket: "kvs",
            access_key: OWNER,
            at: SystemTime::now(),
            expires_in: Duration::from_secs(3600),
            conditions: vec![
                condition(r#"{"bucket":"kvs"}"#),
                condition(r#"["starts-with","$key","up/"]"#),
                condition(r#"["content-length-range",0,10]"#),
            ],
            fields: vec![("key".to_owned(), "up/${filename}".to_owned())],
            file: "bytes",
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn text(&self) -> String {
        let date = amz_date(self.at);
        let credential = format!("{}/{}/{REGION}/s3/aws4_request", self.access_key, &date[..8]);
        let signing =
            [("x-amz-algorithm", "AWS4-HMAC-SHA256"), ("x-amz-credential", &credential), ("x-amz-date", &date)];
        let mut conditions = self.conditions.clone();
        conditions.extend(signing.map(|(name, value)| format!("{{\"{name}\":\"{value}\"}}")));
        let expiration = amz_date(self.at + self.expires_in);
        let expiration = format!(
            "{}-{}-{}T{}:{}:{}Z",
            &expiration[..4],
            &expiration[4..6],
            &expiration[6..8],
            &expiration[9..11],
            &expiration[11..13],
            &expiration[13..15]
        );
        let policy = format!("{{\"expiration\":\"{expiration}\",\"conditions\":[{}]}}", conditions.join(","));
        let policy = BASE64_STANDARD.encode(policy);
        let at = AmzDate::parse(&date).unwrap();
        let signature = s3s_sigv4::calculate_signature(&policy, secret(self.access_key), &at, REGION, "s3");
        let mut fields = self.fields.clone();
        fields.extend(signing.map(|(name, value)| (name.to_owned(), value.to_owned())));
        fields.push(("policy".to_owned(), policy));
        fields.push(("x-amz-signature".to_owned(), signature));
        let part = |(name, value): &(String, String)| {
            format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let fields: String = fields.iter().map(part).collect();
        let file = "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n";
        format!("{fields}{file}Content-Type: text/plain\r\n\r\n{}\r\n--B--\r\n", self.file)
    }

    async fn send(&self, server: &Server) -> Reply {
        post(server, self.bucket, &self.text(), "").await
    }
}

async fn post(server: &Server, bucket: &str, form: &str, headers: &str) -> Reply {
    let request = format!(
        "POST /{bucket} HTTP/1.1\r\nhost: {}\r\ncontent-type: multipart/form-data; boundary=B\r\n{headers}\
         content-length: {}\r\n\r\n{form}",
        server.address,
        form.len()
    );
    exchange(server, request.as_bytes()).await
}

#[tokio::test]
async fn a_form_works_as_long_as_its_policy() {
    let server = Server::start().await;
    assert_done(&server, &Form::new().send(&server).await, "post kvs/up/f = bytes");
    let hour = Duration::from_secs(3600);
    let old = Form::new().with(|form| (form.at, form.expires_in) = (SystemTime::now() - hour, hour * 2));
    assert_done(&server, &old.send(&server).await, "post kvs/up/f = bytes");
    let expired = Form::new().with(|form| (form.at, form.expires_in) = (SystemTime::now() - hour, hour / 2));
    assert_refused(&server, &expired.send(&server).await, 403, "AccessDenied");
    let ahead = Form::new().with(|form| form.at = SystemTime::now() + hour);
    assert_refused(&server, &ahead.send(&server).await, 403, "RequestTimeTooSkewed");
    let empty = Form::new().with(|form| form.file = "");
    assert_done(&server, &empty.send(&server).await, "post kvs/up/f = ");
}

#[tokio::test]
async fn what_the_policy_does_not_allow_is_refused() {
    let server = Server::start().await;
    let field = |name: &str, value: &str| {
        let field = (name.to_owned(), value.to_owned());
        Form::new().with(|form| form.fields.push(field))
    };
    for (form, code) in [
        (Form::new().with(|form| form.conditions.clear()), "AccessDenied"),
        (Form::new().with(|form| form.fields[0].1 = "elsewhere".to_owned()), "AccessDenied"),
        (Form::new().with(|form| form.bucket = "kv-other"), "AccessDenied"),
        (field("x-amz-meta-a", "1"), "AccessDenied"),
        (field("x-amz-server-side-encryption", "AES256"), "AccessDenied"),
        (field("x-amz-tagging", "a=b"), "AccessDenied"),
        (Form::new().with(|form| form.access_key = READER), "AccessDenied"),
    ] {
        assert_refused(&server, &form.send(&server).await, 403, code);
    }
    assert_refused(&server, &field("key", "up/other").send(&server).await, 400, "InvalidArgument");
    let long = Form::new().with(|form| form.file = "more than ten bytes");
    assert_refused(&server, &long.send(&server).await, 400, "EntityTooLarge");
    let deep = Form::new().with(|form| form.conditions.push("[".repeat(2_000) + &"]".repeat(2_000)));
    assert_refused(&server, &deep.send(&server).await, 400, "InvalidPolicyDocument");
    let wrong_type = Form::new().with(|form| form.conditions.push("{\"acl\":1}".to_owned()));
    assert_refused(&server, &wrong_type.send(&server).await, 400, "InvalidPolicyDocument");
}

#[tokio::test]
async fn unsigned_and_forged_forms_are_refused() {
    let server = Server::start_with(|settings| settings.anonymous_read = true).await;
    let unsigned = "--B\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nup/k\r\n\
                    --B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nbytes\r\n--B--\r\n";
    assert_refused(&server, &post(&server, "kvs", unsigned, "").await, 403, "AccessDenied");
    let form = Form::new().text();
    let (head, rest) = form.split_once("name=\"x-amz-signature\"\r\n\r\n").unwrap();
    let forged = format!("{head}name=\"x-amz-signature\"\r\n\r\n{}{}", "0".repeat(64), &rest[64..]);
    assert_refused(&server, &post(&server, "kvs", &forged, "").await, 403, "SignatureDoesNotMatch");
    let both = "authorization: AWS4-HMAC-SHA256 Credential=x\r\n";
    assert_refused(&server, &post(&server, "kvs", &form, both).await, 400, "InvalidArgument");
    assert_refused(&server, &post(&server, "kvs?delete", &form, "").await, 400, "InvalidArgument");
    assert_refused(&server, &post(&server, "kvs", &form[..form.len() - 3], "").await, 400, "IncompleteBody");
    let epilogue = format!("{form}more");
    let reply = post(&server, "kvs", &epilogue, "").await;
    assert!(reply.status == 400 && server.done().is_empty(), "{reply:?}");
}
