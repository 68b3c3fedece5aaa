//! The rest of a body that nobody wants.
//!
//! A connection that is closed while the peer still sends is reset, and the reset takes the answer with it: the client
//! sees a broken pipe in place of its 403. So what is left is read, within limits, and thrown away.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Most bytes that are read only to be thrown away.
const BYTES_MAX: usize = 1 << 20;
/// Longest time for it.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Reads the rest of `body` in the background.
pub(crate) fn drain<B>(body: B)
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
{
    if body.is_end_stream() || body.size_hint().lower() > BYTES_MAX as u64 {
        return;
    }
    // Without a runtime there is no connection either.
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(timeout(TIME_MAX, read(body)));
    }
}

async fn read<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut len_bytes = 0;
    while let Some(Ok(frame)) = Pin::new(&mut body).frame().await {
        len_bytes += frame.data_ref().map_or(0, Bytes::len);
        if len_bytes > BYTES_MAX {
            return;
        }
    }
}
