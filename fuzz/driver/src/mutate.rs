//! Random edits of a seed: the ones that matter to parsers of lengths and tags.

/// Values at the edges of lengths and offsets, written big- or little-endian in 1 to 8 bytes.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0xfff,
    0x1000,
    0x1001,
    0xffff,
    0x200_0001,
    0x7fff_ffff,
    0xffff_ffff,
    u64::MAX,
];

/// The SplitMix64 generator (Steele, Lea and Flood, 2014): one word of state, any seed is good.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The input of one execution: a seed with zero to fifteen edits.
pub fn mutated(seeds: &[Vec<u8>], seed: u64, execution: u64) -> Vec<u8> {
    let mut random = Random(seed.rotate_left(32) ^ execution);
    let mut input = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(16) {
        edit(&mut input, seeds, &mut random);
    }
    input
}

fn edit(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = at + random.below((input.len() - at).min(32) + 1);
    match random.below(7) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.next() as u8,
        2 => overwrite_with_edge(input, at, random),
        3 => drop(input.drain(at..end)),
        4 => {
            let copy = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, copy);
        }
        5 => input.truncate(at),
        _ => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
    }
}

fn overwrite_with_edge(input: &mut [u8], at: usize, random: &mut Random) {
    let width = 1 << random.below(4);
    let value = EDGES[random.below(EDGES.len())];
    let bytes = if random.below(4) == 0 {
        value.to_le_bytes()[..width].to_vec()
    } else {
        value.to_be_bytes()[8 - width..].to_vec()
    };
    for (target, byte) in input[at..].iter_mut().zip(bytes) {
        *target = byte;
    }
}
