//! Compares the chunks of a stripe with its parity and yields its data blocks: docs/format.md
//! section 7.

use bytes::Bytes;

use crate::format::blocks::Identity;
use crate::format::fields::Array;
use crate::format::parity::Code;
use crate::format::shape::Shape;
use crate::verify::group::{ChunkBlock, Group};

/// A data block of a stripe.
pub(crate) struct DataBlock {
    pub(crate) identity: Identity,
    pub(crate) data: Bytes,
    /// It was reconstructed from the other chunks.
    pub(crate) reconstructed: bool,
}

/// The verdict on one block of every chunk of a stripe.
pub(crate) enum Slice {
    /// Every data block, by role.
    Whole(Vec<DataBlock>),
    /// Too few chunks to rebuild it: the data blocks that are left, by role.
    Lost(Vec<Option<DataBlock>>),
    /// The chunks verify alone, but contradict each other.
    Contradictory,
}

/// Judges block `block` of a stripe's chunks.
pub(crate) fn read_slice(
    array: Array,
    shape: &Shape,
    code: &Code,
    group: &Group,
    stripe: u32,
    block: u32,
) -> Slice {
    let mut good: Vec<(usize, &[u8; 24], &Bytes)> = Vec::new();
    for role in 0..shape.columns() {
        let chunk = group.chunk(stripe, shape.column_of(role, stripe));
        if let Some(ChunkBlock::Good { coded, data }) =
            chunk.map(|chunk| &chunk.blocks[block as usize])
        {
            good.push((role as usize, coded, data));
        }
    }
    let data_chunks = shape.scheme.data_chunks as usize;
    let has = |role: u32| good.iter().any(|found| found.0 == role as usize);
    if !shape.scheme.is_enough(has) {
        let is_it = |found: usize, role: usize| {
            found == role || shape.scheme.mirrored && found == role + data_chunks
        };
        let find = |role| good.iter().find(|found| is_it(found.0, role));
        let left = |role| find(role).and_then(|(_, coded, data)| on_media(array, coded, data));
        return Slice::Lost((0..data_chunks).map(left).collect());
    }
    if shape.scheme.mirrored {
        put_one_of_each_first(&mut good, data_chunks);
    }
    let (used, spare) = good.split_at(data_chunks);
    let data = all_data(code, used, |(role, _, data)| (*role, (*data).clone()));
    let coded = all_data(code, used, |(role, coded, _)| (*role, Bytes::copy_from_slice(*coded)));
    let data_slices: Vec<&[u8]> = data.iter().map(|bytes| &bytes[..]).collect();
    let coded_slices: Vec<&[u8]> = coded.iter().map(|bytes| &bytes[..]).collect();
    let agrees = |(role, coded, data): &(usize, &[u8; 24], &Bytes)| {
        code.encode(*role, &data_slices) == data[..]
            && code.encode(*role, &coded_slices) == coded[..]
    };
    if !spare.iter().all(agrees) {
        return Slice::Contradictory;
    }
    let on_media = |role| used.iter().any(|found| found.0 == role);
    let blocks = data.iter().zip(&coded).enumerate().map(|(role, (data, coded))| {
        let coded: &[u8; 24] = coded[..].try_into().ok()?;
        // A block on media has verified against its identity when its group was read.
        let identity = match on_media(role) {
            true => Identity::parse(coded)?,
            false => Identity::parse_verified(array, coded, data)?,
        };
        Some(DataBlock { identity, data: data.clone(), reconstructed: !on_media(role) })
    });
    blocks.collect::<Option<_>>().map_or(Slice::Contradictory, Slice::Whole)
}

/// The chunks to decode from. Not any k chunks of mirrors are enough: one of each pair comes first,
/// in order of pairs.
fn put_one_of_each_first<T>(good: &mut [(usize, T, &Bytes)], data_chunks: usize) {
    for pair in 0..data_chunks {
        let at = good.iter().position(|found| found.0 % data_chunks == pair);
        good[pair..=at.unwrap_or(pair)].rotate_right(1);
    }
}

fn on_media(array: Array, coded: &[u8; 24], data: &Bytes) -> Option<DataBlock> {
    let identity = Identity::parse_verified(array, coded, data)?;
    Some(DataBlock { identity, data: data.clone(), reconstructed: false })
}

/// All k data pieces, from k pieces of any roles.
fn all_data<T>(code: &Code, used: &[T], piece: impl Fn(&T) -> (usize, Bytes)) -> Vec<Bytes> {
    let pieces: Vec<(usize, Bytes)> = used.iter().map(piece).collect();
    let all_data = pieces.iter().enumerate().all(|(role, piece)| piece.0 == role);
    if all_data {
        return pieces.into_iter().map(|(_, bytes)| bytes).collect();
    }
    let pieces: Vec<_> = pieces.iter().map(|(role, bytes)| (*role, &bytes[..])).collect();
    code.decode(&pieces).into_iter().map(Bytes::from).collect()
}
