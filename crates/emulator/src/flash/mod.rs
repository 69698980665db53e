//! Flash dies and their channels: when reads, programs and erases end.
//!
//! A die does one thing at a time. Programs and erases ("operations") queue in the order of their
//! arrival. Reads go before operations that have not arrived yet. Reads that find an operation in
//! progress wait until it is suspended and are served as a batch; then the operation resumes. An
//! operation can be suspended a limited number of times. Dies of one group share channels, which
//! transfer the data of reads.
//!
//! There is no event loop: a read's end is known when it is issued. Reads must be issued in the
//! order of their arrival; operations may arrive in the future. [`Flash::finished`] collects the
//! operations that have ended.
//!
//! Parts with a plain queue and no suspension are used through [`Flash::occupy`].
//!
//! `array` has all dies and channels, `die` one die, `channel` a bus, `config` numbers and times.

mod array;
mod channel;
mod config;
mod die;

pub use array::Flash;
pub use config::FlashConfig;
pub use die::Finished;
