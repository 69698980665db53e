//! Waits for a future that another one may end.

use std::pin::pin;
use std::task::Poll;

/// The output of `work`, or that of `end` if it comes first.
///
/// # Errors
/// The output of `end`.
pub(crate) async fn unless<T, E>(
    end: impl Future<Output = E>,
    work: impl Future<Output = T>,
) -> Result<T, E> {
    let mut ended = None;
    let end = async { ended = Some(end.await) };
    match until(end, work).await {
        Some(output) => Ok(output),
        None => Err(ended.expect("it came first")),
    }
}

/// The output of `work`, or `None` if `end` comes first; `work` is dropped then, unless it is
/// borrowed.
pub(crate) async fn until<T>(
    end: impl Future<Output = ()>,
    work: impl Future<Output = T>,
) -> Option<T> {
    let (mut end, mut work) = (pin!(end), pin!(work));
    std::future::poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => end.as_mut().poll(context).map(|()| None),
    })
    .await
}
