//! The rules by which providers refuse a request.
use becket_types::Message;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {index}: {rule}")]
pub struct Violation {
    pub index: usize,
    pub rule: String,
}

pub fn validate<'a>(_messages: impl IntoIterator<Item = &'a Message>) -> Result<(), Violation> {
    Ok(())
}
