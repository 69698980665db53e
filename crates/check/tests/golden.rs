//! The checker on the golden array of the engine's tests.

use std::rc::Rc;

use crate::golden_image::Image;
use zoneweave_check::{Checked, Options, check};
use zoneweave_runtime::{Executor, VirtualTime};
use zoneweave_zoned::ZonedDevice;

/// Checks a golden image, whole and without each of its drives.
fn check_image(name: &str, options: Options, judge: impl Fn(&Executor, Checked, &Image, &str)) {
    let file = format!("{}/../raid/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let image = Image::decode(&std::fs::read(file).unwrap());
    for without in std::iter::once(None).chain((0..image.drives.len()).map(Some)) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let device = |at: usize| -> Option<Rc<dyn ZonedDevice>> {
            (Some(at) != without).then(|| image.drives[at].attach(&handle))
        };
        let devices = (0..image.drives.len()).map(device).collect();
        let checked = executor.run(check(devices, options));
        assert!(checked.report.clean, "{:#?}", checked.report);
        judge(&executor, checked, &image, &format!("without {without:?}"));
    }
}

fn word_of(data: &[u8]) -> u64 {
    u64::from_le_bytes(data[..8].try_into().unwrap())
}

#[test]
fn the_golden_array_is_clean_and_holds_what_it_did() {
    let options = Options { every_version: true, ..Options::default() };
    check_image("array-3.bin", options, |executor, checked, image, state| {
        let contents = checked.contents.unwrap();
        assert_eq!(contents.volume_blocks(), image.holds.len() as u64);
        for (lba, expected) in (0..).zip(&image.holds) {
            let data = executor.run(contents.read(lba)).unwrap();
            let newest = contents.newest(lba);
            let word = data.map_or(0, |data| word_of(&data));
            assert_eq!(word, *expected, "LBA {lba} {state}: {newest:?}");
        }
    });
}

#[test]
fn the_golden_zoned_volume_is_clean_and_holds_what_it_did() {
    let options = Options { zone_blocks: true, ..Options::default() };
    check_image("zoned-3.bin", options, |_, checked, image, state| {
        let per_zone = image.holds.len() / checked.zones.len();
        for (zone, held) in checked.zones.iter().zip(image.holds.chunks(per_zone)) {
            let words: Vec<_> = zone.data.iter().map(|data| word_of(data)).collect();
            assert_eq!(words[..], held[..words.len()], "{state}");
            assert!(held[words.len()..].iter().all(|word| *word == 0), "a zone is too short");
        }
    });
}
