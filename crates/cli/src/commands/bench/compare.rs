//! Ratios to an earlier run. Absolute figures of two days are not comparable.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;

use super::line::{Line, Ratios};
use crate::error::CliError;

/// The part of an earlier document that is compared.
#[derive(Deserialize)]
pub(super) struct Baseline {
    kind: String,
    results: Vec<Earlier>,
}

#[derive(Deserialize)]
struct Earlier {
    array: String,
    workload: String,
    request_bytes: u64,
    depth: u32,
    bytes_per_second: f64,
    latency_p50_ns: u64,
    of_cold_memcpy: f64,
    processor_ns_per_request: f64,
}

type Key = (String, String, u64, u32);

impl Baseline {
    /// The document of an earlier run with `--json`.
    ///
    /// # Errors
    /// If the file cannot be read, or is not such a document.
    pub(super) fn load(path: &Path) -> Result<Self, CliError> {
        let usage = |problem| CliError::Usage { option: "compare", problem };
        let file = File::open(path)
            .map_err(|error| usage(format!("{} cannot be read: {error}", path.display())))?;
        let baseline: Self = serde_json::from_reader(BufReader::new(file)).map_err(|error| {
            usage(format!(
                "{} is not a result of `zoneweave bench --json`: {error}",
                path.display()
            ))
        })?;
        if baseline.kind != "bench" {
            return Err(usage(format!(
                "{} is not a result of `zoneweave bench --json`, but a document of kind {}",
                path.display(),
                baseline.kind
            )));
        }
        Ok(baseline)
    }

    /// Adds ratios to each line that the earlier run measured too; `false` if there is none.
    pub(super) fn compare(&self, lines: &mut [Line]) -> bool {
        let key = |earlier: &Earlier| -> Key {
            let Earlier { array, workload, request_bytes, depth, .. } = earlier;
            (array.clone(), workload.clone(), *request_bytes, *depth)
        };
        let earlier: BTreeMap<_, _> =
            self.results.iter().map(|earlier| (key(earlier), earlier)).collect();
        for line in &mut *lines {
            let key =
                (line.array.clone(), line.workload.to_owned(), line.request_bytes, line.depth);
            line.against_baseline = earlier.get(&key).map(|earlier| earlier.ratios(line));
        }
        lines.iter().any(|line| line.against_baseline.is_some())
    }
}

impl Earlier {
    fn ratios(&self, now: &Line) -> Ratios {
        Ratios {
            throughput: now.bytes_per_second / self.bytes_per_second,
            of_cold_memcpy: now.of_cold_memcpy / self.of_cold_memcpy,
            processor_time: now.processor_ns_per_request / self.processor_ns_per_request,
            latency_p50: super::volume::ratio(now.latency_p50_ns, self.latency_p50_ns.max(1)),
        }
    }
}
