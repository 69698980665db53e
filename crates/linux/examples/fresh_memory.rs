//! Checks that fresh memory is zero, as everything relies on: a drive must not have written to the
//! page of zeros that all processes share (docs/operations.md, NVMe drives and the kernel).

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::process::ExitCode;

/// More than an allocator keeps, so that the kernel gives the memory: less than a huge page, and
/// many of these, as the kernel has a page of zeros of either size.
const SIZES: [usize; 2] = [256 << 10, 16 << 20];

fn main() -> ExitCode {
    for bytes in SIZES {
        let memory = vec![0_u8; bytes];
        // A read of a page that nobody has written to is of the shared page.
        let wrong = std::hint::black_box(&memory).iter().position(|byte| *byte != 0);
        if let Some(at) = wrong {
            println!("byte {at} of {bytes} bytes of fresh memory is {:#x}", memory[at]);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
