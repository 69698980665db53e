//! Lines for standard error that a thread writes, so that nobody who serves waits for their reader.
//!
//! The queue is bounded. Lines that find it full are dropped, and the next one that is written says
//! how many were.
//!
//! Fault model: the reader of standard error may stop to read for ever. Then lines are dropped, and
//! the end of the process waits for [`LAST_TIME`].

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Lines that may wait.
const WAITING: usize = 1024;

/// The time that the end of a process gives to the lines that wait.
const LAST_TIME: Duration = Duration::from_secs(2);

/// A queue of lines, and its thread.
pub(super) struct Background {
    /// `None` once this is dropped.
    queue: Option<SyncSender<Line>>,
    /// Disconnected when the thread ends.
    ended: Mutex<Receiver<()>>,
    dropped: AtomicU64,
}

struct Line {
    text: String,
    /// Lines before it that were dropped.
    dropped: u64,
}

impl Background {
    /// # Errors
    /// If there is no thread for it.
    pub(super) fn start(mut writer: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, lines) = sync_channel::<Line>(WAITING);
        let (ends, ended) = sync_channel::<()>(1);
        let run = move || {
            for Line { text, dropped } in lines {
                // There is no other place to report a failure.
                if dropped > 0 {
                    let _ = writeln!(
                        writer,
                        "{dropped} lines were dropped here, as nobody read them in time; \
                         `zoneweave events` has the last events"
                    );
                }
                let _ = writeln!(writer, "{text}");
            }
            drop(ends);
        };
        thread::Builder::new().name("messages".to_owned()).spawn(run)?;
        Ok(Self { queue: Some(queue), ended: Mutex::new(ended), dropped: AtomicU64::new(0) })
    }

    /// Queues a line, without waiting.
    pub(super) fn write(&self, text: String) {
        let queue = self.queue.as_ref().expect("the queue lives as long as this");
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if queue.try_send(Line { text, dropped }).is_err() {
            self.dropped.fetch_add(dropped + 1, Ordering::Relaxed);
        }
    }
}

impl Drop for Background {
    /// Waits until all lines are written, for [`LAST_TIME`] at most.
    fn drop(&mut self) {
        self.queue = None;
        let ended = self.ended.get_mut().expect("nobody locks it");
        let _written_or_not = ended.recv_timeout(LAST_TIME);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, pipe};

    use super::*;

    /// A server whose log was a pipe that nobody read stood still at its next event.
    #[test]
    fn lines_that_nobody_reads_hold_up_nobody_and_are_counted() {
        let (reader, writer) = pipe().unwrap();
        let background = Background::start(writer).unwrap();
        let line = "x".repeat(100);
        // More than the pipe, its thread and the queue hold.
        let written = 20_000_u64;
        (0..written).for_each(|_| background.write(line.clone()));
        let (mut lines, mut whole, mut dropped) = (BufReader::new(reader).lines(), 0, 0);
        // The reader comes back, and one line more tells what it has missed.
        while whole + dropped <= written {
            background.write(line.clone());
            let read = lines.next().unwrap().unwrap();
            match read.split_once(" lines were dropped here") {
                Some((count, _)) => dropped += count.parse::<u64>().unwrap(),
                None => whole += 1,
            }
        }
        assert!(dropped > 10_000, "{dropped} lines were dropped");
    }

    #[test]
    fn the_last_lines_are_written_before_the_end() {
        let (reader, writer) = pipe().unwrap();
        let background = Background::start(writer).unwrap();
        for number in 0..100 {
            background.write(number.to_string());
        }
        drop(background);
        let lines = BufReader::new(reader).lines().map(Result::unwrap);
        assert!(lines.eq((0..100).map(|number: u32| number.to_string())));
    }
}
