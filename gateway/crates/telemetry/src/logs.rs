//! Logs on standard error: structured, quiet about clients' mistakes, and without secrets at any level.

use std::io;

use thiserror::Error;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Levels of libraries that the user's setting says nothing about.
///
/// s3s logs every request that it refuses as an error, and a client's mistake is none of the gateway's. The AWS client
/// logs each attempt; the upstream's caller logs what comes of them.
const QUIET: &[(&str, &str)] =
    &[("s3s", "off"), ("aws_config", "warn"), ("aws_runtime", "warn"), ("aws_smithy_runtime", "warn")];

/// Libraries that may log `debug`: at that level they tell of connections, handshakes and counts, and of no header.
///
/// All other libraries end at `info`, whatever the user asks for, since below it they print what must never reach a log:
/// * s3s, `debug`: the signature that a wrongly signed request should have had, and forms with their signatures
/// * `s3s_aws`, `aws_smithy_runtime`, `debug` and `trace`: whole requests and answers; `aws_sigv4`, `trace`: what it signs
/// * hyper and h2, `trace`: what is on the wire
///
/// A list of what may speak can't be outdated by a new version or a new library, one of what may not could.
const MAY_DEBUG: &[&str] = &["hyper", "hyper_util", "rustls"];

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people, with colours on a terminal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging can't begin.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LogsError {
    /// The level is neither a level nor a list of `target=level`.
    #[error(
        "log level {level:?}: {reason}; expected error, warn, info, debug, trace, off, or a list such as info,blockgate_store=debug"
    )]
    Level {
        /// As given.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Something else in this process collects log events already.
    #[error("logging has been set up already")]
    AlreadySet,
}

/// Logs to standard error from now on.
///
/// `level` is a level, or a comma-separated list of levels by target: `info,blockgate_store=debug`. Libraries are capped:
/// none logs below `info`, a few none below `debug`, so that no secret gets out.
///
/// # Errors
/// See [`LogsError`].
pub fn init_logs(format: LogFormat, level: &str) -> Result<(), LogsError> {
    let layer = layer(format, level, io::stderr, io::IsTerminal::is_terminal(&io::stderr()))?;
    tracing_subscriber::registry().with(layer).try_init().map_err(|_| LogsError::AlreadySet)
}

fn layer<S, W>(
    format: LogFormat,
    level: &str,
    writer: W,
    colours: bool,
) -> Result<Box<dyn Layer<S> + Send + Sync>, LogsError>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = wanted(level)?.and(without_secrets());
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match format {
        LogFormat::Text => layer.with_ansi(colours).with_filter(filter).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).with_filter(filter).boxed(),
    })
}

/// What the user wants to see.
fn wanted(level: &str) -> Result<EnvFilter, LogsError> {
    let asked_about = |target: &str| {
        level.split(',').filter_map(|part| part.split_once('=')).any(|(asked, _)| {
            let asked = asked.trim();
            asked == target || asked.strip_prefix(target).is_some_and(|rest| rest.starts_with("::"))
        })
    };
    let quiet =
        QUIET.iter().filter(|(target, _)| !asked_about(target)).map(|(target, level)| format!("{target}={level}"));
    let directives: Vec<String> = quiet.chain([level.to_owned()]).collect();
    EnvFilter::builder()
        .parse(directives.join(","))
        .map_err(|error| LogsError::Level { level: level.to_owned(), reason: error.to_string() })
}

