//! The narrow list: docs/format.md sections 4 and 5.

use crate::format::blocks::{Header, shape_within_limits};
use crate::format::config::Config;
use crate::format::fields::Fields;
use crate::format::shape::Scheme;

/// The narrow segments that are alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NarrowList {
    /// A narrow segment of a lower generation is dead unless it is listed.
    pub(crate) below: u64,
    /// Ascending by generation.
    pub(crate) segments: Vec<Header>,
}

impl NarrowList {
    pub(crate) fn parse(bytes: &[u8], config: &Config) -> Option<Self> {
        let (below, mut rest) = bytes.split_at_checked(8)?;
        let below = Fields(below).u64(0);
        let mut segments: Vec<Header> = Vec::new();
        while !rest.is_empty() {
            let (header, behind) = parse_segment(rest, config)?;
            let ascends = segments.last().is_none_or(|last| last.generation < header.generation);
            if !ascends || header.generation >= below {
                return None;
            }
            segments.push(header);
            rest = behind;
        }
        Some(Self { below, segments })
    }
}

fn parse_segment<'a>(bytes: &'a [u8], config: &Config) -> Option<(Header, &'a [u8])> {
    let (head, rest) = bytes.split_at_checked(40)?;
    let fields = Fields(head);
    let of_array = config.shape.scheme;
    let absent = fields.u32(24);
    let own = of_array.width().checked_sub(absent.count_ones())?;
    let data_chunks = own.checked_sub(of_array.parity_chunks)?;
    let scheme = Scheme { data_chunks, absent: 0, ..of_array }.without(absent)?;
    let legal = absent != 0
        && data_chunks > 0
        && of_array.admits(&scheme)
        && matches!(fields.u8(36), 1 | 2)
        && fields.u8(37) <= 1
        && fields.bytes::<2>(38) == [0; 2];
    if !legal {
        return None;
    }
    let (unit, capacity) = (config.shape.unit, config.zone_capacity);
    let shape = shape_within_limits(scheme, unit, capacity, fields.u32(28), fields.u32(32))?;
    let (listed, rest) = rest.split_at_checked(4 * own as usize)?;
    let mut zones = vec![None; scheme.width() as usize];
    for (at, column) in scheme.own_columns().enumerate() {
        let zone = Fields(listed).u32(4 * at);
        zones[column as usize] = (zone != u32::MAX).then_some(zone);
    }
    let header = Header {
        segment: fields.u64(0),
        generation: fields.u64(8),
        epoch: fields.u64(16),
        stream: fields.u8(36),
        tabled: fields.u8(37) == 1,
        shape,
        zone_capacity: capacity,
        zones,
    };
    Some((header, rest))
}
