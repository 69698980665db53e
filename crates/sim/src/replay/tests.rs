//! Tests of parsing, generating and replaying traces.

use zoneweave_raid::log::{Lanes, WriteChoice, WritePolicy};
use zoneweave_raid::scheme::Scheme;
use zoneweave_runtime::Random;

use super::generate::zipf;
use super::*;
use crate::experiments::ExperimentError;

fn parsed(format: Format, text: &str) -> Result<Vec<TraceRequest>, TraceError> {
    let (mut parser, mut input) = (Parser::new(format), text.as_bytes());
    let mut requests = Vec::new();
    while let Some(request) = parser.next(&mut input)? {
        requests.push(request);
    }
    requests.extend(parser.finish()?);
    Ok(requests)
}

#[test]
fn lines_of_alibaba_are_read() {
    let text = "419,W,38579773440,4096,1577808000000046\n725,R,3,8192,1577808000001046";
    let requests = parsed(Format::Alibaba, text).unwrap();
    let first = requests[0];
    assert_eq!((first.at, first.direction), (Nanos::ZERO, Direction::Write));
    assert_eq!((first.offset_bytes, first.bytes), (38_579_773_440, 4096));
    assert_eq!((requests[1].at, requests[1].direction), (Nanos::from_millis(1), Direction::Read));
    assert_ne!(first.device, requests[1].device);
}

#[test]
fn lines_of_msr_are_read() {
    let text = "128166372003061629,hm,1,Read,383496192,32768,413\r\n\n\
                128166372003061729,hm,1,Write,0,512,7\n128166372003061000,hm,0,Write,0,1,7\n";
    let requests = parsed(Format::Msr, text).unwrap();
    assert_eq!(requests[0].bytes, 32_768);
    assert_eq!((requests[1].at, requests[1].direction), (Nanos(10_000), Direction::Write));
    // Older than the first one.
    assert_eq!(requests[2].at, Nanos::ZERO);
    assert!(requests[0].device == requests[1].device && requests[1].device != requests[2].device);
}

#[test]
fn errors_name_the_line_and_what_is_wrong_with_it() {
    let good = "1,R,0,4096,0\n";
    let second = |line: &str| parsed(Format::Alibaba, &format!("{good}{line}\n")).unwrap_err();
    let line = 2;
    let field = |field| TraceError::Number { line, field };
    assert_eq!(second("1,R,0,4096"), TraceError::Fields { line, needed: 5, found: 4 });
    assert_eq!(second("1,R,0,4096,0,"), TraceError::Fields { line, needed: 5, found: 6 });
    assert_eq!(second("x,R,0,4096,0"), field("device"));
    assert_eq!(second("1,R,-1,4096,0"), field("offset"));
    assert_eq!(second("1,R,18446744073709551616,1,0"), field("offset"));
    assert_eq!(second("1,R,,1,0"), field("offset"));
    assert_eq!(second("1,r,0,4096,0"), TraceError::Operation { line });
    assert_eq!(second("1,R,0,0,0"), TraceError::Length { line, bytes: 0 });
    assert_eq!(second("1,R,0,33554433,0"), TraceError::Length { line, bytes: 33_554_433 });
    assert_eq!(second("1,R,18446744073709551615,1,0"), TraceError::Range { line });
    assert_eq!(second("1,R,0,1,18446744073709551615"), TraceError::Time { line });
    assert_eq!(second(&"1".repeat(600)), TraceError::LineTooLong { line });
    // The last line needs no newline.
    let mut parser = Parser::new(Format::Msr);
    let endless = (0..100).find_map(|_| parser.next(&mut [b'1'; 64].as_slice()).err());
    assert_eq!(endless, Some(TraceError::LineTooLong { line: 1 }));
}

#[test]
fn hostile_traces_are_read_without_panic() {
    let seeds = fuzzing::trace_seeds();
    seeds.iter().for_each(|seed| fuzzing::trace(seed));
    let mut random = Random::new(5);
    let below = |random: &mut Random, bound: usize| {
        usize::try_from(random.below(bound as u64)).expect("it is below a usize")
    };
    const BYTES: &[u8] = b",,\n\r09RWrw-.1x\xff";
    for _ in 0..20_000 {
        let mut input = seeds[below(&mut random, seeds.len())].clone();
        for _ in 0..1 + random.below(6) {
            let at = below(&mut random, input.len());
            let byte = BYTES[below(&mut random, BYTES.len())];
            match random.below(4) {
                0 => input[at] = byte,
                1 => input.insert(at, byte),
                2 if input.len() > 2 => drop(input.remove(at)),
                _ => {
                    let tail = input[at..].to_vec();
                    input.extend(tail);
                }
            }
        }
        fuzzing::trace(&input);
    }
}

