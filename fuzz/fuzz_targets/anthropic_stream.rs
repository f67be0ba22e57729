//! A streamed answer: no bytes make the decoder panic, and where the network cuts them changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (head, tail) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let whole = becket_model::fuzzing::anthropic(&[bytes]);
    let cut = becket_model::fuzzing::anthropic(&[head, tail]);
    assert_eq!(whole, cut);
});
