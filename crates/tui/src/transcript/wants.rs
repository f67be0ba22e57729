//! Owns what a transcript needs from the host since the host last asked.

use super::gap::Wanted;
use crate::highlight::Job;
use becket_types::{BlobId, Seq};

#[derive(Default)]
pub(super) struct Wants {
    /// Code that came into view and needs to be parsed.
    pub jobs: Vec<Job>,
    /// Images that came into view.
    pub images: Vec<(u32, BlobId)>,
    /// Compactions whose loss report is needed, by entry number.
    pub losses: Vec<Seq>,
    /// Compactions whose removed messages are needed, by entry number.
    pub removed: Vec<Seq>,
    /// Parts of gaps to request.
    pub gaps: Vec<Wanted>,
    /// The view goes to the first block when that arrives.
    pub first: bool,
}
