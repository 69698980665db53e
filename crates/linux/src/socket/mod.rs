//! Listening sockets that only this user and root can reach.
//!
//! `endpoint` binds a unix socket or a loopback TCP port, and guards accepted connections;
//! `connect` is the client side, which does not wait; `peer_credentials` compares the peer's user
//! with ours. The NBD and vhost-user servers and the control socket of the command line listen
//! here.

mod connect;
mod endpoint;
pub(crate) mod peer_credentials;

pub use connect::try_connect;
pub use endpoint::{Endpoint, EndpointError, Listener};
pub use peer_credentials::stranger_at;
