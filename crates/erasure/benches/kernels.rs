//! Parity of a stripe, in chunks of 4, 16 and 64 KiB: XOR of three, five and nine, P and Q of four.
//!
//! `make bench` runs it. Chunks stay in the caches.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use zoneweave_erasure::Code;

const CHUNKS: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];
const CODES: [(usize, usize); 4] = [(3, 1), (5, 1), (9, 1), (4, 2)];

fn chunk(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + number * 7 + at / 251).to_le_bytes()[0]).collect()
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (data, parity) in CODES {
        let code = Code::new(data, parity).expect("a possible code");
        for bytes in CHUNKS {
            let chunks: Vec<_> = (0..data).map(|number| chunk(number, bytes)).collect();
            let sources: Vec<_> = chunks.iter().map(Vec::as_slice).collect();
            let mut targets = vec![vec![0; bytes]; parity];
            group.throughput(Throughput::Bytes((data * bytes) as u64));
            let id = BenchmarkId::new(format!("{data}+{parity}"), bytes);
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    let mut targets: Vec<_> = targets.iter_mut().map(Vec::as_mut_slice).collect();
                    code.encode(black_box(&sources), &mut targets);
                });
            });
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    encode(&mut criterion);
    criterion.final_summary();
}
