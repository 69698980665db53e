//! Prints the speed of the codes in GB/s of data chunks read, next to memcpy: the best of several
//! runs, as other load on the machine only ever slows a run down.
//!
//! `cargo run --release -p zoneweave-erasure --example throughput`
//!
//! Hot cycles through 256 KiB of data, which stays in the second-level cache; DRAM through 384 MiB.
#![allow(clippy::disallowed_methods, reason = "measuring speed takes the wall clock")]
#![allow(clippy::print_stdout, reason = "printing is what this program is for")]

use std::{hint::black_box, time::Instant};
use zoneweave_erasure::Code;

const CHUNK_BYTES: usize = 4096;
const HOT_BYTES: usize = 256 << 10;
const DRAM_BYTES: usize = 384 << 20;
const RUNS: usize = 7;

/// Stripes laid out one after another, each of its data chunks and then its outputs.
struct Arena {
    bytes: Vec<u8>,
    inputs: usize,
    outputs: usize,
}

impl Arena {
    fn new(data_bytes: usize, inputs: usize, outputs: usize) -> Self {
        let stripes = data_bytes / (inputs * CHUNK_BYTES);
        let size_bytes = stripes * (inputs + outputs) * CHUNK_BYTES;
        let bytes = (0..=250).cycle().take(size_bytes).collect();
        Self { bytes, inputs, outputs }
    }

    /// GB/s of input over the whole arena, visited often enough for a run to last tens of
    /// milliseconds.
    fn best_gb_per_s(&mut self, mut work: impl FnMut(&[&[u8]], &mut [&mut [u8]])) -> f64 {
        let stripe_bytes = (self.inputs + self.outputs) * CHUNK_BYTES;
        let passes = (DRAM_BYTES / self.bytes.len()).max(1);
        let input_bytes = passes * (self.bytes.len() / stripe_bytes) * self.inputs * CHUNK_BYTES;
        let mut best_s = f64::INFINITY;
        for _ in 0..RUNS {
            let start = Instant::now();
            for _ in 0..passes {
                for stripe in self.bytes.chunks_exact_mut(stripe_bytes) {
                    let (inputs, outputs) = stripe.split_at_mut(self.inputs * CHUNK_BYTES);
                    visit(inputs, outputs, &mut work);
                }
            }
            best_s = best_s.min(start.elapsed().as_secs_f64());
        }
        input_bytes as f64 / best_s / 1e9
    }
}

/// Hands one stripe to `work` as slices, without allocating: the lists are as long as the widest
/// case below.
fn visit(inputs: &[u8], outputs: &mut [u8], work: &mut impl FnMut(&[&[u8]], &mut [&mut [u8]])) {
    let mut input_list: [&[u8]; 10] = [&[]; 10];
    let mut output_list: [&mut [u8]; 4] = Default::default();
    let (input_count, output_count) = (inputs.len() / CHUNK_BYTES, outputs.len() / CHUNK_BYTES);
    for (entry, chunk) in input_list.iter_mut().zip(inputs.chunks_exact(CHUNK_BYTES)) {
        *entry = chunk;
    }
    for (entry, chunk) in output_list.iter_mut().zip(outputs.chunks_exact_mut(CHUNK_BYTES)) {
        *entry = chunk;
    }
    work(black_box(&input_list[..input_count]), black_box(&mut output_list[..output_count]));
}

fn report(name: &str, inputs: usize, outputs: usize, work: impl Fn(&[&[u8]], &mut [&mut [u8]])) {
    let [hot, dram] = [HOT_BYTES, DRAM_BYTES]
        .map(|data_bytes| Arena::new(data_bytes, inputs, outputs).best_gb_per_s(&work));
    println!("{name:<28} {hot:>8.1} {dram:>8.1}");
}

fn report_encode(data_chunks: usize, parity_chunks: usize) {
    let code = Code::new(data_chunks, parity_chunks).expect("a small code is legal");
    let name = format!("encode {data_chunks}+{parity_chunks}");
    report(&name, data_chunks, parity_chunks, |data, parity| code.encode(data, parity));
}

/// Rebuilds the first `losses` data chunks; the survivors are the data chunks behind them and as
/// many parity chunks. The bytes need not be a true stripe for the work to be the same.
fn report_reconstruct(data_chunks: usize, parity_chunks: usize, losses: usize) {
    let code = Code::new(data_chunks, parity_chunks).expect("a small code is legal");
    let name = format!("rebuild {losses} of {data_chunks}+{parity_chunks}");
    report(&name, data_chunks, losses, |survivors, outputs| {
        let mut chunks = vec![None; code.total_chunks()];
        for (entry, survivor) in chunks[losses..].iter_mut().zip(survivors) {
            *entry = Some(*survivor);
        }
        let mut wanted: Vec<_> =
            outputs.iter_mut().enumerate().map(|(chunk, output)| (chunk, &mut **output)).collect();
        code.reconstruct(&chunks, &mut wanted).expect("enough chunks survive");
    });
}

fn main() {
    println!("{:<28} {:>8} {:>8}", "GB/s of input, 4 KiB chunks", "hot", "DRAM");
    report("memcpy", 1, 1, |inputs, outputs| outputs[0].copy_from_slice(inputs[0]));
    for (data_chunks, parity_chunks) in [(3, 1), (4, 2), (10, 2), (4, 3), (10, 4)] {
        report_encode(data_chunks, parity_chunks);
    }
    for (data_chunks, parity_chunks, losses) in [(3, 1, 1), (4, 2, 1), (4, 2, 2), (10, 4, 4)] {
        report_reconstruct(data_chunks, parity_chunks, losses);
    }
    let code = Code::new(4, 2).expect("a small code is legal");
    report("rebuild Q of 4+2", 4, 1, |data, outputs| {
        let chunks = [Some(data[0]), Some(data[1]), Some(data[2]), Some(data[3]), None, None];
        code.reconstruct(&chunks, &mut [(5, outputs[0])]).expect("enough chunks survive");
    });
}
