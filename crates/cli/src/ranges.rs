//! Merges lines that differ in one number, which counts up, into one line with a range.

/// A line, or a run of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The text between the numbers.
    words: Vec<String>,
    numbers: Vec<u64>,
    /// Index of the number that counts up, and its last value.
    run: Option<(usize, u64)>,
    count: u64,
}

impl Line {
    /// A line; digits before byte `fixed` are text.
    pub(crate) fn new(text: &str, fixed: usize) -> Self {
        let (mut words, mut numbers) = (vec![text[..fixed].to_owned()], Vec::new());
        let mut rest = &text[fixed..];
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            let digits = rest[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - at);
            // Digits that overflow or begin with a zero are text.
            let text = &rest[at..at + digits];
            let number = text.parse().ok().filter(|number: &u64| number.to_string() == text);
            let word = if number.is_some() { &rest[..at] } else { &rest[..at + digits] };
            if let Some(last) = words.last_mut() {
                last.push_str(word);
            }
            if let Some(number) = number {
                numbers.push(number);
                words.push(String::new());
            }
            rest = &rest[at + digits..];
        }
        if let Some(last) = words.last_mut() {
            last.push_str(rest);
        }
        Self { words, numbers, run: None, count: 1 }
    }

    /// Number of merged lines.
    pub(crate) fn findings(&self) -> u64 {
        self.count
    }

    /// The line.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (at, word) in self.words.iter().enumerate() {
            text.push_str(word);
            let Some(number) = self.numbers.get(at) else { continue };
            match self.run {
                Some((of, last)) if of == at => text.push_str(&format!("{number}..={last}")),
                _ => text.push_str(&number.to_string()),
            }
        }
        text
    }

    /// Merges the next line, if it continues the range.
    fn extend(&mut self, next: &Self) -> bool {
        if self.words != next.words {
            return false;
        }
        let mut differing =
            (0..self.numbers.len()).filter(|at| self.numbers[*at] != next.numbers[*at]);
        let (Some(at), None) = (differing.next(), differing.next()) else { return false };
        let last = match self.run {
            None => self.numbers[at],
            Some((of, last)) if of == at => last,
            Some(_) => return false,
        };
        if last.checked_add(1) != Some(next.numbers[at]) {
            return false;
        }
        self.run = Some((at, next.numbers[at]));
        self.count += 1;
        true
    }
}

/// Merges consecutive lines into ranges.
pub(crate) fn ranges(lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut kept: Vec<Line> = Vec::new();
    for line in lines {
        if !kept.last_mut().is_some_and(|last| last.extend(&line)) {
            kept.push(line);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Vec<String> {
        ranges(lines.iter().map(|line| Line::new(line, 2))).iter().map(Line::text).collect()
    }

    #[test]
    fn what_counts_up_is_one_line() {
        let lines =
            ["d0, block 7: bad", "d0, block 8: bad", "d0, block 9: bad", "d0, block 11: bad"];
        assert_eq!(told(&lines), ["d0, block 7..=9: bad", "d0, block 11: bad"]);
    }

    #[test]
    fn what_differs_otherwise_is_not() {
        for lines in [
            ["d0, block 7: bad", "d1, block 8: bad"],
            ["d0, block 7: bad", "d0, block 8: worse"],
            ["d0, zone 1, block 7", "d0, zone 2, block 8"],
            ["d0, 07", "d0, 08"],
            ["d0, 99999999999999999999", "d0, 99999999999999999999"],
        ] {
            assert_eq!(told(&lines), lines);
        }
        assert_eq!(
            told(&["d0, 1 of 5", "d0, 2 of 5", "d0, 2 of 6"]),
            ["d0, 1..=2 of 5", "d0, 2 of 6"]
        );
    }
}
