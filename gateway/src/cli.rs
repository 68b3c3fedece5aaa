//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// An S3-compatible gateway for KV-cache blocks.
#[derive(Debug, Parser)]
#[command(name = "blockgate", version, about, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve S3 until SIGTERM or SIGINT. Without configuration: a directory in ./blockgate-data, on 127.0.0.1:9800.
    Serve(ConfigFile),
    /// Validate the configuration, show what is in force and why, and try the upstream.
    Check(Check),
    /// Look after the staging log of a gateway that is stopped.
    #[command(subcommand)]
    Staging(Staging),
    /// Show the version.
    Version,
}

/// Where the configuration is.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration, a TOML file. Every setting is also a variable: BLOCKGATE__SECTION__NAME.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// What to check.
#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Do not touch the upstream.
    #[arg(long)]
    pub(crate) offline: bool,
}

/// What to do with a staging log. No gateway may be running on it.
#[derive(Debug, Subcommand)]
pub(crate) enum Staging {
    /// Show what is in the log, a line for each segment.
    Inspect(Log),
    /// Read all of the log and check every checksum. The exit status is 1 if something is damaged.
    Verify(Log),
    /// Upload the blocks that the upstream does not have yet. The exit status is 1 if some remain.
    Drain(ConfigFile),
}

/// Which log.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The directory of the log, instead of what the configuration says.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "config")]
    pub(crate) path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}
