//! What the numbers were measured on.

use std::fs::read_to_string;

use serde::Serialize;

/// A machine.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) memory_gib: u64,
    pub(super) kernel: String,
}

/// This machine, as far as it tells.
pub(super) fn describe() -> Machine {
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
    let memory_kib: u64 = memory.split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or_default();
    Machine {
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory_gib: (memory_kib + (1 << 19)) >> 20,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
    }
}
