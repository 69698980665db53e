//! Headers by table.

use super::*;

const PLAIN: Digests = Digests { header: false, data: false };
const BOTH: Digests = Digests { header: true, data: true };

/// Type, flags, header length, data offset, total length.
type Fields = (u8, u8, u8, u8, u32);

fn layout(fields: Fields, digests: Digests) -> Result<(usize, usize), Violation> {
    let (kind, flags, header_bytes, data_offset, total_bytes) = fields;
    let common = Common { kind, flags, header_bytes, data_offset, total_bytes };
    let mut bytes = Vec::new();
    common.write(&mut bytes);
    assert_eq!(Common::parse(&bytes), common, "what is written is parsed");
    let layout = common.layout(digests, 8192)?;
    Ok((layout.head_bytes, layout.data_bytes))
}

#[test]
fn headers_of_hosts_have_their_layouts() {
    let table: [(Fields, Digests, (usize, usize)); 9] = [
        ((0, 0, 128, 0, 128), PLAIN, (128, 0)),
        ((2, 0, 24, 0, 24), PLAIN, (24, 0)),
        ((2, 0, 24, 0, 152), PLAIN, (24, 128)),
        ((4, 0, 72, 0, 72), PLAIN, (72, 0)),
        ((4, 1, 72, 0, 76), BOTH, (76, 0)),
        ((4, 0, 72, 72, 72 + 1024), PLAIN, (72, 1024)),
        ((4, 3, 72, 128, 128 + 512 + 4), BOTH, (128, 512)),
        ((6, 4, 24, 24, 24 + 8192), PLAIN, (24, 8192)),
        ((6, 3, 24, 28, 28 + 1 + 4), BOTH, (28, 1)),
    ];
    for (fields, digests, expected) in table {
        assert_eq!(layout(fields, digests), Ok(expected), "{fields:?}");
    }
}

#[test]
fn impossible_headers_are_refused() {
    let invalid = |offset| Violation::InvalidHeader { offset };
    let table: [(Fields, Digests, Violation); 20] = [
        ((1, 0, 128, 0, 128), PLAIN, invalid(0)),
        ((8, 0, 24, 0, 24), PLAIN, invalid(0)),
        ((255, 0, 24, 0, 24), PLAIN, invalid(0)),
        ((0, 0, 127, 0, 128), PLAIN, invalid(2)),
        ((0, 0, 128, 0, 129), PLAIN, invalid(4)),
        ((2, 0, 24, 0, 153), PLAIN, invalid(4)),
        ((2, 0, 24, 0, 0), PLAIN, invalid(4)),
        ((4, 0, 71, 0, 72), PLAIN, invalid(2)),
        ((4, 1, 72, 0, 76), PLAIN, invalid(1)),
        ((4, 0, 72, 0, 72), BOTH, invalid(1)),
        ((4, 4, 72, 0, 72), PLAIN, invalid(1)),
        ((4, 1, 72, 76, 80), BOTH, invalid(1)),
        ((4, 0, 72, 72, 71), PLAIN, invalid(4)),
        ((4, 0, 72, 71, 80), PLAIN, invalid(3)),
        ((4, 0, 72, 74, 80), PLAIN, invalid(3)),
        ((4, 0, 72, 132, 140), PLAIN, invalid(3)),
        ((4, 0, 72, 72, u32::MAX), PLAIN, Violation::DataLimit),
        ((6, 0, 24, 24, 24 + 8193), PLAIN, Violation::DataLimit),
        ((6, 0, 24, 24, 24), PLAIN, invalid(4)),
        ((6, 3, 24, 28, 32), BOTH, invalid(4)),
    ];
    for (fields, digests, expected) in table {
        assert_eq!(layout(fields, digests), Err(expected), "{fields:?}");
    }
}

#[test]
fn opening_requests_are_judged() {
    let request = |version: u8, alignment: u8, digests: u8| {
        let mut header = [0; 128];
        (header[8], header[10], header[11]) = (version, alignment, digests);
        IcRequest::parse(&header)
    };
    assert_eq!(request(0, 0, 3), Ok(IcRequest { data_alignment: 4, digests: BOTH }));
    assert_eq!(request(0, 31, 0), Ok(IcRequest { data_alignment: 128, digests: PLAIN }));
    assert_eq!(request(1, 0, 0), Err(Violation::Unsupported { offset: 8 }));
    assert_eq!(request(0, 32, 0), Err(Violation::InvalidHeader { offset: 10 }));
    assert_eq!(request(0, 0, 4), Err(Violation::InvalidHeader { offset: 11 }));
}

#[test]
fn pdus_of_the_controller_have_their_bytes() {
    let opened = ic_response(BOTH, 0x0010_0000);
    assert_eq!(opened.len(), 128);
    assert_eq!(opened[..16], [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 3, 0, 0, 16, 0]);
    let ready = ready_to_transfer(0x1234, 8192, PLAIN);
    let expected =
        [9, 0, 24, 0, 24, 0, 0, 0, 0x34, 0x12, 0x34, 0x12, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0];
    assert_eq!(ready, expected);
    let completion = [5; 16];
    let capsule = response(&completion, BOTH);
    assert_eq!(capsule[..8], [5, 1, 24, 0, 28, 0, 0, 0]);
    assert_eq!(capsule[8..24], completion);
    assert_eq!(capsule[24..], crc32c::crc32c(&capsule[..24]).to_le_bytes());
}

#[test]
fn data_of_the_controller_is_aligned_as_the_host_wants() {
    let plain = controller_data(7, 4096, 4, PLAIN);
    assert_eq!(plain[..8], [7, 4, 24, 24, 24, 16, 0, 0]);
    assert_eq!(plain[8..], [7, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0]);
    let padded = controller_data(7, 4096, 128, BOTH);
    assert_eq!((padded.len(), padded[1], padded[3]), (128, 7, 128));
    assert_eq!(crate::fields::u32_at(&padded, 4), 128 + 4096 + 4);
    assert_eq!(padded[24..28], crc32c::crc32c(&padded[..24]).to_le_bytes());
    assert!(padded[28..].iter().all(|byte| *byte == 0));
}

#[test]
fn terminations_return_the_header_at_fault() {
    let table = [
        (Violation::InvalidHeader { offset: 3 }, [1, 0, 3, 0, 0, 0]),
        (Violation::Sequence, [2, 0, 0, 0, 0, 0]),
        (Violation::HeaderDigest { received: 0x0102_0304 }, [3, 0, 4, 3, 2, 1]),
        (Violation::OutOfRange, [4, 0, 0, 0, 0, 0]),
        (Violation::DataLimit, [5, 0, 0, 0, 0, 0]),
        (Violation::Unsupported { offset: 8 }, [6, 0, 8, 0, 0, 0]),
    ];
    for (violation, fields) in table {
        let pdu = termination(violation, &[0xEE; 72]);
        assert_eq!(pdu[..8], [3, 0, 24, 0, 96, 0, 0, 0]);
        assert_eq!(pdu[8..14], fields, "{violation}");
        assert_eq!(pdu[24..], [0xEE; 72]);
    }
    assert_eq!(termination(Violation::Sequence, &[1; 200]).len(), 152);
}
