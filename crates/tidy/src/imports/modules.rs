//! The modules of a crate: file, items, imports, and the paths in their code. Code under
//! `#[cfg(test)]` is left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::product::{group_end, test_item_end};
use crate::{Repository, Token, Tokens};

/// Index of a module in [`Modules`].
pub(super) type ModuleId = usize;

/// A path as code names it, split at `::`.
pub(super) type Path = Vec<String>;

/// One name that a `use` brings into a module.
#[derive(Debug)]
pub(super) struct Import {
    /// The name in this module; nothing for `*`.
    pub(super) name: Option<String>,
    /// The path that is imported.
    pub(super) path: Path,
    /// Whether it is `pub` to some extent.
    pub(super) is_re_export: bool,
}

/// A module, whether it is a file of its own or inline.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Path of the file from the root of the repository.
    pub(super) file: String,
    pub(super) parent: Option<ModuleId>,
    pub(super) children: BTreeMap<String, ModuleId>,
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths of two or more parts in code.
    pub(super) mentions: BTreeSet<Path>,
    /// Folder that its child files are in.
    folder: String,
}

/// Every module of a crate; the first is its root.
#[derive(Debug, Default)]
pub(super) struct Modules {
    pub(super) all: Vec<Module>,
    /// Macros with `#[macro_export]`, which are named from the root.
    pub(super) exported_macros: BTreeMap<String, ModuleId>,
}

impl Modules {
    /// Whether a module is within another, at any depth.
    pub(super) fn is_within(&self, inner: ModuleId, outer: ModuleId) -> bool {
        let mut above = self.all[inner].parent;
        while above.is_some_and(|module| module != outer) {
            above = above.and_then(|module| self.all[module].parent);
        }
        above.is_some()
    }

    /// Reads the tree below a `lib.rs` or `main.rs`.
    pub(super) fn read(repository: &Repository, root: &str) -> Self {
        let mut modules = Self::default();
        let (folder, _) = root.rsplit_once('/').expect("a root is in a folder");
        modules.add(None, root.to_owned(), folder.to_owned());
        modules.read_file(repository, 0);
        modules
    }

    fn add(&mut self, parent: Option<ModuleId>, file: String, folder: String) -> ModuleId {
        self.all.push(Module { file, parent, folder, ..Module::default() });
        self.all.len() - 1
    }

    fn read_file(&mut self, repository: &Repository, module: ModuleId) {
        let path = self.all[module].file.clone();
        let file = repository.file(&path).unwrap_or_else(|| panic!("{path} is a module"));
        let tokens = Tokens::of(&file.text);
        let mut reader = Reader { repository, modules: self, code: &tokens.code, at: 0 };
        reader.module(module, 0);
        assert_eq!(reader.at, tokens.code.len(), "{path} is read to its end");
    }

    /// The file of `mod name;`: `name.rs` or `name/mod.rs`, unless an attribute names another.
    fn child_file(
        &self,
        repository: &Repository,
        parent: ModuleId,
        name: &str,
        named: Option<&str>,
    ) -> Option<(String, String)> {
        let folder = &self.all[parent].folder;
        if let Some(named) = named {
            let own = self.all[parent].file.rsplit_once('/').map_or("", |(folder, _)| folder);
            let file = format!("{own}/{named}");
            let below = file.rsplit_once('/').map_or(own, |(folder, _)| folder).to_owned();
            return repository.file(&file).is_some().then_some((file, below));
        }
        let below = format!("{folder}/{name}");
        let files = [format!("{below}.rs"), format!("{below}/mod.rs")];
        let file = files.into_iter().find(|file| repository.file(file).is_some())?;
        Some((file, below))
    }
}

/// Words that begin the definition of an item, which its name follows.
const DEFINERS: &[&str] =
    &["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

struct Reader<'a, 'r> {
    repository: &'r Repository,
    modules: &'r mut Modules,
    code: &'a [Token<'a>],
    at: usize,
}

/// Attributes of the next item.
#[derive(Default)]
struct Attributes<'a> {
    is_exported: bool,
    path: Option<&'a str>,
}

