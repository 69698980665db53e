//! The class of blocks that have no requirements of their own.

use zoneweave_zoned::BlockCount;

use super::*;
use crate::log::engine::geometry::SegmentGeometry;
use crate::scheme::Scheme;

/// From so many blocks on requests are large ones.
const LARGE_FROM: u64 = 4;

fn lane(chunk: ChunkClass, open: Option<u32>) -> Lane {
    let scheme = Scheme::new(3, 1).expect("3 + 1 is a scheme");
    let geometry = SegmentGeometry::new(scheme, BlockCount(256), 2, 8).expect("a shape");
    let mode = LaneMode::Write;
    Lane { open: open.map(SegmentSlot), ..Lane::new(chunk, geometry, mode) }
}

fn stream(small: Option<u32>, large: Option<u32>, lifetimes: bool) -> Stream {
    let lanes = vec![lane(ChunkClass::Small, small), lane(ChunkClass::Large, large)];
    Stream::new(lanes, LARGE_FROM, lifetimes)
}

fn beside(stream: &Stream, blocks: u64) -> ChunkClass {
    stream.class_beside(blocks, Lifetime::Long).chunk
}

#[test]
fn what_is_written_beside_users_opens_no_segment_while_one_of_theirs_is_open() {
    assert_eq!(beside(&stream(None, Some(1), false), 1), ChunkClass::Large);
    assert_eq!(beside(&stream(None, Some(1), false), LARGE_FROM), ChunkClass::Large);
}

#[test]
fn what_is_written_beside_users_goes_by_its_size_where_it_can() {
    assert_eq!(beside(&stream(Some(1), Some(2), false), 1), ChunkClass::Small);
    assert_eq!(beside(&stream(Some(1), None, false), 1), ChunkClass::Small);
    assert_eq!(beside(&stream(None, None, false), 1), ChunkClass::Small, "nothing is open");
    assert_eq!(beside(&stream(Some(1), Some(2), false), LARGE_FROM), ChunkClass::Large);
    let large = stream(Some(1), None, false);
    assert_eq!(beside(&large, LARGE_FROM), ChunkClass::Large, "a stripe of its own it fills");
}

#[test]
fn what_is_written_beside_users_has_a_class_that_is_served() {
    let one = Stream::new(vec![lane(ChunkClass::Small, None)], LARGE_FROM, true);
    for blocks in [1, LARGE_FROM] {
        let class = one.class_beside(blocks, Lifetime::Long);
        let served = Class { chunk: ChunkClass::Small, lifetime: Lifetime::Short };
        assert_eq!(class, served, "one lane takes blocks of every lifetime");
    }
}
