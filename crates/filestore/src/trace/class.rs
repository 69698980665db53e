//! Classes of files.

/// What a file is to RocksDB, by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Any other file.
    #[default]
    Other = 0,
    /// A write-ahead log: `*.log`.
    Log = 1,
    /// A table: `*.sst`.
    Table = 2,
    /// A list of tables: `MANIFEST-*`.
    Manifest = 3,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::Other, Self::Log, Self::Table, Self::Manifest];

    /// The class of a name in a directory.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name.rsplit_once('.') {
            Some((_, "log")) => Self::Log,
            Some((_, "sst")) => Self::Table,
            _ if name.starts_with("MANIFEST-") => Self::Manifest,
            _ => Self::Other,
        }
    }

    /// Its name in listings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Log => "log",
            Self::Table => "table",
            Self::Manifest => "manifest",
        }
    }

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_names() {
        let names = ["000012.log", "000012.sst", "MANIFEST-000004", "LOG", "a.log.dbtmp"];
        let classes = names.map(Class::of);
        use Class::{Log, Manifest, Other, Table};
        assert_eq!(classes, [Log, Table, Manifest, Other, Other]);
        for class in Class::ALL {
            assert_eq!(Class::from_number(class as u8), Some(class));
        }
    }
}