impl<'a> Reader<'a, '_> {
    fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.code.get(self.at + ahead).copied()
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        match self.peek(ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    /// Reads to the end of the file or, below `depth` 0, past the brace that closes the module.
    fn module(&mut self, module: ModuleId, nesting: usize) {
        let mut depth = 0;
        let mut attributes = Attributes::default();
        while let Some(token) = self.peek(0) {
            match token {
                Token::Mark('#') => {
                    match test_item_end(self.code, self.at) {
                        Some(end) => self.at = end,
                        None => self.attribute(&mut attributes),
                    }
                    continue;
                }
                Token::Mark('{') => depth += 1,
                Token::Mark('}') if depth == 0 => {
                    assert!(nesting > 0, "a brace closes nothing");
                    self.at += 1;
                    return;
                }
                Token::Mark('}') => depth -= 1,
                Token::Word("pub") => {
                    self.visibility();
                    continue;
                }
                Token::Word("use") => {
                    let before = self.at.checked_sub(1).map(|at| self.code[at]);
                    let is_re_export =
                        matches!(before, Some(Token::Word("pub") | Token::Mark(')')));
                    let start = self.modules.all[module].imports.len();
                    self.at += 1;
                    self.import(module, &mut Vec::new());
                    for import in &mut self.modules.all[module].imports[start..] {
                        import.is_re_export = is_re_export;
                    }
                    attributes = Attributes::default();
                    continue;
                }
                Token::Word("mod") if depth == 0 => {
                    self.child(module, nesting, &attributes);
                    attributes = Attributes::default();
                    continue;
                }
                Token::Word(word) if DEFINERS.contains(&word) => {
                    if depth == 0 {
                        self.define(module, word, &attributes);
                    }
                    attributes = Attributes::default();
                }
                Token::Word(_) => {
                    self.mention(module);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        assert_eq!((depth, nesting), (0, 0), "braces match");
    }

    /// `pub`, `pub(super)`, `pub(in crate::log)`: the path in it imports nothing.
    fn visibility(&mut self) {
        self.at += 1;
        let is_scope = matches!(self.word(1), Some("super" | "crate" | "self" | "in"));
        if self.peek(0) == Some(Token::Mark('(')) && is_scope {
            self.at = group_end(self.code, self.at);
        }
    }

    fn attribute(&mut self, attributes: &mut Attributes<'a>) {
        self.at += 1;
        if self.peek(0) == Some(Token::Mark('!')) {
            self.at += 1;
        }
        let start = self.at;
        self.at = group_end(self.code, self.at);
        let inner = &self.code[start..self.at];
        let has = |at: usize, word: &str| inner.get(at) == Some(&Token::Word(word));
        attributes.is_exported |= has(1, "macro_export");
        if has(1, "path")
            && let Some(Token::Literal(path)) = inner.get(3)
        {
            attributes.path = Some(path.trim_matches('"'));
        }
    }

    fn define(&mut self, module: ModuleId, definer: &str, attributes: &Attributes<'a>) {
        let after_mark = usize::from(definer == "macro_rules");
        let Some(name) = self.word(1 + after_mark) else { return };
        // `const fn`, `static mut`: the name follows later, and is found there.
        let name = if name == "mut" { self.word(2).unwrap_or(name) } else { name };
        if DEFINERS.contains(&name) {
            return;
        }
        self.modules.all[module].items.insert(name.to_owned());
        if attributes.is_exported {
            self.modules.exported_macros.insert(name.to_owned(), module);
        }
    }

    /// `mod name;` or `mod name { .. }`.
    fn child(&mut self, parent: ModuleId, nesting: usize, attributes: &Attributes<'a>) {
        self.at += 1;
        let Some(name) = self.word(0) else { return };
        self.at += 1;
        let opening = self.peek(0);
        self.at += 1;
        if opening == Some(Token::Mark('{')) {
            let file = self.modules.all[parent].file.clone();
            let folder = format!("{}/{name}", self.modules.all[parent].folder);
            let child = self.modules.add(Some(parent), file, folder);
            self.modules.all[parent].children.insert(name.to_owned(), child);
            return self.module(child, nesting + 1);
        }
        let found = self.modules.child_file(self.repository, parent, name, attributes.path);
        // A module that a build script writes has no file here.
        if let Some((file, folder)) = found {
            let child = self.modules.add(Some(parent), file, folder);
            self.modules.all[parent].children.insert(name.to_owned(), child);
            self.modules.read_file(self.repository, child);
        }
    }

    /// One tree of a `use`, up to the `;`, `,` or `}` after it.
    fn import(&mut self, module: ModuleId, prefix: &mut Path) {
        let outer = prefix.len();
        while let Some(token) = self.peek(0) {
            match token {
                Token::Word("as") => {
                    let name = self.word(1).map(str::to_owned);
                    self.at += 2;
                    self.bind(module, name, prefix);
                    break;
                }
                Token::Word(word) => {
                    prefix.push(word.to_owned());
                    self.at += 1;
                    let goes_on =
                        matches!(self.peek(0), Some(Token::PathSeparator | Token::Word("as")));
                    if !goes_on {
                        self.bind(module, prefix.last().cloned(), prefix);
                        break;
                    }
                }
                Token::Mark('*') => {
                    self.at += 1;
                    self.bind(module, None, prefix);
                    break;
                }
                Token::Mark('{') => {
                    self.at += 1;
                    while self.peek(0).is_some_and(|token| token != Token::Mark('}')) {
                        self.import(module, prefix);
                        if self.peek(0) == Some(Token::Mark(',')) {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    break;
                }
                Token::PathSeparator => self.at += 1,
                _ => break,
            }
        }
        prefix.truncate(outer);
    }

    /// `a::{self}` is the import of `a`.
    fn bind(&mut self, module: ModuleId, name: Option<String>, path: &[String]) {
        let mut path = path.to_vec();
        let mut name = name;
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
            if name.as_deref() == Some("self") {
                name = path.last().cloned();
            }
        }
        self.modules.all[module].imports.push(Import { name, path, is_re_export: false });
    }

    /// A path in code. The parts of `x.a::<T>()` and of `<T as a::B>::c` that follow a type are
    /// none.
    fn mention(&mut self, module: ModuleId) {
        let before = self.at.checked_sub(1).map(|at| self.code[at]);
        let mut path = Vec::new();
        while let Some(word) = self.word(0) {
            path.push(word.to_owned());
            self.at += 1;
            if self.peek(0) != Some(Token::PathSeparator) || self.word(1).is_none() {
                break;
            }
            self.at += 1;
        }
        let is_rest = matches!(before, Some(Token::PathSeparator | Token::Mark('.')));
        if path.len() > 1 && !is_rest {
            self.modules.all[module].mentions.insert(path);
        }
    }
}
