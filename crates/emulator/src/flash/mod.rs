//! Flash dies and the buses to them: when reads, programs and erases end.
//!
//! A die does one thing at a time. Programs and erases ("operations") queue in the order in which
//! they arrive. Reads go before operations that have not arrived yet; those that find one under way
//! wait until it is suspended, are served as a batch, and the operation goes on. An operation can be
//! suspended a limited number of times. Dies of one group share channels, on which the data of reads
//! is transferred.
//!
//! There is no event loop: a read is told its end when it is issued. Reads must be issued in the
//! order of their arrival; that of operations may lie in the future. What ends in the meantime is
//! collected with [`Flash::finished`].
//!
//! Parts with a plain queue and no suspension are used through [`Flash::occupy`].

mod array;
mod channel;
mod config;
mod die;

pub use array::Flash;
pub use config::FlashConfig;
pub use die::Finished;
