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
