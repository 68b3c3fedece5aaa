//! What a start tells: where things are and, with generated credentials, how to use them at once.

use std::fmt::Write;
use std::io::{self, IsTerminal, Write as _};

use tokio::net::TcpListener;

use crate::config::{Config, Size, Upstream};
use crate::credentials::Generated;
use crate::wire::Gateway;

/// An address that is listened on.
pub(crate) struct Address {
    authority: String,
    tls: bool,
    bucket: Option<String>,
}

impl Address {
    /// Where `socket` is reached.
    pub(crate) fn new(socket: &TcpListener, tls: bool, bucket: Option<&str>) -> Self {
        let authority = socket.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
        Self { authority, tls, bucket: bucket.map(str::to_owned) }
    }

    fn url(&self) -> String {
        format!("http{}://{}", if self.tls { "s" } else { "" }, self.authority)
    }
}

/// What to tell.
pub(crate) struct Welcome<'c> {
    config: &'c Config,
    s3: Vec<Address>,
    ops: Address,
    generated: Option<&'c Generated>,
}

impl<'c> Welcome<'c> {
    /// Gathers what to tell.
    pub(crate) fn new(config: &'c Config, gateway: &'c Gateway, (s3, ops): (Vec<Address>, Address)) -> Self {
        Self { config, s3, ops, generated: gateway.generated.as_ref() }
    }

    /// Logs where things are; with generated credentials also prints how to use them.
    ///
    /// The secret is printed when it was created just now, or to a terminal: elsewhere output is kept, and who may read
    /// it is unknown.
    pub(crate) fn show(&self) {
        for address in &self.s3 {
            tracing::info!(address = address.authority, tls = address.tls, bucket = address.bucket, "serving S3");
        }
        tracing::info!(address = self.ops.authority, "serving operations");
        let Some(generated) = self.generated else { return };
        let shows_secret = generated.created || io::stdout().is_terminal();
        let text = self.text(generated, shows_secret);
        // A closed standard output is no reason not to serve.
        let _ = io::stdout().lock().write_all(text.as_bytes());
    }

    fn text(&self, generated: &Generated, shows_secret: bool) -> String {
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = self.write(&mut text, generated, shows_secret);
        text
    }

    fn write(&self, text: &mut String, generated: &Generated, shows_secret: bool) -> std::fmt::Result {
        let version = env!("CARGO_PKG_VERSION");
        let region = self.config.server.region.as_deref().unwrap_or("us-east-1");
        let file = generated.path.display();
        writeln!(text, "blockgate {version}")?;
        for address in &self.s3 {
            match &address.bucket {
                None => writeln!(text, "  S3           {}", address.url())?,
                Some(bucket) => writeln!(text, "  S3           {} (all of it is bucket {bucket})", address.url())?,
            }
        }
        writeln!(text, "  operations   {}/healthz, /readyz, /metrics", self.ops.url())?;
        if let Upstream::Fs { path } = &self.config.upstream {
            writeln!(text, "  blocks       {}", path.display())?;
        }
        writeln!(text, "  memory       {}", Size(self.config.memory_capacity_bytes))?;
        if let Some(staging) = &self.config.staging {
            writeln!(text, "  staging      {}, {}", staging.path.display(), Size(staging.capacity_bytes))?;
        }
        let created = if generated.created { " (just created)" } else { "" };
        writeln!(text, "  credentials  {file}{created}")?;

        let endpoint = self.s3.iter().find(|address| address.bucket.is_none());
        if let Some(endpoint) = endpoint.map(Address::url) {
            writeln!(text, "\nFrom a shell:")?;
            if shows_secret {
                writeln!(text, "  export AWS_ACCESS_KEY_ID={}", generated.key.access_key)?;
                writeln!(text, "  export AWS_SECRET_ACCESS_KEY={}", generated.key.secret_key.expose())?;
            } else {
                writeln!(text, "  export AWS_SHARED_CREDENTIALS_FILE={file}")?;
            }
            writeln!(text, "  export AWS_DEFAULT_REGION={region}")?;
            writeln!(text, "  aws --endpoint-url {endpoint} s3 mb s3://my-bucket")?;
            writeln!(text, "  aws --endpoint-url {endpoint} s3 cp README.md s3://my-bucket/")?;
            writeln!(text, "  aws --endpoint-url {endpoint} s3 ls s3://my-bucket/")?;
        }
        if let Some(address) = self.s3.iter().find(|address| address.bucket.is_some()) {
            let (id, secret) = match shows_secret {
                true => (generated.key.access_key.as_str(), generated.key.secret_key.expose()),
                false => ("(see the credentials file)", "(see the credentials file)"),
            };
            writeln!(text, "\nFrom LMCache, in its YAML file:")?;
            writeln!(text, "  remote_url: \"s3://{}\"", address.authority)?;
            writeln!(text, "  remote_serde: \"naive\"")?;
            writeln!(text, "  save_unfull_chunk: false")?;
            writeln!(text, "  extra_config:")?;
            writeln!(text, "    s3_region: \"{region}\"")?;
            writeln!(text, "    disable_tls: {}", !address.tls)?;
            writeln!(text, "    s3_prefer_http2: {}", address.tls)?;
            writeln!(text, "    aws_access_key_id: \"{id}\"")?;
            writeln!(text, "    aws_secret_access_key: \"{secret}\"")?;
        }
        Ok(())
    }
}
