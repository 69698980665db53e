//! Figures that show how well the tree is kept: sizes, hubs, assertions and prose.

use std::collections::BTreeMap;

use crate::prose::{Paragraph, paragraphs};
use crate::ratchets::{crowded_folders, part, prose};
use crate::{Circle, ImportGraph, Product, Repository, Token, Tokens};

/// A figure of the table: its name and its value.
pub type Row = (String, String);

/// Words that introduce a reason.
const REASONS: &[&str] = &["because", "since", "so that", "otherwise", "else", "would"];

/// Every figure of a repository.
#[must_use]
pub fn figures(repository: &Repository) -> Vec<Row> {
    let mut rows = circles(repository);
    rows.extend(hubs(repository));
    rows.extend(code(repository));
    rows.extend(comments(repository));
    rows.extend(documents(repository));
    rows.extend(folders(repository));
    rows
}

fn row(name: &str, value: impl ToString) -> Row {
    (name.to_owned(), value.to_string())
}

fn circles(repository: &Repository) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, root) in repository.crate_roots() {
        let graph = ImportGraph::read(repository, &root);
        let circles = Circle::all(&graph);
        let largest = circles.first().map_or(0, |circle| circle.files.len());
        let all: usize = circles.iter().map(|circle| circle.files.len()).sum();
        let files = graph.files().len();
        rows.push(row(
            &format!("{name}: files in the largest circle, in circles, all"),
            format!("{largest}, {all}, {files}"),
        ));
    }
    rows
}

fn products(repository: &Repository) -> impl Iterator<Item = (String, Product<'_>)> {
    let sources = repository.with_extension("rs").filter(|file| file.is_product_source());
    sources.map(|file| (part(file).expect("source belongs to a crate"), Product::of(&file.text)))
}

/// The structures of `raid` that everything goes through.
fn hubs(repository: &Repository) -> Vec<Row> {
    let raid: Vec<Product<'_>> = products(repository)
        .filter(|(part, _)| part == "raid")
        .map(|(_, product)| product)
        .collect();
    let sum = |pattern: &str| raid.iter().map(|product| product.count(pattern)).sum::<usize>();
    let methods: Vec<usize> = raid.iter().map(|product| methods(product, "State")).collect();
    let files = methods.iter().filter(|count| **count > 0).count();
    let mut rows = vec![
        row("raid: methods on `State`", methods.iter().sum::<usize>()),
        row("raid: files with `impl State`", files),
        row("raid: `pub(super)` and `pub(in ..)`", sum("pub(super)") + sum("pub(in")),
    ];
    for name in ["State", "Core", "Segment"] {
        let fields = raid.iter().find_map(|product| fields(product, name));
        let Some((fields, booleans)) = fields else { continue };
        rows.push(row(
            &format!("raid: fields of `{name}`, booleans"),
            format!("{fields}, {booleans}"),
        ));
    }
    rows
}

/// Functions in the inherent `impl` blocks of a type.
fn methods(product: &Product<'_>, name: &str) -> usize {
    let opening = [Token::Word("impl"), Token::Word(name), Token::Mark('{')];
    let starts = product.code.windows(3).enumerate().filter(|(_, window)| **window == opening);
    starts.map(|(at, _)| at_depth_one(&product.code[at + 2..], Token::Word("fn"))).sum()
}

/// Fields of a `struct`, and those that are `bool`.
fn fields(product: &Product<'_>, name: &str) -> Option<(usize, usize)> {
    let opening = [Token::Word("struct"), Token::Word(name), Token::Mark('{')];
    let start = product.code.windows(3).position(|window| window == opening)? + 2;
    let body = &product.code[start..crate::product::group_end(&product.code, start)];
    let boolean = Tokens::of(": bool").code;
    let booleans = body.windows(2).filter(|window| *window == boolean).count();
    Some((at_depth_one(body, Token::Mark(':')), booleans))
}

