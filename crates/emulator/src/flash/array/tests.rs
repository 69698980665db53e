//! Reads, operations and suspensions, without randomness.

use super::*;
use crate::Spread;

fn config() -> FlashConfig {
    FlashConfig {
        dies: 2,
        channels: 1,
        sense: vec![Spread::new(50.0, 0.0)],
        transfer: Picos::from_micros(10.0),
        program: Spread::new(1000.0, 0.0),
        erase: Spread::new(5000.0, 0.0),
        suspend: Spread::new(100.0, 0.0),
        resume: Picos::from_micros(30.0),
        suspends: 2,
    }
}

fn flash() -> Flash {
    Flash::new(config(), Random::new(1))
}

fn us(micros: u32) -> Picos {
    Picos::from_micros(f64::from(micros))
}

fn ends(flash: &mut Flash) -> Vec<(u64, u64)> {
    std::iter::from_fn(|| flash.finished(Picos(u64::MAX - 1)))
        .map(|one| (one.at.0 / 1_000_000, one.tag))
        .collect()
}

#[test]
fn reads_of_one_die_queue_and_of_two_share_the_channel() {
    let mut flash = flash();
    assert_eq!(flash.read(0, 0, 1, us(0)), us(60));
    assert_eq!(flash.read(1, 0, 1, us(0)), us(70), "the channel was busy");
    assert_eq!(flash.read(0, 0, 2, us(1)), us(130));
    assert_eq!(flash.read(0, 0, 1, us(500)), us(560));
}

#[test]
fn a_read_suspends_a_program_and_others_join_its_batch() {
    let mut flash = flash();
    flash.program(0, us(0), 7);
    assert_eq!(flash.read(0, 0, 1, us(200)), us(360), "suspended at 300");
    assert_eq!(flash.read(0, 0, 1, us(250)), us(420), "joins the batch");
    // The program resumes at 420 and is suspended once more, at 420 + 30 + 100.
    assert_eq!(flash.read(0, 0, 1, us(400)), us(610));
    // It cannot be suspended a third time: 300 + 100 done (and twice 30), 600 left at 610.
    let end = flash.next_finished().unwrap();
    assert_eq!(end, us(610 + 600 + 30));
    assert_eq!(flash.read(0, 0, 1, us(620)), end + us(60));
    assert_eq!(ends(&mut flash), [(1240, 7)]);
}

#[test]
fn a_read_goes_before_a_program_that_has_not_arrived() {
    let mut flash = flash();
    flash.program(0, us(1000), 1);
    assert_eq!(flash.read(0, 0, 1, us(980)), us(1040));
    assert_eq!(ends(&mut flash), [(2040, 1)]);
}

#[test]
fn waiting_reads_are_served_between_two_programs() {
    let mut flash = Flash::new(FlashConfig { suspends: 0, ..config() }, Random::new(1));
    flash.program(0, us(0), 1);
    flash.program(0, us(0), 2);
    assert_eq!(flash.read(0, 0, 1, us(100)), us(1060));
    assert_eq!(flash.read(0, 0, 1, us(900)), us(1120));
    assert_eq!(flash.read(0, 0, 1, us(1010)), us(2180), "after the second program");
    assert_eq!(ends(&mut flash), [(1000, 1), (2120, 2)]);
}

#[test]
fn operations_end_in_order_of_time_over_all_dies() {
    let mut flash = flash();
    flash.erase(0, us(0), 1);
    flash.program(1, us(0), 2);
    flash.program(1, us(3000), 3);
    flash.program(0, us(0), 4);
    assert_eq!(flash.finished(us(999)), None);
    assert_eq!(flash.next_finished(), Some(us(1000)));
    assert_eq!(flash.drained(), us(6000));
    assert_eq!(ends(&mut flash), [(1000, 2), (4000, 3), (5000, 1), (6000, 4)]);
    assert_eq!(flash.next_finished(), None);
}

#[test]
fn a_plain_queue_has_no_suspensions() {
    let mut flash = flash();
    assert_eq!(flash.occupy(1, us(5), us(140)), us(145));
    assert_eq!(flash.occupy(1, us(50), us(40)), us(185));
    flash.clear();
    assert_eq!(flash.occupy(1, us(0), us(40)), us(40));
}
