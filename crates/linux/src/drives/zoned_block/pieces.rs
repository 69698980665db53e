//! Data as the kernel hands it to disks.

use bytes::Bytes;
use zoneweave_zoned::{AlignedBuffer, BLOCK_BYTES, BlockCount};

/// Data as disks take it: in pieces that begin at page boundaries. Unaligned data is copied.
pub(super) fn aligned(mut data: Vec<Bytes>) -> Vec<Bytes> {
    data.retain(|piece| !piece.is_empty());
    if data.iter().all(|piece| piece.as_ptr().addr().is_multiple_of(BLOCK_BYTES)) {
        return data;
    }
    let bytes = data.iter().map(Bytes::len).sum();
    let mut buffer = AlignedBuffer::unfilled(BlockCount::of_data_bytes(bytes));
    let mut rest = buffer.as_mut();
    for piece in data {
        let (now, later) = rest.split_at_mut(piece.len());
        now.copy_from_slice(&piece);
        rest = later;
    }
    vec![buffer.freeze()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_copied_only_if_it_begins_within_a_page() {
        let mut buffer = AlignedBuffer::zeroed(BlockCount(4));
        buffer.as_mut()[1] = 7;
        buffer.as_mut()[BLOCK_BYTES + 1] = 9;
        let whole = buffer.freeze();
        let fits = vec![whole.slice(BLOCK_BYTES..), Bytes::new(), whole.slice(..BLOCK_BYTES)];
        let kept = aligned(fits);
        assert_eq!(kept.len(), 2);
        assert_eq!(kept[0].as_ptr(), whole[BLOCK_BYTES..].as_ptr());
        let odd = vec![whole.slice(1..=BLOCK_BYTES), whole.slice(..2 * BLOCK_BYTES)];
        let copied = aligned(odd.clone());
        assert_eq!((copied.len(), copied.concat()), (1, odd.concat()));
        assert!(copied[0].as_ptr().addr().is_multiple_of(BLOCK_BYTES));
    }
}