/// What may be seen at all.
fn without_secrets() -> FilterFn<fn(&Metadata<'_>) -> bool> {
    // Any level may pass for some target. Said so that the hint of the user's level counts, and what it excludes is free.
    let cap: fn(&Metadata<'_>) -> bool = |metadata| *metadata.level() <= most_verbose(metadata.target());
    filter_fn(cap).with_max_level_hint(LevelFilter::TRACE)
}

fn most_verbose(target: &str) -> Level {
    let krate = target.split("::").next().unwrap_or_default();
    if krate == "blockgate" || krate.starts_with("blockgate_") {
        Level::TRACE
    } else if MAY_DEBUG.contains(&krate) {
        Level::DEBUG
    } else {
        Level::INFO
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no test panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged at `level` while `act` runs.
    fn logged(format: LogFormat, level: &str, act: impl FnOnce()) -> String {
        let captured = Captured::default();
        let writer = captured.clone();
        let layer = layer(format, level, move || writer.clone(), false).expect("a good level");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
        let bytes = captured.0.lock().expect("no test panicked").clone();
        String::from_utf8(bytes).expect("logs are text")
    }

    fn everyone_speaks() {
        tracing::error!(target: "s3s::ops", "s3s-error");
        tracing::debug!(target: "s3s::ops::signature", "s3s-debug");
        tracing::info!(target: "aws_smithy_runtime::client", "aws-info");
        tracing::trace!(target: "aws_sigv4::http_request", "sigv4-trace");
        tracing::debug!(target: "h2::codec", "h2-debug");
        tracing::debug!(target: "hyper_util::client", "pool-debug");
        tracing::trace!(target: "hyper::proto", "hyper-trace");
        tracing::debug!(target: "somebody_new", "new-debug");
        tracing::warn!(target: "somebody_new", "new-warn");
        tracing::trace!(target: "blockgate_store::read", "store-trace");
        tracing::info!(target: "blockgate", "main-info");
    }

    #[test]
    fn levels_are_what_was_asked_for_below_the_cap() {
        let all = [
            "s3s-error",
            "s3s-debug",
            "aws-info",
            "sigv4-trace",
            "h2-debug",
            "pool-debug",
            "hyper-trace",
            "new-debug",
            "new-warn",
            "store-trace",
            "main-info",
        ];
        for (level, expected) in [
            ("info", vec!["new-warn", "main-info"]),
            ("warn", vec!["new-warn"]),
            ("off", vec![]),
            ("info,blockgate_store=trace", vec!["new-warn", "store-trace", "main-info"]),
            ("trace", vec!["pool-debug", "new-warn", "store-trace", "main-info"]),
            ("off,s3s=trace", vec!["s3s-error"]),
            ("off,s3s::ops=error", vec!["s3s-error"]),
            (
                "off,aws_smithy_runtime::client=trace,hyper::proto=trace,h2=trace,aws_sigv4::http_request=trace",
                vec!["aws-info"],
            ),
        ] {
            let text = logged(LogFormat::Text, level, everyone_speaks);
            let seen: Vec<_> = all.into_iter().filter(|message| text.contains(message)).collect();
            assert_eq!(seen, expected, "{level}");
        }
    }

    #[test]
    fn what_the_level_excludes_is_known_to_callers_at_once() {
        type Registry = tracing_subscriber::Registry;
        for (level, hint) in
            [("info", LevelFilter::INFO), ("off", LevelFilter::WARN), ("info,hyper=debug", LevelFilter::DEBUG)]
        {
            let layer = layer::<Registry, _>(LogFormat::Text, level, io::sink, false).expect("a good level");
            assert_eq!(layer.max_level_hint(), Some(hint), "{level}");
        }
    }

    #[test]
    fn spans_are_capped_too() {
        let text = logged(LogFormat::Text, "trace", || {
            let _outer = tracing::debug_span!(target: "aws_runtime::request", "signing", key = "hush").entered();
            let _inner = tracing::debug_span!(target: "blockgate_upstream", "put", bucket = "kv").entered();
            tracing::info!(target: "blockgate_upstream", "stored");
        });
        assert!(text.contains("stored") && text.contains(r#"bucket="kv""#), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }

    #[test]
    fn json_is_one_object_a_line() {
        let text = logged(LogFormat::Json, "info", || {
            tracing::warn!(target: "blockgate_store", bucket = "kv", "slow \"upstream\"\nhere");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        for part in [r#""level":"WARN""#, r#""bucket":"kv""#, r#""message":"slow \"upstream\"\nhere""#] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_bad_level_is_named() {
        for level in ["info,blockgate=loud", "blockgate=info=debug", "[[["] {
            let error = wanted(level).expect_err(level).to_string();
            assert!(error.contains(level), "{error}");
        }
    }
}
