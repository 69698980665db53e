//! Children that start as from a shell.
//!
//! A server blocks the signals that it reads from a descriptor, and a child inherits the mask: it
//! could not be ended by them. A child also inherits descriptors that others have passed to the
//! server without the flag that closes them, such as the memory of virtual machines.
//!
//! `posix_spawn` does both, and starts the child on the memory of its parent until the program is
//! loaded. `std::process::Command` starts children so too, but passes the mask on; with a closure
//! that changes it, it forks. A fork copies the page tables of the index, some 5 ms per GiB in
//! which writers of the memory wait. With strict accounting of memory, it fails where as much is
//! not free once more. A helper program that clears the mask would need a second program, or a verb
//! that nobody may use.
//!
//! Fault model: the program may be missing or no program, which the caller is told. What it does
//! later is no matter of this file.

use std::ffi::{CString, OsStr, OsString, c_char};
use std::io::{self, PipeWriter, pipe};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::null_mut;

use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitOptions, waitpid};

use super::result::check_number;
use super::signal::set_of;

/// The first descriptor behind the standard ones.
const FIRST: libc::c_int = 3;

/// A child in a process group of its own, without blocked signals, with standard input, output and
/// error alone. Its output and its errors go to the standard error of this process.
pub struct FreshChild {
    pid: Pid,
    input: Option<PipeWriter>,
}

impl FreshChild {
    /// Starts a program, which is looked for in PATH if its name has no slash, without arguments;
    /// `variables` are in its environment besides those of this process.
    ///
    /// # Errors
    /// If there is no such program, or it cannot be run.
    pub fn spawn(program: &OsStr, variables: &[(&str, OsString)]) -> io::Result<Self> {
        let (input, writer) = pipe()?;
        let mut actions = Actions::new()?;
        actions.copy(input.as_raw_fd(), libc::STDIN_FILENO)?;
        actions.copy(libc::STDERR_FILENO, libc::STDOUT_FILENO)?;
        actions.close_from(FIRST)?;
        let attributes = Attributes::as_from_a_shell()?;
        let program = CString::new(program.to_owned().into_vec())?;
        let environment = environment(variables)?;
        let mut words = [program.as_ptr().cast_mut(), null_mut()];
        let pointer = |text: &CString| text.as_ptr().cast_mut();
        let mut environment: Vec<*mut c_char> = environment.iter().map(pointer).collect();
        environment.push(null_mut());
        let mut pid = 0;
        // SAFETY: the actions and attributes are initialised; the words and the environment are
        // lists of C strings that end with a null pointer, and outlive the call, which changes
        // nothing of them.
        check_number(unsafe {
            libc::posix_spawnp(
                &raw mut pid,
                program.as_ptr(),
                actions.0.as_ptr(),
                attributes.0.as_ptr(),
                words.as_mut_ptr(),
                environment.as_mut_ptr(),
            )
        })?;
        let pid = Pid::from_raw(pid).expect("a child has a number");
        Ok(Self { pid, input: Some(writer) })
    }

    /// Its number, and that of its process group, until it was waited for.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The writer of its standard input.
    pub fn take_input(&mut self) -> Option<PipeWriter> {
        self.input.take()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Never for a child that was not waited for.
    pub fn wait(self) -> io::Result<ExitStatus> {
        let ended = retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty()))?;
        let (_, status) = ended.ok_or(io::ErrorKind::WouldBlock)?;
        Ok(ExitStatus::from_raw(status.as_raw()))
    }
}

/// The environment of this process with other values, as C strings.
fn environment(variables: &[(&str, OsString)]) -> io::Result<Vec<CString>> {
    let is_set = |name: &OsStr| variables.iter().any(|(set, _)| *set == name);
    let inherited = std::env::vars_os().filter(|(name, _)| !is_set(name));
    let set = variables.iter().map(|(name, value)| (OsString::from(name), value.clone()));
    let joined = inherited.chain(set).map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        CString::new(name.into_vec())
    });
    Ok(joined.collect::<Result<_, _>>()?)
}

