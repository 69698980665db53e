//! Media compared with a vector of blocks, and the memory that a block takes.

use proptest::prelude::*;

use zoneweave_zoned::OOB_BYTES;

use super::*;

const ZONE: ZoneId = ZoneId(0);
const CAPACITY: BlockCount = BlockCount(600);

fn media(oob: OobKind) -> Media {
    Media::new(&Geometry { oob, ..Geometry::new(2, CAPACITY) })
}

fn at(offset: u32) -> ZoneAddress {
    ZoneAddress::new(ZONE, offset)
}

#[test]
fn one_write_reads_back_as_one_piece() {
    let mut media = media(OobKind::Separate);
    let data: Vec<u8> = (0..).map(|n: u32| n.to_le_bytes()[1]).take(4 * BLOCK_BYTES).collect();
    let payload = Payload::new(data.into(), vec![4; 4 * OOB_BYTES].into());
    media.append(at(0), &payload, BlockCount(4));
    let middle = media.read(at(1), BlockCount(2));
    assert_eq!(middle.data.len(), 1);
    assert_eq!(middle.data[0].as_ptr(), payload.data[0][BLOCK_BYTES..].as_ptr(), "not copied");
    assert_eq!(middle.oob.len(), 2 * OOB_BYTES);
}

#[test]
fn a_pattern_does_not_keep_the_memory_it_came_in() {
    let mut media = media(OobKind::Separate);
    let mut mixed = vec![7; 3 * BLOCK_BYTES];
    mixed[BLOCK_BYTES] = 8;
    let mixed = Bytes::from(mixed);
    media.append(at(0), &Payload::new(mixed.clone(), Bytes::new()), BlockCount(3));
    assert!(mixed.is_unique());
    assert_eq!(media.read(at(0), BlockCount(3)).data.concat(), mixed);
}

#[test]
fn a_patterned_block_costs_its_metadata_and_nine_bytes() {
    let geometry = Geometry::new(1, BlockCount(275_712));
    let mut media = Media::new(&geometry);
    let blocks = BlockCount(64);
    let payload = Payload::new(pattern::blocks_of(&[5; 64]), vec![1; blocks.oob_bytes()].into());
    for offset in (0..geometry.zone_capacity.0).step_by(64) {
        media.append(at(offset), &payload, blocks);
    }
    let per_block = media.memory_bytes() as f64 / f64::from(geometry.zone_capacity.0);
    assert!(per_block < 73.0, "{per_block} bytes a block");
    media.reset(ZONE);
    assert_eq!(media.memory_bytes(), 0);
}

#[test]
fn forks_share_pages_until_one_changes_them() {
    let mut media = media(OobKind::Separate);
    media.append(at(0), &Payload::new(pattern::blocks_of(&[1, 2]), Bytes::new()), BlockCount(2));
    let fork = media.clone();
    media.overwrite(at(0), &Payload::new(pattern::blocks_of(&[9]), Bytes::new()));
    media.append(at(2), &Payload::new(pattern::blocks_of(&[3]), Bytes::new()), BlockCount(1));
    assert_eq!(fork.read(at(0), BlockCount(3)).data.concat(), pattern::blocks_of(&[1, 2, 0]));
    assert_eq!(media.read(at(0), BlockCount(3)).data.concat(), pattern::blocks_of(&[9, 2, 3]));
}

/// A block: a pattern, or a pattern with a wrong last byte.
#[derive(Clone, Copy, Debug)]
struct Content {
    word: u64,
    spoilt: bool,
    oob: u8,
}

impl Content {
    fn data(self) -> Vec<u8> {
        let mut block = pattern::blocks_of(&[self.word]).to_vec();
        block[BLOCK_BYTES - 1] ^= u8::from(self.spoilt);
        block
    }
}

fn payload(contents: &[Content], cut: usize, with_oob: bool) -> Payload {
    let piece = |part: &[Content]| {
        Bytes::from(part.iter().flat_map(|content| content.data()).collect::<Vec<u8>>())
    };
    let oob: Vec<u8> = contents.iter().flat_map(|content| [content.oob; OOB_BYTES]).collect();
    let (head, tail) = contents.split_at(cut.min(contents.len()));
    let oob = if with_oob { oob.into() } else { Bytes::new() };
    Payload { data: vec![piece(head), piece(tail)], oob }
}

