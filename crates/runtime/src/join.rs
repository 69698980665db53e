//! Waiting for several futures.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::join_all;

/// The outputs of futures, in their order. Each is polled once before any is waited for, so all of them are under way
/// together.
///
/// Unlike [`join_all`], futures that are done at once, as those of drives in memory, share one allocation.
pub async fn join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let futures = futures.into_iter();
    let mut outputs = Vec::with_capacity(futures.size_hint().0);
    let mut pending = Vec::new();
    let mut futures = Some(futures);
    poll_fn(|context| {
        let futures = futures.take().into_iter().flatten();
        start(futures, context, &mut outputs, &mut pending);
        Poll::Ready(())
    })
    .await;
    let (places, pending): (Vec<_>, Vec<_>) = pending.into_iter().unzip();
    for (place, output) in places.into_iter().zip(join_all(pending).await) {
        outputs[place] = Some(output);
    }
    outputs.into_iter().map(|output| output.expect("each future was waited for")).collect()
}

/// Polls each future once: gives the outputs of those that are done, and the others with their places.
fn start<F: Future>(
    futures: impl Iterator<Item = F>,
    context: &mut Context<'_>,
    outputs: &mut Vec<Option<F::Output>>,
    pending: &mut Vec<(usize, Polled<F>)>,
) {
    let mut spare = Polled::empty();
    for future in futures {
        spare.0.set(Some(future));
        let output = match Pin::new(&mut spare).poll(context) {
            Poll::Ready(output) => {
                spare.0.set(None);
                Some(output)
            }
            Poll::Pending => {
                pending.push((outputs.len(), std::mem::replace(&mut spare, Polled::empty())));
                None
            }
        };
        outputs.push(output);
    }
}

/// A future in memory that another one may have after it.
struct Polled<F>(Pin<Box<Option<F>>>);

impl<F> Polled<F> {
    fn empty() -> Self {
        Self(Box::pin(None))
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.0.as_mut().as_pin_mut().expect("polled while it has a future").poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::{Executor, Nanos, VirtualTime};

    /// Waits so long, which is not at all for 0.
    async fn after(handle: crate::Handle, span_ns: u64) -> u64 {
        if span_ns > 0 {
            handle.sleep(Nanos(span_ns)).await;
        }
        span_ns
    }

    #[test]
    fn outputs_are_in_order_and_waits_are_together() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let handle = executor.handle();
        let spans: Vec<u64> = vec![0, 50, 0, 10, 99, 0];
        let started = handle.now();
        let waits = spans.iter().map(|span| after(handle.clone(), *span));
        assert_eq!(executor.run(join(waits)), spans);
        assert_eq!(handle.now().since(started), Nanos(99));
        assert!(executor.run(join(std::iter::empty::<std::future::Ready<u8>>())).is_empty());
    }
}
