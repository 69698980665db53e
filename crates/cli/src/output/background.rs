//! Lines for standard error that a thread writes, so that nobody who serves waits for their reader.
//!
//! Fault model: the reader of standard error may stop to read for ever. Then lines are dropped and
//! counted, as by any [`Queue`], and the end of the process waits for [`LAST_TIME`].

use std::io::{self, Write};
use std::time::Duration;

use crate::output::queue::Queue;

/// Lines that may wait.
const WAITING: usize = 1024;

/// The time that the end of a process gives to the lines that wait. One that panics has a second,
/// as its clients wait for another server.
pub(super) const LAST_TIME: Duration = Duration::from_secs(2);
pub(super) const LAST_TIME_OF_PANIC: Duration = Duration::from_secs(1);

/// A queue of lines that are written to `writer`.
///
/// # Errors
/// If there is no thread for it.
pub(super) fn start(mut writer: impl Write + Send + 'static) -> io::Result<Queue<String>> {
    Queue::start("messages", WAITING, move |text, dropped| {
        // There is no other place to report a failure.
        if dropped > 0 {
            let _ = writeln!(
                writer,
                "{dropped} lines were dropped here, as nobody read them in time; \
                 `zoneweave events` has the last events"
            );
        }
        let _ = writeln!(writer, "{text}");
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, pipe};

    use super::*;

    /// A server whose log was a pipe that nobody read stood still at its next event.
    #[test]
    fn lines_that_nobody_reads_hold_up_nobody_and_are_counted() {
        let (reader, writer) = pipe().unwrap();
        let background = start(writer).unwrap();
        let line = "x".repeat(100);
        // More than the pipe, its thread and the queue hold.
        let written = 20_000_u64;
        (0..written).for_each(|_| background.put(line.clone()));
        let (mut lines, mut whole, mut dropped) = (BufReader::new(reader).lines(), 0, 0);
        // The reader comes back, and one line more tells what it has missed.
        while whole + dropped <= written {
            background.put(line.clone());
            let read = lines.next().unwrap().unwrap();
            match read.split_once(" lines were dropped here") {
                Some((count, _)) => dropped += count.parse::<u64>().unwrap(),
                None => whole += 1,
            }
        }
        assert!(dropped > 10_000, "{dropped} lines were dropped");
    }
}
