//! `loadtest bench`: every row compares two servers, measured alternately, and reports the median of their ratios.

mod compare;
mod fio;
mod machine;
mod report;
mod rows;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::Result;

/// What to measure, and for how long.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The gateway's binary; beside this program if absent.
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Pairs of measurements in each row.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Two short pairs of everything: shows that it runs, not how fast.
    #[arg(long)]
    quick: bool,
    /// Only rows whose name holds this text; may be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// Where the gateway's fs upstream and files are kept while measuring.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Also write the results here, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// An S3 store for the miss path, `http://host:port`; its rows are left out without.
    #[arg(long, requires_all = ["upstream_access_key", "upstream_secret_key"])]
    upstream_endpoint: Option<String>,
    /// Access key of that store.
    #[arg(long)]
    upstream_access_key: Option<String>,
    /// Secret of that access key.
    #[arg(long)]
    upstream_secret_key: Option<String>,
    /// Region of that store.
    #[arg(long, default_value = "us-east-1")]
    upstream_region: String,
    /// What that store is, for the report.
    #[arg(long, default_value = "S3 store")]
    upstream_name: String,
}

impl Options {
    fn rhythm(&self) -> Rhythm {
        if self.quick {
            Rhythm { pairs: 2, each: Duration::from_millis(200) }
        } else {
            Rhythm { pairs: self.pairs.max(1), each: Duration::from_secs_f64(self.seconds) }
        }
    }

    fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| row.contains(part.as_str()))
    }

    fn gateway(&self) -> Result<PathBuf> {
        match &self.gateway {
            Some(path) => Ok(path.clone()),
            None => crate::child::gateway_beside_this(),
        }
    }
}

/// How often and how long to measure.
#[derive(Clone, Copy, Debug)]
struct Rhythm {
    pairs: usize,
    each: Duration,
}

/// Measures every row that is wanted, and prints the table. A row below its bar is no error: it is reported.
pub(crate) async fn bench(options: Options) -> Result<()> {
    let rows = rows::measure(&options).await?;
    let machine = machine::describe();
    print!("{}", report::table(&machine, options.rhythm(), &rows));
    if let Some(path) = &options.json {
        std::fs::write(path, report::json(&machine, options.rhythm(), &rows)?)?;
    }
    Ok(())
}
