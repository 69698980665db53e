//! Arrays made by hand on emulated drives, with the engine's encoders but without the engine: what
//! the checker, which has its own parser, must understand, and every way to spoil it.

use std::rc::Rc;

use bytes::Bytes;
use zoneweave_check::{Checked, Options, check};
use zoneweave_emulator::{Immediate, RamDrive};
use zoneweave_erasure::Code;
use zoneweave_raid::log::format::{
    ArrayConfig, ArrayUuid, BlockIdentity, CODED_BYTES, ContentKind, EntryKind, Epoch, Generation,
    IndexBlock, IndexEntry, Lineage, LogConfig, MemberEntry, MemberState, MemberUuid, Oob, Place,
    RecordBody, Seed, SegmentHeader, SegmentId, Sequence, StreamKind, SuperblockRecord,
    TombstoneBlock, TrimExtent, VolumeKind,
};
use zoneweave_raid::log::geometry::{Row, SegmentGeometry};
use zoneweave_raid::scheme::{Column, ColumnSet, Role, Scheme, StripeId};
use zoneweave_raid::shards::Shard;
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::{
    BLOCK_BYTES, BlockCount, Geometry, Lba, OOB_BYTES, Payload, ZoneAction, ZoneAddress, ZoneId,
    ZonedDevice, ZonedDeviceExt,
};

pub(crate) const ARRAY: ArrayUuid = ArrayUuid([0xA5; 16]);
pub(crate) const VOLUME_BLOCKS: u64 = 40;
const CAPACITY: BlockCount = BlockCount(16);
const ZONES: u32 = 6;

/// The content of a data block of a stripe.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// LBA and sequence; the data follows from both.
    Data(u64, u64),
    /// As `Data`, with data that does not follow.
    Other(u64, u64),
    /// LBA and sequence.
    Lost(u64, u64),
    /// First LBA, blocks, sequence.
    Trim(u64, u64, u64),
    /// A mapping block that says nothing new: first LBA, sequence.
    Mapping(u64, u64),
    Padding,
}

