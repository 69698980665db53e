//! A machine, as its files describe it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The root of its files: a temporary directory in tests.
pub(super) struct Machine {
    root: PathBuf,
    /// Where programs are, below the root.
    programs: Vec<PathBuf>,
}

impl Machine {
    /// The one that this program runs on.
    pub(super) fn this() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::at(Path::new("/"), &path)
    }

    /// A machine with its files below a folder.
    pub(super) fn at(root: &Path, path: &OsStr) -> Self {
        // Programs of administrators are not on every user's path.
        let sbin = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        let programs = std::env::split_paths(path).chain(sbin).collect();
        Self { root: root.to_owned(), programs }
    }

    /// A file or folder by its absolute path.
    pub(super) fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// Whether there is something.
    pub(super) fn has(&self, absolute: &str) -> bool {
        self.path(absolute).exists()
    }

    /// The first line of a small file.
    pub(super) fn line(&self, absolute: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(absolute)).ok()?;
        Some(text.lines().next().unwrap_or("").trim().to_owned())
    }

    /// The names in a folder, sorted.
    pub(super) fn names(&self, absolute: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(absolute)) else { return Vec::new() };
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut names: Vec<_> = entries.flatten().map(name).collect();
        names.sort();
        names
    }

    /// The release of the kernel.
    pub(super) fn kernel(&self) -> Option<String> {
        self.line("/proc/sys/kernel/osrelease").filter(|line| !line.is_empty())
    }

    /// Whether there is a program of that name.
    pub(super) fn has_program(&self, name: &str) -> bool {
        let is_there = |folder: &PathBuf| {
            let absolute = folder.join(name);
            self.path(&absolute.to_string_lossy()).is_file()
        };
        self.programs.iter().any(is_there)
    }

    /// How a module of the kernel can be used.
    pub(super) fn module(&self, name: &str) -> Module {
        // Also there if it is built in and takes parameters.
        if self.has(&format!("/sys/module/{name}")) {
            return Module::Loaded;
        }
        let Some(kernel) = self.kernel() else { return Module::Absent };
        let modules = format!("/lib/modules/{kernel}");
        let lists = |list: &str| {
            let text = fs::read_to_string(self.path(&format!("{modules}/{list}")));
            let is_it = |line: &str| {
                let file = line.split(':').next().unwrap_or("").rsplit('/').next().unwrap_or("");
                file.split_once(".ko").is_some_and(|(stem, _)| stem == name)
            };
            text.is_ok_and(|text| text.lines().any(is_it))
        };
        match () {
            () if lists("modules.builtin") => Module::Loaded,
            () if lists("modules.dep") => Module::Loadable,
            () => Module::Absent,
        }
    }
}

/// How a module of the kernel can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Module {
    /// It is.
    Loaded,
    /// It has to be loaded.
    Loadable,
    /// The kernel was built without it, or it is in another package.
    Absent,
}