#[test]
fn the_first_places_of_zipf_are_the_most_frequent() {
    let mut random = Random::new(1);
    let mut counts = [0_u32; 1000];
    for _ in 0..100_000 {
        counts[usize::try_from(zipf(1000, &mut random)).unwrap()] += 1;
    }
    let mut sorted = counts;
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    // 1 + 1/2 + ... + 1/1000 is 7.5.
    assert!((9_000..12_000).contains(&sorted[0]) && sorted[0] == counts[0], "{}", sorted[0]);
    assert!(sorted[0] > sorted[1] && sorted[1] > sorted[7] && sorted[7] > sorted[500]);
    assert!(sorted[999] > 0);
}

#[test]
fn a_mixture_is_as_it_was_asked_for() {
    let mixture = Mixture { writes: 6700, ..Mixture::cloud(1 << 20, 3) };
    let requests: Vec<_> = mixture.requests().take(50_000).collect();
    let part = |of: &dyn Fn(&TraceRequest) -> bool| {
        requests.iter().filter(|request| of(request)).count() * 10_000 / requests.len()
    };
    let near = |found: usize, wanted: usize| found.abs_diff(wanted) < 100;
    assert!(near(part(&|one| one.direction == Direction::Write), 6700));
    assert!(near(part(&|one| one.bytes == 4096), 6000));
    assert!(near(part(&|one| one.bytes >= 16_384), 2500));
    assert!(near(part(&|one| one.bytes == 16_384), 1250));
    assert!(requests.iter().all(|one| one.bytes <= u64::from(MIXTURE_BLOCKS_MAX) * 4096));
    // The hottest block is as likely as the next two, the next four and so on, 20 times.
    assert!(near(part(&|one| one.offset_bytes == 0), 500));
    assert!(requests.is_sorted_by_key(|one| one.at));
    let seconds = requests[49_999].at.as_secs_f64();
    assert!((4.9..5.1).contains(&seconds), "{seconds}");
    assert_eq!(mixture.requests().nth(7), Some(requests[7]));
}

fn replay(pace: Pace) -> Replay {
    let lanes = |count, chunk_blocks| Lanes { count, chunk_blocks };
    Replay {
        preset: "zn540-1tb",
        scheme: Scheme::new(3, 1).unwrap(),
        zone_blocks: 1024,
        volume_blocks: 32_768,
        reserve_percent: 100,
        writes: WriteChoice::Policy(WritePolicy::zapraid(lanes(1, 1), lanes(0, 1), 256)),
        chunk_blocks: 1,
        pace,
        seed: 1,
    }
}

#[test]
fn a_trace_is_replayed_at_its_times_or_as_fast_as_it_goes() {
    let run = |pace| {
        let mut requests =
            Mixture { rate: 1000, ..Mixture::cloud(1 << 24, 1) }.requests().take(2000);
        let next = || Ok::<_, ExperimentError>(requests.next());
        replay(pace).run(next).unwrap()
    };
    let recorded = run(Pace::Recorded(1.0));
    assert!((1.9..2.1).contains(&recorded.all.seconds), "{}", recorded.all.seconds);
    assert_eq!(recorded.all.operations, 2000);
    assert_eq!(recorded.reads.operations + recorded.writes.operations, 2000);
    let twice = run(Pace::Recorded(0.5));
    assert!((0.95..1.05).contains(&twice.all.seconds), "{}", twice.all.seconds);
    let closed = run(Pace::QueueDepth(32));
    assert!(closed.all.seconds < 0.5, "{}", closed.all.seconds);
    assert_eq!(run(Pace::QueueDepth(32)), closed);
}

#[test]
fn arrays_that_cannot_be_are_refused() {
    let none = || Ok::<_, ExperimentError>(None);
    let few = Replay { zone_blocks: 100_000, ..replay(Pace::QueueDepth(1)) };
    assert!(matches!(few.run(none), Err(ExperimentError::Create(_))));
    let failing = || Err(ExperimentError::from(crate::workload::WorkloadError::Impossible("x")));
    assert!(matches!(replay(Pace::QueueDepth(1)).run(failing), Err(ExperimentError::Workload(_))));
}
