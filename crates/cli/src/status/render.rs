//! The status as text: state, reason and action, then the members, then the numbers.

use std::path::Path;

use zoneweave_raid::log::{LaneMode, LaneRequests, MemberHealth};
use zoneweave_raid::raizn::ZoneCounts;
use zoneweave_zoned::BLOCK_BYTES;

use super::{
    Amplification, ArrayStatus, BlockVolumeStatus, ClassStatus, Counters, Health, LaneStatus,
    LogicalZones, LostRange, LostRanges, MemberStatus, ServerStatus, ShardStatus, SpareState,
    SpareStatus, VolumeStatus, WritingStatus, ZonedVolumeStatus, scrub_line,
};
use crate::format::{bytes, shown, span, table, time, wrapped};
use crate::job::{Job, JobKind, JobPhase, JobStatus};
use crate::output::{Output, Tone};

/// Space per block of data beyond which the exact ratio says nothing.
const ROOM_TOLD: f64 = 10.0;

/// Prints the status of a volume.
pub(crate) fn render_volume(volume: &VolumeStatus, output: &Output) {
    let VolumeStatus::Sharded(sharded) = volume else {
        return volume.arrays().iter().for_each(|status| render(status, output));
    };
    let head = format!("{}  ", output.paint(Tone::Strong, &sharded.name));
    let text = format!(
        "{}  {} shards · block volume {}",
        output.paint(tone(sharded.health), sharded.health.word()),
        sharded.shards.len() + sharded.unknown.len(),
        bytes(sharded.size_bytes),
    );
    lines(output, &head, &text);
    for number in &sharded.unknown {
        let text = "not served, or without an answer, and none of its drives was named or found";
        lines(output, &format!("  shard {number}  "), text);
    }
    for status in &sharded.shards {
        output.line("");
        render(status, output);
    }
}

/// Prints the status.
pub(crate) fn render(status: &ArrayStatus, output: &Output) {
    headline(status, output);
    // Names are not unique.
    field(output, "uuid", &status.array);
    if let Some(why) = &status.why {
        field(output, "why", why);
    }
    let is_degraded = !status.members.iter().all(MemberStatus::is_whole);
    let is_told = is_degraded && status.health < Health::Unknown;
    if let Some(left) = status.losses_left.filter(|_| is_told) {
        field(output, "losses", &losses(&status.members, left));
    }
    if let Some(action) = &status.action {
        field(output, "action", action);
    }
    if !status.lost.ranges.is_empty() {
        field(output, "lost", &lost(&status.lost));
    }
    if !status.awaited.ranges.is_empty() {
        field(output, "awaited", &lost(&status.awaited));
    }
    if let Some(last) = status.scrubs.first() {
        field(output, "scrub", &scrub_line(last));
    }
    if let Some(next) = status.server.as_ref().and_then(|server| server.next_scrub_s) {
        field(output, "next", &format!("scrub {}", time(next.saturating_mul(1_000_000_000))));
    }
    output.line("");
    members(status, output);
    for other in &status.others {
        let drive = other.path.as_deref().map_or_else(|| other.drive.clone(), shown);
        lines(output, "  ", &format!("{drive}  {}: {}", other.role, other.detail));
    }
    if let Some(server) = &status.server {
        output.line("");
        numbers(status, server, output);
    }
}

/// Prints a text below its head, in lines that fit a terminal.
fn lines(output: &Output, head: &str, text: &str) {
    wrapped(head, text).iter().for_each(|line| output.line(line));
}

/// Prints a text after its name.
fn field(output: &Output, name: &str, text: &str) {
    lines(output, &format!("  {name:<9} "), text);
}

/// The number of drives that are lost or lack blocks, and of further drives that may fail.
fn losses(members: &[MemberStatus], left: usize) -> String {
    let lost = members.iter().filter(|member| !member.is_whole()).count();
    let left = match left {
        0 => "no other may be lost".to_owned(),
        1 => "any one more may be lost".to_owned(),
        some => format!("any {some} more may be lost"),
    };
    format!("{lost} of {} drives not in full service: {left}", members.len())
}

