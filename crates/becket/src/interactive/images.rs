//! Images of a session, scaled for the terminal. Read and decoded beside the interface, when somebody looks at them.

use becket_session::{blobs::BlobStore, store::Outside};
use becket_tui::input::Reply;
use becket_tui::transcript::image::{MOST, Scaled};
use becket_types::{BlobId, Blobs as _};
use std::path::PathBuf;

/// Pixels of a cell, about: the terminal scales to the cells it has.
const CELL: (u32, u32) = (10, 20);

pub(super) async fn picture(session: PathBuf, number: u32, blob: BlobId) -> Option<Reply> {
    let read = move || scaled(&BlobStore::on_disk(Outside::default().io, &session).get(&blob)?);
    let made = tokio::task::spawn_blocking(read).await;
    // There is always an answer: what stands behind the image waits for it.
    Some(Reply::Picture { number, scaled: made.ok().flatten() })
}

fn scaled(bytes: &[u8]) -> Option<Scaled> {
    let most = (u32::from(MOST.0) * CELL.0, u32::from(MOST.1) * CELL.1);
    let (png, (width, height)) = becket_model::thumbnail(bytes, most)?;
    let cells = |pixels: u32, cell: u32| pixels.div_ceil(cell).max(1) as u16;
    Some(Scaled { png, columns: cells(width, CELL.0), rows: cells(height, CELL.1) })
}
