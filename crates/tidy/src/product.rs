//! The product code of a source file: all of it but items under `#[cfg(test)]`.

use crate::{Token, Tokens};

/// Code without its tests.
#[derive(Debug)]
pub struct Product<'a> {
    /// Its tokens, in order.
    pub code: Vec<Token<'a>>,
    /// Lines of the file, without those of tests.
    pub lines: usize,
    /// Lines that have code.
    pub code_lines: usize,
}

impl<'a> Product<'a> {
    /// Reads a file.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let tokens = Tokens::of(text);
        let mut product = Self { code: Vec::new(), lines: text.lines().count(), code_lines: 0 };
        let mut last_line = 0;
        let mut at = 0;
        while at < tokens.code.len() {
            if let Some(end) = test_item_end(&tokens.code, at) {
                product.lines -= tokens.lines[end - 1] - tokens.lines[at] + 1;
                at = end;
                continue;
            }
            product.code_lines += usize::from(tokens.lines[at] > last_line);
            last_line = tokens.lines[at];
            product.code.push(tokens.code[at]);
            at += 1;
        }
        product
    }

    /// How often a sequence of tokens occurs, written as code: `words("& 'static str")`.
    #[must_use]
    pub fn count(&self, pattern: &str) -> usize {
        let pattern = Tokens::of(pattern).code;
        self.code.windows(pattern.len()).filter(|window| *window == pattern).count()
    }

    /// Assertions that stay on in a release.
    #[must_use]
    pub fn asserts(&self) -> usize {
        ["assert!", "assert_eq!", "assert_ne!"].iter().map(|name| self.count(name)).sum()
    }

    /// Whether it awaits anything or changes its state.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.count(".await") > 0 || self.count("async fn") > 0 || self.count("&mut self") > 0
    }

    /// `Result<_, &'static str>`.
    #[must_use]
    pub fn text_errors(&self) -> usize {
        let ending = Tokens::of(", &'static str>").code;
        let ends = self.code.windows(ending.len()).enumerate();
        ends.filter(|(at, window)| *window == ending && self.is_result(*at)).count()
    }

    /// Whether the last argument of a `Result` follows the comma at an index.
    fn is_result(&self, comma: usize) -> bool {
        let mut depth = 0;
        for at in (0..comma).rev() {
            match self.code[at] {
                Token::Mark('>') => depth += 1,
                Token::Mark('<') if depth == 0 => {
                    return at > 0 && self.code[at - 1] == Token::Word("Result");
                }
                Token::Mark('<') => depth -= 1,
                Token::Mark(';' | '{' | '}') => return false,
                _ => {}
            }
        }
        false
    }

    /// Public fields that hold a state as text, by name.
    #[must_use]
    pub fn text_states(&self) -> Vec<&'a str> {
        let kind = Tokens::of(": &'static str").code;
        let fields = self.code.windows(kind.len() + 2).filter_map(|window| match window {
            [Token::Word("pub"), Token::Word(name), rest @ ..] if *rest == kind => Some(*name),
            _ => None,
        });
        fields.filter(|name| STATES.contains(name)).collect()
    }
}

/// Names of fields whose values are states: an `enum` would list them.
const STATES: &[&str] = &[
    "command", "health", "kind", "mode", "outcome", "phase", "reason", "requests", "role", "state",
    "status", "stopped", "verdict",
];

/// The index after an item that is compiled for tests only, if one begins at an index.
pub(crate) fn test_item_end(code: &[Token<'_>], at: usize) -> Option<usize> {
    if code.get(at) != Some(&Token::Mark('#')) || code.get(at + 1) != Some(&Token::Mark('[')) {
        return None;
    }
    let end = group_end(code, at + 1);
    if !is_test_only(&code[at + 2..end]) {
        return None;
    }
    Some(item_end(code, end))
}

/// Whether the inside of an attribute is `cfg(test)` or `cfg(all(.., test, ..))`.
fn is_test_only(attribute: &[Token<'_>]) -> bool {
    let word = |at: usize, word: &str| attribute.get(at) == Some(&Token::Word(word));
    let all = word(2, "all") && attribute.contains(&Token::Word("test"));
    word(0, "cfg") && (word(2, "test") || all)
}

/// The index after the group that opens at an index.
pub(crate) fn group_end(code: &[Token<'_>], start: usize) -> usize {
    let mut depth = 0;
    for (at, token) in code.iter().enumerate().skip(start) {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The index after an item: after its `;`, `,` or braces, or before the closing brace of the block
/// around it.
pub(crate) fn item_end(code: &[Token<'_>], start: usize) -> usize {
    let mut at = start;
    while let Some(token) = code.get(at) {
        match token {
            Token::Mark('{') => return group_end(code, at),
            Token::Mark('(' | '[') => at = group_end(code, at),
            Token::Mark(';' | ',') => return at + 1,
            Token::Mark('}' | ')' | ']') => return at,
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_no_product() {
        let product = Product::of(
            "fn a() { assert!(true); }\n\n#[cfg(test)]\nmod tests {\n fn b() { assert!(x); }\n}\n",
        );
        assert_eq!((product.lines, product.code_lines, product.asserts()), (2, 1, 1));
    }

    #[test]
    fn texts_as_errors_are_found() {
        let product = Product::of(
            "fn a() -> Result<Vec<u8>, &'static str> {} fn b(x: BTreeMap<u8, &'static str>) {} \
             fn c() -> io::Result<(), &'static str>;",
        );
        assert_eq!(product.text_errors(), 2);
    }

    #[test]
    fn texts_as_states_are_found() {
        let product = Product::of("struct S { pub state: &'static str, pub title: &'static str }");
        assert_eq!(product.text_states(), ["state"]);
    }
}
