//! The payload of a structured block.

use bytes::Bytes;
use zoneweave_zoned::Payload;

use super::{ArrayUuid, Oob, Place, Seed};
use crate::array::format::numbers::Generation;
use crate::scheme::{Column, ColumnSet};

/// A structured block with the metadata of its place. For a segment, the metadata lists the columns
/// that the segment is not on.
#[must_use]
pub(in crate::log) fn structured_payload(
    array: ArrayUuid,
    block: Bytes,
    place: Place,
    generation: Generation,
    column: Column,
    absent: ColumnSet,
) -> Payload {
    let oob = Oob::of_structure(place, generation, column, absent);
    let bytes = oob.encode(Seed::of(array), &block, false);
    Payload::new(block, Bytes::copy_from_slice(&bytes))
}
