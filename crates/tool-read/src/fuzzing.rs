//! Readers of foreign formats without a file around them, for fuzz targets. Owns nothing.

/// The text of a PDF's first pages, or why there is none.
pub fn pdf(bytes: Vec<u8>) -> Result<String, String> {
    crate::pdf::text_of(bytes)
}

/// A notebook as text, if it is one.
pub fn notebook(bytes: &[u8]) -> Option<String> {
    crate::notebook::text_of(bytes)
}
