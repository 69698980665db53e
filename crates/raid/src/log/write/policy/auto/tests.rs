//! The policy chosen for given drives, and the features given up for given arrays.

use zoneweave_zoned::BlockCount;

use super::*;
use crate::log::engine::limits::{LimitError, largest_volume};
use crate::log::segment::lane::LaneMode;
use crate::log::write::policy::lanes::LaneOptions;

fn config() -> ArrayConfig {
    ArrayConfig::sample().with_log(|log| (log.chunk_blocks, log.volume_blocks) = (4, 400_000))
}

fn drive(max_active: Option<u32>) -> Geometry {
    let mut drive = Geometry::new(64, BlockCount(4096));
    (drive.max_active, drive.max_open) = (max_active, max_active);
    drive
}

fn chosen(config: &ArrayConfig, drives: &[Geometry]) -> Chosen {
    WritePolicy::for_drives(config, drives.iter(), &Auto::default()).unwrap()
}

fn lanes(lanes: &[LaneOptions]) -> (usize, u32) {
    (lanes.len(), lanes.first().map_or(0, |lane| lane.chunk_blocks))
}

/// A zone whose writes take `fixed` ns and `block` ns more per block, and whose appends take
/// `append` ns for so many in flight.
fn profile(fixed: u64, block: u64, appends: impl Fn(u32) -> u64) -> WriteProfile {
    let write = |blocks: u32| WriteCost {
        blocks,
        nanos: fixed.saturating_add(block.saturating_mul(blocks.into())),
    };
    let append = |depth: u32| AppendCost { depth, nanos: appends(depth) };
    WriteProfile {
        writes: [1, 2, 4, 8, 16, 32].map(write).into(),
        appends: [1, 4, 16, 64].map(append).into(),
    }
}

#[test]
fn drives_with_fourteen_active_zones_are_written_in_four_segments() {
    let chosen = chosen(&config(), &[drive(Some(14)), drive(None)]);
    assert_eq!(chosen.refused, []);
    assert_eq!(lanes(&chosen.policy.small), (4, 2));
    assert_eq!(lanes(&chosen.policy.large), (0, 0));
    assert!(chosen.policy.small.iter().all(|lane| lane.mode == LaneMode::Gather));
}

#[test]
fn the_drive_that_allows_the_fewest_active_zones_decides() {
    for (limit, segments) in [(8, 1), (9, 1), (10, 2), (12, 3), (40, 4)] {
        let config = config();
        let members = chosen(&config, &[drive(None), drive(Some(limit)), drive(Some(40))]);
        let refused = |lanes: u32| PolicyError::ActiveZones { lanes, needed: 2 * lanes + 6, limit };
        assert_eq!(members.policy.small.len(), segments, "{limit} active zones");
        let more = (segments + 1..=4).rev().map(|lanes| refused(u32::try_from(lanes).unwrap()));
        assert_eq!(members.refused, more.collect::<Vec<_>>());
        let auto = Auto { spares: vec![drive(Some(limit))], ..Auto::default() };
        let spared = WritePolicy::for_drives(&config, [drive(None)].iter(), &auto).unwrap();
        assert_eq!(spared, members, "a spare is to be fit for it as well");
    }
}

#[test]
fn zones_too_small_for_what_a_crash_leaves_of_many_segments_have_fewer() {
    let config = ArrayConfig { zone_capacity: BlockCount(10), ..config() };
    let config = config.with_log(|log| log.volume_blocks = 100);
    let chosen = chosen(&config, &[drive(Some(14))]);
    assert_eq!(chosen.refused.first(), Some(&PolicyError::ManyLanes { lanes: 4 }));
    assert!(chosen.policy.user_lanes() < 4);
    assert_eq!(chosen.policy.check(&config), Ok(()));
}

#[test]
fn a_volume_too_large_for_padding_has_smaller_chunks() {
    let small = ArrayConfig { zone_capacity: BlockCount(64), ..config() };
    let small = small.with_log(|log| log.chunk_blocks = 1);
    let shape = WritePolicy::of_array(&small).smallest_shape(&small);
    let full = small.with_log(|log| log.volume_blocks = largest_volume(&shape, 64));
    let chosen = chosen(&full, &[drive(Some(14))]);
    assert!(matches!(chosen.refused[..], [PolicyError::TooFull { .. }, ..]), "{chosen:?}");
    assert_eq!(chosen.policy.check(&full), Ok(()));
}

