//! The contents of a drive after a crash depend on choices, drawn from a seed or searched
//! exhaustively.

use zoneweave_runtime::Random;
use zoneweave_zoned::{ZoneId, ZoneOffset};

use crate::Request;

/// Makes the choices that a crash leaves open.
pub trait CrashChoices {
    /// Whether a command that had not taken effect yet still does.
    fn happens(&mut self, request: &Request) -> bool;

    /// How much of a zone survives a power failure: from `promised`, which must survive, up to
    /// `written`. Asked only where the two differ.
    fn kept(&mut self, zone: ZoneId, promised: ZoneOffset, written: ZoneOffset) -> ZoneOffset;
}

/// Choices drawn from a seed. Keeping all and keeping nothing unpromised are both frequent.
#[derive(Clone, Debug)]
pub struct SeededCrash(Random);

impl SeededCrash {
    /// The choices of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }
}

impl CrashChoices for SeededCrash {
    fn happens(&mut self, _request: &Request) -> bool {
        self.0.per_mille(500)
    }

    fn kept(&mut self, _zone: ZoneId, promised: ZoneOffset, written: ZoneOffset) -> ZoneOffset {
        match self.0.below(4) {
            0 => promised,
            1 => written,
            _ => {
                let kept = self.0.below(u64::from(written.0 - promised.0) + 1);
                ZoneOffset(promised.0 + u32::try_from(kept).expect("below a 32-bit bound"))
            }
        }
    }
}
