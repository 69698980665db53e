//! The body of a fuzz target: traces as hostile input.
//!
//! Invariants for any trace: nothing panics; the requests do not depend on how the bytes are split
//! into pieces; each request has an allowed size and lies on the volume.

use super::fold::{REQUEST_BLOCKS_MAX, fold};
use super::{Format, Parser, REQUEST_BYTES_MAX, TraceError, TraceRequest};

/// Reads a trace: the first byte selects the format, the second the size of pieces.
///
/// # Panics
///
/// If an invariant is violated.
pub fn trace(input: &[u8]) {
    let [format, piece, text @ ..] = input else { return };
    let format = if format % 2 == 0 { Format::Alibaba } else { Format::Msr };
    let whole = read(format, text, text.len().max(1));
    assert_eq!(read(format, text, usize::from(*piece).max(1)), whole);
    let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    for outcome in &whole {
        match outcome {
            Ok(request) => check(request),
            Err(error) => assert!((1..=lines).contains(&line_of(error)), "{error}"),
        }
    }
}

/// Seed inputs for the fuzz target of the trace parser.
#[must_use]
pub fn trace_seeds() -> Vec<Vec<u8>> {
    let alibaba = "419,W,38579773440,4096,1577808000000046\n725,R,3,8192,1577808000001000\n";
    let msr = "128166372003061629,hm,1,Read,383496192,32768,413\n\
               128166372016382155,usr,0,Write,2822144,4096,7\r\n\n\
               128166372016382000,usr,0,Write,0,1,0";
    let seed = |format: u8, piece: u8, text: &str| [&[format, piece], text.as_bytes()].concat();
    vec![seed(0, 7, alibaba), seed(1, 1, msr), seed(1, 200, msr), seed(0, 3, "")]
}

/// All requests and errors, up to an overlong line.
fn read(format: Format, text: &[u8], piece: usize) -> Vec<Result<TraceRequest, TraceError>> {
    let mut parser = Parser::new(format);
    let mut read = Vec::new();
    for mut input in text.chunks(piece) {
        loop {
            match parser.next(&mut input) {
                Ok(None) => break,
                Err(error @ TraceError::LineTooLong { .. }) => {
                    read.push(Err(error));
                    return read;
                }
                other => read.push(other.map(|request| request.expect("there is one"))),
            }
        }
        assert!(input.is_empty(), "what is asked for more has read all");
    }
    read.extend(parser.finish().transpose());
    read
}

fn check(request: &TraceRequest) {
    assert!((1..=REQUEST_BYTES_MAX).contains(&request.bytes));
    for volume in [1, 2, 8192, 1 << 20, 1 << 40] {
        let (lba, blocks) = fold(request, volume);
        assert!((1..=REQUEST_BLOCKS_MAX).contains(&blocks));
        assert!(lba.0 + u64::from(blocks) <= volume);
    }
}

fn line_of(error: &TraceError) -> u64 {
    match error {
        TraceError::LineTooLong { line }
        | TraceError::Fields { line, .. }
        | TraceError::Number { line, .. }
        | TraceError::Operation { line }
        | TraceError::Length { line, .. }
        | TraceError::Range { line }
        | TraceError::Time { line } => *line,
    }
}
