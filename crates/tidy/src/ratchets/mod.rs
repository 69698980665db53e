//! Laws that the tree does not keep yet: the table `crates/tidy/ratchets.txt` has the number of
//! breaches that each part of it may have. A number may only fall; the table is to be empty in the
//! end.
//!
//! A new crate has no line, so it keeps every law from its first day.

mod counts;
mod parts;

pub(crate) use counts::crowded_folders;
pub(crate) use parts::{part, prose};

use std::collections::BTreeMap;

use crate::Repository;

/// Breaches of a law in a part of the repository.
#[derive(Debug)]
pub struct Count {
    /// The law, one word.
    pub law: &'static str,
    /// The crate or the document.
    pub part: String,
    /// How many there are.
    pub found: usize,
    /// The place of each, or the remedy.
    pub details: Vec<String>,
}

/// Path of the table.
const TABLE: &str = "crates/tidy/ratchets.txt";

/// The numbers that are allowed.
pub struct Ratchets {
    allowed: BTreeMap<(String, String), usize>,
}

impl Ratchets {
    /// Reads the table: lines of law, part and number. A line that begins with `#` is a comment.
    ///
    /// # Panics
    /// If the table is missing or a line is something else.
    #[must_use]
    pub fn read(repository: &Repository) -> Self {
        let table = repository.file(TABLE).expect("there is a table of ratchets");
        let lines = table.text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let row = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [law, part, number] = words[..] else { panic!("{TABLE}: cannot read {line:?}") };
            let number = number.parse().expect("the third word is a number");
            ((law.to_owned(), part.to_owned()), number)
        };
        Self { allowed: lines.map(row).collect() }
    }

    /// An error message if a count is above its limit.
    #[must_use]
    pub fn breach(&self, count: &Count) -> Option<String> {
        let key = (count.law.to_owned(), count.part.clone());
        let allowed = self.allowed.get(&key).copied().unwrap_or(0);
        let Count { law, part, found, details } = count;
        (*found > allowed).then(|| {
            format!(
                "{part}: {found}, and {allowed} are allowed. Where:\n    {}\n  \
                 If it cannot be helped, say why in the commit; the line of {TABLE} is\n  \
                 {law} {part} {found}",
                details.join("\n    ")
            )
        })
    }
}

impl Count {
    /// The line of the table for this count.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {} {}", self.law, self.part, self.found)
    }

    /// The counts of every law.
    #[must_use]
    pub fn all(repository: &Repository) -> Vec<Self> {
        let mut all = Self::circles(repository);
        all.extend(Self::layers(repository));
        all.extend(Self::folders(repository));
        all.extend(Self::prose(repository));
        all.extend(Self::states(repository));
        all
    }
}
