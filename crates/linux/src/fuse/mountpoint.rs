//! The file on which a device is mounted.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::error::FuseError;

/// How mounts of ours begin in lists of them.
pub(super) const SOURCE: &str = "zoneweave:";

/// Where to mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Without links, as lists of mounts have it.
    pub(super) path: PathBuf,
    /// Whether a dead mount was cleared away.
    pub(super) cleared: bool,
    /// Whether the file was created.
    pub(super) created: bool,
}

/// Looks whether something may be mounted there; the file need not be there.
pub(super) fn look(path: &Path) -> Result<Found, FuseError> {
    let failed = |action, error| FuseError::Mountpoint { path: path.to_owned(), action, error };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().map_err(|error| failed("find its folder", error))?;
    let name = path.file_name().ok_or_else(|| FuseError::NotAFile { path: path.to_owned() })?;
    let path = folder.join(name);
    let dead = fs::metadata(&path).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
    if let Some(holder) = mounted_at(&path)
        && !(dead && holder.starts_with(SOURCE))
    {
        return Err(FuseError::InUse { path, holder });
    }
    match fs::metadata(&path) {
        Ok(found) if !found.is_file() => Err(FuseError::NotAFile { path }),
        Ok(found) if found.len() > 0 => Err(FuseError::NotEmpty { path, bytes: found.len() }),
        // Unreadable: creating the file reports the reason.
        _ => Ok(Found { path, cleared: dead, created: false }),
    }
}

/// Makes a file ready to be mounted on.
pub(super) fn prepare(path: &Path) -> Result<Found, FuseError> {
    let Found { path, cleared, .. } = look(path)?;
    if cleared {
        detach(&path);
    }
    let failed = |action, error| FuseError::Mountpoint { path: path.clone(), action, error };
    let created = fs::symlink_metadata(&path).is_err();
    let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => FuseError::NotAFile { path: path.clone() },
        _ => failed("create the file", error),
    })?;
    let path = path.canonicalize().map_err(|error| failed("find it", error))?;
    if !path.is_file() {
        return Err(FuseError::NotAFile { path });
    }
    Ok(Found { path, cleared, created })
}

/// Removes the empty file that was created to mount on.
pub(super) fn remove(path: &Path) {
    if fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        // A file that stays is empty, and does not hinder the next mount.
        let _ = fs::remove_file(path);
    }
}

/// Unmounts a path lazily, even if it is in use or dead. The next use of the path shows whether
/// that worked.
pub(super) fn detach(path: &Path) {
    if unmount(path, UnmountFlags::DETACH) == Err(Errno::PERM) {
        // Users other than root unmount through fusermount3.
        let mut program = Command::new("fusermount3");
        program.args(["-u", "-q", "-z", "--"]).arg(path);
        let _ = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// The topmost mount at a path.
fn mounted_at(path: &Path) -> Option<String> {
    let list = fs::read("/proc/self/mountinfo").ok()?;
    source_at(&list, path)
}

fn source_at(list: &[u8], path: &Path) -> Option<String> {
    let mut found = None;
    for line in list.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ');
        // Behind a hyphen come the kind of file system and its source.
        let place = fields.nth(4).map(unescaped);
        let source = fields.skip_while(|field| *field != b"-").nth(2).map(unescaped);
        if place.as_deref() == Some(path.as_os_str().as_bytes()) {
            found = Some(String::from_utf8_lossy(&source.unwrap_or_default()).into_owned());
        }
    }
    found
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut rest, mut plain) = (field, Vec::with_capacity(field.len()));
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.first_chunk::<3>().filter(|_| *first == b'\\');
        let byte = digits.and_then(|digits| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        });
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[3..] } else { behind };
    }
    std::ffi::OsString::from_vec(plain).into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_in_the_kernels_list() {
        let list = b"22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n\
            40 1 0:50 / /a\\040b/v\\134 rw - fuse zoneweave:x\\040y rw,user_id=0\n\
            41 1 0:51 / /twice rw master:1 shared:2 - fuse first rw\n42 1 0:52 / /twice rw - fuse second rw\n\
            43 1 0:53 / /cut\n";
        let at = |path: &str| source_at(list, Path::new(path));
        assert_eq!(at("/a b/v\\").as_deref(), Some("zoneweave:x y"));
        assert_eq!(at("/twice").as_deref(), Some("second"));
        assert_eq!(at("/cut").as_deref(), Some(""));
        assert_eq!(at("/a"), None);
    }

    #[test]
    fn a_file_is_made_and_anything_else_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vol");
        let found = prepare(&path).unwrap();
        let made = Found { path: path.canonicalize().unwrap(), cleared: false, created: true };
        assert_eq!(found, made);
        let other = folder.path().join("other");
        assert!(look(&other).is_ok() && !other.exists(), "looking makes nothing");
        assert!(prepare(&path).is_ok_and(|found| !found.created));
        assert!(matches!(prepare(folder.path()), Err(FuseError::NotAFile { .. })));
        fs::write(&other, "precious").unwrap();
        assert!(matches!(prepare(&other), Err(FuseError::NotEmpty { bytes: 8, .. })));
        let nowhere = prepare(Path::new("/no-such/folder/vol")).unwrap_err().to_string();
        assert!(nowhere.contains("folder"), "{nowhere}");
        let source = prepare(Path::new("/proc/self/../../proc")).unwrap_err().to_string();
        assert!(source.contains("proc is mounted at /proc"), "{source}");
    }
}
