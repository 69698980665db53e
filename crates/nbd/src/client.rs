//! A minimal client: it selects an export and sends requests.
//!
//! It does without structured replies, so that every answer is a header of 16 bytes, followed by
//! the data of a successful read. It does not trust the server either, and checks its answers.

use bytes::{Buf, BufMut};
use thiserror::Error;

use crate::transmission::{Cookie, REQUEST_HEADER_BYTES};
use crate::wire::{
    GREETING_MAGIC, OPTION_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, command, handshake_flag,
    option,
};

/// The greeting of a server.
pub const GREETING_BYTES: usize = 18;
/// Its answer to [`ask_for`].
pub const EXPORT_BYTES: usize = 10;
/// The header of an answer.
pub const REPLY_HEADER_BYTES: usize = 16;

/// Why a server cannot be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ServerError {
    /// The server does not speak NBD.
    #[error("what answers is no NBD server")]
    NotNbd,
    /// The old handshake, obsolete since 2013.
    #[error("the NBD server knows no fixed newstyle handshake, which is as old as 2013")]
    OldStyle,
    /// An answer has another magic number.
    #[error("an answer of the NBD server starts with {found:#010x}")]
    BadReply {
        /// The first bytes of its greeting.
        found: u32,
    },
}

/// The request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Data.
    Read,
    /// That the data behind the request is written.
    Write,
    /// Disconnect: there is no answer.
    Disconnect,
}

/// The answer to a greeting, which selects the export of a name. A server without such an export
/// hangs up.
///
/// # Errors
/// If the greeting is not that of a server with the fixed newstyle handshake.
///
/// # Panics
/// If the name is longer than names are.
pub fn ask_for(greeting: &[u8; GREETING_BYTES], name: &str) -> Result<Vec<u8>, ServerError> {
    let mut greeting = &greeting[..];
    if (greeting.get_u64(), greeting.get_u64()) != (GREETING_MAGIC, OPTION_MAGIC) {
        return Err(ServerError::NotNbd);
    }
    let both = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
    if greeting.get_u16() & both != both {
        return Err(ServerError::OldStyle);
    }
    let mut bytes = Vec::new();
    bytes.put_u32(u32::from(both));
    bytes.put_u64(OPTION_MAGIC);
    bytes.put_u32(option::EXPORT_NAME);
    bytes.put_u32(u32::try_from(name.len()).expect("names are short"));
    bytes.put_slice(name.as_bytes());
    Ok(bytes)
}

/// The size of the export, in bytes.
#[must_use]
pub fn export_size(answer: &[u8; EXPORT_BYTES]) -> u64 {
    (&answer[..]).get_u64()
}

/// A request; the data of a write goes behind it.
#[must_use]
pub fn request(
    ask: Ask,
    cookie: Cookie,
    offset_bytes: u64,
    length_bytes: u32,
) -> [u8; REQUEST_HEADER_BYTES] {
    let mut bytes = [0; REQUEST_HEADER_BYTES];
    let mut fields = &mut bytes[..];
    fields.put_u32(REQUEST_MAGIC);
    fields.put_u16(0);
    fields.put_u16(match ask {
        Ask::Read => command::READ,
        Ask::Write => command::WRITE,
        Ask::Disconnect => command::DISCONNECT,
    });
    fields.put_u64(cookie.0);
    fields.put_u64(offset_bytes);
    fields.put_u32(length_bytes);
    bytes
}

/// Whose answer a header starts, and its error; zero is success.
///
/// # Errors
/// If it is no header of an answer.
pub fn reply(header: &[u8; REPLY_HEADER_BYTES]) -> Result<(Cookie, u32), ServerError> {
    let mut header = &header[..];
    let found = header.get_u32();
    if found != SIMPLE_REPLY_MAGIC {
        return Err(ServerError::BadReply { found });
    }
    let error = header.get_u32();
    Ok((Cookie(header.get_u64()), error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::BytesMut;

    use super::*;
    use crate::{
        BlockSizes, Command, ExportDescription, ExportList, Handshake, HandshakeStep,
        TransmissionFlags, simple_reply,
    };

    #[test]
    fn our_own_server_understands_it() {
        let export = ExportDescription {
            name: "vol0".to_owned(),
            description: String::new(),
            size_bytes: 1 << 30,
            flags: TransmissionFlags::NONE,
            block_sizes: BlockSizes::default(),
        };
        let exports = Arc::new(ExportList::new(vec![export]).unwrap());
        let asked = ask_for(&Handshake::greeting(), "vol0").unwrap();
        let mut output = BytesMut::new();
        let mut input = &asked[..];
        let step = Handshake::new(exports).advance(&mut input, &mut output).unwrap();
        let HandshakeStep::Ready(session) = step else { panic!("the export is there") };
        assert_eq!(export_size(output[..].try_into().unwrap()), 1 << 30);
        let header = request(Ask::Write, Cookie(7), 8192, 4096);
        let parsed = session.parse_request(&header).unwrap();
        assert_eq!((parsed.command, parsed.cookie), (Command::Write, Cookie(7)));
        assert_eq!((parsed.offset_bytes, parsed.length_bytes), (8192, 4096));
        assert_eq!(reply(&simple_reply(Cookie(7), None)), Ok((Cookie(7), 0)));
    }

    #[test]
    fn what_is_no_server_is_told() {
        assert_eq!(ask_for(b"SSH-2.0-OpenSSH_9.", ""), Err(ServerError::NotNbd));
        let old = *b"NBDMAGICIHAVEOPT\0\0";
        assert_eq!(ask_for(&old, ""), Err(ServerError::OldStyle));
        assert_eq!(reply(&[0; 16]), Err(ServerError::BadReply { found: 0 }));
    }
}
