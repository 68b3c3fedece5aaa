//! Measures blockgate against baselines that do nothing but move bytes, each pair in one run on one machine.
#![forbid(unsafe_code)]

mod bench;
mod child;
mod client;
mod delay;
mod hyper_server;
mod objects;
mod raw_server;
mod ready;
mod sign;
mod stage;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Baselines and benchmarks for blockgate.
#[derive(Debug, Parser)]
#[command(name = "loadtest", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    /// A bare hyper server: answers GET and HEAD from memory, keeps the frames of PUTs.
    ServeHyper(hyper_server::Options),
    /// A server on plain sockets: preformatted responses by writev, a thread for each connection.
    ServeRaw(raw_server::Options),
    /// Runs the comparisons and prints a table.
    Bench(Box<bench::Options>),
    /// Replays a trace of block chains through a gateway and prints which tier had them.
    Trace(trace::Options),
    /// Fills a staging log with small blocks.
    Stage(stage::Options),
    /// Measures how soon a gateway is ready whose staging log is full of small blocks.
    Ready(ready::Options),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::ServeHyper(options) => on_runtime(hyper_server::serve(options)),
        Command::ServeRaw(options) => raw_server::serve(&options),
        Command::Bench(options) => on_runtime(bench::bench(*options)),
        Command::Trace(options) => on_runtime(trace::trace(options)),
        Command::Stage(options) => on_runtime(stage::stage(options)),
        Command::Ready(options) => on_runtime(ready::ready(options)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How everything here fails: with a message.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn on_runtime(task: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(task)
}
