//! Lines of a stream of bytes, and fields of lines.

use super::TraceError;

/// Several times the longest line of such traces.
pub(super) const LINE_BYTES_MAX: usize = 512;

/// Assembles pieces into lines. It keeps at most one line.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    /// Whether the kept line was returned.
    complete: bool,
    /// Lines returned so far.
    count: u64,
}

impl Lines {
    /// The next line and its number, if `input` contains its end; the consumed bytes are removed
    /// from `input`.
    pub(super) fn next(&mut self, input: &mut &[u8]) -> Result<Option<(u64, &[u8])>, TraceError> {
        if self.complete {
            self.line.clear();
            self.complete = false;
        }
        let end = input.iter().position(|byte| *byte == b'\n');
        let part = &input[..end.unwrap_or(input.len())];
        if self.line.len() + part.len() > LINE_BYTES_MAX {
            return Err(TraceError::LineTooLong { line: self.count + 1 });
        }
        self.line.extend_from_slice(part);
        *input = &input[end.map_or(input.len(), |end| end + 1)..];
        Ok(end.map(|_| self.hand_over()))
    }

    /// The rest after the last end of a line, if any.
    pub(super) fn finish(&mut self) -> Option<(u64, &[u8])> {
        let left = !self.complete && !self.line.trim_ascii().is_empty();
        left.then(|| self.hand_over())
    }

    fn hand_over(&mut self) -> (u64, &[u8]) {
        self.count += 1;
        self.complete = true;
        (self.count, self.line.trim_ascii())
    }
}

/// The fields of a line, which must have so many.
pub(super) fn fields<const N: usize>(line: u64, text: &[u8]) -> Result<[&[u8]; N], TraceError> {
    let mut fields = [&text[..0]; N];
    let mut found = 0;
    for part in text.split(|byte| *byte == b',') {
        if let Some(field) = fields.get_mut(found) {
            *field = part.trim_ascii();
        }
        found += 1;
    }
    if found == N { Ok(fields) } else { Err(TraceError::Fields { line, needed: N, found }) }
}

/// A decimal number without other characters.
pub(super) fn number(line: u64, field: &'static str, text: &[u8]) -> Result<u64, TraceError> {
    let digit = |value: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    let value = if text.is_empty() { None } else { text.iter().try_fold(0, digit) };
    value.ok_or(TraceError::Number { line, field })
}

/// A number for a device by its name, which may have several parts: FNV-1a, the same everywhere.
/// The last letter changes few bits, so a final step mixes all of them as `MurmurHash3` does. So
/// neighbouring devices begin far apart on any volume.
pub(super) fn device(name: &[&[u8]]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let bytes = name.iter().flat_map(|part| part.iter().chain(b","));
    let spread = |hash: u64, by: u64| (hash ^ (hash >> 33)).wrapping_mul(by);
    let hash = spread(bytes.fold(0xcbf2_9ce4_8422_2325, mix), 0xff51_afd7_ed55_8ccd);
    let hash = spread(hash, 0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_next_to_each_other_begin_far_apart() {
        let volume_blocks = 1 << 26;
        let place = |disk: &[u8]| device(&[b"src1", disk]) % volume_blocks;
        let mut places: Vec<_> = (b'0'..=b'9').map(|disk| place(&[disk])).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > 1 << 16), "{places:?}");
        assert_ne!(device(&[b"a", b"bc"]), device(&[b"ab", b"c"]));
    }
}
