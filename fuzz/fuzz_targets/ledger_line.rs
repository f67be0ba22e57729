//! A ledger of one line: as the bytes are, and as a commit with the right hash, which gets to the view. Neither panics, and
//! what the view shows is a valid request.
#![no_main]

use becket_session::context::{ModelScope, Policy, View, validate};
use becket_session::ledger::{Item, Reader};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};

fuzz_target!(|data: &[u8]| {
    fold(data);
    let mut line = format!(r#"{{"prev":"{}","entries":"#, "0".repeat(64)).into_bytes();
    line.extend_from_slice(data);
    let hash = becket_types::hex(&Sha256::digest(&line));
    line.extend_from_slice(format!(r#","hash":"{hash}"}}"#).as_bytes());
    line.push(b'\n');
    fold(&line);
});

fn fold(ledger: &[u8]) {
    let (provider, model) = ("p".to_owned(), "m".to_owned());
    let scope = ModelScope { provider, model, images: true, max_images: 10, max_media_bytes: 1 << 20 };
    let mut view = View::new(Policy::default(), scope);
    let mut reader = Reader::new(ledger);
    while let Ok(Some(item)) = reader.next_item() {
        if let Item::Commit(entries) = item {
            entries.iter().for_each(|entry| view.apply(entry));
        }
    }
    let shown = view.context().messages.clone();
    validate::validate(shown.iter().map(|message| &message.message)).expect("the view is a valid request");
}