/// Every array can be written in its own shape; only better policies may be refused.
#[test]
fn an_array_that_nothing_else_fits_is_written_as_it_was_made() {
    let tiny = ArrayConfig { zone_capacity: BlockCount(8), zones: 6, ..config() };
    let tiny = tiny.with_log(|log| log.chunk_blocks = 1);
    let shape = WritePolicy::of_array(&tiny).smallest_shape(&tiny);
    let full = tiny.with_log(|log| log.volume_blocks = largest_volume(&shape, 6) + 30);
    let chosen = chosen(&full, &[drive(Some(14))]);
    assert_eq!(chosen.policy, WritePolicy::of_array(&full));
    assert!(!chosen.refused.is_empty());
    let mut old = drive(Some(14));
    old.oob = zoneweave_zoned::OobKind::None;
    let none = WritePolicy::for_drives(&config(), [old].iter(), &Auto::default()).unwrap();
    assert_eq!(none.refused, [PolicyError::Drive(LimitError::NoMetadata)]);
    assert_eq!(none.policy, WritePolicy::of_array(&config()));
}

#[test]
fn what_failed_for_zones_that_are_lost_gives_way_to_the_array_as_it_was_made() {
    let failed = PolicyError::TooFull { blocks: 1, chunk_blocks: 4 };
    let auto = WriteChoice::Auto(Auto::default());
    let chosen = auto.choose(&config(), [drive(None)].iter(), Some(failed.clone())).unwrap();
    assert_eq!(chosen.policy, WritePolicy::of_array(&config()));
    assert_eq!(chosen.refused, [failed]);
}

#[test]
fn what_is_pinned_stays_or_is_refused() {
    let pinned = |small: Lanes| Auto { small: Some(small), ..Auto::default() };
    let many = pinned(Lanes { count: 4, chunk_blocks: 1 });
    let fits = WritePolicy::for_drives(&config(), [drive(Some(14))].iter(), &many).unwrap();
    assert_eq!(
        (fits.policy.small.len(), fits.policy.large.len()),
        (4, 0),
        "the other one gives way"
    );
    let refused = WritePolicy::for_drives(&config(), [drive(Some(12))].iter(), &many);
    assert_eq!(refused, Err(PolicyError::ActiveZones { lanes: 4, needed: 14, limit: 12 }));
    let apart = Auto { large: Some(Lanes { count: 1, chunk_blocks: 4 }), ..Auto::default() };
    let fits = WritePolicy::for_drives(&config(), [drive(Some(14))].iter(), &apart).unwrap();
    assert_eq!((lanes(&fits.policy.small), lanes(&fits.policy.large)), ((3, 2), (1, 4)));
    assert_eq!(fits.policy.large_from_blocks, 4);
    let huge = pinned(Lanes { count: 1, chunk_blocks: 512 });
    let config = ArrayConfig { zone_capacity: BlockCount(600), ..config() };
    assert!(WritePolicy::for_drives(&config, [drive(None)].iter(), &huge).is_err());
}

#[test]
fn appends_pay_where_they_are_never_slower_than_what_they_would_wait_for() {
    // Sixteen chips without a buffer: a write of as many blocks takes as long as that of one.
    let chips = |blocks: u32| u64::from(blocks.div_ceil(16)) * 140_000;
    let mut femu = profile(0, 0, |depth| chips(depth) / u64::from(depth));
    for write in &mut femu.writes {
        write.nanos = chips(write.blocks);
    }
    assert!(femu.appends_pay());
    // A buffer, and a core that takes an append at a time.
    let zn540 = profile(9_000, 1_200, |depth| if depth > 2 { 5_000 } else { 15_000 });
    assert!(!zn540.appends_pay(), "faster with four in flight, and slower with sixty-four");
    assert!(!profile(0, 0, |_| 0).appends_pay(), "without latencies all is the same");
    assert!(!WriteProfile::default().appends_pay(), "nothing was measured");
    let nothing_done = profile(9_000, 1_200, |depth| if depth > 4 { 0 } else { 900 });
    assert!(!nothing_done.appends_pay(), "some were never done");
    let endless = profile(u64::MAX / 2, u64::MAX / 100, |_| u64::MAX);
    assert!(!endless.appends_pay(), "slower than anything");
    let nothing_written = WriteProfile { writes: Vec::new(), ..femu };
    assert!(!nothing_written.appends_pay());
}

