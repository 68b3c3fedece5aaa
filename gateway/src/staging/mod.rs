//! `blockgate staging`: a log beside a gateway that is stopped.

mod drain;
mod look;
mod progress;
pub(crate) mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::{Log, Staging};
use crate::config::Config;
use crate::{EXIT_CONFIGURATION, load};

/// Does what the command says.
pub(crate) fn run(command: &Staging) -> ExitCode {
    let outcome = match command {
        Staging::Inspect(log) => directory(log).map(|path| look::inspect(&path)),
        Staging::Verify(log) => directory(log).map(|path| look::verify(&path)),
        Staging::Drain(file) => load(file.config.as_deref()).map(|config| drain::run(&config)),
    };
    match outcome {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(problem)) => {
            eprintln!("blockgate: {problem}");
            ExitCode::FAILURE
        }
        Err(code) => code,
    }
}

/// Where the log is.
fn directory(log: &Log) -> Result<PathBuf, ExitCode> {
    match &log.path {
        Some(path) => Ok(path.clone()),
        None => configured(load(log.file.config.as_deref())?),
    }
}

fn configured(config: Config) -> Result<PathBuf, ExitCode> {
    config.staging.map(|settings| settings.path).ok_or_else(|| {
        eprintln!("blockgate: {NOT_CONFIGURED}; or name the log's directory by --path");
        ExitCode::from(EXIT_CONFIGURATION)
    })
}

/// What is wrong where there is no `[staging]`.
const NOT_CONFIGURED: &str = "[staging] is not configured: name the configuration of the gateway by --config";
