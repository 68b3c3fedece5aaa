//! A gateway as a child process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The access key of every gateway that does not create its own.
pub(crate) const ACCESS_KEY: &str = "TESTACCESSKEY";
/// Its secret: of no use outside these tests.
pub(crate) const SECRET_KEY: &str = "test-secret-of-no-use-elsewhere";

/// Longest wait for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary in an empty environment, in `directory`.
pub(crate) fn blockgate(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_blockgate"));
    command.args(arguments).current_dir(directory).env_clear().stdin(Stdio::null());
    command.envs(variables.iter().map(|(name, text)| (format!("BLOCKGATE__{name}"), *text)));
    command
}

/// Runs the binary to its end, which must come.
pub(crate) fn run(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = blockgate(directory, arguments, variables);
    let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = Pid::from_child(&process);
    let (_ended, end) = channel::<()>();
    std::thread::spawn(move || {
        if end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            // It may end just now.
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    process.wait_with_output().unwrap()
}

/// A running gateway; killed when dropped.
pub(crate) struct Gateway {
    pub(crate) process: Child,
    /// Each S3 listener.
    pub(crate) s3: Vec<SocketAddr>,
    pub(crate) ops: SocketAddr,
    log: Receiver<serde_json::Value>,
}

impl Gateway {
    /// Starts with an access key and these settings, on any free ports.
    pub(crate) fn start(directory: &TempDir, variables: &[(&str, &str)]) -> Self {
        let access = [("ACCESS__0__ACCESS_KEY", ACCESS_KEY), ("ACCESS__0__SECRET_KEY", SECRET_KEY)];
        Self::start_with(directory, &[&access[..], variables].concat())
    }

    /// Starts with these settings alone, on any free ports.
    pub(crate) fn start_with(directory: &TempDir, variables: &[(&str, &str)]) -> Self {
        let base = [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("SERVER__OPS_LISTEN", "127.0.0.1:0"),
            ("MEMORY__CAPACITY", "128MiB"),
            ("TELEMETRY__LOG_FORMAT", "json"),
            ("TELEMETRY__LOG_LEVEL", "debug"),
        ];
        let mut command = blockgate(directory.path(), &["serve"], &[&base[..], variables].concat());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = process.stderr.take().unwrap();
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let line = line.unwrap();
                let value = serde_json::from_str(&line).unwrap_or(serde_json::Value::String(line));
                // The test may be over.
                let _ = sender.send(value);
            }
        });
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut gateway = Self { process, s3: Vec::new(), ops: unknown, log };
        loop {
            let line = gateway.next_log_line();
            let address = || line["address"].as_str().unwrap().parse().unwrap();
            match line["message"].as_str() {
                Some("serving S3") => gateway.s3.push(address()),
                Some("serving operations") => {
                    gateway.ops = address();
                    return gateway;
                }
                _ => {}
            }
        }
    }

    /// The next line of the log.
    fn next_log_line(&self) -> serde_json::Value {
        self.log.recv_timeout(PATIENCE).expect("a further line of the log")
    }

    /// Waits for a line with this message.
    pub(crate) fn wait_for_log(&self, message: &str) -> serde_json::Value {
        loop {
            let line = self.next_log_line();
            if line["message"] == message {
                return line;
            }
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Everything on standard output; the process must have ended.
    pub(crate) fn stdout(&mut self) -> String {
        let mut text = String::new();
        self.process.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