/// How often a token occurs in a group, but not in the groups within it.
fn at_depth_one(group: &[Token<'_>], wanted: Token<'_>) -> usize {
    let (mut depth, mut found) = (0, 0);
    for token in group {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        found += usize::from(depth == 1 && *token == wanted);
    }
    found
}

#[derive(Default)]
struct Code {
    lines: usize,
    asserts: usize,
    text_errors: usize,
    text_states: usize,
}

fn code(repository: &Repository) -> Vec<Row> {
    let mut crates: BTreeMap<String, Code> = BTreeMap::new();
    for (part, product) in products(repository) {
        for name in [part.as_str(), "all crates"] {
            let sum = crates.entry(name.to_owned()).or_default();
            sum.lines += product.code_lines;
            sum.asserts += product.asserts();
            sum.text_errors += product.text_errors();
            sum.text_states += product.text_states().len();
        }
    }
    let mut rows = Vec::new();
    for (name, sum) in crates {
        rows.push(row(&format!("{name}: lines of product code"), sum.lines));
        let rate = per_1000(sum.asserts, sum.lines);
        rows.push(row(&format!("{name}: asserts in 1,000 lines of code"), rate));
        let texts = sum.text_errors + sum.text_states;
        if texts > 0 {
            rows.push(row(&format!("{name}: errors and states that are texts"), texts));
        }
    }
    rows
}

fn per_1000(count: usize, all: usize) -> String {
    let tenths = (count * 10_000 + all / 2).checked_div(all).unwrap_or(0);
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn comments(repository: &Repository) -> Vec<Row> {
    let mut parts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let (mut lines, mut with_reason) = (0, 0);
    for file in repository.files() {
        let Some(part) = part(file) else { continue };
        for paragraph in prose(file) {
            for name in [part.as_str(), "all"] {
                let (vague, words) = parts.entry(name.to_owned()).or_default();
                *vague += paragraph.vague_words().len();
                *words += paragraph.words();
            }
        }
        if file.is_product_source() {
            let found = Tokens::of(&file.text).comments;
            lines += found.len();
            with_reason += found.iter().filter(|comment| has_reason(comment.text)).count();
        }
    }
    let rate = |(part, (vague, words)): (String, (usize, usize))| {
        row(&format!("{part}: vague words in 1,000"), per_1000(vague, words))
    };
    let mut rows: Vec<Row> = parts.into_iter().map(rate).collect();
    rows.push(row(
        "comment lines of products with a reason in 1,000",
        per_1000(with_reason, lines),
    ));
    rows
}

fn has_reason(comment: &str) -> bool {
    let words: Vec<&str> = comment.split(|c: char| !c.is_alphanumeric()).collect();
    let text = format!(" {} ", words.join(" ").to_lowercase());
    REASONS.iter().any(|reason| text.contains(&format!(" {reason} ")))
}

fn documents(repository: &Repository) -> Vec<Row> {
    let (mut all, mut long) = (0, 0);
    let mut rows = Vec::new();
    for file in repository.with_extension("md") {
        let found = paragraphs(&file.text);
        let sentences: Vec<&str> = found.iter().flat_map(Paragraph::sentences).collect();
        let over = sentences.iter().filter(|text| text.split_whitespace().count() > 40).count();
        all += sentences.len();
        long += over;
        if over > 0 {
            let name = format!("{}: sentences over 40 words, all", file.path);
            rows.push(row(&name, format!("{over}, {}", sentences.len())));
        }
    }
    rows.push(row("documents: sentences over 40 words, all", format!("{long}, {all}")));
    rows
}

/// Folders of source with too many files.
fn folders(repository: &Repository) -> Vec<Row> {
    let large = crowded_folders(repository).into_iter();
    large.map(|(folder, count)| row(&format!("{folder}: files in the folder"), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hubs_are_counted() {
        let repository = Repository::of(&[(
            "crates/raid/src/lib.rs",
            "struct State { pub(super) a: Vec<(u8, bool)>, b: bool, #[x(y: z)] c: crate::D }\n\
             impl State { fn a() { fn b() {} } pub fn c(self) {} }\nimpl Drop for State { fn d() {} }",
        )]);
        let rows = hubs(&repository);
        let value =
            |name: &str| rows.iter().find(|(found, _)| found == name).map(|(_, v)| v.clone());
        assert_eq!(value("raid: methods on `State`"), Some("2".to_owned()));
        assert_eq!(value("raid: files with `impl State`"), Some("1".to_owned()));
        assert_eq!(value("raid: fields of `State`, booleans"), Some("3, 1".to_owned()));
        assert_eq!(value("raid: `pub(super)` and `pub(in ..)`"), Some("1".to_owned()));
    }

    #[test]
    fn reasons_are_words() {
        assert!(has_reason("// Otherwise, it waits"));
        assert!(has_reason("/// x, so that y"));
        assert!(!has_reason("/// elsewhere"));
    }
}
