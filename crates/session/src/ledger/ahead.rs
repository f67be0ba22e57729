//! Reading a ledger to its end, a long one ahead: while one commit is taken in, the next ones are read, proven and parsed on
//! a thread of their own, so that opening takes as long as the longer of the two and not as long as both.
//!
//! Owns that thread, which ends before reading returns, also when whoever takes the items has seen enough. The order of items and
//! what is an error are the reader's.

use super::{Item, Reader};
use std::io::{self, BufRead};
use std::ops::ControlFlow;
use std::panic;
use std::sync::mpsc;
use std::thread;

/// Bytes from which on a thread is worth its start.
const LONG: u64 = 4 << 20;
/// Bytes of the ledger whose items are handed over at once: waking the other thread costs more than reading one small commit.
const BATCH: u64 = 64 << 10;
/// Batches that wait at most.
const AHEAD: usize = 4;

/// Hands every item of the rest of a ledger, in order, to `take`, until that breaks off; that rest has about `bytes`.
pub(crate) fn read_to_end<R: BufRead + Send>(
    reader: &mut Reader<R>,
    bytes: u64,
    take: &mut dyn FnMut(Item) -> ControlFlow<()>,
) -> io::Result<()> {
    if bytes >= LONG
        && let Some(read) = read_ahead(reader, take)
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

/// `None`, and nothing is read, where no thread can be started.
fn read_ahead<R: BufRead + Send>(
    reader: &mut Reader<R>,
    take: &mut dyn FnMut(Item) -> ControlFlow<()>,
) -> Option<io::Result<()>> {
    thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(AHEAD);
        let read = move || {
            loop {
                let (batch, read) = next_batch(reader);
                let ended = batch.is_empty() || read.is_err();
                // Where nobody listens any more the other side has seen enough, or has panicked.
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

/// The next items, none at the end, and whether the disk failed behind them.
fn next_batch<R: BufRead>(reader: &mut Reader<R>) -> (Vec<Item>, io::Result<()>) {
    let (mut batch, start) = (Vec::new(), reader.end().total);
    while reader.end().total - start < BATCH {
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

    /// A ledger with one entry a line.
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
        let (one, two) = (read(bytes.as_slice(), 0), read(bytes.as_slice(), LONG));
        assert!(one.0.is_ok() && two.0.is_ok());
        assert!(one.1.len() > 1_990, "{}", one.1.len());
        assert_eq!((one.1, one.2), (two.1, two.2));
    }

    #[test]
    fn whoever_has_seen_enough_gets_nothing_more() {
        let bytes = ledger(10_000);
        for long in [0, LONG] {
            let mut reader = Reader::new(bytes.as_slice());
            let mut taken = 0;
            let result = read_to_end(&mut reader, long, &mut |_| {
                taken += 1;
                if taken == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert!(result.is_ok());
            assert_eq!(taken, 3);
            // One batch is looked at, one is held, the others wait.
            assert!(reader.end().total <= (AHEAD as u64 + 2) * (BATCH + 300), "{}", reader.end().total);
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
        for long in [0, LONG] {
            let (result, items, _) = read(bytes.as_slice().chain(Broken), long);
            assert_eq!(result.unwrap_err().to_string(), "worn out");
            assert_eq!(items.len(), 50);
        }
    }
}
