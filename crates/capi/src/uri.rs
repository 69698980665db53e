//! The name of a store: `zoneweave://DRIVE[,DRIVE...][?OPTION=VALUE[&OPTION=VALUE...]]`, or
//! `zoneweave://unix:SOCKET` for a store that is served.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::str::FromStr;

use zoneweave_filestore::{OpenOptions, policy};
use zoneweave_zoned::{BLOCK_BYTES, BlockCount};

use zoneweave_store::{Failure, Target};

const SCHEME: &str = "zoneweave://";

/// The options that there are, for messages.
const OPTIONS: &str = "policy=lifetime|sequential|least-worn|dual-pool|wear-aware, buffer=BYTES, \
                       active_zones=N, max_writers=N, trace=FILE, trace_reads=1";

/// Most bytes of a buffer: each file that is written has one.
const BUFFER_BYTES_MAX: u64 = 64 << 20;

/// Where a store is, and how it is opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoreUri {
    pub(crate) target: Target,
    policy: Option<String>,
    buffer: Option<BlockCount>,
    active_zones: Option<u32>,
    max_writers: Option<usize>,
    /// The file to record events to.
    pub(crate) trace: Option<PathBuf>,
    /// Whether reads are recorded, too.
    pub(crate) has_reads: bool,
}

impl StoreUri {
    /// Reads a URI.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| {
            let forms = "DRIVE[,DRIVE...][?OPTION=VALUE] or zoneweave://unix:SOCKET";
            Failure::invalid(format!("{text}: a store is {SCHEME}{forms}"))
        })?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self {
            target: target(place)?,
            policy: None,
            buffer: None,
            active_zones: None,
            max_writers: None,
            trace: None,
            has_reads: false,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            uri.set(option)?;
        }
        if uri.has_reads && uri.trace.is_none() {
            return Err(Failure::invalid("trace_reads=1 is for a store with trace=FILE"));
        }
        if matches!(uri.target, Target::Socket(_)) && !options.is_empty() {
            let message = "a store that is served has the options of its server: leave them out";
            return Err(Failure::invalid(message));
        }
        Ok(uri)
    }

    fn set(&mut self, option: &str) -> Result<(), Failure> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "policy" if policy::by_name(value).is_some() => self.policy = Some(value.to_owned()),
            "buffer" => self.buffer = Some(buffer(value).ok_or_else(|| bad(name, value))?),
            "active_zones" => self.active_zones = Some(number(name, value)?),
            "max_writers" => self.max_writers = Some(number(name, value)?),
            "trace" if !value.is_empty() => self.trace = Some(decoded(value)?),
            "trace_reads" if value == "1" => self.has_reads = true,
            "policy" | "trace" | "trace_reads" => return Err(bad(name, value)),
            _ => {
                let message = format!("unknown option {name:?} of a store: use {OPTIONS}");
                return Err(Failure::invalid(message));
            }
        }
        Ok(())
    }

    /// The options to open the store with.
    pub(crate) fn options(&self) -> Result<OpenOptions, Failure> {
        let mut options = OpenOptions::default();
        if let Some(name) = &self.policy {
            options.policy = policy::by_name(name).ok_or_else(|| bad("policy", name))?;
        }
        options.buffer = self.buffer.unwrap_or(options.buffer);
        options.active_zones = self.active_zones.or(options.active_zones);
        options.max_writers = self.max_writers.unwrap_or(options.max_writers);
        Ok(options)
    }
}

/// The place in front of the options.
fn target(place: &str) -> Result<Target, Failure> {
    let decode = |path: &PathBuf| decoded(path.to_str().unwrap_or_default());
    // Commas in paths are written as %2C, so that the list is split first.
    match Target::of(OsStr::new(place)) {
        Target::Drives(drives) => {
            Ok(Target::Drives(drives.iter().map(decode).collect::<Result<_, _>>()?))
        }
        Target::Socket(path) if path.as_os_str().is_empty() => {
            Err(Failure::invalid("a socket without a path"))
        }
        Target::Socket(path) => Ok(Target::Socket(decode(&path)?)),
    }
}

