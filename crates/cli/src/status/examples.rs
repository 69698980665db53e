//! Statuses for tests.

use zoneweave_raid::log::{MemberHealth, Memory};

use super::{
    Amplification, ArrayStatus, BlockVolumeStatus, Counters, Health, MemberStatus, ServerStatus,
    WritingStatus,
};

/// A healthy array of four drives, in service.
pub(crate) fn healthy() -> ArrayStatus {
    let member = |slot: u8| MemberStatus {
        slot,
        uuid: slot.to_string(),
        drive: Some(format!("d/drive{slot}")),
        path: None,
        state: MemberHealth::Online,
        reason: None,
        header_lost: false,
        zones: None,
        resets_max: None,
        io: None,
        latencies: Vec::new(),
        segments_lacking: 0,
        segments_absent_at_start: 0,
    };
    ArrayStatus {
        name: "vol0".to_owned(),
        array: String::new(),
        scheme: String::new(),
        shard: None,
        health: Health::Healthy,
        why: None,
        action: None,
        is_elsewhere: false,
        losses_left: Some(1),
        epoch: 1,
        size_bytes: 1 << 30,
        chunk_bytes: 4096,
        group_rows: 1,
        mode: String::new(),
        zones: None,
        server: Some(server()),
        is_silent: false,
        lost: Default::default(),
        awaited: Default::default(),
        scrubs: Vec::new(),
        members: (0..4).map(member).collect(),
        others: Vec::new(),
    }
}

fn server() -> ServerStatus {
    let blocks = BlockVolumeStatus {
        mapped_bytes: 0,
        writing: WritingStatus::default(),
        segments_total: 100,
        segments_free: 50,
        segments_leftover: 0,
        memory: Memory::default(),
        memory_at_most: Memory::default(),
        absent_pages: 0,
        index_pages: None,
        write_amplification: 1.0,
        amplification: Amplification::default(),
        counters: Counters::default(),
    };
    ServerStatus {
        uptime_ns: 0,
        exports: Vec::new(),
        clients: 0,
        requests: 0,
        latencies: Vec::new(),
        volatile_cache: false,
        blocks: Some(blocks),
        zoned: None,
        rebuild: None,
        rebuild_left_ns: None,
        waiting: Vec::new(),
        jobs: Vec::new(),
        spares: Vec::new(),
        next_scrub_s: None,
        scrub: None,
    }
}
