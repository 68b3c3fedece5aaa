//! The `blockgate` binary: an S3-compatible gateway for KV-cache blocks.
#![forbid(unsafe_code)]

mod check;
mod cli;
mod config;
mod credentials;
mod mount;
mod ops;
mod serve;
mod server;
mod staging;
mod welcome;
mod wire;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::config::Config;

/// The status of a process whose configuration is refused.
const EXIT_CONFIGURATION: u8 = 2;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Version => {
            println!("blockgate {} ({})", env!("CARGO_PKG_VERSION"), env!("BLOCKGATE_TARGET"));
            ExitCode::SUCCESS
        }
        Command::Check(check) => match load(check.file.config.as_deref()) {
            Ok(config) => run(check::check(&config, check.offline)),
            Err(code) => code,
        },
        Command::Staging(command) => staging::run(&command),
        Command::Serve(file) => match load(file.config.as_deref()) {
            Ok(config) => {
                if let Err(error) =
                    blockgate_telemetry::init_logs(config.telemetry.log_format, &config.telemetry.log_level)
                {
                    eprintln!("blockgate: {error}");
                    return EXIT_CONFIGURATION.into();
                }
                log_panics();
                run(serve::serve(config))
            }
            Err(code) => code,
        },
    }
}

/// The configuration; or, told on standard error, everything that is wrong with it.
fn load(path: Option<&Path>) -> Result<Config, ExitCode> {
    let refused = |mistakes: Vec<String>| {
        for mistake in mistakes {
            eprintln!("{mistake}");
        }
        ExitCode::from(EXIT_CONFIGURATION)
    };
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .map(|(name, text)| (name.to_string_lossy().into_owned(), text.to_string_lossy().into_owned()))
        .collect();
    let file = match path {
        None => None,
        Some(path) => match std::fs::read_to_string(path) {
            Ok(text) => Some((path.display().to_string(), text)),
            Err(error) => return Err(refused(vec![format!("{}: {error}", path.display())])),
        },
    };
    let file = file.as_ref().map(|(path, text)| (path.as_str(), text.as_str()));
    Config::load(file, &variables).map_err(refused)
}

fn run<E: std::fmt::Display>(task: impl Future<Output = Result<(), E>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("blockgate: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(task);
    // What is still running has had its time.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("blockgate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Panics become log lines, so that whoever gathers logs sees them.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let location = panic.location().map(ToString::to_string);
        tracing::error!(panic = message, location, "a task panicked: please report this as a bug");
    }));
}
