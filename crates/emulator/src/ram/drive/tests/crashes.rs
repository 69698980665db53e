//! Unfinished commands in a power failure.

use std::collections::BTreeSet;

use super::*;

/// Unfinished resets, finishes and appends of several zones happen or do not, in every
/// combination; an append may be torn between any two blocks, with FUA too.
#[test]
fn unfinished_commands_happen_or_do_not_in_every_combination() {
    for (volatile, fua) in [(true, false), (true, true), (false, false)] {
        let mut outcomes = BTreeSet::new();
        for seed in 0..1000 {
            let drive = RamDrive::new(geometry(volatile), Jitter::new(seed, Nanos(1000))).unwrap();
            let executor = executor();
            let device = drive.attach(&executor.handle());
            executor.run(async {
                for zone in 0..3 {
                    device.append(ZoneId(zone), filled([1, 2]), true).await.unwrap();
                }
            });
            drop(device.manage(ZoneId(0), ZoneAction::Reset));
            drop(device.manage(ZoneId(1), ZoneAction::Finish));
            drop(device.append(ZoneId(2), filled([3, 4, 5]), fua));
            drive.power_loss(seed);
            let [reset, finished, appended] = [0, 1, 2].map(|zone| drive.zone(ZoneId(zone)));
            let expected =
                if reset.write_pointer.0 == 0 { ZoneState::Empty } else { ZoneState::Closed };
            assert_eq!(reset.state, expected);
            assert!([0, 2].contains(&reset.write_pointer.0), "a reset is not torn");
            assert_eq!(finished.write_pointer.0, 2, "what was durable stays");
            let held = drive.peek(ZoneAddress::new(ZoneId(2), 0), appended.capacity);
            let end = appended.write_pointer.index();
            assert_eq!(tags(&held)[..end], [1, 2, 3, 4, 5][..end]);
            outcomes.insert((reset.state, finished.state, end));
        }
        assert_eq!(outcomes.len(), 2 * 2 * 4, "{outcomes:?}");
    }
}
