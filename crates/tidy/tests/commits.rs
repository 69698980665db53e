//! Subjects of commits are `area: imperative`.

use zoneweave_tidy::commits::{since_start, subject_breach};

use crate::assert_lawful;

#[test]
fn subjects_are_imperatives() {
    let Some(commits) = since_start() else { return };
    let breaches: Vec<String> = commits
        .iter()
        .filter_map(|(hash, subject)| {
            subject_breach(subject).map(|breach| format!("{hash} {subject:?} {breach}"))
        })
        .collect();
    assert_lawful("reword these subjects (`area: imperative subject`):", &breaches);
}