/// Lost ranges by their offset in bytes, as tools that copy blocks take them.
fn lost(lost: &LostRanges) -> String {
    let range =
        |range: &LostRange| format!("{} at {}", bytes(range.size_bytes), range.offset_bytes);
    let ranges: Vec<_> = lost.ranges.iter().map(range).collect();
    let joined = if lost.joined { "; not all blocks in them are lost" } else { "" };
    format!("{} (offsets in bytes){joined}", ranges.join(", "))
}

/// The emphasis of a health.
pub(crate) fn tone(health: Health) -> Tone {
    match health {
        Health::Healthy => Tone::Good,
        Health::Starting | Health::Rebuilding | Health::Degraded | Health::Unknown => Tone::Warning,
        Health::Damaged | Health::Failed => Tone::Bad,
    }
}

fn headline(status: &ArrayStatus, output: &Output) {
    let served = match &status.server {
        Some(server) => format!("up {}", span(server.uptime_ns)),
        None if status.health == Health::Starting => {
            "being started; state from its superblocks".to_owned()
        }
        None if status.is_silent => {
            "its server does not answer; state from its superblocks".to_owned()
        }
        None if status.is_elsewhere => {
            "served by someone else; state from its superblocks".to_owned()
        }
        None => "not served; state from its superblocks".to_owned(),
    };
    let shard = status.shard.map(|shard| format!("{shard} · ")).unwrap_or_default();
    let head = format!("{}  ", output.paint(Tone::Strong, &status.name));
    let chunk = bytes(status.chunk_bytes);
    let volume = match status.zones {
        None => format!("{chunk} chunks · {} · block volume", status.mode),
        Some(LogicalZones { count, zone_bytes }) => {
            format!("{chunk} units · zoned volume, {count} zones of {},", bytes(zone_bytes))
        }
    };
    let text = format!(
        "{}  {shard}{} · {volume} {} · {served}",
        output.paint(tone(status.health), status.health.word()),
        status.scheme,
        bytes(status.size_bytes),
    );
    lines(output, &head, &text);
}

/// Room for the drives beside the other columns.
const DRIVE_COLUMNS: usize = 11;

/// The drives by slot: paths, or file names and their common directory if paths are long.
pub(crate) fn drive_names(status: &ArrayStatus) -> (Option<String>, Vec<String>) {
    let path = |member: &MemberStatus| match &member.path {
        Some(path) => shown(path),
        None => member.drive.clone().unwrap_or_else(|| "-".to_owned()),
    };
    let names: Vec<_> = status.members.iter().map(path).collect();
    let paths: Vec<_> = status.members.iter().filter_map(|member| member.path.as_ref()).collect();
    let directory = paths.first().and_then(|path| path.parent());
    let is_common = paths.iter().all(|path| path.parent() == directory);
    let is_long = names.iter().any(|name| name.chars().count() > DRIVE_COLUMNS);
    let Some(directory) = directory.filter(|_| is_common && is_long) else { return (None, names) };
    let name = |name: &String| {
        let file = Path::new(name).file_name();
        file.map_or_else(|| name.clone(), |file| file.display().to_string())
    };
    (Some(shown(directory)), names.iter().map(name).collect())
}

fn members(status: &ArrayStatus, output: &Output) {
    let served = status.server.is_some();
    let (directory, names) = drive_names(status);
    if let Some(directory) = directory {
        field(output, "drives", &format!("in {directory}"));
    }
    let mut headings = vec!["SLOT", "STATE", "ZONES f/a/e", ">RESETS"];
    if served {
        headings.extend([">READ", ">WRITTEN", "ERR r/w/c"]);
    }
    headings.push("DRIVE");
    let rows = status.members.iter().zip(names).map(|(member, name)| row(member, name, served));
    let rows: Vec<_> = rows.collect();
    for (number, line) in table(&headings, &rows).iter().enumerate() {
        let state = number.checked_sub(1).map(|at| status.members[at].state);
        let tone = state.map_or(Tone::Faint, member_tone);
        output.line(format_args!("  {}", output.paint(tone, line)));
    }
    for member in status.members.iter().filter(|member| member.state == MemberHealth::Online) {
        if let Some(reason) = &member.reason {
            lines(output, &format!("  slot {}: ", member.slot), reason);
        }
    }
}

