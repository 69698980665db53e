//! The links and headings of a Markdown document: as much of the language as they need.

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// Line it stands in, counted from one.
    pub line: usize,
    /// As written.
    pub target: String,
}

/// Every inline link, image and link definition outside of code.
#[must_use]
pub fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (line, prose) in prose_lines(text) {
        for piece in prose.split("](").skip(1) {
            if let Some((target, _)) = piece.split_once(')') {
                let target = target.split_whitespace().next().unwrap_or_default();
                found.push(Link { line, target: target.trim_matches(['<', '>']).to_owned() });
            }
        }
        if let Some((_, target)) = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push(Link { line, target: target.trim().to_owned() });
        }
    }
    found
}

/// The anchors that the headings get where the document is shown: lower case, blanks as hyphens,
/// without punctuation.
#[must_use]
pub fn anchors(text: &str) -> Vec<String> {
    let headings = prose_lines(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Lines outside fenced code with their numbers; spans of inline code are blanked unless in a
/// heading.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let is_prose = !fence && !fenced;
        is_prose.then(|| (index + 1, if line.starts_with('#') { line.into() } else { plain(line) }))
    })
}

fn plain(line: &str) -> String {
    let even = |(index, piece)| (index % 2 == 0).then_some(piece);
    line.split('`').enumerate().filter_map(even).collect::<Vec<&str>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_none() {
        let text = "see [a](one.md) and ![b](<two.svg> \"x\")\n```\n[c](three)\n```\n`[d](four)` [e]\n\n[e]: five.md\n";
        let found: Vec<(usize, String)> =
            links(text).into_iter().map(|link| (link.line, link.target)).collect();
        assert_eq!(found, [(1, "one.md".into()), (1, "two.svg".into()), (7, "five.md".into())]);
    }

    #[test]
    fn anchors_are_made_of_headings() {
        assert_eq!(anchors("# A `b` C.\n```\n# no\n```\n## 4. D-e\n"), ["a-b-c", "4-d-e"]);
    }
}
