//! The prose of documents and comments: paragraphs, sentences, and vague words.

mod comments;
mod document;
mod wrap;

pub use comments::{comments, script_comments};
pub use document::paragraphs;
pub use wrap::wrap_comments;

/// Text that belongs together, without marks of Markdown or comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paragraph {
    /// Line that it begins in, counted from one.
    pub line: usize,
    /// Its lines, joined.
    pub text: String,
}

/// Whether a piece between blanks is a word: a dash or a bracket is none.
fn is_word(piece: &&str) -> bool {
    piece.chars().any(char::is_alphanumeric)
}

impl Paragraph {
    /// Number of words.
    #[must_use]
    pub fn words(&self) -> usize {
        self.text.split_whitespace().filter(is_word).count()
    }

    /// Its sentences. A `.`, `?` or `!` ends one if no lower-case letter follows.
    #[must_use]
    pub fn sentences(&self) -> Vec<&str> {
        let mut found = Vec::new();
        let mut start = 0;
        for (at, _) in self.text.match_indices(['.', '?', '!']) {
            let after = self.text[at + 1..].trim_start_matches([')', '"', '*', '_', '`']);
            let next = after.trim_start();
            let is_end = after.len() > next.len() && !next.starts_with(char::is_lowercase);
            if is_end && !ABBREVIATIONS.iter().any(|word| self.text[..=at].ends_with(word)) {
                found.push(self.text[start..=at].trim());
                start = at + 1;
            }
        }
        found.push(self.text[start..].trim());
        found.retain(|sentence| sentence.split_whitespace().any(|word| is_word(&word)));
        found
    }

    /// Words that often hide a noun: "relocation" reads better than a clause with these.
    #[must_use]
    pub fn vague_words(&self) -> Vec<String> {
        let clean = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            word.to_lowercase()
        };
        let words: Vec<String> = self.text.split_whitespace().map(clean).collect();
        let single = words.iter().filter(|word| VAGUE.contains(&word.as_str())).cloned();
        let pairs = words.windows(2).filter(|pair| pair[0] == "those" && pair[1] == "that");
        single.chain(pairs.map(|pair| pair.join(" "))).collect()
    }
}

const VAGUE: &[&str] = &["what", "whatever", "who", "whoever"];

/// Points that end no sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "vs.", "cf.", "Fig.", "No.", "etc."];

#[cfg(test)]
mod tests {
    use super::*;

    fn paragraph(text: &str) -> Paragraph {
        Paragraph { line: 1, text: text.to_owned() }
    }

    #[test]
    fn sentences_end_where_the_next_begins() {
        let text = paragraph("It is 1.5 GiB, e.g. `a.b`. Next (see x.) Then? 4 more. and not here");
        let expected =
            ["It is 1.5 GiB, e.g. `a.b`.", "Next (see x.", ") Then?", "4 more. and not here"];
        assert_eq!(text.sentences(), expected);
    }

    #[test]
    fn vague_words_are_found() {
        let text = paragraph("What waits, \"who\" asks, those that were. Those are what's left");
        assert_eq!(text.vague_words(), ["what", "who", "those that"]);
        assert_eq!(paragraph("a – b (c)").words(), 3);
    }
}
