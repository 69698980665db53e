//! The files of the repository that git tracks or would add.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file that is text.
pub struct TextFile {
    /// Relative to the root, with `/` between the parts.
    pub path: String,
    /// Its contents.
    pub text: String,
}

impl TextFile {
    /// Whether the name ends in `.` and this.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Whether it is Rust source that may use `#[cfg(test)]` liberties only: tests, benches,
    /// examples.
    #[must_use]
    pub fn is_test_source(&self) -> bool {
        let parts: Vec<&str> = self.path.split('/').collect();
        parts.iter().any(|part| matches!(*part, "tests" | "tests.rs" | "benches" | "examples"))
    }

    /// Whether it is Rust source of a product: of a crate, and no test, bench or example.
    #[must_use]
    pub fn is_product_source(&self) -> bool {
        let is_source = self.path.starts_with("crates/") && self.path.contains("/src/");
        is_source && self.has_extension("rs") && !self.is_test_source()
    }

    /// The lines with their numbers, counted from one.
    pub fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The working tree that this crate is in.
pub struct Repository {
    root: PathBuf,
    files: Vec<TextFile>,
}

impl Repository {
    /// Reads every text file that git tracks or would add.
    ///
    /// # Panics
    /// If git does not answer.
    #[must_use]
    pub fn read() -> Self {
        Self::read_at(&Self::root_path())
    }

    /// As [`Self::read`], of another checkout.
    ///
    /// # Panics
    /// If git does not answer.
    #[must_use]
    pub fn read_at(root: &Path) -> Self {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "git ls-files failed: the laws need a git checkout");
        let listing = String::from_utf8(output.stdout).expect("paths are UTF-8");
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        let files = paths.iter().filter_map(|path| read_text(root, path)).collect();
        Self { root: root.to_owned(), files }
    }

    /// A repository of these files, for tests of its readers.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TextFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self { root: PathBuf::new(), files: files.iter().map(file).collect() }
    }

    /// Where the repository is, known from where this crate was compiled.
    ///
    /// # Panics
    /// If the crate is not two levels below the root.
    #[must_use]
    pub fn root_path() -> PathBuf {
        let crate_path = Path::new(env!("CARGO_MANIFEST_DIR"));
        crate_path.ancestors().nth(2).expect("crates/tidy is two levels down").to_owned()
    }

    /// Every text file, by path.
    #[must_use]
    pub fn files(&self) -> &[TextFile] {
        &self.files
    }

    /// The files with this extension.
    pub fn with_extension<'a>(&'a self, extension: &'a str) -> impl Iterator<Item = &'a TextFile> {
        self.files.iter().filter(move |file| file.has_extension(extension))
    }

    /// The file at a path, if there is one and it is text.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The name of every crate with the path of its `lib.rs` or `main.rs`. A crate is named by its
    /// folder; where it has both files, the second name ends in `-main`.
    #[must_use]
    pub fn crate_roots(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for manifest in self.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
            let folder = manifest.path.trim_end_matches("/Cargo.toml");
            let name = folder.trim_start_matches("crates/").replace('/', "-");
            let roots = ["lib", "main"].map(|stem| (stem, format!("{folder}/src/{stem}.rs")));
            for (stem, root) in roots.into_iter().filter(|(_, root)| self.file(root).is_some()) {
                let is_second = stem == "main" && self.file(&root.replace("main", "lib")).is_some();
                let suffix = if is_second { "-main" } else { "" };
                found.push((format!("{name}{suffix}"), root));
            }
        }
        found
    }

    /// Whether a file or folder is at a path relative to the root.
    #[must_use]
    pub fn has_path(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }
}

/// Binary files, and files that are deleted but still in git's index, are none of ours.
fn read_text(root: &Path, path: &str) -> Option<TextFile> {
    let bytes = std::fs::read(root.join(path)).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then(|| TextFile { path: path.to_owned(), text })
}
