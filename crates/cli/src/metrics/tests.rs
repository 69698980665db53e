//! The text of metrics, and the names that alerts and dashboard use.

use super::*;
use crate::job::Job;
use crate::status::examples::healthy;
use crate::status::{MemberIo, ZoneCounts};

fn known() -> Vec<Known> {
    let mut degraded = healthy();
    degraded.name = "vol1".to_owned();
    degraded.health = crate::status::Health::Degraded;
    let of = |uuid: &str, is_up, status| Known { uuid: uuid.to_owned(), is_up, status };
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
    let server = status.server.as_mut().unwrap();
    server.rebuild = Some(Job { done: 1, total: 2 });
    server.blocks.as_mut().unwrap().amplification.uniform = Some(2.0);
    let text = text(&[Known { uuid: "aa".to_owned(), is_up: true, status: Some(status) }]).unwrap();
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
