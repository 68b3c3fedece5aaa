//! Hostile requests against the face on a real socket. The operations behind it only write down what they are told, so
//! that each test can say: refused, with this code, and nothing was done. Each has its control: the same request made
//! rightly works.

mod chunked;
mod client;
mod documents;
mod forms;
mod framing;
mod http2;
mod policy;
mod recorder;
mod server;
mod signatures;

use client::{Draft, Reply};
use server::Server;

/// The request was refused with `status` and `code`, and nothing was done.
#[track_caller]
fn assert_refused(server: &Server, reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status, reply.code()), (status, code), "{reply:?}");
    assert_eq!(server.done(), Vec::<String>::new(), "nothing is done");
}

/// The request worked and did exactly `done`.
#[track_caller]
fn assert_done(server: &Server, reply: &Reply, done: &str) {
    assert!((200..300).contains(&reply.status), "{reply:?}");
    assert_eq!(server.done(), [done.to_owned()]);
}
