//! A line of the report: what was measured of a workload, and how it compares.

use serde::Serialize;

use super::counters::Counted;
use super::median::Beside;
use super::memory::MemoryRates;
use super::nbd::Row;
use super::volume::{Measure, Requests};

/// How much of what was measured earlier is measured now: 1 if nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Ratios {
    pub(super) throughput: f64,
    /// Of throughput as a part of copying memory in the same run, which leaves out how fast the machine was.
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
    /// Of writes: data blocks written for each that users write.
    pub(super) write_amplification: Option<f64>,
    /// Of writes: what holds data of the room for it, without segments that are open or kept free.
    pub(super) effectively_full: Option<f64>,
    /// What a request takes of the processor, the load included; over NBD of the server alone.
    pub(super) processor_ns_per_request: f64,
    /// For each 4 KiB, without what the kernel does for it; not over NBD, nor where the machine does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) for_each_4_kib: Option<Counted>,
    /// Throughput against copying cold memory, both in a second of the processor.
    pub(super) of_cold_memcpy: f64,
    /// Over NBD: against nbdkit's memory plugin under the same load in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against_nbdkit: Option<Beside>,
    /// Against the document that --compare named.
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

/// A line of what was measured over NBD.
pub(super) fn nbd_line(row: Row, memory: &MemoryRates) -> Line {
    Line {
        against_nbdkit: row.beside,
        ..line((row.array, row.workload), row.requests, row.measure, memory)
    }
}