#[test]
fn drives_faster_than_the_engine_are_written_in_two_sizes_of_chunks() {
    let chosen = |profile: WriteProfile, limit| {
        let auto = Auto { profile: Some(profile), ..Auto::default() };
        WritePolicy::for_drives(&config(), [drive(limit)].iter(), &auto).unwrap().policy
    };
    let memory = profile(200, 120, |_| 400);
    let policy = chosen(memory.clone(), Some(14));
    assert_eq!((lanes(&policy.small), lanes(&policy.large)), ((2, 2), (2, 16)));
    assert!(policy.fast_drives);
    assert_eq!(policy.relocation.chunk_blocks, 8);
    assert_eq!(policy.large_from_blocks, u64::MAX, "what fills a stripe of them goes to them");
    let fewer = chosen(memory.clone(), Some(12));
    assert_eq!((lanes(&fewer.small), lanes(&fewer.large)), ((3, 2), (0, 0)), "no room for both");
    assert!(!fewer.fast_drives);
    let pinned = Auto {
        small: Some(Lanes { count: 1, chunk_blocks: 4 }),
        profile: Some(memory),
        ..Auto::default()
    };
    let pinned = WritePolicy::for_drives(&config(), [drive(Some(14))].iter(), &pinned).unwrap();
    assert_eq!((lanes(&pinned.policy.small), pinned.policy.fast_drives), ((1, 4), false));
    let as_fast_as_the_engine = profile(0, 1_000, |_| 2_000);
    assert_eq!(as_fast_as_the_engine.larger_chunk(), Some(4));
    let zn540 = profile(9_000, 1_200, |_| 15_000);
    assert_eq!((zn540.larger_chunk(), WriteProfile::default().larger_chunk()), (None, None));
    assert_eq!(profile(0, 0, |_| 0).larger_chunk(), None, "what took no time was not measured");
}

#[test]
fn writes_are_of_like_size_where_small_ones_are_as_fast() {
    let even = |fixed, block| profile(fixed, block, |_| 0).even_blocks();
    assert_eq!(even(0, 10_000), Some(1));
    assert_eq!(even(10_000, 10_000), Some(2));
    assert_eq!(even(40_000, 10_000), Some(8));
    assert_eq!(even(1_000_000, 10_000), None, "up to the largest that was measured");
    assert_eq!(even(0, 0), None, "what took no time was not measured");
    assert_eq!(WriteProfile::default().even_blocks(), None);
    let auto = |fixed, block| Auto {
        profile: Some(profile(fixed, block, |_| u64::MAX)),
        ..Auto::default()
    };
    let policy =
        |auto| WritePolicy::for_drives(&config(), [drive(Some(14))].iter(), &auto).unwrap().policy;
    assert_eq!(policy(auto(10_000, 10_000)).even_blocks, Some(2));
    assert_eq!(policy(Auto::default()).even_blocks, None);
}

#[test]
fn appends_are_chosen_where_they_pay_and_drives_take_them() {
    let profile = Some(profile(100_000, 0, |depth| 50_000 / u64::from(depth)));
    let auto = Auto { profile, ..Auto::default() };
    let chosen =
        |drive: Geometry| WritePolicy::for_drives(&config(), [drive].iter(), &auto).unwrap();
    let appended = chosen(drive(Some(14)));
    assert_eq!(appended.policy.small[0].mode, LaneMode::Append);
    assert_eq!(lanes(&appended.policy.small), (4, 2));
    let mut without = drive(Some(14));
    without.append_limit = BlockCount(0);
    let gathered = chosen(without);
    assert_eq!(gathered.policy.small[0].mode, LaneMode::Gather);
    assert_eq!(lanes(&gathered.policy.small), (4, 2));
    assert!(matches!(
        gathered.refused[..],
        [PolicyError::Drive(LimitError::AppendTooLarge { .. })]
    ));
}
