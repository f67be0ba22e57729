//! Words with which curl and wget fetch a second address, or send a file, beside the one address that a rule names. Both take
//! an address without `://`, so each operand counts. Tried with curl 7.88 and GNU Wget 1.21.

use super::word_text;
use becket_shell_syntax::Word;

/// Letters of options that take a value, either the rest of the word or the next word.
const CURL_LETTERS: &str = "AbcCdDeEFHKmoPQrtTuUwxXyYz";
const WGET_LETTERS: &str = "aeoOPiBDlQtTwXARIU";

/// Long options whose value is the next word. After any other long option, the next word counts as an address, so that a rule does
/// not cover it.
const VALUED: &str = "\
    user-agent header request data data-raw data-binary data-ascii data-urlencode json form form-string cookie referer user \
    max-time connect-timeout retry retry-delay retry-max-time range max-redirs limit-rate cacert cert key capath cert-type key-type \
    ciphers tls-max oauth2-bearer interface proto proto-default proto-redir write-out aws-sigv4 max-filesize speed-limit speed-time \
    keepalive-time expect100-timeout \
    timeout tries wait waitretry quota level accept reject domains exclude-domains password http-user http-password post-data \
    body-data method max-redirect ca-certificate dns-timeout read-timeout local-encoding progress";

/// Options of curl whose value may name a file to send.
const SENDING: &str =
    "d data data-ascii data-binary data-urlencode json F form H header b cookie proxy-header";

/// The word that fetches or sends something else; `None` if there is none.
pub(super) fn beside(program: &str, rest: &[Word]) -> Option<String> {
    let letters = if program == "curl" { CURL_LETTERS } else { WGET_LETTERS };
    let mut addresses = 0;
    let mut words = rest.iter();
    let mut options = true;
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if text == "--" && options {
            options = false;
            continue;
        }
        if !options || !text.starts_with('-') || text == "-" {
            addresses += 1;
            if addresses > 1 || text.starts_with("file:") || !word.is_literal() && !word.single {
                return Some(word_text(word));
            }
            continue;
        }
        let (name, value) = match option(text, letters) {
            (name, Some(value)) => (name, Some((word, value.to_owned()))),
            (name, None) if takes_next(name, letters) => {
                (name, words.next().map(|next| (next, next.text.clone())))
            }
            (name, None) => (name, None),
        };
        if name.starts_with("expand-") {
            return Some(word_text(word));
        }
        if let Some((word, value)) = value
            && program == "curl"
            && may_be(SENDING, name)
            && sends_a_file(name, &value)
        {
            return Some(word_text(word));
        }
    }
    None
}

/// The name of an option (a letter or a long name), and the value if it is in the same word. An empty name: no letter of the word
/// takes a value.
fn option<'a>(text: &'a str, letters: &str) -> (&'a str, Option<&'a str>) {
    if let Some(long) = text.strip_prefix("--") {
        return long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
    }
    let joined = text.get(1..).unwrap_or_default();
    for (at, letter) in joined.char_indices() {
        if letters.contains(letter) {
            let end = at + letter.len_utf8();
            let value = joined.get(end..).filter(|value| !value.is_empty());
            return (&joined[at..end], value);
        }
    }
    ("", None)
}

fn takes_next(name: &str, letters: &str) -> bool {
    name.len() == 1 && letters.contains(name)
        || name.len() > 1 && VALUED.split(' ').any(|known| known == name)
}

/// True if `name` is on the list, or is the beginning of a long name on it (`outp` for `output`).
fn may_be(list: &str, name: &str) -> bool {
    !name.is_empty()
        && list.split(' ').any(|known| known == name || name.len() > 1 && known.starts_with(name))
}

fn sends_a_file(name: &str, value: &str) -> bool {
    let before_value = value.split('=').next().unwrap_or_default();
    value.starts_with(['@', '<'])
        || value.contains("=@")
        || value.contains("=<")
        || "data-urlencode".starts_with(name) && name.len() > 4 && before_value.contains('@')
        || matches!(name, "b" | "cookie") && !value.contains('=')
}
