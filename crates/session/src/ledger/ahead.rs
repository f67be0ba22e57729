//! Reading a ledger to its end, a long one ahead: while one commit is taken in, the next ones are read, proven and parsed on
//! a thread of their own, so that opening takes as long as the longer of the two and not as long as both.
//!
//! Owns that thread, which ends before reading returns. The order of items and what is an error are the reader's.

use super::{Item, Reader};
use std::io::{self, BufRead};
use std::panic;
use std::sync::mpsc;
use std::thread;

/// Bytes from which on a thread is worth its start.
const LONG: u64 = 4 << 20;
/// Items that wait at most. Commits are small, or large and few.
const AHEAD: usize = 16;

/// Hands every item of the rest of a ledger, in order, to `take`; that rest has about `bytes`.
pub(super) fn read_to_end<R: BufRead + Send>(
    reader: &mut Reader<R>,
    bytes: u64,
    take: &mut dyn FnMut(Item),
) -> io::Result<()> {
    if bytes >= LONG
        && let Some(read) = read_ahead(reader, take)
    {
        return read;
    }
    while let Some(item) = reader.next_item()? {
        take(item);
    }
    Ok(())
}

/// `None`, and nothing is read, where no thread can be started.
fn read_ahead<R: BufRead + Send>(
    reader: &mut Reader<R>,
    take: &mut dyn FnMut(Item),
) -> Option<io::Result<()>> {
    thread::scope(|scope| {
        let (sender, items) = mpsc::sync_channel(AHEAD);
        let read = move || {
            while let Some(item) = reader.next_item()? {
                // Nobody listens any more: the other side has panicked.
                if sender.send(item).is_err() {
                    break;
                }
            }
            Ok(())
        };
        let reading = thread::Builder::new().name("ledger".to_owned()).spawn_scoped(scope, read).ok()?;
        items.into_iter().for_each(take);
        Some(reading.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
    })
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
        let result = read_to_end(&mut reader, bytes, &mut |item| items.push(item));
        (result, items, reader.end().clone())
    }

    #[test]
    fn ahead_or_not_the_items_and_the_end_are_the_same() {
        let mut bytes = ledger(500);
        bytes[20_000] ^= 1;
        bytes.extend(b"torn");
        let (one, two) = (read(bytes.as_slice(), 0), read(bytes.as_slice(), LONG));
        assert!(one.0.is_ok() && two.0.is_ok());
        assert!(one.1.len() > 490, "{}", one.1.len());
        assert_eq!((one.1, one.2), (two.1, two.2));
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