/// The data of a version.
pub(crate) fn pattern(lba: u64, sequence: u64) -> Bytes {
    let word = (lba << 32 ^ sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes();
    word.repeat(BLOCK_BYTES / 8).into()
}

/// An array on drives of 6 zones of 16 blocks.
pub(crate) struct Image {
    pub(crate) drives: Vec<RamDrive>,
    pub(crate) config: ArrayConfig,
    pub(crate) members: Vec<MemberEntry>,
    pub(crate) lineage: Lineage,
    pub(crate) epoch: Epoch,
    pub(crate) sequence_ceiling: u64,
    pub(crate) executor: Executor,
    record_sequence: u64,
}

/// A segment as it is written.
pub(crate) struct SegmentPlan {
    pub(crate) id: u64,
    pub(crate) zone: u32,
    /// Columns of the array that it is not on.
    pub(crate) absent: ColumnSet,
    /// Stripes in order; the data blocks of each, chunk after chunk.
    pub(crate) stripes: Vec<Vec<Content>>,
    /// How many chunks of the last stripe are not written.
    pub(crate) torn: usize,
    /// Changes index entries before they are written.
    pub(crate) spoil_index: fn(&mut IndexEntry),
    /// Changes parity before it is written, leaving its checksums right.
    pub(crate) spoil_parity: bool,
}

impl SegmentPlan {
    pub(crate) fn new(id: u64, zone: u32, stripes: Vec<Vec<Content>>) -> Self {
        let absent = ColumnSet::default();
        Self { id, zone, absent, stripes, torn: 0, spoil_index: |_| {}, spoil_parity: false }
    }
}

impl Image {
    pub(crate) fn new((data, parity): (usize, usize), chunk_blocks: u32, tabled: bool) -> Self {
        let scheme = Scheme::new(data, parity).unwrap();
        let drive = || RamDrive::new(Geometry::new(ZONES, CAPACITY), Immediate).unwrap();
        let member = |column: Column| MemberEntry {
            uuid: MemberUuid([column.0 + 1; 16]),
            state: MemberState::Online,
            since_epoch: Epoch::FIRST,
        };
        let mut image = Self {
            drives: scheme.iter().map(|_| drive()).collect(),
            config: ArrayConfig {
                array: ARRAY,
                name: "image".to_owned(),
                scheme,
                write_unit: BlockCount(1),
                zone_capacity: CAPACITY,
                zones: ZONES,
                shard: Shard::WHOLE,
                volume: VolumeKind::Log(LogConfig {
                    chunk_blocks,
                    group_rows: 4,
                    tabled,
                    volume_blocks: VOLUME_BLOCKS,
                    entry_bytes: 4,
                    writethrough: None,
                }),
            },
            members: scheme.iter().map(member).collect(),
            lineage: Lineage(7),
            epoch: Epoch::FIRST,
            sequence_ceiling: 1000,
            executor: Executor::new(Rc::new(VirtualTime::new())),
            record_sequence: 0,
        };
        image.record(RecordBody::State);
        image
    }

    pub(crate) fn geometry(&self) -> SegmentGeometry {
        self.geometry_without(ColumnSet::default())
    }

    /// The geometry of a segment that is not on some columns.
    pub(crate) fn geometry_without(&self, absent: ColumnSet) -> SegmentGeometry {
        let config = &self.config;
        let columns = config.scheme.iter().filter(|column| !absent.contains(*column));
        let scheme = config.scheme.on(columns.collect()).unwrap();
        SegmentGeometry::new(scheme, CAPACITY, config.log().chunk_blocks, config.log().group_rows)
            .unwrap()
    }

    /// Appends a record to every drive.
    pub(crate) fn record(&mut self, body: RecordBody) {
        for column in self.config.scheme.iter() {
            self.record_on(column, body.clone());
        }
    }

    /// Appends a record to one drive.
    pub(crate) fn record_on(&mut self, column: Column, body: RecordBody) {
        self.record_sequence += 1;
        let record = SuperblockRecord {
            config: self.config.clone(),
            lineage: self.lineage,
            epoch: self.epoch,
            epoch_tag: self.epoch.0 * 31,
            record_sequence: self.record_sequence,
            slot: column,
            member: self.members[column.index()].uuid,
            members: self.members.clone(),
            sequence_ceiling: Sequence(self.sequence_ceiling),
            segment_ceiling: SegmentId(100),
            body,
        };
        let block = record.encode();
        self.append(
            column,
            0,
            structured(block, Place::Superblock, Generation(self.record_sequence), column),
        );
    }

    /// Writes at the write pointer of a zone.
    pub(crate) fn append(&self, column: Column, zone: u32, payload: Payload) {
        let drive = &self.drives[column.index()];
        let at = ZoneAddress { zone: ZoneId(zone), offset: drive.zone(ZoneId(zone)).write_pointer };
        let device = drive.attach(&self.executor.handle());
        self.executor.run(device.write(at, payload, true)).unwrap();
    }

    /// Resets a zone.
    pub(crate) fn reset(&self, column: Column, zone: ZoneId) {
        let device = self.drives[column.index()].attach(&self.executor.handle());
        self.executor.run(device.manage(zone, ZoneAction::Reset)).unwrap();
    }

    /// Writes a segment: header, stripes, and the index run if all stripes are given.
    pub(crate) fn segment(&mut self, plan: &SegmentPlan) {
        let (geometry, generation) =
            (self.geometry_without(plan.absent), Generation(plan.id + 500));
        let scheme = geometry.scheme();
        let columns: Vec<Column> = scheme.iter().collect();
        let mut zones = vec![None; scheme.width()];
        columns.iter().for_each(|column| zones[column.index()] = Some(ZoneId(plan.zone)));
        let header = SegmentHeader {
            segment: SegmentId(plan.id),
            generation,
            epoch: self.epoch,
            stream: StreamKind::User,
            tabled: self.config.log().tabled,
            geometry,
            zone_capacity: CAPACITY,
            zones,
        };
        for column in &columns {
            let header = header.encode(ARRAY);
            let block = structured_of(header, Place::Header, generation, *column, plan.absent);
            self.append(*column, plan.zone, block);
        }
        let mut entries = vec![Vec::new(); scheme.width()];
        let mut first = 0;
        while (first as usize) < plan.stripes.len() {
            let group = geometry.group_of(Row(first));
            for column in &columns {
                let listed = &mut entries[column.index()];
                self.write_group(plan, generation, *column, group.clone(), listed);
            }
            first = group.end;
        }
        if plan.stripes.len() == geometry.rows() as usize && plan.torn == 0 {
            for column in &columns {
                self.write_index(plan, generation, *column, &entries);
            }
        }
    }

    /// Writes a column's chunks of a group and lists their blocks.
    fn write_group(
        &self,
        plan: &SegmentPlan,
        generation: Generation,
        column: Column,
        group: std::ops::Range<u32>,
        entries: &mut Vec<IndexEntry>,
    ) {
        let last = u32::try_from(plan.stripes.len()).unwrap();
        let mut stripes: Vec<u32> = (group.start..group.end.min(last)).collect();
        if self.config.log().tabled {
            let size = stripes.len();
            stripes.rotate_left(column.index() % size);
        }
        let scheme = self.geometry_without(plan.absent).scheme();
        let torn = scheme.rank(column) + plan.torn >= scheme.columns();
        stripes.retain(|stripe| !(torn && stripe + 1 == last));
        for stripe in stripes {
            let contents = &plan.stripes[stripe as usize];
            for (payload, mut entry) in self.chunk(plan, generation, column, stripe, contents) {
                self.append(column, plan.zone, payload);
                entry.stripe_in_group = u16::try_from(stripe - group.start).unwrap();
                (plan.spoil_index)(&mut entry);
                entries.push(entry);
            }
        }
    }

    /// The blocks of a chunk, with their index entries.
    fn chunk(
        &self,
        plan: &SegmentPlan,
        generation: Generation,
        column: Column,
        stripe: u32,
        contents: &[Content],
    ) -> Vec<(Payload, IndexEntry)> {
        let scheme = self.geometry_without(plan.absent).scheme();
        let per_chunk = self.config.log().chunk_blocks as usize;
        assert_eq!(contents.len(), scheme.data() * per_chunk);
        let stripe = StripeId(stripe);
        let role = scheme.role_of(column, stripe);
        let mut blocks = Vec::new();
        for at in 0..per_chunk {
            let data: Vec<_> = (0..scheme.data())
                .map(|role| data_block(contents[role * per_chunk + at]))
                .collect();
            let (mut bytes, coded, entry) = if scheme.is_data(role) {
                let (data, identity, entry) = &data[role.index()];
                (data.to_vec(), identity.encode(), *entry)
            } else {
                let (data, coded) = parity_block(scheme, role, &data);
                (data, coded, IndexEntry { kind: EntryKind::Parity, ..IndexEntry::EMPTY })
            };
            if plan.spoil_parity && !scheme.is_data(role) {
                bytes[99] ^= 1;
            }
            let oob = Oob {
                coded,
                generation,
                stripe,
                width: u8::try_from(scheme.columns()).unwrap(),
                column,
                role,
                place: Place::Chunk,
                columns: scheme.iter().collect::<ColumnSet>().bits().into(),
                absent: scheme.absent(),
                block_in_chunk: u16::try_from(at).unwrap(),
            };
            let oob = oob.encode(Seed::of(ARRAY), &bytes, scheme.is_data(role));
            blocks.push((Payload::new(bytes.into(), Bytes::copy_from_slice(&oob)), entry));
        }
        blocks
    }

    fn write_index(
        &self,
        plan: &SegmentPlan,
        generation: Generation,
        column: Column,
        entries: &[Vec<IndexEntry>],
    ) {
        let geometry = self.geometry_without(plan.absent);
        assert_eq!((geometry.spans(), geometry.index_blocks(0)), (1, 1));
        for copy in 0..geometry.index_copies() {
            let of = geometry.indexed_column(column, copy);
            let block = IndexBlock {
                segment: SegmentId(plan.id),
                generation,
                column: of,
                span: 0,
                first: 0,
                entries: entries[of.index()].clone(),
            };
            let block = block.encode(ARRAY);
            let block = structured_of(block, Place::Index, generation, column, plan.absent);
            self.append(column, plan.zone, block);
        }
    }

    /// Checks the drives; those in `missing` are left out.
    pub(crate) fn check(&self, missing: &[usize]) -> Checked {
        let handle = self.executor.handle();
        let device = |(slot, drive): (usize, &RamDrive)| -> Option<Rc<dyn ZonedDevice>> {
            (!missing.contains(&slot)).then(|| drive.attach(&handle))
        };
        let devices = self.drives.iter().enumerate().map(device).collect();
        let options = Options { every_version: true, ..Options::default() };
        self.executor.run(check(devices, options))
    }
}

/// A structured block with its metadata.
pub(crate) fn structured(
    block: Bytes,
    place: Place,
    generation: Generation,
    column: Column,
) -> Payload {
    structured_of(block, place, generation, column, ColumnSet::default())
}

/// A structured block of a segment that is not on some columns, with its metadata.
pub(crate) fn structured_of(
    block: Bytes,
    place: Place,
    generation: Generation,
    column: Column,
    absent: ColumnSet,
) -> Payload {
    let oob = Oob::of_structure(place, generation, column, absent);
    let bytes: [u8; OOB_BYTES] = oob.encode(Seed::of(ARRAY), &block, false);
    Payload::new(block, Bytes::copy_from_slice(&bytes))
}

fn data_block(content: Content) -> (Bytes, BlockIdentity, IndexEntry) {
    let zeros = || Bytes::from(vec![0; BLOCK_BYTES]);
    let (kind, entry_kind, lba, sequence, data) = match content {
        Content::Data(lba, sequence) => {
            (ContentKind::Data, EntryKind::Data, lba, sequence, pattern(lba, sequence))
        }
        Content::Other(lba, sequence) => {
            (ContentKind::Data, EntryKind::Data, lba, sequence, pattern(lba, sequence + 1))
        }
        Content::Lost(lba, sequence) => {
            (ContentKind::Lost, EntryKind::Lost, lba, sequence, zeros())
        }
        Content::Trim(lba, blocks, sequence) => {
            let extents = vec![TrimExtent { lba: Lba(lba), blocks, sequence: Sequence(sequence) }];
            let data = TombstoneBlock { extents }.encode(ARRAY);
            (ContentKind::Tombstone, EntryKind::Tombstone, 0, sequence, data)
        }
        Content::Mapping(lba, sequence) => {
            (ContentKind::Mapping, EntryKind::Mapping, lba, sequence, pattern(lba, sequence))
        }
        Content::Padding => (ContentKind::Padding, EntryKind::Padding, 0, 0, zeros()),
    };
    let (lba, sequence) = (Lba(lba), Sequence(sequence));
    let identity = BlockIdentity::new(Seed::of(ARRAY), kind, lba, sequence, &data);
    let entry = IndexEntry { sequence, lba, kind: entry_kind, stripe_in_group: 0 };
    (data, identity, entry)
}

fn parity_block(
    scheme: Scheme,
    role: Role,
    data: &[(Bytes, BlockIdentity, IndexEntry)],
) -> (Vec<u8>, [u8; CODED_BYTES]) {
    let code = Code::new(scheme.data(), scheme.parity()).unwrap();
    let mut blocks = vec![vec![0; BLOCK_BYTES]; scheme.parity()];
    let mut coded = vec![vec![0; CODED_BYTES]; scheme.parity()];
    let sources: Vec<&[u8]> = data.iter().map(|(data, ..)| &data[..]).collect();
    code.encode(&sources, &mut blocks.iter_mut().map(|b| &mut b[..]).collect::<Vec<_>>());
    let identities: Vec<_> = data.iter().map(|(_, identity, _)| identity.encode()).collect();
    let sources: Vec<&[u8]> = identities.iter().map(|bytes| &bytes[..]).collect();
    code.encode(&sources, &mut coded.iter_mut().map(|c| &mut c[..]).collect::<Vec<_>>());
    let at = role.index() - scheme.data();
    (blocks[at].clone(), coded[at][..].try_into().unwrap())
}
