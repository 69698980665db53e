//! Extents against a list of every byte's place.

use proptest::prelude::*;
use zoneweave_zoned::ZoneId;

use super::*;

const LAYOUT: BlockLayout = BlockLayout::Separate;
const PAYLOAD: u64 = 4096;

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap()
}

/// A file as a list of blocks: address and bytes.
#[derive(Clone, Debug, Default)]
struct Model {
    blocks: Vec<(ZoneAddress, u64)>,
}

impl Model {
    fn length(&self) -> u64 {
        self.blocks.iter().map(|(_, bytes)| bytes).sum()
    }

    /// The start of each block.
    fn starts(&self) -> impl Iterator<Item = (u64, ZoneAddress, u64)> + '_ {
        self.blocks.iter().scan(0, |start, (at, bytes)| {
            *start += bytes;
            Some((*start - bytes, *at, *bytes))
        })
    }

    fn truncate(&mut self, size: u64) -> Vec<ZoneAddress> {
        let mut freed = Vec::new();
        let starts: Vec<_> = self.starts().collect();
        for (start, at, _) in &starts {
            if *start >= size {
                freed.push(*at);
            }
        }
        let kept = starts.len() - freed.len();
        self.blocks.truncate(kept);
        if let (Some(last), Some((start, ..))) = (self.blocks.last_mut(), starts[..kept].last()) {
            last.1 = last.1.min(size - start);
        }
        freed
    }
}

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Appends bytes to a zone.
    Append(u32, u64),
    /// Cuts to a share of the length, in 1/1000.
    Truncate(u64),
    /// Moves a share of blocks.
    Move(usize, usize),
    /// Forgets what is not stored.
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let full = (1..40_u64).prop_map(|blocks| blocks * PAYLOAD);
    prop_oneof![
        4 => (0..2_u32, prop_oneof![1..3 * PAYLOAD, full]).prop_map(|(a, b)| Step::Append(a, b)),
        1 => (0..1001_u64).prop_map(Step::Truncate),
        2 => (any::<prop::sample::Index>(), 1..9_usize)
            .prop_map(|(at, count)| Step::Move(at.index(1000), count)),
        1 => Just(Step::Reload),
    ]
}

/// The map as it is after a start: stored extents, with ends from the tags of blocks.
fn reload(map: &ExtentMap, model: &Model) -> ExtentMap {
    let mut loaded = ExtentMap::new(LAYOUT);
    for extent in map.stored(0, map.length()) {
        assert!(loaded.push_stored(&extent));
    }
    let unknown: Vec<Extent> =
        loaded.iter().filter(|extent| extent.shape == Shape::Sparse(None)).cloned().collect();
    for extent in unknown {
        let inside = |start: &u64| *start > extent.offset && *start < extent.end();
        let starts = model.starts().map(|(start, ..)| start).filter(inside);
        let ends = starts.chain([extent.end()]).map(|end| narrow(end - extent.offset)).collect();
        assert!(loaded.set_ends(extent.offset, extent.run(), ends));
    }
    loaded
}

fn check(map: &ExtentMap, model: &Model) {
    assert_eq!(map.length(), model.length());
    let blocks: u32 = map.runs().map(|run| run.blocks.0).sum();
    assert_eq!(blocks as usize, model.blocks.len());
    let pieces = map.pieces(0, map.length()).expect("all ends are known");
    let found = pieces.iter().flat_map(|piece| {
        piece.starts.windows(2).zip(0..).map(|(span, block)| {
            let at = ZoneAddress::new(piece.at.zone, piece.at.offset.0 + block);
            (span[0], at, span[1] - span[0])
        })
    });
    assert!(found.eq(model.starts()));
}

