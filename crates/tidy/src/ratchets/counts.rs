//! Counts the breaches of each law.

use std::collections::BTreeMap;

use super::Count;
use crate::layers::{log_breaches, raid_imports, volume_breaches};
use crate::ratchets::parts::{part, prose};
use crate::{Circle, Edge, ImportGraph, Product, Repository, TextFile, Tokens};

/// Most words of a paragraph in a document.
const PARAGRAPH_WORDS: usize = 100;

/// Most words of a sentence.
const SENTENCE_WORDS: usize = 40;

/// Vague words in 1,000.
const VAGUE_PER_1000: usize = 5;

/// Widest line of a comment, the width of code.
const COLUMNS: usize = 100;

/// A folder with more files should be several.
const FOLDER_FILES: usize = 16;

/// A longer file that acts holds [`ASSERTS`].
const SHORT_FILE_LINES: usize = 200;

const ASSERTS: usize = 2;

/// Breaches of one law by part.
struct Tally {
    law: &'static str,
    details: BTreeMap<String, Vec<String>>,
}

impl Tally {
    fn of(law: &'static str) -> Self {
        Self { law, details: BTreeMap::new() }
    }

    fn add(&mut self, part: &str, detail: String) {
        self.details.entry(part.to_owned()).or_default().push(detail);
    }

    fn counts(self) -> impl Iterator<Item = Count> {
        let law = self.law;
        self.details.into_iter().map(move |(part, details)| Count {
            law,
            part,
            found: details.len(),
            details,
        })
    }
}

impl Count {
    /// Files of each crate that are in a circle of imports.
    #[must_use]
    pub fn circles(repository: &Repository) -> Vec<Self> {
        let count = |(part, root): (String, String)| {
            let circles = Circle::all(&ImportGraph::read(repository, &root));
            let cuts = circles.iter().flat_map(|circle| &circle.cut);
            let line = |edge: &Edge| {
                format!("cut {} -> {} ({})", edge.from, edge.to, edge.names.join(", "))
            };
            Self {
                law: "circles",
                part,
                found: circles.iter().map(|circle| circle.files.len()).sum(),
                details: cuts.map(line).collect(),
            }
        };
        repository.crate_roots().into_iter().map(count).collect()
    }

    /// Imports of `raid` against the order of its folders.
    #[must_use]
    pub fn layers(repository: &Repository) -> Vec<Self> {
        let graph = raid_imports(repository);
        let count = |law, details: Vec<String>| Self {
            law,
            part: "raid".to_owned(),
            found: details.len(),
            details,
        };
        vec![count("layers", log_breaches(&graph)), count("volumes", volume_breaches(&graph))]
    }

    /// Long paragraphs, long sentences, wide lines and vague words.
    #[must_use]
    pub fn prose(repository: &Repository) -> Vec<Self> {
        let mut long = Tally::of("paragraphs");
        let mut sentences = Tally::of("sentences");
        let mut columns = Tally::of("columns");
        let mut words: BTreeMap<String, usize> = BTreeMap::new();
        let mut vague = Tally::of("words");
        for file in repository.files() {
            let Some(part) = part(file) else { continue };
            for paragraph in prose(file) {
                let place = format!("{}:{}", file.path, paragraph.line);
                let count = paragraph.words();
                *words.entry(part.clone()).or_default() += count;
                if count > PARAGRAPH_WORDS && part == "documents" {
                    long.add(&part, format!("{place} has {count} words"));
                }
                for sentence in paragraph.sentences() {
                    let count = sentence.split_whitespace().count();
                    if count > SENTENCE_WORDS {
                        sentences.add(&part, format!("{place} {count} words: {sentence}"));
                    }
                }
                for word in paragraph.vague_words() {
                    vague.add(&part, format!("{place} {word}"));
                }
            }
            for line in wide_comments(file) {
                columns.add(&part, format!("{}:{line}", file.path));
            }
        }
        vague.details.retain(|part, found| found.len() * 1000 > words[part] * VAGUE_PER_1000);
        [long, sentences, columns, vague].into_iter().flat_map(Tally::counts).collect()
    }

    /// Files that act without assertions, and texts where a type belongs.
    #[must_use]
    pub fn states(repository: &Repository) -> Vec<Self> {
        let mut unasserted = Tally::of("asserts");
        let mut errors = Tally::of("text-errors");
        let mut states = Tally::of("text-states");
        let sources = repository.with_extension("rs").filter(|file| file.is_product_source());
        for file in sources {
            let part = part(file).expect("source belongs to a crate");
            let product = Product::of(&file.text);
            let asserts = product.asserts();
            if product.lines > SHORT_FILE_LINES && product.acts() && asserts < ASSERTS {
                let lines = product.lines;
                unasserted.add(&part, format!("{} has {asserts} in {lines} lines", file.path));
            }
            for _ in 0..product.text_errors() {
                errors.add(&part, file.path.clone());
            }
            for name in product.text_states() {
                states.add(&part, format!("{}: {name}", file.path));
            }
        }
        [unasserted, errors, states].into_iter().flat_map(Tally::counts).collect()
    }
}

impl Count {
    /// Folders of source with more files than a reader can survey.
    #[must_use]
    pub fn folders(repository: &Repository) -> Vec<Self> {
        let mut tally = Tally::of("folders");
        for (folder, files) in crowded_folders(repository) {
            let part = folder.split('/').nth(1).unwrap_or(folder);
            tally.add(part, format!("{folder} has {files} files"));
        }
        tally.counts().collect()
    }
}

/// Folders with more than 16 files of source, with their number.
pub(crate) fn crowded_folders(repository: &Repository) -> Vec<(&str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in repository.with_extension("rs") {
        let (folder, _) = file.path.rsplit_once('/').expect("source is in a folder");
        *counts.entry(folder).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > FOLDER_FILES).collect()
}

/// Lines of comments that are too wide, but for those without a blank to break them at.
fn wide_comments(file: &TextFile) -> Vec<usize> {
    if !file.has_extension("rs") {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let mut found = Vec::new();
    for comment in Tokens::of(&file.text).comments {
        for (at, part) in comment.text.lines().enumerate() {
            let number = comment.line + at;
            let is_wide = lines[number - 1].chars().count() > COLUMNS;
            let has_blank = part.trim_start_matches(['/', '!', ' ']).contains(' ');
            if is_wide && has_blank {
                found.push(number);
            }
        }
    }
    found
}
