//! The paragraphs of a Markdown document. Headings, tables, code and link definitions are none.

use super::Paragraph;

/// Paragraphs and items of lists, each by itself.
#[must_use]
pub fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut found = Vec::new();
    let mut open = Paragraph::default();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim_start().trim_start_matches("> ");
        let fence = trimmed.starts_with("```");
        fenced ^= fence;
        let item = item_text(trimmed);
        if fence || fenced || !is_prose(trimmed) || item.is_some() {
            found.push(std::mem::take(&mut open));
        }
        if fence || fenced || !is_prose(trimmed) {
            continue;
        }
        if open.text.is_empty() {
            open.line = index + 1;
        } else {
            open.text.push(' ');
        }
        open.text.push_str(item.unwrap_or(trimmed).trim_end());
    }
    found.push(open);
    found.retain(|paragraph| !paragraph.text.is_empty());
    found
}

fn is_prose(line: &str) -> bool {
    let other = ["#", "|", "<", "[!", "---"].iter().any(|mark| line.starts_with(mark));
    let is_definition = line.starts_with('[') && line.contains("]: ");
    !line.is_empty() && !other && !is_definition
}

/// The text of an item of a list, if the line begins one.
pub(super) fn item_text(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    rest.or_else(|| numbered.strip_prefix(". ").filter(|_| numbered.len() < line.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_headings_and_code_are_no_paragraphs() {
        let text = "# A\nb\nc\n\n- d\n  e\n- f\n1. g\n\n| h |\n```\ni\n```\nj\n[k]: l\n";
        let found: Vec<(usize, String)> = paragraphs(text)
            .into_iter()
            .map(|paragraph| (paragraph.line, paragraph.text))
            .collect();
        let expected = [(2, "b c"), (5, "d e"), (7, "f"), (8, "g"), (14, "j")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }
}
