//! The text of metrics, and the names that alerts and dashboard use.

use zoneweave_zoned::Operation;

use super::*;
use crate::job::Job;
use crate::status::examples::healthy;
use crate::status::{LatencyStatus, MemberIo, ZoneCounts};

fn known() -> Vec<Known> {
    let mut degraded = healthy();
    degraded.name = "vol1".to_owned();
    degraded.health = crate::status::Health::Degraded;
    let of = |uuid: &str, is_up, status| Known {
        uuid: uuid.to_owned(),
        is_up,
        is_silent: false,
        status,
    };
    let (healthy, degraded) = (Some(healthy()), Some(degraded));
    vec![
        of("aa", true, healthy),
        of("bb", true, degraded),
        of("cc", false, None),
        of("dd", true, None),
    ]
}

#[test]
fn each_array_has_samples_of_its_own() {
    let text = text(&known()).unwrap();
    let lines = [
        r#"zoneweave_up{array="vol0",uuid="aa"} 1"#,
        r#"zoneweave_up{array="",uuid="cc"} 0"#,
        // Another release, which is up.
        r#"zoneweave_up{array="",uuid="dd"} 1"#,
        r#"zoneweave_status_readable{array="",uuid="dd"} 0"#,
        r#"zoneweave_health{array="vol0",uuid="aa",health="healthy"} 1"#,
        r#"zoneweave_health{array="vol1",uuid="bb",health="degraded"} 1"#,
        r#"zoneweave_member_state{array="vol0",uuid="aa",slot="2",state="online"} 1"#,
        r#"zoneweave_segments{array="vol0",uuid="aa",state="free"} 50"#,
        r#"zoneweave_user_written_bytes_total{array="vol0",uuid="aa"} 0"#,
    ];
    for line in lines {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
}

/// So many operations of 20 us.
fn latencies(operation: Operation, count: u64) -> Vec<LatencyStatus> {
    let mut times = Histogram::default();
    (0..count).for_each(|_| times.note(Nanos::from_micros(20)));
    LatencyStatus::list(vec![(operation, times)])
}

/// Buckets are of all times up to their bound, in seconds.
#[test]
fn latencies_are_histograms_of_seconds() {
    let mut status = healthy();
    status.server.as_mut().unwrap().latencies = latencies(Operation::WriteZeroes, 3);
    status.members[1].latencies = latencies(Operation::Append, 5);
    let known =
        Known { uuid: "aa".to_owned(), is_up: true, is_silent: false, status: Some(status) };
    let text = text(&[known]).unwrap();
    let array = r#"array="vol0",uuid="aa""#;
    let request = format!(r#"{array},operation="write_zeroes"}}"#);
    let drive = format!(r#"{array},slot="1",drive="d/drive1",operation="append"}}"#);
    let lines = [
        "# TYPE zoneweave_request_latency_seconds histogram".to_owned(),
        format!("zoneweave_request_latency_seconds_count{{{request} 3"),
        format!("zoneweave_request_latency_seconds_sum{{{request} 0.00006"),
        "# TYPE zoneweave_drive_latency_seconds histogram".to_owned(),
        format!(r#"zoneweave_drive_latency_seconds_bucket{{le="0.000016384",{drive} 0"#),
        format!(r#"zoneweave_drive_latency_seconds_bucket{{le="0.000032768",{drive} 5"#),
        format!(r#"zoneweave_drive_latency_seconds_bucket{{le="8.589934592",{drive} 5"#),
        format!(r#"zoneweave_drive_latency_seconds_bucket{{le="+Inf",{drive} 5"#),
    ];
    for line in lines {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
}

/// A scrape with one series twice is refused whole.
#[test]
fn no_series_comes_twice_and_each_family_is_described_once() {
    let text = text(&known()).unwrap();
    let mut series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    series.iter_mut().for_each(|line| *line = line.rsplit_once(' ').unwrap().0);
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all);
    let mut types: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all);
}

/// Alerts and panels on a metric that does not exist never fire, and nobody notices.
#[test]
fn alerts_and_dashboard_name_metrics_that_exist() {
    let mut status = healthy();
    let member = &mut status.members[0];
    member.io = Some(MemberIo::default());
    member.zones = Some(ZoneCounts::default());
    member.resets_max = Some(7);
    member.latencies = latencies(Operation::Read, 1);
    let server = status.server.as_mut().unwrap();
    server.rebuild = Some(Job { done: 1, total: 2 });
    server.latencies = latencies(Operation::Read, 1);
    server.blocks.as_mut().unwrap().amplification.uniform = Some(2.0);
    let (uuid, status) = ("aa".to_owned(), Some(status));
    let text = text(&[Known { uuid, is_up: true, is_silent: false, status }]).unwrap();
    let used = [
        include_str!("../../../../contrib/prometheus/zoneweave.rules.yml"),
        include_str!("../../../../contrib/grafana/zoneweave.json"),
    ];
    let words = |text: &'static str| {
        let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        parts.filter(|word| word.starts_with("zoneweave_"))
    };
    let used: BTreeSet<_> = used.into_iter().flat_map(words).collect();
    assert!(used.len() > 20, "{used:?}");
    for name in used {
        let is_there = text.lines().any(|line| line.starts_with(&format!("{name}{{")));
        assert!(is_there, "{name} is not in {text}");
    }
}
