//! Entry points for fuzz targets: readers of foreign formats, without a file.

/// Returns the text of a PDF's first five pages.
///
/// # Errors
///
/// Returns the reason if no text can be read.
pub fn pdf(bytes: Vec<u8>) -> Result<String, String> {
    crate::pdf::text_of(bytes)
}

/// Returns a notebook as text; `None` if the bytes are not a notebook.
pub fn notebook(bytes: &[u8]) -> Option<String> {
    crate::notebook::text_of(bytes)
}