/// The emphasis of a drive's state.
pub(crate) const fn member_tone(state: MemberHealth) -> Tone {
    match state {
        MemberHealth::Online => Tone::Good,
        MemberHealth::Rebuilding => Tone::Warning,
        MemberHealth::Failed | MemberHealth::Missing => Tone::Bad,
    }
}

fn row(member: &MemberStatus, name: String, served: bool) -> Vec<String> {
    let unknown = || "-".to_owned();
    let zones = member.zones.map_or_else(unknown, |zones| {
        let rest = match (zones.read_only, zones.offline) {
            (0, 0) => String::new(),
            (read_only, offline) => format!(" +{read_only}R +{offline}X"),
        };
        format!("{}/{}/{}{rest}", zones.full, zones.active, zones.empty)
    });
    let mut row = vec![
        member.slot.to_string(),
        member.state.to_string(),
        zones,
        member.resets_max.map_or_else(unknown, |resets| resets.to_string()),
    ];
    match member.io.filter(|_| served && member.drive.is_some()) {
        Some(io) => row.extend([
            bytes(io.read_bytes),
            bytes(io.written_bytes),
            format!("{}/{}/{}", io.read_errors, io.write_errors, io.checksum_errors),
        ]),
        None if served => row.extend((0..3).map(|_| unknown())),
        None => {}
    }
    row.push(name);
    row
}

/// Prints a job; `left` is the estimated time to its end.
pub(crate) fn job_line(job: &JobStatus, unit: &str, left: Option<u64>, output: &Output) {
    field(output, job.kind.word(), &job_text(job, unit, left));
}

/// The jobs that wait or run, with the estimated time to their end.
pub(crate) fn open_jobs(server: &ServerStatus) -> impl Iterator<Item = (&JobStatus, Option<u64>)> {
    server.jobs.iter().filter(|job| !job.phase.has_ended()).map(move |job| {
        let is_rebuild = job.kind == JobKind::Rebuild && job.phase == JobPhase::Running;
        (job, server.rebuild_left_ns.filter(|_| is_rebuild))
    })
}

/// The unit of the progress of jobs.
pub(crate) const fn job_unit(status: &ArrayStatus) -> &'static str {
    if status.zones.is_some() { "zones" } else { "segments" }
}

