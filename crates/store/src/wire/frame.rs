//! Frames: `u32 message bytes | u32 data bytes | u64 tag`, little-endian, then message and data.

use bytes::Bytes;
use serde::Serialize;
use thiserror::Error;

use super::{DATA_BYTES_MAX, MESSAGE_BYTES_MAX};

/// Bytes of the header of a frame.
pub(crate) const FRAME_HEADER_BYTES: usize = 16;

/// The header of a frame within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) message_bytes: usize,
    pub(crate) data_bytes: usize,
    pub(crate) tag: u64,
}

/// Why a frame is refused.
#[derive(Debug, Error)]
pub(crate) enum FrameError {
    /// A part is longer than it may be.
    #[error("a frame of {message_bytes} bytes of message and {data_bytes} bytes of data")]
    TooLong {
        /// Announced.
        message_bytes: u32,
        /// Announced.
        data_bytes: u32,
    },
    /// The message is not of this protocol.
    #[error("a message that cannot be understood: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl FrameHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]: the stream cannot be followed from there on.
    pub(crate) fn parse(bytes: [u8; FRAME_HEADER_BYTES]) -> Result<Self, FrameError> {
        let [a, b, c, d, e, f, g, h, tag @ ..] = bytes;
        let message_bytes = u32::from_le_bytes([a, b, c, d]);
        let data_bytes = u32::from_le_bytes([e, f, g, h]);
        let within = |bytes: u32, most: usize| usize::try_from(bytes).ok().filter(|b| *b <= most);
        let parts =
            within(message_bytes, MESSAGE_BYTES_MAX).zip(within(data_bytes, DATA_BYTES_MAX));
        let (message, data) = parts.ok_or(FrameError::TooLong { message_bytes, data_bytes })?;
        Ok(Self { message_bytes: message, data_bytes: data, tag: u64::from_le_bytes(tag) })
    }
}

/// The JSON of a message.
///
/// # Errors
/// Its length, if that is more than a frame takes.
pub(crate) fn encode(message: &impl Serialize) -> Result<Vec<u8>, usize> {
    let message = serde_json::to_vec(message).expect("messages have no maps and no failing parts");
    match message.len() {
        ..=MESSAGE_BYTES_MAX => Ok(message),
        longer => Err(longer),
    }
}

/// A frame, in pieces.
///
/// # Panics
/// If a part is longer than it may be: requests are encoded before, and replies are short.
pub(crate) fn frame(tag: u64, message: &impl Serialize, data: Bytes) -> Vec<Bytes> {
    let message = encode(message).unwrap_or_else(|bytes| panic!("a message of {bytes} bytes"));
    framed(tag, &message, data)
}

/// As [`frame`], of an encoded message.
pub(crate) fn framed(tag: u64, message: &[u8], data: Bytes) -> Vec<Bytes> {
    assert!(message.len() <= MESSAGE_BYTES_MAX, "a message of {} bytes", message.len());
    assert!(data.len() <= DATA_BYTES_MAX, "{} bytes of data in a frame", data.len());
    let size = |bytes: usize| u32::try_from(bytes).expect("below its limit").to_le_bytes();
    let mut head = Vec::with_capacity(FRAME_HEADER_BYTES + message.len());
    head.extend_from_slice(&size(message.len()));
    head.extend_from_slice(&size(data.len()));
    head.extend_from_slice(&tag.to_le_bytes());
    head.extend_from_slice(message);
    vec![head.into(), data]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_made() {
        let pieces = frame(7, &"word", Bytes::from_static(b"data"));
        let header = FrameHeader::parse(pieces[0][..FRAME_HEADER_BYTES].try_into().unwrap());
        let expected = FrameHeader { message_bytes: 6, data_bytes: 4, tag: 7 };
        assert_eq!(header.unwrap(), expected);
        assert_eq!(&pieces[0][FRAME_HEADER_BYTES..], b"\"word\"");
    }

    #[test]
    fn long_parts_are_refused() {
        let header = |message: usize, data: usize| {
            let mut bytes = [0; FRAME_HEADER_BYTES];
            bytes[..4].copy_from_slice(&u32::try_from(message).unwrap().to_le_bytes());
            bytes[4..8].copy_from_slice(&u32::try_from(data).unwrap().to_le_bytes());
            FrameHeader::parse(bytes)
        };
        assert!(header(MESSAGE_BYTES_MAX, DATA_BYTES_MAX).is_ok());
        assert!(header(MESSAGE_BYTES_MAX + 1, 0).is_err());
        assert!(header(0, DATA_BYTES_MAX + 1).is_err());
        assert!(FrameHeader::parse([0xff; FRAME_HEADER_BYTES]).is_err());
    }
}
