//! The index: checkpoints, pages loaded on demand, and a limit on its memory.

mod checkpoints;
mod offload;
mod paging;