fn bad(name: &str, value: &str) -> Failure {
    Failure::invalid(format!("{value:?} is no value of option {name:?} of a store: use {OPTIONS}"))
}

/// A number above zero.
fn number<T: FromStr + Default + PartialOrd>(name: &str, value: &str) -> Result<T, Failure> {
    let number = value.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| bad(name, value))
}

/// A size of whole blocks, such as 65536, 64K or 1M.
fn buffer(value: &str) -> Option<BlockCount> {
    let digits = value.trim_end_matches(['K', 'M']);
    let unit = match &value[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    let fits = bytes > 0 && bytes <= BUFFER_BYTES_MAX && bytes.is_multiple_of(BLOCK_BYTES as u64);
    fits.then(|| u32::try_from(bytes / BLOCK_BYTES as u64).ok().map(BlockCount)).flatten()
}

/// A path with its %XX replaced by bytes.
fn decoded(text: &str) -> Result<PathBuf, Failure> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let wrong = || Failure::invalid(format!("{text}: write % in a path as %25"));
        bytes.push(byte.filter(|byte| *byte != 0).ok_or_else(wrong)?);
        rest = &rest[2..];
    }
    Ok(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drives(text: &str) -> Vec<PathBuf> {
        match StoreUri::parse(text).unwrap().target {
            Target::Drives(drives) => drives,
            Target::Socket(path) => panic!("{} is a socket", path.display()),
        }
    }

    #[test]
    fn drives_and_options_are_read() {
        assert_eq!(drives("zoneweave:///d/0"), [PathBuf::from("/d/0")]);
        assert_eq!(drives("zoneweave://0,/1?"), [PathBuf::from("0"), PathBuf::from("/1")]);
        assert_eq!(drives("zoneweave:///a%2Cb%3f"), [PathBuf::from("/a,b?")]);
        let text = "zoneweave:///d?policy=sequential&buffer=64K&active_zones=3&max_writers=9";
        let options = StoreUri::parse(text).unwrap().options().unwrap();
        assert_eq!(options.policy.name(), "sequential");
        assert_eq!((options.buffer, options.active_zones), (BlockCount(16), Some(3)));
        assert_eq!(options.max_writers, 9);
    }

    #[test]
    fn traces_are_files() {
        let uri = StoreUri::parse("zoneweave:///d?trace=/t/a%26b&trace_reads=1").unwrap();
        assert_eq!((uri.trace, uri.has_reads), (Some(PathBuf::from("/t/a&b")), true));
        let uri = StoreUri::parse("zoneweave:///d").unwrap();
        assert_eq!((uri.trace, uri.has_reads), (None, false));
    }

    #[test]
    fn sockets_are_told_from_drives() {
        let target = StoreUri::parse("zoneweave://unix:/run/s%20t").unwrap().target;
        assert_eq!(target, Target::Socket("/run/s t".into()));
        assert_eq!(drives("zoneweave://./unix:a"), [PathBuf::from("./unix:a")]);
        for wrong in ["zoneweave://unix:", "zoneweave://unix:/s?policy=sequential"] {
            assert!(StoreUri::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, name) in [
            ("/d", "zoneweave://"),
            ("zoneweave:///d?colour=red", "colour"),
            ("zoneweave:///d?policy=none", "none"),
            ("zoneweave:///d?buffer=1000", "1000"),
            ("zoneweave:///d?buffer=1MK", "1MK"),
            ("zoneweave:///d?buffer=99999999999M", "buffer"),
            ("zoneweave:///d?active_zones=0", "active_zones"),
            ("zoneweave:///d?max_writers", "max_writers"),
            ("zoneweave:///d?trace=", "trace"),
            ("zoneweave:///d?trace=t&trace_reads=yes", "yes"),
            ("zoneweave:///d?trace_reads=1", "trace=FILE"),
            ("zoneweave:///100%", "%25"),
            ("zoneweave:///%00", "%25"),
            ("zoneweave:///%+1", "%25"),
        ] {
            let message = StoreUri::parse(text).unwrap_err().message;
            assert!(message.contains(name), "{text}: {message}");
        }
    }
}
