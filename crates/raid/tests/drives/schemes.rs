//! Which drives are lost, not how many: parity that stays on the last drive, and mirrors; and where
//! the others are no majority.

use crate::support::life::{assert_holds, live, one_life, put, put_all, refused};
use crate::support::{Array, Shape, new_drive, uuid, version_of};
use zoneweave_raid::instrument::marks::{self, INSTRUMENTED, Mark};
use zoneweave_raid::log::format::{Lineage, MemberUuid};
use zoneweave_raid::log::{
    AdminError, AssemblyError, Health, OpenError, OpenOptions, ReplaceError, Volume,
};
use zoneweave_raid::scheme::{Arrangement, Column};
use zoneweave_runtime::Random;
use zoneweave_zoned::{BlockDevice, BlockError, Lba};

const BLOCKS: u64 = 90;

/// An array of which the first blocks hold version 1.
fn filled(arrangement: Arrangement, data: usize, parity: usize) -> Array {
    let shape = Shape { data, parity, arrangement, ..Shape::small() };
    let array = Array::create(shape, &mut Random::new(7));
    live(&array, async |volume, _, _| put_all(volume, BLOCKS, 1).await);
    array
}

fn mirrors(data: usize) -> Array {
    filled(Arrangement::Mirrored, data, data)
}

fn assert_hit(mark: Mark) {
    let hit = marks::counts().iter().any(|(known, count)| *known == mark && *count > 0);
    assert!(hit || !INSTRUMENTED, "{} was not hit", mark.name());
}

async fn assert_writable(volume: &Volume) {
    put(volume, BLOCKS, 2).await.unwrap();
}

async fn assert_stopped(volume: &Volume) {
    let refused = put(volume, BLOCKS, 2).await;
    assert!(matches!(refused, Err(BlockError::ReadOnly { .. })), "{refused:?}");
}

fn force() -> OpenOptions {
    OpenOptions { force: true, lineage: Lineage(5), ..OpenOptions::default() }
}

#[test]
fn any_drive_of_fixed_parity_may_be_missing() {
    for missing in 0..4 {
        let array = filled(Arrangement::Fixed, 3, 1);
        without(&array, &[missing], async |volume| {
            assert_holds(volume, BLOCKS, 1).await;
            assert_writable(volume).await;
        });
    }
}

/// Starts an array without some drives and uses it.
fn without(array: &Array, missing: &[usize], test: impl AsyncFnOnce(&Volume)) {
    let started = one_life(array, missing, OpenOptions::default(), async |volume, _, _| {
        test(volume).await;
    });
    started.unwrap_or_else(|error| panic!("without {missing:?}: {error}"));
}

#[test]
fn mirrors_of_six_drives_go_on_without_one_of_each_pair() {
    for missing in [&[4][..], &[0, 1], &[0, 4], &[4, 5]] {
        let array = mirrors(3);
        without(&array, missing, async |volume| {
            assert_holds(volume, BLOCKS, 1).await;
            assert_writable(volume).await;
        });
        assert_hit(Mark::RebuiltFromTwin);
    }
}

#[test]
fn mirrors_do_not_start_without_a_pair() {
    let array = mirrors(3);
    for missing in [&[0, 3][..], &[2, 5], &[1, 4, 0]] {
        let error = refused(&array, missing);
        assert!(matches!(
            error,
            OpenError::Array(AssemblyError::TooFewMembers { .. })
                | OpenError::Array(AssemblyError::NoQuorum { .. })
        ));
    }
    // Not by force either: the contents of the pair are lost.
    let forced = one_life(&array, &[1, 4, 0], force(), async |_, _, _| ());
    assert!(
        matches!(forced, Err(OpenError::Array(AssemblyError::TooFewMembers { .. }))),
        "{forced:?}"
    );
    let half = one_life(&array, &[1, 2, 3], force(), async |volume, _, _| {
        assert_holds(volume, BLOCKS, 1).await;
        assert_writable(volume).await;
    });
    half.unwrap();
}

