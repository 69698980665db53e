//! Names in directories, and paths.

use std::borrow::Borrow;
use std::fmt;

/// Most bytes of a name.
pub const NAME_BYTES_MAX: usize = 255;

/// Most names of a path: a bound for resolving one, far above what databases use.
pub const PATH_NAMES_MAX: usize = 64;

/// The name of a file in its directory: 1 to 255 bytes of UTF-8, without `/` and NUL, and neither
/// `.` nor `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name(Box<str>);

impl Name {
    /// A name, if the text is one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_special = matches!(text, "" | "." | "..");
        let is_name = !is_special && text.len() <= NAME_BYTES_MAX && !text.contains(['/', '\0']);
        is_name.then(|| Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// The names of a path from the root. Empty parts and `.` are skipped, so that `/a//b/` is `a/b`;
/// there is no way up. `None` if a part is no name.
#[must_use]
pub(crate) fn split_path(path: &str) -> Option<Vec<Name>> {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    let names: Vec<Name> = parts.map(Name::new).collect::<Option<_>>()?;
    (names.len() <= PATH_NAMES_MAX).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_out_what_paths_are_made_of() {
        for bad in ["", ".", "..", "a/b", "a\0b", &"x".repeat(256)] {
            assert_eq!(Name::new(bad), None, "{bad:?}");
        }
        for good in ["...", "CURRENT", "000007.sst", "ä", &"x".repeat(255)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn paths_are_split_without_a_way_up() {
        let split = |path| {
            split_path(path).map(|names| names.iter().map(Name::to_string).collect::<Vec<_>>())
        };
        assert_eq!(split("/"), Some(vec![]));
        assert_eq!(split("//db/./a/"), Some(vec!["db".into(), "a".into()]));
        assert_eq!(split("db/../x"), None);
        assert_eq!(split(&"a/".repeat(65)), None);
    }
}
