//! The checker on the golden array of the engine's tests.

use std::rc::Rc;

use crate::golden_image::Image;
use zoneweave_check::{Options, check};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::ZonedDevice;

#[test]
fn the_golden_array_is_clean_and_holds_what_it_did() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../raid/tests/golden/array-3.bin");
    let image = Image::decode(&std::fs::read(file).unwrap());
    for without in std::iter::once(None).chain((0..image.drives.len()).map(Some)) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let device = |at: usize| -> Option<Rc<dyn ZonedDevice>> {
            (Some(at) != without).then(|| image.drives[at].attach(&handle))
        };
        let devices = (0..image.drives.len()).map(device).collect();
        let options = Options { every_version: true, ..Options::default() };
        let checked = executor.run(check(devices, options));
        assert!(checked.report.clean, "{:#?}", checked.report);
        let contents = checked.contents.unwrap();
        assert_eq!(contents.volume_blocks(), image.holds.len() as u64);
        for (lba, expected) in (0..).zip(&image.holds) {
            let data = executor.run(contents.read(lba)).unwrap();
            let word = data.map_or(0, |data| u64::from_le_bytes(data[..8].try_into().unwrap()));
            let newest = contents.newest(lba);
            assert_eq!(word, *expected, "LBA {lba} without {without:?}: {newest:?}");
        }
    }
}

#[test]
fn the_golden_zoned_volume_is_clean_and_holds_what_it_did() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../raid/tests/golden/zoned-3.bin");
    let image = Image::decode(&std::fs::read(file).unwrap());
    for without in std::iter::once(None).chain((0..image.drives.len()).map(Some)) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let device = |at: usize| -> Option<Rc<dyn ZonedDevice>> {
            (Some(at) != without).then(|| image.drives[at].attach(&handle))
        };
        let devices = (0..image.drives.len()).map(device).collect();
        let options = Options { zone_blocks: true, ..Options::default() };
        let checked = executor.run(check(devices, options));
        assert!(checked.report.clean, "{:#?}", checked.report);
        let per_zone = image.holds.len() / checked.zones.len();
        for (zone, held) in checked.zones.iter().zip(image.holds.chunks(per_zone)) {
            let words =
                zone.data.iter().map(|data| u64::from_le_bytes(data[..8].try_into().unwrap()));
            let words: Vec<_> = words.collect();
            assert_eq!(words[..], held[..words.len()], "without {without:?}");
            assert!(held[words.len()..].iter().all(|word| *word == 0), "a zone is too short");
        }
    }
}
