//! Children that start as from a shell.
//!
//! A server blocks the signals that it reads from a descriptor, and a child inherits the mask: it
//! could not be ended by them. A child also inherits descriptors that others have passed to the
//! server without the flag that closes them, such as the memory of virtual machines.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::signal::set_of;

/// The first descriptor behind the standard ones.
const FIRST: libc::c_uint = 3;

/// Has children of this command start without blocked signals, and with standard input, output and
/// error alone.
///
/// The process is forked for that, which takes some 5 ms per GiB of its memory: this is for rare
/// events.
///
/// # Errors
/// Never with a working C library.
pub fn start_afresh(command: &mut Command) -> io::Result<()> {
    let none = set_of(&[])?;
    let prepare = move || {
        // SAFETY: `none` is an initialised signal set, and the old mask is not requested.
        match unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut())
        } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        // SAFETY: the call sets a flag of descriptors, which closes them when the program is
        // loaded. The descriptor by which a failure is reported has the flag anyway. A kernel
        // before 5.11 refuses it, and the child keeps what it inherits.
        let _refused = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                FIRST,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(prepare) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::*;
    use crate::sys::signal::signal_descriptor;

    #[test]
    fn a_child_has_no_blocked_signals_and_no_descriptors_of_its_parent() {
        let _blocked = signal_descriptor(&[libc::SIGTERM, libc::SIGHUP]).unwrap();
        let lent = File::open("/dev/null").unwrap();
        fcntl_setfd(&lent, FdFlags::empty()).unwrap();
        let descriptor = format!("/proc/self/fd/{}", lent.as_raw_fd());
        let script = format!("grep SigBlk /proc/self/status; test -e {descriptor} && echo open");
        let mut command = Command::new("sh");
        command.args(["-c", &script]);
        let seen =
            |command: &mut Command| String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(seen(&mut command).contains("open"), "it is inherited");
        start_afresh(&mut command).unwrap();
        let seen = seen(&mut command);
        assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["SigBlk:", "0000000000000000"]);
    }
}