proptest! {
    #[test]
    fn extents_are_a_list_of_blocks(steps in prop::collection::vec(step(), 1..60)) {
        let (mut map, mut model) = (ExtentMap::new(LAYOUT), Model::default());
        let mut next = [0_u32; 4];
        let mut take = |zone: u32, count: u32| {
            let at = ZoneAddress::new(ZoneId(zone), next[zone as usize]);
            next[zone as usize] += count;
            at
        };
        for step in steps {
            match step {
                Step::Append(zone, bytes) => {
                    let blocks = LAYOUT.blocks_of(bytes);
                    let at = take(zone, blocks.0);
                    map.push(bytes, BlockRun { at, blocks });
                    for block in 0..blocks.0 {
                        let here = ZoneAddress::new(at.zone, at.offset.0 + block);
                        let left = bytes - u64::from(block) * PAYLOAD;
                        model.blocks.push((here, left.min(PAYLOAD)));
                    }
                }
                Step::Truncate(share) => {
                    let size = map.length() * share / 1000;
                    let behind = map.cut_point(size).expect("all ends are known");
                    let freed = map.truncate(size, behind).expect("it ends there");
                    let single = freed.iter().flat_map(|run| {
                        (0..run.blocks.0)
                            .map(|block| ZoneAddress::new(run.at.zone, run.at.offset.0 + block))
                    });
                    let expected = if size == model.length() { vec![] } else { model.truncate(size) };
                    prop_assert_eq!(single.collect::<Vec<_>>(), expected);
                }
                Step::Move(index, count) => {
                    let starts: Vec<_> = model.starts().collect();
                    if starts.is_empty() {
                        continue;
                    }
                    let first = index % starts.len();
                    let (offset, at, _) = starts[first];
                    // As many as are consecutive.
                    let run = (first..starts.len().min(first + count)).take_while(|block| {
                        let there = starts[*block].1;
                        there.zone == at.zone
                            && there.offset.0 as usize == at.offset.0 as usize + block - first
                    });
                    let run: Vec<usize> = run.collect();
                    let bytes = run.iter().map(|block| starts[*block].2).sum();
                    let blocks = BlockCount(narrow(run.len() as u64));
                    let to = take(2 + narrow(index as u64) % 2, blocks.0);
                    let moved = map.relocate(offset, bytes, BlockRun { at, blocks }, to);
                    prop_assert!(moved);
                    for (block, moved) in run.iter().zip(0..) {
                        model.blocks[*block].0 = ZoneAddress::new(to.zone, to.offset.0 + moved);
                    }
                }
                Step::Reload => map = reload(&map, &model),
            }
            check(&map, &model);
        }
    }
}

#[test]
fn small_synced_appends_are_one_extent() {
    let mut map = ExtentMap::new(LAYOUT);
    for block in 0..1000 {
        let at = ZoneAddress::new(ZoneId(3), block);
        map.push(100, BlockRun { at, blocks: BlockCount(1) });
    }
    assert_eq!((map.count(), map.length()), (1, 100_000));
    let pieces = map.pieces(150, 250).unwrap();
    let expected = Piece { at: ZoneAddress::new(ZoneId(3), 1), starts: vec![100, 200, 300] };
    assert_eq!(pieces, [expected]);
}

#[test]
fn impossible_extents_are_refused() {
    let stored = |offset, blocks, bytes, is_sparse| StoredExtent {
        at: ZoneAddress::new(ZoneId(0), offset),
        blocks: BlockCount(blocks),
        bytes,
        is_sparse,
    };
    for bad in [
        stored(0, 0, 0, false),
        stored(0, 1, 0, false),
        stored(0, 2, 4096, false),
        stored(0, 2, 8193, false),
        stored(0, 2, 1, true),
        stored(u32::MAX, 1, 1, false),
        stored(0, u32::MAX, u64::MAX, true),
        stored(0, 4097, 5000, true),
    ] {
        assert!(!ExtentMap::new(LAYOUT).push_stored(&bad), "{bad:?}");
    }
    let mut map = ExtentMap::new(LAYOUT);
    assert!(map.push_stored(&stored(0, 2, 8192, false)));
    let run = |offset, blocks| BlockRun {
        at: ZoneAddress::new(ZoneId(0), offset),
        blocks: BlockCount(blocks),
    };
    let to = ZoneAddress::new(ZoneId(1), 0);
    assert!(!map.clone().relocate(0, 4096, run(1, 1), to));
    assert!(!map.clone().relocate(1, 4096, run(0, 1), to));
    assert!(!map.clone().relocate(0, 9000, run(0, 3), to));
    assert!(!map.clone().relocate(0, 4096, run(0, 1), ZoneAddress::new(ZoneId(1), u32::MAX)));
    assert!(map.relocate(4096, 4096, run(1, 1), to));
}
