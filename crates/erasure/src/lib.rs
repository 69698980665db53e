//! Erasure codes over byte slices: any k of the k+m chunks of a stripe rebuild the other m.
//!
//! One code family covers every level: m=0 is striping (RAID-0), k=1 mirroring, m=1 XOR parity
//! (RAID-4/5), m=2 the standard RAID-6 P and Q, m>=3 general. Everything is deterministic and
//! byte-wise: byte b of a parity chunk depends only on bytes b of the data chunks. So chunks of any
//! length can be coded, odd lengths and partial ranges included. Data that is not yet written
//! counts as zeros.
//!
//! Mirrors of several chunks ([`Code::mirrored`]) are the exception: copies, of which each serves
//! its own data chunk only.
//!
//! # Coefficients (an on-media format, never to change)
//! The field is GF(2^8) with polynomial 0x11d and generator g = 2. With data chunks numbered i =
//! 0..k and parity chunks j = 0..m, parity chunk j is the sum over i of c(j, i) times data chunk i,
//! where
//!
//! | row | coefficient c(j, i) | known as |
//! |---|---|---|
//! | j = 0 | 1 | P, XOR parity |
//! | j = 1 | g^i | Q |
//! | j >= 2 | (1 + y) / (g^-i + y) with y = g^(j-1) | |
//!
//! A row does not depend on k or m, so the first rows of a wider code are those of a narrower one.
//! P and Q are the bytes of Linux md RAID-6 and ISA-L; further rows are those of SnapRAID, which
//! the tests pin.
//!
//! Why every k of k+m chunks decode: row 1 is the general formula with y = 0. So rows from 1 on
//! form a Cauchy matrix 1 / (x(i) + y(j)) with x(i) = g^-i, each row scaled to start with 1, and
//! row 0 is its limit for y to infinity. All square submatrices of such an extended Cauchy matrix
//! are invertible if all x and y are distinct. The x are g^0 and g^(256-k) to g^254, the y are 0
//! and g^1 to g^(m-2). They do not meet while k + m <= 257. [`MAX_CHUNKS`] is a little lower so
//! that a chunk count fits a byte.
//!
//! # Fault model
//! Erasures only: the caller knows which chunks are missing. A present chunk with wrong bytes is
//! not noticed here; the engine's checksums turn such chunks into missing ones first.

mod code;
mod decode;
mod gf256;
mod kernels;
mod matrix;
#[cfg(test)]
mod reference;

pub use code::{Code, CodeError, MAX_CHUNKS};
pub use kernels::xor_into;
