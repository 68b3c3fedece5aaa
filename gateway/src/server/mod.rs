//! Listeners, connections and the way that every request goes before the S3 face sees it.

mod answer;
mod connection;
mod listener;
mod phase;
mod shed;
mod socket;
mod stall;
mod tls;

pub(crate) use answer::Answer;
pub(crate) use connection::Protocol;
pub(crate) use listener::Listener;
pub(crate) use phase::{Phase, PhaseSender, PhaseWatch, phases};
pub(crate) use shed::Shed;
pub(crate) use socket::listen;
pub(crate) use tls::{TlsError, acceptor};
