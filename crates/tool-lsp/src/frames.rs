//! Size limits on a server's messages, applied before they are parsed.
//!
//! Copies complete frames from a server's output to the decoder. A frame is a header with `Content-Length`
//! and that many bytes. Lines that are not a header (programs that log to standard output) are skipped up to
//! a limit. A frame larger than [`MAX_FRAME`] ends the server, so a claimed length is never allocated before
//! it is checked.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum size of a message in bytes.
pub(crate) const MAX_FRAME: usize = 16 << 20;
/// Maximum number of bytes between frames that are skipped.
const MAX_NOISE: usize = 64 * 1024;
const MAX_LINE: u64 = 8 * 1024;

/// Copies frames until the server ends or breaks the protocol. Returns the reason in a few words.
pub(crate) async fn copy(
    mut from: impl AsyncBufRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
) -> &'static str {
    let mut noise = 0;
    let mut length: Option<usize> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut from).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Err(_) => return "its output broke off",
            Ok(0) => return "it ended",
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            match value.trim().parse() {
                Ok(bytes) if bytes <= MAX_FRAME => length = Some(bytes),
                _ => return "it announced a message larger than 16 MB",
            }
            continue;
        }
        let Some(bytes) = length else {
            noise += line.len();
            if noise > MAX_NOISE {
                return "what it says is not the Language Server Protocol";
            }
            continue;
        };
        if !text.is_empty() {
            continue; // another header
        }
        length = None;
        noise = 0;
        let mut body = Vec::new();
        match (&mut from).take(bytes as u64).read_to_end(&mut body).await {
            Ok(read) if read == bytes => {}
            _ => return "it ended in the middle of a message",
        }
        // The decoder would end at half of a surrogate pair. The repaired message is as long.
        if let Some(repaired) = str::from_utf8(&body).ok().and_then(becket_types::replace_lone_surrogates) {
            body = repaired.into_bytes();
        }
        let head = format!("Content-Length: {bytes}\r\n\r\n");
        if to.write_all(head.as_bytes()).await.is_err() || to.write_all(&body).await.is_err() {
            return "its messages could not be read";
        }
    }
}

#[cfg(test)]
mod tests {
    //! Runs 10,000 cases (more with `PROPTEST_CASES`), all in memory.
    use super::*;
    use proptest::prelude::*;

    async fn run(input: &[u8]) -> (Vec<u8>, &'static str) {
        let mut out = Vec::new();
        let why = copy(input, &mut out).await;
        (out, why)
    }

    #[tokio::test]
    async fn frames_pass_and_noise_does_not() {
        let input = b"warming up\nContent-Type: x\r\nContent-Length: 2\r\nContent-Type: y\r\n\r\n{}content-length:3\n\n[1]";
        let (out, why) = run(input).await;
        assert_eq!(out, b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]");
        assert_eq!(why, "it ended");
    }

    #[tokio::test]
    async fn half_a_character_is_replaced_and_the_length_stays() {
        for (body, want) in
            [(r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#), (r#"{"a":"\\ud83d"}"#, r#"{"a":"\\ud83d"}"#)]
        {
            let head = format!("Content-Length: {}\r\n\r\n", body.len());
            let (out, _) = run(format!("{head}{body}").as_bytes()).await;
            assert_eq!(String::from_utf8(out).unwrap(), format!("{head}{want}"));
        }
    }

    #[tokio::test]
    async fn what_is_no_server_is_given_up() {
        for (input, want) in [
            (b"Content-Length: 99999999999999\r\n\r\n".to_vec(), "larger than 16 MB"),
            (b"Content-Length: -1\r\n\r\n".to_vec(), "larger than 16 MB"),
            (b"Content-Length: 10\r\n\r\n{}".to_vec(), "middle of a message"),
            (vec![b'x'; 1 << 20], "not the Language Server Protocol"),
            (b"y\n".repeat(1 << 20), "not the Language Server Protocol"),
            (Vec::new(), "it ended"),
        ] {
            let (out, why) = run(&input).await;
            assert!(why.contains(want), "{why}");
            assert!(out.is_empty());
        }
    }

    fn config() -> ProptestConfig {
        let cases = std::env::var("PROPTEST_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(10_000);
        ProptestConfig { cases, ..ProptestConfig::default() }
    }

    proptest! {
        #![proptest_config(config())]
        #[test]
        fn bodies_are_never_changed(bodies in prop::collection::vec("[\\x00-\\x7f]{0,40}", 0..5), junk in any::<bool>()) {
            let mut input = if junk { b"log line\r\n".to_vec() } else { Vec::new() };
            let mut want = Vec::new();
            for body in &bodies {
                let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
                input.extend_from_slice(frame.as_bytes());
                want.extend_from_slice(frame.as_bytes());
            }
            let (out, why) = futures::executor::block_on(run(&input));
            prop_assert_eq!(out, want);
            prop_assert_eq!(why, "it ended");
        }
    }
}
