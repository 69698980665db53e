//! Blocks that a rebuild finds lost.

use futures_util::future::join;
use zoneweave_raid::instrument::marks::Mark;
use zoneweave_raid::log::Volume;
use zoneweave_raid::log::format::MemberUuid;
use zoneweave_runtime::{Handle, Nanos, Random};

use super::{BLOCKS, ROTTEN, listed, lost, rot};
use crate::support::life::{assert_hit, live, put_all};
use crate::support::{Array, Shape, attach, new_drive, uuid};

/// Replaces a drive that failed while another one has damage.
async fn replace_beside_damage(volume: &Volume, array: &Array, handle: &Handle) {
    put_all(volume, BLOCKS, 1).await;
    volume.fail(0).await.unwrap();
    ROTTEN.for_each(|offset| rot(volume, array, 1, offset));
    let new = attach(&new_drive(&array.shape, &mut Random::new(46)), handle);
    volume.replace(0, new, MemberUuid(uuid(9, 1))).await.unwrap();
}

fn found_lost(volume: &Volume) -> u64 {
    volume.status().members.iter().map(|member| member.errors.unrepairable).sum()
}

/// Blocks that a rebuild found lost were listed only when their segment was relocated. An order to
/// clear the faults forgot them until then, and the array was HEALTHY. Parity counted as blocks of
/// users.
#[test]
fn a_rebuild_lists_lost_blocks_of_users() {
    let shape = Shape { zones: 40, tabled: false, volume_blocks: Some(BLOCKS), ..Shape::small() };
    for clears in [false, true] {
        let array = Array::create(shape, &mut Random::new(45));
        live(&array, async |volume, _, handle| {
            let clearing = async {
                while clears && found_lost(volume) == 0 {
                    handle.sleep(Nanos::from_micros(10)).await;
                }
                if clears {
                    let before = listed(volume);
                    assert!(!before.is_empty(), "the first blocks are lost and not listed");
                    volume.clear_faults().await.unwrap();
                    let after = listed(volume);
                    assert!(before.iter().all(|lba| after.contains(lba)), "{after:?}");
                }
            };
            join(replace_beside_damage(volume, &array, handle), clearing).await;
            // It waits for relocations.
            volume.scrub().await.unwrap();
            let gone = lost(volume).await;
            assert!(!gone.is_empty());
            assert_eq!(listed(volume), gone);
            if !clears {
                assert_eq!(found_lost(volume), gone.len() as u64);
            }
        });
    }
    assert_hit(&[Mark::HoleWritten]);
}
