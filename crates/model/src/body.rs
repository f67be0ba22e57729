//! Reads response bodies in batches: returns everything that has arrived since the last read.
//!
//! The HTTP client passes on one chunk and waits until it is taken. A consumer that reads chunk by chunk would wake
//! once for each, although more are available. So a small task takes the chunks and passes on all buffered ones as one
//! batch. It does not wait for further chunks: a single chunk is passed on after one round of the scheduler. Dropping
//! the body ends the task, and with it the request.

use bytes::{Bytes, BytesMut};
use futures::future::{FutureExt as _, poll_fn};
use futures::stream::{Stream, StreamExt as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;

/// Size in bytes after which a batch is passed on, so that text is shown while a fast server continues.
const BATCH: usize = 64 * 1024;
/// Number of batches that wait for the consumer. The next one is read only when there is room for it.
const WAITING: usize = 1;

/// A body that is read by a separate task.
pub(crate) struct Batches<E> {
    batches: Receiver<Result<Bytes, E>>,
    task: JoinHandle<()>,
}

impl<E: Send + 'static> Batches<E> {
    /// Starts reading. Must be called within a Tokio runtime.
    pub(crate) fn read(body: impl Stream<Item = Result<Bytes, E>> + Send + Unpin + 'static) -> Self {
        let mut body = body.fuse();
        let (sender, batches) = channel(WAITING);
        let task = tokio::spawn(async move {
            while let Ok(room) = sender.reserve().await {
                let Some(first) = body.next().await else { return };
                let (batch, end) = match first {
                    Ok(first) => fill(first, &mut body).await,
                    Err(error) => (None, Some(Err(error))),
                };
                let mut items = batch.map(Ok).into_iter().chain(end);
                if let Some(item) = items.next() {
                    room.send(item);
                }
                for item in items {
                    if sender.send(item).await.is_err() {
                        return;
                    }
                }
            }
        });
        Self { batches, task }
    }
}

/// Returns `first` with the chunks that have arrived after it, and an error that followed. The bytes are copied: a
/// waiting chunk would keep the whole buffer of the connection, and the client would allocate a new one.
async fn fill<E>(
    first: Bytes,
    body: &mut (impl Stream<Item = Result<Bytes, E>> + Unpin),
) -> (Option<Bytes>, Option<Result<Bytes, E>>) {
    let mut batch = BytesMut::from(first.as_ref());
    drop(first);
    while batch.len() < BATCH {
        let_others_run().await;
        match body.next().now_or_never() {
            Some(Some(Ok(more))) => batch.extend_from_slice(&more),
            Some(Some(Err(error))) => return (Some(batch.freeze()), Some(Err(error))),
            // The next call sees the end again.
            Some(None) | None => break,
        }
    }
    (Some(batch.freeze()), None)
}

/// Yields to the tasks that were woken. Unlike Tokio's `yield_now`, this does not poll for I/O in between, which would
/// cost a system call for each chunk.
async fn let_others_run() {
    let mut ran = false;
    poll_fn(|context| {
        if std::mem::replace(&mut ran, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl<E> Stream for Batches<E> {
    type Item = Result<Bytes, E>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_recv(context)
    }
}

impl<E> Drop for Batches<E> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Hands over a chunk only after another task ran, as an HTTP connection does.
    fn one_by_one(chunks: usize) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + Unpin {
        let (sender, mut receiver) = channel(1);
        tokio::spawn(async move {
            for n in 0..chunks {
                let _ = sender.send(Ok(Bytes::from(format!("{n} ").into_bytes()))).await;
            }
        });
        futures::stream::poll_fn(move |context| receiver.poll_recv(context))
    }

    #[tokio::test]
    async fn what_is_buffered_comes_at_once_and_in_order() {
        let batches: Vec<Bytes> = Batches::read(one_by_one(20_000)).map(Result::unwrap).collect().await;
        let want = (0..20_000).fold(String::new(), |all, n| all + &format!("{n} "));
        assert_eq!(batches.concat(), want.as_bytes());
        assert!(batches.len() < 40, "{} batches", batches.len());
    }

    #[tokio::test]
    async fn a_lone_chunk_is_passed_on_while_the_server_is_silent() {
        let (sender, mut receiver) = channel::<Result<Bytes, Infallible>>(1);
        let mut batches = Batches::read(futures::stream::poll_fn(move |context| receiver.poll_recv(context)));
        for text in ["a", "b"] {
            sender.send(Ok(Bytes::from(text))).await.unwrap();
            assert_eq!(batches.next().await.unwrap().unwrap(), text);
        }
    }

    #[tokio::test]
    async fn no_more_is_read_than_may_wait() {
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let body = futures::stream::poll_fn(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok::<_, Infallible>(Bytes::from(vec![b'x'; BATCH]))))
        });
        let mut batches = Batches::read(body);
        for taken in 1..10 {
            assert_eq!(batches.next().await.unwrap().unwrap().len(), BATCH);
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!(read.load(Ordering::Relaxed), taken + WAITING);
        }
    }

    #[tokio::test]
    async fn an_error_comes_after_the_bytes_before_it() {
        let body = futures::stream::iter([Ok(Bytes::from("a")), Ok(Bytes::from("b")), Err("broken")]);
        let items: Vec<Result<Bytes, &str>> = Batches::read(body).collect().await;
        assert_eq!(items, [Ok(Bytes::from("ab")), Err("broken")]);
    }

    #[tokio::test]
    async fn dropping_the_body_ends_the_request() {
        let (sender, mut receiver) = channel::<Result<Bytes, Infallible>>(1);
        let batches = Batches::read(futures::stream::poll_fn(move |context| receiver.poll_recv(context)));
        tokio::task::yield_now().await;
        drop(batches);
        sender.closed().await;
    }
}
