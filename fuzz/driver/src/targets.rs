//! The fuzz targets. A new one is a line here and a file in `fuzz_targets`.

use zoneweave_filestore::format::fuzzing as filestore;
use zoneweave_filestore::trace::fuzzing as file_trace;
use zoneweave_raid::log::format::fuzzing as format;
use zoneweave_raid::raizn::fuzzing as raizn;

/// A named body with the inputs mutation starts from.
pub struct Target {
    /// Same name as the libFuzzer binary.
    pub name: &'static str,
    /// Panics if the input breaks an invariant.
    pub body: fn(&[u8]),
    /// Valid inputs, at least one.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "nbd_handshake",
        body: zoneweave_nbd::fuzzing::handshake,
        seeds: zoneweave_nbd::fuzzing::handshake_seeds,
    },
    Target {
        name: "nbd_requests",
        body: zoneweave_nbd::fuzzing::requests,
        seeds: zoneweave_nbd::fuzzing::request_seeds,
    },
    Target {
        name: "nvmf_session",
        body: zoneweave_nvmf::fuzzing::session,
        seeds: zoneweave_nvmf::fuzzing::session_seeds,
    },
    Target { name: "format_superblock", body: format::superblock, seeds: format::superblock_seeds },
    Target { name: "format_header", body: format::header, seeds: format::header_seeds },
    Target { name: "format_index", body: format::index, seeds: format::index_seeds },
    Target { name: "format_tombstone", body: format::tombstone, seeds: format::tombstone_seeds },
    Target { name: "format_checkpoint", body: format::checkpoint, seeds: format::checkpoint_seeds },
    Target { name: "format_oob", body: format::oob, seeds: format::oob_seeds },
    Target { name: "format_zoned", body: raizn::zoned, seeds: raizn::zoned_seeds },
    Target {
        name: "array_image",
        body: zoneweave_sim::hostile::image,
        seeds: zoneweave_sim::hostile::image_seeds,
    },
    Target {
        name: "zoned_image",
        body: zoneweave_sim::hostile::zoned_image,
        seeds: zoneweave_sim::hostile::zoned_image_seeds,
    },
    Target { name: "filestore_record", body: filestore::record, seeds: filestore::record_seeds },
    Target { name: "filestore_tag", body: filestore::tag, seeds: filestore::tag_seeds },
    Target { name: "filestore_trace", body: file_trace::trace, seeds: file_trace::trace_seeds },
    Target {
        name: "trace",
        body: zoneweave_sim::replay::fuzzing::trace,
        seeds: zoneweave_sim::replay::fuzzing::trace_seeds,
    },
];
