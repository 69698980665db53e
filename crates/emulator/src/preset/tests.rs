//! Every preset loads, and bad ones are refused with the key and the reason.

use super::*;
use crate::{BlockMapping, EraseMode, WornZone};

#[test]
fn every_preset_loads_and_says_what_it_is() {
    for name in names() {
        let preset = Preset::by_name(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!preset.summary().is_empty());
        assert_eq!(preset.geometry().volatile_cache, name.ends_with("-volatile"), "{name}");
    }
    let drive = Preset::by_name("zn540-1tb").unwrap();
    assert_eq!(drive.geometry().zone_capacity, BlockCount(275_712));
    let volatile = Preset::by_name("zn540-1tb-volatile").unwrap();
    assert_eq!(volatile.model(), drive.model());
    let small = volatile.with_zones(8, BlockCount(1000)).unwrap();
    assert_eq!((small.geometry().zones, small.geometry().zone_size), (8, BlockCount(1024)));
    assert!(matches!(Preset::by_name("femu").unwrap().model(), Model::Direct(_)));
}

/// Every parameter has a comment with its unit or its source.
#[test]
fn every_line_of_a_preset_is_explained() {
    for name in names().into_iter().filter(|name| !name.ends_with("-volatile")) {
        for line in Preset::text(name).unwrap().lines() {
            let bare = line.contains('=') && !line.contains('#');
            let known = ["summary", "extends", "small_kib"];
            assert!(!bare || known.iter().any(|key| line.starts_with(key)), "{name}: {line}");
        }
    }
}

#[test]
fn bad_presets_are_refused_with_the_key_and_the_reason() {
    let cases = [
        ("[geometry]\nzones = 0", "zones", "nonzero"),
        ("[geometry]\nzones = -3", "zones", "nonzero"),
        ("[geometry]\nappend_limit_kib = 0", "append_limit_kib", "nonzero"),
        ("[geometry]\nappend_limit_kib = 6", "append_limit_kib", "multiple of the block"),
        ("[geometry]\nzone_capacity_kib = 4194304", "geometry", "above zone size"),
        ("[geometry]\nmax_open = 20", "geometry", "above active-zone limit"),
        ("[geometry]\noob_bytes = 8", "oob_bytes", "0 or 64"),
        ("[geometry]\nzonez = 7", "zonez", "unknown field"),
        ("[stations.write]\ncore_us = -1.0", "stations.write.core_us", "found -1"),
        ("[stations.write]\ncore_us = nan", "stations.write.core_us", "found NaN"),
        ("[stations.write]\ncore_us = true", "stations.write.core_us", "invalid type"),
        ("[stations.write]\ncore_jitter = 1.0", "core_jitter", "below 1"),
        ("[stations.write]\npath_mib_per_s = 0.0", "path_mib_per_s", "a rate must be"),
        ("[stations.flash]\nparity_dies = 32", "parity_dies", "below the 32 dies"),
        ("[stations.flash]\nsense_us = []", "sense_us", "pages"),
        ("[stations.flash]\nchunk_kib = 97", "chunk_kib", "multiple of the block"),
        ("[stations]\nspeed = 1", "speed", "unknown field"),
        ("[wear]\nerase_blocks = 0", "wear", "use 1 to"),
        ("[wear]\nerase_blocks = 4\nendurance_cycles = 0", "wear", "at least 1"),
        ("[wear]\nerase_blocks = 4\nreset = \"some\"", "reset", "unknown variant"),
        ("[wear]\nerase_blocks = 4\nzones = 4", "wear", "unknown field"),
        ("[direct]\nunits = 1", "direct", "missing field"),
        ("colour = 1", "colour", "unknown field"),
        ("colour = ", "colour", "not valid TOML"),
    ];
    for (text, key, reason) in cases {
        let text = match text.starts_with('[') {
            true => format!("extends = \"zn540-1tb\"\n{text}"),
            false => format!("{text}\nextends = \"zn540-1tb\""),
        };
        let error = Preset::parse(&text).expect_err(&text).to_string();
        assert!(error.contains(key) && error.contains(reason), "{text}\ngives: {error}");
    }
}

#[test]
fn names_that_do_not_exist_are_told() {
    let error = Preset::by_name("zn541").unwrap_err().to_string();
    assert!(error.contains("zn541") && error.contains("zn540-4tb"), "{error}");
    let error = Preset::parse("extends = \"nothing\"").unwrap_err().to_string();
    assert!(error.contains("nothing"), "{error}");
    assert!(Preset::parse("extends = 1").unwrap_err().to_string().contains("extends"));
}

#[test]
fn wear_is_part_of_a_preset() {
    let wear = *Preset::by_name("femu-wa-zone").unwrap().wear().unwrap();
    assert_eq!(wear, WearSettings::new(256));
    assert_eq!(wear.row_blocks(BlockCount(32_768)), 128, "pages of an erase block");
    assert_eq!(Preset::by_name("instant").unwrap().wear(), None);
    let text = "extends = \"femu-wa-zone\"\n[wear]\nreset = \"partial\"\nmapping = \"circular\"\n\
                endurance_cycles = 3000\nworn = \"offline\"";
    let expected = WearSettings {
        reset: EraseMode::Partial,
        mapping: BlockMapping::Circular,
        endurance_cycles: Some(3000),
        worn: WornZone::Offline,
        ..wear
    };
    assert_eq!(Preset::parse(text).unwrap().wear(), Some(&expected));
}
