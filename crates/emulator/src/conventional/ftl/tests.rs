//! The tables against a naive model, and write amplification against theory.

use std::collections::BTreeMap;

use proptest::prelude::*;
use zoneweave_runtime::Random;

use super::*;

const HOST: FrontierId = FrontierId(0);
const MOVED: FrontierId = FrontierId(1);

/// Collects as long as fewer than `until` superblocks are free; blocks moved.
fn collect(ftl: &mut Ftl, until: u32) -> u64 {
    let mut moved = 0;
    while ftl.free() < until {
        let victim = ftl.victim().expect("something can be collected");
        ftl.begin_collecting(victim);
        for offset in 0..ftl.superblock_blocks() {
            let from = ftl.place_in(victim, offset);
            if ftl.valid_at(from).is_none() {
                continue;
            }
            if ftl.room(MOVED) == 0 {
                ftl.open(MOVED);
            }
            ftl.relocate(MOVED, from).expect("the block is valid");
            moved += 1;
        }
        ftl.erased(victim);
    }
    moved
}

fn write(ftl: &mut Ftl, frontier: FrontierId, lba: u64) -> Place {
    if ftl.room(frontier) == 0 {
        ftl.open(frontier);
    }
    ftl.write(frontier, Lba(lba))
}

/// Counts valid blocks by asking about each place.
fn count_valid(ftl: &Ftl, superblock: SuperblockId) -> u32 {
    let places = (0..ftl.superblock_blocks()).map(|offset| ftl.place_in(superblock, offset));
    u32::try_from(places.filter(|place| ftl.valid_at(*place).is_some()).count()).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    Unmap(u64),
    Collect,
}

const LOGICAL: u64 = 40;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..LOGICAL).prop_map(Step::Write),
        1 => (0..LOGICAL).prop_map(Step::Unmap),
        1 => Just(Step::Collect),
    ]
}

proptest! {
    #[test]
    fn every_block_is_where_a_naive_model_says(steps in prop::collection::vec(step(), 1..400)) {
        let mut ftl = Ftl::new(LOGICAL, 12, 6, 2);
        // The content written last to each place, and the latest content of each block.
        let mut media: BTreeMap<Place, (u64, usize)> = BTreeMap::new();
        let mut model: BTreeMap<u64, usize> = BTreeMap::new();
        for (version, step) in steps.into_iter().enumerate() {
            match step {
                Step::Write(lba) => {
                    let before: Vec<_> = (0..LOGICAL).map(|lba| ftl.lookup(Lba(lba))).collect();
                    if ftl.free() < 2 {
                        collect(&mut ftl, 3);
                    }
                    follow(&mut media, &ftl, &before);
                    media.insert(write(&mut ftl, HOST, lba), (lba, version));
                    model.insert(lba, version);
                }
                Step::Unmap(lba) => {
                    prop_assert_eq!(ftl.unmap(Lba(lba)), model.remove(&lba).is_some());
                }
                Step::Collect => {
                    let before: Vec<_> = (0..LOGICAL).map(|lba| ftl.lookup(Lba(lba))).collect();
                    let until = 3.max(ftl.free());
                    collect(&mut ftl, until);
                    follow(&mut media, &ftl, &before);
                }
            }
            for lba in 0..LOGICAL {
                let stored = ftl.lookup(Lba(lba)).map(|place| media[&place]);
                prop_assert_eq!(stored, model.get(&lba).map(|version| (lba, *version)));
            }
            for id in (0..12).map(SuperblockId) {
                prop_assert_eq!(ftl.valid(id), count_valid(&ftl, id));
            }
        }
    }
}

/// Moves the contents of remapped blocks.
fn follow(media: &mut BTreeMap<Place, (u64, usize)>, ftl: &Ftl, before: &[Option<Place>]) {
    let moved = (0..).zip(before).filter_map(|(lba, from)| {
        let to = ftl.lookup(Lba(lba))?;
        Some((to, media[&from.expect("collecting maps nothing")]))
    });
    let moved: Vec<_> = moved.collect();
    media.extend(moved);
}

/// The solution of `w * e^w = x` for `-1/e < x < 0` and `w > -1`, by Newton's method.
fn lambert(x: f64) -> f64 {
    (0..100).fold(-0.5, |w: f64, _| w - (w * w.exp() - x) / (w.exp() * (w + 1.0)))
}

#[test]
fn write_amplification_of_uniform_writes_is_that_of_theory() {
    // Desnoyers, "Analytic Models of SSD Write Performance": for many blocks in a superblock,
    // a / (a + W(-a e^-a)), where a is physical over logical capacity.
    for (superblocks, logical) in [(100, 93_458_u64), (100, 78_125)] {
        let mut ftl = Ftl::new(logical, superblocks, 1000, 2);
        let mut random = Random::new(7);
        let (mut written, mut moved) = (0_u64, 0_u64);
        for round in 0..12 * logical {
            if ftl.room(HOST) == 0 {
                let now = collect(&mut ftl, 2);
                if round > 5 * logical {
                    moved += now;
                }
            }
            let lba = if round < logical { round } else { random.below(logical) };
            write(&mut ftl, HOST, lba);
            written += u64::from(round > 5 * logical);
        }
        let measured = (written + moved) as f64 / written as f64;
        // When a victim is chosen one superblock is free and another open, half full on average:
        // they are no room for garbage.
        let a = (f64::from(superblocks) - 1.5) * 1000.0 / logical as f64;
        let theory = a / (a + lambert(-a * (-a).exp()));
        println!("a = {a:.3}: theory {theory:.3}, measured {measured:.3}");
        assert!((measured / theory - 1.0).abs() < 0.05, "{measured} instead of {theory}");
    }
}

#[test]
fn the_least_worn_superblock_is_opened() {
    let mut ftl = Ftl::new(8, 5, 4, 2);
    let mut random = Random::new(3);
    for _ in 0..4000 {
        if ftl.room(HOST) == 0 {
            collect(&mut ftl, 2);
        }
        write(&mut ftl, HOST, random.below(8));
    }
    let erases: Vec<_> = (0..5).map(|id| ftl.erases(SuperblockId(id))).collect();
    let (least, most) = (erases.iter().min().unwrap(), erases.iter().max().unwrap());
    assert!(most - least <= 40, "uniform writes wear all superblocks: {erases:?}");
}