#[test]
fn the_twin_of_a_lost_drive_cannot_be_failed_and_others_can() {
    live(&mirrors(3), async |volume, _, _| {
        volume.fail(1).await.unwrap();
        let refusal = volume.fail(4).await;
        assert_eq!(refusal, Err(AdminError::WouldLoseData { slot: Column(4) }));
        volume.fail(3).await.unwrap();
        assert_holds(volume, BLOCKS, 1).await;
        assert_writable(volume).await;
    });
}

#[test]
fn four_mirrored_drives_read_without_half_of_them_but_do_not_write() {
    live(&mirrors(2), async |volume, _, _| {
        volume.fail(0).await.unwrap();
        assert_writable(volume).await;
        volume.drive_lost(3, "pulled").unwrap();
        assert_stopped(volume).await;
        assert_holds(volume, BLOCKS, 1).await;
    });
}

#[test]
fn mirrors_that_lose_a_pair_stop_and_read_what_is_left() {
    live(&mirrors(3), async |volume, _, _| {
        volume.drive_lost(2, "pulled").unwrap();
        volume.drive_lost(5, "pulled").unwrap();
        assert_stopped(volume).await;
        let mut read = 0;
        for lba in 0..BLOCKS {
            match volume.read(Lba(lba), 1).await {
                Ok(data) => {
                    assert_eq!(version_of(lba, &data.concat()), 1);
                    read += 1;
                }
                Err(error) => {
                    assert!(matches!(error, BlockError::Unrecoverable { .. }), "{error:?}")
                }
            }
        }
        // Two of three pairs are whole.
        assert!((BLOCKS / 2..BLOCKS).contains(&read), "{read} blocks can be read");
    });
}

#[test]
fn a_mirror_is_rebuilt_from_its_twin_alone() {
    let mut array = mirrors(3);
    let drive = live(&array, async |volume, _, handle| {
        // Of the other pairs one is away.
        volume.fail(0).await.unwrap();
        volume.fail(1).await.unwrap();
        let drive = new_drive(&array.shape, &mut Random::new(51));
        let uuid = MemberUuid(uuid(99, 1));
        volume.replace(1, drive.attach(handle), uuid).await.unwrap();
        drive
    });
    array.drives[1] = drive;
    // Its twin away, all of its blocks come from the new drive; slot 0 was put out.
    without(&array, &[4], async |volume| assert_holds(volume, BLOCKS, 1).await);
}

/// To take a working drive out stopped writes where half of the drives were left then, though
/// nothing was lost: only a restart went on.
#[test]
fn a_working_drive_is_not_taken_out_where_half_would_be_left() {
    let array = filled(Arrangement::Rotated, 2, 2);
    let new = |salt| new_drive(&array.shape, &mut Random::new(salt));
    let id = |salt| MemberUuid(uuid(2, salt));
    let refusal = AdminError::WouldStop { slot: Column(1) };
    live(&array, async |volume, _, handle| {
        volume.fail(0).await.unwrap();
        assert_eq!(volume.fail(1).await, Err(refusal));
        let replaced = volume.replace(1, new(1).attach(handle), id(1)).await.unwrap_err();
        let refusal = AdminError::WouldStop { slot: Column(1) };
        assert_eq!(replaced, ReplaceError::Admin(refusal));
        put_all(volume, BLOCKS, 2).await;
        volume.replace(0, new(2).attach(handle), id(2)).await.unwrap();
        volume.replace(1, new(3).attach(handle), id(3)).await.unwrap();
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, BLOCKS, 2).await;
    });
    assert_hit(Mark::TakingOutWouldStop);
}

/// A mirror of two cannot do without one by itself; started by force it can.
#[test]
fn a_drive_of_a_mirror_of_two_is_replaced_after_a_start_by_force() {
    let array = filled(Arrangement::Rotated, 1, 1);
    live(&array, async |volume, _, _| {
        assert_eq!(volume.fail(1).await, Err(AdminError::WouldStop { slot: Column(1) }));
        put_all(volume, BLOCKS, 2).await;
    });
    let life = one_life(&array, &[1], force(), async |volume, _, handle| {
        let new = new_drive(&array.shape, &mut Random::new(1));
        volume.replace(1, new.attach(handle), MemberUuid(uuid(2, 1))).await.unwrap();
        assert_eq!(volume.status().health, Health::Healthy);
        assert_holds(volume, BLOCKS, 2).await;
    });
    life.unwrap();
}
