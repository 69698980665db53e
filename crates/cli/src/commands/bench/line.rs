//! A line of the report: the measurement of a workload, and its ratios.

use serde::Serialize;

use super::counters::Counted;
use super::median::Beside;
use super::memory::MemoryRates;
use super::nbd::Row;
use super::volume::{Measure, Requests};

/// Ratios of this run to an earlier one: 1 if nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Ratios {
    pub(super) throughput: f64,
    /// Throughput relative to copying memory in the same run, which cancels the speed of the
    /// machine.
    pub(super) of_cold_memcpy: f64,
    pub(super) processor_time: f64,
    pub(super) latency_p50: f64,
}

/// The median of the runs.
#[derive(Serialize)]
pub(super) struct Line {
    pub(super) array: String,
    pub(super) workload: &'static str,
    pub(super) request_bytes: u64,
    pub(super) depth: u32,
    pub(super) bytes_per_second: f64,
    pub(super) requests_per_second: f64,
    pub(super) latency_p50_ns: u64,
    pub(super) latency_p99_ns: u64,
    pub(super) volume_bytes: u64,
    /// For writes: data blocks written per block of user writes.
    pub(super) write_amplification: Option<f64>,
    /// For writes: the share of space that holds data, without open and reserved segments.
    pub(super) effectively_full: Option<f64>,
    /// CPU time per request, including the load generator; over NBD only that of the server.
    pub(super) processor_ns_per_request: f64,
    /// Per 4 KiB, in user mode; `None` over NBD and on machines without counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) for_each_4_kib: Option<Counted>,
    /// Throughput relative to copying cold memory, both per CPU second.
    pub(super) of_cold_memcpy: f64,
    /// Over NBD: relative to nbdkit's memory plugin under the same load in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against_nbdkit: Option<Beside>,
    /// Relative to the document given with --compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against_baseline: Option<Ratios>,
}

pub(super) fn line(
    (array, workload): (String, &'static str),
    requests: Requests,
    measure: Measure,
    memory: &MemoryRates,
) -> Line {
    let bytes_per_second = measure.blocks_per_second * 4096.0;
    let blocks_per_processor_second =
        1e9 / measure.processor_ns_per_request * f64::from(requests.blocks);
    Line {
        array,
        workload,
        request_bytes: u64::from(requests.blocks) * 4096,
        depth: requests.depth,
        bytes_per_second,
        requests_per_second: measure.blocks_per_second / f64::from(requests.blocks),
        latency_p50_ns: measure.latency_p50_ns,
        latency_p99_ns: measure.latency_p99_ns,
        volume_bytes: measure.volume_blocks * 4096,
        write_amplification: measure.amplification,
        effectively_full: measure.full,
        processor_ns_per_request: measure.processor_ns_per_request,
        for_each_4_kib: measure.counted,
        of_cold_memcpy: blocks_per_processor_second * 4096.0 / memory.cold_memcpy_bytes_per_second,
        against_nbdkit: None,
        against_baseline: None,
    }
}

/// A line of an NBD measurement.
pub(super) fn nbd_line(row: Row, memory: &MemoryRates) -> Line {
    Line {
        against_nbdkit: row.beside,
        ..line((row.array, row.workload), row.requests, row.measure, memory)
    }
}
