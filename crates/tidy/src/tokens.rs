//! A lexer for Rust source: enough to find paths, items and comments. It accepts every file that
//! the compiler accepts and does not check anything.

/// One token of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// An identifier or a keyword, without the `r#` of raw identifiers.
    Word(&'a str),
    /// A string, character or number, as written.
    Literal(&'a str),
    /// `'name`.
    Lifetime(&'a str),
    /// `::`.
    PathSeparator,
    /// Any other character of punctuation.
    Mark(char),
}

/// A comment, with its slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// Line of its first character, counted from one.
    pub line: usize,
    /// As written, `//` or `/*` included.
    pub text: &'a str,
}

/// The tokens of a file, and its comments apart from them.
#[derive(Debug, Default)]
pub struct Tokens<'a> {
    /// Code, in order.
    pub code: Vec<Token<'a>>,
    /// The line of each token of `code`, counted from one.
    pub lines: Vec<usize>,
    /// Comments, in order.
    pub comments: Vec<Comment<'a>>,
}

impl<'a> Tokens<'a> {
    /// Splits a file into tokens.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        let mut lexer = Lexer { text, at: 0, line: 1, tokens: Self::default() };
        while lexer.at < text.len() {
            lexer.step();
        }
        assert_eq!(lexer.tokens.code.len(), lexer.tokens.lines.len(), "each token has its line");
        lexer.tokens
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    tokens: Tokens<'a>,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) {
        let rest = &self.text[self.at..];
        let first = rest.chars().next().expect("there is text left");
        if first.is_whitespace() {
            self.take(first.len_utf8());
        } else if rest.starts_with("//") {
            self.comment(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.comment(block_comment_length(rest));
        } else if let Some(length) = string_length(rest) {
            self.push(Token::Literal, length);
        } else if rest.starts_with("b'") {
            self.take(1);
            self.quote(&rest[1..]);
        } else if first == '\'' {
            self.quote(rest);
        } else if first.is_ascii_digit() {
            self.push(Token::Literal, number_length(rest));
        } else if is_word(first) {
            if rest.starts_with("r#") {
                self.take(2);
            }
            let word = &self.text[self.at..];
            self.push(Token::Word, word.find(|c| !is_word(c)).unwrap_or(word.len()));
        } else if rest.starts_with("::") {
            self.push(|_| Token::PathSeparator, 2);
        } else {
            self.push(|_| Token::Mark(first), first.len_utf8());
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let taken = &self.text[self.at..self.at + length];
        self.line += taken.matches('\n').count();
        self.at += length;
        taken
    }

    fn push(&mut self, token: impl Fn(&'a str) -> Token<'a>, length: usize) {
        self.tokens.lines.push(self.line);
        let taken = self.take(length);
        self.tokens.code.push(token(taken));
    }

    fn comment(&mut self, length: usize) {
        let line = self.line;
        let text = self.take(length);
        self.tokens.comments.push(Comment { line, text });
    }

    /// A quote opens a character or a lifetime. `'a'` is a character, `'a` a lifetime.
    fn quote(&mut self, rest: &str) {
        let mut characters = rest.char_indices().skip(1);
        let (_, first) = characters.next().expect("something follows a quote");
        let closing = if first == '\\' {
            let escaped = characters.next().expect("something follows a backslash").0 + 1;
            rest[escaped..].find('\'').map(|found| escaped + found)
        } else {
            characters.next().filter(|(_, second)| *second == '\'').map(|(at, _)| at)
        };
        match closing {
            Some(at) => self.push(Token::Literal, at + 1),
            None => {
                let name = &rest[1..];
                let length = name.find(|c| !is_word(c)).unwrap_or(name.len());
                self.push(Token::Lifetime, length + 1);
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn block_comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Bytes of the string literal that the text starts with, if it starts with one.
fn string_length(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r"]
        .into_iter()
        .find(|prefix| text.strip_prefix(prefix).is_some_and(|rest| opens_string(rest, prefix)))
        .unwrap_or_default();
    let body = &text[prefix.len()..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    let opened = hashes == 0 || prefix.ends_with('r');
    if !opened || !body[hashes..].starts_with('"') {
        return None;
    }
    let start = prefix.len() + hashes + 1;
    if prefix.ends_with('r') {
        let closing = format!("\"{}", "#".repeat(hashes));
        let found = text[start..].find(&closing).expect("a raw string is closed");
        return Some(start + found + closing.len());
    }
    let mut escaped = false;
    for (at, c) in text[start..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(start + at + 1),
            _ => {}
        }
    }
    panic!("a string is closed");
}

fn opens_string(rest: &str, prefix: &str) -> bool {
    let body = if prefix.ends_with('r') { rest.trim_start_matches('#') } else { rest };
    body.starts_with('"')
}

/// Bytes of a number: digits, letters of bases and suffixes, and a point that a digit follows.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_part = |at: usize| {
        let next_is_digit = || bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        bytes[at].is_ascii_alphanumeric()
            || bytes[at] == b'_'
            || (bytes[at] == b'.' && next_is_digit())
    };
    (0..bytes.len()).find(|at| !is_part(*at)).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let word = |token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        };
        Tokens::of(text).code.into_iter().filter_map(word).collect()
    }

    #[test]
    fn strings_and_comments_hold_no_code() {
        let text =
            "a /* b /* c */ d */ \"e \\\" f\" r#\"g \" h\"# 'i' '\\'' j // k\nb'l' b\"m\" r#type";
        assert_eq!(words(text), ["a", "j", "type"]);
    }

    #[test]
    fn lifetimes_are_no_characters() {
        let tokens = Tokens::of("<'a>('b', &'static str)");
        assert!(tokens.code.contains(&Token::Lifetime("'a")));
        assert!(tokens.code.contains(&Token::Literal("'b'")));
        assert!(tokens.code.contains(&Token::Lifetime("'static")));
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let tokens = Tokens::of("\"a\nb\" /* c\n */ d // e\n// f");
        assert_eq!(tokens.lines, [1, 3]);
        let comments: Vec<usize> = tokens.comments.iter().map(|comment| comment.line).collect();
        assert_eq!(comments, [2, 3, 4]);
    }

    #[test]
    fn ranges_of_numbers_are_two_numbers() {
        let tokens = Tokens::of("0..10 1.5 0x1f_u8");
        let expected = ["0", "10", "1.5", "0x1f_u8"].map(Token::Literal);
        let found: Vec<Token> =
            tokens.code.into_iter().filter(|token| matches!(token, Token::Literal(_))).collect();
        assert_eq!(found, expected);
    }
}