#[derive(Clone, Debug)]
enum Step {
    Append { contents: Vec<Content>, cut: usize, with_oob: bool },
    Overwrite { contents: Vec<Content>, at: u32, with_oob: bool },
    Truncate { keep_per_cent: u32 },
    Reset,
}

fn step() -> impl Strategy<Value = Step> {
    let content = (0..3_u64, any::<bool>(), 0..3_u8).prop_map(|(word, spoilt, oob)| Content {
        word,
        spoilt,
        oob,
    });
    let contents = || {
        let (few, many) = (1..9_usize, 200..300_usize);
        prop_oneof![
            8 => prop::collection::vec(content.clone(), few),
            1 => prop::collection::vec(content.clone(), many),
        ]
    };
    prop_oneof![
        8 => (contents(), 0..9_usize, any::<bool>())
            .prop_map(|(contents, cut, with_oob)| Step::Append { contents, cut, with_oob }),
        2 => (contents(), 0..CAPACITY.0, any::<bool>())
            .prop_map(|(contents, at, with_oob)| Step::Overwrite { contents, at, with_oob }),
        1 => (0..=100_u32).prop_map(|keep_per_cent| Step::Truncate { keep_per_cent }),
        1 => Just(Step::Reset),
    ]
}

/// A zone as plain bytes.
#[derive(Default)]
struct Model(Vec<(Vec<u8>, [u8; OOB_BYTES])>);

impl Model {
    fn block(content: &Content, with_oob: bool) -> (Vec<u8>, [u8; OOB_BYTES]) {
        (content.data(), [if with_oob { content.oob } else { 0 }; OOB_BYTES])
    }

    fn take(&mut self, media: &mut Media, step: &Step) {
        let stored = u32::try_from(self.0.len()).expect("a small zone");
        match step {
            Step::Append { contents, cut, with_oob } => {
                let room = (CAPACITY.0 - stored) as usize;
                let taken = &contents[..contents.len().min(room)];
                let blocks = BlockCount(u32::try_from(taken.len()).expect("a small write"));
                media.append(at(stored), &payload(contents, *cut, *with_oob), blocks);
                self.0.extend(taken.iter().map(|content| Self::block(content, *with_oob)));
            }
            Step::Overwrite { contents, at: first, with_oob } => {
                media.overwrite(at(*first), &payload(contents, 0, *with_oob));
                for (target, content) in self.0.iter_mut().skip(*first as usize).zip(contents) {
                    *target = Self::block(content, *with_oob);
                }
            }
            Step::Truncate { keep_per_cent } => {
                let keep = stored * keep_per_cent / 100;
                media.truncate(ZONE, ZoneOffset(keep));
                self.0.truncate(keep as usize);
            }
            Step::Reset => {
                media.reset(ZONE);
                self.0.clear();
            }
        }
    }

    fn read(&self, from: u32, blocks: u32) -> (Vec<u8>, Vec<u8>) {
        let zeros = (vec![0; BLOCK_BYTES], [0; OOB_BYTES]);
        let stored = self.0.iter().chain(std::iter::repeat(&zeros));
        let found: Vec<_> = stored.skip(from as usize).take(blocks as usize).collect();
        let data = found.iter().flat_map(|(data, _)| data.clone()).collect();
        (data, found.iter().flat_map(|(_, oob)| *oob).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn media_hold_what_a_vector_holds(
        steps in prop::collection::vec(step(), 1..30),
        reads in prop::collection::vec((0..CAPACITY.0, 1..300_u32), 8),
        with_metadata: bool,
    ) {
        let kind = if with_metadata { OobKind::Separate } else { OobKind::None };
        let mut media = media(kind);
        let mut model = Model::default();
        for step in &steps {
            model.take(&mut media, step);
            prop_assert_eq!(media.len(ZONE).index(), model.0.len());
        }
        for (from, blocks) in reads {
            let read = media.read(at(from), BlockCount(blocks));
            let (data, oob) = model.read(from, blocks);
            prop_assert_eq!(read.data.concat(), data);
            let expected = if with_metadata { oob } else { Vec::new() };
            prop_assert_eq!(read.oob, expected);
        }
    }
}
