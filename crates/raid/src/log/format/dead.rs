//! Deaths of segments, with the zones that may still hold their blocks, in superblock records:
//! docs/format.md, section 4.

use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};
use zoneweave_zoned::ZoneId;

use crate::array::format::numbers::Generation;
use crate::scheme::MAX_COLUMNS;

/// A column without remains.
const NOTHING: u32 = u32::MAX;
/// A column with possible blocks in any zone.
const ANYWHERE: u32 = u32::MAX - 1;

/// Possible remains of a dead segment in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// No block remains.
    Nothing,
    /// Blocks in this zone of the segment.
    In(ZoneId),
    /// Blocks in any unclear zone of the column.
    Anywhere,
}

impl Remains {
    /// The remains if either may exist.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nothing, known) | (known, Self::Nothing) => known,
            (one, same) if one == same => one,
            _ => Self::Anywhere,
        }
    }

    fn encode(self) -> u32 {
        match self {
            Self::Nothing => NOTHING,
            Self::Anywhere => ANYWHERE,
            Self::In(zone) => zone.0,
        }
    }

    fn decode(word: u32) -> Self {
        match word {
            NOTHING => Self::Nothing,
            ANYWHERE => Self::Anywhere,
            zone => Self::In(ZoneId(zone)),
        }
    }
}

/// A segment whose live blocks all have a durable copy elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Death {
    /// Generation of the segment.
    pub generation: Generation,
    /// Possible remains by column.
    pub remains: Vec<Remains>,
}

impl Death {
    /// Bytes of one death in an array of so many columns.
    pub(super) const fn bytes(columns: usize) -> usize {
        size_of::<U64>() + columns * size_of::<U32>()
    }
}

/// Encodes deaths one after the other.
pub(super) fn encode(deaths: &[Death]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for death in deaths {
        assert!(
            death.remains.len() <= MAX_COLUMNS,
            "segment of generation {} names {} columns",
            death.generation,
            death.remains.len()
        );
        bytes.extend(death.generation.0.to_le_bytes());
        bytes.extend(death.remains.iter().flat_map(|remains| remains.encode().to_le_bytes()));
    }
    bytes
}

/// Decodes deaths up to the end of the bytes; each segment once, in their order.
pub(super) fn decode(bytes: &[u8], columns: usize) -> Option<Vec<Death>> {
    let entries = bytes.chunks_exact(Death::bytes(columns));
    if bytes.is_empty() || !entries.remainder().is_empty() {
        return None;
    }
    let mut deaths: Vec<Death> = Vec::new();
    for entry in entries {
        let (generation, rest) = U64::ref_from_prefix(entry).ok()?;
        let zones = <[U32]>::ref_from_bytes(rest).ok()?;
        let remains = zones.iter().map(|zone| Remains::decode(zone.get())).collect();
        let generation = Generation::from(*generation);
        if deaths.last().is_some_and(|last| last.generation >= generation) {
            return None;
        }
        deaths.push(Death { generation, remains });
    }
    Some(deaths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(generation: u64) -> Death {
        let remains = vec![Remains::In(ZoneId(7)), Remains::Nothing, Remains::Anywhere];
        Death { generation: Generation(generation), remains }
    }

    #[test]
    fn what_is_cut_off_or_out_of_order_is_no_death() {
        let bytes = encode(&[death(1), death(2)]);
        for length in 0..=bytes.len() {
            let whole = length > 0 && length.is_multiple_of(bytes.len() / 2);
            assert_eq!(decode(&bytes[..length], 3).is_some(), whole, "{length} bytes");
        }
        assert_eq!(decode(&bytes, 3), Some(vec![death(1), death(2)]));
        assert_eq!(decode(&bytes, 4), None);
        assert_eq!(decode(&encode(&[death(2), death(1)]), 3), None);
        assert_eq!(decode(&encode(&[death(2), death(2)]), 3), None);
    }

    #[test]
    fn what_may_be_in_two_zones_may_be_anywhere() {
        let zone = |at| Remains::In(ZoneId(at));
        assert_eq!(zone(1).or(zone(1)), zone(1));
        assert_eq!(zone(1).or(zone(2)), Remains::Anywhere);
        assert_eq!(zone(1).or(Remains::Nothing), zone(1));
        assert_eq!(Remains::Nothing.or(Remains::Anywhere), Remains::Anywhere);
        assert_eq!(Remains::Nothing.or(Remains::Nothing), Remains::Nothing);
    }
}
