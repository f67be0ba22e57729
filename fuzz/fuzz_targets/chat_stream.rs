//! A streamed answer: no bytes make the decoder panic, and neither where the network cuts
//! them nor the decoder's short way changes anything.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (head, tail) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let whole = becket_model::fuzzing::chat(&[bytes], false);
    let cut = becket_model::fuzzing::chat(&[head, tail], true);
    assert_eq!(whole, cut);
});
