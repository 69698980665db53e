//! Which policies fit which array.

use zoneweave_zoned::BlockCount;

use super::*;

fn config() -> ArrayConfig {
    ArrayConfig { zone_capacity: BlockCount(1024), zones: 40, ..ArrayConfig::sample() }
        .with_log(|log| log.volume_blocks = 20_000)
}

const SMALL: Lanes = Lanes { count: 3, chunk_blocks: 2 };
const LARGE: Lanes = Lanes { count: 1, chunk_blocks: 4 };

#[test]
fn zapraid_appends_to_one_of_the_segments_with_small_chunks() {
    let policy = WritePolicy::zapraid(SMALL, LARGE, 256);
    let tabled = |lanes: &[LaneOptions]| lanes.iter().filter(|lane| lane.mode.is_tabled()).count();
    assert_eq!((tabled(&policy.small), tabled(&policy.large)), (1, 0));
    assert_eq!(policy.relocation, LaneOptions::zone_write(4));
    assert_eq!(policy.check(&config()), Ok(()));
    let alone = WritePolicy::zapraid(Lanes::default(), LARGE, 256);
    assert_eq!(tabled(&alone.large), 0);
    assert_eq!(alone.check(&config()), Ok(()));
}

#[test]
fn what_does_not_fit_is_refused() {
    let none = WritePolicy::zone_write(Lanes::default(), Lanes::default());
    assert_eq!(none.check(&config()), Err(PolicyError::Lanes));
    let huge = WritePolicy::zone_write(Lanes { count: 1, chunk_blocks: 1025 }, LARGE);
    assert_eq!(huge.check(&config()), Err(PolicyError::Shape));
    let many = WritePolicy::zone_write(SMALL, Lanes { count: 1, chunk_blocks: 512 });
    assert_eq!(many.check(&config()), Err(PolicyError::ManyLanes { lanes: 4 }));
    let one = |chunk_blocks| Lanes { count: 1, chunk_blocks };
    let padded = WritePolicy::zone_write(one(2), one(300)).check(&config());
    assert_eq!(padded, Err(PolicyError::TooFull { blocks: 20_000, chunk_blocks: 300 }));
    let mut mixed = WritePolicy::zone_write(SMALL, LARGE);
    mixed.small[0].chunk_blocks = 1;
    assert_eq!(mixed.check(&config()), Err(PolicyError::UnequalChunks));
}

#[test]
fn narrow_segments_are_left_out_where_a_policy_fits_without_them_alone() {
    let lanes = |count| Lanes { count, chunk_blocks: 128 };
    let policy = |count| WritePolicy::adaptive(lanes(count), Lanes::default());
    let config = config().with_log(|log| log.volume_blocks = 1000);
    let narrow = |count| {
        assert_eq!(policy(count).check(&config), Ok(()));
        policy(count).narrow_shape(&config).is_some()
    };
    let fit = (1..).take_while(|count| policy(*count).check(&config).is_ok()).last().unwrap();
    assert!((2..8).contains(&fit), "{fit} of them fit");
    assert!(narrow(fit - 1));
    assert!(
        !narrow(fit),
        "no segment of a policy that fits is left out for one that nobody waits for"
    );
    assert_eq!(policy(fit).lanes_undecided(&config), fit);
}