/// Changes of descriptors in the child; boxed, as the C library may point into them.
struct Actions(Box<MaybeUninit<libc::posix_spawn_file_actions_t>>);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = Box::new(MaybeUninit::uninit());
        // SAFETY: the memory is valid for writing such actions; the call initialises them.
        check_number(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        Ok(Self(actions))
    }

    fn copy(&mut self, from: libc::c_int, to: libc::c_int) -> io::Result<()> {
        // SAFETY: the actions are initialised.
        check_number(unsafe {
            libc::posix_spawn_file_actions_adddup2(self.0.as_mut_ptr(), from, to)
        })
    }

    fn close_from(&mut self, first: libc::c_int) -> io::Result<()> {
        // SAFETY: the actions are initialised.
        check_number(unsafe {
            libc::posix_spawn_file_actions_addclosefrom_np(self.0.as_mut_ptr(), first)
        })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the actions are initialised, and not used again.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

/// Attributes of the child.
struct Attributes(Box<MaybeUninit<libc::posix_spawnattr_t>>);

impl Attributes {
    /// No blocked signals, a process group of its own, and the default for the signals that the
    /// runtime of Rust and this process ignore.
    fn as_from_a_shell() -> io::Result<Self> {
        let flags = libc::POSIX_SPAWN_SETSIGMASK
            | libc::POSIX_SPAWN_SETSIGDEF
            | libc::POSIX_SPAWN_SETPGROUP;
        let flags = libc::c_short::try_from(flags).expect("flags of the call fit its argument");
        let (none, ignored) = (set_of(&[])?, set_of(&[libc::SIGPIPE, libc::SIGXFSZ])?);
        let mut memory = Box::new(MaybeUninit::uninit());
        // SAFETY: the memory is valid for writing attributes; the call initialises them.
        check_number(unsafe { libc::posix_spawnattr_init(memory.as_mut_ptr()) })?;
        let mut attributes = Self(memory);
        let pointer = attributes.0.as_mut_ptr();
        // SAFETY: the attributes and the sets are initialised; the box keeps their place.
        unsafe {
            check_number(libc::posix_spawnattr_setsigmask(pointer, &raw const none))?;
            check_number(libc::posix_spawnattr_setsigdefault(pointer, &raw const ignored))?;
            check_number(libc::posix_spawnattr_setpgroup(pointer, 0))?;
            check_number(libc::posix_spawnattr_setflags(pointer, flags))?;
        }
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the attributes are initialised, and not used again.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::*;
    use crate::sys::signal::signal_descriptor;

    #[test]
    fn a_child_has_no_blocked_signals_and_no_descriptors_of_its_parent() {
        let _blocked = signal_descriptor(&[libc::SIGTERM, libc::SIGHUP]).unwrap();
        crate::survive_file_size_limit();
        let lent = File::open("/dev/null").unwrap();
        fcntl_setfd(&lent, FdFlags::empty()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (program, seen) = (folder.path().join("program"), folder.path().join("seen"));
        let script = format!(
            "#!/bin/sh\ncat > $SEEN\ngrep -E 'SigBlk|SigIgn' /proc/self/status >> $SEEN\n\
             test -e /proc/self/fd/{} && echo open >> $SEEN\nexit 7",
            lent.as_raw_fd()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let variables = [("SEEN", seen.clone().into_os_string())];
        let mut child = FreshChild::spawn(program.as_os_str(), &variables).unwrap();
        assert_eq!(rustix::process::getpgid(Some(child.pid())).unwrap(), child.pid());
        io::Write::write_all(&mut child.take_input().unwrap(), b"input\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7));
        let seen = fs::read_to_string(seen).unwrap();
        let words: Vec<_> = seen.split_whitespace().collect();
        assert_eq!(words[..3], ["input", "SigBlk:", "0000000000000000"]);
        assert_eq!((words[3], words.len()), ("SigIgn:", 5), "{seen}");
        let ignored = u64::from_str_radix(words[4], 16).unwrap();
        for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
            assert_eq!(ignored & (1 << (signal - 1)), 0, "{seen}");
        }
    }

    #[test]
    fn what_is_no_program_is_an_error_of_the_caller() {
        let missing = FreshChild::spawn(OsStr::new("/nonexistent/program"), &[]);
        assert_eq!(missing.err().unwrap().kind(), io::ErrorKind::NotFound);
        let folder = FreshChild::spawn(OsStr::new("/"), &[]);
        assert_eq!(folder.err().unwrap().kind(), io::ErrorKind::PermissionDenied);
    }
}
