//! Waiting for one thing while another may end the wait.

use zoneweave_runtime::{Handle, Nanos};

/// The output of `work`, or `None` if `end` comes first; `work` is dropped then.
pub(crate) async fn unless<T>(
    end: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut end, mut work) = (std::pin::pin!(end), std::pin::pin!(work));
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => end.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// The output of `work`, or `None` if it takes longer than `limit`.
pub async fn timeout<T>(handle: &Handle, limit: Nanos, work: impl Future<Output = T>) -> Option<T> {
    unless(handle.sleep(limit), work).await
}
