//! The user at the other end of a unix socket.

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};

/// The user at the other end of a unix socket, if it is neither ours nor root; then its messages
/// must not be trusted.
///
/// On a connecting socket this is the listening user, whoever owns the socket's directory.
///
/// # Errors
/// If the peer is gone already.
pub fn stranger_at(socket: impl AsFd) -> io::Result<Option<u32>> {
    let peer = socket_peercred(socket)?.uid;
    Ok(is_stranger(peer, geteuid()).then(|| peer.as_raw()))
}

fn is_stranger(peer: Uid, own: Uid) -> bool {
    peer != own && !peer.is_root()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn who_is_neither_this_user_nor_root_is_a_stranger() {
        let [one, other] = [1000, 1001].map(Uid::from_raw);
        assert!(!is_stranger(one, one) && !is_stranger(Uid::ROOT, one));
        assert!(is_stranger(other, one) && is_stranger(one, Uid::ROOT));
        let (near, _far) = UnixStream::pair().unwrap();
        assert_eq!(stranger_at(&near).unwrap(), None);
    }
}