/// A job without its kind.
pub(crate) fn job_text(job: &JobStatus, unit: &str, left: Option<u64>) -> String {
    let bar = job.progress.filter(|_| !job.phase.has_ended()).map(|at| bar(at, unit));
    let phase = Some(job.phase).filter(|phase| bar.is_none() || *phase != JobPhase::Running);
    let slot = job.slot.map(|slot| match &job.drive {
        Some(drive) => format!("slot {slot} ({drive})"),
        None => format!("slot {slot}"),
    });
    let parts = [
        bar,
        phase.map(|phase| phase.word().to_owned()),
        left.map(|left| format!("{} left", span(left))),
        slot,
        job.ended_ns_ago.map(|ago| format!("{} ago", span(ago))),
        job.outcome.clone(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn numbers(status: &ArrayStatus, server: &ServerStatus, output: &Output) {
    for (job, left) in open_jobs(server) {
        job_line(job, job_unit(status), left, output);
    }
    if let Some(blocks) = &server.blocks {
        block_volume(status, blocks, output);
    }
    if let Some(zoned) = &server.zoned {
        zoned_volume(zoned, output);
    }
    let sum = |one: u64, next| one.saturating_add(next);
    let repaired = members_io(status).map(|io| io.repaired_blocks).fold(0, sum);
    let lost = members_io(status).map(|io| io.unrepairable_blocks).fold(0, sum);
    if repaired > 0 || lost > 0 {
        let size = |blocks: u64| bytes(blocks.saturating_mul(BLOCK_BYTES as u64));
        field(output, "damage", &format!("{} repaired, {} lost", size(repaired), size(lost)));
    }
    for spare in &server.spares {
        field(output, "spare", &told(spare, status.shard));
    }
    let cache =
        if server.volatile_cache { "writeback (flush makes durable)" } else { "writethrough" };
    let lanes = server.blocks.as_ref().map(|blocks| lanes(&blocks.writing));
    let lanes = lanes.filter(|lanes| !lanes.is_empty()).map(|lanes| format!("{lanes} · "));
    field(output, "writes", &format!("{}{cache}", lanes.unwrap_or_default()));
    let fell_back = server.blocks.as_ref().and_then(|blocks| blocks.writing.fell_back.last());
    if let Some(reason) = fell_back {
        lines(output, "            ", &format!("fallback: {reason}"));
    }
    // Without front ends of its own, another shard serves the clients.
    if !server.exports.is_empty() {
        field(
            output,
            "exports",
            &format!(
                "{} ({} clients, {} requests)",
                server.exports.join(" · "),
                server.clients,
                server.requests
            ),
        );
    }
}

fn block_volume(status: &ArrayStatus, server: &BlockVolumeStatus, output: &Output) {
    #[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
    let used = server.mapped_bytes as f64 * 100.0 / (status.size_bytes.max(1)) as f64;
    field(
        output,
        "space",
        &format!(
            "{used:.1} % used · {} of {} segments free · write amplification {}{}",
            server.segments_free,
            server.segments_total,
            amplified(&server.amplification),
            match server.segments_leftover {
                0 => String::new(),
                // Every stop, even an orderly one, leaves partial segments.
                1 => " · 1 segment to relocate".to_owned(),
                some => format!(" · {some} segments to relocate"),
            }
        ),
    );
    field(
        output,
        "memory",
        &format!(
            "{}, of which the index {} · at most {}",
            bytes(server.memory.total_bytes),
            bytes(server.memory.index_bytes),
            bytes(server.memory_at_most.total_bytes),
        ),
    );
    if server.absent_pages > 0 && server.index_pages.is_none() {
        field(
            output,
            "index",
            &format!(
                "{} pages still to be read; the blocks that they map are not counted as used",
                server.absent_pages
            ),
        );
    }
    if let Some(pages) = server.index_pages {
        field(
            output,
            "index",
            &format!(
                "{} of {} pages on the drives only · {} read, {} written",
                pages.away,
                pages.total,
                server.counters.index_pages_read,
                server.counters.index_pages_written,
            ),
        );
    }
    let settled = server.mapped_bytes > 0 && server.amplification.settled;
    if let Some(uniform) = server.amplification.uniform.filter(|_| settled) {
        field(
            output,
            "moved",
            &format!("{}{}", moved(&server.amplification, uniform), padded(&server.counters)),
        );
    }
}

fn zoned_volume(volume: &ZonedVolumeStatus, output: &Output) {
    let ZoneCounts { empty, open, closed, full, read_only, offline } = volume.zones;
    let rest = match (read_only, offline) {
        (0, 0) => String::new(),
        _ => format!(" · {read_only} read-only · {offline} offline"),
    };
    let text = format!("{empty} empty · {open} open · {closed} closed · {full} full{rest}");
    field(output, "zones", &text);
    let verified = if volume.checksums { "verified by checksums" } else { "not verified" };
    field(output, "reads", verified);
    if volume.relocated_blocks > 0 {
        let size = bytes(volume.relocated_blocks * BLOCK_BYTES as u64);
        field(output, "moved", &format!("{size} in parity logs, after an interruption"));
    }
}

/// The state of a spare.
fn told(spare: &SpareStatus, shard: Option<ShardStatus>) -> String {
    let SpareStatus { drive, path, state, slot, reason } = spare;
    let drive = path.as_deref().map_or_else(|| drive.clone(), shown);
    let place = match (slot, shard) {
        (Some(slot), _) => format!("slot {slot}"),
        // Shards do not share their spares.
        (None, Some(shard)) => format!("any slot of shard {}", shard.number),
        (None, None) => "any slot".to_owned(),
    };
    match state {
        SpareState::Waiting => format!("{drive} on standby for {place}"),
        SpareState::Rebuilding => format!("{drive} is replacing {place}"),
        SpareState::Rebuilt => format!("{drive} has replaced {place}"),
        SpareState::GivenUp => {
            format!("{drive} is unusable: {}", reason.as_deref().unwrap_or("it failed"))
        }
    }
}

/// The open segments for user writes, and their commands.
fn lanes(writing: &WritingStatus) -> String {
    let of = |wanted: fn(LaneRequests) -> bool| {
        writing.lanes.iter().filter(move |lane| wanted(lane.requests))
    };
    let by_size = of(|requests| !matches!(requests, LaneRequests::Moved | LaneRequests::Narrow));
    let alone = by_size.clone().count() == 1;
    let told = |lane: &LaneStatus| {
        let command = match lane.command {
            LaneMode::Append => "Zone Append",
            LaneMode::Write => "Zone Write",
            LaneMode::Gather => "Zone Write of queued data",
        };
        let (segments, chunk, rows) = (lane.segments, bytes(lane.chunk_bytes), lane.group_rows);
        let requests = if alone { String::new() } else { format!("{}: ", lane.requests) };
        let plural = if segments == 1 { "" } else { "s" };
        format!(
            "{requests}{segments} segment{plural} of {chunk} chunks by {command}, groups of {rows}"
        )
    };
    let narrow = |lane: &LaneStatus| {
        format!("lone writes: narrow segments of {} chunks", bytes(lane.chunk_bytes))
    };
    let narrow = of(|requests| requests == LaneRequests::Narrow).map(narrow);
    by_size.map(told).chain(narrow).collect::<Vec<_>>().join("; ")
}

/// Write amplification, once user writes outweigh the relocations of the start.
fn amplified(found: &Amplification) -> String {
    if found.settled { format!("{:.2}", found.data) } else { "-".to_owned() }
}

/// Padding per block of user writes, if any.
#[expect(clippy::cast_precision_loss, reason = "a part for people")]
fn padded(counters: &Counters) -> String {
    let part = counters.padding_blocks as f64 / counters.user_blocks_written.max(1) as f64;
    if part < 0.005 { String::new() } else { format!(" · padding {part:.2}") }
}

/// The cost of relocation, beside theory.
fn moved(found: &Amplification, uniform: f64) -> String {
    let told = |class: &ClassStatus| {
        let name = class.name.replace('_', " ");
        class.amplification.map(|amplification| format!("{name} {amplification:.2}"))
    };
    let classes: Vec<_> = found.classes.iter().filter_map(told).collect();
    let classes = if classes.is_empty() { "nothing yet".to_owned() } else { classes.join(", ") };
    let Amplification { with_parity, room, .. } = found;
    // While the volume is almost empty the number says nothing.
    let room = match *room < ROOM_TOLD {
        true => format!("space {room:.2} times the data"),
        false => format!("space over {ROOM_TOLD} times the data"),
    };
    format!(
        "{classes} · with parity {with_parity:.2} · theory for uniform writes {uniform:.2} ({room})"
    )
}

fn members_io(status: &ArrayStatus) -> impl Iterator<Item = super::MemberIo> {
    status.members.iter().filter_map(|member| member.io)
}

fn bar(job: Job, unit: &str) -> String {
    let filled = usize::try_from(job.percent() / 5).unwrap_or(20).min(20);
    format!(
        "{}{} {} %  {}/{} {unit}",
        "█".repeat(filled),
        "░".repeat(20 - filled),
        job.percent(),
        job.done,
        job.total
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplification_is_told_once_it_tells_of_users() {
        let told =
            |settled| amplified(&Amplification { data: 774.0, settled, ..Default::default() });
        assert_eq!((told(false), told(true)), ("-".to_owned(), "774.00".to_owned()));
    }

    #[test]
    fn padding_is_told_where_there_is_some() {
        let told = |padding_blocks| {
            padded(&Counters { padding_blocks, user_blocks_written: 1000, ..Counters::default() })
        };
        assert_eq!((told(4), told(380)), (String::new(), " · padding 0.38".to_owned()));
    }

    #[test]
    fn room_of_a_volume_that_is_all_but_empty_is_no_number() {
        let told = |room| moved(&Amplification { room, ..Amplification::default() }, 1.0);
        assert!(told(1.25).ends_with("(space 1.25 times the data)"), "{}", told(1.25));
        assert!(told(657_720.0).ends_with("(space over 10 times the data)"));
    }
}
