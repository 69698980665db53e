//! Reports the marks hit by tests: in builds that count, `ZONEWEAVE_MARKS=file` appends the counts
//! to a file.

use zoneweave_raid::instrument::marks;

/// Appends a thread's counts when it ends.
struct Report;

impl Drop for Report {
    fn drop(&mut self) {
        let Ok(path) = std::env::var("ZONEWEAVE_MARKS") else { return };
        let hit = marks::counts().into_iter().filter(|(_, count)| *count > 0);
        let lines: String = hit.map(|(mark, count)| format!("{} {count}\n", mark.name())).collect();
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| std::io::Write::write_all(&mut file, lines.as_bytes()))
            .expect("the file can be written");
    }
}

/// Reports the counts of this thread when it ends.
pub(crate) fn report_marks() {
    thread_local!(static REPORT: Report = const { Report });
    if marks::INSTRUMENTED {
        REPORT.with(|_| {});
    }
}
