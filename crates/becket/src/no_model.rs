//! A model for work that needs none.
//!
//! Owns the refusal of every request. Its facts are those of the model that the session names.

use becket_model::{ErrorKind, Model, ModelError, ModelEvent, ModelInfo, Prepared, Request};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};

/// A model for work that needs none. Its facts are known, and every request to it is refused.
pub(crate) struct NoModel(pub ModelInfo);

fn no_model_error() -> ModelError {
    ModelError::new(ErrorKind::InvalidRequest, "This command asks no model.")
}

impl Model for NoModel {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn prepare(&self, _: &Request<'_>) -> Result<Prepared, ModelError> {
        Err(no_model_error())
    }

    fn send(&self, _: Prepared) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        stream::iter([Err(no_model_error())]).boxed()
    }
}
