//! A drive in a file answers as a drive in RAM does.

use proptest::prelude::*;
use zoneweave_emulator::{BlockMapping, EraseMode, Immediate, RamDrive, WearSettings};
use zoneweave_zoned::{Outcome, ReportOptions, ZoneInfo};

use super::*;

fn command() -> impl Strategy<Value = Command> {
    // Zone 8 does not exist, and few zones are used, so that limits are met.
    let zone = || prop_oneof![8 => 0..6_u32, 1 => 6..9_u32].prop_map(ZoneId);
    let blocks = || prop_oneof![4 => 1..9_u32, 1 => 0..20_u32];
    let action = prop_oneof![
        Just(ZoneAction::Close),
        Just(ZoneAction::Finish),
        Just(ZoneAction::Open),
        Just(ZoneAction::Reset),
        Just(ZoneAction::Reset),
        Just(ZoneAction::Offline),
    ];
    let all = action.clone();
    prop_oneof![
        4 => (zone(), 0..34_u32, blocks()).prop_map(|(zone, offset, blocks)| Command::Read {
            at: ZoneAddress::new(zone, offset),
            blocks: BlockCount(blocks),
        }),
        6 => (zone(), blocks(), any::<u64>(), any::<bool>()).prop_map(
            |(zone, blocks, tag, oob)| {
                let mut payload = payload(tag, blocks);
                if !oob {
                    payload.oob = Bytes::new();
                }
                Command::Append { zone, payload, fua: false }
            }
        ),
        2 => (zone(), 0..24_u32, blocks(), any::<u64>()).prop_map(|(zone, offset, blocks, tag)| {
            let payload = payload(tag, blocks);
            Command::Write { at: ZoneAddress::new(zone, offset), payload, fua: false }
        }),
        4 => (zone(), action).prop_map(|(zone, action)| Command::Manage { zone, action }),
        1 => (zone(), 0..9_u32, any::<bool>()).prop_map(|(first, count, extended)| {
            let options = ReportOptions { extended, ..ReportOptions::default() };
            Command::Report { first, count, options }
        }),
        1 => all.prop_map(|action| Command::ManageAll { action }),
        1 => (zone(), any::<u8>()).prop_map(|(zone, byte)| Command::SetExtension {
            zone,
            extension: vec![byte; 64].into(),
        }),
        1 => Just(Command::ChangedZones),
        1 => Just(Command::Flush),
    ]
}

/// With everything that drive files can have.
fn capable() -> Geometry {
    Geometry { descriptor_extension_bytes: 64, reads_across_zones: true, ..geometry() }
}

/// Payloads may be cut into pieces differently.
fn flattened(outcome: Outcome) -> Outcome {
    outcome.map(|reply| match reply {
        Reply::Read(payload) => {
            Reply::Read(Payload::new(Bytes::from(payload.data.concat()), payload.oob))
        }
        reply => reply,
    })
}

/// Zones that live only for a few resets.
fn short_lived(partial: bool, circular: bool) -> WearSettings {
    WearSettings {
        endurance_cycles: Some(3),
        reset: if partial { EraseMode::Partial } else { EraseMode::Full },
        mapping: if circular { BlockMapping::Circular } else { BlockMapping::Fixed },
        ..WearSettings::new(5)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_history_has_the_same_outcomes(
        commands in prop::collection::vec(command(), 1..120),
        restart_at in 0..120_usize,
        together in 1..12_usize,
        wear in prop::option::of((any::<bool>(), any::<bool>())),
    ) {
        let bench = Bench::new();
        let wear = wear.map(|(partial, circular)| short_lived(partial, circular));
        match wear {
            Some(wear) => {
                FileDrive::create_with_wear(&bench.path(), capable(), wear, UUID).unwrap();
            }
            None => FileDrive::create(&bench.path(), capable(), UUID).unwrap(),
        }
        let mut drive = bench.open();
        let handle = bench.executor.handle();
        let twin_geometry = Geometry { volatile_cache: true, ..capable() };
        let twin = RamDrive::new(twin_geometry, Immediate).unwrap();
        if let Some(wear) = wear {
            twin.set_wear(wear).unwrap();
        }
        let mut attached = twin.attach(&handle);
        let mut outcomes = Vec::new();
        for (index, batch) in commands.chunks(together).enumerate() {
            // In flight together on the file; the twin takes effect in order of submission.
            let started: Vec<_> = batch.iter().map(|command| drive.submit(command.clone())).collect();
            let twins: Vec<_> =
                batch.iter().map(|command| bench.run(attached.submit(command.clone()))).collect();
            for (answer, twin) in started.into_iter().zip(twins) {
                outcomes.push((flattened(bench.run(answer)), flattened(twin)));
            }
            if index == restart_at / together {
                drop(drive);
                bench.run(handle.sleep(Nanos::from_millis(1)));
                twin.restart();
                attached = twin.attach(&handle);
                drive = bench.reopen();
            }
        }
        for (index, (answer, twin)) in outcomes.into_iter().enumerate() {
            let is_read = matches!(commands[index], Command::Read { .. });
            // A read beside a reset may see the zone before or after it.
            if together == 1 || !is_read {
                prop_assert_eq!(answer, twin, "{:?}", &commands[index]);
            }
        }
        let zones = |report: Option<zoneweave_emulator::WearReport>| report.map(|report| report.zones);
        prop_assert_eq!(zones(drive.wear()), zones(twin.wear()));
        let zones: Vec<ZoneInfo> = bench.run(drive.report()).unwrap();
        prop_assert_eq!(zones, bench.run(attached.report()).unwrap());
    }
}
