//! The metrics of an array: their names, their words, and where they come from.
//!
//! Labels: `array` is its name, with the shard; `uuid` tells two arrays of one name apart; `slot`
//! and `drive` are those of a member.

use zoneweave_raid::log::MemberHealth;
use zoneweave_zoned::BLOCK_BYTES;

use super::Kind::{Counter, Gauge, Histogram};
use super::Value::{Count, Ratio, Times};
use super::{Family, Kind, Known, Labels, Sample, Value};
use crate::job::{Job, JobKind};
use crate::status::{ArrayStatus, Health, LatencyStatus, MemberStatus};

const HEALTHS: [Health; 7] = [
    Health::Healthy,
    Health::Starting,
    Health::Rebuilding,
    Health::Degraded,
    Health::Damaged,
    Health::Unknown,
    Health::Failed,
];

const STATES: [MemberHealth; 4] =
    [MemberHealth::Online, MemberHealth::Rebuilding, MemberHealth::Missing, MemberHealth::Failed];

/// All families, with samples of all arrays.
pub(super) fn of(known: &[Known]) -> Vec<Family> {
    let mut families = Families::default();
    for Known { uuid, is_up, status, .. } in known {
        let name = status.as_ref().map(ArrayStatus::full_name).unwrap_or_default();
        let labels = vec![("array", name), ("uuid", uuid.clone())];
        let readable = Count(status.is_some().into());
        let is_up = Count((*is_up).into());
        families.add("up", "Whether the server of the array answers", Gauge, &labels, is_up);
        let help = "Whether the server answers in the form of this release";
        families.add("status_readable", help, Gauge, &labels, readable);
        if let Some(status) = status {
            array(&mut families, &labels, status);
            server(&mut families, &labels, status);
            for found in &status.members {
                member(&mut families, &labels, found);
            }
        }
    }
    families.0
}

/// Families by their first use.
#[derive(Default)]
struct Families(Vec<Family>);

impl Families {
    fn add(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: &Labels,
        value: Value,
    ) {
        assert!(!name.ends_with("_total"), "{name}: the encoder adds that to counters");
        let sample = Sample { labels: labels.clone(), value };
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => {
                assert_eq!(family.kind, kind, "a metric has one type");
                family.samples.push(sample);
            }
            None => self.0.push(Family { name, help, kind, samples: vec![sample] }),
        }
    }
}

/// Labels with one more.
fn with(labels: &Labels, name: &'static str, value: impl Into<String>) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.into()));
    labels
}

fn bytes_of(blocks: u64) -> Value {
    Count(blocks.saturating_mul(BLOCK_BYTES as u64))
}

#[expect(clippy::cast_precision_loss, reason = "microseconds over 200 years")]
fn seconds(nanoseconds: u64) -> Value {
    Ratio(nanoseconds as f64 / 1e9)
}

#[expect(clippy::cast_precision_loss, reason = "a share is shown to a few digits")]
fn share(job: Job) -> Value {
    Ratio(if job.total == 0 { 0.0 } else { job.done as f64 / job.total as f64 })
}

fn latencies(
    families: &mut Families,
    (name, help): (&'static str, &'static str),
    labels: &Labels,
    found: &[LatencyStatus],
) {
    for one in found {
        let labels = with(labels, "operation", one.operation.clone());
        families.add(name, help, Histogram, &labels, Times(Box::new(one.times())));
    }
}

fn array(families: &mut Families, labels: &Labels, status: &ArrayStatus) {
    for health in HEALTHS {
        let labels = with(labels, "health", health.word().to_lowercase());
        let is = Count((health == status.health).into());
        families.add("health", "1 for the health that the array has", Gauge, &labels, is);
    }
    if let Some(left) = status.losses_left {
        let help = "Further drives that may be lost, whichever they are";
        families.add("losses_left", help, Gauge, labels, Count(left as u64));
    }
    families.add("size_bytes", "Size of the volume", Gauge, labels, Count(status.size_bytes));
}

fn server(families: &mut Families, labels: &Labels, status: &ArrayStatus) {
    let Some(server) = &status.server else { return };
    families.add(
        "uptime_seconds",
        "Time since the server started",
        Gauge,
        labels,
        seconds(server.uptime_ns),
    );
    families.add("clients", "Clients connected", Gauge, labels, Count(server.clients));
    let help = "Requests answered by front ends";
    families.add("requests", help, Counter, labels, Count(server.requests));
    let help = "Time of users' requests to the volume that succeeded";
    latencies(families, ("request_latency_seconds", help), labels, &server.latencies);
    let jobs = [(JobKind::Rebuild, server.rebuild), (JobKind::Scrub, server.scrub)];
    for (kind, job) in jobs {
        let labels = with(labels, "job", kind.word());
        let runs = Count(job.is_some().into());
        families.add("job_running", "Whether such a job runs", Gauge, &labels, runs);
        if let Some(job) = job {
            families.add("job_done_ratio", "Share of the job done", Gauge, &labels, share(job));
        }
    }
    if let Some(left) = server.rebuild_left_ns {
        let help = "Time left of the rebuild, at the rate of the last half minute";
        families.add("rebuild_left_seconds", help, Gauge, labels, seconds(left));
    }
    block_volume(families, labels, status);
    if let Some(zoned) = &server.zoned {
        let zones = &zoned.zones;
        let states = [
            ("empty", zones.empty),
            ("open", zones.open),
            ("closed", zones.closed),
            ("full", zones.full),
            ("read-only", zones.read_only),
            ("offline", zones.offline),
        ];
        for (state, count) in states {
            let labels = with(labels, "state", state);
            let help = "Zones of the zoned volume";
            families.add("volume_zones", help, Gauge, &labels, Count(count.into()));
        }
        let help = "Blocks in parity logs because something is in their places";
        families.add("relocated_blocks", help, Gauge, labels, Count(zoned.relocated_blocks));
    }
}

