//! The subjects of commits: `area: imperative subject`, at most 72 characters.

use std::process::Command;

use crate::Repository;

/// Commits after this one keep the law. Tags do not travel with every clone; a hash does.
pub const START: &str = "b9434711d7d31ffb39e959a53d828d20d75ddd64";

/// Longest subject.
const CHARACTERS_MAX: usize = 72;

/// Hash and subject of every commit since [`START`], merges apart. Nothing where that commit is not
/// in the history: an archive, or a clone of the last commits.
#[must_use]
pub fn since_start() -> Option<Vec<(String, String)>> {
    let git = |arguments: &[&str]| {
        let root = Repository::root_path();
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    git(&["merge-base", "--is-ancestor", START, "HEAD"])?;
    let log = git(&["log", "--no-merges", "--format=%h %s", &format!("{START}..HEAD")])?;
    let log = String::from_utf8_lossy(&log);
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    Some(commits.map(|(hash, subject)| (hash.to_owned(), subject.to_owned())).collect())
}

/// The fault of a subject, if it has one.
#[must_use]
pub fn subject_breach(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > CHARACTERS_MAX {
        return Some(format!("is {length} characters long, at most {CHARACTERS_MAX}"));
    }
    let Some((areas, change)) = subject.split_once(": ") else {
        return Some("has no `area: ` before the change".to_owned());
    };
    let is_area = |area: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/.:".contains(c);
        !area.is_empty() && area.chars().all(is_part)
    };
    if !areas.split(", ").all(is_area) {
        return Some(format!("has {areas:?} where the area is expected"));
    }
    let verb = change.split([' ', ',']).next().unwrap_or_default();
    (!may_be_imperative(verb)).then(|| format!("begins with {verb:?}, which is no imperative"))
}

/// Whether a word may be a verb in the imperative, judged by its ending and by a list of words that
/// begin clauses.
fn may_be_imperative(word: &str) -> bool {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let is_inflected = ["ed", "ing", "s"].iter().any(|ending| word.ends_with(ending));
    is_plain && !NO_VERBS.contains(&word) && (!is_inflected || VERBS.contains(&word))
}

/// Verbs that end as an inflected one would.
const VERBS: &[&str] = &[
    "access", "address", "assess", "bias", "bring", "bypass", "compress", "cross", "discuss",
    "dismiss", "embed", "exceed", "express", "feed", "focus", "guess", "heed", "miss", "need",
    "pass", "press", "proceed", "process", "seed", "shed", "speed", "spring", "stress", "string",
    "succeed", "suppress", "swing", "toss", "witness",
];

/// Words that begin a clause or a noun.
const NO_VERBS: &[&str] = &[
    "a",
    "after",
    "all",
    "an",
    "and",
    "another",
    "any",
    "as",
    "at",
    "before",
    "both",
    "but",
    "by",
    "each",
    "either",
    "every",
    "everything",
    "few",
    "for",
    "from",
    "how",
    "if",
    "in",
    "it",
    "many",
    "more",
    "most",
    "much",
    "neither",
    "no",
    "nobody",
    "none",
    "not",
    "nothing",
    "of",
    "on",
    "once",
    "one",
    "only",
    "or",
    "other",
    "some",
    "such",
    "than",
    "that",
    "the",
    "their",
    "then",
    "there",
    "they",
    "this",
    "those",
    "three",
    "to",
    "two",
    "under",
    "until",
    "we",
    "what",
    "whatever",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whoever",
    "whose",
    "why",
    "with",
    "without",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imperatives_are_told_from_clauses() {
        for lawful in [
            "raid: skip the await when a read completes on submit",
            "raid, check: remove duplication",
            "raid::log: pass the pin along",
            "ci: re-run",
        ] {
            assert_eq!(subject_breach(lawful), None, "{lawful}");
        }
        for unlawful in [
            "raid: what is there is verified",
            "raid: moved the files",
            "raid: moves the files",
            "raid: moving the files",
            "raid: A file",
            "raid moves",
            "The raid: move files",
            "raid: ",
            "raid: add a subject that goes on for longer than a terminal of eighty columns shows",
        ] {
            assert!(subject_breach(unlawful).is_some(), "{unlawful}");
        }
    }
}
