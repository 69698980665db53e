//! Paths of control sockets.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use zoneweave_linux::nbd::{Endpoint, Listener};
use zoneweave_raid::log::format::ArrayUuid;

use crate::drives::identity::FileIdentity;
use crate::error::CliError;

/// Extension of the sockets of file stores. Control sockets have another one.
const STORE: &str = "store";

/// Path of the control socket of an array.
pub(crate) fn socket_of(array: ArrayUuid) -> PathBuf {
    directory().join(format!("{array}.sock"))
}

/// The array of a control socket; `None` if the path is not that of one.
pub(crate) fn array_of(socket: &Path) -> Option<ArrayUuid> {
    let name = socket.file_stem()?.to_str()?;
    let digits: Vec<u8> = name.bytes().filter(|byte| *byte != b'-').collect();
    let mut uuid = [0; 16];
    for (byte, pair) in uuid.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    let array = ArrayUuid(uuid);
    // Any other spelling is not what a server makes.
    (array.to_string() == name).then_some(array)
}

/// Path of the socket of the file store on the zoned volume of an array.
pub(crate) fn store_socket_of_array(array: ArrayUuid) -> PathBuf {
    directory().join(format!("{array}.{STORE}"))
}

/// Path of the socket of the file store on a drive, if the drive is there.
pub(crate) fn store_socket_of_drive(drive: &Path) -> Option<PathBuf> {
    let identity = FileIdentity::at(drive)?;
    Some(directory().join(format!("{identity}.{STORE}")))
}

/// Listens at a socket of the runtime directory.
///
/// # Errors
/// If other users can enter that directory, or the socket is in use.
pub(crate) fn listen(socket: PathBuf) -> Result<Listener, CliError> {
    prepare(&socket)?;
    Ok(Listener::start(&Endpoint::Unix(socket))?)
}

/// The existing control sockets, including those of killed servers.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let mut sockets: Vec<_> = with_extension("sock").collect();
    sockets.sort();
    sockets
}

/// Whether there is a socket of a file store, perhaps of a killed server.
pub(crate) fn has_store_sockets() -> bool {
    with_extension(STORE).next().is_some()
}

/// Files of the runtime directory.
fn with_extension(extension: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory()).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(move |path| path.extension().is_some_and(|name| name == extension))
}

/// `$ZONEWEAVE_RUNTIME_DIR`; else `/run/zoneweave` for root; else below `$XDG_RUNTIME_DIR`; else a
/// temporary directory of the user.
fn directory() -> PathBuf {
    let variable =
        |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(chosen) = variable("ZONEWEAVE_RUNTIME_DIR") {
        return chosen;
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return PathBuf::from("/run/zoneweave");
    }
    match variable("XDG_RUNTIME_DIR") {
        Some(runtime) => runtime.join("zoneweave"),
        None => std::env::temp_dir().join(format!("zoneweave-{}", user.as_raw())),
    }
}

/// Creates the directory of a socket, and checks that only this user can enter it.
fn prepare(socket: &Path) -> Result<(), CliError> {
    let directory = socket.parent().unwrap_or(Path::new("."));
    let failed = |error| CliError::File {
        path: directory.to_owned(),
        action: "create the directory",
        error,
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    // With a link or directory of their own, other users could listen instead of this server.
    let found = fs::symlink_metadata(directory).map_err(failed)?;
    let problem = if !found.is_dir() {
        "is not a directory: set ZONEWEAVE_RUNTIME_DIR to one".to_owned()
    } else if found.uid() != rustix::process::geteuid().as_raw() {
        format!(
            "belongs to user {}: set ZONEWEAVE_RUNTIME_DIR to a directory of your own",
            found.uid()
        )
    } else if found.permissions().mode() & 0o077 != 0 {
        let mode = found.permissions().mode() & 0o777;
        format!("is accessible to other users (mode {mode:o}): run chmod 700 on it")
    } else {
        return Ok(());
    };
    Err(CliError::RuntimeDirectory { path: directory.to_owned(), problem })
}