fn block_volume(families: &mut Families, labels: &Labels, status: &ArrayStatus) {
    let Some(blocks) = status.server.as_ref().and_then(|server| server.blocks.as_ref()) else {
        return;
    };
    let help = "Bytes with data of users";
    families.add("mapped_bytes", help, Gauge, labels, Count(blocks.mapped_bytes));
    let (free, leftover) = (blocks.segments_free, blocks.segments_leftover);
    let used = blocks.segments_total.saturating_sub(free).saturating_sub(leftover);
    for (state, count) in [("free", free), ("used", used), ("leftover", leftover)] {
        let labels = with(labels, "state", state);
        families.add("segments", "Segments", Gauge, &labels, Count(count.into()));
    }
    let memory = Count(blocks.memory.total_bytes);
    families.add("memory_bytes", "Memory of the volume", Gauge, labels, memory);
    let counters = &blocks.counters;
    let volumes = [
        ("user_written_bytes", "Bytes that users wrote", counters.user_blocks_written),
        ("user_read_bytes", "Bytes that users read", counters.user_blocks_read),
        ("relocated_bytes", "Bytes that reclaim moved", counters.relocated_blocks),
        ("padding_bytes", "Bytes that filled stripes", counters.padding_blocks),
        ("parity_bytes", "Bytes of parity", counters.parity_blocks),
    ];
    for (name, help, blocks) in volumes {
        families.add(name, help, Counter, labels, bytes_of(blocks));
    }
    let counts = [
        ("segments_reclaimed", "Segments emptied by reclaim", counters.segments_reclaimed),
        ("degraded_reads", "Reads reconstructed for want of a drive", counters.degraded_reads),
        ("reads_around", "Reads reconstructed because a drive was busy", counters.reads_around),
        ("reads_hedged", "Reads reconstructed because a drive was late", counters.reads_hedged),
    ];
    for (name, help, count) in counts {
        families.add(name, help, Counter, labels, Count(count));
    }
    let help = "Data blocks written per block of users since the server started, without parity";
    let amplification = Ratio(blocks.write_amplification);
    families.add("write_amplification", help, Gauge, labels, amplification);
    if let Some(uniform) = blocks.amplification.uniform {
        let help = "The same in theory, for uniformly random writes";
        families.add("write_amplification_theory", help, Gauge, labels, Ratio(uniform));
    }
}

fn member(families: &mut Families, labels: &Labels, member: &MemberStatus) {
    let labels = &with(labels, "slot", member.slot.to_string());
    for state in STATES {
        let labels = with(labels, "state", state.to_string());
        let is = Count((state == member.state).into());
        families.add("member_state", "1 for the state that the slot has", Gauge, &labels, is);
    }
    let labels = &with(labels, "drive", member.drive.clone().unwrap_or_default());
    if let Some(io) = &member.io {
        let transfers = [
            ("drive_read_bytes", "Bytes read from the drive", io.read_bytes),
            ("drive_written_bytes", "Bytes written to the drive", io.written_bytes),
        ];
        for (name, help, bytes) in transfers {
            families.add(name, help, Counter, labels, Count(bytes));
        }
        let errors = [
            ("read", io.read_errors),
            ("write", io.write_errors),
            ("checksum", io.checksum_errors),
        ];
        for (kind, count) in errors {
            let labels = with(labels, "kind", kind);
            families.add("drive_errors", "Errors of the drive", Counter, &labels, Count(count));
        }
        let damage = [
            ("drive_repaired_bytes", "Damage restored from other drives", io.repaired_blocks),
            ("drive_lost_bytes", "Damage that is on no other drive", io.unrepairable_blocks),
        ];
        for (name, help, blocks) in damage {
            families.add(name, help, Counter, labels, bytes_of(blocks));
        }
        let help = "Time since the last answer of the drive";
        families.add("drive_seen_seconds", help, Gauge, labels, seconds(io.seen_ns_ago));
    }
    let help = "Time of commands to the drive that succeeded";
    latencies(families, ("drive_latency_seconds", help), labels, &member.latencies);
    if let Some(zones) = &member.zones {
        let states = [
            ("empty", zones.empty),
            ("active", zones.active),
            ("full", zones.full),
            ("read-only", zones.read_only),
            ("offline", zones.offline),
        ];
        for (state, count) in states {
            let labels = with(labels, "state", state);
            families.add("drive_zones", "Zones of the drive", Gauge, &labels, Count(count.into()));
        }
    }
    if let Some(resets) = member.resets_max {
        let help = "Resets of the most reset zone";
        families.add("drive_zone_resets_max", help, Gauge, labels, Count(resets));
    }
}
