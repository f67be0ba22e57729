//! Reading a long ledger with a second thread: while one commit is processed, the next ones are read,
//! verified and parsed. So opening takes as long as the slower of the two and not as long as both together.
//!
//! Owns that thread, which ends before reading returns, even if the caller stops early. The order of items
//! and the definition of errors belong to the reader.

use super::{Item, Reader};
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::panic;
use std::sync::mpsc;
use std::thread;

/// Minimum size in bytes of a ledger for which a thread is worth starting.
const MIN_BYTES_FOR_THREAD: u64 = 4 << 20;
/// Number of ledger bytes whose items are handed over together: waking the other thread costs more than reading one small commit.
const BATCH_BYTES: u64 = 64 << 10;
/// Maximum number of batches that wait for the processing thread.
const MAX_WAITING_BATCHES: usize = 4;

/// Passes every item of the rest of a ledger to `take`, in order, until `take` returns `Break`. `bytes` is the approximate size of the
/// rest: a long rest is read by a second thread.
pub(crate) fn read_to_end<R: BufRead + Send>(
    reader: &mut Reader<R>,
    bytes: u64,
    take: &mut dyn FnMut(Item) -> ControlFlow<()>,
) -> io::Result<()> {
    if bytes >= MIN_BYTES_FOR_THREAD
        && let Some(read) = read_with_thread(reader, take)
    {
        return read;
    }
    while let Some(item) = reader.next_item()? {
        if take(item).is_break() {
            break;
        }
    }
    Ok(())
}

/// Reads with a second thread. Returns `None` without reading anything if no thread can be started.
fn read_with_thread<R: BufRead + Send>(
    reader: &mut Reader<R>,
    take: &mut dyn FnMut(Item) -> ControlFlow<()>,
) -> Option<io::Result<()>> {
    thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(MAX_WAITING_BATCHES);
        let read = move || {
            loop {
                let (batch, read) = next_batch(reader);
                let ended = batch.is_empty() || read.is_err();
                // Sending fails if the thread that processes the items has stopped or panicked.
                if sender.send(batch).is_err() || ended {
                    return read;
                }
            }
        };
        let reading = thread::Builder::new().name("ledger".to_owned()).spawn_scoped(scope, read).ok()?;
        let _ = batches.iter().flatten().try_for_each(take);
        drop(batches);
        Some(reading.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
    })
}

/// Returns the next items (none at the end), and the disk's error if reading failed after these items.
fn next_batch<R: BufRead>(reader: &mut Reader<R>) -> (Vec<Item>, io::Result<()>) {
    let (mut batch, start) = (Vec::new(), reader.end().total);
    while reader.end().total - start < BATCH_BYTES {
        match reader.next_item() {
            Ok(Some(item)) => batch.push(item),
            Ok(None) => break,
            Err(error) => return (batch, Err(error)),
        }
    }
    (batch, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::super::{End, line};
    use super::*;
    use serde_json::json;
    use std::io::{BufReader, Read};

    /// Makes a ledger with one entry per line.
    fn ledger(lines: u64) -> Vec<u8> {
        let (mut bytes, mut head) = (Vec::new(), line::GENESIS.to_owned());
        for seq in 1..=lines {
            let entries = json!([{"seq": seq, "time": seq, "kind": "interrupt"}]);
            let (line, hash) = line::Draft::new(&head, &entries).unwrap().finish();
            bytes.extend(line);
            head = hash;
        }
        bytes
    }

    fn read(input: impl Read + Send, bytes: u64) -> (io::Result<()>, Vec<Item>, End) {
        let mut reader = Reader::new(BufReader::new(input));
        let mut items = Vec::new();
        let result = read_to_end(&mut reader, bytes, &mut |item| {
            items.push(item);
            ControlFlow::Continue(())
        });
        (result, items, reader.end().clone())
    }

    #[test]
    fn ahead_or_not_the_items_and_the_end_are_the_same() {
        let mut bytes = ledger(2_000);
        bytes[20_000] ^= 1;
        bytes.extend(b"torn");
        let (one, two) = (read(bytes.as_slice(), 0), read(bytes.as_slice(), MIN_BYTES_FOR_THREAD));
        assert!(one.0.is_ok() && two.0.is_ok());
        assert!(one.1.len() > 1_990, "{}", one.1.len());
        assert_eq!((one.1, one.2), (two.1, two.2));
    }

    #[test]
    fn whoever_has_seen_enough_gets_nothing_more() {
        let bytes = ledger(10_000);
        for long in [0, MIN_BYTES_FOR_THREAD] {
            let mut reader = Reader::new(bytes.as_slice());
            let mut taken = 0;
            let result = read_to_end(&mut reader, long, &mut |_| {
                taken += 1;
                if taken == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(result.is_ok());
            assert_eq!(taken, 3);
            // One batch is being processed, one is being filled, the others wait.
            assert!(
                reader.end().total <= (MAX_WAITING_BATCHES as u64 + 2) * (BATCH_BYTES + 300),
                "{}",
                reader.end().total
            );
        }
    }

    #[test]
    fn what_the_disk_says_comes_out_after_what_it_gave() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("worn out"))
            }
        }
        let bytes = ledger(50);
        for long in [0, MIN_BYTES_FOR_THREAD] {
            let (result, items, _) = read(bytes.as_slice().chain(Broken), long);
            assert_eq!(result.unwrap_err().to_string(), "worn out");
            assert_eq!(items.len(), 50);
        }
    }
}
