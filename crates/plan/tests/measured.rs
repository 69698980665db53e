//! Predictions beside the measurements of experiments, and beside a volume that runs.

use std::rc::Rc;

use serde_json::Value;
use zoneweave_emulator::{Jitter, RamDrive};
use zoneweave_plan::array::{amplification, configuration, memory};
use zoneweave_plan::repair::of_drive;
use zoneweave_raid::log::format::{ArrayUuid, Lineage, MemberUuid};
use zoneweave_raid::log::{
    CreateOptions, Lanes, OfferedDrive, OpenOptions, WriteChoice, WritePolicy, create, open_array,
};
use zoneweave_raid::scheme::Scheme;
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, Nanos, VirtualTime};
use zoneweave_zoned::{BlockCount, Geometry};

use crate::specs::spec;

/// How far a prediction may be off.
const WITHIN: f64 = 0.10;

fn near(what: &str, predicted: f64, measured: f64) {
    let off = predicted / measured - 1.0;
    eprintln!("{what}: predicted {predicted:.3}, measured {measured:.3}, {off:+.3}");
    assert!(off.abs() <= WITHIN, "{what}: predicted {predicted}, measured {measured}, {off:+.3}");
}

/// The measured points of an experiment in this repository.
fn points(experiment: &str) -> Vec<Value> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/zapraid");
    let text = std::fs::read_to_string(format!("{root}/{experiment}/points.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn value(point: &Value, metric: &str) -> f64 {
    point["values"][metric].as_f64().unwrap()
}

/// 3 + 1 drives with 20 % beside a volume of 1,024 segments, overwritten at random.
#[test]
fn write_amplification_is_as_measured() {
    // As many segments as the experiment has, which are small.
    let scheme = Scheme::new(3, 1).unwrap();
    let drive = Geometry::new(1024 * 120 / 100 + 12, BlockCount(4096));
    let predicted = amplification(&configuration(&drive, scheme, 20).unwrap(), 1.0).unwrap();
    let mut compared = 0;
    for point in points("gc") {
        if matches!(point["point"].as_str(), Some("uniform greedy" | "uniform adaptive")) {
            near("amplification", predicted, value(&point, "amplification"));
            compared += 1;
        }
    }
    assert!(compared >= 2, "the experiment has points of both kinds");
}

/// 25 to 200 GiB on 3 + 1 drives that write 1,780 MiB/s.
#[test]
fn a_rebuild_takes_as_long_as_measured() {
    let mut spec = spec();
    spec.drive.write_mib_per_s = 1780.0;
    let points = points("exp9");
    assert_eq!(points.len(), 4, "four sizes");
    for point in points {
        let name = point["point"].as_str().unwrap();
        let gib: f64 = name.trim_end_matches(" GiB").parse().unwrap();
        let predicted = of_drive(&spec, gib / 3.0 * f64::from(1 << 30)).hours * 3600.0;
        near(name, predicted, value(&point, "rebuild, chunks of 4 KiB"));
    }
}

/// The volume that is made is the volume that was planned, and holds as much memory.
#[test]
fn size_and_memory_are_those_of_a_volume() {
    let scheme = Scheme::new(3, 1).unwrap();
    let drive = Geometry::new(900, BlockCount(16_384));
    let planned = configuration(&drive, scheme, 20).unwrap();
    let lanes = Lanes { count: 1, chunk_blocks: planned.log().chunk_blocks };
    let policy = WritePolicy::adaptive(lanes, Lanes::default());
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let handle = executor.handle();
    let drives: Vec<_> = (0..4)
        .map(|_| RamDrive::new(drive.clone(), Jitter::new(1, Nanos::from_micros(100))).unwrap())
        .collect();
    let status = executor.run(async {
        let offer = |(at, drive): (usize, &RamDrive)| OfferedDrive {
            device: drive.attach(&handle),
            label: format!("drive {at}"),
        };
        let offered = || drives.iter().enumerate().map(offer).collect::<Vec<_>>();
        let options = CreateOptions {
            name: "measured".to_owned(),
            scheme,
            volume_blocks: Some(planned.log().volume_blocks),
            chunk_blocks: planned.log().chunk_blocks,
            group_rows: planned.log().group_rows,
            tabled: planned.log().tabled,
            writethrough: None,
            array: ArrayUuid([1; 16]),
            members: (1..=4).map(|at| MemberUuid([at; 16])).collect(),
            lineage: Lineage(1),
            shard: Shard::WHOLE,
            wipe: false,
        };
        let made = create(&offered(), &options).await.unwrap();
        assert_eq!(made.log().entry_bytes, planned.log().entry_bytes);
        let options =
            OpenOptions { writes: WriteChoice::Policy(policy.clone()), ..OpenOptions::default() };
        let (volume, _) = open_array(&handle, offered(), options).await.unwrap();
        let status = volume.status();
        volume.close().await.unwrap();
        status
    });
    let (predicted, found) = (memory(&planned), status.memory);
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    near("memory at rest, MiB", mib(predicted.index_bytes), mib(found.total_bytes));
    assert!(found.total_bytes <= predicted.total_bytes);
}
