//! The paragraphs of comments.

use super::{Paragraph, paragraphs};
use crate::{Comment, Tokens};

/// The paragraphs of the comments of a Rust file. Comments on successive lines are one text, which
/// is read as Markdown.
#[must_use]
pub fn comments(text: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut block: Vec<(usize, &str)> = Vec::new();
    let tokens = Tokens::of(text);
    for Comment { line, text } in tokens.comments {
        let follows_code = tokens.lines.binary_search(&line).is_ok();
        let is_next = block.last().is_some_and(|(last, _)| last + 1 == line);
        let goes_on = is_next && !follows_code;
        if !goes_on {
            found.extend(block_paragraphs(&block));
            block.clear();
        }
        block.extend(text.lines().enumerate().map(|(at, part)| (line + at, bare(part))));
    }
    found.extend(block_paragraphs(&block));
    found
}

/// As [`comments`], of a script whose comments begin with `#`. Lines of usage and of settings that
/// programs read are no prose.
#[must_use]
pub fn script_comments(text: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut block: Vec<(usize, &str)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match line.trim_start().strip_prefix("# ").filter(|comment| !is_setting(comment)) {
            Some(comment) => block.push((index + 1, comment)),
            None => {
                found.extend(block_paragraphs(&block));
                block.clear();
            }
        }
    }
    found.extend(block_paragraphs(&block));
    found
}

/// `NAME   meaning` in columns, or `name: value`.
fn is_setting(comment: &str) -> bool {
    let first = comment.split_whitespace().next().unwrap_or_default();
    comment.contains("   ") || (first.ends_with(':') && first.len() < comment.trim_end().len())
}

fn block_paragraphs(block: &[(usize, &str)]) -> Vec<Paragraph> {
    let Some((first, _)) = block.first() else { return Vec::new() };
    let lines: Vec<&str> = block.iter().map(|(_, text)| *text).collect();
    let mut found = paragraphs(&lines.join("\n"));
    for paragraph in &mut found {
        paragraph.line += first - 1;
    }
    found
}

/// A line of a comment without slashes, and without the blank after them.
fn bare(line: &str) -> &str {
    let text = line.trim_start().trim_start_matches(['/', '*', '!']);
    text.strip_prefix(' ').unwrap_or(text).trim_end_matches("*/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successive_lines_are_one_paragraph() {
        let text = "//! a\n//! b\n//!\n//! c\nfn d() {} // e\n// f\n\n/* g\n h */\n";
        let found: Vec<(usize, String)> =
            comments(text).into_iter().map(|paragraph| (paragraph.line, paragraph.text)).collect();
        let expected = [(1, "a b"), (4, "c"), (5, "e f"), (8, "g h")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn scripts_have_comments_too() {
        let text = "#!/bin/sh\n# a\n# b\nc # d\n  # e\n#   f   g\n# h: i j\n";
        let found = script_comments(text);
        let texts: Vec<&str> = found.iter().map(|paragraph| paragraph.text.as_str()).collect();
        assert_eq!(texts, ["a b", "e"]);
    }
}
