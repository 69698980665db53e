//! Traces: what happened to the files of a store, in the order in which it did.
//!
//! A trace has no contents of files and no names. It is enough to place the same files again, on
//! another drive or by another policy.
//!
//! | module | content |
//! |---|---|
//! | `class` | classes of files |
//! | `event` | events, and their bytes |
//! | `varint` | numbers of variable length |
//! | `frame` | headers of traces and frames |
//! | `encoder` | events to frames |
//! | `reader` | bytes to events |
//! | `summary` | figures of a trace |
//! | `fuzzing` | the body of a fuzz target |
//!
//! Invariants: a trace is hostile until it is decoded; a frame is verified before it is. Nothing
//! here does I/O but [`TraceReader`], on an input that it is given. A frame counts what is missing
//! in front of it, so a trace with a gap never looks whole.

mod class;
mod encoder;
mod event;
mod frame;
pub mod fuzzing;
mod reader;
mod summary;
mod varint;

use zoneweave_runtime::{Handle, Nanos};

use std::rc::Rc;

pub use class::Class;
pub use encoder::{Encoder, Frame};
pub use event::{BYTES_MAX, Event, samples};
pub use frame::{TRACE_VERSION, TraceHeader};
pub use reader::{Ending, TimedEvent, TraceError, TraceReader};
pub use summary::{GroupKey, GroupSummary, Summary};

/// Takes the events of a store. It is called while the store decides: it must not wait, and must
/// not call the store.
pub trait Recorder {
    /// Takes an event; `at` is the time of the store's reactor.
    fn record(&self, at: Nanos, event: &Event);

    /// Takes the event of a file that is there when recording begins. It may wait: the store does
    /// not serve yet.
    fn record_existing(&self, at: Nanos, event: &Event) {
        self.record(at, event);
    }

    /// Whether reads are recorded, too.
    fn takes_reads(&self) -> bool {
        false
    }
}

/// The recorder of an open store, with its clock.
pub(crate) struct Tape {
    recorder: Rc<dyn Recorder>,
    handle: Handle,
}

impl Tape {
    pub(crate) fn new(recorder: Rc<dyn Recorder>, handle: Handle) -> Self {
        Self { recorder, handle }
    }

    pub(crate) fn record_existing(&self, event: &Event) {
        self.recorder.record_existing(self.handle.now(), event);
    }

    pub(crate) fn record(&self, event: &Event) {
        if !matches!(event, Event::Read { .. }) || self.recorder.takes_reads() {
            self.recorder.record(self.handle.now(), event);
        }
    }
}
