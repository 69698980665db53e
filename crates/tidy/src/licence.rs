//! Whether a licence expression can be satisfied with the licences we accept.

/// Whether some choice that an SPDX expression leaves us has only licences of the list. `WITH`
/// belongs to the licence before it; the `/` of old manifests means `OR`. `AND` binds tighter than
/// `OR`.
#[must_use]
pub fn licence_is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let answer = parser.any();
    assert!(parser.words.is_empty(), "cannot read the licence expression {expression:?}");
    answer
}

struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [String],
}

impl Parser<'_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn any(&mut self) -> bool {
        let mut answer = self.all();
        while self.take("OR") {
            answer |= self.all();
        }
        answer
    }

    fn all(&mut self) -> bool {
        let mut answer = self.one();
        while self.take("AND") {
            answer &= self.one();
        }
        answer
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let answer = self.any();
            assert!(self.take(")"), "a licence expression lacks a closing parenthesis");
            return answer;
        }
        let (name, rest) = self.words.split_first().expect("a licence follows");
        self.words = rest;
        let mut full = (*name).to_owned();
        if self.take("WITH") {
            let (exception, rest) = self.words.split_first().expect("an exception follows");
            self.words = rest;
            full = format!("{full} WITH {exception}");
        }
        self.allowed.contains(&full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_satisfied_by_some_choice() {
        let allowed = ["MIT".to_owned(), "Apache-2.0 WITH LLVM-exception".to_owned()];
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("MIT AND (GPL-3.0 OR Apache-2.0 WITH LLVM-exception)", true),
            ("GPL-3.0 OR MIT AND BSD-3-Clause", false),
            ("Apache-2.0", false),
        ] {
            assert_eq!(licence_is_allowed(expression, &allowed), expected, "{expression}");
        }
    }
}
