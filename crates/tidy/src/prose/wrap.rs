//! Breaks the lines of comments that are too wide.

use std::collections::BTreeSet;

use super::document::item_text;
use crate::Tokens;

/// The text of a Rust file with each paragraph of a comment that has a line wider than `columns`
/// wrapped again. Code, tables and comments behind code are left alone.
#[must_use]
pub fn wrap_comments(text: &str, columns: usize) -> String {
    let tokens = Tokens::of(text);
    let behind_code = |line: &usize| tokens.lines.binary_search(line).is_ok();
    let lines = tokens.comments.iter().filter(|comment| comment.text.starts_with("//"));
    let comments: BTreeSet<usize> =
        lines.map(|comment| comment.line).filter(|line| !behind_code(line)).collect();
    let mut wrapper = Wrapper { columns, fenced: false, unit: Vec::new(), output: String::new() };
    for (index, line) in text.lines().enumerate() {
        if comments.contains(&(index + 1)) {
            wrapper.comment(line);
        } else {
            wrapper.flush();
            wrapper.push(line);
        }
    }
    wrapper.flush();
    wrapper.output
}

struct Wrapper<'a> {
    columns: usize,
    /// Whether the lines are of a block of code in a comment.
    fenced: bool,
    /// Lines of the paragraph or item of a list that is being read.
    unit: Vec<&'a str>,
    output: String,
}

impl<'a> Wrapper<'a> {
    fn push(&mut self, line: &str) {
        self.output.push_str(line);
        self.output.push('\n');
    }

    fn comment(&mut self, line: &'a str) {
        let (prefix, content) = split(line);
        let content = content.trim_start();
        let fence = content.starts_with("```");
        self.fenced ^= fence;
        let other = ["|", "#", "SAFETY:"].iter().any(|mark| content.starts_with(mark));
        if fence || self.fenced || content.is_empty() || other {
            self.flush();
            return self.push(line);
        }
        let is_new = self.unit.first().is_some_and(|first| split(first).0 != prefix);
        if is_new || item_text(content).is_some() {
            self.flush();
        }
        self.unit.push(line);
    }

    /// Writes the unit, wrapped again if a line of it is too wide.
    fn flush(&mut self) {
        let unit = std::mem::take(&mut self.unit);
        if unit.iter().all(|line| line.chars().count() <= self.columns) {
            return unit.iter().for_each(|line| self.push(line));
        }
        let (prefix, content) = split(unit[0]);
        let indent = content.len() - content.trim_start().len();
        let trimmed = content.trim_start();
        let hanging = indent + item_text(trimmed).map_or(0, |text| trimmed.len() - text.len());
        let words = unit.iter().flat_map(|line| split(line).1.split_whitespace());
        let mut line = format!("{prefix}{}", " ".repeat(indent));
        let mut is_empty = true;
        for word in words {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > self.columns {
                self.push(&line);
                line = format!("{prefix}{}", " ".repeat(hanging));
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.push(&line);
    }
}

/// A line of a comment: blanks with the slashes, and the rest with the blank after them.
fn split(line: &str) -> (&str, &str) {
    let indent = line.len() - line.trim_start().len();
    let marks = line[indent..].trim_start_matches(['/', '!']);
    line.split_at(line.len() - marks.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_paragraphs_are_broken_anew() {
        let text = "    /// aaa bbb ccc ddd\n    /// eee\n    ///\n    /// - fff ggg hhh iii\n    /// x\n\
                    let a = \"// aaa bbb ccc ddd\"; // aaa bbb\n// jjj\n";
        let expected = "    /// aaa bbb\n    /// ccc ddd\n    /// eee\n    ///\n    /// - fff ggg\n\
                        \x20   ///   hhh iii\n    ///   x\n\
                        let a = \"// aaa bbb ccc ddd\"; // aaa bbb\n// jjj\n";
        assert_eq!(wrap_comments(text, 17), expected);
        assert_eq!(wrap_comments(expected, 17), expected);
    }

    #[test]
    fn code_and_tables_stay() {
        let text = "// ```\n// aaa bbb ccc ddd\n// ```\n// | aaa | bbb | ccc |\n";
        assert_eq!(wrap_comments(text, 12), text);
    }
}
