//! fio's engine `nbd` as a load.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::Counted;
use super::client::Load;
use crate::error::CliError;

pub(super) struct Fio {
    /// The file of its results.
    results: PathBuf,
}

impl Fio {
    /// fio, if it is installed and speaks NBD.
    pub(super) fn find(results: PathBuf) -> Option<Self> {
        let engines = Command::new("fio").arg("--enghelp").stdin(Stdio::null()).output().ok()?;
        let engines = String::from_utf8_lossy(&engines.stdout).into_owned();
        engines.lines().any(|line| line.trim() == "nbd").then_some(Self { results })
    }

    /// Runs a load.
    pub(super) fn run(&self, socket: &Path, load: &Load) -> Result<Counted, CliError> {
        let failed = |error| CliError::System { action: "measure with fio", error };
        let kind = if load.requests.write { "write" } else { "read" };
        let bytes = u64::from(load.requests.blocks) * 4096;
        let mut command = Command::new("fio");
        command.args(["--name=bench", "--ioengine=nbd", "--thread", "--norandommap"]);
        command.arg("--output-format=json").arg(format!("--output={}", self.results.display()));
        command.arg(format!("--uri=nbd+unix:///?socket={}", socket.display()));
        command.arg(format!("--rw=rand{kind}")).arg(format!("--bs={bytes}"));
        command.arg(format!("--iodepth={}", load.requests.depth));
        command.arg(format!("--size={}", load.volume_bytes));
        command.arg(format!("--runtime={}us", (load.seconds * 1e6).ceil()));
        match load.most.checked_mul(bytes) {
            Some(most) => command.arg(format!("--io_size={most}")),
            None => command.arg("--time_based"),
        };
        let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).status().map_err(failed)?;
        let text = std::fs::read_to_string(&self.results).map_err(failed)?;
        if !ended.success() {
            let said = text.lines().next().unwrap_or("no message").to_owned();
            return Err(failed(io::Error::other(said)));
        }
        counted(&text, kind).ok_or_else(|| failed(io::Error::other("no result in its report")))
    }
}

/// Parses its report, which follows messages of the engine.
fn counted(text: &str, kind: &str) -> Option<Counted> {
    let report: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    let job = &report["jobs"][0][kind];
    let requests = job["total_ios"].as_u64().filter(|requests| *requests > 0)?;
    let percentiles = &job["clat_ns"]["percentile"];
    Some(Counted {
        requests,
        // Its runtime is in whole milliseconds, too coarse.
        seconds: super::ratio(requests, 1) / job["iops"].as_f64()?,
        latency_p50_ns: percentiles["50.000000"].as_u64()?,
        latency_p99_ns: percentiles["99.000000"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_behind_what_the_engine_says() {
        let text = r#"fio: connected to NBD server
            {"jobs": [{"write": {"total_ios": 50, "iops": 100.0,
              "clat_ns": {"percentile": {"50.000000": 7, "99.000000": 9}}}}]}"#;
        let found = counted(text, "write").unwrap();
        assert_eq!((found.requests, found.latency_p50_ns, found.latency_p99_ns), (50, 7, 9));
        assert!((found.seconds - 0.5).abs() < 1e-9);
        assert!(counted(text, "read").is_none());
        assert!(counted("fio: no engine", "read").is_none());
    }
}
