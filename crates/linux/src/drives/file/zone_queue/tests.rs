//! The queue of a zone, step by step.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use zoneweave_zoned::{ZoneOffset, ZoneState};

use super::*;

fn record(write_pointer: u32) -> ZoneRecord {
    let state = if write_pointer == 0 { ZoneState::Empty } else { ZoneState::ImplicitlyOpen };
    ZoneRecord { state, write_pointer: ZoneOffset(write_pointer), resets: 0, ..ZoneRecord::NEW }
}

fn queue() -> ZoneQueue {
    ZoneQueue::new(ZoneRecord::NEW, 7)
}

fn push(queue: &mut ZoneQueue, kind: Kind, write_pointer: u32) -> Queued {
    let change =
        Change { kind, record: record(write_pointer), after: Ticket(0), tickets: Vec::new() };
    queue.push(change)
}

fn answer_of(queued: Queued) -> Option<Result<(), Status>> {
    match pin!(queued.answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => None,
    }
}

fn publish(queue: &mut ZoneQueue) -> Option<ZoneRecord> {
    let publication = queue.next_publication()?;
    assert_eq!(queue.next_publication(), None, "one at a time");
    queue.is_published(publication);
    Some(publication.record)
}

#[test]
fn only_a_prefix_is_published_and_one_record_answers_many() {
    let mut queue = queue();
    let writes: Vec<_> = (1..=4).map(|end| push(&mut queue, Kind::Write, end)).collect();
    queue.finished(writes[1].id);
    queue.finished(writes[3].id);
    assert_eq!(queue.next_publication(), None);
    queue.finished(writes[0].id);
    let publication = queue.next_publication().unwrap();
    assert_eq!((publication.record, publication.sequence), (record(2), 8));
    queue.finished(writes[2].id);
    queue.is_published(publication);
    assert_eq!(queue.published(), record(2));
    assert_eq!(publish(&mut queue), Some(record(4)));
    assert!(queue.entries.is_empty());
    assert!(writes.into_iter().all(|write| answer_of(write) == Some(Ok(()))));
}

#[test]
fn a_reset_waits_for_what_is_before_it_and_holds_up_what_is_behind() {
    let mut queue = queue();
    let before = push(&mut queue, Kind::Write, 5);
    let reset = push(&mut queue, Kind::Reset, 0);
    let behind = push(&mut queue, Kind::Write, 1);
    assert!(queue.may_start(before.epoch) && !queue.may_start(reset.epoch));
    queue.finished(before.id);
    assert_eq!(publish(&mut queue), Some(record(5)));
    assert!(queue.may_start(reset.epoch) && !queue.may_start(behind.epoch));
    queue.finished(reset.id);
    assert_eq!(publish(&mut queue), Some(record(0)));
    assert!(!queue.may_start(behind.epoch), "the blocks are not freed yet");
    assert_eq!(queue.next_publication(), None);
    queue.finished(reset.id);
    assert!(queue.may_start(behind.epoch));
    queue.finished(behind.id);
    assert_eq!(publish(&mut queue), Some(record(1)));
}

#[test]
fn a_failed_write_takes_those_behind_it_along() {
    let mut queue = queue();
    let writes: Vec<_> = (1..=4).map(|end| push(&mut queue, Kind::Write, end)).collect();
    queue.finished(writes[0].id);
    queue.finished(writes[2].id);
    let rollback = queue.failed(writes[1].id, Status::WriteFault).unwrap();
    assert_eq!(rollback.record, record(1));
    let next = push(&mut queue, Kind::Write, 2);
    assert!(!queue.may_start(next.epoch), "write 4 is still under way to the same place");
    assert_eq!(publish(&mut queue), Some(record(1)));
    assert!(queue.has_failed(writes[3].id));
    queue.finished(writes[3].id);
    assert!(queue.may_start(next.epoch) && !queue.has_failed(next.id));
    let answers: Vec<_> = writes.into_iter().map(answer_of).collect();
    let failed = Some(Err(Status::WriteFault));
    assert_eq!(answers, [Some(Ok(())), failed, failed, failed]);
}

#[test]
fn a_second_failure_further_back_rolls_back_further() {
    let mut queue = queue();
    let writes: Vec<_> = (1..=3).map(|end| push(&mut queue, Kind::Write, end)).collect();
    assert_eq!(queue.failed(writes[2].id, Status::WriteFault).unwrap().record, record(2));
    let next = push(&mut queue, Kind::Write, 3);
    assert_eq!(queue.failed(writes[0].id, Status::WriteFault).unwrap().record, record(0));
    assert!(queue.has_failed(next.id), "its place is not behind the write pointer any more");
    queue.finished(writes[1].id);
    queue.finished(next.id);
    assert!(queue.entries.is_empty());
}

#[test]
fn a_failure_before_a_reset_changes_nothing_behind_it() {
    let mut queue = queue();
    let change = |kind, end, ticket| Change {
        kind,
        record: record(end),
        after: Ticket(0),
        tickets: vec![Ticket(ticket)],
    };
    let write = queue.push(change(Kind::Write, 1, 1));
    let reset = queue.push(change(Kind::Reset, 0, 2));
    let behind = push(&mut queue, Kind::Write, 1);
    assert!(queue.failed(write.id, Status::WriteFault).is_none());
    assert!(queue.may_start(reset.epoch));
    queue.finished(reset.id);
    let publication = queue.next_publication().unwrap();
    assert_eq!(queue.is_published(publication), [Ticket(2), Ticket(1)], "none is lost");
    queue.finished(reset.id);
    assert!(queue.may_start(behind.epoch) && !queue.has_failed(behind.id));
}

#[test]
fn state_changes_are_published_in_order_with_writes() {
    let mut queue = queue();
    let write = push(&mut queue, Kind::Write, 3);
    let finish = push(&mut queue, Kind::State, 3);
    assert_eq!(queue.next_publication(), None);
    assert!(!queue.is_past(write.id));
    queue.finished(write.id);
    assert!(publish(&mut queue).is_some());
    assert!(queue.is_past(finish.id));
    assert_eq!(answer_of(finish), Some(Ok(())));
}
