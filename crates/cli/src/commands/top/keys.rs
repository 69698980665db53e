//! Keys from the bytes of a terminal.
//!
//! The reader of crossterm loops for ever at the end of the terminal, so that a closed window would
//! leave a busy process behind; and it would be a second thing that waits beside the signals.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Previous,
    Next,
    Map,
    Help,
    Quit,
}

/// Ctrl-C: a raw terminal makes no signal of it.
const CTRL_C: u8 = 3;

const ESCAPE: u8 = 0x1b;

/// Where the bytes of a key are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    /// Behind an escape.
    Escaped,
    /// In a sequence that a letter or `~` ends.
    Sequence,
}

/// The keys of standard input.
#[derive(Default)]
pub(super) struct Input {
    place: Place,
}

impl Input {
    /// The keys until now, after a wait for the first one.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) fn wait(&mut self, limit: Duration) -> io::Result<Vec<Key>> {
        let stdin = io::stdin();
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut waited, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; 256];
        match read(&stdin, &mut bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(self.keys(&bytes[..count])),
            Err(Errno::INTR | Errno::AGAIN) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        bytes.iter().filter_map(|byte| self.key(*byte)).collect()
    }

    fn key(&mut self, byte: u8) -> Option<Key> {
        let (place, key) = match (self.place, byte) {
            (_, ESCAPE) => (Place::Escaped, None),
            // `ESC O` is what arrows send to programs that asked for it.
            (Place::Escaped, b'[' | b'O') => (Place::Sequence, None),
            (Place::Sequence, b'A' | b'D') => (Place::Outside, Some(Key::Previous)),
            (Place::Sequence, b'B' | b'C') => (Place::Outside, Some(Key::Next)),
            (Place::Sequence, 0x40..=0x7e) => (Place::Outside, None),
            (Place::Sequence, _) => (Place::Sequence, None),
            (Place::Outside | Place::Escaped, byte) => (Place::Outside, letter(byte)),
        };
        self.place = place;
        key
    }
}

const fn letter(byte: u8) -> Option<Key> {
    Some(match byte {
        b'q' | b'Q' | CTRL_C => Key::Quit,
        b'z' | b'Z' => Key::Map,
        b'?' | b'h' => Key::Help,
        b'k' => Key::Previous,
        b'j' => Key::Next,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_from_bytes_however_they_arrive() {
        let bytes = b"\x1b[A\x1bOBz?\x1b[1;5C\x1b[3~x\x03";
        let keys = [Key::Previous, Key::Next, Key::Map, Key::Help, Key::Next, Key::Quit];
        assert_eq!(Input::default().keys(bytes), keys);
        let mut apart = Input::default();
        let one_by_one: Vec<_> = bytes.iter().flat_map(|byte| apart.keys(&[*byte])).collect();
        assert_eq!(one_by_one, keys);
    }

    /// A lone escape does not swallow the key behind it.
    #[test]
    fn an_escape_alone_is_no_key() {
        assert_eq!(Input::default().keys(b"\x1bq"), [Key::Quit]);
        assert_eq!(Input::default().keys(b"\x1b\x1b[B"), [Key::Next]);
    }
}
