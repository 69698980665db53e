//! Random and mutated input.

use proptest::prelude::*;
use zoneweave_nvmf::fuzzing::{session, session_seeds};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        session(&bytes);
    }

    #[test]
    fn mutated_sessions_break_nothing(
        seed in 0..session_seeds().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = session_seeds().swap_remove(seed);
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        session(&bytes);
    }
}
